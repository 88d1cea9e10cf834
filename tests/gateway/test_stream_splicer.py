"""Streams that are joined, event by event: what some servers write, and what a chunk of the network may be."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tenfold.apps.gateway.event_stream import EventSplitter
from tenfold.apps.gateway.recall_loop import StreamSplicer
from tests.gateway.recall_setting import open_stream
from tests.models.loopback import SPOKEN, Api, Served
from tests.models.streams import stream_events

APIS: Mapping[str, Api] = {
    "openai-chat": "chat",
    "openai-responses": "responses",
    "anthropic": "messages",
    "gemini": "generate",
}
SEARCH = ("r1", "recall_search", {"words": "port"})
LOOK = ("n1", "look", {"path": "a.py"})


def pass_through(splicer: StreamSplicer, data: bytes, size: int) -> bytes:
    """What the client gets of one round that comes in chunks of `size` bytes."""
    splitter = EventSplitter()
    out = [splicer.take(event) for at in range(0, len(data), size) for event in splitter.take(data[at : at + size])]
    return b"".join(out) + splicer.finish_round(splitter.rest)


def build_stream(wire: str, served: Served) -> bytes:
    """The bytes of a streamed answer."""
    return b"".join(stream_events(APIS[wire], SPOKEN[APIS[wire]](served, "m")))


def encode_chunks(*deltas: Mapping[str, Any], finish: str = "stop") -> bytes:
    """A stream of Chat Completions with these deltas, the last one with the reason of the end."""
    ends = [None] * (len(deltas) - 1) + [finish]
    chunks = [
        {"id": "c1", "choices": [{"index": 0, "delta": delta, "finish_reason": end}]}
        for delta, end in zip(deltas, ends, strict=True)
    ]
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\r\n\r\n" for chunk in chunks) + b"data: [DONE]\r\n\r\n"


def read_deltas(data: bytes) -> list[dict[str, Any]]:
    """The deltas of a stream of Chat Completions."""
    lines = [line[6:] for line in data.splitlines() if line.startswith(b"data: {")]
    return [json.loads(line)["choices"][0]["delta"] for line in lines]


def start_splicer(wire: str) -> StreamSplicer:
    """A splicer for the answers of an API."""
    return StreamSplicer(open_stream(wire))


@pytest.mark.parametrize("size", [1, 7, 64, 100_000])
@pytest.mark.parametrize("wire", APIS)
def test_an_answer_without_lookups_keeps_its_bytes(wire: str, size: int) -> None:
    for served in (
        Served("Some text.", thought=("Hm.", "sig1")),
        Served("Some text.", "tool", call=LOOK, also=(("n2", "look", {"path": "b" * 300}),), thought=("Hm.", "sig1")),
        Served("", "length"),
    ):
        data = build_stream(wire, served)
        assert pass_through(start_splicer(wire), data, size) == data
        assert pass_through(start_splicer(wire), data[:-20], size) == data[:-20]  # as far as it came


@pytest.mark.parametrize("size", [1, 50, 100_000])
@pytest.mark.parametrize("wire", APIS)
def test_the_answer_behind_silent_lookups_keeps_its_bytes(wire: str, size: int) -> None:
    splicer = start_splicer(wire)
    lookup = build_stream(wire, Served("", "tool", call=SEARCH, also=(LOOK,), thought=("Hm.", "sig1")))
    answer = build_stream(wire, Served("Some text.", thought=("Ah.", "sig2")))
    for _ in range(2):
        assert pass_through(splicer, lookup, size) == b""
        assert splicer.is_hiding
        splicer.start_round(is_last=False)
    assert pass_through(splicer, answer, size) == answer
    assert not splicer.is_hiding


def test_chat_says_several_things_in_one_chunk() -> None:
    search = {"index": 0, "id": "a", "function": {"name": "recall_search", "arguments": '{"words": "x"}'}}
    data = encode_chunks({"role": "assistant", "content": "So: ", "tool_calls": [search]}, finish="tool_calls")
    splicer = start_splicer("openai-chat")
    assert read_deltas(pass_through(splicer, data, 30)) == [{"role": "assistant", "content": "So: "}]
    assert splicer.is_hiding
    splicer.start_round(is_last=False)
    more = encode_chunks({"role": "assistant", "content": ""}, {"role": "assistant", "content": "y"}, {})
    assert read_deltas(pass_through(splicer, more, 30)) == [{"content": "y"}, {}]


def test_chat_servers_that_do_not_number_calls() -> None:
    search = {"id": "a", "function": {"name": "recall_search", "arguments": '{"words": "x"}'}}
    read = {"id": "b", "function": {"name": "recall_read", "arguments": '{"entry": "1"}'}}
    form = open_stream("openai-chat")
    splicer = StreamSplicer(form)
    assert pass_through(splicer, encode_chunks({"tool_calls": [search]}, {"tool_calls": [read]}, {}), 30) == b""
    assert [call.name for call in form.form.find_calls(form.build_answer())] == ["recall_search", "recall_read"]


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
def test_reasoning_of_chat_servers_waits_for_what_follows(key: str) -> None:
    search = {"index": 0, "id": "a", "function": {"name": "recall_search", "arguments": "{}"}}
    form = open_stream("openai-chat")
    splicer = StreamSplicer(form)
    data = encode_chunks({"role": "assistant"}, {key: "Where "}, {key: "was it?"}, {"tool_calls": [search]}, {})
    assert pass_through(splicer, data, 30) == b""
    assert form.form.build_turn(form.build_answer(), ["found"])[0][key] == "Where was it?"
    splicer.start_round(is_last=False)
    answer = encode_chunks({"role": "assistant"}, {key: "Ah."}, {"content": "Here."}, {})
    assert pass_through(splicer, answer, 30) == answer


@pytest.mark.parametrize("arguments", ["", "{", "[1]", '{"words": '])
def test_arguments_that_are_cut_off_are_sent_back_as_none(arguments: str) -> None:
    search = {"index": 0, "id": "a", "function": {"name": "recall_search", "arguments": arguments}}
    form = open_stream("openai-chat")
    pass_through(StreamSplicer(form), encode_chunks({"tool_calls": [search]}, {}, finish="length"), 30)
    answer = form.build_answer()
    assert not form.form.find_calls(answer)[0].arguments
    assert form.form.build_turn(answer, ["needs words"])[0]["tool_calls"][0]["function"]["arguments"] == "{}"


def test_an_event_that_cannot_be_read_passes() -> None:
    data = b'event: x\ndata: {"type": "content_block_delta"}\n\n: a comment\n\ndata: no json\n\n'
    splicer = start_splicer("anthropic")
    assert pass_through(splicer, data, 10) == data
    assert splicer.faults == 1


def test_pings_pass_while_a_lookup_is_hidden() -> None:
    ping = b'event: ping\ndata: {"type": "ping"}\n\n'
    splicer = start_splicer("anthropic")
    lookup = build_stream("anthropic", Served("Let me look.", "tool", call=SEARCH))
    before = pass_through(splicer, lookup, 100)
    assert b"Let me look." in before
    assert pass_through(splicer, ping + b": still there\n\n", 9) == ping + b": still there\n\n"
    silent = start_splicer("anthropic")
    pass_through(silent, build_stream("anthropic", Served("", "tool", call=SEARCH)), 100)
    assert pass_through(silent, ping, 9) == b""  # nothing may come before the answer has begun


def test_gemini_parts_beside_a_lookup() -> None:
    parts: Sequence[dict[str, Any]] = [
        {"text": "So: "},
        {"functionCall": {"name": "recall_search", "args": {"words": "x"}}},
        {"functionCall": {"name": "look", "args": {}}},
    ]
    chunk = {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}],
        "usageMetadata": {},
    }
    splicer = start_splicer("gemini")
    passed = pass_through(splicer, b"data: " + json.dumps(chunk).encode() + b"\n\n", 30)
    (candidate,) = json.loads(passed[6:])["candidates"]
    assert candidate == {"content": {"role": "model", "parts": [{"text": "So: "}]}}
    assert splicer.is_hiding


def test_the_first_call_of_gemini_has_a_signature_in_the_last_round() -> None:
    signed = {"functionCall": {"name": "recall_search", "args": {}}, "thoughtSignature": "c2ln"}
    look = {"functionCall": {"name": "look", "args": {}}}
    chunk = {"candidates": [{"content": {"role": "model", "parts": [signed, look]}, "finishReason": "STOP"}]}
    splicer = start_splicer("gemini")
    splicer.start_round(is_last=True)
    passed = pass_through(splicer, b"data: " + json.dumps(chunk).encode() + b"\n\n", 30)
    assert b"recall_search" not in passed
    assert b'"thoughtSignature":"skip_thought_signature_validator"' in passed
