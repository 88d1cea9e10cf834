"""Haystack's `ChatMessage`, with content parts of every kind, as OpenAI Chat messages."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from haystack.dataclasses import ChatMessage, ToolCall

from tenfold.core.wire.given_values import name_type
from tenfold.core.wire.marks import ERROR_FLAG
from tenfold.errors import BadInput

Json = dict[str, Any]


class HaystackConverter:
    """Converts Haystack's messages. See `Converter`.

    OpenAI Chat has no place for some of what a message holds: the provider's own data in reasoning and calls. It goes
    into fields of their own, `reasoning_details` and `extra`, so it comes back with every message that stays whole.
    """

    wire = "openai-chat"

    def read(self, message: Any) -> list[Json]:  # noqa: ANN401 - whatever stands in a list
        """See `Converter.read`. A message with several tool results is as many messages."""
        if not isinstance(message, ChatMessage):
            raise BadInput(f"{name_type(message)} is no message of Haystack: pass a list of ChatMessage")
        parts = message.to_dict()["content"]
        items = [_read_result(part["tool_call_result"]) for part in parts if "tool_call_result" in part]
        rest = [part for part in parts if "tool_call_result" not in part]
        if rest or not items:
            role = "user" if items else message.role.value
            item: Json = {"role": role, "content": _read_content(rest)}
            if role == "assistant":
                item = _read_answer(item, rest, message.meta)
            items.append(item | ({"name": message.name} if message.name else {}))
        return items

    def build(self, messages: Sequence[Mapping[str, Any]]) -> list[ChatMessage]:
        """See `Converter.build`. Where a result's call is not among them, its tool has no name: see `name_tools`."""
        return name_tools([ChatMessage.from_dict(_build_message(message)) for message in messages])


CONVERTER = HaystackConverter()


def name_tools(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Gives tool results without the name of their tool the call that they are the result of."""
    calls, named = dict[str, ToolCall](), list[ChatMessage]()
    for message in messages:
        calls |= {_get_call_id(vars(call)): call for call in message.tool_calls}
        result = message.tool_call_result
        if result is not None and not result.origin.tool_name and result.origin.id in calls:
            call = calls[result.origin.id]
            named.append(ChatMessage.from_tool(result.result, call, error=result.error, meta=message.meta))
        else:
            named.append(message)
    return named


# -- from Haystack's parts ---------------------------------------------------------------------------------------------


def _read_content(parts: Sequence[Json]) -> str | list[Json]:
    read = [_read_part(part) for part in parts if not part.keys() & {"reasoning", "tool_call"}]
    if len(read) == 1 and read[0]["type"] == "text":
        text: str = read[0]["text"]
        return text
    return read or ""


def _read_part(part: Json) -> Json:
    if "image" in part:
        image = part["image"]
        detail = {"detail": image["detail"]} if image["detail"] else {}
        url = f"data:{image['mime_type'] or 'image/jpeg'};base64,{image['base64_image']}"
        return {"type": "image_url", "image_url": {"url": url, **detail}}
    if "file" in part:
        file = part["file"]
        data = f"data:{file['mime_type'] or 'application/pdf'};base64,{file['base64_data']}"
        return {"type": "file", "file": {"file_data": data, "filename": file["filename"] or "document"}}
    return {"type": "text", "text": part["text"]}


def _read_answer(item: Json, parts: Sequence[Json], meta: Mapping[str, Any]) -> Json:
    calls = [_read_call(part["tool_call"]) for part in parts if "tool_call" in part]
    thoughts = [part["reasoning"] for part in parts if "reasoning" in part]
    refusal = meta.get("refusal")
    if thoughts:
        item["reasoning_content"] = "\n".join(thought["reasoning_text"] for thought in thoughts)
        item["reasoning_details"] = thoughts
    if isinstance(refusal, str) and refusal:
        item["refusal"] = refusal
    if calls:
        item |= {"content": item["content"] or None, "tool_calls": calls}
    return item


def _read_call(call: Json) -> Json:
    function = {"name": call["tool_name"], "arguments": json.dumps(call["arguments"], ensure_ascii=False)}
    extra = {"extra": call["extra"]} if call["extra"] else {}
    return {"id": _get_call_id(call), "type": "function", "function": function, **extra}


def _read_result(result: Json) -> Json:
    said = result["result"]
    content = said if isinstance(said, str) else _read_content(said)
    if result["error"]:
        flag = {"type": "text", "text": ERROR_FLAG}
        content = ERROR_FLAG + content if isinstance(content, str) else [flag, *content]
    origin = result["origin"]
    return {"role": "tool", "tool_call_id": _get_call_id(origin), "name": origin["tool_name"], "content": content}


def _get_call_id(call: Mapping[str, Any]) -> str:
    """Returns the id of a call. Some generators give none: then it is made of what is called."""
    if call["id"]:
        return str(call["id"])
    called = json.dumps([call["tool_name"], call["arguments"]], sort_keys=True, default=str)
    return f"call_{hashlib.sha256(called.encode()).hexdigest()[:24]}"


# -- to Haystack's parts -----------------------------------------------------------------------------------------------


def _build_message(message: Mapping[str, Any]) -> Json:
    """Builds what `ChatMessage.from_dict` takes."""
    role, content = message["role"], message.get("content")
    if role in ("tool", "function"):
        return {"role": "tool", "content": [{"tool_call_result": _build_result(message)}]}
    parts = _build_parts(content)
    if role != "user":  # Haystack's generators send only the first text of the other roles
        texts = [part["text"] for part in parts if "text" in part]
        joined = [{"text": "\n".join(texts)}] if texts else []
        parts = [*joined, *(part for part in parts if "text" not in part)]
    meta = {"refusal": message["refusal"]} if message.get("refusal") else {}
    if role == "assistant":
        calls = [{"tool_call": _build_call(call)} for call in message.get("tool_calls") or ()]
        parts = [*_build_reasoning(message), *parts, *calls]
    built = "system" if role == "developer" else role
    return {"role": built, "content": parts, "meta": meta, "name": message.get("name")}


def _build_parts(content: Any) -> list[Json]:  # noqa: ANN401 - a text, a list of parts or null
    if isinstance(content, str):
        return [{"text": content}] if content else []
    return [_build_part(part) for part in content or ()]


def _build_part(part: Mapping[str, Any]) -> Json:
    kind = part["type"]
    if kind == "image_url":
        image = part["image_url"]
        media, data = _split_url(image["url"])
        detail = image.get("detail")
        return {"image": {"base64_image": data, "mime_type": media, "detail": detail, "validation": False}}
    if kind == "file" and "file_data" in part["file"]:
        media, data = _split_url(part["file"]["file_data"])
        name = part["file"].get("filename")
        return {"file": {"base64_data": data, "mime_type": media, "filename": name, "validation": False}}
    if kind in ("text", "refusal"):
        return {"text": part[kind]}
    raise BadInput(f"a ChatMessage of Haystack has no part for {kind!r}: leave it out of the message")


def _split_url(url: str) -> tuple[str | None, str]:
    head, comma, data = url.partition(";base64,")
    if not comma or not head.startswith("data:"):
        raise BadInput(f"a ChatMessage of Haystack holds the data itself, and not {url[:80]!r}: read it first")
    return head.removeprefix("data:") or None, data


def _build_reasoning(message: Mapping[str, Any]) -> list[Json]:
    details = [{"reasoning": detail} for detail in message.get("reasoning_details") or () if "reasoning_text" in detail]
    thought = message.get("reasoning_content") or message.get("reasoning")
    return details or ([{"reasoning": {"reasoning_text": thought}}] if thought else [])


def _build_call(call: Mapping[str, Any]) -> Json:
    function = call["function"]
    try:
        arguments = json.loads(function["arguments"] or "{}")
    except ValueError as exc:
        raise BadInput(
            f"the arguments of {function['name']} are no JSON object: {function['arguments'][:80]!r}"
        ) from exc
    return {"tool_name": function["name"], "arguments": arguments, "id": call["id"], "extra": call.get("extra")}


def _build_result(message: Mapping[str, Any]) -> Json:
    content = message.get("content") or ""
    parts = _build_parts(content)
    is_error = bool(parts) and str(parts[0].get("text", "")).startswith(ERROR_FLAG)
    if is_error:
        text = parts[0]["text"].removeprefix(ERROR_FLAG)
        parts = [*([{"text": text}] if text else []), *parts[1:]]
    said = "".join(part["text"] for part in parts) if isinstance(content, str) else parts
    origin: Json = {"tool_name": message.get("name") or "", "arguments": {}, "id": message.get("tool_call_id")}
    return {"result": said, "origin": origin, "error": is_error}
