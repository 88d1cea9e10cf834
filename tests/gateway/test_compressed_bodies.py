"""Bodies that come compressed: read as any other, sent as they came where nothing changes, bounded once unpacked."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable

import httpx
import pytest
import zstandard

from tenfold.store.base import Store
from tests.gateway.conversations import Talk, list_sessions, post, read_marks
from tests.gateway.serving import RawAnswer, RawRequest, run_gateway

WINDOW = 16_000


def deflate_raw(data: bytes) -> bytes:
    """Without the frame of zlib, as some clients send what they call deflate."""
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def stream_zstd(data: bytes) -> bytes:
    """A frame that does not tell the size of what is in it."""
    packer = zstandard.ZstdCompressor().compressobj()
    return packer.compress(data) + packer.flush()


PACKERS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "gzip of two members": ("x-gzip", lambda data: gzip.compress(data[:100]) + gzip.compress(data[100:])),
    "deflate": ("Deflate", zlib.compress),
    "raw deflate": ("deflate", deflate_raw),
    "zstd": ("zstd", zstandard.ZstdCompressor().compress),
    "zstd of unknown size": ("zstd", stream_zstd),
    "zstd of two frames": ("zstd", lambda data: zstandard.compress(data[:100]) + zstandard.compress(data[100:])),
    "one in the other": ("gzip, zstd", lambda data: zstandard.compress(gzip.compress(data))),
}


@pytest.mark.costly(2)
@pytest.mark.parametrize("packer", PACKERS)
def test_a_compressed_request_is_compacted_as_any_other(packer: str, store: Store) -> None:
    name, pack = PACKERS[packer]
    talk = Talk("responses")
    talk.headers["content-encoding"] = name
    with run_gateway(store=store, window=WINDOW, summary_model="auto") as (upstream, gateway):
        talk.add_user()
        for number in range(28):
            talk.add_step(500)
            body = pack(talk.build_body())
            sent = post(gateway.url, "responses", body, talk.headers)
            assert (sent.status_code, sent.headers.get("x-tenfold-bypass")) == (200, None)
            if number < 3:
                assert (upstream.requests[-1].body, upstream.requests[-1].get_header("content-encoding")) == (
                    body,
                    name,
                )
        changed = [got for got in upstream.requests if got.get_header("content-encoding") is None]
        assert changed
        assert max(len(got.body) for got in changed) < WINDOW * 5
        assert all(json.loads(got.body) for got in changed), "a view goes without compression"
        assert gateway.gateway.log.totals.compactions >= 1
    (session,) = list_sessions(store)
    assert set(read_marks(store, session)) == set(talk.marks)


def test_a_shadow_forwards_the_compressed_bytes(store: Store) -> None:
    talk = Talk("chat")
    talk.headers["content-encoding"] = "gzip"
    with run_gateway(store=store, window=WINDOW, shadow=True, summary_model="auto") as (upstream, gateway):
        talk.add_user()
        talk.add_steps(28, 300)
        body = gzip.compress(talk.build_body())
        assert post(gateway.url, "chat", body, talk.headers).status_code == 200
        assert [(got.body, got.get_header("content-encoding")) for got in upstream.requests] == [(body, "gzip")]


@pytest.mark.parametrize("kind", ["gzip", "deflate", "zstd"])
def test_what_unpacks_to_more_than_the_limit_is_refused(kind: str) -> None:
    _, pack = PACKERS[kind]
    body = pack(b'{"model":"gpt-4o","messages":[' + b" " * 20_000_000 + b"]}")
    assert len(body) < 1_000_000
    with run_gateway(max_body=1_000_000) as (upstream, gateway):
        answer = post(gateway.url, "chat", body, {"content-encoding": kind})
        assert answer.status_code == 413
        assert "1,000,000" in answer.json()["error"]["message"]
        assert upstream.requests == []
        assert "running_requests 0.0" in httpx.get(f"{gateway.url}/metrics", timeout=500).text


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("br", b"\x8b\x02\x80{}\x03"),
        ("of-tomorrow", b"{}"),
        ("gzip", b"no gzip"),
        ("gzip", gzip.compress(b'{"messages":[]}')[:-9]),
        ("deflate", b"\xff\xff"),
        ("zstd", b"no zstd"),
        ("zstd", zstandard.compress(b'{"messages":[]}' * 99)[:-5]),
        ("gzip, br", b"x"),
        (", ".join(["gzip"] * 50), b"x"),
    ],
    ids=[
        "br",
        "unknown",
        "no gzip",
        "cut gzip",
        "no deflate",
        "no zstd",
        "cut zstd",
        "known and unknown",
        "fifty times",
    ],
)
def test_what_cannot_be_unpacked_is_forwarded_with_the_reason(name: str, body: bytes) -> None:
    with run_gateway() as (upstream, gateway):
        answer = post(gateway.url, "chat", body, {"content-encoding": name})
        assert (answer.status_code, answer.content) == (200, b"{}")
        assert (upstream.requests[-1].body, upstream.requests[-1].get_header("content-encoding")) == (body, name)
        assert name[:50] in answer.headers["x-tenfold-bypass"]


def test_an_overflow_of_a_compressed_request_is_compacted_and_sent_again(store: Store) -> None:
    error = b'{"error":{"code":"context_length_exceeded","message":"maximum context length is 8000 tokens"}}'

    def answer(got: RawRequest) -> RawAnswer:
        return RawAnswer((error,), 400) if got.get_header("content-encoding") else RawAnswer()

    talk = Talk("chat")
    talk.headers["content-encoding"] = "gzip"
    with run_gateway(answer, store=store, window=1_000_000) as (upstream, gateway):
        talk.add_user()
        talk.add_steps(28, 300)
        sent = post(gateway.url, "chat", gzip.compress(talk.build_body()), talk.headers)
        assert sent.status_code == 200
        assert len(upstream.requests) == 2
        assert len(upstream.requests[-1].body) < len(talk.build_body())
