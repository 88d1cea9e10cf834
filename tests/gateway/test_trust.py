"""Limits, and what nobody may do: reach other hosts, come without a key, see another's cookies, smuggle headers."""

from __future__ import annotations

import json
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from tenfold.apps.gateway.application import Gateway
from tenfold.apps.gateway.gateway_settings import GatewaySettings
from tenfold.apps.gateway.upstreams import Upstreams
from tenfold.errors import BadInput, UsageError
from tenfold.store.location import open_store
from tests.gateway.conversations import PATHS, Talk, post
from tests.gateway.serving import RawAnswer, RawRequest, RawUpstream, run_gateway, serve_gateway, wait_until

BODY = b'{"model":"gpt-4o","messages":[{"role":"user","content":"hello"}]}'
TWO = BODY.replace(b"}]", b'},{"role":"assistant","content":"hi"},{"role":"user","content":"on"}]')
KEY = "key-only-for-this-gateway"


def send_raw(url: str, data: bytes, *, timeout: float = 500, quiet: float = 60.0) -> bytes:
    """Sends bytes and reads until the connection ends or nothing more comes for `quiet` seconds."""
    host, port = url.removeprefix("http://").split(":")
    with closing(socket.create_connection((host, int(port)), timeout=timeout)) as connection:
        connection.sendall(data)
        out = b""
        connection.settimeout(quiet)
        try:
            while chunk := connection.recv(65536):
                out += chunk
        except TimeoutError:
            pass
        return out


def build_raw(
    target: str, *, host: str = "127.0.0.1", method: str = "POST", more: str = "", body: bytes = BODY
) -> bytes:
    """A request with any target."""
    lines = (
        f"{method} {target} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {len(body)}\r\n{more}connection: close\r\n\r\n"
    )
    return lines.encode("utf-8") + body


def test_a_body_that_is_too_large_is_refused_and_costs_no_memory() -> None:
    with run_gateway(max_body=10_000) as (upstream, gateway):
        assert httpx.post(f"{gateway.url}/v1/chat/completions", content=b"x" * 10_000, timeout=500).status_code == 200

        def give() -> Iterator[bytes]:
            for _ in range(50):
                yield b"x" * 1_000

        for content in (b"x" * 10_001, give()):
            answer = httpx.post(f"{gateway.url}/v1/chat/completions", content=content, timeout=500)
            assert answer.status_code == 413
            assert "10,000" in answer.json()["error"]["message"]
        assert len(upstream.requests) == 1
        assert "running_requests 0.0" in httpx.get(f"{gateway.url}/metrics", timeout=500).text


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/tenfold/view"])
def test_a_body_that_does_not_come_holds_no_place(path: str) -> None:
    """Else a few connections that say nothing would keep everyone else out."""
    with run_gateway(timeout=2, max_requests=1) as (upstream, gateway):
        begun = build_raw(path, more="content-type: application/json\r\n")[:-10]
        with socket.create_connection(("127.0.0.1", int(gateway.url.rpartition(":")[2])), timeout=500) as connection:
            connection.sendall(begun)
            answer = connection.recv(65_536)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert httpx.post(f"{gateway.url}/v1/chat/completions", content=BODY, timeout=500).status_code == 200
        assert len(upstream.requests) == 1


def test_a_huge_answer_passes_without_being_kept() -> None:
    """Answers are read for their usage. One that no model gives only passes."""
    chunk, count = b"x" * 1_000_000, 400
    talk = Talk("chat")
    talk.add_user()
    talk.add_step()
    with (
        run_gateway(RawAnswer([chunk] * count), window=16_000, summary_model="auto") as (_upstream, gateway),
        httpx.stream("POST", f"{gateway.url}{PATHS['chat']}", content=talk.build_body(), timeout=500) as answer,
    ):
        before = read_resident_size()
        size, most = 0, 0
        for part in answer.iter_raw():
            size += len(part)
            most = max(most, read_resident_size() - before)
    assert size == count * len(chunk)
    assert most < size / 2


def read_resident_size() -> int:
    """The bytes of memory that this process takes now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.parametrize(
    ("settings", "query", "status"),
    [
        ({"max_requests": 2}, "", 503),
        ({"max_tenant_requests": 2}, "", 429),
        ({"max_tenant_requests": 2}, "?key=k1", 429),
    ],
)
def test_a_full_gateway_says_when_to_come_again(settings: dict[str, Any], query: str, status: int) -> None:
    gate = threading.Event()
    answers: list[httpx.Response] = []
    path = "/v1beta/models/gemini-2.5-pro:generateContent" if query else "/v1/chat/completions"
    with run_gateway(RawAnswer(wait=gate), **settings) as (upstream, gateway):

        def call(address: str = f"{gateway.url}{path}{query}") -> None:
            answers.append(httpx.post(address, content=BODY, timeout=500))

        threads = [threading.Thread(target=call) for _ in range(2)]
        for thread in threads:
            thread.start()
        while len(upstream.requests) < 2:
            time.sleep(0.01)
        refused = httpx.post(f"{gateway.url}{path}{query}", content=BODY, timeout=500)
        other = None
        if status == 429:
            gate_open = threading.Timer(0.3, gate.set)
            gate_open.start()
            other = httpx.post(
                f"{gateway.url}/v1/chat/completions", content=BODY, headers={"x-api-key": "other"}, timeout=500
            )
        gate.set()
        for thread in threads:
            thread.join()
        after = httpx.post(f"{gateway.url}{path}{query}", content=BODY, timeout=500)
    assert refused.status_code == status
    assert int(refused.headers["retry-after"]) >= 1
    assert other is None or other.status_code == 200
    assert [answer.status_code for answer in (*answers, after)] == [200] * 3


def test_an_address_that_others_reach_needs_a_key() -> None:
    with closing(open_store(":memory:")) as store:
        for host in ("0.0.0.0", "::", "192.168.1.5", "127.0.0.1.example.org"):  # noqa: S104
            with pytest.raises(UsageError, match="key"):
                Gateway(GatewaySettings(host=host), store)
            Gateway(GatewaySettings(host=host, key=KEY), store)


def test_the_key_comes_in_a_header_or_in_the_path() -> None:
    with run_gateway(key=KEY, host="0.0.0.0") as (upstream, gateway):  # noqa: S104
        url = gateway.url.replace("0.0.0.0", "127.0.0.1")  # noqa: S104
        for path in ("/v1/models", "/metrics", "/", f"/{KEY}x/v1/models", f"/x/{KEY}/v1/models", f"/{KEY[:-1]}"):
            for headers in ({}, {"x-tenfold-key": "wrong"}, {"x-tenfold-key": KEY[:-1]}, {"authorization": KEY}):
                assert httpx.get(f"{url}{path}", headers=headers, timeout=500).status_code == 401
        assert upstream.requests == []
        assert httpx.get(f"{url}/healthz", timeout=500).status_code == 200
        assert (
            httpx.get(f"{url}/v1/files/a%2Fb%3Fc?x=%20", headers={"x-tenfold-key": KEY}, timeout=500).status_code == 200
        )
        assert httpx.get(f"{url}/{KEY}/v1/files/a%2Fb%3Fc?x=%20", timeout=500).status_code == 200
        assert httpx.post(f"{url}/{KEY}/v1/chat/completions", content=BODY, timeout=500).status_code == 200
        assert httpx.get(f"{url}/{KEY}/metrics", timeout=500).status_code == 200
        assert "running_requests" in httpx.get(f"{url}/{KEY}/metrics", timeout=500).text
    for got in upstream.requests:
        assert KEY.encode() not in got.path + got.query + got.body + b"".join(v for _, v in got.headers)
    assert [got.path for got in upstream.requests] == [b"/v1/files/a%2Fb%3Fc"] * 2 + [b"/v1/chat/completions"]
    assert [got.query for got in upstream.requests][:2] == [b"x=%20"] * 2


def test_another_name_for_this_machine_is_refused() -> None:
    """A page whose name is pointed at 127.0.0.1 gets nothing: the browser sends the page's own name as the host."""
    with run_gateway() as (upstream, gateway):
        for host in (
            "evil.example",
            "evil.example:8787",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "",
            "0.0.0.0",  # noqa: S104
        ):
            for target in ("/v1/chat/completions", "/metrics", "/healthz"):
                answer = send_raw(gateway.url, build_raw(target, host=host))
                assert answer.startswith(b"HTTP/1.1 400"), (host, target, answer)
        assert upstream.requests == []
        for host in ("localhost", "127.0.0.1:1", "LOCALHOST:8787", "[::1]:8787", "[::1]"):
            answer = send_raw(gateway.url, build_raw("/v1/chat/completions", host=host))
            assert answer.startswith(b"HTTP/1.1 200"), (host, answer)


TARGETS = (
    *("http://{other}/v1/chat/completions", "http://{other}/latest/meta-data", "HTTPS://{other}/", "{other}", "*"),
    *("//{other}/v1/chat/completions", "//{other}/latest", "///{other}/x", "/http://{other}/v1/chat/completions"),
    *("/\\{other}/x", "\\\\{other}\\x", "/%5c{other}/x", "%5c%5c{other}/x", "/%2f{other}/x", "%2f%2f{other}/v1/x"),
    *(
        "@{other}/v1/x",
        "%2f@{other}/x",
        "%2F%40{other}/x",
        "/@{other}/x",
        "/v1@{other}/x",
        "/.{other}/v1",
        ".{other}/x",
    ),
    *("%2f:80/x", "%2f.evil.invalid/x", ":1/x", "%3a1/x", "0/x", "%2f", "%2f/v1/messages", "x", "?x=1", "#@{other}/x"),
    *("/v1/chat/completions?url=http://{other}/", "?@{other}/x", ";@{other}/x", "/;@{other}/v1/x", "/v1/x#@{other}/"),
    *("..%2f..%2f@{other}/x", "/v1/a..b/..c/...", "/v1/x?file=../x"),
    *(
        "/v1/a%00b",
        "/v1/\x00b",
        "%00@{other}/x",
        "/%",
        "/%zz@{other}/",
        "/v1/caf\xe9",
        "/v1/\u20ac",
        "@\uff0f{other}/x",
    ),
    *("/" + "a" * 60_000, "/v1/x?" + "b" * 30_000, "[::1]/x", "/[::1]:80/x", "/v1/x\t@{other}/"),
    *(
        "/v1beta/models/@{other}%2f..:generateContent",
        "/v1/models/{other}:generateContent?key=@{other}",
        "/{{model}}/v1",
    ),
)
"""What may stand between the method and the version in the first line of a request."""
UPWARDS = (
    *("/v1/..%2f..%2f//{other}/", "/../../{other}/x", "/v1/%2e%2e/%2e%2e//{other}/", "/v1/models/..", "/v1/..;/x"),
    *("/v1/%252e%252e/x", "/v1/..%5cx", "/v1/.%2e/x", "/v1beta/models/..%2f..%2fx:generateContent"),
    "/v1/" + "../" * 9_000,
)
"""Paths that lead out of the address of the upstream."""
PROXY_METHODS = ("CONNECT", "TRACE")


@pytest.mark.parametrize("suffix", ["", "/v1", "/base"])
def test_a_request_reaches_its_upstream_and_nothing_else(suffix: str, caplog: pytest.LogCaptureFixture) -> None:
    """The address comes from the settings. What is no path is refused in words, never by a traceback."""
    with (
        caplog.at_level("INFO"),
        RawUpstream() as upstream,
        RawUpstream() as other,
        serve_gateway(f"{upstream.url}{suffix}") as gateway,
    ):
        name, own = (each.url.removeprefix("http://") for each in (other, upstream))
        for target in (*TARGETS, *UPWARDS):
            for method, body in (("POST", TWO), ("GET", b"")):
                answer = send_raw(gateway.url, build_raw(target.format(other=name), method=method, body=body), quiet=30)
                is_path = target.startswith("/") and all("!" <= c <= "~" for c in target) and target not in UPWARDS
                status = int(answer.split(b" ", 2)[1])
                assert status == 200 if is_path and len(target) < 50_000 else status in (200, 400, 431), target
                assert is_path or status != 200, target
        for method in PROXY_METHODS:
            for target in ("/v1/models", name):
                answer = send_raw(gateway.url, build_raw(target, method=method, body=b""), quiet=0.3)
                assert answer.startswith(b"HTTP/1.1 405 "), (method, target)
        send_raw(gateway.url, build_raw("/v1/x", more=f"x-forwarded-host: {name}\r\nforwarded: host={name}\r\n"))
        assert other.requests == []
        assert len(upstream.requests) > len(TARGETS) / 2
        for got in upstream.requests:
            assert got.get_header("host") == own
            assert got.path.startswith(suffix.encode())
    assert [r for r in caplog.records if r.exc_info] == []


def test_what_is_no_path_is_not_joined_with_an_address() -> None:
    """Whatever server runs the application: in `http://host` + `@evil/x` the host would be `evil`."""
    for path in ("@evil/x", "%2f@evil/x", ":80/x", ".evil/x", "", "http://evil/x", "\\\\evil/x"):
        for upstream in ("http://host", "http://host/", "http://host/v1"):
            with pytest.raises(BadInput, match="begins with /"):
                Upstreams(everything=upstream).build_url("openai-chat", path)


@pytest.mark.parametrize(
    "url",
    ["http://", "https:///v1", "ftp://host/v1", "host:80", "http://host/v1?a=1", "http://host/v1#a", "http://ho st/",
     "http://host:99999/v1", "http://[::1/v1", "http://host/v1\r\nx: 1", "http://h\\@evil/v1"],
)  # fmt: skip
def test_an_upstream_is_an_address_without_more(url: str) -> None:
    with pytest.raises(UsageError, match="no address"):
        GatewaySettings(upstream=url)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_the_clients_to_follow(status: int) -> None:
    with RawUpstream() as other:
        reply = RawAnswer((b"",), status, ((b"location", f"{other.url}/v1/x".encode()),))
        with run_gateway(reply) as (_upstream, gateway):
            talk = Talk("chat")
            talk.add_user()
            talk.add_step()
            answer = talk.send(gateway.url)
        assert (answer.status_code, answer.headers["location"]) == (status, f"{other.url}/v1/x")
        assert other.requests == []


def test_headers_of_one_connection_are_not_passed_on() -> None:
    answered = (
        (b"content-type", b"application/json"),
        (b"connection", b"x-response-hop, close"),
        (b"x-response-hop", b"1"),
        (b"keep-alive", b"timeout=5"),
        (b"proxy-authenticate", b"Basic"),
        (b"x-ratelimit-remaining", b"9"),
        (b"set-cookie", b"a=1"),
        (b"set-cookie", b"b=2"),
    )
    hop = "te: trailers\r\nproxy-authorization: Basic eDp5\r\nproxy-connection: keep-alive\r\nkeep-alive: timeout=5\r\n"
    named = "x-own-hop: 1\r\nconnection: x-own-hop\r\n"
    with run_gateway(RawAnswer(headers=answered)) as (upstream, gateway):
        kept = "x-twice: 1\r\nx-twice: 2\r\nanthropic-beta: a,b\r\n"
        answer = send_raw(gateway.url, build_raw("/v1/chat/completions", more=hop + named + kept)).lower()
        (got,) = upstream.requests
    names = [name.decode().lower() for name, _ in got.headers]
    for name in ("te", "proxy-authorization", "proxy-connection", "keep-alive", "x-own-hop"):
        assert name not in names
    assert [v for k, v in got.headers if k.lower() == b"x-twice"] == [b"1", b"2"]
    assert "user-agent" not in names, "a client without a name is not given one"
    assert names.count("host") == names.count("content-length") == 1
    head = answer.partition(b"\r\n\r\n")[0]
    for line in (b"x-response-hop", b"keep-alive: timeout", b"proxy-authenticate"):
        assert line not in head
    assert head.count(b"set-cookie") == 2
    assert b"x-ratelimit-remaining: 9" in head


def test_no_encoding_is_asked_for_that_the_client_did_not_ask_for() -> None:
    with run_gateway() as (upstream, gateway):
        send_raw(gateway.url, build_raw("/v1/models", method="GET", body=b""))
        httpx.get(f"{gateway.url}/v1/models", headers={"accept-encoding": "br"}, timeout=500)
        first, second = upstream.requests
    assert first.get_header("accept-encoding") is None
    assert second.get_header("accept-encoding") == "br"


def test_a_cookie_of_the_provider_is_no_other_clients() -> None:
    reply = RawAnswer(headers=((b"content-type", b"application/json"), (b"set-cookie", b"login=of-one; Path=/")))
    with run_gateway(reply, window=8_000, summary_model="auto") as (upstream, gateway):
        first, second = Talk("chat", "f"), Talk("chat", "s")
        second.headers = {"authorization": "Bearer sk-two"}
        first.add_user()
        assert "login=of-one" in first.send(gateway.url).headers["set-cookie"]
        second.add_user()
        for _ in range(24):
            second.add_answer("word " * 400)
            second.add_user()
            second.send(gateway.url)
        assert len(upstream.requests) > 25, "summaries were asked for as well"
    assert [got.get_header("cookie") for got in upstream.requests] == [None] * len(upstream.requests)


@pytest.mark.parametrize(
    "more",
    [
        "x-session-id: a\x00b\r\n",
        "x-session-id: caf\xe9\r\n",
        "session-id: " + "a" * 4_000 + "\r\n",
        "transfer-encoding: chunked\r\n",
        "content-length: 5\r\n",
        "x bad: 1\r\n",
    ],
)
def test_odd_headers_neither_smuggle_nor_stop_the_gateway(more: str) -> None:
    body = Talk("chat")
    body.add_user()
    body.add_step()
    with run_gateway() as (upstream, gateway):
        data = build_raw(
            "/v1/chat/completions", more=more, body=body.build_body() + b"GET /v1/smuggled HTTP/1.1\r\n\r\n"
        )
        answer = send_raw(gateway.url, data)
        assert b"\r\n" in answer or answer == b""
        assert all(got.path != b"/v1/smuggled" for got in upstream.requests)
        assert post(gateway.url, "chat", BODY).status_code == 200


def test_a_name_in_a_body_reaches_no_header_and_no_log_line(caplog: pytest.LogCaptureFixture) -> None:
    talk = Talk("chat")
    talk.extra = {"model": "x\r\nset-cookie: evil=1\r\n\r\n2026 INFO forged line"}
    with caplog.at_level("INFO"), run_gateway() as (_upstream, gateway):
        talk.add_user()
        talk.add_step()
        answer = talk.send(gateway.url)
    assert answer.status_code == 200
    assert "set-cookie" not in answer.headers
    own = [r.getMessage() for r in caplog.records if r.name.startswith("tenfold")]
    assert own
    assert all("\n" not in line and "\r" not in line for line in own)


def test_a_client_that_leaves_a_stream_ends_it_upstream() -> None:
    """Else the provider goes on and the user pays for what nobody reads."""
    is_ended = threading.Event()

    class EndlessChunks(list):  # type: ignore[type-arg]
        """Chunks that come until the gateway has ended the request."""

        def __iter__(self):  # type: ignore[no-untyped-def]  # noqa: ANN204
            while not is_ended.wait(0.02):
                yield b'data: {"choices":[]}\n\n'

    def answer(_: RawRequest) -> RawAnswer:
        return RawAnswer(EndlessChunks(), headers=((b"content-type", b"text/event-stream"),))

    with run_gateway(answer) as (_upstream, gateway):
        with httpx.stream("POST", f"{gateway.url}/v1/chat/completions", content=BODY, timeout=500) as stream:
            next(stream.iter_raw())
        try:
            wait_until(lambda: "running_requests 0.0" in httpx.get(f"{gateway.url}/metrics", timeout=500).text)
        finally:
            is_ended.set()


def test_what_a_gateway_says_of_itself_names_no_secret() -> None:
    with run_gateway(key=KEY) as (_upstream, gateway):
        texts = [
            httpx.get(f"{gateway.url}/healthz", timeout=500).text,
            httpx.get(f"{gateway.url}/{KEY}/metrics", timeout=500).text,
            httpx.get(f"{gateway.url}/v1/models", headers={"x-tenfold-key": "wrong"}, timeout=500).text,
        ]
        assert all(KEY not in text for text in texts)
        assert json.loads(texts[0])["status"] == "ok"
