"""Made-up files of coding agents, data sets and frameworks of agents, each modelled on what the program writes."""

from __future__ import annotations

import json
from collections.abc import Sequence

ASKED = "What colour is the shed?"
SEEN = "It is green and dry."
TOLD = "The shed is green."


def _pretty(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=2).encode() + b"\n"


def _lines(*values: object) -> bytes:
    return b"".join(json.dumps(v, ensure_ascii=False).encode() + b"\n" for v in values)


# -- Google ADK, Qwen Code ---------------------------------------------------------------------------------------------

_CONTENTS: Sequence[dict[str, object]] = (
    {"role": "user", "parts": [{"text": ASKED}]},
    {
        "role": "model",
        "parts": [
            {"text": "Which shed is it?", "thought": True},
            {"functionCall": {"id": "c1", "name": "look", "args": {"at": "the shed"}}},
        ],
    },
    {"role": "user", "parts": [{"functionResponse": {"id": "c1", "name": "look", "response": {"output": SEEN}}}]},
    {"role": "model", "parts": [{"text": TOLD}]},
)
_EVENTS: list[dict[str, object]] = [
    {
        "id": f"e{at}",
        "invocationId": "i1",
        "author": "user" if at == 0 else "gardener",
        "content": content,
        "actions": {"stateDelta": {}},
        "timestamp": 1893553445.5,
        **({"usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 2}} if content["role"] == "model" else {}),
    }
    for at, content in enumerate(_CONTENTS)
]
ADK = _pretty({"id": "s1", "appName": "garden", "userId": "u", "state": {}, "events": _EVENTS, "lastUpdateTime": 1.5})
ADK_LINES = _lines(*_EVENTS)
_QWEN_KINDS = ("user", "assistant", "tool_result", "assistant")
QWEN = _lines(
    *(
        {
            "uuid": f"q{at}",
            "parentUuid": f"q{at - 1}" if at else None,
            "sessionId": "qs",
            "timestamp": "2030-01-02T03:04:05.678Z",
            "type": kind,
            "cwd": "/w",
            "version": "0.6.0",
            "message": content,
        }
        for at, (kind, content) in enumerate(zip(_QWEN_KINDS, _CONTENTS, strict=True))
    ),
    {"uuid": "q4", "parentUuid": "q3", "sessionId": "qs", "type": "system", "subtype": "ui_telemetry", "cwd": "/w"},
)


# -- OpenAI Agents -----------------------------------------------------------------------------------------------------

_RUN_ITEMS = [
    {
        "type": "reasoning_item",
        "raw_item": {"id": "rs_1", "type": "reasoning", "summary": [{"text": "Which shed is it?"}]},
    },
    {
        "type": "tool_call_item",
        "raw_item": {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at": "the shed"}'},
    },
    {
        "type": "tool_call_output_item",
        "raw_item": {"type": "function_call_output", "call_id": "c1", "output": SEEN},
        "output": SEEN,
    },
    {
        "type": "message_output_item",
        "agent": {"name": "gardener"},
        "raw_item": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": TOLD, "annotations": []}],
        },
    },
]
AGENTS_STATE = _pretty({"$schemaVersion": "1.21", "original_input": ASKED, "generated_items": _RUN_ITEMS})
AGENTS_ITEMS = _pretty(
    [{"type": "message_output_item", "raw_item": {"type": "message", "role": "user", "content": ASKED}}, *_RUN_ITEMS]
)


# -- streams of coding agents ------------------------------------------------------------------------------------------


def _make_claude(role: str, own: str, *blocks: object, parent: str | None = None) -> dict[str, object]:
    message = {"id": own, "role": role, "content": list(blocks), "usage": {"input_tokens": 9, "output_tokens": 2}}
    return {"type": role, "message": message, "parent_tool_use_id": parent, "session_id": "cs", "uuid": f"u-{own}"}


CLAUDE_STREAM = _lines(
    {"type": "system", "subtype": "init", "session_id": "cs", "cwd": "/w", "model": "m", "tools": []},
    _make_claude("user", "m0", {"type": "text", "text": ASKED}),
    _make_claude("assistant", "m1", {"type": "thinking", "thinking": "Which shed is it?", "signature": "sig"}),
    _make_claude("assistant", "m1", {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "the shed"}}),
    _make_claude("user", "m3", {"type": "text", "text": "Look at the shed."}, parent="c1"),
    _make_claude("assistant", "m4", {"type": "text", "text": "I looked at it."}, parent="c1"),
    _make_claude(
        "user", "m2", {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": SEEN}]}
    ),
    _make_claude("assistant", "m5", {"type": "text", "text": TOLD}),
    {"type": "result", "subtype": "success", "result": TOLD, "session_id": "cs", "total_cost_usd": 0.1},
)


def _make_item(**item: object) -> dict[str, object]:
    return {"type": "item.completed", "item": item}


CODEX_STREAM = _lines(
    {"type": "thread.started", "thread_id": "th"},
    {"type": "turn.started"},
    _make_item(id="item_0", type="reasoning", text="Which shed is it?"),
    {"type": "item.started", "item": {"id": "item_1", "type": "command_execution", "command": "look shed"}},
    _make_item(
        id="item_1",
        type="command_execution",
        command="look shed",
        aggregated_output=SEEN,
        exit_code=0,
        status="completed",
    ),
    _make_item(
        id="item_2",
        type="mcp_tool_call",
        server="paint",
        tool="find",
        arguments={"colour": "dark green"},
        result=None,
        error={"message": "no such paint"},
        status="failed",
    ),
    _make_item(id="item_3", type="agent_message", text=TOLD),
    {"type": "turn.completed", "usage": {"input_tokens": 9, "cached_input_tokens": 3, "output_tokens": 2}},
)


# -- goose, Kimi, aider ------------------------------------------------------------------------------------------------

_GOOSE = (
    {"id": "g1", "role": "user", "created": 1893553445, "content": [{"type": "text", "text": ASKED}], "metadata": {}},
    {
        "role": "assistant",
        "created": 1893553446,
        "content": [
            {"type": "thinking", "thinking": "Which shed is it?", "signature": "s"},
            {
                "type": "toolRequest",
                "id": "c1",
                "toolCall": {"status": "success", "value": {"name": "look", "arguments": {"at": "the shed"}}},
            },
        ],
    },
    {
        "role": "user",
        "created": 1893553447,
        "content": [
            {
                "type": "toolResponse",
                "id": "c1",
                "toolResult": {
                    "status": "success",
                    "value": [{"type": "text", "text": SEEN, "annotations": {"audience": ["assistant"]}}],
                },
            }
        ],
    },
    {"role": "assistant", "created": 1893553448, "content": [{"type": "text", "text": TOLD}]},
)
GOOSE = _lines({"working_dir": "/w", "description": "The shed", "message_count": 4, "total_tokens": 9}, *_GOOSE)
GOOSE_BARE = _lines(*_GOOSE)
GOOSE_EXPORT = _pretty({"id": "gs", "working_dir": "/w", "name": "The shed", "conversation": list(_GOOSE)})
_CHAT_CALL = {"type": "function", "id": "c1", "function": {"name": "look", "arguments": '{"at": "the shed"}'}}
KIMI = _lines(
    {"role": "_checkpoint", "id": 0},
    {"role": "user", "content": ASKED},
    {"role": "_checkpoint", "id": 1},
    {"role": "user", "content": [{"type": "text", "text": "<system>CHECKPOINT 1 was made</system>"}]},
    {
        "role": "assistant",
        "content": [{"type": "think", "think": "Which shed is it?", "encrypted": None}],
        "tool_calls": [_CHAT_CALL],
    },
    {"role": "_usage", "token_count": 20},
    {"role": "tool", "content": [{"type": "text", "text": SEEN}], "tool_call_id": "c1"},
    {"role": "assistant", "content": [{"type": "text", "text": TOLD}]},
)
AIDER = f"""
# aider chat started at 2030-01-02 03:04:05

> Aider v0.86.0
> Main model: m with diff edit format

#### {ASKED}
#### Say it in few words.

{TOLD}
It needs paint.

> Tokens: 2k sent, 30 received.

#### Paint it.

```python
paint("shed")
```

# aider chat started at 2030-01-02 05:04:05

#### Is it dry?

It is dry now.
""".encode()


# -- ATIF, ShareGPT, fine-tuning ---------------------------------------------------------------------------------------

ATIF = _pretty(
    {
        "schema_version": "ATIF-v1.4",
        "session_id": "at",
        "agent": {"name": "gardener", "version": "1", "model_name": "m"},
        "steps": [
            {"step_id": 1, "source": "system", "message": "You know the garden."},
            {"step_id": 2, "source": "user", "message": ASKED, "timestamp": "2030-01-02T03:04:05Z"},
            {
                "step_id": 3,
                "source": "agent",
                "message": "Let me look.",
                "reasoning_content": "Which shed is it?",
                "tool_calls": [{"tool_call_id": "c1", "function_name": "look", "arguments": {"at": "the shed"}}],
                "observation": {"results": [{"source_call_id": "c1", "content": SEEN}]},
                "metrics": {"prompt_tokens": 9, "completion_tokens": 2, "cached_tokens": 3},
            },
            {"step_id": 4, "source": "agent", "message": TOLD},
        ],
        "final_metrics": {"total_steps": 4},
    }
)
_TURNS = [
    {"from": "system", "value": "You know the garden."},
    {"from": "human", "value": ASKED},
    {"from": "function_call", "value": '{"name": "look", "arguments": {"at": "the shed"}}'},
    {"from": "observation", "value": SEEN},
    {"from": "gpt", "value": TOLD},
]
SHAREGPT = _pretty([{"id": "sg1", "conversations": _TURNS}, {"id": "sg2", "conversations": _TURNS[1:2]}])
SHAREGPT_LINES = _lines({"id": "sg1", "conversations": _TURNS})
_TRAINING = [
    {"role": "system", "content": "You know the garden."},
    {"role": "user", "content": ASKED},
    {"role": "assistant", "content": None, "tool_calls": [_CHAT_CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": SEEN},
    {"role": "assistant", "content": TOLD, "weight": 1},
]
FINE_TUNING = _lines({"messages": _TRAINING, "tools": []}, {"messages": _TRAINING[:2]}, {"messages": _TRAINING})

AGENT_FILES: dict[str, tuple[str, bytes]] = {
    "adk": ("adk", ADK),
    "adk-lines": ("adk", ADK_LINES),
    "agents-state": ("openai-agents", AGENTS_STATE),
    "agents-items": ("openai-agents", AGENTS_ITEMS),
    "claude-stream": ("claude-stream", CLAUDE_STREAM),
    "codex-stream": ("codex-stream", CODEX_STREAM),
    "sharegpt": ("sharegpt", SHAREGPT),
    "sharegpt-lines": ("sharegpt", SHAREGPT_LINES),
    "fine-tuning": ("openai-chat", FINE_TUNING),
    "aider": ("aider", AIDER),
    "qwen": ("qwen-code", QWEN),
    "kimi": ("kimi", KIMI),
    "goose": ("goose", GOOSE),
    "goose-bare": ("goose", GOOSE_BARE),
    "goose-export": ("goose", GOOSE_EXPORT),
    "atif": ("atif", ATIF),
}
"""Name -> (format, bytes)."""
