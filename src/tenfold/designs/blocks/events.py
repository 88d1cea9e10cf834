"""The hooks and events of the design behind the preset `blocks`, built on those of a session.

The order of a compaction: `before_compaction_start`, `CompactionStarted`, the work, `CompactionEnded`,
`after_compaction_end`. If the before-hook returns False, this compaction is skipped and no event is sent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from msgspec import Struct

from tenfold.config.extensions import Extension
from tenfold.core.record.ask import Answer, ConsultAsk, Outcome
from tenfold.core.record.block import Block
from tenfold.core.record.message import Message
from tenfold.designs.blocks.config import CompactionConfig, ContextConfig, should_compact, to_context_config
from tenfold.designs.blocks.loops import compact_now, count_compacted_loops, find_loops
from tenfold.designs.blocks.policy import DefaultCompaction, count_tokens, run_levels
from tenfold.events import CompactionEnd, CompactionFailure, CompactionSkip, CompactionStart, Event
from tenfold.session import Session
from tenfold.session.concurrency import wait_for_result
from tenfold.session.drive import Answerer
from tenfold.store.ids import get_current_time


class CompactionStarted(Struct, frozen=True, tag="compaction_started"):
    """A compaction is about to start. `timestamp` is in microseconds UTC."""

    loop_id: str
    estimated_tokens: int
    message_count: int
    timestamp: int


class CompactionEnded(Struct, frozen=True, tag="compaction_ended"):
    """A compaction ended. `loops_compacted` counts the loops whose view it changed, 0 if nothing was appended."""

    loop_id: str
    messages_before: int
    messages_after: int
    estimated_tokens_before: int
    estimated_tokens_after: int
    loops_compacted: int
    timestamp: int


class AgentStart(Struct, frozen=True, tag="agent_start"):
    """A loop begins. `kind` is "compaction" around a compaction that was requested by hand."""

    loop_id: str
    kind: Literal["run", "compaction"] = "run"


class AgentEnd(Struct, frozen=True, tag="agent_end"):
    """A loop ended, with its messages. `status` says whether it came to its end."""

    loop_id: str
    messages: tuple[Message, ...] = ()
    kind: Literal["run", "compaction"] = "run"
    status: Literal["completed", "aborted"] = "completed"


class MessageDelta(Struct, frozen=True, tag="message_delta"):
    """A piece of an answer that is still being written."""

    loop_id: str
    text: str


LoopEvent = CompactionStarted | CompactionEnded | AgentStart | AgentEnd | MessageDelta
Sender = Callable[[LoopEvent], Awaitable[None] | None]
BeforeHook = Callable[[int, int], bool | Awaitable[bool]]
"""`before_compaction_start(estimated_tokens, message_count)`: False skips this compaction."""
AfterHook = Callable[[int, int, int, int], Awaitable[None] | None]
"""`after_compaction_end(messages_before, messages_after, tokens_before, tokens_after)`."""


def with_hooks(
    session: Session,
    *,
    before_compaction_start: BeforeHook | None = None,
    after_compaction_end: AfterHook | None = None,
    sender: Sender | None = None,
) -> Answerer:
    """Returns the session's answerer with the design's hooks and events added, for `session.compactor.use_answerer`.

    Hooks and the sender may be plain functions or coroutines. If one raises, that is reported and the compaction goes
    on.
    """
    hooks = Extension("blocks")

    def run_before_hook(consult: ConsultAsk) -> Answer | None:
        assert before_compaction_start is not None
        is_wanted = wait_for_result(before_compaction_start(consult.tokens_before, _count_messages(session)))
        return Answer(cancel=True, error="before_compaction_start said False") if is_wanted is False else None

    def run_after_hook(outcome: Outcome, _block: Block) -> Awaitable[None] | None:
        assert after_compaction_end is not None
        figures = (outcome.messages_before, outcome.messages_after, outcome.tokens_before, outcome.tokens_after)
        return after_compaction_end(*figures)

    if before_compaction_start is not None:
        hooks.before(run_before_hook)
    if after_compaction_end is not None:
        hooks.after(run_after_hook)
    if sender is not None:
        hooks.on()(EventTranslator(session, sender).handle_event)
    return session.compactor.answerer.with_extensions([hooks])


def _count_messages(session: Session) -> int:
    return sum(1 for _ in session.view.get_visible_messages())


class EventTranslator:
    """Translates a session's events into the design's. A `CompactionEnded` follows each `CompactionStarted`."""

    def __init__(self, session: Session, sender: Sender, find_loop: Callable[[], str] | None = None) -> None:
        """`find_loop` says which loop a compaction without a run belongs to, by default the last one on the path."""
        self._session, self._sender = session, sender
        self._find_loop = find_loop or (lambda: get_current_loop_id(session))
        self._open_loop = ""

    def handle_event(self, event: Event) -> Awaitable[None] | None:
        """Sends an event for each start and its end. A compaction that never started sends none."""
        match event:
            case CompactionStart():
                self._session.refresh()
                self._open_loop = event.run or self._find_loop()
                count = _count_messages(self._session)
                return self._sender(CompactionStarted(self._open_loop, event.tokens, count, event.time))
            case CompactionEnd() | CompactionSkip() | CompactionFailure() if self._open_loop:
                self._session.refresh()
                loop, self._open_loop = self._open_loop, ""
                return self._sender(_build_end(loop, event.outcome, self._session, event.time))
            case _:
                return None


def _build_end(loop: str, outcome: Outcome, session: Session, time: int) -> CompactionEnded:
    return CompactionEnded(
        loop,
        outcome.messages_before,
        outcome.messages_after,
        outcome.tokens_before,
        outcome.tokens_after,
        count_compacted_loops(session, outcome),
        time,
    )


def get_current_loop_id(session: Session) -> str:
    """Returns the id of the last loop on the path, "" if there are no messages yet."""
    loops = find_loops(session.view)
    return loops[-1].loop_id if loops else ""


def compact_context(
    session: Session | None, config: ContextConfig | CompactionConfig | None, sender: Sender | None = None
) -> int:
    """Compacts a session on request and returns how many loops changed; 0 without a session or a configuration.

    The window is the configuration's unless that is the default, else the policy's or the model's, else 100,000. With
    a `sender`, which may be a coroutine, AgentStart and AgentEnd of kind "compaction" are sent around the two events.
    """
    if session is None or config is None or not (loop := get_current_loop_id(session)):
        return 0
    before = session.compactor.answerer
    session.compactor.use_answerer(with_hooks(session, sender=sender))
    call_reported("sender", sender, AgentStart(loop, "compaction"))
    try:
        return count_compacted_loops(session, compact_now(session, to_context_config(config)))
    finally:
        session.compactor.use_answerer(before)
        call_reported("sender", sender, AgentEnd(loop, (), "compaction"))


def call_reported(name: str, hook: Callable[..., object] | None, *given: object) -> object:
    """Calls a user's function, plain or a coroutine, and returns its value; None for none.

    What it raises is logged, and the work goes on.
    """
    if hook is None:
        return None
    try:
        return wait_for_result(hook(*given))
    except Exception as exc:  # noqa: BLE001 - a user's code may raise anything; it is reported and ignored
        Answerer().report_problem(f"{name}: it raised {type(exc).__name__}: {exc}; it was ignored")
        return None


# -- lists that belong to no session -----------------------------------------------------------------------------------


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
    levels stand in.
    """
    config = None if config is None else to_context_config(config)
    if config is None or not should_compact(before := count_tokens(messages, config), config):
        return list(messages)
    count = len(messages)
    if call_reported("before_compaction_start", before_compaction_start, before, count) is False:
        return list(messages)
    call_reported("sender", sender, CompactionStarted(loop_id, before, count, get_current_time()))
    shorter = _shorten_list(messages, config)
    after = count_tokens(shorter, config)
    ended = CompactionEnded(loop_id, count, len(shorter), before, after, 0, get_current_time())
    call_reported("sender", sender, ended)
    call_reported("after_compaction_end", after_compaction_end, count, len(shorter), before, after)
    return shorter


def _shorten_list(messages: Sequence[Message], config: ContextConfig) -> list[Message]:
    own = config.compaction.in_memory_strategy
    if own is not None and not isinstance(own, DefaultCompaction):
        shorter = call_reported("in_memory_strategy", lambda: list(own.compact(list(messages), config)))
        if isinstance(shorter, list):
            return shorter
    target = config.trigger.get_limits(config.max_context_tokens, output_reserve=0, floor=0).target
    return run_levels(messages, config, target)
