"""What the provider of a list accepts goes back to it as it came, whatever its order, until something is compacted."""

from __future__ import annotations

from typing import Any

import pytest

from tenfold import compact
from tenfold.view.rules import validate
from tests.engine.making import FILLER, opened

Item = dict[str, Any]
BODY = FILLER * 12


def user(text: str = "go on") -> Item:
    return {"role": "user", "content": text}


def named(id: str) -> Item:
    return {"type": "item_reference", "id": id}


def output(call: str, text: str = "42") -> Item:
    return {"type": "function_call_output", "call_id": call, "output": text}


NAMED: dict[str, list[Item]] = {
    "one call": [user(), named("fc_1"), output("c1")],
    "what the call was thought up with": [user(), named("rs_1"), named("fc_1"), output("c1"), named("msg_1"), user()],
    "two calls": [user(), named("fc_1"), named("fc_2"), output("c2"), output("c1"), user()],
    "step after step": [user(), named("fc_1"), output("c1"), named("fc_2"), output("c2"), user(), named("msg_2")],
}


@pytest.mark.parametrize("items", NAMED.values(), ids=NAMED)
def test_outputs_of_calls_that_are_only_named_are_shown_as_they_came(items: list[Item]) -> None:
    assert validate(items, "openai-responses") == []
    session = opened()
    assert session.before_model({"input": items}, window=100_000)["input"] == items
    assert all(shown.original for shown in session.view.shown())
    assert compact(items, window=100_000, format="openai-responses").messages == items


@pytest.mark.parametrize("policy", ["tenfold", "tail", "threshold", "clip"])
def test_a_named_call_and_its_output_are_kept_or_go_together(policy: str) -> None:
    items = [user("Always run the tests.")]
    for number in range(40):
        items += [named(f"fc_{number}"), output(f"c{number}", f"{number} {BODY}")]
    items.append(user())
    result = compact(items, to=4_000, format="openai-responses", policy=policy)
    assert result.outcome.tokens_after < result.outcome.tokens_before / 2, result.outcome.reason
    names = [item["id"] for item in result.messages if item.get("type") == "item_reference"]
    given = [item["call_id"] for item in result.messages if item.get("type") == "function_call_output"]
    assert [name.removeprefix("fc_") for name in names] == [call.removeprefix("c") for call in given]
