"""OpenHands event streams: a history of actions and observations, one instance per line or one per document.

docs/formats/openhands.md describes the mapping. An agent's action and the observation that names it as `cause` become
a tool call and its result, and messages become text. Everything else is kept as entries without a message.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from tenfold.errors import BadInput, DamagedLine
from tenfold.formats.base import ExportItem, ParsedSession
from tenfold.formats.file_shape import inspect_shape
from tenfold.formats.json_arrays import ArrayElement, JsonArray, find_array, parse_array
from tenfold.formats.json_lines import SKIP_HINT, parse_lines
from tenfold.formats.json_spans import parse_document, parse_value
from tenfold.formats.output_pieces import OutputPiece, build_pieces, join_array, render_pieces
from tenfold.formats.session_draft import SessionDraft, parse_micros, parse_token_count
from tenfold.record.entry import MessageEntry, Usage
from tenfold.record.message import (
    Message,
    NativeBytes,
    Text,
    ToolCall,
    ToolResult,
    get_text,
    get_tool_calls,
    get_tool_result,
)
from tenfold.store.base import SessionInfo

FORMAT = "openhands-events"
_MESSAGE_ACTIONS = ("message", "finish", "reject", "system")
_IGNORED_ACTIONS = ("null", "change_agent_state", "condensation", "recall", "pause", "resume", "condensation_request")


def _is_event(value: object) -> bool:
    return isinstance(value, dict) and "source" in value and ("action" in value or "observation" in value)


class OpenHandsEvents:
    """Reads and writes evaluation outputs (one instance per line) and single event lists."""

    name = FORMAT

    def can_read(self, head: bytes, name: str) -> bool:  # noqa: ARG002 - the content tells
        """Looks for a `history` of events, or for a list of events."""
        shape = inspect_shape(head)
        history = shape.lines[0].get("history") if shape.lines else None
        if isinstance(history, list) and history and _is_event(history[0]):
            return True
        return bool(shape.items) and all(map(_is_event, shape.items))

    def read(self, data: bytes, *, file: str, skip_damaged: bool) -> list[ParsedSession]:
        """Parses one session for each instance."""
        if data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
            text, top = parse_document(data, file)
            return [_parse_session(parse_array(text, top.start), {}, SessionInfo("", file=file), ())]
        out: list[ParsedSession] = []
        before, parsed, after = parse_lines(data, file=file, skip_damaged=True)
        problems: list[str] = []
        gap = before
        is_document = len(parsed) > 1 and all(line.problem for line in parsed)
        if is_document:
            text, top = parse_document(data, file)
            return [
                _parse_session(
                    parse_array(text, find_array(text, top, "history", file).start),
                    top.value,
                    SessionInfo("", file=file),
                    (),
                )
            ]
        for line in parsed:
            if line.problem and not skip_damaged:
                raise DamagedLine(f"{file}: {line.problem}; {SKIP_HINT}", line=line.number)
            if line.problem:
                problems.append(line.problem)
                gap += line.lead + line.raw
                continue
            history = find_array(line.text, parse_value(line.text, 0), "history", f"{file}, line {line.number}")
            info = SessionInfo("", file=file, file_prefix=gap + line.lead, standalone_suffix=b"\n")
            out.append(_parse_session(parse_array(line.text, history.start), line.value, info, tuple(problems)))
            gap, problems = b"", []
        if out:
            last = out[-1]
            out[-1] = replace(
                last, info=replace(last.info, file_suffix=gap + after), problems=(*last.problems, *problems)
            )
        return out

    def render_body(self, info: SessionInfo, items: Sequence[ExportItem]) -> bytes:
        """Renders the instance's object."""
        output = render_pieces(build_pieces(items, (FORMAT,)), lambda piece, _: _render_event(piece))
        return join_array(info.prefix, output, info.suffix)

    def render_file(self, info: SessionInfo, items: Sequence[ExportItem]) -> bytes:
        """Renders a file with this one instance."""
        if info.format != FORMAT:
            start = json.dumps({"instance_id": info.id or "tenfold", "history": []}, ensure_ascii=False)
            info = SessionInfo(info.id, prefix=start[:-2].encode(), suffix=b"]}", standalone_suffix=b"\n")
        return info.standalone_prefix + self.render_body(info, items) + info.standalone_suffix


def _parse_session(
    history: JsonArray, top: dict[str, Any], info: SessionInfo, problems: tuple[str, ...]
) -> ParsedSession:
    draft = SessionDraft()
    draft.problems.extend(problems)
    events = [slot.get_object(info.file) for slot in history.elements]
    _check_ids(events, info.file)
    caused = {event.get("cause") for event in events if "observation" in event}
    actions: dict[object, str] = {}
    for slot, event in zip(history.elements, events, strict=True):
        draft.line_number = slot.number
        if not _is_event(event):
            draft.add_custom("unknown", slot.to_native(FORMAT), parent_key=draft.last_key, source_id=_get_source(event))
        elif "observation" in event:
            _add_observation(draft, slot, event, actions)
        else:
            _add_action(draft, slot, event, actions, caused)
    instance = str(top.get("instance_id") or top.get("id") or "")
    return draft.build_session(
        replace(
            info,
            id=instance,
            source_id=instance,
            title=instance,
            format=FORMAT,
            model=_get_model(top),
            prefix=history.before,
            suffix=history.after,
        )
    )


def _check_ids(events: Sequence[dict[str, Any]], file: str) -> None:
    numbers: dict[object, int] = {}
    for number, event in enumerate(events):
        event_id = event.get("id")
        if event_id is not None and event_id in numbers:
            raise BadInput(
                f"{file}: event {number}: the id {event_id!r} was already used by event {numbers[event_id]}; "
                "remove one of the two and read the file again"
            )
        numbers[event_id] = number


def _get_model(top: dict[str, Any]) -> str:
    match top.get("metadata"):
        case {"llm_config": {"model": str(model)}}:
            return model
    return ""


def _get_source(event: dict[str, Any]) -> str:
    return str(event["id"]) if event.get("id") is not None else ""


def _add_action(
    draft: SessionDraft,
    element: ArrayElement,
    event: dict[str, Any],
    call_ids: dict[object, str],
    observed_ids: set[object],
) -> None:
    args = event.get("args")
    args = args if isinstance(args, dict) else {}
    action, native = str(event.get("action") or "unknown"), element.to_native(FORMAT)
    source, time, is_user = _get_source(event), parse_micros(event.get("timestamp")), event.get("source") == "user"
    text = Text(str(args.get("content") or event.get("message") or ""))
    if action == "system":
        message = Message("system", (text,), "harness", native=native)
        draft.add_messages([message], parent_key=draft.last_key, source_id=source, time=time)
    elif action in _IGNORED_ACTIONS or (is_user and action not in _MESSAGE_ACTIONS):
        draft.add_custom(f"action:{action}", native, parent_key=draft.last_key, source_id=source, time=time)
    elif is_user:
        draft.add_messages(
            [Message("user", (text,), "human", native=native)], parent_key=draft.last_key, source_id=source, time=time
        )
    elif action in _MESSAGE_ACTIONS and event.get("id") not in observed_ids:
        thought = args.get("final_thought") or args.get("content") or args.get("thought") or event.get("message") or ""
        message = Message("assistant", (Text(str(thought)),) if thought else (), "model", native=native)
        draft.add_messages([message], parent_key=draft.last_key, source_id=source, time=time, usage=_parse_usage(event))
    else:
        _add_tool_call(draft, event, args, native, call_ids)


def _add_tool_call(
    draft: SessionDraft, event: dict[str, Any], args: dict[str, Any], native: NativeBytes, call_ids: dict[object, str]
) -> None:
    call = _parse_call(event, args)
    call_ids[event.get("id")] = call_ids[call.id] = call.id
    thought = str(args.get("thought") or "") if event.get("action") != "think" else ""
    parts = (Text(thought), call) if thought.strip() else (call,)
    message = Message("assistant", parts, "model", native=native)
    before = draft.entries[-1] if draft.entries else None
    if isinstance(before, MessageEntry) and _is_same_answer(before, native):
        draft.extend_last(message, source_id=_get_source(event), usage=_parse_usage(event))
        return
    draft.add_messages(
        [message],
        parent_key=draft.last_key,
        source_id=_get_source(event),
        time=parse_micros(event.get("timestamp")),
        usage=_parse_usage(event),
    )


def _is_same_answer(previous: MessageEntry, native: NativeBytes) -> bool:
    """Returns whether two consecutive actions come from one model response that called several tools."""
    old = previous.message.native
    if previous.message.role != "assistant" or old is None or not get_tool_calls(previous.message):
        return False
    return (response := _get_response_id(native.body)) != "" and response == _get_response_id(b"[" + old.body + b"]")


def _get_response_id(raw: bytes) -> str:
    value = json.loads(raw)
    match value[-1] if isinstance(value, list) else value:
        case {"tool_call_metadata": {"model_response": {"id": str(response)}}}:
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


def _add_observation(
    draft: SessionDraft, element: ArrayElement, event: dict[str, Any], call_ids: dict[object, str]
) -> None:
    kind, native = str(event.get("observation") or "unknown"), element.to_native(FORMAT)
    source, time = _get_source(event), parse_micros(event.get("timestamp"))
    call = call_ids.get(event.get("cause")) or call_ids.get(_get_call_id(event))
    if call is None:
        draft.add_custom(f"observation:{kind}", native, parent_key=draft.last_key, source_id=source, time=time)
        return
    content = event.get("content")
    text = (Text(str(content)),) if content else ()
    failed = kind == "error" or event.get("success") is False
    message = Message("tool", (ToolResult(call, content=text, is_error=failed),), "tool", native=native)
    draft.add_messages([message], parent_key=draft.last_key, source_id=source, time=time)


def _get_call_id(event: dict[str, Any]) -> str | None:
    match event.get("tool_call_metadata"):
        case {"tool_call_id": str(call)}:
            return call
    return None


def _parse_usage(event: dict[str, Any]) -> Usage | None:
    match event.get("llm_metrics"):
        case {"token_usages": [*_, {"prompt_tokens": int(prompt), "completion_tokens": int(output), **rest}]}:
            read, written = (
                parse_token_count(rest.get("cache_read_tokens")),
                parse_token_count(rest.get("cache_write_tokens")),
            )
            return Usage(prompt, output, read, written, str(rest.get("model") or "")) if prompt > 0 else None
    return None


def _render_event(piece: OutputPiece) -> bytes:
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
        events = [_build_call_event(c, text if i == 0 else "") for i, c in enumerate(calls)]
        return b",".join(json.dumps(e, ensure_ascii=False).encode("utf-8", "replace") for e in events)
    elif message.role == "system":
        event |= {"source": "agent", "action": "system", "args": {"content": text}}
    else:
        source = "agent" if message.role == "assistant" else "user"
        event |= {"source": source, "message": text, "action": "message", "args": {"content": text}}
    return json.dumps(event, ensure_ascii=False).encode("utf-8", "replace")


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
