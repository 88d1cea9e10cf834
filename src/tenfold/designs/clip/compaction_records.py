"""The records and functions of the design behind the preset `clip`: settings, results, batches, prompts, scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import asdict, replace

from tenfold.compaction.engine.policy import Policy, check_least
from tenfold.compaction.summarize.ladder import SummarySettings
from tenfold.compaction.summarize.prompt_files import load_prompts, with_prompts
from tenfold.compaction.summarize.write import NO_SUMMARY, SummaryTask, interpolate, write_summary
from tenfold.core.meter.counters import CharacterCounter
from tenfold.core.record.ask import DEFAULT_TIMEOUT, SummaryAsk
from tenfold.core.record.block import Batch, format_batch, format_header
from tenfold.core.record.message import Message, get_text
from tenfold.core.record.token_reading import ProviderTokens
from tenfold.designs.clip.batch_writer import BatchWriter, UnitMessages, split_chunks
from tenfold.designs.clip.batches import format_label, parse_stored_batch, render_archive
from tenfold.designs.clip.fold_stage import ImportanceScoringConfig
from tenfold.designs.clip.policy import BudgetTrigger, clip
from tenfold.designs.clip.prompt import PLACES, check_template

DEFAULT_WINDOW = 200_000
"""The default window in tokens."""
COUNTER = CharacterCounter()
"""The design's token estimate: characters / 4, rounded up."""
DEFAULT_SYSTEM_PROMPT: str = load_prompts()["system"]
DEFAULT_DIRECTIVE: str = load_prompts()["directive"]
DEFAULT_SUMMARIZATION_PROMPT = """{persona}

Summarise the messages below for the assistant that goes on with this conversation. What has been summarised already is
given first: use it to understand the messages, and do not tell it again.

Already summarised:
{existing_summary}

Messages:
{messages}"""
"""An example with the design's three placeholders, to start your own from. By default the request is structured."""
DEFAULT_SCORING_CONFIG = ImportanceScoringConfig()
_DEFAULT_FOLDING = BatchWriter()


class SummaryBatch(Struct, frozen=True, rename="camel"):
    """The summary of a chunk, in the design's shape. Times are ISO 8601 in milliseconds with Z, or `unknown`."""

    content: str
    depth: int
    start_time: str
    end_time: str
    message_count: int

    @classmethod
    def from_batch(cls, batch: Batch) -> SummaryBatch:
        """Converts a batch of a Block."""
        parts = format_header(batch)[1:-1].split("|")
        return cls(batch.text, batch.depth, parts[1].removeprefix("start:"), parts[2].removeprefix("end:"), batch.count)

    def to_batch(self) -> Batch:
        """Converts to Tenfold's record, without positions. Raises `BadInput` for an invalid time."""
        head = f"[depth:{self.depth}|start:{self.start_time}|end:{self.end_time}|count:{self.message_count}]"
        return parse_stored_batch(f"{head}\n{self.content}")


class CompactionResult(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The result of `compress`. Estimates are in tokens, of message content only; `reason` says what happened.

    If nothing was done, `history` is the list that was passed in.
    """

    history: Sequence[Any]
    batches_created: int = 0
    messages_compressed: int = 0
    tokens_estimate_before: int = 0
    tokens_estimate_after: int = 0
    failed: bool = False
    reason: str = ""


class CompactionConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    """The design's settings. `timeout` and `backoff_base_ms` are in milliseconds. `prompt` None: a structured request.

    After `max_consecutive_failures` failed passes no model is called until the conversation has grown by the policy's
    minimum growth, or a pass has succeeded.
    """

    chunk_size: int = _DEFAULT_FOLDING.chunk_size
    keep_recent: int = 5
    max_summary_tokens: int = _DEFAULT_FOLDING.max_summary_tokens
    clip_first: int = _DEFAULT_FOLDING.clip_first
    clip_last: int = _DEFAULT_FOLDING.clip_last
    prompt: str | None = None
    persona: str = ""
    scoring: ImportanceScoringConfig | None = None
    timeout: int = int(DEFAULT_TIMEOUT * 1_000)
    max_retries: int = _DEFAULT_FOLDING.max_retries
    backoff_base_ms: int = 1_000
    max_chunk_tokens: int = _DEFAULT_FOLDING.max_chunk_tokens
    max_consecutive_failures: int = 3
    context_budget: float = BudgetTrigger().context_budget

    def build_policy(self, *, models: tuple[str, ...] = ()) -> Policy:
        """Builds the policy of these settings.

        Raises `UsageError` for a prompt with an unknown placeholder and for impossible sizes.
        """
        check_least({"max_consecutive_failures": self.max_consecutive_failures}, 1)
        check_least({"backoff_base_ms": self.backoff_base_ms}, 0)
        renamed = ("timeout", "prompt", "backoff_base_ms", "max_consecutive_failures")
        settings = {name: value for name, value in asdict(self).items() if name not in renamed}
        summary = with_prompts(SummarySettings(models=models))
        return clip(COUNTER, summary=summary, compaction_timeout=self.timeout, prompt=self.prompt or "", **settings)


def count_content_tokens(messages: Sequence[Message]) -> int:
    """Counts a history by the design's estimate: message text only, without overhead and tool schemas."""
    return sum(COUNTER.count([get_text(m) for m in messages]))


def estimate_tokens(text: str) -> int:
    """Estimates a text as the design does: characters / 4, rounded up."""
    return COUNTER.count([text])[0]


def should_compress(tokens: int, *, window: int = DEFAULT_WINDOW, overhead: int = 0, max_output: int = 0) -> bool:
    """Whether content of this size exceeds the token budget. `overhead` is the system prompt and the tools."""
    size = ProviderTokens(tokens + overhead)
    return BudgetTrigger().get_limits(window, output_reserve=max_output, floor=0).get_need(size) in ("soft", "hard")


def interpolate_prompt(template: str, *, persona: str = "", existing_summary: str = "", messages: str = "") -> str:
    """Fills all placeholders of the template. Raises `UsageError` for an unknown one."""
    values = (persona, existing_summary or NO_SUMMARY, messages)
    return interpolate(check_template(template), dict(zip(PLACES, values, strict=True)))


def build_summarization_request(
    messages: Sequence[Message], existing_summary: str = "", *, config: CompactionConfig | None = None
) -> SummaryAsk:
    """Builds the preset's request for one chunk. Earlier summaries are separate context, not to be repeated."""
    policy = (config or CompactionConfig()).build_policy(models=("",))
    task = SummaryTask(
        tuple(enumerate(messages)),
        allotment=(config or CompactionConfig()).max_summary_tokens,
        purpose="batch",
        context=existing_summary,
    )
    return _get_first_ask(task, policy)


def build_resummarization_request(
    batches: Sequence[SummaryBatch], *, config: CompactionConfig | None = None
) -> SummaryAsk:
    """Builds the request that merges batches; pass them oldest first."""
    policy = (config or CompactionConfig()).build_policy(models=("",))
    allotment = (config or CompactionConfig()).max_summary_tokens
    return _get_first_ask(
        SummaryTask((), allotment=allotment, purpose="merge", parts=tuple(b.content for b in batches)), policy
    )


def _get_first_ask(task: SummaryTask, policy: Policy) -> SummaryAsk:
    settings = policy.summary
    if task.purpose == "batch":
        settings = cast("BatchWriter", policy.writer).get_settings(settings)
    (ask,) = next(write_summary(task, settings, COUNTER.count))
    return cast("SummaryAsk", ask)


def score_message(
    message: Message, index: int, total: int, config: ImportanceScoringConfig = DEFAULT_SCORING_CONFIG
) -> float:
    """Scores how much the message at `index` of `total` matters. The highest scores stay verbatim, in place."""
    return config.score(message, index, total)


def chunk_messages(messages: Sequence[Message], size: int) -> list[list[Message]]:
    """Splits messages into groups of at most `size`, in order."""
    return _split_chunks(messages, size=size)


def chunk_messages_by_token_budget(messages: Sequence[Message], budget: int) -> list[list[Message]]:
    """Splits messages into groups of at most `budget` tokens of content. A larger message is its own group."""
    return _split_chunks(messages, size=len(messages), budget=budget)


def _split_chunks(messages: Sequence[Message], *, size: int, budget: int = 0) -> list[list[Message]]:
    sizes = COUNTER.count([get_text(m) for m in messages])
    units = [UnitMessages(at, ((at, m),), n) for at, (m, n) in enumerate(zip(messages, sizes, strict=True))]
    return [[m for unit in chunk for _, m in unit.items] for chunk in split_chunks(units, size=size, budget=budget)]


def format_batch_label(conversation_id: str, batch: SummaryBatch) -> str:
    """Formats `compaction-batch-{conversation}-{end}`. Labels need not be unique; batches are identified by id."""
    return format_label(conversation_id, batch.to_batch())


def format_batch_content(batch: SummaryBatch) -> str:
    """Formats a batch as it is archived: its header, and its text from the next line on."""
    return format_batch(batch.to_batch())


def parse_batch(content: str) -> SummaryBatch:
    """Parses a batch from archived text. Raises `BadInput` for a malformed header."""
    return SummaryBatch.from_batch(parse_stored_batch(content))


def render_clip_archive(
    batches: Sequence[SummaryBatch], *, clip_first: int = 2, clip_last: int = 2, cycles: int = 1
) -> str:
    """Renders the text that represents these batches at the start of the view."""
    return render_archive([replace(b.to_batch(), cycle=cycles) for b in batches], first=clip_first, last=clip_last)
