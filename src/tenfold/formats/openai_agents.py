"""Runs of the OpenAI Agents SDK: dumped run items, and saved run states. docs/formats/frameworks.md has the mapping.

The items of its sessions, and of `to_input_list`, are those of OpenAI Responses and read as such.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tenfold.core.record.message import Message, OpaquePart, Thinking, get_text, get_tool_calls, get_tool_result
from tenfold.formats.content_blocks import list_texts, make_answer, make_prompt, make_result, parse_blocks
from tenfold.formats.item_lists import Record, RecordFormat, RecordRules
from tenfold.formats.json_items import get_list, get_object, list_objects
from tenfold.formats.message_parts import dump_json, parse_call


def _parse_item(item: Mapping[str, Any]) -> Message:
    """Parses an item of OpenAI Responses."""
    kind = str(item.get("type") or "message")
    if kind == "message":
        parts = parse_blocks(item.get("content"))
        return make_answer(parts) if item.get("role") == "assistant" else make_prompt(str(item.get("role")), parts)
    if kind.endswith("_output"):
        return make_result(item.get("call_id"), "", item.get("output"))
    if kind == "reasoning":
        blocks = [*list_objects(item, "summary"), *list_objects(item, "content")]
        texts = [text for block in blocks if isinstance(text := block.get("text"), str)]
        return make_answer([Thinking("\n".join(texts), str(item.get("encrypted_content") or item.get("id") or ""))])
    if "call_id" in item:
        arguments = next((item[key] for key in ("arguments", "input", "action", "operation") if key in item), None)
        return make_answer([parse_call(item["call_id"], item.get("name") or kind, arguments)])
    return make_answer([OpaquePart(kind, dump_json(dict(item), compact=True))])


def _parse(value: dict[str, Any]) -> Record:
    return Record([_parse_item(get_object(value, "raw_item"))])


def _get_answer_id(value: Mapping[str, Any]) -> str:
    """Returns one id for what the model wrote: what follows each other is one answer."""
    item = get_object(value, "raw_item")
    return "" if str(item.get("type")).endswith("_output") or item.get("role") in ("user", "system") else "answer"


def _list_opening(state: Mapping[str, Any]) -> list[Message]:
    """Lists what the run began with."""
    given = state.get("original_input", state.get("input"))
    if isinstance(given, str):
        return [make_prompt("user", parse_blocks(given))]
    return [_parse_item(each) for each in get_list({"": given}, "") if isinstance(each, dict)]


def _render(messages: Sequence[Message]) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for message in messages:
        result, role = get_tool_result(message), message.role
        if result is not None:
            item = {"type": "function_call_output", "call_id": result.call_id, "output": get_text(message)}
            out.append({"type": "tool_call_output_item", "raw_item": item})
            continue
        texts = list_texts(message)
        if texts or not get_tool_calls(message):
            kind = "output_text" if role == "assistant" else "input_text"
            content = [{"type": kind, "text": text} for text in texts]
            raw_item = {"type": "message", "role": role, "content": content}
            out.append({"type": "message_output_item", "raw_item": raw_item})
        for call in get_tool_calls(message):
            item = {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}
            out.append({"type": "tool_call_item", "raw_item": item})
    return out


OPENAI_AGENTS = RecordFormat(
    "openai-agents",
    RecordRules(
        parse=_parse,
        render=_render,
        paths=(("session_items",), ("generated_items",), ("new_items",), ("items",)),
        id_key="",
        list_opening=_list_opening,
        get_answer_id=_get_answer_id,
    ),
)
"""Reads and writes dumps of runs."""
