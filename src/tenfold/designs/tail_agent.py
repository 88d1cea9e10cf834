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

from tenfold.branches import Navigated, Wish, navigate
from tenfold.designs.tail_compaction import (
    DEFAULT,
    CompactionResult,
    CompactionSettings,
    SettingsProvider,
    preparation_of,
)
from tenfold.designs.tail_events import (
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
from tenfold.designs.tail_session import (
    CompactionEntry,
    append_compaction,
    collect_entries_for_branch_summary,
    compaction_entry,
)
from tenfold.drive import run
from tenfold.engine import Call
from tenfold.errors import NotFound
from tenfold.log.ids import IDS, now
from tenfold.policy import Policy
from tenfold.record.ask import Answer, Consult, Outcome, Verdict
from tenfold.record.block import Block
from tenfold.record.entry import Attempt, Said, Usage
from tenfold.record.message import Message
from tenfold.session import Session
from tenfold.trigger.triggers import Demand

Phase = Literal["idle", "running", "compaction"]
Handler = Callable[[TailEvent], object]
T = TypeVar("T")
CANCELLED = "Compaction cancelled"
_TWICE = "the request is too long again after a compaction; use a larger window, or make the newest messages smaller"


class CompactOptions(Struct, frozen=True):
    """Options of `ctx.compact()`. `on_complete` is called with the result, only if there is one."""

    custom_instructions: str | None = None
    on_complete: Callable[[CompactionResult], object] | None = None


class TailHarness:
    """A session under the policy `tail`, with the design's methods. `queue` holds messages for the next run."""

    def __init__(
        self, session: Session, window: int, *, settings: CompactionSettings | SettingsProvider = DEFAULT
    ) -> None:
        """`settings` may be a callable, which is read at every check. `window` is the model's, in tokens."""
        self.session, self.window = session, window
        self._read = settings if callable(settings) else None
        self._settings = settings() if callable(settings) else settings
        counter, summary = session.policy.counter, session.policy.summary
        self._policy: Callable[[CompactionSettings], Policy] = lambda settings: settings.policy(counter, summary)
        session.policy = lambda: self._policy(self.settings)
        self.phase: Phase = "idle"
        self.outcome: Outcome | None = None
        self.queue: list[Message] = []
        self._requested: CompactOptions | None = None
        self._handlers: dict[EventName, list[Handler]] = {}
        self._abort = threading.Event()
        self._lock = threading.Lock()

    @property
    def settings(self) -> CompactionSettings:
        """The current settings. If the callable raises or returns unusable ones, the last good settings remain."""
        if self._read is not None:
            found = self._given(self._usable, self._read, "the settings callable")
            self._settings = found if isinstance(found, CompactionSettings) else self._settings
        return self._settings

    def _usable(self, read: SettingsProvider) -> CompactionSettings:
        settings = read()
        self._policy(settings)
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
            yield self._given(handler, event, f"a handler of {event.type}")

    def _given(self, handler: Callable[[T], object], told: T, name: str) -> object:
        try:
            return handler(told)
        except Exception as exc:  # noqa: BLE001 - a user's handler may raise anything; it is reported and ignored
            report = self.session.answerer.report
            if report is not None:
                report(f"{name} raised {type(exc).__name__}: {exc}; it was ignored")
            return None

    def _tell(self, event: TailEvent) -> None:
        for _ in self._emit(event):
            pass

    # -- runs ----------------------------------------------------------------------------------------------------------

    @contextmanager
    def _phase(self, phase: Phase) -> Iterator[None]:
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
        with self._phase("running"):
            yield self.session
            self._tell(Milestone("save_point"))
            self._tell(Milestone("agent_end"))
            if self._requested is not None or self.should_compact():
                self.phase = "compaction"  # never idle in between: nobody else's compaction comes first
                self._end_of_run()
        if not self.queue:
            self._tell(Milestone("settled"))

    def should_compact(self) -> bool:
        """Whether the session's reading is above window - reserve. It includes cached tokens and no old usage."""
        return self.settings.should_compact(self.session.reading(window=self.window).tokens, self.window)

    def _end_of_run(self) -> None:
        if self._requested is not None:
            self._run(self._call("manual"), "")
            return
        self._tell(AutoCompactionStart("threshold"))
        entry = self._run(self._call("check"), "")
        self._ended(entry)

    def _ended(self, entry: CompactionEntry | None, *, retry: bool = False) -> None:
        outcome = self.outcome
        error = outcome.reason if outcome is not None and outcome.status == "failed" else ""
        result = entry.result if entry is not None else None
        self._tell(AutoCompactionEnd(result, self._abort.is_set(), retry and entry is not None, error))

    # -- compacting ----------------------------------------------------------------------------------------------------

    def compact(self, options: CompactOptions | None = None) -> None:
        """Requests a compaction at the end of the run (the design's `ctx.compact()`). Nothing happens before."""
        self._requested = options or CompactOptions()

    def run_compaction(self, custom_instructions: str | None = None) -> bool:
        """Compacts now. Returns False if there was nothing to do or it was cancelled or failed; see `outcome`.

        Raises `RuntimeError` naming the phase unless the session is idle.
        """
        with self._phase("compaction"):
            entry = self._run(self._call("manual"), custom_instructions or "")
        if entry is None:
            return False
        self._tell(Milestone("save_point"))
        if not self.queue:
            self._tell(Milestone("settled"))
        return True

    def abort_compaction(self) -> None:
        """Cancels a running compaction: no Block is appended."""
        self._abort.set()

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
        with self._phase("compaction"):
            if self._tried():
                self._tell(AutoCompactionEnd(error_message=_TWICE))
                return False
            self._tell(AutoCompactionStart("overflow"))
            entry = self._run(self._call("overflow"), "")
            self._ended(entry, retry=True)
        return entry is not None

    def _tried(self) -> bool:
        """Whether the log has an overflow compaction since the last user message or successful answer."""
        path = self.session.view.path
        for position in reversed(range(path.length)):
            entry = path.at(position)
            if isinstance(entry, Block) and entry.reason.startswith("overflow"):
                return True
            if isinstance(entry, Said) and (
                entry.message.origin == "human" or (entry.message.role == "assistant" and entry.message.status == "ok")
            ):
                return False
        return False

    def _call(self, demand: Literal["check", "manual", "overflow"]) -> Call:
        return replace(self.session.call(window=self.window), demand=demand)

    def _run(self, call: Call, instructions: str) -> CompactionEntry | None:
        """Runs one compaction. It clears the pending request at once, even if nothing is compacted."""
        options, self._requested = self._requested, None
        self._abort.clear()
        focus = (options.custom_instructions if options else "") or instructions
        with self.session.compacting:
            self.outcome = self._carried_out(replace(call, focus=focus))
        if self.outcome.status != "compacted":
            return None
        entry = compaction_entry(self.session, self.outcome.block)
        self._tell(SessionCompact(entry, entry.from_hook))
        if options is not None and options.on_complete is not None:
            self._given(options.on_complete, entry.result, "on_complete")
        return entry

    def _carried_out(self, call: Call) -> Outcome:
        session = self.session
        supplied: CompactionResult | None = None
        if self._handlers.get("session_before_compact"):
            decision = self._asked(call)
            if decision.cancel:
                return self._ending("cancelled", "a handler cancelled it")
            supplied = decision.compaction
        if supplied is not None and not self._abort.is_set():
            demand: Demand = "overflow" if call.demand == "overflow" else "manual"
            try:
                return append_compaction(session, supplied, demand=demand)
            except NotFound as exc:
                return self._ending("failed", f"the compaction that a handler supplied cannot be used: {exc}")
        effects, view = session.effects(call)
        result = run(effects, session.answering())
        if self._abort.is_set():
            result = _cancelled(result)
        return session.install(result, view)

    def _ending(self, status: Literal["cancelled", "failed"], reason: str) -> Outcome:
        tokens = sum(self.session.sizes().values())
        return Outcome(status, reason, tokens, tokens, 0, policy=self.session.policy.name)

    def _asked(self, call: Call) -> SessionBeforeCompactResult:
        """Asks the handlers about the plan for this window. The first cancel ends it; the last result wins."""
        view = self.session.view
        entries = tuple(view.path.span(0, view.length - 1)) if view.length else ()
        _, plan = self.session.preview(call)
        decision = SessionBeforeCompactResult()
        if plan is None or not plan.changed:
            return decision
        preparation = preparation_of(plan, self.settings, self.session.policy.summary)
        for result in self._emit(SessionBeforeCompact(preparation, entries, call.focus)):
            if isinstance(result, SessionBeforeCompactResult):
                if result.cancel:
                    return result
                decision = result if result.compaction is not None else decision
        return decision

    # -- branches ------------------------------------------------------------------------------------------------------

    def navigate_tree(self, target: str, wish: Wish | None = None) -> Navigated:
        """Moves to another entry, see `branches.navigate`. Raises `RuntimeError` unless the session is idle."""
        wish = wish or Wish()
        wish = wish if wish.window is not None else replace(wish, window=self.window)
        with self._phase("compaction"):
            old = self.session.leaf
            answerer = self.session.answerer
            hook = self._tree_hook(target, wish) if self._handlers.get("session_before_tree") else None
            if hook is not None:
                self.session.answerer = replace(answerer, before=(*answerer.before, hook))
            try:
                moved = navigate(self.session, target, wish)
            finally:
                self.session.answerer = answerer
        if moved.status == "moved":
            self._tell(SessionTree(moved.leaf, old, moved.branch))
        return moved

    def _tree_hook(self, target: str, wish: Wish) -> Callable[[Consult], Answer | None]:
        def before(consult: Consult) -> Answer | None:
            old = self.session.leaf
            left = collect_entries_for_branch_summary(self.session, old, target).entries
            answer = Answer()
            for result in self._emit(SessionBeforeTree(target, old, left, wish.focus)):
                if isinstance(result, SessionBeforeTreeResult):
                    if result.cancel:
                        return Answer(cancel=True, error="a handler cancelled it")
                    answer = Answer(
                        text=result.summary or answer.text, focus=result.custom_instructions or answer.focus
                    )
            return answer if consult.purpose == "branch" else None

        return before


def _cancelled(verdict: Verdict) -> Verdict:
    """Replaces the result by a cancelled one without a Block. If it cost a model call, an Attempt records that."""
    before = verdict.outcome.tokens_before
    outcome = Outcome("cancelled", CANCELLED, before, before, verdict.outcome.target, policy=verdict.outcome.policy)
    spent = verdict.outcome.spent
    if not spent.calls:
        return Verdict(outcome)
    entry = Attempt(IDS.new(), None, "", now(), outcome.policy, "cancelled", CANCELLED, before, outcome.target, spent)
    return Verdict(replace(outcome, spent=spent), entry)
