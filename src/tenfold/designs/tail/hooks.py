"""The design's hooks: its events as values, and handlers that are registered by their names, around a session.

    hooks = TailHooks()

    @hooks.on("session_before_compact")
    async def keep_it_all(event, ctx):
        return SessionBeforeCompactResult(cancel=True)

    hooks.attach(session)

Attached to a session, they are asked and told of every compaction of it, whoever runs it: an agent, its model by the
tool, a host, or a command.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar, get_args

from tenfold.config.extensions import Extension
from tenfold.core.record.ask import Answer, ConsultAsk, Outcome
from tenfold.core.record.entry import Entry
from tenfold.designs.tail.compaction import Compaction, CompactionPreparation, CompactionResult, CompactionSettings
from tenfold.designs.tail.session_context import CompactionEntry, build_supplied_answer, get_compaction_entry
from tenfold.errors import NotFoundError, UsageError, suggest_nearest
from tenfold.events import BranchSwitch, CompactionEnd, CompactionFailure, CompactionSkip, Event, RunEnd, RunSave
from tenfold.session import Session
from tenfold.session.branches import BranchEntries

EventName = Literal[
    "save_point",
    "agent_end",
    "auto_compaction_start",
    "session_before_compact",
    "session_compact",
    "auto_compaction_end",
    "settled",
    "session_before_tree",
    "session_tree",
]

EVENT_NAMES: tuple[EventName, ...] = get_args(EventName)
"""The names of all events, in the order in which they first occur in a run."""


@dataclass(frozen=True)
class CompactOptions:
    """Options of `TailAgent.compact`, the design's `ctx.compact(options)`.

    `on_complete` is called with the result, only if there is one.
    """

    custom_instructions: str | None = None
    on_complete: Callable[[CompactionResult], object] | None = None


NO_OPTIONS = CompactOptions()
"""No instructions, and nobody to tell."""


@dataclass(frozen=True)
class SessionBeforeCompact:
    """A compaction is about to be written. A handler may cancel it or supply its result."""

    type: ClassVar[EventName] = "session_before_compact"
    preparation: CompactionPreparation
    branch_entries: tuple[Entry, ...]
    custom_instructions: str


@dataclass(frozen=True)
class SessionBeforeCompactResult:
    """What a handler may return: `cancel`, or a `compaction` that is used as it is, without a model call."""

    cancel: bool = False
    compaction: CompactionResult | None = None


@dataclass(frozen=True)
class SessionCompact:
    """A compaction was appended. Carries the new entry."""

    type: ClassVar[EventName] = "session_compact"
    compaction_entry: CompactionEntry
    from_hook: bool


@dataclass(frozen=True)
class AutoCompactionStart:
    """An automatic compaction begins."""

    type: ClassVar[EventName] = "auto_compaction_start"
    reason: Literal["threshold", "overflow"]


@dataclass(frozen=True)
class AutoCompactionEnd:
    """An automatic compaction ended. `will_retry` means that the request that was too long is sent again."""

    type: ClassVar[EventName] = "auto_compaction_end"
    result: CompactionResult | None = None
    aborted: bool = False
    will_retry: bool = False
    error_message: str = ""


@dataclass(frozen=True)
class SessionBeforeTree:
    """The user is about to move to another entry. A handler may cancel, supply a summary or change instructions."""

    type: ClassVar[EventName] = "session_before_tree"
    target_id: str
    old_leaf_id: str | None
    entries_to_summarize: BranchEntries
    custom_instructions: str


@dataclass(frozen=True)
class SessionBeforeTreeResult:
    """What a handler may return: `cancel`, a `summary` instead of the model's, or other `custom_instructions`."""

    cancel: bool = False
    summary: str = ""
    custom_instructions: str = ""


@dataclass(frozen=True)
class SessionTree:
    """The session moved to another entry. `summary_entry_id` is the branch summary there, "" if there is none."""

    type: ClassVar[EventName] = "session_tree"
    new_leaf_id: str | None
    old_leaf_id: str | None
    summary_entry_id: str


@dataclass(frozen=True)
class Milestone:
    """A run was stored (`save_point`), it ended (`agent_end`), or nothing is left to do (`settled`)."""

    type: Literal["save_point", "agent_end", "settled"]


TailEvent = (
    SessionBeforeCompact
    | SessionCompact
    | AutoCompactionStart
    | AutoCompactionEnd
    | SessionBeforeTree
    | SessionTree
    | Milestone
)

Handler = Callable[..., object]
HandlerT = TypeVar("HandlerT", bound=Handler)
CANCELLED = "a handler of {} cancelled it"


class TailHooks:
    """Handlers by event. They run in the order of registration, one after the other."""

    def __init__(self) -> None:
        self._handlers: dict[EventName, list[Handler]] = {name: [] for name in EVENT_NAMES}

    def on(self, name: EventName) -> Callable[[HandlerT], HandlerT]:
        """Registers a handler, a function or a coroutine function of `(event, ctx)`.

        As a decorator: `@hooks.on("session_before_compact")`. Raises `UsageError` for an event that does not exist.
        """
        if name not in EVENT_NAMES:
            raise UsageError(f"no event is called {name!r}{suggest_nearest(str(name), EVENT_NAMES)}")

        def register(function: HandlerT) -> HandlerT:
            self._handlers[name].append(function)
            return function

        return register

    def get_handlers(self, name: EventName) -> tuple[Handler, ...]:
        """Returns the handlers of an event, in order."""
        return tuple(self._handlers[name])

    def attach(
        self, session: Session, ctx: object = None, *, has_queue: Callable[[], bool] = lambda: False
    ) -> HookBinding:
        """Puts the handlers around every compaction of a session, beside the hooks that it has.

        `ctx` is what handlers get as their second argument; by default the session. While `has_queue()` is true, the
        end of a run does not settle the agent.
        """
        binding = HookBinding(self, session, session if ctx is None else ctx, has_queue)
        session.compactor.use_answerer(session.compactor.answerer.with_extensions([binding.extension]))
        return binding


async def _call_handler(handler: Handler, event: TailEvent, ctx: object) -> object:
    """Calls a handler; a plain one on a thread, so that it does not hold the event loop."""
    if inspect.iscoroutinefunction(handler):
        return await handler(event, ctx)
    result = await asyncio.to_thread(handler, event, ctx)
    return await result if inspect.isawaitable(result) else result


class HookBinding:
    """The handlers of one session. `extension` has what Tenfold calls; it calls the handlers of the design's events."""

    def __init__(self, hooks: TailHooks, session: Session, ctx: object, has_queue: Callable[[], bool]) -> None:
        """Called by `TailHooks.attach`."""
        self._hooks, self._session, self._ctx, self._has_queue = hooks, session, ctx, has_queue
        self._auto_reason: Literal["", "threshold", "overflow"] = ""
        self.extension = Extension("tail")
        self.extension.before(self._answer_consult)
        self.extension.on()(self._forward_event)

    async def emit(self, event: TailEvent) -> None:
        """Calls the handlers of an event, one after the other. What they return does not matter."""
        async for _ in self._ask(event, object):
            pass

    async def _ask(self, event: TailEvent, wanted: type[Any]) -> AsyncIterator[Any]:
        """Calls the handlers and yields what they return. One that raises, or returns another type, is reported."""
        report = self._session.compactor.answerer.report_problem
        for handler in self._hooks.get_handlers(event.type):
            try:
                result = await _call_handler(handler, event, self._ctx)
            except Exception as exc:  # noqa: BLE001 - a user's handler may raise anything; it is reported and ignored
                report(f"a handler of {event.type} raised {type(exc).__name__}: {exc}; it was ignored")
                continue
            if result is None:
                continue
            if isinstance(result, wanted):
                yield result
            else:
                report(
                    f"a handler of {event.type} gave a {type(result).__name__}, not a {wanted.__name__} or None; "
                    "it was ignored"
                )

    # -- before a compaction, and before a branch is left --------------------------------------------------------------

    async def _answer_consult(self, ask: ConsultAsk) -> Answer | None:
        if ask.purpose == "branch":
            return await self._answer_branch(ask)
        if ask.demand in ("check", "overflow"):
            self._auto_reason = "overflow" if ask.demand == "overflow" else "threshold"
            await self.emit(AutoCompactionStart(self._auto_reason))
        if not self._hooks.get_handlers("session_before_compact"):
            return None
        supplied = None
        event = await asyncio.to_thread(self._build_before_event, ask)
        async for result in self._ask(event, SessionBeforeCompactResult):
            if result.cancel:
                return Answer(cancel=True, error=CANCELLED.format(event.type))
            supplied = result.compaction or supplied
        if supplied is None:
            return None
        try:
            return await asyncio.to_thread(build_supplied_answer, self._session, supplied)
        except NotFoundError as exc:
            return Answer(error=f"the compaction that a handler supplied cannot be used: {exc}")

    def _build_before_event(self, ask: ConsultAsk) -> SessionBeforeCompact:
        session, policy = self._session, self._session.policy
        assert ask.covered is not None
        compaction = Compaction(
            session.compactor.answerer.model,
            settings=CompactionSettings.from_policy(policy),
            counter=policy.counter,
            summary=policy.summary,
        )
        view = session.view
        preparation = compaction.prepare_range(
            view, ask.covered, exchange_start=ask.exchange_start, tokens_before=ask.tokens_before
        )
        return SessionBeforeCompact(preparation, tuple(view.path.get_entries(0, view.length - 1)), ask.focus)

    async def _answer_branch(self, ask: ConsultAsk) -> Answer | None:
        if not self._hooks.get_handlers("session_before_tree"):
            return None
        assert ask.covered is not None
        first, last, path = ask.covered.first, ask.covered.last, self._session.view.path
        left = tuple(enumerate(await asyncio.to_thread(path.get_entries, first, last), first))
        event = SessionBeforeTree(ask.target_entry, self._session.leaf, left, ask.focus)
        answer = Answer()
        async for result in self._ask(event, SessionBeforeTreeResult):
            if result.cancel:
                return Answer(cancel=True, error=CANCELLED.format(event.type))
            answer = Answer(text=result.summary or answer.text, focus=result.custom_instructions or answer.focus)
        return answer

    # -- what has happened ---------------------------------------------------------------------------------------------

    def _forward_event(self, event: Event) -> Awaitable[None] | None:
        match event:
            case CompactionEnd(outcome=outcome) | CompactionSkip(outcome=outcome) | CompactionFailure(outcome=outcome):
                return self._report_compaction(outcome)
            case BranchSwitch():
                return self.emit(SessionTree(event.leaf, event.previous_leaf, event.branch))
            case RunSave() | RunEnd():
                return self._report_run(event)
            case _:
                return None

    async def _report_compaction(self, outcome: Outcome) -> None:
        result = None
        if outcome.status == "compacted":
            before = outcome.tokens_before
            entry = await asyncio.to_thread(get_compaction_entry, self._session, outcome.block, tokens_before=before)
            result = entry.result
            await self.emit(SessionCompact(entry, entry.from_hook))
        if self._auto_reason:
            reason, self._auto_reason = self._auto_reason, ""
            error = outcome.reason if outcome.status == "failed" else ""
            is_retried = reason == "overflow" and result is not None
            await self.emit(AutoCompactionEnd(result, outcome.status == "cancelled", is_retried, error))

    async def _report_run(self, event: RunSave | RunEnd) -> None:
        if isinstance(event, RunSave):
            await self.emit(Milestone("save_point"))
            await self.emit(Milestone("agent_end"))
            return
        if self._auto_reason:  # it was cancelled before it began to write
            self._auto_reason = ""
            await self.emit(AutoCompactionEnd(aborted=True))
        if event.status == "failed" and event.reason.startswith("ContextOverflow"):
            await self.emit(AutoCompactionEnd(error_message=event.reason))
        if event.status == "ok" and not self._has_queue():
            await self.emit(Milestone("settled"))
