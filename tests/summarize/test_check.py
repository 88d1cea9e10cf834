"""Checks of a model's summary, and mending by code."""

from __future__ import annotations

import pytest

from tenfold.compaction.summarize.check import CheckFailure, Expectation, check_summary, mend_summary
from tenfold.compaction.summarize.evidence import build_source
from tenfold.compaction.summarize.headings import trim_sections
from tenfold.core.text.excerpts import trim_lines
from tests.summarize.making import estimate_tokens, make_call, make_result, make_user

SOURCE = build_source(
    [
        (0, make_user("please fix /repo/src/app/main.py, see https://example.com/i/7 and commit 3f2a9bc")),
        (1, make_call("bash", command="pytest tests/unit/test_a.py\ncat docs/plan.md")),
        (2, make_result("v1.2.3 installed in C:\\work")),
    ],
    (),
    "earlier we spoke of lib/old.rs",
)


def find_failures(
    text: str, *, finish: str = "stop", allotment: int = 500, headings: tuple[str, ...] = ()
) -> list[tuple[str, str]]:
    expected = Expectation(source=SOURCE, allotment=allotment, headings=headings)
    return [
        (failure.kind, failure.detail)
        for failure in check_summary(text, finish=finish, expected=expected, count=estimate_tokens)
    ]


@pytest.mark.parametrize(
    "text",
    [
        "The user wants /repo/src/app/main.py fixed.",
        "src/app/main.py and app/main.py and main.py are one file; `./tests/unit/test_a.py:12` too.",
        "See https://example.com/i/7, commit 3f2a9bc, v1.2.3 and lib/old.rs.",
        "It is a read/write matter of and/or, in Node.js, e.g. 12/30 of the work; see docs/plan.md.",
    ],
)
def test_a_true_summary_passes(text: str) -> None:
    assert find_failures(text) == []


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("It changed src/app/other.py.", "src/app/other.py"),
        ("It changed /repo/src/app/main.pyx", "/repo/src/app/main.pyx"),
        ("Fixed in helper.ts now", "helper.ts"),
        ("commit 9e8d7c6 did it", "9e8d7c6"),
        ("upgraded to 1.2.4 then", "1.2.4"),
        ("see https://example.com/i/8", "https://example.com/i/8"),
    ],
)
def test_an_invented_path_or_identifier_is_found(text: str, unknown: str) -> None:
    assert find_failures(text) == [("unknown", unknown)]


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


def test_mending_removes_the_offending_line_and_the_torn_end() -> None:
    text = "one\nchanged src/x.py\nthree\nfour is to"
    expected = Expectation(source=SOURCE, allotment=500)
    failures = check_summary(text, finish="length", expected=expected, count=estimate_tokens)
    assert mend_summary(text, failures) == "one\nthree"
    said = "It changed a thing. It also changed src/x.py! Then it ran.\nIt read src/x.py."
    failures = check_summary(said, finish="stop", expected=expected, count=estimate_tokens)
    assert mend_summary(said, failures) == "It changed a thing. Then it ran.", "a sentence goes, not its paragraph"
    assert mend_summary("a", [CheckFailure(kind="refusal", detail="x")]) == ""


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("- It read src/x.py. Then it ran.", "Then it ran."),
        ('He said "look at src/x.py." Then it ran.', "Then it ran."),
        ('  He said "go." It read src/x.py. Then it ran.', '  He said "go." Then it ran.'),
        ("It ran. It read src/x.py.", "It ran."),
    ],
)
def test_a_sentence_goes_with_its_quotes_and_leaves_the_others_as_they_are(line: str, left: str) -> None:
    text = f"Before.\n{line}"
    failures = check_summary(text, finish="stop", expected=Expectation(SOURCE, 500), count=estimate_tokens)
    assert mend_summary(text, failures) == f"Before.\n{left}"


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
