"""The texts by which an entry is found, and excerpts of them that are safe to show."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

import msgspec
from msgspec import Struct

from tenfold.core.record.block import Block, Substitute, format_batch
from tenfold.core.record.entry import BranchSummary, CustomEntry, Entry, MessageEntry, Setting, is_own_note
from tenfold.core.record.message import Document, Image, Message, OpaquePart, Part, Text, Thinking, ToolCall, ToolResult
from tenfold.core.text.json_text import decode_json
from tenfold.core.text.terminal_safe import sanitize

_PIECE = re.compile(
    "[\u3041-\u30ff][\u3099\u309a]|[\uff66-\uff9d][\uff9e\uff9f]?"  # kana, whose voicing may be a character of its own
    "|[\u1100-\u115f][\u1160-\u11a7][\u11a8-\u11ff]?"  # a Korean syllable in letters, as macOS writes file names
    "|[\u00aa-\u10ff\u1e00-\u1fff\u200b-\u206f\uf900-\uffdc\U0001d400-\U0001d7ff]"
)
"""Matches what several spellings may stand for: all other characters have one."""
_STEP = re.compile(f"{_PIECE.pattern}|.", re.DOTALL)
_UNWRITTEN = re.compile(
    "[\u0300-\u036f"  # accents of Latin, Greek and Cyrillic letters; marks of Indian scripts make other letters
    "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"  # points of Hebrew
    "\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed"  # Arabic vowel signs
    "\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]"  # soft hyphens, joiners and directions
)
"""Matches what most people leave out when they write."""
_STROKED = str.maketrans("\u00f8\u0142\u0111\u0127\u0167\u0131\u00d8\u0141\u0110\u0126\u0166", "oldhtiOLDHT")
_EDIT_KEY = re.compile("(?:(?P<old>old|search|find|before|original)|(?P<new>new|replace|replacement|after))(?![a-z])")
EMPTY_RESULT = "[empty result]"
"""The text of a tool's result that has none."""
GAP = "[... left out ...]"
"""Stands in an excerpt where some of the text is left out: three dots alone may be part of a program."""
_FOLD_LENGTH = 4_096
"""Characters that are folded at once to find an offset."""
_MARGIN = 4_000
"""Characters around an excerpt that are checked for secrets: more than the longest private key in use."""


class ArgumentValue(Struct, frozen=True):
    """A value in a call's arguments, with its key. `label` is "old" or "new" if it is a text of an edit."""

    key: str
    text: str
    label: str = ""


class PlainText(Struct, frozen=True):
    """An entry's text as a reader sees it. `edits` are where old and new texts stand: (start, stop, "old" or "new")."""

    text: str
    edits: tuple[tuple[int, int, str], ...] = ()


def normalize_text(text: str) -> str:
    """Gives each word one spelling, piece by piece, and leaves its case.

    Accents of Latin, Greek and Cyrillic letters, vowel signs of Arabic and points of Hebrew are left out. Wide, narrow,
    joined and composed forms of a letter or digit become one.
    """
    return text if text.isascii() else _PIECE.sub(lambda match: _normalize_piece(match.group()), text)


def fold_text(text: str) -> str:
    """Folds a text for comparison: as `normalize_text`, and without case. NUL is replaced, since indexes stop there."""
    return normalize_text(text.casefold().replace("\0", "\x01"))


@lru_cache(maxsize=8_192)
def _normalize_piece(piece: str) -> str:
    plain = piece
    if piece[0].isalpha() or piece[0].isdecimal():
        is_composed = (
            len(piece) > 1 or piece >= "\uff00"
        )  # kana and Korean syllables, whose parts are letters of their own
        plain = unicodedata.normalize("NFKC" if is_composed else "NFKD", piece)
    return _UNWRITTEN.sub("", plain).translate(_STROKED)


def find_unfolded(text: str, offset: int) -> int:
    """Returns where in a text the character stands that the folded text has at this offset."""
    if text.isascii():
        return offset
    start = 0
    while start < len(text) and offset >= (size := len(fold_text(text[start : start + _FOLD_LENGTH]))):
        offset -= size
        start += _FOLD_LENGTH
    for match in _STEP.finditer(text[start : start + _FOLD_LENGTH]):
        offset -= len(fold_text(match.group()))
        if offset < 0:
            return start + match.start()
    return min(start + _FOLD_LENGTH, len(text))


def get_searchable_text(entry: Entry) -> str:
    """Returns the text by which an entry is found: the whole text of an original, or a Block's summaries."""
    match entry:
        case MessageEntry() | BranchSummary():
            return "\n".join(_list_texts(entry.message))
        case Block():
            summaries = (
                s
                for r in entry.replacements
                for s in r.shown_items
                if isinstance(s, Substitute) and s.original_position is None
            )
            joined = "\n".join(text for summary in summaries for text in _list_texts(summary.message))
            return "\n".join((joined, *(format_batch(batch) for batch in entry.batches)))
        case CustomEntry():
            return entry.native.body.decode("utf-8", "replace")
        case Setting() if not is_own_note(entry):
            return f"{entry.key} {entry.value}"
        case _:
            return ""


def read_plain_text(entry: Entry) -> PlainText:
    """Returns the text that a question is compared with. A call's arguments appear as a reader sees them."""
    if not isinstance(entry, MessageEntry | BranchSummary):
        return PlainText(get_searchable_text(entry))
    pieces: list[tuple[str, str]] = []
    for part in entry.message.parts:
        if isinstance(part, ToolCall):
            pieces.append(("", part.name))
            pieces += [(value.label, value.text) for value in list_arguments(part.arguments)]
        else:
            pieces += [("", text) for text in _list_part_texts(part)]
    edits: list[tuple[int, int, str]] = []
    start = 0
    for label, text in pieces:
        edits += [(start, start + len(text), label)] if label else []
        start += len(text) + 1
    return PlainText("\n".join(text for _, text in pieces), tuple(edits))


def split_excerpt(plain: PlainText, start: int, stop: int) -> Iterator[tuple[str, str]]:
    """Yields an excerpt in sanitized pieces, each with its label: "old" or "new" in an edit, "" elsewhere."""
    for first, last, label in plain.edits:
        if first < stop and last > start:
            if first > start:
                yield "", sanitize_excerpt(plain.text, start, first)
            yield label, sanitize_excerpt(plain.text, max(start, first), min(stop, last))
            start = last
    if start < stop:
        yield "", sanitize_excerpt(plain.text, start, stop)


def sanitize_excerpt(text: str, start: int, stop: int) -> str:
    """Returns an excerpt of the text without secrets and control sequences.

    Those that an end of the excerpt would cut in two are removed as well.
    """
    low, high = max(0, start - _MARGIN), min(len(text), stop + _MARGIN)
    clean = sanitize(text[low:high])
    if clean == text[low:high]:
        return text[start:stop]
    before, after = sanitize(text[low:start]), sanitize(text[stop:high])
    return clean[_count_shared(clean, before) : len(clean) - _count_shared(clean[::-1], after[::-1])]


def _count_shared(text: str, other: str) -> int:
    """Counts the characters that two texts have in common at the beginning."""
    if text.startswith(other):
        return len(other)
    return next((i for i, (one, two) in enumerate(zip(text, other, strict=False)) if one != two), len(text))


def _list_texts(message: Message) -> Iterator[str]:
    for part in message.parts:
        yield from _list_part_texts(part)


def _list_part_texts(part: Part) -> Iterator[str]:
    match part:
        case Text() | Thinking():
            yield part.text
        case ToolCall():
            yield f"{part.name} {part.arguments}"
            if "\\" in part.arguments:  # JSON had to escape something, so a reader sees other characters
                yield from (v.text for v in list_arguments(part.arguments) if v.text != part.arguments)
        case ToolResult():
            if part.name:
                yield part.name
            if all(isinstance(inner, Text) and not inner.text.strip() for inner in part.content):
                yield EMPTY_RESULT
            for inner in part.content:
                yield from _list_part_texts(inner)
        case Document():
            yield from (t for t in (part.name, part.text, part.url) if t)
        case Image():
            if part.url and not part.url.startswith("data:"):
                yield part.url
        case OpaquePart():
            yield part.raw.decode("utf-8", "replace")


def list_arguments(arguments: str) -> list[ArgumentValue]:
    """Returns the values in a call's arguments, in order, or the arguments as one value if they are not JSON."""
    decoded = decode_json(arguments)
    if decoded is None:
        return [] if arguments.strip() == "null" else [ArgumentValue("", arguments)]
    waiting: list[tuple[str, str, object]] = [("", "", decoded)]
    out: list[ArgumentValue] = []
    while waiting:
        key, label, value = waiting.pop()
        if isinstance(value, dict):
            labels = _label_keys(value)
            waiting.extend((name, labels.get(name, ""), inner) for name, inner in reversed(list(value.items())))
        elif isinstance(value, list):
            waiting.extend((key, label, inner) for inner in reversed(value))
        elif value is not None:
            text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
            out.append(ArgumentValue(key, text, label))
    return out


def _label_keys(value: dict[str, object]) -> dict[str, str]:
    """Returns "old" and "new" for the keys that hold what an edit replaces and what it puts there."""
    found = {name: match.lastgroup or "" for name in value if (match := _EDIT_KEY.match(name))}
    return found if len(set(found.values())) > 1 else {}
