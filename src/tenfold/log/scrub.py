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

from tenfold.errors import UsageError
from tenfold.log.words import fold, searchable
from tenfold.record.block import Batch, Block, Fact, Replacement, Say, Show
from tenfold.record.codec import body_hash
from tenfold.record.entry import Branch, Custom, Entry, Said, Setting, Tombstone
from tenfold.record.message import Document, Message, Part, Text, Thinking, ToolCall, ToolResult

PURGED = "[removed by purge]"
"""Stands in place of purged text."""
_WORD = re.compile(r"[^\W_][\w./:@+\-]*")
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
_FEW, _FEW_WITH_DIGIT, _WIDE_RUN, _RUN = 5, 3, 4, 16
_FENCE = ("<tenfold-summary", "</tenfold-summary")


class Purged(Struct, frozen=True):
    """A purged entry and its position. `pieces` are case-folded bits of text that can only come from it."""

    entry: Entry
    position: int
    pieces: frozenset[str] = frozenset()


def buried(entry: Entry, body: bytes, now: int) -> Tombstone:
    """Builds the tombstone of an entry. `body` holds the entry's canonical bytes.

    Raises `UsageError` for the kinds of entries that hold no text.
    """
    match entry:
        case Said():
            message: Message | None = blank(entry.message)
        case Branch():
            message = blank(entry.message)
        case Custom() | Setting():
            message = None
        case Tombstone():
            raise UsageError(f"entry {entry.id} is purged already: there is nothing left to remove")
        case _:
            raise UsageError(
                f"entry {entry.id} is a {type(entry).__name__}, which other entries build on; purge the originals it "
                "quotes instead, or the whole session"
            )
    kind = str(type(entry).__struct_config__.tag)
    return Tombstone(entry.id, entry.parent, entry.run, entry.time, kind, body_hash(body), now, message)


def blank(message: Message) -> Message:
    """Returns the message without its text. It keeps what the fold needs: role, status, call ids and tool names."""
    parts: list[Part] = []
    for part in message.parts:
        if isinstance(part, ToolCall):
            parts.append(ToolCall(part.id, part.name))
        elif isinstance(part, ToolResult):
            parts.append(ToolResult(part.call, part.name, (Text(PURGED),), part.error))
    if not any(isinstance(p, ToolResult) for p in parts):
        parts.insert(0, Text(PURGED))
    return Message(message.role, tuple(parts), "tenfold", message.status)


def quotes(block: Block, position: int) -> bool:
    """Tells whether a Block may quote the entry at `position`: in a range, a fact or a stub.

    The entry must be on the Block's path.
    """
    return any(f.at == position for f in block.facts) or any(
        r.first <= position <= r.last or any(isinstance(s, Say) and s.of == position for s in r.show)
        for r in block.replacements
    )


def distinctive(entry: Entry, quoting: Iterable[Entry], others: Iterable[Entry]) -> frozenset[str]:
    """Finds the pieces of text that the quoting entries share with `entry` and no other original has."""
    text = fold(searchable(entry))
    pieces = {p for q in quoting for string in _strings(q) for line in string.splitlines() for p in _pieces(line)}
    pieces = {p for p in pieces if p in text}
    for other in others:
        if not pieces:
            break
        if isinstance(other, Said | Custom | Setting):
            other_text = fold(searchable(other))
            pieces = {p for p in pieces if p not in other_text}
    return frozenset(pieces)


def scrubbed(entry: Block | Branch, purged: Purged) -> Block | Branch:
    """Removes from an entry what it quotes of the purged one. Returns the same object if it quotes nothing."""
    if isinstance(entry, Branch):
        message = _rinsed(entry.message, purged.pieces)
        return entry if message == entry.message else msgspec.structs.replace(entry, message=message)
    clean = msgspec.structs.replace(
        entry,
        replacements=tuple(_replacement(r, purged) for r in entry.replacements),
        facts=tuple(f for f in entry.facts if f.at != purged.position and not _told(f, purged.pieces)),
        reason=_line(entry.reason, purged.pieces),
        notes=tuple(_line(n, purged.pieces) for n in entry.notes),
        batches=tuple(_batch(b, purged.pieces) for b in entry.batches),
    )
    return entry if clean == entry else clean


def titled(title: str, entry: Entry) -> bool:
    """Tells whether a session's title was taken from the entry, even if it was shortened."""
    start = " ".join(fold(title).rstrip(".\u2026 ").split())
    return bool(start) and start in " ".join(fold(searchable(entry)).split())


def without(text: str, pieces: frozenset[str]) -> str:
    """Removes every line that contains one of the pieces. Adjacent removed lines leave one marker."""
    out: list[str] = []
    for line in text.splitlines():
        kept = _line(line, pieces)
        if kept is line or not (out and out[-1] == PURGED):
            out.append(kept)
    return "\n".join(out) if PURGED in out else text


def _line(line: str, pieces: frozenset[str]) -> str:
    if not pieces or line.startswith(_FENCE):
        return line
    folded = fold(line)
    return PURGED if any(p in folded for p in pieces) else line


def _told(fact: Fact, pieces: frozenset[str]) -> bool:
    text = fold(f"{fact.text}\n{fact.key}\n{fact.note}")
    return any(p in text for p in pieces)


def _replacement(replacement: Replacement, purged: Purged) -> Replacement:
    show = tuple(_show(s, purged) for s in replacement.show)
    why = _line(replacement.why, purged.pieces)
    if show == replacement.show and why == replacement.why:
        return replacement
    sizes = replacement.sizes if show == replacement.show else ()
    return msgspec.structs.replace(replacement, show=show, sizes=sizes, why=why)


def _batch(batch: Batch, pieces: frozenset[str]) -> Batch:
    text = without(batch.text, pieces)
    return batch if text == batch.text else msgspec.structs.replace(batch, text=text)


def _show(show: Show, purged: Purged) -> Show:
    if not isinstance(show, Say):
        return show
    if show.of == purged.position:
        return Say(blank(show.message), show.of)
    return Say(_rinsed(show.message, purged.pieces), show.of)


def _rinsed(message: Message, pieces: frozenset[str]) -> Message:
    parts = tuple(_rinse(p, pieces) for p in message.parts)
    return message if parts == message.parts else msgspec.structs.replace(message, parts=parts, native=None)


def _rinse(part: Part, pieces: frozenset[str]) -> Part:
    match part:
        case Text():
            return Text(without(part.text, pieces))
        case Thinking() if without(part.text, pieces) != part.text:
            return Thinking(PURGED)
        case ToolCall() if _line(part.arguments, pieces) == PURGED:
            return ToolCall(part.id, part.name)
        case ToolResult():
            content = tuple(Text(without(c.text, pieces)) if isinstance(c, Text) else c for c in part.content)
            return msgspec.structs.replace(part, content=content)
        case Document() if part.text:
            return msgspec.structs.replace(part, text=without(part.text, pieces))
        case _:
            return part


def _strings(entry: Entry) -> Iterator[str]:
    """Yields every text of a Block or branch summary that might quote a purged entry."""
    if isinstance(entry, Branch):
        yield searchable(entry)
    if not isinstance(entry, Block):
        return
    yield entry.reason
    yield from entry.notes
    for batch in entry.batches:
        yield batch.text
    for fact in entry.facts:
        yield from (fact.text, fact.key, fact.note)
    for replacement in entry.replacements:
        yield replacement.why
        for show in replacement.show:
            if isinstance(show, Say):
                message_entry = Said("", None, "", None, show.message)
                yield searchable(message_entry)


def _pieces(line: str) -> Iterator[str]:
    """Yields the pieces of a line that are long enough to reveal something.

    They are words, runs of characters in scripts without spaces, and stretches of text.
    """
    folded = fold(line)
    for match in _WORD.finditer(folded):
        word = match.group().rstrip("./:@+-")
        if len(word) >= _FEW or (len(word) >= _FEW_WITH_DIGIT and any(c.isdigit() for c in word)):
            yield word
    for match in _WIDE.finditer(folded):
        run = match.group()
        yield from (run[i : i + _WIDE_RUN] for i in range(len(run) - _WIDE_RUN + 1))
    yield from (folded[i : i + _RUN] for i in range(0, len(folded) - _RUN + 1, _RUN // 2))
