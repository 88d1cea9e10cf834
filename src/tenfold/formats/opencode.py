"""opencode sessions: the document of `opencode export`, with tool results inside the parts of an answer.

docs/formats/opencode.md describes the mapping. opencode keeps sessions in a database; whoever reads it makes this
document.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenfold.core.record.entry import Usage
from tenfold.core.record.message import (
    Message,
    OpaquePart,
    Origin,
    Part,
    Status,
    Text,
    Thinking,
    ToolResult,
    get_text,
    get_tool_calls,
    get_tool_result,
)
from tenfold.formats.applied_lines import APPLIED_KIND
from tenfold.formats.base import ExportItem, ParsedSession, SessionFormat
from tenfold.formats.file_shape import inspect_shape
from tenfold.formats.json_items import JsonItem, list_objects, parse_array, parse_document
from tenfold.formats.message_parts import dump_json, parse_call, render_call
from tenfold.formats.output_pieces import OutputPiece, render_array, share_bytes
from tenfold.formats.session_draft import SessionDraft, build_sessions, parse_token_count
from tenfold.store.base import SessionInfo

FORMAT = "opencode"
APPLIED_ID = "tenfold"
"""What the ids of messages that `tenfold apply` added hold: opencode writes a message's other fields again."""
RESULT_NOT_KEPT = "the result is not kept"
"""What stands for the result of a call that has none: opencode runs no call anew."""
_SILENT_PARTS = ("step-start", "step-finish", "snapshot", "patch", "agent", "retry")


class Opencode(SessionFormat):
    """Reads and writes the documents of opencode sessions."""

    name = FORMAT

    def can_read(self, head: bytes, name: str) -> bool:  # noqa: ARG002 - the content tells
        """Looks for an object with `info` and `messages`, whose elements have `info` and `parts`."""
        members = inspect_shape(head).members
        messages = members.get("messages")
        if not isinstance(members.get("info"), dict) or not isinstance(messages, list | type(None)):
            return False
        return (
            all(isinstance(m, dict) and "info" in m and "parts" in m for m in messages or ()) and "messages" in members
        )

    def read(self, data: bytes, *, file: str, skip_damaged: bool) -> list[ParsedSession]:  # noqa: ARG002 - one document
        """Parses the one session of the document."""
        top = parse_document(data, file)
        about = top["info"] if isinstance(top.get("info"), dict) else {}
        records = parse_array(data, "messages", file)
        draft = SessionDraft(file, "message")
        model = ""
        for element in records.elements:
            value = element.get_object(file)
            info = value["info"] if isinstance(value.get("info"), dict) else {}
            model = str(info.get("modelID") or model)
            _add_message(draft, element, info, list_objects(value, "parts"))
        session = str(about.get("id") or "")
        return build_sessions(
            [draft],
            [
                SessionInfo(
                    session,
                    FORMAT,
                    file,
                    str(about.get("title") or ""),
                    model,
                    source_id=session,
                    prefix=records.before,
                    suffix=records.after,
                )
            ],
        )

    def render_body(self, info: SessionInfo, items: Sequence[ExportItem]) -> bytes:
        """Renders the session's document."""
        return render_array(info, items, FORMAT, _join_messages, has_results=True)

    def build_info(self, session_id: str) -> SessionInfo:
        """Builds a document without messages."""
        head = b'{"info": ' + dump_json({"id": session_id}) + b', "messages": ['
        return SessionInfo(session_id, FORMAT, prefix=head, suffix=b"]}\n")


def _add_message(draft: SessionDraft, element: JsonItem, info: dict[str, Any], parts: list[dict[str, Any]]) -> None:
    time = info["time"] if isinstance(info.get("time"), dict) else {}
    id_ = str(info.get("id") or "")
    draft.start_item(element.number, source_id=id_, timestamp=time.get("created"))
    native = element.to_native(FORMAT)
    if APPLIED_ID in id_:
        draft.add_custom(APPLIED_KIND, native)
    elif info.get("summary") is True or any(part.get("type") == "compaction" for part in parts):
        draft.add_custom("compaction", native)
    elif info.get("role") == "user":
        texts = [part for part in parts if part.get("type") == "text"]
        has_own = any(part.get("synthetic") is not True for part in texts)
        origin: Origin = "human" if has_own or not texts else "harness"
        draft.add_messages([Message("user", _parse_parts(parts), origin, native=native)])
    elif info.get("role") == "assistant":
        status: Status = "error" if info.get("error") else "ok"
        tools = [part for part in parts if part.get("type") == "tool"]
        results = [result for part in tools if (result := _parse_result(part)) is not None]
        messages = [Message("assistant", _parse_parts(parts), "model", status)]
        messages += [Message("tool", (result,), "tool") for result in results]
        draft.add_messages(share_bytes(messages, native, id_ or str(element.number)))
        draft.set_usage(_parse_usage(info))
    else:
        draft.add_custom(str(info.get("role") or "unknown"), native)


def _parse_parts(parts: Sequence[dict[str, Any]]) -> tuple[Part, ...]:
    out: list[Part] = []
    for part in parts:
        match part:
            case {"type": "text", "text": str(text)} if not part.get("ignored"):
                out.append(Text(text))
            case {"type": "reasoning", "text": str(text)}:
                out.append(Thinking(text))
            case {"type": "tool", "state": dict(state)}:
                out.append(parse_call(part.get("callID"), part.get("tool"), state.get("input")))
            case {"type": kind} if kind not in (*_SILENT_PARTS, "text", "tool"):
                out.append(OpaquePart(str(kind), dump_json(part, compact=True)))
    return tuple(out)


def _parse_result(part: dict[str, Any]) -> ToolResult | None:
    state = part["state"] if isinstance(part.get("state"), dict) else {}
    is_error = state.get("status") == "error"
    text = state.get("error") if is_error else state.get("output")
    if state.get("status") not in ("completed", "error"):
        return None
    content = (Text(text),) if isinstance(text, str) and text else ()
    return ToolResult(str(part.get("callID") or ""), str(part.get("tool") or ""), content, is_error)


def _parse_usage(info: dict[str, Any]) -> Usage | None:
    match info.get("tokens"):
        case {"input": int(fresh), "output": int(output), **rest}:
            cache: Any = rest["cache"] if isinstance(rest.get("cache"), dict) else {}
            read, written = parse_token_count(cache.get("read")), parse_token_count(cache.get("write"))
            prompt = fresh + read + written
            return Usage(prompt, output, read, written, str(info.get("modelID") or "")) if prompt > 0 else None
    return None


def _join_messages(piece: OutputPiece) -> bytes:
    return b",\n".join(map(dump_json, render_messages(piece)))


def render_messages(piece: OutputPiece) -> list[dict[str, Any]]:
    """Renders messages as opencode's, each result inside the part of its call."""
    out: list[dict[str, Any]] = []
    for message in piece.messages:
        result = get_tool_result(message)
        if result is not None:
            _attach_result(out, result, get_text(message))
            continue
        role = "assistant" if message.role == "assistant" else "user"
        parts: list[dict[str, Any]] = [p for each in message.parts if (p := _render_part(each)) is not None]
        parts += [_render_call(call.id, call.name, render_call(call)["arguments"]) for call in get_tool_calls(message)]
        info: dict[str, Any] = {"role": role} | ({"id": piece.source_id} if piece.source_id and not out else {})
        out.append({"info": info, "parts": parts})
    return out


def _render_part(part: Part) -> dict[str, Any] | None:
    match part:
        case Text():
            return {"type": "text", "text": part.text}
        case Thinking():
            return {"type": "reasoning", "text": part.text, "time": {"start": 0, "end": 0}}
    return None


def _render_call(call_id: str, tool: str, arguments: object) -> dict[str, Any]:
    state = {"status": "error", "input": arguments, "error": RESULT_NOT_KEPT, "time": {"start": 0, "end": 0}}
    return {"type": "tool", "callID": call_id, "tool": tool, "state": state}


def _attach_result(out: list[dict[str, Any]], result: ToolResult, text: str) -> None:
    parts = [part for each in out for part in each["parts"] if part.get("callID") == result.call_id]
    if not parts:
        parts = [_render_call(result.call_id, result.name, {})]
        out.append({"info": {"role": "assistant"}, "parts": parts})
    state = {"input": parts[0]["state"]["input"], "time": {"start": 0, "end": 0}}
    if result.is_error:
        parts[0]["state"] = state | {"status": "error", "error": text}
    else:
        parts[0]["state"] = state | {"status": "completed", "output": text, "title": "", "metadata": {}}
