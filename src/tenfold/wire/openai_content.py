"""What the two wires of OpenAI share: contents that are a text or parts, and tool results that are text only."""

from __future__ import annotations

from collections.abc import Sequence

from tenfold.record.message import Document, Message, Text, ToolResult
from tenfold.wire.base import Ledger
from tenfold.wire.encoding import collect_blocks, wrap_blocks
from tenfold.wire.marks import ERROR_FLAG
from tenfold.wire.media import to_url
from tenfold.wire.segments import EncodingBatch
from tenfold.wire.splice import build_array, build_object, quote

RESPONSES_PARTS = frozenset({"input_text", "output_text", "input_image", "input_file"})
"""The content parts that only OpenAI Responses has."""
RenderedPart = Text | bytes
"""A part of a content: a text, or another part as it will be sent."""


def render_content(parts: Sequence[RenderedPart], text_type: str) -> bytes:
    """Renders a content. A single text needs no array, and an empty content is an empty text."""
    if not parts:
        return b'""'
    if len(parts) == 1 and isinstance(parts[0], Text):
        return quote(parts[0].text)
    return build_array(render_text_part(part.text, text_type) if isinstance(part, Text) else part for part in parts)


def render_text_part(text: str, text_type: str) -> bytes:
    """Renders a text as a part of that type."""
    return build_object(("type", quote(text_type)), ("text", quote(text)))


def add_error_flag(parts: list[RenderedPart], result: ToolResult, index: int, ledger: Ledger) -> list[RenderedPart]:
    """Puts the error flag before the parts of a failed tool result, since these wires have no field for it."""
    if not result.is_error:
        return parts
    ledger.note("error_flag_in_text", index, "this wire has no error flag; the text says it")
    if parts and isinstance(parts[0], Text):
        return [Text(ERROR_FLAG + parts[0].text), *parts[1:]]
    return [Text(ERROR_FLAG), *parts]


def rejoin_message(messages: Sequence[Message], batch: EncodingBatch, ledger: Ledger) -> list[bytes] | None:
    """Puts what is left of a split native message together again. None if the batch is no such message."""
    index = batch.indices[0]
    native = messages[index].native
    if native is None or native.format != ledger.wire:
        return None
    collected = collect_blocks(messages, batch, ledger, "content", lambda *_: [])
    return [wrap_blocks(collected, messages[index].role, "content", index, ledger)]


def render_file_fields(part: Document) -> tuple[tuple[str, bytes], ...]:
    """Renders the fields that carry the data of a file."""
    return ("filename", quote(part.name or "document")), ("file_data", quote(to_url(part)))
