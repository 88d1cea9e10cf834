"""Stages that replace whole ranges by a summary."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.plan.draft import (
    SUMMARY,
    UNWRITTEN_SUMMARY,
    Draft,
    DraftPiece,
    Goal,
    is_summary_unit,
    join_pieces,
)
from tenfold.compaction.plan.recent_tail import TailSize, find_tail
from tenfold.compaction.plan.stages.elide import TruncateOutputsStage
from tenfold.compaction.plan.stubs import build_step_stub
from tenfold.core.record.block import Substitute
from tenfold.core.record.token_reading import NO_TOKENS, Counted
from tenfold.core.view.units import MessageKey

STEP_STUB = "one-line"
"""The kind of a replacement of one step by a line."""


NEWEST_QUOTE = 240
"""Characters of each result that are quoted of the newest step, which the model has not acted on yet."""


class SummarizePrefixStage(Struct, frozen=True):
    """Replaces everything before the recent tail by one summary, after the user's own messages as far as they fit.

    An earlier summary in the range is updated, not summarized as text.
    """

    name: ClassVar[str] = "summarize-prefix"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Cuts where the tail uses up the rest of the target, and plans one summary over what lies before.

        A step too large for what is left becomes one line, so that one giant step does not end the tail. Of the newest
        one, which says where the work stands, head and tail of the results stay.
        """
        first = draft.floor_end
        kept = draft.measure_kept(goal.user_budget)
        size = TailSize(budget=goal.target - draft.count_fixed(kept) - goal.summary_budget)

        def shorten(piece: DraftPiece, budget: int) -> DraftPiece | None:
            return shorten_newest_step(draft, piece, goal, budget) or condense_step(draft, piece, goal)

        tail = find_tail(draft, size, first, kept=kept, shorten=shorten)
        covered = draft.pieces[first : tail.start]
        if not any(p.units[0].visible_messages for p in covered):
            return tail.draft
        return tail.draft.with_piece(first, build_summary(draft, covered, kept, goal.summary_budget), until=tail.start)


class CutAtStage(Struct, frozen=True):
    """Summarizes what lies before the entry at `position`: for a summary that exists already and has its own size."""

    position: int
    name: ClassVar[str] = "cut-at"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:  # noqa: ARG002 - the place is given, no size decides
        """Plans one summary over everything before the position. Changes nothing where no piece begins there."""
        first = draft.floor_end
        starts = [p.first for p in draft.pieces]
        if draft.view.open_step is not None:
            starts.append(draft.view.open_step.first)
        if self.position not in starts or starts.index(self.position) <= first:
            return draft
        until = starts.index(self.position)
        piece = build_summary(draft, draft.pieces[first:until], draft.protected, Counted(1))
        return draft.with_piece(first, piece, until=until)


def shorten_newest_step(draft: Draft, piece: DraftPiece, goal: Goal, budget: int) -> DraftPiece | None:
    """Cuts the results of the newest step to head and tail, to a fifth of the target. None for any other piece."""
    newest = next((p for p in reversed(draft.pieces) if count_results(p)), None)
    if newest is None or newest.first != piece.first or not piece.can_change:
        return None
    room = min(goal.target // _RESULTS_SHARE, budget) // count_results(piece)
    if room < _LEAST_RESULT_TOKENS:
        return None
    cut = TruncateOutputsStage(room, room // 4).apply(replace(draft, pieces=(piece,)), goal).pieces[0]
    return cut if cut.tokens <= budget else None


_RESULTS_SHARE, _LEAST_RESULT_TOKENS = 5, 60
"""Which part of the target the newest results may take, and the fewest tokens of one that say anything."""


def count_results(piece: DraftPiece) -> int:
    """Counts the results of tools in a piece that are in view as they came."""
    return sum(s.message.role == "tool" and s.is_original for s in piece.get_visible_messages())


def condense_step(draft: Draft, piece: DraftPiece, goal: Goal) -> DraftPiece | None:
    """Turns a closed step into one line. None for what is no step, is protected, or would not get shorter."""
    shown = piece.get_visible_messages()
    if not piece.can_change or piece.units[0].block_part is not None:
        return None
    if not shown or shown[0].message.role != "assistant" or any(s.message.role == "user" for s in shown):
        return None
    quoted = NEWEST_QUOTE if piece.last == draft.pieces[-1].last else 0
    stub = build_step_stub(draft, shown, goal.recall, quoted_characters=quoted)
    item = draft.measure_substitute(stub)
    return piece.with_items([item], STEP_STUB, "one line for the step") if item[1] < piece.tokens else None


def build_summary(
    draft: Draft, covered: Sequence[DraftPiece], kept: Container[MessageKey], budget: Counted
) -> DraftPiece:
    """Builds one piece with a summary over these pieces, after those of their messages that stay."""
    stays = draft.measure_items([s for p in covered for s in p.get_visible_messages() if s.key in kept])
    items = [*stays, (Substitute(UNWRITTEN_SUMMARY), budget)]
    return join_pieces(covered, items, SUMMARY, describe_change(covered, len(stays), "one summary"))


def describe_change(covered: Sequence[DraftPiece], kept_count: int, what: str) -> str:
    """Describes what becomes of these pieces' messages, and how many of them stay word for word."""
    stay = f", {kept_count:,} of them {'stays' if kept_count == 1 else 'stay'}" if kept_count else ""
    count = count_messages(covered)
    return f"{count:,} {'message becomes' if count == 1 else 'messages become'} {what}{stay}"


def count_messages(pieces: Sequence[DraftPiece]) -> int:
    """Counts the messages in view for these pieces."""
    return sum(len(p.get_visible_messages()) for p in pieces)


class MergeStage(Struct, frozen=True):
    """Puts a parent over the oldest summaries of a level that holds more than `fan_out`."""

    fan_out: int = 4
    name: ClassVar[str] = "merge"
    structural: ClassVar[bool] = True

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Merges the first run of more than `fan_out` neighbouring summaries of one level, except for the newest."""
        run = _find_run(draft, self.fan_out)
        if len(run) <= self.fan_out:
            return draft
        covered = draft.pieces[run[0] : run[-1]]
        allotment = max(
            goal.summary_overhead, min(goal.summary_budget, sum((p.tokens for p in covered), NO_TOKENS) // 2)
        )
        piece = build_summary(draft, covered, draft.protected, allotment)
        return draft.with_piece(run[0], replace(piece, reason=f"merges {len(run) - 1} summaries"), until=run[-1])


def _find_run(draft: Draft, fan_out: int) -> list[int]:
    """Returns the first run of more than `fan_out` neighbouring summaries of one level, else the last run."""
    run: list[int] = []
    run_level: int | None = None
    for index, piece in enumerate(draft.pieces):
        if not piece.get_visible_messages():  # Block entries show nothing, and lie between the summaries
            continue
        level = _get_summary_level(draft, piece)
        if level is not None and level == run_level:
            run.append(index)
            continue
        if len(run) > fan_out:
            break
        run, run_level = [] if level is None else [index], level
    return run


def _get_summary_level(draft: Draft, piece: DraftPiece) -> int | None:
    ref = piece.units[0].block_part
    if piece.is_changed or ref is None or not is_summary_unit(draft.view, piece.units[0]):
        return None
    return draft.view.get_replacement(ref).level
