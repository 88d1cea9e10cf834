"""The overlay of the preset `blocks`: a kept beginning, one line a step, recent steps with their outputs cut.

A step is one answer with its results; a run is one `invoke()` by the run ids of the log, and an exchange where a log
has none. Older runs are lines from end to end, and those beyond the scope are hidden; user messages stay as they were
said. Every step is a replacement of its own, so that no tool call is parted from its result and no step is shown twice.
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
    """How the steps of a run are divided: as half-open ranges of step numbers, which meet and never overlap."""

    first: range
    middle: range
    recent: range


def sections(count: int, keep_first: int, keep_recent: int, *, latest: bool) -> Sections:
    """The sections of a run of `count` steps. Only the latest run keeps its beginning and its end."""
    if not latest:
        return Sections(range(0), range(count), range(count, count))
    begin = min(max(0, keep_first), count)
    end = max(begin, count - max(0, keep_recent))
    return Sections(range(begin), range(begin, end), range(end, count))


class Loop(Struct, frozen=True):
    """A run as pieces of a draft: `pieces[first:last]`. `run` is its id, "" where the log has none."""

    run: str
    first: int
    last: int


def run_starts(said: Iterable[tuple[int, Entry]]) -> list[tuple[str, int]]:
    """Where runs begin among numbered entries: by run ids, and where there are none with each message of the user.

    What stands before the first message or answer, system messages for instance, belongs to the first run.
    """
    starts: list[tuple[str, int]] = []
    opened = False
    for number, entry in said:
        message = message_of(entry)
        if message is None:
            continue
        asked = message.role == "user" and message.origin == "human"
        begins = not starts or entry.run != starts[-1][0] or (not entry.run and asked)
        if begins and starts and not opened:
            starts[-1] = (entry.run, starts[-1][1])
        elif begins:
            starts.append((entry.run, number))
            opened = False
        opened = opened or asked or message.role == "assistant"
    return starts


def loops(draft: Draft) -> tuple[Loop, ...]:
    """The runs in view, oldest first, tiling the pieces. The last one is the current run."""
    starts = run_starts((n, draft.view.path.at(p.first)) for n, p in enumerate(draft.pieces))
    begins = [0, *(index for _, index in starts[1:])]
    ends = [*begins[1:], len(draft.pieces)]
    return tuple(Loop(run, first, last) for (run, _), first, last in zip(starts, begins, ends, strict=False))


def in_scope(scope: Scope, sizes: Sequence[int], *, current: int, window: int) -> int:
    """How many of the earlier runs are in scope, given what each takes in view (oldest first) and the current one.

    By a token budget the walk goes back from the current run, which is charged first, and stops at the first run that
    exceeds what is left of the window. A run that was compacted counts with its compacted size.
    """
    if scope != "token_budget":
        return min(max(0, scope), len(sizes))
    room = window - current
    count = 0
    for size in reversed(sizes):
        if size > room:
            break
        room -= size
        count += 1
    return count


Lay = Callable[[Draft, Goal, Loop, int, bool], Draft]
"""Lays sections over one run: the draft, the goal, the run, the room for its text, whether it is the latest."""


def across(draft: Draft, goal: Goal, scope: Scope, most: int, lay: Lay) -> Draft:
    """Every run in scope laid over, with at most `most` tokens of text each; those beyond the scope are hidden.

    From the newest run back, so that what is still to come keeps its place. All texts take half the target at most.
    """
    every = loops(draft)
    if not every:
        return draft
    taken = [sum(p.tokens for p in draft.pieces[r.first : r.last]) for r in every]
    window = goal.window or DEFAULT_WINDOW
    many = in_scope(scope, taken[:-1], current=taken[-1] + draft.rest, window=window)
    shown = every[len(every) - 1 - many :]
    room = min(most, goal.stop // (2 * len(shown)))
    for run in reversed(shown):
        draft = lay(draft, goal, run, room, run is shown[-1])
    beyond = every[: len(every) - 1 - many]
    return _hidden(draft, beyond[-1].last, len(beyond)) if beyond else draft


class Overlay(Struct, frozen=True):
    """Lays the three sections over the current run, lines over the earlier ones, and hides those beyond the scope.

    `max_summary_tokens` bounds the lines of one run together. Where a model writes the summaries, the middle becomes
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
        """The sections of each run in view, the newest first."""
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
    """Where the overlay did not reach the target: the current run's kept steps become lines too, oldest first.

    The recent ones go first, then the beginning; each only until the view is small enough.
    """

    keep_first: int = 2
    max_summary_tokens: int = 2_000
    name: ClassVar[str] = "recede"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Turns steps into lines until the target, and then sees to it that the run's lines keep their budget."""
        every = loops(draft)
        if not every:
            return draft
        steps = steps_of(draft, every[-1])
        aim = goal.target if any(p.allotment for p in draft.pieces) else goal.stop
        tokens = draft.tokens
        told = [step for step in steps if draft.pieces[step.start].kind == STEP_LINE]
        for step in (*steps[self.keep_first :], *steps[: self.keep_first]):
            if tokens <= aim:
                break
            if step not in told:
                told.append(step)
                tokens -= draft.tokens - lined(draft, [step], self.max_summary_tokens).tokens
        room = min(self.max_summary_tokens, goal.stop // 2)
        return lined(draft, sorted(told, key=lambda step: step.start), room, focus=goal.focus)


def steps_of(draft: Draft, run: Loop) -> list[range]:
    """The steps of a run as ranges of pieces, oldest first; lines that stand for steps already are among them.

    Output that a format wrote as a user line belongs to the step before it.
    """
    starts = [i for i in range(run.first, run.last) if _is_step(draft, draft.pieces[i])]
    return [range(i, _end(draft, i, run.last)) for i in starts]


def _is_step(draft: Draft, piece: Piece) -> bool:
    shown = piece.shown()
    if not shown or piece.allotment:
        return False
    return shown[0].message.role == "assistant" or replaced_as(draft, piece) == STEP_LINE


def _end(draft: Draft, index: int, last: int) -> int:
    """Where the step that begins with a piece ends: before the first piece that is not the output of a tool."""
    end = index + 1
    while end < last and (shown := draft.pieces[end].shown()) and not draft.pieces[end].held:
        if any(s.message.origin != "tool" or s.message.role == "assistant" for s in shown):
            break
        end += 1
    return end


def lined(draft: Draft, steps: Sequence[range], room: int, *, focus: str = "") -> Draft:
    """The draft with these steps as lines, in at most `room` tokens together. Held steps stay, as do shorter ones."""
    free = [step for step in steps if not any(draft.pieces[i].held or draft.pieces[i].allotment for i in step)]
    told = [_told(draft, step, before) for before, step in zip([None, *free[:-1]], free, strict=True)] if free else []

    def measure(lines: Sequence[str]) -> list[int]:
        return draft.weigh([_message(line) for line in lines])

    end = len(free)
    for each in reversed(fitted(told, room, measure, focus=focus)):
        start = end - each.count
        first, until = free[start].start, free[end - 1].stop
        piece = _line_piece(draft, draft.pieces[first:until], each)
        if piece is not None:
            draft = draft.swap(first, piece, until=until)
        end = start
    return draft


def _told(draft: Draft, step: range, before: range | None) -> Told:
    """The line of a step. It may share one with the step before it, if nothing that stays stands between the two."""
    pieces = draft.pieces
    joins = before is not None and not any(_kept(draft, pieces[i]) for i in (*before, *step))
    joins = joins and before is not None and not any(pieces[i].shown() for i in range(before.stop, step.start))
    return step_line(pieces[step.start].shown()[0].message, joins=joins)


def _kept(draft: Draft, piece: Piece) -> list[Shown]:
    """What of a step's range stays: what users and systems said in between, and what is held."""
    return [
        s for s in piece.shown() if s.key in draft.held or (s.original and s.message.origin in ("human", "harness"))
    ]


def _message(line: str) -> Message:
    return Message("user", (Text(line),), "tenfold")


def _line_piece(draft: Draft, pieces: Sequence[Piece], told: Fitted) -> Piece | None:
    """These neighbours as one line and what stays of them; None where that is no shorter, or what is shown already."""
    kept = [s for p in pieces for s in _kept(draft, p)]
    message = _message(told.line)
    show: tuple[Show, ...] = (Say(message), *(as_show(s) for s in kept))
    sizes = (*draft.weigh([message]), *draft.sizer(kept))
    if sum(sizes) >= sum(p.tokens for p in pieces):
        return None
    why = "one line for the step" if told.count == 1 else f"one line for {told.count} steps"
    return over(pieces, STEP_LINE, show, sizes, why)


def over(pieces: Sequence[Piece], kind: str, show: tuple[Show, ...], sizes: tuple[int, ...], why: str) -> Piece:
    """Neighbouring pieces as one, shown as `show`."""
    units = tuple(u for p in pieces for u in p.units)
    return Piece(units, sum(p.before for p in pieces), sum(sizes), sizes, kind, show, why)


def cut_outputs(draft: Draft, index: int, lines: int) -> Piece:
    """The piece with every text of its tool outputs cut to head and tail; calls, ids and images stay."""
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
    """A tool's output with each of its texts cut to `most` lines, None where all are short enough, or it is none."""
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
    """One text over the pieces of the middle, user messages kept before it; None where lines take less."""
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
    """The draft with everything before a piece out of view, but what is held."""
    stretch: list[int] = []
    for index in range(until - 1, -2, -1):
        if index >= 0 and not draft.pieces[index].held and not _holds(draft, draft.pieces[index]):
            stretch.insert(0, index)
            continue
        if any(draft.pieces[i].shown() for i in stretch):
            covered = draft.pieces[stretch[0] : stretch[-1] + 1]
            count = sum(len(p.shown()) for p in covered)
            why = f"{count:,} messages of {many:,} runs older than the scope"
            draft = draft.swap(stretch[0], over(covered, HIDDEN, (), (), why), until=stretch[-1] + 1)
        stretch = []
    return draft


def _holds(draft: Draft, piece: Piece) -> bool:
    return any(s.key in draft.held for s in piece.shown())
