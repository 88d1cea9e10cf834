"""The entries of the log.

Each entry has an id (UUIDv7 text), the id of its parent, a run id, and a time in integer microseconds UTC. The time is
None if an imported file gave none; it is never made up.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from tenfold.core.record.block import Block, ModelCost
from tenfold.core.record.message import Message, NativeBytes
from tenfold.core.record.token_reading import Counted, ProviderTokens


class Usage(Struct, frozen=True, omit_defaults=True, rename={"overhead": "apart", "is_whole": "whole"}):
    """The tokens that a provider reported for one request. `prompt` is the whole prompt, cached tokens included.

    `overhead` is our own count of what the request held besides the view: a separate system prompt and the tools. With
    `is_whole` the request held nothing else, so that our count bounds what may have been reported. `lookups` are the
    requests that followed it because the model looked hidden messages up, where the host saw none of them.
    """

    prompt: ProviderTokens
    output: ProviderTokens = ProviderTokens(0)
    cache_read: ProviderTokens = ProviderTokens(0)
    cache_write: ProviderTokens = ProviderTokens(0)
    model: str = ""
    overhead: Counted = Counted(0)
    is_whole: bool = False
    lookups: tuple[Usage, ...] = ()

    @classmethod
    def build(cls, prompt: int, output: int = 0, cache_read: int = 0, cache_write: int = 0, model: str = "") -> Usage:
        """Builds the usage from the bare numbers of a report: here they become the provider's tokens."""
        read, written = ProviderTokens(cache_read), ProviderTokens(cache_write)
        return cls(ProviderTokens(prompt), ProviderTokens(output), read, written, model)


class MessageEntry(Struct, frozen=True, tag="said", omit_defaults=True, rename={"source_id": "source"}):
    """A message. `usage` is set on an answer: the tokens of its request. `source_id` is its id in an imported file."""

    id: str
    parent: str | None
    run: str
    time: int | None
    message: Message
    usage: Usage | None = None
    source_id: str = ""


class Attempt(Struct, frozen=True, tag="attempt", omit_defaults=True):
    """A compaction that made no Block, but cost a model call or turned out fruitless or unsatisfiable."""

    id: str
    parent: str | None
    run: str
    time: int
    policy: str
    status: Literal["nothing", "unsatisfiable", "failed", "cancelled", "superseded"]
    reason: str
    tokens: Counted
    target: Counted
    spent: ModelCost = ModelCost()


class BranchSummary(
    Struct, frozen=True, tag="branch", omit_defaults=True, rename={"previous_leaf": "left", "source_id": "source"}
):
    """The summary of a branch that was left. The model sees it on the branch that goes on.

    `previous_leaf` is the id of the last entry of the branch that was left.
    """

    id: str
    parent: str | None
    run: str
    time: int | None
    message: Message
    previous_leaf: str = ""
    source_id: str = ""


class Retraction(Struct, frozen=True, tag="retraction", omit_defaults=True):
    """Undoes the Block with the id `block`: the view is computed as if that Block were not on the path.

    With `block` "" it says that a compaction was undone on the branch that this one took the place of.
    """

    id: str
    parent: str | None
    run: str
    time: int
    block: str


class Pin(Struct, frozen=True, tag="pin", omit_defaults=True, rename={"position": "at", "pinned": "on"}):
    """Pins or unpins the entry with id `entry` at `position`. No compaction hides or shortens a pinned entry."""

    id: str
    parent: str | None
    run: str
    time: int
    entry: str
    position: int
    pinned: bool = True


class Setting(Struct, frozen=True, tag="setting", omit_defaults=True, rename={"source_id": "source"}):
    """A changed setting on this path. `key` is for example `model` or `thinking`, `value` the new value."""

    id: str
    parent: str | None
    run: str
    time: int | None
    key: str
    value: str
    native: NativeBytes | None = None
    source_id: str = ""


RULE_ADDED, RULE_DROPPED = "rule added", "rule dropped"
"""The keys of settings by which a person adds a rule for the agent, or drops one. The value is the rule."""


def is_rule_setting(entry: Entry) -> bool:
    """Tells whether an entry adds a rule or drops one."""
    return isinstance(entry, Setting) and entry.key in {RULE_ADDED, RULE_DROPPED}


AUTO_COMPACTION = "automatic compaction"
"""The key of settings by which a person switches it off for a session, with the value "off", and on again, "on"."""


def is_auto_setting(entry: Entry) -> bool:
    """Tells whether an entry switches the session's automatic compaction off or on."""
    return isinstance(entry, Setting) and entry.key == AUTO_COMPACTION


PREPARED_SUMMARY = "prepared summary"
"""The key of settings that say what models took for a compaction that was written ahead, used or not.

The value is a `PreparedSummary` as JSON.
"""


SET_ASIDE = "compacted anew"
"""The key of a setting before a compaction that starts from the originals. The value names the positions of the Blocks
that were retracted for that, oldest first."""


def is_own_note(entry: Entry) -> bool:
    """Tells whether an entry is a note of Tenfold's for itself, which nobody would look for."""
    return isinstance(entry, Setting) and entry.key in {PREPARED_SUMMARY, SET_ASIDE}


class PreparedSummary(Struct, frozen=True):
    """What a compaction took that was written ahead: the time and the cost that its Block has if it is used."""

    time: int
    spent: ModelCost


class CustomEntry(Struct, frozen=True, tag="custom", omit_defaults=True, rename={"source_id": "source"}):
    """Anything else in a session file. It is kept as bytes, counted and shown, but never sent to a model."""

    id: str
    parent: str | None
    run: str
    time: int | None
    kind: str
    native: NativeBytes
    source_id: str = ""


class Tombstone(Struct, frozen=True, tag="tombstone", omit_defaults=True, rename={"purge_time": "purged"}):
    """What `purge` leaves of an entry. The body is gone; its hash is kept, so that the hash chain still verifies.

    `digest` is one of what the message said and of the entry's id, by which it is recognised if a host sends it again.
    """

    id: str
    parent: str | None
    run: str
    time: int | None
    kind: str
    body_hash: bytes
    purge_time: int
    message: Message | None = None
    digest: bytes = b""


Entry = MessageEntry | Block | Attempt | BranchSummary | Retraction | Pin | Setting | CustomEntry | Tombstone


def get_message(entry: Entry) -> Message | None:
    """Returns the message that an entry shows to the model if nothing replaces it. None if it shows nothing."""
    return entry.message if isinstance(entry, MessageEntry | BranchSummary | Tombstone) else None


def get_kind(entry: Entry) -> str:
    """Returns the name of the entry's kind as it is stored, such as "said" for a message."""
    return str(type(entry).__struct_config__.tag)
