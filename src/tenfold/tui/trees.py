"""A session's tree as rows: what the user said, where the conversation forks, where each branch ends.

Choosing what the user said goes to before it, so that it can be said differently; choosing an end goes on from there.
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
"""Characters of a row."""
_DEEP = 24
"""Columns that the lines of a row's forks may take; of deeper ones the innermost are drawn."""


class Row(Struct, frozen=True):
    """One row. `lead` draws the forks, `on` says that it lies on the way to where the session stands.

    `kind`: what the user said, the end of a branch, or the place where the session stands now; `message` is what was
    said there, or last before it.
    """

    id: str
    kind: Literal["said", "end", "here"]
    lead: str
    message: Message | None
    on: bool

    @property
    def text(self) -> str:
        """The beginning of the message. Made when it is looked at: of a long session few rows ever are."""
        return _brief(self.message) if self.message is not None else ""


class _Node(Struct):
    id: str
    kind: Literal["said", "end", "here"]
    message: Message | None
    on: bool = False
    inner: list[str] = []


def rows_of(session: Session) -> list[Row]:
    """Every row of the tree, a branch's own rows below the fork it begins at. Reads the whole log: O(log)."""
    place = session.place
    nodes = _nodes(place.store.original(place.namespace, place.session), session.leaf)
    return _drawn(nodes)


def _nodes(entries: list[Entry], leaf: str | None) -> dict[str, _Node]:
    parent = {entry.id: entry.parent for entry in entries}
    inner = {entry.parent for entry in entries}
    nodes = {_ROOT: _Node(_ROOT, "said", None)}
    under: dict[str | None, str] = {None: _ROOT}  # an entry to the node that it lies in
    spoken: dict[str | None, Message | None] = {None: None}  # an entry to what was said last on its way
    for entry in entries:
        message = message_of(entry)
        above = under.get(entry.parent, _ROOT)
        under[entry.id], spoken[entry.id] = above, spoken.get(entry.parent)
        if message is not None and any(isinstance(part, Text | ToolCall) for part in message.parts):
            spoken[entry.id] = message
        if message is not None and message.role == "user" and message.origin == "human":
            nodes[entry.id] = _Node(entry.id, "said", spoken[entry.id])
            nodes[above].inner.append(entry.id)
            under[entry.id] = entry.id
        if entry.id == leaf or entry.id not in inner:
            at = f"{entry.id} end"
            nodes[at] = _Node(entry.id, "here" if entry.id == leaf else "end", spoken[entry.id])
            nodes[under[entry.id]].inner.append(at)
    if leaf is None:
        nodes["end"] = _Node(_ROOT, "here", None, on=True)
        nodes[_ROOT].inner.append("end")
    on = leaf
    while on is not None:
        if on in nodes:
            nodes[on].on = True
        on = parent.get(on)
    if f"{leaf} end" in nodes:
        nodes[f"{leaf} end"].on = True
    return nodes


def _brief(message: Message) -> str:
    calls = " ".join(f"[{c.name}]" for c in calls_of(message))
    return one_line(f"{text_of(message)[:2_000]} {calls}".strip(), _TEXT)


def _drawn(nodes: dict[str, _Node]) -> list[Row]:
    rows: list[Row] = []
    # A node to be drawn: its key, what stands before its own row, and before those that follow it.
    waiting = _children(nodes[_ROOT], "")[::-1]
    while waiting:
        key, lead, base = waiting.pop()
        node = nodes[key]
        rows.append(Row(node.id, node.kind, lead, node.message, node.on))
        waiting.extend(_children(node, base)[::-1])
    return rows


def _children(node: _Node, base: str) -> list[tuple[str, str, str]]:
    """A lone child goes on below, in the same column; several are branches of a fork."""
    if len(node.inner) == 1:
        return [(node.inner[0], base, base)]
    last = len(node.inner) - 1
    forks = [("└─ ", "   ") if i == last else ("├─ ", "│  ") for i in range(len(node.inner))]
    return [
        (key, (base + own)[-_DEEP:], (base + on)[-_DEEP:]) for key, (own, on) in zip(node.inner, forks, strict=True)
    ]


def row_text(row: Row) -> str:
    """A row without its lead."""
    text = row.text
    match row.kind:
        case "said":
            return f"{'●' if row.on else '○'} {text}"
        case "end":
            return f"→ go on after: {text}" if text else "→ go on from here"
        case "here":
            return f"◆ you are here, after: {text}" if text else "◆ you are here"
