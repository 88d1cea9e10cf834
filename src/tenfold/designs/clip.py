"""The design behind the preset `clip`, by its own names: thin over `Session`, `summarize` and the policy.

    createCompactor -> Compactor.compress(history, conversation_id) -> CompactionResult
    the tools `compact_context` and `memory_read`: `CompactContext`, `MemoryRead`
    SummaryBatch, CompactionConfig, and the prompt utilities

Names are spelled as Python spells them; those that the design exports are importable in its own spelling as well, and
its records encode to JSON with its own field names. A conversation is a session of the log: `compress` syncs it,
compacts, and gives the list to go on with. The log keeps everything, so a later call may bring the raw history or the
compacted one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tenfold.archive import Archive, LogArchive, settled
from tenfold.drive import Answerer
from tenfold.engine import Call, drafted, history
from tenfold.errors import UsageError
from tenfold.llm.model import Model
from tenfold.llm.patience import Patience
from tenfold.log.base import Store
from tenfold.log.memory import MemoryStore
from tenfold.meter.counters import Characters4
from tenfold.plan.stages.fold import ImportanceScoringConfig
from tenfold.policies.clip import clip
from tenfold.policy import Policy
from tenfold.record.ask import TIMEOUT, Summarize
from tenfold.record.block import Batch, Block
from tenfold.record.message import Message, text_of
from tenfold.session import Place, Session
from tenfold.summarize.batches import header, label, parse_stored, rendered, standing, stored
from tenfold.summarize.edge import load_prompts, with_prompts
from tenfold.summarize.folding import Folding, Stretch, chunked
from tenfold.summarize.ladder import Settings
from tenfold.summarize.summarize import Task, write
from tenfold.summarize.template import NO_SUMMARY, PLACES, checked, interpolate
from tenfold.trigger.triggers import Budget

WINDOW = 200_000
"""The model's window where none is named."""
COUNTER = Characters4()
"""The design's tokens: a quarter of a character, rounded up."""
DEFAULT_SYSTEM_PROMPT: str = load_prompts()["system"]
DEFAULT_DIRECTIVE: str = load_prompts()["directive"]
DEFAULT_SUMMARIZATION_PROMPT = """{persona}

Summarise the messages below for the assistant that goes on with this conversation. What has been summarised already is
given first: use it to understand the messages, and do not tell it again.

Already summarised:
{existing_summary}

Messages:
{messages}"""
"""A template with the design's three places, to start one's own from; without one the structured request is made."""
DEFAULT_SCORING_CONFIG = ImportanceScoringConfig()
_FOLDING = Folding()


class SummaryBatch(Struct, frozen=True, rename="camel"):
    """A batch as the design's users know it. Times are ISO 8601 in milliseconds with Z, or `unknown`."""

    content: str
    depth: int
    start_time: str
    end_time: str
    message_count: int

    @classmethod
    def of(cls, batch: Batch) -> SummaryBatch:
        """The batch of a Block."""
        found = header(batch)[1:-1].split("|")
        return cls(batch.text, batch.depth, found[1].removeprefix("start:"), found[2].removeprefix("end:"), batch.count)

    def batch(self) -> Batch:
        """As the record has it; positions are not known. Raises `BadInput` for a time that is none."""
        head = f"[depth:{self.depth}|start:{self.start_time}|end:{self.end_time}|count:{self.message_count}]"
        return parse_stored(f"{head}\n{self.content}")


class CompactionResult(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What came of `compress`. Estimates count message content only, by `COUNTER`; `reason` says what happened.

    `history` is the very list that was given where nothing was done.
    """

    history: Sequence[Any]
    batches_created: int = 0
    messages_compressed: int = 0
    tokens_estimate_before: int = 0
    tokens_estimate_after: int = 0
    failed: bool = False
    reason: str = ""


class CompactionConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    """The design's settings. `timeout` and `backoff_base_ms` are milliseconds; `prompt` None is the structured request.

    After `max_consecutive_failures` failed passes no model is called until the conversation has grown by the policy's
    minimum growth, or a pass succeeded.
    """

    chunk_size: int = _FOLDING.chunk_size
    keep_recent: int = 5
    max_summary_tokens: int = _FOLDING.max_summary_tokens
    clip_first: int = _FOLDING.clip_first
    clip_last: int = _FOLDING.clip_last
    prompt: str | None = None
    persona: str = ""
    scoring: ImportanceScoringConfig | None = None
    timeout: int = int(TIMEOUT * 1_000)
    max_retries: int = _FOLDING.max_retries
    backoff_base_ms: int = 1_000
    max_chunk_tokens: int = _FOLDING.max_chunk_tokens
    max_consecutive_failures: int = 3
    context_budget: float = Budget().context_budget

    def policy(self, *, models: tuple[str, ...] = ()) -> Policy:
        """The policy that these settings are. Raises `UsageError` for a prompt with a place that nothing fills."""
        return clip(
            COUNTER,
            summary=with_prompts(Settings(models=models)),
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
    """Compresses conversations, each a session of one store. Make one with `create_compactor`."""

    def __init__(self, config: CompactionConfig, answerer: Answerer, store: Store, *, window: int, wire: str) -> None:
        """See `create_compactor`."""
        self.config, self.store, self.window, self.wire = config, store, window, wire
        self.archive: Archive | None = None
        self._answerer = answerer
        self._policy = config.policy()
        self._target = self._policy.trigger.limits(window, output_reserve=0, floor=0).target
        self._sessions: dict[str, Session] = {}

    def session(self, conversation_id: str) -> Session:
        """The conversation's session: its log, view, search, expand and undo."""
        if conversation_id not in self._sessions:
            place = Place(self.store, conversation_id)
            self._sessions[conversation_id] = Session.create(
                place, self._policy, answerer=self._answerer, archive=self.archive
            )
        return self._sessions[conversation_id]

    def batches(self, conversation_id: str) -> list[SummaryBatch]:
        """The conversation's batches in force, oldest first, in the order of the log."""
        view = self.session(conversation_id).view
        refs = (unit.ref for unit in view.units if unit.ref is not None)
        return [SummaryBatch.of(batch) for ref in refs for _, batch in standing(view.path, ref.block)]

    def compress(self, history: Sequence[Any], conversation_id: str) -> CompactionResult:
        """Folds everything but the recent messages into batches, whatever the budget. Never raises for what failed."""
        before = 0
        try:
            session = self.session(conversation_id)
            field = {"gemini": "contents", "openai-responses": "input"}.get(self.wire, "messages")
            request = {field: list(history)}
            asked, level, _ = session.asked(request, window=self.window, recall="none", wire=self.wire, whole=True)
            before = content_tokens(asked.messages)

            def nothing(reason: str) -> CompactionResult:
                """Nothing done: the very list that was given, or the view, where a raw list was compressed before."""
                view = session.answered(request, asked, level)[field]
                same = view is request[field]
                after = before if same else content_tokens(session.view.messages())
                return CompactionResult(history if same else view, 0, 0, before, after, reason=reason)

            if self._recent_only(session):
                return nothing("nothing to compress")
            tripped = self._tripped(session)
            if tripped:
                return CompactionResult(history, 0, 0, before, before, failed=True, reason=tripped)
            outcome = session.compact(self._call(session))
            if outcome.status != "compacted":
                if outcome.status not in ("failed", "unsatisfiable", "superseded"):
                    return nothing(outcome.reason)
                return CompactionResult(history, 0, 0, before, before, failed=True, reason=outcome.reason)
            block = session.view.path.at(session.view.marks.live[-1])
            fresh = [b for b in block.batches if not b.sources] if isinstance(block, Block) else []
            new = session.answered(request, asked, level)[field]
            told = sum(b.count for b in fresh)
            return CompactionResult(new, len(fresh), told, before, content_tokens(session.view.messages()))
        except Exception as exc:  # noqa: BLE001 - published: it never throws, and the store may be a user's code
            return CompactionResult(history, 0, 0, before, before, failed=True, reason=f"{type(exc).__name__}: {exc}")

    async def acompress(self, history: Sequence[Any], conversation_id: str) -> CompactionResult:
        """`compress` for coroutines: in a thread, so that the loop is not held."""
        return await asyncio.to_thread(self.compress, history, conversation_id)

    def consecutive_failures(self, conversation_id: str) -> int:
        """Failed passes since the last one that succeeded, as the log has them."""
        session = self.session(conversation_id)
        path = session.view.path
        return sum(1 for at in session.view.marks.attempts if getattr(path.at(at), "status", "") == "failed")

    def _recent_only(self, session: Session) -> bool:
        """Whether all that follows the archive is recent, and small enough to stay."""
        units = session.view.units
        since = next((i for i in range(len(units), 0, -1) if units[i - 1].ref is not None), 0)
        after = [s.message for unit in units[since:] for s in unit.shown if s.message.role != "system"]
        count = len(after) + len(list(session.view.shown())) - sum(len(unit.shown) for unit in units)
        return count <= self.config.keep_recent and session.reading(window=self.window).estimate <= self._target

    def _call(self, session: Session) -> Call:
        """A person's demand: down to the policy's target, or by anything at all where that is reached."""
        reading = session.reading(window=self.window)
        return session.call(to=max(1, min(self._target, reading.estimate - 1)), window=self.window)

    def _tripped(self, session: Session) -> str:
        failures = self.consecutive_failures(session.place.session)
        if failures < self.config.max_consecutive_failures:
            return ""
        call = session.call(window=self.window)
        grown = history(drafted(session.view, self._policy, call, session.bench()), self._policy, call).grown or 0
        least = self._policy.minimum_growth(self.window)
        if grown >= least:
            return ""
        return f"{failures} passes failed in a row; tried again once {least:,} tokens were added ({grown:,} so far)"


def create_compactor(
    config: CompactionConfig | None = None,
    *,
    model: Model | None = None,
    store: Store | None = None,
    archive: Archive | None = None,
    window: int = WINDOW,
    wire: str = "",
) -> Compactor:
    """A compactor. Without a `model` code writes the batches; without a `store` everything is kept in memory.

    `archive` is given every batch; `wire` names the format of the histories where it cannot be told. Raises
    `UsageError` for a prompt with a place that nothing fills.
    """
    config = config or CompactionConfig()
    patience = Patience(first=config.backoff_base_ms / 1_000)
    made = Compactor(config, Answerer(model=model, patience=patience), store or MemoryStore(), window=window, wire=wire)
    made.archive = archive
    return made


# -- the tools ---------------------------------------------------------------------------------------------------------


class CompactContext:
    """The tool `compact_context`, for a session; without one it says that compaction is not configured."""

    name = "compact_context"
    description = "Summarise the older part of this conversation to make room. Takes no parameters."
    parameters: Mapping[str, Any] = {"type": "object", "properties": {}, "required": []}

    def __init__(self, session: Session | None = None, *, window: int | None = None) -> None:
        """`window` is the model's, where the session does not know it."""
        self._session, self._window = session, window

    def handle(self, arguments: Mapping[str, Any] | None = None) -> str:  # noqa: ARG002 - it takes none
        """Compacts, and answers with the four counters as JSON. The next request shows the new view."""
        session = self._session
        if session is None:
            return msgspec.json.encode({"success": False, "output": "Compaction not configured"}).decode()
        before = content_tokens(session.view.messages())
        try:
            outcome = session.compact(replace(session.call(window=self._window), demand="tool"))
        except UsageError as exc:
            return msgspec.json.encode({"success": False, "output": str(exc)}).decode()
        block = session.view.path.at(session.view.marks.live[-1]) if outcome.status == "compacted" else None
        fresh = [b for b in block.batches if not b.sources] if isinstance(block, Block) else []
        counters = {
            "messagesCompressed": sum(b.count for b in fresh),
            "batchesCreated": len(fresh),
            "tokensEstimateBefore": before,
            "tokensEstimateAfter": content_tokens(session.view.messages()),
        }
        failed = {"failed": True, "reason": outcome.reason} if outcome.status == "failed" else {}
        return msgspec.json.encode({**counters, **failed}).decode()


class MemoryRead:
    """The tool `memory_read` that the archive's omission line names: searches all batches, or reads one by its id."""

    name = "memory_read"
    description = "Read archived summaries of earlier parts of this conversation that hold the given words."
    parameters: Mapping[str, Any] = {
        "type": "object",
        "properties": {"query": {"type": "string", "description": "Words that must occur, or the id of a summary."}},
        "required": ["query"],
    }

    def __init__(self, archive: Archive, *, limit: int = 5) -> None:
        """Over an archive: a user's own, or `memory_of` a session."""
        self._archive, self._limit = archive, limit

    def handle(self, arguments: Mapping[str, Any]) -> str:
        """The batches found, each with its id, label and header."""
        query = arguments.get("query")
        if not isinstance(query, str) or not query.strip():
            return "memory_read needs the argument 'query', a string"
        one: Any = settled(self._archive.read(query.strip()))
        found: Any = [one] if one is not None else settled(self._archive.search(query, limit=self._limit))
        texts = [f"{each.id} {each.label}\n{each.content}" for each in found]
        return "\n\n".join(texts) if texts else f"no archived summary holds {query!r}"


def memory_of(session: Session) -> LogArchive:
    """The archive that a session's own log is."""
    return LogArchive(session.place.store, session.place.namespace, session.place.session)


# -- functions ---------------------------------------------------------------------------------------------------------


def content_tokens(messages: Sequence[Message]) -> int:
    """The design's estimate of a history: the text of its messages, without frames and tool schemas."""
    return sum(COUNTER.count([text_of(m) for m in messages]))


def estimate_tokens(text: str) -> int:
    """The design's tokens of a text: a quarter of its characters, rounded up."""
    return COUNTER.count([text])[0]


def should_compress(tokens: int, *, window: int = WINDOW, overhead: int = 0, max_output: int = 0) -> bool:
    """Whether content of this size exceeds the budget. `overhead` is that of system prompt and tools."""
    return Budget().limits(window, output_reserve=max_output, floor=0).need(tokens + overhead) in ("soft", "hard")


def interpolate_prompt(template: str, *, persona: str = "", existing_summary: str = "", messages: str = "") -> str:
    """The template with its places filled, all of them. Raises `UsageError` for a place that nothing fills."""
    given = (persona, existing_summary or NO_SUMMARY, messages)
    return interpolate(checked(template), dict(zip(PLACES, given, strict=True)))


def build_summarization_request(
    messages: Sequence[Message], existing_summary: str = "", *, config: CompactionConfig | None = None
) -> Summarize:
    """The request for one chunk, as the preset makes it: earlier summaries apart, and not to be told again."""
    policy = (config or CompactionConfig()).policy(models=("",))
    task = Task(
        tuple(enumerate(messages)),
        allotment=(config or CompactionConfig()).max_summary_tokens,
        purpose="batch",
        context=existing_summary,
    )
    return _first(task, policy)


def build_resummarization_request(
    batches: Sequence[SummaryBatch], *, config: CompactionConfig | None = None
) -> Summarize:
    """The request that merges batches, oldest first."""
    policy = (config or CompactionConfig()).policy(models=("",))
    allotment = (config or CompactionConfig()).max_summary_tokens
    return _first(Task((), allotment=allotment, purpose="merge", parts=tuple(b.content for b in batches)), policy)


def _first(task: Task, policy: Policy) -> Summarize:
    (ask,) = next(write(task, policy.summary, COUNTER.count))
    return cast("Summarize", ask)


def score_message(
    message: Message, index: int, total: int, config: ImportanceScoringConfig = DEFAULT_SCORING_CONFIG
) -> float:
    """How much the message at `index` of `total` matters: what scores highest stays verbatim, in its place."""
    return config.score(message, index, total)


def chunk_messages(messages: Sequence[Message], size: int) -> list[list[Message]]:
    """Groups of at most `size` messages, in order."""
    return _chunks(messages, size=size)


def chunk_messages_by_token_budget(messages: Sequence[Message], budget: int) -> list[list[Message]]:
    """Groups of at most `budget` tokens of content, in order; what is larger by itself is a group of its own."""
    return _chunks(messages, size=len(messages), budget=budget)


def _chunks(messages: Sequence[Message], *, size: int, budget: int = 0) -> list[list[Message]]:
    sizes = COUNTER.count([text_of(m) for m in messages])
    units = [Stretch(at, ((at, m),), n) for at, (m, n) in enumerate(zip(messages, sizes, strict=True))]
    return [[m for unit in chunk for _, m in unit.items] for chunk in chunked(units, size=size, budget=budget)]


def batch_label(conversation_id: str, batch: SummaryBatch) -> str:
    """`compaction-batch-{conversation}-{end}`. A name, not an identity: equal ones may stand side by side."""
    return label(conversation_id, batch.batch())


def batch_content(batch: SummaryBatch) -> str:
    """A batch as it is archived: its header, and its text on the next line."""
    return stored(batch.batch())


def parse_batch(content: str) -> SummaryBatch:
    """A batch from archived text. Raises `BadInput` for a malformed header."""
    return SummaryBatch.of(parse_stored(content))


def clip_archive(batches: Sequence[SummaryBatch], *, clip_first: int = 2, clip_last: int = 2, cycles: int = 1) -> str:
    """The text that stands at the head of the view for these batches."""
    return rendered([replace(b.batch(), cycle=cycles) for b in batches], first=clip_first, last=clip_last)


_SPELLED = {
    "createCompactor": create_compactor,
    "interpolatePrompt": interpolate_prompt,
    "buildSummarizationRequest": build_summarization_request,
    "buildResummarizationRequest": build_resummarization_request,
    "scoreMessage": score_message,
    "chunkMessagesByTokenBudget": chunk_messages_by_token_budget,
}
"""The design's own spelling of what it exports."""


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whichever function is asked for
    if name not in _SPELLED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _SPELLED[name]
