"""Stages that replace whole ranges by something shorter: one line per step, a marker, or a summary."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from tenfold.calls.doing import command_of, read_call, verb_of
from tenfold.calls.outcomes import judge
from tenfold.plan.draft import TO_BE_WRITTEN, Draft, Goal, Key, Piece, as_show
from tenfold.plan.stages.elide import hint, outside_tail
from tenfold.record.block import Block, Rep, Replacement, Say, Show
from tenfold.record.message import Message, Text, ToolCall, calls_of, result_of, text_of
from tenfold.redact import redacted
from tenfold.text import opening
from tenfold.view.units import Shown
from tenfold.wire.marks import STEP

SUMMARY = "summary"
BATCHES = "batches"
"""The kind of a replacement by an archive of batches. Its writer makes it even where little can be shown."""
_LINE = 160
_SIZE = re.compile(r", [\d,]+ characters\b")


def replacement(draft: Draft, ref: Rep) -> Replacement:
    """Returns the replacement that a reference in view names."""
    block = draft.view.path.at(ref.block)
    assert isinstance(block, Block)
    return block.replacements[ref.index]


class OneLine(Struct, frozen=True):
    """Turns each closed step outside the tail into one line: what was said, what was called, and how it ended."""

    name: ClassVar[str] = "one-line"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Replaces steps, oldest first, until the target, where the line is shorter. User messages stay."""
        pieces, tokens = list(draft.pieces), draft.tokens
        for index in outside_tail(draft, goal):
            if tokens <= goal.stop:
                break
            line = one_lined(draft, pieces[index], goal) or pieces[index]
            tokens += line.tokens - pieces[index].tokens
            pieces[index] = line
        return replace(draft, pieces=tuple(pieces))


def one_lined(draft: Draft, piece: Piece, goal: Goal) -> Piece | None:
    """Turns a closed step into one line. None for what is no step, is protected, or would not get shorter."""
    shown = piece.shown()
    if piece.held or piece.allotment or piece.units[0].ref is not None:
        return None
    if not shown or shown[0].message.role != "assistant":
        return None
    if any(s.message.role == "user" for s in shown):
        return None
    entry = draft.view.path.at(piece.first).id
    message = Message("assistant", (Text(_line(shown) + hint(goal.recall, entry)),), "tenfold")
    size = draft.weigh([message])[0]
    if size >= piece.tokens:
        return None
    why = "one line for the step"
    return replace(piece, kind=OneLine.name, show=(Say(message),), sizes=(size,), tokens=size, why=why)


def _line(shown: list[Shown]) -> str:
    text = " ".join(redacted(text_of(shown[0].message)[: 4 * _LINE]).split())
    text = opening(text, _LINE + len("..."))
    parts = [text] if text else []
    results = {r.call: s for s in shown if (r := result_of(s.message)) is not None}
    for call in calls_of(shown[0].message):
        arguments = opening(redacted(_typed(call)[: 4 * _LINE]), _LINE)
        parts.append(f"{call.name}({arguments}) -> {_end(call, results.get(call.id))}")
    return STEP + "; ".join(parts)


def _end(call: ToolCall, answer: Shown | None) -> str:
    """Describes how a tool call ended, and the size of its result."""
    result = result_of(answer.message) if answer is not None else None
    if answer is None or result is None:
        return "no result"
    outcome = judge(read_call(call), text_of(answer.message), flagged=result.error, at=answer.at)
    size = sum(len(t.text) for t in result.content if isinstance(t, Text))
    return f"{outcome.note}, {size:,} characters"


def _typed(call: ToolCall) -> str:
    """Returns a shell's command as somebody would type it, and the arguments of other tool calls."""
    if verb_of(call.name) != "shell":
        return call.arguments
    parsed = read_call(call)
    command = command_of(parsed.arguments) if parsed.verb == "shell" else parsed.label
    return " ".join(command.split()) or call.arguments


def retold(text: str) -> str:
    """Removes the mark and the sizes from a line that stands for a step, for use in a narrative.

    Sizes go because a later cut would change them.
    """
    return _SIZE.sub("", text.removeprefix(STEP)) if text.startswith(STEP) else text


class DropMiddle(Struct, frozen=True):
    """Replaces everything between the first exchange and the tail by one marker. Protected messages stay."""

    keep_first: int = 1
    name: ClassVar[str] = "drop-middle"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Drops what does not fit between the two, and says how much."""
        first = after_floor(draft)
        exchanges = 0
        while first < len(draft.pieces):
            shown = draft.pieces[first].shown()
            exchanges += bool(shown) and shown[0].message.role == "user"
            if exchanges > self.keep_first:
                break
            first += 1
        last = _cut(draft, goal.target - sum(p.tokens for p in draft.pieces[:first]) - _MARKER_TOKENS, first)
        if last - first < 1:
            return draft
        covered = draft.pieces[first:last]
        count = sum(len(p.shown()) for p in covered)
        entry = draft.view.path.at(covered[0].first).id
        text = f"[{count:,} messages removed here, {sum(p.before for p in covered):,} tokens{hint(goal.recall, entry)}]"
        marker = Message("user", (Text(text),), "tenfold")
        kept = [s for p in covered for s in p.shown() if s.key in draft.held]
        show: tuple[Show, ...] = (*(as_show(s) for s in kept), Say(marker))
        sizes = (*draft.sizer(kept), *draft.weigh([marker]))
        return draft.swap(first, _over(covered, self.name, show, sizes, f"{count:,} messages by a marker"), until=last)


_MARKER_TOKENS = 60


class SummarizePrefix(Struct, frozen=True):
    """Replaces everything before the recent tail by one summary, after the user's own messages as far as they fit.

    An earlier summary in the range is updated, not summarized as text. With `keep_tail` False, everything that is
    closed is covered.
    """

    keep_tail: bool = True
    structural: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """`summarize-prefix` or `summarize-all`."""
        return "summarize-prefix" if self.keep_tail else "summarize-all"

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Cuts where the tail uses up the rest of the target, and plans one summary over what lies before."""
        first = after_floor(draft)
        allotment = goal.summary
        fixed = sum(p.tokens for p in draft.pieces[:first]) + draft.rest
        users = _users_kept(draft, goal, first)
        last = len(draft.pieces)
        if self.keep_tail:
            budget = goal.target - fixed - allotment - sum(users.values())
            draft, last = _tail(draft, goal, budget, first, users)
        covered = draft.pieces[first:last]
        if not any(p.units[0].shown for p in covered):
            return draft
        return draft.swap(first, summarized(draft, covered, users, allotment), until=last)


def summarized(draft: Draft, covered: tuple[Piece, ...], users: dict[Key, int], allotment: int) -> Piece:
    """Builds one piece with a summary over these pieces, after those of their messages that stay.

    Protected messages and the given user messages stay.
    """
    kept = [s for p in covered for s in p.shown() if s.key in draft.held or s.key in users]
    show: tuple[Show, ...] = (*(as_show(s) for s in kept), Say(TO_BE_WRITTEN))
    sizes = (*draft.sizer(kept), allotment)
    levels = [replacement(draft, u.ref).level for p in covered for u in p.units if u.ref is not None]
    why = becomes(covered, len(kept), "one summary")
    piece = _over(covered, SUMMARY, show, sizes, why)
    return replace(piece, allotment=allotment, level=max(levels, default=-1) + 1)


def becomes(covered: Sequence[Piece], kept: int, what: str) -> str:
    """Describes what becomes of these pieces' messages, and how many of them stay word for word."""
    stay = f", {kept:,} of them {'stays' if kept == 1 else 'stay'}" if kept else ""
    return f"{sum(len(p.shown()) for p in covered):,} messages become {what}{stay}"


class Merge(Struct, frozen=True):
    """Puts a parent over the oldest summaries of a level that holds more than the goal's fan-out."""

    name: ClassVar[str] = "merge"
    structural: ClassVar[bool] = True

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Merges the first run of more than `fan_out` neighbouring summaries of one level, except for the newest."""
        run: list[int] = []
        for index, piece in enumerate((*draft.pieces, None)):
            if piece is not None and not piece.shown():  # Block entries show nothing, and lie between the summaries
                continue
            level = self._level(draft, piece) if piece is not None else None
            if level is not None and (not run or level == self._level(draft, draft.pieces[run[0]])):
                run.append(index)
                continue
            if len(run) > goal.fan_out:
                break
            run = [index] if level is not None else []
        if len(run) <= goal.fan_out:
            return draft
        covered = draft.pieces[run[0] : run[-1]]
        allotment = max(goal.frame, min(goal.summary, sum(p.tokens for p in covered) // 2))
        piece = summarized(draft, covered, {}, allotment)
        return draft.swap(run[0], replace(piece, kind=SUMMARY, why=f"merges {len(run) - 1} summaries"), until=run[-1])

    @staticmethod
    def _level(draft: Draft, piece: Piece) -> int | None:
        ref = piece.units[0].ref
        if piece.changed or ref is None:
            return None
        summary = replacement(draft, ref)
        return summary.level if summary.kind == SUMMARY else None


def _over(covered: tuple[Piece, ...], kind: str, show: tuple[Show, ...], sizes: tuple[int, ...], why: str) -> Piece:
    units = tuple(u for p in covered for u in p.units)
    return Piece(units, sum(p.before for p in covered), sum(sizes), sizes, kind, show, why)


def after_floor(draft: Draft) -> int:
    """Returns the index of the first piece after the leading system messages and silent pieces among them."""
    for index, piece in enumerate(draft.pieces):
        if any(s.message.role != "system" or not s.original or s.message.origin == "tenfold" for s in piece.shown()):
            return index
    return len(draft.pieces)


def _users_kept(draft: Draft, goal: Goal, first: int) -> dict[Key, int]:
    """Chooses the user messages that stay verbatim: protected ones, and the newest within `goal.user_budget`."""
    kept: dict[Key, int] = {}
    budget = goal.users
    for piece in reversed(draft.pieces[first:]):
        for shown, size in zip(reversed(piece.shown()), reversed(_sizes_now(draft, piece)), strict=True):
            if shown.key in draft.held:
                kept[shown.key] = size
            elif shown.original and shown.message.role == "user" and shown.message.origin == "human" and size <= budget:
                kept[shown.key] = size
                budget -= size
    return kept


def _sizes_now(draft: Draft, piece: Piece) -> list[int]:
    return list(piece.sizes) if not piece.changed else draft.sizer(piece.shown())


def _cut(draft: Draft, room: int, first: int) -> int:
    """Returns the index where the tail begins: the newest pieces that fit the budget, after the open step."""
    room -= draft.rest
    index = len(draft.pieces)
    while index > first and draft.pieces[index - 1].tokens <= room:
        index -= 1
        room -= draft.pieces[index].tokens
    return index


def _tail(draft: Draft, goal: Goal, room: int, first: int, paid: dict[Key, int]) -> tuple[Draft, int]:
    """Returns the draft, and the index where its tail begins: the newest pieces that fit the budget.

    A step too large for what is left becomes one line, so that one giant step does not end the tail. Messages in
    `already_counted` cost nothing here, on whichever side of the cut they fall.
    """
    pieces = list(draft.pieces)
    index = len(pieces)
    while index > first:
        piece = pieces[index - 1]
        own = sum(paid.get(s.key, 0) for s in piece.shown())
        if piece.tokens - own > room:
            line = one_lined(draft, piece, goal)
            if line is None or line.tokens > room:
                break
            piece = line
        index -= 1
        pieces[index] = piece
        room -= piece.tokens - own
    return replace(draft, pieces=tuple(pieces)), index
