"""What a provider counted, and whether its answer is whole, is read from whatever form the answer comes in."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
import zlib
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import zstandard

from tenfold.apps.gateway.event_stream import EventSplitter
from tenfold.apps.gateway.usage_reader import MAX_ANSWER, UsageReader
from tests.gateway.conversations import Talk
from tests.gateway.serving import RawAnswer, run_gateway, wait_until

Json = dict[str, Any]
CREATED: Json = {
    "type": "response.created",
    "response": {"id": "r", "status": "in_progress", "error": None, "usage": None},
}
DELTA: Json = {"type": "response.output_text.delta", "delta": '"error": {"finish_reason": "stop"} data: [DONE]'}
ITEM: Json = {"type": "response.output_item.done", "item": {"type": "mcp_call", "error": None, "output": "x"}}
TOLD: Json = {"input_tokens": 12, "output_tokens": 3}
COUNT: Json = {"promptTokenCount": 12, "candidatesTokenCount": 3}
CHOICE: Json = {
    "choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": None}],
    "usage": None,
    "error": None,
}
CANDIDATE: Json = {"candidates": [{"content": {"parts": [{"text": "a"}]}}]}
STARTED: Json = {"type": "message_start", "message": {"usage": {"input_tokens": 12}, "stop_reason": None}}
OPEN: dict[str, list[Json]] = {
    "responses": [CREATED, DELTA, ITEM, DELTA],
    "chat": [CHOICE, CHOICE],
    "messages": [STARTED, {"type": "content_block_delta", "delta": {"text": "message_stop"}}],
    "generate": [CANDIDATE, {**CANDIDATE, "promptFeedback": {}}],
}
"""How streams begin that are not at their end yet."""
LAST: dict[str, list[Json]] = {
    "responses": [
        {"type": "response.completed", "response": {"id": "r", "error": None, "usage": TOLD}},
        {"type": "response.incomplete", "response": {"id": "r", "usage": TOLD}},
        {"type": "response.failed", "response": {"error": {"code": "x"}, "usage": TOLD}},
        {"type": "error", "message": "x"},
    ],
    "chat": [{"choices": [{"delta": {}, "finish_reason": "length"}], "usage": TOLD}, {"error": {"message": "x"}}],
    "messages": [{"type": "message_stop", "usage": TOLD}, {"type": "error", "error": {"type": "overloaded_error"}}],
    "generate": [
        {"candidates": [{"finishReason": "STOP"}], "usageMetadata": COUNT},
        {"promptFeedback": {"blockReason": "SAFETY"}},
        {"error": {"code": 500}},
    ],
}
WIRE_OF: dict[str, str] = {
    "responses": "openai-responses",
    "chat": "openai-chat",
    "messages": "anthropic",
    "generate": "gemini",
}
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd": zstandard.compress,
    "gzip, zstd": lambda data: zstandard.compress(gzip.compress(data)),
}


def write_events(events: list[Json], end: str = "\n") -> bytes:
    """A stream of events with one kind of line end."""
    lines = [f"event: {event.get('type', 'message')}{end}data: {json.dumps(event)}{end}{end}" for event in events]
    return f": a comment{end}{end}{''.join(lines)}".encode()


def read(
    body: bytes, kind: str = "responses", *, is_stream: bool, encodings: str = "", size: int = 7
) -> tuple[UsageReader, Json]:
    """A reader that was given a body in chunks of a size, and its report."""
    reader = UsageReader(WIRE_OF[kind], is_stream=is_stream, encodings=encodings)
    for start in range(0, len(body), size):
        reader.feed(body[start : start + size])
    return reader, asyncio.run(reader.finish())


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("kind", OPEN)
def test_a_stream_is_whole_with_its_last_event(kind: str, end: str) -> None:
    """Whatever its events say of errors that there were not, and whatever the model writes."""
    opening = write_events(OPEN[kind], end)
    for size in (1, 7, 10_000):
        assert not read(opening, kind, is_stream=True, size=size)[0].is_complete
        for last in LAST[kind]:
            reader, report = read(opening + write_events([last], end), kind, is_stream=True, size=size)
            assert reader.is_complete, last
            usage = last.get("usage") or last.get("usageMetadata") or (last.get("response") or {}).get("usage")
            told = report.get("usage") or report.get("usageMetadata") or {}
            assert not usage or usage.items() <= told.items()


@pytest.mark.parametrize("tail", ["", "\n", "\r\n\r\n"])
def test_a_stream_may_end_without_an_empty_line(tail: str) -> None:
    last = write_events([LAST["chat"][0]]).rstrip() + tail.encode()
    assert read(write_events(OPEN["chat"]) + last, "chat", is_stream=True)[1] == {"usage": TOLD}
    assert read(b"data: [DONE]" + tail.encode(), "chat", is_stream=True)[0].is_complete


def test_data_in_several_lines_is_one_event() -> None:
    text = json.dumps(LAST["responses"][0], indent=1)
    reader, report = read("".join(f"data: {line}\r" for line in text.split("\n")).encode() + b"\r", is_stream=True)
    assert (reader.is_complete, report, reader.response["id"]) == (True, {"usage": TOLD}, "r")


@pytest.mark.parametrize("packer", PACKERS)
def test_usage_is_read_from_compressed_bodies(packer: str) -> None:
    pack = PACKERS[packer]
    body = pack(json.dumps({"id": "r", "usage": TOLD}).encode())
    assert read(body, is_stream=False, encodings=packer)[1] == {"id": "r", "usage": TOLD}
    stream = pack(write_events([*OPEN["responses"], LAST["responses"][0]]))
    reader, report = read(stream, is_stream=True, encodings=packer)
    assert (reader.is_complete, report) == (True, {"usage": TOLD})
    assert not read(pack(write_events(OPEN["responses"])), is_stream=True, encodings=packer)[0].is_complete


@pytest.mark.parametrize("packer", PACKERS)
def test_usage_is_read_from_an_array_of_answers(packer: str) -> None:
    """What Gemini streams without `alt=sse`. Each answer tells the usage so far."""
    first, last = {**CANDIDATE, "usageMetadata": {"promptTokenCount": 12}}, LAST["generate"][0]
    body = PACKERS[packer](json.dumps([first, CANDIDATE, last, None]).encode())
    assert read(body, "generate", is_stream=False, encodings=packer)[1] == {"usageMetadata": COUNT}


@pytest.mark.parametrize("encodings", ["br", "gzip", "gzip, br", "zstd"])
def test_what_nobody_can_read_is_no_cut(encodings: str) -> None:
    reader, report = read(b"neither of these", is_stream=True, encodings=encodings)
    assert (reader.is_complete, report) == (True, {})


@pytest.mark.parametrize("packer", ["gzip", "deflate", "zstd"])
def test_what_unpacks_to_too_much_is_not_read(packer: str) -> None:
    body = PACKERS[packer](b" " * MAX_ANSWER + json.dumps({"usage": TOLD}).encode())
    assert read(body, is_stream=False, encodings=packer, size=10_000)[1] == {}


def test_a_large_event_is_not_copied_at_every_chunk() -> None:
    """Four times as many chunks take about four times as long, not sixteen times."""
    chunk = b"x" * 2_000

    def measure(count: int) -> float:
        start = time.process_time()
        splitter, reader = EventSplitter(), UsageReader("openai-chat", is_stream=True)
        for _ in range(count):
            assert splitter.take(chunk) == []
            reader.feed(chunk)
        assert len(splitter.rest) == count * len(chunk)
        return time.process_time() - start

    few, many = (min(measure(count) for _ in range(3)) for count in (500, 4_000))
    assert many < 24 * few, "eight times as many chunks"


def test_a_cut_stream_of_responses_is_noticed() -> None:
    stream = ((b"content-type", b"text/event-stream"),)
    opening, whole = (
        [write_events([each]) for each in (*OPEN["responses"], *more)] for more in ([], [LAST["responses"][0]])
    )
    talk = Talk("responses")
    talk.extra["stream"] = True
    talk.add_user()
    talk.add_step()
    for chunks, cuts in ((whole, "0.0"), (opening, "1.0")):
        with run_gateway(RawAnswer(chunks, headers=stream)) as (_upstream, gateway):
            assert talk.send(gateway.url).content == b"".join(chunks)
            wait_until(lambda: gateway.gateway.log.totals.requests == 1)  # it is counted behind the answer
            assert f"cut_responses_total {cuts}" in httpx.get(f"{gateway.url}/metrics", timeout=500).text
