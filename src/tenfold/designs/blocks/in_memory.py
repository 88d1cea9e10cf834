"""The in-memory mode of the design behind the preset `blocks`: a list of messages that belongs to no session."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tenfold.designs.blocks.compaction_config import CompactionStrategy, ContextConfig, should_compact
from tenfold.designs.blocks.loop_events import (
    AfterHook,
    BeforeHook,
    CompactionEnded,
    CompactionStarted,
    LoopEvent,
    Sender,
)
from tenfold.designs.blocks.strategy import build_policy
from tenfold.designs.blocks.strategy_runner import run_without_model
from tenfold.engine.drive import Answerer
from tenfold.meter.counters import Counter, choose_counter, measure_messages
from tenfold.record.message import Message
from tenfold.session import Session, SessionAddress
from tenfold.store.ids import IDS, get_current_time
from tenfold.store.sqlite import SqliteStore


def compact_messages(messages: Sequence[Message], config: ContextConfig) -> list[Message]:
    """Shortens a list to at most `max_context_tokens` - `system_prompt_tokens`, in three levels.

    A list that fits is returned unchanged. Otherwise tool outputs are cut; if that is not enough, each earlier step
    becomes one line; then the middle is dropped. A facts section keeps what must not be lost.
    """
    budget = _get_budget(config)
    return list(messages) if _count_tokens(messages, config) <= budget else _run_levels(messages, config, budget)


class DefaultCompaction(Struct, frozen=True):
    """The design's own strategy for lists that belong to no session."""

    def compact(self, messages: Sequence[Message], config: ContextConfig) -> list[Message]:
        """Calls `compact_messages`."""
        return compact_messages(messages, config)


def compact_in_memory(
    messages: Sequence[Message],
    config: ContextConfig,
    *,
    loop_id: str = "",
    before_compaction_start: BeforeHook | None = None,
    after_compaction_end: AfterHook | None = None,
    sender: Sender | None = None,
) -> list[Message]:
    """Compacts a list that belongs to no session, with hooks and events in the published order.

    The work is the configured in-memory strategy. Without one the design's levels run where the trigger fires, and go
    down to the trigger's target; below it the list is returned unchanged, and no hook or event hears of it. If the
    before-hook returns False, the list is returned unchanged, without events. `loop_id` is the id in the events, whose
    `loops_compacted` is 0. A hook, sender or strategy that raises is logged; for the strategy the levels stand in.
    """
    count, before = len(messages), _count_tokens(messages, config)
    if _find_own_strategy(config) is None and not should_compact(before, config):
        return list(messages)
    if before_compaction_start is not None:
        hook = before_compaction_start
        if _run_reported("before_compaction_start", lambda: hook(before, count)) is False:
            return list(messages)
    send = sender or _ignore_event
    started = CompactionStarted(loop_id, before, count, get_current_time())
    _run_reported("sender", lambda: send(started))
    shorter = _shorten_list(messages, config)
    after = _count_tokens(shorter, config)
    ended = CompactionEnded(loop_id, count, len(shorter), before, after, 0, get_current_time())
    _run_reported("sender", lambda: send(ended))
    if after_compaction_end is not None:
        last = after_compaction_end
        _run_reported("after_compaction_end", lambda: last(count, len(shorter), before, after))
    return shorter


def _shorten_list(messages: Sequence[Message], config: ContextConfig) -> list[Message]:
    own = _find_own_strategy(config)
    if own is not None:
        made = _run_reported("in_memory_strategy", lambda: own.compact(messages, config))
        if isinstance(made, Sequence):
            return list(made)
    target = config.trigger.get_limits(config.max_context_tokens, output_reserve=0, floor=0).target
    return _run_levels(messages, config, min(target, _get_budget(config)))


def _find_own_strategy(config: ContextConfig) -> CompactionStrategy | None:
    """Returns the configured strategy, None for the design's own."""
    own = config.compaction.in_memory_strategy
    return None if isinstance(own, DefaultCompaction) else own


def _run_levels(messages: Sequence[Message], config: ContextConfig, to: int) -> list[Message]:
    """Runs the design's three levels over a list, down to so many tokens."""
    levels = replace(config, compaction=replace(config.compaction, in_memory_strategy=None))
    policy = build_policy(levels, _choose_counter(config))
    session = Session.create(
        SessionAddress(SqliteStore(":memory:"), IDS.generate()), replace(policy, stages=policy.in_memory_stages)
    )
    session.append(*messages)
    session.compact(to=max(1, to))
    return session.view.get_messages()


def _get_budget(config: ContextConfig) -> int:
    return max(0, config.max_context_tokens - config.system_prompt_tokens)


def _choose_counter(config: ContextConfig) -> Counter:
    return config.token_counter or choose_counter(None).counter


def _count_tokens(messages: Sequence[Message], config: ContextConfig) -> int:
    return sum(measure_messages(messages, _choose_counter(config)))


def _run_reported(name: str, work: Callable[[], object]) -> object:
    """Runs a user's code, plain or a coroutine, and returns its value. What it raises is logged; it is None then."""
    result = run_without_model(work)
    if result.error:
        Answerer().report_problem(f"{name}: {result.error}; it was ignored")
    return result.value


def _ignore_event(_: LoopEvent) -> None:
    """Stands in where nobody listens."""
