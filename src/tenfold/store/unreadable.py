"""Reads entries from bytes that may be damaged, so that one bad byte costs one entry and not its session.

A damaged text loses the bytes that are no UTF-8 and nothing else. An entry of which nothing can be read is replaced by
a tombstone, which keeps its place on the path and shows the model that something is missing. `verify` names both.
"""

from __future__ import annotations

from typing import TypeGuard

from tenfold.core.record.codec import SCHEMA_VERSION, decode_entry, hash_body
from tenfold.core.record.entry import Entry, Tombstone
from tenfold.core.record.message import Message, Text
from tenfold.errors import RecordError
from tenfold.store.compressed_bodies import restore_body

SALVAGE_ADVICE = (
    "restore the store from a backup, or save what is readable to a new store with `tenfold salvage NEW_STORE`"
)
"""The next step for whoever has a damaged store."""
UNREADABLE_TIME = -1
"""The purge time of the tombstones that stand for what cannot be read. Nobody purged it."""
UNREADABLE_TEXT = "[a message stood here, but its record in the store is damaged and cannot be read]"
_VERSION_BYTE = bytes([SCHEMA_VERSION])
_REPLACEMENT = b"?"
"""Stands for each byte that is no UTF-8. It takes one byte, so that the lengths in the record stay true."""


def recover_entry(body: bytes) -> Entry | None:
    """Decodes a stored body as far as its damage allows. Returns None if nothing of it can be read."""
    body = restore_body(body)
    while True:
        try:
            return decode_entry(body)
        except RecordError as exc:
            cause = exc.__cause__
            if isinstance(cause, UnicodeDecodeError) and (mended := _replace_bad_bytes(body, cause)) != body:
                body = mended
            elif body[:1] != _VERSION_BYTE and body:
                body = _VERSION_BYTE + body[1:]
            else:
                return None


def _replace_bad_bytes(body: bytes, error: UnicodeDecodeError) -> bytes:
    """Replaces the bytes that are no UTF-8 in the text of which the error speaks."""
    text = error.object
    return body.replace(text, text[: error.start] + _REPLACEMENT * (error.end - error.start) + text[error.end :])


def read_entry(body: bytes, id: str, kind: str) -> Entry:
    """Decodes the stored body of the entry with this id and kind, or returns a tombstone that stands for it."""
    return recover_entry(body) or build_stand_in(id, None, restore_body(body), kind=kind)


def explain_damage(body: bytes) -> str:
    """Says why a body cannot be decoded."""
    try:
        decode_entry(body)
    except RecordError as exc:
        return str(exc).partition(";")[0]
    return "its row cannot be read"


def build_stand_in(id: str, parent: str | None, body: bytes = b"", *, kind: str = "said") -> Tombstone:
    """Builds what stands for an entry that is missing or cannot be read. Only for a message it has a text."""
    message = Message("user", (Text(UNREADABLE_TEXT),), "tenfold") if kind in ("said", "branch") else None
    return Tombstone(id, parent, "", None, kind, hash_body(body), UNREADABLE_TIME, message)


def is_unreadable(entry: Entry) -> TypeGuard[Tombstone]:
    """Tells whether an entry stands for one that cannot be read."""
    return isinstance(entry, Tombstone) and entry.purge_time == UNREADABLE_TIME
