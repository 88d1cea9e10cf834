"""The published design behind the preset `clip`: a compactor that folds batches into an archive, and its two tools.

Numina-Systems published it in Numina-Systems/constellation.
"""

from __future__ import annotations

from tenfold.designs.clip.archive import ArchiveRecord, BatchArchive, BatchMemory, get_memory, parse_record
from tenfold.designs.clip.archive_tools import CompactContextTool, MemoryReadTool
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
from tenfold.designs.clip.compactor import Compactor, create_compactor
from tenfold.designs.clip.fold_stage import ImportanceScoringConfig

# The names that the design exports, as it spells them.
createCompactor = create_compactor  # noqa: N816
interpolatePrompt = interpolate_prompt  # noqa: N816
buildSummarizationRequest = build_summarization_request  # noqa: N816
buildResummarizationRequest = build_resummarization_request  # noqa: N816
scoreMessage = score_message  # noqa: N816
chunkMessagesByTokenBudget = chunk_messages_by_token_budget  # noqa: N816

__all__ = [
    "DEFAULT_DIRECTIVE",
    "DEFAULT_SCORING_CONFIG",
    "DEFAULT_SUMMARIZATION_PROMPT",
    "DEFAULT_SYSTEM_PROMPT",
    "DEFAULT_WINDOW",
    "ArchiveRecord",
    "BatchArchive",
    "BatchMemory",
    "CompactContextTool",
    "CompactionConfig",
    "CompactionResult",
    "Compactor",
    "ImportanceScoringConfig",
    "MemoryReadTool",
    "SummaryBatch",
    "buildResummarizationRequest",
    "buildSummarizationRequest",
    "build_resummarization_request",
    "build_summarization_request",
    "chunkMessagesByTokenBudget",
    "chunk_messages",
    "chunk_messages_by_token_budget",
    "count_content_tokens",
    "createCompactor",
    "create_compactor",
    "estimate_tokens",
    "format_batch_content",
    "format_batch_label",
    "get_memory",
    "interpolatePrompt",
    "interpolate_prompt",
    "parse_batch",
    "parse_record",
    "render_clip_archive",
    "scoreMessage",
    "score_message",
    "should_compress",
]
