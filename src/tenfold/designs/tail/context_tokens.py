"""The design's own formulas for context sizes: characters / 4, and the usage that a provider reported.

Use them to compare numbers with the design. A session decides by its `Reading`, which is calibrated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from tenfold.core.record.block import Block
from tenfold.core.record.entry import Entry, MessageEntry, Retraction, Usage
from tenfold.core.record.message import Document, Image, Message, OpaquePart, Part, Text, Thinking, ToolCall, ToolResult
from tenfold.core.text.json_text import decode_json
from tenfold.core.view.fold import View
from tenfold.core.view.path import Path

IMAGE_CHARACTERS = 4_800
"""Each image counts as this many characters (1,200 tokens), whatever the role of its message."""
_USAGE_FIELDS = (
    ("input", "input_tokens"),
    ("output", "output_tokens"),
    ("cacheRead", "cache_read", "cache_read_input_tokens"),
    ("cacheWrite", "cache_write", "cache_creation_input_tokens"),
)
_TOTAL_FIELDS = ("totalTokens", "total_tokens", "total")


@dataclass(frozen=True)
class ContextEstimate:
    """The size of a context: reported usage plus an estimate of later messages. Index None: all is estimated."""

    tokens: int
    usage_tokens: int
    trailing_tokens: int
    last_usage_index: int | None


def estimate_tokens(message: Message) -> int:
    """Estimates a message: characters / 4, rounded up, of text, thinking, tool calls, tool results and images.

    As in the design's program, characters are UTF-16 units and the arguments of calls are compact JSON.
    """
    return -(-sum(_count_characters(part) for part in message.parts) // 4)


def _count_characters(part: Part) -> int:
    match part:
        case Text(text=text) | Thinking(text=text):
            return _count_utf16_units(text)
        case ToolCall(name=name, arguments=arguments):
            return _count_utf16_units(name) + _count_utf16_units(_to_compact_json(arguments))
        case ToolResult(content=content):
            return sum(_count_characters(inner) for inner in content)
        case Image():
            return IMAGE_CHARACTERS
        case Document(text=text, data=data):
            return _count_utf16_units(text) or len(data)
        case OpaquePart(raw=raw):
            return len(raw)


def _count_utf16_units(text: str) -> int:
    """Counts UTF-16 units: a character beyond the basic plane counts twice."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _to_compact_json(arguments: str) -> str:
    """Returns the arguments as compact JSON, or unchanged if they are not valid JSON."""
    value = decode_json(arguments)
    return arguments if value is None else msgspec.json.encode(value).decode()


def calculate_context_tokens(usage: Usage | Mapping[str, object]) -> int:
    """Returns the tokens of one request, cached ones included: the reported total, else the sum of its parts.

    `usage` is a `Usage`, whose `prompt` includes cached tokens, or a mapping as the design's providers report it.
    """
    if isinstance(usage, Usage):
        return usage.prompt + usage.output
    return _find_number(usage, _TOTAL_FIELDS) or sum(_find_number(usage, names) for names in _USAGE_FIELDS)


def _find_number(usage: Mapping[str, object], names: Sequence[str]) -> int:
    found = (usage.get(name) for name in names)
    return next((n for n in found if isinstance(n, int) and n > 0), 0)


def find_last_usage(path_entries: Sequence[Entry]) -> int | None:
    """Finds the newest answer with usable usage: it is complete, not zero, and after the last compaction."""
    for index in reversed(range(len(path_entries))):
        entry = path_entries[index]
        if isinstance(entry, Block | Retraction):
            return None
        if not isinstance(entry, MessageEntry) or entry.usage is None or entry.message.role != "assistant":
            continue
        if entry.message.status == "ok" and calculate_context_tokens(entry.usage):
            return index
    return None


def estimate_context_tokens(path_entries: Sequence[Entry]) -> ContextEstimate:
    """Estimates the size of the context of a path, root to leaf.

    The newest usage that an answer carries counts, and of what follows characters / 4. Usage from before a compaction
    is never used.
    """
    index = find_last_usage(path_entries)
    after = View.from_path(Path(path_entries)).get_visible_messages()
    trailing = sum(estimate_tokens(s.message) for s in after if index is None or s.position > index)
    entry = path_entries[index] if index is not None else None
    reported = calculate_context_tokens(entry.usage) if isinstance(entry, MessageEntry) and entry.usage else 0
    return ContextEstimate(reported + trailing, reported, trailing, index)
