"""A planned compaction as two bars: what is in view now, and what would become of each piece of it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from msgspec import Struct

from tenfold.apps.inspector.timeline import WIDTH
from tenfold.compaction.plan.draft import DraftPiece
from tenfold.compaction.plan.pipeline import Plan


class PlannedPiece(Struct, frozen=True):
    """Neighbours that are kept, or one piece that changes: its sizes now and then, and where both bars draw it."""

    first: int
    last: int
    kind: str
    reason: str
    before: int
    after: int
    x: float
    width: float
    x_after: float
    width_after: float

    @property
    def is_changed(self) -> bool:
        """Whether something else would be shown for it."""
        return self.kind != "keep"


def draw_plan(plan: Plan) -> list[PlannedPiece]:
    """Draws a plan, both bars on the scale of what is in view now."""
    pieces = list(_join_kept(plan.draft.pieces))
    fixed = plan.draft.fixed_tokens
    scale = max(1, sum(before for *_, before, _ in pieces) + fixed)
    drawn: list[PlannedPiece] = []
    x = x_after = 0.0
    for first, last, kind, reason, before, after in pieces:
        width, width_after = WIDTH * before / scale, WIDTH * after / scale
        places = round(x, 3), round(width, 3), round(x_after, 3), round(width_after, 3)
        drawn.append(PlannedPiece(first, last, kind, reason, before, after, *places))
        x, x_after = x + width, x_after + width_after
    return drawn


def _join_kept(pieces: Iterable[DraftPiece]) -> Iterable[tuple[int, int, str, str, int, int]]:
    numbered = enumerate(pieces)
    for _, group in groupby(numbered, key=lambda pair: (pair[0], True) if pair[1].is_changed else (-1, False)):
        run = [piece for _, piece in group]
        before, after = sum(piece.tokens_before for piece in run), sum(piece.tokens for piece in run)
        if before or after:
            yield run[0].first, run[-1].last, run[0].kind, run[0].reason or run[0].protected_reason, before, after
