"""One answer or one request does not hold the process: what is read of it is bounded, unpacked or not."""

from __future__ import annotations

import gzip
import json
import time
import zlib
from collections.abc import Callable, Iterator
from functools import partial

import httpx
import pytest
import zstandard

from tenfold.apps.gateway.upstream_bodies import MAX_ERROR
from tenfold.apps.gateway.usage_reader import MAX_ANSWER
from tests.gateway.conversations import PATHS, Talk
from tests.gateway.serving import RawAnswer, RawRequest, run_gateway, wait_until
from tests.gateway.test_trust import read_resident_size

JSON = (b"content-type", b"application/json")
ERROR = b'{"error":{"message":"bad request"}}'
MIB = 1024 * 1024
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd": zstandard.compress,
    "gzip, zstd": lambda data: zstandard.compress(gzip.compress(data)),
    "br": bytes,
}


NOISE = 0.03
"""Seconds of the processor below which a measure says nothing."""


def start_talk() -> Talk:
    """A conversation that belongs to a session, so that its answers are read."""
    talk = Talk("chat")
    talk.add_user()
    talk.add_step()
    return talk


def read_raw(url: str, talk: Talk) -> tuple[httpx.Response, bytes]:
    """Sends a request and reads the answer as it comes."""
    with httpx.stream(
        "POST", f"{url}{PATHS['chat']}", content=talk.build_body(), headers=talk.headers, timeout=500
    ) as answer:
        return answer, b"".join(answer.iter_raw())


@pytest.mark.costly(3)
@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("status", [400, 413])
def test_an_error_that_unpacks_to_much_is_read_to_its_beginning(packer: str, status: int) -> None:
    """It passes as it came. Sixteen times as much in it takes no more work."""
    sizes = (MIB, 4 * MIB, 64 * MIB)  # the first for what is loaded once
    expected = [PACKERS[packer](b"so. " * (size // 4) + ERROR) if packer != "br" else ERROR for size in sizes]
    bodies = iter(expected)
    headers = (JSON, (b"content-encoding", packer.encode()))
    with run_gateway(lambda _: RawAnswer((next(bodies),), status, headers), window=100_000) as (_upstream, gateway):
        work = []
        for body in expected:
            talk = start_talk()
            before = time.process_time()
            answer, raw = read_raw(gateway.url, talk)
            work.append(time.process_time() - before)
            assert (answer.status_code, answer.headers["content-encoding"], raw) == (status, packer, body)
        assert work[2] < 8 * max(work[1], NOISE), "sixteen times as much"


def test_a_long_error_passes_without_being_kept() -> None:
    chunk, count = b"x" * MIB, 150
    answers = iter([RawAnswer((ERROR,), 400), RawAnswer([chunk] * count, 400)])
    talk = start_talk()
    with run_gateway(lambda _: next(answers), window=16_000, summary_model="auto") as (_upstream, gateway):
        assert read_raw(gateway.url, talk)[1] == ERROR, "what is loaded once is there"
        before, size, most = read_resident_size(), 0, 0
        with httpx.stream("POST", f"{gateway.url}{PATHS['chat']}", content=talk.build_body(), timeout=500) as answer:
            for part in answer.iter_raw():
                size += len(part)
                most = max(most, read_resident_size() - before)
    assert (answer.status_code, size) == (400, count * len(chunk))
    assert most < size / 2


def answer_in_turn(answers: Iterator[RawAnswer], _: RawRequest) -> RawAnswer:
    return next(answers)


def test_an_overflow_is_known_by_the_beginning_of_an_error() -> None:
    """However long it is, and compressed or not."""
    told = b'{"error":{"message":"prompt is too long: 9000 tokens > 8000 maximum' + b" " * 4 * MAX_ERROR + b'"}}'
    for packer in ("identity", "gzip", "zstd"):
        body = PACKERS.get(packer, bytes)(told)
        refused = RawAnswer((body,), 400, (JSON, (b"content-encoding", packer.encode())))
        talk = start_talk()
        talk.add_steps(20, 200)
        with run_gateway(partial(answer_in_turn, iter([refused, RawAnswer()])), window=100_000) as (upstream, gateway):
            assert read_raw(gateway.url, talk)[0].status_code == 200
            first, second = upstream.requests
            assert len(second.body) < len(first.body)


def compact_first(answer: Callable[[RawRequest], RawAnswer]) -> tuple[Talk, Callable[[RawRequest], RawAnswer]]:
    """A conversation that is compacted at once, so that its answers are searched for lookups."""
    talk = start_talk()
    talk.add_steps(24, 400)
    return talk, lambda got: answer(got) if b"recall_search" in got.body else RawAnswer()


@pytest.mark.parametrize(
    ("packer", "kind"),
    [
        *((packer, "application/json") for packer in ("gzip", "zstd", "br", "")),
        *((packer, "text/event-stream") for packer in ("deflate", "zstd", "br")),
    ],
)
def test_an_answer_that_is_too_large_to_be_searched_passes_as_it_came(packer: str, kind: str) -> None:
    plain = b'{"choices":[{"message":{"content":"' + b"a" * MAX_ANSWER + b'"}}]}'
    body = PACKERS.get(packer, bytes)(plain)
    headers = [(b"content-type", kind.encode())] + ([(b"content-encoding", packer.encode())] if packer else [])
    if packer == "br":
        body = b"only brotli knows"
    talk, answer = compact_first(lambda _: RawAnswer((body,), headers=tuple(headers)))
    with run_gateway(answer, window=8_000) as (upstream, gateway):
        got, raw = read_raw(gateway.url, talk)
        assert b"recall_search" in upstream.requests[-1].body
    assert (got.status_code, got.headers.get("content-encoding", "")) == (200, packer)
    assert raw == body


@pytest.mark.parametrize("packer", ["gzip", "deflate", "zstd", "gzip, zstd"])
@pytest.mark.parametrize("is_stream", [False, True])
def test_a_compressed_answer_is_searched_for_lookups(packer: str, is_stream: bool) -> None:  # noqa: FBT001 - both
    said = {"id": "c1", "function": {"name": "recall_search", "arguments": '{"query": "part"}'}, "type": "function"}
    turns = [{"role": "assistant", "tool_calls": [{"index": 0, **said}]}, {"role": "assistant", "content": "Found."}]
    ends = iter([(turns[0], "tool_calls"), (turns[1], "stop")])

    def give(_: RawRequest) -> RawAnswer:
        turn, end = next(ends)
        choice = {"index": 0, "delta" if is_stream else "message": turn, "finish_reason": end}
        body = json.dumps({"id": "x", "choices": [choice]}).encode()
        body = b"data: " + body + b"\n\ndata: [DONE]\n\n" if is_stream else body
        kind = b"text/event-stream" if is_stream else b"application/json"
        return RawAnswer(
            (PACKERS[packer](body),), headers=((b"content-type", kind), (b"content-encoding", packer.encode()))
        )

    talk, answer = compact_first(give)
    talk.extra["stream"] = is_stream
    with run_gateway(answer, window=8_000) as (upstream, gateway):
        got, raw = read_raw(gateway.url, talk)
        assert b"Found." in raw
        assert b"recall_search" not in raw
        assert "content-encoding" not in got.headers
        assert len(upstream.requests) == 2


def test_a_summary_that_unpacks_to_much_is_none() -> None:
    """The summary is written by code then, and the request is answered."""
    packed = gzip.compress(b" " * 64 * MIB + b"{}")

    def answer(got: RawRequest) -> RawAnswer:
        if b'"tools"' in got.body:
            return RawAnswer()
        return RawAnswer((packed,), headers=(JSON, (b"content-encoding", b"gzip")))

    talk = start_talk()
    for _ in range(24):
        talk.add_answer("word " * 700)
        talk.add_user()
    with run_gateway(answer, window=16_000, summary_model="auto") as (upstream, gateway):
        assert talk.send(gateway.url).status_code == 200
        assert len(upstream.requests) > 1, "a summary was asked for"
        wait_until(lambda: gateway.gateway.log.totals.requests == 1)
        assert gateway.gateway.log.totals.compactions == 1
