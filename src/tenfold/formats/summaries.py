"""Finds the summaries that Tenfold wrote into a file, in every format, and the compactions that clients made.

A file cannot say whether a summary is ours: whoever writes files can write one. So a reader takes it as a summary of
unknown source, which holds no words of the user, and the store that a file is imported into confirms what it wrote.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from tenfold.core.record.entry import CustomEntry, Entry, MessageEntry
from tenfold.core.record.message import Message, Text, get_text
from tenfold.core.wire.marks import SummaryMark, find_summary_mark
from tenfold.store.base import Store
from tenfold.store.lookup import is_stored_summary


def _find_mark(message: Message) -> SummaryMark | None:
    is_text = message.role in ("user", "system") and all(isinstance(part, Text) for part in message.parts)
    return find_summary_mark(get_text(message)) if is_text else None


def with_unknown_source(entry: Entry) -> Entry:
    """Returns the entry of a file, with a summary in our form as one of unknown source, whatever its role says."""
    if not isinstance(entry, MessageEntry) or entry.message.origin == "harness" or _find_mark(entry.message) is None:
        return entry
    return replace(entry, message=replace(entry.message, origin="harness"))


def with_confirmed_source(entry: Entry, store: Store, namespace: str) -> Entry:
    """Returns the entry of a file, with a summary as Tenfold's own if the store wrote it, in whatever session."""
    if not isinstance(entry, MessageEntry) or entry.message.origin != "harness":
        return entry
    mark = _find_mark(entry.message)
    if mark is None or not is_stored_summary(store, namespace, *mark):
        return entry
    return replace(entry, message=replace(entry.message, origin="tenfold"))


CLIENT_COMPACTIONS = frozenset({"compaction", "compact_summary"})
"""The kinds of entries by which session files record a compaction that their client made: pi's and opencode's, and
Claude Code's."""


def list_client_compactions(entries: Iterable[tuple[int, Entry]]) -> list[int]:
    """Lists the positions at which a client recorded a compaction of its own.

    What the client showed its model since is less than what the log holds; Tenfold's view knows nothing of it unless
    the policy restores it.
    """
    return [at for at, entry in entries if isinstance(entry, CustomEntry) and entry.kind in CLIENT_COMPACTIONS]
