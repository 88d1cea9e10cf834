"""The design behind the preset `blocks`, under its own names.

LazyBouy published it in LazyBouy/phi-core.

    values       TurnRange TurnId TurnMessage TurnMap CompactedSection CompactionBlock LoopRecord, to_json from_json
    settings     CompactionConfig ContextConfig FixedCount TokenBudget, should_compact
    counting     TokenCounter ContextTracker
    strategies   BlockCompactionStrategy DefaultBlockCompaction CompactionStrategy DefaultCompaction, ask_model
    work         compact_messages compact_session_loops build_context_from_session resolve_scope compact_context
    around it    with_hooks, CompactionStarted CompactionEnded AgentStart AgentEnd, SessionRecorder
    as a policy  blocks build_policy

A *turn* of this design is a step of Tenfold together with the user messages that led to it. A *loop* is a run. Original
messages are never overwritten: a `LoopRecord` holds them, and its block says what is shown in their place.
"""

from __future__ import annotations

from tenfold.designs.blocks.config import (
    BlockCompactionStrategy,
    CompactionConfig,
    CompactionScope,
    CompactionStrategy,
    ContextConfig,
    FixedCount,
    HeadroomTrigger,
    TokenBudget,
    should_compact,
)
from tenfold.designs.blocks.events import (
    AgentEnd,
    AgentStart,
    CompactionEnded,
    CompactionStarted,
    MessageDelta,
    compact_context,
    compact_in_memory,
    with_hooks,
)
from tenfold.designs.blocks.loops import (
    build_context_from_session,
    compact_session_loops,
    count_compacted_loops,
    get_loop_records,
    resolve_scope,
)
from tenfold.designs.blocks.policy import DefaultCompaction, blocks, build_policy, compact_messages
from tenfold.designs.blocks.recorder import SessionRecorder
from tenfold.designs.blocks.runner import ask_model
from tenfold.designs.blocks.strategy import DefaultBlockCompaction
from tenfold.designs.blocks.tokens import ContextTracker, TokenCounter
from tenfold.designs.blocks.turns import (
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
    "HeadroomTrigger",
    "LoopRecord",
    "MessageDelta",
    "SessionRecorder",
    "TokenBudget",
    "TokenCounter",
    "TurnId",
    "TurnMap",
    "TurnMessage",
    "TurnRange",
    "ask_model",
    "assign_turns",
    "blocks",
    "build_context_from_session",
    "build_policy",
    "compact_context",
    "compact_in_memory",
    "compact_messages",
    "compact_session_loops",
    "count_compacted_loops",
    "from_json",
    "get_loop_records",
    "resolve_scope",
    "should_compact",
    "to_json",
    "with_hooks",
]
