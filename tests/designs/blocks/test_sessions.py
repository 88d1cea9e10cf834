"""The overlay of `blocks` over sessions of several loops: sections, scope, context, and nothing lost or doubled."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tenfold.compaction.plan.stages.overlay import divide_steps
from tenfold.core.record.message import Message, get_text
from tenfold.core.wire import WIRES
from tenfold.designs.blocks import (
    CompactedSection,
    CompactionBlock,
    CompactionConfig,
    DefaultBlockCompaction,
    FixedCount,
    LoopRecord,
    TokenBudget,
    TurnMap,
    TurnRange,
    assign_turns,
    build_context_from_session,
    compact_session_loops,
    count_compacted_loops,
    count_loop_tokens,
    find_violations,
    get_loop_records,
    resolve_scope,
    walk_chain,
)
from tenfold.designs.blocks.policy import blocks
from tenfold.errors import BadInput, NotFoundError, UsageError
from tenfold.session import Session
from tests.designs.blocks.making import (
    COUNTER,
    FILLER,
    count_tokens,
    count_view_tokens,
    get_newest_block,
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
from tests.laws import conversations
from tests.laws.strategies import ENGINE, Log

OWN = DefaultBlockCompaction(COUNTER)


def make_record(turns: int) -> tuple[LoopRecord, TurnMap]:
    messages = assign_turns(make_loop(turns, lines=200), "r")
    return LoopRecord("r", messages), TurnMap.from_messages(messages)


def build_config(first: int = 2, recent: int = 10, *, room: int = 2_000) -> CompactionConfig:
    return CompactionConfig(keep_first_turns=first, keep_recent_turns=recent, max_summary_tokens=room)


def get_summary_lines(section: CompactedSection) -> list[str]:
    return [get_text(m) for m in section.messages if get_text(m).startswith("[Summary] ")]


def test_keep_first_is_bounded_by_the_turns_there_are() -> None:
    assert OWN.keep_first(*make_record(20), build_config()) == TurnRange(0, 1)
    assert OWN.keep_first(*make_record(1), build_config()) == TurnRange(0, 0)
    assert OWN.keep_first(LoopRecord("r", ()), TurnMap(()), build_config()) is None


def test_no_first_turns_means_none() -> None:
    """The original subtracts without going below zero, so keep_first_turns = 0 still keeps turn 0."""
    assert OWN.keep_first(*make_record(20), build_config(0)) is None
    session = make_session([make_loop(20)], blocks(COUNTER, keep_first_turns=0))
    session.compact(to=count_view_tokens(session) * 3 // 4)
    assert get_texts(session.view.get_messages())[1] == "[Summary] I look at part 0."
    made = get_loop_records(session)[0].compaction_block
    assert made is not None
    assert made.keep_first is None


def test_keep_recent_cuts_outputs_and_changes_nothing_else() -> None:
    kept = OWN.keep_recent(*make_record(20), build_config(2, 5))
    assert kept is not None
    assert kept.range == TurnRange(15, 19)
    originals = [m for n in range(15, 20) for m in make_turn(n, lines=200)]
    assert [m.role for m in kept.messages] == [m.role for m in originals]
    for new, old in zip(kept.messages, originals, strict=True):
        if old.role == "tool":
            assert "[... 150 lines removed ...]" in get_text(new)
            assert replace(new, parts=()) == replace(old, parts=())
        else:
            assert new == old


def test_the_published_example_twenty_turns() -> None:
    made = OWN.compact(make_record(20)[0], build_config(2, 5), True)
    assert made.keep_first == TurnRange(0, 1)
    assert made.keep_compacted is not None
    assert made.keep_recent is not None
    assert made.keep_compacted.range == TurnRange(2, 14)
    assert len(get_summary_lines(made.keep_compacted)) == 13
    assert made.keep_recent.range == TurnRange(15, 19)
    older = OWN.compact(make_record(20)[0], build_config(2, 5), False)
    assert (older.keep_first, older.keep_recent) == (None, None)
    assert older.keep_compacted is not None
    assert (older.keep_compacted.range, len(get_summary_lines(older.keep_compacted))) == (TurnRange(0, 19), 20)
    assert OWN.keep_compacted(*make_record(7), build_config(2, 5), True) is None


def test_the_session_does_what_the_strategy_says() -> None:
    session = make_session([make_loop(20, lines=200)], blocks(COUNTER, keep_recent_turns=5))
    session.compact(to=count_view_tokens(session) * 3 // 4)
    made = get_loop_records(session)[0].compaction_block
    wanted = OWN.compact(make_record(20)[0], build_config(2, 5), True)
    assert made is not None
    assert made.keep_compacted is not None
    assert wanted.keep_compacted is not None
    assert made.keep_first == wanted.keep_first
    assert made.keep_compacted.range == wanted.keep_compacted.range
    assert get_summary_lines(made.keep_compacted) == get_summary_lines(wanted.keep_compacted)
    assert made.keep_recent is not None
    assert wanted.keep_recent is not None
    shown = tuple(m for m in made.keep_recent.messages if "<tenfold-summary" not in get_text(m))
    assert shown == wanted.keep_recent.messages


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
    session.compact(to=count_view_tokens(session) // 2)
    told = [m for m in session.view.get_messages() if get_text(m).startswith("[Summary] ")]
    assert len(told) >= 1
    assert count_tokens(told) <= 400
    again = get_newest_block(session)
    session.append(*make_wordy_turns(10), run="run-1")
    session.compact(to=count_view_tokens(session) // 2)
    told = [m for m in session.view.get_messages() if get_text(m).startswith("[Summary] ")]
    assert count_tokens(told) <= 400, "older lines and newer ones together"
    assert get_newest_block(session).id != again.id


def test_user_messages_of_the_middle_stay() -> None:
    """The original makes lines of answers only, so what the user said in between is lost."""
    wish = make_user_message("Never rename public functions.")
    session = make_session([[make_user_message("go"), *make_wordy_turns(10), wish, *make_wordy_turns(20)]])
    session.compact(to=count_view_tokens(session) * 7 // 10)
    assert wish in session.view.get_messages()
    session.compact(to=max(300, count_view_tokens(session) // 20))
    assert "Never rename public functions." in get_view_text(session)


def test_what_the_user_says_during_a_step_stays_when_the_step_becomes_a_line() -> None:
    """The original's lines stand for the answer alone: whatever came in beside its results is gone."""
    wish = make_user_message("Hold on, leave the tests alone.")
    call, result = make_turn(5)
    session = make_session(
        [
            [
                make_user_message("go"),
                *make_wordy_turns(5),
                call,
                wish,
                result,
                make_user_message("Look at the docs next."),
                *make_wordy_turns(20),
            ]
        ]
    )
    session.compact(to=count_view_tokens(session) * 7 // 10)
    assert "[Summary] I look at part 5." in get_texts(session.view.get_messages())
    assert wish in session.view.get_messages()


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


@pytest.mark.parametrize("turns", [1, 2, 5, 10, 11, 12, 13, 25])
def test_no_turn_stands_in_two_sections_and_none_in_no_section(turns: int) -> None:
    """The original overlaps where turns <= first + recent - 1: 10 turns load 24 messages in place of 20."""
    parts = divide_steps(turns, 2, 10, latest=True)
    assert [*parts.first, *parts.middle, *parts.recent] == list(range(turns))
    one, _ = make_record(turns)
    made = OWN.compact(one, build_config(), True)
    assert find_violations([replace(one, compaction_block=made)]) == []
    answers = sum(m.message.role == "assistant" for m in one.messages)
    loaded = (made.keep_first.end_turn + 1 if made.keep_first else 0) + sum(
        sum(m.role == "assistant" or get_text(m).startswith("[Summary]") for m in s.messages)
        for s in (made.keep_compacted, made.keep_recent)
        if s is not None
    )
    assert loaded == answers


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


def test_a_fixed_scope_is_capped_by_the_chain() -> None:
    session = make_session([make_loop(2, start=n) for n in range(4)])
    names = [r.loop_id for r in get_loop_records(session)]
    assert resolve_scope(session, names, FixedCount(3), 10**6) == 3
    assert resolve_scope(session, names[2:], FixedCount(3), 10**6) == 1
    assert resolve_scope(session, names, FixedCount(0), 10**6) == 0
    assert resolve_scope(session, ["gone", *names[2:]], FixedCount(3), 10**6) == 1, "unknown ids are not counted"


def test_a_token_budget_counts_what_is_loaded_and_the_current_loop() -> None:
    """The original counts raw sizes and leaves the current loop out, so a large loop ends the walk for good."""
    session = make_session([make_loop(2), make_loop(30, start=10, lines=100), make_loop(12, start=50)])
    names = [r.loop_id for r in get_loop_records(session)]
    taken = count_loop_tokens(session)
    assert sum(taken.values()) == count_view_tokens(session)
    window = taken["run-2"] // 2
    assert resolve_scope(session, names, TokenBudget(), window) == 2, "its originals alone are twice the window"
    assert resolve_scope(session, names[:2], TokenBudget(), window) == 1
    session.compact(to=window // 2)
    assert resolve_scope(session, names, TokenBudget(), window) == 2
    least = [
        next(w for w in range(1, 5_000) if resolve_scope(each, ["run-1", "run-2"], TokenBudget(), w))
        for each in (make_session([make_loop(8), last]) for last in ([make_user_message("go")], make_loop(8, start=50)))
    ]
    assert least[0] < 0.7 * least[1], "the current loop is charged, with what later stages leave of it at most"
    with pytest.raises(UsageError):
        resolve_scope(session, names, TokenBudget(), 0)


def test_the_preset_uses_the_same_scope() -> None:
    """The original's walk and its loading disagree; here the plan hides exactly what the scope leaves out."""
    runs = [make_loop(60, start=n * 100) for n in range(4)]
    session = make_session(runs, blocks(COUNTER, compaction_scope="token_budget"))
    names = [r.loop_id for r in get_loop_records(session)]
    window = next(w for w in range(500, 20_000, 100) if resolve_scope(session, names, TokenBudget(), w) == 2)
    session.compact(replace(session.build_call(window=window), demand="manual"))
    hidden = [r for r in get_newest_block(session).replacements if r.kind == "beyond-scope"]
    assert len(hidden) == 1
    assert hidden[0].last == len(runs[0]) - 1


def test_a_second_compaction_in_a_loop_still_has_the_originals() -> None:
    """The original overwrites the record with the compacted context, so the second compaction loses them."""
    history = make_loop(20)
    session = make_session([history])
    session.compact(to=count_view_tokens(session) * 7 // 10)
    more = [m for n in range(20, 40) for m in make_turn(n)]
    session.append(*more, run="run-1")
    session.compact(to=count_view_tokens(session) * 5 // 10)
    assert len(session.view.state.live_blocks) == 2
    (kept,) = get_loop_records(session)
    assert [m.message for m in kept.messages] == [*history, *more]
    session.undo()
    session.undo()
    assert session.view.get_messages() == [*history, *more]


def test_a_loop_compacted_while_current_keeps_its_ends_when_it_grows_old() -> None:
    """The original loads only the middle of such a loop: its first and its last turns vanish, a short one wholly."""
    session = make_session([make_loop(20)])
    session.compact(to=count_view_tokens(session) * 7 // 10)
    session.append(*make_loop(3, start=50), run="run-2")
    session.append(*make_loop(20, start=60), run="run-3")
    session.compact(to=count_view_tokens(session) * 6 // 10)
    first, second, _ = get_loop_records(session)
    assert first.compaction_block is not None
    assert first.compaction_block.keep_compacted is not None
    assert get_summary_lines(first.compaction_block.keep_compacted) == [
        f"[Summary] I look at part {n}." for n in range(20)
    ]
    assert second.compaction_block is not None
    assert second.compaction_block.keep_compacted is not None
    assert len(get_summary_lines(second.compaction_block.keep_compacted)) == 3, "a short loop does not vanish"


@ENGINE
@given(st.lists(st.integers(0, 16), min_size=1, max_size=5), st.integers(20, 80), st.integers(0, 12))
def test_the_invariants_hold_after_any_compaction(turns: list[int], percent: int, more: int) -> None:
    session = make_session([make_loop(n, start=i * 20) for i, n in enumerate(turns)])
    for _ in range(2):
        session.compact(to=max(1, count_view_tokens(session) * percent // 100))
        made = get_loop_records(session)
        assert find_violations(made) == []
        have = [r.compaction_block is not None for r in made]
        in_scope = have[have.index(True) :] if any(have) else []
        assert in_scope == sorted(in_scope, reverse=True), "the loops with a block are neighbours"
        session.append(*make_loop(more, start=200), run="run-more")


def test_broken_invariants_are_named() -> None:
    one, _ = make_record(4)
    recent = CompactedSection(TurnRange(2, 5), ())
    made = CompactionBlock(keep_first=TurnRange(0, 2), keep_recent=recent, created_at=datetime(2026, 1, 2, tzinfo=UTC))
    broken = replace(one, compaction_block=made)
    found = find_violations([broken, one])
    assert len(found) == 3
    assert any("overlap" in f for f in found)
    good = replace(broken, compaction_block=OWN.compact(one, build_config(1, 1), True))
    older = replace(broken, compaction_block=OWN.compact(one, build_config(1, 1), False))
    assert find_violations([one, good]) == [], "the first is older than the scope"
    assert find_violations([older, one, good]) == ["r: no block, though an earlier and a later loop have one"]


def test_a_loop_too_short_to_change_has_a_block_where_a_later_one_has() -> None:
    session = make_session([make_loop(0), make_loop(20, start=10)])
    assert session.compact(to=count_view_tokens(session) * 3 // 4).status == "compacted"
    first, second = get_loop_records(session)
    assert first.compaction_block is not None
    assert second.compaction_block is not None
    assert first.compaction_block.keep_compacted == CompactedSection(TurnRange(0, 0), tuple(make_loop(0)))
    assert first.compaction_block.created_at == second.compaction_block.created_at
    session.undo()
    assert [r.compaction_block for r in get_loop_records(session)] == [None, None]


def test_a_chain_follows_parents_leaves_siblings_out_and_refuses_circles() -> None:
    """The original's manual compaction makes a loop its own parent, and its walk has no guard against that."""
    a, b = LoopRecord("a", ()), LoopRecord("b", (), "a")
    again = LoopRecord("b-again", (), "a")
    assert [r.loop_id for r in walk_chain([a, b, again, LoopRecord("c", (), "b-again")], "c")] == ["a", "b-again", "c"]
    with pytest.raises(BadInput, match="its own ancestor"):
        walk_chain([LoopRecord("a", (), "a")], "a")
    with pytest.raises(NotFoundError):
        walk_chain([b], "b")
    session = make_session([make_loop(2), make_loop(2)])
    assert [r.loop_id for r in walk_chain(get_loop_records(session), "run-2")] == ["run-1", "run-2"]


def test_without_run_ids_an_exchange_is_a_loop() -> None:
    session = make_session([])
    session.append(make_system_message(), *make_loop(3), *make_loop(2, start=10))
    assert [(r.loop_id, len(r.messages)) for r in get_loop_records(session)] == [("exchange-1", 8), ("exchange-2", 5)]
    steered = [make_call("a"), make_user_message("quickly!"), make_result("a", "ok")]
    session.append(*steered)
    assert len(get_loop_records(session)) == 2, "what the user says during a step opens no loop"


@ENGINE
@given(log=conversations.long_logs(), percent=st.integers(5, 80))
def test_measured_is_shown_and_originals_stay_whatever_the_history(log: Log, percent: int) -> None:
    """The original measures one list, sends another, and overwrites the record it compacted."""
    session = conversations.open_session(log, blocks(COUNTER, keep_recent_turns=3))
    outcome = session.compact(to=max(1, count_view_tokens(session) * percent // 100))
    if outcome.status == "compacted":
        assert outcome.tokens_after == count_view_tokens(session) == count_tokens(session.view.get_messages())
        assert outcome.tokens_after <= outcome.target or outcome.target_missed
    made = get_loop_records(session)
    assert [m.message for r in made for m in r.messages] == conversations.extract_messages(log)
