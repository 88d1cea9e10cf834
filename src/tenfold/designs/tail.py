"""The design behind the preset `tail`, under its own names.

The design's words, and what they are called in Tenfold:

- *turn*: an exchange, which is a user message and the steps up to the next one. *Split turn*: the cut lies inside it.
- *compaction entry*: a Block. Its *first kept entry* (the design has three names for the id: `retained_from_id`,
  `first_kept_entry_id`, `firstKeptEntryId`) is the first message after what the Block covers.
- `reserve_tokens`, `keep_recent_tokens` (also `retain_recent_tokens`): `trigger.Reserve`, bounds for large windows.
- *session file*, *leaf*: the log, and the entry where its head is. `fromId` of a branch summary: the design stores the
  new parent in it. Here that is `BranchSummary.parent`; `previous_leaf` is the end of the branch that was left.
- `_refresh_context_tokens_from_session()`: `Session.reading`, in which usage from before a Block is never counted.
- *phase*: `TailHarness.phase`. The host makes the model calls of the conversation itself.

`Session` and the policy `tail` do the compaction; this package only gives it the design's interface.
"""

from __future__ import annotations

from tenfold.designs.tail_agent import CompactOptions, TailHarness
from tenfold.designs.tail_compaction import (
    Compaction,
    CompactionDetails,
    CompactionPreparation,
    CompactionResult,
    CompactionSettings,
    serialize_conversation,
    should_compact,
)
from tenfold.designs.tail_events import (
    AutoCompactionEnd,
    AutoCompactionStart,
    SessionBeforeCompact,
    SessionBeforeCompactResult,
    SessionBeforeTree,
    SessionBeforeTreeResult,
    SessionCompact,
    SessionTree,
    is_context_overflow,
)
from tenfold.designs.tail_session import (
    BranchSummaryResult,
    CompactionEntry,
    append_compaction,
    build_session_context,
    collect_entries_for_branch_summary,
    compaction_entry,
    generate_branch_summary,
    prepare_branch_entries,
)
from tenfold.designs.tail_tokens import calculate_context_tokens, estimate_context_tokens, estimate_tokens, last_usage

__all__ = [
    "AutoCompactionEnd",
    "AutoCompactionStart",
    "BranchSummaryResult",
    "CompactOptions",
    "Compaction",
    "CompactionDetails",
    "CompactionEntry",
    "CompactionPreparation",
    "CompactionResult",
    "CompactionSettings",
    "SessionBeforeCompact",
    "SessionBeforeCompactResult",
    "SessionBeforeTree",
    "SessionBeforeTreeResult",
    "SessionCompact",
    "SessionTree",
    "TailHarness",
    "append_compaction",
    "build_session_context",
    "calculate_context_tokens",
    "collect_entries_for_branch_summary",
    "compaction_entry",
    "estimate_context_tokens",
    "estimate_tokens",
    "generate_branch_summary",
    "is_context_overflow",
    "last_usage",
    "prepare_branch_entries",
    "serialize_conversation",
    "should_compact",
]
