"""The part of the design's agent that deals with compaction: phases, requests, hooks and events around a session.

The host makes the model calls and appends the messages. `TailHarness` checks at the end of each run and compacts the
session, with the design's hooks around it. A failed compaction never raises into a run that succeeded.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from tenfold.config.policy import Policy
from tenfold.designs.tail.compaction import (
    DEFAULT_SETTINGS,
    CompactionResult,
    CompactionSettings,
    SettingsProvider,
    build_preparation,
)
from tenfold.designs.tail.hook_events import (
    AutoCompactionEnd,
    AutoCompactionStart,
    EventName,
    Milestone,
    SessionBeforeCompact,
    SessionBeforeCompactResult,
    SessionBeforeTree,
    SessionBeforeTreeResult,
    SessionCompact,
    SessionTree,
    TailEvent,
    is_context_overflow,
)
from tenfold.designs.tail.session_context import (
    CompactionEntry,
    append_compaction,
    collect_entries_for_branch_summary,
    get_compaction_entry,
)
from tenfold.engine.call import Call
from tenfold.engine.drive import run_engine
from tenfold.errors import NotFoundError
from tenfold.record.ask import Answer, ConsultAsk, EngineResult, Outcome
from tenfold.record.block import Block
from tenfold.record.entry import Attempt, MessageEntry, Usage
from tenfold.record.message import Message
from tenfold.session import Session
from tenfold.session.branches import BranchOptions, NavigateResult, navigate
from tenfold.store.ids import IDS, get_current_time
from tenfold.trigger.limits import Demand

Phase = Literal["idle", "running", "compaction"]
Handler = Callable[[TailEvent], object]
T = TypeVar("T")
CANCELLED_REASON = "Compaction cancelled"
_SECOND_OVERFLOW = (
    "the request is too long again after a compaction; use a larger window, or make the newest messages smaller"
)


class CompactOptions(Struct, frozen=True):
    """Options of `ctx.compact()`. `on_complete` is called with the result, only if there is one."""

    custom_instructions: str | None = None
    on_complete: Callable[[CompactionResult], object] | None = None


class TailHarness:
    """A session under the policy `tail`, with the design's methods. `queue` holds messages for the next run."""

    def __init__(
        self, session: Session, window: int, *, settings: CompactionSettings | SettingsProvider = DEFAULT_SETTINGS
    ) -> None:
        """`settings` may be a callable, which is read at every check. `window` is the model's, in tokens."""
        self.session, self.window = session, window
        self._settings_provider = settings if callable(settings) else None
        self._settings = settings() if callable(settings) else settings
        counter, summary = session.policy.counter, session.policy.summary
        self._policy_builder: Callable[[CompactionSettings], Policy] = lambda settings: settings.build_policy(
            counter, summary
        )
        session.use_policy(lambda: self._policy_builder(self.settings))
        self.phase: Phase = "idle"
        self.outcome: Outcome | None = None
        self.queue: list[Message] = []
        self._pending_options: CompactOptions | None = None
        self._handlers: dict[EventName, list[Handler]] = {}
        self._abort_event = threading.Event()
        self._lock = threading.Lock()

    @property
    def settings(self) -> CompactionSettings:
        """The current settings. If the callable raises or returns unusable ones, the last good settings remain."""
        if self._settings_provider is not None:
            found = self._call_handler(self._read_settings, self._settings_provider, "the settings callable")
            self._settings = found if isinstance(found, CompactionSettings) else self._settings
        return self._settings

    def _read_settings(self, provider: SettingsProvider) -> CompactionSettings:
        settings = provider()
        self._policy_builder(settings)
        return settings

    # -- hooks and events ----------------------------------------------------------------------------------------------

    def on(self, name: EventName) -> Callable[[Handler], Handler]:
        """Registers a handler: `@harness.on("session_before_compact")`. Handlers run in order of registration."""

        def register(handler: Handler) -> Handler:
            self._handlers.setdefault(name, []).append(handler)
            return handler

        return register

    def _emit(self, event: TailEvent) -> Iterator[object]:
        """Calls the handlers one by one and yields what they return. One that raises is reported and ignored."""
        for handler in self._handlers.get(event.type, ()):
            yield self._call_handler(handler, event, f"a handler of {event.type}")

    def _call_handler(self, handler: Callable[[T], object], argument: T, name: str) -> object:
        try:
            return handler(argument)
        except Exception as exc:  # noqa: BLE001 - a user's handler may raise anything; it is reported and ignored
            report = self.session.answerer.problem_reporter
            if report is not None:
                report(f"{name} raised {type(exc).__name__}: {exc}; it was ignored")
            return None

    def _notify_handlers(self, event: TailEvent) -> None:
        for _ in self._emit(event):
            pass

    # -- runs ----------------------------------------------------------------------------------------------------------

    @contextmanager
    def _enter_phase(self, phase: Phase) -> Iterator[None]:
        with self._lock:
            if self.phase != "idle":
                raise RuntimeError(f"the session is in phase {self.phase!r}; wait until it is idle, then try again")
            self.phase = phase
        try:
            yield
        finally:
            self.phase = "idle"

    @contextmanager
    def invoke(self) -> Iterator[Session]:
        """One run: append to the session inside. If it ends without an exception, the check follows.

        Raises `RuntimeError` naming the phase unless the session is idle.
        """
        with self._enter_phase("running"):
            yield self.session
            self._notify_handlers(Milestone("save_point"))
            self._notify_handlers(Milestone("agent_end"))
            if self._pending_options is not None or self.should_compact():
                self.phase = "compaction"  # never idle in between: nobody else's compaction comes first
                self._compact_after_run()
        if not self.queue:
            self._notify_handlers(Milestone("settled"))

    def should_compact(self) -> bool:
        """Whether the session's reading is above window - reserve. It includes cached tokens and no old usage."""
        return self.settings.should_compact(self.session.take_reading(window=self.window).tokens, self.window)

    def _compact_after_run(self) -> None:
        if self._pending_options is not None:
            self._run_call(self._build_call("manual"), "")
            return
        self._notify_handlers(AutoCompactionStart("threshold"))
        entry = self._run_call(self._build_call("check"), "")
        self._report_auto_end(entry)

    def _report_auto_end(self, entry: CompactionEntry | None, *, retry: bool = False) -> None:
        outcome = self.outcome
        error = outcome.reason if outcome is not None and outcome.status == "failed" else ""
        result = entry.result if entry is not None else None
        self._notify_handlers(AutoCompactionEnd(result, self._abort_event.is_set(), retry and entry is not None, error))

    # -- compacting ----------------------------------------------------------------------------------------------------

    def compact(self, options: CompactOptions | None = None) -> None:
        """Requests a compaction at the end of the run (the design's `ctx.compact()`). Nothing happens before."""
        self._pending_options = options or CompactOptions()

    def run_compaction(self, custom_instructions: str | None = None) -> bool:
        """Compacts now. Returns False if there was nothing to do or it was cancelled or failed; see `outcome`.

        Raises `RuntimeError` naming the phase unless the session is idle.
        """
        with self._enter_phase("compaction"):
            entry = self._run_call(self._build_call("manual"), custom_instructions or "")
        if entry is None:
            return False
        self._notify_handlers(Milestone("save_point"))
        if not self.queue:
            self._notify_handlers(Milestone("settled"))
        return True

    def abort_compaction(self) -> None:
        """Cancels a running compaction: no Block is appended."""
        self._abort_event.set()

    def recover(self, error: str = "", *, usage: Usage | None = None) -> bool:
        """Compacts after an overflow. Call it after the run; True means that the request should be sent again.

        It acts on an overflow error, or a prompt larger than the window, of this session's model. It tries once until
        the next user message or successful answer.
        """
        if usage is not None and usage.model and self.session.model and usage.model != self.session.model:
            return False
        overflow = is_context_overflow(error) or (not error and usage is not None and usage.prompt > self.window)
        if not overflow or not self.settings.enabled:
            return False
        with self._enter_phase("compaction"):
            if self._has_tried_overflow():
                self._notify_handlers(AutoCompactionEnd(error_message=_SECOND_OVERFLOW))
                return False
            self._notify_handlers(AutoCompactionStart("overflow"))
            entry = self._run_call(self._build_call("overflow"), "")
            self._report_auto_end(entry, retry=True)
        return entry is not None

    def _has_tried_overflow(self) -> bool:
        """Whether the log has an overflow compaction since the last user message or successful answer."""
        path = self.session.view.path
        for position in reversed(range(path.length)):
            entry = path.get_entry(position)
            if isinstance(entry, Block) and entry.reason.startswith("overflow"):
                return True
            if isinstance(entry, MessageEntry) and (
                entry.message.origin == "human" or (entry.message.role == "assistant" and entry.message.status == "ok")
            ):
                return False
        return False

    def _build_call(self, demand: Literal["check", "manual", "overflow"]) -> Call:
        return replace(self.session.build_call(window=self.window), demand=demand)

    def _run_call(self, call: Call, instructions: str) -> CompactionEntry | None:
        """Runs one compaction. It clears the pending request at once, even if nothing is compacted."""
        options, self._pending_options = self._pending_options, None
        self._abort_event.clear()
        focus = (options.custom_instructions if options else "") or instructions
        with self.session.compactor.lock:
            self.outcome = self._compact_with_hooks(replace(call, focus=focus))
        if self.outcome.status != "compacted":
            return None
        entry = get_compaction_entry(self.session, self.outcome.block)
        self._notify_handlers(SessionCompact(entry, entry.from_hook))
        if options is not None and options.on_complete is not None:
            self._call_handler(options.on_complete, entry.result, "on_complete")
        return entry

    def _compact_with_hooks(self, call: Call) -> Outcome:
        session = self.session
        supplied: CompactionResult | None = None
        if self._handlers.get("session_before_compact"):
            decision = self._consult_handlers(call)
            if decision.cancel:
                return self._build_outcome("cancelled", "a handler cancelled it")
            supplied = decision.compaction
        if supplied is not None and not self._abort_event.is_set():
            demand: Demand = "overflow" if call.demand == "overflow" else "manual"
            try:
                return append_compaction(session, supplied, demand=demand)
            except NotFoundError as exc:
                return self._build_outcome("failed", f"the compaction that a handler supplied cannot be used: {exc}")
        effects, view = session.compactor.get_effects(call)
        result = run_engine(effects, session.compactor.build_start_notice().answerer)
        if self._abort_event.is_set():
            result = _as_cancelled(result)
        return session.compactor.apply_result(result, view)

    def _build_outcome(self, status: Literal["cancelled", "failed"], reason: str) -> Outcome:
        tokens = sum(self.session.get_message_sizes().values())
        return Outcome(status, reason, tokens, tokens, 0, policy=self.session.policy.name)

    def _consult_handlers(self, call: Call) -> SessionBeforeCompactResult:
        """Asks the handlers about the plan for this window. The first cancel ends it; the last result wins."""
        view = self.session.view
        entries = tuple(view.path.get_entries(0, view.length - 1)) if view.length else ()
        _, plan = self.session.preview(call)
        decision = SessionBeforeCompactResult()
        if plan is None or not plan.changed_pieces:
            return decision
        preparation = build_preparation(plan, self.settings, self.session.policy.summary)
        for result in self._emit(SessionBeforeCompact(preparation, entries, call.focus)):
            if isinstance(result, SessionBeforeCompactResult):
                if result.cancel:
                    return result
                decision = result if result.compaction is not None else decision
        return decision

    # -- branches ------------------------------------------------------------------------------------------------------

    def navigate_tree(self, target: str, options: BranchOptions | None = None) -> NavigateResult:
        """Moves to another entry, see `branches.navigate`. Raises `RuntimeError` unless the session is idle."""
        options = options or BranchOptions()
        options = options if options.window is not None else replace(options, window=self.window)
        with self._enter_phase("compaction"):
            old = self.session.leaf
            answerer = self.session.answerer
            hook = self._build_tree_hook(target, options) if self._handlers.get("session_before_tree") else None
            if hook is not None:
                self.session.use_answerer(replace(answerer, before_hooks=(*answerer.before_hooks, hook)))
            try:
                moved = navigate(self.session, target, options)
            finally:
                self.session.use_answerer(answerer)
        if moved.status == "moved":
            self._notify_handlers(SessionTree(moved.leaf, old, moved.branch))
        return moved

    def _build_tree_hook(self, target: str, options: BranchOptions) -> Callable[[ConsultAsk], Answer | None]:
        def consult_handlers(consult: ConsultAsk) -> Answer | None:
            old = self.session.leaf
            left = collect_entries_for_branch_summary(self.session, old, target).entries
            answer = Answer()
            for result in self._emit(SessionBeforeTree(target, old, left, options.focus)):
                if isinstance(result, SessionBeforeTreeResult):
                    if result.cancel:
                        return Answer(cancel=True, error="a handler cancelled it")
                    answer = Answer(
                        text=result.summary or answer.text, focus=result.custom_instructions or answer.focus
                    )
            return answer if consult.purpose == "branch" else None

        return consult_handlers


def _as_cancelled(result: EngineResult) -> EngineResult:
    """Replaces the result by a cancelled one without a Block. If it cost a model call, an Attempt records that."""
    before = result.outcome.tokens_before
    outcome = Outcome(
        "cancelled", CANCELLED_REASON, before, before, result.outcome.target, policy=result.outcome.policy
    )
    spent = result.outcome.spent
    if not spent.calls:
        return EngineResult(outcome)
    entry = Attempt(
        IDS.generate(),
        None,
        "",
        get_current_time(),
        outcome.policy,
        "cancelled",
        CANCELLED_REASON,
        before,
        outcome.target,
        spent,
    )
    return EngineResult(replace(outcome, spent=spent), entry)
