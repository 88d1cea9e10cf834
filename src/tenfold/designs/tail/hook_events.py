"""The design's events and hook results as values, and the test for a provider error that means an overflow."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from tenfold.core.record.entry import Entry
from tenfold.designs.tail.compaction import CompactionPreparation, CompactionResult
from tenfold.designs.tail.session_context import CompactionEntry
from tenfold.models.overflow import is_overflow
from tenfold.session.branches import BranchEntries

EventName = Literal[
    "save_point",
    "agent_end",
    "auto_compaction_start",
    "session_before_compact",
    "session_compact",
    "auto_compaction_end",
    "settled",
    "session_before_tree",
    "session_tree",
]

EVENT_NAMES: tuple[EventName, ...] = get_args(EventName)
"""The names of all events, in the order in which they first occur in a run."""


@dataclass(frozen=True)
class CompactOptions:
    """Options of `TailAgent.compact`, the design's `ctx.compact(options)`.

    `on_complete` is called with the result, only if there is one.
    """

    custom_instructions: str | None = None
    on_complete: Callable[[CompactionResult], object] | None = None


NO_OPTIONS = CompactOptions()
"""No instructions, and nobody to tell."""


@dataclass(frozen=True)
class SessionBeforeCompact:
    """A compaction is about to be written. A handler may cancel it or supply its result."""

    type: ClassVar[EventName] = "session_before_compact"
    preparation: CompactionPreparation
    branch_entries: tuple[Entry, ...]
    custom_instructions: str


@dataclass(frozen=True)
class SessionBeforeCompactResult:
    """What a handler may return: `cancel`, or a `compaction` that is used as it is, without a model call."""

    cancel: bool = False
    compaction: CompactionResult | None = None


@dataclass(frozen=True)
class SessionCompact:
    """A compaction was appended. Carries the new entry."""

    type: ClassVar[EventName] = "session_compact"
    compaction_entry: CompactionEntry
    from_hook: bool


@dataclass(frozen=True)
class AutoCompactionStart:
    """An automatic compaction begins."""

    type: ClassVar[EventName] = "auto_compaction_start"
    reason: Literal["threshold", "overflow"]


@dataclass(frozen=True)
class AutoCompactionEnd:
    """An automatic compaction ended. `will_retry` means that the request that was too long is sent again."""

    type: ClassVar[EventName] = "auto_compaction_end"
    result: CompactionResult | None = None
    aborted: bool = False
    will_retry: bool = False
    error_message: str = ""


@dataclass(frozen=True)
class SessionBeforeTree:
    """The user is about to move to another entry. A handler may cancel, supply a summary or change instructions."""

    type: ClassVar[EventName] = "session_before_tree"
    target_id: str
    old_leaf_id: str | None
    entries_to_summarize: BranchEntries
    custom_instructions: str


@dataclass(frozen=True)
class SessionBeforeTreeResult:
    """What a handler may return: `cancel`, a `summary` instead of the model's, or other `custom_instructions`."""

    cancel: bool = False
    summary: str = ""
    custom_instructions: str = ""


@dataclass(frozen=True)
class SessionTree:
    """The session moved to another entry. `summary_entry_id` is the branch summary there, "" if there is none."""

    type: ClassVar[EventName] = "session_tree"
    new_leaf_id: str | None
    old_leaf_id: str | None
    summary_entry_id: str


@dataclass(frozen=True)
class Milestone:
    """A run was stored (`save_point`), it ended (`agent_end`), or nothing is left to do (`settled`)."""

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

_NO_BODY_ERROR = re.compile(r"^400\b.{0,20}\(no body\)", re.IGNORECASE)
"""How one provider of this design reports an overflow. From others it may mean anything, so `is_overflow` omits it."""


def is_context_overflow(error: str) -> bool:
    """Whether a provider's error says that the request was too long. A rate limit that mentions tokens does not."""
    return is_overflow(error) or bool(_NO_BODY_ERROR.search(error))
