"""Renders the input of a summarizing model: a range of messages as chronological text, with a bound for each part.

It is separate from what the model sees in the conversation and from what people see in a terminal. Each part keeps its
head and tail with the gap stated in lines. Tool output is fenced as data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from tenfold.record.message import Document, Image, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from tenfold.redact import redacted
from tenfold.summarize.fence import bounded, fenced
from tenfold.summarize.labelled import labelled
from tenfold.summarize.section import Count

Style = Literal["numbered", "labelled"]
"""How messages are rendered: under their number and role, or as the labelled paragraphs of the preset `tail`."""
_LARGEST, _SHORT, _SMALLEST = 8_000, 1_000, 120
"""Characters of one part: the most, the fewest before a conversation is split instead, and the fewest of all."""

Items = Sequence[tuple[int, Message]]


class Pieces(Struct, frozen=True):
    """A range split into chunks that fit a model one at a time, and the oldest messages that did not fit."""

    pieces: tuple[tuple[tuple[int, Message], ...], ...]
    left_out: tuple[tuple[int, Message], ...] = ()


class Transcript(Struct, frozen=True):
    """A range as text, and the oldest messages that did not fit."""

    text: str
    left_out: tuple[tuple[int, Message], ...] = ()


def pieces(items: Items, *, budget: int, most: int, count: Count, style: Style = "numbered") -> Pieces:
    """Splits the range: one chunk if it fits `budget` tokens without cutting its parts short, else several.

    There are at most `max_chunks`: parts are shortened until that is enough, then the oldest messages are left out. A
    chunk begins with a tool result only if a single step is larger than the budget.
    """
    limit = _LARGEST
    sizes = _sizes(items, limit, count, style)
    while limit > _SHORT and sum(sizes) > budget:
        limit //= 2
        sizes = _sizes(items, limit, count, style)
    chunks = _cut(items, sizes, budget)
    while len(chunks) > most and limit > _SMALLEST:
        limit = max(limit // 2, _SMALLEST)
        sizes = _sizes(items, limit, count, style)
        chunks = _cut(items, sizes, budget)
    if len(chunks) <= most:
        return Pieces(tuple(chunks))
    kept = chunks[len(chunks) - most :]
    return Pieces(tuple(kept), tuple(item for piece in chunks[: len(chunks) - most] for item in piece))


def _sizes(items: Items, limit: int, count: Count, style: Style) -> list[int]:
    return count([block + "\n\n" for block in _blocks(items, limit, style)]) if items else []


def _blocks(items: Items, limit: int, style: Style) -> list[str]:
    """Renders each message as one text, "" for what the style leaves out."""
    if style == "labelled":
        return [labelled(message, limit) for _, message in items]
    return [_block(at, message, limit) for at, message in items]


def _cut(items: Items, sizes: Sequence[int], budget: int) -> list[tuple[tuple[int, Message], ...]]:
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


def transcript(items: Items, *, budget: int, count: Count, style: Style = "numbered") -> Transcript:
    """Renders the messages in at most `budget` tokens. All parts get shorter first, then the oldest messages go."""
    limit = _LARGEST
    blocks = _blocks(items, limit, style)
    while limit > _SMALLEST and sum(count(blocks)) > budget:
        limit = max(limit // 2, _SMALLEST)
        blocks = _blocks(items, limit, style)
    sizes = count([block + "\n\n" for block in blocks]) if blocks else []
    first, total = len(blocks), 0
    available = budget - 30
    while first > 0 and total + sizes[first - 1] <= available:
        first -= 1
        total += sizes[first]
    text = _without(blocks, first)
    while first < len(blocks) and count([text])[0] > budget:
        first += 1
        text = _without(blocks, first)
    return Transcript(text if count([text])[0] <= budget else "", tuple(items[:first]))


def _without(blocks: Sequence[str], first: int) -> str:
    gap = [f"({first} earlier messages are left out here)"] if first else []
    return "\n\n".join([*gap, *(block for block in blocks[first:] if block)])


def _block(at: int, message: Message, limit: int) -> str:
    lines = [f"[{at}] {_who(message)}" + (f" ({message.status})" if message.status != "ok" else "")]
    for part in message.parts:
        match part:
            case Text(text=text):
                lines.append(
                    fenced(text, limit, message.origin)
                    if message.origin in {"tool", "harness"}
                    else bounded(text, limit)
                )
            case Thinking(text=text):
                lines.append("(thinking) " + bounded(text, limit // 4))
            case ToolCall(name=name, arguments=arguments):
                lines.append(f"calls {name} with " + bounded(arguments, limit // 2))
            case ToolResult():
                lines.append(_result(part, limit))
            case Image(media=media, width=width, height=height):
                lines.append(f"(image {media} {width}x{height})")
            case Document(name=name, text=text):
                lines.append(f"(document {name})\n" + fenced(text, limit, "document"))
            case Opaque(kind=kind):
                lines.append(f"(a part of type {kind})")
    return redacted("\n".join(line for line in lines if line))


def _who(message: Message) -> str:
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


def _result(part: ToolResult, limit: int) -> str:
    texts = [item.text for item in part.content if isinstance(item, Text | Document)]
    others = sum(1 for item in part.content if not isinstance(item, Text | Document))
    label = f"{part.name or 'result'}{' error' if part.error else ''}"
    body = fenced("\n".join(texts), limit, label)
    return body + (f"\n({others} parts that are not text)" if others else "")
