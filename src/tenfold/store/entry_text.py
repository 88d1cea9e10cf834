"""The texts by which an entry is found, and excerpts of them that are safe to show."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tenfold.record.block import Block, Substitute
from tenfold.record.entry import BranchSummary, CustomEntry, Entry, MessageEntry, Setting
from tenfold.record.message import Document, Image, Message, OpaquePart, Part, Text, Thinking, ToolCall, ToolResult
from tenfold.summarize.batches import format_batch
from tenfold.text.terminal_safe import sanitize

_MARGIN = 4_000
"""Characters around an excerpt that are checked for secrets: more than the longest private key in use."""


def fold_case(text: str) -> str:
    """Folds a text for comparison: it ignores case, and replaces NUL, at which indexes stop reading."""
    return text.casefold().replace("\0", "\x01")


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
        case Setting():
            return f"{entry.key} {entry.value}"
        case _:
            return ""


def get_plain_text(entry: Entry) -> str:
    """Returns the text that a question is compared with. A call's arguments appear as a reader sees them."""
    if not isinstance(entry, MessageEntry | BranchSummary):
        return get_searchable_text(entry)
    lines: list[str] = []
    for part in entry.message.parts:
        if isinstance(part, ToolCall):
            lines += [part.name, *_list_argument_values(part.arguments)]
        else:
            lines += _list_part_texts(part)
    return "\n".join(lines)


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
                yield from (value for value in _parse_values(part.arguments) or () if isinstance(value, str))
        case ToolResult():
            if part.name:
                yield part.name
            for inner in part.content:
                yield from _list_part_texts(inner)
        case Document():
            yield from (t for t in (part.name, part.text, part.url) if t)
        case Image():
            if part.url and not part.url.startswith("data:"):
                yield part.url
        case OpaquePart():
            yield part.raw.decode("utf-8", "replace")


def _list_argument_values(arguments: str) -> list[str]:
    """Returns the values in a call's arguments as text, or the arguments themselves if they are not JSON."""
    values = _parse_values(arguments)
    if values is None:
        return [arguments]
    return [v if isinstance(v, str) else msgspec.json.encode(v).decode() for v in values if v is not None]


def _parse_values(arguments: str) -> list[object] | None:
    """Returns the strings, numbers, booleans and nulls in a JSON text, in order. None if it is not JSON."""
    try:
        waiting: list[object] = [msgspec.json.decode(arguments)]
    except msgspec.DecodeError:
        return None
    out: list[object] = []
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting.extend(reversed(list(value.values())))
        elif isinstance(value, list):
            waiting.extend(reversed(value))
        else:
            out.append(value)
    return out
