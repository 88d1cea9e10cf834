"""Copies messages without their secrets.

Facts and summaries are made from such copies. Once a text is split into sentences, names and lines, the label by which
a secret is recognised may stand in another piece.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from tenfold.record.message import Document, Message, Part, Text, Thinking, ToolCall, ToolResult
from tenfold.text.memoize import memoize
from tenfold.text.redaction import redact, redact_cached, redact_value


def redact_message(message: Message) -> Message:
    """Returns the message without the secrets in its texts and in the arguments of its calls.

    A message that has none is returned itself. The copy has no native bytes, since they hold the secret.
    """
    parts = tuple([_redact_part(part) for part in message.parts])
    changed = any(new is not old for new, old in zip(parts, message.parts, strict=True))
    return replace(message, parts=parts, native=None) if changed else message


def _redact_part(part: Part) -> Part:
    match part:
        case Text():
            text = redact_cached(part.text)
            return part if text == part.text else Text(text)
        case Thinking():
            text = redact_cached(part.text)
            return part if text == part.text else Thinking(text)  # a signature holds for the unchanged text only
        case ToolCall():
            arguments = _redact_arguments(part.arguments)
            return part if arguments == part.arguments else replace(part, arguments=arguments)
        case ToolResult():
            content = tuple([_redact_part(each) for each in part.content])
            changed = any(new is not old for new, old in zip(content, part.content, strict=True))
            return replace(part, content=content) if changed else part
        case Document() if part.text:
            text = redact_cached(part.text)
            return part if text == part.text else replace(part, text=text)
        case _:
            return part


@memoize
def _redact_arguments(arguments: str) -> str:
    """Redacts each text in the arguments by the name of its field, so that they stay JSON."""
    try:
        value: object = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return redact(arguments)
    clean = redact_fields(value)
    return arguments if clean == value else msgspec.json.encode(clean).decode()


def redact_fields(value: object, label: str = "") -> object:
    """Redacts every text in a JSON value by the name of its field. Of `name` and `value`, the name is the label."""
    if isinstance(value, dict):
        name = value.get("name", value.get("key"))
        return {
            key: redact_fields(inner, str(name) if key == "value" and isinstance(name, str) else str(key))
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [redact_fields(inner, label) for inner in value]
    return redact_value(label, value) if isinstance(value, str) else value
