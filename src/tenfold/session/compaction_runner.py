"""Runs the compactions of one conversation: the checks, what is prepared ahead, and appending the result.

The lock is held for a whole compaction, the conversation's own lock only for short steps. So a compaction blocks no
reader, and messages may be appended while a model writes.
"""

from __future__ import annotations

from msgspec.structs import replace

from tenfold.compaction.engine.call import Call
from tenfold.compaction.engine.compact import Effects, compact, open_case, preview, take_reading
from tenfold.compaction.engine.model_breaker import explain_pause
from tenfold.compaction.engine.policy import Policy
from tenfold.compaction.engine.redo import RedoRequest, build_redo_policy, find_newest_block, redo
from tenfold.compaction.plan.pipeline import Plan
from tenfold.compaction.trigger.limits import Decision, Limits, Need, check_window
from tenfold.compaction.trigger.sizes import Size, convert_size, parse_size
from tenfold.config.policies import POLICIES
from tenfold.core.meter.estimators import expire_reports
from tenfold.core.meter.reading import Reading, build_reading
from tenfold.core.meter.windows import find_window
from tenfold.core.record.ask import ConsultAsk, EngineResult, Outcome
from tenfold.core.record.block import Block
from tenfold.core.record.entry import Entry
from tenfold.core.view.fold import View
from tenfold.errors import LostRace, UsageError
from tenfold.events import CompactionStart, CompactionWarning, build_event, build_summary_failure
from tenfold.models.prices import find_rates
from tenfold.session.archive_keeper import ArchiveKeeper
from tenfold.session.background import Preparation
from tenfold.session.compaction_lock import CompactionLock
from tenfold.session.conversation import Conversation
from tenfold.session.drive import Answerer, run_engine
from tenfold.session.provider_lessons import ProviderLessons
from tenfold.session.start_notice import StartNotice
from tenfold.session.tracing import trace_compaction
from tenfold.store.archive import Archive, archive_result


class CompactionRunner:
    """Compacts a conversation. `session.compactor` is for callers who drive the engine themselves."""

    def __init__(self, conversation: Conversation, answerer: Answerer, archive: Archive | None) -> None:
        """`archive`, if any, receives every batch before the Block that contains it is appended."""
        self.answerer, self.archive = answerer, archive
        self._keeper = ArchiveKeeper(conversation, archive) if archive is not None else None
        self.lock = CompactionLock()
        self.outcome: Outcome | None = None
        self._conversation = conversation
        self.preparation: Preparation | None = None
        self._limits: tuple[tuple[object, int, int, int], Limits] | None = None
        self._lessons = ProviderLessons()

    @property
    def policy(self) -> Policy:
        """The policy in force, with this compactor's model."""
        return self._get_policy(None)

    def use_answerer(self, answerer: Answerer) -> None:
        """Takes another answerer for the compactions to come."""
        self.answerer = answerer

    def drop_preparation(self) -> None:
        """Forgets what is being prepared: it was made for another branch or by another model."""
        self.preparation = None

    # -- the call, and what it is held against -------------------------------------------------------------------------

    def build_call(self, *, to: Size | str | None = None, window: int | None = None, floor: int = 0) -> Call:
        """Builds a call with the session's model, window and calibration filled in; see `Session.build_call`."""
        model, policy = self._conversation.model, self.policy
        size = None if to is None else parse_size("to", to)
        whole = self._conversation.count_uncompacted() + floor if isinstance(size, float) else 0
        target = None if size is None else convert_size(size, whole)
        known = policy.window or (find_window(model) if model else None) or policy.default_window
        return Call(
            "check" if target is None else "manual",
            target,
            window if window is not None else known,
            model=model,
            floor=floor,
            calibration=self._conversation.calibration,
            has_before_hooks=bool(self.answerer.before_hooks or self.answerer.listeners),
            rates=find_rates(model) if model else None,
            least_slope=self._lessons.get_least_slope(model),
        )

    def take_reading(self, call: Call) -> Reading:
        """Measures the view for a call."""
        with self._conversation.lock:
            return self._read_view(self._conversation.view, call)

    def _read_view(self, view: View, call: Call) -> Reading:
        conversation = self._conversation
        with conversation.lock:
            return take_reading(view, self.policy, call, conversation.get_measures(view))

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
        taught = self._conversation.next_calibration if answers else self._conversation.calibration
        plain = self.build_call(window=call.window, floor=call.floor)
        reading, policy = self.take_reading(replace(plain, calibration=taught)), self.policy
        key = (policy.trigger, call.window, call.output_reserve, reading.floor)
        if self._limits is None or self._limits[0] != key:
            self._limits = key, policy.get_limits(call.window, output_reserve=call.output_reserve, floor=reading.floor)
        return reading, self._limits[1]

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
        model = self._conversation.model
        return f"the window of model {model!r} is not known" if model else "no model is named"

    # -- running -------------------------------------------------------------------------------------------------------

    def run(self, call: Call) -> Outcome:
        """Runs a compaction to its end. The caller holds `lock`."""
        prepared = self._use_preparation(call)
        if prepared is not None:
            return prepared
        with trace_compaction(self._conversation.address.session, self.policy.name) as record:
            effects, view = self.get_effects(call)
            outcome = self.apply_result(run_engine(effects, self.build_start_notice(run=call.run).answerer), view, call)
            record(outcome)
            return outcome

    def run_check(self, call: Call) -> None:
        """Runs the check of a request, and what it should prepare for later ones. The caller holds `lock`."""
        self.keep_outcome(self._use_preparation(call, starts=True) or self.run(call))
        self.prepare_ahead(call)

    def end_idle_check(self, call: Call, answerer: Answerer) -> bool:
        """Ends the check of a request that has nothing to do, as most have, without running the engine.

        Returns False, with nothing done, where a compaction may be due or is being prepared. The caller holds `lock`.
        """
        policy = self._get_policy(answerer)
        can_start = policy.can_prepare and answerer.model is not None and not answerer.before_hooks
        if self.preparation is not None or (can_start and self.get_need(call) == "soft"):
            return False
        conversation = self._conversation
        with conversation.lock:
            view, stamps = conversation.view, conversation.stamps
            limited = self._with_limits(call)
            measures, now, new_id = conversation.get_measures(), stamps.now(), stamps.new_id
            result = open_case(view, policy, limited, measures, now=now, new_id=new_id, with_facts=False)
        if not isinstance(result, EngineResult) or result.entry is not None:
            return False
        self._notify_warning(call)
        with trace_compaction(conversation.address.session, policy.name) as record:
            outcome = self.apply_result(result, view, call)
            self.keep_outcome(outcome)
            record(outcome)
        self.prepare_ahead(call, answerer)
        return True

    def _use_preparation(self, call: Call, *, starts: bool = False) -> Outcome | None:
        """Returns the Outcome of a call that need not run the engine itself. With `starts`, see `start_instead`."""
        prepared = self.defer_check(call) or self.adopt_preparation(call)
        if prepared is not None or not (starts and self.start_instead(call)):
            return prepared
        return self._use_preparation(call)

    def keep_outcome(self, outcome: Outcome) -> None:
        """Keeps the Outcome of the last check."""
        self.outcome = outcome

    def get_effects(self, call: Call, answerer: Answerer | None = None) -> tuple[Effects, View]:
        """Returns the engine generator for this call and the view it works on, for callers who drive it themselves."""
        conversation = self._conversation
        if call.demand == "overflow" and call.window is not None:
            reading, limits = self.take_reading_with_limits(call)
            self._lessons.record_refusal(call.model, reading, limits.hard)
        self._notify_warning(call)  # without the lock, which a listener on another thread may need
        with conversation.lock:
            view = conversation.view
            return compact(
                view,
                self._get_policy(answerer),
                self._with_limits(call),
                conversation.freeze_measures(view),
                now=conversation.stamps.now(),
                new_id=conversation.stamps.new_id,
            ), view

    def preview(self, call: Call, answerer: Answerer | None = None) -> tuple[Decision, Plan | None]:
        """Returns what a compaction would decide and plan. Changes nothing and calls no model."""
        conversation = self._conversation
        with conversation.lock:
            call = self._with_limits(self.validate_call(call))
            return preview(conversation.view, self._get_policy(answerer), call, conversation.get_measures())

    def get_redo_effects(
        self, block: str, request: RedoRequest, answerer: Answerer | None = None
    ) -> tuple[Effects, View]:
        """Returns the generator behind `redo` and the view it works on, for callers who drive it themselves."""
        conversation = self._conversation
        with conversation.lock:
            view = conversation.view
            newest = conversation.find_newest_block_id() or ""
            if not newest.startswith(block):
                what = newest or "and there is none"
                raise UsageError(f"only the newest Block in force can be written again, {what}")
            return redo(
                view,
                build_redo_policy(self._get_policy(answerer), find_newest_block(view), request, POLICIES),
                request,
                conversation.freeze_measures(view),
                now=conversation.stamps.now(),
                new_id=conversation.stamps.new_id,
            ), view

    def _get_policy(self, answerer: Answerer | None) -> Policy:
        return self._conversation.get_policy((answerer or self.answerer).model)

    def get_redo_answerer(self, answerer: Answerer | None = None) -> Answerer:
        """Returns the answerer for `redo`, which can read the session's entries when an Ask needs originals."""
        answerer = answerer or self.answerer
        if answerer.entry_reader is not None:
            return answerer
        return replace(answerer, entry_reader=self._conversation.read_entries)

    def build_start_notice(self, answerer: Answerer | None = None, *, run: str = "") -> StartNotice:
        """Returns the notice of a compaction's start. Its `answerer` is the one to run the compaction with."""
        return StartNotice(answerer or self.answerer, lambda consult: self._build_started_event(consult, run))

    # -- ahead of time -------------------------------------------------------------------------------------------------

    def prepare_ahead(self, call: Call, answerer: Answerer | None = None) -> None:
        """Starts the next compaction on a thread before the trigger fires, so that no call has to wait for it.

        Does so only in the warning zone, if the policy prepares and a model writes the summaries.
        """
        self._start(call, answerer or self.answerer, "warn")

    def start_instead(self, call: Call, answerer: Answerer | None = None) -> bool:
        """Starts on a thread the compaction that the check of a request would wait for. Tells whether it did.

        That is where the trigger fires and nothing is prepared, since much came at once or what was prepared no longer
        fits. Not above the hard limit: there the request waits.
        """
        return self._start(call, answerer or self.answerer, "soft")

    def _start(self, call: Call, answerer: Answerer, need: Need) -> bool:
        """Starts a compaction on a thread if the view needs one just that badly. Tells whether it did."""
        policy = self.policy
        if self.preparation is not None or not policy.can_prepare or answerer.model is None or call.window is None:
            return False
        if answerer.before_hooks:  # hooks are asked when the trigger fires, and may want another summary
            return False
        reading, limits = self.take_reading_with_limits(call)
        view = self._conversation.view
        if limits.get_need(reading.tokens) != need or view.state.undone:
            return False
        if explain_pause(view, policy, call.window, self._conversation.stamps.now()):
            return False
        to = max(1, int((limits.target - reading.floor) / reading.slope))
        effects, view = self.get_effects(replace(call, demand="manual", to=to, has_before_hooks=False), answerer)
        self.preparation = Preparation(lambda: (run_engine(effects, answerer), view))
        return True

    def find_preparation(self, call: Call) -> Preparation | None:
        """Returns the prepared compaction, finished or not, if this call uses it.

        A call uses it when the trigger fires or when someone asks for a compaction.
        """
        if self.preparation is None or call.demand != "check":
            return self.preparation
        if call.window is None:
            return None
        return self.preparation if self.get_need(call) in ("soft", "hard") else None

    def defer_check(self, call: Call) -> Outcome | None:
        """Returns the Outcome of a check that need not wait for the compaction still being prepared.

        Returns None if nothing is being prepared, or if the request may exceed the hard limit.
        """
        preparation = self.find_preparation(call)
        if preparation is None or preparation.is_done or call.demand != "check":
            return None
        if self.can_overflow(call):
            return None
        reading, limits = self.take_reading_with_limits(call)
        tokens, left = reading.tokens, limits.hard - reading.tokens
        reason = f"a summary is being prepared; {tokens:,} tokens leave {left:,} to the limit of {limits.hard:,}"
        outcome = Outcome("nothing", reason, tokens, tokens, limits.target, policy=self.policy.name)
        return replace(outcome, reading_before=reading, reading_after=reading)

    def adopt_preparation(self, call: Call) -> Outcome | None:
        """Appends the prepared Block and returns its Outcome.

        Returns None if nothing was prepared for this call, or if the Block saves too little.
        """
        preparation = self.find_preparation(call)
        if preparation is None:
            return None
        if call.window is not None:
            reading, limits = self.take_reading_with_limits(call)
            most = call.to if call.to is not None else limits.soft
        else:
            reading = self.take_reading(self.build_call())
            most = call.to or 0
        self.preparation = None
        prepared = preparation.take_result()
        if isinstance(prepared, Exception):
            self.answerer.report_problem(
                f"what was prepared ahead raised {type(prepared).__name__}: {prepared}; it was ignored"
            )
            return None
        result, view = prepared
        if isinstance(result.entry, Block):
            saved = result.entry.tokens_before - result.entry.tokens_after
            if reading.tokens - saved * reading.slope > most:
                return None
            plan = f"prepared ahead: Block {result.entry.id}, {reading.convert_part(saved):,} tokens less"
            target = reading.convert_size(result.outcome.target)
            consult = ConsultAsk(plan, reading.tokens, target)
            self.answerer.notify(self._build_started_event(consult, call.run))
        outcome = self.apply_result(result, view, call)
        return outcome if outcome.status == "compacted" else None

    # -- the result ----------------------------------------------------------------------------------------------------

    def apply_result(self, result: EngineResult, planned_view: View, call: Call | None = None) -> Outcome:
        """Appends the entry of an engine result, notifies hooks and listeners, and returns the final Outcome.

        With `call`, the Outcome's readings are out of its window, and count what is sent besides the view.
        """
        has_explicit_target = call is not None and call.to is not None
        call = replace(call or self.build_call(), to=None)
        before = self._read_view(planned_view, call)
        outcome = self._append_result(result, planned_view, None if has_explicit_target else before)
        view = self._conversation.view
        after = before
        if view is not planned_view:
            after = self._read_view(view, replace(call, calibration=self._conversation.calibration))
        outcome = replace(outcome, reading_before=before, reading_after=after)
        if doubt := self._lessons.take_doubt(self._conversation.calibration, call.model, self.policy.counter.name):
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
        """Writes the batches of an engine result to the archive, if there is one, and appends its entry.

        Where the Block is not appended, its batches are deleted again. Before, the log notes that they are written: a
        process may be killed between the two. `before` is what the provider counts for the planned view, None where
        the Outcome's sizes are by our counter.
        """
        conversation, keeper, block = self._conversation, self._keeper, result.entry
        path = planned_view.path
        if keeper is None or not isinstance(block, Block) or not conversation.can_append_block(block, path):
            return self._append_entry(result, planned_view, before)
        if not keeper.note_block(block):
            return self._build_superseded(result, planned_view)
        is_appended = False
        result = archive_result(result, keeper.archive, conversation.address.session)
        try:
            outcome = self._append_entry(result, planned_view, before)
            is_appended = outcome.status == "compacted" or result.entry is not block
        finally:
            self._report_problem("" if is_appended else keeper.delete_block(block))
        if is_appended and block.redone_block:
            self.sync_archive(planned_view)
        if outcome.status == "compacted":
            self._report_problem(keeper.delete_strays())
        return outcome

    def sync_archive(self, before: View) -> None:
        """Brings the archive, if there is one, in line with the log after an undo, a redo or a change of branch."""
        if self._keeper is not None:
            self._report_problem(self._keeper.sync(before))

    def _report_problem(self, problem: str) -> None:
        if problem:
            self.answerer.report_problem(problem)

    def _append_entry(self, result: EngineResult, planned_view: View, reading: Reading | None) -> Outcome:
        """Appends the entry of an engine result and returns its Outcome with the message counts filled in.

        If the log has grown meanwhile, a Block whose ranges are still in view is appended at the new leaf. Otherwise,
        and if an entry was purged meanwhile, nothing is written and the Outcome is `superseded`.
        """
        conversation = self._conversation
        before = conversation.count_messages(planned_view)
        counted = replace(result.outcome, messages_before=before, messages_after=before)
        if result.entry is None:
            return counted
        entry, is_block = result.entry, isinstance(result.entry, Block)

        def append() -> bool:
            if planned_view.path.purges != conversation.view.path.purges:
                return False
            sized = self._with_provider_tokens(entry, planned_view, reading)
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

    def _with_provider_tokens(self, entry: Entry, planned_view: View, before: Reading | None) -> Entry:
        """Returns a Block that is about to be appended with the sizes of an Outcome; any other entry as it is."""
        if before is None or not isinstance(entry, Block):
            return entry
        conversation, view = self._conversation, self._conversation.view
        call, policy = self.build_call(), self.policy
        estimate = before.estimate if view is planned_view else conversation.get_measures().count_view(view)
        after = build_reading(
            estimate - entry.tokens_before + entry.tokens_after,
            expire_reports(call.calibration),
            policy.estimator,
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
        if limits.get_need(reading.tokens) == "warn":
            conversation = self._conversation
            session, policy, time = conversation.address.session, self.policy.name, conversation.stamps.now()
            self.answerer.notify(
                CompactionWarning(session, policy, reading.tokens, limits.soft, call.window, time, limits.hard)
            )
