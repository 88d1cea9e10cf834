"""The writer of the preset `tiers`: one text by one call, with tool work cut short in the input.

Reasoning and tool outputs are cut to 500 bytes and arguments to 200, because what was said is worth more than what was
printed.
"""

from __future__ import annotations

from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from tenfold.record.message import Document, Message, Part, Text, Thinking, ToolCall, ToolResult
from tenfold.summarize.summarize import write
from tenfold.summarize.writer import Effect, Job
from tenfold.text import head_of, tail_of

P = TypeVar("P", bound=Part)


class Brief(Struct, frozen=True):
    """Writes one text by one call. Reasoning and tool outputs are cut to `output_bytes`, arguments to `argument_bytes`.

    `max_tokens` bounds the answer, whatever its share of the target.
    """

    output: int = 500
    arguments: int = 200
    most: int = 8_000

    def write(self, job: Job) -> Effect:
        """See `Writer.write`."""
        items = tuple((at, self.brief(message)) for at, message in job.items)
        task = replace(job.task, items=items, allotment=min(job.room, self.most))
        return (yield from write(task, job.settings, job.count))

    def brief(self, message: Message) -> Message:
        """Returns the message with its tool work and reasoning cut. What was said stays whole."""
        if message.origin == "tool" and message.role != "tool":  # tool output in a user message
            return replace(message, parts=tuple(_texts_cut(message.parts, self.output)), native=None)
        return replace(message, parts=tuple(self._part(part) for part in message.parts), native=None)

    def _part(self, part: Part) -> Part:
        match part:
            case Thinking():
                return replace(part, text=cut(part.text, self.output))
            case ToolCall():
                return replace(part, arguments=cut(part.arguments, self.arguments))
            case ToolResult():
                return replace(part, content=tuple(_texts_cut(part.content, self.output)))
            case _:
                return part


def _texts_cut(parts: tuple[P, ...], limit: int) -> list[P]:
    """Cuts the texts of the parts to `limit` bytes together."""
    out: list[P] = []
    for part in parts:
        text = part.text if isinstance(part, Text | Document) else ""
        out.append(replace(part, text=cut(text, limit)) if text else part)
        limit = max(0, limit - len(text.encode(errors="replace")))
    return out


def cut(text: str, limit: int) -> str:
    """Returns the text cut to `limit` bytes of head and tail, between characters. The gap is stated."""
    data = text.encode(errors="replace")
    if len(data) <= limit:
        return text
    text = data.decode()
    head = head_of(text, len(data[: limit * 2 // 3].decode(errors="ignore")))
    tail = tail_of(text, len(data[len(data) - limit // 3 :].decode(errors="ignore")))
    lines = text.count("\n", len(head), len(text) - len(tail))
    gap = f"{lines} lines" if lines > 1 else f"{len(text) - len(head) - len(tail)} characters"
    return f"{head}\n[... {gap} left out ...]\n{tail}"
