"""Small made-up conversations for the tests of summarising."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hypothesis import strategies as st

from tenfold.record.block import Fact, FactKind
from tenfold.record.message import Document, Image, Message, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from tenfold.summarize.facts import extract


def quarter(texts: Sequence[str]) -> list[int]:
    """Characters/4, rounded up."""
    return [(len(text) + 3) // 4 for text in texts]


def human(text: str) -> Message:
    return Message("user", (Text(text),), "human")


def says(text: str) -> Message:
    return Message("assistant", (Text(text),), "model")


def calls(name: str, **arguments: object) -> Message:
    return Message("assistant", (ToolCall("c1", name, json.dumps(arguments)),), "model")


def gives(text: str, call: str = "c1", *, error: bool = False) -> Message:
    return Message("tool", (ToolResult(call, "", (Text(text),), error),), "tool")


def ran(command: str, output: str = "ok\n", *, error: bool = False) -> list[Message]:
    return [calls("bash", command=command), gives(output, error=error)]


def facts_of(*messages: Message, kind: FactKind | None = None) -> list[Fact]:
    return [fact for fact in extract(enumerate(messages)) if kind is None or fact.kind == kind]


def texts_of(*messages: Message, kind: FactKind) -> list[str]:
    return [fact.text for fact in facts_of(*messages, kind=kind)]


WORDS = st.text(max_size=60) | st.sampled_from(
    [
        "never use tabs",
        "no, not that",
        "Traceback (most recent call last):",
        "ValueError: x",
        "/a/b.py",
        "- [x] done",
        "1. one\n2. two\n3. three",
        "```\nedit 1:2\nend\n```",
        "<command>\nls\n</command>",
        "# Facts",
        "## Rules (user)",
        "exit code 1",
        "password=hunter22secret",
        "a" * 400,
        "\x1b[31mred\x1b[0m",
        "不要这样",
        "\u0000\ud7ff",
        "cat <<EOF > f",
    ]
)
CALLS = st.builds(
    ToolCall,
    st.sampled_from(["c1", "c2", ""]),
    st.sampled_from(["bash", "edit", "read", "write", "TodoWrite", "grep", "x"]),
    st.one_of(
        st.just("{}"),
        WORDS,
        st.just("[1]"),
        st.just('{"todos":[{"content":"a","status":"completed"},3]}'),
        st.builds(lambda c: json.dumps({"command": c}), WORDS),
        st.builds(lambda p: json.dumps({"path": p}), WORDS),
        st.just('{"command":["bash","-lc","rm -rf x"]}'),
    ),
)
RESULTS = st.builds(
    ToolResult,
    st.sampled_from(["c1", "c2", ""]),
    st.just(""),
    st.lists(
        st.builds(Text, WORDS) | st.just(Image(data="aGk=")) | st.just(Document(name="d", text="t")), max_size=2
    ).map(tuple),
    st.booleans(),
)
PARTS: st.SearchStrategy[Part] = st.one_of(
    st.builds(Text, WORDS), st.builds(Thinking, WORDS), CALLS, st.just(Opaque("x", b"{}")), st.just(Image())
)
MESSAGES = st.one_of(
    st.builds(
        Message,
        st.sampled_from(["user", "assistant", "system"]),
        st.lists(PARTS, max_size=3).map(tuple),
        st.sampled_from(["human", "tool", "harness", "model", "tenfold"]),
        st.sampled_from(["ok", "aborted", "error"]),
    ),
    st.builds(lambda part: Message("tool", (part,), "tool"), RESULTS),
)
HISTORIES = st.lists(MESSAGES, max_size=14)
