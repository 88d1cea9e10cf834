"""The parts of messages as frameworks write them: texts, thinking, pictures, calls and results in typed objects.

The same few forms come back in many of them. What is none of these is kept as an opaque part.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tenfold.core.record.message import (
    Document,
    Image,
    Message,
    OpaquePart,
    Origin,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from tenfold.core.wire import find_text_origin
from tenfold.core.wire.media import to_image
from tenfold.errors import UnknownRole
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


ContentPart = Text | Image | Document | OpaquePart
BlockParser = Callable[[Mapping[str, Any]], Part | None]
"""Parses a block of one framework's own. None for a block that is not."""
_TEXT_KEYS = ("text", "thinking", "reasoning", "think", "refusal")
_THINKING_KINDS = frozenset({"thinking", "reasoning", "think", "redacted_thinking"})
_TEXT_KINDS = frozenset({"", "text", "input_text", "output_text", "refusal", "text-plain"})


def parse_blocks(content: object, parse_own: BlockParser = lambda _: None) -> list[Part]:
    """Parses a content: a text, or texts and objects in a list. Empty texts are left out."""
    blocks = content if isinstance(content, list) else [] if content is None else [content]
    parts = (parse_block(block, parse_own) for block in blocks)
    return [part for part in parts if part != Text("")]


def parse_block(block: object, parse_own: BlockParser = lambda _: None) -> Part:
    """Parses one element of a content."""
    if isinstance(block, str):
        return Text(block)
    if not isinstance(block, dict):
        return OpaquePart("", dump_json(block, compact=True))
    if (own := parse_own(block)) is not None:
        return own
    kind = block["type"] if isinstance(block.get("type"), str) else ""
    text = next((block[key] for key in _TEXT_KEYS if isinstance(block.get(key), str)), None)
    if kind in _THINKING_KINDS and text is not None:
        signature = block.get("signature")
        return Thinking(text, signature if isinstance(signature, str) else "")
    if kind in _TEXT_KINDS and text is not None:
        return Text(text)
    image = block.get("image_url")
    url = image.get("url") if isinstance(image, dict) else image
    if kind in ("image_url", "input_image") and isinstance(url, str):
        return to_image(url)
    return OpaquePart(kind or next(iter(block), ""), dump_json(block, compact=True))


def parse_output(value: object) -> tuple[ContentPart, ...]:
    """Parses what a tool returned: a text, blocks in a list, or any other value, which becomes its JSON."""
    if value is None or value == "":
        return ()
    if isinstance(value, str):
        return (Text(value),)
    if isinstance(value, list):
        parts = parse_blocks(value)
        if all(isinstance(part, Text | Image) for part in parts):
            return tuple(part for part in parts if isinstance(part, Text | Image))
    return (Text(dump_json(value).decode()),)


def make_result(call_id: object, name: object, output: object, *, is_error: bool = False) -> Message:
    """Makes the message of a tool's result."""
    return Message("tool", (ToolResult(str(call_id or ""), str(name or ""), parse_output(output), is_error),), "tool")


def make_prompt(role: str, parts: Sequence[Part]) -> Message:
    """Makes the message of a user or of a system prompt. Raises `UnknownRole` for any other role."""
    if role in ("system", "developer"):
        return Message("system", tuple(parts), "harness")
    if role != "user":
        raise UnknownRole(str(role))
    text = "\n".join(part.text for part in parts if isinstance(part, Text))
    origin: Origin = find_text_origin(text)
    return Message("user", tuple(parts), origin)


def make_turn(
    role: object,
    blocks: Sequence[Mapping[str, Any]],
    parse_own: BlockParser,
    parse_result: Callable[[Mapping[str, Any]], Message | None],
) -> list[Message]:
    """Makes the messages of a turn: an answer, or what a user says. Each result of a tool in it is one of its own.

    Raises `UnknownRole` for a role that is none of these.
    """
    if role in ("assistant", "model"):
        return [make_answer(parse_blocks(blocks, parse_own))]
    out: list[Message] = []
    waiting: list[Mapping[str, Any]] = []
    for block in [*blocks, None]:
        result = parse_result(block) if block is not None else None
        if block is not None and result is None:
            waiting.append(block)
            continue
        if waiting:
            out.append(make_prompt(str(role), parse_blocks(waiting, parse_own)))
            waiting = []
        out += [result] if result is not None else []
    return out or [make_prompt(str(role), [])]


def make_answer(parts: Iterable[Part]) -> Message:
    """Makes the message of an answer."""
    return Message("assistant", tuple(parts), "model")


def list_texts(message: Message) -> list[str]:
    """Lists the texts of a message that are no thinking."""
    return [part.text for part in message.parts if isinstance(part, Text) and part.text]


def render_arguments(call: ToolCall) -> object:
    """Renders the arguments of a call as an object."""
    return render_call(call)["arguments"]
