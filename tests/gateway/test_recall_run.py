"""A long run with lookups of every kind: nothing of them in the client's list, and nothing that a provider refuses."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.gateway.recall_setting import (
    RECALLS,
    TALKS,
    Final,
    Provider,
    count_recalls,
    find_tools,
    look_up,
    serve_recall,
)
from tests.models.loopback import Got, Served

Call = tuple[str, str, dict[str, Any]]
TURNS = 30


class Wandering:
    """A model that works and looks things up as it likes."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - it plays a model
        self.number = 0
        self.lookups = 0

    def answer(self, got: Got) -> Served:
        """The next answer: work, a lookup, or both, with thinking and a text or without."""
        self.number += 1
        number, pick = f"w{self.number}", self.random.random
        look: Call = (number, "look", {"path": f"src/part{number}.py"})
        thought = (f"Thinking {number}.", f"signed-{number}") if pick() < 0.5 or got.api == "generate" else None
        text = f"Step {number}. " if pick() < 0.3 else ""
        told: dict[str, Any] = {"text": text, "speaks_first": True, "thought": thought, "tokens": (got.size // 4, 20)}
        if "recall_search" not in find_tools(got) or pick() < 0.5:
            return Served(finish="tool", call=look, **told)
        self.lookups += 1
        search: Call = (f"r{number}", "recall_search", {"words": self.random.choice(("quokka", "alpha9", "none", ""))})
        read: Call = (f"q{number}", self.random.choice(RECALLS), {"entry": str(self.random.randrange(60)), "part": 1})
        choices: list[list[Call]] = [[search], [search, read], [search, look], [look, search]]
        first, *also = self.random.choice(choices)
        return Served(finish="tool", call=first, also=tuple(also), **told)


@pytest.mark.costly(4)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("wire", TALKS)
def test_a_long_run_with_lookups(wire: str, *, streamed: bool) -> None:
    talk, model = TALKS[wire], Wandering(len(wire))
    with Provider(model.answer) as provider, serve_recall(provider) as (url, gateway):
        items = talk.build_history()
        for turn in range(TURNS):
            final = talk.ask(url, items, streamed=streamed)
            items += [*final.message, *talk.add_results(find_ids(final), f"seen {turn}: " + "delta " * 150)]
    assert provider.refused == []
    assert not [name for name in RECALLS if name in str(items)]
    assert count_recalls(gateway) > 5
    assert len(provider.rounds) > TURNS
    assert gateway.log.totals.sessions == {next(iter(gateway.log.totals.sessions)): TURNS}
    assert max(got.size for got in provider.rounds) // 4 < 12_000  # the window, and four rounds of results


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_a_conversation_that_the_provider_holds_is_the_one_that_the_client_saw(*, streamed: bool) -> None:
    talk = TALKS["openai-responses"]
    spoken = look_up(text="Let me look that up. ", speaks_first=True)
    look = Served(finish="tool", call=("n1", "look", {"path": "a.py"}))
    with Provider(spoken, look, Served("It is done.")) as provider, serve_recall(provider) as (url, _):
        first = talk.ask(url, talk.build_history(), streamed=streamed, extra={"store": True})
        held = {"store": True, "previous_response_id": "resp_1"}
        final = talk.ask(url, talk.add_results(["n1"]), streamed=streamed, extra=held)
    sent = provider.rounds[2].body
    assert (first.calls, final.text) == (["look"], "It is done.")
    assert "previous_response_id" not in sent
    assert "recall_search" not in str(sent["input"][-4:])
    assert [item["type"] for item in sent["input"][-2:]] == ["function_call", "function_call_output"]
    assert ("Let me look that up. " in str(sent["input"])) == streamed
    assert provider.refused == []


def find_ids(final: Final) -> list[str]:
    """The ends of the ids of the calls that the client has to run."""
    found: list[str] = []
    for item in final.message:
        blocks = [item, *(item.get("content") or ()), *(item.get("tool_calls") or ()), *(item.get("parts") or ())]
        for block in blocks:
            if isinstance(block, dict) and ("call_id" in block or block.get("type") in ("tool_use", "function")):
                found.append(str(block.get("call_id") or block["id"]).partition("_")[2])
            if isinstance(block, dict) and "functionCall" in block:
                found.append("")
    return found
