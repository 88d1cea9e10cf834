"""Law 7 within a format: what nobody touched comes back byte for byte."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tenfold.core.record.message import Message, Text
from tenfold.core.wire import WIRES, decode_bytes, encode_bytes, splice
from tests.sessions import require_sessions
from tests.wire.arrays import get_arrays_by_name
from tests.wire.strategies import LISTS, json_arrays, quick


def test_the_recorded_arrays_are_there() -> None:
    require_sessions()
    assert len(get_arrays_by_name()) >= 25


@pytest.mark.parametrize("wire", WIRES)
@quick
@given(data=st.data())
def test_generated_arrays_come_back_byte_for_byte(wire: str, data: st.DataObject) -> None:
    raw = data.draw(json_arrays(LISTS[wire]()))
    assert encode_bytes(decode_bytes(raw, wire), wire) == raw


@pytest.mark.parametrize("name", get_arrays_by_name())
def test_recorded_arrays_come_back_byte_for_byte(name: str) -> None:
    session = get_arrays_by_name()[name]
    messages = decode_bytes(session.data, session.wire)
    assert encode_bytes(messages, session.wire) == session.data


@pytest.mark.parametrize("name", get_arrays_by_name())
def test_recorded_items_come_back_as_the_very_items(name: str) -> None:
    session = get_arrays_by_name()[name]
    items = splice.slice_array(session.data).items
    encoded = WIRES[session.wire].encode(WIRES[session.wire].decode(items))
    own = [item for item in encoded.items if item.indices]
    assert tuple(item.raw for item in own) == items
    assert all(item.exact for item in own)
    assert {a.kind for a in encoded.adjustments} <= {"opening_stub"}


@pytest.mark.parametrize("name", get_arrays_by_name())
def test_natives_concatenated_are_the_array(name: str) -> None:
    session = get_arrays_by_name()[name]
    messages = decode_bytes(session.data, session.wire)
    natives = [m.native for m in messages if m.native is not None]
    assert b"".join(n.lead + n.head + n.body + n.tail for n in natives) == session.data


@pytest.mark.parametrize("wire", WIRES)
@quick
@given(data=st.data())
def test_every_message_appears_in_exactly_one_item_and_in_order(wire: str, data: st.DataObject) -> None:
    items = [json.dumps(m).encode() for m in data.draw(LISTS[wire]())]
    messages = WIRES[wire].decode(items)
    seen = [i for item in WIRES[wire].encode(messages).items for i in item.indices]
    assert list(dict.fromkeys(seen)) == list(range(len(messages)))


def _make_numbered_array(wire: str) -> bytes:
    key, value = ("parts", [{"text": "a"}]) if wire == "gemini" else ("content", "a")
    return json.dumps([{"role": "user", key: value, "n": number} for number in range(3)], indent=2).encode() + b"\n"


@pytest.mark.parametrize("wire", WIRES)
def test_a_replaced_message_leaves_its_neighbours_bytes_and_the_white_space(wire: str) -> None:
    raw = _make_numbered_array(wire)
    messages = decode_bytes(raw, wire)
    messages[1] = Message("user", (Text("stub"),), "tenfold")
    out = encode_bytes(messages, wire)
    before, after = splice.slice_array(raw), splice.slice_array(out)
    assert (after.items[0], after.items[2]) == (before.items[0], before.items[2])
    assert (after.leads, after.end) == (before.leads, before.end)
    assert b"stub" in after.items[1]


@pytest.mark.parametrize("wire", WIRES)
def test_a_removed_first_and_last_message_leave_a_whole_array(wire: str) -> None:
    messages = decode_bytes(_make_numbered_array(wire), wire)
    assert [json.loads(encode_bytes(part, wire))[0]["n"] for part in (messages[1:], messages[:-1])] == [1, 0]
    assert len(json.loads(encode_bytes(messages[1:2], wire))) == 1


@pytest.mark.parametrize("wire", WIRES)
def test_an_empty_array_stays_empty(wire: str) -> None:
    assert encode_bytes(decode_bytes(b"[]", wire), wire) == b"[]"


def test_an_answer_alone_stays_alone_in_a_file_and_is_opened_in_a_request() -> None:
    raw = b'[{"role":"assistant","content":"hello"}]'
    messages = decode_bytes(raw, "anthropic")
    assert encode_bytes(messages, "anthropic") == raw
    encoded = WIRES["anthropic"].encode(messages)
    assert [a.kind for a in encoded.adjustments] == ["opening_stub"]
    assert [item.indices for item in encoded.items] == [(), (0,)]


def test_lone_surrogates_keep_their_bytes_and_read_as_replacement_characters() -> None:
    raw = rb'[{"role":"user","content":"cut \ud83d emoji \ud83d\ude00"}]'
    messages = decode_bytes(raw, "openai-chat")
    assert messages[0].parts == (Text("cut \ufffd emoji \U0001f600"),)
    assert encode_bytes(messages, "openai-chat") == raw
    stub = replace(messages[0], native=None, parts=(Text("a\ud83d"),))
    assert json.loads(encode_bytes([stub], "openai-chat"))[0]["content"] == "a\ufffd"


def test_an_item_does_not_carry_the_end_of_its_array() -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": "o"}
    item = json.dumps({"role": "user", "content": [result, {"type": "text", "text": "q"}]}).encode()
    messages = decode_bytes(b"[" + item + b" ] \n", "anthropic")
    assert len(messages) == 2
    assert WIRES["anthropic"].encode(messages).items[0].raw == item


def test_the_span_of_a_member_is_that_member_only() -> None:
    data = b'{"a":{"content":[0]},"content":[1],"other":[2],"text":"content"}'
    where = splice.find_span(data, "content")
    assert where is not None
    assert data[where[0] : where[1]] == b"[1]"
    assert splice.find_span(b'{"content":"text","other":[2]}', "content") is None
