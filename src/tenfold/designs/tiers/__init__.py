"""The published design behind the preset `tiers`: pruning in three tiers, the tool `compact`, the status line.

nijaru published it in nijaru/ion.
"""

from __future__ import annotations

from tenfold.designs.tiers.pruning import (
    DEFAULT_CONFIG,
    AgentEvent,
    CompactionCheck,
    CompactionConfig,
    CompactionResult,
    CompactionSettings,
    CompactionStatus,
    CompactionTier,
    ContextWarning,
    PruneResult,
    PruningTier,
    SummarizationFailure,
    SummarizationResult,
    TokenBreakdown,
    TokenUsage,
    build_listener,
    check_compaction_needed,
    choose_summarization_models,
    compact_with_summarization,
    count_tokens,
    estimate_tokens,
    format_status_line,
    prune_messages,
    run_compact_command,
    summarize_messages,
    to_agent_event,
)
from tenfold.session.compact_tool import MINIMUM_TOKENS, NOT_NEEDED, CompactTool, get_summary

__all__ = [
    "DEFAULT_CONFIG",
    "MINIMUM_TOKENS",
    "NOT_NEEDED",
    "AgentEvent",
    "CompactTool",
    "CompactionCheck",
    "CompactionConfig",
    "CompactionResult",
    "CompactionSettings",
    "CompactionStatus",
    "CompactionTier",
    "ContextWarning",
    "PruneResult",
    "PruningTier",
    "SummarizationFailure",
    "SummarizationResult",
    "TokenBreakdown",
    "TokenUsage",
    "build_listener",
    "check_compaction_needed",
    "choose_summarization_models",
    "compact_with_summarization",
    "count_tokens",
    "estimate_tokens",
    "format_status_line",
    "get_summary",
    "prune_messages",
    "run_compact_command",
    "summarize_messages",
    "to_agent_event",
]
