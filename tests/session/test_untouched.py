"""What the provider of a list accepts goes back to it as it came, whatever its order, until something is compacted."""

from __future__ import annotations

from typing import Any

import pytest

from tenfold import compact
from tenfold.core.view.rules import validate
from tests.engine.making import FILLER, open_session

Item = dict[str, Any]
BODY = FILLER * 12


def make_user(text: str = "go on") -> Item:
    return {"role": "user", "content": text}


def make_reference(id: str) -> Item:
    return {"type": "item_reference", "id": id}


def make_output(call: str, text: str = "42") -> Item:
    return {"type": "function_call_output", "call_id": call, "output": text}


NAMED: dict[str, list[Item]] = {
    "one call": [make_user(), make_reference("fc_1"), make_output("c1")],
    "what the call was thought up with": [
        make_user(),
        make_reference("rs_1"),
        make_reference("fc_1"),
        make_output("c1"),
        make_reference("msg_1"),
        make_user(),
    ],
    "two calls": [
        make_user(),
        make_reference("fc_1"),
        make_reference("fc_2"),
        make_output("c2"),
        make_output("c1"),
        make_user(),
    ],
    "step after step": [
        make_user(),
        make_reference("fc_1"),
        make_output("c1"),
        make_reference("fc_2"),
        make_output("c2"),
        make_user(),
        make_reference("msg_2"),
    ],
}


@pytest.mark.parametrize("items", NAMED.values(), ids=NAMED)
def test_outputs_of_calls_that_are_only_named_are_shown_as_they_came(items: list[Item]) -> None:
    assert validate(items, "openai-responses") == []
    session = open_session()
    assert session.before_model({"input": items}, window=100_000)["input"] == items
    assert all(shown.is_original for shown in session.view.get_visible_messages())
    assert compact(items, window=100_000, format="openai-responses").messages == items


@pytest.mark.parametrize("policy", ["tenfold", "tail", "threshold", "clip"])
def test_a_named_call_and_its_output_are_kept_or_go_together(policy: str) -> None:
    items = [make_user("Always run the tests.")]
    for number in range(40):
        items += [make_reference(f"fc_{number}"), make_output(f"c{number}", f"{number} {BODY}")]
    items.append(make_user())
    result = compact(items, to=4_000, format="openai-responses", policy=policy)
    assert result.outcome.tokens_after < result.outcome.tokens_before / 2, result.outcome.reason
    names = [item["id"] for item in result.messages if item.get("type") == "item_reference"]
    given = [item["call_id"] for item in result.messages if item.get("type") == "function_call_output"]
    assert [name.removeprefix("fc_") for name in names] == [call.removeprefix("c") for call in given]


def make_call(id: str) -> Item:
    return {"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"}


def make_answer(text: str) -> Item:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def make_tool_use(id: str) -> Item:
    return {"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": "f", "input": {}}]}


def make_tool_results(*ids: str) -> Item:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": one, "content": "o"} for one in ids]}


MOVED: dict[str, tuple[str, list[Item]]] = {
    "words before the output": (
        "openai-responses",
        [make_user(), make_call("c1"), make_user("hurry"), make_output("c1")],
    ),
    "an answer before the output": (
        "openai-responses",
        [
            make_user(),
            make_call("c1"),
            make_answer("waiting"),
            make_user("ok"),
            make_answer("still waiting"),
            make_user("ok"),
            make_output("c1"),
        ],
    ),
    "words before what a named call gave": (
        "openai-responses",
        [make_user(), make_reference("fc_1"), make_user(), make_output("c1")],
    ),
    "one step in two answers": (
        "anthropic",
        [make_user(), make_tool_use("a"), make_tool_use("b"), make_tool_results("a", "b"), make_user()],
    ),
}
FIELD = {"openai-responses": "input", "anthropic": "messages"}


@pytest.mark.parametrize(("wire", "items"), MOVED.values(), ids=MOVED)
def test_results_that_may_stand_where_they_are_stay_there(wire: str, items: list[Item]) -> None:
    assert validate(items, wire) == []
    session = open_session()
    sent = session.before_model({FIELD[wire]: items}, window=100_000, wire=wire)[FIELD[wire]]
    assert all(a is b for a, b in zip(sent, items, strict=True))
    result = compact(items, window=100_000, format=wire)
    assert all(a is b for a, b in zip(result.messages, items, strict=True))
    assert (result.outcome.violations, result.adjustments) == ((), ())


def test_what_the_provider_refuses_is_mended() -> None:
    items = [make_user(), make_call("c1"), make_user("go on")]
    session = open_session()
    assert len(session.before_model({"input": items}, window=100_000)["input"]) == len(items) + 1
    assert len(compact(items, window=100_000, format="openai-responses").messages) == len(items) + 1


def test_the_view_is_sent_again_after_an_undo_in_place_of_a_summary() -> None:
    items = [make_user("Always run the tests.")]
    for number in range(30):
        items += [make_call(f"c{number}"), make_output(f"c{number}", f"{number} {BODY}")]
    session = open_session()
    shorter = session.before_model({"input": items}, window=8_000)["input"]
    assert len(str(shorter)) < len(str(items)) / 2
    session.undo()
    assert session.before_model({"input": shorter})["input"] == items
