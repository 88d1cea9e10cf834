"""What the pages about one session show: its messages in pieces, what the model sees of them, its Blocks and branches.

Each function reads what its page needs and returns values for the template. Texts are exact but for what could act on
the screen: control characters and marks that change the direction of text are shown as escapes.
"""

from __future__ import annotations

import difflib
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from sys import maxsize
from typing import Literal
from unicodedata import category

import msgspec
from msgspec import Struct

from tenfold.apps.inspector.timeline import MeasuredSession, Seen
from tenfold.core.record.block import OWN_BLOCK, Block, BlockPart, RangeRef, Run, Substitute
from tenfold.core.record.entry import (
    PREPARED_SUMMARY,
    SET_ASIDE,
    Attempt,
    CustomEntry,
    Entry,
    Pin,
    PreparedSummary,
    Retraction,
    Setting,
    get_kind,
    get_message,
)
from tenfold.core.record.message import (
    Document,
    Image,
    Message,
    OpaquePart,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    get_text,
)
from tenfold.core.text.excerpts import collapse_spaces, has_words
from tenfold.core.text.language import stem_word
from tenfold.core.text.sentences import split_sentences
from tenfold.core.view.fold import View
from tenfold.core.view.units import VisibleMessage
from tenfold.errors import NotFoundError
from tenfold.formats.summaries import CLIENT_COMPACTIONS
from tenfold.recall.expand import excerpt_message
from tenfold.recall.search import locate_words
from tenfold.session import Session
from tenfold.store.search.entry_text import fold_text

ROWS = 200
"""Entries in one piece of the list, which a browser asks for when it is scrolled into view."""
EXCERPT = 300
"""Characters of a message in a list."""
MOST_CHARACTERS = 50_000
"""Characters of a message that are sent at once. The rest follows on request."""
PIECE_TOKENS, PIECE_MESSAGES = 8_000, 50
"""A piece of what the model sees has so many messages and, unless one alone is longer, about so many tokens."""
PAGE_TOKENS = 40_000
"""Tokens of what the model sees that are sent with its page. The rest is loaded when it is scrolled into view."""
MOST_RULE_CHARACTERS = 2_000
"""Characters of a rule that is added here: it is sent with every request."""
MOST_LINES = 4_000
"""Lines of two texts that are compared line by line, at most: above that both are shown as they are."""
_UNSEEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f\ud800-\udfff]"
)


LEAST_STEM = 3
"""Letters of a stem by which a word is marked. Shorter ones are those of any word."""
_WORD, _WORD_START, _WORD_END = re.compile(r"\w+"), re.compile(r"\w*"), re.compile(r"\w*\Z")


class LogRow(Struct, frozen=True):
    """One entry in the list of a session: its position, whose it is, whether the model sees it, and its beginning."""

    position: int
    id: str
    who: str
    seen: Seen | Literal[""]
    is_pinned: bool
    tokens: int
    text: str


class ShownPart(Struct, frozen=True):
    """One part of a message: what kind it is, and its text as it is shown. `rest` characters were left out."""

    kind: str
    title: str
    text: str
    rest: int = 0


class ShownMessage(Struct, frozen=True):
    """A whole message: who wrote it, where it stands, its parts, and what the model sees in its place.

    `cover` is what stands for the whole range that it is hidden with, None for a message that is seen. `hidden_by` are
    the number and id of each compaction in force that covers a message that is not seen as it was. `quotations` are its
    sentences that a summary in view has word for word.
    """

    row: LogRow
    parts: tuple[ShownPart, ...]
    instead: tuple[ShownPart, ...] = ()
    time: int | None = None
    cover: Comparison | None = None
    hidden_by: tuple[tuple[int, str], ...] = ()
    quotations: tuple[str, ...] = ()


class DiffLine(Struct, frozen=True):
    """One line of a comparison: of both texts (" "), of the old one alone ("-"), or of the new one alone ("+")."""

    sign: Literal[" ", "-", "+"]
    text: str


class SeenMessage(Struct, frozen=True):
    """A message of a view, the `number`th from 0: who wrote it, and its parts.

    `position` is that of the message it is or stands for, -1 for a summary. `note` says what it is: "" for the log's
    own message, "stays" for one within a range that was compacted, "pinned", "shortened", or "summary".
    """

    number: int
    position: int
    who: str
    note: Literal["", "stays", "pinned", "shortened", "summary"]
    parts: tuple[ShownPart, ...]


class SeenPiece(Struct, frozen=True):
    """Messages of a view, from one number to another. `messages` is empty where the browser asks for them later."""

    first: int
    last: int
    messages: tuple[SeenMessage, ...] = ()


class Comparison(Struct, frozen=True):
    """A range of positions: what there is, and what the model sees of it, message by message in `pieces`.

    `kind` says whether it is unchanged, shortened (`lines` compares the texts), replaced by a summary, or hidden.
    """

    first: int
    last: int
    kind: Literal["unchanged", "shortened", "replaced", "hidden"]
    messages: int
    tokens_before: int
    tokens_after: int
    block: str = ""
    reason: str = ""
    pieces: tuple[SeenPiece, ...] = ()
    lines: tuple[DiffLine, ...] = ()


class BlockNode(Struct, frozen=True):
    """One replacement in the tree of Blocks: what it shows, and how many replacements and messages lie under it."""

    block: str
    index: int
    position: int
    first: int
    last: int
    level: int
    kind: str
    reason: str
    tokens: int
    shown: tuple[ShownPart, ...]
    inner: int
    originals: int


def escape_unseen(text: str) -> str:
    """Shows characters that could act on the screen, or be invisible, as escapes with their numbers."""
    flat = text.replace("\r\n", "\n")
    return _UNSEEN.sub(lambda match: f"\\u{{{ord(match[0]):x}}}", flat) if _UNSEEN.search(flat) else flat


def flatten(text: str, width: int = EXCERPT) -> str:
    """Returns the beginning of a text on one line."""
    line = " ".join(escape_unseen(text[: 4 * width]).split())
    return line if len(line) <= width else f"{line[: width - 1]}…"


def read_rows(measured: MeasuredSession, first: int, count: int = ROWS) -> list[LogRow]:
    """Reads a piece of the list of entries, from a position on. It costs O(count)."""
    path, view, states, sizes = measured.view.path, measured.view, measured.states, measured.sizes
    last = min(first + count, path.length) - 1
    if last < first:
        return []
    entries = path.get_entries(first, last)
    return [
        _build_row(at, entry, states[at], sizes[at], is_pinned=at in view.state.pins)
        for at, entry in enumerate(entries, first)
    ]


def _build_row(position: int, entry: Entry, seen: Seen, tokens: int, *, is_pinned: bool) -> LogRow:
    message = get_message(entry)
    if message is None:
        return LogRow(position, entry.id, get_kind(entry), "", is_pinned, 0, flatten(_describe_entry(entry)))
    return LogRow(position, entry.id, name_writer(message), seen, is_pinned, tokens, flatten(excerpt_message(message)))


def _describe_entry(entry: Entry) -> str:
    match entry:
        case Block():
            before, after = entry.sizes
            return f"compaction by {entry.policy}: {before:,} to {after:,} tokens. {entry.reason}"
        case Attempt():
            return f"no compaction ({entry.status}): {entry.reason}"
        case Retraction():
            return f"a compaction was undone: {entry.block}"
        case CustomEntry(kind=kind) if kind in CLIENT_COMPACTIONS:
            return f"the client compacted here by itself: {entry.native.body.decode('utf-8', 'replace')}"
        case Setting(key=key, value=value) if key == PREPARED_SUMMARY:
            spent = msgspec.json.decode(value, type=PreparedSummary).spent
            took = f"{spent.input_tokens:,} tokens in, {spent.output_tokens:,} out"
            return f"a summary was written ahead of its use by {spent.model or 'a model'}: {took}"
        case Setting(key=key) if key == SET_ASIDE:
            return "the compactions in force were set aside, to compact anew from the originals"
        case Setting():
            return f"{entry.key}: {entry.value}"
        case Pin():
            return f"entry {entry.position} was {'pinned' if entry.pinned else 'unpinned'}"
        case CustomEntry():
            return entry.native.body.decode("utf-8", "replace")
        case _:
            return ""


def name_writer(message: Message) -> str:
    """Returns whose message it is: its role, and its origin where that is not the usual one."""
    usual = {"user": "human", "assistant": "model", "tool": "tool", "system": "harness"}
    return message.role if usual[message.role] == message.origin else f"{message.role} ({message.origin})"


def read_message(measured: MeasuredSession, position: int, limit: int | None = MOST_CHARACTERS) -> ShownMessage:
    """Reads the message at a position, and what the model sees in its place.

    Parts longer than `limit` are cut, with None no part is. Raises `NotFoundError` if there is no such entry.
    """
    path, view = measured.view.path, measured.view
    if not 0 <= position < path.length:
        raise NotFoundError(f"no entry number {position}: this session has {path.length:,}, numbered from 0")
    entry = path.get_entry(position)
    seen, tokens = measured.states[position], measured.sizes[position]
    row = _build_row(position, entry, seen, tokens, is_pinned=position in view.state.pins)
    message = get_message(entry)
    parts = show_parts(message, limit) if message is not None else _show_entry(entry, limit)
    instead = [part for each in measured.substitutes.get(position, ()) for part in show_parts(each, limit)]
    is_out = row.seen in ("hidden", "replaced")
    hidden_by = tuple(_list_covering_blocks(view, position)) if is_out or row.seen == "shortened" else ()
    return ShownMessage(
        row,
        parts,
        tuple(instead),
        getattr(entry, "time", None),
        _find_cover(measured, position) if is_out else None,
        hidden_by,
        tuple(_list_quotations(measured, message)) if is_out and message is not None else (),
    )


def _list_quotations(measured: MeasuredSession, message: Message) -> Iterator[str]:
    """Yields the sentences of a message that a summary in view has word for word. One of a single word says nothing."""
    summaries = [each.message for each in measured.seen if each.original_position is None]
    told = collapse_spaces("\n".join(map(get_text, summaries)))
    for sentence in split_sentences(get_text(message)):
        words = collapse_spaces(sentence)
        if " " in words and has_words(words, told):
            yield escape_unseen(sentence)


def _list_covering_blocks(view: View, position: int) -> Iterator[tuple[int, str]]:
    for number, at in enumerate(view.state.live_blocks, 1):
        block = view.path.get_block(at)
        if any(each.first <= position <= each.last for each in block.replacements):
            yield number, block.id


def _find_cover(measured: MeasuredSession, position: int) -> Comparison | None:
    refs = (pair for pair in enumerate(measured.view.range_refs) if pair[1].first <= position <= pair[1].last)
    at, ref = next(refs, (0, None))
    if not isinstance(ref, BlockPart):
        return None
    return _compare_part(measured, ref, list(_cut_pieces(measured, measured.places[at], _Room(PIECE_TOKENS))))


def _show_entry(entry: Entry, limit: int | None) -> tuple[ShownPart, ...]:
    if isinstance(entry, Block):
        shown = (
            item.message for each in entry.replacements for item in each.shown_items if isinstance(item, Substitute)
        )
        return tuple(part for message in shown for part in show_parts(message, limit))
    return (_cut(get_kind(entry), "", _describe_entry(entry), limit),)


def show_parts(message: Message, limit: int | None = MOST_CHARACTERS) -> tuple[ShownPart, ...]:
    """Returns the parts of a message as they are shown, each of `limit` characters at most."""
    return tuple(shown for part in message.parts for shown in _show_part(part, limit))


def _show_part(part: Part, limit: int | None) -> Iterator[ShownPart]:
    match part:
        case Text():
            yield _cut("text", "", part.text, limit)
        case Thinking():
            yield _cut("thinking", "thinking", part.text, limit)
        case ToolCall():
            yield _cut("call", f"calls {flatten(part.name, 80)}", part.arguments, limit)
        case ToolResult():
            title = "result, failed" if part.is_error else "result"
            for inner in part.content:
                for shown in _show_part(inner, limit):
                    yield ShownPart("failed" if part.is_error else "result", title, shown.text, shown.rest)
        case Image():
            yield _cut("media", "image", part.media_type or part.url, 200)
        case Document():
            yield _cut("media", flatten(f"document {part.name or part.media_type or part.url}", 200), part.text, limit)
        case OpaquePart():
            yield _cut("media", flatten(part.kind, 80), f"{len(part.raw):,} bytes that only the provider reads", limit)


def _cut(kind: str, title: str, text: str, limit: int | None) -> ShownPart:
    kept = text if limit is None else text[:limit]
    return ShownPart(kind, title, escape_unseen(kept), len(text) - len(kept))


class _Room:
    """How many tokens of messages are still sent with a page. The piece that holds message `at` is sent anyhow."""

    def __init__(self, tokens: int, at: int = -1) -> None:
        self.tokens, self.at = tokens, at


def compare_view(measured: MeasuredSession, at: int = -1, *, is_whole: bool = False) -> list[Comparison]:
    """Compares what there is with what the model sees of it: one range after the other, in the order of the log.

    The messages of the view are there up to `PAGE_TOKENS`, with the piece that holds message number `at`. With
    `is_whole` all are.
    """
    view, sizes, room = measured.view, measured.sizes, _Room(maxsize if is_whole else PAGE_TOKENS, at)
    compared: list[Comparison] = []
    for ref, numbers in zip(view.range_refs, measured.places, strict=True):
        pieces = list(_cut_pieces(measured, numbers, room))
        if isinstance(ref, BlockPart):
            compared.append(_compare_part(measured, ref, pieces))
            continue
        before = sum(sizes[ref.first : ref.last + 1])
        messages = sum(size > 0 for size in sizes[ref.first : ref.last + 1])
        if messages or pieces:
            compared.append(
                Comparison(ref.first, ref.last, "unchanged", messages, before, before, pieces=tuple(pieces))
            )
    return compared


def _cut_pieces(measured: MeasuredSession, numbers: range, room: _Room) -> Iterator[SeenPiece]:
    """Cuts messages of the view into pieces of some tokens, and reads those for which there is room."""
    shown_sizes = measured.session.conversation.get_message_sizes()
    first, tokens = numbers.start, 0
    for number in numbers:
        tokens += shown_sizes[measured.seen[number].key]
        if tokens < PIECE_TOKENS and number - first + 1 < PIECE_MESSAGES and number != numbers[-1]:
            continue
        is_sent = room.tokens > 0 or first <= room.at <= number
        yield SeenPiece(first, number, read_seen(measured, first, number) if is_sent else ())
        room.tokens -= tokens if is_sent else 0
        first, tokens = number + 1, 0


def read_seen(
    measured: MeasuredSession, first: int, last: int, limit: int | None = MOST_CHARACTERS
) -> tuple[SeenMessage, ...]:
    """Reads messages of the view by their numbers. Parts longer than `limit` are cut, with None no part is."""
    if not 0 <= first <= last < len(measured.seen):
        raise NotFoundError(f"no messages {first} to {last}: the model sees {len(measured.seen):,}, numbered from 0")
    return tuple(
        _build_seen(measured, number, each, limit) for number, each in enumerate(measured.seen[first : last + 1], first)
    )


def _build_seen(measured: MeasuredSession, number: int, seen: VisibleMessage, limit: int | None) -> SeenMessage:
    position = -1 if seen.original_position is None else seen.original_position
    note: Literal["", "stays", "pinned", "shortened", "summary"] = ""
    if position < 0:
        note = "summary"
    elif not seen.is_original:
        note = "shortened"
    elif position in measured.view.state.pins:
        note = "pinned"
    else:
        at = bisect_right(measured.places, number, key=lambda numbers: numbers.stop)
        note = "stays" if isinstance(measured.view.range_refs[at], BlockPart) else ""
    return SeenMessage(number, position, name_writer(seen.message), note, show_parts(seen.message, limit))


def _compare_part(of: MeasuredSession, ref: BlockPart, pieces: Sequence[SeenPiece]) -> Comparison:
    view, sizes, replacement = of.view, of.sizes, of.view.get_replacement(ref)
    block = view.path.get_block(ref.block)
    items = replacement.shown_items
    substitutes = [item for item in items if isinstance(item, Substitute)]
    shown_sizes = of.session.conversation.get_message_sizes()
    after = sum(shown_sizes[of.seen[number].key] for piece in pieces for number in range(piece.first, piece.last + 1))
    before = sum(sizes[ref.first : ref.last + 1])
    messages = sum(size > 0 for size in sizes[ref.first : ref.last + 1])
    lines: tuple[DiffLine, ...] = ()
    if not substitutes:
        kind: Literal["unchanged", "shortened", "replaced", "hidden"] = "unchanged" if pieces else "hidden"
    elif all(item.original_position is not None for item in substitutes):
        kind, lines = "shortened", tuple(_compare_substitutes(view, substitutes))
    else:
        kind = "replaced"
    return Comparison(
        ref.first, ref.last, kind, messages, before, after, block.id, replacement.reason, tuple(pieces), lines
    )


def _compare_substitutes(view: View, substitutes: Sequence[Substitute]) -> Iterator[DiffLine]:
    for item in substitutes:
        assert item.original_position is not None
        message = get_message(view.path.get_entry(item.original_position))
        old = _render_lines(message) if message is not None else []
        yield from compare_lines(old, _render_lines(item.message))


def _render_lines(message: Message) -> list[str]:
    return "\n".join(part.text for part in show_parts(message)).splitlines()


def compare_lines(old: Sequence[str], new: Sequence[str]) -> Iterator[DiffLine]:
    """Compares two texts line by line. What is the same for long is left out but for three lines at each end."""
    if len(old) + len(new) > MOST_LINES:
        yield from (DiffLine("-", line) for line in old[:MOST_LINES])
        yield from (DiffLine("+", line) for line in new[:MOST_LINES])
        return
    for tag, first, last, start, end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            same = old[first:last]
            cut = len(same) > 8
            yield from (DiffLine(" ", line) for line in (same[:3] if cut else same))
            if cut:
                yield DiffLine(" ", f"… {len(same) - 6:,} lines are the same …")
                yield from (DiffLine(" ", line) for line in same[-3:])
        else:
            yield from (DiffLine("-", line) for line in old[first:last])
            yield from (DiffLine("+", line) for line in new[start:end])


def list_block_nodes(session: Session, block: str = "", index: int = -1) -> list[BlockNode]:
    """Lists the replacements in view; or, for one of them, those that lie directly under it."""
    refs = session.view.range_refs if not block else _find_covered(session, block, index)
    return [_build_node(session, ref) for ref in refs if isinstance(ref, BlockPart)]


def list_covered_rows(measured: MeasuredSession, block: str, index: int) -> list[LogRow]:
    """Lists the entries that one replacement covers directly, at most `ROWS` of them."""
    rows: list[LogRow] = []
    for ref in _find_covered(measured.session, block, index):
        if isinstance(ref, Run) and len(rows) < ROWS:
            rows += read_rows(measured, ref.first, min(ref.last - ref.first + 1, ROWS - len(rows)))
    return rows


def _find_covered(session: Session, block: str, index: int) -> list[RangeRef]:
    located = session.address.store.locate(session.address.namespace, block)
    entry = located.entry
    if located.session != session.address.session or not isinstance(entry, Block):
        raise NotFoundError(f"no Block {block} in this session")
    if not 0 <= index < len(entry.replacements):
        raise NotFoundError(f"Block {block} has {len(entry.replacements)} replacements, numbered from 0")
    covered = entry.replacements[index].covered_ranges
    return [
        BlockPart(located.position, ref.index, ref.first, ref.last)
        if isinstance(ref, BlockPart) and ref.block == OWN_BLOCK
        else ref
        for ref in covered
    ]


def mark_words(text: str, words: str) -> list[tuple[str, bool]]:
    """Splits a text into pieces, each with whether a search for these words goes by it. Only whole words are marked."""
    pieces: list[tuple[str, bool]] = []
    end = 0
    for start, stop in _locate_whole_words(text, words) if words.strip() else ():
        if start >= end:
            pieces += [(text[end:start], False), (text[start:stop], True)]
            end = stop
    return [piece for piece in (*pieces, (text[end:], False)) if piece[0]]


def _locate_whole_words(text: str, words: str) -> Iterator[tuple[int, int]]:
    folded = set(_WORD.findall(fold_text(words)))
    stems = {stem for word in folded if len(stem := stem_word(word, "porter")) >= LEAST_STEM}
    for start, stop in locate_words(text, words):
        if category(text[start]) == "Lo":  # nothing divides words in Chinese
            yield start, stop
            continue
        first = start - len(_WORD_END.search(text[:start])[0])  # type: ignore[index]
        last = stop + len(_WORD_START.match(text[stop:])[0])  # type: ignore[index]
        word = fold_text(text[first:last])
        is_phrase = (first, last) == (start, stop) and not _WORD.fullmatch(word)
        if is_phrase or word in folded or stem_word(word, "porter") in stems:
            yield first, last


def mark_quotations(text: str, quotations: Sequence[str]) -> list[tuple[str, bool]]:
    """Splits a text into pieces, each with whether it is one of the quotations."""
    wanted = "|".join(sorted({re.escape(each) for each in quotations}, key=len, reverse=True))
    pieces = re.split(f"({wanted})", text) if wanted else [text]
    return [(piece, number % 2 == 1) for number, piece in enumerate(pieces) if piece]


def _build_node(session: Session, ref: BlockPart) -> BlockNode:
    block = session.view.path.get_block(ref.block)
    replacement = block.replacements[ref.index]
    covered = replacement.covered_ranges
    shown = [item for item in replacement.shown_items if isinstance(item, Substitute)]
    return BlockNode(
        block.id,
        ref.index,
        ref.block,
        ref.first,
        ref.last,
        replacement.level,
        replacement.kind,
        replacement.reason,
        sum(replacement.sizes),
        tuple(part for item in shown for part in show_parts(item.message)),
        sum(isinstance(each, BlockPart) for each in covered),
        sum(each.last - each.first + 1 for each in covered if isinstance(each, Run)),
    )
