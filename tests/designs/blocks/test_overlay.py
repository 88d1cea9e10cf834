"""The overlay of `blocks`: sections, lines, and what is loaded, of loops of every length."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from tenfold.core.record.message import Message, Text, ToolCall, ToolResult, get_text
from tenfold.core.wire import WIRES
from tenfold.designs.blocks import (
    CompactedSection,
    CompactionConfig,
    DefaultBlockCompaction,
    FixedCount,
    LoopRecord,
    TurnMap,
    TurnRange,
    assign_turns,
    build_context_from_session,
    compact_session_loops,
    count_compacted_loops,
    get_loop_records,
)
from tenfold.designs.blocks.policy import blocks
from tenfold.errors import NotFoundError, UsageError
from tenfold.session import Session
from tests.designs.blocks.making import (
    COUNTER,
    FILLER,
    compact_to,
    count_tokens,
    count_view_tokens,
    find_violations,
    get_compacted_lines,
    get_loop_block,
    get_newest_block,
    get_ranges,
    get_texts,
    get_view_text,
    make_call,
    make_loop,
    make_reply,
    make_result,
    make_session,
    make_system_message,
    make_turn,
    make_user_message,
)

OWN = DefaultBlockCompaction(COUNTER)


def make_record(turns: int) -> tuple[LoopRecord, TurnMap]:
    messages = assign_turns(make_loop(turns, lines=200), "r")
    return LoopRecord("r", messages), TurnMap.from_messages(messages)


def build_config(first: int = 2, recent: int = 10, *, room: int = 2_000) -> CompactionConfig:
    return CompactionConfig(keep_first_turns=first, keep_recent_turns=recent, max_summary_tokens=room)


def test_no_first_turns_means_none() -> None:
    """The original subtracts without going below zero, so keep_first_turns = 0 still keeps turn 0."""
    session = make_session([make_loop(20)], blocks(COUNTER, keep_first_turns=0))
    compact_to(session, 7)
    assert get_texts(session.view.get_messages())[1] == "[Summary] I look at part 0."
    assert get_loop_block(session).keep_first is None


def test_keep_recent_cuts_outputs_and_changes_nothing_else() -> None:
    kept = OWN.keep_recent(*make_record(20), build_config(2, 5))
    assert kept is not None
    originals = [m for n in range(15, 20) for m in make_turn(n, lines=200)]
    for new, old in zip(kept.messages, originals, strict=True):
        assert ("[... 150 lines removed ...]" in get_text(new)) == (old.role == "tool")
        assert replace(new, parts=()) == replace(old, parts=())
        assert new == old or old.role == "tool"


def make_wordy_turns(turns: int) -> list[Message]:
    return [
        m for n in range(turns) for m in make_turn(n, text=f"At turn {n} the cache was read twice. " + FILLER, lines=20)
    ]


@pytest.mark.parametrize("room", [2_000, 700, 300, 100])
def test_every_turn_is_represented_within_the_total(room: int) -> None:
    """The original stops at the first line that does not fit: of the newest turns nothing is left."""
    messages = assign_turns([make_user_message("go"), *make_wordy_turns(40)], "r")
    section = OWN.keep_compacted(
        LoopRecord("r", messages), TurnMap.from_messages(messages), build_config(0, 0, room=room), False
    )
    assert section is not None
    told = [m for m in section.messages if m.origin == "tenfold"]
    assert count_tokens(told) <= room
    stands = sum(int(t.split()[1]) if t.split()[2:3] == ["steps:"] else 1 for t in map(get_text, told))
    assert stands == 40
    assert "At turn 3" in get_text(told[-1]) or "steps" in get_text(told[-1])


def test_the_total_holds_for_a_session_too() -> None:
    session = make_session([[make_user_message("go"), *make_wordy_turns(60)]], blocks(COUNTER, max_summary_tokens=400))
    for more in (0, 10):
        session.append(*make_wordy_turns(more), run="run-1")
        compact_to(session, 5)
        told = [m for m in session.view.get_messages() if get_text(m).startswith("[Summary] ")]
        assert told
        assert count_tokens(told) <= 400, "older lines and newer ones together"


def test_user_messages_of_the_middle_stay() -> None:
    """The original makes lines of answers only, so what the user said between or during steps is lost."""
    wish, hold = (make_user_message(text) for text in ("Never rename public functions.", "Leave the tests alone."))
    call, result = make_turn(5)
    turns = [*make_wordy_turns(5), call, hold, result, make_user_message("Look at the docs next.")]
    session = make_session([[make_user_message("go"), *turns, wish, *make_wordy_turns(25)]])
    compact_to(session, 7)
    assert "[Summary] I look at part 5." in get_texts(session.view.get_messages())
    assert hold in session.view.get_messages()
    assert wish in session.view.get_messages()
    session.compact(to=max(300, count_view_tokens(session) // 20))
    assert "Never rename public functions." in get_view_text(session)


def test_a_summary_of_a_whole_range_has_lines_for_user_and_steps() -> None:
    """The original drops what does not fit: here the last resort still names users' messages and the newest step."""
    asked = [make_user_message(f"Look at matter {n}. {FILLER * 6}") for n in range(20)]
    history = [
        m for n in range(20) for m in (asked[n], make_reply(f"Matter {n}: {FILLER}"), make_reply(f"Done {n}: {FILLER}"))
    ]
    session = make_session([history])
    session.compact(to=2_500)
    told = get_view_text(session)
    assert any(r.kind == "summary" for r in get_newest_block(session).replacements)
    assert "[User] " in told
    assert "[Summary] " in told
    assert count_view_tokens(session) <= 2_500


def test_the_current_loop_is_laid_anew_and_earlier_ones_only_once() -> None:
    session = make_session([make_loop(12), make_loop(14, start=20)])
    outcome = compact_session_loops(session, "run-2", None, build_config(), max_context_tokens=9_000)
    assert outcome.status == "compacted"
    assert count_compacted_loops(session, outcome) == 2
    first = get_loop_records(session)[0].compaction_block
    session.append(*[m for n in range(40, 60) for m in make_turn(n)], run="run-2")
    outcome = compact_session_loops(session, "run-2", None, build_config(), max_context_tokens=9_000)
    assert outcome.status == "compacted"
    assert count_compacted_loops(session, outcome) == 1, "the first loop has its block already"
    now = get_loop_records(session)[0].compaction_block
    assert first is not None
    assert now is not None
    assert now.keep_compacted == first.keep_compacted
    with pytest.raises(UsageError, match="not the current loop"):
        compact_session_loops(session, "run-1")
    with pytest.raises(NotFoundError, match="run-2"):
        compact_session_loops(session, "run-22")


def get_unsummarized(session: Session) -> list[Message]:
    return [m for m in session.view.get_messages() if "<tenfold-summary" not in get_text(m)]


def test_what_is_loaded_is_what_is_measured_and_sent() -> None:
    """The original compacts one list and builds requests from two others, so a compaction may never reach the model."""
    session = make_session([make_loop(6), make_loop(20, start=20)])
    raw = session.view.get_messages()
    assert build_context_from_session(session, "run-2") == raw, "no block: raw messages"
    session.compact(to=count_view_tokens(session) * 6 // 10)
    context = build_context_from_session(session, "run-2")
    assert context == session.view.get_messages()
    assert count_tokens(context) == session.take_reading().estimate == count_view_tokens(session)
    encoded = [json.loads(item.raw) for item in WIRES["openai-chat"].encode(context).items]
    nothing = {"role": "user", "content": "next"}
    request = session.before_model({"model": "m", "messages": [*encoded, nothing]}, window=10**6)
    assert request["messages"] == [*encoded, nothing]
    assert build_context_from_session(session, "run-2") == context
    older = build_context_from_session(session, "run-1")
    assert older == context[: len(older)]
    assert get_texts(older)[1:] == [f"[Summary] I look at part {n}." for n in range(6)]
    with pytest.raises(NotFoundError):
        build_context_from_session(session, "run-9")


def test_runs_beyond_the_scope_are_hidden_and_reachable() -> None:
    runs = [make_loop(5, start=n * 10, ask=f"Never touch port {4_000 + n}.") for n in range(7)]
    session = make_session(runs, blocks(COUNTER, compaction_scope=2))
    session.compact(to=count_view_tokens(session) * 6 // 10)
    shown = get_texts(get_unsummarized(session))
    asked = [f"Never touch port {4_000 + n}." for n in range(7)]
    assert [each for each in asked if each in shown] == asked[4:], "two earlier loops and the current one"
    told = get_view_text(session)
    assert all(f"Never touch port {4_000 + n}." in told for n in range(7)), "their rules stand in the facts section"
    hidden = [line.message for line in session.expand(get_newest_block(session).id, deep=True)]
    assert hidden[: len(runs[0])] == runs[0]


def test_a_loop_compacted_while_current_keeps_its_ends_when_it_grows_old() -> None:
    """The original loads only the middle of such a loop: its first and its last turns vanish, a short one wholly."""
    session = make_session([make_loop(20)])
    compact_to(session, 7)
    session.append(*make_loop(3, start=50), run="run-2")
    session.append(*make_loop(20, start=60), run="run-3")
    compact_to(session, 6)
    assert get_compacted_lines(get_loop_block(session)) == [f"[Summary] I look at part {n}." for n in range(20)]
    assert len(get_compacted_lines(get_loop_block(session, 1))) == 3, "a short loop does not vanish"


def test_a_loop_too_short_to_change_has_a_block_where_a_later_one_has() -> None:
    session = make_session([make_loop(0), make_loop(20, start=10)])
    compact_to(session, 7)
    first = get_loop_block(session)
    assert first.keep_compacted == CompactedSection(TurnRange(0, 0), tuple(make_loop(0)))
    assert first.created_at == get_loop_block(session, 1).created_at
    session.undo()
    assert [r.compaction_block for r in get_loop_records(session)] == [None, None]


def test_without_run_ids_an_exchange_is_a_loop() -> None:
    session = make_session([])
    session.append(make_system_message(), *make_loop(3), *make_loop(2, start=10))
    assert [(r.loop_id, len(r.messages)) for r in get_loop_records(session)] == [("exchange-1", 8), ("exchange-2", 5)]
    steered = [make_call("a"), make_user_message("quickly!"), make_result("a", "ok")]
    session.append(*steered)
    assert len(get_loop_records(session)) == 2, "what the user says during a step opens no loop"


EVERY_LENGTH = (1, 2, 3, 7, 12, 40)


# -- sections ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turns", EVERY_LENGTH)
def test_compact_assembles_the_three_methods_for_every_loop_length(turns: int) -> None:
    """The original overlaps where turns <= first + recent - 1: 10 turns load 24 messages in place of 20."""
    record = LoopRecord("r", assign_turns(make_loop(turns, lines=60), "r"))
    made = OWN.compact(record, CompactionConfig(), True)
    first, recent = min(2, turns), max(min(2, turns), turns - 10)
    assert get_ranges(made) == [
        (0, first - 1),
        (first, recent - 1) if first < recent else None,
        (recent, turns - 1) if recent < turns else None,
    ]
    assert find_violations([replace(record, compaction_block=made)]) == []
    assert len(get_compacted_lines(made)) == recent - first
    older = OWN.compact(record, CompactionConfig(), False)
    assert get_ranges(older) == [None, (0, turns - 1), None]
    assert OWN.keep_first(LoopRecord("r", ()), TurnMap(()), CompactionConfig()) is None


@pytest.mark.parametrize("turns", EVERY_LENGTH)
def test_the_record_of_a_session_has_the_sections_of_its_turns(turns: int) -> None:
    session = make_session([make_loop(turns, lines=90)])
    compact_session_loops(session, "run-1", None, CompactionConfig(), 1_000_000)
    (record,) = get_loop_records(session)
    if turns <= 2:
        assert record.compaction_block is None, "all turns stay as they are"
        return
    assert get_ranges(get_loop_block(session)) == get_ranges(OWN.compact(record, CompactionConfig(), True))
    assert find_violations([record]) == []


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
    levels = blocks(COUNTER).with_list_stages()
    listed = make_session([history], replace(levels, stages=levels.stages[1:]))
    assert listed.compact(to=count_view_tokens(listed) * 6 // 10).status == "compacted"
    check_silent_lines(get_view_text(listed), range(34))
    short = make_session([history], blocks(COUNTER))
    short.compact(to=count_view_tokens(short) // 10)
    assert "tool(s)]" not in get_view_text(short)
    assert "Read(src/part0.py" in get_view_text(short)


def test_parallel_calls_and_calls_without_result_are_told_one_by_one() -> None:
    calls = (ToolCall("a", "Read", '{"path": "a.py"}'), ToolCall("b", "Read", '{"path": "b.py"}'))
    first = make_silent_turn(calls[0], FILLER)[1]
    again = make_silent_turn(replace(calls[1], id="a"), "no such file", is_error=True)  # the id is used again
    one, two = tell_older_loop([Message("assistant", calls, "model"), first, *again])
    assert one.startswith("[Summary] Read(a.py) -> ok")
    assert one.endswith("; Read(b.py) -> no result")
    assert two.startswith("[Summary] Read(b.py) -> failed")


def tell_older_loop(turns: Sequence[Message], most: int = 2_000) -> list[str]:
    """The lines that stand for these turns once another loop has begun."""
    record = LoopRecord("r", assign_turns([make_user_message("Go."), *turns], "r"))
    return get_compacted_lines(OWN.compact(record, CompactionConfig(max_summary_tokens=most), False))


def test_a_line_of_calls_is_bounded_and_holds_no_secret() -> None:
    secret = "sk-ant-api03-" + "Ab1" * 31 + "-AA"
    call = ToolCall("c", "bash", f'{{"command": "curl -H {secret} {"x" * 9_000}"}}')
    (line,) = tell_older_loop(make_silent_turn(call, "done"))
    assert secret not in line
    assert len(line) < 300


@pytest.mark.parametrize("tokens", [600, 450, 350])
def test_a_short_budget_takes_from_the_target_and_leaves_the_outcome(tokens: int) -> None:
    path = "services/payments/internal/adapters/ledger/part{}.py"
    calls = [ToolCall(f"c{n}", "Read", f'{{"path": "{path.format(n)}"}}') for n in range(20)]
    turns = [m for n, call in enumerate(calls) for m in make_silent_turn(call, FILLER, is_error=n % 2 == 0)]
    lines = tell_older_loop(turns, tokens)
    assert len(lines) == 20
    for n, line in enumerate(lines):
        assert line.startswith("[Summary] Read(")
        assert f"part{n}.py) -> {'ok' if n % 2 else 'failed'}" in line


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
