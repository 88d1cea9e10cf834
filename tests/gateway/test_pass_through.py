"""What needs nothing passes as it came, byte for byte, in both directions."""

from __future__ import annotations

import json
import threading
from http.client import HTTPConnection

import httpx
import pytest

from tests.gateway.serving import RawAnswer, RawRequest, run_gateway, serve_gateway, wait_until

ODD_BODY = (
    b'{ "model":"gpt-4o",\n "messages" : [ {"role":"user","content":"caf\\u00e9 \xc3\xa9", "x":1.0} ],'
    b' "extra": {"b":1, "a":2} }'
)
SECRET = "sk-only-for-this-server-0123456789abcdef"  # noqa: S105 - it opens nothing


def test_a_first_request_is_forwarded_with_its_bytes() -> None:
    with run_gateway() as (upstream, gateway):
        answer = httpx.post(
            f"{gateway.url}/v1/chat/completions",
            content=ODD_BODY,
            headers={"authorization": f"Bearer {SECRET}", "x-own": "1", "content-type": "application/json"},
            timeout=500,
        )
        assert answer.status_code == 200
        (got,) = upstream.requests
    assert got.body == ODD_BODY
    assert (got.path, got.query) == (b"/v1/chat/completions", b"")
    assert got.get_header("authorization") == f"Bearer {SECRET}"
    assert got.get_header("x-own") == "1"


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/v1/models?limit=2&after=a%20b", "/v1/models?limit=2&after=a%20b"),
        ("DELETE", "/any/prefix/v1/responses/resp_1", "/v1/responses/resp_1"),
        ("POST", "/v1/messages/count_tokens", "/v1/messages/count_tokens"),
        ("POST", "/v1/embeddings", "/v1/embeddings"),
        ("PUT", "/v1beta/files/a%2Fb?key=k", "/v1beta/files/a%2Fb?key=k"),
        ("GET", "/unknown", "/unknown"),
        ("GET", "/api/tags", "/api/tags"),
        ("POST", "/chat/completions", "/chat/completions"),
        ("GET", '/v1/a/./b//c;d="e"|f?q="g"&h=[i]', '/v1/a/./b//c;d="e"|f?q="g"&h=[i]'),
    ],
)
def test_every_other_path_and_method_passes(method: str, path: str, expected: str) -> None:
    body = b"" if method in ("GET", "DELETE") else b"\x00\x01 not JSON"
    reply = RawAnswer((b"one ", b"\xfftwo"), 207, ((b"content-type", b"application/x-odd"), (b"x-request-id", b"r-1")))
    as_it_is = {"target": path.encode()}  # httpx would write it its own way
    with run_gateway(reply) as (upstream, gateway), httpx.Client(timeout=500) as client:
        answer = client.request(method, f"{gateway.url}{path}", content=body, extensions=as_it_is)
        (got,) = upstream.requests
    target = got.path.decode() + (f"?{got.query.decode()}" if got.query else "")
    assert (got.method, target, got.body) == (method, expected, body)
    assert (answer.status_code, answer.content) == (207, b"one \xfftwo")
    assert (answer.headers["content-type"], answer.headers["x-request-id"]) == ("application/x-odd", "r-1")


def test_the_names_of_a_responses_headers_keep_their_letters() -> None:
    named = ((b"Content-Type", b"application/json"), (b"X-Request-ID", b"r-1"), (b"x-Odd_name", b"1"))
    with run_gateway(RawAnswer(headers=named)) as (_upstream, gateway):
        answers = [
            httpx.post(f"{gateway.url}/v1/chat/completions", content=ODD_BODY, timeout=500),
            httpx.get(f"{gateway.url}/v1/models", timeout=500),
        ]
    assert all(set(named) <= set(answer.headers.raw) for answer in answers)


def test_what_has_come_of_a_stream_is_passed_on_before_the_rest() -> None:
    gate = threading.Event()
    reply = RawAnswer(
        (b"data: 1\n\n", b"data: [DONE]\n\n"), headers=((b"content-type", b"text/event-stream"),), gate=gate
    )
    with run_gateway(reply) as (_upstream, gateway):  # noqa: SIM117 - read in the order of time
        with httpx.stream("POST", f"{gateway.url}/v1/chat/completions", content=ODD_BODY, timeout=500) as answer:
            chunks = answer.iter_raw()
            assert next(chunks) == b"data: 1\n\n"
            gate.set()
            assert b"".join(chunks) == b"data: [DONE]\n\n"


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"messages": 1}', b'{"messages": [1, "x"]}', b"\xff\xfe"])
def test_what_is_no_request_is_the_providers_to_refuse(body: bytes) -> None:
    with run_gateway(RawAnswer((b"{}",), 400)) as (upstream, gateway):
        answer = httpx.post(f"{gateway.url}/v1/chat/completions", content=body, timeout=500)
        (got,) = upstream.requests
    assert got.body == body
    assert answer.status_code == 400


def test_a_cut_stream_is_cut_for_the_client_too(caplog: pytest.LogCaptureFixture) -> None:
    reply = RawAnswer((b'data: {"choices":[]}\n\n',), headers=((b"content-type", b"text/event-stream"),), cut=True)
    with caplog.at_level("INFO"), run_gateway(reply) as (_upstream, gateway):
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.post(f"{gateway.url}/v1/chat/completions", content=ODD_BODY, timeout=500)
        metrics = httpx.get(f"{gateway.url}/metrics", timeout=500).text
    assert "tenfold_gateway_cut_responses_total 1.0" in metrics
    assert caplog.text.count("CUT: ") == 1
    assert caplog.text.count("without completing response") == 1, "that of the upstream here, and none of the gateway"


def test_an_upstream_that_is_not_there_is_said_to_be_so() -> None:
    with serve_gateway("http://127.0.0.1:9/v1") as gateway:
        answer = httpx.post(f"{gateway.url}/v1/chat/completions", content=ODD_BODY, timeout=500)
    assert answer.status_code == 502
    assert "127.0.0.1" in answer.json()["error"]["message"]


def test_a_websocket_is_refused_with_the_status_that_codex_understands() -> None:
    with run_gateway() as (upstream, gateway):
        headers = {
            "connection": "Upgrade",
            "upgrade": "websocket",
            "sec-websocket-version": "13",
            "sec-websocket-key": "x",
        }
        answer = httpx.get(f"{gateway.url}/v1/responses", headers=headers, timeout=500)
        assert upstream.requests == []
    assert answer.status_code == 426


def test_a_client_that_leaves_ends_its_request_upstream() -> None:
    gate = threading.Event()
    with run_gateway(RawAnswer(wait=gate)) as (upstream, gateway):
        host, port = gateway.url.removeprefix("http://").split(":")
        client = HTTPConnection(host, int(port), timeout=500)
        client.request("POST", "/v1/chat/completions", ODD_BODY)
        wait_until(lambda: bool(upstream.requests))
        client.close()
        running = "tenfold_gateway_running_requests 0.0"
        wait_until(lambda: running in httpx.get(f"{gateway.url}/metrics", timeout=500).text)
        gate.set()


def test_secrets_stand_in_no_log_and_no_metric(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(_: RawRequest) -> RawAnswer:
        return RawAnswer((json.dumps({"error": "no"}).encode(),), 500)

    with caplog.at_level("DEBUG"), run_gateway(refuse) as (_upstream, gateway):
        httpx.post(
            f"{gateway.url}/v1beta/models/gemini-2.5-pro:generateContent?key={SECRET}",
            content=b'{"contents":[{"role":"user","parts":[{"text":"hello"}]}]}',
            headers={"x-goog-api-key": SECRET},
            timeout=500,
        )
        metrics = httpx.get(f"{gateway.url}/metrics", timeout=500).text
    own = "\n".join(r.getMessage() for r in caplog.records if r.name.startswith("tenfold"))
    assert "gemini-2.5-pro" in own
    assert SECRET not in own + metrics
