"""Trajectories and data sets: ATIF, the interchange format of Harbor, and ShareGPT.

docs/formats/agents.md describes the mapping.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tenfold.core.record.entry import Usage
from tenfold.core.record.message import Message, Part, Thinking, ToolCall, get_text, get_tool_calls, get_tool_result
from tenfold.core.wire.profiles import MADE_ID_PREFIX
from tenfold.errors import UnknownRole
from tenfold.formats.content_blocks import (
    list_texts,
    make_answer,
    make_prompt,
    make_result,
    parse_blocks,
    parse_output,
    render_arguments,
)
from tenfold.formats.item_lists import Record, RecordFormat, RecordRules
from tenfold.formats.json_items import get_object, list_objects, parse_json
from tenfold.formats.message_parts import dump_json, parse_call
from tenfold.formats.session_draft import parse_token_count

# -- ATIF --------------------------------------------------------------------------------------------------------------


def _parse_step(step: dict[str, Any]) -> Record:
    parts = parse_blocks(step.get("message"))
    observed = list_objects(get_object(step, "observation"), "results")
    source = step.get("source")
    if source != "agent":
        if source not in ("user", "system"):
            raise UnknownRole(str(source))
        return Record([make_prompt(source, parts), *(_make_output(each) for each in observed)])
    calls = [
        parse_call(c.get("tool_call_id"), c.get("function_name"), c.get("arguments"))
        for c in list_objects(step, "tool_calls")
    ]
    thought = step.get("reasoning_content")
    thoughts: list[Part] = [Thinking(thought)] if isinstance(thought, str) and thought else []
    names = {call.id: call.name for call in calls}
    results = []
    for index, each in enumerate(observed):
        own = each.get("source_call_id")
        own = calls[index].id if own is None and len(calls) == len(observed) else own
        name = names.get(str(own))
        results.append(_make_output(each) if name is None else make_result(own, name, _read_output(each)))
    return Record([make_answer([*thoughts, *parts, *calls]), *results], _parse_metrics(step))


def _read_output(result: Mapping[str, Any]) -> object:
    return result.get("content") if result.get("content") is not None else result.get("subagent_trajectory_ref")


def _make_output(result: Mapping[str, Any]) -> Message:
    """Makes the message of something observed that no call asked for."""
    return Message("user", parse_output(_read_output(result)), "tool")


def _parse_metrics(step: Mapping[str, Any]) -> Usage | None:
    metrics = get_object(step, "metrics")
    keys = ("prompt_tokens", "completion_tokens", "cached_tokens")
    prompt, output, cached = (parse_token_count(metrics.get(key)) for key in keys)
    return Usage(prompt, output, cached, 0, str(step.get("model_name") or "")) if prompt else None


def _render_steps(messages: Sequence[Message]) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for message in messages:
        result = get_tool_result(message)
        if result is None:
            source = {"assistant": "agent", "system": "system"}.get(message.role, "user")
            step: dict[str, Any] = {"step_id": 0, "source": source, "message": "\n".join(list_texts(message))}
            if calls := get_tool_calls(message):
                step["tool_calls"] = [
                    {"tool_call_id": c.id, "function_name": c.name, "arguments": render_arguments(c)} for c in calls
                ]
            out.append(step)
            continue
        if not out:
            call = {"tool_call_id": result.call_id, "function_name": result.name, "arguments": {}}
            out.append({"step_id": 0, "source": "agent", "message": "", "tool_calls": [call]})
        observed = out[-1].setdefault("observation", {"results": []})
        observed["results"].append({"source_call_id": result.call_id, "content": get_text(message)})
    return out


ATIF = RecordFormat(
    "atif",
    RecordRules(
        parse=_parse_step,
        render=_render_steps,
        paths=(("steps",),),
        session_keys=("session_id", "trajectory_id"),
        id_key="",
        has_results=True,
        frame=(b'{"schema_version": "ATIF-v1.4", "agent": {"name": "tenfold"}, "steps": [', b"]}\n"),
    ),
)
"""Reads and writes trajectories."""


# -- ShareGPT ----------------------------------------------------------------------------------------------------------

_SHARE_ROLES: Mapping[str, str] = {
    **dict.fromkeys(("human", "user"), "user"),
    **dict.fromkeys(("gpt", "assistant", "chatgpt", "bing", "bard", "model"), "assistant"),
    **dict.fromkeys(("tool", "observation", "function_response", "function"), "tool"),
    "function_call": "call",
    "system": "system",
}
_CALL_ID = f"{MADE_ID_PREFIX}call"


def _parse_turn(turn: dict[str, Any]) -> Record:
    value = turn.get("value")
    role = _SHARE_ROLES.get(str(turn.get("from")))
    match role:
        case "assistant":
            return Record([make_answer(parse_blocks(value))])
        case "tool":
            return Record([make_result(_CALL_ID, "", value)])
        case "call":
            return Record([make_answer([_parse_call(value)])])
        case None:
            raise UnknownRole(str(turn.get("from")))
    return Record([make_prompt(role, parse_blocks(value))])


def _parse_call(value: object) -> ToolCall:
    try:
        call = parse_json(value.encode("utf-8", "replace")) if isinstance(value, str) else value
    except ValueError:
        call = None
    if isinstance(call, dict) and "name" in call:
        return parse_call(_CALL_ID, call["name"], call.get("arguments"))
    return parse_call(_CALL_ID, "tool", value)


def _render_turns(messages: Sequence[Message]) -> list[dict[str, Any]]:
    names = {"user": "human", "assistant": "gpt", "tool": "observation", "system": "system"}
    out = []
    for message in messages:
        calls = get_tool_calls(message)
        if not calls or list_texts(message):
            out.append({"from": names[message.role], "value": get_text(message)})
        for call in calls:
            made = {"name": call.name, "arguments": render_arguments(call)}
            out.append({"from": "function_call", "value": dump_json(made).decode()})
    return out


SHAREGPT = RecordFormat(
    "sharegpt",
    RecordRules(
        parse=_parse_turn,
        render=_render_turns,
        paths=(("conversations",), ("conversation",), ("items",)),
        frame=(b'{"conversations": [', b"]}\n"),
        list_opening=lambda top: (
            [make_prompt("system", parse_blocks(s))] if isinstance(s := top.get("system"), str) and s else []
        ),
    ),
)
"""Reads and writes conversations of ShareGPT."""
