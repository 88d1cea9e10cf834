"""Identifiers, decisions, the to-do state, and how facts of two ranges merge."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given, settings

from tenfold.compaction.facts.extractor import extract_facts, merge_facts
from tenfold.core.record.block import Fact
from tenfold.core.record.message import Message
from tests.summarize.making import (
    HISTORIES,
    get_fact_texts,
    get_facts,
    make_answer,
    make_call,
    make_result,
    make_run,
    make_user,
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see https://example.com/a/b?c=1.", "https://example.com/a/b?c=1"),
        ("commit 3f2a9bc is broken", "3f2a9bc"),
        ("order #W4680753, please", "#W4680753"),
        ("write to jane.doe@example.com", "jane.doe@example.com"),
        ("we are on v2.14.3 now", "v2.14.3"),
        ("it runs at localhost:8080", "localhost:8080"),
        ("timeout=4500 it says", "timeout=4500"),
        ("FATAL_ERROR_CODE: 0xDEADBEEF9999", "FATAL_ERROR_CODE=0xDEADBEEF9999"),
        ("the pid PID-9876-CONFLICT hangs", "PID-9876-CONFLICT"),
    ],
)
def test_identifiers(text: str, found: str) -> None:
    assert found in get_fact_texts(*make_run("make", text), kind="identifier")


def test_the_latest_value_of_a_label_wins() -> None:
    facts = get_facts(*make_run("make", "it has port=3000"), *make_run("make", "now port=4000"), kind="identifier")
    assert [fact.text for fact in facts] == ["port=4000"]


def test_words_and_numbers_are_no_identifiers() -> None:
    said = "there are 12 of 30 files in the folder, see a.py:12 and e.g. section 3"
    assert get_fact_texts(*make_run("make", said), kind="identifier") == []


def test_line_marks_and_a_shells_frame_are_no_identifiers() -> None:
    printed = "File: a.ts\nL1223: export const x\nExit Code: 0\nSignal: 0\nProcess Group PGID: 58818"
    assert get_fact_texts(*make_run("make", printed), kind="identifier") == []
    assert get_fact_texts(make_user("It stands in crate L1223-B, code: 4711."), kind="identifier") != []


@pytest.mark.parametrize("who", [make_user, make_answer])
def test_what_someone_names_or_counts_in_prose_stays_in_its_sentence(who: Callable[[str], Message]) -> None:
    said = who(
        "The poles are 69.00 euros. He has order W-5087, sent on 8 May.\nPlain words.\n```\nx = 4711\n```\nSee line 52."
    )
    assert get_fact_texts(said, kind="identifier") == [
        "The poles are 69.00 euros.",
        "He has order W-5087, sent on 8 May.",
    ]


def test_a_sentence_goes_when_all_it_named_was_named_again() -> None:
    facts = get_facts(
        make_answer("W-5087 costs 45.00 now."),
        make_answer("W-5087 was sent."),
        make_answer("It is 45.00 for W-5090."),
        kind="identifier",
    )
    assert [fact.text for fact in facts] == ["W-5087 was sent.", "It is 45.00 for W-5090."]


def test_the_number_of_the_next_line_is_no_value_and_an_address_in_memory_no_name() -> None:
    numbered = "   66\u2192    try:\n   67\u2192        run()\n12:def f() ->\nstr:\n977:def main():\n"
    assert get_fact_texts(*make_run("make", numbered), kind="identifier") == []
    assert get_fact_texts(*make_run("make", "<Cache object at 0x1067e41a0>, flags 0x0040"), kind="identifier") == [
        "0x0040"
    ]
    assert get_fact_texts(*make_run("make", "Order number:\n4711"), kind="identifier") == ["number=4711"]


def test_a_style_written_into_a_file_is_no_value_and_a_constant_is_one() -> None:
    text = ".nav { padding: 8px; margin=2em }\nMAX_RETRIES=5\nport=3000"
    history = make_call("Write", file_path="/w/nav.css", content=text), make_result("done")
    assert get_fact_texts(*history, kind="identifier") == ["MAX_RETRIES=5", "port=3000"]


def test_the_number_of_a_list_item_is_no_value() -> None:
    assert get_fact_texts(*make_run("make", "I can:\n1. go\n2. stay"), kind="identifier") == []


def test_a_heading_decides_nothing() -> None:
    assert get_fact_texts(make_answer("Root cause\n\nThe parser stops early."), kind="decision") == []


@pytest.mark.parametrize(
    ("said", "decides"),
    [
        ("Decision: the parser stays as it is.", True),
        ("The decision is to keep the parser.", True),
        ("The docs do not cover a formal decision on the parser.", False),
    ],
)
def test_a_decision_is_told_where_the_word_says_what_it_is(said: str, *, decides: bool) -> None:
    assert get_fact_texts(make_answer(said), kind="decision") == ([said] if decides else [])


def test_a_question_decides_nothing() -> None:
    assert get_fact_texts(make_answer("Shall we go with the new parser, as agreed?"), kind="decision") == []


def test_decisions() -> None:
    said = "I looked at both. We decided to keep the old parser. More text."
    assert get_fact_texts(make_answer(said), kind="decision") == ["We decided to keep the old parser."]


def test_a_todo_tool_gives_its_last_state() -> None:
    def make_todo_step(*items: tuple[str, str]) -> list[Message]:
        return [make_call("TodoWrite", todos=[{"content": c, "status": s} for c, s in items]), make_result("ok")]

    facts = get_facts(
        *make_todo_step(("a", "in_progress"), ("b", "pending")),
        *make_todo_step(("a", "completed"), ("b", "in_progress")),
        kind="todo",
    )
    assert [(fact.text, fact.live) for fact in facts] == [("[x] a\n[~] b", True)]


def test_checkboxes_in_a_file_follow_their_edits() -> None:
    story = [
        make_call("write", path="/plan.md", content="# Plan\n- [ ] one\n- [ ] two\n"),
        make_result("ok"),
        make_call("edit", path="/plan.md", oldText="- [ ] one", newText="- [x] one"),
        make_result("ok"),
    ]
    assert get_fact_texts(*story, kind="todo") == ["- [x] one\n- [ ] two"]
    assert [f.live for f in get_facts(*story, *make_run("rm /plan.md"), kind="todo")] == [False]


def test_a_plan_that_says_the_same_under_several_headings_is_ticked_from_above() -> None:
    story = [
        make_call("write", path="/plan.md", content="## A\n- [ ] one\n- [ ] verify\n## B\n- [ ] two\n- [ ] verify\n"),
        make_result("ok"),
        make_call("edit", path="/plan.md", oldText="- [ ] one\n- [ ] verify", newText="- [x] one\n- [x] verify"),
        make_result("ok"),
    ]
    assert get_fact_texts(*story, kind="todo") == ["- [x] one\n- [x] verify\n- [ ] two\n- [ ] verify"]
    beside = [
        make_call("edit", path="/plan.md", oldText="- [x] verify\n- [ ] two", newText="- [x] verify\n- [x] two"),
        make_result("ok"),
    ]
    assert get_fact_texts(*story, *beside, kind="todo") == ["- [x] one\n- [x] verify\n- [x] two\n- [ ] verify"]
    old, new = "- [x] verify\n- [ ] two\n- [ ] verify", "- [x] verify\n- [x] two\n- [x] verify"
    both = [make_call("edit", path="/plan.md", oldText=old, newText=new), make_result("ok")]
    assert get_fact_texts(*story, *both, kind="todo") == ["- [x] one\n- [x] verify\n- [x] two\n- [x] verify"]


def test_a_numbered_plan_counts_where_a_plan_is_spoken_of() -> None:
    assert get_fact_texts(make_answer("The plan:\n1. read\n2. write\n3. test"), kind="todo") == [
        "1. read\n2. write\n3. test"
    ]
    assert get_fact_texts(make_answer("Three colours:\n1. red\n2. blue\n3. green"), kind="todo") == []


def test_a_resolution_in_the_newer_range_settles_an_error_of_the_older() -> None:
    older = extract_facts(enumerate(make_run("pytest", "FAILED tests/a.py::test_b\nCommand exited with code 1")))
    newer = extract_facts((n + 10, message) for n, message in enumerate(make_run("pytest", "3 passed")))
    assert [fact.live for fact in older if fact.kind == "error"] == [True]
    assert [fact.live for fact in merge_facts(older, newer) if fact.kind == "error"] == [False]


def test_merging_keeps_the_later_of_a_key_and_the_order_of_positions() -> None:
    older = (Fact("identifier", "port=1", "port", 1), Fact("rule", "be kind", "be kind", 2))
    newer = (Fact("identifier", "port=2", "port", 5),)
    assert [(fact.text, fact.position) for fact in merge_facts(older, newer)] == [("be kind", 2), ("port=2", 5)]


def get_essence(facts: tuple[Fact, ...]) -> set[tuple[str, str, str, int, bool]]:
    return {(fact.kind, fact.key, fact.text, fact.position, fact.live) for fact in facts}


@settings(max_examples=60, deadline=None)
@given(HISTORIES, HISTORIES, HISTORIES)
def test_merging_does_not_depend_on_how_ranges_are_grouped(
    a: list[Message], b: list[Message], c: list[Message]
) -> None:
    at = itertools.count()
    one, two, three = (extract_facts([(next(at), message) for message in part]) for part in (a, b, c))
    assert get_essence(merge_facts(merge_facts(one, two), three)) == get_essence(
        merge_facts(one, merge_facts(two, three))
    )


@settings(max_examples=60, deadline=None)
@given(HISTORIES)
def test_extraction_never_raises_and_merging_with_nothing_changes_nothing(history: list[Message]) -> None:
    facts = extract_facts(enumerate(history))
    assert merge_facts(facts, ()) == facts
    assert merge_facts((), facts) == facts
    assert all(0 <= fact.position < len(history) for fact in facts)
    assert sum(fact.live for fact in facts if fact.kind == "request") <= 1


def test_a_secret_whose_label_is_cut_off_is_not_shown() -> None:
    for words in range(8):
        said = (
            "We log in with password: correcthorsebattery " + "and so on " * words + "at order W-5087, " + "told " * 20
        )
        (quote,) = get_fact_texts(make_answer(said), kind="identifier")
        assert "W-5087" in quote
        assert "battery" not in quote, words
    for words in range(4, 14):
        command = (
            "curl " + "--header x " * words + "--password=correcthorsebattery " + "--retry 3 " * 5 + "https://a.example"
        )
        (shown,) = get_fact_texts(*make_run(command), kind="command")
        assert "orsebattery" not in shown, words


def test_the_line_of_a_step_is_nobodys_sentence() -> None:
    """In a plain list it comes back as an answer: what it cut out of a call says nothing of 48 by itself."""
    line = (
        '[step] TodoWrite({"todos":[{"content":"ST-01: 48 hours","status":"in_progress"},{"content":"ST-02: fi) -> ok'
    )
    assert get_fact_texts(make_answer(line), kind="identifier") == []
    assert get_fact_texts(make_answer("The sensor of ST-01 was stuck for 48 hours."), kind="identifier") != []


def test_a_change_that_is_read_again_ticks_no_second_item_of_the_same_name() -> None:
    plan = "- [ ] Write the parser\n- [ ] Verify\n- [ ] Write the printer\n- [ ] Verify"
    written = [make_call("write", path="PLAN.md", content=plan), make_result("Written.")]
    ticked = [
        make_call("edit", path="PLAN.md", old_string="- [ ] Verify", new_string="- [x] Verify"),
        make_result("ok"),
    ]
    items = list(enumerate([*written, *ticked]))
    (carried,) = (fact for fact in extract_facts(items) if fact.kind == "todo")
    assert carried.text.count("[x] Verify") == 1
    in_view = items[2:]  # the change is still in view, beside the list that holds it already
    twice = merge_facts([carried], extract_facts(in_view))
    assert [fact.text.count("[x] Verify") for fact in twice if fact.kind == "todo"] == [2]
    once = merge_facts([carried], extract_facts(in_view, known_lists={carried.key: carried.position}))
    assert [fact.text for fact in once if fact.kind == "todo"] == [carried.text]
