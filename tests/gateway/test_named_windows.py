"""The limit that a provider's refusal names is the model's window from then on, where nobody knew it."""

from __future__ import annotations

import json
from collections.abc import Callable

import httpx
import pytest

from tenfold.apps.gateway.live_sessions import MAX_WINDOWS
from tenfold.apps.gateway.model_request import ModelRequest, parse_request
from tenfold.store.base import Store
from tests.gateway.conversations import PATHS, Talk
from tests.gateway.loose_sessions import LooseSessions
from tests.gateway.serving import RawAnswer, RawRequest, RawUpstream, run_gateway

LIMIT = 16_385
TEXTS = {
    "chat": (
        "This model's maximum context length is {limit} tokens. However, your messages resulted in {size} tokens. "
        "Please reduce the length of the messages."
    ),
    "messages": "prompt is too long: {size} tokens > {limit} maximum",
    "generate": "The input token count ({size}) exceeds the maximum number of tokens allowed ({limit}).",
}


def build_provider(text: str, limit: int = LIMIT) -> Callable[[RawRequest], RawAnswer]:
    """A provider that takes so many tokens, of four bytes each, reports what it counts, and names its limit."""

    def answer(request: RawRequest) -> RawAnswer:
        size = len(request.body) // 4
        if size > limit:
            error = {"error": {"type": "invalid_request_error", "message": text.format(size=size, limit=limit)}}
            return RawAnswer((json.dumps(error).encode(),), 400)
        return RawAnswer((json.dumps({"usage": {"prompt_tokens": size, "completion_tokens": 5}}).encode(),))

    return answer


def count_refused(upstream: RawUpstream) -> int:
    """How many requests were too long."""
    return sum(len(got.body) // 4 > LIMIT for got in upstream.requests)


def build_talk(kind: str, tag: str = "a", *, steps: int = 1) -> Talk:
    """A conversation with a model that no table knows."""
    talk = Talk(kind, tag)
    talk.extra = {"model": "unheard-of-model"}
    talk.add_user("Look at all parts. Never touch config/secret.toml.")
    talk.add_steps(steps, 300)
    return talk


def send(gateway: str, talk: Talk) -> httpx.Response:
    """Sends a conversation. Gemini's model stands in the path."""
    if talk.kind != "generate":
        return talk.send(gateway)
    url = f"{gateway}/v1beta/models/unheard-of-model:generateContent"
    return httpx.post(url, content=talk.build_body(), headers=talk.headers, timeout=500)


@pytest.mark.costly(3)
@pytest.mark.parametrize("kind", TEXTS)
def test_a_named_limit_is_the_window_from_then_on(kind: str, store: Store) -> None:
    talk = build_talk(kind)
    with run_gateway(build_provider(TEXTS[kind]), store=store) as (upstream, gateway):
        for _ in range(40):
            talk.add_steps(1, 300)
            assert send(gateway.url, talk).status_code == 200
        assert count_refused(upstream) == 1, "the provider had to say it once"
        assert b"Never touch config/secret.toml." in upstream.requests[-1].body
        other = build_talk(kind, "b")
        for _ in range(30):
            other.add_steps(1, 300)
            assert send(gateway.url, other).status_code == 200
        assert count_refused(upstream) == 1, "it holds for every session of the model"


@pytest.mark.costly(3)
@pytest.mark.parametrize("kind", TEXTS)
def test_a_request_far_above_the_named_limit_is_brought_below_it(kind: str, store: Store) -> None:
    talk = build_talk(kind, steps=120)
    with run_gateway(build_provider(TEXTS[kind]), store=store) as (upstream, gateway):
        assert len(talk.build_body()) > 3 * 4 * LIMIT
        assert send(gateway.url, talk).status_code == 200
        assert count_refused(upstream) == 1


def test_what_one_user_or_model_is_told_holds_for_no_other(store: Store) -> None:
    first, second, third = (build_talk("chat", tag, steps=60) for tag in "abc")
    second.headers = {"authorization": "Bearer sk-two"}
    third.extra = {"model": "another-model"}
    with run_gateway(build_provider(TEXTS["chat"]), store=store) as (upstream, gateway):
        for number, talk in enumerate((first, second, third), 1):
            for _ in range(2):
                talk.add_steps(1, 10)
                assert talk.send(gateway.url).status_code == 200
            assert count_refused(upstream) == number


@pytest.mark.parametrize("named", ["5", "99999999999"])
def test_a_number_that_can_be_no_window_is_not_believed(named: str, store: Store) -> None:
    talk = build_talk("chat", steps=40)
    with run_gateway(build_provider(f"maximum context length is {named} tokens"), store=store) as (upstream, gateway):
        for _ in range(3):
            talk.add_steps(1, 10)
            assert talk.send(gateway.url).status_code == 200
        assert max(len(got.body) for got in upstream.requests[1:]) > LIMIT, "it is not crushed to nothing"


def test_a_configured_window_is_only_lowered(store: Store) -> None:
    talk = build_talk("chat")
    with run_gateway(build_provider(TEXTS["chat"]), store=store, window=400_000) as (upstream, gateway):
        for _ in range(40):
            talk.add_steps(1, 300)
            assert talk.send(gateway.url).status_code == 200
        assert count_refused(upstream) == 1


def test_the_windows_of_many_models_are_bounded(store: Store) -> None:
    def ask(model: str) -> ModelRequest:
        request = parse_request(PATHS["chat"], b'{"model":"%s","messages":[]}' % model.encode())
        assert request is not None
        return request

    sessions = LooseSessions(store, httpx.AsyncClient()).sessions
    for number in range(MAX_WINDOWS + 10):
        sessions.note_window("t", ask(f"m{number}"), 8_000)
    assert [sessions.find_window("t", ask(model)) for model in ("m0", f"m{MAX_WINDOWS}")] == [16_000, 8_000]
