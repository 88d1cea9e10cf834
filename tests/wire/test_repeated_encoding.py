"""Lists that are encoded one after the other give the same bytes as each of them encoded by itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tenfold.core.record.message import Message, Text, ToolCall, ToolResult, get_tool_result
from tenfold.core.wire import WIRES
from tenfold.core.wire.encoding import RepeatedEncoding
from tests.thorough import IS_THOROUGH
from tests.wire.strategies import LISTS

SUMMARY = Message("system", (Text("What came before."),), "tenfold")
EMPTY = Message("user", (Text(""),), "tenfold")
many = settings(
    max_examples=60 if IS_THOROUGH else 20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def shorten(message: Message) -> Message:
    """What stands for a message once its content is hidden."""
    result = get_tool_result(message)
    if result is not None:
        return Message("tool", (replace(result, name="", content=(Text("[hidden]"),)),), "tenfold")
    return Message(message.role, (Text("[hidden]"), *[p for p in message.parts if isinstance(p, ToolCall)]), "tenfold")


@st.composite
def message_lists(draw: st.DrawFn, wire: str) -> list[Message]:
    """A history as a wire decodes it, of which some messages are replaced, left out, or stand elsewhere."""
    natives = [item for _ in range(draw(st.integers(1, 4))) for item in draw(LISTS[wire]())]
    out: list[Message] = []
    for message in WIRES[wire].decode([json.dumps(item).encode() for item in natives]):
        fate = draw(st.sampled_from(["kept"] * 6 + ["shortened", "shortened", "left out", "after nothing", "twice"]))
        kept = [] if fate == "left out" else [shorten(message) if fate == "shortened" else message]
        out += [*([EMPTY] if fate == "after nothing" else []), *kept * (2 if fate == "twice" else 1)]
    return [*([SUMMARY] if draw(st.booleans()) else []), *out]


@dataclass
class Change:
    """How the next list follows from the one before."""

    name: str
    apply: Callable[[st.DataObject, list[Message], list[Message]], list[Message]]


def replace_one(data: st.DataObject, now: list[Message], _: list[Message]) -> list[Message]:
    if not now:
        return now
    at = data.draw(st.integers(0, len(now) - 1))
    return [*now[:at], shorten(now[at]), *now[at + 1 :]]


CHANGES = (
    Change("grow", lambda data, now, whole: whole[: min(len(whole), len(now) + data.draw(st.integers(1, 6)))]),
    Change("grow", lambda data, now, whole: whole[: min(len(whole), len(now) + data.draw(st.integers(1, 6)))]),
    Change("copy", lambda _, now, __: [replace(message) for message in now]),
    Change("replace", replace_one),
    Change("summarize", lambda data, now, _: [SUMMARY, *now[data.draw(st.integers(0, len(now))) :]]),
    Change("undo", lambda _, now, whole: whole[: len(now)]),
    Change("cut", lambda data, now, _: now[: data.draw(st.integers(0, len(now)))]),
)


@pytest.mark.parametrize("source", LISTS)
@many
@given(data=st.data())
def test_a_list_after_others_is_encoded_as_by_itself(source: str, data: st.DataObject) -> None:
    whole = data.draw(message_lists(source))
    encoding, now = RepeatedEncoding(), whole[: data.draw(st.integers(0, len(whole)))]
    target = data.draw(st.sampled_from([source, source, source, *LISTS]))
    for _ in range(data.draw(st.integers(1, 8))):
        assert encoding.encode(now, WIRES[target]) == WIRES[target].encode(now)
        change = data.draw(st.sampled_from(CHANGES))
        now = change.apply(data, now, whole)
        if data.draw(st.integers(0, 9)) == 0:
            target = data.draw(st.sampled_from([*LISTS]))
    assert encoding.encode(now, WIRES[target]) == WIRES[target].encode(now)


def test_a_later_call_with_the_id_of_an_earlier_result_names_it_anew() -> None:
    """The name of a result without one is that of the last call with its id, so the beginning is not as it was."""
    gemini = WIRES["gemini"]
    opening = gemini.decode([b'{"role":"user","parts":[{"text":"Go on."}]}'])
    result = Message("tool", (ToolResult("c", "", (Text("42"),)),), "tool")
    steps = [message for _ in range(8) for message in (Message("assistant", (Text("So."),), "model"), *opening)]
    now = [*opening, result, *steps]
    encoding = RepeatedEncoding()
    assert encoding.encode(now, gemini) == gemini.encode(now)
    now = [*now, Message("assistant", (ToolCall("c", "look"),), "model")]
    assert b'"name":"look"' in gemini.encode(now).items[1].raw
    assert encoding.encode(now, gemini) == gemini.encode(now)


def test_only_what_is_new_is_encoded() -> None:
    """The items of what two lists have in common are the same objects, apart from the newest steps."""
    chat = WIRES["openai-chat"]
    texts = [f'{{"role":"{role}","content":"{at}"}}' for at in range(40) for role in ("user", "assistant")]
    messages = chat.decode([text.encode() for text in texts])
    encoding = RepeatedEncoding()
    first, second = encoding.encode(messages[:60], chat), encoding.encode(messages, chat)
    same = [a is b for a, b in zip(first.items, second.items, strict=False)]
    assert all(same[:50])
    assert second == chat.encode(messages)
