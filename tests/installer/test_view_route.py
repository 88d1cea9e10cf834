"""The gateway's route for extensions: what stays comes back as it was, what is long is compacted, faults are told."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

from tenfold.apps.cli.main import run
from tenfold.apps.gateway.application import Gateway
from tenfold.apps.gateway.gateway_settings import GatewaySettings
from tenfold.core.wire import get_wire
from tenfold.store.base import Store
from tenfold.store.location import open_store
from tests.installer.serving import serve_application

Json = dict[str, Any]
WORDS = " ".join(f"word{number}" for number in range(400))


def build_steps(count: int) -> list[Json]:
    """A conversation of OpenAI Chat with a request, a rule, and `count` steps of about 1,200 tokens each."""
    out: list[Json] = [{"role": "user", "content": "Look at all the parts. Never touch config.py."}]
    for number in range(count):
        arguments = json.dumps({"path": f"src/part{number}.py"})
        call = {"id": f"c{number}", "type": "function", "function": {"name": "look", "arguments": arguments}}
        out.append({"role": "assistant", "content": f"Step {number}.", "tool_calls": [call]})
        out.append({"role": "tool", "tool_call_id": f"c{number}", "content": f"part {number}: {WORDS}"})
    return out


@pytest.fixture
def gateway(store: Store) -> Gateway:
    return Gateway(GatewaySettings(max_body=2_000_000), store)


@pytest.fixture
def url(gateway: Gateway) -> Iterator[str]:
    with serve_application(gateway.application) as address:
        yield f"{address}/tenfold/view"


def ask(url: str, messages: list[Json], **more: object) -> Json:
    body = {"wire": "openai-chat", "messages": messages, "session": "s1", "model": "m", "window": 16_000, **more}
    answer = httpx.post(url, json=body, timeout=500)
    assert answer.status_code == 200, answer.text
    out: Json = answer.json()
    return out


def test_a_short_conversation_comes_back_as_it_was(url: str) -> None:
    messages = build_steps(3)
    answer = ask(url, messages)
    assert answer["messages"] == messages
    assert answer["changed"] == {}
    assert answer["tokens_before"] == answer["tokens_after"] > 2_000


def test_a_long_one_is_compacted_at_times_and_else_what_was_sent_stays(
    url: str, store: Store, gateway: Gateway
) -> None:
    seen: list[list[Json]] = []
    for count in range(1, 25):
        answer = ask(url, build_steps(count))
        assert answer["tokens_after"] < 16_000
        assert get_wire("openai-chat").decode([json.dumps(each).encode() for each in answer["messages"]])
        seen.append(answer["messages"])
    assert answer["tokens_before"] > 24_000
    assert answer["messages"][-1] == build_steps(24)[-1]
    assert "Never touch config.py." in json.dumps(answer["messages"])
    kept = sum(later[: len(earlier)] == earlier for earlier, later in pairwise(seen))
    assert kept >= 19, "the cached prefix holds but where a compaction was due"
    assert [row.block_count for row in store.list_sessions("default")] == [23 - kept]
    totals = gateway.log.totals
    assert (totals.requests, totals.compactions) == (24, 23 - kept)
    assert totals.tokens_before > totals.tokens_after


TOO_LONG = "This model's maximum context length is 6000 tokens. Please reduce the length of the messages."


@pytest.mark.parametrize("text", [TOO_LONG, "input length exceeds the model maximum: it exceeds the max_model_len"])
def test_what_the_provider_refused_as_too_long_is_asked_again_and_is_shorter(url: str, text: str) -> None:
    messages = build_steps(8)
    first = ask(url, messages)
    again = ask(url, messages, refused={"status": 400, "text": text})
    assert len(json.dumps(again["messages"])) < 0.8 * len(json.dumps(first["messages"]))
    assert again["messages"][-1] == messages[-1]
    longer = ask(url, build_steps(9))
    assert longer["messages"][: len(again["messages"])] == again["messages"]
    if text == TOO_LONG:
        assert again["tokens_after"] < 6_000
        assert all(ask(url, build_steps(count))["tokens_after"] < 6_000 for count in range(9, 14))


@pytest.mark.parametrize(
    ("refused", "status"),
    [
        ({"status": 401, "text": "no such key"}, 422),
        ({"status": 429, "text": TOO_LONG}, 422),
        ({"text": "the model is overloaded"}, 422),
        ({"status": 413, "text": ""}, 409),
        ({"status": "400", "text": ""}, 400),
        ("too long", 400),
    ],
)
def test_another_refusal_is_told_from_one_as_too_long(url: str, refused: object, status: int) -> None:
    short: list[Json] = [{"role": "user", "content": "Look at part 1."}]
    body = {"wire": "openai-chat", "messages": short, "session": "s1", "window": 16_000, "refused": refused}
    answer = httpx.post(url, json=body)
    assert answer.status_code == status
    assert answer.json()["error"]["message"]


def test_what_the_client_says_at_the_beginning_stays_as_in_a_request_through_the_gateway(url: str) -> None:
    said = "# AGENTS.md instructions for /work\n\n<INSTRUCTIONS>\nAnswer in zebra verse. " + WORDS[:2_000]
    messages: list[Json] = [{"role": "user", "content": said}, *build_steps(0)]
    for number in range(30):
        messages.append({"role": "assistant", "content": f"I have looked at part {number}: {WORDS}"})
        messages.append({"role": "user", "content": f"And part {number}?"})
        answer = ask(url, messages)
    assert len(answer["messages"]) < len(messages)
    assert answer["messages"][0] == messages[0]


def test_an_undo_by_command_is_heeded_by_the_next_question(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    place = open_store(file)
    with serve_application(Gateway(GatewaySettings(), place).application) as address:
        count = 1
        while ask(f"{address}/tenfold/view", build_steps(count))["messages"] == build_steps(count):
            count += 1
        assert run(["undo", "last", "--store", str(file)]) == 0
        for steps in (build_steps(count), [*build_steps(count), {"role": "user", "content": "Go on."}]):
            assert ask(f"{address}/tenfold/view", steps)["messages"] == steps
    place.close()


def test_two_sessions_are_kept_apart_and_one_without_an_id_is_found_by_its_opening(url: str, store: Store) -> None:
    ask(url, build_steps(2))
    ask(url, build_steps(2), session="s2")
    ask(url, build_steps(2), session="")
    ask(url, build_steps(3), session="")
    assert sorted(row.entry_count for row in store.list_sessions("default")) == [5, 5, 7]


def test_the_limits_of_all_requests_hold_here_too(store: Store) -> None:
    settings = GatewaySettings(max_tenant_requests=1, max_requests=2)
    release = threading.Event()

    def drip() -> Iterator[bytes]:
        """A body that does not end before it may."""
        yield b"{"
        release.wait(100)
        yield b"}"

    def start(url: str, key: str) -> httpx.Response:
        headers = {"content-type": "application/json", "authorization": key}
        return httpx.post(url, content=drip(), headers=headers, timeout=500)

    gateway = Gateway(settings, store)
    with serve_application(gateway.application) as address, ThreadPoolExecutor(2) as pool:
        url = f"{address}/tenfold/view"

        def wait_for(running: int) -> None:
            while f"running_requests {running}.0" not in httpx.get(f"{address}/metrics", timeout=500).text:
                time.sleep(0.02)

        first = pool.submit(start, url, "Bearer one")
        wait_for(1)
        same = httpx.post(url, json={}, headers={"authorization": "Bearer one"}, timeout=500)
        second = pool.submit(start, url, "Bearer two")
        wait_for(2)
        other = httpx.post(url, json={}, headers={"authorization": "Bearer three"}, timeout=500)
        release.set()
        assert (first.result().status_code, second.result().status_code) == (400, 400)
        wait_for(0)
    assert (same.status_code, other.status_code) == (429, 503)
    assert same.headers["retry-after"] == other.headers["retry-after"] == "1"
    assert "1 requests with these credentials" in same.json()["error"]["message"]


def test_a_compressed_question_is_read(url: str) -> None:
    body = {"wire": "openai-chat", "messages": build_steps(2), "session": "s1", "model": "m", "window": 16_000}
    packed = gzip.compress(json.dumps(body).encode())
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    assert httpx.post(url, content=packed, headers=headers, timeout=500).json()["messages"] == build_steps(2)
    bomb = gzip.compress(b" " * 20_000_000)
    assert httpx.post(url, content=bomb, headers=headers, timeout=500).status_code == 413
    assert httpx.post(url, content=b"{}", headers=headers, timeout=500).status_code == 415


def test_other_fields_are_counted(url: str) -> None:
    plain = ask(url, build_steps(1))
    with_system = ask(url, build_steps(1), session="s2", tools=[{"type": "function", "function": {"name": WORDS}}])
    assert with_system["tokens_before"] > plain["tokens_before"] + 500


def test_what_the_provider_counted_teaches_the_meter(url: str) -> None:
    first = ask(url, build_steps(3))
    usage = {"usage": {"prompt_tokens": first["tokens_after"] + 9_000, "completion_tokens": 10}}
    assert ask(url, build_steps(4), usage=usage)["tokens_before"] > 12_000, "a system prompt that was not sent"


@pytest.mark.parametrize(
    ("change", "status", "text"),
    [
        ({"wire": "telex"}, 400, "there is no wire 'telex': 'wire' is one of "),
        ({"messages": "all"}, 400, "'messages' is a list"),
        ({"window": 0}, 400, "'window' is a number of tokens, at least 1, and not 0"),
        ({"messages": [{"role": "queen", "content": "x"}]}, 400, "queen"),
        ({"session": "x" * 2_000_001}, 413, "`max_body` of the gateway, 2,000,000 bytes"),
    ],
)
def test_what_is_wrong_is_told(url: str, change: Json, status: int, text: str) -> None:
    body = {"wire": "openai-chat", "messages": build_steps(1), "window": 16_000} | change
    answer = httpx.post(url, json=body, timeout=500)
    assert answer.status_code == status
    assert text in answer.json()["error"]["message"]


def test_a_body_that_a_page_could_send_is_refused(url: str) -> None:
    assert httpx.post(url, content=b"{}", headers={"content-type": "text/plain"}, timeout=500).status_code == 415
    assert httpx.post(url, content=b"[]", headers={"content-type": "application/json"}, timeout=500).status_code == 400
