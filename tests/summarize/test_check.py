"""Checks of a model's summary, and mending by code."""

from __future__ import annotations

import pytest

from tenfold.compaction.summarize.check import CheckFailure, Expectation, check_summary, mend_summary
from tenfold.compaction.summarize.headings import trim_sections
from tenfold.compaction.summarize.literals import SourceText
from tenfold.core.text.excerpts import trim_lines
from tests.summarize.making import estimate_tokens

SOURCE = SourceText("please fix /repo/src/app/main.py")


def find_failures(
    text: str, *, finish: str = "stop", allotment: int = 500, headings: tuple[str, ...] = ()
) -> list[tuple[str, str]]:
    expected = Expectation(source=SOURCE, allotment=allotment, headings=headings)
    return [
        (failure.kind, failure.detail)
        for failure in check_summary(text, finish=finish, expected=expected, count=estimate_tokens)
    ]


def test_what_a_summary_says_is_not_judged() -> None:
    assert find_failures("The user never wanted any of it; it changed src/other.py, and 900 tests fail.") == []


@pytest.mark.parametrize(
    ("text", "finish", "what"),
    [
        ("", "stop", "empty"),
        ("  \n", "stop", "empty"),
        ("The work went", "length", "cut_off"),
        ("anything", "tool", "tool_call"),
        ("anything", "refusal", "refusal"),
        ('<tool_call>{"name": "bash"}</tool_call>', "stop", "tool_call"),
        ('{"name": "bash", "arguments": {}}', "stop", "tool_call"),
        ("I'm sorry, I can't help with that.", "stop", "error_text"),
        ("Error: prompt is too long", "stop", "error_text"),
        ("429 Too Many Requests", "stop", "error_text"),
    ],
)
def test_what_is_no_summary(text: str, finish: str, what: str) -> None:
    assert what in {kind for kind, _ in find_failures(text, finish=finish)}


def test_a_missing_heading_and_too_many_tokens() -> None:
    assert find_failures("## State\nfine", headings=("## State", "## Next")) == [("heading", "## Next is missing")]
    assert find_failures("word " * 100, allotment=20) == [("too_long", "125 tokens, allowed are 20")]


def test_mending_removes_the_torn_end() -> None:
    expected = Expectation(source=SOURCE, allotment=500)
    text = "one\nthree\nfour is to"
    failures = check_summary(text, finish="length", expected=expected, count=estimate_tokens)
    assert mend_summary(text, failures) == "one\nthree"
    assert mend_summary("It ran. It read the fi", failures) == "It ran."
    assert mend_summary("It ran.", failures) == "It ran."
    assert mend_summary("a", [CheckFailure("refusal", "x")]) == ""


def test_shortening_keeps_whole_lines_and_no_bare_heading() -> None:
    assert trim_lines("# A\none\n# B\n" + "x" * 400, 10, estimate_tokens) == "# A\none"


def test_a_long_text_loses_the_ends_of_its_longest_sections_and_keeps_the_last_section() -> None:
    done = [f"- step {number} was done and checked" for number in range(40)]
    text = "\n".join(
        ["## Goal", "Mend it.", "", "## What was done", *done, "", "## Where the work stands", "Step 41 is next."]
    )
    trimmed = trim_sections(text, 200, estimate_tokens)
    assert estimate_tokens([trimmed])[0] <= 200
    assert trimmed.startswith("## Goal\nMend it.\n\n## What was done\n- step 0")
    assert trimmed.endswith("## Where the work stands\nStep 41 is next.")


CALL = '{"name": "bash", "arguments": {"command": "ls"}}'


@pytest.mark.parametrize(
    "text",
    [
        CALL,
        f"```json\n{CALL}\n```",
        f"Let me look first.\n\n```\n{CALL}\n```",
        f"````\n```json\n{CALL}\n```\n````",
        f"[{CALL}, {CALL}]",
        '{"name": "bash", "arguments": {"command": "ls',
        '{"tool_calls": [{"id": "c1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}]}',
        '{"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": "ls"}}',
        '{"type": "function_call", "call_id": "c1", "name": "bash", "arguments": "{}"}',
        '{"functionCall": {"name": "bash", "args": {"command": "ls"}}}',
        '{"action": "bash", "action_input": "ls"}',
        "<tool_call>\n" + CALL + "\n</tool_call>",
        (
            'I will look.\n<function_calls>\n<invoke name="bash">\n<parameter name="command">ls</parameter>\n'
            "</invoke>\n</function_calls>"
        ),
        '<invoke name="bash"><parameter name="command">ls</parameter></invoke>',
        "<function=bash>\n<parameter=command>ls</parameter>\n</function>",
        f"[TOOL_CALLS] [{CALL}]",
        "<|tool_calls_begin|>bash",
        "Thought: I look.\nAction: bash\nAction Input: ls -la src and then all that is below it",
        "**Action:** bash\n**Action Input:** ls",
    ],
)
def test_a_tool_call_in_words_is_no_summary(text: str) -> None:
    assert ("tool_call", "the text is written as a tool call") in find_failures(text)


@pytest.mark.parametrize(
    "text",
    [
        "The parser now reads `<tool_call>` and `<function_calls>` as the models write them.",
        "It handles <tool_call> tags and `[TOOL_CALLS]` within a line.",
        (
            "The work went on: the reader takes calls as JSON, and tests were added for each of the forms seen "
            f"so far, with one such call as an example:\n```json\n{CALL}\n```\nAll of it is done and the tests pass."
        ),
        "Action: the team agreed to keep the format.\nInput was given by both.",
        '{"name" is how such a call begins, and the reader looks for that.',
        'The settings are:\n{"port": 1, "name": "gateway"}',
    ],
)
def test_a_summary_may_tell_of_tool_calls(text: str) -> None:
    assert "tool_call" not in [kind for kind, _ in find_failures(text)]
