"""How far back `blocks` loads: the scope counts loops by what they take compacted, and governs loading by itself."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tenfold.core.record.message import Message, get_text
from tenfold.designs.blocks import (
    CompactionConfig,
    CompactionScope,
    FixedCount,
    TokenBudget,
    build_context_from_session,
    compact_session_loops,
    get_loop_records,
    resolve_scope,
)
from tenfold.designs.blocks.policy import blocks
from tenfold.session import Session
from tests.designs.blocks.making import (
    COUNTER,
    count_tokens,
    count_view_tokens,
    get_loop_block,
    get_newest_block,
    get_ranges,
    get_texts,
    make_loop,
    make_session,
    make_system_message,
    make_turn,
)
from tests.laws.strategies import ENGINE

WINDOW = 20_000


def make_loops_with_a_large_one() -> list[list[Message]]:
    """Four loops; the third alone takes more than the window."""
    loops = [make_loop(3), make_loop(3, start=20), make_loop(40, start=40, lines=60), make_loop(3, start=100)]
    assert count_tokens(loops[2]) > 2 * WINDOW
    return loops


def find_hidden_kinds(session: Session) -> list[str]:
    return [r.kind for r in get_newest_block(session).replacements if r.kind == "beyond-scope"]


def test_a_loop_larger_than_the_window_stays_in_scope_by_what_it_takes_compacted() -> None:
    """The original's walk charges raw messages, so it ends at this loop although its summary would fit."""
    loops = make_loops_with_a_large_one()
    session = make_session(loops, blocks(COUNTER, compaction_scope="token_budget"))
    names = [r.loop_id for r in get_loop_records(session)]
    assert resolve_scope(session, names, TokenBudget(), WINDOW) == 3
    assert session.compact(window=WINDOW).status == "compacted"
    assert find_hidden_kinds(session) == []
    shown = get_texts(session.view.get_messages())
    assert all(f"Go over the parts from {start} on." in shown for start in (0, 20, 40, 100))
    assert "[Summary] I look at part 1." in shown
    assert "[Summary] I look at part 21." in shown
    assert any("part 79" in text for text in shown)
    assert resolve_scope(session, names, TokenBudget(), WINDOW) == 3, "compacted, they take as little as they would"


def test_a_large_current_loop_is_charged_what_it_takes_compacted_too() -> None:
    loops = make_loops_with_a_large_one()
    session = make_session([*loops[:2], loops[2]], blocks(COUNTER, compaction_scope="token_budget"))
    assert resolve_scope(session, ["run-1", "run-2", "run-3"], TokenBudget(), WINDOW) == 2
    session.compact(window=WINDOW)
    assert find_hidden_kinds(session) == []


def test_the_walk_stops_where_the_window_would_be_exceeded() -> None:
    session = make_session([make_loop(40, start=n * 100) for n in range(6)])
    names = [r.loop_id for r in get_loop_records(session)]
    counts = [resolve_scope(session, names, TokenBudget(), window) for window in range(200, 6_000, 100)]
    assert counts == sorted(counts)
    assert counts[0] == 0
    assert counts[-1] == 5
    assert set(counts) == {0, 1, 2, 3, 4, 5}
    assert resolve_scope(session, ["gone", *names[3:]], TokenBudget(), 10**6) == 2, "unknown ids are not counted"
    assert resolve_scope(session, names[:3], TokenBudget(), 10**6) == 2


def test_hidden_loops_are_not_in_scope() -> None:
    loops = [make_loop(5, start=n * 10) for n in range(7)]
    session = make_session(loops, blocks(COUNTER, compaction_scope=2))
    names = [r.loop_id for r in get_loop_records(session)]
    assert resolve_scope(session, names, FixedCount(6), 10**6) == 6
    session.compact(to=count_view_tokens(session) * 6 // 10)
    assert find_hidden_kinds(session) == ["beyond-scope"]
    assert resolve_scope(session, names, FixedCount(6), 10**6) == 2
    assert resolve_scope(session, names, TokenBudget(), 10**6) == 2
    session.undo()
    assert resolve_scope(session, names, FixedCount(6), 10**6) == 6


def test_a_later_plan_counts_no_hidden_loop() -> None:
    loops = [make_loop(5, start=n * 10) for n in range(6)]
    with_hidden = make_session(loops, blocks(COUNTER, compaction_scope=2))
    with_hidden.compact(to=count_view_tokens(with_hidden) * 6 // 10)
    hidden_first = get_newest_block(with_hidden).replacements[0]
    assert hidden_first.kind == "beyond-scope"
    more = make_loop(30, start=200)
    with_hidden.append(*more, run="run-7")
    with_hidden.compactor.use_policy(blocks(COUNTER, compaction_scope=3))
    with_hidden.compact(to=count_view_tokens(with_hidden) * 6 // 10)
    assert find_hidden_kinds(with_hidden) == [], "three earlier loops are in view, and none of them is a hidden one"
    shown = get_texts(with_hidden.view.get_messages())
    assert all(f"Go over the parts from {start} on." in shown for start in (30, 40, 50, 200))


def test_scope_governs_loading_before_any_compaction() -> None:
    loops: Sequence[list[Message]] = [make_loop(3, start=n * 10) for n in range(6)]
    session = make_session(loops)
    assert build_context_from_session(session, "run-6") == [m for loop in loops[2:] for m in loop]
    one = CompactionConfig(compaction_scope=FixedCount(1))
    assert build_context_from_session(session, "run-6", one, 100_000) == [*loops[4], *loops[5]]
    assert build_context_from_session(session, "run-3", one, 100_000) == [*loops[1], *loops[2]]
    everything = CompactionConfig(compaction_scope=TokenBudget())
    assert build_context_from_session(session, "run-6", everything, 100_000) == [m for loop in loops for m in loop]
    few = build_context_from_session(session, "run-6", everything, 250)
    assert few[-len(loops[5]) :] == loops[5]
    assert len(few) < sum(map(len, loops))
    assert session.view.get_messages() == [m for loop in loops for m in loop], "loading changes nothing"


def test_loading_leaves_out_no_system_prompt_no_pin_and_no_summary() -> None:
    session = make_session([])
    session.append(make_system_message(), run="run-1")
    pinned = session.append(*make_loop(2), run="run-1")[0]
    session.pin(pinned)
    for n in range(2, 7):
        session.append(*make_loop(2, start=n * 10), run=f"run-{n}")
    none = CompactionConfig(compaction_scope=FixedCount(0))
    loaded = build_context_from_session(session, "run-6", none, 100_000)
    assert loaded == [make_system_message(), make_loop(2)[0], *make_loop(2, start=60)]
    session.compact(to=count_view_tokens(session) * 6 // 10)
    summaries = [m for m in session.view.get_messages() if "<tenfold-summary" in get_texts([m])[0]]
    assert summaries
    assert [m for m in build_context_from_session(session, "run-6", none) if m in summaries] == summaries


def test_an_explicit_call_compacts_whatever_the_trigger_says() -> None:
    """20 turns take a few per cent of the window: no trigger fires, and the block is made all the same."""
    session = make_session([make_loop(20, lines=60)])
    assert session.compact(window=200_000).status == "nothing"
    assert compact_session_loops(session, "run-1", None, CompactionConfig(), 200_000).status == "compacted"
    block = get_loop_block(session)
    assert get_ranges(block) == [(0, 1), (2, 9), (10, 19)]
    assert block.keep_recent is not None
    results = [m for m in block.keep_recent.messages if m.role == "tool"]
    assert len(results) == 10
    assert all("[... 10 lines removed ...]" in get_text(m) for m in results)


def test_explicit_calls_in_a_row_change_nothing_more() -> None:
    session = make_session([make_loop(6), make_loop(20, start=20)])
    assert compact_session_loops(session, "run-2", None, CompactionConfig(), 200_000).status == "compacted"
    shown = session.view.get_messages()
    for _ in range(3):
        assert compact_session_loops(session, "run-2", None, CompactionConfig(), 200_000).status == "nothing"
    assert session.view.get_messages() == shown
    session.append(*make_turn(90), run="run-2")
    assert compact_session_loops(session, "run-2", None, CompactionConfig(), 200_000).status == "compacted"
    assert get_ranges(get_loop_block(session, 1))[2] == (11, 20), "it is made anew"


def test_an_explicit_call_above_the_target_goes_down_to_it() -> None:
    session = make_session([make_loop(6), make_loop(40, start=20)])
    window = count_view_tokens(session) * 3 // 2
    outcome = compact_session_loops(session, "run-2", None, CompactionConfig(), window)
    assert outcome.status == "compacted"
    assert count_view_tokens(session) <= window * 4 // 10


@ENGINE
@given(st.lists(st.integers(1, 30), min_size=2, max_size=6), st.integers(3_000, 40_000), st.integers(20, 200))
def test_whatever_the_loops_scope_and_plan_agree(turns: list[int], window: int, lines: int) -> None:
    loops = [make_loop(n, start=i * 50, lines=lines) for i, n in enumerate(turns)]
    session = make_session(loops, blocks(COUNTER, compaction_scope="token_budget"))
    names = [r.loop_id for r in get_loop_records(session)]
    many = resolve_scope(session, names, TokenBudget(), window)
    outcome = session.compact(replace(session.compactor.build_call(window=window), demand="manual"))
    if outcome.status != "compacted":
        return
    hidden = [r for r in get_newest_block(session).replacements if r.kind == "beyond-scope"]
    assert bool(hidden) == (many < len(loops) - 1)
    if hidden:
        assert hidden[-1].last == sum(map(len, loops[: len(loops) - 1 - many])) - 1


@pytest.mark.parametrize("scope", [FixedCount(3), TokenBudget()])
def test_a_chain_without_a_loop_in_view_has_nothing_in_scope(scope: CompactionScope) -> None:
    session = make_session([make_loop(5, start=n * 10) for n in range(5)], blocks(COUNTER, compaction_scope=2))
    session.compact(to=count_view_tokens(session) * 6 // 10)
    assert find_hidden_kinds(session) == ["beyond-scope"]
    for chain in ([], ["gone"], ["run-1"], ["run-1", "run-2"]):
        assert resolve_scope(session, chain, scope, WINDOW) == 0
    assert build_context_from_session(session, "run-2", CompactionConfig(compaction_scope=scope), WINDOW) == []
    assert resolve_scope(make_session([]), ["run-1"], scope, WINDOW) == 0


def test_a_run_that_goes_on_after_another_is_a_loop_of_its_own() -> None:
    session = make_session([make_loop(12), make_loop(3, start=100)])
    session.append(*make_loop(12, start=200), run="run-1")
    records = get_loop_records(session)
    assert [(r.loop_id, r.parent_loop_id) for r in records] == [
        ("run-1", None),
        ("run-2", "run-1"),
        ("run-1 (2)", "run-2"),
    ]
    assert build_context_from_session(session, "run-1") == build_context_from_session(session, "run-1 (2)")
    assert compact_session_loops(session, "run-1", None, CompactionConfig(), WINDOW).status == "compacted"
    assert all(r.compaction_block is not None for r in get_loop_records(session))
