"""The preset `blocks`: a kept beginning, a compacted middle and a kept end, over a conversation of many runs.

The design's words: a *turn* is a step, a *loop* is a run, and a *compaction block* is a Block as one run sees it. The
overlay leaves the *keep first* part, turns *keep compacted* into lines, and cuts the outputs of *keep recent*. In a
session the overlay works run by run. A plain list, which belongs to no session, goes through the three levels of the
in-memory strategy (`OverlayStage.list_stages`). Where the overlay does not reach the target, kept steps become lines as
well, and then one summary covers what is older than the tail. Its names as code: `tenfold.designs.blocks`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.engine.policy import Policy
from tenfold.compaction.plan.pipeline import Stage
from tenfold.compaction.plan.stages.condense import SummarizePrefixStage
from tenfold.compaction.summarize.ladder import SummarySettings
from tenfold.compaction.summarize.writer import Writer
from tenfold.config.plugins import load_plugin
from tenfold.core.meter.counters import Counter, choose_counter, measure_messages
from tenfold.core.record.message import Message
from tenfold.designs.blocks.config import (
    BlockCompactionStrategy,
    CompactionConfig,
    ContextConfig,
    FixedCount,
    TokenBudget,
    to_context_config,
)
from tenfold.designs.blocks.lines import LineWriter
from tenfold.designs.blocks.stages import (
    CutOutputsStage,
    DropBetweenStage,
    EarlierLinesStage,
    OverlayFallbackStage,
    OverlayStage,
)
from tenfold.designs.blocks.strategy import DefaultBlockCompaction, StrategyStage, StrategyWriter
from tenfold.errors import UsageError
from tenfold.session import Session, SessionAddress
from tenfold.store.ids import IDS
from tenfold.store.sqlite.store import SqliteStore

_CONTEXT, _COMPACTION = ContextConfig(), CompactionConfig()


def blocks(  # noqa: PLR0913 - the design's own settings, one each
    counter: Counter,
    *,
    summary: SummarySettings | None = None,
    compact_at_pct: float = _COMPACTION.compact_at_pct,
    compact_budget_threshold_pct: float = _COMPACTION.compact_budget_threshold_pct,
    system_prompt_tokens: int = _CONTEXT.system_prompt_tokens,
    compaction_scope: int | Literal["token_budget"] = 3,
    keep_first_turns: int = _COMPACTION.keep_first_turns,
    keep_recent_turns: int = _COMPACTION.keep_recent_turns,
    max_summary_tokens: int = _COMPACTION.max_summary_tokens,
    tool_output_max_lines: int = _COMPACTION.tool_output_max_lines,
    keep_first: int = _CONTEXT.keep_first,
    keep_recent: int = _CONTEXT.keep_recent,
    focus_message: str = "",
    block_strategy: str = "",
) -> Policy:
    """Keep the first and the recent steps of the current run, one line for each step between, and for earlier runs.

    `compaction_scope` is how many earlier runs stay in view, or "token_budget". `keep_first` and `keep_recent` count
    messages, and belong to the in-memory levels. `block_strategy` names a strategy, as `package.module:name` or by its
    entry point in `tenfold.strategies`. Raises `UsageError` for a size below zero or shares that do not fit.
    """
    if isinstance(compaction_scope, str) and compaction_scope != "token_budget":
        raise UsageError(f"compaction_scope is {compaction_scope!r}; give a number of 0 or more, or 'token_budget'")
    strategy = cast("BlockCompactionStrategy", load_plugin("strategies", block_strategy)) if block_strategy else None
    compaction = CompactionConfig(
        compact_at_pct=compact_at_pct,
        compact_budget_threshold_pct=compact_budget_threshold_pct,
        compaction_scope=TokenBudget() if compaction_scope == "token_budget" else FixedCount(compaction_scope),
        keep_first_turns=keep_first_turns,
        keep_recent_turns=keep_recent_turns,
        max_summary_tokens=max_summary_tokens,
        tool_output_max_lines=tool_output_max_lines,
        block_strategy=strategy,
        focus_message=focus_message or None,
    )
    context = ContextConfig(
        system_prompt_tokens=system_prompt_tokens,
        compaction=compaction,
        keep_first=keep_first,
        keep_recent=keep_recent,
        tool_output_max_lines=tool_output_max_lines,
    )
    return build_policy(context, counter, summary=summary)


def build_policy(
    config: ContextConfig | CompactionConfig, counter: Counter, *, summary: SummarySettings | None = None
) -> Policy:
    """Builds the policy of a configuration: the preset `blocks` with its values, its strategies and its counter.

    `counter` is used if the configuration has no `token_counter`. Where the block strategy does not reach the target,
    the preset's later stages go on. The in-memory strategy is that of `compact_in_memory`.
    """
    config = to_context_config(config)
    own, settings = config.compaction, summary or SummarySettings()
    list_stages: tuple[Stage, ...] = (
        CutOutputsStage(config.tool_output_max_lines),
        EarlierLinesStage(config.keep_recent),
        DropBetweenStage(config.keep_first, config.keep_recent),
    )
    overlay = OverlayStage(replace(own, in_memory_strategy=None, block_strategy=None), list_stages)
    policy = Policy(
        name="blocks",
        trigger=config.trigger,
        stages=(overlay, OverlayFallbackStage(overlay.config), SummarizePrefixStage()),
        counter=config.token_counter or counter,
        summary=replace(settings, instructions=own.focus_message or settings.instructions),
        checks=("before_call",),
        writer=LineWriter(),
    )
    return policy if own.block_strategy is None else use_strategy(policy, own.block_strategy)


def use_strategy(policy: Policy, strategy: BlockCompactionStrategy) -> Policy:
    """Returns a policy of this design with a strategy in place of its overlay, or of the strategy that it had.

    The strategy is given the policy's numbers.
    """
    before = find_overlay(policy)
    config = replace(before.config, block_strategy=None, focus_message=policy.summary.instructions or None)
    stage, writer = OverlayStage(config, before.list_stages), cast("Writer", LineWriter())
    if type(strategy) is not DefaultBlockCompaction:
        config = replace(config, block_strategy=strategy)
        stage, writer = StrategyStage(config, before.list_stages), StrategyWriter(config)
    return replace(policy, stages=tuple(stage if each is before else each for each in policy.stages), writer=writer)


def find_overlay(policy: Policy) -> OverlayStage:
    """Finds the overlay of a policy, which may be that of a strategy; the preset's own where the policy has none."""
    return next((stage for stage in policy.stages if isinstance(stage, OverlayStage)), OverlayStage())


# -- lists that belong to no session -----------------------------------------------------------------------------------


def compact_messages(messages: Sequence[Message], config: ContextConfig | CompactionConfig) -> list[Message]:
    """Shortens a list to at most `max_context_tokens` - `system_prompt_tokens`, in three levels.

    A list that fits is returned unchanged. Otherwise tool outputs are cut; if that is not enough, each earlier step
    becomes one line; then the middle is dropped. A facts section keeps what must not be lost.
    """
    config = to_context_config(config)
    budget = max(0, config.max_context_tokens - config.system_prompt_tokens)
    return list(messages) if count_tokens(messages, config) <= budget else run_levels(messages, config, budget)


class DefaultCompaction(Struct, frozen=True):
    """The design's own strategy for lists that belong to no session."""

    def compact(self, messages: Sequence[Message], config: ContextConfig | CompactionConfig) -> list[Message]:
        """Calls `compact_messages`."""
        return compact_messages(messages, config)


def run_levels(messages: Sequence[Message], config: ContextConfig, to: int) -> list[Message]:
    """Runs the design's three levels over a list, down to so many tokens."""
    policy = build_policy(config, choose_counter(None).counter).with_list_stages()
    session = Session.create(SessionAddress(SqliteStore(":memory:"), IDS.generate()), policy)
    session.append(*messages)
    session.compact(to=max(1, to))
    return session.view.get_messages()


def count_tokens(messages: Sequence[Message], config: ContextConfig) -> int:
    """Counts the tokens of a list with the configured counter, or that of an unknown model."""
    return sum(measure_messages(messages, config.token_counter or choose_counter(None).counter))
