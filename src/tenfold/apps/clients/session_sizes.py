"""How large a client's session is: its bytes and its messages, counted without making sense of them."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
from msgspec import Struct

from tenfold.apps.clients.found_sessions import FoundSession
from tenfold.apps.clients.opencode_database import measure_opencode_session

_MESSAGE_TYPES = frozenset({"user", "assistant", "tool_result", "gemini", "message", "response_item"})
"""The types of lines that hold a message, over all clients that write one message, or a piece of one, on a line."""
_ROLES = frozenset({"system", "user", "assistant", "tool"})
"""The roles of lines that are messages themselves."""


class SessionSize(Struct, frozen=True):
    """The size of a session in bytes and in messages."""

    size: int
    messages: int


class _Message(Struct):
    id: str | None = None


class _Item(Struct):
    type: str | None = None
    role: str | None = None

    @property
    def is_of_model(self) -> bool:
        """Whether the model wrote it: Codex keeps one answer as several items in a row."""
        return self.role == "assistant" or (self.role is None and not str(self.type).endswith("_output"))


class _Line(Struct):
    type: str | None = None
    role: str | None = None
    message: _Message | None = None
    payload: _Item | None = None


_LINES = msgspec.json.Decoder(_Line)


def measure_session(found: FoundSession) -> SessionSize:
    """Measures a session of a client. What cannot be read counts as nothing."""
    path = found.path
    if found.client == "opencode":
        return SessionSize(
            *(_measure_files(path) if path.suffix == ".json" else measure_opencode_session(path, found.id))
        )
    try:
        data = path.read_bytes()
    except OSError:
        return SessionSize(0, 0)
    return SessionSize(len(data), _count_lines(data) if path.suffix == ".jsonl" else _count_items(data))


def _count_lines(data: bytes) -> int:
    """Counts the messages. Lines with the same id of a message, and items of one answer, are pieces of one."""
    count, seen, was_of_model = 0, set[str](), False
    for line in data.splitlines():
        try:
            found = _LINES.decode(line)
        except msgspec.DecodeError:
            continue
        if found.type not in _MESSAGE_TYPES and found.role not in _ROLES:
            continue
        id_ = found.message.id if found.message is not None else None
        is_of_model = found.payload is not None and found.payload.is_of_model
        is_piece = (id_ is not None and id_ in seen) or (is_of_model and was_of_model)
        count += not is_piece
        was_of_model = is_of_model
        seen.add(id_ or "")
    return count


def _count_items(data: bytes) -> int:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return 0
    items = value.get("messages") if isinstance(value, dict) else value
    return len(items) if isinstance(items, list) else 0


def _measure_files(path: Path) -> tuple[int, int]:
    storage = path.parents[2]
    messages = list((storage / "message" / path.stem).glob("*.json"))
    parts = [part for each in messages for part in (storage / "part" / each.stem).glob("*.json")]
    return sum(each.stat().st_size for each in (*messages, *parts)), len(messages)
