"""OpenHands event streams: a history of actions and observations, one instance per line or one per document.

docs/formats/openhands.md describes the mapping. An agent's action and the observation that names it as `cause` become
a tool call and its result, and messages become text. Everything else is kept as entries without a message.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from tenfold.core.record.entry import MessageEntry, Usage
from tenfold.core.record.message import Message, Text, ToolCall, ToolResult, get_text, get_tool_calls, get_tool_result
from tenfold.formats.content_blocks import dump_json
from tenfold.formats.file_shape import inspect_shape
from tenfold.formats.item_lists import ItemListFormat
from tenfold.formats.json_items import JsonItem, get_object, list_objects, parse_json
from tenfold.formats.json_lines import LineFile
from tenfold.formats.output_pieces import OutputPiece
from tenfold.formats.session_draft import SessionDraft, build_usage
from tenfold.store.base import SessionInfo

FORMAT = "openhands-events"
_MESSAGE_ACTIONS = ("message", "finish", "reject", "system")
_IGNORED_ACTIONS = ("null", "change_agent_state", "condensation", "recall", "pause", "resume", "condensation_request")


def _is_event(value: object) -> bool:
    return isinstance(value, dict) and "source" in value and ("action" in value or "observation" in value)


class OpenHandsEvents(ItemListFormat):
    """Reads and writes evaluation outputs (one instance per line) and single event lists."""

    name = FORMAT
    paths = (("history",),)
    session_keys = ("instance_id", "id")

    def can_read(self, head: bytes, name: str) -> bool:  # noqa: ARG002 - the content tells
        """Looks for a `history` of events, or for a list of events."""
        shape = inspect_shape(head)
        history = shape.lines[0].get("history") if shape.lines else None
        if isinstance(history, list) and history and _is_event(history[0]):
            return True
        return bool(shape.items) and all(map(_is_event, shape.items))

    def read_info(self, top: Mapping[str, Any], file: str) -> SessionInfo:
        """Takes the title from the instance: it names the task, and every run of the task has the same."""
        info = super().read_info(top, file)
        model = get_object(get_object(top, "metadata"), "llm_config").get("model")
        return replace(info, title=info.id, source_id="", model=str(model or ""))

    def add_items(self, draft: SessionDraft, items: Sequence[JsonItem], file: str, source: LineFile | None) -> None:  # noqa: ARG002 - a history is no file
        """Adds events. One that caused an observation is a call, whatever else it says."""
        events = [item.get_object(file) for item in items]
        caused = {_get_key(event, "cause") for event in events if "observation" in event}
        call_ids: dict[object, str] = {}
        for item, event in zip(items, events, strict=True):
            source_id = str(event["id"]) if event.get("id") is not None else ""
            draft.start_item(item.number, source_id=source_id, timestamp=event.get("timestamp"))
            if not _is_event(event):
                draft.add_custom("unknown", item.to_native(FORMAT))
            elif "observation" in event:
                _add_observation(draft, item, call_ids)
            else:
                _add_action(draft, item, call_ids, has_result=_get_key(event, "id") in caused)

    def render_items(self, piece: OutputPiece) -> list[bytes]:
        """Renders a message as an event, or each of its calls as one."""
        return list(map(dump_json, _render_events(piece)))

    def without_damaged(self, info: SessionInfo) -> SessionInfo:
        """Returns the info without the damaged lines between the instances."""
        ends = {name: _drop_lines(getattr(info, name)) for name in ("file_prefix", "file_suffix")}
        return replace(info, **ends)

    def build_info(self, session_id: str) -> SessionInfo:
        """Builds an instance on a line of its own."""
        start = dump_json({"instance_id": session_id or "tenfold", "history": []})
        return SessionInfo(session_id, prefix=start.removesuffix(b"]}"), suffix=b"]}", standalone_suffix=b"\n")


def _drop_lines(gap: bytes) -> bytes:
    """Returns what lies between two instances without the lines that hold something."""
    blank = [line for line in gap.split(b"\n") if not line.strip(b"\xef\xbb\xbf \t\r")]
    return b"\n".join(blank[:2] if b"\n" in gap and len(blank) > 1 else blank[:1])


def _get_key(event: dict[str, Any], key: str) -> str | int | None:
    """Returns the id of an event under a key. None if it is no text or number, as in a damaged file."""
    value = event.get(key)
    return value if isinstance(value, str | int) else None


def _add_action(draft: SessionDraft, item: JsonItem, call_ids: dict[object, str], *, has_result: bool) -> None:
    event, native = item.value, item.to_native(FORMAT)
    args = get_object(event, "args")
    action, is_user = str(event.get("action") or "unknown"), event.get("source") == "user"
    text = Text(str(args.get("content") or event.get("message") or ""))
    if action == "system":
        draft.add_messages([Message("system", (text,), "harness", native=native)])
    elif action in _IGNORED_ACTIONS or (is_user and action not in _MESSAGE_ACTIONS):
        draft.add_custom(f"action:{action}", native)
    elif is_user:
        draft.add_messages([Message("user", (text,), "human", native=native)])
    elif action in _MESSAGE_ACTIONS and not has_result:
        thought = args.get("final_thought") or args.get("content") or args.get("thought") or event.get("message") or ""
        texts = (Text(str(thought)),) if thought else ()
        draft.add_messages([Message("assistant", texts, "model", native=native)], _parse_usage(event))
    else:
        call = _parse_call(event, args)
        call_ids[_get_key(event, "id")] = call_ids[call.id] = call.id
        thought = "" if action == "think" else str(args.get("thought") or "")
        parts = (Text(thought), call) if thought.strip() else (call,)
        _add_call_message(draft, Message("assistant", parts, "model", native=native), _parse_usage(event))


def _add_call_message(draft: SessionDraft, message: Message, usage: Usage | None) -> None:
    newest = draft.newest_entry
    if isinstance(newest, MessageEntry) and _is_same_answer(newest.message, message):
        draft.extend_newest(message, usage)
    else:
        draft.add_messages([message], usage)


def _is_same_answer(previous: Message, message: Message) -> bool:
    """Returns whether two consecutive actions come from one model response that called several tools."""
    response = _get_response_id(message)
    return bool(get_tool_calls(previous)) and response != "" and response == _get_response_id(previous)


def _get_response_id(message: Message) -> str:
    assert message.native is not None
    match parse_json(b"[" + message.native.body + b"]"):
        case [*_, {"tool_call_metadata": {"model_response": {"id": str(response)}}}]:
            return response
    return ""


def _parse_call(event: dict[str, Any], args: dict[str, Any]) -> ToolCall:
    match event.get("tool_call_metadata"):
        case {"tool_call_id": str(call), "function_name": str(name), **rest}:
            return ToolCall(call, name, _find_raw_arguments(rest.get("model_response"), call) or _dump_arguments(args))
    return ToolCall(f"event-{event.get('id', '')}", str(event.get("action")), _dump_arguments(args))


def _find_raw_arguments(response: object, call: str) -> str:
    """Finds the arguments as the model wrote them, in the model response that the event includes."""
    match response:
        case {"choices": [{"message": {"tool_calls": [*calls]}}, *_]}:
            for each in calls:
                match each:
                    case {"id": own, "function": {"arguments": str(arguments)}} if own == call:
                        return arguments
    return ""


def _dump_arguments(args: dict[str, Any]) -> str:
    return json.dumps({k: v for k, v in args.items() if k != "thought"}, ensure_ascii=False)


def _add_observation(draft: SessionDraft, item: JsonItem, call_ids: dict[object, str]) -> None:
    event, native = item.value, item.to_native(FORMAT)
    kind = str(event.get("observation") or "unknown")
    call = call_ids.get(_get_key(event, "cause")) or call_ids.get(_get_call_id(event))
    if call is None:
        draft.add_custom(f"observation:{kind}", native)
        return
    content = event.get("content")
    text = (Text(str(content)),) if content else ()
    failed = kind == "error" or event.get("success") is False
    draft.add_messages([Message("tool", (ToolResult(call, content=text, is_error=failed),), "tool", native=native)])


def _get_call_id(event: dict[str, Any]) -> str | None:
    match event.get("tool_call_metadata"):
        case {"tool_call_id": str(call)}:
            return call
    return None


def _parse_usage(event: dict[str, Any]) -> Usage | None:
    report = (list_objects(get_object(event, "llm_metrics"), "token_usages") or [{}])[-1]
    keys = ("prompt_tokens", "completion_tokens", "cache_read_tokens", "cache_write_tokens")
    return build_usage(report, keys, report.get("model"))


def _render_events(piece: OutputPiece) -> list[dict[str, Any]]:
    message = piece.messages[0]
    event: dict[str, Any] = {"id": piece.source_id} if piece.source_id else {}
    result, calls = get_tool_result(message), get_tool_calls(message)
    text = get_text(message)
    if result is not None:
        event |= {
            "source": "agent",
            "cause": _to_event_id(result.call_id),
            "observation": "tool",
            "content": text,
            "tool_call_metadata": {"tool_call_id": result.call_id, "function_name": result.name},
            "extras": {},
        }
    elif calls:
        return [_build_call_event(c, text if i == 0 else "") for i, c in enumerate(calls)]
    elif message.role == "system":
        event |= {"source": "agent", "action": "system", "args": {"content": text}}
    else:
        source = "agent" if message.role == "assistant" else "user"
        event |= {"source": source, "message": text, "action": "message", "args": {"content": text}}
    return [event]


def _to_event_id(call: str) -> object:
    number = call.removeprefix("event-")
    return int(number) if number != call and number.isdigit() else call


def _build_call_event(call: ToolCall, thought: str) -> dict[str, Any]:
    response = {
        "id": f"made-{call.id}",
        "choices": [
            {"message": {"tool_calls": [{"id": call.id, "function": {"name": call.name, "arguments": call.arguments}}]}}
        ],
    }
    return {
        "id": _to_event_id(call.id),
        "source": "agent",
        "action": "tool_call",
        "args": {"thought": thought},
        "tool_call_metadata": {"tool_call_id": call.id, "function_name": call.name, "model_response": response},
    }
