"""Stages that put the whole conversation, or all but its newest entries, behind one summary and a continuation.

The continuation is a message of its own that stays in view with the Block. It says that the conversation was compacted,
and quotes the user's current request word for word, so that it need not be searched for in the summary.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, Literal

from msgspec import Struct
from msgspec.structs import replace

from tenfold.plan.draft import UNWRITTEN_SUMMARY, Draft, DraftPiece, Goal, to_shown_item
from tenfold.plan.stages.condense import SUMMARY, find_floor_end, get_replacement
from tenfold.plan.stages.elide import render_read_hint
from tenfold.record.block import Block, ShownItem, Substitute
from tenfold.record.message import Message, Text, get_text, get_tool_calls
from tenfold.text.excerpts import Keep, excerpt
from tenfold.trigger.limits import CalibratedBufferTrigger
from tenfold.view.fold import View
from tenfold.view.units import Unit, VisibleMessage, get_step_messages
from tenfold.wire.marks import CONTINUATION_END, CONTINUATION_START

CONTINUATION_KIND = "continuation"
"""The kind of a replacement that shows a recent entry again. The last such entry has the continuation after it; earlier
ones lose an older continuation.
"""
_SUMMARY_SENTENCE = " The summary holds everything that came before."
_REQUEST_INTRO = " The user's current request is: `"
_REQUEST_OUTRO = "` Continue working on it "
_PLAIN_SENTENCE = " Continue the work "
_MIN_SUMMARY_TOKENS = 30
"""Tokens below which no summary is planned: it would say nothing that the facts do not."""

EntryKind = Literal["text", "call", "result"]


class WholeConversationStage(Struct, frozen=True):
    """Turns everything that is closed into two messages: a summary, and the continuation.

    Pinned messages stay before them. A request with more than text in it stays as well, between the two.
    """

    buffer: CalibratedBufferTrigger = CalibratedBufferTrigger()
    name: ClassVar[str] = "whole-conversation"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Plans one summary over all closed units after the system prompt, within the buffer's limit."""
        first = find_floor_end(draft)
        return _summarize_range(draft, goal, (first, len(draft.pieces)), self.buffer)


class KeepRecentStage(Struct, frozen=True):
    """Turns all but the newest entries into a summary. The continuation stands after the entries that stay.

    A tool result and its call are never separated. `max_turns` is how many entries may follow a summary; three tenths
    of them stay, at least `min_entries`. While that is too large for the trigger, it tries half as many, `attempts`
    times in all. Then it tries just the last steps, in case a long run of steps made all of these too large. After that
    nothing stays.
    """

    max_turns: int = 20
    attempts: int = 3
    min_entries: int = 3
    buffer: CalibratedBufferTrigger = CalibratedBufferTrigger()
    name: ClassVar[str] = "keep-recent"
    structural: ClassVar[bool] = False

    @property
    def kept_entries(self) -> int:
        """How many entries stay at first."""
        return max(self.min_entries, self.max_turns * 30 // 100)

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Takes the first try that leaves a fifth free below the size from which the trigger acts again."""
        first = find_floor_end(draft)
        start = _find_summary_end(draft, first)
        entries = list(_walk_entries(p.get_visible_messages() for p in draft.pieces[start:]))
        limit = _get_limit(draft, goal)
        kinds, keep = [kind for kind, _ in entries], self.kept_entries
        tries: list[int] = []
        for _ in range(max(1, self.attempts)):
            tries.append(find_entry_split(kinds, len(entries) - keep))
            keep = max(self.min_entries, keep // 2)
        tries.append(_skip_results(kinds, len(entries) - self.min_entries))
        for at in dict.fromkeys(tries):
            if 0 < at < len(entries):
                tried = _summarize_range(draft, goal, (first, start + entries[at][1]), self.buffer)
                if tried.tokens <= limit and tried.pieces != draft.pieces:
                    return tried
        return _summarize_range(draft, goal, (first, len(draft.pieces)), self.buffer)


# -- entries and where they may be split -------------------------------------------------------------------------------


def find_entry_split(kinds: Sequence[EntryKind], index: int) -> int:
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


def _skip_results(kinds: Sequence[EntryKind], index: int) -> int:
    """Returns the first index from `index` on that is no result."""
    while 0 < index < len(kinds) and kinds[index] == "result":
        index += 1
    return index


def count_entries_since(view: View, *, limit: int) -> int:
    """Counts the entries after the newest summary, no further than one more than `limit`.

    Entries are messages, where the results of one step count as one; system messages do not count. It goes by what the
    view shows, so it is right after a rewind and on every branch.
    """
    groups: list[Sequence[VisibleMessage]] = (
        [get_step_messages(view.open_step, closing=False)] if view.open_step is not None else []
    )
    units = view.units
    index, number = len(units), _count_entries(groups)
    while index and number <= limit:
        index -= 1
        if _is_summary(view, units[index]):
            break
        number += _count_entries([units[index].visible_messages])
    return number


def _count_entries(groups: Iterable[Sequence[VisibleMessage]]) -> int:
    return sum(1 for _ in _walk_entries(groups))


def _walk_entries(groups: Iterable[Sequence[VisibleMessage]]) -> Iterator[tuple[EntryKind, int]]:
    """Yields the entries of groups of messages, each with its group's number. A continuation is no entry."""
    for number, group in enumerate(groups):
        before: EntryKind = "text"
        for shown in group:
            message = shown.message
            if message.role == "system" or is_continuation(message):
                continue
            kind: EntryKind = "result" if message.role == "tool" else "call" if get_tool_calls(message) else "text"
            if not kind == before == "result":
                yield kind, number
            before = kind


def _find_summary_end(draft: Draft, first: int) -> int:
    """Returns the index after the newest summary among the pieces. What it covers no longer counts."""
    for index in reversed(range(first, len(draft.pieces))):
        if any(_is_summary(draft.view, unit) for unit in draft.pieces[index].units):
            return index + 1
    return first


def _is_summary(view: View, unit: Unit) -> bool:
    if unit.block_part is None:
        return False
    block = view.path.get_entry(unit.block_part.block)
    return isinstance(block, Block) and block.replacements[unit.block_part.index].kind == SUMMARY


# -- what replaces them ------------------------------------------------------------------------------------------------


def _summarize_range(draft: Draft, goal: Goal, span: tuple[int, int], buffer: CalibratedBufferTrigger) -> Draft:
    """Puts the pieces of `span` behind one summary, and the continuation after the last closed entry."""
    first, last = span
    covered = draft.pieces[first:last]
    request = _find_request(draft)
    if not any(s is not request and not is_continuation(s.message) for p in covered for s in p.get_visible_messages()):
        return draft
    kept = [
        s for p in covered for s in p.get_visible_messages() if s.key in draft.protected and not _is_same(s, request)
    ]
    after = [request] if request is not None and request.is_original and not _has_only_text(request.message) else []
    after = [s for s in after if any(s.key == each.key for p in covered for each in p.get_visible_messages())]
    message = _fit_continuation(draft, goal, request)
    of = None if request is None else request.position if request.is_original else request.original_position
    continuation_tokens = draft.measure_messages([message])[0]
    own = [*draft.measure_visible(kept), *draft.measure_visible(after)]
    allotment = _get_summary_budget(draft, goal, covered, sum(own) + continuation_tokens, buffer)
    show: tuple[ShownItem, ...] = (
        *(to_shown_item(s) for s in kept),
        Substitute(UNWRITTEN_SUMMARY),
        *(to_shown_item(s) for s in after),
    )
    sizes = (*own[: len(kept)], allotment, *own[len(kept) :])
    end = next((i for i in reversed(range(last, len(draft.pieces))) if draft.pieces[i].get_visible_messages()), None)
    if end is None:
        show, sizes = (*show, Substitute(message, of)), (*sizes, continuation_tokens)
    else:
        for index in range(last, end):
            draft = draft.with_piece(index, _without_continuation(draft.pieces[index]))
        draft = draft.with_piece(
            end,
            _with_continuation(_without_continuation(draft.pieces[end]), Substitute(message, of), continuation_tokens),
        )
    number = sum(len(p.get_visible_messages()) for p in covered)
    levels = [get_replacement(draft, u.block_part).level for p in covered for u in p.units if u.block_part is not None]
    piece = DraftPiece(
        tuple(u for p in covered for u in p.units),
        sum(p.tokens_before for p in covered),
        sum(sizes),
        sizes,
        SUMMARY,
        show,
        f"{number:,} messages by one summary and a continuation" + (f", {len(kept)} of them kept" if kept else ""),
        summary_budget=allotment,
        level=max(levels, default=-1) + 1,
    )
    return draft.with_piece(first, piece, until=last)


def _is_same(shown: VisibleMessage, other: VisibleMessage | None) -> bool:
    return other is not None and shown.key == other.key


def _has_only_text(message: Message) -> bool:
    return all(isinstance(part, Text) for part in message.parts)


def _without_continuation(piece: DraftPiece) -> DraftPiece:
    """Returns a piece that stays, without an older continuation, which the new one replaces."""
    shown = piece.get_visible_messages()
    stays = [i for i, s in enumerate(shown) if not is_continuation(s.message)]
    if len(stays) == len(shown):
        return piece
    show, sizes = tuple(to_shown_item(shown[i]) for i in stays), tuple(piece.sizes[i] for i in stays)
    why = "stays, without the older continuation"
    return replace(piece, kind=CONTINUATION_KIND, shown_items=show, sizes=sizes, tokens=sum(sizes), reason=why)


def _with_continuation(piece: DraftPiece, item: Substitute, size: int) -> DraftPiece:
    """Returns a piece that stays, with the continuation after it."""
    show = (
        *(piece.shown_items if piece.is_changed else (to_shown_item(s) for s in piece.get_visible_messages())),
        item,
    )
    sizes = (*piece.sizes, size)
    why = "stays, with the continuation after it"
    return replace(piece, kind=CONTINUATION_KIND, shown_items=show, sizes=sizes, tokens=sum(sizes), reason=why)


def _get_summary_budget(
    draft: Draft, goal: Goal, covered: Sequence[DraftPiece], other_tokens: int, buffer: CalibratedBufferTrigger
) -> int:
    """Returns the summary's budget: half the buffer, if that halves what it covers and keeps within the limit.

    Together with what stands beside it, the summary takes at most three quarters of what it covers, so that a Block is
    worth it.
    """
    inside = sum(p.tokens for p in covered)
    budget = (
        min(_get_limit(draft, goal) - (draft.tokens - inside), inside * 3 // 4)
        - other_tokens
        - goal.summary_overhead
        - goal.facts_budget
    )
    most = goal.narrative_budget if goal.window is None else buffer.get_summary_budget(goal.window)
    return goal.summary_overhead + goal.facts_budget + max(_MIN_SUMMARY_TOKENS, min(most, inside // 2, budget))


def _get_limit(draft: Draft, goal: Goal) -> int:
    """Returns the size to stay under: the caller's target, or four fifths of what triggers again."""
    return goal.target if goal.exact else (draft.limit or goal.target) * 4 // 5


# -- the continuation --------------------------------------------------------------------------------------------------


def build_continuation(request: str) -> Message:
    """Builds the message that says to go on. It quotes the user's current request ("" where there is none)."""
    sentence = f"{_REQUEST_INTRO}{request}{_REQUEST_OUTRO}" if request else _PLAIN_SENTENCE
    return Message("user", (Text(f"{CONTINUATION_START}{_SUMMARY_SENTENCE}{sentence}{CONTINUATION_END}"),), "tenfold")


def is_continuation(message: Message) -> bool:
    """Whether a message is a continuation of ours, in a session or in a list that a host sent back."""
    return message.origin in ("tenfold", "harness") and get_text(message).startswith(
        CONTINUATION_START + _SUMMARY_SENTENCE
    )


def extract_request(message: Message) -> str:
    """Returns the request that a continuation quotes, "" where it quotes none."""
    text = get_text(message).removeprefix(CONTINUATION_START + _SUMMARY_SENTENCE)
    if not text.startswith(_REQUEST_INTRO):
        return ""
    return text.removeprefix(_REQUEST_INTRO).removesuffix(_REQUEST_OUTRO + CONTINUATION_END)


def _find_request(draft: Draft) -> VisibleMessage | None:
    """Finds the user's current request: their newest message in view, or the continuation that quotes it."""
    quoting: VisibleMessage | None = None
    for shown in (s for piece in reversed(draft.pieces) for s in reversed(piece.get_visible_messages())):
        if quoting is None and is_continuation(shown.message) and extract_request(shown.message):
            quoting = shown
        human = shown.is_original and shown.message.role == "user" and shown.message.origin == "human"
        if human and get_text(shown.message).strip():
            return shown if quoting is None or quoting.original_position == shown.position else quoting
    return quoting


def _fit_continuation(draft: Draft, goal: Goal, request: VisibleMessage | None) -> Message:
    """Builds the continuation with the request in it: whole up to a quarter of the target, else head and tail.

    It says how much is left out, and where to read it.
    """
    if request is None:
        return build_continuation("")
    text = extract_request(request.message) if is_continuation(request.message) else _join_text(request.message)
    message = build_continuation(text)
    most = max(goal.target // 4, draft.measure_messages([build_continuation("")])[0] + _MIN_SUMMARY_TOKENS)
    if draft.measure_messages([message])[0] <= most:
        return message
    at = request.position if request.is_original else request.original_position
    end = render_read_hint(goal.recall, draft.view.path.get_entry(at).id) if at is not None else ""
    low, high = 0, len(text)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (
            (middle, high)
            if draft.measure_messages([build_continuation(_cut_request(text, middle, end))])[0] <= most
            else (low, middle)
        )
    return build_continuation(_cut_request(text, low, end))


def _join_text(message: Message) -> str:
    return "\n".join(part.text for part in message.parts if isinstance(part, Text))


def _cut_request(text: str, characters: int, read_hint: str) -> str:
    """Returns head and tail of that many characters together, and states what is left out between them."""
    head = characters * 2 // 3
    tail = characters - head
    left_out = len(text) - characters
    gap = f"[... {left_out:,} characters of the request left out{read_hint} ...]"
    return f"{excerpt(text, head, Keep.HEAD)}\n{gap}\n{excerpt(text, tail, Keep.TAIL)}"
