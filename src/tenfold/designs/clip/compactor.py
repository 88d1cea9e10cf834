"""The design behind the preset `clip`, under its own names.

    createCompactor -> Compactor.compress(history, conversation_id) -> CompactionResult
    the tools `compact_context` and `memory_read`: `CompactContextTool`, `MemoryReadTool`
    SummaryBatch, CompactionConfig, and the prompt utilities

Names follow Python's spelling. Those that the design exports can also be imported in the design's spelling, and its
records encode to JSON with its field names. Each conversation is a session: `compress` syncs the history with it,
compacts, and returns the list to continue with. The log keeps everything, so the next call may pass the raw history or
the compacted one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tenfold.config.policy import Policy
from tenfold.config.presets.clip import clip
from tenfold.engine.call import Call
from tenfold.engine.compact import build_draft, collect_history
from tenfold.engine.drive import Answerer
from tenfold.errors import UsageError
from tenfold.llm.model import Model
from tenfold.llm.retry import RetryRule
from tenfold.meter.counters import CharacterCounter
from tenfold.plan.stages.batch_archive import ImportanceScoringConfig
from tenfold.record.ask import DEFAULT_TIMEOUT, SummaryAsk
from tenfold.record.block import Batch
from tenfold.record.message import Message, get_text
from tenfold.session import Session, SessionAddress
from tenfold.store.archive import Archive, LogArchive, await_value
from tenfold.store.base import Store
from tenfold.store.sqlite import SqliteStore
from tenfold.summarize.batch_writer import BatchWriter, UnitMessages, split_chunks
from tenfold.summarize.batches import (
    format_batch,
    format_header,
    format_label,
    list_top_batches,
    parse_stored_batch,
    render_archive,
)
from tenfold.summarize.ladder import SummarySettings
from tenfold.summarize.prompt_files import load_prompts, with_prompts
from tenfold.summarize.template import NO_SUMMARY, PLACES, check_template, interpolate
from tenfold.summarize.write import SummaryTask, write_summary
from tenfold.trigger.limits import BudgetTrigger
from tenfold.wire import DEFAULT_WIRE, get_wire

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
        """Builds the policy of these settings. Raises `UsageError` for a prompt with an unknown placeholder."""
        return clip(
            COUNTER,
            summary=with_prompts(SummarySettings(models=models)),
            chunk_size=self.chunk_size,
            keep_recent=self.keep_recent,
            max_summary_tokens=self.max_summary_tokens,
            clip_first=self.clip_first,
            clip_last=self.clip_last,
            max_chunk_tokens=self.max_chunk_tokens,
            max_retries=self.max_retries,
            compaction_timeout=self.timeout,
            context_budget=self.context_budget,
            prompt=self.prompt or "",
            persona=self.persona,
            scoring=self.scoring,
        )


class Compactor:
    """Compresses conversations, each a session in one store. Use `create_compactor` to make one."""

    def __init__(self, config: CompactionConfig, answerer: Answerer, store: Store, *, window: int, wire: str) -> None:
        """Sets up the compactor; see `create_compactor`."""
        self.config, self.store, self.window, self.wire = config, store, window, wire
        self.archive: Archive | None = None
        self._answerer = answerer
        self._policy = config.build_policy()
        self._target = self._policy.trigger.get_limits(window, output_reserve=0, floor=0).target
        self._sessions: dict[str, Session] = {}

    def get_session(self, conversation_id: str) -> Session:
        """Returns the conversation's session, for its log, view, search, expand and undo."""
        if conversation_id not in self._sessions:
            address = SessionAddress(self.store, conversation_id)
            self._sessions[conversation_id] = Session.create(
                address, self._policy, answerer=self._answerer, archive=self.archive
            )
        return self._sessions[conversation_id]

    def list_batches(self, conversation_id: str) -> list[SummaryBatch]:
        """Lists the conversation's live batches in the order of the log, oldest first."""
        view = self.get_session(conversation_id).view
        refs = (unit.block_part for unit in view.units if unit.block_part is not None)
        return [SummaryBatch.from_batch(batch) for ref in refs for _, batch in list_top_batches(view.path, ref.block)]

    def compress(self, history: Sequence[Any], conversation_id: str) -> CompactionResult:
        """Folds all but the recent messages into batches, whatever the budget. Never raises: failures are reported."""
        before = 0
        try:
            session = self.get_session(conversation_id)
            field = get_wire(self.wire or DEFAULT_WIRE).profile.request.list_field
            request = {field: list(history)}
            parsed, level, _ = session.sync_request(
                request, window=self.window, recall="none", wire=self.wire, thorough=True
            )
            session.use_policy(self._get_policy(parsed.wire))
            before = count_content_tokens(parsed.messages)

            def build_unchanged_result(reason: str) -> CompactionResult:
                """Returns the list that was passed in, or the view if the raw list was compressed earlier."""
                view = session.build_request(request, parsed, level)[field]
                same = view is request[field]
                after = before if same else count_content_tokens(session.view.get_messages())
                return CompactionResult(history if same else view, 0, 0, before, after, reason=reason)

            if self._has_only_recent(session):
                return build_unchanged_result("nothing to compress")
            reason = self._get_skip_reason(session)
            if reason:
                return CompactionResult(history, 0, 0, before, before, failed=True, reason=reason)
            outcome = session.compact(self._build_call(session))
            if outcome.status != "compacted":
                if outcome.status not in ("failed", "unsatisfiable", "superseded"):
                    return build_unchanged_result(outcome.reason)
                return CompactionResult(history, 0, 0, before, before, failed=True, reason=outcome.reason)
            block = session.view.find_newest_block()
            fresh = [b for b in block.batches if not b.sources] if block else []
            new = session.build_request(request, parsed, level)[field]
            count = sum(b.count for b in fresh)
            return CompactionResult(new, len(fresh), count, before, count_content_tokens(session.view.get_messages()))
        except Exception as exc:  # noqa: BLE001 - published: it never throws, and the store may be a user's code
            return CompactionResult(history, 0, 0, before, before, failed=True, reason=f"{type(exc).__name__}: {exc}")

    async def acompress(self, history: Sequence[Any], conversation_id: str) -> CompactionResult:
        """Runs `compress` in a thread, so that the event loop is not blocked."""
        return await asyncio.to_thread(self.compress, history, conversation_id)

    def consecutive_failures(self, conversation_id: str) -> int:
        """Counts the failed passes since the last one that succeeded, from the log."""
        session = self.get_session(conversation_id)
        path = session.view.path
        return sum(1 for at in session.view.state.attempts if getattr(path.get_entry(at), "status", "") == "failed")

    def _get_policy(self, wire: str) -> Policy:
        """Returns the policy, with the archive as a user's message where system text does not stand in the list."""
        if not get_wire(wire).profile.has_separate_system:
            return self._policy
        return replace(self._policy, summary=replace(self._policy.summary, role="user"))

    def _has_only_recent(self, session: Session) -> bool:
        """Whether all messages after the archive are recent and the view is within the target."""
        units = session.view.units
        since = next((i for i in range(len(units), 0, -1) if units[i - 1].block_part is not None), 0)
        after = [s.message for unit in units[since:] for s in unit.visible_messages if s.message.role != "system"]
        count = (
            len(after)
            + len(list(session.view.get_visible_messages()))
            - sum(len(unit.visible_messages) for unit in units)
        )
        return count <= self.config.keep_recent and session.take_reading(window=self.window).estimate <= self._target

    def _build_call(self, session: Session) -> Call:
        """Asks for the policy's target, or for at least one token less if the view is within it already."""
        reading = session.take_reading(window=self.window)
        return session.build_call(to=max(1, min(self._target, reading.estimate - 1)), window=self.window)

    def _get_skip_reason(self, session: Session) -> str:
        failures = self.consecutive_failures(session.address.session)
        if failures < self.config.max_consecutive_failures:
            return ""
        call = session.build_call(window=self.window)
        growth = (
            collect_history(
                build_draft(session.view, self._policy, call, session.get_measures()), self._policy, call
            ).growth
            or 0
        )
        minimum = self._policy.get_minimum_growth(self.window)
        if growth >= minimum:
            return ""
        return f"{failures} passes failed in a row; tried again once {minimum:,} tokens were added ({growth:,} so far)"


def create_compactor(
    config: CompactionConfig | None = None,
    *,
    model: Model | None = None,
    store: Store | None = None,
    archive: Archive | None = None,
    window: int = DEFAULT_WINDOW,
    wire: str = "",
) -> Compactor:
    """Creates a compactor. Without a `model` code writes the batches; without a `store` all is kept in memory.

    `archive` receives every batch. `wire` names the format of the histories if it cannot be detected. Raises
    `UsageError` for a prompt with an unknown placeholder.
    """
    config = config or CompactionConfig()
    patience = RetryRule(first_pause=config.backoff_base_ms / 1_000)
    compactor = Compactor(
        config, Answerer(model=model, retry_rule=patience), store or SqliteStore(":memory:"), window=window, wire=wire
    )
    compactor.archive = archive
    return compactor


# -- the tools ---------------------------------------------------------------------------------------------------------


class CompactContextTool:
    """The tool `compact_context` of a session. Without a session it answers that compaction is not configured."""

    name = "compact_context"
    description = "Summarise the older part of this conversation to make room. Takes no parameters."
    parameters: Mapping[str, Any] = {"type": "object", "properties": {}, "required": []}

    def __init__(self, session: Session | None = None, *, window: int | None = None) -> None:
        """`window` is the model's, in tokens, if the session does not know it."""
        self._session, self._window = session, window

    def handle(self, arguments: Mapping[str, Any] | None = None) -> str:  # noqa: ARG002 - it takes none
        """Compacts, and returns the four counters as JSON. The next request sends the new view."""
        session = self._session
        if session is None:
            return msgspec.json.encode({"success": False, "output": "Compaction not configured"}).decode()
        before = count_content_tokens(session.view.get_messages())
        try:
            outcome = session.compact(replace(session.build_call(window=self._window), demand="tool"))
        except UsageError as exc:
            return msgspec.json.encode({"success": False, "output": str(exc)}).decode()
        block = session.view.find_newest_block() if outcome.status == "compacted" else None
        fresh = [b for b in block.batches if not b.sources] if block else []
        counters = {
            "messagesCompressed": sum(b.count for b in fresh),
            "batchesCreated": len(fresh),
            "tokensEstimateBefore": before,
            "tokensEstimateAfter": count_content_tokens(session.view.get_messages()),
        }
        failed = {"failed": True, "reason": outcome.reason} if outcome.status == "failed" else {}
        return msgspec.json.encode({**counters, **failed}).decode()


class MemoryReadTool:
    """The tool `memory_read`, which the archive's omission line names. It searches batches or reads one by its id."""

    name = "memory_read"
    description = "Read archived summaries of earlier parts of this conversation that hold the given words."
    parameters: Mapping[str, Any] = {
        "type": "object",
        "properties": {"query": {"type": "string", "description": "Words that must occur, or the id of a summary."}},
        "required": ["query"],
    }

    def __init__(self, archive: Archive, *, limit: int = 5) -> None:
        """`archive` is a user's own, or `get_memory` of a session. `limit` is the most batches that are returned."""
        self._archive, self._limit = archive, limit

    def handle(self, arguments: Mapping[str, Any]) -> str:
        """Returns the matching batches, each with its id, label and header."""
        query = arguments.get("query")
        if not isinstance(query, str) or not query.strip():
            return "memory_read needs the argument 'query', a string"
        batch: Any = await_value(self._archive.read(query.strip()))
        matches: Any = [batch] if batch is not None else await_value(self._archive.search(query, limit=self._limit))
        texts = [f"{each.id} {each.label}\n{each.content}" for each in matches]
        return "\n\n".join(texts) if texts else f"no archived summary holds {query!r}"


def get_memory(session: Session) -> LogArchive:
    """Returns a session's own log as an archive."""
    return LogArchive(session.address.store, session.address.namespace, session.address.session)


# -- functions ---------------------------------------------------------------------------------------------------------


def count_content_tokens(messages: Sequence[Message]) -> int:
    """Counts a history by the design's estimate: message text only, without overhead and tool schemas."""
    return sum(COUNTER.count([get_text(m) for m in messages]))


def estimate_tokens(text: str) -> int:
    """Estimates a text as the design does: characters / 4, rounded up."""
    return COUNTER.count([text])[0]


def should_compress(tokens: int, *, window: int = DEFAULT_WINDOW, overhead: int = 0, max_output: int = 0) -> bool:
    """Whether content of this size exceeds the token budget. `overhead` is the system prompt and the tools."""
    return BudgetTrigger().get_limits(window, output_reserve=max_output, floor=0).get_need(tokens + overhead) in (
        "soft",
        "hard",
    )


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
    (ask,) = next(write_summary(task, policy.summary, COUNTER.count))
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
