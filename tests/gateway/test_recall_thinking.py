"""What a model thought around a lookup: the client gets only what its provider takes back."""

from __future__ import annotations

import pytest

from tests.gateway.recall_setting import TALKS, AnthropicTalk, Provider, look_up, serve_recall
from tests.models.loopback import Served

both_ways = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
LOOK = Served(finish="tool", call=("n1", "look", {"path": "a.py"}))
DONE = Served("It is done.")
MANUAL = {"model": "claude-haiku-4-5", "thinking": {"type": "enabled", "budget_tokens": 1_024}}


@both_ways
def test_an_answer_begins_with_the_thinking_that_led_to_it(*, streamed: bool) -> None:
    """Anthropic refuses a turn with tools that does not, where the client has set thinking by hand."""
    talk = AnthropicTalk()
    answers = (look_up(thought=("Where was it?", "sig1")), LOOK, DONE)
    with Provider(*answers) as provider, serve_recall(provider) as (url, _):
        items = [*talk.build_history(), talk.say("Go on.")]
        first = talk.ask(url, items, streamed=streamed, extra=MANUAL)
        final = talk.ask(url, [*items, *first.message, *talk.add_results(["n1"])], streamed=streamed, extra=MANUAL)
    assert [block["type"] for block in first.message[0]["content"]] == ["thinking", "tool_use"]
    assert first.message[0]["content"][0]["signature"] == "sig1"
    assert final.text == "It is done."
    assert provider.refused == []


def test_no_thinking_stands_behind_a_text() -> None:
    talk = AnthropicTalk()
    spoken = look_up(text="Let me look. ")
    thinking = Served(finish="tool", call=("n1", "look", {"path": "a.py"}), thought=("Ah.", "sig2"))
    with Provider(spoken, thinking, DONE) as provider, serve_recall(provider) as (url, _):
        items = talk.build_history()
        first = talk.ask(url, items, streamed=True)
        talk.ask(url, [*items, *first.message, *talk.add_results(["n1"])], streamed=True)
    assert [block["type"] for block in first.message[0]["content"]] == ["text", "tool_use"]
    assert provider.refused == []


@pytest.mark.parametrize("wire", ["openai-responses", "anthropic"])
@both_ways
def test_the_thinking_of_a_lookup_is_sent_back_with_it(wire: str, *, streamed: bool) -> None:
    talk = TALKS[wire]
    answers = (look_up(thought=("Where was it?", "sig1")), Served("It is done.", thought=("Ah.", "sig2")))
    with Provider(*answers) as provider, serve_recall(provider) as (url, _):
        final = talk.ask(url, talk.build_history(), streamed=streamed)
    assert "sig1" in provider.rounds[1].prompt
    assert "sig1" not in str(final.message)
    assert "sig2" in str(final.message)
    assert provider.refused == []
