"""A view that is compacted by itself fills its target: what the texts leave of it goes to elided outputs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tenfold.config.settings import build_policy
from tenfold.core.meter.counters import CharacterCounter
from tenfold.session import Session, SessionAddress
from tenfold.store.base import Store

WINDOW = 32_000
TARGET = 0.4 * WINDOW


def call(number: int, result: str) -> list[dict[str, Any]]:
    function = {"name": "read", "arguments": json.dumps({"path": f"lib/part{number}.py"})}
    made = {"id": f"c{number}", "type": "function", "function": function}
    said = {"role": "assistant", "content": f"I read part {number}.", "tool_calls": [made]}
    return [said, {"role": "tool", "tool_call_id": f"c{number}", "content": result}]


def compact(store: Store, messages: list[dict[str, Any]]) -> tuple[int, str]:
    session = Session.create(SessionAddress(store, "s"), build_policy("tenfold", CharacterCounter()))
    sent = session.before_model({"model": "m", "messages": messages}, window=WINDOW)
    assert session.outcome is not None
    assert session.outcome.status == "compacted"
    return session.outcome.tokens_after, json.dumps(sent["messages"])


def write_rows(number: int, rows: int) -> str:
    return "\n".join(f"row {n} of part {number} holds the value {n * 7919 % 10_007}" for n in range(rows))


def test_an_output_is_cut_only_as_far_as_needed(store: Store) -> None:
    history = [{"role": "user", "content": "Look at the parts."}, *call(1, write_rows(1, 2_600)), *call(2, "ok")]
    tokens, sent = compact(store, [*history, {"role": "user", "content": "And now?"}])
    assert 0.6 * TARGET < tokens <= TARGET
    assert "row 100 of part 1" in sent


@pytest.mark.parametrize("rows", [30, 60])
def test_the_newest_elided_outputs_are_shown_again_where_the_summary_leaves_room(rows: int, store: Store) -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Look at the parts."}]
    count = 2_250 // rows
    for number in range(count):
        messages += call(number, write_rows(number, rows))
    tokens, sent = compact(store, [*messages, {"role": "user", "content": "And now?"}])
    assert 0.8 * TARGET < tokens <= 1.06 * TARGET
    assert f"row {rows - 1} of part {count - 1}" in sent


def call_all(results: list[str]) -> list[dict[str, Any]]:
    """One answer that calls the tool once for each result."""
    steps = [call(number, result) for number, result in enumerate(results)]
    said = {**steps[0][0], "tool_calls": [step[0]["tool_calls"][0] for step in steps]}
    return [said, *(step[1] for step in steps)]


@pytest.mark.parametrize("rows", [(1_300, 1_300), (2_500, 20), (20, 2_500), (600, 600, 600, 600), (60, 2_400, 900)])
@pytest.mark.parametrize("later_results", [(), ("ok",)], ids=["newest", "older"])
def test_the_outputs_of_one_step_share_the_room(
    rows: tuple[int, ...], later_results: tuple[str, ...], store: Store
) -> None:
    outputs = [write_rows(number, count) for number, count in enumerate(rows)]
    end = call(len(rows), later_results[0]) if later_results else []
    tokens, sent = compact(store, [{"role": "user", "content": "Look at the parts."}, *call_all(outputs), *end])
    assert 0.8 * TARGET < tokens <= 1.05 * TARGET
    for number, count in enumerate(rows):
        assert f"row 10 of part {number} " in sent
        assert f"row {count - 1} of part {number} " in sent
