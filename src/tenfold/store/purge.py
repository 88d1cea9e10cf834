"""Builds what `purge` leaves in place of an entry, and removes the entry's text from the Blocks that quote it.

All functions are pure. They keep the structure that the fold depends on (roles, call ids, replaced ranges, the number
of messages), so later Blocks and snapshots stay valid. Another original that repeats the purged text, such as an answer
that echoes it, is not changed. It has to be purged as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct

from tenfold.core.record.block import Batch, Block, Replacement, ShownItem, Substitute
from tenfold.core.record.codec import hash_body
from tenfold.core.record.entry import (
    BranchSummary,
    CustomEntry,
    Entry,
    MessageEntry,
    Setting,
    Tombstone,
    get_kind,
    get_message,
)
from tenfold.core.record.fact import BlankFact, StoredFact
from tenfold.core.record.message import Document, Message, Part, Text, Thinking, ToolCall, ToolResult
from tenfold.core.wire.fingerprint import digest_purged, fingerprint_message
from tenfold.errors import UsageError
from tenfold.store.search.entry_text import EMPTY_RESULT, fold_text, get_searchable_text

PURGED_TEXT = "[removed by purge]"
"""Stands in place of purged text."""
_WORD = re.compile(r"[^\W_][\w./:@+\-]*")
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
_MIN_WORD, _MIN_WORD_WITH_DIGIT, _WIDE_PIECE, _TEXT_PIECE = 5, 3, 4, 16
_FENCE_TAGS = ("<tenfold-summary", "</tenfold-summary", '<seal block="')


class PurgedEntry(Struct, frozen=True):
    """A purged entry and its position. `pieces` are case-folded bits of text that can only come from it."""

    entry: Entry
    position: int
    pieces: frozenset[str] = frozenset()


def build_tombstone(entry: Entry, body: bytes, now: int) -> Tombstone:
    """Builds the tombstone of an entry. `body` holds the entry's canonical bytes.

    Raises `UsageError` for the kinds of entries that hold no text.
    """
    match entry:
        case MessageEntry():
            message: Message | None = blank_message(entry.message)
        case BranchSummary():
            message = blank_message(entry.message)
        case CustomEntry() | Setting():
            message = None
        case Tombstone():
            raise UsageError(f"entry {entry.id} is purged already: there is nothing left to remove")
        case _:
            raise UsageError(
                f"entry {entry.id} is a {type(entry).__name__}, which other entries build on; purge the originals it "
                "quotes instead, or the whole session"
            )
    said = get_message(entry)
    digest = digest_purged(entry.id, fingerprint_message(said)) if said is not None else b""
    place = entry.id, entry.parent, entry.run, entry.time
    return Tombstone(*place, get_kind(entry), hash_body(body), now, message, digest)


def blank_message(message: Message) -> Message:
    """Returns the message without its text. It keeps what the fold needs: role, status, call ids and tool names."""
    parts: list[Part] = []
    for part in message.parts:
        if isinstance(part, ToolCall):
            parts.append(ToolCall(part.id, part.name))
        elif isinstance(part, ToolResult):
            parts.append(ToolResult(part.call_id, part.name, (Text(PURGED_TEXT),), part.is_error))
    if not any(isinstance(p, ToolResult) for p in parts):
        parts.insert(0, Text(PURGED_TEXT))
    return Message(message.role, tuple(parts), "tenfold", message.status)


def can_quote(block: Block, position: int) -> bool:
    """Tells whether a Block may quote the entry at `position`: in a range or a stub, or in a fact of whatever position.

    The entry must be on the Block's path.
    """
    return bool(block.facts) or any(
        r.first <= position <= r.last
        or any(isinstance(s, Substitute) and s.original_position == position for s in r.shown_items)
        for r in block.replacements
    )


def find_distinctive_pieces(entry: Entry, quoting: Iterable[Entry], others: Iterable[Entry]) -> frozenset[str]:
    """Finds the pieces of text that the quoting entries share with `entry` and no other original has."""
    text = fold_text(get_searchable_text(entry).replace(EMPTY_RESULT, ""))
    pieces = {
        p for q in quoting for string in _list_strings(q) for line in string.splitlines() for p in _list_pieces(line)
    }
    pieces = {p for p in pieces if p in text}
    for other in others:
        if not pieces:
            break
        if isinstance(other, MessageEntry | CustomEntry | Setting):
            other_text = fold_text(get_searchable_text(other))
            pieces = {p for p in pieces if p not in other_text}
    return frozenset(pieces)


def scrub_entry(entry: Block | BranchSummary, purged: PurgedEntry) -> Block | BranchSummary:
    """Removes from an entry what it quotes of the purged one. Returns the same object if it quotes nothing."""
    if isinstance(entry, BranchSummary):
        message = _scrub_message(entry.message, purged.pieces)
        return entry if message == entry.message else msgspec.structs.replace(entry, message=message)
    clean = msgspec.structs.replace(
        entry,
        replacements=tuple(_scrub_replacement(r, purged) for r in entry.replacements),
        facts=tuple(_scrub_fact(f, purged) for f in entry.facts),
        reason=_scrub_line(entry.reason, purged.pieces),
        notes=tuple(_scrub_line(n, purged.pieces) for n in entry.notes),
        batches=tuple(_scrub_batch(b, purged.pieces) for b in entry.batches),
    )
    return entry if clean == entry else clean


def is_title_from(title: str, entry: Entry) -> bool:
    """Tells whether a session's title was taken from the entry, even if it was shortened."""
    start = " ".join(fold_text(title).rstrip(".\u2026 ").split())
    return bool(start) and start in " ".join(fold_text(get_searchable_text(entry)).split())


def without_pieces(text: str, pieces: frozenset[str]) -> str:
    """Removes every line that contains one of the pieces. Adjacent removed lines leave one marker."""
    out: list[str] = []
    for line in text.splitlines():
        kept = _scrub_line(line, pieces)
        if kept is line or not (out and out[-1] == PURGED_TEXT):
            out.append(kept)
    return "\n".join(out) if PURGED_TEXT in out else text


def _scrub_line(line: str, pieces: frozenset[str]) -> str:
    if not pieces or line.startswith(_FENCE_TAGS):
        return line
    folded = fold_text(line)
    return PURGED_TEXT if any(p in folded for p in pieces) else line


def _scrub_fact(fact: StoredFact, purged: PurgedEntry) -> StoredFact:
    """Blanks a fact that quotes the purged entry. Its place stays, since later Blocks may name it as ended."""
    text = fold_text("\n".join(_list_fact_texts(fact)))
    if fact.position != purged.position and not any(p in text for p in purged.pieces):
        return fact
    return BlankFact("", fact.position)


def _list_fact_texts(fact: StoredFact) -> tuple[str, ...]:
    return tuple(value for value in msgspec.structs.astuple(fact) if isinstance(value, str))


def _scrub_replacement(replacement: Replacement, purged: PurgedEntry) -> Replacement:
    show = tuple(_scrub_show(s, purged) for s in replacement.shown_items)
    why = _scrub_line(replacement.reason, purged.pieces)
    if show == replacement.shown_items and why == replacement.reason:
        return replacement
    sizes = replacement.sizes if show == replacement.shown_items else ()
    return msgspec.structs.replace(replacement, shown_items=show, sizes=sizes, reason=why)


def _scrub_batch(batch: Batch, pieces: frozenset[str]) -> Batch:
    text = without_pieces(batch.text, pieces)
    return batch if text == batch.text else msgspec.structs.replace(batch, text=text)


def _scrub_show(show: ShownItem, purged: PurgedEntry) -> ShownItem:
    if not isinstance(show, Substitute):
        return show
    if show.original_position == purged.position:
        return Substitute(blank_message(show.message), show.original_position)
    return Substitute(_scrub_message(show.message, purged.pieces), show.original_position)


def _scrub_message(message: Message, pieces: frozenset[str]) -> Message:
    parts = tuple(_scrub_part(p, pieces) for p in message.parts)
    return message if parts == message.parts else msgspec.structs.replace(message, parts=parts, native=None)


def _scrub_part(part: Part, pieces: frozenset[str]) -> Part:
    match part:
        case Text():
            return Text(without_pieces(part.text, pieces))
        case Thinking() if without_pieces(part.text, pieces) != part.text:
            return Thinking(PURGED_TEXT)
        case ToolCall() if _scrub_line(part.arguments, pieces) == PURGED_TEXT:
            return ToolCall(part.id, part.name)
        case ToolResult():
            content = tuple(Text(without_pieces(c.text, pieces)) if isinstance(c, Text) else c for c in part.content)
            return msgspec.structs.replace(part, content=content)
        case Document() if part.text:
            return msgspec.structs.replace(part, text=without_pieces(part.text, pieces))
        case _:
            return part


def _list_strings(entry: Entry) -> Iterator[str]:
    """Yields every text of a Block or branch summary that might quote a purged entry."""
    if isinstance(entry, BranchSummary):
        yield get_searchable_text(entry)
    if not isinstance(entry, Block):
        return
    yield entry.reason
    yield from entry.notes
    for batch in entry.batches:
        yield batch.text
    for fact in entry.facts:
        yield from _list_fact_texts(fact)
    for replacement in entry.replacements:
        yield replacement.reason
        for show in replacement.shown_items:
            if isinstance(show, Substitute):
                message_entry = MessageEntry("", None, "", None, show.message)
                yield get_searchable_text(message_entry)


def _list_pieces(line: str) -> Iterator[str]:
    """Yields the pieces of a line that are long enough to reveal something.

    They are words, runs of characters in scripts without spaces, and stretches of text.
    """
    folded = fold_text(line)
    for match in _WORD.finditer(folded):
        word = match.group().rstrip("./:@+-")
        if len(word) >= _MIN_WORD or (len(word) >= _MIN_WORD_WITH_DIGIT and any(c.isdigit() for c in word)):
            yield word
    for match in _WIDE.finditer(folded):
        run = match.group()
        yield from (run[i : i + _WIDE_PIECE] for i in range(len(run) - _WIDE_PIECE + 1))
    yield from (folded[i : i + _TEXT_PIECE] for i in range(0, len(folded) - _TEXT_PIECE + 1, _TEXT_PIECE // 2))
