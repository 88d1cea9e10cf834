"""The loopback's answers as server-sent events, made from its whole answers: OpenAI's, Anthropic's and Google's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Json = dict[str, Any]
PIECE = 12
"""Characters of a text that one event carries."""
PIECES = 6
"""Events of a text of more than 100 characters."""


def stream_events(api: str, answer: Json) -> Iterator[bytes]:
    """The events of one whole answer. Raises `KeyError` for an API that is not streamed here."""
    yield from {
        "chat": _stream_chat,
        "messages": _stream_messages,
        "responses": _stream_responses,
        "generate": _stream_generate,
    }[api](answer)


def _split_text(text: str) -> list[str]:
    size = PIECE if len(text) <= 100 else len(text) // PIECES
    return [text[n : n + size] for n in range(0, len(text), size)]


def _stream_chat(answer: Json) -> Iterator[bytes]:
    (choice,) = answer["choices"]
    message = choice["message"]

    def build_chunk(delta: Json, finish: str | None = None) -> bytes:
        choices = [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}]
        return _encode_data({**answer, "object": "chat.completion.chunk", "choices": choices, "usage": None})

    yield build_chunk({"role": "assistant", "content": ""})
    for piece in _split_text(message["content"] or ""):
        yield build_chunk({"content": piece})
    for index, call in enumerate(message.get("tool_calls", ())):
        arguments = call["function"]["arguments"]
        yield build_chunk({"tool_calls": [{**call, "index": index, "function": {**call["function"], "arguments": ""}}]})
        for piece in _split_text(arguments):
            yield build_chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield build_chunk({}, choice["finish_reason"])
    yield _encode_data({**answer, "object": "chat.completion.chunk", "choices": []})
    yield b"data: [DONE]\n\n"


def _stream_messages(answer: Json) -> Iterator[bytes]:
    usage = answer["usage"]
    opening = {**answer, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield _encode_event("message_start", {"message": opening})
    for index, block in enumerate(answer["content"]):
        empty, deltas = _BLOCKS[block["type"]](block)
        yield _encode_event("content_block_start", {"index": index, "content_block": empty})
        for delta in deltas:
            yield _encode_event("content_block_delta", {"index": index, "delta": delta})
        yield _encode_event("content_block_stop", {"index": index})
    stop = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
    yield _encode_event("message_delta", {"delta": stop, "usage": {"output_tokens": usage["output_tokens"]}})
    yield _encode_event("message_stop", {})


def _split_block(block: Json, kind: str, key: str, whole: str, **empty: object) -> tuple[Json, list[Json]]:
    """A block as it begins, and the pieces it comes in."""
    return {**block, **empty}, [{"type": kind, key: piece} for piece in _split_text(whole)]


def _split_thinking(block: Json) -> tuple[Json, list[Json]]:
    begun, deltas = _split_block(block, "thinking_delta", "thinking", block["thinking"], thinking="", signature="")
    return begun, [*deltas, {"type": "signature_delta", "signature": block["signature"]}]


_BLOCKS: Mapping[str, Callable[[Json], tuple[Json, list[Json]]]] = {
    "text": lambda block: _split_block(block, "text_delta", "text", block["text"], text=""),
    "tool_use": lambda block: _split_block(
        block, "input_json_delta", "partial_json", json.dumps(block["input"]), input={}
    ),
    "thinking": _split_thinking,
    "redacted_thinking": lambda block: (block, []),
}


def _stream_responses(answer: Json) -> Iterator[bytes]:
    number = 0

    def build_event(name: str, value: Json) -> bytes:
        nonlocal number
        number += 1
        return _encode_event(name, {"sequence_number": number, **value})

    yield build_event(
        "response.created", {"response": {**answer, "output": [], "status": "in_progress", "usage": None}}
    )
    for index, item in enumerate(answer["output"]):
        begun = {**item, "status": "in_progress"}
        begun |= {key: empty for key, empty in (("content", []), ("summary", []), ("arguments", "")) if key in item}
        at: Json = {"output_index": index, "item_id": item["id"]}
        yield build_event("response.output_item.added", {**at, "item": begun})
        for name, inside, part, whole in _split_item(item):
            if part is not None:
                yield build_event(f"response.{part}.added", {**at, **inside, "part": _EMPTY[part]})
            for piece in _split_text(whole):
                yield build_event(f"response.{name}.delta", {**at, **inside, "delta": piece})
        yield build_event("response.output_item.done", {"output_index": index, "item": item})
    yield build_event("response.completed", {"response": answer})


_EMPTY: Mapping[str, Json] = {
    "content_part": {"type": "output_text", "text": "", "annotations": []},
    "reasoning_summary_part": {"type": "summary_text", "text": ""},
}


def _split_item(item: Json) -> Iterator[tuple[str, Json, str | None, str]]:
    """What of an item comes in pieces: the events' name, the place in the item, the part it begins, the whole."""
    if item["type"] == "function_call":
        yield "function_call_arguments", {}, None, item["arguments"]
    elif item["type"] == "reasoning":
        for n, part in enumerate(item["summary"]):
            yield "reasoning_summary_text", {"summary_index": n}, "reasoning_summary_part", part["text"]
    else:
        for n, part in enumerate(item["content"]):
            yield "output_text", {"content_index": n, "logprobs": []}, "content_part", part["text"]


def _stream_generate(answer: Json) -> Iterator[bytes]:
    (candidate,) = answer["candidates"]
    shared = {key: answer[key] for key in ("modelVersion", "responseId")}
    for part in candidate["content"]["parts"]:
        whole = "thoughtSignature" in part or "text" not in part
        for piece in [part] if whole else [{"text": text} for text in _split_text(part["text"])]:
            content = {"role": "model", "parts": [piece]}
            yield _encode_data({"candidates": [{"content": content, "index": 0}], **shared})
    ends = {"content": {"role": "model", "parts": []}, "finishReason": candidate["finishReason"], "index": 0}
    yield _encode_data({"candidates": [ends], "usageMetadata": answer["usageMetadata"], **shared})


def _encode_data(value: Json) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def _encode_event(name: str, value: Json) -> bytes:
    return f"event: {name}\n".encode() + _encode_data({"type": name, **value})
