"""Reports of usage in the forms in which frameworks give them: objects of an SDK, dataclasses, sums of a run."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from tenfold.config.settings import build_policy
from tenfold.core.meter.counters import choose_counter
from tenfold.session import Session, SessionAddress
from tenfold.session.requests import read_usage
from tenfold.store.base import Store
from tests.session.replayed import read_blocks

WINDOW = 8_000
TOOL = {
    "type": "function",
    "name": "look",
    "parameters": {"properties": {"path": {"type": "string"}}, "type": "object"},
}


@dataclass
class RequestUsage:
    """As OpenAI's SDK for agents counts one request or several."""

    requests: int = 1
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    request_usage_entries: list[RequestUsage] = field(default_factory=list)


@dataclass
class AgentAnswer:
    """As that SDK gives an answer to its hooks."""

    output: list[dict[str, Any]]
    usage: RequestUsage
    response_id: str | None = None


def build_step(number: int) -> list[dict[str, Any]]:
    """What that SDK adds to the input with each step: the answer as it came from the API, and the tool's result."""
    call = {"call_id": f"call_s{number:03}", "name": "look", "arguments": json.dumps({"path": f"src/part{number}.py"})}
    said = {"type": "output_text", "text": f"Step {number}.", "annotations": [], "logprobs": []}
    result = " ".join("value" if n % 9 else f"line{number}x{n}" for n in range(60))
    return [
        {"id": f"msg_s{number:03}", "content": [said], "role": "assistant", "status": "completed", "type": "message"},
        {**call, "type": "function_call", "id": f"fc_s{number:03}", "status": "completed"},
        {"call_id": call["call_id"], "output": result, "type": "function_call_output"},
    ]


def test_reports_that_an_agent_sdk_hands_to_its_hooks_are_learned(store: Store) -> None:
    policy = build_policy("tenfold", choose_counter("gpt-5").counter)
    session = Session.create(SessionAddress(store, "s"), policy, model="gpt-5")
    items: list[dict[str, Any]] = [{"content": "Look at all parts of the program.", "role": "user"}]
    sent: list[int] = []
    for number in range(150):
        request = {"model": "gpt-5", "instructions": "You look at the parts of a program.", "input": items}
        asked = session.before_model(request, window=WINDOW)
        sent.append(len(json.dumps({**asked, "tools": [TOOL]})) // 4)  # a provider that counts bytes
        session.after_model(AgentAnswer([], RequestUsage(input_tokens=sent[-1], output_tokens=30)))
        items = [*items, *build_step(number)]
    assert max(sent) <= WINDOW
    blocks = read_blocks(store, "s")
    assert len(blocks) > 2
    assert all(block.rung == "extractive" for block in blocks), "each ends in a summary"


@pytest.mark.parametrize(
    "report",
    [
        {"usage": {"input_tokens": 900, "output_tokens": 5}},
        RequestUsage(input_tokens=900, output_tokens=5),
        AgentAnswer([], RequestUsage(input_tokens=900, output_tokens=5)),
        SimpleNamespace(usage=SimpleNamespace(input_tokens=900, output_tokens=5)),
    ],
)
def test_a_report_is_read_from_mappings_dataclasses_and_plain_objects(report: object) -> None:
    usage = read_usage(report)
    assert usage is not None
    assert (usage.prompt, usage.output) == (900, 5)


def test_of_a_sum_over_several_requests_only_the_last_one_counts() -> None:
    parts = [RequestUsage(input_tokens=400), RequestUsage(input_tokens=900, output_tokens=5)]
    usage = read_usage(RequestUsage(requests=2, input_tokens=1_300, output_tokens=9, request_usage_entries=parts))
    assert usage is not None
    assert usage.prompt == 900
    assert read_usage(RequestUsage(requests=2, input_tokens=1_300)) is None
