"""The configuration of the design behind the preset `blocks`: its scope, its strategies, its trigger and its window."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Protocol

from msgspec import Struct

from tenfold.compaction.engine.policy import check_least, is_share
from tenfold.compaction.trigger.limits import Limits, check_window, clamp_limits, divide_window, take_share
from tenfold.core.meter.counters import Counter
from tenfold.core.record.message import Message
from tenfold.core.record.token_reading import ProviderTokens
from tenfold.designs.blocks.runner import StrategyReturn, take_value
from tenfold.designs.blocks.turns import CompactedSection, CompactionBlock, LoopRecord, TurnMap, TurnRange
from tenfold.errors import UsageError

DEFAULT_WINDOW = 100_000
"""The window where neither the model's nor the caller's is known."""
_SIZES = ("keep_first_turns", "keep_recent_turns", "max_summary_tokens", "tool_output_max_lines")


class FixedCount(Struct, frozen=True, tag="fixed_count", forbid_unknown_fields=True):
    """A fixed number of earlier loops."""

    count: int = 3


class TokenBudget(Struct, frozen=True, tag="token_budget", forbid_unknown_fields=True):
    """As many earlier loops as fit the window together with the current one."""


CompactionScope = FixedCount | TokenBudget


class CompactionStrategy(Protocol):
    """Compacts a list that belongs to no session."""

    def compact(self, messages: Sequence[Message], config: ContextConfig) -> Sequence[Message]:
        """Returns the shorter list and leaves the argument unchanged."""
        ...


class BlockCompactionStrategy(Protocol):
    """Decides what becomes of a loop. Subclass it and write the three methods, or `compact` alone.

    Each may be plain or a coroutine. A plan may be made more than once. So `keep_first` and `keep_recent` must be
    deterministic and may not ask a model; `keep_compacted` may (see `ask_model`). If a method raises, the Outcome notes
    it and the default strategy is used.

    A `compact` of one's own decides by itself: the three methods are not called then. It is called for each of the two
    ranges whenever a plan is made, where every Ask is answered with an error, and once for the text.
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

    def compact(
        self,
        record: LoopRecord,
        config: CompactionConfig,
        is_most_recent: bool,  # noqa: FBT001 - the published signature
    ) -> StrategyReturn[CompactionBlock]:
        """Builds the block of a loop from the three methods, as a coroutine: see `combine_sections`."""
        return combine_sections(self, record, config, is_most_recent=is_most_recent)


async def combine_sections(
    strategy: BlockCompactionStrategy, record: LoopRecord, config: CompactionConfig, *, is_most_recent: bool
) -> CompactionBlock:
    """Builds the block of a loop from a strategy's three methods: of an earlier loop from `keep_compacted` alone.

    A section that a method does not give is absent: a short loop, for instance, has no turns to compact.
    """
    turn_map = TurnMap.from_messages(record.messages)
    first: TurnRange | None = None
    recent: CompactedSection | None = None
    if is_most_recent:
        first = await take_value(strategy.keep_first(record, turn_map, config))
        recent = await take_value(strategy.keep_recent(record, turn_map, config))
    compacted: CompactedSection | None = await take_value(
        strategy.keep_compacted(record, turn_map, config, is_most_recent)
    )
    return CompactionBlock(keep_first=first, keep_compacted=compacted, keep_recent=recent, created_at=datetime.now(UTC))


class HeadroomTrigger(Struct, frozen=True):
    """Triggers when headroom = compact_at - system share - messages' share falls below `least_headroom`.

    `window`, if any, takes the place of the model's; where neither is known it is `DEFAULT_WINDOW`.

    In IEEE doubles, as published: with 100,000 and 4,000 tokens of system prompt, 80,999 stays and 81,000 triggers.
    """

    compact_at: float = 0.90
    least_headroom: float = 0.05
    system_prompt_tokens: int = 4_000
    target_share: float = 0.40
    window: int | None = None

    def get_limits(self, window: int, *, output_reserve: int, floor: int) -> Limits:
        """Triggers at the limit, the first size whose headroom is too small.

        A known floor takes the place of the system prompt, and then counts on both sides. Without one, the system
        prompt is `system_prompt_tokens`, at most a quarter of the window.
        """
        system = floor if floor > 0 else min(self.system_prompt_tokens, window // 4)
        parts = divide_window(window, output_reserve)
        soft = self._find_first_size(window, system) + max(0, floor)
        return clamp_limits(parts, soft=soft, target=take_share(self.target_share, parts.usable))

    def choose_window(self, known: int | None) -> int | None:
        """Returns its own window, else the model's, else the default."""
        return self.window or known or DEFAULT_WINDOW

    def _is_exceeded(self, messages: int, window: int, system: int) -> bool:
        return self.compact_at - system / window - messages / window < self.least_headroom

    def _find_first_size(self, window: int, system: int) -> int:
        first = max(0, int((self.compact_at - self.least_headroom) * window) - system - 2)
        while not self._is_exceeded(first, window, system):
            first += 1
        return first


class CompactionConfig(Struct, frozen=True, kw_only=True):
    """When and how to compact. The defaults are those of the preset `blocks`, under the design's names.

    If `in_memory_strategy` or `block_strategy` is None, the design's own is used, as the preset does. Raises
    `UsageError` for a wrong number, and for what is no scope.
    """

    compact_at_pct: float = HeadroomTrigger().compact_at
    compact_budget_threshold_pct: float = HeadroomTrigger().least_headroom
    compaction_scope: CompactionScope = FixedCount()
    keep_first_turns: int = 2
    keep_recent_turns: int = 10
    max_summary_tokens: int = 2_000
    tool_output_max_lines: int = 50
    in_memory_strategy: CompactionStrategy | None = None
    block_strategy: BlockCompactionStrategy | None = None
    focus_message: str | None = None

    def __post_init__(self) -> None:
        """Raises `UsageError` for a size below zero, shares that do not fit, and what is no scope."""
        scope = self.compaction_scope
        if not isinstance(scope, FixedCount | TokenBudget):
            raise UsageError(
                f"compaction_scope is {scope!r}; give FixedCount(n), for instance FixedCount(3), or TokenBudget()"
            )
        counts = {"compaction_scope": scope.count} if isinstance(scope, FixedCount) else {}
        check_least({name: getattr(self, name) for name in _SIZES} | counts, 0)
        shares = (self.compact_budget_threshold_pct, self.compact_at_pct)
        if not all(map(is_share, shares)) or shares[0] >= shares[1]:
            raise UsageError(
                f"compact_at_pct is {shares[1]!r} and compact_budget_threshold_pct {shares[0]!r}; they are shares of "
                "the window, the threshold the smaller one, for instance 0.9 and 0.05"
            )


class ContextConfig(Struct, frozen=True, kw_only=True):
    """A window and what to do when it fills. Without a `ContextConfig` compaction is off.

    `max_context_tokens` is the window that all shares are taken of. In a session it takes the place of the model's; the
    default gives way to the window of a known model. The last three fields are for lists that belong to no session;
    `keep_recent` and `keep_first` count messages. Raises `UsageError` for a window that is no number of at least 1, and
    for a size that is no number of at least 0.
    """

    max_context_tokens: int = DEFAULT_WINDOW
    system_prompt_tokens: int = HeadroomTrigger().system_prompt_tokens
    compaction: CompactionConfig = CompactionConfig()
    token_counter: Counter | None = None
    keep_recent: int = 10
    keep_first: int = 2
    tool_output_max_lines: int = 50

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
        return HeadroomTrigger(
            self.compaction.compact_at_pct,
            self.compaction.compact_budget_threshold_pct,
            self.system_prompt_tokens,
            window=self.named_window,
        )


def to_context_config(config: ContextConfig | CompactionConfig) -> ContextConfig:
    """Converts a configuration to one with a window, the default one. The turns it keeps are messages in a list.

    Raises `UsageError` for what is no configuration.
    """
    if isinstance(config, ContextConfig):
        return config
    if not isinstance(config, CompactionConfig):
        raise UsageError(f"config is {config!r}; give a ContextConfig or a CompactionConfig")
    return ContextConfig(
        compaction=config,
        keep_first=config.keep_first_turns,
        keep_recent=config.keep_recent_turns,
        tool_output_max_lines=config.tool_output_max_lines,
    )


def should_compact(estimated_tokens: int, config: ContextConfig | CompactionConfig | None) -> bool:
    """Whether messages of this size leave too little headroom; False without a configuration."""
    if config is None:
        return False
    config = to_context_config(config)
    limits = config.trigger.get_limits(config.max_context_tokens, output_reserve=0, floor=0)
    return limits.get_need(ProviderTokens(estimated_tokens)) in ("soft", "hard")
