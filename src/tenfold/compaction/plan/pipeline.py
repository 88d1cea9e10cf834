"""Builds the Plan: what becomes of each range, as a value that prints itself before anything runs.

`build_plan` runs the stages in order and measures the view again after each one. It stops at the target. A stage that
does not shrink the view is discarded, except for structural ones (merge).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Protocol, runtime_checkable

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.plan.draft import (
    UNWRITTEN_SUMMARY,
    Draft,
    DraftPiece,
    Goal,
    SizedItem,
    find_unanswered_step,
    get_replacement_kind,
)
from tenfold.core.record.block import Substitute
from tenfold.core.record.entry import get_message
from tenfold.core.record.message import Message
from tenfold.core.record.token_reading import NO_TOKENS, Counted
from tenfold.core.view.units import build_original_key


class Stage(Protocol):
    """Makes a view smaller in one way. A policy runs its stages in order, and stops when the view fits its target.

    Write one to elide or to summarize what the stages of Tenfold do not (docs/custom-stage.md).
    """

    @property
    def name(self) -> str:
        """The name that `Plan.explain` prints for it."""
        ...

    @property
    def structural(self) -> bool:
        """Whether the policy keeps what it did even if that has not made the view smaller."""
        ...

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Returns the draft with its changes, down to the goal at the most. It leaves protected pieces as they are."""
        ...


@runtime_checkable
class SessionStage(Stage, Protocol):
    """A stage for the runs of a session. For a plain list, its policy has other stages."""

    @property
    def list_stages(self) -> tuple[Stage, ...]:
        """The stages that take the place of all of the policy's for a list that belongs to no session."""
        ...


class StageResult(Struct, frozen=True):
    """What one stage did: tokens before and after it, and whether its result was kept."""

    stage: str
    before: Counted
    after: Counted
    kept: bool


class Plan(Struct, frozen=True):
    """What will become of each range. `tokens_after` is an upper bound that is known before any model is called."""

    draft: Draft
    goal: Goal
    stage_results: tuple[StageResult, ...]
    tokens_before: Counted
    tokens_after: Counted

    def __repr__(self) -> str:
        """Says its sizes by the counter. `explain` prints all of it."""
        pieces = f"{len(self.changed_pieces)} of {len(self.draft.pieces)} pieces change"
        return f"<Plan: {self.tokens_before:,} -> at most {self.tokens_after:,} tokens, {pieces}>"

    @property
    def changed_pieces(self) -> tuple[DraftPiece, ...]:
        """The pieces that a Block would replace."""
        return tuple(p for p in self.draft.pieces if p.is_changed)

    def explain(self) -> str:
        """Prints every range: what becomes of it, tokens before and after, and why. Kept neighbours share a line.

        The tokens are what the provider counts, or, with an explicit target, like that by the counter.
        """
        convert_size, convert_part = self.draft.reading.to_provider, self.draft.reading.to_provider_part
        before, after, target = map(convert_size, (self.tokens_before, self.tokens_after, self.goal.target))
        lines = [
            f"plan: {before:,} -> at most {after:,} tokens (target {target:,})",
            *(
                f"stage {s.stage}: {convert_size(s.before):,} -> {convert_size(s.after):,}"
                + ("" if s.kept else " (discarded: it saves nothing)")
                for s in self.stage_results
            ),
        ]
        for (_, is_changed), group in groupby(enumerate(self.draft.pieces), key=_get_line_key):
            run = [piece for _, piece in group]
            before = convert_part(sum((p.tokens_before for p in run), NO_TOKENS))
            if is_changed:
                sizes = f"{before:,} -> {convert_part(run[0].tokens):,} tokens"
                lines.append(f"  {_format_range(run)}  {run[0].kind}  {sizes}  {run[0].reason}")
            elif any(p.get_visible_messages() for p in run):  # Blocks and pins show nothing by themselves
                why = f" ({run[0].protected_reason})" if run[0].protected_reason else ""
                lines.append(f"  {_format_range(run)}  keep{why}  {before:,} tokens")
        if self.draft.fixed_tokens:
            lines.append(f"  open step  keep  {convert_part(self.draft.fixed_tokens):,} tokens")
        return "\n".join(lines)


def _get_line_key(numbered: tuple[int, DraftPiece]) -> tuple[int | str, bool]:
    """Groups kept neighbours with the same reason. A changed piece has a line to itself."""
    index, piece = numbered
    return (index, True) if piece.is_changed else (piece.protected_reason, False)


def _format_range(pieces: Sequence[DraftPiece]) -> str:
    first, last = pieces[0].first, pieces[-1].last
    return f"{first}" if first == last else f"{first}..{last}"


def build_plan(draft: Draft, goal: Goal, stages: Sequence[Stage], *, allow_summaries: bool = True) -> Plan:
    """Builds the Plan that brings the draft to the goal's target, or as near as the stages can.

    With `allow_summaries` False, only stages that need no written text take part.
    """
    before = draft.tokens
    steps: list[StageResult] = []
    for stage in stages:
        if is_small_enough(draft, goal) and not stage.structural:
            continue
        tried = stage.apply(draft, goal)
        if not allow_summaries and tried.has_unwritten_summary:
            continue
        kept = tried.tokens < draft.tokens or (stage.structural and tried.pieces != draft.pieces)
        kept = kept or (is_small_enough(tried, goal) and not is_small_enough(draft, goal))
        if tried.pieces != draft.pieces:
            steps.append(StageResult(stage.name, draft.tokens, tried.tokens, kept))
        if kept:
            draft = tried
    return Plan(draft, goal, tuple(steps), before, draft.tokens)


def is_small_enough(draft: Draft, goal: Goal) -> bool:
    """Whether the draft is small enough."""
    return draft.tokens <= get_stage_aim(draft, goal)


def get_stage_aim(draft: Draft, goal: Goal) -> Counted:
    """Returns the size at which stages stop.

    A summary contains the facts. Without one, their budget is still to be added, so `stage_target` counts.
    """
    return goal.target if draft.has_unwritten_summary else goal.stage_target


BLOCK_ID_MARGIN = 16
"""Tokens that a Block's id may take above those of the id that stands in for it in a Plan."""
MOVED_FACTS = "facts-moved"
"""The kind of a replacement of a summary from a host's list, whose facts move into a newer section."""


def update_summaries(plan: Plan, shorten: Callable[[Message], Message | None]) -> Plan:
    """Returns the Plan, if it changes anything, with earlier summaries as they stand beside what it writes.

    `shorten` returns each message unchanged, shorter, or None to hide it. Nothing else in their ranges changes.
    """
    draft = plan.draft
    for index, piece in enumerate(draft.pieces if plan.changed_pieces else ()):
        old = piece.get_sized_items()
        new = [item for each in old for item in _update_item(draft, each, shorten)]
        if [item for item, _ in new] == [item for item, _ in old]:
            continue
        kind = piece.kind if piece.is_changed else get_replacement_kind(draft, piece)
        why = piece.reason or "its facts move into the newest section"
        draft = draft.with_piece(index, piece.with_items(new, MOVED_FACTS if kind == "keep" else kind, why))
    return replace(plan, draft=draft, tokens_after=draft.tokens)


def _update_item(draft: Draft, sized: SizedItem, shorten: Callable[[Message], Message | None]) -> list[SizedItem]:
    """Returns what takes the place of one shown message, with its size. Empty where it is hidden."""
    item, size = sized
    message: Message | None
    if isinstance(item, Substitute):
        message, position = item.message, item.original_position
    else:
        is_protected = build_original_key(item.position) in draft.protected
        message = None if is_protected else get_message(draft.view.path.get_entry(item.position))
        position = item.position
    shortened = shorten(message) if message is not None else message
    if shortened is message:
        return [sized]
    if shortened is None:
        return []
    new, new_size = draft.measure_substitute(shortened, position)
    return [(new, min(size, new_size + BLOCK_ID_MARGIN))]


def with_facts(plan: Plan, budget: Counted) -> Plan:
    """Returns the Plan with a budget for a facts section at its newest change. For Plans without a summary.

    The section stands behind what changed, but before a step that is not answered yet: its results stay the last.
    """
    index = max(i for i, p in enumerate(plan.draft.pieces) if p.is_changed)
    piece, section = plan.draft.pieces[index], (Substitute(UNWRITTEN_SUMMARY), budget)
    is_unanswered = index == find_unanswered_step(plan.draft)
    items = [section, *piece.get_sized_items()] if is_unanswered else [*piece.get_sized_items(), section]
    piece = piece.with_items(items, piece.kind, f"{piece.reason}; with the facts of what was elided")
    draft = plan.draft.with_piece(index, piece)
    goal = replace(plan.goal, facts_budget=budget - plan.goal.summary_overhead)
    return replace(plan, draft=draft, tokens_after=draft.tokens, goal=goal)


def with_remaining_budget(plan: Plan) -> Plan:
    """Adds what the target has left to the budget of the newest summary, for a policy that fills its room."""
    left = plan.goal.target - plan.tokens_after
    index = max((i for i, p in enumerate(plan.draft.pieces) if p.summary_budget), default=-1)
    if left <= 0 or index < 0 or not plan.goal.fills_room:
        return plan
    piece = plan.draft.pieces[index]
    draft = plan.draft.with_piece(index, piece.with_more_budget(left, piece.reason))
    goal = replace(plan.goal, facts_budget=plan.goal.facts_budget + left)
    return replace(plan, draft=draft, tokens_after=draft.tokens, goal=goal)
