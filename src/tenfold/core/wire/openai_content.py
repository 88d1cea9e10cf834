"""What the two wires of OpenAI share: the address, contents, arguments as texts, tool results that are text only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tenfold.core.record.message import Document, Image, Part, Text, ToolResult
from tenfold.core.wire.api import Json
from tenfold.core.wire.base import OutgoingMessage
from tenfold.core.wire.encoding import collect_blocks, wrap_blocks
from tenfold.core.wire.marks import ERROR_FLAG
from tenfold.core.wire.media import to_url
from tenfold.core.wire.splice import build_array, build_object, parse_value, quote

OPENAI_ADDRESS = "https://api.openai.com/v1"
_DETAILS = ("low", "high", "auto", "original")
"""The values of `detail`, which say how closely the model should look at an image."""
RESPONSES_PARTS = frozenset({"input_text", "output_text", "input_image", "input_file"})
"""The content parts that only OpenAI Responses has."""
RenderedPart = Text | bytes
"""A part of a content: a text, or another part as it will be sent."""
PartRenderer = Callable[[Part, OutgoingMessage], list[RenderedPart]]
"""Renders a part for a content: none if it has no place there."""


def render_content(parts: Sequence[RenderedPart], text_type: str) -> bytes:
    """Renders a content. A single text needs no array, and an empty content is an empty text."""
    if not parts:
        return b'""'
    if len(parts) == 1 and isinstance(parts[0], Text):
        return quote(parts[0].text)
    return build_array(render_text_part(part.text, text_type) if isinstance(part, Text) else part for part in parts)


def render_text_part(text: str, text_type: str) -> bytes:
    """Renders a text as a part of that type."""
    return build_object(type=quote(text_type), text=quote(text))


def render_detail(part: Image) -> dict[str, bytes]:
    """Renders the field that says how closely the model should look at an image, none if the image does not say."""
    return {"detail": quote(part.detail)} if part.detail in _DETAILS else {}


def render_file_fields(part: Document) -> dict[str, bytes]:
    """Renders the fields that carry the data of a file."""
    return {"filename": quote(part.name or "document"), "file_data": quote(to_url(part))}


def render_parts(outgoing: OutgoingMessage, render_part: PartRenderer) -> list[RenderedPart]:
    """Renders the parts of a message, without empty texts."""
    out: list[RenderedPart] = []
    for part in outgoing.message.parts:
        if part == Text(""):
            outgoing.note_empty_text()
        else:
            out.extend(render_part(part, outgoing))
    return out


def render_prompt(outgoing: OutgoingMessage, render_part: PartRenderer, text_type: str) -> list[bytes]:
    """Renders a user or system message, as none if nothing is left of it."""
    parts = render_parts(outgoing, render_part)
    role, content = quote(outgoing.message.role), render_content(parts, text_type)
    return [build_object(role=role, content=content)] if parts else []


def render_result_parts(result: ToolResult, outgoing: OutgoingMessage, render_part: PartRenderer) -> list[RenderedPart]:
    """Renders the parts of a tool result. If it failed, its text says so, since these wires have no field for it."""
    parts = [rendered for part in result.content for rendered in render_part(part, outgoing)]
    if not result.is_error:
        return parts
    outgoing.note("error_flag_in_text", "this wire has no error flag; the text says it")
    if parts and isinstance(parts[0], Text):
        return [Text(ERROR_FLAG + parts[0].text), *parts[1:]]
    return [Text(ERROR_FLAG), *parts]


def rejoin_message(batch: Sequence[OutgoingMessage]) -> list[bytes]:
    """Puts what is left of a split native message together again. Returns nothing if the batch is no such message."""
    if batch[0].own_native is None:
        return []
    collected = collect_blocks(batch, "content", lambda _: [])
    return [wrap_blocks(collected, batch[0].message.role, "content", batch[0])]


def parse_arguments(text: object) -> Mapping[str, object] | None:
    """Parses the arguments of a call. None if they are no JSON object; a missing text is an empty one."""
    value = parse_value(text.encode("utf-8", "replace")) if isinstance(text, str) and text else {}
    return value if isinstance(value, dict) else None


def mend_arguments(holder: Json) -> Json:
    """Returns a call whose arguments are a JSON object, since some servers refuse others in a history."""
    is_bad = "arguments" in holder and (not holder["arguments"] or parse_arguments(holder["arguments"]) is None)
    return {**holder, "arguments": "{}"} if is_bad else holder
