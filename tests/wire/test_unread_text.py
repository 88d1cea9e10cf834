"""No text vanishes: a list whose messages hold what its format does not have is refused, with what was seen."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pytest

import tenfold
from tenfold.core.wire import WIRES, detect_wire
from tenfold.core.wire.decoded_history import DecodedHistory
from tenfold.errors import BadInput, UnknownFormat
from tenfold.formats import read_data

RULE = "Clean the storage. Always use region eu-1."


def fill(number: int) -> str:
    return " ".join(f"row{number}x{at}" for at in range(60))


def build_list(
    first: object, call: Callable[[int], object], result: Callable[[int], object], count: int = 20
) -> list[object]:
    return [first, *(each for n in range(count) for each in (call(n), result(n)))]


CONVERSE = build_list(
    {"role": "user", "content": [{"text": RULE}]},
    lambda n: {"role": "assistant", "content": [{"toolUse": {"toolUseId": f"t{n}", "name": "ls", "input": {}}}]},
    lambda n: {"role": "user", "content": [{"toolResult": {"toolUseId": f"t{n}", "content": [{"text": fill(n)}]}}]},
)
MODEL_MESSAGES = build_list(
    {"role": "user", "content": RULE},
    lambda n: {
        "role": "assistant",
        "content": [{"type": "tool-call", "toolCallId": f"t{n}", "toolName": "ls", "input": {}}],
    },
    lambda n: {
        "role": "tool",
        "content": [{"type": "tool-result", "toolCallId": f"t{n}", "output": {"value": fill(n)}}],
    },
)
UI_MESSAGES = build_list(
    {"id": "m", "role": "user", "parts": [{"type": "text", "text": RULE}]},
    lambda n: {
        "id": f"a{n}",
        "role": "assistant",
        "parts": [{"type": "tool-ls", "toolCallId": f"t{n}", "output": fill(n)}],
    },
    lambda n: {"id": f"u{n}", "role": "user", "parts": [{"type": "text", "text": fill(n)}]},
)
GOOSE = build_list(
    {"role": "user", "created": 1, "content": [{"type": "text", "text": RULE}]},
    lambda n: {"role": "assistant", "created": 2, "content": [{"type": "toolRequest", "id": f"t{n}", "toolCall": {}}]},
    lambda n: {
        "role": "user",
        "created": 3,
        "content": [{"type": "toolResponse", "id": f"t{n}", "toolResult": {"value": fill(n)}}],
    },
)
PYDANTIC_AI = build_list(
    {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": RULE}]},
    lambda n: {"kind": "response", "parts": [{"part_kind": "tool-call", "tool_name": "ls", "tool_call_id": f"t{n}"}]},
    lambda n: {"kind": "request", "parts": [{"part_kind": "tool-return", "content": fill(n), "tool_call_id": f"t{n}"}]},
)
LANGCHAIN = build_list(
    {"type": "human", "data": {"content": RULE}},
    lambda n: {"type": "ai", "data": {"content": "", "tool_calls": [{"id": f"t{n}", "name": "ls", "args": {}}]}},
    lambda n: {"type": "tool", "data": {"content": fill(n), "tool_call_id": f"t{n}"}},
)
SHARED = {
    "Bedrock Converse": CONVERSE,
    "ModelMessages of the Vercel": MODEL_MESSAGES,
    "UIMessages of the Vercel": UI_MESSAGES,
    "goose": GOOSE,
    "pydantic-ai": PYDANTIC_AI,
    "LangChain": LANGCHAIN,
}
ODD_PARTS = build_list(
    {"role": "user", "content": RULE},
    lambda n: {"role": "assistant", "content": [{"type": "hologram", "data": fill(n)}]},
    lambda n: {"role": "user", "content": f"go on with {n}"},
)
ODD_FIELDS = build_list(
    {"role": "user", "content": RULE},
    lambda n: {"role": "assistant", "content": "", "steps": [{"did": fill(n)}]},
    lambda n: {"role": "user", "content": f"go on with {n}"},
)
ODD_CONTENT = build_list(
    {"role": "user", "content": RULE},
    lambda n: {"role": "assistant", "content": {"text": fill(n)}},
    lambda n: {"role": "user", "content": f"go on with {n}"},
)


@pytest.mark.parametrize("name", list(SHARED))
def test_a_list_in_the_shape_of_another_program_is_refused_by_its_name(name: str) -> None:
    with pytest.raises(UnknownFormat, match=f"{name}.*tenfold compact FILE --format"):
        tenfold.compact(SHARED[name], to=1_500)


@pytest.mark.parametrize("name", list(SHARED))
@pytest.mark.parametrize("wire", list(WIRES))
def test_no_wire_takes_the_list_when_it_is_named(name: str, wire: str) -> None:
    with pytest.raises(BadInput):
        tenfold.compact(SHARED[name], to=1_500, format=wire)


@pytest.mark.parametrize(
    ("messages", "seen"),
    [(ODD_PARTS, "parts of type 'hologram'"), (ODD_FIELDS, "the field 'steps'"), (ODD_CONTENT, "the field 'content'")],
)
def test_text_in_unknown_places_refuses_the_list_with_the_arithmetic(messages: list[object], seen: str) -> None:
    lost = sum(len(fill(n)) for n in range(20))
    with pytest.raises(UnknownFormat, match=f"20 of 41 messages have .*{seen}; {lost:,} characters"):
        tenfold.compact(messages, to=1_500)


@pytest.mark.parametrize("messages", [ODD_PARTS, ODD_FIELDS, ODD_CONTENT])
def test_a_file_with_such_messages_is_refused_too(messages: list[object]) -> None:
    for data in (json.dumps(messages).encode(), b"\n".join(json.dumps(m).encode() for m in messages)):
        with pytest.raises(UnknownFormat, match=r"m\.json: 20 of 41 messages have"):
            read_data(data, file="m.json")


@pytest.mark.parametrize("messages", [ODD_PARTS, ODD_FIELDS])
def test_a_few_unknown_parts_are_kept(messages: list[object]) -> None:
    plain = [{"role": "user", "content": f"do step {n}"} for n in range(20)]
    listed = [*plain, *messages[:4], *plain]
    assert tenfold.compact(listed, to=5_000).messages == listed


def test_a_session_counts_what_it_could_not_read_from_request_to_request() -> None:
    history = DecodedHistory()
    request: list[object] = [{"role": "user", "content": f"do step {n}"} for n in range(20)]
    history = history.decode_next(list(request), "openai-chat")
    for number in range(3):
        request += [{"role": "assistant", "content": [{"type": "hologram", "data": fill(number)}]}]
        request += [{"role": "user", "content": "go on"}]
        history = history.decode_next(list(request), "openai-chat")
    assert len(history.unread) == 3
    with pytest.raises(UnknownFormat, match="4 of 27 messages"):
        history.decode_next(
            [*request, {"role": "assistant", "content": [{"type": "hologram", "data": "a b"}]}], "openai-chat"
        )


KNOWN: Sequence[tuple[str, object]] = (
    ("openai-chat", {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}),
    ("openai-chat", {"role": "assistant", "content": "see", "annotations": [{"url_citation": {"title": "a page"}}]}),
    ("openai-responses", {"type": "file_search_call", "id": "f", "results": [{"text": "a long result"}]}),
    ("openai-responses", {"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "a b", "stderr": "c d"}]}),
    ("anthropic", {"role": "assistant", "content": [{"type": "server_tool_use", "input": {"query": "a b"}}]}),
    ("anthropic", {"role": "user", "content": [{"type": "web_fetch_tool_result", "content": {"text": "a b c"}}]}),
    ("gemini", {"role": "model", "parts": [{"executableCode": {"code": "print( 1 )"}}]}),
    ("gemini", {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"a": "b", "d": ["e\n"]}}}]}),
)  # fmt: skip


@pytest.mark.parametrize(("wire", "message"), KNOWN)
def test_what_a_provider_has_beside_text_is_not_unread(wire: str, message: object) -> None:
    assert DecodedHistory().decode_next([message], wire).unread == []


def test_the_wire_that_has_such_parts_is_named() -> None:
    calls = [{"role": "user", "content": [{"type": "tool_use", "id": "a", "name": "b", "input": {"x": "y z"}}]}] * 8
    with pytest.raises(UnknownFormat, match=r"8 of 8 messages .*; anthropic have such parts"):
        tenfold.compact(calls, to=1_000, format="openai-chat")


def test_plain_texts_stay_of_the_usual_wire() -> None:
    assert detect_wire([{"role": "user", "content": "hello there"}]) == "openai-chat"
