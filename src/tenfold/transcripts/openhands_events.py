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
from tenfold.log.base import SessionInfo
from tenfold.record.entry import Said, Usage
from tenfold.record.message import Message, Native, Text, ToolCall, ToolResult, calls_of, result_of, text_of
from tenfold.transcripts.arrays import Array, Slot, array, array_of
from tenfold.transcripts.base import Item, Recorded
from tenfold.transcripts.draft import Draft, micros, tokens
from tenfold.transcripts.lines import SKIP, lines
from tenfold.transcripts.peek import peek
from tenfold.transcripts.pieces import Piece, joined_array, pieces, rendered
from tenfold.transcripts.spans import document, value_at

FORMAT = "openhands-events"
_WORDS = ("message", "finish", "reject", "system")
_SILENT = ("null", "change_agent_state", "condensation", "recall", "pause", "resume", "condensation_request")


def _event(value: object) -> bool:
    return isinstance(value, dict) and "source" in value and ("action" in value or "observation" in value)


class OpenHandsEvents:
    """Reads and writes evaluation outputs (one instance per line) and single event lists."""

    name = FORMAT

    def sniff(self, head: bytes, name: str) -> bool:  # noqa: ARG002 - the content tells
        """Looks for a `history` of events, or for a list of events."""
        shape = peek(head)
        history = shape.lines[0].get("history") if shape.lines else None
        if isinstance(history, list) and history and _event(history[0]):
            return True
        return bool(shape.items) and all(map(_event, shape.items))

    def read(self, data: bytes, *, file: str, skip_damaged: bool) -> list[Recorded]:
        """Parses one session for each instance."""
        if data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
            text, top = document(data, file)
            return [_session(array(text, top.start), {}, SessionInfo("", file=file), ())]
        out: list[Recorded] = []
        before, parsed, after = lines(data, file=file, skip_damaged=True)
        problems: list[str] = []
        gap = before
        is_document = len(parsed) > 1 and all(line.problem for line in parsed)
        if is_document:
            text, top = document(data, file)
            return [
                _session(
                    array(text, array_of(text, top, "history", file).start), top.value, SessionInfo("", file=file), ()
                )
            ]
        for line in parsed:
            if line.problem and not skip_damaged:
                raise DamagedLine(f"{file}: {line.problem}; {SKIP}", line=line.number)
            if line.problem:
                problems.append(line.problem)
                gap += line.lead + line.raw
                continue
            history = array_of(line.text, value_at(line.text, 0), "history", f"{file}, line {line.number}")
            info = SessionInfo("", file=file, lead=gap + line.lead, closing=b"\n")
            out.append(_session(array(line.text, history.start), line.value, info, tuple(problems)))
            gap, problems = b"", []
        if out:
            last = out[-1]
            out[-1] = replace(last, info=replace(last.info, trail=gap + after), problems=(*last.problems, *problems))
        return out

    def body(self, info: SessionInfo, items: Sequence[Item]) -> bytes:
        """Renders the instance's object."""
        output = rendered(pieces(items, (FORMAT,)), lambda piece, _: _render(piece))
        return joined_array(info.before, output, info.after)

    def write(self, info: SessionInfo, items: Sequence[Item]) -> bytes:
        """Renders a file with this one instance."""
        if info.format != FORMAT:
            start = json.dumps({"instance_id": info.id or "tenfold", "history": []}, ensure_ascii=False)
            info = SessionInfo(info.id, before=start[:-2].encode(), after=b"]}", closing=b"\n")
        return info.opening + self.body(info, items) + info.closing


def _session(found: Array, top: dict[str, Any], info: SessionInfo, problems: tuple[str, ...]) -> Recorded:
    draft = Draft()
    draft.problems.extend(problems)
    events = [slot.fields(info.file) for slot in found.slots]
    _check(events, info.file)
    caused = {event.get("cause") for event in events if "observation" in event}
    actions: dict[object, str] = {}
    for slot, event in zip(found.slots, events, strict=True):
        draft.line = slot.number
        if not _event(event):
            draft.custom("unknown", slot.native(FORMAT), at=draft.last, source=_source(event))
        elif "observation" in event:
            _observed(draft, slot, event, actions)
        else:
            _acted(draft, slot, event, actions, caused)
    instance = str(top.get("instance_id") or top.get("id") or "")
    return draft.recorded(
        replace(
            info,
            id=instance,
            source=instance,
            title=instance,
            format=FORMAT,
            model=_model(top),
            before=found.before,
            after=found.after,
        )
    )


def _check(events: Sequence[dict[str, Any]], file: str) -> None:
    numbers: dict[object, int] = {}
    for number, event in enumerate(events):
        event_id = event.get("id")
        if event_id is not None and event_id in numbers:
            raise BadInput(
                f"{file}: event {number}: the id {event_id!r} was already used by event {numbers[event_id]}; "
                "remove one of the two and read the file again"
            )
        numbers[event_id] = number


def _model(top: dict[str, Any]) -> str:
    match top.get("metadata"):
        case {"llm_config": {"model": str(model)}}:
            return model
    return ""


def _source(event: dict[str, Any]) -> str:
    return str(event["id"]) if event.get("id") is not None else ""


def _acted(draft: Draft, slot: Slot, event: dict[str, Any], actions: dict[object, str], caused: set[object]) -> None:
    args = event.get("args")
    args = args if isinstance(args, dict) else {}
    action, native = str(event.get("action") or "unknown"), slot.native(FORMAT)
    source, time, is_user = _source(event), micros(event.get("timestamp")), event.get("source") == "user"
    text = Text(str(args.get("content") or event.get("message") or ""))
    if action == "system":
        message = Message("system", (text,), "harness", native=native)
        draft.said([message], at=draft.last, source=source, time=time)
    elif action in _SILENT or (is_user and action not in _WORDS):
        draft.custom(f"action:{action}", native, at=draft.last, source=source, time=time)
    elif is_user:
        draft.said([Message("user", (text,), "human", native=native)], at=draft.last, source=source, time=time)
    elif action in _WORDS and event.get("id") not in caused:
        thought = args.get("final_thought") or args.get("content") or args.get("thought") or event.get("message") or ""
        message = Message("assistant", (Text(str(thought)),) if thought else (), "model", native=native)
        draft.said([message], at=draft.last, source=source, time=time, usage=_usage(event))
    else:
        _called(draft, event, args, native, actions)


def _called(
    draft: Draft, event: dict[str, Any], args: dict[str, Any], native: Native, actions: dict[object, str]
) -> None:
    call = _call(event, args)
    actions[event.get("id")] = actions[call.id] = call.id
    thought = str(args.get("thought") or "") if event.get("action") != "think" else ""
    parts = (Text(thought), call) if thought.strip() else (call,)
    message = Message("assistant", parts, "model", native=native)
    before = draft.entries[-1] if draft.entries else None
    if isinstance(before, Said) and _same_answer(before, native):
        draft.join(message, source=_source(event), usage=_usage(event))
        return
    draft.said(
        [message], at=draft.last, source=_source(event), time=micros(event.get("timestamp")), usage=_usage(event)
    )


def _same_answer(before: Said, native: Native) -> bool:
    """Returns whether two consecutive actions come from one model response that called several tools."""
    old = before.message.native
    if before.message.role != "assistant" or old is None or not calls_of(before.message):
        return False
    return (response := _response(native.body)) != "" and response == _response(b"[" + old.body + b"]")


def _response(raw: bytes) -> str:
    value = json.loads(raw)
    match value[-1] if isinstance(value, list) else value:
        case {"tool_call_metadata": {"model_response": {"id": str(response)}}}:
            return response
    return ""


def _call(event: dict[str, Any], args: dict[str, Any]) -> ToolCall:
    match event.get("tool_call_metadata"):
        case {"tool_call_id": str(call), "function_name": str(name), **rest}:
            return ToolCall(call, name, _raw_arguments(rest.get("model_response"), call) or _own_arguments(args))
    return ToolCall(f"event-{event.get('id', '')}", str(event.get("action")), _own_arguments(args))


def _raw_arguments(response: object, call: str) -> str:
    """Finds the arguments as the model wrote them, in the model response that the event includes."""
    match response:
        case {"choices": [{"message": {"tool_calls": [*calls]}}, *_]}:
            for each in calls:
                match each:
                    case {"id": own, "function": {"arguments": str(arguments)}} if own == call:
                        return arguments
    return ""


def _own_arguments(args: dict[str, Any]) -> str:
    return json.dumps({k: v for k, v in args.items() if k != "thought"}, ensure_ascii=False)


def _observed(draft: Draft, slot: Slot, event: dict[str, Any], actions: dict[object, str]) -> None:
    kind, native = str(event.get("observation") or "unknown"), slot.native(FORMAT)
    source, time = _source(event), micros(event.get("timestamp"))
    call = actions.get(event.get("cause")) or actions.get(_named_call(event))
    if call is None:
        draft.custom(f"observation:{kind}", native, at=draft.last, source=source, time=time)
        return
    content = event.get("content")
    text = (Text(str(content)),) if content else ()
    failed = kind == "error" or event.get("success") is False
    message = Message("tool", (ToolResult(call, content=text, error=failed),), "tool", native=native)
    draft.said([message], at=draft.last, source=source, time=time)


def _named_call(event: dict[str, Any]) -> str | None:
    match event.get("tool_call_metadata"):
        case {"tool_call_id": str(call)}:
            return call
    return None


def _usage(event: dict[str, Any]) -> Usage | None:
    match event.get("llm_metrics"):
        case {"token_usages": [*_, {"prompt_tokens": int(prompt), "completion_tokens": int(output), **rest}]}:
            read, written = tokens(rest.get("cache_read_tokens")), tokens(rest.get("cache_write_tokens"))
            return Usage(prompt, output, read, written, str(rest.get("model") or "")) if prompt > 0 else None
    return None


def _render(piece: Piece) -> bytes:
    message = piece.messages[0]
    event: dict[str, Any] = {"id": piece.source} if piece.source else {}
    result, calls = result_of(message), calls_of(message)
    text = text_of(message)
    if result is not None:
        event |= {
            "source": "agent",
            "cause": _cause(result.call),
            "observation": "tool",
            "content": text,
            "tool_call_metadata": {"tool_call_id": result.call, "function_name": result.name},
            "extras": {},
        }
    elif calls:
        events = [_called_event(c, text if i == 0 else "") for i, c in enumerate(calls)]
        return b",".join(json.dumps(e, ensure_ascii=False).encode("utf-8", "replace") for e in events)
    elif message.role == "system":
        event |= {"source": "agent", "action": "system", "args": {"content": text}}
    else:
        source = "agent" if message.role == "assistant" else "user"
        event |= {"source": source, "message": text, "action": "message", "args": {"content": text}}
    return json.dumps(event, ensure_ascii=False).encode("utf-8", "replace")


def _cause(call: str) -> object:
    number = call.removeprefix("event-")
    return int(number) if number != call and number.isdigit() else call


def _called_event(call: ToolCall, thought: str) -> dict[str, Any]:
    response = {
        "id": f"made-{call.id}",
        "choices": [
            {"message": {"tool_calls": [{"id": call.id, "function": {"name": call.name, "arguments": call.arguments}}]}}
        ],
    }
    return {
        "id": _cause(call.id),
        "source": "agent",
        "action": "tool_call",
        "args": {"thought": thought},
        "tool_call_metadata": {"tool_call_id": call.id, "function_name": call.name, "model_response": response},
    }
