"""The class `Session`: one conversation in a store, compacted when it grows too long for the model.

Every method is synchronous and can be called from several threads. `AsyncSession` runs the same methods in threads.
A lock is held only for short steps such as an append, never while a model writes. So a compaction blocks no reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from tenfold.engine.background import Preparation
from tenfold.engine.compact import Call, Effects, Measures, compact, preview, take_reading
from tenfold.engine.drive import Answerer, run_engine
from tenfold.engine.redo import DEFAULT_REDO, RedoRequest, redo
from tenfold.engine.tracing import trace_compaction
from tenfold.errors import LostRace, NotFoundError, UsageError
from tenfold.events import CompactionStart, CompactionWarning, build_event
from tenfold.meter.counters import IMAGE_TOKENS, MESSAGE_OVERHEAD, PAGE_TOKENS
from tenfold.meter.reading import Reading
from tenfold.meter.windows import find_window
from tenfold.plan.draft import RecallMode
from tenfold.plan.pipeline import Plan
from tenfold.record.ask import ConsultAsk, EngineResult, Outcome
from tenfold.record.block import Block, Substitute
from tenfold.record.entry import BranchSummary
from tenfold.record.message import Message, get_text
from tenfold.session.conversation import Conversation
from tenfold.session.requests import (
    HostList,
    HostRequest,
    can_send_unchanged,
    find_check_point,
    read_request,
    read_usage,
    refresh_messages,
    with_messages,
)
from tenfold.store.archive import archive_result
from tenfold.store.ids import get_current_time
from tenfold.trigger.limits import Decision, Demand, Limits, Need
from tenfold.view.fold import View
from tenfold.wire import WIRES, find_summary_mark

_APPEND_TRIES = 5
MAX_PART_TOKENS = max(IMAGE_TOKENS, PAGE_TOKENS) + MESSAGE_OVERHEAD
"""The most tokens one part can take beyond its bytes: an image or file given by URL, plus the message overhead."""


class Session(Conversation):
    """One conversation. `Session.create` makes it in the store; `Session(address, policy)` opens an existing one."""

    # -- for hosts -----------------------------------------------------------------------------------------------------

    def before_model(
        self, request: Mapping[str, Any], *, window: int | None = None, recall: RecallMode = "none", wire: str = ""
    ) -> dict[str, Any]:
        """Returns the request to send in place of this one, with its message list compacted if it is too long.

        `request` holds the keyword arguments of a provider's call. The list is synced with the log, then compacted if
        the policy's trigger fires; `outcome` holds the result. Messages that stay are the same objects that were
        passed in, so a message that was edited in place is sent as edited. In a list of more than 64 messages, the
        log may notice an edit far from the end some requests later, but always before a compaction. Without a known
        window nothing is compacted. Raises `UsageError` for a request that does not hold the whole conversation.
        """
        with self.compaction_lock:
            host_request, host_list, call = self.sync_request(request, window=window, recall=recall, wire=wire)
            if call is not None:
                self.outcome = self._run_compaction(call)
                self.prepare_ahead(call)
            return self.build_request(request, host_request, host_list)

    def after_model(self, report: Any) -> None:  # noqa: ANN401 - a provider's JSON, or an object of its SDK
        """Records the token usage the provider reported for the last request.

        `report` is a response, or only its usage, in any of the wire formats. Reports that are partial or failed, or
        that count no prompt tokens, are ignored.
        """
        usage = read_usage(report, model=self.model)
        if usage is not None:
            self.record_usage(usage)

    def sync_request(
        self, request: Mapping[str, Any], *, window: int | None, recall: RecallMode, wire: str, thorough: bool = False
    ) -> tuple[HostRequest, HostList, Call | None]:
        """Does the first half of `before_model`: reads the request and syncs its list with the log.

        Returns the request as read, the synced list, and the check to run if one is due. With `thorough`, and whenever
        the trigger may fire, the content of every message is compared with the log (decision 0014). Pass it before a
        compaction that no check asks for.
        """
        with self._lock:
            previous = self._decoded_history
            host_request = read_request(
                request, confirm=self.is_own_summary, wire=wire, previous=previous, thorough=thorough
            )
            self.model = host_request.model or self.model
            floor = (
                sum(self.policy.counter.count(list(host_request.overhead_texts))) if host_request.overhead_texts else 0
            )
            call = Call(window=window, floor=floor, output_reserve=host_request.output_reserve, recall=recall)
            if not thorough and self._is_near_trigger(host_request.history.measure_growth(previous), call):
                again = {**request, host_request.field: host_request.items}
                host_request = read_request(
                    again,
                    confirm=self.is_own_summary,
                    wire=host_request.wire,
                    previous=host_request.history,
                    thorough=True,
                )
            self._decoded_history = host_request.history
        return host_request, *self.sync_and_check(host_request.history.get_messages(), call)

    def _is_near_trigger(self, growth: tuple[int, int], call: Call) -> bool:
        """Returns whether the trigger may fire once the new content is added.

        `growth` is (bytes, parts). The upper bound counts one token per byte and one image per part.
        """
        complete = self.build_call(window=call.window, floor=call.floor)
        if complete.window is None:
            return False
        reading, limits = self._take_reading_with_limits(replace(complete, output_reserve=call.output_reserve))
        size, parts = growth
        return limits.get_need(reading.tokens + int(reading.slope * (size + parts * MAX_PART_TOKENS))) != "none"

    def sync_and_check(
        self, messages: list[Message], call: Call, *, has_run_end_check: bool = False
    ) -> tuple[HostList, Call | None]:
        """Syncs the log with a host's whole message list. Returns the synced list and the check to run, if one is due.

        Nobody may change `messages` afterwards. Four fields of `call` are used: the window, the floor (tokens sent
        besides the list), the output reserve and `recall`. `has_run_end_check` says that the host runs the check at
        the end of a run itself. Leading system prompts may change between requests: the newest are sent, and the log
        keeps the first.
        """
        host_list = self._sync_list(messages, is_floor_ignored=True)
        self._overhead = call.floor
        complete = self.build_call(window=call.window, floor=call.floor)
        check = replace(complete, demand="check", output_reserve=call.output_reserve, recall=call.recall)
        return host_list, check if self.is_check_due(check, has_run_end_check=has_run_end_check) else None

    def is_check_due(self, call: Call, *, has_run_end_check: bool = False) -> bool:
        """Returns whether to check now: the soft limit at the policy's check points, the hard limit always."""
        points = {"before_call", find_check_point(self.view.path)}
        if "user_message" in points and not has_run_end_check:  # a user message means that the run before it has ended
            points.add("end_of_run")
        if call.window is None or not points.isdisjoint(self.policy.checks):
            return call.window is not None
        return self._get_need(call) == "hard"

    def build_request(
        self, request: Mapping[str, Any], host_request: HostRequest, host_list: HostList
    ) -> dict[str, Any]:
        """Does the second half of `before_model`: returns the request with the view in place of its list.

        A history that the provider accepts unchanged is sent in its own order, even where the view has moved tool
        results next to their calls.
        """
        messages = self.get_messages_to_send(host_list)
        if messages is None or (
            self._is_whole_history(host_list) and can_send_unchanged(host_list.messages, self.view, host_request.wire)
        ):
            value = request[host_request.field]
            return {**request, host_request.field: value if isinstance(value, Sequence) else host_request.items}
        return with_messages(
            request, host_request, WIRES[host_request.wire].encode(messages), host_list.find_visible(self.view)
        )

    def get_messages_to_send(self, host_list: HostList) -> list[Message] | None:
        """Returns the messages to send: the view, with the host's newest version of each untouched message.

        Returns None if the host's list is the view already.
        """
        view = self.view
        return None if self._is_same_list(view, host_list) else refresh_messages(view.get_visible_messages(), host_list)

    def is_own_summary(self, block: str, seal: str) -> bool:
        """Returns whether this session wrote the summary that carries this mark."""
        address = self.address
        try:
            located = address.store.locate(address.namespace, block)
        except NotFoundError:
            return False
        if located.session != address.session or located.entry.id != block:
            return False
        summaries: Iterable[Message] = ()
        if isinstance(located.entry, Block):
            summaries = (
                s.message for r in located.entry.replacements for s in r.shown_items if isinstance(s, Substitute)
            )
        elif isinstance(located.entry, BranchSummary):
            summaries = (located.entry.message,)
        return any(find_summary_mark(get_text(m)) == (block, seal) for m in summaries)

    # -- compacting ----------------------------------------------------------------------------------------------------

    def take_reading(self, *, window: int | None = None, floor: int = 0) -> Reading:
        """Measures how many tokens the view takes, how reliable that number is, and out of which window.

        `floor` is the number of tokens sent besides the view. Without `window` the model's known window is used.
        """
        with self._lock:
            return take_reading(
                self._head.view, self.policy, self.build_call(window=window, floor=floor), self.get_measures()
            )

    def build_call(self, *, to: int | None = None, window: int | None = None, floor: int = 0) -> Call:
        """Builds a compaction call with this session's model, window and calibration filled in.

        With a target (`to`) it is a manual call, which no trigger holds back; without one it is an automatic check.
        Replace fields of the result for anything else.
        """
        size = window if window is not None else (find_window(self.model) if self.model else None)
        demand: Demand = "manual" if to is not None else "check"
        consult = bool(self.answerer.before_hooks or self.answerer.listeners)
        return Call(
            demand, to, size, model=self.model, floor=floor, calibration=self._head.anchors, has_before_hooks=consult
        )

    def compact(self, call: Call | None = None, *, to: int | None = None, window: int | None = None) -> Outcome:
        """Compacts down to `to` tokens, or, without a target, when the policy's trigger fires for the window.

        Raises `UsageError` when neither a target nor a window is known; every other failure is an Outcome.
        """
        call = self.validate_call(call or self.build_call(to=to, window=window))
        with self.compaction_lock:
            return self._run_compaction(call)

    def _run_compaction(self, call: Call) -> Outcome:
        prepared = self.defer_check(call) or self.adopt_preparation(call)
        if prepared is not None:
            return prepared
        with trace_compaction(self.address.session, self.policy.name) as tell:
            effects, view = self.get_effects(call)
            outcome = self.apply_result(run_engine(effects, self.get_compact_answerer()), view)
            tell(outcome)
            return outcome

    def prepare_ahead(self, call: Call, answerer: Answerer | None = None) -> None:
        """Starts the next compaction on a thread before the trigger fires, so that no call has to wait for it.

        Does so only in the warning zone, if the policy prepares and a model writes the summaries. `before_model`
        calls this by itself.
        """
        answerer = answerer or self.answerer
        policy = self.policy
        if self.preparation is not None or not policy.can_prepare or answerer.model is None or call.window is None:
            return
        if answerer.before_hooks:  # hooks are asked when the trigger fires, and may want another summary
            return
        reading, limits = self._take_reading_with_limits(call)
        if limits.get_need(reading.tokens) != "warn" or self.view.state.undone:
            return
        to = max(1, int((limits.target - reading.floor) / reading.slope))
        effects, view = self.get_effects(replace(call, demand="manual", to=to, has_before_hooks=False))
        self.preparation = Preparation(lambda: (run_engine(effects, answerer), view))

    def find_preparation(self, call: Call) -> Preparation | None:
        """Returns the prepared compaction, finished or not, if this call uses it.

        A call uses it when the trigger fires or when someone asks for a compaction.
        """
        if self.preparation is None or call.demand != "check":
            return self.preparation
        if call.window is None:
            return None
        return self.preparation if self._get_need(call) in ("soft", "hard") else None

    def defer_check(self, call: Call) -> Outcome | None:
        """Returns the Outcome of a check that need not wait for the compaction still being prepared.

        Returns None if nothing is being prepared, or if the view has reached the hard limit.
        """
        preparation = self.find_preparation(call)
        if preparation is None or preparation.is_done or call.demand != "check":
            return None
        reading, limits = self._take_reading_with_limits(call)
        if limits.get_need(reading.tokens) == "hard":
            return None
        tokens, left = reading.tokens, limits.hard - reading.tokens
        reason = f"a summary is being prepared; {tokens:,} tokens leave {left:,} to the limit of {limits.hard:,}"
        return Outcome("nothing", reason, tokens, tokens, limits.target, policy=self.policy.name)

    def adopt_preparation(self, call: Call) -> Outcome | None:
        """Appends the prepared Block and returns its Outcome.

        Returns None if nothing was prepared for this call, or if the Block saves too little.
        """
        preparation = self.find_preparation(call)
        if preparation is None:
            return None
        reading, limits = (
            self._take_reading_with_limits(call) if call.window is not None else (self.take_reading(), None)
        )
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
            most = call.to if call.to is not None else (limits.soft if limits else 0)
            if reading.tokens - saved * reading.slope > most:
                return None
            plan = f"prepared ahead: Block {result.entry.id}, {saved:,} tokens less"
            self.answerer.notify(self._build_started_event(ConsultAsk(plan, reading.estimate, result.outcome.target)))
        outcome = self.apply_result(result, view)
        return outcome if outcome.status == "compacted" else None

    def _get_need(self, call: Call) -> Need:
        reading, limits = self._take_reading_with_limits(call)
        return limits.get_need(reading.tokens)

    def _take_reading_with_limits(self, call: Call) -> tuple[Reading, Limits]:
        """Measures the view for a check. Returns the Reading and the limits it is compared with."""
        assert call.window is not None
        reading = self.take_reading(window=call.window, floor=call.floor)
        policy = self.policy
        return reading, policy.trigger.get_limits(call.window, output_reserve=call.output_reserve, floor=reading.floor)

    def redo(self, block: str = "", request: RedoRequest = DEFAULT_REDO) -> Outcome:
        """Rewrites the summaries of the newest live Block from the originals, for instance with another model.

        `block`, if given, is the id of that Block or the beginning of it. The result is a new Block over the same
        ranges, so `undo` brings the earlier text back. Raises `UsageError` for any other Block, because newer Blocks
        build on it.
        """
        with self.compaction_lock:
            effects, view = self.get_redo_effects(block, request)
            return self.apply_result(run_engine(effects, self.get_redo_answerer()), view)

    def get_redo_effects(self, block: str, request: RedoRequest) -> tuple[Effects, View]:
        """Returns the generator behind `redo` and the view it works on, for callers who drive it themselves."""
        with self._lock:
            view = self.view
            newest = view.path.get_entry(view.state.live_blocks[-1]).id if view.state.live_blocks else ""
            if not newest.startswith(block):
                what = newest or "and there is none"
                raise UsageError(f"only the newest Block in force can be written again, {what}")
            return redo(
                view, self.policy, request, self.freeze_measures(view), now=get_current_time(), new_id=self.new_id
            ), view

    def get_redo_answerer(self) -> Answerer:
        """Returns the answerer for `redo`, which can read this session's entries when an Ask needs originals."""
        return (
            self.answerer
            if self.answerer.entry_reader is not None
            else replace(self.answerer, entry_reader=self._read_entries)
        )

    def validate_call(self, call: Call) -> Call:
        """Returns the call unchanged. Raises `UsageError` if it has an invalid target, or neither target nor window."""
        if call.to is not None and (type(call.to) is not int or call.to < 1):
            raise UsageError(f"a target is a whole number of tokens, at least 1, and not {call.to!r}")
        if call.to is None and call.window is None:
            what = f"the window of model {self.model!r} is not known" if self.model else "no model is named"
            raise UsageError(
                "neither a target nor a window: name a target (to=20_000, --to 20000, --to 10%) or a window "
                f"(window=200_000, --window 200000); {what}"
            )
        return call

    def get_effects(self, call: Call) -> tuple[Effects, View]:
        """Returns the engine generator for this call and the view it works on, for callers who drive it themselves."""
        with self._lock:
            view = self.view
            self._notify_warning(call)
            return compact(
                view, self.policy, call, self.freeze_measures(view), now=get_current_time(), new_id=self.new_id
            ), view

    def preview(
        self, call: Call | None = None, *, to: int | None = None, window: int | None = None
    ) -> tuple[Decision, Plan | None]:
        """Returns what `compact` would decide and plan for the same arguments. Changes nothing and calls no model."""
        with self._lock:
            call = self.validate_call(call or self.build_call(to=to, window=window))
            return preview(self.view, self.policy, call, self.get_measures())

    def get_compact_answerer(self) -> Answerer:
        """Returns the answerer for a compaction: it tells its listeners of the start once no before-hook objects."""
        answerer = self.answerer

        def notify_start(consult: ConsultAsk) -> None:
            answerer.notify(self._build_started_event(consult))

        return (
            replace(answerer, before_hooks=(*answerer.before_hooks, notify_start)) if answerer.listeners else answerer
        )

    def _build_started_event(self, consult: ConsultAsk) -> CompactionStart:
        return CompactionStart(
            self.address.session,
            self.policy.name,
            consult.tokens_before,
            consult.target,
            consult.plan,
            get_current_time(),
        )

    def _notify_warning(self, call: Call) -> None:
        """Notifies the listeners if a check finds the view in the warning zone."""
        if not self.answerer.listeners or call.demand != "check" or call.window is None:
            return
        reading, limits = self._take_reading_with_limits(call)
        if limits.get_need(reading.tokens) == "warn":
            self.answerer.notify(
                CompactionWarning(
                    self.address.session, self.policy.name, reading.tokens, limits.soft, call.window, get_current_time()
                )
            )

    def apply_result(self, result: EngineResult, planned_view: View) -> Outcome:
        """Appends the entry of an engine result, notifies hooks and listeners, and returns the final Outcome."""
        outcome = self._append_result(result, planned_view)
        is_repeated = outcome.status == "unsatisfiable" and result.entry is None  # the first time it was reported
        event = build_event(self.address.session, outcome, get_current_time())
        if event is not None and not is_repeated:
            self.answerer.notify(event)
        if outcome.status == "compacted" and isinstance(result.entry, Block):
            self.answerer.run_after_hooks(outcome, result.entry)
        return outcome

    def _append_result(self, result: EngineResult, planned_view: View) -> Outcome:
        """Appends the entry of an engine result and returns its Outcome with the message counts filled in.

        If the log has grown meanwhile, a Block whose ranges are still in view is appended at the new leaf. Otherwise
        nothing is written and the Outcome is `superseded`.
        """
        before = self.count_messages(planned_view)
        if self.archive is not None and isinstance(result.entry, Block) and self._can_append_block(result.entry):
            result = archive_result(result, self.archive, self.address.session)
        for _ in range(_APPEND_TRIES):
            with self._lock:
                entry = result.entry
                if entry is None:
                    return replace(result.outcome, messages_before=before, messages_after=before)
                entry = replace(entry, parent=self.leaf)
                if isinstance(entry, Block) and not self._can_append_block(entry):
                    break
                try:
                    self._head.append([entry])
                except LostRace:
                    self.refresh()
                    continue
                after = self.count_messages(self.view) if isinstance(entry, Block) else before
                return replace(result.outcome, messages_before=before, messages_after=after)
        reason = "the conversation changed in the range while the summary was made; nothing was written"
        return replace(
            result.outcome,
            status="superseded",
            reason=reason,
            tokens_after=result.outcome.tokens_before,
            block="",
            facts={},
            messages_before=before,
            messages_after=before,
        )

    # -- inside --------------------------------------------------------------------------------------------------------

    def freeze_measures(self, view: View) -> Measures:
        """Returns measures with the size of this view counted now, so that other threads may append meanwhile."""
        measures = self.get_measures()
        tokens = measures.count_view(view)
        return Measures(measures.token_cache, lambda _view: tokens)

    def _can_append_block(self, block: Block) -> bool:
        live = self.view.state.live_blocks
        under = self.view.path.get_entry(live[-1]).id if live else None
        return block.previous_block == under and self.view.can_append(block)
