"""Coding agents whose files are lists of records: Copilot CLI, goose, Kimi, and what others print while they run.

docs/formats/agents.md describes the mapping. The streams hold what the agent did, and often not what it was asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tenfold.core.record.message import Message, Part, Text, Thinking, get_text, get_tool_calls, get_tool_result
from tenfold.core.wire.foreign_shapes import has_shape
from tenfold.errors import UnknownRole
from tenfold.formats.base import ExportItem
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
from tenfold.formats.json_items import JsonItem, get_object, list_objects
from tenfold.formats.json_lines import LineFile
from tenfold.formats.output_pieces import drop_compactions
from tenfold.formats.session_draft import SessionDraft, build_usage
from tenfold.store.base import SessionInfo

# -- claude --output-format stream-json --------------------------------------------------------------------------------


class ClaudeStream(RecordFormat):
    """Reads and writes the lines of `claude --output-format stream-json`."""

    name = "claude-stream"
    part_wires = ("anthropic",)
    session_keys = ("session_id",)
    id_key = "uuid"
    frame = (b"", b"\n")

    def is_item(self, value: dict[str, Any]) -> bool:
        """Looks for the line that begins a stream, or one with a message."""
        if value.get("type") == "system":
            return value.get("subtype") == "init" and "session_id" in value
        return "parent_tool_use_id" in value and value.get("type") in ("user", "assistant")

    def get_thread(self, value: Mapping[str, Any]) -> str:
        """Returns the call that an agent of the agent's works for."""
        return str(value.get("parent_tool_use_id") or "")

    def get_answer_id(self, value: Mapping[str, Any]) -> str:
        """Returns the id of the message, of which each block has a line."""
        return str(get_object(value, "message").get("id") or "")

    def parse(self, value: dict[str, Any]) -> Record:
        """Parses a line to its message."""
        message, kind = get_object(value, "message"), str(value.get("type"))
        if not message:
            return Record(kind=f"{kind}/{value['subtype']}" if "subtype" in value else kind)
        role, content = message.get("role"), message.get("content")
        blocks = list_objects(message, "content")
        if isinstance(content, str):
            blocks = [{"type": "text", "text": content}]
        keys = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        usage = build_usage(message.get("usage"), keys, message.get("model"), is_fresh=True)
        messages = make_turn(role, blocks, _parse_claude_call, _parse_claude_result)
        return Record(messages, usage if role == "assistant" else None)

    def render(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Renders messages as lines."""
        out = []
        for message in messages:
            result = get_tool_result(message)
            blocks: list[dict[str, Any]] = [{"type": "text", "text": text} for text in list_texts(message)]
            blocks += [
                {"type": "tool_use", "id": call.id, "name": call.name, "input": render_arguments(call)}
                for call in get_tool_calls(message)
            ]
            if result is not None:
                block = {"type": "tool_result", "tool_use_id": result.call_id, "content": get_text(message)}
                blocks = [block | {"is_error": True} if result.is_error else block]
            role = "assistant" if message.role == "assistant" else "user"
            out.append({"type": role, "message": {"role": role, "content": blocks}, "parent_tool_use_id": None})
        return out


def _parse_claude_call(block: Mapping[str, Any]) -> Part | None:
    if block.get("type") not in ("tool_use", "server_tool_use", "mcp_tool_use"):
        return None
    return parse_call(block.get("id"), block.get("name"), block.get("input"))


def _parse_claude_result(block: Mapping[str, Any]) -> Message | None:
    if block.get("type") != "tool_result":
        return None
    is_error = block.get("is_error") is True
    return make_result(block.get("tool_use_id"), "", block.get("content"), is_error=is_error)


# -- codex exec --json -------------------------------------------------------------------------------------------------


class CodexStream(RecordFormat):
    """Reads and writes the lines of `codex exec --json`."""

    name = "codex-stream"
    session_keys = ("thread_id",)
    id_key = ""
    has_results = True
    frame = (b"", b"\n")

    def is_item(self, value: dict[str, Any]) -> bool:
        """Looks for the line that begins a stream, or one with an item."""
        return value.get("type") == "thread.started" or str(value.get("type")).startswith("item.")

    def parse(self, value: dict[str, Any]) -> Record:
        """Parses an item to a message, or to a call and its result."""
        item = get_object(value, "item")
        if value.get("type") != "item.completed" or not item:
            return Record(kind=str(value.get("type")))
        match item.get("type", item.get("item_type")):
            case "agent_message" | "assistant_message":
                return Record([make_answer(parse_blocks(item.get("text")))])
            case "reasoning":
                return Record([make_answer([Thinking(str(item.get("text") or ""))])])
            case "user_message":
                return Record([make_prompt("user", parse_blocks(item.get("text")))])
            case "command_execution":
                is_error = item.get("exit_code") not in (0, None) or item.get("status") == "failed"
                output = item.get("aggregated_output")
                return _make_step(item, "shell", {"command": item.get("command")}, output, is_error=is_error)
            case "file_change":
                output, is_error = item.get("status"), item.get("status") == "failed"
                return _make_step(item, "apply_patch", {"changes": item.get("changes")}, output, is_error=is_error)
            case "mcp_tool_call":
                name = "__".join(filter(None, (str(item.get("server") or ""), str(item.get("tool") or ""))))
                is_error = bool(item.get("error"))
                return _make_step(item, name, item.get("arguments"), _read_output(item), is_error=is_error)
            case "web_search":
                return _make_step(item, "web_search", {"query": item.get("query")}, item.get("action"))
            case "todo_list":
                return _make_step(item, "update_plan", {"plan": item.get("items")}, "")
            case str(kind):
                return Record([_parse_other_item(item, kind)])
            case kind:
                raise UnknownRole(str(kind))

    def render(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Renders messages as items. A call, whatever tool it was, is one of an MCP server."""
        results = {r.call_id: (r, get_text(m)) for m in messages if (r := get_tool_result(m)) is not None}
        items: list[dict[str, Any]] = []
        for message in messages:
            text, calls = "\n".join(list_texts(message)), get_tool_calls(message)
            if get_tool_result(message) is None and (text or not calls):
                items.append({"type": "agent_message" if message.role == "assistant" else "user_message", "text": text})
            for call in calls:
                found = results.pop(call.id, None)
                items.append(_render_codex_call(call.id, call.name, render_arguments(call), found[1] if found else ""))
                items[-1] |= {"error": {"message": found[1]}} if found and found[0].is_error else {}
        items += [_render_codex_call(r.call_id, r.name, {}, text) for r, text in results.values()]
        return [{"type": "item.completed", "item": item} for item in items]


def _parse_other_item(item: Mapping[str, Any], kind: str) -> Message:
    about = {key: each for key, each in item.items() if key not in ("id", "type", "text", "message")}
    said = item.get("text") or item.get("message")
    text = said if isinstance(said, str) and said else dump_json(about).decode()
    return Message("user", (Text(text),), "harness" if kind == "error" else "tool")


def _read_output(item: Mapping[str, Any]) -> object:
    error, result = get_object(item, "error"), get_object(item, "result")
    return error.get("message") or result.get("content") or item.get("result")


def _make_step(
    item: Mapping[str, Any], name: str, arguments: object, output: object, *, is_error: bool = False
) -> Record:
    call = parse_call(item.get("id"), name, arguments)
    return Record([make_answer([call]), make_result(call.id, name, output, is_error=is_error)])


def _render_codex_call(call_id: str, name: str, arguments: object, text: str) -> dict[str, Any]:
    result = {"content": [{"type": "text", "text": text}]}
    return {"id": call_id, "type": "mcp_tool_call", "tool": name, "arguments": arguments, "result": result}


# -- gemini --output-format stream-json --------------------------------------------------------------------------------


class GeminiCliStream(RecordFormat):
    """Reads and writes the lines of `gemini --output-format stream-json`. An answer comes in pieces, its calls too."""

    name = "gemini-stream"
    session_keys = ("session_id",)
    id_key = ""
    frame = (b"", b"\n")

    def is_item(self, value: dict[str, Any]) -> bool:
        """Looks for the line that begins a stream, or one with a call or its result."""
        kind = value.get("type")
        return (kind == "init" and "session_id" in value) or (
            kind in ("tool_use", "tool_result") and "tool_id" in value
        )

    def add_items(self, draft: SessionDraft, items: Sequence[JsonItem], file: str, source: LineFile | None) -> None:
        """Adds the messages. Pieces of an answer that follow each other are one item, joined at once: they are many."""
        joined: list[JsonItem] = []
        for is_piece, group in groupby(items, lambda item: _is_gemini_piece(item.get_object(file))):
            if not is_piece:
                joined += group
                continue
            first, *rest = group
            raw = first.raw + b"".join(item.lead + item.raw for item in rest)
            pieces = [item.value for item in (first, *rest)]
            joined.append(replace(first, raw=raw, value=first.value | {"type": "answer", "pieces": pieces}))
        super().add_items(draft, joined, file, source)

    def parse(self, value: dict[str, Any]) -> Record:
        """Parses an answer, a message or a result."""
        kind, error = value.get("type"), get_object(value, "error")
        if kind == "answer":
            return Record([make_answer(_join_gemini_pieces(list_objects(value, "pieces")))])
        if kind == "tool_result":
            output, is_error = value.get("output") or error.get("message"), value.get("status") == "error"
            return Record([make_result(value.get("tool_id"), "", output, is_error=is_error)])
        if kind == "error":
            return Record([Message("user", (Text(str(value.get("message") or "")),), "harness")])
        if kind != "message":
            return Record(kind=str(kind))
        return Record([make_prompt(str(value.get("role")), parse_blocks(value.get("content")))])

    def render(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Renders messages as lines."""
        out: list[dict[str, Any]] = []
        for message in messages:
            result = get_tool_result(message)
            if result is not None:
                status = "error" if result.is_error else "success"
                out.append(
                    {"type": "tool_result", "tool_id": result.call_id, "status": status, "output": get_text(message)}
                )
                continue
            out += [{"type": "message", "role": message.role, "content": text} for text in list_texts(message)]
            out += [
                {"type": "tool_use", "tool_name": call.name, "tool_id": call.id, "parameters": render_arguments(call)}
                for call in get_tool_calls(message)
            ]
        return out


def _is_gemini_piece(value: Mapping[str, Any]) -> bool:
    kind = value.get("type")
    return kind == "tool_use" or (kind == "message" and value.get("role") == "assistant")


def _join_gemini_pieces(pieces: Sequence[Mapping[str, Any]]) -> list[Part]:
    """Parses pieces of an answer: texts that follow each other are one text, as the model wrote it bit by bit."""
    parts: list[Part] = []
    for is_call, group in groupby(pieces, lambda piece: piece.get("type") == "tool_use"):
        if is_call:
            parts += [parse_call(each.get("tool_id"), each.get("tool_name"), each.get("parameters")) for each in group]
            continue
        contents = [each.get("content") for each in group]
        texts = [content for content in contents if isinstance(content, str)]
        parts += parse_blocks("".join(texts))
        parts += [part for content in contents if not isinstance(content, str) for part in parse_blocks(content)]
    return parts


# -- GitHub Copilot CLI -----------------------------------------------------------------------------------------------


class CopilotCli(RecordFormat):
    """Reads and writes `events.jsonl` of GitHub's Copilot CLI. Each helper that it calls is a session of its own."""

    name = "copilot-cli"
    session_keys = ("sessionId",)
    parent_key = "parentId"
    frame = (b"", b"\n")

    def is_item(self, value: dict[str, Any]) -> bool:
        """Looks for the line that begins a session, or one with a message."""
        data = get_object(value, "data")
        kind = value.get("type")
        return "parentId" in value and ("copilotVersion" in data or (kind in _COPILOT_MESSAGES and "content" in data))

    def get_thread(self, value: Mapping[str, Any]) -> str:
        """Returns the helper that a line is of."""
        return str(value.get("agentId") or get_object(value, "data").get("parentToolCallId") or "")

    def read_info(self, top: Mapping[str, Any], file: str) -> SessionInfo:
        """Takes the session's id from the folder."""
        path = Path(file)
        own = path.parent.name if path.name == "events.jsonl" else ""
        return replace(super().read_info(top, file), id=own, source_id=own)

    def add_items(self, draft: SessionDraft, items: Sequence[JsonItem], file: str, source: LineFile | None) -> None:
        """Adds the messages. What a request used stands on a line before its answer."""
        usage: object = None
        marked: list[JsonItem] = []
        for item in items:
            kind, data = item.get_object(file).get("type"), get_object(item.value, "data")
            if kind == "session.usage_record":
                usage = data.get("usage")
            if kind == "assistant.message" and usage is not None:
                item, usage = replace(item, value=item.value | {"usage": usage}), None  # noqa: PLW2901
            marked.append(item)
        super().add_items(draft, marked, file, source)

    def render_body(self, info: SessionInfo, items: Sequence[ExportItem]) -> bytes:
        """Renders the lines. Its own compactions are left out where a summary or stub is shown: it would go by them."""
        return super().render_body(info, drop_compactions(items, ("compaction",)))

    def parse(self, value: dict[str, Any]) -> Record:
        """Parses a line to what the user said, an answer, or a result."""
        kind, data = str(value.get("type")), get_object(value, "data")
        match kind:
            case "user.message":
                prompt = make_prompt("user", parse_blocks(data.get("content")))
                is_typed = data.get("source") in (None, "", "user")
                return Record([prompt if is_typed else replace(prompt, origin="harness")])
            case "assistant.message":
                thought, calls = data.get("reasoningText"), list_objects(data, "toolRequests")
                parts: list[Part] = [Thinking(thought)] if isinstance(thought, str) and thought else []
                parts += parse_blocks(data.get("content"))
                parts += [parse_call(c.get("toolCallId"), c.get("name"), c.get("arguments")) for c in calls]
                keys = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
                usage = build_usage(value.get("usage"), keys, get_object(value, "usage").get("model"))
                return Record([make_answer(parts)], usage)
            case "tool.execution_complete":
                result, error = get_object(data, "result"), get_object(data, "error")
                output = result.get("content") or error.get("message")
                return Record([make_result(data.get("toolCallId"), "", output, is_error=data.get("success") is False)])
            case "session.compaction_complete" if data.get("success") is True:
                return Record(kind="compaction")
        return Record(kind=kind)

    def render(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Renders messages as lines."""
        out: list[dict[str, Any]] = []
        for message in messages:
            result, text = get_tool_result(message), "\n".join(list_texts(message))
            if result is not None:
                said = {"content": get_text(message)}
                data: dict[str, Any] = {"toolCallId": result.call_id, "success": not result.is_error, "result": said}
                out.append({"type": "tool.execution_complete", "data": data})
            elif message.role == "assistant":
                calls = [
                    {"toolCallId": call.id, "name": call.name, "arguments": render_arguments(call), "type": "function"}
                    for call in get_tool_calls(message)
                ]
                out.append(
                    {"type": "assistant.message", "data": {"messageId": "", "content": text, "toolRequests": calls}}
                )
            else:
                out.append({"type": "user.message", "data": {"content": text}})
        return [line | {"timestamp": _NO_TIME} for line in out]


_COPILOT_MESSAGES = ("user.message", "assistant.message")
_NO_TIME = "1970-01-01T00:00:00.000Z"
"""Copilot CLI loads no line without a time."""


# -- Continue ----------------------------------------------------------------------------------------------------------


class Continue(RecordFormat):
    """Reads and writes the sessions of Continue: objects with a `history`, in which an answer has its results."""

    name = "continue"
    paths = (("history",),)
    session_keys = ("sessionId",)
    id_key = ""
    has_results = True
    frame = (b'{"sessionId": "", "title": "", "history": [', b"]}\n")

    def is_item(self, value: dict[str, Any]) -> bool:
        """Looks for a message beside what Continue adds to it."""
        return "role" in get_object(value, "message") and isinstance(value.get("contextItems"), list)

    def parse(self, value: dict[str, Any]) -> Record:
        """Parses a message: what was attached to it stands before it, and the results of its calls behind it."""
        message = get_object(value, "message")
        parts = parse_blocks(message.get("content"))
        match message.get("role"):
            case "assistant":
                calls = [(call.get("id"), get_object(call, "function")) for call in list_objects(message, "toolCalls")]
                made = [parse_call(id_, function.get("name"), function.get("arguments")) for id_, function in calls]
                results = [_parse_tool_state(each) for each in list_objects(value, "toolCallStates")]
                keys = ("prompt_tokens", "completion_tokens", "", "")
                usage = build_usage(message.get("usage"), keys, get_object(message, "usage").get("model"))
                return Record([make_answer([*parts, *made]), *filter(None, results)], usage)
            case "thinking":
                return Record(
                    [make_answer([Thinking(get_text(make_answer(parts)), str(message.get("signature") or ""))])]
                )
            case "tool":
                return Record([make_result(message.get("toolCallId"), "", message.get("content"))])
            case role:
                attached = [str(each.get("content") or "") for each in list_objects(value, "contextItems")]
                shown = [Message("user", (Text(text),), "harness") for text in attached if text]
                return Record([*shown, make_prompt(str(role), parts)])

    def render(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Renders messages as items, each result with the answer before it."""
        out: list[dict[str, Any]] = []
        for message in messages:
            result = get_tool_result(message)
            if result is not None and out and "toolCalls" in out[-1]["message"]:
                states = out[-1].setdefault("toolCallStates", [])
                output = [{"name": "", "description": "", "content": get_text(message)}]
                status = "errored" if result.is_error else "done"
                states.append({"toolCallId": result.call_id, "status": status, "output": output})
                continue
            text = get_text(message) if result is not None else "\n".join(list_texts(message))
            said: dict[str, Any] = {"role": message.role, "content": text}
            if result is not None:
                said["toolCallId"] = result.call_id
            if calls := get_tool_calls(message):
                functions = [{"name": c.name, "arguments": dump_json(render_arguments(c)).decode()} for c in calls]
                said["toolCalls"] = [
                    {"id": call.id, "type": "function", "function": function}
                    for call, function in zip(calls, functions, strict=True)
                ]
            out.append({"message": said, "contextItems": []})
        return out


def _parse_tool_state(state: Mapping[str, Any]) -> Message | None:
    """Parses what became of a call, None while nothing has."""
    output = state.get("output")
    if not isinstance(output, list):
        return None
    texts = [str(each.get("content") or "") for each in list_objects(state, "output")]
    name = get_object(get_object(state, "toolCall"), "function").get("name")
    return make_result(state.get("toolCallId"), name, texts, is_error=state.get("status") in ("errored", "canceled"))


# -- goose -------------------------------------------------------------------------------------------------------------


class Goose(RecordFormat):
    """Reads and writes sessions of goose: lines with or without a header, and what `goose session export` writes."""

    name = "goose"
    opaque_kinds = (
        "toolConfirmationRequest", "actionRequired", "systemNotification", "conversationCompacted",
        "contextLengthExceeded", "summarizationRequested", "image", "redactedThinking",
    )  # fmt: skip
    paths = (("conversation",), ("messages",))
    frame = (b"", b"\n")

    def is_item(self, value: dict[str, Any]) -> bool:
        """Looks for a header, or for a message of goose's shape."""
        is_header = "working_dir" in value and "message_count" in value and "conversation" not in value
        return is_header or has_shape(value, self.name)

    def parse(self, value: dict[str, Any]) -> Record:
        """Parses a message."""
        if "role" not in value:
            return Record(kind="header")
        role = value["role"]
        if role not in ("user", "assistant"):
            raise UnknownRole(str(role))
        messages = make_turn(role, list_objects(value, "content"), _parse_goose_call, _parse_goose_result)
        if get_object(value, "metadata").get("userVisible") is False:  # goose wrote it, for instance a summary
            messages = [replace(m, origin="harness") if m.origin == "human" else m for m in messages]
        return Record(messages)

    def render(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Renders messages."""
        out = []
        for message in messages:
            result = get_tool_result(message)
            content: list[dict[str, Any]] = [{"type": "text", "text": text} for text in list_texts(message)]
            for call in get_tool_calls(message):
                made = {"name": call.name, "arguments": render_arguments(call)}
                content.append({"type": "toolRequest", "id": call.id, "toolCall": {"status": "success", "value": made}})
            if result is not None:
                text = get_text(message)
                value = {"status": "success", "value": [{"type": "text", "text": text}]}
                body = {"status": "error", "error": text} if result.is_error else value
                content = [{"type": "toolResponse", "id": result.call_id, "toolResult": body}]
            role = "assistant" if message.role == "assistant" else "user"
            out.append({"role": role, "created": 0, "content": content, "metadata": {}})
        return out


def _parse_goose_call(block: Mapping[str, Any]) -> Part | None:
    if block.get("type") not in ("toolRequest", "frontendToolRequest"):
        return None
    call = get_object(block, "toolCall")
    made = get_object(call, "value") or call
    return parse_call(block.get("id"), made.get("name"), made.get("arguments", made.get("error")))


def _parse_goose_result(block: Mapping[str, Any]) -> Message | None:
    if block.get("type") != "toolResponse":
        return None
    result = get_object(block, "toolResult")
    output = result.get("value", result.get("error"))
    inner = output if isinstance(output, dict) else {}
    is_error = result.get("status") == "error" or inner.get("isError") is True
    content = inner.get("content", output)
    return make_result(block.get("id"), "", _strip_marks(content), is_error=is_error)


def _strip_marks(content: object) -> object:
    """Leaves out what says who should see a text: only the text itself is the output."""
    if not isinstance(content, list):
        return content
    return [
        {"type": b["type"], "text": b["text"]} if isinstance(b, dict) and {"type", "text"} <= b.keys() else b
        for b in content
    ]


# -- Kimi --------------------------------------------------------------------------------------------------------------


class Kimi(RecordFormat):
    """Reads and writes `context.jsonl` of the Kimi CLI: messages of OpenAI Chat between marks of its own."""

    name = "kimi"
    opaque_kinds = ("audio_url", "video_url")
    part_wires = ("openai-chat",)
    paths = ()
    session_keys = ()
    id_key = ""
    frame = (b"", b"\n")
    marks = ("_checkpoint", "_usage")

    def is_item(self, value: dict[str, Any]) -> bool:
        """Looks for a mark or a system prompt."""
        return value.get("role") in (*self.marks, "_system_prompt")

    def parse(self, value: dict[str, Any]) -> Record:
        """Parses a message or a mark."""
        role, content = value.get("role"), value.get("content")
        if role in self.marks:
            return Record(kind=str(role))
        if role == "assistant":
            functions = [(c.get("id"), get_object(c, "function")) for c in list_objects(value, "tool_calls")]
            calls = [parse_call(id_, f.get("name"), f.get("arguments")) for id_, f in functions]
            return Record([make_answer([*parse_blocks(content), *calls])])
        if role == "tool":
            return Record([make_result(value.get("tool_call_id"), value.get("name"), content)])
        prompt = make_prompt("system" if role == "_system_prompt" else str(role), parse_blocks(content))
        text = get_text(prompt).strip()
        is_injected = text.startswith("<system>") and text.endswith("</system>")
        return Record([replace(prompt, origin="harness") if is_injected else prompt])

    def read_info(self, top: Mapping[str, Any], file: str) -> SessionInfo:
        """Takes the session's id from the folder."""
        path = Path(file)
        own = path.parent.name if path.name == "context.jsonl" else ""
        return replace(super().read_info(top, file), id=own, source_id=own)

    def render(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Renders messages as lines."""
        out = []
        for message in messages:
            result, calls = get_tool_result(message), get_tool_calls(message)
            line: dict[str, Any] = {"role": message.role, "content": "\n".join(list_texts(message))}
            if result is not None:
                line |= {"content": get_text(message), "tool_call_id": result.call_id}
            if calls:
                functions = [{"name": c.name, "arguments": dump_json(render_arguments(c)).decode()} for c in calls]
                line["tool_calls"] = [
                    {"type": "function", "id": call.id, "function": function}
                    for call, function in zip(calls, functions, strict=True)
                ]
            out.append(line)
        return out
