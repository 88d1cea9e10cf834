"""Law 7 within a format: what nobody touched comes back byte for byte."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tenfold.core.record.message import Message, Text
from tenfold.core.wire import WIRES, splice
from tests.sessions import require_sessions
from tests.wire.arrays import get_arrays_by_name
from tests.wire.strategies import LISTS, json_arrays, quick


def encode_items(messages: list[Message], wire: str) -> tuple[bytes, ...]:
    return tuple(item.raw for item in WIRES[wire].encode(messages).items if item.indices)


def test_the_recorded_arrays_are_there() -> None:
    require_sessions()
    assert len(get_arrays_by_name()) >= 25


@pytest.mark.parametrize("wire", WIRES)
@quick
@given(data=st.data())
def test_generated_items_come_back_byte_for_byte(wire: str, data: st.DataObject) -> None:
    items = splice.slice_array(data.draw(json_arrays(LISTS[wire]()))).items
    assert encode_items(WIRES[wire].decode(items), wire) == items


@pytest.mark.parametrize("name", get_arrays_by_name())
def test_recorded_items_come_back_as_the_very_items(name: str) -> None:
    session = get_arrays_by_name()[name]
    items = splice.slice_array(session.data).items
    encoded = WIRES[session.wire].encode(session.decode())
    own = [item for item in encoded.items if item.indices]
    assert tuple(item.raw for item in own) == items
    assert all(item.exact for item in own)
    assert {a.kind for a in encoded.adjustments} <= {"opening_stub"}


@pytest.mark.parametrize("wire", WIRES)
@quick
@given(data=st.data())
def test_every_message_appears_in_exactly_one_item_and_in_order(wire: str, data: st.DataObject) -> None:
    items = [json.dumps(m).encode() for m in data.draw(LISTS[wire]())]
    messages = WIRES[wire].decode(items)
    seen = [i for item in WIRES[wire].encode(messages).items for i in item.indices]
    assert list(dict.fromkeys(seen)) == list(range(len(messages)))


def test_an_answer_alone_is_opened_in_a_request() -> None:
    encoded = WIRES["anthropic"].encode(WIRES["anthropic"].decode([b'{"role":"assistant","content":"hello"}']))
    assert [a.kind for a in encoded.adjustments] == ["opening_stub"]
    assert [item.indices for item in encoded.items] == [(), (0,)]


def test_lone_surrogates_keep_their_bytes_and_read_as_replacement_characters() -> None:
    raw = rb'{"role":"user","content":"cut \ud83d emoji \ud83d\ude00"}'
    messages = WIRES["openai-chat"].decode([raw])
    assert messages[0].parts == (Text("cut \ufffd emoji \U0001f600"),)
    assert encode_items(messages, "openai-chat") == (raw,)
    stub = replace(messages[0], native=None, parts=(Text("a\ud83d"),))
    assert json.loads(encode_items([stub], "openai-chat")[0])["content"] == "a\ufffd"
