"""The overlay of the preset `blocks`: a kept beginning, one line per step, recent steps with their outputs cut.

A step is one answer with its results. A run is one `invoke()`, by the run ids of the log, or an exchange where the log
has none. Older runs are lines throughout, and those beyond the scope are hidden. User messages stay word for word.
Every step is a replacement of its own, so that no tool call is separated from its result and no step is shown twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Literal

from msgspec import Struct
from msgspec.structs import replace

from tenfold.plan.draft import Draft, Goal, Piece, as_show, replaced_as
from tenfold.plan.stages.condense import summarized
from tenfold.plan.stages.lines import Fitted, Told, cut_lines, fitted, step_line
from tenfold.record.block import Say, Show
from tenfold.record.entry import Entry, message_of
from tenfold.record.message import Message, Part, Text, ToolResult, calls_of
from tenfold.trigger.triggers import DEFAULT_WINDOW
from tenfold.view.units import Shown
from tenfold.wire import takes_text

STEP_LINE, CUT, HIDDEN = "step-line", "cut-outputs", "beyond-scope"
"""The kinds of the replacements made here."""

Scope = int | Literal["token_budget"]
"""How many earlier runs stay in view: a number, or as many as the window holds beside the current one."""


class Sections(Struct, frozen=True):
    """How the steps of a run are divided: half-open ranges of step numbers, which meet and never overlap."""

    first: range
    middle: range
    recent: range


def sections(count: int, keep_first: int, keep_recent: int, *, latest: bool) -> Sections:
    """Divides a run of `count` steps. Only the latest run keeps its beginning and its end."""
    if not latest:
        return Sections(range(0), range(count), range(count, count))
    begin = min(max(0, keep_first), count)
    end = max(begin, count - max(0, keep_recent))
    return Sections(range(begin), range(begin, end), range(end, count))


class Loop(Struct, frozen=True):
    """A run as pieces of a draft: `pieces[first:last]`. `run_id` is "" where the log has none."""

    run: str
    first: int
    last: int


def run_starts(said: Iterable[tuple[int, Entry]]) -> list[tuple[str, int]]:
    """Finds where runs begin among numbered entries: by run id, or without ids at each message of the user.

    What comes before the first message or answer, system messages for instance, belongs to the first run.
    """
    starts: list[tuple[str, int]] = []
    opened = False
    for number, entry in said:
        message = message_of(entry)
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


def loops(draft: Draft) -> tuple[Loop, ...]:
    """Returns the runs in view, oldest first. They cover the pieces without gaps; the last one is the current run."""
    starts = run_starts((n, draft.view.path.at(p.first)) for n, p in enumerate(draft.pieces))
    begins = [0, *(index for _, index in starts[1:])]
    ends = [*begins[1:], len(draft.pieces)]
    return tuple(Loop(run, first, last) for (run, _), first, last in zip(starts, begins, ends, strict=False))


def in_scope(scope: Scope, sizes: Sequence[int], *, current: int, window: int) -> int:
    """Counts the earlier runs in scope, given the sizes of all runs in view (oldest first) and of the current one.

    With a token budget, it walks back from the current run, which is charged first, and stops at the first run that
    exceeds what is left of the window. A compacted run counts with its compacted size.
    """
    if scope != "token_budget":
        return min(max(0, scope), len(sizes))
    budget = window - current
    count = 0
    for size in reversed(sizes):
        if size > budget:
            break
        budget -= size
        count += 1
    return count


Lay = Callable[[Draft, Goal, Loop, int, bool], Draft]
"""Overlays one run: takes the draft, the goal, the run, the budget for its text, and whether it is the latest."""


def across(draft: Draft, goal: Goal, scope: Scope, most: int, lay: Lay) -> Draft:
    """Overlays every run in scope, with at most `max_tokens` tokens of text each, and hides those beyond the scope.

    Goes from the newest run back, so that the indexes of earlier ones stay valid. All texts together take at most half
    the target.
    """
    every = loops(draft)
    if not every:
        return draft
    sizes = [sum(p.tokens for p in draft.pieces[r.first : r.last]) for r in every]
    window = goal.window or DEFAULT_WINDOW
    many = in_scope(scope, sizes[:-1], current=sizes[-1] + draft.rest, window=window)
    shown = every[len(every) - 1 - many :]
    budget = min(most, goal.stop // (2 * len(shown)))
    for run in reversed(shown):
        draft = lay(draft, goal, run, budget, run is shown[-1])
    beyond = every[: len(every) - 1 - many]
    return _hidden(draft, beyond[-1].last, len(beyond)) if beyond else draft


class Overlay(Struct, frozen=True):
    """Divides the current run into three sections, turns earlier runs into lines, and hides those beyond the scope.

    `max_summary_tokens` limits the lines of one run together. Where a model writes the summaries, the middle becomes
    one text instead, if that is shorter.
    """

    keep_first: int = 2
    keep_recent: int = 10
    scope: Scope = 3
    max_summary_tokens: int = 2_000
    tool_output_max_lines: int = 50
    name: ClassVar[str] = "overlay"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Overlays each run in view, the newest first."""
        return across(draft, goal, self.scope, self.max_summary_tokens, self._laid)

    def _laid(self, draft: Draft, goal: Goal, run: Loop, room: int, latest: bool) -> Draft:  # noqa: FBT001 - see `Lay`
        steps = steps_of(draft, run)
        parts = sections(len(steps), self.keep_first, self.keep_recent, latest=latest)
        for index in (index for number in parts.recent for index in steps[number]):
            draft = draft.swap(index, cut_outputs(draft, index, self.tool_output_max_lines))
        if not parts.middle:
            return draft
        low = steps[parts.first[-1]].stop if parts.first else run.first
        high = steps[parts.middle[-1]].stop
        if goal.asks:
            written = written_over(draft, goal, range(low, high), room)
            if written is not None:
                return written
        middle = [steps[number] for number in parts.middle]
        return lined(draft, middle, room, focus=goal.focus)


class Recede(Struct, frozen=True):
    """Turns the current run's kept steps into lines too, oldest first, where the overlay did not reach the target.

    The recent steps go first, then the beginning; each only until the view is small enough.
    """

    keep_first: int = 2
    max_summary_tokens: int = 2_000
    name: ClassVar[str] = "recede"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Turns steps into lines until the target, and then keeps the run's lines within their budget."""
        every = loops(draft)
        if not every:
            return draft
        steps = steps_of(draft, every[-1])
        aim = goal.target if any(p.allotment for p in draft.pieces) else goal.stop
        tokens = draft.tokens
        replaced = [step for step in steps if draft.pieces[step.start].kind == STEP_LINE]
        for step in (*steps[self.keep_first :], *steps[: self.keep_first]):
            if tokens <= aim:
                break
            if step not in replaced:
                replaced.append(step)
                tokens -= draft.tokens - lined(draft, [step], self.max_summary_tokens).tokens
        budget = min(self.max_summary_tokens, goal.stop // 2)
        return lined(draft, sorted(replaced, key=lambda step: step.start), budget, focus=goal.focus)


def steps_of(draft: Draft, run: Loop) -> list[range]:
    """Returns the steps of a run as ranges of pieces, oldest first, including lines that stand for steps already.

    Tool output that a format wrote as a user line belongs to the step before it.
    """
    starts = [i for i in range(run.first, run.last) if _is_step(draft, draft.pieces[i])]
    return [range(i, _end(draft, i, run.last)) for i in starts]


def _is_step(draft: Draft, piece: Piece) -> bool:
    shown = piece.shown()
    if not shown or piece.allotment:
        return False
    return shown[0].message.role == "assistant" or replaced_as(draft, piece) == STEP_LINE


def _end(draft: Draft, index: int, last: int) -> int:
    """Returns where the step that begins with a piece ends: before the first piece that is no tool output."""
    end = index + 1
    while end < last and (shown := draft.pieces[end].shown()) and not draft.pieces[end].held:
        if any(s.message.origin != "tool" or s.message.role == "assistant" for s in shown):
            break
        end += 1
    return end


def lined(draft: Draft, steps: Sequence[range], room: int, *, focus: str = "") -> Draft:
    """Returns the draft with these steps as lines, in at most `budget` tokens together.

    Protected steps stay, as do those that would not get shorter.
    """
    free = [step for step in steps if not any(draft.pieces[i].held or draft.pieces[i].allotment for i in step)]
    given = [_told(draft, step, before) for before, step in zip([None, *free[:-1]], free, strict=True)] if free else []

    def measure(lines: Sequence[str]) -> list[int]:
        return draft.weigh([_message(line) for line in lines])

    end = len(free)
    for each in reversed(fitted(given, room, measure, focus=focus)):
        start = end - each.count
        first, until = free[start].start, free[end - 1].stop
        piece = _line_piece(draft, draft.pieces[first:until], each)
        if piece is not None:
            draft = draft.swap(first, piece, until=until)
        end = start
    return draft


def _told(draft: Draft, step: range, before: range | None) -> Told:
    """Builds a step's line. It may join the step before it if nothing that stays lies between the two."""
    pieces = draft.pieces
    joins = before is not None and not any(_kept(draft, pieces[i]) for i in (*before, *step))
    joins = joins and before is not None and not any(pieces[i].shown() for i in range(before.stop, step.start))
    return step_line(pieces[step.start].shown()[0].message, joins=joins)


def _kept(draft: Draft, piece: Piece) -> list[Shown]:
    """Returns what stays of a step's range: interleaved words of users and systems, and what is protected."""
    return [
        s for s in piece.shown() if s.key in draft.held or (s.original and s.message.origin in ("human", "harness"))
    ]


def _message(line: str) -> Message:
    return Message("user", (Text(line),), "tenfold")


def _line_piece(draft: Draft, pieces: Sequence[Piece], told: Fitted) -> Piece | None:
    """Builds one line for these neighbours, and what stays of them. None where that is no shorter."""
    kept = [s for p in pieces for s in _kept(draft, p)]
    message = _message(told.line)
    show: tuple[Show, ...] = (Say(message), *(as_show(s) for s in kept))
    sizes = (*draft.weigh([message]), *draft.sizer(kept))
    if sum(sizes) >= sum(p.tokens for p in pieces):
        return None
    why = "one line for the step" if told.count == 1 else f"one line for {told.count} steps"
    return over(pieces, STEP_LINE, show, sizes, why)


def over(pieces: Sequence[Piece], kind: str, show: tuple[Show, ...], sizes: tuple[int, ...], why: str) -> Piece:
    """Joins neighbouring pieces into one, shown as `shown_items`."""
    units = tuple(u for p in pieces for u in p.units)
    return Piece(units, sum(p.before for p in pieces), sum(sizes), sizes, kind, show, why)


def cut_outputs(draft: Draft, index: int, lines: int) -> Piece:
    """Returns the piece with every text of its tool outputs cut to head and tail. Calls, ids and images stay."""
    piece = draft.pieces[index]
    if piece.held or piece.allotment or (piece.changed and piece.kind != CUT):
        return piece
    shown = piece.shown()
    calls = {c.id for s in shown for c in calls_of(s.message)}
    free = [(n, s.message) for n, s in enumerate(shown) if s.key not in draft.held and takes_text(s.message, calls)]
    stubs = [(n, cut) for n, message in free if (cut := cut_message(message, lines))]
    if not stubs:
        return piece
    show, sizes = [as_show(s) for s in shown], list(draft.sizer(shown))
    for (n, stub), size in zip(stubs, draft.weigh([m for _, m in stubs]), strict=True):
        if size < sizes[n]:
            show[n], sizes[n] = Say(stub, shown[n].of), size
    if sum(sizes) >= piece.tokens:
        return piece
    why = f"tool output of more than {lines} lines cut"
    return replace(piece, kind=CUT, show=tuple(show), sizes=tuple(sizes), tokens=sum(sizes), why=why)


def cut_message(message: Message, most: int) -> Message | None:
    """Returns a tool output with each text cut to `max_lines` lines. None if all are short, or it is no tool output."""
    if message.origin != "tool":
        return None
    parts = tuple(_cut_part(part, most) for part in message.parts)
    return None if parts == message.parts else replace(message, parts=parts, native=None)


def _cut_part(part: Part, most: int) -> Part:
    if isinstance(part, Text):
        return Text(cut_lines(part.text, most) or part.text)
    if isinstance(part, ToolResult):
        cut = (Text(cut_lines(p.text, most) or p.text) if isinstance(p, Text) else p for p in part.content)
        return replace(part, content=tuple(cut))
    return part


def written_over(draft: Draft, goal: Goal, ends: range, room: int) -> Draft | None:
    """Plans one text over the pieces of the middle, after their user messages. None where lines take less."""
    covered = draft.pieces[ends.start : ends.stop]
    users = {
        s.key: size
        for p in covered
        for s, size in zip(p.shown(), draft.sizer(p.shown()), strict=True)
        if s.original and s.message.role in ("user", "system")
    }
    newest = not any(p.allotment for p in draft.pieces)
    allotment = goal.frame + min(room, goal.narrative) + (goal.facts if newest else 0)
    if any(p.changed for p in covered) or not any(_is_step(draft, p) for p in covered):
        return None
    if sum(p.tokens for p in covered) - sum(users.values()) <= allotment:
        return None
    return draft.swap(ends.start, summarized(draft, covered, users, allotment), until=ends.stop)


def _hidden(draft: Draft, until: int, many: int) -> Draft:
    """Hides everything before a piece, except for what is protected."""
    hidden: list[int] = []
    for index in range(until - 1, -2, -1):
        if index >= 0 and not draft.pieces[index].held and not _holds(draft, draft.pieces[index]):
            hidden.insert(0, index)
            continue
        if any(draft.pieces[i].shown() for i in hidden):
            covered = draft.pieces[hidden[0] : hidden[-1] + 1]
            count = sum(len(p.shown()) for p in covered)
            why = f"{count:,} messages of {many:,} runs older than the scope"
            draft = draft.swap(hidden[0], over(covered, HIDDEN, (), (), why), until=hidden[-1] + 1)
        hidden = []
    return draft


def _holds(draft: Draft, piece: Piece) -> bool:
    return any(s.key in draft.held for s in piece.shown())
