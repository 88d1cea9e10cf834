"""The overlay of the preset `blocks`: a kept beginning, one line per step, recent steps with their outputs cut.

A step is one answer with its results. A run is one `invoke()`, by the run ids of the log, or an exchange where the log
has none. Older runs are lines throughout, and those beyond the scope are hidden. User messages stay word for word.
Every step is a replacement of its own, so that no tool call is separated from its result and no step is shown twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import ClassVar, Literal

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.plan.draft import Draft, DraftPiece, Goal, get_replacement_kind, join_pieces
from tenfold.compaction.plan.pipeline import get_stage_aim
from tenfold.compaction.plan.stages.condense import build_summary, count_messages
from tenfold.compaction.plan.stages.elide import elide_outputs
from tenfold.compaction.plan.stages.step_lines import FittedLine, LabelledLine, build_step_line, fit_lines
from tenfold.compaction.plan.stubs import build_marker, cut_message
from tenfold.compaction.trigger.limits import DEFAULT_WINDOW
from tenfold.core.record.entry import Entry, get_message
from tenfold.core.view.units import VisibleMessage

STEP_LINE, CUT_OUTPUTS, BEYOND_SCOPE = "step-line", "cut-outputs", "beyond-scope"
"""The kinds of the replacements made here."""

Scope = int | Literal["token_budget"]
"""How many earlier runs stay in view: a number, or as many as the window holds beside the current one."""


class RunSections(Struct, frozen=True):
    """How the steps of a run are divided: half-open ranges of step numbers, which meet and never overlap."""

    first: range
    middle: range
    recent: range


def divide_steps(count: int, keep_first: int, keep_recent: int, *, latest: bool) -> RunSections:
    """Divides a run of `count` steps. Only the latest run keeps its beginning and its end."""
    if not latest:
        return RunSections(range(0), range(count), range(count, count))
    begin = min(max(0, keep_first), count)
    end = max(begin, count - max(0, keep_recent))
    return RunSections(range(begin), range(begin, end), range(end, count))


class RunPieces(Struct, frozen=True):
    """A run as pieces of a draft: `pieces[first:last]`. `run_id` is "" where the log has none."""

    run_id: str
    first: int
    last: int


def find_run_starts(entries: Iterable[tuple[int, Entry]]) -> list[tuple[str, int]]:
    """Finds where runs begin among numbered entries: by run id, or without ids at each message of the user.

    What comes before the first message or answer, system messages for instance, belongs to the first run.
    """
    starts: list[tuple[str, int]] = []
    opened = False
    for number, entry in entries:
        message = get_message(entry)
        if message is None:
            continue
        is_request = message.role == "user" and message.origin == "human"
        begins = not starts or entry.run != starts[-1][0] or (not entry.run and is_request)
        if begins and starts and not opened:
            starts[-1] = (entry.run, starts[-1][1])
        elif begins:
            starts.append((entry.run, number))
            opened = False
        opened = opened or is_request or message.role == "assistant"
    return starts


def find_runs(draft: Draft) -> tuple[RunPieces, ...]:
    """Returns the runs in view, oldest first. They cover the pieces without gaps; the last one is the current run."""
    starts = find_run_starts((n, draft.view.path.get_entry(p.first)) for n, p in enumerate(draft.pieces))
    begins = [0, *(index for _, index in starts[1:])]
    ends = [*begins[1:], len(draft.pieces)]
    return tuple(RunPieces(run, first, last) for (run, _), first, last in zip(starts, begins, ends, strict=False))


def count_runs_in_scope(scope: Scope, earlier: int, *, window: int, measure_run: Callable[[int], int]) -> int:
    """Counts how many of so many earlier runs are in scope.

    With a token budget, it walks back from the current run and stops at the first run that exceeds what is left of the
    window. `measure_run(n)` is what the n-th run before the current one takes compacted, and that one itself for 0. So
    a run whose messages exceed the window is in scope if what stands for it fits.
    """
    if scope != "token_budget":
        return min(max(0, scope), earlier)
    budget = window - measure_run(0)
    for count in range(earlier):
        budget -= measure_run(count + 1)
        if budget < 0:
            return count
    return earlier


RunOverlay = Callable[[Draft, Goal, RunPieces, int, bool], Draft]
"""Overlays one run: takes the draft, the goal, the run, the budget for its text, and whether it is the latest."""


def measure_compacted(draft: Draft, goal: Goal, run: RunPieces, max_tokens: int, overlay_run: RunOverlay) -> int:
    """Measures what a run takes compacted, with at most `max_tokens` tokens of text.

    The current run is charged with the open step and what is sent besides the view, and with no more than the target:
    that is where later stages bring it.
    """
    latest = run.last == len(draft.pieces)
    own = replace(draft, pieces=draft.pieces[run.first : run.last], fixed_tokens=draft.fixed_tokens if latest else 0)
    compacted = overlay_run(
        own, replace(goal, facts_budget=0), RunPieces(run.run_id, 0, len(own.pieces)), max_tokens, latest
    )
    return min(compacted.tokens, goal.stage_target) if latest else compacted.tokens


def is_beyond_scope(draft: Draft, run: RunPieces) -> bool:
    """Tells whether a Block has hidden a run because it is older than the scope."""
    return any(get_replacement_kind(draft, piece) == BEYOND_SCOPE for piece in draft.pieces[run.first : run.last])


def overlay_runs(draft: Draft, goal: Goal, scope: Scope, max_tokens: int, overlay_run: RunOverlay) -> Draft:
    """Overlays every run in scope, with at most `max_tokens` tokens of text each, and hides those beyond the scope.

    Goes from the newest run back, so that the indexes of earlier ones stay valid. All texts together take at most half
    the target. Runs that are hidden already are not in scope.
    """
    every = [run for run in find_runs(draft) if not is_beyond_scope(draft, run)]
    if not every:
        return draft
    whole = draft

    def measure_run(number: int) -> int:
        return measure_compacted(whole, goal, every[-1 - number], max_tokens, overlay_run)

    many = count_runs_in_scope(scope, len(every) - 1, window=goal.window or DEFAULT_WINDOW, measure_run=measure_run)
    shown = every[len(every) - 1 - many :]
    budget = min(max_tokens, goal.stage_target // (2 * len(shown)))
    for run in reversed(shown):
        draft = overlay_run(draft, goal, run, budget, run is shown[-1])
    beyond = every[: len(every) - 1 - many]
    return _hide_runs(draft, beyond[-1].last, len(beyond)) if beyond else draft


class OverlayStage(Struct, frozen=True):
    """Divides the current run into three sections, turns earlier runs into lines, and hides those beyond the scope.

    `max_summary_tokens` limits the lines of one run together. Where a model writes the summaries, the middle becomes
    one text instead, if that is shorter.
    """

    keep_first_steps: int = 2
    keep_recent_steps: int = 10
    scope: Scope = 3
    max_summary_tokens: int = 2_000
    tool_output_max_lines: int = 50
    name: ClassVar[str] = "overlay"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Overlays each run in view, the newest first."""
        return overlay_runs(draft, goal, self.scope, self.max_summary_tokens, self.overlay_run)

    def overlay_run(self, draft: Draft, goal: Goal, run: RunPieces, budget: int, latest: bool) -> Draft:  # noqa: FBT001 - see `RunOverlay`
        """Overlays one run: its sections if it is the latest, else lines throughout."""
        steps = find_steps(draft, run)
        parts = divide_steps(len(steps), self.keep_first_steps, self.keep_recent_steps, latest=latest)
        for index in (index for number in parts.recent for index in steps[number]):
            draft = draft.with_piece(index, cut_outputs(draft, draft.pieces[index], self.tool_output_max_lines))
        if not parts.middle:
            return draft
        low = steps[parts.first[-1]].stop if parts.first else run.first
        high = steps[parts.middle[-1]].stop
        if goal.has_model:
            written = summarize_middle(draft, goal, range(low, high), budget)
            if written is not None:
                return written
        middle = [steps[number] for number in parts.middle]
        return replace_with_lines(draft, middle, budget, focus=goal.focus)


class OverlayFallbackStage(Struct, frozen=True):
    """Turns the current run's kept steps into lines too, oldest first, where the overlay did not reach the target.

    The recent steps go first, then the beginning; each only until the view is small enough.
    """

    keep_first_steps: int = 2
    max_summary_tokens: int = 2_000
    name: ClassVar[str] = "recede"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Turns steps into lines until the target, and then keeps the run's lines within their budget."""
        every = find_runs(draft)
        if not every:
            return draft
        steps = find_steps(draft, every[-1])
        aim, tokens = get_stage_aim(draft, goal), draft.tokens
        replaced = [step for step in steps if draft.pieces[step.start].kind == STEP_LINE]
        for step in (*steps[self.keep_first_steps :], *steps[: self.keep_first_steps]):
            if tokens <= aim:
                break
            if step not in replaced:
                replaced.append(step)
                tokens -= draft.tokens - replace_with_lines(draft, [step], self.max_summary_tokens).tokens
        budget = min(self.max_summary_tokens, goal.stage_target // 2)
        return replace_with_lines(draft, sorted(replaced, key=lambda step: step.start), budget, focus=goal.focus)


def find_steps(draft: Draft, run: RunPieces) -> list[range]:
    """Returns the steps of a run as ranges of pieces, oldest first, including lines that stand for steps already.

    Tool output that a format wrote as a user line belongs to the step before it.
    """
    starts = [i for i in range(run.first, run.last) if _is_step(draft, draft.pieces[i])]
    return [range(i, _find_step_end(draft, i, run.last)) for i in starts]


def _is_step(draft: Draft, piece: DraftPiece) -> bool:
    shown = piece.get_visible_messages()
    if not shown or piece.summary_budget:
        return False
    return shown[0].message.role == "assistant" or get_replacement_kind(draft, piece) == STEP_LINE


def _find_step_end(draft: Draft, index: int, last: int) -> int:
    """Returns where the step that begins with a piece ends: before the first piece that is no tool output."""
    end = index + 1
    while end < last and (shown := draft.pieces[end].get_visible_messages()) and not draft.pieces[end].protected_reason:
        if any(s.message.origin != "tool" or s.message.role == "assistant" for s in shown):
            break
        end += 1
    return end


def replace_with_lines(draft: Draft, steps: Sequence[range], budget: int, *, focus: str = "") -> Draft:
    """Returns the draft with these steps as lines, in at most `budget` tokens together.

    Protected steps stay, as do those that would not get shorter.
    """
    free = [step for step in steps if all(draft.pieces[i].can_change for i in step)]
    whole = [_build_line(draft, step, before) for before, step in zip([None, *free], free, strict=False)]

    def measure(lines: Sequence[str]) -> list[int]:
        return draft.measure_messages([build_marker(line) for line in lines])

    end = len(free)
    for each in reversed(fit_lines(whole, budget, measure, focus=focus)):
        start = end - each.count
        first, until = free[start].start, free[end - 1].stop
        piece = _build_line_piece(draft, draft.pieces[first:until], each)
        if piece is not None:
            draft = draft.with_piece(first, piece, until=until)
        end = start
    return draft


def _build_line(draft: Draft, step: range, before: range | None) -> LabelledLine:
    """Builds a step's line. It may join the step before it if nothing that stays lies between the two."""
    stays = [s for i in (*(before or ()), *step) for s in _get_kept_messages(draft, draft.pieces[i])]
    if before is not None:
        stays += [s for piece in draft.pieces[before.stop : step.start] for s in piece.get_visible_messages()]
    shown = [s.message for i in step for s in draft.pieces[i].get_visible_messages()]
    return build_step_line(shown, can_join=before is not None and not stays)


def _get_kept_messages(draft: Draft, piece: DraftPiece) -> list[VisibleMessage]:
    """Returns what stays of a step's range: interleaved words of users and systems, and what is protected."""
    return [
        s
        for s in piece.get_visible_messages()
        if s.key in draft.protected or (s.is_original and s.message.origin in ("human", "harness"))
    ]


def _build_line_piece(draft: Draft, pieces: Sequence[DraftPiece], line: FittedLine) -> DraftPiece | None:
    """Builds one line for these neighbours, and what stays of them. None where that is no shorter."""
    kept = draft.measure_items([s for p in pieces for s in _get_kept_messages(draft, p)])
    why = "one line for the step" if line.count == 1 else f"one line for {line.count} steps"
    piece = join_pieces(pieces, [draft.measure_substitute(build_marker(line.line)), *kept], STEP_LINE, why)
    return piece if piece.tokens < sum(p.tokens for p in pieces) else None


def cut_outputs(draft: Draft, piece: DraftPiece, lines: int) -> DraftPiece:
    """Returns the piece with every text of its tool outputs cut to head and tail. Calls, ids and images stay."""
    if piece.is_changed:
        return piece
    cut = elide_outputs(draft, piece, CUT_OUTPUTS, lambda shown, _: cut_message(shown.message, lines), least_saving=1)
    return piece if cut is piece else replace(cut, reason=f"tool output of more than {lines} lines cut")


def summarize_middle(draft: Draft, goal: Goal, span: range, budget: int) -> Draft | None:
    """Plans one text over the pieces of the middle, after their user messages. None where lines take less."""
    covered = draft.pieces[span.start : span.stop]
    users = {
        s.key: size
        for p in covered
        for s, size in zip(p.get_visible_messages(), draft.measure_visible(p.get_visible_messages()), strict=True)
        if s.is_original and s.message.role in ("user", "system")
    }
    facts = 0 if draft.has_unwritten_summary else goal.facts_budget
    allotment = goal.summary_overhead + min(budget, goal.narrative_budget) + facts
    if any(p.is_changed for p in covered) or not any(_is_step(draft, p) for p in covered):
        return None
    if sum(p.tokens for p in covered) - sum(users.values()) <= allotment:
        return None
    kept = {*users, *draft.protected}
    return draft.with_piece(span.start, build_summary(draft, covered, kept, allotment), until=span.stop)


def _hide_runs(draft: Draft, until: int, run_count: int) -> Draft:
    """Hides everything before a piece, except for what is protected."""

    def is_protected(index: int) -> bool:
        piece = draft.pieces[index]
        return bool(piece.protected_reason) or any(s.key in draft.protected for s in piece.get_visible_messages())

    groups = [(stays, list(group)) for stays, group in groupby(range(until), key=is_protected)]
    for stays, group in reversed(groups):
        covered = draft.pieces[group[0] : group[-1] + 1]
        if not stays and count_messages(covered):
            why = f"{count_messages(covered):,} messages of {run_count:,} runs older than the scope"
            draft = draft.with_piece(group[0], join_pieces(covered, (), BEYOND_SCOPE, why), until=group[-1] + 1)
    return draft
