"""Small made-up conversations for the tests of summarising."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial

from hypothesis import strategies as st
from msgspec.structs import replace

from tenfold.compaction.facts.extractor import extract_facts
from tenfold.compaction.summarize.reserved_marks import NOTES_FRAME
from tenfold.core.record.fact import (
    ChangedFile,
    Claim,
    CommandRun,
    Correction,
    Fact,
    FactKind,
    Failure,
    FileRead,
    Remark,
    Request,
    Rule,
    TodoList,
)
from tenfold.core.record.message import Document, Image, Message, OpaquePart, Part, Text, Thinking, ToolCall, ToolResult


def estimate_tokens(texts: Sequence[str]) -> list[int]:
    """Characters/4, rounded up."""
    return [(len(text) + 3) // 4 for text in texts]


def make_user(text: str) -> Message:
    return Message("user", (Text(text),), "human")


def make_answer(text: str) -> Message:
    return Message("assistant", (Text(text),), "model")


def make_call(name: str, **arguments: object) -> Message:
    return Message("assistant", (ToolCall("c1", name, json.dumps(arguments)),), "model")


def make_result(text: str, call: str = "c1", *, error: bool = False) -> Message:
    return Message("tool", (ToolResult(call, "", (Text(text),), error),), "tool")


def make_run(command: str, output: str = "ok\n", *, error: bool = False) -> list[Message]:
    return [make_call("bash", command=command), make_result(output, error=error)]


_MAKERS: dict[FactKind, Callable[[str, int, bool], Fact]] = {
    "request": Request,
    "rule": Rule,
    "correction": Correction,
    "remark": Remark,
    "claimed": partial(Claim, about="rule"),
    "file_read": FileRead,
    "file_modified": ChangedFile,
    "file_created": partial(ChangedFile, change="created"),
    "file_deleted": partial(ChangedFile, change="deleted"),
    "file_renamed": partial(ChangedFile, change="renamed", old_path="src/old.py"),
    "command": partial(CommandRun, outcome="ok"),
    "error": Failure,
    "todo": TodoList,
}


def make_fact(kind: FactKind, text: str, at: int = 1, *, live: bool = True, source: str = "") -> Fact:
    """A fact of this kind; `source` is that of a failure."""
    fact = _MAKERS[kind](text, at, live)
    return replace(fact, source=source) if isinstance(fact, Failure) else fact


def get_facts(*messages: Message, kind: FactKind | None = None) -> list[Fact]:
    return [fact for fact in extract_facts(enumerate(messages)) if kind is None or fact.kind == kind]


def get_fact_texts(*messages: Message, kind: FactKind) -> list[str]:
    return [fact.label for fact in get_facts(*messages, kind=kind)]


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
    st.builds(Text, WORDS), st.builds(Thinking, WORDS), CALLS, st.just(OpaquePart("x", b"{}")), st.just(Image())
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


def run_with_seeds(code: str) -> set[bytes]:
    """Runs code in processes of its own, each with another seed of hashes, and returns what they printed."""
    return {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in map(str, range(6))
    }


def frame_notes(text: str) -> str:
    """A model's text as it stands in a view."""
    return f"{NOTES_FRAME}\n\n{text}"
