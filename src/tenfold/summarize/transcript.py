"""Renders the input of a summarizing model: a range of messages as chronological text, with a bound for each part.

It is separate from what the model sees in the conversation and from what people see in a terminal. Each part keeps its
head and tail with the gap stated in lines. Tool output is fenced as data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from tenfold.record.message import Document, Image, Message, OpaquePart, Text, Thinking, ToolCall, ToolResult
from tenfold.summarize.labelled_messages import render_labelled
from tenfold.text.excerpts import Count, Keep, excerpt
from tenfold.text.fence import fence_text
from tenfold.text.redaction import redact_cached

TranscriptStyle = Literal["numbered", "labelled"]
"""How messages are rendered: under their number and role, or as the labelled paragraphs of the preset `tail`."""
_MAX_PART_CHARS, _SHORT_PART_CHARS, _MIN_PART_CHARS = 8_000, 1_000, 120
"""Characters of one part: the most, the fewest before a conversation is split instead, and the fewest of all."""

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


def _render_messages(items: Items, limit: int, style: TranscriptStyle) -> list[str]:
    """Renders each message as one text, "" for what the style leaves out."""
    if style == "labelled":
        return [render_labelled(message, limit) for _, message in items]
    return [_render_message(at, message, limit) for at, message in items]


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
    available = budget - 30
    while first > 0 and total + sizes[first - 1] <= available:
        first -= 1
        total += sizes[first]
    text = _join_messages(blocks, first)
    while first < len(blocks) and count([text])[0] > budget:
        first += 1
        text = _join_messages(blocks, first)
    return BoundedTranscript(text if count([text])[0] <= budget else "", tuple(items[:first]))


def _join_messages(texts: Sequence[str], first: int) -> str:
    gap = [f"({first} earlier messages are left out here)"] if first else []
    return "\n\n".join([*gap, *(block for block in texts[first:] if block)])


def _render_message(position: int, message: Message, limit: int) -> str:
    lines = [f"[{position}] {_get_speaker(message)}" + (f" ({message.status})" if message.status != "ok" else "")]
    for part in message.parts:
        match part:
            case Text(text=text):
                lines.append(
                    fence_text(text, limit, message.origin)
                    if message.origin in {"tool", "harness"}
                    else excerpt(text, limit, Keep.BLOCK_ENDS)
                )
            case Thinking(text=text):
                lines.append("(thinking) " + excerpt(text, limit // 4, Keep.BLOCK_ENDS))
            case ToolCall(name=name, arguments=arguments):
                lines.append(f"calls {name} with " + excerpt(arguments, limit // 2, Keep.BLOCK_ENDS))
            case ToolResult():
                lines.append(_render_result(part, limit))
            case Image(media_type=media, width=width, height=height):
                lines.append(f"(image {media} {width}x{height})")
            case Document(name=name, text=text):
                lines.append(f"(document {name})\n" + fence_text(text, limit, "document"))
            case OpaquePart(kind=kind):
                lines.append(f"(a part of type {kind})")
    return redact_cached("\n".join(line for line in lines if line))


def _get_speaker(message: Message) -> str:
    match message.origin:
        case "human":
            return "USER"
        case "model":
            return "ASSISTANT"
        case "tool":
            return "TOOL OUTPUT"
        case "tenfold":
            return "EARLIER SUMMARY"
        case _:
            return "CONTEXT (injected by the program, not by the user)"


def _render_result(part: ToolResult, limit: int) -> str:
    texts = [item.text for item in part.content if isinstance(item, Text | Document)]
    others = sum(1 for item in part.content if not isinstance(item, Text | Document))
    label = f"{part.name or 'result'}{' error' if part.is_error else ''}"
    body = fence_text("\n".join(texts), limit, label)
    return body + (f"\n({others} parts that are not text)" if others else "")
