"""Small conversations in OpenAI Chat form, for tests of the yardstick."""

from __future__ import annotations

import json

from tenfold.testing.probes.kinds import ChatMessage
from tenfold_yardstick.cases import Case


def make_user_message(text: str) -> ChatMessage:
    """What a person says."""
    return {"role": "user", "content": text}


def make_reply(text: str) -> ChatMessage:
    """An answer without calls."""
    return {"role": "assistant", "content": text}


def make_call(name: str, arguments: dict[str, object], *, id_: str) -> ChatMessage:
    """An answer that calls one tool."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": id_, "type": "function", "function": function}]}


def make_result(text: str, *, id_: str) -> ChatMessage:
    """A tool's output."""
    return {"role": "tool", "tool_call_id": id_, "content": text}


def make_step(name: str, arguments: dict[str, object], output: str, *, id_: str) -> list[ChatMessage]:
    """A call and its output."""
    return [make_call(name, arguments, id_=id_), make_result(output, id_=id_)]


def make_case(past: list[ChatMessage], future: list[ChatMessage], *, summary: str = "", kept: int = 0) -> Case:
    """A case of these messages."""
    return Case("chat", len(past), "50%", (*past, *future), summary=summary, kept_from=kept)


def make_long_past(steps: int = 40) -> list[ChatMessage]:
    """A request and many steps, each with a file of its own and about 150 tokens of output."""
    out = [make_user_message("Tidy up the parser, but never touch legacy_config.toml.")]
    for n in range(steps):
        lines = "\n".join(f"line {i} of the file, nothing special in step {n}" for i in range(12))
        out += make_step(
            "read_file", {"path": f"src/module_{n:02}.py"}, f"def handle_{n:02}_input():\n{lines}", id_=f"c{n}"
        )
    return out
