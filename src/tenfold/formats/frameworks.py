"""Messages of agent frameworks: Bedrock's Converse, LangChain, the OpenAI Agents SDK and the Vercel AI SDK.

docs/formats/frameworks.md describes the mapping. What Google's frameworks write is in `gemini_parts`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tenfold.core.record.entry import Usage
from tenfold.core.record.message import (
    Message,
    OpaquePart,
    Part,
    Text,
    Thinking,
    ToolCall,
    get_text,
    get_tool_calls,
    get_tool_result,
)
from tenfold.core.wire.foreign_shapes import has_shape, list_blocks
from tenfold.errors import UnknownRole
from tenfold.formats.content_blocks import (
    dump_json,
    list_texts,
    make_answer,
    make_prompt,
    make_result,
    make_turn,
    parse_blocks,
    parse_call,
    render_arguments,
)
from tenfold.formats.item_lists import Record, RecordFormat
from tenfold.formats.json_items import get_object, list_objects
from tenfold.formats.session_draft import build_usage

# -- Converse, which Strands Agents stores, too ------------------------------------------------------------------------


class Converse(RecordFormat):
    """Reads and writes lists of Converse messages."""

    name = "bedrock-converse"
    opaque_kinds = ("document", "image", "video", "audio", "searchResult")

    def is_item(self, value: dict[str, Any]) -> bool:
        """Looks for a message, also in the envelope that Strands stores it in."""
        return has_shape(get_object(value, "message") or value, self.name)

    def parse(self, value: dict[str, Any]) -> Record:
        """Parses a message."""
        message = get_object(value, "message") or value
        blocks = list_objects(message, "content")
        return Record(make_turn(message.get("role"), blocks, _parse_converse_block, _parse_converse_result))

    def list_opening(self, top: Mapping[str, Any]) -> Sequence[Message]:
        """Lists the system prompt of a request."""
        blocks = list_objects(top, "system")
        return [make_prompt("system", parse_blocks(blocks))] if blocks else []

    def render(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Renders messages. What a user and tools say one after the other is one message."""
        out: list[dict[str, Any]] = []
        for message in messages:
            role = "assistant" if message.role == "assistant" else "user"
            blocks = _render_converse_blocks(message)
            if out and out[-1]["role"] == role == "user":
                out[-1]["content"] += blocks
            else:
                out.append({"role": role, "content": blocks})
        return out


def _parse_converse_block(block: Mapping[str, Any]) -> Part | None:
    match block:
        case {"toolUse": {"name": name, **call}}:
            return parse_call(call.get("toolUseId"), name, call.get("input"))
        case {"reasoningContent": {"reasoningText": {"text": str(text), **rest}}}:
            return Thinking(text, str(rest.get("signature") or ""))
        case {"guardContent": {"text": {"text": str(text)}}}:
            return Text(text)
        case {"citationsContent": {"content": [*contents]}}:
            return Text("".join(c["text"] for c in contents if isinstance(c, dict) and isinstance(c.get("text"), str)))
    return None


def _parse_converse_result(block: Mapping[str, Any]) -> Message | None:
    if not isinstance(block.get("toolResult"), dict):
        return None
    result = get_object(block, "toolResult")
    output = [each.get("json", each) for each in list_objects(result, "content")]
    is_value = len(output) == 1 and not (isinstance(output[0], dict) and "text" in output[0])
    content = output[0] if is_value else output
    return make_result(result.get("toolUseId"), "", content, is_error=result.get("status") == "error")


def _render_converse_blocks(message: Message) -> list[dict[str, Any]]:
    result = get_tool_result(message)
    if result is not None:
        status = "error" if result.is_error else "success"
        content = [{"text": get_text(message)}]
        return [{"toolResult": {"toolUseId": result.call_id, "content": content, "status": status}}]
    out: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, Text):
            out.append({"text": part.text})
        elif isinstance(part, ToolCall):
            out.append({"toolUse": {"toolUseId": part.id, "name": part.name, "input": render_arguments(part)}})
    return out


# -- LangChain ---------------------------------------------------------------------------------------------------------

_CLASSES: Mapping[str, str] = {
    "Human": "human",
    "AI": "ai",
    "System": "system",
    "Tool": "tool",
    "Function": "function",
    "Chat": "chat",
    "Remove": "remove",
}
_ROLES: Mapping[str, str] = {"human": "user", "user": "user", "system": "system", "developer": "system"}
_CALL_BLOCKS = frozenset({"tool_use", "function_call", "tool_call", "tool_call_chunk", "input_json_delta"})
"""Blocks of a content that repeat the calls of the message."""


class LangChain(RecordFormat):
    """Reads and writes lists of LangChain's messages, and LangGraph's states and checkpoints that hold them.

    `messages_to_dict` writes `{"type", "data"}`, `dumpd` and `dumps` write constructors with `lc`, and `model_dump`
    writes the fields themselves.
    """

    name = "langchain"
    opaque_kinds = (
        "image", "audio", "video", "file", "media", "executable_code", "code_execution_result", "server_tool_call",
        "server_tool_call_chunk", "server_tool_result",
    )  # fmt: skip
    part_wires = ("anthropic", "openai-responses", "openai-chat")
    paths = (
        ("messages",),
        ("values", "messages"),
        ("channel_values", "messages"),
        ("checkpoint", "channel_values", "messages"),
        ("state", "messages"),
        ("state", "values", "messages"),
        ("output", "messages"),
        ("input", "messages"),
        ("kwargs", "messages"),
    )
    session_keys = ("thread_id",)

    def parse(self, value: dict[str, Any]) -> Record:
        """Parses a message in whichever form it has."""
        kind, fields = _get_fields(value)
        if kind == "remove":
            return Record(kind="remove")
        role = str(fields.get("role")) if kind == "chat" else kind
        if role in ("ai", "assistant"):
            return Record([_parse_langchain_answer(fields)], _parse_langchain_usage(fields))
        if role in ("tool", "function"):
            is_error = fields.get("status") == "error"
            content = fields.get("content")
            return Record([make_result(fields.get("tool_call_id"), fields.get("name"), content, is_error=is_error)])
        if role not in _ROLES:
            raise UnknownRole(str(role))
        return Record([make_prompt(_ROLES[role], parse_blocks(fields.get("content")))])

    def render(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Renders messages as `messages_to_dict` does."""
        return list(map(_render_langchain_message, messages))


def _get_fields(value: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Returns the type of a message and its fields, whichever form it has."""
    if value.get("lc") == 1 and isinstance(value.get("id"), list):
        name = str((value["id"] or [""])[-1]).removesuffix("Chunk").removesuffix("Message")
        return _CLASSES.get(name, name), get_object(value, "kwargs")
    kind = str(value.get("type")).removesuffix("MessageChunk").lower()
    return kind, value["data"] if isinstance(value.get("data"), dict) else value


def _parse_langchain_answer(fields: Mapping[str, Any]) -> Message:
    content = fields.get("content")
    calls = [
        parse_call(c.get("id"), c.get("name"), c.get("args"))
        for key in ("tool_calls", "invalid_tool_calls")
        for c in list_objects(fields, key)
    ]
    more = get_object(fields, "additional_kwargs")
    if not calls:
        functions = [(c.get("id"), c.get("function")) for c in list_objects(more, "tool_calls")]
        functions += [("", more.get("function_call"))]
        calls = [parse_call(id_, f.get("name"), f.get("arguments")) for id_, f in functions if isinstance(f, dict)]
    blocks = content if isinstance(content, list) else [content] if content else []
    kept = [b for b in blocks if not (isinstance(b, dict) and calls and str(b.get("type")) in _CALL_BLOCKS)]
    thoughts: list[Part] = []
    if isinstance(thought := more.get("reasoning_content"), str) and thought:
        thoughts = [Thinking(thought)]
    return make_answer([*thoughts, *parse_blocks(kept), *calls])


def _parse_langchain_usage(fields: Mapping[str, Any]) -> Usage | None:
    report, about = get_object(fields, "usage_metadata"), get_object(fields, "response_metadata")
    keys = ("input_tokens", "output_tokens", "cache_read", "cache_creation")
    details = get_object(report, "input_token_details")
    return build_usage(details | report, keys, about.get("model_name") or about.get("model"))


def _render_langchain_message(message: Message) -> dict[str, Any]:
    result = get_tool_result(message)
    if result is not None:
        status = "error" if result.is_error else "success"
        about = {"tool_call_id": result.call_id, "name": result.name, "status": status}
        return {"type": "tool", "data": {"content": get_text(message), **about}}
    data: dict[str, Any] = {"content": "\n".join(list_texts(message)), "additional_kwargs": {}}
    if message.role == "assistant":
        data["tool_calls"] = [
            {"name": c.name, "args": render_arguments(c), "id": c.id, "type": "tool_call"}
            for c in get_tool_calls(message)
        ]
    return {"type": {"user": "human", "assistant": "ai"}.get(message.role, message.role), "data": data}


# -- OpenAI Agents -----------------------------------------------------------------------------------------------------


class OpenAiAgents(RecordFormat):
    """Reads and writes dumped run items and saved run states of the OpenAI Agents SDK.

    The items of its sessions, and of `to_input_list`, are those of OpenAI Responses and read as such.
    """

    name = "openai-agents"
    part_wires = ("openai-responses",)
    paths = (("session_items",), ("generated_items",), ("new_items",), ("items",))
    id_key = ""

    def parse(self, value: dict[str, Any]) -> Record:
        """Parses the item of OpenAI Responses that a run item holds."""
        return Record([_parse_item(get_object(value, "raw_item"))])

    def get_answer_id(self, value: Mapping[str, Any]) -> str:
        """Returns one id for what the model wrote: what follows each other is one answer."""
        item = get_object(value, "raw_item")
        return "" if str(item.get("type")).endswith("_output") or item.get("role") in ("user", "system") else "answer"

    def list_opening(self, top: Mapping[str, Any]) -> Sequence[Message]:
        """Lists what the run began with."""
        given = top.get("original_input", top.get("input"))
        if isinstance(given, str):
            return [make_prompt("user", parse_blocks(given))]
        return [_parse_item(each) for each in list_objects({"": given}, "")]

    def render(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Renders messages as run items: the text of an answer and each of its calls are items of their own."""
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


def _parse_item(item: Mapping[str, Any]) -> Message:
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


# -- Vercel AI SDK: what its interfaces keep (UIMessage) ---------------------------------------------------------------

_SILENT_PARTS = frozenset({"step-start", "step-finish"})


class VercelUi(RecordFormat):
    """Reads and writes lists of UIMessages. One of the assistant holds several steps, with the results inside."""

    name = "vercel-ui"
    opaque_kinds = ("file", "image", "source", "source-url", "source-document", "reasoning-file", "data-*")
    paths = (("messages",), ("chat", "messages"))
    has_results = True

    def parse(self, value: dict[str, Any]) -> Record:
        """Parses a message to its steps, each an answer and its results."""
        parts = list_blocks(value, "parts")
        if not parts:  # version 3 of the SDK had a text, and the calls beside it
            calls = list_blocks(value, "toolInvocations")
            parts = [{"type": "tool-invocation", "toolInvocation": call} for call in calls]
            parts.append({"type": "text", "text": value.get("content") or ""})
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

    def render(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Renders messages, each result inside the part of its call."""
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


def _parse_ui_parts(parts: Sequence[Mapping[str, Any]]) -> list[Part]:
    return parse_blocks([part for part in parts if str(part.get("type")) not in _SILENT_PARTS])


def _get_invocation(part: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Returns the fields of a call, None for a part that is none."""
    kind = str(part.get("type"))
    if kind == "tool-invocation" and isinstance(part.get("toolInvocation"), dict):
        return get_object(part, "toolInvocation")
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


def _render_ui_parts(message: Message) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, ToolCall):
            state = {"state": "input-available", "input": render_arguments(part)}
            out.append({"type": f"tool-{part.name}", "toolCallId": part.id, **state})
        else:
            out += _render_vercel_text(part)
    return out


def _render_vercel_text(part: Part) -> list[dict[str, Any]]:
    """Renders a text or a thought that is not empty, as both kinds of messages have it. Nothing for any other part."""
    if isinstance(part, Thinking) and part.text:
        return [{"type": "reasoning", "text": part.text}]
    return [{"type": "text", "text": part.text}] if isinstance(part, Text) else []


# -- Vercel AI SDK: what its calls take (ModelMessage) -----------------------------------------------------------------


class VercelModel(RecordFormat):
    """Reads and writes lists of ModelMessages."""

    name = "vercel-model"
    opaque_kinds = ("image", "file", "reasoning-file", "source", "tool-approval-*")
    paths = VercelUi.paths

    def parse(self, value: dict[str, Any]) -> Record:
        """Parses a message."""
        role, content, blocks = value.get("role"), value.get("content"), list_blocks(value)
        results = [_parse_model_result(block) for block in blocks if block.get("type") == "tool-result"]
        if role == "tool":
            return Record(results, kind="tool-approval")
        if role == "assistant":
            kept = [b for b in blocks if b.get("type") != "tool-result"] if blocks else content
            return Record([make_answer(parse_blocks(kept, _parse_model_call)), *results])
        return Record([make_prompt(str(role), parse_blocks(content))])

    def render(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Renders messages."""
        out: list[dict[str, Any]] = []
        for message in messages:
            result = get_tool_result(message)
            if result is not None:
                kind = "error-text" if result.is_error else "text"
                ids = {"toolCallId": result.call_id, "toolName": result.name}
                block = {"type": "tool-result", **ids, "output": {"type": kind, "value": get_text(message)}}
                out.append({"role": "tool", "content": [block]})
            elif message.role == "assistant":
                content = [block for part in message.parts for block in _render_model_part(part)]
                out.append({"role": "assistant", "content": content})
            else:
                out.append({"role": message.role, "content": "\n".join(list_texts(message))})
        return out


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


def _render_model_part(part: Part) -> list[dict[str, Any]]:
    if isinstance(part, ToolCall):
        ids = {"toolCallId": part.id, "toolName": part.name}
        return [{"type": "tool-call", **ids, "input": render_arguments(part)}]
    return _render_vercel_text(part)
