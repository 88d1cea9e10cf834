"""The one walk that finds where a recent tail begins, in each unit, and the budgets that say how large it may be."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tenfold.compaction.plan.draft import Draft, DraftPiece, Goal, start_draft
from tenfold.compaction.plan.recent_tail import Tail, TailSize, find_outside_tail, find_tail
from tenfold.core.meter.counters import measure_messages
from tenfold.core.record.message import Message
from tenfold.core.record.token_reading import NO_TOKENS, Counted
from tenfold.designs.tail.cut import CutSizes, ReserveBudgets
from tenfold.designs.threshold.trigger import get_text_limit
from tests.engine.making import (
    COUNTER,
    build_view,
    make_call,
    make_measures,
    make_read_step,
    make_reply,
    make_user_message,
)

GOAL = Goal(Counted(9_000), Counted(9_000), NO_TOKENS, NO_TOKENS, Counted(60), Counted(60))
STEPS = [make_user_message("go"), *[m for n in range(6) for m in make_read_step(n, f"f{n}")], make_reply("done")]
"""A request, six steps of two messages, an answer: eight pieces."""


def make_draft(messages: list[Message]) -> Draft:
    return start_draft(
        build_view(messages), make_measures().token_cache.measure, lambda told: measure_messages(told, COUNTER)
    )


DRAFT = make_draft(STEPS)
STEP_TOKENS = DRAFT.pieces[1].tokens


def find_start(size: TailSize, draft: Draft = DRAFT, first: int = 0) -> int:
    return find_tail(draft, size, first).start


@pytest.mark.parametrize(("messages", "start"), [(0, 8), (1, 7), (2, 6), (3, 6), (4, 5), (99, 0)])
def test_a_step_that_is_partly_among_the_messages_stays_whole(messages: int, start: int) -> None:
    assert find_start(TailSize(messages)) == start


def test_the_open_step_counts_first() -> None:
    draft = make_draft([*STEPS, make_call("open")])
    assert [find_start(TailSize(n), draft) for n in (0, 1, 2)] == [8, 8, 7]
    open_tokens = draft.fixed_tokens
    assert find_start(TailSize(tokens=open_tokens), draft) == 8
    assert find_start(TailSize(tokens=open_tokens + 1), draft) == 7


def test_tokens_are_rounded_down_to_whole_pieces() -> None:
    last = DRAFT.pieces[-1].tokens
    call_tokens = DRAFT.pieces[6].sizes[0]
    assert find_start(TailSize(tokens=last)) == 7
    assert find_start(TailSize(tokens=last + STEP_TOKENS - call_tokens)) == 7, "a result reaches them, so its step goes"
    assert find_start(TailSize(tokens=last + STEP_TOKENS)) == 6, "the call reaches them, and it opens the step"


def test_a_budget_holds_whatever_else_would_be_in_the_tail() -> None:
    last = DRAFT.pieces[-1].tokens
    assert find_start(TailSize(budget=last + STEP_TOKENS - 1)) == 7
    assert find_start(TailSize(budget=last + STEP_TOKENS)) == 6
    assert find_start(TailSize(messages=99, budget=last)) == 7
    assert find_start(TailSize(budget=last + STEP_TOKENS), first=7) == 7


def test_kept_messages_cost_no_budget() -> None:
    step = DRAFT.pieces[6].get_visible_messages()
    kept = dict(zip((s.key for s in step), DRAFT.pieces[6].sizes, strict=True))
    budget = DRAFT.pieces[-1].tokens
    assert find_tail(DRAFT, TailSize(budget=budget), kept=kept).start == 6


def test_a_piece_is_taken_as_it_was_shortened_if_that_fits() -> None:
    def shorten(piece: DraftPiece, _budget: int) -> DraftPiece:
        return piece.with_items([(piece.get_sized_items()[0][0], Counted(7))], "shorter", "")

    last = DRAFT.pieces[-1].tokens
    tail: Tail = find_tail(DRAFT, TailSize(budget=last + 14), shorten=shorten)
    assert tail.start == 5
    assert [p.kind for p in tail.draft.pieces] == ["keep"] * 5 + ["shorter"] * 2 + ["keep"]
    assert find_tail(DRAFT, TailSize(budget=last + 6), shorten=shorten).start == 7


def test_the_tail_ends_before_what_may_not_be_in_it() -> None:
    assert find_tail(DRAFT, TailSize(), ends_before=lambda piece: piece is DRAFT.pieces[3]).start == 4


def test_one_giant_output_does_not_leave_everything_before_it_outside_the_tail() -> None:
    giant = [make_call("g"), *make_read_step(9, "g", words=400)[1:]]
    draft = make_draft([*STEPS[:-1], *giant, make_reply("ok")])
    outside = find_outside_tail(draft, replace(GOAL, tail_budget=6 * STEP_TOKENS))
    assert outside == [0, 1, 2, 3, 4, 7]


def test_a_known_window_bounds_tail_and_summary() -> None:
    budgets = ReserveBudgets()
    sizes = [budgets.get_reserve(200_000), budgets.get_tail_tokens(200_000, 0), budgets.get_summary_budget(200_000, 0)]
    assert sizes == [8_192, 16_384, 6_553]
    sizes = [budgets.get_reserve(8_192), budgets.get_tail_tokens(8_192, 0), budgets.get_summary_budget(8_192, 0)]
    assert sizes == [4_096, 2_048, 1_024]
    assert budgets.get_tail_tokens(8_192, 2_096) == 1_000
    assert budgets.get_tail_tokens(8_192, 9_000) == budgets.get_summary_budget(8_192, 9_000) == 0


def test_sizes_of_the_window_shrink_as_the_target_did() -> None:
    budgets = ReserveBudgets()
    aim = budgets.get_target(200_000, 0)
    asked = replace(GOAL, target=aim // 2, window=200_000)
    got = budgets.find_sizes(asked, 0)
    assert (got.tail, got.text) == (16_384 // 2, 6_553)
    assert got.ceiling == pytest.approx((200_000 - 8_192) * 4 // 5 // 2, abs=5)
    named = budgets.find_sizes(replace(asked, exact=True), 0)
    assert (named.tail, named.ceiling) == (16_384, 0)
    assert budgets.find_sizes(replace(asked, window=None), 0) == CutSizes(Counted(16_384), Counted(6_553))


@pytest.mark.parametrize(("window", "limit"), [(200_000, 10_000), (8_000, 800)])
def test_half_the_buffer_is_for_the_text(window: int, limit: int) -> None:
    assert get_text_limit(window) == limit
