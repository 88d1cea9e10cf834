"""The design's own way of shortening a list that belongs to no session: three levels, the first that fits."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from tenfold.core.meter.counters import Counter, choose_counter, measure_messages
from tenfold.core.record.message import Message
from tenfold.designs.blocks.compaction_config import CompactionConfig, ContextConfig, build_preset, to_context_config
from tenfold.session import Session, SessionAddress
from tenfold.store.ids import IDS
from tenfold.store.sqlite.store import SqliteStore


def compact_messages(messages: Sequence[Message], config: ContextConfig | CompactionConfig) -> list[Message]:
    """Shortens a list to at most `max_context_tokens` - `system_prompt_tokens`, in three levels.

    A list that fits is returned unchanged. Otherwise tool outputs are cut; if that is not enough, each earlier step
    becomes one line; then the middle is dropped. A facts section keeps what must not be lost. A `CompactionConfig`
    stands for the default window of 100,000 tokens.
    """
    context = to_context_config(config, messages)
    budget = get_budget(context)
    return list(messages) if count_tokens(messages, context) <= budget else run_levels(messages, context, budget)


class DefaultCompaction(Struct, frozen=True):
    """The design's own strategy for lists that belong to no session."""

    def compact(self, messages: Sequence[Message], config: ContextConfig | CompactionConfig) -> list[Message]:
        """Calls `compact_messages`."""
        return compact_messages(messages, config)


def run_levels(messages: Sequence[Message], config: ContextConfig, to: int) -> list[Message]:
    """Runs the design's three levels over a list, down to so many tokens."""
    policy = build_preset(config, _choose_counter(config))
    session = Session.create(
        SessionAddress(SqliteStore(":memory:"), IDS.generate()), replace(policy, stages=policy.in_memory_stages)
    )
    session.append(*messages)
    session.compact(to=max(1, to))
    return session.view.get_messages()


def get_budget(config: ContextConfig) -> int:
    """Returns the tokens that the messages of a list may take: the window less the system prompt."""
    return max(0, config.max_context_tokens - config.system_prompt_tokens)


def _choose_counter(config: ContextConfig) -> Counter:
    return config.token_counter or choose_counter(None).counter


def count_tokens(messages: Sequence[Message], config: ContextConfig) -> int:
    """Counts the tokens of a list with the configured counter, or that of an unknown model."""
    return sum(measure_messages(messages, _choose_counter(config)))
