"""The design behind the preset `tiers`, under its own names: the configuration, the tiers, and what a user sees.

    check_compaction_needed   prune_messages   summarize_messages   compact_with_summarization
    the tool `compact`: `CompactTool`          the command `/compact`: `run_compact_command`
    the status bar: `TokenUsage`, `format_status_line`
    events: `ContextWarning`, `CompactionStatus`, from `build_listener`

Messages are those of a provider, in any format. They are never changed in place: the result holds the shorter list. A
tier is a stage of the policy, and the Block tells which tier was reached.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from tenfold.compaction.engine.model_breaker import MODEL_RUNGS
from tenfold.compaction.engine.policy import Policy
from tenfold.compaction.plan.draft import SUMMARY
from tenfold.compaction.plan.stages.elide import TruncateOutputsStage
from tenfold.compaction.summarize.write import SummarySettings
from tenfold.compaction.trigger.limits import Limits
from tenfold.config.settings import TomlValue
from tenfold.core.meter.counters import FALLBACK_CHOICE, BytePairCounter, Counter, is_bpe_installed, measure_messages
from tenfold.core.record.ask import Outcome
from tenfold.core.record.block import ModelCost, Substitute
from tenfold.core.record.message import Message
from tenfold.core.wire import WIRES, detect_wire, encode_messages
from tenfold.designs.tiers.policy import DEFAULTS, tiers
from tenfold.designs.tiers.stages import RemoveOutputsStage, SummarizeOlderStage
from tenfold.errors import UnusableModel, UsageError
from tenfold.events import CompactionEnd, CompactionFailure, CompactionWarning, Event, Listener, SummaryFailure
from tenfold.models.choose import AUTO, ModelChoice, choose_writers
from tenfold.models.model import Model
from tenfold.session import Session
from tenfold.session.compact_tool import format_thousands, get_summary, render_compaction_mark
from tenfold.session.stateless import CompactResult, compact

NativeMessage = Any
"""A provider's message: a dict or an object of its SDK."""
DEFAULT_WINDOW = 200_000


class CompactionConfig(Struct, frozen=True, kw_only=True):
    """The design's configuration; sizes are in tokens. With `auto` False it compacts only on request.

    `summarization_model` names the model that writes summaries, as PROVIDER:MODEL. If it is None, it is the model that
    is passed to the functions below; of one that is passed by its name, the cheapest of its provider.
    """

    context_window: int = DEFAULT_WINDOW
    trigger_threshold: float = DEFAULTS.act_share
    target_threshold: float = DEFAULTS.target_share
    warning_threshold: float = DEFAULTS.warning_share
    output_reserve: int = DEFAULTS.output_reserve
    max_tool_output_tokens: int = TruncateOutputsStage().max_tokens
    truncate_keep_tokens: int = TruncateOutputsStage().keep_tokens
    protected_messages: int = RemoveOutputsStage().keep_recent_messages
    summarization_model: str | None = None
    summary_role: str = "system"
    auto: bool = True

    def build_policy(self, counter: Counter | None = None, *, summary: SummarySettings | None = None) -> Policy:
        """Builds the preset with these values. The default `counter` is the published cl100k vocabulary."""
        excluded = ("context_window", "summarization_model", "auto")
        knobs = {name: value for name, value in asdict(self).items() if name not in excluded}
        base = summary or SummarySettings()
        if self.summarization_model and not base.models and not base.no_model:
            base = replace(base, models=(self.summarization_model,))
        return replace(tiers(counter or get_default_counter(), summary=base, **knobs), auto=self.auto)

    @property
    def limits(self) -> Limits:
        """Trigger, target and warning in tokens, clamped so that they are usable in the smallest window."""
        return self.build_policy().get_limits(self.context_window)

    @property
    def available_tokens(self) -> int:
        """The window minus the output reserve, which takes at most half of it."""
        return self.limits.hard

    @property
    def trigger_tokens(self) -> int:
        """The size at which compaction starts."""
        return self.limits.soft

    @property
    def target_tokens(self) -> int:
        """The size at which the tiers stop."""
        return self.limits.target


class CompactionSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[compaction]` of a settings file, which selects the policy `tiers`.

    An empty `model` chooses one: that is "auto" in `[tenfold]`. With `auto` False it compacts only on request. What
    `[tenfold]`, `[tenfold.presets.tiers]` and the variables say as well comes before it.
    """

    model: str = ""
    auto: bool = True
    protected_messages: int = RemoveOutputsStage().keep_recent_messages

    def build_config(self) -> CompactionConfig:
        """Builds the configuration with these values."""
        return CompactionConfig(
            summarization_model=self.model or None, auto=self.auto, protected_messages=self.protected_messages
        )


def translate_table(compaction: Mapping[str, TomlValue], table: Mapping[str, TomlValue]) -> dict[str, TomlValue]:
    """Returns the table `[tenfold]` with what `[compaction]` says beside it: see `config.settings.TableTranslator`."""
    values = msgspec.convert(compaction, CompactionSettings)
    presets = table.get("presets", {})
    presets = presets if isinstance(presets, dict) else {}
    policy = table.get("policy", "tiers")
    if presets.get(policy, {}).get("policy", policy) != "tiers":
        raise UsageError(
            f"it holds settings of the policy tiers, and [tenfold] names {policy!r}: remove one of the two"
        )
    own = {"protected_messages": values.protected_messages, **presets.get("tiers", {})}
    common = {"policy": policy, "model": values.model or AUTO, "auto": values.auto}
    return {**common, **table, "presets": {**presets, "tiers": own}}


DEFAULT_CONFIG = CompactionConfig()
"""The published configuration."""


def get_default_counter() -> Counter:
    """Returns the published counter, cl100k, or a count by characters if the vocabulary is not installed."""
    return BytePairCounter("cl100k") if is_bpe_installed() else FALLBACK_CHOICE.counter


# -- counting ----------------------------------------------------------------------------------------------------------


class TokenBreakdown(Struct, frozen=True):
    """Tokens by role, including 4 per message. `tool_output_tokens` counts tool outputs in messages of any role."""

    total: int
    system: int
    user: int
    assistant: int
    tool: int
    tool_output_tokens: int
    message_count: int


def count_tokens(messages: Sequence[NativeMessage], *, counter: Counter | None = None) -> TokenBreakdown:
    """Counts a list: text, thinking, tool names, arguments and results by vocabulary, images by their pixels."""
    decoded = _decode_messages(messages)
    each = list(zip(decoded, measure_messages(decoded, counter or get_default_counter()), strict=True))

    def count_role(role: str) -> int:
        return sum(size for message, size in each if message.role == role)

    outputs = sum(size for message, size in each if message.origin == "tool")
    total = sum(size for _, size in each)
    return TokenBreakdown(
        total,
        count_role("system"),
        count_role("user"),
        count_role("assistant"),
        count_role("tool"),
        outputs,
        len(messages),
    )


def estimate_tokens(text: str) -> int:
    """Estimates a text fast: bytes / 4. No decision uses it."""
    return len(text.encode(errors="replace")) // 4


class CompactionCheck(Struct, frozen=True):
    """Whether a list has reached the trigger. `total_tokens` includes the system prompt and tools if given."""

    total_tokens: int
    trigger_tokens: int
    needs_compaction: bool
    message_count: int


def check_compaction_needed(
    messages: Sequence[NativeMessage],
    config: CompactionConfig = DEFAULT_CONFIG,
    *,
    system: str = "",
    tools: str = "",
    counter: Counter | None = None,
) -> CompactionCheck:
    """Checks whether a list is at or above the trigger. A session does this by itself, see `Session`."""
    count = counter or get_default_counter()
    total = count_tokens(messages, counter=count).total + sum(count.count([t for t in (system, tools) if t]))
    return CompactionCheck(total, config.trigger_tokens, total >= config.trigger_tokens, len(messages))


# -- the tiers ---------------------------------------------------------------------------------------------------------

PruningTier = Literal["None", "TruncateOutputs", "RemoveOldOutputs"]
CompactionTier = Literal["None", "Mechanical", "Summarized"]
_MECHANICAL_TIERS = 2


class PruneResult(Struct, frozen=True):
    """The result of tiers 1 and 2. `messages` is the new list; unmodified messages are the objects passed in."""

    tokens_before: int
    tokens_after: int
    messages_modified: int
    tier_reached: PruningTier
    messages: list[NativeMessage]


class SummarizationResult(Struct, frozen=True):
    """A summary and its cost. If there is no summary, it is "" and `reason` says why."""

    summary: str
    api_usage: ModelCost | None
    reason: str


class CompactionResult(Struct, frozen=True):
    """The result of all three tiers. `summary` is None unless a model wrote one; `outcome` has all numbers."""

    tokens_before: int
    tokens_after: int
    tier_reached: CompactionTier
    summary: str | None
    api_usage: ModelCost | None
    messages: list[NativeMessage]
    outcome: Outcome


def prune_messages(
    messages: Sequence[NativeMessage], config: CompactionConfig = DEFAULT_CONFIG, *, counter: Counter | None = None
) -> PruneResult:
    """Runs tiers 1 and 2 down to the configuration's target, synchronously and without a model."""
    policy = _build_list_policy(messages, config, counter)
    result = compact(
        messages, to=config.target_tokens, policy=replace(policy, stages=policy.stages[:_MECHANICAL_TIERS])
    )
    shorter = [
        r
        for r in _get_replacements(result)
        for s in r.shown_items
        if isinstance(s, Substitute) and s.original_position is not None
    ]
    kinds = {r.kind for r in shorter}
    tier: PruningTier = "TruncateOutputs" if kinds else "None"
    tier = "RemoveOldOutputs" if RemoveOutputsStage.name in kinds else tier
    outcome = result.outcome
    return PruneResult(outcome.tokens_before, outcome.tokens_after, len(shorter), tier, result.messages)


def choose_summarization_models(session_model: str, configured: str = "") -> tuple[ModelChoice, ...]:
    """Returns the models that write summaries, in order, each with its reason.

    They are the configured one, else the cheapest of the provider of `session_model`, with that model itself as the
    fallback. Empty if no provider is known for it.

        choose_summarization_models("openai:gpt-5")[0].model  # openai:gpt-4o-mini
    """
    return choose_writers(session_model, configured=(configured,) if configured else ())


class _Summarizer(Struct, frozen=True):
    """What writes summaries, and the settings that name the models it is asked for. `model` None: nobody does."""

    model: Model | None
    settings: SummarySettings


def _open_summarizer(model: Model | str | None, config: CompactionConfig) -> _Summarizer:
    """Opens the configured model, else those chosen for the session's model, or takes the model that was passed."""
    configured = config.summarization_model or ""
    if model is None and not configured:
        return _Summarizer(None, SummarySettings(no_model=_NO_MODEL))
    if model is not None and not isinstance(model, str):
        return _Summarizer(model, SummarySettings(models=(configured or _PASSED_MODEL,)))
    names = tuple(choice.model for choice in choose_summarization_models(model or "", configured))
    if not names:
        raise UsageError(
            f"no provider is known for {configured or model!r}: name it as PROVIDER:MODEL, as in openai:gpt-4o-mini"
        )
    try:
        from tenfold.models.provider import ProviderModel  # noqa: PLC0415 - an optional extra

        return _Summarizer(ProviderModel(*names), SummarySettings(models=names))
    except UnusableModel as exc:
        return _Summarizer(None, SummarySettings(no_model=str(exc)))


_NO_MODEL = "there is no model: pass one or its name, or name it in the configuration"
_PASSED_MODEL = "default"
"""The name of a model that was passed as an object."""


async def summarize_messages(
    messages: Sequence[NativeMessage],
    model: Model | str | None,
    config: CompactionConfig = DEFAULT_CONFIG,
    *,
    counter: Counter | None = None,
) -> SummarizationResult:
    """Summarises the whole list under the seven headings. A failure of the model does not raise.

    For `model` see `compact_with_summarization`.
    """
    writer = _open_summarizer(model, config)
    if writer.model is None:
        return SummarizationResult("", None, writer.settings.no_model)
    policy = config.build_policy(counter, summary=writer.settings)
    policy = replace(policy, stages=(SummarizeOlderStage(keep_recent_messages=0),))
    target = min(config.target_tokens, max(1, count_tokens(messages, counter=policy.counter).total - 1))
    result = await asyncio.to_thread(lambda: compact(messages, to=target, policy=policy, summarizer=writer.model))
    summary, spent = get_summary(result.session), result.outcome.spent
    return SummarizationResult(summary or "", spent if spent.calls else None, "" if summary else result.outcome.reason)


async def compact_with_summarization(
    messages: Sequence[NativeMessage],
    model: Model | str | None,
    config: CompactionConfig = DEFAULT_CONFIG,
    *,
    counter: Counter | None = None,
) -> CompactionResult:
    """Runs all three tiers down to the configuration's target. Without a usable summary tiers 1 and 2 remain.

    `model` is what writes, or the name of the session's model ("anthropic:claude-sonnet-4-5"): then the configured
    model writes, else the cheapest of that provider, else the session's. With None and no configured model, and where
    the key or the client of the model is missing, only tiers 1 and 2 run, and the notes of the outcome say why. Raises
    `UsageError` for what names no model.
    """
    writer = _open_summarizer(model, config)
    policy = _build_list_policy(messages, config, counter, writer.settings)
    result = await asyncio.to_thread(
        lambda: compact(messages, to=config.target_tokens, policy=policy, summarizer=writer.model)
    )
    kinds, outcome = {r.kind for r in _get_replacements(result)}, result.outcome
    tier: CompactionTier = "Mechanical" if kinds else "None"
    tier = "Summarized" if SUMMARY in kinds and outcome.rung in MODEL_RUNGS else tier
    return CompactionResult(
        outcome.tokens_before,
        outcome.tokens_after,
        tier,
        get_summary(result.session) if tier == "Summarized" else None,
        outcome.spent if outcome.spent.calls else None,
        result.messages,
        outcome,
    )


def _build_list_policy(
    messages: Sequence[NativeMessage],
    config: CompactionConfig,
    counter: Counter | None,
    summary: SummarySettings | None = None,
) -> Policy:
    """Builds the policy, with the summary as a user's message where system text does not stand in the list."""
    items = encode_messages(messages)
    is_apart = bool(items) and WIRES[detect_wire(items)].profile.has_separate_system
    return (replace(config, summary_role="user") if is_apart else config).build_policy(counter, summary=summary)


def _decode_messages(messages: Sequence[NativeMessage]) -> list[Message]:
    items = encode_messages(messages)
    return list(WIRES[detect_wire(items)].decode(items)) if items else []


def _get_replacements(result: CompactResult) -> tuple[Any, ...]:
    newest = result.session.view.find_newest_block()
    return newest.replacements if newest is not None else ()


class TokenUsage(Struct, frozen=True):
    """The context in use and what it may take, `max`, in tokens; 0 for an unknown window.

    `max` is the window less the output reserve. The thresholds are shares of the same, so a compaction comes at 80 %.
    """

    used: int
    max: int

    @classmethod
    def from_session(cls, session: Session, *, window: int | None = None, output_reserve: int = 0) -> TokenUsage:
        """Reads a session's context size. A larger `output_reserve` than the policy's own takes its place."""
        reading = session.take_reading(window=window)
        if reading.window is None:
            return cls(reading.tokens, 0)
        limits = session.policy.get_limits(reading.window, output_reserve=output_reserve, floor=reading.floor)
        return cls(reading.tokens, limits.hard)

    @property
    def percent(self) -> int:
        """The percentage in use, rounded down."""
        return self.used * 100 // self.max if self.max else 0


def format_status_line(usage: TokenUsage) -> str:
    """Formats the status bar's context use: `[ctx: 45%]`, or tokens if the window is unknown."""
    return f"[ctx: {usage.percent}%]" if usage.max else f"[ctx: {format_thousands(usage.used)}]"


class ContextWarning(Struct, frozen=True):
    """`AgentEvent::ContextWarning`: the context is at 70 % or more, but below the trigger. `max` as in `TokenUsage`."""

    used: int
    max: int


class CompactionStatus(Struct, frozen=True):
    """`AgentEvent::CompactionStatus`: a compaction was done. Sizes are in tokens."""

    before: int
    after: int

    @property
    def line(self) -> str:
        """The line that is shown for it."""
        return render_compaction_mark(self.before, self.after)


class SummarizationFailure(Struct, frozen=True):
    """A summary model failed, and what the first two tiers did was kept, or nothing was done. `reason` says why."""

    reason: str


AgentEvent = ContextWarning | CompactionStatus | SummarizationFailure


def to_agent_event(event: Event) -> AgentEvent | None:
    """Converts a Tenfold event to the design's, None if it has none."""
    match event:
        case CompactionWarning():
            return ContextWarning(event.tokens, event.usable or event.window)
        case SummaryFailure(reason=reason) | CompactionFailure(outcome=Outcome(reason=reason)):
            return SummarizationFailure(reason)
        case CompactionEnd():
            return CompactionStatus(event.outcome.tokens_before, event.outcome.tokens_after)
        case _:
            return None


def build_listener(handler: Callable[[AgentEvent], None]) -> Listener:
    """Builds a listener for `Answerer(listen=...)` that passes the design's events to `handler`."""

    def forward_event(event: Event) -> None:
        converted = to_agent_event(event)
        if converted is not None:
            handler(converted)

    return forward_event


def run_compact_command(session: Session, line: str = "/compact", *, window: int | None = None) -> Outcome:
    """Runs `/compact`, optionally followed by a focus, through all tiers. Raises `UsageError` for an unknown window."""
    focus = line.strip().removeprefix("/compact").strip()
    return session.compact(replace(session.compactor.build_call(window=window), demand="manual", focus=focus))
