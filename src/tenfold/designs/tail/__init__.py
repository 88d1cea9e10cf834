"""The design behind the preset `tail`, under its own names.

CursorTouch published it in CursorTouch/Operator-Use, after badlogic/pi-mono.

The design's words, and what they are called in Tenfold:

- *turn*: an exchange, which is a user message and the steps up to the next one. *Split turn*: the cut lies inside it.
- *compaction entry*: a Block. Its *first kept entry* (the design has three names for the id: `retained_from_id`,
  `first_kept_entry_id`, `firstKeptEntryId`) is the first message after what the Block covers.
- `reserve_tokens`, `keep_recent_tokens` (also `retain_recent_tokens`): `trigger.Reserve`, bounds for large windows.
- *session file*, *leaf*: the log, and the entry where its head is. `fromId` of a branch summary: the design stores the
  new parent in it. Here that is `BranchSummary.parent`; `previous_leaf` is the end of the branch that was left.
- `_refresh_context_tokens_from_session()`: `Session.reading`, in which usage from before a Block is never counted.
- *Agent*, with phases, hooks and `run_compaction`: `agent.TailAgent`, a face of `tenfold.apps.agent.Agent`.

`Session` and the policy `tail` do the compaction; this package only gives it the design's interface. Its page is
docs/designs/tail.md.
"""

from __future__ import annotations

from tenfold.compaction.summarize.headings import BRANCH_HEADINGS, render_guide
from tenfold.compaction.summarize.ladder import SummarySettings
from tenfold.compaction.summarize.prompt_files import load_prompt, load_prompts, with_sections
from tenfold.designs.tail.compaction import (
    Compaction,
    CompactionDetails,
    CompactionPreparation,
    CompactionResult,
    CompactionSettings,
    CutPointResult,
    find_cut_point,
    find_prev_compaction_index,
    serialize_conversation,
    should_compact,
)
from tenfold.designs.tail.context_tokens import (
    calculate_context_tokens,
    estimate_context_tokens,
    estimate_tokens,
    find_last_usage,
)
from tenfold.designs.tail.hooks import (
    AutoCompactionEnd,
    AutoCompactionStart,
    CompactOptions,
    SessionBeforeCompact,
    SessionBeforeCompactResult,
    SessionBeforeTree,
    SessionBeforeTreeResult,
    SessionCompact,
    SessionTree,
    TailHooks,
)
from tenfold.designs.tail.policy import HEADINGS, PACKAGE
from tenfold.designs.tail.session_context import (
    BranchSummaryResult,
    CompactionEntry,
    SessionManager,
    build_session_context,
    collect_entries_for_branch_summary,
    generate_branch_summary,
    get_compaction_entry,
    prepare_branch_entries,
)
from tenfold.designs.tail.writer import PREFIX_HEADINGS

_SECTIONS = with_sections(SummarySettings(), PACKAGE).sections


def _render_prompt(text: str, headings: tuple[str, ...]) -> str:
    return text.replace("{structure}", render_guide(headings, _SECTIONS))


SUMMARIZATION_SYSTEM_PROMPT = load_prompts()["system"]
SUMMARIZATION_PROMPT = _render_prompt(load_prompts()["first"], HEADINGS)
UPDATE_SUMMARIZATION_PROMPT = _render_prompt(load_prompts()["update"], HEADINGS)
TURN_PREFIX_SUMMARIZATION_PROMPT = _render_prompt(load_prompt(PACKAGE, "prefix"), PREFIX_HEADINGS)
BRANCH_SUMMARY_PROMPT = _render_prompt(load_prompts()["branch"], BRANCH_HEADINGS)
"""The prompts in our words, under the design's names. `{allotment}` and `{focus}` are filled when a model is asked."""

__all__ = [
    "BRANCH_SUMMARY_PROMPT",
    "SUMMARIZATION_PROMPT",
    "SUMMARIZATION_SYSTEM_PROMPT",
    "TURN_PREFIX_SUMMARIZATION_PROMPT",
    "UPDATE_SUMMARIZATION_PROMPT",
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
    "CutPointResult",
    "SessionBeforeCompact",
    "SessionBeforeCompactResult",
    "SessionBeforeTree",
    "SessionBeforeTreeResult",
    "SessionCompact",
    "SessionManager",
    "SessionTree",
    "TailHooks",
    "build_session_context",
    "calculate_context_tokens",
    "collect_entries_for_branch_summary",
    "estimate_context_tokens",
    "estimate_tokens",
    "find_cut_point",
    "find_last_usage",
    "find_prev_compaction_index",
    "generate_branch_summary",
    "get_compaction_entry",
    "prepare_branch_entries",
    "serialize_conversation",
    "should_compact",
]
