"""Lookups beside other calls, the limit of rounds, and what is too long."""

from __future__ import annotations

import pytest

from tests.gateway.recall_setting import (
    FAILURES,
    RECALLS,
    TALKS,
    Provider,
    count_recalls,
    find_tools,
    look_up,
    serve_recall,
)
from tests.models.loopback import Got, Served

pytestmark = [
    pytest.mark.parametrize("wire", TALKS),
    pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"]),
]
DONE = Served("It is done.", tokens=(2_500, 7))
LOOK = ("n1", "look", {"path": "a.py"})
SEARCH = ("r1", "recall_search", {"words": "quokka"})


def test_a_call_behind_a_lookup_is_made_again(wire: str, *, streamed: bool) -> None:
    talk = TALKS[wire]
    first = Served(finish="tool", call=SEARCH, also=(LOOK,), thought=("Both.", "sig1"))
    again = Served(finish="tool", call=("n2", "look", {"path": "a.py"}), thought=("Now.", "sig2"))
    with Provider(first, again) as provider, serve_recall(provider) as (url, gateway):
        final = talk.ask(url, talk.build_history(), streamed=streamed)
    assert final.calls == ["look"]
    assert "n2" in str(final.message) or wire == "gemini"
    assert "n1" not in str(final.message)
    assert "This call was not run" in provider.rounds[1].prompt
    assert provider.refused == []
    assert count_recalls(gateway) == 1


def test_a_call_before_a_lookup_is_the_clients_in_a_stream(wire: str, *, streamed: bool) -> None:
    """It has passed already, so that the lookup is left out; the model makes it again."""
    talk = TALKS[wire]
    first = Served(finish="tool", call=LOOK, also=(SEARCH, ("n2", "look", {"path": "b.py"})), thought=("All.", "sig1"))
    with Provider(first, DONE) as provider, serve_recall(provider) as (url, gateway):
        items = talk.build_history()
        final = talk.ask(url, items, streamed=streamed)
        if streamed:
            talk.ask(url, [*items, *final.message, *talk.add_results(["n1", "n2"])], streamed=True)
    assert final.calls == (["look", "look"] if streamed else [])
    assert not [name for name in RECALLS if name in str(final)]
    assert final.stop in (
        ("tool_calls", "tool_use", "completed", "STOP") if streamed else ("stop", "end_turn", "completed", "STOP")
    )
    assert count_recalls(gateway) == (0 if streamed else 1)
    assert provider.refused == []


def test_after_four_rounds_the_model_has_to_answer(wire: str, *, streamed: bool) -> None:
    talk = TALKS[wire]

    def answer(got: Got) -> Served:
        return look_up(f"r{len(provider.rounds)}") if "recall_search" in find_tools(got) else DONE

    with Provider(answer) as provider, serve_recall(provider) as (url, gateway):
        final = talk.ask(url, talk.build_history(), streamed=streamed)
    assert final.text == "It is done."
    assert [len(find_tools(got)) for got in provider.rounds] == [4, 4, 4, 4, 1]
    assert count_recalls(gateway) == 4
    assert provider.refused == []


def test_a_lookup_without_the_tools_is_left_out(wire: str, *, streamed: bool) -> None:
    talk = TALKS[wire]

    def answer(_: Got) -> Served:
        number = len(provider.rounds)
        spoken = number > 4
        return look_up(
            f"r{number}", text="All I know." if spoken else "", speaks_first=spoken, thought=("Hm.", f"sig{number}")
        )

    with Provider(answer) as provider, serve_recall(provider) as (url, _):
        final = talk.ask(url, talk.build_history(), streamed=streamed)
    assert (final.text, final.calls) == ("All I know.", [])
    assert final.stop in ("stop", "end_turn", "completed", "STOP")
    assert len(provider.rounds) == 5


def test_nothing_but_lookups_is_an_error(wire: str, *, streamed: bool) -> None:
    talk = TALKS[wire]
    with (
        Provider(lambda _: look_up(f"r{len(provider.rounds)}")) as provider,
        serve_recall(provider) as (url, _),
        pytest.raises(FAILURES, match="no answer came but lookups"),
    ):
        talk.ask(url, talk.build_history(), streamed=streamed)
    assert len(provider.rounds) == 5


def test_what_does_not_fit_is_left_out(wire: str, *, streamed: bool) -> None:
    talk = TALKS[wire]
    too_long = Served(status=400, error="prompt is too long: 9000 tokens > 8000 maximum")
    with Provider(look_up(), too_long, DONE) as provider, serve_recall(provider) as (url, _):
        final = talk.ask(url, talk.build_history(), streamed=streamed)
    assert final.text == "It is done."
    assert [len(find_tools(got)) for got in provider.rounds] == [4, 4, 1]
    assert provider.refused == []
