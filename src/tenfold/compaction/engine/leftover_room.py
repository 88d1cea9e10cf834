"""Gives what the written texts leave of the target back to the outputs that were elided: room in a view is for content.

A plan reserves what a summary may take, and code or a model may write less. Where the written view is far below its
target, the newest elided outputs are shown again: whole where they fit, else head and tail.
"""

from __future__ import annotations

from msgspec.structs import replace

from tenfold.compaction.engine.compaction_case import CompactionCase
from tenfold.compaction.plan.draft import Draft, DraftPiece, Goal, build_replacements, find_unwritten
from tenfold.compaction.plan.pipeline import Plan
from tenfold.compaction.plan.stages import ClearStage, SupersededReadsStage, TruncateStage
from tenfold.compaction.plan.stages.condense import STEP_STUB
from tenfold.compaction.plan.stages.elide import TruncateOutputsStage, share_room
from tenfold.compaction.summarize.fill import FilledPlan
from tenfold.core.record.block import Replacement

LEAST_SHARE = 0.1
"""The share of the target that has to be left over."""
_CUT_TOKENS = 60
"""What the frame of an output may take, with the marker of what was cut."""
_KINDS = ((STEP_STUB, ClearStage.name, TruncateStage.name, TruncateOutputsStage.name), (SupersededReadsStage.name,))
"""What is shown again: first what was hidden for its size alone, then what a later message has made out of date."""


def use_leftover_room(case: CompactionCase, plan: Plan, filled: FilledPlan) -> tuple[Plan, FilledPlan]:
    """Returns the plan and its texts with elided outputs shown again, newest first, where the target has room."""
    draft, goal = plan.draft, plan.goal
    written = {each.first: each for each in filled.replacements}
    sizes = {first: sum(each.sizes) for first, each in written.items()}
    room = goal.target - draft.fixed_tokens - sum(sizes.get(p.first, p.tokens) for p in draft.pieces)
    if case.call.to is not None or not goal.names_budget or room < LEAST_SHARE * goal.target:
        return plan, filled
    pieces = list(draft.pieces)
    for kinds in _KINDS:
        for index in reversed(range(len(pieces))):
            piece = pieces[index]
            if piece.kind not in kinds or piece.protected_reason or room < _CUT_TOKENS:
                continue
            size = sizes[piece.first]
            longer = _show_more(draft, piece, written[piece.first], size + room, goal)
            if size < longer.tokens <= size + room:
                room -= longer.tokens - size
                pieces[index] = longer
                written.pop(piece.first)
                written |= {each.first: each for each in build_replacements(replace(draft, pieces=(longer,)))}
    draft = replace(draft, pieces=tuple(pieces))
    kept = tuple(written[first] for first in sorted(written))
    return replace(plan, draft=draft, tokens_after=draft.tokens), replace(filled, replacements=kept)


def _show_more(draft: Draft, piece: DraftPiece, written: Replacement, limit: int, goal: Goal) -> DraftPiece:
    """Returns an elided piece as it was before, with its outputs cut to head and tail if it is above the limit.

    The section of facts that was `written` into it stays.
    """
    at = find_unwritten(piece.shown_items) if piece.summary_budget else 0
    has_section = piece.summary_budget > 0 and len(written.shown_items) == len(piece.shown_items)
    section = [(written.shown_items[at], written.sizes[at])] if has_section else []
    limit -= sum(size for _, size in section)
    shown = piece.get_visible_messages()
    sizes = tuple(draft.measure_visible(shown))
    longer = replace(piece, kind="keep", shown_items=(), sizes=sizes, tokens=sum(sizes), reason="", summary_budget=0)
    outputs = [size for each, size in zip(shown, sizes, strict=True) if each.message.origin == "tool"]
    room = limit - longer.tokens + sum(outputs)
    if longer.tokens > limit and room > 0:
        share = max(1, share_room(room, outputs) - _CUT_TOKENS)
        cut = TruncateOutputsStage(share, share).apply(replace(draft, pieces=(longer,)), goal)
        longer = cut.pieces[0]
    if not section:
        return longer
    items = longer.get_sized_items()
    return longer.with_items([*section, *items] if at == 0 else [*items, *section], piece.kind, piece.reason)
