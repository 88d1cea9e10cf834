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
    Opaque,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    calls_of,
)
from tenfold.redact import redacted
from tenfold.summarize.fence import bounded, fenced
from tenfold.text import head_of, plain

RESULT = 2_000
"""Most characters kept of a tool's output."""


def labelled(message: Message, limit: int) -> str:
    """Returns the message as labelled paragraphs, a blank line between them. Each text has about `limit` characters."""
    return redacted("\n\n".join(f"[{label}]: {text}" for label, text in _paragraphs(message, limit) if text.strip()))


def _paragraphs(message: Message, limit: int) -> Iterator[tuple[str, str]]:
    status = f" ({message.status})" if message.status != "ok" else ""
    text = "".join(part.text for part in message.parts if isinstance(part, Text))
    match message.origin:
        case "model":
            thinking = "\n".join(part.text for part in message.parts if isinstance(part, Thinking))
            calls = "; ".join(_call(call, limit // 2) for call in calls_of(message))
            yield "Assistant thinking", bounded(thinking, limit // 4)
            yield f"Assistant{status}", bounded(text, limit)
            yield "Assistant tool calls", calls
        case "tool":
            yield "Tool result", _printed(text, message.origin, limit)
        case "tenfold":
            yield "Earlier summary", bounded(text, limit)
        case "human":
            yield "User", bounded(text, limit)
        case _:
            yield "Context, not from the user", fenced(text, limit, message.origin) if text else ""
    for part in message.parts:
        yield from _beside(part, limit)


def _call(call: ToolCall, limit: int) -> str:
    """Returns `name(key=json, ...)`. Arguments that are not a JSON object stay as they were written."""
    try:
        arguments = msgspec.json.decode(call.arguments)
    except msgspec.DecodeError:
        arguments = None
    if not isinstance(arguments, dict):
        return f"{call.name}({bounded(call.arguments, limit)})"
    pairs = ", ".join(f"{key}={msgspec.json.encode(value).decode()}" for key, value in arguments.items())
    return f"{call.name}({bounded(pairs, limit)})"


def _beside(part: Part, limit: int) -> Iterator[tuple[str, str]]:
    match part:
        case ToolResult(content=content):
            text = "".join(item.text for item in content if isinstance(item, Text | Document))
            label = f"{part.name or 'result'}{' error' if part.error else ''}"
            yield "Tool result", _printed(text, label, limit)
        case Document(name=name, text=text):
            yield f"Document {plain(name)}", fenced(text, limit, "document") if text else ""
        case Opaque(kind=kind):
            yield "A part of type", kind
        case Image() | Text() | Thinking() | ToolCall():
            return


def _printed(text: str, label: str, limit: int) -> str:
    """Returns the beginning of a tool's output, and how much more there was."""
    text = plain(text)
    length = min(limit, RESULT)
    more = f"\n\n[... {len(text) - length} more characters left out]" if len(text) > length else ""
    return fenced(head_of(text, length), length, label) + more if text else ""
