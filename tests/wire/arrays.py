"""The native arrays inside the recorded sessions, as exact bytes, with the wire each is in."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import msgspec
import yaml

from tenfold.core.record.message import Message
from tenfold.core.wire import WIRES, splice
from tests.sessions import FOLDER


class Recorded(msgspec.Struct, frozen=True):
    """One array of native messages and where it is from."""

    name: str
    wire: str
    data: bytes

    def decode(self) -> list[Message]:
        """Its messages."""
        return WIRES[self.wire].decode(splice.slice_array(self.data).items)


@cache
def read_arrays() -> tuple[Recorded, ...]:
    """Every native array in the sessions that are of one of the four wires; none where there are no sessions."""
    return (*_read_gemini(), *_read_chat(), *_read_anthropic(), *_read_cassettes()) if FOLDER.is_dir() else ()


def get_arrays_by_name() -> dict[str, Recorded]:
    """The same by name, for parametrised tests."""
    return {r.name: r for r in read_arrays()}


def _extract_value(path: Path, key: str) -> bytes:
    data = path.read_bytes()
    where = splice.find_span(data, key)
    assert where is not None, f"{path} has no {key}"
    return data[where[0] : where[1]]


def _read_gemini() -> list[Recorded]:
    whole = FOLDER / "gemini-cli" / "NotFollowingUserIntent.json"
    scenarios = sorted((FOLDER / "gemini-cli" / "compression-scenarios").glob("*.json"))
    return [
        Recorded("gemini", "gemini", whole.read_bytes()),
        *(Recorded(p.stem, "gemini", _extract_value(p, "history")) for p in scenarios),
    ]


def _read_chat() -> list[Recorded]:
    paths = sorted((FOLDER / "openhands-requests").glob("django__*.json"))
    return [Recorded(p.stem, "openai-chat", _extract_value(p, "messages")) for p in paths]


def _read_anthropic() -> list[Recorded]:
    lines = (FOLDER / "claude-code" / "large-conversation.jsonl").read_bytes().splitlines()
    places = [(line, splice.find_span(line, "message")) for line in lines]
    messages = [line[where[0] : where[1]] for line, where in places if where is not None]
    cline = FOLDER / "cline" / "session.messages.json"
    return [
        Recorded("claude-code", "anthropic", b"[\n  " + b",\n  ".join(messages) + b"\n]\n"),
        Recorded("cline", "anthropic", _extract_value(cline, "messages")),
    ]


def _read_cassettes() -> list[Recorded]:
    out: list[Recorded] = []
    for path in sorted((FOLDER / "provider-compaction").glob("*.yaml")):
        for number, turn in enumerate(yaml.safe_load(path.read_text("utf-8"))["interactions"]):
            sent, got = turn["request"]["parsed_body"], turn["response"]["parsed_body"]
            if "messages" in sent:
                out.append(Recorded(f"{path.stem}-{number}", "anthropic", json.dumps(sent["messages"]).encode()))
                continue
            given = {"input": sent["input"], "output": got["output"]}
            for name, items in given.items():
                raw = json.dumps(items, indent=1).encode()
                out.append(Recorded(f"{path.stem}-{number}-{name}", "openai-responses", raw))
    return out
