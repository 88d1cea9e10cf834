"""Runs the compactions of one conversation: the checks, what is prepared ahead, and appending the result.

The lock is held for a whole compaction, the conversation's own lock only for short steps. So a compaction blocks no
reader, and messages may be appended while a model writes.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from functools import partial
from typing import Protocol, runtime_checkable

from msgspec.structs import replace

from tenfold.compaction.engine.call import Call
from tenfold.compaction.engine.compact import Effects, compact, preview, take_reading
from tenfold.compaction.engine.model_breaker import explain_pause
from tenfold.compaction.engine.policy import CheckPoint, Policy
from tenfold.compaction.engine.redo import RedoRequest, build_redo_policy, redo
from tenfold.compaction.plan.pipeline import Plan
from tenfold.compaction.summarize.prompt_files import with_prompts
from tenfold.compaction.trigger.limits import Decision, Limits, Need, check_window
from tenfold.compaction.trigger.sizes import Size, convert_size, parse_size
from tenfold.config.policies import POLICIES
from tenfold.config.settings import build_policy
from tenfold.core.meter.counters import choose_counter
from tenfold.core.meter.estimators import MAX_SLOPE, expire_reports
from tenfold.core.meter.windows import find_window
from tenfold.core.record.ask import ConsultAsk, EngineResult, Outcome
from tenfold.core.record.block import Block
from tenfold.core.record.entry import Attempt, Entry, get_message
from tenfold.core.record.token_reading import NO_TOKENS, Counted, ProviderTokens, Reading
from tenfold.core.view.fold import View
from tenfold.core.view.path import Path
from tenfold.errors import LostRace, TenfoldError, UsageError
from tenfold.events import CompactionSkip, CompactionStart, CompactionWarning, build_event, build_summary_failure
from tenfold.models.choose import AUTO, resolve_models
from tenfold.models.prices import find_rates
from tenfold.session.concurrency import CompactionLock
from tenfold.session.conversation import Conversation
from tenfold.session.drive import COMMIT, Answerer, Finished, Steps, advance, run_engine
from tenfold.session.preparation import Preparation, PreparedResult, ThreadPreparation
from tenfold.session.undoing import BlockPlanner, plan_restoring, plan_setting_aside
from tenfold.store.ids import IDS, get_current_time
from tenfold.telemetry import trace_compaction

PolicyProvider = Callable[[], Policy]
"""Returns the policy in force. It is called at every check, so that a change applies without a restart."""
SESSION_MODEL = "the session's model"
"""The name of the session's own model, which writes the summaries when the policy names no model.

It stands where the model has no name of its own.
"""

LEASE_SECONDS = 120
"""How long one process alone has models write for a session: longer than most of them take. If it dies, others ask
none for so long, and compact by code where they must."""
_BUSY = "another process is compacting this session"
_NO_MODEL = "the session was opened without one: pass it, as in Answerer(model=ProviderModel(NAME))"


def name_writer(model: object) -> str:
    """Returns the name of the model that writes a session's summaries, "" for None.

    A provider's model has its own, "openai:gpt-4o-mini": by it its window, its tokenizer and its prices are known.
    """
    name = getattr(model, "model", "")
    named = isinstance(name, str) and ":" in name
    return "" if model is None else name if named else SESSION_MODEL


def check_model(model: object) -> None:
    """Raises `UsageError` for a model that is no name."""
    if model is not None and not isinstance(model, str):
        raise UsageError(f"model is {model!r}: it is the agent's model by name, as in 'gpt-4o'")


def build_provider(policy: Policy | PolicyProvider | str, model: str) -> PolicyProvider:
    """Returns what provides a policy: given a name, the policy of that name with its published settings.

    Raises `UsageError` for an unknown name and for what is no policy.
    """
    check_model(model)
    if isinstance(policy, str):
        policy = build_policy(policy, choose_counter(model or None).counter)
    if isinstance(policy, Policy):
        built = policy
        return lambda: built
    if not callable(policy):
        raise UsageError(f"policy is {policy!r}: it is a name ({', '.join(POLICIES)}), a Policy, or what returns one")
    return policy


def find_check_point(path: Path) -> CheckPoint:
    """Finds which check point the end of a path is, by its last message: a tool result, a user message or an answer."""
    for at in range(path.length - 1, -1, -1):
        message = get_message(path.get_entry(at))
        if message is not None:
            if message.origin == "tool":
                return "after_tools"
            return "end_of_run" if message.role == "assistant" else "user_message"
    return "before_call"


@runtime_checkable
class Archive(Protocol):
    """Keeps what Blocks hold, besides the log. One object may serve many sessions; each call says which one it is for.

    Each method returns what could not be done, "" if all was.
    """

    def receive(self, session: Conversation, block: Block) -> str:
        """Is given each Block before it is appended. With any answer but "" the whole compaction fails.

        Entries of its own (`append_custom`) may be appended. If that raises `LostRace`, the compaction is superseded.
        """
        ...

    def finish(self, session: Conversation, block: Block, *, is_appended: bool) -> str:
        """Is told what became of a Block that it has received."""
        ...

    def follow(self, session: Conversation, before: View) -> str:
        """Is told that other Blocks are in force than in `before`: after undo, redo or a change of branch."""
        ...


class CompactionRunner:
    """Compacts a conversation. `session.compactor` is for callers who drive the engine themselves."""

    def __init__(
        self,
        conversation: Conversation,
        policy: PolicyProvider,
        *,
        model: str,
        answerer: Answerer | None,
        archive: Archive | None,
    ) -> None:
        """For the arguments see `Session`. `archive` receives every Block before it is appended."""
        self.policy_provider, self.model = policy, model
        self.window: int | None = None
        self.answerer, self.archive = answerer or Answerer(), archive
        self.lock = CompactionLock()
        self.outcome: Outcome | None = None
        self.preparation: Preparation | None = None
        self._conversation = conversation
        self._completed: tuple[Policy, tuple[str, str], Policy] | None = None
        self._limits: tuple[tuple[object, int, int, int], Limits] | None = None
        self._told_model: str | None = None
        self._least_slopes: dict[str, float] = {}
        self._said_doubts: set[str] = set()
        self._lease_holder = IDS.generate()

    def __repr__(self) -> str:
        last = "no request yet" if self.outcome is None else repr(self.outcome)
        return f"<{type(self).__name__} of session {self._conversation.address.session!r}: {last}>"

    # -- the policy, the model and who answers -------------------------------------------------------------------------

    @property
    def policy(self) -> Policy:
        """The policy in force now. If it names no model, the session's own (if there is one) writes the summaries."""
        return self.get_policy()

    def get_policy(self, answerer: Answerer | None = None) -> Policy:
        """Returns the policy in force with the packaged prompts and the counter that the session was opened with.

        If the policy names no model and the answerer has one, that one writes the summaries. For "auto" they are those
        that `choose_writers` chooses by the model of the agent, if it knows that model's provider.
        """
        model = (answerer or self.answerer).model
        writer = name_writer(model)
        policy, key = self.policy_provider(), (writer, self.model)
        if self._completed is None or self._completed[0] is not policy or self._completed[1] != key:
            summary = with_prompts(policy.summary)
            if model is not None:
                summary = replace(summary, models=resolve_models(summary.models, self.model))
            elif AUTO in summary.models:
                named = tuple(name for name in summary.models if name != AUTO)
                summary = replace(summary, models=named, no_model=_NO_MODEL)
            if model is not None and not summary.models:
                summary = replace(summary, models=(writer,))
            self._completed = policy, key, replace(policy, summary=summary, counter=self._conversation.counter)
        return self._completed[2]

    def use_policy(self, policy: Policy | PolicyProvider | str) -> None:
        """Takes another policy, its name, or another provider of it, for the checks to come. The counter stays.

        `policy_provider` is the provider in force. It is called at every check, so it may follow what it reads.
        """
        self.policy_provider = build_provider(policy, self.model)

    def use_model(self, model: str) -> None:
        """Names another model of the agent: its window and its calibration are used from now on."""
        self.model = model

    def use_window(self, window: int | None) -> None:
        """Names the model's window in tokens, for requests that name none. Without it, it is looked up by the model."""
        if window is not None:
            check_window(window)
        self.window = window

    def use_answerer(self, answerer: Answerer) -> None:
        """Takes another model, or other hooks and listeners, for the compactions to come."""
        self.answerer = answerer

    # -- the call, and what it is held against -------------------------------------------------------------------------

    def build_call(self, *, to: Size | str | None = None, window: int | None = None, floor: int = 0) -> Call:
        """Builds a compaction call with the session's model, window and calibration filled in.

        With a target (`to`) it is a manual call, which no trigger holds back; without one it is an automatic check. A
        target is in tokens, or a share ("10%") of the whole path and the floor. Replace fields of the result for
        anything else.
        """
        model, policy = self.model, self.policy
        size = None if to is None else parse_size("to", to)
        whole = self._conversation.count_uncompacted() + floor if isinstance(size, float) else 0
        target = None if size is None else Counted(convert_size(size, whole))
        known = policy.choose_window(self.window or (find_window(model) if model else None))
        return Call(
            "check" if target is None else "manual",
            target,
            window if window is not None else known,
            model=model,
            floor=Counted(floor),
            calibration=self._conversation.calibration,
            has_before_hooks=bool(self.answerer.before_hooks or self.answerer.listeners),
            find_rates=find_rates,
            least_slope=self._least_slopes.get(model, 0.0),
        )

    def build_check(self, call: Call, *, has_run_end_check: bool = False) -> Call | None:
        """Builds the check of a request, None if none is due. For `call` see `Requests.sync_and_check`."""
        complete = self.build_call(window=call.window, floor=call.floor)
        check = replace(complete, demand="check", output_reserve=call.output_reserve, recall=call.recall, run=call.run)
        if check.window is None and self.policy.auto:
            self._report_unknown_window(check)
        return check if self.is_check_due(check, has_run_end_check=has_run_end_check) else None

    def is_check_due(self, call: Call, *, has_run_end_check: bool = False) -> bool:
        """Tells whether to check now: at the policy's check points, and wherever the hard limit may be exceeded."""
        points = {"before_call", find_check_point(self._conversation.view.path)}
        if "user_message" in points and not has_run_end_check:  # a user message means that the run before it has ended
            points.add("end_of_run")
        if call.window is None or not points.isdisjoint(self.policy.checks):
            return call.window is not None
        return self.can_overflow(call)

    def skip_window_report(self) -> None:
        """Says that the user was told already that the window of this model is not known: once is enough."""
        self._told_model = self.model

    def _report_unknown_window(self, call: Call) -> None:
        """Keeps the Outcome of a check that cannot be made. Listeners and the log are told once for each model."""
        conversation = self._conversation
        with conversation.lock:
            reading, known, self._told_model = self.take_reading(call), self._told_model, self.model
        reason = (
            f"{self.explain_unknown_window()}, so {reading.tokens:,} tokens cannot be held against it, and "
            "nothing is compacted: name a window (--window 200000, window=200_000), or a model whose window is known"
        )
        outcome = Outcome("nothing", reason, reading.tokens, reading.tokens, NO_TOKENS, policy=self.policy.name)
        outcome = replace(outcome, reading_before=reading, reading_after=reading)
        self.outcome = outcome
        if known != self.model:
            self.answerer.notify(
                CompactionSkip(self._conversation.address.session, outcome, self._conversation.stamps.now())
            )
            self.answerer.report_problem(reason)

    def take_reading(self, call: Call, view: View | None = None) -> Reading:
        """Measures the view for a call, or an earlier view of this session."""
        conversation = self._conversation
        with conversation.lock:
            view = view or conversation.view
            return take_reading(view, self.policy, call, conversation.get_measures(view))

    def get_provider_tokens(self, block: Block) -> tuple[ProviderTokens, ProviderTokens]:
        """Returns the size of the view before and after a Block as the provider counted it, by what was known then.

        Those of a Block that does not hold them are estimated, by what the provider's reports have taught so far.
        """
        if block.provider_tokens is not None:
            return block.provider_tokens
        reading = self.take_reading(self.build_call())
        return reading.to_provider(block.tokens_before), reading.to_provider(block.tokens_after)

    def get_need(self, call: Call) -> Need:
        """Tells how badly the view needs a compaction, in the window of a check."""
        reading, limits = self.take_reading_with_limits(call)
        return limits.get_need(reading.tokens)

    def can_overflow(self, call: Call) -> bool:
        """Tells whether the request of a check may exceed the hard limit.

        What came since the provider's last report is only our count, so its upper bound decides.
        """
        reading, limits = self.take_reading_with_limits(call)
        return limits.get_need(reading.high if reading.source == "reported" else reading.tokens) == "hard"

    def take_reading_with_limits(self, call: Call, *, answers: int = 0) -> tuple[Reading, Limits]:
        """Measures the view for a check. Returns the Reading, by what `answers` to come will teach, and the limits."""
        assert call.window is not None
        conversation = self._conversation
        with conversation.lock:
            taught = conversation.build_next_calibration() if answers else conversation.calibration
        plain = self.build_call(window=call.window, floor=call.floor)
        reading, policy = self.take_reading(replace(plain, calibration=taught)), self.policy
        key = (policy.trigger, call.window, call.output_reserve, reading.floor)
        if self._limits is None or self._limits[0] != key:
            self._limits = key, policy.get_limits(call.window, output_reserve=call.output_reserve, floor=reading.floor)
        return reading, self._limits[1]

    def _record_refusal(self, model: str, reading: Reading, limit: ProviderTokens) -> None:
        """Learns that a request of this Reading takes more than `limit` tokens. It is kept in memory.

        Reports may say otherwise, and be wrong by less than our count can tell.
        """
        if reading.tokens <= limit:
            slope = (limit + 1) / max(1, reading.estimate)
            self._least_slopes[model] = min(MAX_SLOPE, max(slope, self._least_slopes.get(model, 0.0)))

    def _take_doubt(self, model: str) -> str:
        """Says why a report of usage is not believed, once for each model. "" if all are, and afterwards."""
        seen = self._conversation.calibration.find_seen(model, self.policy.counter.name)
        if seen is None or not seen.doubts or model in self._said_doubts:
            return ""
        self._said_doubts.add(model)
        return seen.explain()

    def _with_limits(self, call: Call) -> Call:
        """Returns an automatic check with the limits of its window; any other call as it is."""
        is_check = call.demand == "check" and call.to is None and call.window is not None
        return replace(call, limits=self.take_reading_with_limits(call)[1]) if is_check else call

    def validate_call(self, call: Call) -> Call:
        """Returns the call unchanged. Raises `UsageError` if it has an invalid target, or neither target nor window."""
        if call.to is not None and (type(call.to) is not int or call.to < 1):
            raise UsageError(f"a target is a whole number of tokens, at least 1, and not {call.to!r}")
        if call.window is not None:
            check_window(call.window)
        if call.to is None and call.window is None:
            raise UsageError(
                "neither a target nor a window: name a target (to=20_000, --to 20000, --to 10%) or a window "
                f"(window=200_000, --window 200000); {self.explain_unknown_window()}"
            )
        return call

    def explain_unknown_window(self) -> str:
        """Says why there is no window to hold a view against."""
        model = self.model
        return f"the window of model {model!r} is not known" if model else "no model is named"

    # -- running -------------------------------------------------------------------------------------------------------

    def run(self, steps: Steps[Outcome]) -> Outcome:
        """Runs the steps of a compaction to their end, as one span. The caller holds `lock`."""
        with self.trace() as record:
            outcome = run_engine(steps, self.answerer)
            record(outcome)
            return outcome

    def trace(self) -> AbstractContextManager[Callable[[Outcome], None]]:
        """Returns the span of a compaction, to be opened around its steps."""
        address = self._conversation.address
        return trace_compaction(address.namespace, address.session, self.policy.name, self.model)

    def compact(self, call: Call, answerer: Answerer | None = None, *, is_request: bool = False) -> Steps[Outcome]:
        """Compacts as a generator of steps, which a driver runs: what was prepared is taken, else the engine runs.

        Before a request (`is_request`), what later ones need is prepared as well, and `outcome` is set.
        """
        answerer = answerer or self.answerer
        outcome = yield from self._use_preparation(call)
        if outcome is None and is_request and self.prepare(call, "soft", answerer):
            outcome = yield from self._use_preparation(call)
        if outcome is None:
            outcome = yield from self._run_alone(call, answerer)
        if is_request:
            self.outcome = outcome
            self.prepare(call, "warn", answerer)
        return outcome

    def _run_alone(self, call: Call, answerer: Answerer) -> Steps[Outcome]:
        """Runs the engine. While another process has a model write for this session, an automatic check asks none.

        It leaves the view as it is where the request certainly fits, and compacts by code where it may not.
        """
        has_lease = call.demand != "check" or self._take_lease(answerer)
        if not has_lease and call.window is not None and not self.can_overflow(call):
            return self._defer(call, _BUSY)
        try:
            if call.demand == "check" and (self._can_ask_model(answerer) or self._can_act(call)):
                self._conversation.catch_up()  # another may have compacted it just now, or the user switched it off
            effects, view = self.get_effects(call, answerer, by_code="" if has_lease else _BUSY)
            result = yield from self._announce(effects, answerer, call)
            return self.apply_result(result, view, call)
        except GeneratorExit:  # nobody runs it to its end, at whatever moment: the lease runs out by itself
            has_lease = False
            raise
        finally:
            if has_lease:
                self._drop_lease(answerer)

    def _can_act(self, call: Call) -> bool:
        return call.window is not None and self.get_need(call) in ("soft", "hard")

    def _can_ask_model(self, answerer: Answerer) -> bool:
        return answerer.model is not None and bool(self.get_policy(answerer).summary.models)

    def _take_lease(self, answerer: Answerer) -> bool:
        """Tells whether this process is the one that may ask a model for the session. Without a model all may work."""
        if not self._can_ask_model(answerer):
            return True
        address, now = self._conversation.address, get_current_time()
        names = (address.namespace, address.session, address.head, self._lease_holder)
        return address.store.take_lease(*names, now=now, until=now + LEASE_SECONDS * 1_000_000)

    def _drop_lease(self, answerer: Answerer) -> None:
        if self._can_ask_model(answerer):
            address = self._conversation.address
            address.store.drop_lease(address.namespace, address.session, address.head, self._lease_holder)

    def redo(self, block: str, request: RedoRequest, answerer: Answerer | None = None) -> Steps[Outcome]:
        """Does the work of `Session.redo` as a generator of steps."""
        conversation, policy = self._conversation, self.get_policy(answerer)
        with conversation.lock:
            view, newest = conversation.view, conversation.find_newest_block_id() or ""
            if not newest.startswith(block):
                what = newest or "and there is none"
                raise UsageError(f"only the newest Block in force can be written again, {what}")
            redo_policy = build_redo_policy(policy, view.find_newest_block(), request, POLICIES)
            measures, stamps = conversation.freeze_measures(view), conversation.stamps
        result = yield from redo(view, redo_policy, request, measures, now=stamps.now(), new_id=stamps.new_id)
        yield COMMIT
        return self.apply_result(result, view)

    def _use_preparation(self, call: Call) -> Steps[Outcome | None]:
        """Returns the Outcome of a call that need not run the engine itself."""
        preparation = self._find_preparation(call)
        if preparation is None:
            return None
        deferred = self._defer_check(call, preparation)
        if deferred is not None:
            return deferred
        yield preparation.watch()
        yield COMMIT
        return self._adopt_preparation(call, preparation)

    def _announce(self, effects: Effects, answerer: Answerer, call: Call) -> Steps[EngineResult]:
        """Runs the engine. Tells the listeners that it starts, once no before-hook objects, and if it is cancelled."""
        told: Future[None] = Future()

        def report_start(consult: ConsultAsk) -> None:
            answerer.notify(self._build_started_event(consult, call.run))
            told.set_result(None)

        step = advance(effects)
        try:
            while not isinstance(step, Finished):
                answers = yield step
                if isinstance(step[0], ConsultAsk) and not answers[0].cancel:
                    yield partial(report_start, step[0])
                step = advance(effects, answers)
            if step.value.entry is not None:
                yield COMMIT
        except CancelledError:
            cancellation = self._build_cancellation(call)
            told.add_done_callback(lambda _: answerer.notify(cancellation))  # a listener may still be told of the start
            raise
        return step.value

    def build_cancelled_outcome(self, call: Call) -> Outcome:
        """Builds the Outcome of a compaction that was stopped. It has changed nothing."""
        tokens = self.take_reading(call).tokens  # with an explicit target a plain count, as the target is
        return Outcome("cancelled", "it was aborted", tokens, tokens, NO_TOKENS)

    def _build_cancellation(self, call: Call) -> CompactionSkip:
        conversation = self._conversation
        outcome = self.build_cancelled_outcome(call)
        return CompactionSkip(conversation.address.session, outcome, conversation.stamps.now())

    def get_effects(self, call: Call, answerer: Answerer | None = None, *, by_code: str = "") -> tuple[Effects, View]:
        """Returns the engine generator for this call and the view it works on, for callers who drive it themselves.

        `by_code` says why no model is to be asked; "" if one may be.
        """
        conversation, policy = self._conversation, self.get_policy(answerer)
        if by_code and policy.summary.models:
            policy = replace(policy, summary=replace(policy.summary, models=(), no_model=by_code))
        if call.demand == "overflow" and call.window is not None:
            reading, limits = self.take_reading_with_limits(call)
            self._record_refusal(call.model, reading, limits.hard)
        self._notify_warning(call)  # without the lock, which a listener on another thread may need
        with conversation.lock:
            view = conversation.view
            return compact(
                view,
                policy,
                self._with_limits(call),
                conversation.freeze_measures(view),
                now=conversation.stamps.now(),
                new_id=conversation.stamps.new_id,
            ), view

    def preview(self, call: Call, answerer: Answerer | None = None) -> tuple[Decision[Counted], Plan | None]:
        """Returns what a compaction would decide and plan. Changes nothing and calls no model."""
        conversation = self._conversation
        with conversation.lock:
            call = self._with_limits(self.validate_call(call))
            return preview(conversation.view, self.get_policy(answerer), call, conversation.get_measures())

    def get_redo_answerer(self, answerer: Answerer | None = None) -> Answerer:
        """Returns the answerer for `redo`, which can read the session's entries when an Ask needs originals."""
        answerer = answerer or self.answerer
        if answerer.entry_reader is not None:
            return answerer
        return replace(answerer, entry_reader=self._conversation.read_entries)

    # -- ahead of time -------------------------------------------------------------------------------------------------

    def prepare(self, call: Call, need: Need, answerer: Answerer | None = None) -> bool:
        """Starts a compaction ahead of time if the view needs one just that badly. Tells whether it did.

        In the warning zone ("warn") it is the next one, so that no call has to wait for it. Where the trigger fires
        ("soft") it is the one that the check of a request would wait for, since much came at once or what was prepared
        no longer fits. Above the hard limit the request waits. Nothing is started unless the policy prepares and a
        model writes the summaries. The answerer's `preparer` has it done by other processes; without one, and where
        that cannot, it is done on a thread.
        """
        answerer = answerer or self.answerer
        policy, preparer = self.policy, answerer.preparer
        if self.preparation is not None or not policy.can_prepare or call.window is None:
            return False
        if answerer.before_hooks:  # hooks are asked when the trigger fires, and may want another summary
            return False
        if preparer is None and answerer.model is None:
            return False
        reading, limits = self.take_reading_with_limits(call)
        view = self._conversation.view
        if limits.get_need(reading.tokens) != need or view.state.undone or view.state.is_auto_off:
            return False
        if explain_pause(view, policy, reading, self._conversation.stamps.now()):
            return False
        ahead = replace(call, demand="manual", to=reading.to_counted(limits.target), has_before_hooks=False)
        if preparer is not None:
            self.preparation = preparer.prepare(self._conversation, ahead)
        if self.preparation is None and answerer.model is not None and self._take_lease(answerer):
            effects, view = self.get_effects(ahead, answerer)
            work = partial(self._run_ahead, effects, view, answerer)
            self.preparation = ThreadPreparation(work, partial(self._drop_lease, self.answerer))
        return self.preparation is not None

    def _run_ahead(self, effects: Effects, view: View, answerer: Answerer) -> PreparedResult:
        """Runs the engine ahead, and notes at once what models took for it: nobody may ever use it."""
        result = run_engine(effects, answerer)
        try:
            self._conversation.note_prepared(result.entry)
        except TenfoldError as exc:
            self.answerer.report_problem(f"what a summary cost that was prepared ahead could not be stored: {exc}")
        return result, view

    def _find_preparation(self, call: Call) -> Preparation | None:
        """Returns the prepared compaction, finished or not, if this call uses it.

        A call uses it when the trigger fires or when someone asks for a compaction.
        """
        if self.preparation is None or call.demand != "check":
            return self.preparation
        if call.window is None:
            return None
        is_off = self._conversation.view.state.is_auto_off
        return self.preparation if self.get_need(call) in (("hard",) if is_off else ("soft", "hard")) else None

    def _defer_check(self, call: Call, preparation: Preparation) -> Outcome | None:
        """Returns the Outcome of a check that need not wait for the compaction still being prepared.

        Returns None if the request may exceed the hard limit.
        """
        if preparation.is_done() or call.demand != "check" or self.can_overflow(call):
            return None
        return self._defer(call, "a summary is being prepared")

    def _defer(self, call: Call, why: str) -> Outcome:
        """Returns the Outcome of a check that leaves the view as it is for now."""
        reading, limits = self.take_reading_with_limits(call)
        tokens, left = reading.tokens, limits.hard - reading.tokens
        reason = f"{why}; {tokens:,} tokens leave {left:,} to the limit of {limits.hard:,}"
        outcome = Outcome("nothing", reason, tokens, tokens, limits.target, policy=self.policy.name)
        return replace(outcome, reading_before=reading, reading_after=reading)

    def _adopt_preparation(self, call: Call, preparation: Preparation) -> Outcome | None:
        """Appends the prepared Block and returns its Outcome. Returns None if the Block saves too little."""
        prepared = preparation.watch()
        if call.to is None:
            reading, limits = self.take_reading_with_limits(call)
            most = limits.soft
        else:  # a plain count, as the target is
            reading = self.take_reading(call)
            most = reading.to_provider(call.to)
        self.drop_preparation()
        exc = prepared.exception()
        if isinstance(exc, Exception):  # of a user's stage; Ctrl-C and the like are raised below
            self.answerer.report_problem(f"what was prepared ahead raised {type(exc).__name__}: {exc}; it was ignored")
            return None
        result, view = prepared.result()
        if isinstance(result.entry, Block):
            saved = result.entry.tokens_before - result.entry.tokens_after
            if reading.tokens - reading.to_provider_part(saved) > most:
                return None
            plan = f"prepared ahead: Block {result.entry.id}, {reading.to_provider_part(saved):,} tokens less"
            target = reading.to_provider(Counted(result.outcome.target))
            consult = ConsultAsk(plan, reading.tokens, target)
            self.answerer.notify(self._build_started_event(consult, call.run))
        outcome = self.apply_result(result, view, call)
        return outcome if outcome.status == "compacted" else None

    def drop_preparation(self) -> None:
        """Forgets what is prepared, if anything. Others may prepare something from now on."""
        if self.preparation is not None:
            dropped, self.preparation = self.preparation, None
            dropped.drop()

    # -- the result ----------------------------------------------------------------------------------------------------

    def apply_result(self, result: EngineResult, planned_view: View, call: Call | None = None) -> Outcome:
        """Appends the entry of an engine result, notifies hooks and listeners, and returns the final Outcome.

        With `call`, the Outcome's readings are out of its window, and count what is sent besides the view.
        """
        has_explicit_target = call is not None and call.to is not None
        call = replace(call or self.build_call(), to=None)
        shown, entry = planned_view, result.entry
        if isinstance(entry, Block) and self._conversation.can_append_block(entry, planned_view.path):
            shown = self._conversation.view  # which may have grown since the compaction was planned
        before = self.take_reading(call, shown)
        outcome = self._append_result(result, planned_view, None if has_explicit_target else before)
        view = self._conversation.view
        after = before
        if view is not shown:
            after = self.take_reading(replace(call, calibration=self._conversation.calibration), view)
        outcome = replace(outcome, reading_before=before, reading_after=after)
        if doubt := self._take_doubt(call.model):
            self._report_problem(doubt)
            outcome = replace(outcome, notes=(*outcome.notes, doubt))
        if not has_explicit_target:
            outcome = outcome.convert_sizes(before, after)
        is_repeated = outcome.status == "unsatisfiable" and result.entry is None  # the first time it was reported
        session, now = self._conversation.address.session, self._conversation.stamps.now()
        failure, event = build_summary_failure(session, outcome, now), build_event(session, outcome, now)
        if failure is not None:
            self.answerer.notify(failure)
        if event is not None and not is_repeated:
            self.answerer.notify(event)
        if outcome.status == "compacted" and isinstance(result.entry, Block):
            self.answerer.run_after_hooks(outcome, result.entry)
        return outcome

    def _append_result(self, result: EngineResult, planned_view: View, before: Reading | None) -> Outcome:
        """Gives the Block of an engine result to the archive, if there is one, and appends the result's entry.

        `before` is what the provider counts for the view as it is now, None where the Outcome's sizes are by our
        counter.
        """
        conversation, archive, block = self._conversation, self.archive, result.entry
        if archive is None or not isinstance(block, Block):
            return self._append_entry(result, planned_view, before)
        if not conversation.can_append_block(block, planned_view.path):
            return self._append_entry(result, planned_view, before)
        try:
            refusal = archive.receive(conversation, block)
        except LostRace:
            return self._build_superseded(result, planned_view)
        if refusal:
            return self._append_entry(self._refuse_block(result, block, refusal), planned_view, before)
        is_appended = False
        try:
            outcome = self._append_entry(result, planned_view, before)
            is_appended = outcome.status == "compacted"
        finally:
            self._report_problem(archive.finish(conversation, block, is_appended=is_appended))
        if is_appended and block.redone_block:
            self.sync_archive(planned_view)
        return outcome

    def _refuse_block(self, result: EngineResult, block: Block, reason: str) -> EngineResult:
        """Returns a result as failed, without its Block. The Attempt has the id by which the archive knows it."""
        before = result.outcome
        outcome = replace(
            before, status="failed", reason=reason, tokens_after=before.tokens_before, block="", rung="", facts={}
        )
        now, size = self._conversation.stamps.now(), (block.tokens_before, Counted(before.target))
        attempt = Attempt(block.id, None, block.run, now, block.policy, "failed", reason, *size, spent=block.spent)
        return EngineResult(outcome, attempt)

    def set_aside(self) -> None:
        """Retracts all Blocks in force, to compact the originals anew. The undo of that compaction brings them back."""
        self._append_planned(plan_setting_aside)

    def restore(self) -> bool:
        """Brings back what `set_aside` retracted, if no compaction came of it. Returns whether it did."""
        return self._append_planned(plan_restoring)

    def _append_planned(self, plan: BlockPlanner) -> bool:
        conversation, stamps = self._conversation, self._conversation.stamps

        def append() -> None:
            entries = plan(conversation.view, conversation.leaf, stamps.new_id, stamps.now)
            if entries:
                conversation.append(entries)

        conversation.catch_up()
        before = conversation.view
        conversation.write(append)
        self.sync_archive(before)
        return conversation.view is not before

    def sync_archive(self, before: View) -> None:
        """Tells the archive, if there is one, of an undo, a redo or a change of branch."""
        if self.archive is not None:
            self._report_problem(self.archive.follow(self._conversation, before))

    def move_to(self, path: Path, entries: Sequence[Entry], *, expected: str | None) -> bool:
        """See `Conversation.move_to`. What was being prepared is dropped, and the archive follows."""
        before = self._conversation.view
        is_moved = self._conversation.move_to(path, entries, expected=expected)
        if is_moved:
            self.drop_preparation()
            self.sync_archive(before)
        return is_moved

    def _report_problem(self, problem: str) -> None:
        if problem:
            self.answerer.report_problem(problem)

    def _append_entry(self, result: EngineResult, planned_view: View, reading: Reading | None) -> Outcome:
        """Appends the entry of an engine result and returns its Outcome with the message counts filled in.

        If the log has grown meanwhile, a Block whose ranges are still in view is appended at the new leaf. Otherwise,
        and if an entry was purged meanwhile, nothing is written and the Outcome is `superseded`.
        """
        conversation = self._conversation
        shown = conversation.view
        before = conversation.count_messages(shown)
        counted = replace(result.outcome, messages_before=before, messages_after=before)
        if result.entry is None:
            return counted
        entry, is_block = result.entry, isinstance(result.entry, Block)

        def append() -> bool:
            if planned_view.path.purges != conversation.view.path.purges:
                return False
            sized = self._with_provider_tokens(entry, shown, reading)
            return conversation.append_result(sized, planned_view.path)

        try:
            if conversation.write(append):
                after = conversation.count_messages(conversation.view) if is_block else before
                return replace(counted, messages_after=after)
        except LostRace:
            pass
        return self._build_superseded(result, planned_view)

    def _build_superseded(self, result: EngineResult, planned_view: View) -> Outcome:
        """Builds the Outcome of a result whose entry could not be appended, since the log is another one by now."""
        conversation, outcome = self._conversation, result.outcome
        before = conversation.count_messages(planned_view)
        reason = "the conversation changed in the range while the summary was made; nothing was written"
        if planned_view.path.purges != conversation.view.path.purges:
            reason = "an entry was purged since the conversation was read; nothing was written: compact again"
        return replace(
            outcome,
            status="superseded",
            reason=reason,
            tokens_after=outcome.tokens_before,
            messages_before=before,
            messages_after=before,
            block="",
            facts={},
        )

    def _with_provider_tokens(self, entry: Entry, shown: View, before: Reading | None) -> Entry:
        """Returns a Block that is about to be appended with the sizes of an Outcome; any other entry as it is.

        Both sizes are of the view that it shortens, which is `shown` with the reading `before`, or has grown since.
        """
        if before is None or not isinstance(entry, Block):
            return entry
        view, call, policy = self._conversation.view, self.build_call(), self.policy
        if view is not shown:
            before = self.take_reading(call, view)
        after = policy.estimator.read(
            before.estimate - entry.tokens_before + entry.tokens_after,
            expire_reports(call.calibration),
            model=call.model,
            window=call.window,
            counter=policy.counter.name,
        )
        return replace(entry, provider_tokens=(before.tokens, after.tokens))

    # -- events --------------------------------------------------------------------------------------------------------

    def _build_started_event(self, consult: ConsultAsk, run: str) -> CompactionStart:
        conversation = self._conversation
        session, policy, time = conversation.address.session, self.policy.name, conversation.stamps.now()
        return CompactionStart(session, policy, consult.tokens_before, consult.target, consult.plan, time, run)

    def _notify_warning(self, call: Call) -> None:
        """Notifies the listeners if a check finds the view in the warning zone."""
        if not self.answerer.listeners or call.demand != "check" or call.window is None:
            return
        reading, limits = self.take_reading_with_limits(call)
        if limits.get_need(reading.tokens) == "warn" and not self._conversation.view.state.is_auto_off:
            conversation = self._conversation
            session, policy, time = conversation.address.session, self.policy.name, conversation.stamps.now()
            self.answerer.notify(
                CompactionWarning(session, policy, reading.tokens, limits.soft, call.window, time, limits.hard)
            )
