"""Messages of the Vercel AI SDK: what its interfaces keep (UIMessage), and what its calls take (ModelMessage).

docs/formats/frameworks.md describes the mapping. A UIMessage of the assistant holds several steps, with the results of
their calls inside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tenfold.core.record.message import Message, Part, Text, Thinking, ToolCall, get_text, get_tool_result
from tenfold.core.wire.foreign_shapes import list_blocks
from tenfold.errors import UnknownRole
from tenfold.formats.content_blocks import (
    list_texts,
    make_answer,
    make_prompt,
    make_result,
    parse_blocks,
    render_arguments,
)
from tenfold.formats.item_lists import Record, RecordFormat, RecordRules
from tenfold.formats.message_parts import parse_call

_SILENT_PARTS = frozenset({"step-start", "step-finish"})
_PATHS = (("messages",), ("chat", "messages"))


# -- UIMessage ---------------------------------------------------------------------------------------------------------


def _parse_ui(value: dict[str, Any]) -> Record:
    parts = list_blocks(value, "parts")
    if not parts:  # version 3 of the SDK had a text, and the calls beside it
        calls = [{"type": "tool-invocation", "toolInvocation": call} for call in list_blocks(value, "toolInvocations")]
        parts = [*calls, {"type": "text", "text": value.get("content") or ""}]
    role = value.get("role")
    if role == "data":
        return Record(kind="data")
    if role != "assistant":
        return Record([make_prompt(str(role), _parse_ui_parts(parts))])
    messages: list[Message] = []
    step: list[Part] = []
    results: list[Message] = []
    for part in parts:
        call = _read_ui_call(part)
        if call is None and results:
            messages += [make_answer(step), *results]
            step, results = [], []
        step += [call] if call is not None else _parse_ui_parts([part])
        result = _read_ui_result(part, call) if call is not None else None
        results += [result] if result is not None else []
    if step or results or not messages:
        messages += [make_answer(step), *results]
    return Record(messages)


def _parse_ui_parts(parts: Sequence[Mapping[str, Any]]) -> list[Part]:
    return parse_blocks([part for part in parts if str(part.get("type")) not in _SILENT_PARTS])


def _get_invocation(part: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Returns the fields of a call, None for a part that is none."""
    kind = str(part.get("type"))
    if kind == "tool-invocation" and isinstance(part.get("toolInvocation"), dict):
        invocation: Mapping[str, Any] = part["toolInvocation"]
        return invocation
    if kind == "dynamic-tool":
        return part
    return {"toolName": kind.removeprefix("tool-"), **part} if kind.startswith("tool-") else None


def _read_ui_call(part: Mapping[str, Any]) -> ToolCall | None:
    found = _get_invocation(part)
    if found is None:
        return None
    arguments = next((found[key] for key in ("input", "args", "rawInput") if found.get(key) is not None), None)
    return parse_call(found.get("toolCallId"), found.get("toolName"), arguments)


def _read_ui_result(part: Mapping[str, Any], call: ToolCall) -> Message | None:
    found = _get_invocation(part) or {}
    error = found.get("errorText")
    output = next((found[key] for key in ("output", "result") if key in found), error)
    if output is None:
        return None
    return make_result(call.id, call.name, output, is_error=isinstance(error, str))


def _render_ui(messages: Sequence[Message]) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for message in messages:
        result = get_tool_result(message)
        if result is None:
            out.append({"id": "", "role": message.role, "parts": _render_ui_parts(message)})
            continue
        known = [part for each in out for part in each["parts"] if part.get("toolCallId") == result.call_id]
        if not known:
            known = [{"type": f"tool-{result.name or 'tool'}", "toolCallId": result.call_id, "input": {}}]
            out.append({"id": "", "role": "assistant", "parts": known})
        key = "errorText" if result.is_error else "output"
        known[0] |= {"state": "output-error" if result.is_error else "output-available", key: get_text(message)}
    return out


def _render_ui_parts(message: Message) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, Text):
            out.append({"type": "text", "text": part.text})
        elif isinstance(part, Thinking) and part.text:
            out.append({"type": "reasoning", "text": part.text})
        elif isinstance(part, ToolCall):
            state = {"state": "input-available", "input": render_arguments(part)}
            out.append({"type": f"tool-{part.name}", "toolCallId": part.id, **state})
    return out


# -- ModelMessage ------------------------------------------------------------------------------------------------------


def _parse_model(value: dict[str, Any]) -> Record:
    content = value.get("content")
    match value.get("role"):
        case "assistant":
            blocks = list_blocks(value)
            results = [_parse_model_result(block) for block in blocks if block.get("type") == "tool-result"]
            kept = [b for b in blocks if b.get("type") != "tool-result"] if blocks else content
            return Record([make_answer(parse_blocks(kept, _parse_model_call)), *results])
        case "tool":
            blocks = list_blocks(value)
            results = [_parse_model_result(block) for block in blocks if block.get("type") == "tool-result"]
            return Record(results, kind="tool-approval")
        case str(role):
            return Record([make_prompt(role, parse_blocks(content))])
        case role:
            raise UnknownRole(str(role))


def _parse_model_call(block: Mapping[str, Any]) -> Part | None:
    if block.get("type") != "tool-call":
        return None
    return parse_call(block.get("toolCallId"), block.get("toolName"), block.get("input", block.get("args")))


def _parse_model_result(block: Mapping[str, Any]) -> Message:
    output = block["output"] if "output" in block else block.get("result")
    is_error = block.get("isError") is True
    if isinstance(output, dict) and isinstance(kind := output.get("type"), str) and "value" in output:
        is_error = kind.startswith("error") or kind == "execution-denied"
        output = output["value"]
    return make_result(block.get("toolCallId"), block.get("toolName"), output, is_error=is_error)


def _render_model(messages: Sequence[Message]) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for message in messages:
        result = get_tool_result(message)
        if result is not None:
            kind = "error-text" if result.is_error else "text"
            ids = {"toolCallId": result.call_id, "toolName": result.name}
            block = {"type": "tool-result", **ids, "output": {"type": kind, "value": get_text(message)}}
            out.append({"role": "tool", "content": [block]})
            continue
        content: list[dict[str, Any]] = []
        for part in message.parts:
            if isinstance(part, Text):
                content.append({"type": "text", "text": part.text})
            elif isinstance(part, Thinking) and part.text:
                content.append({"type": "reasoning", "text": part.text})
            elif isinstance(part, ToolCall):
                ids = {"toolCallId": part.id, "toolName": part.name}
                content.append({"type": "tool-call", **ids, "input": render_arguments(part)})
        is_plain = message.role != "assistant"
        out.append({"role": message.role, "content": "\n".join(list_texts(message)) if is_plain else content})
    return out


VERCEL_UI = RecordFormat("vercel-ui", RecordRules(parse=_parse_ui, render=_render_ui, paths=_PATHS, has_results=True))
"""Reads and writes lists of UIMessages."""
VERCEL_MODEL = RecordFormat("vercel-model", RecordRules(parse=_parse_model, render=_render_model, paths=_PATHS))
"""Reads and writes lists of ModelMessages."""
