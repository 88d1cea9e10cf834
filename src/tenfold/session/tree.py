"""A session's tree as rows: the user's messages, the forks of the conversation, and the ends of the branches.

Choosing a message goes to the place before it, so that it can be said differently. Choosing an end goes on from there.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from tenfold.core.record.entry import Entry, get_message
from tenfold.core.record.message import Message, Text, ToolCall
from tenfold.core.text.terminal_safe import to_one_line
from tenfold.recall.expand import excerpt_message
from tenfold.session.facade import Session

_ROOT = ""
_MAX_CHARACTERS = 200
"""Maximum characters of a row's text."""
_MAX_FORK_COLUMNS = 24
"""Columns for the lines that draw a row's forks. If it lies deeper, only the innermost forks are drawn."""


class TreeRow(Struct, frozen=True):
    """One row of the tree.

    `kind` is a message of the user, the end of a branch, or the place where the session is now. `text` is the beginning
    of the message at that place, or of the last one before it. `lead` draws the forks. With `is_active`, the row lies
    on the way to where the session is now.
    """

    id: str
    kind: Literal["said", "end", "here"]
    lead: str
    text: str
    is_active: bool


class _Node(Struct):
    id: str
    kind: Literal["said", "end", "here"]
    message: Message | None
    is_active: bool = False
    children: list[str] = []


def build_rows(session: Session) -> list[TreeRow]:
    """Builds all rows of the tree, a branch's rows below the fork where it begins. Reads the whole log: O(log)."""
    place = session.address
    nodes = _build_nodes(place.store.read_entries(place.namespace, place.session), session.leaf)
    return _draw_rows(nodes)


def _build_nodes(entries: list[Entry], leaf: str | None) -> dict[str, _Node]:
    parent = {entry.id: entry.parent for entry in entries}
    parents = {entry.parent for entry in entries}
    nodes = {_ROOT: _Node(_ROOT, "said", None)}
    owners: dict[str | None, str] = {None: _ROOT}  # entry id -> key of the node that it belongs to
    last_messages: dict[str | None, Message | None] = {None: None}  # entry id -> newest message on the way to it
    for entry in entries:
        message = get_message(entry)
        owner = owners.get(entry.parent, _ROOT)
        owners[entry.id], last_messages[entry.id] = owner, last_messages.get(entry.parent)
        if message is not None and any(isinstance(part, Text | ToolCall) for part in message.parts):
            last_messages[entry.id] = message
        if message is not None and message.role == "user" and message.origin == "human":
            nodes[entry.id] = _Node(entry.id, "said", last_messages[entry.id])
            nodes[owner].children.append(entry.id)
            owners[entry.id] = entry.id
        if entry.id == leaf or entry.id not in parents:
            key = f"{entry.id} end"
            nodes[key] = _Node(entry.id, "here" if entry.id == leaf else "end", last_messages[entry.id])
            nodes[owners[entry.id]].children.append(key)
    if leaf is None:
        nodes["end"] = _Node(_ROOT, "here", None, is_active=True)
        nodes[_ROOT].children.append("end")
    entry_id = leaf
    while entry_id is not None:
        if entry_id in nodes:
            nodes[entry_id].is_active = True
        entry_id = parent.get(entry_id)
    if f"{leaf} end" in nodes:
        nodes[f"{leaf} end"].is_active = True
    return nodes


def _draw_rows(nodes: dict[str, _Node]) -> list[TreeRow]:
    rows: list[TreeRow] = []
    # Each item is a node to draw: its key, the lead of its own row, and the lead of the rows below it.
    stack = _list_children(nodes[_ROOT], "")[::-1]
    while stack:
        key, lead, base = stack.pop()
        node = nodes[key]
        text = to_one_line(excerpt_message(node.message), _MAX_CHARACTERS) if node.message is not None else ""
        rows.append(TreeRow(node.id, node.kind, lead, text, node.is_active))
        stack.extend(_list_children(node, base)[::-1])
    return rows


def _list_children(node: _Node, base: str) -> list[tuple[str, str, str]]:
    """Lists a node's children. An only child goes on in the same column; several are the branches of a fork."""
    if len(node.children) == 1:
        return [(node.children[0], base, base)]
    last = len(node.children) - 1
    forks = [("└─ ", "   ") if i == last else ("├─ ", "│  ") for i in range(len(node.children))]
    return [
        (key, (base + own)[-_MAX_FORK_COLUMNS:], (base + on)[-_MAX_FORK_COLUMNS:])
        for key, (own, on) in zip(node.children, forks, strict=True)
    ]


def render_row(row: TreeRow) -> str:
    """Renders a row without its lead."""
    text = row.text
    match row.kind:
        case "said":
            return f"{'●' if row.is_active else '○'} {text}"
        case "end":
            return f"→ continue after: {text}" if text else "→ continue from here"
        case "here":
            return f"◆ you are here, after: {text}" if text else "◆ you are here"
