"""The design's own arithmetic of context sizes: characters / 4, and what a provider reported.

For those who compare numbers with the design; a session decides by its `Reading`, which is calibrated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from tenfold.record.block import Block
from tenfold.record.entry import Entry, Retraction, Said, Usage
from tenfold.record.message import Document, Image, Message, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from tenfold.view.path import Path
from tenfold.view.view import View

IMAGE_CHARACTERS = 4_800
"""An image counts as this many characters (1,200 tokens), once each, whoever sent it."""
_USAGE = (
    ("input", "input_tokens"),
    ("output", "output_tokens"),
    ("cacheRead", "cache_read", "cache_read_input_tokens"),
    ("cacheWrite", "cache_write", "cache_creation_input_tokens"),
)
_TOTAL = ("totalTokens", "total_tokens", "total")


class ContextEstimate(Struct, frozen=True):
    """A context's size: what was reported, plus the rule of thumb for what came since; index None: all by the rule."""

    tokens: int
    usage_tokens: int
    trailing_tokens: int
    last_usage_index: int | None


def estimate_tokens(message: Message) -> int:
    """Characters / 4, rounded up: text, thinking, names and arguments of calls, tool output, images by rule.

    Characters are UTF-16 units, and arguments are counted as compact JSON, as the design's program does.
    """
    return -(-sum(_characters(part) for part in message.parts) // 4)


def _characters(part: Part) -> int:
    match part:
        case Text(text=text) | Thinking(text=text):
            return _units(text)
        case ToolCall(name=name, arguments=arguments):
            return _units(name) + _units(_compact(arguments))
        case ToolResult(content=content):
            return sum(_characters(inner) for inner in content)
        case Image():
            return IMAGE_CHARACTERS
        case Document(text=text, data=data):
            return _units(text) or len(data)
        case Opaque(raw=raw):
            return len(raw)


def _units(text: str) -> int:
    """UTF-16 units: what is beyond the basic plane counts twice."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _compact(arguments: str) -> str:
    """The arguments without the spaces of their JSON; as they are written where they are none."""
    try:
        return msgspec.json.encode(msgspec.json.decode(arguments)).decode()
    except msgspec.DecodeError:
        return arguments


def calculate_context_tokens(usage: Usage | Mapping[str, object]) -> int:
    """What one request took, cached tokens included: the total if it is reported, else its parts together.

    `usage` is ours, whose `prompt` holds the cached tokens already, or a mapping as the design's providers report it.
    """
    if isinstance(usage, Usage):
        return usage.prompt + usage.output
    return _number(usage, _TOTAL) or sum(_number(usage, names) for names in _USAGE)


def _number(usage: Mapping[str, object], names: Sequence[str]) -> int:
    found = (usage.get(name) for name in names)
    return next((n for n in found if isinstance(n, int) and n > 0), 0)


def last_usage(path_entries: Sequence[Entry]) -> int | None:
    """The index of the newest answer whose usage can be relied on: complete, not zero, after the last compaction."""
    for index in reversed(range(len(path_entries))):
        entry = path_entries[index]
        if isinstance(entry, Block | Retraction):
            return None
        if not isinstance(entry, Said) or entry.usage is None or entry.message.role != "assistant":
            continue
        if entry.message.status == "ok" and calculate_context_tokens(entry.usage):
            return index
    return None


def estimate_context_tokens(path_entries: Sequence[Entry]) -> ContextEstimate:
    """The size of what the model would be sent after these entries (root to leaf).

    Usage from before a compaction is never counted: then the rebuilt messages are, by the rule of thumb alone.
    """
    index = last_usage(path_entries)
    if index is None:
        shown = View.of(Path(path_entries)).messages()
        tokens = sum(estimate_tokens(m) for m in shown)
        return ContextEstimate(tokens, 0, tokens, None)
    entry = path_entries[index]
    reported = calculate_context_tokens(entry.usage) if isinstance(entry, Said) and entry.usage else 0
    after = View.of(Path(path_entries)).shown()
    trailing = sum(estimate_tokens(s.message) for s in after if s.at > index)
    return ContextEstimate(reported + trailing, reported, trailing, index)
