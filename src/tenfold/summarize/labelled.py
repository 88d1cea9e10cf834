"""The rendering of the preset `tail`: a label before each message's thinking, text, calls and results, in that order.

Tool outputs keep their first `RESULT` characters and say how many more there were. Pictures are dropped; nothing that
is empty gets a label. What tools printed and programs put in is fenced as data, as in every rendering.
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
"""Characters that are kept of a tool's output."""


def labelled(message: Message, limit: int) -> str:
    """The message as labelled paragraphs, a blank line between them; each text of at most about `limit` characters."""
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
    """`name(key=json, ...)`; arguments that are no JSON object stand as they were written."""
    try:
        given = msgspec.json.decode(call.arguments)
    except msgspec.DecodeError:
        given = None
    if not isinstance(given, dict):
        return f"{call.name}({bounded(call.arguments, limit)})"
    named = ", ".join(f"{key}={msgspec.json.encode(value).decode()}" for key, value in given.items())
    return f"{call.name}({bounded(named, limit)})"


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
    """A tool's output: its beginning, and how much more there was."""
    text = plain(text)
    kept = min(limit, RESULT)
    more = f"\n\n[... {len(text) - kept} more characters left out]" if len(text) > kept else ""
    return fenced(head_of(text, kept), kept, label) + more if text else ""
