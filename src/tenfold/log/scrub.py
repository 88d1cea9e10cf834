"""What `purge` leaves behind, and what it takes out of the Blocks that quote the purged entry.

Pure: entries in, entries out. The structure that the fold depends on stays as it was (roles, call ids, replaced
ranges, the number of messages), so that every later Block still fits and every snapshot still holds. Entries that
merely repeat the purged text, such as an answer that echoes it, are originals of their own: purge them as well.
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
"""What is shown in place of purged text."""
_WORD = re.compile(r"[^\W_][\w./:@+\-]*")
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
_FEW, _FEW_WITH_DIGIT, _WIDE_RUN, _RUN = 5, 3, 4, 16
_FENCE = ("<tenfold-summary", "</tenfold-summary")


class Purged(Struct, frozen=True):
    """A purged entry and where it was. `pieces` are the folded scraps of text that only it could have given."""

    entry: Entry
    position: int
    pieces: frozenset[str] = frozenset()


def buried(entry: Entry, body: bytes, now: int) -> Tombstone:
    """The tombstone of an entry with these canonical bytes. Raises `UsageError` for kinds that hold no text."""
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
    """The message without its text, but with the structure the fold needs: role, status, call ids and names."""
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
    """Whether a Block whose path holds the entry at `position` may quote it: by range, by fact, or by stub."""
    return any(f.at == position for f in block.facts) or any(
        r.first <= position <= r.last or any(isinstance(s, Say) and s.of == position for s in r.show)
        for r in block.replacements
    )


def distinctive(entry: Entry, quoting: Iterable[Entry], others: Iterable[Entry]) -> frozenset[str]:
    """The scraps that the quoting entries share with `entry` and that no other original holds."""
    text = fold(searchable(entry))
    pieces = {p for q in quoting for string in _strings(q) for line in string.splitlines() for p in _pieces(line)}
    pieces = {p for p in pieces if p in text}
    for other in others:
        if not pieces:
            break
        if isinstance(other, Said | Custom | Setting):
            held = fold(searchable(other))
            pieces = {p for p in pieces if p not in held}
    return frozenset(pieces)


def scrubbed(entry: Block | Branch, purged: Purged) -> Block | Branch:
    """The entry without what it quotes of the purged one; the very same object if it quotes nothing."""
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
    """Whether a session's title quotes the entry: it is a stretch of the entry's text, however it was shortened."""
    start = " ".join(fold(title).rstrip(".\u2026 ").split())
    return bool(start) and start in " ".join(fold(searchable(entry)).split())


def without(text: str, pieces: frozenset[str]) -> str:
    """The text less every line that holds a piece; a stretch of removed lines leaves one marker."""
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
    held = fold(f"{fact.text}\n{fact.key}\n{fact.note}")
    return any(p in held for p in pieces)


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
    """All text of a Block or Branch summary in which a purged entry might be quoted."""
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
                said = Said("", None, "", None, show.message)
                yield searchable(said)


def _pieces(line: str) -> Iterator[str]:
    """Scraps of a line that are long enough to give something away: words, wide-script runs, stretches of text."""
    folded = fold(line)
    for match in _WORD.finditer(folded):
        word = match.group().rstrip("./:@+-")
        if len(word) >= _FEW or (len(word) >= _FEW_WITH_DIGIT and any(c.isdigit() for c in word)):
            yield word
    for match in _WIDE.finditer(folded):
        run = match.group()
        yield from (run[i : i + _WIDE_RUN] for i in range(len(run) - _WIDE_RUN + 1))
    yield from (folded[i : i + _RUN] for i in range(0, len(folded) - _RUN + 1, _RUN // 2))
