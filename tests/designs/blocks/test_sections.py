"""The sections of loops of every length, the lines of turns without text, and configurations without a window."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from tenfold.core.record.message import Message, Text, ToolCall, ToolResult, get_text
from tenfold.designs.blocks import (
    CompactionBlock,
    CompactionConfig,
    DefaultBlockCompaction,
    DefaultCompaction,
    FixedCount,
    LoopRecord,
    TurnRange,
    assign_turns,
    build_context_from_session,
    compact_in_memory,
    compact_messages,
    compact_session_loops,
    find_violations,
    get_loop_records,
)
from tenfold.designs.blocks.policy import blocks
from tenfold.errors import UsageError
from tenfold.session import Session
from tests.designs.blocks.making import (
    COUNTER,
    FILLER,
    count_tokens,
    count_view_tokens,
    get_view_text,
    make_loop,
    make_session,
    make_user_message,
)

OWN = DefaultBlockCompaction(COUNTER)
EVERY_LENGTH = (1, 2, 3, 7, 12, 40)


def get_ranges(block: CompactionBlock) -> list[tuple[int, int] | None]:
    """The turns of the three sections."""
    compacted, recent = block.keep_compacted, block.keep_recent
    ranges = (block.keep_first, compacted.range if compacted else None, recent.range if recent else None)
    return [(r.start_turn, r.end_turn) if r else None for r in ranges]


# -- sections ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turns", EVERY_LENGTH)
def test_compact_assembles_the_three_methods_for_every_loop_length(turns: int) -> None:
    record = LoopRecord("r", assign_turns(make_loop(turns, lines=60), "r"))
    made = OWN.compact(record, CompactionConfig(), True)
    first, recent = min(2, turns), max(min(2, turns), turns - 10)
    assert get_ranges(made) == [
        (0, first - 1),
        (first, recent - 1) if first < recent else None,
        (recent, turns - 1) if recent < turns else None,
    ]
    assert find_violations([replace(record, compaction_block=made)]) == []
    lines = [get_text(m) for m in made.keep_compacted.messages] if made.keep_compacted else []
    assert len([line for line in lines if line.startswith("[Summary] ")]) == recent - first
    older = OWN.compact(record, CompactionConfig(), False)
    assert get_ranges(older) == [None, (0, turns - 1), None]


@pytest.mark.parametrize("turns", EVERY_LENGTH)
def test_the_record_of_a_session_has_the_sections_of_its_turns(turns: int) -> None:
    session = make_session([make_loop(turns, lines=90)])
    compact_session_loops(session, "run-1", None, CompactionConfig(), 1_000_000)
    (record,) = get_loop_records(session)
    made = record.compaction_block
    if turns <= 2:
        assert made is None, "all turns stay as they are"
        return
    assert made is not None
    wanted = OWN.compact(record, CompactionConfig(), True)
    assert get_ranges(made) == get_ranges(wanted)
    assert find_violations([record]) == []


def test_turns_in_no_section_are_a_violation() -> None:
    record = LoopRecord("r", assign_turns(make_loop(12), "r"))
    made = OWN.compact(record, CompactionConfig(), True)
    for broken in (
        replace(made, keep_first=TurnRange(0, 0)),
        replace(made, keep_first=None),
        replace(made, keep_recent=None),
    ):
        assert find_violations([replace(record, compaction_block=broken)]) != []


# -- lines -------------------------------------------------------------------------------------------------------------


def make_silent_turn(call: ToolCall, output: str, *, is_error: bool = False) -> list[Message]:
    """A turn that says nothing: a call and its result."""
    result = ToolResult(call.id, call.name, (Text(output),), is_error)
    return [Message("assistant", (call,), "model"), Message("tool", (result,), "tool")]


def make_silent_loop(turns: int) -> list[Message]:
    """A loop of such turns, with tools of many kinds and results of many kinds."""
    out = [make_user_message("Look after it.")]
    body = f"{FILLER}\n" * 30
    for n in range(turns):
        kinds: list[tuple[ToolCall, str, bool]] = [
            (ToolCall(f"c{n}", "Read", f'{{"limit": 9, "file_path": "src/part{n}.py"}}'), body, False),
            (ToolCall(f"c{n}", "bash", f'{{"command": "pytest -q tests/part{n}"}}'), f"{body}exit code: 3", True),
            (ToolCall(f"c{n}", "fetch_order", f'{{"order": "A-{n}"}}'), body, False),
            (ToolCall(f"c{n}", "write_file", f'{{"content": "x", "path": "out/part{n}.txt"}}'), "denied", True),
        ]
        call, output, is_error = kinds[n % 4]
        out += make_silent_turn(call, output, is_error=is_error)
    return out


def check_silent_lines(text: str, numbers: Sequence[int]) -> None:
    """Each of these turns is told with its tool, its target and its outcome."""
    assert "tool(s)]" not in text
    for n in numbers:
        targets = (f"src/part{n}.py)", f"pytest -q tests/part{n})", f'"A-{n}"', f"out/part{n}.txt)")
        tool = ("Read", "bash", "fetch_order", "write_file")[n % 4]
        outcome = ("ok", "exit 3", "ok", "failed")[n % 4]
        (line,) = [each for each in text.split("\n") if f"{tool}(" in each and targets[n % 4] in each]
        assert f" -> {outcome}" in line, line


def test_a_turn_without_text_says_tool_target_and_outcome() -> None:
    record = LoopRecord("r", assign_turns(make_silent_loop(40), "r"))
    for latest, numbers in ((True, range(2, 30)), (False, range(40))):
        made = OWN.compact(record, CompactionConfig(max_summary_tokens=10_000), latest).keep_compacted
        assert made is not None
        check_silent_lines("\n".join(map(get_text, made.messages)), numbers)


def test_a_view_of_silent_turns_has_such_lines_at_every_stage() -> None:
    history = make_silent_loop(40)
    session = make_session([history], blocks(COUNTER, max_summary_tokens=10_000))
    assert session.compact(to=count_view_tokens(session) * 6 // 10).status == "compacted"
    check_silent_lines(get_view_text(session), range(2, 30))
    levels = blocks(COUNTER)
    listed = make_session([history], replace(levels, stages=levels.in_memory_stages[1:]))
    assert listed.compact(to=count_view_tokens(listed) * 6 // 10).status == "compacted"
    check_silent_lines(get_view_text(listed), range(34))
    short = make_session([history], blocks(COUNTER))
    short.compact(to=count_view_tokens(short) // 8)
    assert "tool(s)]" not in get_view_text(short)
    assert "Read(src/part0.py" in get_view_text(short)


def test_parallel_calls_and_calls_without_result_are_told_one_by_one() -> None:
    calls = (ToolCall("a", "Read", '{"path": "a.py"}'), ToolCall("b", "Read", '{"path": "b.py"}'))
    first = make_silent_turn(calls[0], FILLER)[1]
    turn = [Message("assistant", calls, "model"), first]
    again = make_silent_turn(replace(calls[1], id="a"), "no such file", is_error=True)  # the id is used again
    record = LoopRecord("r", assign_turns([make_user_message("Go."), *turn, *again], "r"))
    made = OWN.compact(record, CompactionConfig(), False).keep_compacted
    assert made is not None
    told = [get_text(m) for m in made.messages[1:]]
    assert told[0].startswith("[Summary] Read(a.py) -> ok")
    assert told[0].endswith("; Read(b.py) -> no result")
    assert told[1].startswith("[Summary] Read(b.py) -> failed")


def test_a_line_of_calls_is_bounded_and_holds_no_secret() -> None:
    secret = "sk-ant-api03-" + "Ab1" * 31 + "-AA"
    call = ToolCall("c", "bash", f'{{"command": "curl -H {secret} {"x" * 9_000}"}}')
    record = LoopRecord("r", assign_turns([make_user_message("Go."), *make_silent_turn(call, "done")], "r"))
    made = OWN.compact(record, CompactionConfig(), False).keep_compacted
    assert made is not None
    (line,) = [get_text(m) for m in made.messages[1:]]
    assert secret not in line
    assert len(line) < 300


@pytest.mark.parametrize("tokens", [600, 450, 350])
def test_a_short_budget_takes_from_the_target_and_leaves_the_outcome(tokens: int) -> None:
    path = "services/payments/internal/adapters/ledger/part{}.py"
    calls = [ToolCall(f"c{n}", "Read", f'{{"path": "{path.format(n)}"}}') for n in range(20)]
    turns = [m for n, call in enumerate(calls) for m in make_silent_turn(call, FILLER, is_error=n % 2 == 0)]
    record = LoopRecord("r", assign_turns([make_user_message("Go."), *turns], "r"))
    made = OWN.compact(record, CompactionConfig(max_summary_tokens=tokens), False).keep_compacted
    assert made is not None
    lines = [get_text(m) for m in made.messages[1:]]
    assert len(lines) == 20
    for n, line in enumerate(lines):
        assert line.startswith("[Summary] Read(")
        assert f"part{n}.py) -> {'ok' if n % 2 else 'failed'}" in line


# -- a configuration without a window ----------------------------------------------------------------------------------


def test_a_compaction_config_alone_is_a_configuration() -> None:
    history = make_loop(60, lines=400)
    config = CompactionConfig(tool_output_max_lines=6)
    assert count_tokens(history) > 96_000
    for made in (
        compact_messages(history, config),
        DefaultCompaction().compact(history, config),
        compact_in_memory(history, config),
    ):
        assert count_tokens(made) <= 96_000
        assert any("[... 394 lines removed ...]" in get_text(m) for m in made)
    short = make_loop(3)
    assert compact_messages(short, config) == short
    assert compact_messages([], config) == []
    with pytest.raises(UsageError, match="config is 9; give a CompactionConfig or a ContextConfig"):
        compact_messages(history, 9)  # type: ignore[arg-type]


@pytest.mark.parametrize("recent", [3, 14])
def test_it_counts_the_kept_turns_of_a_list_as_turns(recent: int) -> None:
    history = [m for n in range(500) for m in make_loop(1, start=n, lines=20)]
    made = compact_messages(history, CompactionConfig(keep_recent_turns=recent))
    assert count_tokens(made) < count_tokens(history)
    assert [m.role for m in made[-3 * recent :]] == ["user", "assistant", "tool"] * recent
    assert made[-3 * recent - 1].role == "user", "the line of the turn before"


# -- scope -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [2_000, 3_000, 10_000, 100_000])
@pytest.mark.parametrize("count", [0, 1, 2])
def test_loops_out_of_scope_get_no_block(window: int, count: int) -> None:
    session = make_session([make_loop(14, start=100 * n, lines=60) for n in range(5)])
    config = CompactionConfig(compaction_scope=FixedCount(count))
    assert compact_session_loops(session, "run-5", None, config, window).status == "compacted"
    check_scope(session, count)
    loaded = build_context_from_session(session, "run-5", config, window)
    asked = [m for m in loaded if m.origin == "human"]
    assert len(asked) <= count + 1
    session.append(*make_loop(14, start=900, lines=60), run="run-6")
    assert compact_session_loops(session, "run-6", None, config, window).status == "compacted"
    check_scope(session, count)


def check_scope(session: Session, count: int) -> None:
    """Only the current loop and so many before it have a block."""
    records = get_loop_records(session)
    has = [record.compaction_block is not None for record in records]
    assert has == [False] * (len(records) - count - 1) + [True] * (count + 1)
    assert find_violations(records) == []
