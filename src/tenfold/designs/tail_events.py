"""The design's events and hook results, as values, and which provider messages say that a request was too long."""

from __future__ import annotations

import re
from typing import ClassVar, Literal

from msgspec import Struct

from tenfold.branches import Left
from tenfold.designs.tail_compaction import CompactionPreparation, CompactionResult
from tenfold.designs.tail_session import CompactionEntry
from tenfold.llm.overflow import is_overflow
from tenfold.record.entry import Entry

EventName = Literal[
    "session_before_compact",
    "session_compact",
    "session_before_tree",
    "session_tree",
    "auto_compaction_start",
    "auto_compaction_end",
    "save_point",
    "agent_end",
    "settled",
]


class SessionBeforeCompact(Struct, frozen=True):
    """A compaction is about to be written; a handler may cancel it or supply its result."""

    type: ClassVar[EventName] = "session_before_compact"
    preparation: CompactionPreparation
    branch_entries: tuple[Entry, ...]
    custom_instructions: str


class SessionBeforeCompactResult(Struct, frozen=True):
    """What a handler may return: `cancel`, or a `compaction` to be used as it is, without a model call."""

    cancel: bool = False
    compaction: CompactionResult | None = None


class SessionCompact(Struct, frozen=True):
    """A compaction was appended: the entry itself, found by its id."""

    type: ClassVar[EventName] = "session_compact"
    compaction_entry: CompactionEntry
    from_hook: bool


class AutoCompactionStart(Struct, frozen=True):
    """A compaction that nobody asked for begins."""

    type: ClassVar[EventName] = "auto_compaction_start"
    reason: Literal["threshold", "overflow"]


class AutoCompactionEnd(Struct, frozen=True):
    """It ended. `will_retry`: the request that was too long is to be sent again."""

    type: ClassVar[EventName] = "auto_compaction_end"
    result: CompactionResult | None = None
    aborted: bool = False
    will_retry: bool = False
    error_message: str = ""


class SessionBeforeTree(Struct, frozen=True):
    """The user is about to go to another point; a handler may cancel, give the summary, or change what it is told."""

    type: ClassVar[EventName] = "session_before_tree"
    target_id: str
    old_leaf_id: str | None
    entries_to_summarize: Left
    custom_instructions: str


class SessionBeforeTreeResult(Struct, frozen=True):
    """What a handler may return: `cancel`, a `summary` in place of a model's, other `custom_instructions`."""

    cancel: bool = False
    summary: str = ""
    custom_instructions: str = ""


class SessionTree(Struct, frozen=True):
    """The session stands at another point. `summary_entry_id` is the branch summary there, "" without one."""

    type: ClassVar[EventName] = "session_tree"
    new_leaf_id: str | None
    old_leaf_id: str | None
    summary_entry_id: str


class Milestone(Struct, frozen=True):
    """`save_point`, `agent_end` and `settled`: a run was stored, it ended, and nothing is left to do."""

    type: Literal["save_point", "agent_end", "settled"]


TailEvent = (
    SessionBeforeCompact
    | SessionCompact
    | AutoCompactionStart
    | AutoCompactionEnd
    | SessionBeforeTree
    | SessionTree
    | Milestone
)

_NO_BODY = re.compile(r"^400\b.{0,20}\(no body\)", re.IGNORECASE)
"""How a provider of this design reports an overflow; others mean anything by it, so the table takes it for none."""


def is_context_overflow(error: str) -> bool:
    """Whether a provider's error says that the request was too long; a rate limit that speaks of tokens does not."""
    return is_overflow(error) or bool(_NO_BODY.search(error))
