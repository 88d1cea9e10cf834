"""Texts and tool calls as several formats write them in JSON: parsed to parts of messages, and rendered."""

from __future__ import annotations

import json

from tenfold.core.record.message import Text, ToolCall
from tenfold.formats.json_items import parse_json


def dump_json(value: object, *, compact: bool = False) -> bytes:
    """Renders JSON as UTF-8. `compact` leaves out the spaces behind commas and colons."""
    separators = (",", ":") if compact else None
    return json.dumps(value, ensure_ascii=False, separators=separators).encode("utf-8", "replace")


def parse_texts(content: object) -> tuple[Text, ...]:
    """Parses the content of a message: a text, or texts and objects with a `text` in a list. The rest is left out."""
    parts = content if isinstance(content, list) else [content]
    texts = [p.get("text") if isinstance(p, dict) else p for p in parts if not _has_other_type(p)]
    return tuple(Text(text) for text in texts if isinstance(text, str) and text)


def _has_other_type(part: object) -> bool:
    return isinstance(part, dict) and part.get("type", "text") != "text"


def parse_call(call_id: object, name: object, arguments: object) -> ToolCall:
    """Builds a tool call from the values in a file. `arguments` are the model's own text or an object."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    return ToolCall(str(call_id or ""), str(name or ""), text)


def render_call(call: ToolCall, arguments_key: str = "arguments") -> dict[str, object]:
    """Renders a tool call as an object. Arguments that are not JSON become an object that holds them under `_raw`."""
    arguments: object
    try:
        arguments = parse_json(call.arguments.encode())
    except ValueError:
        arguments = {"_raw": call.arguments}
    return {"id": call.id, "name": call.name, arguments_key: arguments}
