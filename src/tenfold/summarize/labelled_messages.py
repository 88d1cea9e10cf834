"""Renders messages as in the preset `tail`: a label before each thinking, text, calls and results, in that order.

Tool outputs keep their first `MAX_RESULT_CHARS` characters and say how many more there were. Pictures are dropped, and
empty parts get no label. Tool output and injected text are fenced as data, as in every rendering.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tenfold.record.message import (
    Document,
    Image,
    Message,
    OpaquePart,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    get_tool_calls,
)
from tenfold.text.excerpts import Keep, excerpt, strip_escapes
from tenfold.text.fence import fence_text
from tenfold.text.redaction import redact_cached

MAX_RESULT_CHARS = 2_000
"""Most characters kept of a tool's output."""


def render_labelled(message: Message, limit: int) -> str:
    """Returns the message as labelled paragraphs, a blank line between them. Each text has about `limit` characters."""
    return redact_cached(
        "\n\n".join(f"[{label}]: {text}" for label, text in _list_paragraphs(message, limit) if text.strip())
    )


def _list_paragraphs(message: Message, limit: int) -> Iterator[tuple[str, str]]:
    status = f" ({message.status})" if message.status != "ok" else ""
    text = "".join(part.text for part in message.parts if isinstance(part, Text))
    match message.origin:
        case "model":
            thinking = "\n".join(part.text for part in message.parts if isinstance(part, Thinking))
            calls = "; ".join(_render_call(call, limit // 2) for call in get_tool_calls(message))
            yield "Assistant thinking", excerpt(thinking, limit // 4, Keep.BLOCK_ENDS)
            yield f"Assistant{status}", excerpt(text, limit, Keep.BLOCK_ENDS)
            yield "Assistant tool calls", calls
        case "tool":
            yield "Tool result", _render_output(text, message.origin, limit)
        case "tenfold":
            yield "Earlier summary", excerpt(text, limit, Keep.BLOCK_ENDS)
        case "human":
            yield "User", excerpt(text, limit, Keep.BLOCK_ENDS)
        case _:
            yield "Context, not from the user", fence_text(text, limit, message.origin) if text else ""
    for part in message.parts:
        yield from _list_other_paragraphs(part, limit)


def _render_call(call: ToolCall, limit: int) -> str:
    """Returns `name(key=json, ...)`. Arguments that are not a JSON object stay as they were written."""
    try:
        arguments = msgspec.json.decode(call.arguments)
    except msgspec.DecodeError:
        arguments = None
    if not isinstance(arguments, dict):
        return f"{call.name}({excerpt(call.arguments, limit, Keep.BLOCK_ENDS)})"
    pairs = ", ".join(f"{key}={msgspec.json.encode(value).decode()}" for key, value in arguments.items())
    return f"{call.name}({excerpt(pairs, limit, Keep.BLOCK_ENDS)})"


def _list_other_paragraphs(part: Part, limit: int) -> Iterator[tuple[str, str]]:
    match part:
        case ToolResult(content=content):
            text = "".join(item.text for item in content if isinstance(item, Text | Document))
            label = f"{part.name or 'result'}{' error' if part.is_error else ''}"
            yield "Tool result", _render_output(text, label, limit)
        case Document(name=name, text=text):
            yield f"Document {strip_escapes(name)}", fence_text(text, limit, "document") if text else ""
        case OpaquePart(kind=kind):
            yield "A part of type", kind
        case Image() | Text() | Thinking() | ToolCall():
            return


def _render_output(text: str, label: str, limit: int) -> str:
    """Returns the beginning of a tool's output, and how much more there was."""
    text = strip_escapes(text)
    length = min(limit, MAX_RESULT_CHARS)
    more = f"\n\n[... {len(text) - length} more characters left out]" if len(text) > length else ""
    return fence_text(excerpt(text, length, Keep.HEAD), length, label) + more if text else ""
