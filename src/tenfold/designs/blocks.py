"""The design behind the preset `blocks`, under its own names.

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

from tenfold.designs.blocks_asking import asked
from tenfold.designs.blocks_counting import ContextTracker, TokenCounter, image_tokens
from tenfold.designs.blocks_events import (
    AgentEnd,
    AgentStart,
    CompactionEnded,
    CompactionStarted,
    MessageDelta,
    SessionRecorder,
    compact_context_with_sender,
    current_loop,
    hooked,
)
from tenfold.designs.blocks_session import (
    DefaultCompaction,
    build_context_from_session,
    chain,
    compact_context,
    compact_messages,
    compact_session_loops,
    compacted_list,
    loops_compacted,
    policy_of,
    records,
    resolve_scope,
    sizes_in_view,
    violations,
)
from tenfold.designs.blocks_strategy import DefaultBlockCompaction, strategy_blocks, with_strategy
from tenfold.designs.blocks_values import (
    BlockCompactionStrategy,
    CompactedSection,
    CompactionBlock,
    CompactionConfig,
    CompactionStrategy,
    ContextConfig,
    FixedCount,
    LoopRecord,
    TokenBudget,
    TurnId,
    TurnMap,
    TurnMessage,
    TurnRange,
    from_json,
    should_compact,
    to_json,
    turns_of,
)

__all__ = [
    "AgentEnd",
    "AgentStart",
    "BlockCompactionStrategy",
    "CompactedSection",
    "CompactionBlock",
    "CompactionConfig",
    "CompactionEnded",
    "CompactionStarted",
    "CompactionStrategy",
    "ContextConfig",
    "ContextTracker",
    "DefaultBlockCompaction",
    "DefaultCompaction",
    "FixedCount",
    "LoopRecord",
    "MessageDelta",
    "SessionRecorder",
    "TokenBudget",
    "TokenCounter",
    "TurnId",
    "TurnMap",
    "TurnMessage",
    "TurnRange",
    "asked",
    "build_context_from_session",
    "chain",
    "compact_context",
    "compact_context_with_sender",
    "compact_messages",
    "compact_session_loops",
    "compacted_list",
    "current_loop",
    "from_json",
    "hooked",
    "image_tokens",
    "loops_compacted",
    "policy_of",
    "records",
    "resolve_scope",
    "should_compact",
    "sizes_in_view",
    "strategy_blocks",
    "to_json",
    "turns_of",
    "violations",
    "with_strategy",
]
