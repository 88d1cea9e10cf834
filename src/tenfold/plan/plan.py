"""Builds the Plan: what becomes of each range, as a value that prints itself before anything runs.

`build_plan` runs the stages in order and measures the view again after each one. It stops at the target. A stage that
does not shrink the view is discarded, except for structural ones (merge, clip).
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
    """One way of making a view smaller. `structural` stages are kept even if they do not shrink it."""

    @property
    def name(self) -> str:
        """The name that `explain()` prints."""
        ...

    @property
    def structural(self) -> bool:
        """Whether its result is kept even if it does not shrink the view."""
        ...

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Returns the draft with this stage's changes. Must not touch a protected piece."""
        ...


class Step(Struct, frozen=True):
    """What one stage did: tokens before and after it, and whether its result was kept."""

    stage: str
    before: int
    after: int
    kept: bool


class Plan(Struct, frozen=True):
    """What will become of each range. `tokens_after` is an upper bound that is known before any model is called."""

    draft: Draft
    goal: Goal
    steps: tuple[Step, ...]
    tokens_before: int
    tokens_after: int

    @property
    def changed(self) -> tuple[Piece, ...]:
        """The pieces that a Block would replace."""
        return tuple(p for p in self.draft.pieces if p.changed)

    def explain(self) -> str:
        """Prints every range: what becomes of it, tokens before and after, and why. Kept neighbours share a line."""
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
    """Builds the Plan that brings the draft to the goal's target, or as near as the stages can.

    With `allow_summaries` False, only stages that need no written text take part.
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
    """Whether the draft is small enough.

    A summary contains the facts. Without one, their budget is still to be added, so `stage_target` counts.
    """
    return draft.tokens <= (goal.target if any(p.allotment for p in draft.pieces) else goal.stop)


SPARE = 16
"""Tokens that a Block's id may take above those of the id that stands in for it in a Plan."""
MOVED = "facts-moved"
"""The kind of a replacement of a summary from a host's list, whose facts move into a newer section."""


def renewed(plan: Plan, now: Callable[[Message], Message | None]) -> Plan:
    """Returns the Plan, if it changes anything, with earlier summaries as they stand beside what it writes.

    `shorten` returns each message unchanged, shorter, or None to hide it. Nothing else in their ranges changes.
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
    """Returns what takes the place of one shown message, with its size. Empty where it is hidden."""
    if isinstance(show, Say):
        message: Message | None = show.message
    else:
        message = None if (show.position, 0, -1) in draft.held else message_of(draft.view.path.at(show.position))
    shortened = now(message) if message is not None else message
    if shortened is message:
        return [(show, size)]
    if shortened is None:
        return []
    of = show.of if isinstance(show, Say) else show.position
    return [(Say(shortened, of), min(size, draft.weigh([shortened])[0] + SPARE))]


def with_facts(plan: Plan, allotment: int) -> Plan:
    """Returns the Plan with a budget for a facts section after its newest change. For Plans without a summary."""
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
    """Adds what the target has left to the budget of the newest summary, for its facts.

    Only for a policy that shows names in use, since names can fill any budget. Others keep a facts section to its
    share.
    """
    left = plan.goal.target - plan.tokens_after
    index = max((i for i, p in enumerate(plan.draft.pieces) if p.changed and p.allotment), default=-1)
    if left <= 0 or index < 0 or not plan.goal.names:
        return plan
    piece = plan.draft.pieces[index]
    at, sizes = place_to_write(piece.show), list(piece.sizes)
    sizes[at] += left
    piece = replace(piece, sizes=tuple(sizes), allotment=piece.allotment + left, tokens=piece.tokens + left)
    draft = plan.draft.swap(index, piece)
    return replace(plan, draft=draft, tokens_after=draft.tokens, goal=replace(plan.goal, facts=plan.goal.facts + left))
