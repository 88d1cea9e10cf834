"""LlamaIndex's messages: `ChatMessage` with its blocks, as Anthropic's messages.

A message of the role tool is a message of the user with one tool result. Blocks that Anthropic has under another name
get that name. Others become its texts and documents, with what it takes to build the same block again.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from llama_index.core.base.llms.types import (
    AudioBlock,
    CachePoint,
    ChatMessage,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    VideoBlock,
)
from pydantic import BaseModel, TypeAdapter, ValidationError

from tenfold.core.wire.given_values import name_type
from tenfold.errors import BadInput

Block = dict[str, Any]
_ROLES = {"chatbot": "assistant", "model": "assistant", "developer": "system", "function": "user", "tool": "user"}
"""The roles that Anthropic has under another name."""
_DATA = {ImageBlock: "image", AudioBlock: "audio", VideoBlock: "video", DocumentBlock: "data"}
"""The fields that hold what an image, a recording, a video or a document is, as base64."""
_BLOCKS: TypeAdapter[Any] = TypeAdapter(ContentBlock)


class LlamaIndexConverter:
    """Converts LlamaIndex's messages. See `Converter`."""

    wire = "anthropic"

    def read(self, message: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - whatever stands in a list
        """See `Converter.read`."""
        if not isinstance(message, ChatMessage):
            raise BadInput(f"{name_type(message)} is no message of LlamaIndex: pass ChatMessage(role=..., content=...)")
        role, blocks = message.role.value, _read_blocks(message.blocks)
        kwargs = _to_json({key: value for key, value in message.additional_kwargs.items() if key != "images"})
        if any(isinstance(block, ToolCallBlock) for block in message.blocks):
            kwargs.pop("tool_calls", None)  # they are the same
        blocks += [_read_named_call(each) for each in kwargs.get("tool_calls") or ()]
        if role == "tool":
            call = kwargs.pop("tool_call_id", "") or ""
            blocks = [{"type": "tool_result", "tool_use_id": call, "content": blocks}]
        known = _ROLES.get(role, role)
        more = {"kwargs": kwargs} if kwargs else {}
        more |= {"role": role} if role not in (known, "tool") else {}
        return [{"role": known, "content": blocks, **_keep(more)}]

    def build(self, messages: Sequence[Mapping[str, Any]]) -> list[ChatMessage]:
        """See `Converter.build`. Each tool result is a message of its own."""
        return [built for message in messages for built in _build_message(message)]


def _keep(value: object) -> Block:
    """Returns the field for what Anthropic has no field for."""
    return {"extra_content": value} if value else {}


def _to_json(value: Any) -> Any:  # noqa: ANN401 - what stands in a message
    match value:
        case None | bool() | int() | float():
            return value
        case str():
            return str(value)
        case bytes():
            return {"base64": b64encode(value).decode()}
        case Mapping():
            return {str(key): _to_json(each) for key, each in value.items()}
        case list() | tuple():
            return [_to_json(each) for each in value]
        case BaseModel():
            return _to_json(value.model_dump(exclude_none=True))
    return str(value)


def _from_json(value: Any) -> Any:  # noqa: ANN401 - the reverse
    match value:
        case {"base64": str(data)} if len(value) == 1:
            return b64decode(data)
        case dict():
            return {key: _from_json(each) for key, each in value.items()}
        case list():
            return [_from_json(each) for each in value]
    return value


def _read_blocks(blocks: Sequence[Any]) -> list[Block]:
    read: list[Block] = []
    for block in blocks:
        if isinstance(block, CachePoint) and read and "cache_control" not in read[-1]:
            read[-1]["cache_control"] = block.cache_control.model_dump()
        else:
            read.append(_read_block(block))
    return read


def _read_block(block: Any) -> Block:  # noqa: ANN401 - one of LlamaIndex's blocks
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    if isinstance(block, ToolCallBlock):
        given = block.tool_kwargs
        form = {} if isinstance(given, dict) else _keep("text")
        use = {"type": "tool_use", "id": block.tool_call_id or "", "name": block.tool_name}
        return {**use, **_read_input(given), **form}
    if isinstance(block, ThinkingBlock):
        more = _to_json(block.additional_information)
        signature = {"signature": more.pop("signature")} if "signature" in more else {}
        tokens = {"num_tokens": block.num_tokens} if block.num_tokens is not None else {}
        more = tokens | ({"additional_information": more} if more else {})
        return {"type": "thinking", "thinking": block.content or "", **signature, **_keep(more)}
    field = _DATA.get(type(block), "")
    if field:
        return _read_media(block, field)
    dumped = _to_json(block)
    text = "\n".join(each.text for each in getattr(block, "nested_blocks", ()) if isinstance(each, TextBlock))
    return {"type": "text", "text": text or json.dumps(dumped, ensure_ascii=False), **_keep(dumped)}


def _read_input(given: object) -> Block:
    """Reads the arguments of a call, which some models' clients keep as the text that came."""
    try:
        value = json.loads(given or "{}") if isinstance(given, str) else given
    except ValueError:
        value = given
    return {"input": value if isinstance(value, dict) else {"arguments": value}}


def _read_named_call(call: Mapping[str, Any]) -> Block:
    """Reads a call that stands beside the blocks alone, as older clients have it."""
    inner = call.get("function") or call
    given: object = next((inner[key] for key in ("arguments", "input", "tool_kwargs") if inner.get(key)), {})
    name = inner.get("name") or inner.get("tool_name") or ""
    number = call.get("id") or call.get("call_id") or call.get("tool_id") or ""
    return {"type": "tool_use", "id": number, "name": name, **_read_input(given), **_keep("kwargs")}


def _read_media(block: Any, field: str) -> Block:  # noqa: ANN401 - one of the blocks with data
    data = getattr(block, field)
    more = _to_json(block.model_dump(exclude={field}, exclude_none=True))
    kind = "image" if isinstance(block, ImageBlock) else "document"
    media_type = next((more[key] for key in more if key.endswith("_mimetype")), "")
    media_type = media_type or (f"audio/{more.get('format', '')}" if field == "audio" else "")
    title = {"title": more["title"]} if "title" in more else {}
    if data is None:
        address = more.get("url") or more.get("path", "")
        source = {"type": "url", "url": address, "media_type": media_type}
    elif isinstance(data, bytes):  # LlamaIndex has encoded it
        source = {"type": "base64", "media_type": media_type, "data": data.decode("ascii")}
    else:
        data.seek(0)
        source = {"type": "base64", "media_type": media_type, "data": b64encode(data.read()).decode("ascii")}
    return {"type": kind, **title, "source": source, **_keep(more)}


def _build_message(message: Mapping[str, Any]) -> list[ChatMessage]:
    more = _from_json(message.get("extra_content") or {})
    role, kwargs, content = more.get("role", message["role"]), more.get("kwargs", {}), message["content"]
    if isinstance(content, str):
        return [ChatMessage(role=role, blocks=[TextBlock(text=content)], additional_kwargs=kwargs)]
    built: list[ChatMessage] = []
    for is_result, run in groupby(content, lambda block: block["type"] == "tool_result"):
        if is_result:
            for result in run:
                said = {"tool_call_id": result["tool_use_id"], **kwargs}
                blocks = _build_blocks(result.get("content", ""))
                built.append(ChatMessage(role="tool", blocks=blocks, additional_kwargs=said))
        else:
            built.append(ChatMessage(role=role, blocks=_build_blocks(list(run)), additional_kwargs=kwargs))
    return built or [ChatMessage(role=role, additional_kwargs=kwargs)]


def _build_blocks(content: str | Sequence[Mapping[str, Any]]) -> list[Any]:
    if isinstance(content, str):
        return [TextBlock(text=content)]
    blocks: list[Any] = []
    for block in content:
        if block.get("extra_content") != "kwargs":
            blocks.append(_build_block(block))
        if "cache_control" in block:
            blocks.append(CachePoint(cache_control=block["cache_control"]))
    return blocks


def _build_block(block: Mapping[str, Any]) -> Any:  # noqa: ANN401 - one of LlamaIndex's blocks
    more = _from_json(block.get("extra_content") or {})
    match block["type"]:
        case "tool_use":
            given = block["input"]
            is_bare = more == "text" and set(given) == {"arguments"} and not isinstance(given["arguments"], dict)
            text = given["arguments"] if is_bare else json.dumps(given, ensure_ascii=False)
            return ToolCallBlock(
                tool_call_id=block["id"] or None,
                tool_name=block["name"],
                tool_kwargs=str(text) if more == "text" else given,
            )
        case "thinking":
            signature = {"signature": _from_json(block["signature"])} if "signature" in block else {}
            more = {**more, "additional_information": {**signature, **more.get("additional_information", {})}}
            return ThinkingBlock(content=block["thinking"] or None, **more)
        case "image" | "document":
            return _build_media(block, dict(more))
        case "text" if not more:
            return TextBlock(text=block["text"])
    try:
        return _BLOCKS.validate_python(more)
    except ValidationError:
        return TextBlock(text=block.get("text") or json.dumps(block, ensure_ascii=False))


def _build_media(block: Mapping[str, Any], more: Block) -> Any:  # noqa: ANN401 - one of the blocks with data
    source, kind = block["source"], more.get("block_type", block["type"])
    more = more or {"block_type": kind, f"{kind}_mimetype": source.get("media_type")}
    field = "data" if kind == "document" else kind
    try:
        match source:
            case {"type": "base64", "data": data}:
                return _BLOCKS.validate_python({**more, field: data.encode()})
            case {"type": "text", "data": data}:
                return _BLOCKS.validate_python({**more, field: b64encode(data.encode())})
            case _:
                return _BLOCKS.validate_python(more if "path" in more else {"url": source.get("url"), **more})
    except ValidationError:  # such as a file that is gone
        return TextBlock(text=f"[{kind} {more.get('path') or more.get('title') or ''} not shown]")


CONVERTER = LlamaIndexConverter()
