"""Copies messages without their secrets.

Facts and summaries are made from such copies. Once a text is split into sentences, names and lines, the label by which
a secret is recognised may stand in another piece.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

import msgspec
from msgspec import Struct
from msgspec.structs import fields, replace

from tenfold.core.record.entry import Entry, MessageEntry
from tenfold.core.record.message import (
    Document,
    Message,
    NativeBytes,
    OpaquePart,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from tenfold.core.text.json_text import decode_json
from tenfold.core.text.memoize import memoize
from tenfold.core.text.redaction import redact, redact_cached, redact_value

E = TypeVar("E", bound=Entry)


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
        case OpaquePart():
            raw = _redact_arguments(part.raw.decode(errors="replace")).encode()
            return part if raw == part.raw else replace(part, raw=raw)
        case _:
            return part


def redact_entry(entry: E) -> E:
    """Returns the entry without the secrets in any of its texts, for a store that is to hold none."""
    if isinstance(entry, MessageEntry):
        message = redact_message(entry.message)
        return entry if message is entry.message else cast("E", replace(entry, message=message))
    return cast("E", _redact_record(entry))


def _redact_record(value: Any) -> Any:  # noqa: ANN401  any value that a record holds
    match value:
        case str():
            return redact_cached(value)
        case NativeBytes():
            body = _redact_arguments(value.body.decode(errors="surrogateescape")).encode(errors="surrogateescape")
            return value if body == value.body else replace(value, body=body)
        case Message():
            return redact_message(value)
        case tuple():
            return tuple([_redact_record(each) for each in value])
        case dict():
            return redact_fields(value)
        case Struct():
            members = {field.name: getattr(value, field.name) for field in fields(value)}
            changed = {name: new for name, old in members.items() if (new := _redact_record(old)) != old}
            return replace(value, **changed) if changed else value
    return value


@memoize
def _redact_arguments(arguments: str) -> str:
    """Redacts each text in the arguments by the name of its field, so that they stay JSON."""
    value = decode_json(arguments)
    if value is None:
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
