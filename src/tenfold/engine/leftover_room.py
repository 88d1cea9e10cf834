"""Gives what the written texts leave of the target back to the outputs that were elided: room in a view is for content.

A plan reserves what a summary may take, and code or a model may write less. Where the written view is far below its
target, the newest elided outputs are shown again, whole, as far as they fit.
"""

from __future__ import annotations

from msgspec.structs import replace

from tenfold.engine.compaction_case import CompactionCase
from tenfold.plan.draft import DraftPiece
from tenfold.plan.pipeline import Plan
from tenfold.plan.stages import ClearStage, SupersededReadsStage, TruncateStage
from tenfold.plan.stages.condense import STEP_STUB
from tenfold.summarize.fill import FilledPlan

LEAST_SHARE = 0.1
"""The share of the target that has to be left over."""
_KINDS = ((STEP_STUB, ClearStage.name, TruncateStage.name), (SupersededReadsStage.name,))
"""What is shown again: first what was hidden for its size alone, then what a later message has made out of date."""


def use_leftover_room(case: CompactionCase, plan: Plan, filled: FilledPlan) -> tuple[Plan, FilledPlan]:
    """Returns the plan and its texts with elided outputs shown again, newest first, where the target has room."""
    draft, goal = plan.draft, plan.goal
    sizes = {each.first: sum(each.sizes) for each in filled.replacements}
    room = goal.target - draft.fixed_tokens - sum(sizes.get(p.first, p.tokens) for p in draft.pieces)
    if case.call.to is not None or not goal.names_budget or room < LEAST_SHARE * goal.target:
        return plan, filled
    pieces, restored = list(draft.pieces), set[int]()
    for kinds in _KINDS:
        for index in reversed(range(len(pieces))):
            piece = pieces[index]
            cost = piece.tokens_before - piece.tokens
            if piece.kind in kinds and piece.can_change and 0 < cost <= room:
                room -= cost
                pieces[index] = _restore(piece, draft.measure_visible(piece.get_visible_messages()))
                restored.add(piece.first)
    kept = tuple(each for each in filled.replacements if each.first not in restored)
    draft = replace(draft, pieces=tuple(pieces))
    return replace(plan, draft=draft, tokens_after=draft.tokens), replace(filled, replacements=kept)


def _restore(piece: DraftPiece, sizes: list[int]) -> DraftPiece:
    return replace(piece, kind="keep", shown_items=(), sizes=tuple(sizes), tokens=sum(sizes), reason="")
