"""The writer of the preset `tiers`: one text by one call, with tool work cut short in the input.

Reasoning and tool outputs are cut to 500 bytes and arguments to 200, because what was said is worth more than what was
printed.
"""

from __future__ import annotations

from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.summarize.ladder import WritingGenerator
from tenfold.compaction.summarize.write import write_summary
from tenfold.compaction.summarize.writer import WritingJob
from tenfold.core.record.message import Document, Message, Part, Text, Thinking, ToolCall, ToolResult
from tenfold.core.text.excerpts import Keep, excerpt

P = TypeVar("P", bound=Part)


class ShortInputWriter(Struct, frozen=True):
    """Writes one text by one call. Reasoning and tool outputs are cut to `output_bytes`, arguments to `argument_bytes`.

    `max_tokens` bounds the answer, whatever its share of the target.
    """

    output_bytes: int = 500
    argument_bytes: int = 200
    max_tokens: int = 8_000

    def write(self, job: WritingJob) -> WritingGenerator:
        """See `Writer.write`."""
        items = tuple((at, self.shorten_message(message)) for at, message in job.items)
        task = replace(job.task, items=items, allotment=min(job.budget, self.max_tokens))
        return (yield from write_summary(task, job.settings, job.count))

    def shorten_message(self, message: Message) -> Message:
        """Returns the message with its tool work and reasoning cut. What was said stays whole."""
        if message.origin == "tool" and message.role != "tool":  # tool output in a user message
            return replace(message, parts=tuple(_cut_texts(message.parts, self.output_bytes)), native=None)
        return replace(message, parts=tuple(self._shorten_part(part) for part in message.parts), native=None)

    def _shorten_part(self, part: Part) -> Part:
        match part:
            case Thinking():
                return replace(part, text=excerpt(part.text, self.output_bytes, Keep.BYTE_ENDS))
            case ToolCall():
                return replace(part, arguments=excerpt(part.arguments, self.argument_bytes, Keep.BYTE_ENDS))
            case ToolResult():
                return replace(part, content=tuple(_cut_texts(part.content, self.output_bytes)))
            case _:
                return part


def _cut_texts(parts: tuple[P, ...], limit: int) -> list[P]:
    """Cuts the texts of the parts to `limit` bytes together."""
    out: list[P] = []
    for part in parts:
        text = part.text if isinstance(part, Text | Document) else ""
        out.append(replace(part, text=excerpt(text, limit, Keep.BYTE_ENDS)) if text else part)
        limit = max(0, limit - len(text.encode(errors="replace")))
    return out
