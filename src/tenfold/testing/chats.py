"""Reads recorded sessions as OpenAI Chat messages, and counts their tokens with the one counter of all measures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from tenfold.core.meter.counters import Counter, choose_counter, measure_messages
from tenfold.core.record.entry import Entry
from tenfold.core.record.message import Message
from tenfold.core.view.fold import View
from tenfold.core.view.path import Path as LogPath
from tenfold.core.view.units import VisibleMessage
from tenfold.core.wire import WIRES
from tenfold.formats import ParsedSession, read_file
from tenfold.testing.probes.chat_text import get_tool_calls
from tenfold.testing.probes.kinds import ChatMessage

MODEL = "gpt-4o"
"""The model whose vocabulary (o200k) counts the tokens of all methods."""
_CHAT = WIRES["openai-chat"]


class RecordedChat(Struct, frozen=True):
    """A recorded session in chat form, and what it was made from.

    `name` is the file's name, followed by `#n` if the file holds several sessions. `entries` are the session's main
    path, and `visible` the messages of its own format in view. `sources` lists, for each chat message, the indexes of
    those that it was made from.
    """

    name: str
    messages: tuple[ChatMessage, ...]
    entries: tuple[Entry, ...]
    visible: tuple[VisibleMessage, ...]
    sources: tuple[tuple[int, ...], ...]


def read_chats(path: Path, name: str = "", *, format: str | None = None) -> list[RecordedChat]:
    """Reads the sessions of a file in chat form.

    Each session is its main path, with broken calls repaired as Tenfold's view would repair them. Raises whatever
    `read_file` raises.

    Args:
        path: The file.
        name: What to call the file; its own name by default.
        format: The file's format; detected by default.
    """
    found = read_file(path, format=format)
    file = name or path.name
    names = [file if len(found) == 1 else f"{file}#{number}" for number in range(len(found))]
    return [_build_chat(recorded, name) for recorded, name in zip(found, names, strict=True)]


def get_role(message: ChatMessage) -> str:
    """Returns the message's role."""
    return str(message.get("role", ""))


def count_message_tokens(messages: Sequence[ChatMessage]) -> list[int]:
    """Returns the tokens of each message by the one counter that all methods are measured with."""
    raw = [msgspec.json.encode(message) for message in messages]
    owners: list[int] = []
    decoded: list[Message] = []
    for index, each in enumerate(raw):
        for message in _CHAT.decode([each]):
            owners.append(index)
            decoded.append(message)
    totals = [0] * len(messages)
    for owner, tokens in zip(owners, measure_messages(decoded, get_counter()), strict=True):
        totals[owner] += tokens
    return totals


def count_total_tokens(messages: Sequence[ChatMessage]) -> int:
    """Returns the tokens of all the messages together."""
    return sum(count_message_tokens(messages))


def get_counter() -> Counter:
    """Returns the counter that all measures share."""
    return choose_counter(MODEL).counter


def _build_chat(recorded: ParsedSession, name: str) -> RecordedChat:
    entries = _find_main_path(recorded.entries)
    visible = tuple(View.from_path(LogPath(entries)).get_visible_messages())
    items = _CHAT.encode([each.message for each in visible]).items
    messages = tuple(msgspec.json.decode(item.raw, type=ChatMessage) for item in items)
    return RecordedChat(name, messages, tuple(entries), visible, tuple(item.indices for item in items))


def _find_main_path(entries: Sequence[Entry]) -> list[Entry]:
    """Returns the entries from the root to the newest one, without other branches: what the model was last sent."""
    by_id = {entry.id: entry for entry in entries}
    path: list[Entry] = []
    entry = entries[-1] if entries else None
    while entry is not None:
        path.append(entry)
        entry = by_id.get(entry.parent) if entry.parent is not None else None
    return path[::-1]


def render_view(messages: Sequence[ChatMessage]) -> str:
    """Renders chat messages as text: each under its role, with its calls."""
    return "\n\n".join(_render_message(message) for message in messages) + "\n"


def _render_message(message: ChatMessage) -> str:
    content = message.get("content")
    parts = content if isinstance(content, list) else [content]
    lines = [f"[{get_role(message)}]", *(_render_part(part) for part in parts if part)]
    lines += [f"[call {name} {arguments}]" for _, name, arguments in get_tool_calls(message)]
    return "\n".join(lines)


def _render_part(part: object) -> str:
    if not isinstance(part, dict):
        return str(part)
    return str(part.get("text") or part.get("refusal") or f"[{part.get('type', 'part')}]")
