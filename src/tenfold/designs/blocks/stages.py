"""The stages of the preset `blocks`: the overlay over the runs of a session, and the levels of a list without one.

A step is one answer with its results. A run is one `invoke()`, by the run ids of the log, or an exchange where the log
has none. The overlay keeps the beginning of the current run, makes one line of each step after it, and cuts the outputs
of the recent ones. Older runs are lines throughout, and those beyond the scope are hidden. User messages stay word for
word. Every step is a replacement of its own, so no tool call is separated from its result and no step is shown twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.plan.draft import Draft, DraftPiece, Goal, get_replacement_kind, join_pieces
from tenfold.compaction.plan.pipeline import Stage, get_stage_aim
from tenfold.compaction.plan.recent_tail import TailSize, find_tail
from tenfold.compaction.plan.stages.condense import build_summary, count_messages
from tenfold.compaction.plan.stages.elide import elide_outputs
from tenfold.compaction.plan.stubs import cut_message
from tenfold.core.record.entry import Entry, get_message
from tenfold.core.record.token_reading import NO_TOKENS, Counted
from tenfold.core.view.units import VisibleMessage
from tenfold.designs.blocks.config import DEFAULT_WINDOW, CompactionConfig, FixedCount
from tenfold.designs.blocks.lines import FittedLine, LabelledLine, build_marker, build_step_line, fit_lines

STEP_LINE, CUT_OUTPUTS, BEYOND_SCOPE = "step-line", "cut-outputs", "beyond-scope"
DROP_BETWEEN = "drop-between"
"""The kinds of the replacements made here."""
FIT_MARKER = "[Context compacted: {} messages removed to fit context window]"
REMOVED_MARKER = "[Context compacted: {} messages removed]"
"""Stand for the messages between those that stay: the first for those after kept first messages, or for all before."""
_UNLIMITED = 1 << 60

# -- runs and steps ----------------------------------------------------------------------------------------------------


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

    def measure(lines: Sequence[str]) -> Sequence[int]:
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


# -- a list that belongs to no session ---------------------------------------------------------------------------------

# In the design each level is measured after the other and the first that fits wins, as stages are. The levels count
# messages, as the design does, and are extended to whole steps.


class CutOutputsStage(Struct, frozen=True):
    """Level 1: every text of every tool output is cut to its first and last lines."""

    lines: int = 50
    name: ClassVar[str] = "cut-outputs"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:  # noqa: ARG002 - the level is all or nothing, whatever the goal
        """Cuts all outputs, because the design's levels are all or nothing."""
        return replace(draft, pieces=tuple(cut_outputs(draft, piece, self.lines) for piece in draft.pieces))


class EarlierLinesStage(Struct, frozen=True):
    """Level 2: each step before the last `keep_recent_messages` becomes a line. User messages stay."""

    keep_recent_messages: int = 10
    name: ClassVar[str] = "earlier-lines"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:  # noqa: ARG002 - the level is all or nothing, whatever the goal
        """Extends the recent messages to a whole step, so that no tool result loses its call."""
        start = find_tail(draft, TailSize(self.keep_recent_messages)).start
        earlier = [step for run in find_runs(draft) for step in find_steps(draft, run) if step.stop <= start]
        return replace_with_lines(draft, earlier, _UNLIMITED)


class DropBetweenStage(Struct, frozen=True):
    """Level 3: keeps the first `keep_first_messages`, a marker, and the last `keep_recent_messages`.

    Where that does not fit, keeps the newest messages that fit.
    """

    keep_first_messages: int = 2
    keep_recent_messages: int = 10
    name: ClassVar[str] = DROP_BETWEEN
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Drops the middle. Protected messages stay in view, and the marker's tokens count too."""
        floor = draft.floor_end
        first = _find_first_end(draft, floor, self.keep_first_messages)
        start = find_tail(draft, TailSize(self.keep_recent_messages)).start
        if first < start:
            tried = _drop_range(draft, first, start, FIT_MARKER)
            if tried.tokens <= goal.stage_target:
                return tried
        _, marker = draft.measure_substitute(build_marker(REMOVED_MARKER.format(count_messages(draft.pieces))))
        budget = goal.stage_target - draft.count_fixed(draft.measure_kept()) - marker
        return _drop_range(draft, floor, find_tail(draft, TailSize(budget=budget), floor).start, REMOVED_MARKER)


def _find_first_end(draft: Draft, floor: int, messages: int) -> int:
    """Returns the piece after the first `messages` messages behind the floor, extended to a whole piece."""
    index = floor
    while index < len(draft.pieces) and messages > 0:
        messages -= len(draft.pieces[index].get_visible_messages())
        index += 1
    return index


def _drop_range(draft: Draft, first: int, last: int, text: str) -> Draft:
    covered = draft.pieces[first:last]
    kept = [s for p in covered for s in p.get_visible_messages() if s.key in draft.protected]
    count = count_messages(covered) - len(kept)
    if count < 1:
        return draft
    items = [*draft.measure_items(kept), draft.measure_substitute(build_marker(text.format(count)))]
    piece = join_pieces(covered, items, DROP_BETWEEN, f"{count:,} messages by a marker")
    return draft.with_piece(first, piece, until=last)


# -- the overlay -------------------------------------------------------------------------------------------------------


class OverlayStage(Struct, frozen=True):
    """Divides the current run into three sections, turns earlier runs into lines, and hides those beyond the scope.

    `max_summary_tokens` limits the lines of one run together. Where a model writes the summaries, the middle becomes
    one text instead, if that is shorter.
    """

    config: CompactionConfig = CompactionConfig()
    list_stages: tuple[Stage, ...] = (CutOutputsStage(), EarlierLinesStage(), DropBetweenStage())
    name: ClassVar[str] = "overlay"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Overlays every run in scope and hides those beyond it. All texts together take at most half the target.

        Goes from the newest run back, so that the indexes of earlier ones stay valid. Runs that are hidden already are
        not in scope.
        """
        every = [run for run in find_runs(draft) if not _is_beyond_scope(draft, run)]
        if not every:
            return draft
        count = self.count_in_scope([[run] for run in every], draft, goal, goal.window or DEFAULT_WINDOW)
        beyond, shown = every[: len(every) - 1 - count], every[len(every) - 1 - count :]
        budget = min(self.config.max_summary_tokens, goal.stage_target // (2 * len(shown)))
        for run in reversed(shown):
            draft = self.overlay_run(draft, goal, run, budget, is_latest=run is shown[-1])
        return _hide_runs(draft, beyond[-1].last, len(beyond)) if beyond else draft

    def count_in_scope(self, loops: Sequence[Sequence[RunPieces]], draft: Draft, goal: Goal, window: int) -> int:
        """Counts how many loops before the last one are in scope, each given as its runs.

        With a token budget, it walks back from the last one and stops at the first loop that exceeds what is left of
        the window. Each counts with what it takes compacted: so a loop whose messages exceed the window is in scope if
        what stands for it fits.
        """
        scope, budget = self.config.compaction_scope, window
        if isinstance(scope, FixedCount):
            return min(max(0, scope.count), len(loops) - 1)
        for count, loop in enumerate(reversed(loops)):
            compacted = sum((self._measure_compacted(draft, goal, run) for run in loop), NO_TOKENS)
            budget -= draft.reading.to_provider_part(compacted)
            if budget < 0 and count:
                return count - 1
        return len(loops) - 1

    def _measure_compacted(self, draft: Draft, goal: Goal, run: RunPieces) -> Counted:
        """Measures what a run takes compacted.

        The current run is charged with the open step and what is sent besides the view, and with no more than the
        target: that is where later stages bring it.
        """
        is_latest = run.last == len(draft.pieces)
        own = replace(
            draft, pieces=draft.pieces[run.first : run.last], fixed_tokens=draft.fixed_tokens if is_latest else 0
        )
        goal, whole = replace(goal, facts_budget=0), RunPieces(run.run_id, 0, len(own.pieces))
        tokens = self.overlay_run(own, goal, whole, self.config.max_summary_tokens, is_latest=is_latest).tokens
        return min(tokens, goal.stage_target) if is_latest else tokens

    def overlay_run(self, draft: Draft, goal: Goal, run: RunPieces, budget: int, *, is_latest: bool) -> Draft:
        """Overlays one run: its sections if it is the latest, else lines throughout."""
        steps, config = find_steps(draft, run), self.config
        parts = divide_steps(len(steps), config.keep_first_turns, config.keep_recent_turns, latest=is_latest)
        for index in (index for number in parts.recent for index in steps[number]):
            draft = draft.with_piece(index, cut_outputs(draft, draft.pieces[index], config.tool_output_max_lines))
        if not parts.middle:
            return draft
        low = steps[parts.first[-1]].stop if parts.first else run.first
        middle = [steps[number] for number in parts.middle]
        written = summarize_middle(draft, goal, range(low, middle[-1].stop), budget) if goal.has_model else None
        return written or replace_with_lines(draft, middle, budget, focus=goal.focus)


class OverlayFallbackStage(Struct, frozen=True):
    """Turns the current run's kept steps into lines too, oldest first, where the overlay did not reach the target.

    The recent steps go first, then the beginning; each only until the view is small enough.
    """

    config: CompactionConfig = CompactionConfig()
    name: ClassVar[str] = "recede"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Turns steps into lines until the target, and then keeps the run's lines within their budget."""
        every = find_runs(draft)
        if not every:
            return draft
        steps = find_steps(draft, every[-1])
        aim, tokens = get_stage_aim(draft, goal), int(draft.tokens)
        replaced = [step for step in steps if draft.pieces[step.start].kind == STEP_LINE]
        for step in (*steps[self.config.keep_first_turns :], *steps[: self.config.keep_first_turns]):
            if tokens <= aim:
                break
            if step not in replaced:
                replaced.append(step)
                tokens -= draft.tokens - replace_with_lines(draft, [step], self.config.max_summary_tokens).tokens
        budget = min(self.config.max_summary_tokens, goal.stage_target // 2)
        return replace_with_lines(draft, sorted(replaced, key=lambda step: step.start), budget, focus=goal.focus)


def _is_beyond_scope(draft: Draft, run: RunPieces) -> bool:
    """Tells whether a Block has hidden a run because it is older than the scope."""
    return any(get_replacement_kind(draft, piece) == BEYOND_SCOPE for piece in draft.pieces[run.first : run.last])


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
