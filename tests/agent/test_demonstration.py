"""The scripted demonstration: it uses the tools that are offered, streams, reports its usage, and goes on anywhere."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from pydantic_ai import Agent as Runner
from pydantic_ai.messages import FunctionToolCallEvent, PartDeltaEvent, TextPartDelta, ToolCallPartDelta
from pydantic_ai.run import AgentRunResultEvent

from tenfold.apps.agent import Agent
from tenfold.apps.agent.coding_tools import Action
from tenfold.apps.agent.demonstration import (
    CLOSING_NOTE,
    DEMONSTRATION,
    build_demonstration,
    build_run_state,
    choose_line,
    find_search_word,
)
from tenfold.apps.agent.factory import AgentOptions, open_agent
from tenfold.apps.agent.runtime import RESUME_PROMPT
from tenfold.config.policies import POLICIES
from tenfold.core.record.block import Block
from tenfold.core.record.message import Message, Text, ToolCall, ToolResult, get_text, get_tool_calls
from tenfold.core.wire.marks import render_summary
from tenfold.store.sqlite.store import SqliteStore

TOOLS = ("list_files", "search_files", "read_file", "write_file", "run_command", "recall_search", "compact")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    root.mkdir()
    (root / "README.md").write_text("# Shop\n\nPrices are in prices.txt.\n")
    (root / "prices.txt").write_text("# prices\n" + "".join(f"prices of item {n}: {n}.99\n" for n in range(120)))
    (root / "other.py").write_text("nothing = 1\n")
    return root


def make_agent(root: Path, *, yes: bool = True, policy: str = "tenfold", window: int | None = None) -> Agent:
    async def approve(action: Action) -> bool:
        del action
        return yes

    return open_agent(SqliteStore(":memory:"), AgentOptions(root, DEMONSTRATION, policy=policy, window=window), approve)


def get_call_names(made: Agent) -> list[str]:
    path = made.session.view.path
    said = [m for p in range(path.length) if (m := getattr(path.get_entry(p), "message", None)) is not None]
    return [call.name for m in said for call in get_tool_calls(m)]


def test_a_prompt_makes_it_list_search_read_and_tell_what_it_saw(root: Path) -> None:
    made = make_agent(root)
    answer = asyncio.run(made.invoke("Which prices end in .99?"))
    assert get_call_names(made) == ["list_files", "search_files", "read_file", "read_file"]
    assert "holds 3 names" in answer
    assert "'prices' occurs on 122 line(s) of 2 file(s)" in answer
    assert "I read prices.txt" in answer
    assert answer.endswith(CLOSING_NOTE)


def test_the_same_conversation_gets_the_same_answer(root: Path) -> None:
    first, second = (asyncio.run(make_agent(root).invoke("Which prices end in .99?")) for _ in range(2))
    assert first == second


def test_a_prompt_with_nothing_to_search_for_reads_what_explains(root: Path) -> None:
    made = make_agent(root)
    assert "I read README.md" in asyncio.run(made.invoke("What is this?"))
    assert get_call_names(made) == ["list_files", "read_file"]


def test_hidden_folders_come_last(root: Path) -> None:
    (root / ".cache").mkdir()
    (root / ".cache" / "a.txt").write_text("prices\n" * 150)
    made = make_agent(root)
    answer = asyncio.run(made.invoke("Which prices end in .99?"))
    assert "I read prices.txt" in answer or "I read README.md" in answer
    assert "I read .cache" not in answer


def test_its_own_words_call_one_tool_each(root: Path) -> None:
    made = make_agent(root)
    assert "wrote notes.txt: 12 bytes, a new file" in asyncio.run(made.invoke("write notes.txt hello there"))
    assert (root / "notes.txt").read_text() == "hello there\n"
    assert "[exit code 3]\nhere" in asyncio.run(made.invoke("run echo here; exit 3"))
    assert "hello there" in asyncio.run(made.invoke("recall notes.txt"))
    assert "No compaction needed" in asyncio.run(made.invoke("compact the prices"))
    assert get_call_names(made) == ["write_file", "run_command", "recall_search", "compact"]


def test_a_refusal_is_told(root: Path) -> None:
    made = make_agent(root, yes=False)
    assert "The user said no" in asyncio.run(made.invoke("write notes.txt hello"))
    assert not (root / "notes.txt").exists()


@pytest.mark.parametrize("prompt", ["write a poem about prices", "run the tests", "write", "recall", "run"])
def test_sentences_that_begin_like_a_command_are_none(prompt: str) -> None:
    line = choose_line(build_run_state([Message("user", (Text(prompt),), "human")], TOOLS))
    assert [name for name, _ in line.calls] == ["list_files"]


def test_it_streams_its_texts_and_its_calls_in_pieces(root: Path) -> None:
    async def collect_stream() -> tuple[list[str], list[str], int, str]:
        texts, pieces, calls, answer = [], [], 0, ""
        async for event in make_agent(root).stream("Which prices end in .99?"):
            match event:
                case PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
                    texts.append(text)
                case PartDeltaEvent(delta=ToolCallPartDelta(args_delta=str(piece))):
                    pieces.append(piece)
                case FunctionToolCallEvent():
                    calls += 1
                case AgentRunResultEvent(result=result):
                    answer = result.output
        return texts, pieces, calls, answer

    texts, pieces, calls, answer = asyncio.run(collect_stream())
    assert max(map(len, texts)) < 40
    assert len(texts) > 60
    assert len(pieces) > calls == 4
    assert answer == asyncio.run(make_agent(root).invoke("Which prices end in .99?"))


def test_it_reports_what_it_read_so_that_the_session_is_calibrated_right(root: Path) -> None:
    async def run_prompts() -> Agent:
        made = make_agent(root)
        for word in ("prices", "items", "nothing"):
            async for _ in made.stream(f"Where is {word}?"):
                pass
        return made

    made = asyncio.run(run_prompts())
    reading = made.session.take_reading(window=made.window)
    estimate = sum(made.session.conversation.get_message_sizes().values())
    assert reading.source == "reported"
    assert reading.slope == pytest.approx(1.0, abs=0.02)
    assert estimate < int(reading.tokens) < estimate + 1_500, "and beside it only instructions and tools"


@pytest.mark.costly(2)
@pytest.mark.parametrize("policy", POLICIES)
def test_it_comes_to_an_end_in_a_small_window_under_every_policy(root: Path, policy: str) -> None:
    made = make_agent(root, policy=policy, window=6_000)
    for number in range(6):
        answer = asyncio.run(made.invoke("Which prices are too low?"))
        assert answer.endswith(CLOSING_NOTE)
        assert len(get_call_names(made)) <= 4 * (number + 1)
    path = made.session.view.path
    assert [p for p in range(path.length) if isinstance(path.get_entry(p), Block)], "the window was outgrown"
    place = made.session.address
    assert path.length == len(place.store.read_entries(place.namespace, place.session)), (
        "nothing was taken for a rewrite"
    )


# -- any view ----------------------------------------------------------------------------------------------------------

ASKED = Message("user", (Text("Which prices end in .99?"),), "human")
CALLED = Message("assistant", (ToolCall("demo-2-0123456789ab-0", "search_files", '{"pattern": "x"}'),), "model")


def make_search_result(text: str) -> Message:
    return Message("tool", (ToolResult("demo-2-0123456789ab-0", "search_files", (Text(text),)),), "tool")


def test_it_goes_on_after_the_newest_step_in_view() -> None:
    line = choose_line(build_run_state([ASKED, CALLED, make_search_result("a.py:7:prices\n")], TOOLS))
    assert line.calls == (("read_file", {"path": "a.py", "first_line": 2, "lines": 40}),)
    assert line.stage == 3


def test_a_call_that_was_interrupted_and_not_seen_to_end_is_passed_over() -> None:
    said = Message("user", (Text(RESUME_PROMPT),), "human")
    line = choose_line(
        build_run_state([ASKED, CALLED, make_search_result("[interrupted: outcome unknown]"), said], TOOLS)
    )
    assert line.calls == ()
    assert line.text.endswith(CLOSING_NOTE)


def test_a_summary_is_no_prompt() -> None:
    summary = Message("user", (Text(render_summary("b1", "Run the tests of prices.txt.")),), "human")
    assert build_run_state([summary, ASKED], TOOLS).prompt == get_text(ASKED)
    assert build_run_state([summary], TOOLS).prompt == ""


def test_what_was_done_and_is_summarized_is_not_done_again() -> None:
    command = Message("user", (Text("run make all"), Text(render_summary("b1", "It ran."))), "human")
    assert choose_line(build_run_state([command], TOOLS)).calls == ()
    assert choose_line(build_run_state([command, ASKED], TOOLS)).stage == 1


def test_an_agent_without_tools_is_told_so() -> None:
    assert "offers no tool run_command" in asyncio.run(Runner(build_demonstration()).run("run ls")).output
    assert asyncio.run(Runner(build_demonstration()).run("What is this?")).output.endswith(CLOSING_NOTE)


@pytest.mark.parametrize(
    ("prompt", "word"),
    [
        ("Which prices end in .99?", "prices"),
        ("where is src/shop.py used?", "src/shop.py"),
        ("what does makeList do to the arguments", "makeList"),
        ("What is this?", ""),
        ("", ""),
        ("价格在哪里", "价格在哪里"),
    ],
)
def test_the_word_that_is_searched_for(prompt: str, word: str) -> None:
    assert find_search_word(prompt) == word
