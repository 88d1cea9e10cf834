"""The lines of the transcript and the status line, at every width."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tenfold.agent import Agent
from tenfold.agent.demonstration import demonstration
from tenfold.events import Ended, Failed, Moved, Overflowed, Skipped, Started, Warned
from tenfold.log.memory import MemoryStore
from tenfold.record.ask import Outcome
from tenfold.record.message import Message, Text, ToolCall, ToolResult
from tenfold.tui.gauge import PLAIN, STYLES, Fill, fill_of, status
from tenfold.tui.words import LAST, call, history, news, result, size
from tests.tui.recorded import agent_over, new, stored


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
    assert size(tokens) == text


def test_a_compaction_stands_in_the_stream_and_what_came_to_nothing_says_why() -> None:
    done = news(Ended("s", Outcome("compacted", "soft", 150_200, 105_400, 80_000), 0))
    assert done is not None
    assert (done.kind, done.text) == ("mark", "— context compacted (150k → 105k tokens) —")
    skipped = news(Skipped("s", Outcome("cancelled", "not\x1b[2J while releasing", 1, 1, 1), 0))
    assert skipped is not None
    assert (skipped.kind, skipped.text) == ("note", "not compacted (cancelled): not while releasing")
    failed = news(Failed("s", Outcome("failed", "no answer", 1, 1, 1), 0))
    assert failed is not None
    assert failed.text.endswith("nothing changed: no answer")
    warned = news(Warned("s", "tenfold", 72_000, 85_000, 100_000, 0))
    assert warned is not None
    assert warned.text == "the context takes 72% of the window; it is compacted at 85k tokens"
    over = news(Overflowed("s", "gpt-4o", 130_000, 0))
    assert over is not None
    assert "gpt-4o refused a request of 130k tokens" in over.text
    assert news(Started("s", "tenfold", 1, 1, "", 0)) is None
    assert news(Moved("s", None, None, "", 0)) is None


def test_calls_and_results_are_a_few_words() -> None:
    arguments = json.dumps({"path": "src/a.py", "content": "x\n" * 500, "lines": 40})
    assert call("write_file", arguments).startswith("write_file path=src/a.py content=x x x")
    assert len(call("write_file", arguments)) <= 72
    assert call("look", "") == "look"
    assert call("look", "not json") == "look not json"
    assert call("look", "[1, 2]") == "look [1, 2]"
    assert result("one\ntwo\n", failed=False) == " → one (2 lines)"
    assert result("", failed=False) == " → nothing"
    assert result("\n\nno", failed=True) == " → failed: no"


def test_the_newest_part_of_a_session_is_shown_with_its_calls_and_compactions(tmp_path: Path) -> None:
    store, session = stored(tmp_path)
    agent = agent_over(store, session)
    assert agent.session.compact(to=8_000).status == "compacted"
    lines = history(agent.session)
    assert lines[0].text.startswith(f"{agent.session.view.length - LAST:,} earlier entries")
    assert [line.text[:20] for line in lines if line.kind == "mark"] == ["— context compacted "]
    assert any(line.kind == "call" and " → " in line.text for line in lines)
    assert len(lines) <= LAST + 1
    agent.session.undo()
    assert history(agent.session)[-1].text == "— the compaction was undone —"
    store.close()


def test_an_open_call_a_broken_answer_and_long_words_are_shown_as_what_they_are() -> None:
    session = new(MemoryStore(), "x" * 9_000)
    asked = ToolCall("c1", "look", '{"path": "a"}')
    session.append(Message("assistant", (Text("I look."), asked), "model"))
    session.append(Message("tool", (ToolResult("c1", "look", (Text("gone"),), error=True),), "tool"))
    session.append(Message("assistant", (Text("Hal"), ToolCall("c2", "look")), "model", status="aborted"))
    lines = [(line.kind, line.text) for line in history(session)]
    assert lines[0][0] == "you"
    assert lines[0][1].endswith("... 5,000 more characters")
    assert lines[1:] == [
        ("answer", "I look."),
        ("call", "look path=a → failed: gone"),
        ("answer", "Hal"),
        ("call", "look → no result"),
        ("note", "the answer broke off here"),
    ]
    assert history(new(MemoryStore())) == []


@pytest.mark.parametrize("width", range(8, 200, 7))
def test_the_fill_is_in_the_status_line_at_every_width(width: int) -> None:
    fill = Fill(0.45, "none")
    line = status(fill, "compaction", ["one", "two"], "anthropic:claude-haiku-4-5", width=width)
    assert line.plain.startswith("[ctx: 45%]"[:width])
    assert line.cell_length <= max(width, len("[ctx: 45%]"))
    if width >= 80:
        assert "compaction  2 queued" in line.plain
        assert line.plain.endswith("anthropic:claude-haiku-4-5")


def test_each_level_looks_different_with_colours_and_without() -> None:
    assert len(set(STYLES.values())) == 5
    assert len({style for level, style in PLAIN.items() if level != "unknown"}) == 4
    assert not any("ansi" in style for style in PLAIN.values())
    shown = status(Fill(0.97, "hard"), "idle", (), "m", width=80, colours=False)
    assert [str(span.style) for span in shown.spans][:1] == ["bold reverse"]


def test_the_fill_goes_through_the_limits_of_the_policy() -> None:
    session = new(MemoryStore(), "word " * 4_000)
    agent = Agent(demonstration(), session=session, window=100_000)
    tokens = session.reading(window=100_000).tokens
    levels = []
    for window in (tokens * 4, int(tokens / 0.75), int(tokens / 0.90), int(tokens / 1.2)):
        agent.window = window
        levels.append(fill_of(agent))
    assert [fill.level for fill in levels] == ["none", "warn", "soft", "hard"]
    assert [fill.text for fill in levels] == ["[ctx: 25%]", "[ctx: 75%]", "[ctx: 90%]", "[ctx: 120%]"]
    agent.window = None
    assert fill_of(agent).text == "[ctx: ?]"
