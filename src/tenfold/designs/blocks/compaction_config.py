"""The configuration of the design behind the preset `blocks`, and the strategies that it may name.

`tenfold.designs.blocks.build_policy` turns a configuration into a policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.engine.policy import Policy
from tenfold.compaction.engine.setting_checks import check_least
from tenfold.compaction.plan.stages.levels import CutOutputsStage
from tenfold.compaction.plan.stages.overlay import Scope
from tenfold.compaction.summarize.ladder import SummarySettings
from tenfold.compaction.trigger.limits import DEFAULT_WINDOW, HeadroomTrigger, check_window
from tenfold.core.meter.counters import Counter
from tenfold.core.record.message import Message
from tenfold.designs.blocks.policy import HEADROOM, LEVELS, OVERLAY, blocks, check_shares
from tenfold.designs.blocks.strategy_runner import StrategyReturn, combine_results
from tenfold.designs.blocks.turn_records import (
    CompactedSection,
    CompactionBlock,
    LoopRecord,
    TurnMap,
    TurnRange,
    assign_turns,
)
from tenfold.errors import UsageError


class FixedCount(Struct, frozen=True, tag="fixed_count", forbid_unknown_fields=True):
    """A fixed number of earlier loops."""

    count: int = 3


class TokenBudget(Struct, frozen=True, tag="token_budget", forbid_unknown_fields=True):
    """As many earlier loops as fit the window together with the current one."""


CompactionScope = FixedCount | TokenBudget


def to_scope(scope: CompactionScope) -> Scope:
    """Converts to the value of the preset's setting `compaction_scope`. Raises `UsageError` for any other object."""
    if isinstance(scope, FixedCount):
        return scope.count
    if isinstance(scope, TokenBudget):
        return "token_budget"
    raise UsageError(f"compaction_scope is {scope!r}; give FixedCount(n), for instance FixedCount(3), or TokenBudget()")


class CompactionStrategy(Protocol):
    """Compacts a list that belongs to no session."""

    def compact(self, messages: Sequence[Message], config: ContextConfig) -> Sequence[Message]:
        """Returns the shorter list and leaves the argument unchanged."""
        ...


class SectionStrategy(Protocol):
    """The three methods that say what stays of a loop. `BlockCompactionStrategy` adds `compact` to them.

    Each may be plain, a coroutine, or a generator that yields Asks. A plan may be made more than once. So `keep_first`
    and `keep_recent` must be deterministic and may not ask a model; `keep_compacted` may (see `ask_model`). If a method
    raises, the Outcome notes it and the default strategy is used.
    """

    def keep_first(
        self, record: LoopRecord, turn_map: TurnMap, config: CompactionConfig
    ) -> StrategyReturn[TurnRange | None]:
        """Returns the turns that stay at the beginning of the latest loop."""
        ...

    def keep_recent(
        self, record: LoopRecord, turn_map: TurnMap, config: CompactionConfig
    ) -> StrategyReturn[CompactedSection | None]:
        """Returns the turns that stay at the end of the latest loop, with their tool outputs cut."""
        ...

    def keep_compacted(
        self,
        record: LoopRecord,
        turn_map: TurnMap,
        config: CompactionConfig,
        is_most_recent: bool,  # noqa: FBT001 - the published signature
    ) -> StrategyReturn[CompactedSection | None]:
        """Returns what replaces the turns between those, or all turns of an earlier loop."""
        ...


class BlockCompactionStrategy(SectionStrategy, Protocol):
    """Decides what becomes of a loop. Subclass it and write the three methods, or `compact` alone.

    A `compact` of one's own decides by itself: the three methods are not called then. It is called for the ranges
    whenever a plan is made, where every Ask is answered with an error, and once for the text.
    """

    def compact(
        self,
        record: LoopRecord,
        config: CompactionConfig,
        is_most_recent: bool,  # noqa: FBT001 - the published signature
    ) -> StrategyReturn[CompactionBlock]:
        """Assembles the sections of the three methods: see `combine_sections`."""
        return combine_sections(self, record, config, is_most_recent=is_most_recent)


def combine_sections(
    strategy: SectionStrategy, record: LoopRecord, config: CompactionConfig, *, is_most_recent: bool
) -> StrategyReturn[CompactionBlock]:
    """Builds the block of a loop from a strategy's three methods; of an earlier loop from `keep_compacted` alone.

    A section that a method does not give is absent: a short loop, for instance, has no turns to compact. Returns a
    coroutine or a generator where a method does.
    """
    turn_map = TurnMap.from_messages(record.messages)

    def build(
        compacted: CompactedSection | None, first: TurnRange | None = None, recent: CompactedSection | None = None
    ) -> CompactionBlock:
        return CompactionBlock(
            keep_first=first, keep_compacted=compacted, keep_recent=recent, created_at=datetime.now(UTC)
        )

    results: list[StrategyReturn[object]] = [strategy.keep_compacted(record, turn_map, config, is_most_recent)]
    if is_most_recent:
        results.append(strategy.keep_first(record, turn_map, config))
        results.append(strategy.keep_recent(record, turn_map, config))
    return combine_results(results, build)


class CompactionConfig(Struct, frozen=True, kw_only=True):
    """When and how to compact. The defaults are those of the preset `blocks`, under the design's names.

    If `in_memory_strategy` or `block_strategy` is None, the design's own is used, as the preset does. A block strategy
    may be any object with the methods of `SectionStrategy`; one with a `compact` of its own is asked that alone. Raises
    `UsageError` for a wrong number, and for a scope or a strategy of another type.
    """

    compact_at_pct: float = HEADROOM.compact_at
    compact_budget_threshold_pct: float = HEADROOM.least_headroom
    compaction_scope: CompactionScope = FixedCount()
    keep_first_turns: int = OVERLAY.keep_first_steps
    keep_recent_turns: int = OVERLAY.keep_recent_steps
    max_summary_tokens: int = OVERLAY.max_summary_tokens
    tool_output_max_lines: int = OVERLAY.tool_output_max_lines
    in_memory_strategy: CompactionStrategy | None = None
    block_strategy: SectionStrategy | None = None
    focus_message: str | None = None

    def __post_init__(self) -> None:
        """Raises `UsageError` for a size below zero, shares that do not fit, and what is no scope or no strategy."""
        scope = to_scope(self.compaction_scope)
        counts = {} if isinstance(self.compaction_scope, TokenBudget) else {"compaction_scope": scope}
        check_least({name: getattr(self, name) for name in _SIZES} | counts, 0)
        check_shares(self.compact_at_pct, self.compact_budget_threshold_pct)
        _check_methods("in_memory_strategy", self.in_memory_strategy, ("compact",))
        own = callable(getattr(self.block_strategy, "compact", None))
        _check_methods("block_strategy", self.block_strategy, ("compact",) if own else SECTION_METHODS)


_SIZES = ("keep_first_turns", "keep_recent_turns", "max_summary_tokens", "tool_output_max_lines")
SECTION_METHODS = ("keep_first", "keep_recent", "keep_compacted")


def _check_methods(name: str, strategy: object, methods: Sequence[str]) -> None:
    missing = [each for each in methods if not callable(getattr(strategy, each, None))]
    if isinstance(strategy, type):
        raise UsageError(f"{name} is the class {strategy.__name__}; give an object of it: {strategy.__name__}()")
    if strategy is not None and missing:
        raise UsageError(f"{name} is {strategy!r}, which has no {', '.join(missing)}; see docs/designs/blocks.md")


class ContextConfig(Struct, frozen=True, kw_only=True):
    """A window and what to do when it fills. Without a `ContextConfig` compaction is off.

    `max_context_tokens` is the window that all shares are taken of. In a session it takes the place of the model's; the
    default gives way to the window of a known model. The last three fields are for lists that belong to no session;
    `keep_recent` and `keep_first` count messages. Raises `UsageError` for a window that is no number of at least 1, and
    for a size that is no number of at least 0.
    """

    max_context_tokens: int = DEFAULT_WINDOW
    system_prompt_tokens: int = HEADROOM.system_prompt_tokens
    compaction: CompactionConfig = CompactionConfig()
    token_counter: Counter | None = None
    keep_recent: int = LEVELS.keep_recent_messages
    keep_first: int = LEVELS.keep_first_messages
    tool_output_max_lines: int = OVERLAY.tool_output_max_lines

    def __post_init__(self) -> None:
        """Raises `UsageError` for a window of which no share can be taken, and for a size below zero."""
        check_window(self.max_context_tokens)
        sizes = ("system_prompt_tokens", "keep_recent", "keep_first", "tool_output_max_lines")
        check_least({name: getattr(self, name) for name in sizes}, 0)

    @property
    def named_window(self) -> int | None:
        """The window if it is not the default."""
        return None if self.max_context_tokens == DEFAULT_WINDOW else self.max_context_tokens

    @property
    def trigger(self) -> HeadroomTrigger:
        """The trigger with these values."""
        config = self.compaction
        return HeadroomTrigger(config.compact_at_pct, config.compact_budget_threshold_pct, self.system_prompt_tokens)


def to_context_config(config: ContextConfig | CompactionConfig, messages: Sequence[Message]) -> ContextConfig:
    """Returns the configuration for a list of messages; of a `CompactionConfig` with the default window.

    The turns that it keeps become the numbers of their messages in this list. Raises `UsageError` for another object.
    """
    if isinstance(config, ContextConfig):
        return config
    if not isinstance(config, CompactionConfig):
        raise UsageError(f"config is {config!r}; give a CompactionConfig or a ContextConfig")
    ends = [0, *(end for _, end in TurnMap.from_messages(assign_turns(messages)).groups)]
    return ContextConfig(
        compaction=config,
        keep_first=ends[: config.keep_first_turns + 1][-1],
        keep_recent=len(messages) - ends[-config.keep_recent_turns - 1 :][0],
        tool_output_max_lines=config.tool_output_max_lines,
    )


def should_compact(estimated_tokens: int, config: ContextConfig | None) -> bool:
    """Whether messages of this size leave too little headroom; False without a configuration."""
    if config is None:
        return False
    limits = config.trigger.get_limits(config.max_context_tokens, output_reserve=0, floor=0)
    return limits.get_need(estimated_tokens) in ("soft", "hard")


def build_preset(config: ContextConfig, counter: Counter, *, summary: SummarySettings | None = None) -> Policy:
    """Builds the preset `blocks` with the values of a configuration, without its strategies: see `build_policy`."""
    compaction = config.compaction
    policy = blocks(
        config.token_counter or counter,
        summary=summary,
        compact_at_pct=compaction.compact_at_pct,
        compact_budget_threshold_pct=compaction.compact_budget_threshold_pct,
        system_prompt_tokens=config.system_prompt_tokens,
        compaction_scope=to_scope(compaction.compaction_scope),
        keep_first_turns=compaction.keep_first_turns,
        keep_recent_turns=compaction.keep_recent_turns,
        max_summary_tokens=compaction.max_summary_tokens,
        tool_output_max_lines=compaction.tool_output_max_lines,
        keep_first=config.keep_first,
        keep_recent=config.keep_recent,
        focus_message=compaction.focus_message or "",
    )
    levels = (CutOutputsStage(config.tool_output_max_lines), *policy.in_memory_stages[1:])
    return replace(policy, in_memory_stages=levels, window=config.named_window)
