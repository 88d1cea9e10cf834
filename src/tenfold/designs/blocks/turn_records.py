"""The values of the design behind the preset `blocks`: turns, sections, compaction blocks, configuration; their JSON.

A *turn* is a step together with the user messages that led to it; a *loop* is a run. Turns are numbered within their
loop, from 0.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Sequence
from datetime import datetime
from typing import Protocol, TypeAlias, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tenfold.config.policy import Policy
from tenfold.config.presets.blocks import HEADROOM, LEVELS, OVERLAY, blocks
from tenfold.errors import BadInput, UsageError
from tenfold.meter.counters import Counter
from tenfold.plan.stages.levels import CutOutputsStage
from tenfold.plan.stages.overlay import Scope
from tenfold.record.ask import Answer, Ask
from tenfold.record.message import Message, get_tool_calls, get_tool_result
from tenfold.summarize.ladder import SummarySettings
from tenfold.trigger.limits import DEFAULT_WINDOW, HeadroomTrigger

T = TypeVar("T")
_JSON_NAMES = {
    "start_turn": "startTurn",
    "end_turn": "endTurn",
    "loop_id": "loopId",
    "turn_index": "turnIndex",
    "turn_id": "turnId",
    "created_at": "createdAt",
}


class TurnRange(Struct, frozen=True, rename=_JSON_NAMES, forbid_unknown_fields=True):
    """The turns `start_turn` to `end_turn` of a loop, both included."""

    start_turn: int
    end_turn: int

    def __post_init__(self) -> None:
        """Raises ValueError unless 0 <= start <= end."""
        if not 0 <= self.start_turn <= self.end_turn:
            raise ValueError(f"turns {self.start_turn} to {self.end_turn} are no range: give 0 <= start <= end")


class TurnId(Struct, frozen=True, rename=_JSON_NAMES, forbid_unknown_fields=True):
    """The loop of a message, and the number of its turn in that loop."""

    loop_id: str
    turn_index: int


class TurnMessage(Struct, frozen=True, rename=_JSON_NAMES, forbid_unknown_fields=True, omit_defaults=True):
    """A message and its turn; None if it belongs to no turn."""

    message: Message
    turn_id: TurnId | None = None


class CompactedSection(Struct, frozen=True, forbid_unknown_fields=True):
    """The messages that are shown for a range of turns."""

    range: TurnRange
    messages: tuple[Message, ...]


class CompactionBlock(Struct, frozen=True, rename=_JSON_NAMES, forbid_unknown_fields=True, omit_defaults=True):
    """What is shown of one compacted loop. Only the latest loop has `keep_first` and `keep_recent`."""

    keep_first: TurnRange | None = None
    keep_compacted: CompactedSection | None = None
    keep_recent: CompactedSection | None = None
    created_at: datetime | None = None


class LoopRecord(Struct, frozen=True, rename=_JSON_NAMES, forbid_unknown_fields=True, omit_defaults=True):
    """A loop: its original messages, and a compaction block if something else is shown in their place.

    `events` are the numbers and names of the events that a `SessionRecorder` recorded; `status` is how the loop ended.
    """

    loop_id: str
    messages: tuple[TurnMessage, ...]
    parent_loop_id: str | None = None
    compaction_block: CompactionBlock | None = None
    events: tuple[tuple[int, str], ...] = ()
    status: str = "completed"


def to_json(value: Struct) -> bytes:
    """Encodes a value of this module as JSON with the published keys (`startTurn`, `turnId`); None is left out."""
    return msgspec.json.encode(value)


def from_json(kind: type[T], data: bytes | str) -> T:
    """Decodes a value of `kind` from JSON. Raises `BadInput`, naming the path, if it does not fit; never gives None."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as exc:
        raise BadInput(f"this is no {kind.__name__}: {exc}; it was written by `to_json`, or mend it there") from exc


# -- turns -------------------------------------------------------------------------------------------------------------


def assign_turns(messages: Sequence[Message], loop_id: str = "") -> tuple[TurnMessage, ...]:
    """Numbers the turns of one loop. A turn is an answer, its tool results and the user messages that led to it."""
    out: list[TurnMessage] = []
    index, answered = 0, False
    waiting: set[str] = set()
    for message in messages:
        result = get_tool_result(message)
        if message.role == "assistant":
            index += answered
            answered = True
            waiting = {c.id for c in get_tool_calls(message)}
        elif result is not None or message.origin == "tool":
            waiting.discard(result.call_id if result is not None else "")
        elif answered and not waiting:
            index, answered = index + 1, False
        out.append(TurnMessage(message, TurnId(loop_id, index)))
    return tuple(out)


class TurnMap(Struct, frozen=True):
    """The groups of a list of messages, as half-open index ranges. A `TurnRange` counts these groups."""

    groups: tuple[tuple[int, int], ...]

    @classmethod
    def from_messages(cls, messages: Sequence[TurnMessage | Message]) -> TurnMap:
        """Groups neighbouring messages of the same turn and loop. A message without a turn is its own group.

        A plain `Message` has no turn, but a tool result still joins the call before it.
        """
        groups: list[tuple[int, int]] = []
        before: TurnId | None = None
        for index, each in enumerate(messages):
            turn = each.turn_id if isinstance(each, TurnMessage) else None
            message = each.message if isinstance(each, TurnMessage) else each
            joins = turn == before if turn is not None else message.role == "tool"
            if joins and groups:
                groups[-1] = (groups[-1][0], index + 1)
            else:
                groups.append((index, index + 1))
            before = turn
        return cls(tuple(groups))

    def turn_count(self) -> int:
        """Returns the number of groups."""
        return len(self.groups)

    def turn_msg_range(self, turn_index: int) -> tuple[int, int] | None:
        """Returns the start and the exclusive end of a group's messages, None if there is no such group."""
        return self.groups[turn_index] if 0 <= turn_index < len(self.groups) else None

    def messages_for_range(self, range: TurnRange, all_msgs: Sequence[T]) -> Sequence[T]:
        """Returns the messages of the groups in `range`, as far as they exist; else an empty sequence."""
        groups = self.groups[range.start_turn : range.end_turn + 1]
        return all_msgs[groups[0][0] : groups[-1][1]] if groups else all_msgs[:0]


# -- configuration -----------------------------------------------------------------------------------------------------


class FixedCount(Struct, frozen=True, tag="fixed_count", forbid_unknown_fields=True):
    """A fixed number of earlier loops."""

    count: int = 3


class TokenBudget(Struct, frozen=True, tag="token_budget", forbid_unknown_fields=True):
    """As many earlier loops as fit the window together with the current one."""


CompactionScope = FixedCount | TokenBudget


def to_scope(scope: CompactionScope) -> Scope:
    """Converts to the value of the preset's setting `compaction_scope`."""
    return scope.count if isinstance(scope, FixedCount) else "token_budget"


StrategyReturn: TypeAlias = T | Awaitable[T] | Generator[Ask, Answer, T]
"""What a strategy's method may return: the value, a coroutine, or a generator that yields Asks and returns it."""


class CompactionStrategy(Protocol):
    """Compacts a list that belongs to no session."""

    def compact(self, messages: Sequence[Message], config: ContextConfig) -> Sequence[Message]:
        """Returns the shorter list and leaves the argument unchanged."""
        ...


class BlockCompactionStrategy(Protocol):
    """Decides what stays of a loop. Each method may be plain, a coroutine, or a generator that yields Asks.

    A plan may be made more than once. So `keep_first` and `keep_recent` must be deterministic and may not ask a model;
    `keep_compacted` may (see `ask_model`). If a method raises, the Outcome notes it and the default strategy is used.
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


class CompactionConfig(Struct, frozen=True, kw_only=True):
    """When and how to compact. The defaults are those of the preset `blocks`, under the design's names.

    If `in_memory_strategy` or `block_strategy` is None, the design's own is used, as the preset does.
    """

    compact_at_pct: float = HEADROOM.compact_at
    compact_budget_threshold_pct: float = HEADROOM.least_headroom
    compaction_scope: CompactionScope = FixedCount()
    keep_first_turns: int = OVERLAY.keep_first_steps
    keep_recent_turns: int = OVERLAY.keep_recent_steps
    max_summary_tokens: int = OVERLAY.max_summary_tokens
    tool_output_max_lines: int = OVERLAY.tool_output_max_lines
    in_memory_strategy: CompactionStrategy | None = None
    block_strategy: BlockCompactionStrategy | None = None
    focus_message: str | None = None


class ContextConfig(Struct, frozen=True, kw_only=True):
    """A window and what to do when it fills. Without a `ContextConfig` compaction is off.

    `max_context_tokens` is the model's window; keep the default only if that is unknown. The last three fields are for
    lists that belong to no session; `keep_recent` and `keep_first` count messages. Raises `UsageError` for a window
    below 1.
    """

    max_context_tokens: int = DEFAULT_WINDOW
    system_prompt_tokens: int = HEADROOM.system_prompt_tokens
    compaction: CompactionConfig = CompactionConfig()
    token_counter: Counter | None = None
    keep_recent: int = LEVELS.keep_recent_messages
    keep_first: int = LEVELS.keep_first_messages
    tool_output_max_lines: int = OVERLAY.tool_output_max_lines

    def __post_init__(self) -> None:
        """Raises `UsageError` for a window below 1, of which no share can be taken."""
        if self.max_context_tokens < 1:
            raise UsageError(
                f"max_context_tokens is {self.max_context_tokens}: shares of a window need one of at least 1 token; "
                "give the model's context window"
            )

    @property
    def trigger(self) -> HeadroomTrigger:
        """The trigger with these values."""
        config = self.compaction
        return HeadroomTrigger(config.compact_at_pct, config.compact_budget_threshold_pct, self.system_prompt_tokens)

    def build_policy(self, counter: Counter, *, summary: SummarySettings | None = None) -> Policy:
        """Builds the preset `blocks` with these values. `counter` is used if there is no `token_counter`."""
        config = self.compaction
        policy = blocks(
            self.token_counter or counter,
            summary=summary,
            compact_at_pct=config.compact_at_pct,
            compact_budget_threshold_pct=config.compact_budget_threshold_pct,
            system_prompt_tokens=self.system_prompt_tokens,
            compaction_scope=to_scope(config.compaction_scope),
            keep_first_turns=config.keep_first_turns,
            keep_recent_turns=config.keep_recent_turns,
            max_summary_tokens=config.max_summary_tokens,
            tool_output_max_lines=config.tool_output_max_lines,
            keep_first=self.keep_first,
            keep_recent=self.keep_recent,
            focus_message=config.focus_message or "",
        )
        levels = (CutOutputsStage(self.tool_output_max_lines), *policy.in_memory_stages[1:])
        return replace(policy, in_memory_stages=levels)


def should_compact(estimated_tokens: int, config: ContextConfig | None) -> bool:
    """Whether messages of this size leave too little headroom; False without a configuration."""
    if config is None:
        return False
    limits = config.trigger.get_limits(config.max_context_tokens, output_reserve=0, floor=0)
    return limits.get_need(estimated_tokens) in ("soft", "hard")
