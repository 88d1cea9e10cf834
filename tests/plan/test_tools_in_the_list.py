"""What defines tools inside the list, and what only the provider can read, is in every view: calls need it."""

from __future__ import annotations

import json
from typing import Any

import pytest

import tenfold
from tenfold import POLICIES, Session, SessionAddress, open_store, validate


def fill(number: int) -> str:
    return " ".join(f"row{number}x{k}" for k in range(60))


def item(role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


TALK: list[dict[str, Any]] = [
    each for n in range(40) for each in (item("user", f"Q{n} {fill(n)}"), item("assistant", f"A{n} {fill(n + 99)}"))
]
TOOL = {"type": "function", "name": "exec_command_xyz", "parameters": {"type": "object", "properties": {}}}


def call(id_: str, **fields: str) -> list[dict[str, Any]]:
    return [
        {"type": "function_call", "call_id": id_, "name": TOOL["name"], "arguments": "{}", **fields},
        {"type": "function_call_output", "call_id": id_, "output": "42"},
    ]


SEARCH: list[dict[str, Any]] = [
    {
        "type": "tool_search_call",
        "call_id": "s",
        "status": "completed",
        "execution": "client",
        "arguments": {"q": "crm"},
    },
    {
        "type": "tool_search_output",
        "call_id": "s",
        "status": "completed",
        "execution": "client",
        "tools": [{"type": "namespace", "name": "crm", "tools": [TOOL]}],
    },
]
RESPONSES: dict[str, list[dict[str, Any]]] = {
    "additional_tools": [{"type": "additional_tools", "role": "developer", "tools": [TOOL]}, *TALK, item("user", "go")],
    "tool_search_output": [item("user", "find"), *SEARCH, *call("d", namespace="crm"), *TALK, item("user", "again")],
    "mcp_list_tools": [
        item("user", "a"),
        {"type": "mcp_list_tools", "id": "m", "server_label": "x", "tools": []},
        *TALK,
    ],
    "context_compaction": [{"type": "context_compaction", "encrypted_content": "OPAQUE"}, *TALK, item("user", "go")],
    "compaction": [{"type": "compaction", "encrypted_content": "OPAQUE"}, *TALK, item("user", "go")],
}


def build_anthropic() -> list[dict[str, Any]]:
    found = {"type": "tool_result", "tool_use_id": "s", "content": [{"type": "tool_reference", "tool_name": "AskZZ"}]}
    search = {"type": "tool_use", "id": "s", "name": "ToolSearch", "input": {"query": "ask"}}
    out: list[dict[str, Any]] = [
        {"role": "user", "content": "Send memos."},
        {"role": "assistant", "content": [search]},
        {"role": "user", "content": [found]},
        {"role": "assistant", "content": "ok"},
    ]
    for n in range(40):
        out += [
            {"role": "user", "content": f"Q{n} {fill(n)}"},
            {"role": "assistant", "content": f"A{n} {fill(n + 99)}"},
        ]
    use = {"type": "tool_use", "id": "u", "name": "AskZZ", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "u", "content": "no"}
    return [
        *out,
        {"role": "user", "content": "more"},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result]},
    ]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", RESPONSES)
def test_it_is_never_compacted_away(kind: str, policy: str) -> None:
    fields = {"namespace": "crm"} if kind == "tool_search_output" else {}
    items = [*RESPONSES[kind], *call("e", **fields)]
    result = tenfold.compact(items, to=4_000, format="openai-responses", policy=policy)
    assert result.outcome.status == "compacted"
    assert kind in [each.get("type") for each in result.messages]
    assert result.outcome.violations == ()
    assert validate(items, "openai-responses", sending=True) == []
    assert validate(result.messages, "openai-responses", sending=True) == []


@pytest.mark.parametrize("policy", POLICIES)
def test_found_tools_of_anthropic_stay(policy: str) -> None:
    result = tenfold.compact(build_anthropic(), to=4_000, format="anthropic", policy=policy)
    assert result.outcome.status == "compacted"
    assert '"tool_reference"' in json.dumps(result.messages)
    assert validate(result.messages, "anthropic", sending=True) == []


def test_they_stay_in_a_session_however_often_it_is_compacted() -> None:
    session = Session.create(SessionAddress(open_store(":memory:"), "s"), "tenfold")
    items = [*RESPONSES["additional_tools"]]
    for n in range(3):
        items = [*items, *TALK, item("user", f"go {n}"), *call(f"c{n}")]
        sent = session.before_model({"input": items}, window=24_000, wire="openai-responses")["input"]
        assert len(sent) < len(items)
        assert items[0] in sent


def test_a_call_whose_definition_is_gone_is_found_before_it_is_sent() -> None:
    items = [item("user", "again"), *call("e", namespace="crm")]
    assert validate(items, "openai-responses") == []
    (found,) = validate(items, "openai-responses", sending=True)
    assert (found.rule, found.index, found.path) == ("call_defined", 1, "namespace")
    defined = [{"type": "namespace", "name": "crm", "tools": [TOOL]}]
    assert validate(items, "openai-responses", sending=True, tools=defined) == []
    assert validate([*SEARCH, *items], "openai-responses", sending=True) == []
