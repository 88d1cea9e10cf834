"""Odd input: any JSON in any place, doubled ids, nothing at all. Bytes survive, and only a role may be refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenfold.core.view.rules import check_messages, validate
from tenfold.core.wire import WIRES
from tenfold.core.wire.splice import slice_array
from tenfold.errors import BadInput, UnknownRole
from tests.wire.strategies import Json, quick, texts, values

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
