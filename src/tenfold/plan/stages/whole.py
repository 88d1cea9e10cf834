"""Stages that put the whole conversation, or all but its newest entries, behind one summary and a continuation.

The continuation is a message of its own that stays in view with the Block. It says that the conversation was compacted,
and quotes the user's current request word for word, so that it need not be searched for in the summary.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, Literal

from msgspec import Struct
from msgspec.structs import replace

from tenfold.plan.draft import TO_BE_WRITTEN, Draft, Goal, Piece, as_show
from tenfold.plan.stages.condense import SUMMARY, after_floor, replacement
from tenfold.plan.stages.elide import hint
from tenfold.record.block import Block, Say, Show
from tenfold.record.message import Message, Text, calls_of, text_of
from tenfold.text import head_of, tail_of
from tenfold.trigger.triggers import CalibratedBuffer
from tenfold.view.units import Shown, Unit, shown_of
from tenfold.view.view import View
from tenfold.wire.marks import CONTINUATION, CONTINUATION_END

CONTINUED = "continuation"
"""The kind of a replacement that shows a recent entry again. The last such entry has the continuation after it; earlier
ones lose an older continuation.
"""
_HOLDS = " The summary holds everything that came before."
_ASKS = " The user's current request is: `"
_GOES_ON = "` Continue working on it "
_PLAIN = " Continue the work "
_LEAST = 30
"""Tokens below which no summary is planned: it would say nothing that the facts do not."""

Kind = Literal["text", "call", "result"]


class WholeConversation(Struct, frozen=True):
    """Turns everything that is closed into two messages: a summary, and the continuation.

    Pinned messages stay before them. A request with more than text in it stays as well, between the two.
    """

    buffer: CalibratedBuffer = CalibratedBuffer()
    name: ClassVar[str] = "whole-conversation"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Plans one summary over all closed units after the system prompt, within the buffer's limit."""
        first = after_floor(draft)
        return _behind(draft, goal, (first, len(draft.pieces)), self.buffer)


class KeepRecent(Struct, frozen=True):
    """Turns all but the newest entries into a summary. The continuation stands after the entries that stay.

    A tool result and its call are never separated. `max_turns` is how many entries may follow a summary; three tenths
    of them stay, at least `min_entries`. While that is too large for the trigger, it tries half as many, `attempts`
    times in all. Then it tries just the last steps, in case a long run of steps made all of these too large. After that
    nothing stays.
    """

    max_turns: int = 20
    attempts: int = 3
    least: int = 3
    buffer: CalibratedBuffer = CalibratedBuffer()
    name: ClassVar[str] = "keep-recent"
    structural: ClassVar[bool] = False

    @property
    def keep(self) -> int:
        """How many entries stay at first."""
        return max(self.least, self.max_turns * 30 // 100)

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Takes the first try that leaves a fifth free below the size from which the trigger acts again."""
        first = after_floor(draft)
        start = _after_summaries(draft, first)
        entries = list(_entries(p.shown() for p in draft.pieces[start:]))
        limit = _limit(draft, goal)
        kinds, keep = [kind for kind, _ in entries], self.keep
        tries: list[int] = []
        for _ in range(max(1, self.attempts)):
            tries.append(safe_split(kinds, len(entries) - keep))
            keep = max(self.least, keep // 2)
        tries.append(_step_start(kinds, len(entries) - self.least))
        for at in dict.fromkeys(tries):
            if 0 < at < len(entries):
                tried = _behind(draft, goal, (first, start + entries[at][1]), self.buffer)
                if tried.tokens <= limit and tried.pieces != draft.pieces:
                    return tried
        return _behind(draft, goal, (first, len(draft.pieces)), self.buffer)


# -- entries and where they may be split -------------------------------------------------------------------------------


def safe_split(kinds: Sequence[Kind], index: int) -> int:
    """Returns where a list of entries may be split so that no result loses its call: at or near `index`.

    Walks back while a call or a result stands there. If that reaches the beginning, walks forward past the call and its
    results. If that reaches the end, goes back to the call alone. Returns the length of the list if it is all one step,
    and an index outside of the list unchanged.
    """
    if index <= 0 or index >= len(kinds):
        return index
    at = index
    while at > 0 and kinds[at] != "text":
        at -= 1
    if at > 0:
        return at
    at = index + (kinds[index] == "call")
    while at < len(kinds) and kinds[at] == "result":
        at += 1
    if at < len(kinds):
        return at
    at = index
    while at > 0 and kinds[at] == "result":
        at -= 1
    return at or len(kinds)


def _step_start(kinds: Sequence[Kind], index: int) -> int:
    """Returns the first index from `index` on that is no result."""
    while 0 < index < len(kinds) and kinds[index] == "result":
        index += 1
    return index


def entries_since(view: View, *, most: int) -> int:
    """Counts the entries after the newest summary, no further than one more than `limit`.

    Entries are messages, where the results of one step count as one; system messages do not count. It goes by what the
    view shows, so it is right after a rewind and on every branch.
    """
    groups: list[Sequence[Shown]] = [shown_of(view.step, closing=False)] if view.step is not None else []
    units = view.units
    index, number = len(units), _count(groups)
    while index and number <= most:
        index -= 1
        if _summarises(view, units[index]):
            break
        number += _count([units[index].shown])
    return number


def _count(groups: Iterable[Sequence[Shown]]) -> int:
    return sum(1 for _ in _entries(groups))


def _entries(groups: Iterable[Sequence[Shown]]) -> Iterator[tuple[Kind, int]]:
    """Yields the entries of groups of messages, each with its group's number. A continuation is no entry."""
    for number, group in enumerate(groups):
        before: Kind = "text"
        for shown in group:
            message = shown.message
            if message.role == "system" or is_continuation(message):
                continue
            kind: Kind = "result" if message.role == "tool" else "call" if calls_of(message) else "text"
            if not kind == before == "result":
                yield kind, number
            before = kind


def _after_summaries(draft: Draft, first: int) -> int:
    """Returns the index after the newest summary among the pieces. What it covers no longer counts."""
    for index in reversed(range(first, len(draft.pieces))):
        if any(_summarises(draft.view, unit) for unit in draft.pieces[index].units):
            return index + 1
    return first


def _summarises(view: View, unit: Unit) -> bool:
    if unit.ref is None:
        return False
    block = view.path.at(unit.ref.block)
    return isinstance(block, Block) and block.replacements[unit.ref.index].kind == SUMMARY


# -- what replaces them ------------------------------------------------------------------------------------------------


def _behind(draft: Draft, goal: Goal, reach: tuple[int, int], buffer: CalibratedBuffer) -> Draft:
    """Puts the pieces of `span` behind one summary, and the continuation after the last closed entry."""
    first, last = reach
    covered = draft.pieces[first:last]
    request = _request(draft)
    if not any(s is not request and not is_continuation(s.message) for p in covered for s in p.shown()):
        return draft
    kept = [s for p in covered for s in p.shown() if s.key in draft.held and not _is(s, request)]
    after = [request] if request is not None and request.original and not _only_text(request.message) else []
    after = [s for s in after if any(s.key == each.key for p in covered for each in p.shown())]
    message = _fitted(draft, goal, request)
    of = None if request is None else request.at if request.original else request.of
    continuation_tokens = draft.weigh([message])[0]
    own = [*draft.sizer(kept), *draft.sizer(after)]
    allotment = _allotment(draft, goal, covered, sum(own) + continuation_tokens, buffer)
    show: tuple[Show, ...] = (*(as_show(s) for s in kept), Say(TO_BE_WRITTEN), *(as_show(s) for s in after))
    sizes = (*own[: len(kept)], allotment, *own[len(kept) :])
    end = next((i for i in reversed(range(last, len(draft.pieces))) if draft.pieces[i].shown()), None)
    if end is None:
        show, sizes = (*show, Say(message, of)), (*sizes, continuation_tokens)
    else:
        for index in range(last, end):
            draft = draft.swap(index, _bare(draft.pieces[index]))
        draft = draft.swap(end, _followed(_bare(draft.pieces[end]), Say(message, of), continuation_tokens))
    number = sum(len(p.shown()) for p in covered)
    levels = [replacement(draft, u.ref).level for p in covered for u in p.units if u.ref is not None]
    piece = Piece(
        tuple(u for p in covered for u in p.units),
        sum(p.before for p in covered),
        sum(sizes),
        sizes,
        SUMMARY,
        show,
        f"{number:,} messages by one summary and a continuation" + (f", {len(kept)} of them kept" if kept else ""),
        allotment=allotment,
        level=max(levels, default=-1) + 1,
    )
    return draft.swap(first, piece, until=last)


def _is(shown: Shown, other: Shown | None) -> bool:
    return other is not None and shown.key == other.key


def _only_text(message: Message) -> bool:
    return all(isinstance(part, Text) for part in message.parts)


def _bare(piece: Piece) -> Piece:
    """Returns a piece that stays, without an older continuation, which the new one replaces."""
    shown = piece.shown()
    stays = [i for i, s in enumerate(shown) if not is_continuation(s.message)]
    if len(stays) == len(shown):
        return piece
    show, sizes = tuple(as_show(shown[i]) for i in stays), tuple(piece.sizes[i] for i in stays)
    why = "stays, without the older continuation"
    return replace(piece, kind=CONTINUED, show=show, sizes=sizes, tokens=sum(sizes), why=why)


def _followed(piece: Piece, say: Say, size: int) -> Piece:
    """Returns a piece that stays, with the continuation after it."""
    show = (*(piece.show if piece.changed else (as_show(s) for s in piece.shown())), say)
    sizes = (*piece.sizes, size)
    why = "stays, with the continuation after it"
    return replace(piece, kind=CONTINUED, show=show, sizes=sizes, tokens=sum(sizes), why=why)


def _allotment(draft: Draft, goal: Goal, covered: Sequence[Piece], others: int, buffer: CalibratedBuffer) -> int:
    """Returns the summary's budget: half the buffer, if that halves what it covers and keeps within the limit.

    Together with what stands beside it, the summary takes at most three quarters of what it covers, so that a Block is
    worth it.
    """
    inside = sum(p.tokens for p in covered)
    budget = min(_limit(draft, goal) - (draft.tokens - inside), inside * 3 // 4) - others - goal.frame - goal.facts
    most = goal.narrative if goal.window is None else buffer.summary(goal.window)
    return goal.frame + goal.facts + max(_LEAST, min(most, inside // 2, budget))


def _limit(draft: Draft, goal: Goal) -> int:
    """Returns the size to stay under: the caller's target, or four fifths of what triggers again."""
    return goal.target if goal.exact else (draft.limit or goal.target) * 4 // 5


# -- the continuation --------------------------------------------------------------------------------------------------


def continuation(request: str) -> Message:
    """Builds the message that says to go on. It quotes the user's current request ("" where there is none)."""
    sentence = f"{_ASKS}{request}{_GOES_ON}" if request else _PLAIN
    return Message("user", (Text(f"{CONTINUATION}{_HOLDS}{sentence}{CONTINUATION_END}"),), "tenfold")


def is_continuation(message: Message) -> bool:
    """Whether a message is a continuation of ours, in a session or in a list that a host sent back."""
    return message.origin in ("tenfold", "harness") and text_of(message).startswith(CONTINUATION + _HOLDS)


def quoted(message: Message) -> str:
    """Returns the request that a continuation quotes, "" where it quotes none."""
    text = text_of(message).removeprefix(CONTINUATION + _HOLDS)
    if not text.startswith(_ASKS):
        return ""
    return text.removeprefix(_ASKS).removesuffix(_GOES_ON + CONTINUATION_END)


def _request(draft: Draft) -> Shown | None:
    """Finds the user's current request: their newest message in view, or the continuation that quotes it."""
    quoting: Shown | None = None
    for shown in (s for piece in reversed(draft.pieces) for s in reversed(piece.shown())):
        if quoting is None and is_continuation(shown.message) and quoted(shown.message):
            quoting = shown
        human = shown.original and shown.message.role == "user" and shown.message.origin == "human"
        if human and text_of(shown.message).strip():
            return shown if quoting is None or quoting.of == shown.at else quoting
    return quoting


def _fitted(draft: Draft, goal: Goal, request: Shown | None) -> Message:
    """Builds the continuation with the request in it: whole up to a quarter of the target, else head and tail.

    It says how much is left out, and where to read it.
    """
    if request is None:
        return continuation("")
    text = quoted(request.message) if is_continuation(request.message) else _said(request.message)
    message = continuation(text)
    most = max(goal.target // 4, draft.weigh([continuation("")])[0] + _LEAST)
    if draft.weigh([message])[0] <= most:
        return message
    at = request.at if request.original else request.of
    end = hint(goal.recall, draft.view.path.at(at).id) if at is not None else ""
    low, high = 0, len(text)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if draft.weigh([continuation(_cut(text, middle, end))])[0] <= most else (low, middle)
    return continuation(_cut(text, low, end))


def _said(message: Message) -> str:
    return "\n".join(part.text for part in message.parts if isinstance(part, Text))


def _cut(text: str, characters: int, way: str) -> str:
    """Returns head and tail of that many characters together, and states what is left out between them."""
    head = characters * 2 // 3
    tail = characters - head
    left_out = len(text) - characters
    gap = f"[... {left_out:,} characters of the request left out{way} ...]"
    return f"{head_of(text, head)}\n{gap}\n{tail_of(text, tail)}"
