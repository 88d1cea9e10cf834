"""Guessing the wire of a list of which nobody said what it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenfold.core.wire import WIRES, detect_wire, get_wire, splice, to_json_bytes
from tenfold.errors import BadInput, UnknownFormat
from tests.wire.arrays import get_arrays_by_name
from tests.wire.strategies import LISTS, quick


@pytest.mark.parametrize("name", get_arrays_by_name())
def test_recorded_arrays_are_recognised(name: str) -> None:
    session = get_arrays_by_name()[name]
    items = splice.slice_array(session.data).items
    told = any(b'"type"' in i or b'"parts"' in i for i in items)
    assert detect_wire(items) == (session.wire if told else "openai-chat")


@pytest.mark.parametrize(
    ("message", "wire"),
    [
        ({"role": "user", "parts": []}, "gemini"),
        ({"role": "model"}, "gemini"),
        ({"role": "assistant", "tool_calls": []}, "openai-chat"),
        ({"role": "tool", "content": "x"}, "openai-chat"),
        ({"role": "system", "content": "x"}, "openai-chat"),
        ({"role": "developer", "content": [{"type": "input_text", "text": "x"}]}, "openai-responses"),
        ({"role": "user", "content": [{"type": "image_url", "image_url": {}}]}, "openai-chat"),
        ({"role": "user", "content": [{"type": "file", "file": {}}]}, "openai-chat"),
        ({"role": "user", "content": [{"type": "image", "source": {}}]}, "anthropic"),
        ({"role": "assistant", "content": [{"type": "tool_use"}]}, "anthropic"),
        ({"type": "reasoning", "summary": []}, "openai-responses"),
        ({"type": "function_call_output"}, "openai-responses"),
        ({"type": "item_reference", "id": "x"}, "openai-responses"),
        ({"type": "message", "role": "user", "content": "x"}, "openai-responses"),
        ({"role": "user", "content": "only text"}, "openai-chat"),
    ],
)
def test_one_message_tells(message: dict[str, object], wire: str) -> None:
    assert detect_wire([{"role": "user", "content": "hello"}, message]) == wire


@quick
@given(data=st.data(), wire=st.sampled_from(["gemini", "openai-responses"]))
def test_generated_lists_are_recognised(data: st.DataObject, wire: str) -> None:
    assert detect_wire(data.draw(LISTS[wire]())) == wire


def test_what_is_none_of_them_is_refused_with_what_was_seen() -> None:
    with pytest.raises(UnknownFormat, match=r"messages like \{kind, body\}; pass format="):
        detect_wire([{"kind": "note", "body": "x"}])
    with pytest.raises(UnknownFormat, match="item 0 is no JSON object"):
        detect_wire(["[1]"])


def test_an_unknown_wire_is_refused_with_those_there_are() -> None:
    with pytest.raises(UnknownFormat, match=", ".join(WIRES)):
        get_wire("smoke-signals")


def test_what_is_no_message_is_refused_by_its_type() -> None:
    with pytest.raises(BadInput, match="not a value of type int"):
        to_json_bytes(7)
    with pytest.raises(BadInput, match=r"what JSON cannot: .*object"):
        to_json_bytes({"role": "user", "content": object()})
