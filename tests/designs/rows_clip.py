"""The names of the design behind `clip`, and where each is found."""

from __future__ import annotations

from tests.designs.row import Row

_DESIGN = "tenfold.designs.clip"


def _make_row(numbers: str, name: str, path: str, meaning: str, example: str = "") -> Row:
    ids = tuple(f"clip.{number}" for number in numbers.split())
    return Row(ids, name, f"{_DESIGN}.{path}" if path and not path.startswith("tenfold.") else path, meaning, example)


ROWS: tuple[Row, ...] = (
    _make_row(
        "1 6 8 19",
        "createCompactor(options)",
        "createCompactor",
        "also `create_from_options`; with keywords `create_compactor`. Its store is the log of the conversations",
        "it().compress([], 'c').batches_created == 0",
    ),
    _make_row(
        "1 6 8 19",
        "Compactor.compress(history, conversationId)",
        "Compactor.compress",
        "never raises; the very list that was given where nothing was done",
    ),
    _make_row(
        "1",
        "SummaryBatch",
        "SummaryBatch",
        "encodes with the design's field names",
        "it('', 0, '', '', 3).message_count == 3",
    ),
    _make_row(
        "1 3", "CompactionResult", "CompactionResult", "the same, with `failed` and `reason`", "it([]).failed is False"
    ),
    _make_row(
        "1 2",
        "CompactionConfig",
        "CompactionConfig",
        "the same; in `[tenfold.presets.clip]` the keywords of the policy",
        "(it().chunk_size, it().keep_recent, it().clip_first, it().clip_last) == (20, 5, 2, 2)",
    ),
    _make_row(
        "2",
        "[summarization] chunk_size, keep_recent, max_summary_tokens, clip_first, clip_last, compaction_timeout, ...",
        "tenfold.designs.clip.policy.clip",
        "keywords of the preset, and keys of `[tenfold.presets.clip]`",
        "it.__kwdefaults__['max_summary_tokens'] == 1024",
    ),
    _make_row(
        "2 20",
        "backoffBaseMs",
        "tenfold.models.retry.RetryRule",
        "`first_pause`, in seconds, of the answerer's rule for retries",
        "it().first_pause == 1.0",
    ),
    _make_row(
        "3",
        "token estimate",
        "estimate_tokens",
        "a quarter of the characters, rounded up",
        "(it(''), it('12345')) == (0, 2)",
    ),
    _make_row(
        "4", "shouldCompress", "should_compress", "the budget less the overhead", "it(160_001) and not it(160_000)"
    ),
    _make_row(
        "4",
        "context_budget",
        "tenfold.compaction.trigger.limits.BudgetTrigger",
        "the trigger",
        "it().context_budget == 0.8",
    ),
    _make_row(
        "4", "once per user message", "", "`Policy.checks` is `user_message`; the hard check is made before every call"
    ),
    _make_row(
        "5",
        "compact_context",
        "CompactContextTool",
        "the tool, for a session",
        """it().handle() == '{"success":false,"output":"Compaction not configured"}'""",
    ),
    _make_row(
        "7",
        "the split",
        "tenfold.compaction.plan.stages.batch_archive.FoldStage",
        "the stage: whole units only, within the target",
        "it().keep_recent_messages == 5",
    ),
    _make_row(
        "9",
        "chunkMessages",
        "chunk_messages",
        "groups of a size; the preset's chunks are whole units",
        "it([], 3) == []",
    ),
    _make_row(
        "9",
        "chunkMessagesByTokenBudget",
        "chunkMessagesByTokenBudget",
        "also `chunk_messages_by_token_budget`",
        "it([], 1000) == []",
    ),
    _make_row(
        "10 X1",
        "chunk and fold",
        "tenfold.compaction.summarize.batch_writer.BatchWriter",
        "the writer: disjoint batches, the archive so far as context only",
        "it().chunk_size == 20",
    ),
    _make_row(
        "11",
        "interpolatePrompt",
        "interpolatePrompt",
        "also `interpolate_prompt`",
        "it('{existing_summary}{messages}') == '(no prior summary)'",
    ),
    _make_row(
        "11",
        "DEFAULT_SUMMARIZATION_PROMPT",
        "DEFAULT_SUMMARIZATION_PROMPT",
        "a template to start one's own from",
        "all(p in it for p in ('{persona}', '{existing_summary}', '{messages}'))",
    ),
    _make_row(
        "12 X8 X9",
        "buildSummarizationRequest",
        "buildSummarizationRequest",
        "also `build_summarization_request`: what the preset asks, with the arguments of calls",
        "it([]).purpose == 'batch'",
    ),
    _make_row(
        "12 16",
        "buildResummarizationRequest",
        "buildResummarizationRequest",
        "also `build_resummarization_request`",
        "it([]).purpose == 'merge'",
    ),
    _make_row("12", "DEFAULT_SYSTEM_PROMPT", "DEFAULT_SYSTEM_PROMPT", "`summarize/prompts/system.md`", "len(it) > 0"),
    _make_row("12", "DEFAULT_DIRECTIVE", "DEFAULT_DIRECTIVE", "`summarize/prompts/shared/directive.md`", "len(it) > 0"),
    _make_row(
        "13",
        "compaction-batch-{conversationId}-{endTime}",
        "format_batch_label",
        "a name; identity is the batch's id, `<block id>/<index>`. Batches that end at the same time, or at none that "
        "is known, get a serial number",
    ),
    _make_row(
        "13 X3 X4",
        "archival memory",
        "tenfold.store.archive.Archive",
        "the protocol; a write that is not True is a refusal; the setting `archive` names one",
    ),
    _make_row(
        "13 15", "the log as archive", "tenfold.store.archive.LogArchive", "the default: complete without any other"
    ),
    _make_row(
        "13",
        "Archived during context compaction",
        "tenfold.store.archive.ARCHIVE_REASON",
        "the reason text",
        "it == 'Archived during context compaction'",
    ),
    _make_row(
        "13 14",
        "[depth:N|start:ISO|end:ISO|count:M]",
        "parse_batch",
        "`format_batch_content` renders it; a malformed one is an error",
        "it('[depth:1|start:unknown|end:unknown|count:2]\\nx').message_count == 2",
    ),
    _make_row(
        "15",
        "list batches",
        "Compactor.list_batches",
        "those in force, in the order of the log; of a new log, those that the archive lists",
    ),
    _make_row(
        "16 X2",
        "resummarise",
        "tenfold.compaction.summarize.batch_writer.MERGE_BUFFER",
        "with one batch more than window and buffer, a parent stands for the middle; the earliest are not merged, and "
        "nothing is deleted",
        "it == 2",
    ),
    _make_row(
        "16",
        "Re-summarized during context compaction",
        "tenfold.store.archive.MERGE_REASON",
        "the reason text",
        "it == 'Re-summarized during context compaction'",
    ),
    _make_row(
        "17",
        "[clip, ...kept]",
        "",
        "one system message at the head of the view; the provider's system field where needed",
    ),
    _make_row(
        "18",
        "clip-archive",
        "render_clip_archive",
        "its text; `[Context Summary` at the start",
        "it([]) == '[Context Summary — 0 messages compressed]'",
    ),
    _make_row(
        "18 X9", "memory_read", "MemoryReadTool", "the tool that the omission line names", "it.name == 'memory_read'"
    ),
    _make_row(
        "19 X3",
        "failed",
        "tenfold.core.record.ask.Outcome",
        "`status` is `failed`, `reason` says why; the view is unchanged",
    ),
    _make_row("20 X8", "consecutiveFailures", "Compactor.consecutive_failures", "from the log; half-opens with growth"),
    _make_row(
        "20",
        "retry of time-outs",
        "tenfold.compaction.summarize.batch_writer.BatchWriter",
        "`max_retries`, chunks half as large",
        "it().max_retries == 2",
    ),
    _make_row(
        "21 X7", "pre-flight guard", "", "the hard check of `Session.before_model`: what is left out is in the archive"
    ),
    _make_row(
        "22 X5",
        "scoreMessage",
        "scoreMessage",
        "also `score_message`; what scores highest stays verbatim, in its place",
    ),
    _make_row(
        "22", "ImportanceScoringConfig", "ImportanceScoringConfig", "the setting `scoring`", "it().decay == 0.95"
    ),
    _make_row("22", "DEFAULT_SCORING_CONFIG", "DEFAULT_SCORING_CONFIG", "the published weights", "it.keyword == 1.5"),
    _make_row(
        "D1",
        "ModelProvider, MemoryManager, PersistenceProvider",
        "create_from_options",
        "the options `model`, `memory`, `persistence`: a model, an `Archive`, a store",
        "it({'config': {'chunkSize': 7}}).config.chunk_size == 7",
    ),
    _make_row("D2", "ModelProvider.complete", "tenfold.models.model.Model", "`answer`, called for summaries only"),
    _make_row("D3", "the boundary", "", "no part of Tenfold constructs a compactor; the user's code does"),
    _make_row(
        "D4",
        "batch reconstruction",
        "tenfold.store.archive.parse_record",
        "from label and content alone; a compactor on a new store begins with what `Archive.list_records` gives",
    ),
    _make_row("D5", "index.ts", "tenfold.designs.clip", "exports all of it"),
    _make_row("X6", "keepRecent in tokens", "", "the kept tail ends where the target is used up"),
)
