"""JSON that is nested deeper than anybody reads stays a text: nothing fails on it, and its bytes come back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tenfold
from tenfold import Session, SessionAddress, open_store
from tenfold.compaction.facts.redacted_messages import redact_message
from tenfold.compaction.facts.tool_calls import parse_arguments
from tenfold.core.record.entry import get_message
from tenfold.core.record.message import ToolCall, get_tool_calls
from tenfold.core.text.json_text import MAX_DEPTH, decode_json
from tenfold.core.view.rules import validate
from tenfold.core.wire import WIRES, parse_value
from tenfold.core.wire.splice import parse_array, parse_object, slice_array
from tenfold.formats import read_data, render_sessions
from tenfold.formats.json_items import parse_json

DEPTHS = (50, MAX_DEPTH, MAX_DEPTH + 1, 500, 980, 5_000, 100_000)
depths = pytest.mark.parametrize("depth", DEPTHS)
SECRET = "sk-ant-api03-" + "Zk9" * 20


def nest(depth: int, inner: str = "1") -> str:
    return '{"a": ' * (depth - 1) + inner + "}" * (depth - 1)


def build_chat(arguments: str) -> list[bytes]:
    quoted = json.dumps(arguments)
    items = ['{"role": "user", "content": "start"}']
    for n in range(12 if len(arguments) < 20_000 else 2):
        items += [
            f'{{"role": "assistant", "tool_calls": [{{"id": "c{n}", "type": "function", "function": {{"name": "bash", "arguments": {quoted}}}}}]}}',  # noqa: E501
            f'{{"role": "tool", "tool_call_id": "c{n}", "content": {json.dumps(arguments[:30_000])}}}',
            f'{{"role": "assistant", "content": "step {n} is done"}}',
        ]
    return [item.encode() for item in items]


def build_objects(wire: str, nested: str) -> list[bytes]:
    call = {
        "anthropic": ('{"role": "user", "content": "go"}',
                      '{"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "x", "input": %s}]}',
                      '{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "ok"}]}'),
        "gemini": ('{"role": "user", "parts": [{"text": "go"}]}',
                   '{"role": "model", "parts": [{"functionCall": {"name": "x", "args": %s}}]}',
                   '{"role": "user", "parts": [{"functionResponse": {"name": "x", "response": {"output": "ok"}}}]}'),
    }[wire]  # fmt: skip
    return [item.replace("%s", nested).encode() for item in call]


@depths
def test_a_value_is_read_to_the_bound_and_no_deeper(depth: int) -> None:
    text = nest(depth)
    is_read = depth <= MAX_DEPTH + 1  # the innermost level is a number
    assert (decode_json(text) is not None) == (parse_value(text.encode()) is not None) == is_read
    brackets = '{"t": "' + "[" * 1_000 + '\\""}'
    assert decode_json(brackets) == json.loads(brackets)


@depths
def test_raw_slices_do_not_depend_on_the_depth(depth: int) -> None:
    deep = nest(depth).encode()
    fields = parse_object(b'{"k": 1, "deep": ' + deep + b" }")
    assert fields is not None
    assert {key: bytes(raw) for key, raw in fields.items()} == {"k": b"1", "deep": deep}
    assert [bytes(raw) for raw in parse_array(b"[1, " + deep + b"]") or ()] == [b"1", deep]
    assert slice_array(b"[{}, " + deep + b" ]").items == (b"{}", deep)
    for broken in (b'{"deep": ' + deep, deep + b"}", b"[" * depth, b"[" + deep + b"] x"):
        assert parse_object(broken) is None
        assert parse_array(broken) is None


@depths
def test_arguments_stay_what_they_were(depth: int) -> None:
    text = nest(depth, f'"{SECRET}"')
    call = ToolCall("c", "bash", text)
    assert parse_arguments(call).get("command") == text or depth <= MAX_DEPTH + 1
    (message,) = WIRES["openai-chat"].decode([build_chat(text)[1]])
    clean = redact_message(message)
    assert SECRET not in repr(clean)


@pytest.mark.parametrize(
    ("policy", "depth"),
    [
        *(("tenfold", depth) for depth in DEPTHS),
        *((name, 980) for name in ("tail", "tiers", "blocks", "threshold", "clip")),
    ],
)
def test_a_list_with_deep_arguments_is_compacted(policy: str, depth: int) -> None:
    items = build_chat(nest(depth))
    result = tenfold.compact(items, to="20%", policy=policy, format="openai-chat")
    assert result.outcome.status in ("compacted", "nothing", "unsatisfiable")
    assert validate(result.messages, "openai-chat") == []
    assert [item.raw for item in WIRES["openai-chat"].encode(WIRES["openai-chat"].decode(items)).items] == items


@depths
@pytest.mark.parametrize("wire", ["anthropic", "gemini"])
def test_deep_objects_come_back_byte_for_byte(depth: int, wire: str) -> None:
    items = build_objects(wire, nest(depth))
    assert [item.raw for item in WIRES[wire].encode(WIRES[wire].decode(items)).items] == items
    assert [v for v in validate(items, wire) if v.rule in ("message_form", "known_role")] == []
    outcome = tenfold.compact(items, to=10, format=wire).outcome
    assert outcome.tokens_before > depth / 10


@depths
def test_a_session_takes_and_finds_what_stands_beside_it(depth: int, tmp_path: Path) -> None:
    store = open_store(tmp_path / "store.db")
    session = Session.create(SessionAddress(store, "s"), "tenfold")
    items = build_chat(nest(depth, '"needle"'))
    session.before_model({"messages": items}, window=10**8)
    assert session.before_model({"messages": items}, window=10**8)["messages"] == items
    session.compact(to="30%")
    assert session.search("step 1")
    store.close()


@pytest.mark.parametrize("depth", [50, 150, 500, 700])
def test_a_hosts_own_objects_may_be_deep(depth: int) -> None:
    value: object = 1
    for _ in range(depth):
        value = {"a": value}
    call = {"type": "tool_use", "id": "t", "name": "x", "input": value}
    messages = [{"role": "user", "content": "go"}, {"role": "assistant", "content": [call]}]
    messages += [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "ok"}]}]
    session = Session.create(SessionAddress(open_store(":memory:"), "s"), "tenfold")
    for _ in range(2):
        assert session.before_model({"messages": messages}, window=200_000)["messages"] == messages
    assert tenfold.compact(messages, to=10**6).messages[1] is messages[1]


def build_line(kind: str, own: str, parent: str, message: str) -> str:
    line = '{"type":"%s","uuid":"%s","parentUuid":%s,"sessionId":"s","timestamp":"2026-01-01T00:00:00Z","message":%s}'
    return line % (kind, own, parent, message)


@depths
@pytest.mark.parametrize("format", ["claude-code", None])
def test_a_session_file_is_read_whatever_is_nested_in_it(depth: int, format: str | None) -> None:
    deep = nest(depth, '"the needle, \\"quoted\\""')
    lines = (
        build_line("user", "a", "null", '{"role":"user","content":"go"}'),
        build_line("assistant", "b", '"a"', build_objects("anthropic", deep)[1].decode()),
        build_line("user", "c", '"b"', build_objects("anthropic", deep)[2].decode()),
    )
    data = "\n".join(lines).encode() + b"\n"
    (session,) = read_data(data, file="f", format=format)
    assert session.info.format == "claude-code"
    messages = [message for entry in session.entries if (message := get_message(entry)) is not None]
    (call,) = [call for message in messages for call in get_tool_calls(message)]
    assert call.arguments == deep
    assert render_sessions([(session.info, session.entries)]) == data


@depths
def test_a_document_is_read_whatever_is_nested_in_it(depth: int) -> None:
    data = b"[" + b", ".join(build_chat(nest(depth)) + build_objects("anthropic", nest(depth))[:1]) + b"]"
    (session,) = read_data(data, file="f")
    assert render_sessions([(session.info, session.entries)]) == data


@depths
def test_what_is_nested_too_deeply_is_quoted_and_the_rest_stays(depth: int) -> None:
    deep = nest(depth, '[1, {"x": "\\u00e9 \xe9 }"}]')
    value = parse_json(f'{{"before": [1], "deep": {deep}, "after": 2}}'.encode())
    assert (value["before"], value["after"]) == ([1], 2)
    for _ in range(min(depth, MAX_DEPTH - 1) - 1):
        value = value["deep"] if "deep" in value else value["a"]
    inner = value.get("a", value.get("deep"))
    assert isinstance(inner, str) == (depth > MAX_DEPTH - 3), inner


@pytest.mark.parametrize("digits", ["1", "9" * 5_000])
def test_brackets_that_are_never_closed_are_an_error(digits: str) -> None:
    with pytest.raises(json.JSONDecodeError, match="nested too deeply"):
        parse_json(f'{{"n": {digits}, "deep": {"[" * 100_000}'.encode())
