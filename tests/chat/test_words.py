"""The lines of the transcript and the status line, at every width."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from tenfold.apps.agent import Agent
from tenfold.apps.agent.demonstration import build_demonstration
from tenfold.apps.agent.run_lines import format_tokens, render_call, render_result
from tenfold.apps.chat.transcript import HISTORY_ENTRIES, build_event_line, build_history
from tenfold.apps.chat.widgets import PLAIN_STYLES, STYLES, ContextFill, measure_fill, render_status
from tenfold.core.record.ask import Outcome
from tenfold.core.record.message import Message, Text, ToolCall, ToolResult
from tenfold.core.record.token_reading import Counted, ProviderTokens, Tokens
from tenfold.events import (
    BranchSwitch,
    CompactionEnd,
    CompactionFailure,
    CompactionSkip,
    CompactionStart,
    CompactionWarning,
    RequestOverflow,
)
from tenfold.store.sqlite.store import SqliteStore
from tests.chat.recorded import create_session, make_agent, store_session


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        (0, "0"),
        (99, "99"),
        (940, "0.9k"),
        (1_000, "1k"),
        (1_234, "1.2k"),
        (9_960, "10k"),
        (150_234, "150k"),
        (999_499, "999k"),
        (999_500, "1.0M"),
        (1_200_000, "1.2M"),
    ],
)
def test_sizes_are_short(tokens: int, text: str) -> None:
    assert format_tokens(tokens) == text


def test_a_compaction_stands_in_the_stream_and_what_came_to_nothing_says_why() -> None:
    outcome = Outcome("compacted", "soft", Tokens(150_200), Tokens(105_400), Tokens(80_000))
    done = build_event_line(CompactionEnd("s", outcome, 0))
    assert done is not None
    assert (done.kind, done.text) == ("mark", "— context compacted (150k → 105k tokens) —")
    cancelled = replace(outcome, status="cancelled", reason="not\x1b[2J while releasing")
    skipped = build_event_line(CompactionSkip("s", cancelled, 0))
    assert skipped is not None
    assert (skipped.kind, skipped.text) == ("note", "not compacted (cancelled): not while releasing")
    failed = build_event_line(CompactionFailure("s", replace(outcome, status="failed", reason="no answer"), 0))
    assert failed is not None
    assert failed.text.endswith("changed nothing: no answer")
    size, limit, usable = ProviderTokens(72_000), ProviderTokens(85_000), ProviderTokens(100_000)
    warned = build_event_line(CompactionWarning("s", "tenfold", size, limit, 200_000, 0, usable=usable))
    assert warned is not None
    assert warned.text == "the context is 72% full; it is compacted at 85k tokens"
    over = build_event_line(RequestOverflow("s", "gpt-4o", Counted(130_000), 0))
    assert over is not None
    assert "gpt-4o refused a request of 130k tokens" in over.text
    begun = build_event_line(CompactionStart("s", "tenfold", Tokens(85_000), Tokens(40_000), "", 0))
    assert begun is not None
    assert begun.text == "the context of 85k tokens is being compacted, down to 40k; Escape aborts it"
    assert build_event_line(BranchSwitch("s", None, None, "", 0)) is None


def test_calls_and_results_are_a_few_words() -> None:
    arguments = json.dumps({"path": "src/a.py", "content": "x\n" * 500, "lines": 40})
    assert render_call("write_file", arguments).startswith("write_file path=src/a.py content=x x x")
    assert len(render_call("write_file", arguments)) <= 72
    assert render_call("look", "") == "look"
    assert render_call("look", "not json") == "look not json"
    assert render_call("look", "[1, 2]") == "look [1, 2]"
    assert render_result("one\ntwo\n", failed=False) == " → one (2 lines)"
    assert render_result("", failed=False) == " → nothing"
    assert render_result("\n\nno", failed=True) == " → failed: no"


def test_the_newest_part_of_a_session_is_shown_with_its_calls_and_compactions(tmp_path: Path) -> None:
    store, session = store_session(tmp_path)
    agent = make_agent(store, session)
    assert agent.session.compact(to=8_000).status == "compacted"
    lines = build_history(agent.session)
    assert lines[0].text.startswith(f"{agent.session.view.length - HISTORY_ENTRIES:,} earlier entries")
    assert [line.text[:20] for line in lines if line.kind == "mark"] == ["— context compacted "]
    assert any(line.kind == "call" and " → " in line.text for line in lines)
    assert len(lines) <= HISTORY_ENTRIES + 1
    agent.session.undo()
    assert build_history(agent.session)[-1].text == "— the compaction was undone —"
    store.close()


def test_an_open_call_a_broken_answer_and_long_words_are_shown_as_what_they_are() -> None:
    session = create_session(SqliteStore(":memory:"), "x" * 9_000)
    asked = ToolCall("c1", "look", '{"path": "a"}')
    session.append(Message("assistant", (Text("I look."), asked), "model"))
    session.append(Message("tool", (ToolResult("c1", "look", (Text("gone"),), is_error=True),), "tool"))
    session.append(Message("assistant", (Text("Hal"), ToolCall("c2", "look")), "model", status="aborted"))
    lines = [(line.kind, line.text) for line in build_history(session)]
    assert lines[0][0] == "you"
    assert lines[0][1].endswith("... 5,000 more characters")
    assert lines[1:] == [
        ("answer", "I look."),
        ("call", "look path=a → failed: gone"),
        ("answer", "Hal"),
        ("call", "look → no result"),
        ("note", "the answer was cut off here"),
    ]
    assert build_history(create_session(SqliteStore(":memory:"))) == []


@pytest.mark.parametrize("width", range(8, 200, 7))
def test_the_fill_is_in_the_status_line_at_every_width(width: int) -> None:
    fill = ContextFill(0.45, "none", "41k-44k of 100k")
    line = render_status(fill, "compaction", 2, "anthropic:claude-haiku-4-5", width=width)
    assert line.plain.startswith("[ctx: 45%]"[:width])
    assert line.cell_length <= max(width, len("[ctx: 45%]"))
    if width >= 80:
        assert "compaction  2 queued" in line.plain
        assert line.plain.endswith("anthropic:claude-haiku-4-5")
    assert ("  41k-44k of 100k  " in line.plain) == (width >= 78)


def test_each_level_looks_different_with_colours_and_without() -> None:
    assert len(set(STYLES.values())) == 5
    assert len({style for level, style in PLAIN_STYLES.items() if level != "unknown"}) == 4
    assert not any("ansi" in style for style in PLAIN_STYLES.values())
    shown = render_status(ContextFill(0.97, "hard"), "idle", 0, "m", width=80, colours=False)
    assert [str(span.style) for span in shown.spans][:1] == ["bold reverse"]


def test_the_fill_goes_through_the_limits_of_the_policy() -> None:
    session = create_session(SqliteStore(":memory:"), "word " * 4_000)
    agent = Agent(build_demonstration(), session=session, window=100_000)
    tokens = session.take_reading(window=100_000).tokens
    levels = []
    for window in (tokens * 4, int(tokens / 0.75), int(tokens / 0.90), int(tokens / 1.2)):
        agent.window = window
        levels.append(measure_fill(agent))
    assert [fill.level for fill in levels] == ["none", "warn", "soft", "hard"]
    assert [fill.text for fill in levels] == ["[ctx: 27%]", "[ctx: 80%]", "[ctx: 96%]", "[ctx: 128%]"]
    assert [fill.interval.partition(" of ")[0] for fill in levels] == [session.take_reading().explain()] * 4
    agent.window = None
    assert measure_fill(agent).text == "[ctx: ?]"
