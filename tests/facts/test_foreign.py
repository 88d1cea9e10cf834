"""Nothing foreign: demonstrations and samples yield no facts."""

from __future__ import annotations

import pytest

from tenfold.compaction.facts.demonstrations import strip_examples
from tenfold.compaction.facts.instructions import extract_instructions
from tenfold.core.record.message import Message
from tests.summarize.making import get_fact_texts, get_facts, make_answer, make_call, make_result, make_run, make_user

TEMPLATE = """We want you to mend this issue in our repository:
{issue}
INSTRUCTIONS: work on it with the commands below, one command in each of your answers, and wait for what it prints.
When you think it is mended, run the script that shows the bug once more, and then hand in the work with submit.
Always keep the indentation of the file that you edit, since the edit command does not do it for you.
(Current directory: /{folder})"""


def make_episode(folder: str, file: str) -> list[Message]:
    task = make_user(TEMPLATE.format(issue=f"{file} is wrong", folder=folder))
    edit = [make_call("edit", path=f"/{folder}/{file}", old="a", new="b"), make_result(f"/{folder}/{file} updated")]
    return [task, *edit, *make_run(f"python /{folder}/{file}", "fine")]


SUBMIT = make_answer("Now it is mended.\n```\nsubmit\n```")


@pytest.mark.parametrize(
    "example",
    [
        [*make_episode("melon", "melon.py"), make_call("submit")],
        [*make_episode("work", "melon.py"), SUBMIT],
        [*make_episode("melon", "melon.py"), make_answer("That is all.")],
    ],
    ids=["an unanswered call", "an unanswered action in the same folder", "another folder"],
)
def test_an_example_before_the_task_is_left_out(example: list[Message]) -> None:
    work = [*make_episode("work", "plum.py"), make_answer("Done.")]
    facts = get_facts(*example, *work)
    assert [fact.text for fact in facts if "melon" in str(fact)] == []
    assert get_fact_texts(*example, *work, kind="file_modified") == ["/work/plum.py"]


def test_a_second_task_is_no_reason_to_forget_the_first() -> None:
    first = [*make_episode("work", "melon.py"), make_answer("That is all.")]
    second = [*make_episode("work", "plum.py"), make_answer("Done.")]
    assert get_fact_texts(*first, *second, kind="file_modified") == ["/work/melon.py", "/work/plum.py"]
    other = [make_user("Thanks. Now rename the module."), *make_run("mv /x/a.py /x/b.py", "")]
    assert get_fact_texts(*first, *other, kind="file_modified") == ["/work/melon.py"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Here is how it goes.\n--- START OF EXAMPLE ---\n", "\n--- END OF EXAMPLE ---\n"),
        ("--------- DEMONSTRATION ---------\n", "\n------ END OF DEMONSTRATION -----\n"),
        ("<demonstration>\n", "\n</demonstration>\n"),
    ],
)
def test_a_demonstration_inside_a_message_is_left_out(before: str, after: str) -> None:
    example = "USER: Never touch melon.py.\nThe plan:\n1. read melon.py\n2. edit it\n3. run 31337 tests"
    facts = get_facts(make_user(f"{before}{example}{after}\nPlease mend plum.py, and keep its tests."))
    assert [fact.text for fact in facts if "melon" in fact.text or "31337" in fact.text] == []
    assert "plum.py" in next(fact.text for fact in facts if fact.kind == "request")


BOXES = "- [ ] one thing\n- [x] other thing"


@pytest.mark.parametrize(
    "message",
    [
        make_answer(f"A list looks like this in Markdown:\n```\n{BOXES}\n```\nAsk me for more."),
        make_answer("It failed because:\n1. the port is taken\n2. the host is down\n3. the file is gone"),
        make_answer("The plan:\n1. read it\n2. mend it\n3. run the tests"),
        make_user(f"### Checks before filing\n{BOXES}\nSee the steps to reproduce below."),
        make_call("write", path="/w/docs/PLAN.md", content=BOXES),
    ],
)
def test_only_what_a_to_do_tool_was_given_is_a_plan(message: Message) -> None:
    assert get_facts(message, make_result("File created successfully"), kind="todo") == []


@pytest.mark.parametrize("line", ["START OF EXAMPLE\n", "- EXAMPLE -\n", "<demonstration>\n"])
def test_examples_that_do_not_end_are_the_users_words(line: str) -> None:
    """Looking for the end of each of them would take minutes."""
    text = line * 20_000 + "mend plum.py"
    assert strip_examples(text) == text


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ("at the end of each step always run the tests.", "at the end of each step always run the tests."),
        ("At least once a day: never merge without a review.", "At least once a day: never merge without a review."),
        ("At no point touch the folder vendor/.", "At no point touch the folder vendor/."),
        ("import only from the standard library. Never add a dependency.", "Never add a dependency."),
        ("import statements always go at the top.", "import statements always go at the top."),
        ("No. Always use tabs.", "Always use tabs."),
        ("> can I use pip?\nNo. Never install packages.", "Never install packages."),
        ("> Always use spaces.\nNever use spaces, I said.", "Never use spaces, I said."),
    ],
)
def test_words_that_begin_like_a_log_or_code_are_the_user_s_own(words: str, rule: str) -> None:
    rules = [fact.text for fact in extract_instructions(4, words, first=False) if fact.kind == "rule"]
    assert any(text.endswith(rule) for text in rules), rules
    assert not any("spaces." in text and "said" not in text for text in rules)


@pytest.mark.parametrize(
    "line",
    [
        "at Object.<anonymous> (/srv/app.js:10:5) always retry",
        "at run (/srv/app.js:10:5) never",
        "at com.shop.Cart.add(Cart.java:12) must always hold",
        "at async /srv/app.js:3:1 must never happen",
        'import { always } from "never"',
        "import java.util.List;",
        "import os, never, always",
        "import numpy as always",
        'import "fmt"',
    ],
)
def test_a_line_of_a_trace_or_of_code_sets_no_rule(line: str) -> None:
    facts = extract_instructions(4, f"It fails with this:\n{line}\nCan you look?", first=False)
    assert [fact.text for fact in facts if fact.kind == "rule"] == []
