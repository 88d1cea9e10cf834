"""Writes the pages about one session into one file for a colleague: it opens from the disk and asks for nothing else.

The file is made from a copy of the session in memory in which secrets are replaced, by the templates of the pages. It
holds no script, and its content policy lets nothing be loaded.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from hashlib import sha256
from importlib.resources import files
from types import SimpleNamespace
from typing import Any

from markupsafe import Markup
from msgspec.structs import replace

from tenfold.apps.inspector import session_pages as pages
from tenfold.apps.inspector.bill_pages import describe_bill, list_receipts
from tenfold.apps.inspector.rendering import render
from tenfold.apps.inspector.routes import group_facts
from tenfold.apps.inspector.rules_in_view import list_instructions
from tenfold.apps.inspector.timeline import MeasuredSession, build_timeline, measure_session
from tenfold.compaction.facts.redacted_messages import redact_entry
from tenfold.session import Session
from tenfold.session.bill import build_bill
from tenfold.store.base import SessionInfo, SessionRow, Store, redact_info
from tenfold.store.ids import convert_time, get_current_time
from tenfold.store.sqlite.store import SqliteStore

Opener = Callable[[Store, SessionRow], Session]
"""Opens a session of a store."""
MOST_BYTES = 9_500_000
LIMITS = (50_000, 10_000, 2_000, 500, 100)
"""Characters of a part that are written: the first of these with which the file is not too large."""
MOST_ENTRIES = 5_000
FIRST_ENTRIES = 500
"""Of a longer session so many of the oldest entries are written, and the newest."""
MOST_LINES = 40
LINE_LENGTH = 300
"""The lines of a comparison that are written, and their length."""


def render_session_file(store: Store, session: Session, row: SessionRow, opener: Opener) -> bytes:
    """Renders the file of a session's branch: bars, what the model sees, Blocks, facts, instructions, bill, messages.

    `opener` opens the copy in memory. The file stays below `MOST_BYTES` by shortening texts, and of a session with more
    than `MOST_ENTRIES` entries it has the oldest and the newest; it says what it leaves out.
    """
    with closing(SqliteStore(":memory:")) as memory:
        copy = _copy_redacted(session, row, memory, opener)
        found = build_bill(store, namespace=session.address.namespace, sessions=(session.address.session,), by="model")
        bill = {**describe_bill(found), "receipts": list_receipts(copy)}
        measured = measure_session(copy)
        sizes = [part.rest for each in _read_messages(measured, 0) if each is not None for part in each.parts]
        data = b""
        for limit in LIMITS:
            if limit > LIMITS[-1] and sum(min(size, limit) for size in sizes) > MOST_BYTES:
                continue  # the texts of the messages alone are too many
            data = _render_file(measured, redact_info(row.info), bill, limit).encode("utf-8", "replace")
            if len(data) <= MOST_BYTES:
                break
        return data


def _copy_redacted(session: Session, row: SessionRow, memory: Store, opener: Opener) -> Session:
    """Copies a session's path into memory with every secret replaced. Positions and ids stay what they are."""
    path, namespace = session.view.path, session.address.namespace
    memory.create(namespace, redact_info(row.info))
    if path.length:
        entries = [redact_entry(entry) for entry in path.get_entries(0, path.length - 1)]
        memory.append(namespace, row.info.id, entries, expected=None)
    (copied,) = memory.list_sessions(namespace)
    return opener(memory, copied)


_READER = SimpleNamespace(access=SimpleNamespace(is_read_only=True))
"""Stands for whoever opens the file, in which nothing can be changed."""


def _render_file(measured: MeasuredSession, info: SessionInfo, bill: dict[str, Any], limit: int) -> str:
    session, view = measured.session, measured.view
    style = (files("tenfold.apps.inspector") / "static" / "inspector.css").read_text(encoding="utf-8")
    common: dict[str, Any] = {
        "layout": "tab.html",
        "is_file": True,
        "visit": _READER,
        "info": info,
        "session": session,
        "timeline": build_timeline(measured),
        "link": _link,
        "head": session.address.head,
        "opened": SimpleNamespace(session=session),
        "show_inner": lambda node: _render_inner(measured, node, limit, common),
    }

    def render_tab(template: str, **values: Any) -> Markup:  # noqa: ANN401
        return Markup(render(template, **common, **values))  # noqa: S704 - rendered by a template, which escapes

    nodes = [_shorten(node, limit) for node in pages.list_block_nodes(session)]
    compared = [_shorten_comparison(each, limit) for each in pages.compare_view(measured, is_whole=True)]
    tabs = (
        ("seen", "What the model sees", render_tab("seen.html", compared=compared, outcome=None)),
        ("compactions", "Compactions", render_tab("blocks.html", nodes=nodes)),
        ("facts", "Facts", render_tab("facts.html", groups=group_facts(session))),
        ("instructions", "Instructions", render_tab("instructions.html", found=list_instructions(measured), chosen=-1)),
        ("bill", "Bill", render_tab("session_bill.html", **bill)),
    )
    messages = list(_read_messages(measured, limit))
    left_out = view.length - sum(message is not None for message in messages)
    text = render(
        "file.html",
        **common,
        tabs=tabs,
        messages=messages,
        limit=limit,
        left_out=left_out,
        left_from=FIRST_ENTRIES,
        style=Markup(style),  # noqa: S704 - a file of this package
        style_hash=b64encode(sha256(style.encode()).digest()).decode(),
        written=f"{convert_time(get_current_time()):%Y-%m-%d %H:%M} UTC",
    )
    return _SCRIPTED.sub("", text)


_SCRIPTED = re.compile(r' (?:hx-[\w-]+|tabindex|data-[\w-]+)="[^"<>]*"')
"""Attributes that only a script would read. In a text the quotes would be escapes."""


def _link(path: str, **fields: object) -> str:
    """Returns where in the file a link of the pages leads."""
    if path == "/session/blocks":
        return ""  # its links go on with the id of a Block
    return f"#e{fields['at']}" if "at" in fields else "#content"


def _render_inner(measured: MeasuredSession, node: pages.BlockNode, limit: int, common: dict[str, Any]) -> Markup:
    """Renders what lies under a replacement: other replacements, and where its messages are."""
    nodes = [_shorten(each, limit) for each in pages.list_block_nodes(measured.session, node.block, node.index)]
    text = render("file_inner.html", **common, nodes=nodes, node=node)
    return Markup(text)  # noqa: S704 - rendered by a template, which escapes


def _shorten(node: pages.BlockNode, limit: int) -> pages.BlockNode:
    return replace(node, shown=_cut_parts(node.shown, limit))


def _cut_parts(parts: Sequence[pages.ShownPart], limit: int) -> tuple[pages.ShownPart, ...]:
    return tuple(
        replace(part, text=part.text[:limit], rest=part.rest + max(0, len(part.text) - limit)) for part in parts
    )


def _shorten_comparison(compared: pages.Comparison, limit: int) -> pages.Comparison:
    lines = [replace(line, text=_cut_line(line.text)) for line in compared.lines[:MOST_LINES]]
    more = len(compared.lines) - len(lines)
    if more > 0:
        lines.append(pages.DiffLine(" ", f"… {more:,} more lines …"))
    pieces = tuple(
        replace(piece, messages=tuple(replace(each, parts=_cut_parts(each.parts, limit)) for each in piece.messages))
        for piece in compared.pieces
        if compared.kind != "unchanged"  # it stands among the messages of the file
    )
    return replace(compared, lines=tuple(lines), pieces=pieces)


def _cut_line(text: str) -> str:
    more = len(text) - LINE_LENGTH
    return text if more <= 0 else f"{text[:LINE_LENGTH]} … {more:,} more characters"


def _read_messages(measured: MeasuredSession, limit: int) -> Iterator[pages.ShownMessage | None]:
    """Yields the entries, with None where some are left out."""
    length = measured.view.length
    last = length - (MOST_ENTRIES - FIRST_ENTRIES) if length > MOST_ENTRIES else FIRST_ENTRIES
    read = partial(pages.read_message, measured, limit=limit)
    yield from (read(position) for position in range(min(length, FIRST_ENTRIES)))
    if last > FIRST_ENTRIES:
        yield None
    yield from (read(position) for position in range(last, length))
