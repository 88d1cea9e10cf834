"""The published design behind the preset `clip`: a compactor that folds batches into an archive, and its two tools.

Numina-Systems published it in Numina-Systems/constellation.
"""

from __future__ import annotations

from typing import Any

from tenfold.designs.clip.archive_tools import CompactContextTool, MemoryReadTool, get_memory
from tenfold.designs.clip.compaction_records import (
    DEFAULT_DIRECTIVE,
    DEFAULT_SCORING_CONFIG,
    DEFAULT_SUMMARIZATION_PROMPT,
    DEFAULT_SYSTEM_PROMPT,
    DEFAULT_WINDOW,
    CompactionConfig,
    CompactionResult,
    SummaryBatch,
    build_resummarization_request,
    build_summarization_request,
    chunk_messages,
    chunk_messages_by_token_budget,
    count_content_tokens,
    estimate_tokens,
    format_batch_content,
    format_batch_label,
    interpolate_prompt,
    parse_batch,
    render_clip_archive,
    score_message,
    should_compress,
)
from tenfold.designs.clip.compactor import Compactor, create_compactor, create_from_options
from tenfold.plan.stages.batch_archive import ImportanceScoringConfig

__all__ = [
    "DEFAULT_DIRECTIVE",
    "DEFAULT_SCORING_CONFIG",
    "DEFAULT_SUMMARIZATION_PROMPT",
    "DEFAULT_SYSTEM_PROMPT",
    "DEFAULT_WINDOW",
    "CompactContextTool",
    "CompactionConfig",
    "CompactionResult",
    "Compactor",
    "ImportanceScoringConfig",
    "MemoryReadTool",
    "SummaryBatch",
    "build_resummarization_request",
    "build_summarization_request",
    "chunk_messages",
    "chunk_messages_by_token_budget",
    "count_content_tokens",
    "create_compactor",
    "create_from_options",
    "estimate_tokens",
    "format_batch_content",
    "format_batch_label",
    "get_memory",
    "interpolate_prompt",
    "parse_batch",
    "render_clip_archive",
    "score_message",
    "should_compress",
]

_PUBLISHED_SPELLINGS = {
    "createCompactor": create_from_options,
    "interpolatePrompt": interpolate_prompt,
    "buildSummarizationRequest": build_summarization_request,
    "buildResummarizationRequest": build_resummarization_request,
    "scoreMessage": score_message,
    "chunkMessagesByTokenBudget": chunk_messages_by_token_budget,
}
"""What the design exports, in its own spelling."""


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whichever function is asked for
    if name not in _PUBLISHED_SPELLINGS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _PUBLISHED_SPELLINGS[name]
