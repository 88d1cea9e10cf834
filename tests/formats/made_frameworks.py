"""Made-up files of chat programs and agent frameworks, each modelled on what the program writes."""

from __future__ import annotations

import json
from collections.abc import Sequence


def _pretty(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=2).encode() + b"\n"


def _lines(*values: object) -> bytes:
    return b"".join(json.dumps(v, ensure_ascii=False).encode() + b"\n" for v in values)


# -- ChatGPT -----------------------------------------------------------------------------------------------------------


def _make_node(own: str, parent: str | None, *children: str, **message: object) -> dict[str, object]:
    filled = {"id": own, "status": "finished_successfully", "recipient": "all", "metadata": {}, **message}
    return {"id": own, "message": filled if message else None, "parent": parent, "children": list(children)}


def _make_said(role: str, *parts: object, kind: str = "text", **rest: object) -> dict[str, object]:
    content = {"content_type": kind, "parts": list(parts)}
    return {"author": {"role": role, "name": None}, "content": content, "create_time": 1893553445.5, **rest}


_NODES = {
    "root": _make_node("root", None, "sys"),
    "d": _make_node("d", "c", **_make_said("assistant", "The shed is green.")),
    "sys": _make_node("sys", "root", "a", **_make_said("system", "You know the garden.")),
    "a": _make_node("a", "sys", "b", "x", **_make_said("user", "What colour is the shed?")),
    "x": _make_node("x", "a", **_make_said("assistant", "An answer that was made anew.")),
    "b": _make_node(
        "b",
        "a",
        "c",
        author={"role": "assistant"},
        content={"content_type": "code", "language": "unknown", "text": 'search("colour of the shed")'},
        recipient="browser",
    ),
    "c": _make_node("c", "b", "d", **_make_said("tool", "The shed was painted green.")),
}
_CHATS = [
    {
        "title": "The shed",
        "create_time": 1893553440.0,
        "mapping": _NODES,
        "moderation_results": [],
        "current_node": "d",
        "conversation_id": "chat-1",
        "default_model_slug": "gpt-x",
    },
    {
        "title": "Picture",
        "mapping": {
            "r": _make_node("r", None, "u"),
            "u": _make_node(
                "u",
                "r",
                "t",
                **_make_said(
                    "user",
                    {"content_type": "image_asset_pointer", "asset_pointer": "file-service://f"},
                    "What is this?",
                    kind="multimodal_text",
                ),
            ),
            "t": _make_node(
                "t",
                "u",
                "v",
                author={"role": "assistant"},
                content={"content_type": "thoughts", "thoughts": [{"summary": "Look", "content": "I look at it"}]},
            ),
            "v": _make_node("v", "t", **_make_said("assistant", "A shed.")),
        },
        "current_node": "v",
        "id": "chat-2",
    },
]
CHATGPT = _pretty(_CHATS)
CHATGPT_ONE = _pretty(_CHATS[0])


# -- LangChain and LangGraph -------------------------------------------------------------------------------------------

_CALL = {"name": "look", "args": {"at": "the shed"}, "id": "c1", "type": "tool_call"}
_LC_FIELDS: Sequence[tuple[str, str, dict[str, object]]] = (
    ("system", "SystemMessage", {"content": "You know the garden.", "additional_kwargs": {}}),
    ("human", "HumanMessage", {"content": "What colour is the shed?", "id": "m1", "additional_kwargs": {}}),
    (
        "ai",
        "AIMessage",
        {
            "content": [
                {"type": "text", "text": "Let me look."},
                {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "the shed"}},
            ],
            "id": "m2",
            "tool_calls": [_CALL],
            "invalid_tool_calls": [],
            "additional_kwargs": {"reasoning_content": "Which shed is it?"},
            "response_metadata": {"model_name": "m"},
            "usage_metadata": {
                "input_tokens": 20,
                "output_tokens": 5,
                "total_tokens": 25,
                "input_token_details": {"cache_read": 8},
            },
        },
    ),
    (
        "tool",
        "ToolMessage",
        {"content": "It is green and dry.", "tool_call_id": "c1", "name": "look", "status": "success", "id": "m3"},
    ),
    ("ai", "AIMessage", {"content": "The shed is green.", "tool_calls": [], "id": "m4", "additional_kwargs": {}}),
)
_LC_FLAT = [{"type": kind, **fields} for kind, _, fields in _LC_FIELDS]
LANGCHAIN = _pretty([{"type": kind, "data": {"type": kind, **fields}} for kind, _, fields in _LC_FIELDS])
LANGCHAIN_LC = _pretty(
    [
        {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", name], "kwargs": {"type": kind, **f}}
        for kind, name, f in _LC_FIELDS
    ]
)
LANGCHAIN_LINES = _lines(*_LC_FLAT)
LANGGRAPH = _pretty({"values": {"messages": _LC_FLAT, "step": 3}, "next": [], "config": {"thread_id": "t"}})
LANGGRAPH_CHECKPOINT = _pretty({"v": 4, "ts": "2030-01-02T03:04:05", "channel_values": {"messages": _LC_FLAT}})


# -- Vercel AI SDK -----------------------------------------------------------------------------------------------------

_UI = [
    {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "What colour is the shed?"}]},
    {
        "id": "u2",
        "role": "assistant",
        "metadata": {"model": "m"},
        "parts": [
            {"type": "step-start"},
            {"type": "reasoning", "text": "Which shed is it?", "state": "done"},
            {"type": "text", "text": "Let me look."},
            {
                "type": "tool-look",
                "toolCallId": "c1",
                "state": "output-available",
                "input": {"at": "the shed"},
                "output": {"colour": "green and dry"},
            },
            {
                "type": "dynamic-tool",
                "toolName": "smell",
                "toolCallId": "c2",
                "state": "output-error",
                "input": {},
                "errorText": "no nose here",
            },
            {"type": "step-start"},
            {"type": "text", "text": "The shed is green."},
            {"type": "source-url", "sourceId": "s", "url": "https://example.org"},
        ],
    },
    {"id": "u3", "role": "user", "parts": [{"type": "text", "text": "And the door?"}]},
]
VERCEL_UI = _pretty(_UI)
VERCEL_CHATS = _lines({"id": "chat-a", "messages": _UI}, {"id": "chat-b", "messages": _UI[:1]})
VERCEL_OLD = _pretty(
    [
        {"id": "v1", "role": "user", "content": "What colour is the shed?"},
        {
            "id": "v2",
            "role": "assistant",
            "content": "",
            "toolInvocations": [
                {
                    "state": "result",
                    "toolCallId": "c1",
                    "toolName": "look",
                    "args": {},
                    "result": "It is green and dry.",
                }
            ],
        },
    ]
)
VERCEL_MODEL = _pretty(
    [
        {"role": "system", "content": "You know the garden."},
        {"role": "user", "content": [{"type": "text", "text": "What colour is the shed?"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "reasoning", "text": "Which shed is it?"},
                {"type": "text", "text": "Let me look."},
                {"type": "tool-call", "toolCallId": "c1", "toolName": "look", "input": {"at": "the shed"}},
                {"type": "tool-call", "toolCallId": "c2", "toolName": "look", "input": {}},
            ],
        },
        {
            "role": "tool",
            "content": [
                {
                    "type": "tool-result",
                    "toolCallId": "c1",
                    "toolName": "look",
                    "output": {"type": "json", "value": {"colour": "green and dry"}},
                },
                {
                    "type": "tool-result",
                    "toolCallId": "c2",
                    "toolName": "look",
                    "output": {"type": "error-text", "value": "no such shed"},
                },
            ],
        },
        {"role": "assistant", "content": "The shed is green."},
    ]
)


# -- Bedrock Converse --------------------------------------------------------------------------------------------------

_CONVERSE: Sequence[dict[str, object]] = (
    {"role": "user", "content": [{"text": "What colour is the shed?"}]},
    {
        "role": "assistant",
        "content": [
            {"reasoningContent": {"reasoningText": {"text": "Which shed is it?", "signature": "sig"}}},
            {"text": "Let me look."},
            {"toolUse": {"toolUseId": "c1", "name": "look", "input": {"at": "the shed"}}},
            {"toolUse": {"toolUseId": "c2", "name": "look", "input": {}}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"toolResult": {"toolUseId": "c1", "content": [{"json": {"colour": "green and dry"}}]}},
            {"toolResult": {"toolUseId": "c2", "content": [{"text": "no such shed"}], "status": "error"}},
            {"text": "Hurry up, please."},
        ],
    },
    {"role": "assistant", "content": [{"text": "The shed is green."}]},
)
CONVERSE = _pretty(list(_CONVERSE))
CONVERSE_REQUEST = _pretty({"modelId": "m", "system": [{"text": "You know the garden."}], "messages": list(_CONVERSE)})
STRANDS = _lines(
    *({"message": m, "message_id": n, "created_at": "2030-01-02T03:04:05"} for n, m in enumerate(_CONVERSE))
)


# -- pydantic-ai -------------------------------------------------------------------------------------------------------

PYDANTIC_AI = _pretty(
    [
        {
            "parts": [
                {"content": "You know the garden.", "part_kind": "system-prompt", "timestamp": "2030-01-02T03:04:05Z"},
                {"content": "What colour is the shed?", "part_kind": "user-prompt"},
            ],
            "instructions": None,
            "kind": "request",
        },
        {
            "parts": [
                {"content": "Which shed is it?", "part_kind": "thinking", "signature": None},
                {"content": "Let me look.", "part_kind": "text"},
                {"tool_name": "look", "args": {"at": "the shed"}, "tool_call_id": "c1", "part_kind": "tool-call"},
            ],
            "usage": {"input_tokens": 20, "output_tokens": 5},
            "model_name": "m",
            "kind": "response",
        },
        {
            "parts": [
                {
                    "tool_name": "look",
                    "content": "It is green and dry.",
                    "tool_call_id": "c1",
                    "part_kind": "tool-return",
                }
            ],
            "kind": "request",
        },
        {"parts": [{"content": "The shed is green.", "part_kind": "text"}], "model_name": "m", "kind": "response"},
    ]
)

FRAMEWORK_FILES: dict[str, tuple[str, bytes]] = {
    "chatgpt": ("chatgpt", CHATGPT),
    "chatgpt-one": ("chatgpt", CHATGPT_ONE),
    "langchain": ("langchain", LANGCHAIN),
    "langchain-lc": ("langchain", LANGCHAIN_LC),
    "langchain-lines": ("langchain", LANGCHAIN_LINES),
    "langgraph": ("langchain", LANGGRAPH),
    "langgraph-checkpoint": ("langchain", LANGGRAPH_CHECKPOINT),
    "vercel-ui": ("vercel-ui", VERCEL_UI),
    "vercel-chats": ("vercel-ui", VERCEL_CHATS),
    "vercel-old": ("vercel-ui", VERCEL_OLD),
    "vercel-model": ("vercel-model", VERCEL_MODEL),
    "converse": ("bedrock-converse", CONVERSE),
    "converse-request": ("bedrock-converse", CONVERSE_REQUEST),
    "strands": ("bedrock-converse", STRANDS),
    "pydantic-ai": ("pydantic-ai", PYDANTIC_AI),
}
"""Name -> (format, bytes)."""
