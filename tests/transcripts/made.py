"""Small made-up session files, one or more of each format: what the recorded ones do not hold is tested on these."""

from __future__ import annotations

import json
from collections.abc import Sequence


def lines(*values: object) -> bytes:
    """A file of one JSON value a line."""
    return b"".join(json.dumps(v, ensure_ascii=False).encode() + b"\n" for v in values)


def pretty(value: object) -> bytes:
    """A JSON file with indentation."""
    return json.dumps(value, ensure_ascii=False, indent=2).encode() + b"\n"


def _pi(own: str, parent: str | None, **rest: object) -> dict[str, object]:
    return {"id": own, "parentId": parent, "timestamp": "2030-01-02T03:04:05.678Z", **rest}


def _said(role: str, content: object, **rest: object) -> dict[str, object]:
    return {"role": role, "content": content, **rest}


PI_1 = lines(
    {"type": "session", "id": "s1", "cwd": "/w", "timestamp": "2030-01-02T03:04:05Z"},
    {"type": "message", "timestamp": "2030-01-02T03:04:06Z", "message": _said("user", "paint the shed")},
    {
        "type": "message",
        "message": _said(
            "assistant",
            [
                {"type": "thinking", "thinking": "which colour?", "thinkingSignature": "sig"},
                {"type": "toolCall", "id": "c1", "name": "look", "arguments": {"at": "shed"}},
            ],
            model="m-1",
            stopReason="toolUse",
            usage={"input": 5, "output": 2, "cacheRead": 10, "cacheWrite": 1},
        ),
    },
    {
        "type": "message",
        "message": _said(
            "toolResult", [{"type": "text", "text": "it is green"}], toolCallId="c1", toolName="look", isError=False
        ),
    },
    {"type": "message", "message": {"role": "bashExecution", "command": "date", "output": "today", "exitCode": 1}},
    {"type": "message", "message": _said("assistant", [{"type": "text", "text": "half"}], stopReason="aborted")},
    {"type": "message", "message": _said("assistant", [], stopReason="error")},
    {"type": "compaction", "summary": "s", "firstKeptEntryIndex": 1, "tokensBefore": 9},
    {"type": "model_change", "provider": "p", "modelId": "m-2"},
    {"type": "message", "message": _said("user", [{"type": "image", "data": "QUJD", "mimeType": "image/png"}])},
)
PI_3 = lines(
    {"type": "session", "version": 3, "id": "s3", "cwd": "/w", "timestamp": "2030-01-02T03:04:05Z"},
    _pi("a", None, type="message", message=_said("user", "one")),
    _pi("b", "a", type="message", message=_said("assistant", [{"type": "text", "text": "two"}])),
    _pi("c", "b", type="message", message=_said("user", "left branch")),
    _pi("d", "b", type="branch_summary", fromId="c", summary="we tried the left"),
    _pi("e", "d", type="custom_message", customType="x", content="injected", display=True),
    _pi("f", "e", type="thinking_level_change", thinkingLevel="high"),
    _pi("g", "f", type="label", targetId="a", label="start"),
    _pi("h", "g", type="message", message=_said("user", "right branch")),
    _pi("i", "h", type="message", message=_said("custom", "more injected", customType="x", display=False)),
    _pi("j", "i", type="message", message=_said("assistant", [{"type": "text", "text": "done"}])),
)
PI_2 = PI_3.replace(b'"version": 3', b'"version": 2').replace(b'"role": "custom"', b'"role": "hookMessage"')


def _cc(own: str, parent: str | None, kind: str, message: object = None, **rest: object) -> dict[str, object]:
    line: dict[str, object] = {
        "parentUuid": parent,
        "isSidechain": False,
        "sessionId": "cc",
        "type": kind,
        "uuid": own,
        "timestamp": "2030-01-02T03:04:05.000Z",
        **rest,
    }
    return line | ({"message": message} if message is not None else {})


def _use(call: str, name: str = "Read") -> dict[str, object]:
    return {"type": "tool_use", "id": call, "name": name, "input": {"n": 1}}


def _result(call: str, text: str) -> dict[str, object]:
    return {"type": "tool_result", "tool_use_id": call, "content": text}


def _answer(own: str, *blocks: object, **usage: int) -> dict[str, object]:
    return {"id": own, "type": "message", "role": "assistant", "model": "m", "content": list(blocks), "usage": usage}


CLAUDE = lines(
    {"type": "summary", "summary": "About a shed", "leafUuid": "zz"},
    _cc("a", "elsewhere", "user", _said("user", "paint the shed")),
    _cc("b", "a", "assistant", _answer("m1", {"type": "text", "text": "I look"}, input_tokens=3, output_tokens=1)),
    _cc(
        "c",
        "b",
        "assistant",
        _answer(
            "m1",
            _use("t1"),
            _use("t2"),
            input_tokens=3,
            cache_read_input_tokens=7,
            cache_creation_input_tokens=2,
            output_tokens=9,
        ),
    ),
    _cc(
        "d",
        "c",
        "user",
        _said(
            "user",
            [
                _result("t1", "green"),
                _result("t2", "old"),
                {"type": "text", "text": "<system-reminder>x</system-reminder>"},
                {"type": "text", "text": "and hurry"},
            ],
        ),
        toolUseResult={"kept": True},
    ),
    {"type": "file-history-snapshot", "messageId": "d", "snapshot": {}},
    _cc("s1", None, "user", _said("user", "sub task"), isSidechain=True, agentId="ag"),
    _cc("e", "d", "assistant", _answer("m2", {"type": "text", "text": "working"})),
    _cc("s2", "s1", "assistant", _answer("m9", {"type": "text", "text": "sub done"}), isSidechain=True, agentId="ag"),
    _cc("f", "e", "user", _said("user", "Caveat: ..."), isMeta=True),
    _cc("g", "f", "user", _said("user", "<local-command-stdout>out</local-command-stdout>")),
    _cc("h", None, "system", subtype="compact_boundary", logicalParentUuid="g", content="Conversation compacted"),
    _cc("i", "h", "user", _said("user", "This session is being continued"), isCompactSummary=True),
    _cc("j", "i", "user", _said("user", "go on")),
    _cc("k", "j", "assistant", _answer("m3", {"type": "text", "text": "done"})),
)


def _codex(kind: str, **payload: object) -> dict[str, object]:
    return {"timestamp": "2030-01-02T03:04:05.000Z", "type": kind, "payload": payload}


_CODEX_ITEMS: Sequence[dict[str, object]] = (
    {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "be kind"}]},
    {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "<environment_context>x</environment_context>"}],
    },
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "paint the shed"}]},
    {"type": "reasoning", "id": "r1", "summary": [], "encrypted_content": "blob"},
    {"type": "function_call", "call_id": "c1", "name": "shell", "arguments": '{"command":["ls"]}'},
    {"type": "function_call", "call_id": "c2", "name": "shell", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "shed"},
    {"type": "function_call_output", "call_id": "c2", "output": "brush"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]},
)
_USED = _codex(
    "event_msg",
    type="token_count",
    info={"last_token_usage": {"input_tokens": 100, "cached_input_tokens": 40, "output_tokens": 7}},
)
CODEX_NEW = lines(
    _codex("session_meta", id="cx", cwd="/w"),
    *(_codex("response_item", **i) for i in _CODEX_ITEMS[:3]),
    _codex("turn_context", model="gpt-x", cwd="/w"),
    _codex("response_item", **_CODEX_ITEMS[3]),
    _codex("event_msg", type="agent_reasoning", text="hm"),
    *(_codex("response_item", **i) for i in _CODEX_ITEMS[4:6]),
    _USED,
    *(_codex("response_item", **i) for i in _CODEX_ITEMS[6:]),
    _USED,
    _codex("compacted", message="short"),
    _codex("response_item", type="ghost_snapshot", commit="x"),
)
CODEX_OLD = lines(
    {"id": "cx", "timestamp": "2030-01-02T03:04:05Z", "instructions": None}, {"record_type": "state"}, *_CODEX_ITEMS
)


def _traj(*history: dict[str, object]) -> bytes:
    step = {"action": "ls", "observation": "x", "response": "y", "thought": "z"}
    return pretty({"environment": "swe", "trajectory": [step], "history": list(history), "info": {}})


SWE_0 = _traj(
    _said("system", "you are"),
    _said("user", "a demo issue", is_demo=True),
    _said("assistant", "demo", is_demo=True),
    _said("user", "the shed is green", agent="primary"),
    _said("assistant", "look\n```\nls\n```", action="ls\n"),
    _said("user", "shed.txt"),
    _said("assistant", "done"),
)
SWE_1 = _traj(
    _said("system", "you are", message_type="system_prompt"),
    _said("user", [{"type": "text", "text": "the shed"}]),
    _said(
        "assistant",
        "look",
        tool_calls=[{"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}],
    ),
    _said("tool", "shed.txt", tool_call_ids=["c1"], message_type="observation"),
    _said("assistant", "done"),
)
GEMINI_SESSION = pretty(
    {
        "sessionId": "gs",
        "projectHash": "ab",
        "startTime": "2030-01-02T03:04:05Z",
        "messages": [
            {"id": "1", "timestamp": "2030-01-02T03:04:05Z", "type": "user", "content": "paint the shed"},
            {
                "id": "2",
                "timestamp": "2030-01-02T03:04:06Z",
                "type": "gemini",
                "content": "I look",
                "model": "g",
                "thoughts": [{"subject": "Colour", "description": "which"}],
                "tokens": {"input": 50, "output": 4, "cached": 9},
                "toolCalls": [
                    {
                        "id": "t1",
                        "name": "read",
                        "args": {"p": 1},
                        "status": "success",
                        "result": [{"functionResponse": {"id": "t1", "name": "read", "response": {"output": "green"}}}],
                    },
                    {
                        "id": "t2",
                        "name": "read",
                        "args": {},
                        "status": "error",
                        "result": [{"functionResponse": {"id": "t2", "name": "read", "response": {"error": "gone"}}}],
                    },
                ],
            },
            {"id": "3", "timestamp": "2030-01-02T03:04:07Z", "type": "info", "content": "a note"},
            {"id": "4", "timestamp": "2030-01-02T03:04:08Z", "type": "gemini", "content": "done"},
        ],
    }
)
CONTENTS = pretty(
    [
        {"role": "user", "parts": [{"text": "paint the shed"}]},
        {
            "role": "model",
            "parts": [
                {"text": "I look"},
                {"functionCall": {"name": "look", "args": {}}},
                {"functionCall": {"name": "look", "args": {"again": True}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"id": "x1", "name": "look", "response": {"output": "green"}}},
                {"functionResponse": {"id": "x2", "name": "look", "response": {"output": "old"}}},
            ],
        },
        {"role": "model", "parts": [{"text": "done"}]},
    ]
)
SCENARIO = pretty({"scenarioId": "sc", "description": "d", "history": json.loads(CONTENTS), "questions": []})


def _simulation(own: str, *messages: dict[str, object]) -> dict[str, object]:
    return {"id": own, "task_id": own, "messages": list(messages), "termination_reason": "user_stop"}


_TAU = (
    _said("assistant", "Hello", tool_calls=None),
    _said("user", "return my lamp", tool_calls=None),
    _said(
        "assistant",
        None,
        tool_calls=[
            {"id": "1", "name": "find", "arguments": {"q": "lamp"}, "requestor": "assistant"},
            {"id": "2", "name": "find", "arguments": {}, "requestor": "assistant"},
        ],
    ),
)
TAU2 = pretty(
    {
        "timestamp": "2030-01-02T03:04:05",
        "info": {"environment_info": {"policy": "be kind"}},
        "tasks": [],
        "simulations": [
            _simulation(
                "s0",
                *_TAU,
                {"id": "1", "role": "tool", "content": "found", "requestor": "assistant"},
                {"id": "2", "role": "tool", "content": "none", "requestor": "assistant", "error": True},
                _said("assistant", "done", usage={"prompt_tokens": 10, "completion_tokens": 2}),
            ),
            _simulation(
                "s1",
                *_TAU,
                {
                    "role": "tool",
                    "tool_messages": [
                        {"id": "1", "role": "tool", "content": "found"},
                        {"id": "2", "role": "tool", "content": "none"},
                    ],
                },
                {
                    "role": "user",
                    "content": None,
                    "tool_calls": [{"id": "9", "name": "reboot", "arguments": {}, "requestor": "user"}],
                },
                {"id": "9", "role": "tool", "content": "rebooted", "requestor": "user"},
                _said("assistant", "done"),
            ),
        ],
    }
)


def _act(own: int, action: str, response: str, call: str, **args: object) -> dict[str, object]:
    made = {
        "id": response,
        "choices": [
            {
                "message": {
                    "tool_calls": [{"id": call, "function": {"name": f"do_{action}", "arguments": '{"raw":  1}'}}]
                }
            }
        ],
    }
    return {
        "id": own,
        "timestamp": "2030-01-02T03:04:05.5",
        "source": "agent",
        "action": action,
        "args": args,
        "tool_call_metadata": {"function_name": f"do_{action}", "tool_call_id": call, "model_response": made},
        "llm_metrics": {
            "token_usages": [{"model": "m", "prompt_tokens": 20, "completion_tokens": 3, "cache_read_tokens": 5}]
        },
    }


_EVENTS: Sequence[dict[str, object]] = (
    {"id": 0, "source": "user", "action": "message", "args": {"content": "paint the shed"}},
    _act(1, "run", "r1", "c1", command="ls", thought="I look"),
    _act(2, "read", "r1", "c2", path="x"),
    {"id": 3, "source": "agent", "cause": 1, "observation": "run", "content": "green", "extras": {}, "success": True},
    {"id": 4, "source": "agent", "cause": 2, "observation": "error", "content": "gone", "extras": {}},
    {"id": 5, "source": "environment", "observation": "agent_state_changed", "content": "", "extras": {}},
    _act(6, "finish", "r2", "c3", final_thought="done"),
)
EVENTS = lines({"instance_id": "i0", "history": _EVENTS}, {"instance_id": "i1", "history": _EVENTS[:1]})
EVENT_LIST = pretty(_EVENTS)
_CHAT = (
    _said("system", "be kind"),
    _said("user", "paint the shed"),
    {
        "role": "assistant",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
    },
    _said("tool", "green", tool_call_id="c1"),
    _said("assistant", "done"),
)
REQUEST = pretty(
    {"messages": list(_CHAT), "kwargs": {"tools": []}, "response": {"model": "m", "usage": {"prompt_tokens": 9}}}
)
CHAT = pretty({"model": "m", "messages": list(_CHAT)})
CHAT_LINES = lines(*_CHAT)
_ANTHROPIC = (
    _said("user", "paint the shed"),
    _said("assistant", [{"type": "text", "text": "I look"}, _use("t1"), _use("t2")]),
    _said("user", [_result("t1", "green"), _result("t2", "old"), {"type": "text", "text": "hurry"}]),
    _said("assistant", [{"type": "text", "text": "done"}]),
)
ANTHROPIC = pretty(list(_ANTHROPIC))
CLINE = pretty(
    {
        "version": 1,
        "sessionId": "cl",
        "messages": [
            _said(
                "user",
                [{"type": "text", "text": "see"}, {"type": "file", "path": "/w/a", "content": "AAA"}],
                id="m0",
                ts=1893553445678,
            ),
            *_ANTHROPIC[1:],
        ],
        "system_prompt": "you are",
    }
)
RESPONSES = pretty(list(_CODEX_ITEMS))
GEMINI_BODY = pretty({"contents": json.loads(CONTENTS)})

FILES: dict[str, tuple[str, bytes]] = {
    "pi-1": ("pi", PI_1),
    "pi-2": ("pi", PI_2),
    "pi-3": ("pi", PI_3),
    "claude": ("claude-code", CLAUDE),
    "codex-new": ("codex", CODEX_NEW),
    "codex-old": ("codex", CODEX_OLD),
    "swe-0": ("swe-agent", SWE_0),
    "swe-1": ("swe-agent", SWE_1),
    "gemini-session": ("gemini-cli", GEMINI_SESSION),
    "contents": ("gemini-cli", CONTENTS),
    "scenario": ("gemini-cli", SCENARIO),
    "tau2": ("tau2", TAU2),
    "events": ("openhands-events", EVENTS),
    "event-list": ("openhands-events", EVENT_LIST),
    "request": ("openhands-requests", REQUEST),
    "cline": ("cline", CLINE),
    "chat": ("openai-chat", CHAT),
    "chat-lines": ("openai-chat", CHAT_LINES),
    "anthropic": ("anthropic", ANTHROPIC),
    "responses": ("openai-responses", RESPONSES),
    "gemini": ("gemini", GEMINI_BODY),
}
"""Name -> (format, bytes)."""
