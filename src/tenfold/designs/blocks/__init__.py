"""The design behind the preset `blocks`, under its own names.

LazyBouy published it in LazyBouy/phi-core.

    values       TurnRange TurnId TurnMessage TurnMap CompactedSection CompactionBlock LoopRecord, to_json from_json
    settings     CompactionConfig ContextConfig FixedCount TokenBudget, should_compact
    counting     TokenCounter ContextTracker
    strategies   BlockCompactionStrategy DefaultBlockCompaction CompactionStrategy DefaultCompaction, with_strategy
    work         compact_messages compact_session_loops build_context_from_session resolve_scope compact_context
    around it    with_hooks, CompactionStarted CompactionEnded AgentStart AgentEnd, SessionRecorder

A *turn* of this design is a step of Tenfold together with the user messages that led to it. A *loop* is a run. Original
messages are never overwritten: a `LoopRecord` holds them, and its block says what is shown in their place.
"""

from __future__ import annotations

from tenfold.designs.blocks.compaction_config import (
    BlockCompactionStrategy,
    CompactionConfig,
    CompactionScope,
    CompactionStrategy,
    ContextConfig,
    FixedCount,
    SectionStrategy,
    TokenBudget,
    combine_sections,
    should_compact,
)
from tenfold.designs.blocks.context_tracker import ContextTracker, TokenCounter, estimate_image
from tenfold.designs.blocks.in_memory import compact_in_memory
from tenfold.designs.blocks.list_levels import DefaultCompaction, compact_messages
from tenfold.designs.blocks.loop_events import (
    AgentEnd,
    AgentStart,
    CompactionEnded,
    CompactionStarted,
    MessageDelta,
    compact_context_with_sender,
    get_current_loop_id,
    with_hooks,
)
from tenfold.designs.blocks.orchestration import (
    build_context_from_session,
    compact_context,
    compact_session_loops,
    count_compacted_loops,
    count_loop_tokens,
    find_violations,
    get_loop_records,
    resolve_scope,
    walk_chain,
)
from tenfold.designs.blocks.session_recorder import SessionRecorder
from tenfold.designs.blocks.strategy import DefaultBlockCompaction, build_policy, build_strategy_policy, with_strategy
from tenfold.designs.blocks.strategy_runner import ask_model
from tenfold.designs.blocks.turn_records import (
    CompactedSection,
    CompactionBlock,
    LoopRecord,
    TurnId,
    TurnMap,
    TurnMessage,
    TurnRange,
    assign_turns,
    from_json,
    to_json,
)

__all__ = [
    "AgentEnd",
    "AgentStart",
    "BlockCompactionStrategy",
    "CompactedSection",
    "CompactionBlock",
    "CompactionConfig",
    "CompactionEnded",
    "CompactionScope",
    "CompactionStarted",
    "CompactionStrategy",
    "ContextConfig",
    "ContextTracker",
    "DefaultBlockCompaction",
    "DefaultCompaction",
    "FixedCount",
    "LoopRecord",
    "MessageDelta",
    "SectionStrategy",
    "SessionRecorder",
    "TokenBudget",
    "TokenCounter",
    "TurnId",
    "TurnMap",
    "TurnMessage",
    "TurnRange",
    "ask_model",
    "assign_turns",
    "build_context_from_session",
    "build_policy",
    "build_strategy_policy",
    "combine_sections",
    "compact_context",
    "compact_context_with_sender",
    "compact_in_memory",
    "compact_messages",
    "compact_session_loops",
    "count_compacted_loops",
    "count_loop_tokens",
    "estimate_image",
    "find_violations",
    "from_json",
    "get_current_loop_id",
    "get_loop_records",
    "resolve_scope",
    "should_compact",
    "to_json",
    "walk_chain",
    "with_hooks",
    "with_strategy",
]
