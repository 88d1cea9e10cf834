"""The hooks and events of the design behind the preset `blocks`, built on those of a session.

The order of a compaction: `before_compaction_start`, `CompactionStarted`, the work, `CompactionEnded`,
`after_compaction_end`. If the before-hook returns False, this compaction is skipped and no event is sent.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tenfold.core.record.ask import Answer, ConsultAsk, Outcome
from tenfold.core.record.block import Block
from tenfold.core.record.message import Message
from tenfold.designs.blocks.config import ContextConfig, should_compact
from tenfold.designs.blocks.loops import compact_context, count_compacted_loops, find_loops
from tenfold.designs.blocks.policy import DefaultCompaction, count_tokens, run_levels
from tenfold.designs.blocks.runner import run_reported, run_without_model
from tenfold.errors import UsageError
from tenfold.events import CompactionEnd, CompactionFailure, CompactionSkip, CompactionStart, Event
from tenfold.session import Session
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
    """A loop ended, with its own messages or all up to them. `status` says whether it came to its end."""

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


def check_hooks(before: BeforeHook | None, after: AfterHook | None, sender: Sender | None) -> None:
    """Raises `UsageError` for a hook that cannot be called with what it is called with."""
    forms = (
        ("before_compaction_start", before, ("estimated_tokens", "message_count")),
        ("after_compaction_end", after, ("messages_before", "messages_after", "tokens_before", "tokens_after")),
        ("sender", sender, ("event",)),
    )
    for name, hook, arguments in forms:
        form = f"{name}({', '.join(arguments)})"
        if hook is not None and not callable(hook):
            raise UsageError(f"{name} is {hook!r}; give a function or coroutine function {form}")
        try:
            if hook is not None:
                inspect.signature(hook).bind(*arguments)
        except TypeError as exc:
            raise UsageError(f"{name} cannot be called as {form}: {exc}") from exc
        except ValueError:  # some built-in functions do not tell
            continue


def with_hooks(
    session: Session,
    *,
    before_compaction_start: BeforeHook | None = None,
    after_compaction_end: AfterHook | None = None,
    sender: Sender | None = None,
) -> Answerer:
    """Returns the session's answerer with the design's hooks and events added, for `session.compactor.use_answerer`.

    Hooks and the sender may be plain functions or coroutines. If one raises, that is reported and the compaction goes
    on. Raises `UsageError` for one that takes other arguments.
    """
    check_hooks(before_compaction_start, after_compaction_end, sender)
    answerer = session.compactor.answerer

    def run_before_hook(consult: ConsultAsk) -> Answer | None:
        assert before_compaction_start is not None
        tokens, messages = consult.tokens_before, _count_messages(session)
        is_refused = _call_hook("before_compaction_start", before_compaction_start, tokens, messages) is False
        return Answer(cancel=True, error="before_compaction_start said False") if is_refused else None

    def run_after_hook(outcome: Outcome, _block: Block) -> None:
        assert after_compaction_end is not None
        figures = (outcome.messages_before, outcome.messages_after, outcome.tokens_before, outcome.tokens_after)
        _call_hook("after_compaction_end", after_compaction_end, *figures)

    def send_event(event: LoopEvent) -> None:
        assert sender is not None
        _call_hook("sender", sender, event)

    return replace(
        answerer,
        before_hooks=(*answerer.before_hooks, *([run_before_hook] if before_compaction_start is not None else [])),
        after_hooks=(*answerer.after_hooks, *([run_after_hook] if after_compaction_end is not None else [])),
        listeners=(
            *answerer.listeners,
            *([EventTranslator(session, send_event).handle_event] if sender is not None else []),
        ),
    )


def _call_hook(name: str, hook: Callable[..., object], *given: object) -> object:
    """Calls a hook, plain or a coroutine, and returns its value. Raises `UsageError` with the hook's name if it fails.

    A session's answerer reports that and goes on.
    """
    result = run_without_model(lambda: hook(*given))
    if result.error:
        raise UsageError(f"{name}: {result.error}")
    return result.value


def _count_messages(session: Session) -> int:
    return sum(1 for _ in session.view.get_visible_messages())


class EventTranslator:
    """Translates a session's events into the design's. A `CompactionEnded` follows each `CompactionStarted`."""

    def __init__(
        self, session: Session, sender: Callable[[LoopEvent], None], find_loop: Callable[[], str] | None = None
    ) -> None:
        """`find_loop` says which loop a compaction without a run belongs to, by default the last one on the path."""
        self._session, self._sender = session, sender
        self._find_loop = find_loop or (lambda: get_current_loop_id(session))
        self._open_loop = ""

    def handle_event(self, event: Event) -> None:
        """Sends an event for each start and its end. A compaction that never started sends none."""
        match event:
            case CompactionStart():
                self._session.refresh()
                self._open_loop = event.run or self._find_loop()
                self._sender(
                    CompactionStarted(self._open_loop, event.tokens, _count_messages(self._session), event.time)
                )
            case (
                CompactionEnd(outcome=outcome) | CompactionSkip(outcome=outcome) | CompactionFailure(outcome=outcome)
            ) if self._open_loop:
                self._session.refresh()
                loop, self._open_loop = self._open_loop, ""
                self._sender(
                    CompactionEnded(
                        loop,
                        outcome.messages_before,
                        outcome.messages_after,
                        outcome.tokens_before,
                        outcome.tokens_after,
                        count_compacted_loops(self._session, outcome),
                        event.time,
                    )
                )
            case _:
                return


def get_current_loop_id(session: Session) -> str:
    """Returns the id of the last loop on the path, "" if there are no messages yet."""
    loops = find_loops(session.view)
    return loops[-1].loop_id if loops else ""


def compact_context_with_sender(session: Session | None, config: ContextConfig | None, sender: Sender) -> int:
    """Like `compact_context`, and sends AgentStart, CompactionStarted, CompactionEnded and AgentEnd.

    The sender may be a plain function or a coroutine. If it raises, that is reported and the work goes on.
    """
    if session is None or config is None:
        return 0
    loop = get_current_loop_id(session)
    before = session.compactor.answerer
    run_reported("sender", lambda: sender(AgentStart(loop, "compaction")))
    session.compactor.use_answerer(with_hooks(session, sender=sender))
    try:
        return compact_context(session, config)
    finally:
        session.compactor.use_answerer(before)
        run_reported("sender", lambda: sender(AgentEnd(loop, (), "compaction")))


# -- lists that belong to no session -----------------------------------------------------------------------------------


def compact_in_memory(
    messages: Sequence[Message],
    config: ContextConfig | None,
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
    count, before = len(messages), count_tokens(messages, config)
    if not should_compact(before, config):
        return list(messages)
    if before_compaction_start is not None:
        hook = before_compaction_start
        if run_reported("before_compaction_start", lambda: hook(before, count)) is False:
            return list(messages)
    send = sender or (lambda _: None)
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
        strategy = own
        result = run_without_model(lambda: strategy.compact(list(messages), config))
        if isinstance(result.value, Sequence) and all(isinstance(each, Message) for each in result.value):
            return list(result.value)
        problem = result.error or f"it gave a {type(result.value).__name__}; give a list of Message"
        Answerer().report_problem(f"in_memory_strategy: {problem}; it was ignored")
    target = config.trigger.get_limits(config.max_context_tokens, output_reserve=0, floor=0).target
    return run_levels(messages, config, target)
