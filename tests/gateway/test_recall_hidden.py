"""The model's lookups are answered by the gateway, and the client never sees them."""

from __future__ import annotations

import httpx
import msgspec
import pytest

from tests.gateway.recall_setting import (
    HIDDEN_WORDS,
    RECALLS,
    TALKS,
    Final,
    Provider,
    Talk,
    count_recalls,
    find_tools,
    look_up,
    serve_recall,
)
from tests.models.loopback import SPOKEN, Served
from tests.models.streams import stream_events

pytestmark = [pytest.mark.parametrize("wire", TALKS), pytest.mark.costly(2)]
both_ways = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
LOOK = Served(finish="tool", call=("n1", "look", {"path": "a.py"}), tokens=(2_000, 9), thought=("So look.", "sig2"))
DONE = Served("It is done.", tokens=(2_500, 7), thought=("Ah.", "sig2"))


def assert_clean(final: Final, provider: Provider) -> None:
    """The client has nothing of a lookup, and the provider had nothing to refuse."""
    assert not [name for name in RECALLS if name in str(final)]
    assert provider.refused == []


@both_ways
def test_a_lookup_is_answered_with_the_hidden_past(wire: str, *, streamed: bool) -> None:
    talk = TALKS[wire]
    with Provider(look_up(thought=("Hm.", "sig1")), DONE) as provider, serve_recall(provider) as (url, gateway):
        final = talk.ask(url, talk.build_history(), streamed=streamed)
    first, second = provider.rounds
    assert find_tools(first) == ["look", *RECALLS]
    assert HIDDEN_WORDS not in first.prompt
    assert HIDDEN_WORDS in second.prompt
    assert (final.text, final.calls, final.prompt) == ("It is done.", [], 2_500)
    assert_clean(final, provider)
    assert count_recalls(gateway) == 1


@both_ways
def test_the_client_goes_on_with_what_it_was_given(wire: str, *, streamed: bool) -> None:
    talk = TALKS[wire]
    answers = (look_up(thought=("Hm.", "sig1")), LOOK, look_up("r2", thought=("Hm.", "sig3")), DONE)
    with Provider(*answers) as provider, serve_recall(provider) as (url, gateway):
        items = talk.build_history()
        first = talk.ask(url, items, streamed=streamed)
        assert first.calls == ["look"]
        final = talk.ask(url, [*items, *first.message, *talk.add_results(["n1"])], streamed=streamed)
    assert (final.text, final.calls) == ("It is done.", [])
    assert_clean(first, provider)
    assert_clean(final, provider)
    assert count_recalls(gateway) == 2
    assert "sig2" in provider.rounds[2].prompt or wire in (
        "openai-chat",
        "gemini",
    )  # the answer it made itself is whole


@both_ways
def test_several_lookups_in_a_row_and_at_once(wire: str, *, streamed: bool) -> None:
    talk = TALKS[wire]
    several = Served(
        finish="tool",
        call=("r1", "recall_search", {"words": "quokka"}),
        also=(("r2", "recall_read", {"entry": "8"}), ("r3", "recall_expand", {"wrong": 1})),
    )
    read = Served(finish="tool", call=("r4", "recall_read", {"entry": "8", "around": 1}))
    with Provider(several, read, DONE) as provider, serve_recall(provider) as (url, gateway):
        final = talk.ask(url, talk.build_history(), streamed=streamed)
    assert final.text == "It is done."
    assert_clean(final, provider)
    assert count_recalls(gateway) == 4
    assert "recall_expand needs the argument 'block', a string" in provider.rounds[1].prompt
    assert provider.rounds[1].prompt.count("part 3: ") >= 1
    assert len(provider.rounds[2].prompt) > len(provider.rounds[1].prompt) > len(provider.rounds[0].prompt)


@both_ways
def test_what_was_said_before_a_lookup_stays_in_a_stream(wire: str, *, streamed: bool) -> None:
    talk = TALKS[wire]
    first = look_up(text="Let me look that up. ", speaks_first=True, tokens=(1_000, 5))
    with Provider(first, LOOK) as provider, serve_recall(provider) as (url, gateway):
        items = talk.build_history()
        final = talk.ask(url, items, streamed=streamed)
        talk.ask(url, [*items, *final.message, *talk.add_results(["n1"])], streamed=streamed)
    assert final.text == ("Let me look that up. " if streamed else "")
    assert (final.calls, final.prompt) == (["look"], 2_000)
    assert_clean(final, provider)
    assert "Let me look that up. " in provider.rounds[1].prompt
    assert count_recalls(gateway) == 1


@both_ways
def test_without_a_lookup_the_bytes_pass(wire: str, *, streamed: bool) -> None:
    talk = TALKS[wire]
    with Provider(LOOK) as provider, serve_recall(provider) as (url, _):
        answer = send_plain(talk, url, streamed=streamed)
    model = provider.rounds[0].model
    whole = SPOKEN[provider.rounds[0].api](LOOK, model)
    if streamed:
        assert answer.content == b"".join(stream_events(provider.rounds[0].api, whole))
    else:
        assert answer.json() == whole
    assert find_tools(provider.rounds[0]) == ["look", *RECALLS]


@both_ways
def test_without_recall_nothing_is_added(wire: str, *, streamed: bool) -> None:
    talk = TALKS[wire]
    with Provider(look_up()) as provider, serve_recall(provider, recall="none") as (url, gateway):
        final = talk.ask(url, talk.build_history(), streamed=streamed)
    assert find_tools(provider.rounds[0]) == ["look"]
    assert final.calls == ["recall_search"]  # the model made it up, and the client is told
    assert len(provider.rounds) == 1
    assert count_recalls(gateway) == 0


def test_a_tool_of_the_clients_own_with_that_name_keeps_it(wire: str) -> None:
    talk = TALKS[wire]
    with Provider(look_up()) as provider, serve_recall(provider) as (url, _):
        answer = send_plain(talk, url, streamed=False, name="recall_search")
    assert find_tools(provider.rounds[0]) == ["recall_search"]
    assert b"recall_search" in answer.content


def send_plain(talk: Talk, url: str, *, streamed: bool, name: str = "look") -> httpx.Response:
    """Sends a request without a client, to see the bytes."""
    path, body = build_plain(talk, streamed=streamed, name=name)
    return httpx.post(f"{url}{path}", content=body, timeout=500)


def build_plain(talk: Talk, *, streamed: bool, name: str = "look") -> tuple[str, bytes]:
    """The path and the body of a request."""
    parameters = {"type": "object", "properties": {}}
    body: dict[str, object] = {"model": "m1", "stream": streamed}
    match talk.wire:
        case "openai-chat":
            path = "/v1/chat/completions"
            body["tools"] = [{"type": "function", "function": {"name": name, "parameters": parameters}}]
        case "openai-responses":
            path = "/v1/responses"
            body["tools"] = [{"type": "function", "name": name, "parameters": parameters}]
        case "anthropic":
            path = "/v1/messages"
            body |= {"max_tokens": 1_000, "tools": [{"name": name, "input_schema": parameters}]}
        case _:
            path = f"/v1beta/models/m1:{'streamGenerateContent?alt=sse' if streamed else 'generateContent'}"
            body = {"tools": [{"functionDeclarations": [{"name": name}]}]}
    field = {"openai-responses": "input", "gemini": "contents"}.get(talk.wire, "messages")
    return path, msgspec.json.encode({**body, field: talk.build_history()})
