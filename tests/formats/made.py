"""Small made-up session files, one or more of each format: what the recorded ones do not hold is tested on these."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tests.formats.made_agents import AGENT_FILES
from tests.formats.made_frameworks import FRAMEWORK_FILES


def render_lines(*values: object) -> bytes:
    """A file of one JSON value a line."""
    return b"".join(json.dumps(v, ensure_ascii=False).encode() + b"\n" for v in values)


def render_pretty(value: object) -> bytes:
    """A JSON file with indentation."""
    return json.dumps(value, ensure_ascii=False, indent=2).encode() + b"\n"


def _make_pi_entry(own: str, parent: str | None, **rest: object) -> dict[str, object]:
    return {"id": own, "parentId": parent, "timestamp": "2030-01-02T03:04:05.678Z", **rest}


def _make_message(role: str, content: object, **rest: object) -> dict[str, object]:
    return {"role": role, "content": content, **rest}


PI_1 = render_lines(
    {"type": "session", "id": "s1", "cwd": "/w", "timestamp": "2030-01-02T03:04:05Z"},
    {"type": "message", "timestamp": "2030-01-02T03:04:06Z", "message": _make_message("user", "paint the shed")},
    {
        "type": "message",
        "message": _make_message(
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
        "message": _make_message(
            "toolResult", [{"type": "text", "text": "it is green"}], toolCallId="c1", toolName="look", isError=False
        ),
    },
    {"type": "message", "message": {"role": "bashExecution", "command": "date", "output": "today", "exitCode": 1}},
    {
        "type": "message",
        "message": _make_message("assistant", [{"type": "text", "text": "half"}], stopReason="aborted"),
    },
    {"type": "message", "message": _make_message("assistant", [], stopReason="error")},
    {"type": "compaction", "summary": "s", "firstKeptEntryIndex": 1, "tokensBefore": 9},
    {"type": "model_change", "provider": "p", "modelId": "m-2"},
    {"type": "message", "message": _make_message("user", [{"type": "image", "data": "QUJD", "mimeType": "image/png"}])},
)
PI_3 = render_lines(
    {"type": "session", "version": 3, "id": "s3", "cwd": "/w", "timestamp": "2030-01-02T03:04:05Z"},
    _make_pi_entry("a", None, type="message", message=_make_message("user", "one")),
    _make_pi_entry("b", "a", type="message", message=_make_message("assistant", [{"type": "text", "text": "two"}])),
    _make_pi_entry("c", "b", type="message", message=_make_message("user", "left branch")),
    _make_pi_entry("d", "b", type="branch_summary", fromId="c", summary="we tried the left"),
    _make_pi_entry("e", "d", type="custom_message", customType="x", content="injected", display=True),
    _make_pi_entry("f", "e", type="thinking_level_change", thinkingLevel="high"),
    _make_pi_entry("g", "f", type="label", targetId="a", label="start"),
    _make_pi_entry("h", "g", type="message", message=_make_message("user", "right branch")),
    _make_pi_entry(
        "i", "h", type="message", message=_make_message("custom", "more injected", customType="x", display=False)
    ),
    _make_pi_entry("j", "i", type="message", message=_make_message("assistant", [{"type": "text", "text": "done"}])),
)
PI_2 = PI_3.replace(b'"version": 3', b'"version": 2').replace(b'"role": "custom"', b'"role": "hookMessage"')


def _make_claude_line(
    own: str, parent: str | None, kind: str, message: object = None, **rest: object
) -> dict[str, object]:
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


def _make_tool_use(call: str, name: str = "Read") -> dict[str, object]:
    return {"type": "tool_use", "id": call, "name": name, "input": {"n": 1}}


def _make_tool_result(call: str, text: str) -> dict[str, object]:
    return {"type": "tool_result", "tool_use_id": call, "content": text}


def _make_answer(own: str, *blocks: object, **usage: int) -> dict[str, object]:
    return {"id": own, "type": "message", "role": "assistant", "model": "m", "content": list(blocks), "usage": usage}


CLAUDE = render_lines(
    {"type": "summary", "summary": "About a shed", "leafUuid": "zz"},
    _make_claude_line("a", "elsewhere", "user", _make_message("user", "paint the shed")),
    _make_claude_line(
        "b", "a", "assistant", _make_answer("m1", {"type": "text", "text": "I look"}, input_tokens=3, output_tokens=1)
    ),
    _make_claude_line(
        "c",
        "b",
        "assistant",
        _make_answer(
            "m1",
            _make_tool_use("t1"),
            _make_tool_use("t2"),
            input_tokens=3,
            cache_read_input_tokens=7,
            cache_creation_input_tokens=2,
            output_tokens=9,
        ),
    ),
    _make_claude_line(
        "d",
        "c",
        "user",
        _make_message(
            "user",
            [
                _make_tool_result("t1", "green"),
                _make_tool_result("t2", "old"),
                {"type": "text", "text": "<system-reminder>x</system-reminder>"},
                {"type": "text", "text": "and hurry"},
            ],
        ),
        toolUseResult={"kept": True},
    ),
    {"type": "file-history-snapshot", "messageId": "d", "snapshot": {}},
    _make_claude_line("s1", None, "user", _make_message("user", "sub task"), isSidechain=True, agentId="ag"),
    _make_claude_line("e", "d", "assistant", _make_answer("m2", {"type": "text", "text": "working"})),
    _make_claude_line(
        "s2",
        "s1",
        "assistant",
        _make_answer("m9", {"type": "text", "text": "sub done"}),
        isSidechain=True,
        agentId="ag",
    ),
    _make_claude_line("f", "e", "user", _make_message("user", "Caveat: ..."), isMeta=True),
    _make_claude_line("g", "f", "user", _make_message("user", "<local-command-stdout>out</local-command-stdout>")),
    _make_claude_line(
        "h", None, "system", subtype="compact_boundary", logicalParentUuid="g", content="Conversation compacted"
    ),
    _make_claude_line(
        "i", "h", "user", _make_message("user", "This session is being continued"), isCompactSummary=True
    ),
    _make_claude_line("j", "i", "user", _make_message("user", "go on")),
    _make_claude_line("k", "j", "assistant", _make_answer("m3", {"type": "text", "text": "done"})),
)


def _make_codex_line(kind: str, **payload: object) -> dict[str, object]:
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
_USED = _make_codex_line(
    "event_msg",
    type="token_count",
    info={"last_token_usage": {"input_tokens": 100, "cached_input_tokens": 40, "output_tokens": 7}},
)
CODEX_NEW = render_lines(
    _make_codex_line("session_meta", id="cx", cwd="/w"),
    *(_make_codex_line("response_item", **i) for i in _CODEX_ITEMS[:3]),
    _make_codex_line("turn_context", model="gpt-x", cwd="/w"),
    _make_codex_line("response_item", **_CODEX_ITEMS[3]),
    _make_codex_line("event_msg", type="agent_reasoning", text="hm"),
    *(_make_codex_line("response_item", **i) for i in _CODEX_ITEMS[4:6]),
    _USED,
    *(_make_codex_line("response_item", **i) for i in _CODEX_ITEMS[6:]),
    _USED,
    _make_codex_line("compacted", message="short"),
    _make_codex_line("response_item", type="ghost_snapshot", commit="x"),
)
CODEX_OLD = render_lines(
    {"id": "cx", "timestamp": "2030-01-02T03:04:05Z", "instructions": None}, {"record_type": "state"}, *_CODEX_ITEMS
)


def _make_trajectory(*history: dict[str, object]) -> bytes:
    step = {"action": "ls", "observation": "x", "response": "y", "thought": "z"}
    return render_pretty({"environment": "swe", "trajectory": [step], "history": list(history), "info": {}})


SWE_0 = _make_trajectory(
    _make_message("system", "you are"),
    _make_message("user", "a demo issue", is_demo=True),
    _make_message("assistant", "demo", is_demo=True),
    _make_message("user", "the shed is green", agent="primary"),
    _make_message("assistant", "look\n```\nls\n```", action="ls\n"),
    _make_message("user", "shed.txt"),
    _make_message("assistant", "done"),
)
SWE_1 = _make_trajectory(
    _make_message("system", "you are", message_type="system_prompt"),
    _make_message("user", [{"type": "text", "text": "the shed"}]),
    _make_message(
        "assistant",
        "look",
        tool_calls=[{"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}],
    ),
    _make_message("tool", "shed.txt", tool_call_ids=["c1"], message_type="observation"),
    _make_message("assistant", "done"),
)
GEMINI_SESSION = render_pretty(
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
CONTENTS = render_pretty(
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
SCENARIO = render_pretty({"scenarioId": "sc", "description": "d", "history": json.loads(CONTENTS), "questions": []})


def _make_simulation(own: str, *messages: dict[str, object]) -> dict[str, object]:
    return {"id": own, "task_id": own, "messages": list(messages), "termination_reason": "user_stop"}


_TAU = (
    _make_message("assistant", "Hello", tool_calls=None),
    _make_message("user", "return my lamp", tool_calls=None),
    _make_message(
        "assistant",
        None,
        tool_calls=[
            {"id": "1", "name": "find", "arguments": {"q": "lamp"}, "requestor": "assistant"},
            {"id": "2", "name": "find", "arguments": {}, "requestor": "assistant"},
        ],
    ),
)
TAU2 = render_pretty(
    {
        "timestamp": "2030-01-02T03:04:05",
        "info": {"environment_info": {"policy": "be kind"}},
        "tasks": [],
        "simulations": [
            _make_simulation(
                "s0",
                *_TAU,
                {"id": "1", "role": "tool", "content": "found", "requestor": "assistant"},
                {"id": "2", "role": "tool", "content": "none", "requestor": "assistant", "error": True},
                _make_message("assistant", "done", usage={"prompt_tokens": 10, "completion_tokens": 2}),
            ),
            _make_simulation(
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
                _make_message("assistant", "done"),
            ),
        ],
    }
)


def _make_action(own: int, action: str, response: str, call: str, **args: object) -> dict[str, object]:
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
    _make_action(1, "run", "r1", "c1", command="ls", thought="I look"),
    _make_action(2, "read", "r1", "c2", path="x"),
    {"id": 3, "source": "agent", "cause": 1, "observation": "run", "content": "green", "extras": {}, "success": True},
    {"id": 4, "source": "agent", "cause": 2, "observation": "error", "content": "gone", "extras": {}},
    {"id": 5, "source": "environment", "observation": "agent_state_changed", "content": "", "extras": {}},
    _make_action(6, "finish", "r2", "c3", final_thought="done"),
)
EVENTS = render_lines({"instance_id": "i0", "history": _EVENTS}, {"instance_id": "i1", "history": _EVENTS[:1]})
EVENT_LIST = render_pretty(_EVENTS)
_CHAT = (
    _make_message("system", "be kind"),
    _make_message("user", "paint the shed"),
    {
        "role": "assistant",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
    },
    _make_message("tool", "green", tool_call_id="c1"),
    _make_message("assistant", "done"),
)
REQUEST = render_pretty(
    {"messages": list(_CHAT), "kwargs": {"tools": []}, "response": {"model": "m", "usage": {"prompt_tokens": 9}}}
)
CHAT = render_pretty({"model": "m", "messages": list(_CHAT)})
CHAT_LINES = render_lines(*_CHAT)
_ANTHROPIC = (
    _make_message("user", "paint the shed"),
    _make_message("assistant", [{"type": "text", "text": "I look"}, _make_tool_use("t1"), _make_tool_use("t2")]),
    _make_message(
        "user", [_make_tool_result("t1", "green"), _make_tool_result("t2", "old"), {"type": "text", "text": "hurry"}]
    ),
    _make_message("assistant", [{"type": "text", "text": "done"}]),
)
ANTHROPIC = render_pretty(list(_ANTHROPIC))
CLINE = render_pretty(
    {
        "version": 1,
        "sessionId": "cl",
        "messages": [
            _make_message(
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
RESPONSES = render_pretty(list(_CODEX_ITEMS))
GEMINI_BODY = render_pretty({"contents": json.loads(CONTENTS)})

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
    **FRAMEWORK_FILES,
    **AGENT_FILES,
}
"""Name -> (format, bytes)."""
