"""A session's tree as rows: the user's messages, the forks of the conversation, and the ends of the branches.

Choosing a message goes to the place before it, so that it can be said differently. Choosing an end goes on from there.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from tenfold.record.entry import Entry, message_of
from tenfold.record.message import Message, Text, ToolCall, calls_of, text_of
from tenfold.session import Session
from tenfold.shown import one_line

_ROOT = ""
_TEXT = 200
"""Maximum characters of a row's text."""
_DEEP = 24
"""Columns for the lines that draw a row's forks. If it lies deeper, only the innermost forks are drawn."""


class Row(Struct, frozen=True):
    """One row of the tree.

    `kind` is a message of the user, the end of a branch, or the place where the session is now. `message` is the
    message at that place, or the last one before it. `lead` draws the forks. With `is_active`, the row lies on the way
    to where the session is now.
    """

    id: str
    kind: Literal["said", "end", "here"]
    lead: str
    message: Message | None
    on: bool

    @property
    def text(self) -> str:
        """The beginning of the message. It is made on access, because few rows of a long session are ever shown."""
        return _brief(self.message) if self.message is not None else ""


class _Node(Struct):
    id: str
    kind: Literal["said", "end", "here"]
    message: Message | None
    on: bool = False
    inner: list[str] = []


def rows_of(session: Session) -> list[Row]:
    """Builds all rows of the tree, a branch's rows below the fork where it begins. Reads the whole log: O(log)."""
    place = session.place
    nodes = _nodes(place.store.original(place.namespace, place.session), session.leaf)
    return _drawn(nodes)


def _nodes(entries: list[Entry], leaf: str | None) -> dict[str, _Node]:
    parent = {entry.id: entry.parent for entry in entries}
    parents = {entry.parent for entry in entries}
    nodes = {_ROOT: _Node(_ROOT, "said", None)}
    owners: dict[str | None, str] = {None: _ROOT}  # entry id -> key of the node that it belongs to
    last_messages: dict[str | None, Message | None] = {None: None}  # entry id -> newest message on the way to it
    for entry in entries:
        message = message_of(entry)
        owner = owners.get(entry.parent, _ROOT)
        owners[entry.id], last_messages[entry.id] = owner, last_messages.get(entry.parent)
        if message is not None and any(isinstance(part, Text | ToolCall) for part in message.parts):
            last_messages[entry.id] = message
        if message is not None and message.role == "user" and message.origin == "human":
            nodes[entry.id] = _Node(entry.id, "said", last_messages[entry.id])
            nodes[owner].inner.append(entry.id)
            owners[entry.id] = entry.id
        if entry.id == leaf or entry.id not in parents:
            key = f"{entry.id} end"
            nodes[key] = _Node(entry.id, "here" if entry.id == leaf else "end", last_messages[entry.id])
            nodes[owners[entry.id]].inner.append(key)
    if leaf is None:
        nodes["end"] = _Node(_ROOT, "here", None, on=True)
        nodes[_ROOT].inner.append("end")
    entry_id = leaf
    while entry_id is not None:
        if entry_id in nodes:
            nodes[entry_id].on = True
        entry_id = parent.get(entry_id)
    if f"{leaf} end" in nodes:
        nodes[f"{leaf} end"].on = True
    return nodes


def _brief(message: Message) -> str:
    calls = " ".join(f"[{c.name}]" for c in calls_of(message))
    return one_line(f"{text_of(message)[:2_000]} {calls}".strip(), _TEXT)


def _drawn(nodes: dict[str, _Node]) -> list[Row]:
    rows: list[Row] = []
    # Each item is a node to draw: its key, the lead of its own row, and the lead of the rows below it.
    stack = _children(nodes[_ROOT], "")[::-1]
    while stack:
        key, lead, base = stack.pop()
        node = nodes[key]
        rows.append(Row(node.id, node.kind, lead, node.message, node.on))
        stack.extend(_children(node, base)[::-1])
    return rows


def _children(node: _Node, base: str) -> list[tuple[str, str, str]]:
    """Lists a node's children. An only child goes on in the same column; several are the branches of a fork."""
    if len(node.inner) == 1:
        return [(node.inner[0], base, base)]
    last = len(node.inner) - 1
    forks = [("└─ ", "   ") if i == last else ("├─ ", "│  ") for i in range(len(node.inner))]
    return [
        (key, (base + own)[-_DEEP:], (base + on)[-_DEEP:]) for key, (own, on) in zip(node.inner, forks, strict=True)
    ]


def row_text(row: Row) -> str:
    """Renders a row without its lead."""
    text = row.text
    match row.kind:
        case "said":
            return f"{'●' if row.on else '○'} {text}"
        case "end":
            return f"→ go on after: {text}" if text else "→ go on from here"
        case "here":
            return f"◆ you are here, after: {text}" if text else "◆ you are here"
