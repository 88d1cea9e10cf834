"""What providers were really sent is clean, and so is what `before_model` and `compact` give to be sent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import Any

import pytest

from tenfold import compact, validate
from tenfold.core.record.entry import get_message
from tenfold.core.wire import WIRES
from tests.engine.making import FILLER, open_session
from tests.sessions import ROOT, read, require_sessions
from tests.view.refused import HELLO, ask, content, give, respond, run, use
from tests.wire.arrays import get_arrays_by_name

Item = dict[str, Any]
EXAMPLES = ("desk.openai-chat.json", "logs.pi.jsonl", "pricing.claude-code.jsonl", "tracker.codex.jsonl")
SHORT_ARRAYS = ("django__django-10097", "gemini", "cline", "claude-code", "scenario-constraints", "scenario-tool-noise")
MODEL_SPEAKS = frozenset({"assistant", "model", "function_call", "reasoning"})
WIDE, NARROW = 1_000_000, 8_000
LONG = FILLER * 40


def find_requests(items: Sequence[Item]) -> list[int]:
    """Where a request was sent: how many items stand before each answer of the model."""
    speaks = [(item.get("role") or item.get("type")) in MODEL_SPEAKS for item in items]
    return [at for at in range(1, len(items)) if speaks[at] and not speaks[at - 1]]


@cache
def convert_example(name: str, wire: str) -> list[Item]:
    """An example session as its messages would be sent over a wire."""
    messages = [m for e in read(ROOT / "examples" / "sessions" / name)[0].entries if (m := get_message(e)) is not None]
    return [json.loads(item.raw) for item in WIRES[wire].encode(messages).items]


def check_what_is_sent(items: list[Item], wire: str) -> None:
    """Checks a request that fits the window, one that has to be compacted, and a list compacted without a session."""
    field = WIRES[wire].profile.request.list_field
    for window in (WIDE, NARROW):
        sent = open_session().before_model({field: items}, window=window, wire=wire)[field]
        assert validate(sent, wire, sending=True) == [], f"window of {window}"
        assert window == WIDE or len(str(sent)) < len(str(items))
    assert validate(compact(items, to=NARROW // 2, format=wire).messages, wire, sending=True) == []


@pytest.mark.parametrize("name", get_arrays_by_name() or ["recorded-sessions-missing"])
def test_recorded_requests_are_clean(name: str) -> None:
    require_sessions()
    array = get_arrays_by_name()[name]
    items = json.loads(array.data)
    is_cut = name == "claude-code"  # the first question of this session is not in its file
    first = next((at for at, item in enumerate(items) if isinstance(item["content"], str)), 0) if is_cut else 0
    requests = [at for at in find_requests(items) if at > first]
    assert validate(items[first:], array.wire) == []
    for at in requests[:: max(1, len(requests) // 20)]:
        assert validate(items[first:at], array.wire, sending=True) == []


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("name", EXAMPLES)
def test_requests_of_examples_are_clean_on_every_wire(name: str, wire: str) -> None:
    items = convert_example(name, wire)
    requests = find_requests(items)
    assert validate(items, wire) == []
    for at in requests[:: max(1, len(requests) // 20)]:
        assert validate(items[:at], wire, sending=True) == []


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("name", EXAMPLES)
def test_what_is_made_of_an_example_is_clean(name: str, wire: str) -> None:
    items = convert_example(name, wire)
    requests = find_requests(items)
    check_what_is_sent(items[: requests[len(requests) // 3]], wire)


@pytest.mark.parametrize("name", SHORT_ARRAYS)
def test_what_is_made_of_a_recorded_request_is_clean(name: str) -> None:
    require_sessions()
    array = get_arrays_by_name()[name]
    items = json.loads(array.data)
    requests = find_requests(items)
    check_what_is_sent(items[: requests[-1]], array.wire)


def make_long_run(wire: str) -> list[Item]:
    """A question and steps with long arguments, of which the model has not answered to the newest."""
    arguments = [{"path": "a.txt", "text": f"{n}: {LONG}"} for n in range(12)]
    if wire == "anthropic":
        steps = [[use(f"t{n}", input=each), give(f"t{n}")] for n, each in enumerate(arguments)]
        return [ask(), *chain.from_iterable(steps)]
    calls = [run(args=each) for each in arguments]
    return [HELLO, *chain.from_iterable([content("model", each), content("user", respond())] for each in calls)]


@pytest.mark.parametrize("wire", ["anthropic", "gemini"])
def test_the_newest_step_as_one_line_does_not_end_a_request_with_an_answer(wire: str) -> None:
    sent = compact(make_long_run(wire), to=1_200, format=wire).messages
    assert "[step] " in str(sent[-1])
    assert sent[-1]["role"] == "user"
    assert validate(sent, wire, sending=True) == []
    again = WIRES[wire].decode([json.dumps(sent[-1]).encode()])
    assert [m.origin for m in again] == ["harness"]
