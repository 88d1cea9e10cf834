"""Writes a session in the file formats of four tools. No usage is invented, since no provider was called."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import assert_never

from examples.recorder.session import Assistant, Call, Event, Json, Result, Session, User, hash_parts

MODEL = "scripted"
MADE_BY = "examples/record.py"


def render_claude_code(session: Session) -> str:
    """Returns Claude Code JSONL: a line for each content block, a uuid/parentUuid chain, and results as user lines."""
    chain = _build_uuid(session.name, "session")
    lines: list[Json] = []
    parent: str | None = None

    def add_line(kind: str, time: int, message: dict[str, Json]) -> None:
        nonlocal parent
        own = _build_uuid(session.name, "line", len(lines))
        lines.append(
            {
                "parentUuid": parent,
                "isSidechain": False,
                "userType": "external",
                "cwd": session.cwd,
                "sessionId": chain,
                "version": MADE_BY,
                "gitBranch": "main",
                "type": kind,
                "message": message,
                "uuid": own,
                "timestamp": _format_time(time),
            }
        )
        parent = own

    for number, event in enumerate(session.events):
        match event:
            case User():
                add_line("user", event.time, {"role": "user", "content": event.text})
            case Assistant():
                for block in _build_anthropic_blocks(event):
                    add_line(
                        "assistant",
                        event.time,
                        {
                            "id": f"msg_{hash_parts(session.name, 'message', number)[:24]}",
                            "type": "message",
                            "role": "assistant",
                            "model": MODEL,
                            "content": [block],
                            "stop_reason": "tool_use" if event.calls else "end_turn",
                            "stop_sequence": None,
                        },
                    )
            case Result():
                block = {"tool_use_id": f"toolu_{event.call.id}", "type": "tool_result", "content": event.text}
                add_line("user", event.time, {"role": "user", "content": [block | _mark_error(event)]})
            case _:
                assert_never(event)
    return _to_jsonl(lines)


def render_pi(session: Session) -> str:
    """Returns a pi session, version 3: a header line, then entries with id and parentId."""
    lines: list[Json] = [
        {
            "type": "session",
            "version": 3,
            "id": _build_uuid(session.name, "session"),
            "timestamp": _format_time(session.start),
            "cwd": session.cwd,
        }
    ]
    parent: str | None = None
    for number, event in enumerate(session.events):
        own = hash_parts(session.name, "entry", number)[:8]
        lines.append(
            {
                "type": "message",
                "id": own,
                "parentId": parent,
                "timestamp": _format_time(event.time),
                "message": _to_pi_message(event) | {"timestamp": event.time * 1000},
            }
        )
        parent = own
    return _to_jsonl(lines)


def render_openai_chat(session: Session) -> str:
    """Returns an array of OpenAI Chat Completions messages."""
    messages: list[Json] = [{"role": "system", "content": session.system}] if session.system else []
    for event in session.events:
        match event:
            case User():
                messages.append({"role": "user", "content": event.text})
            case Assistant():
                answer: dict[str, Json] = {"role": "assistant", "content": event.text or None}
                if event.calls:
                    answer["tool_calls"] = [_to_chat_call(call) for call in event.calls]
                messages.append(answer)
            case Result():
                messages.append({"role": "tool", "tool_call_id": f"call_{event.call.id}", "content": event.text})
            case _:
                assert_never(event)
    return json.dumps(messages, ensure_ascii=False, indent=1) + "\n"


def render_codex(session: Session) -> str:
    """Returns a Codex rollout: a session_meta line, then response items with a time each."""
    meta: dict[str, Json] = {
        "id": _build_uuid(session.name, "session"),
        "timestamp": _format_time(session.start),
        "cwd": session.cwd,
        "originator": MADE_BY,
        "cli_version": "0",
        "instructions": session.system or None,
    }
    lines: list[Json] = [{"timestamp": _format_time(session.start), "type": "session_meta", "payload": meta}]
    for event in session.events:
        lines.extend(
            {"timestamp": _format_time(event.time), "type": "response_item", "payload": item}
            for item in _to_codex_items(event)
        )
    return _to_jsonl(lines)


# -- how each spells its parts -----------------------------------------------------------------------------------------


def _build_anthropic_blocks(event: Assistant) -> list[dict[str, Json]]:
    blocks: list[dict[str, Json]] = []
    if event.text:
        blocks.append({"type": "text", "text": event.text})
    for call in event.calls:
        name, given = _to_claude_tool(call)
        blocks.append({"type": "tool_use", "id": f"toolu_{call.id}", "name": name, "input": given})
    return blocks


def _to_claude_tool(call: Call) -> tuple[str, dict[str, Json]]:
    a = call.arguments
    match call.tool:
        case "bash":
            return "Bash", {"command": a["command"]}
        case "read":
            return "Read", {"file_path": a["path"]} | {k: a[k] for k in ("offset", "limit") if k in a}
        case "edit":
            return "Edit", {"file_path": a["path"], "old_string": a["old"], "new_string": a["new"]}
        case "write":
            return "Write", {"file_path": a["path"], "content": a["content"]}
        case "todo":
            return "TodoWrite", {"todos": a["todos"]}
        case "ask":
            return str(a["function"]), {k: v for k, v in a.items() if k != "function"}
        case _:
            assert_never(call.tool)


def _mark_error(event: Result) -> dict[str, Json]:
    return {"is_error": True} if event.failed else {}


def _to_pi_message(event: Event) -> dict[str, Json]:
    match event:
        case User():
            return {"role": "user", "content": [{"type": "text", "text": event.text}]}
        case Assistant():
            content: list[Json] = [{"type": "thinking", "thinking": event.thinking}] if event.thinking else []
            content += [{"type": "text", "text": event.text}] if event.text else []
            content += [
                {"type": "toolCall", "id": f"call_{c.id}", "name": c.tool, "arguments": _to_pi_arguments(c)}
                for c in event.calls
            ]
            return {
                "role": "assistant",
                "content": content,
                "api": MADE_BY,
                "provider": MADE_BY,
                "model": MODEL,
                "stopReason": "toolUse" if event.calls else "stop",
            }
        case Result():
            return {
                "role": "toolResult",
                "toolCallId": f"call_{event.call.id}",
                "toolName": event.call.tool,
                "content": [{"type": "text", "text": event.text}],
                "isError": event.failed,
            }
        case _:
            assert_never(event)


def _to_pi_arguments(call: Call) -> dict[str, Json]:
    spelled = {"old": "oldText", "new": "newText"} if call.tool == "edit" else {}
    return {spelled.get(name, name): value for name, value in call.arguments.items()}


def _to_chat_call(call: Call) -> Json:
    given = {k: v for k, v in call.arguments.items() if k != "function"}
    name = str(call.arguments["function"]) if call.tool == "ask" else call.tool
    return {"id": f"call_{call.id}", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}


def _to_codex_items(event: Event) -> list[dict[str, Json]]:
    match event:
        case User():
            return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": event.text}]}]
        case Assistant():
            items: list[dict[str, Json]] = []
            if event.text:
                text: Json = [{"type": "output_text", "text": event.text}]
                items.append({"type": "message", "role": "assistant", "content": text})
            for call in event.calls:
                name, given = _to_codex_tool(call)
                items.append(
                    {
                        "type": "function_call",
                        "name": name,
                        "arguments": json.dumps(given),
                        "call_id": f"call_{call.id}",
                    }
                )
            return items
        case Result():
            exit_code: Json = 1 if event.failed else 0
            output = json.dumps({"output": event.text, "metadata": {"exit_code": exit_code}}, ensure_ascii=False)
            return [{"type": "function_call_output", "call_id": f"call_{event.call.id}", "output": output}]
        case _:
            assert_never(event)


def _to_codex_tool(call: Call) -> tuple[str, dict[str, Json]]:
    a = call.arguments
    match call.tool:
        case "bash":
            return "shell", {"command": ["bash", "-lc", a["command"]]}
        case "read":
            first = a.get("offset") or 1
            last = f"{int(str(first)) + int(str(a['limit'])) - 1}" if "limit" in a else "$"
            return "shell", {"command": ["bash", "-lc", f"cat -n {a['path']} | sed -n '{first},{last}p'"]}
        case "edit":
            body = "".join(f"-{line}\n" for line in str(a["old"]).splitlines())
            body += "".join(f"+{line}\n" for line in str(a["new"]).splitlines())
            return "apply_patch", {"input": f"*** Begin Patch\n*** Update File: {a['path']}\n@@\n{body}*** End Patch"}
        case "write":
            body = "".join(f"+{line}\n" for line in str(a["content"]).splitlines())
            return "apply_patch", {"input": f"*** Begin Patch\n*** Add File: {a['path']}\n{body}*** End Patch"}
        case "todo":
            todos = a["todos"]
            assert isinstance(todos, list)
            plan: Json = [{"step": t["content"], "status": t["status"]} for t in todos if isinstance(t, dict)]
            return "update_plan", {"plan": plan}
        case "ask":
            return str(a["function"]), {k: v for k, v in a.items() if k != "function"}
        case _:
            assert_never(call.tool)


def _build_uuid(*parts: object) -> str:
    h = hash_parts(*parts)
    return f"{h[:8]}-{h[8:12]}-4{h[13:16]}-8{h[17:20]}-{h[20:32]}"


def _format_time(time: int) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _to_jsonl(lines: list[Json]) -> str:
    return "".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines)
