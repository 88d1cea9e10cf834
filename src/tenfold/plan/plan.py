"""The Plan: what becomes of each range, as a value that prints itself before anything runs.

`pick` runs the stages in order. After each one the view is measured again, and the stages stop at the target; a
stage that does not shrink the view is discarded, structural ones (merge, clip) excepted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from tenfold.plan.draft import TO_BE_WRITTEN, Draft, Goal, Piece, as_show, place_to_write, replaced_as
from tenfold.record.block import Say, Show
from tenfold.record.entry import message_of
from tenfold.record.message import Message


class Stage(Protocol):
    """One way of making a view smaller. `structural` stages are kept even when they do not shrink it."""

    @property
    def name(self) -> str:
        """What `explain()` calls it."""
        ...

    @property
    def structural(self) -> bool:
        """Whether its result is kept even when it does not shrink the view."""
        ...

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """The draft with this stage's changes, touching no piece that is held."""
        ...


class Step(Struct, frozen=True):
    """What one stage did: tokens before and after it, and whether its result was kept."""

    stage: str
    before: int
    after: int
    kept: bool


class Plan(Struct, frozen=True):
    """What will become of each range. `tokens_after` is an upper bound known before any model is called."""

    draft: Draft
    goal: Goal
    steps: tuple[Step, ...]
    tokens_before: int
    tokens_after: int

    @property
    def changed(self) -> tuple[Piece, ...]:
        """The pieces a Block would replace."""
        return tuple(p for p in self.draft.pieces if p.changed)

    def explain(self) -> str:
        """Every range, what becomes of it, tokens before and after, and why; consecutive kept ranges as one line."""
        lines = [
            f"plan: {self.tokens_before:,} -> at most {self.tokens_after:,} tokens (target {self.goal.target:,})",
            *(
                f"stage {s.stage}: {s.before:,} -> {s.after:,}" + ("" if s.kept else " (discarded: it saves nothing)")
                for s in self.steps
            ),
        ]
        run: list[Piece] = []
        for piece in (*self.draft.pieces, None):
            if piece is not None and not piece.changed and (not run or run[0].held == piece.held):
                run.append(piece)
                continue
            if any(p.shown() for p in run):  # Blocks and pins show nothing by themselves
                why = f" ({run[0].held})" if run[0].held else ""
                lines.append(f"  {_range(run)}  keep{why}  {sum(p.before for p in run):,} tokens")
            run = []
            if piece is None:
                continue
            if piece.changed:
                lines.append(
                    f"  {_range([piece])}  {piece.kind}  {piece.before:,} -> {piece.tokens:,} tokens  {piece.why}"
                )
            else:
                run = [piece]
        if self.draft.rest:
            lines.append(f"  open step  keep  {self.draft.rest:,} tokens")
        return "\n".join(lines)


def _range(pieces: Sequence[Piece]) -> str:
    first, last = pieces[0].first, pieces[-1].last
    return f"{first}" if first == last else f"{first}..{last}"


def pick(draft: Draft, goal: Goal, stages: Sequence[Stage], *, texts: bool = True) -> Plan:
    """The Plan that brings the draft to the goal's target, or as near as the stages can.

    With `texts` False it is made of those stages alone that need nothing written.
    """
    before = draft.tokens
    steps: list[Step] = []
    for stage in stages:
        if reached(draft, goal) and not stage.structural:
            continue
        tried = stage.apply(draft, goal)
        if not texts and any(p.allotment for p in tried.pieces):
            continue
        kept = tried.tokens < draft.tokens or (stage.structural and tried.pieces != draft.pieces)
        kept = kept or (reached(tried, goal) and not reached(draft, goal))
        if tried.pieces != draft.pieces:
            steps.append(Step(stage.name, draft.tokens, tried.tokens, kept))
        if kept:
            draft = tried
    return Plan(draft, goal, tuple(steps), before, draft.tokens)


def reached(draft: Draft, goal: Goal) -> bool:
    """Whether the draft is small enough: a summary holds the facts, without one their room is still to be added."""
    return draft.tokens <= (goal.target if any(p.allotment for p in draft.pieces) else goal.stop)


SPARE = 16
"""Tokens by which the id of a Block may take more than the one that stands in for it in a Plan."""
MOVED = "facts-moved"
"""The kind of a replacement of a summary that a list brought along, whose facts stand in a newer section."""


def renewed(plan: Plan, now: Callable[[Message], Message | None]) -> Plan:
    """The Plan, if it does anything, with earlier summaries in view as they stand beside what it writes.

    `now` gives each as it was, shorter, or None for one to be hidden. Nothing else of their ranges changes.
    """
    draft = plan.draft
    for index, piece in enumerate(draft.pieces if plan.changed else ()):
        show = piece.show if piece.changed else tuple(as_show(s) for s in piece.shown())
        stays = [new for each, size in zip(show, piece.sizes, strict=True) for new in _renewed(draft, each, size, now)]
        if [s for s, _ in stays] == list(show):
            continue
        sizes = tuple(size for _, size in stays)
        kind = piece.kind if piece.changed else replaced_as(draft, piece)
        why = piece.why or "its facts move into the newest section"
        new = replace(piece, kind=MOVED if kind == "keep" else kind, show=tuple(s for s, _ in stays), sizes=sizes)
        draft = draft.swap(index, replace(new, tokens=sum(sizes), why=why))
    return replace(plan, draft=draft, tokens_after=draft.tokens)


def _renewed(draft: Draft, show: Show, size: int, now: Callable[[Message], Message | None]) -> list[tuple[Show, int]]:
    """What stands in the place of a show, with its size; nothing where it is hidden."""
    if isinstance(show, Say):
        message: Message | None = show.message
    else:
        message = None if (show.position, 0, -1) in draft.held else message_of(draft.view.path.at(show.position))
    new = now(message) if message is not None else message
    if new is message:
        return [(show, size)]
    if new is None:
        return []
    of = show.of if isinstance(show, Say) else show.position
    return [(Say(new, of), min(size, draft.weigh([new])[0] + SPARE))]


def with_facts(plan: Plan, allotment: int) -> Plan:
    """The Plan with room for a facts section after its newest change, for Plans that make no summary."""
    index = max(i for i, p in enumerate(plan.draft.pieces) if p.changed)
    piece = plan.draft.pieces[index]
    piece = replace(
        piece,
        show=(*piece.show, Say(TO_BE_WRITTEN)),
        sizes=(*piece.sizes, allotment),
        allotment=allotment,
        tokens=piece.tokens + allotment,
        why=f"{piece.why}; with the facts of what was elided",
    )
    draft = plan.draft.swap(index, piece)
    goal = replace(plan.goal, facts=allotment - plan.goal.frame)
    return replace(plan, draft=draft, tokens_after=draft.tokens, goal=goal)


def with_rest(plan: Plan) -> Plan:
    """The Plan whose newest summary is also allotted what the target has left, for its facts.

    Only of a policy that shows names in use: those take what is left. Others keep a facts section to its share.
    """
    rest = plan.goal.target - plan.tokens_after
    index = max((i for i, p in enumerate(plan.draft.pieces) if p.changed and p.allotment), default=-1)
    if rest <= 0 or index < 0 or not plan.goal.names:
        return plan
    piece = plan.draft.pieces[index]
    at, sizes = place_to_write(piece.show), list(piece.sizes)
    sizes[at] += rest
    piece = replace(piece, sizes=tuple(sizes), allotment=piece.allotment + rest, tokens=piece.tokens + rest)
    draft = plan.draft.swap(index, piece)
    return replace(plan, draft=draft, tokens_after=draft.tokens, goal=replace(plan.goal, facts=plan.goal.facts + rest))
