"""Finds a session by what a person types, and tells whether a store holds a summary: only then is it Tenfold's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePath

from tenfold.core.record.block import Block, Substitute
from tenfold.core.record.entry import BranchSummary, get_message
from tenfold.core.record.message import Message, get_text
from tenfold.core.text.terminal_safe import to_one_line
from tenfold.core.wire.marks import find_summary_mark
from tenfold.errors import NotFoundError
from tenfold.store.base import DEFAULT_NAMESPACE, MAIN, SessionInfo, SessionRow, Store

LAST = "last"
"""Stands for the newest session."""
_MOST_CANDIDATES = 8
"""Sessions that an error lists."""
_TITLE_LENGTH = 60
_FIRST_ENTRIES = 6
"""Entries at the beginning of a session in which its first message of the user is looked for."""


def find_session(store: Store, name: str, *, namespace: str = DEFAULT_NAMESPACE) -> SessionRow:
    """Finds the session that a person names: "last" is the newest, else an id, the beginning of one, or a name.

    A whole id comes before those that begin with it, and ids come before names: see `match_names`. Raises
    `NotFoundError` if none is meant, with a hint where to look, or several are, which it lists.
    """
    rows = store.list_sessions(namespace)
    by_id = (list(filter(has_content, rows)) or rows)[:1] if name == LAST else match_ids(rows, name)
    matches = by_id or match_names(rows, name)
    if len(matches) == 1:
        return matches[0]
    if not rows:
        raise NotFoundError("the store holds no session yet; `tenfold compact FILE` brings one in")
    if not matches:
        raise NotFoundError(
            f"no session has an id that begins with {name!r}, or that name; `tenfold sessions` lists them, `last` is "
            "the newest"
        )
    raise NotFoundError(
        _list_candidates(matches, f"have an id that begins with {name!r}" if by_id else f"are called {name!r}")
    )


def match_ids(rows: Sequence[SessionRow], beginning: str) -> list[SessionRow]:
    """Returns the session with exactly this id, else those whose id begins so."""
    exact = [row for row in rows if row.info.id == beginning]
    return exact or [row for row in rows if beginning and row.info.id.startswith(beginning)]


def match_names(rows: Sequence[SessionRow], name: str) -> list[SessionRow]:
    """Returns the sessions of this title or file (its path, or its name alone), else those whose id there begins so."""
    by_name = [row for row in rows if name and name in (row.info.title, row.info.file, PurePath(row.info.file).name)]
    return by_name or [row for row in rows if name and row.info.source_id.startswith(name)]


def has_content(row: SessionRow) -> bool:
    """Tells whether a session holds anything. What a chat leaves that was killed before anything was said, does not."""
    info = row.info
    return bool(row.entry_count or info.format or info.title or info.file)


def describe_session(info: SessionInfo) -> str:
    """Describes what a session is for a person, on one line: its title, and the file that it was read from."""
    title, file = to_one_line(info.title, _TITLE_LENGTH), to_one_line(PurePath(info.file).name, _TITLE_LENGTH)
    return f"{title} ({file})" if title and file else title or file


def find_title(store: Store, row: SessionRow, *, namespace: str = DEFAULT_NAMESPACE) -> str:
    """Finds what a session is about: its title, else the first words of the user, on one line. "" if it has neither."""
    if row.info.title or not row.heads:
        return row.info.title
    leaf = next(iter(row.heads.values()))
    last = store.locate(namespace, leaf).position
    for entry in store.read_range(namespace, row.info.id, leaf, 0, min(last, _FIRST_ENTRIES - 1)):
        message = get_message(entry)
        if message is not None and message.role == "user" and message.origin == "human":
            return to_one_line(get_text(message), _TITLE_LENGTH)
    return ""


def _list_candidates(matches: Sequence[SessionRow], what: str) -> str:
    lines = [f"  {row.info.id}  {describe_session(row.info)}".rstrip() for row in matches[:_MOST_CANDIDATES]]
    left_out = len(matches) - len(lines)
    lines += [f"  ... and {left_out:,} more, which `tenfold sessions` lists"] if left_out else []
    return "\n".join((f"{len(matches):,} sessions {what}; name one of them:", *lines))


def list_heads(store: Store, session: str, *, namespace: str = DEFAULT_NAMESPACE) -> list[str]:
    """Lists the branches of a session, the one that was written to last first. A session without entries has "main"."""
    heads = store.read_heads(namespace, session)
    return sorted(heads, key=lambda head: heads[head], reverse=True) or [MAIN]  # ids are in the order of time


def is_stored_summary(store: Store, namespace: str, block: str, seal: str, *, session: str = "") -> bool:
    """Tells whether the entry `block`, of this `session` if one is named, shows a summary with the hash `seal`."""
    try:
        located = store.locate(namespace, block)
    except NotFoundError:
        return False
    if located.entry.id != block or (session and located.session != session):
        return False
    summaries: Iterable[Message] = ()
    if isinstance(located.entry, Block):
        shown = (item for r in located.entry.replacements for item in r.shown_items)
        summaries = (item.message for item in shown if isinstance(item, Substitute))
    elif isinstance(located.entry, BranchSummary):
        summaries = (located.entry.message,)
    return any(find_summary_mark(get_text(m)) == (block, seal) for m in summaries)
