"""Renders the input of a summarizing model: a range of messages as chronological text, with a bound for each part.

It is separate from what the model sees in the conversation and from what people see in a terminal. Each part keeps its
head and tail with the gap stated in lines. Tool output and injected text are fenced as data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

import msgspec
from msgspec import Struct

from tenfold.core.record.message import (
    Document,
    Image,
    Message,
    OpaquePart,
    Origin,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    get_text,
    get_tool_calls,
)
from tenfold.core.text.excerpts import Count, Keep, excerpt, fence_text, strip_escapes
from tenfold.core.text.json_text import decode_json
from tenfold.core.text.redaction import redact_cached

TranscriptStyle = Literal["numbered", "labelled", "roles"]
"""How messages are rendered: `numbered` under their position and speaker, `labelled` as paragraphs with a label each
(the preset `tail`), `roles` as lines after the role (the presets `threshold` and `sliding`)."""
_SPEAKERS: Mapping[TranscriptStyle, Mapping[Origin, str]] = MappingProxyType(
    {
        "numbered": {
            "human": "USER",
            "model": "ASSISTANT",
            "tool": "TOOL OUTPUT",
            "tenfold": "EARLIER SUMMARY",
            "harness": "CONTEXT (injected by the program, not by the user)",
        },
        "labelled": {
            "human": "User",
            "model": "Assistant",
            "tool": "Tool result",
            "tenfold": "Earlier summary",
            "harness": "Context, not from the user",
        },
        "roles": {"human": "user", "model": "assistant", "tool": "tool", "tenfold": "summary", "harness": "context"},
    }
)
_MAX_PART_CHARS, _SHORT_PART_CHARS, _MIN_PART_CHARS = 8_000, 1_000, 120
"""Characters of one part: the most, the fewest before a conversation is split instead, and the fewest of all."""
_GAP_TOKENS = 30
"""Tokens for the line that says how many messages are left out."""
_MOST_ROLE_CHARS, _LEAST_ROLE_CHARS = 8_000, 500
"""Characters of one part in the style `roles`: as many as fit, and the fewest before any message is left out."""
_MIN_ROLE_MESSAGES = 2
"""Messages that are always sent in the style `roles`, as published."""
MAX_RESULT_CHARS = 2_000
"""Most characters kept of a tool's output in the style `labelled`."""

Items = Sequence[tuple[int, Message]]


class MessageChunks(Struct, frozen=True):
    """A range split into chunks that fit a model one at a time, and the oldest messages that did not fit."""

    chunks: tuple[tuple[tuple[int, Message], ...], ...]
    left_out: tuple[tuple[int, Message], ...] = ()


class BoundedTranscript(Struct, frozen=True):
    """A range as text, and the oldest messages that did not fit."""

    text: str
    left_out: tuple[tuple[int, Message], ...] = ()


def split_messages(
    items: Items, *, budget: int, max_chunks: int, count: Count, style: TranscriptStyle = "numbered"
) -> MessageChunks:
    """Splits the range: one chunk if it fits `budget` tokens without cutting its parts short, else several.

    There are at most `max_chunks`: parts are shortened until that is enough, then the oldest messages are left out. A
    chunk begins with a tool result only if a single step is larger than the budget.
    """
    limit = _MAX_PART_CHARS
    sizes = _count_sizes(items, limit, count, style)
    while limit > _SHORT_PART_CHARS and sum(sizes) > budget:
        limit //= 2
        sizes = _count_sizes(items, limit, count, style)
    chunks = _cut_chunks(items, sizes, budget)
    while len(chunks) > max_chunks and limit > _MIN_PART_CHARS:
        limit = max(limit // 2, _MIN_PART_CHARS)
        sizes = _count_sizes(items, limit, count, style)
        chunks = _cut_chunks(items, sizes, budget)
    if len(chunks) <= max_chunks:
        return MessageChunks(tuple(chunks))
    kept = chunks[len(chunks) - max_chunks :]
    return MessageChunks(tuple(kept), tuple(item for piece in chunks[: len(chunks) - max_chunks] for item in piece))


def _count_sizes(items: Items, limit: int, count: Count, style: TranscriptStyle) -> list[int]:
    return count([block + "\n\n" for block in _render_messages(items, limit, style)]) if items else []


def _cut_chunks(items: Items, sizes: Sequence[int], budget: int) -> list[tuple[tuple[int, Message], ...]]:
    """Cuts greedily, in order. A full chunk ends before the step that did not fit."""
    out: list[tuple[tuple[int, Message], ...]] = []
    start, total, open_step = 0, 0, 0
    for index, size in enumerate(sizes):
        if items[index][1].role != "tool" and items[index][1].origin != "tool":
            open_step = index
        if total + size > budget and index > start:
            end = open_step if open_step > start else index
            out.append(tuple(items[start:end]))
            start, total = end, sum(sizes[end:index])
        total += size
    return [*out, tuple(items[start:])]


def render_transcript(
    items: Items, *, budget: int, count: Count, style: TranscriptStyle = "numbered"
) -> BoundedTranscript:
    """Renders the messages in at most `budget` tokens. All parts get shorter first, then the oldest messages go."""
    limit = _MAX_PART_CHARS
    blocks = _render_messages(items, limit, style)
    while limit > _MIN_PART_CHARS and sum(count(blocks)) > budget:
        limit = max(limit // 2, _MIN_PART_CHARS)
        blocks = _render_messages(items, limit, style)
    sizes = count([block + "\n\n" for block in blocks]) if blocks else []
    first, total = len(blocks), 0
    available = budget if sum(sizes) <= budget else budget - _GAP_TOKENS
    while first > 0 and total + sizes[first - 1] <= available:
        first -= 1
        total += sizes[first]
    text = _join_messages(blocks, first)
    while first < len(blocks) and count([text])[0] > budget:
        first += 1
        text = _join_messages(blocks, first)
    return BoundedTranscript(text if count([text])[0] <= budget else "", tuple(items[:first]))


def fit_messages(items: Items, *, budget: int, count: Count) -> BoundedTranscript:
    """Renders the messages in the style `roles`: long parts get shorter, then the oldest messages go.

    At least the last two stay, even if they take more than `budget` tokens.
    """

    def render(limit: int) -> tuple[list[str], list[int]]:
        lines = _render_messages(items, limit, "roles")
        return lines, count([line + "\n" for line in lines]) if lines else []

    lines, sizes = render(_MOST_ROLE_CHARS)
    if sum(sizes) > budget:
        lines, sizes = render(_LEAST_ROLE_CHARS)
        low, high = _LEAST_ROLE_CHARS, _MOST_ROLE_CHARS
        while sum(sizes) <= budget and high > low * 21 // 20:
            middle = (low + high) // 2
            tried = render(middle)
            if sum(tried[1]) <= budget:
                low, (lines, sizes) = middle, tried
            else:
                high = middle
    first, total = 0, sum(sizes)
    while total > budget and len(lines) - first > _MIN_ROLE_MESSAGES:
        total -= sizes[first]
        first += 1
    return BoundedTranscript(_join_messages(lines, first, "\n"), tuple(items[:first]))


def _join_messages(texts: Sequence[str], first: int, separator: str = "\n\n") -> str:
    gap = [f"({first} earlier messages are left out here)"] if first else []
    return separator.join([*gap, *(block for block in texts[first:] if block)])


# -- one message -------------------------------------------------------------------------------------------------------


def get_speaker(message: Message, style: TranscriptStyle) -> str:
    """Returns whose words a message holds: by origin, since a tool may write user lines."""
    return _SPEAKERS[style][message.origin]


def _render_messages(items: Items, limit: int, style: TranscriptStyle) -> list[str]:
    return [render_message(position, message, limit, style) for position, message in items]


def render_message(position: int, message: Message, limit: int, style: TranscriptStyle) -> str:
    """Renders one message, "" if the style leaves it out. Each text has about `limit` characters."""
    speaker = get_speaker(message, style)
    status = f" ({message.status})" if message.status != "ok" else ""
    match style:
        case "numbered":
            lines = [_render_numbered(part, message, limit) for part in message.parts]
            text = "\n".join((f"[{position}] {speaker}{status}", *(line for line in lines if line)))
        case "labelled":
            pairs = _list_labelled(message, speaker + status if message.origin == "model" else speaker, limit)
            text = "\n\n".join(f"[{label}]: {body}" for label, body in pairs if body.strip())
        case "roles":
            lines = [_render_with_role(part, message, limit) for part in message.parts]
            text = "\n".join(f"{speaker}: {line}" for line in lines if line)
    return redact_cached(text)


def _quote_text(text: str, message: Message, limit: int) -> str:
    """Shortens a text of a message, and fences it if neither the user nor the model wrote it."""
    if message.origin in {"tool", "harness"}:
        return fence_text(text, limit, message.origin)
    return excerpt(text, limit, Keep.BLOCK_ENDS)


def _label_result(part: ToolResult) -> str:
    return f"{part.name or 'result'}{' error' if part.is_error else ''}"


def _render_numbered(part: Part, message: Message, limit: int) -> str:
    match part:
        case Text(text=text):
            return _quote_text(text, message, limit)
        case Thinking(text=text):
            return "(thinking) " + excerpt(text, limit // 4, Keep.BLOCK_ENDS)
        case ToolCall(name=name, arguments=arguments):
            return f"calls {name} with " + excerpt(arguments, limit // 2, Keep.BLOCK_ENDS)
        case ToolResult(content=content):
            texts = [item.text for item in content if isinstance(item, Text | Document)]
            others = len(content) - len(texts)
            body = fence_text("\n".join(texts), limit, _label_result(part))
            return body + (f"\n({others} parts that are not text)" if others else "")
        case Image(media_type=media, width=width, height=height):
            return f"(image {media} {width}x{height})"
        case Document(name=name, text=text):
            return f"(document {name})\n" + fence_text(text, limit, "document")
        case OpaquePart(kind=kind):
            return f"(a part of type {kind})"


def _render_with_role(part: Part, message: Message, limit: int) -> str:
    match part:
        case Text(text=text) if text.strip():
            return _quote_text(text, message, limit)
        case ToolCall(name=name, arguments=arguments):
            return f"[called tool: {name}] {excerpt(arguments, limit // 2, Keep.BLOCK_ENDS)}"
        case ToolResult(name=name):
            line = f"[tool {name or 'unknown'} returned a result]" + (" (an error)" if part.is_error else "")
            body = get_text(Message("tool", (part,), "tool"))
            return f"{line}\n{fence_text(body, limit, name or 'result')}" if body else line
        case _:
            return ""


def _list_labelled(message: Message, speaker: str, limit: int) -> Iterator[tuple[str, str]]:
    """Yields label and text of each paragraph: thinking, text, calls, then results and documents; no pictures."""
    text = "".join(part.text for part in message.parts if isinstance(part, Text))
    if message.origin == "model":
        thinking = "\n".join(part.text for part in message.parts if isinstance(part, Thinking))
        yield "Assistant thinking", excerpt(thinking, limit // 4, Keep.BLOCK_ENDS)
    if message.origin == "tool":
        yield speaker, _render_output(text, message.origin, limit)
    elif text:
        yield speaker, _quote_text(text, message, limit)
    if message.origin == "model":
        yield "Assistant tool calls", "; ".join(_render_call(call, limit // 2) for call in get_tool_calls(message))
    for part in message.parts:
        match part:
            case ToolResult(content=content):
                output = "".join(item.text for item in content if isinstance(item, Text | Document))
                yield "Tool result", _render_output(output, _label_result(part), limit)
            case Document(name=name, text=body):
                yield f"Document {strip_escapes(name)}", fence_text(body, limit, "document") if body else ""
            case OpaquePart(kind=kind):
                yield "A part of type", kind
            case _:
                pass


def _render_call(call: ToolCall, limit: int) -> str:
    """Returns `name(key=json, ...)`. Arguments that are not a JSON object stay as they were written."""
    arguments = decode_json(call.arguments)
    written = call.arguments
    if isinstance(arguments, dict):
        written = ", ".join(f"{key}={msgspec.json.encode(value).decode()}" for key, value in arguments.items())
    return f"{call.name}({excerpt(written, limit, Keep.BLOCK_ENDS)})"


def _render_output(text: str, label: str, limit: int) -> str:
    """Returns the beginning of a tool's output, and how much more there was."""
    text = strip_escapes(text)
    length = min(limit, MAX_RESULT_CHARS)
    more = f"\n\n[... {len(text) - length} more characters left out]" if len(text) > length else ""
    return fence_text(excerpt(text, length, Keep.HEAD), length, label) + more if text else ""
