"""The lines of the log.

Each has an id (UUIDv7 text), the id of its parent, a run id, and a time in integer microseconds UTC (None where the
source had none: never invented at import).
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from tenfold.record.block import Block, Spent
from tenfold.record.message import Message, Native


class Usage(Struct, frozen=True, omit_defaults=True):
    """What a provider reported for one request. `prompt` is the whole prompt, cached tokens included.

    `apart` is our own count of what that request held besides the view (system prompt and tools given apart).
    """

    prompt: int
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    model: str = ""
    apart: int = 0


class Said(Struct, frozen=True, tag="said", omit_defaults=True):
    """A message. `usage` on an answer is what its request took. `source` is the id the foreign file gave it."""

    id: str
    parent: str | None
    run: str
    time: int | None
    message: Message
    usage: Usage | None = None
    source: str = ""


class Attempt(Struct, frozen=True, tag="attempt", omit_defaults=True):
    """A compaction that did not come to a Block but cost a model call, or proved fruitless or unsatisfiable."""

    id: str
    parent: str | None
    run: str
    time: int
    policy: str
    status: Literal["nothing", "unsatisfiable", "failed", "cancelled", "superseded"]
    reason: str
    tokens: int
    target: int
    spent: Spent = Spent()


class Branch(Struct, frozen=True, tag="branch", omit_defaults=True):
    """A summary of a branch that was left, shown to the model on the branch that goes on."""

    id: str
    parent: str | None
    run: str
    time: int | None
    message: Message
    left: str = ""
    source: str = ""


class Retraction(Struct, frozen=True, tag="retraction", omit_defaults=True):
    """Undo: the view is the fold of the same path without the Block `block` (an id)."""

    id: str
    parent: str | None
    run: str
    time: int
    block: str


class Pin(Struct, frozen=True, tag="pin", omit_defaults=True):
    """Pins the entry `entry` at position `at` (`on`), so that no compaction hides or shortens it, or unpins it."""

    id: str
    parent: str | None
    run: str
    time: int
    entry: str
    at: int
    on: bool = True


class Setting(Struct, frozen=True, tag="setting", omit_defaults=True):
    """A change of setting on this path: `key` is for instance `model` or `thinking`, `value` its new value."""

    id: str
    parent: str | None
    run: str
    time: int | None
    key: str
    value: str
    native: Native | None = None
    source: str = ""


class Custom(Struct, frozen=True, tag="custom", omit_defaults=True):
    """Anything a session file holds that is not a message: kept as bytes, counted and shown, never sent."""

    id: str
    parent: str | None
    run: str
    time: int | None
    kind: str
    native: Native
    source: str = ""


class Tombstone(Struct, frozen=True, tag="tombstone", omit_defaults=True):
    """What `purge` leaves: the body's hash still verifies the chain, the body is gone."""

    id: str
    parent: str | None
    run: str
    time: int | None
    kind: str
    body_hash: bytes
    purged: int
    message: Message | None = None


Entry = Said | Block | Attempt | Branch | Retraction | Pin | Setting | Custom | Tombstone


def message_of(entry: Entry) -> Message | None:
    """The message an entry puts before the model when nothing replaces it, None for the silent kinds."""
    if isinstance(entry, Said | Branch):
        return entry.message
    if isinstance(entry, Tombstone):
        return entry.message
    return None
