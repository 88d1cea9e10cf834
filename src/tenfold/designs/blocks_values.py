"""The values of the design behind the preset `blocks`: turns, sections, compaction blocks, configuration; their JSON.

A *turn* is a step with the user messages that led to it; a *loop* is a run. Positions and turn indices are the same
numbers here: turn 0 is the first of its loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Sequence
from datetime import datetime
from typing import Protocol, TypeAlias, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tenfold.errors import BadInput, UsageError
from tenfold.meter.counters import Counter
from tenfold.plan.stages.levels import CutOutputs
from tenfold.plan.stages.overlay import Scope
from tenfold.policies.blocks import HEADROOM, LEVELS, OVERLAY, blocks
from tenfold.policy import Policy
from tenfold.record.ask import Answer, Ask
from tenfold.record.message import Message, calls_of, result_of
from tenfold.summarize.ladder import Settings
from tenfold.trigger.triggers import DEFAULT_WINDOW, Headroom

T = TypeVar("T")
_NAMES = {
    "start_turn": "startTurn",
    "end_turn": "endTurn",
    "loop_id": "loopId",
    "turn_index": "turnIndex",
    "turn_id": "turnId",
    "created_at": "createdAt",
}


class TurnRange(Struct, frozen=True, rename=_NAMES, forbid_unknown_fields=True):
    """Turns `start_turn` to `end_turn` of a loop, both included."""

    start_turn: int
    end_turn: int

    def __post_init__(self) -> None:
        """Raises ValueError for a range that is none."""
        if not 0 <= self.start_turn <= self.end_turn:
            raise ValueError(f"turns {self.start_turn} to {self.end_turn} are no range: give 0 <= start <= end")


class TurnId(Struct, frozen=True, rename=_NAMES, forbid_unknown_fields=True):
    """The loop a message belongs to, and the number of its turn in it."""

    loop_id: str
    turn_index: int


class TurnMessage(Struct, frozen=True, rename=_NAMES, forbid_unknown_fields=True, omit_defaults=True):
    """A message and its turn, None for one that belongs to none."""

    message: Message
    turn_id: TurnId | None = None


class CompactedSection(Struct, frozen=True, forbid_unknown_fields=True):
    """What is shown for a range of turns."""

    range: TurnRange
    messages: tuple[Message, ...]


class CompactionBlock(Struct, frozen=True, rename=_NAMES, forbid_unknown_fields=True, omit_defaults=True):
    """What a compaction left of one loop. Only the latest has `keep_first` and `keep_recent`; absent parts are None."""

    keep_first: TurnRange | None = None
    keep_compacted: CompactedSection | None = None
    keep_recent: CompactedSection | None = None
    created_at: datetime | None = None


class LoopRecord(Struct, frozen=True, rename=_NAMES, forbid_unknown_fields=True, omit_defaults=True):
    """A loop: its original messages, untouched, and beside them what stands in view for it, if that is something else.

    `events` are what a `SessionRecorder` heard while the loop was open, with their numbers; `status` is its end.
    """

    loop_id: str
    messages: tuple[TurnMessage, ...]
    parent_loop_id: str | None = None
    compaction_block: CompactionBlock | None = None
    events: tuple[tuple[int, str], ...] = ()
    status: str = "completed"


def to_json(value: Struct) -> bytes:
    """A value of this page as JSON: `startTurn`, `endTurn`, `createdAt`, `turnId`; absent options are left out."""
    return msgspec.json.encode(value)


def from_json(kind: type[T], data: bytes | str) -> T:
    """A value of `kind` from its JSON. Raises `BadInput`, with the path, for anything that is not one: never a None."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as exc:
        raise BadInput(f"this is no {kind.__name__}: {exc}; it was written by `to_json`, or mend it there") from exc


# -- turns -------------------------------------------------------------------------------------------------------------


def turns_of(messages: Sequence[Message], loop_id: str = "") -> tuple[TurnMessage, ...]:
    """The messages of one loop with their turns: an answer, its results, and the user messages that led to it."""
    out: list[TurnMessage] = []
    index, answered = 0, False
    waiting: set[str] = set()
    for message in messages:
        result = result_of(message)
        if message.role == "assistant":
            index += answered
            answered = True
            waiting = {c.id for c in calls_of(message)}
        elif result is not None or message.origin == "tool":
            waiting.discard(result.call if result is not None else "")
        elif answered and not waiting:
            index, answered = index + 1, False
        out.append(TurnMessage(message, TurnId(loop_id, index)))
    return tuple(out)


class TurnMap(Struct, frozen=True):
    """The groups that messages fall into, as half-open ranges of indices. Ranges of turns address these groups."""

    groups: tuple[tuple[int, int], ...]

    @classmethod
    def from_messages(cls, messages: Sequence[TurnMessage | Message]) -> TurnMap:
        """Neighbours of one turn of one loop form a group; a message without a turn is a group of its own.

        A plain message has no turn; but a tool's result stays with the call before it.
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
        """How many groups there are."""
        return len(self.groups)

    def turn_msg_range(self, turn_index: int) -> tuple[int, int] | None:
        """The indices of a group's messages, the end excluded; None where there is no such group."""
        return self.groups[turn_index] if 0 <= turn_index < len(self.groups) else None

    def messages_for_range(self, range: TurnRange, all_msgs: Sequence[T]) -> Sequence[T]:
        """The messages of the groups `range` addresses, those it has; empty where it has none."""
        groups = self.groups[range.start_turn : range.end_turn + 1]
        return all_msgs[groups[0][0] : groups[-1][1]] if groups else all_msgs[:0]


# -- configuration -----------------------------------------------------------------------------------------------------


class FixedCount(Struct, frozen=True, tag="fixed_count", forbid_unknown_fields=True):
    """So many earlier loops."""

    count: int = 3


class TokenBudget(Struct, frozen=True, tag="token_budget", forbid_unknown_fields=True):
    """As many earlier loops as the window holds beside the current one."""


CompactionScope = FixedCount | TokenBudget


def scope_of(scope: CompactionScope) -> Scope:
    """The scope as the preset's setting `compaction_scope` has it."""
    return scope.count if isinstance(scope, FixedCount) else "token_budget"


Given: TypeAlias = T | Awaitable[T] | Generator[Ask, Answer, T]
"""What a strategy's method may give: the value, a coroutine for it, or a generator that yields Asks and returns it."""


class CompactionStrategy(Protocol):
    """Compacts a plain list, which belongs to no session."""

    def compact(self, messages: Sequence[Message], config: ContextConfig) -> Sequence[Message]:
        """The list to go on with; the one given is not changed."""
        ...


class BlockCompactionStrategy(Protocol):
    """Says what stays of a loop. Each method may be plain, a coroutine, or a generator that yields Asks.

    A plan may be made more than once, so `keep_first` and `keep_recent` must give the same for the same, and may ask no
    model; `keep_compacted` may (see `asked`). What raises is noted in the Outcome, and the design's own
    way is taken in its place.
    """

    def keep_first(self, record: LoopRecord, turn_map: TurnMap, config: CompactionConfig) -> Given[TurnRange | None]:
        """The turns of the latest loop that stay at its beginning."""
        ...

    def keep_recent(
        self, record: LoopRecord, turn_map: TurnMap, config: CompactionConfig
    ) -> Given[CompactedSection | None]:
        """The turns of the latest loop that stay at its end, their outputs cut."""
        ...

    def keep_compacted(
        self,
        record: LoopRecord,
        turn_map: TurnMap,
        config: CompactionConfig,
        is_most_recent: bool,  # noqa: FBT001 - the published signature
    ) -> Given[CompactedSection | None]:
        """What stands for the turns between those, or for the whole of an earlier loop."""
        ...


class CompactionConfig(Struct, frozen=True, kw_only=True):
    """When and how to compact. The sizes are those of the preset `blocks`, under the design's names.

    `in_memory_strategy` and `block_strategy` None: the design's own, which is what the preset does.
    """

    compact_at_pct: float = HEADROOM.compact_at
    compact_budget_threshold_pct: float = HEADROOM.least_headroom
    compaction_scope: CompactionScope = FixedCount()
    keep_first_turns: int = OVERLAY.keep_first
    keep_recent_turns: int = OVERLAY.keep_recent
    max_summary_tokens: int = OVERLAY.max_summary_tokens
    tool_output_max_lines: int = OVERLAY.tool_output_max_lines
    in_memory_strategy: CompactionStrategy | None = None
    block_strategy: BlockCompactionStrategy | None = None
    focus_message: str | None = None


class ContextConfig(Struct, frozen=True, kw_only=True):
    """A window and what to do when it fills. Where none is given, compaction is off.

    `max_context_tokens` is the model's window, the default only where that is not known. The last three count
    messages and are for lists that belong to no session. Raises `UsageError` for a window that can hold nothing.
    """

    max_context_tokens: int = DEFAULT_WINDOW
    system_prompt_tokens: int = HEADROOM.system_prompt_tokens
    compaction: CompactionConfig = CompactionConfig()
    token_counter: Counter | None = None
    keep_recent: int = LEVELS.keep_recent
    keep_first: int = LEVELS.keep_first
    tool_output_max_lines: int = OVERLAY.tool_output_max_lines

    def __post_init__(self) -> None:
        """Raises `UsageError` where a share of the window could not be told."""
        if self.max_context_tokens < 1:
            raise UsageError(
                f"max_context_tokens is {self.max_context_tokens}: shares of a window need one of at least 1 token; "
                "give the model's context window"
            )

    @property
    def trigger(self) -> Headroom:
        """When it acts."""
        config = self.compaction
        return Headroom(config.compact_at_pct, config.compact_budget_threshold_pct, self.system_prompt_tokens)

    def policy(self, counter: Counter, *, summary: Settings | None = None) -> Policy:
        """The preset `blocks` with these values. `counter` counts where the configuration names no `token_counter`."""
        config = self.compaction
        made = blocks(
            self.token_counter or counter,
            summary=summary,
            compact_at_pct=config.compact_at_pct,
            compact_budget_threshold_pct=config.compact_budget_threshold_pct,
            system_prompt_tokens=self.system_prompt_tokens,
            compaction_scope=scope_of(config.compaction_scope),
            keep_first_turns=config.keep_first_turns,
            keep_recent_turns=config.keep_recent_turns,
            max_summary_tokens=config.max_summary_tokens,
            tool_output_max_lines=config.tool_output_max_lines,
            keep_first=self.keep_first,
            keep_recent=self.keep_recent,
            focus_message=config.focus_message or "",
        )
        levels = (CutOutputs(self.tool_output_max_lines), *made.in_memory[1:])
        return replace(made, in_memory=levels)


def should_compact(estimated_tokens: int, config: ContextConfig | None) -> bool:
    """Whether messages of so many tokens leave too little headroom; never without a configuration."""
    if config is None:
        return False
    limits = config.trigger.limits(config.max_context_tokens, output_reserve=0, floor=0)
    return limits.need(estimated_tokens) in ("soft", "hard")
