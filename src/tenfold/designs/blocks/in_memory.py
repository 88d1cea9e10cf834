"""The in-memory mode of the design behind the preset `blocks`: a list of messages that belongs to no session."""

from __future__ import annotations

from collections.abc import Sequence

from tenfold.core.record.message import Message
from tenfold.designs.blocks.compaction_config import CompactionConfig, ContextConfig, should_compact, to_context_config
from tenfold.designs.blocks.in_memory_stage import run_strategy
from tenfold.designs.blocks.list_levels import DefaultCompaction, count_tokens, run_levels
from tenfold.designs.blocks.loop_events import (
    AfterHook,
    BeforeHook,
    CompactionEnded,
    CompactionStarted,
    LoopEvent,
    Sender,
    check_hooks,
)
from tenfold.designs.blocks.strategy_runner import run_reported
from tenfold.store.ids import get_current_time


def compact_in_memory(
    messages: Sequence[Message],
    config: ContextConfig | CompactionConfig | None,
    *,
    loop_id: str = "",
    before_compaction_start: BeforeHook | None = None,
    after_compaction_end: AfterHook | None = None,
    sender: Sender | None = None,
) -> list[Message]:
    """Compacts a list that belongs to no session, with hooks and events in the published order.

    Where the trigger does not fire, and without a configuration, the list is returned unchanged, and no hook or event
    hears of it. If the before-hook returns False, it is returned unchanged too, without events. The work is the
    configured in-memory strategy, or the design's levels, which go down to the trigger's target. `loop_id` is the id in
    the events, whose `loops_compacted` is 0. A hook, sender or strategy that raises is logged; for the strategy the
    levels stand in. Raises `UsageError` for a hook or sender that takes other arguments.
    """
    check_hooks(before_compaction_start, after_compaction_end, sender)
    if config is None:
        return list(messages)
    config = to_context_config(config, messages)
    count, before = len(messages), count_tokens(messages, config)
    if not should_compact(before, config):
        return list(messages)
    if before_compaction_start is not None:
        hook = before_compaction_start
        if run_reported("before_compaction_start", lambda: hook(before, count)) is False:
            return list(messages)
    send = sender or _ignore_event
    started = CompactionStarted(loop_id, before, count, get_current_time())
    run_reported("sender", lambda: send(started))
    shorter = _shorten_list(messages, config)
    after = count_tokens(shorter, config)
    ended = CompactionEnded(loop_id, count, len(shorter), before, after, 0, get_current_time())
    run_reported("sender", lambda: send(ended))
    if after_compaction_end is not None:
        last = after_compaction_end
        run_reported("after_compaction_end", lambda: last(count, len(shorter), before, after))
    return shorter


def _shorten_list(messages: Sequence[Message], config: ContextConfig) -> list[Message]:
    own = config.compaction.in_memory_strategy
    if own is not None and not isinstance(own, DefaultCompaction):
        made = run_strategy(own, messages, config)
        if made is not None:
            return made
    target = config.trigger.get_limits(config.max_context_tokens, output_reserve=0, floor=0).target
    return run_levels(messages, config, target)


def _ignore_event(_: LoopEvent) -> None:
    """Stands in where nobody listens."""
