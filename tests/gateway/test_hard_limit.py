"""Compaction never stops a request: slow, broken or refused summaries, and providers that say a request is too long."""

from __future__ import annotations

import gzip
import json
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tenfold.store.base import Store
from tests.gateway.conversations import KINDS, Talk, fill_words
from tests.gateway.serving import RawAnswer, RawRequest, run_gateway, run_loopback
from tests.models.loopback import Got, Served

pytestmark = pytest.mark.costly(5)

Json = dict[str, Any]
WINDOW = 16_000
KEY = "sk-only-for-this-server-0123456789abcdef"


GARBAGE = "I cannot help with that. " * 3
FAULTS: dict[str, Served] = {
    "an error": Served(status=500),
    "no credentials": Served(status=401),
    "too many": Served(status=429, retry_after=30),
    "too long": Served(status=400, error="prompt is too long: 218849 tokens > 200000 maximum"),
    "nothing": Served(text=""),
    "garbage": Served(text=GARBAGE),
    "far too long": Served(text="word " * 40_000),
    "a call": Served(finish="tool"),
    "cut off": Served(text="## Goal\nTo", finish="length"),
    "a refusal": Served(text="No.", finish="refusal"),
    "slow": Served(text="## Goal\nTo look.", hang=1.5),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_client_goes_on_whatever_happens_to_the_summaries(fault: str, kind: str, store: Store) -> None:
    if kind != "chat" and fault not in ("an error", "garbage", "nothing"):
        pytest.skip("what is not about the API is tried with one")

    def script(got: Got) -> Served:
        return Served(text="ok", tokens=(got.size // 4, 5)) if has_tools(got) else FAULTS[fault]

    def has_tools(got: Got) -> bool:
        return bool(got.body.get("tools"))

    talk = Talk(kind)
    talk.headers = {"authorization": f"Bearer {KEY}"}
    with run_loopback(script, store=store, window=WINDOW) as (upstream, gateway):
        talk.add_user("Look at all parts. Never touch config/secret.toml.")
        for _ in range(40):
            talk.add_answer(fill_words("said", 250))
            talk.add_user(fill_words("asked", 100))
            talk.add_step(50)
            assert talk.send(gateway.url).status_code == 200
        calls = [got for got in upstream.requests if has_tools(got)]
        summaries = [got for got in upstream.requests if not has_tools(got)]
    assert len(calls) == 40
    assert max(got.size for got in calls) < WINDOW * 4
    assert "Never touch config/secret.toml" in calls[-1].prompt
    assert summaries
    assert {got.headers.get("authorization") for got in summaries} == {f"Bearer {KEY}"}
    assert max(got.size for got in summaries) < WINDOW * 5


def build_openai_error(message: str) -> str:
    """An error as OpenAI writes it."""
    error = {
        "message": message,
        "type": "invalid_request_error",
        "param": "messages",
        "code": "context_length_exceeded",
    }
    return json.dumps({"error": error})


def build_anthropic_error(kind: str, message: str) -> str:
    """An error as Anthropic writes it."""
    return json.dumps({"type": "error", "error": {"type": kind, "message": message}})


OVERFLOWS: dict[str, tuple[str, int, str]] = {
    "Anthropic": (
        "messages",
        400,
        build_anthropic_error("invalid_request_error", "prompt is too long: 218849 tokens > 200000 maximum"),
    ),
    "Anthropic, bytes": (
        "messages",
        413,
        build_anthropic_error("request_too_large", "Request exceeds the maximum size"),
    ),
    "OpenAI": (
        "chat",
        400,
        build_openai_error(
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."
        ),
    ),
    "OpenAI Responses": (
        "responses",
        400,
        build_openai_error(
            "Your input exceeds the context window of this model. Please adjust your input and try again."
        ),
    ),
    "Google": (
        "generate",
        400,
        (
            '{"error":{"code":400,"message":"The input token count (1229) exceeds the maximum number of tokens allowed '
            '(1000).","status":"INVALID_ARGUMENT"}}'
        ),
    ),
    "vLLM": (
        "chat",
        400,
        (
            '{"object":"error","message":"This model\'s maximum context length is 4096 tokens. However, you requested '
            '5000 tokens.","code":400}'
        ),
    ),
    "llama.cpp": (
        "chat",
        400,
        (
            '{"error":{"code":400,"message":"the request exceeds the available context size",'
            '"type":"exceed_context_size_error"}}'
        ),
    ),
}


def build_refuser(limit: int, status: int, text: str) -> Callable[[RawRequest], RawAnswer]:
    """A provider with a limit in bytes."""

    def answer(request: RawRequest) -> RawAnswer:
        if len(request.body) > limit:
            headers = ((b"content-type", b"application/json"), (b"x-request-id", b"r-9"))
            return RawAnswer((text.encode(),), status, headers)
        return RawAnswer((b'{"ok": true}',))

    return answer


@pytest.mark.parametrize(
    ("provider", "window"), [*((name, None) for name in OVERFLOWS), ("OpenAI", 400_000), ("Anthropic", 400_000)]
)
def test_a_request_that_is_refused_as_too_long_is_sent_once_more(
    provider: str, window: int | None, store: Store
) -> None:
    kind, status, text = OVERFLOWS[provider]
    settings = {"window": window, "summary_model": "none"} if window else {"summary_model": "none"}
    talk = Talk(kind)
    talk.extra = {"model": "unheard-of-model"} if kind != "generate" else {}
    with run_gateway(build_refuser(60_000, status, text), store=store, **settings) as (upstream, gateway):
        talk.add_user("Look at all parts. Never touch config/secret.toml.")
        for _ in range(30):
            talk.add_step(400)
            sent = talk.send(gateway.url)
            assert (sent.status_code, sent.content) == (200, b'{"ok": true}')
    refused = [got for got in upstream.requests if len(got.body) > 60_000]
    assert 1 <= len(refused) <= 6
    assert b"Never touch config/secret.toml." in upstream.requests[-1].body


def test_the_first_request_after_a_restart_is_compacted_when_it_is_refused() -> None:
    """The session is learnt while the request is on its way; the refusal must not come before that."""
    _, status, text = OVERFLOWS["OpenAI"]
    talk = Talk("chat")
    talk.add_user()
    talk.add_steps(60, 300)
    with run_gateway(build_refuser(60_000, status, text)) as (_upstream, gateway):
        for _ in range(3):
            talk.add_step(10)
            assert talk.send(gateway.url).status_code == 200


@pytest.mark.parametrize("provider", OVERFLOWS)
def test_what_cannot_be_shortened_gets_the_providers_own_error(
    provider: str, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    kind, status, text = OVERFLOWS[provider]
    talk = Talk(kind)
    with caplog.at_level("INFO"), run_gateway(build_refuser(10, status, text), store=store) as (upstream, gateway):
        talk.add_user()
        talk.add_step()
        sent = talk.send(gateway.url)
        assert len(upstream.requests) <= 2
    assert (sent.status_code, sent.content, sent.headers["x-request-id"]) == (status, text.encode(), "r-9")
    assert re.search(r"could not be made shorter: \S", caplog.text), "the log says why"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422, 429, 500, 503, 529])
@pytest.mark.parametrize("is_packed", [False, True])
def test_other_errors_come_back_as_they_are_and_nothing_is_sent_twice(
    status: int, *, is_packed: bool, store: Store
) -> None:
    text = b'{"error":{"message":"Rate limit of tokens per min reached","type":"tokens"}}'
    body = gzip.compress(text) if is_packed else text
    headers = [(b"content-type", b"application/json"), (b"retry-after", b"7")]
    headers += [(b"content-encoding", b"gzip")] if is_packed else []
    talk = Talk("messages")
    reply = RawAnswer((body,), status, tuple(headers))
    with run_gateway(reply, store=store) as (upstream, gateway):
        talk.add_user()
        talk.add_step()
        sent = talk.send(gateway.url)
        assert len(upstream.requests) == 1
    assert (sent.status_code, sent.content, sent.headers["retry-after"]) == (status, text, "7")


def test_an_error_that_is_cut_is_cut_for_the_client(store: Store) -> None:
    talk = Talk("messages")
    talk.add_user()
    talk.add_step()
    headers = ((b"content-type", b"application/json"),)
    reply = RawAnswer((b'{"error":',), 400, headers, cut=True)
    with run_gateway(reply, store=store) as (_upstream, gateway):
        with pytest.raises(httpx.RemoteProtocolError):
            talk.send(gateway.url)
        assert "cut_responses_total 1.0" in httpx.get(f"{gateway.url}/metrics", timeout=500).text


def test_a_slow_summary_stops_no_other_session(store: Store) -> None:
    is_asked, other_is_served = threading.Event(), threading.Event()
    waited: list[bool] = []

    def script(got: Got) -> Served:
        if got.body.get("tools"):
            return Served(text="ok", tokens=(got.size // 4, 5))
        is_asked.set()
        waited.append(other_is_served.wait(500))
        return Served(text="x")

    def send_until_asked() -> None:
        full.add_user()
        while not is_asked.is_set():
            full.add_answer(fill_words("said", 350))
            full.add_user()
            full.send(gateway.url)

    full, other = Talk("chat", "f"), Talk("messages", "o")
    with run_loopback(script, store=store, window=WINDOW) as (_upstream, gateway), ThreadPoolExecutor(1) as pool:
        sending = pool.submit(send_until_asked)
        is_asked.wait()
        other.add_user()
        for _ in range(10):
            other.add_step(20)
            assert other.send(gateway.url).status_code == 200
        other_is_served.set()
        sending.result()
    assert all(waited), "the summary was still awaited when all of the other session was answered"
