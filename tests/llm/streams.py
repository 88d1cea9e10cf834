"""The loopback's answers as server-sent events, made from its whole answers: OpenAI Chat and Anthropic."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]
PIECE = 12
"""Characters of a text that one event carries."""


def events(api: str, answer: Json) -> Iterator[bytes]:
    """The events of one whole answer. Raises `KeyError` for an API that is not streamed here."""
    yield from {"chat": _chat, "messages": _messages}[api](answer)


def _pieces(text: str) -> list[str]:
    return [text[n : n + PIECE] for n in range(0, len(text), PIECE)]


def _chat(answer: Json) -> Iterator[bytes]:
    (choice,) = answer["choices"]
    message = choice["message"]

    def chunk(delta: Json, finish: str | None = None) -> bytes:
        choices = [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}]
        return _data({**answer, "object": "chat.completion.chunk", "choices": choices, "usage": None})

    yield chunk({"role": "assistant", "content": ""})
    for piece in _pieces(message["content"] or ""):
        yield chunk({"content": piece})
    for index, call in enumerate(message.get("tool_calls", ())):
        arguments = call["function"]["arguments"]
        yield chunk({"tool_calls": [{**call, "index": index, "function": {**call["function"], "arguments": ""}}]})
        for piece in _pieces(arguments):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, choice["finish_reason"])
    yield _data({**answer, "object": "chat.completion.chunk", "choices": []})
    yield b"data: [DONE]\n\n"


def _messages(answer: Json) -> Iterator[bytes]:
    usage = answer["usage"]
    opening = {**answer, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield _named("message_start", {"message": opening})
    for index, block in enumerate(answer["content"]):
        text = block["type"] == "text"
        empty = {**block, "text": ""} if text else {**block, "input": {}}
        yield _named("content_block_start", {"index": index, "content_block": empty})
        for piece in _pieces(block["text"] if text else json.dumps(block["input"])):
            kind, key = ("text_delta", "text") if text else ("input_json_delta", "partial_json")
            delta = {"type": kind, key: piece}
            yield _named("content_block_delta", {"index": index, "delta": delta})
        yield _named("content_block_stop", {"index": index})
    stop = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
    yield _named("message_delta", {"delta": stop, "usage": {"output_tokens": usage["output_tokens"]}})
    yield _named("message_stop", {})


def _data(value: Json) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def _named(name: str, value: Json) -> bytes:
    return f"event: {name}\n".encode() + _data({"type": name, **value})
