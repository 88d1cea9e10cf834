"""Law 7 within a format: what nobody touched comes back byte for byte, odd input too. Only a role may be refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tenfold.core.record.message import Message, Text
from tenfold.core.view.rules import check_messages, validate
from tenfold.core.wire import WIRES, splice
from tenfold.core.wire.splice import slice_array
from tenfold.errors import BadInput, UnknownRole
from tests.sessions import require_sessions
from tests.wire.arrays import get_arrays_by_name
from tests.wire.strategies import LISTS, Json, json_arrays, quick, texts, values


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


KEYS = [
    "content", "parts", "type", "text", "tool_calls", "tool_call_id", "id", "call_id", "name", "input", "output",
    "functionCall", "functionResponse", "args", "response", "summary", "encrypted_content", "source", "tool_use_id",
    "thinking", "signature", "thoughtSignature", "inlineData", "refusal", "image_url", "is_error", "arguments",
    "function",
]  # fmt: skip
KINDS = [
    "text", "tool_use", "tool_result", "thinking", "image", "document", "message", "reasoning", "function_call",
    "function_call_output", "custom_tool_call", "image_url", "input_text", "output_text", "file", "compaction",
]  # fmt: skip
ROLES = {
    "anthropic": ["user", "assistant"], "openai-chat": ["user", "assistant", "tool", "system"],
    "openai-responses": ["user", "assistant", "system"], "gemini": ["user", "model"],
}  # fmt: skip


def odd_values() -> st.SearchStrategy[Json]:
    leaf = values | st.sampled_from(KINDS) | texts
    return st.recursive(
        leaf,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
        max_leaves=10,
    )


@st.composite
def messages(draw: st.DrawFn, wire: str) -> list[dict[str, Json]]:
    out: list[dict[str, Json]] = []
    for _ in range(draw(st.integers(0, 4))):
        message = draw(st.dictionaries(st.sampled_from(KEYS), odd_values(), max_size=4))
        if wire == "openai-responses" and draw(st.booleans()):
            message["type"] = draw(st.sampled_from(KINDS[7:11]))
        else:
            message.pop("type", None)
        out.append({**message, "role": draw(st.sampled_from(ROLES[wire]))})
    return out


@pytest.mark.parametrize("wire", WIRES)
@quick
@given(data=st.data())
def test_any_json_in_any_place_comes_back_and_can_be_sent_anywhere(wire: str, data: st.DataObject) -> None:
    natives = data.draw(messages(wire))
    items = [json.dumps(native).encode() for native in natives]
    decoded = WIRES[wire].decode(items)
    assert [item.raw for item in WIRES[wire].encode(decoded).items if item.indices] == items
    for target in WIRES:
        encoded = WIRES[target].encode(decoded)
        once = [item.raw for item in encoded.items]
        again = WIRES[target].decode(once)
        assert [i.raw for i in WIRES[target].encode(again).items] == once
        check_messages(decoded, target)
    assert all(v.index >= 0 for v in validate(natives, wire))


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[", b'[{"role":"user"}', b"[1]", b'["x"]', b'[{"role":"ghost"}]', b'[{"role":7}]', b"\xff[]"]
)
def test_broken_input_names_its_place(wire: str, data: bytes) -> None:
    with pytest.raises(BadInput) as raised:
        WIRES[wire].decode(slice_array(data).items)
    assert len(str(raised.value)) > 20
    if b"role" in data and data.endswith(b"]"):
        assert isinstance(raised.value, UnknownRole)


@pytest.mark.parametrize("wire", WIRES)
def test_a_number_that_json_has_not_is_refused_with_its_place(wire: str) -> None:
    raw = b'{"role":"user","content":"q","parts":[],"n":NaN}'
    with pytest.raises(BadInput, match=r"message 1 is not valid JSON: .*byte 44"):
        WIRES[wire].decode([raw.replace(b"NaN", b"1"), raw])


@pytest.mark.parametrize(("wire", "native", "says"), [
    ("anthropic", {"role": "robot", "content": "x"}, "message 1 has role 'robot'"),
    ("anthropic", {"content": "x"}, "user, assistant, system"),
    ("openai-chat", {"role": "bot"}, r"message 1 has role 'bot'; .*system, developer, user, assistant, tool"),
    ("openai-responses", {"role": "tool"}, r"item 1 has role 'tool'; .*system, developer, user, assistant"),
    ("gemini", {"role": "assistant", "parts": []}, r"content 1 has role 'assistant'; .*user, model, function"),
])  # fmt: skip
def test_an_unknown_role_is_refused_with_its_place_and_the_known_ones(wire: str, native: object, says: str) -> None:
    with pytest.raises(UnknownRole, match=says):
        WIRES[wire].decode([b'{"role":"user"}', json.dumps(native).encode()])


def test_what_is_no_object_is_refused_with_its_place() -> None:
    with pytest.raises(BadInput, match="message 1 is not a JSON object"):
        WIRES["anthropic"].decode([b'{"role":"user"}', b"[1]"])
