"""The input of a summarising model: a range of messages as chronological text, bounded per part.

Its own renderer, apart from what the model sees in the conversation and from what people see in a terminal. Every
part keeps its head and tail with the gap stated in lines; what tools printed is fenced as data.
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
"""How messages are written down: under their number and role, or as the paragraphs of the preset `tail`."""
_LARGEST, _SHORT, _SMALLEST = 8_000, 1_000, 120
"""Characters of one part: at most, before a conversation is cut into pieces instead, and at least."""

Items = Sequence[tuple[int, Message]]


class Pieces(Struct, frozen=True):
    """A range cut into stretches that a model can be sent one at a time, and the oldest messages that had no room."""

    pieces: tuple[tuple[tuple[int, Message], ...], ...]
    left_out: tuple[tuple[int, Message], ...] = ()


class Transcript(Struct, frozen=True):
    """A range as text, and the oldest messages that had no room in it."""

    text: str
    left_out: tuple[tuple[int, Message], ...] = ()


def pieces(items: Items, *, budget: int, most: int, count: Count, style: Style = "numbered") -> Pieces:
    """The range in one piece where it fits `budget` tokens without its parts being cut short; else in several.

    At most `most` pieces: parts are shortened further until that is enough, then the oldest messages are left out.
    A piece begins with a result only where a single step is larger than the budget.
    """
    limit = _LARGEST
    sizes = _sizes(items, limit, count, style)
    while limit > _SHORT and sum(sizes) > budget:
        limit //= 2
        sizes = _sizes(items, limit, count, style)
    found = _cut(items, sizes, budget)
    while len(found) > most and limit > _SMALLEST:
        limit = max(limit // 2, _SMALLEST)
        sizes = _sizes(items, limit, count, style)
        found = _cut(items, sizes, budget)
    if len(found) <= most:
        return Pieces(tuple(found))
    kept = found[len(found) - most :]
    return Pieces(tuple(kept), tuple(item for piece in found[: len(found) - most] for item in piece))


def _sizes(items: Items, limit: int, count: Count, style: Style) -> list[int]:
    return count([block + "\n\n" for block in _blocks(items, limit, style)]) if items else []


def _blocks(items: Items, limit: int, style: Style) -> list[str]:
    """One text a message, "" for what the style leaves out."""
    if style == "labelled":
        return [labelled(message, limit) for _, message in items]
    return [_block(at, message, limit) for at, message in items]


def _cut(items: Items, sizes: Sequence[int], budget: int) -> list[tuple[tuple[int, Message], ...]]:
    """Greedy, in order; where a piece is full it ends before the step that did not fit."""
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
    """The messages as text of at most `budget` tokens: parts are shortened alike until all fits, then the oldest go."""
    limit = _LARGEST
    blocks = _blocks(items, limit, style)
    while limit > _SMALLEST and sum(count(blocks)) > budget:
        limit = max(limit // 2, _SMALLEST)
        blocks = _blocks(items, limit, style)
    sizes = count([block + "\n\n" for block in blocks]) if blocks else []
    first, total = len(blocks), 0
    room = budget - 30
    while first > 0 and total + sizes[first - 1] <= room:
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
