"""The class `Session`: one conversation in a store, compacted when it grows too long for the model.

Every method is synchronous and can be called from several threads. `AsyncSession` runs the same methods in threads.
A lock is held only for short steps such as an append, never while a model writes. So a compaction blocks no reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from tenfold.archive import archived
from tenfold.conversation import Conversation, Place, Provider
from tenfold.drive import Answerer, run
from tenfold.engine import Bench, Call, Effects, compact, measure, preview
from tenfold.errors import LostRace, NotFound, UsageError
from tenfold.events import Started, Warned, news_of
from tenfold.hosting import Level, Request, accepted, check_point, read_request, renewed, usage_of, with_list
from tenfold.log.ids import now
from tenfold.meter.counters import IMAGE_TOKENS, MESSAGE_TOKENS, PAGE_TOKENS
from tenfold.meter.reading import Reading
from tenfold.meter.windows import window_of
from tenfold.plan.draft import Recall
from tenfold.plan.plan import Plan
from tenfold.preparing import Preparation
from tenfold.record.ask import Consult, Outcome, Verdict
from tenfold.record.block import Block, Say
from tenfold.record.entry import Branch
from tenfold.record.message import Message, text_of
from tenfold.redo import PLAIN, Again, redo
from tenfold.spans import compaction
from tenfold.trigger.triggers import Decision, Demand, Limits, Need
from tenfold.view.view import View
from tenfold.wire import WIRES, summary_mark

__all__ = ["Place", "Provider", "Session"]
_RETRIES = 5
LARGEST = max(IMAGE_TOKENS, PAGE_TOKENS) + MESSAGE_TOKENS
"""The most tokens one part can take beyond its bytes: an image or file given by URL, plus the message overhead."""


class Session(Conversation):
    """One conversation. `Session.create` makes it in the store; `Session(address, policy)` opens an existing one."""

    # -- for hosts -----------------------------------------------------------------------------------------------------

    def before_model(
        self, request: Mapping[str, Any], *, window: int | None = None, recall: Recall = "none", wire: str = ""
    ) -> dict[str, Any]:
        """Returns the request to send in place of this one, with its message list compacted if it is too long.

        `request` holds the keyword arguments of a provider's call. The list is synced with the log, then compacted if
        the policy's trigger fires; `outcome` holds the result. Messages that stay are the same objects that were
        passed in, so a message that was edited in place is sent as edited. In a list of more than 64 messages, the
        log may notice an edit far from the end some requests later, but always before a compaction. Without a known
        window nothing is compacted. Raises `UsageError` for a request that does not hold the whole conversation.
        """
        with self.compacting:
            host_request, host_list, call = self.asked(request, window=window, recall=recall, wire=wire)
            if call is not None:
                self.outcome = self._carried_out(call)
                self.prepare(call)
            return self.answered(request, host_request, host_list)

    def after_model(self, report: Any) -> None:  # noqa: ANN401 - a provider's JSON, or an object of its SDK
        """Records the token usage the provider reported for the last request.

        `report` is a response, or only its usage, in any of the wire formats. Reports that are partial or failed, or
        that count no prompt tokens, are ignored.
        """
        usage = usage_of(report, model=self.model)
        if usage is not None:
            self.used(usage)

    def asked(
        self, request: Mapping[str, Any], *, window: int | None, recall: Recall, wire: str, whole: bool = False
    ) -> tuple[Request, Level, Call | None]:
        """Does the first half of `before_model`: reads the request and syncs its list with the log.

        Returns the request as read, the synced list, and the check to run if one is due. With `thorough`, and whenever
        the trigger may fire, the content of every message is compared with the log (decision 0014). Pass it before a
        compaction that no check asks for.
        """
        with self._lock:
            previous = self._resent
            host_request = read_request(request, confirm=self.ours, wire=wire, known=previous, whole=whole)
            self.model = host_request.model or self.model
            floor = sum(self.policy.counter.count(list(host_request.apart))) if host_request.apart else 0
            call = Call(window=window, floor=floor, output_reserve=host_request.output, recall=recall)
            if not whole and self._nears(host_request.resent.since(previous), call):
                again = {**request, host_request.field: host_request.given}
                host_request = read_request(
                    again, confirm=self.ours, wire=host_request.wire, known=host_request.resent, whole=True
                )
            self._resent = host_request.resent
        return host_request, *self.demanded(host_request.resent.said(), call)

    def _nears(self, new: tuple[int, int], call: Call) -> bool:
        """Returns whether the trigger may fire once the new content is added.

        `growth` is (bytes, parts). The upper bound counts one token per byte and one image per part.
        """
        complete = self.call(window=call.window, floor=call.floor)
        if complete.window is None:
            return False
        reading, limits = self._against(replace(complete, output_reserve=call.output_reserve))
        size, parts = new
        return limits.need(reading.tokens + int(reading.slope * (size + parts * LARGEST))) != "none"

    def demanded(self, messages: list[Message], call: Call, *, ends: bool = False) -> tuple[Level, Call | None]:
        """Syncs the log with a host's whole message list. Returns the synced list and the check to run, if one is due.

        Nobody may change `messages` afterwards. Four fields of `call` are used: the window, the floor (tokens sent
        besides the list), the output reserve and `recall`. `has_run_end_check` says that the host runs the check at
        the end of a run itself. Leading system prompts may change between requests: the newest are sent, and the log
        keeps the first.
        """
        host_list = self._synced(messages, floor=True)
        self._apart = call.floor
        complete = self.call(window=call.window, floor=call.floor)
        check = replace(complete, demand="check", output_reserve=call.output_reserve, recall=call.recall)
        return host_list, check if self.due(check, ends=ends) else None

    def due(self, call: Call, *, ends: bool = False) -> bool:
        """Returns whether to check now: the soft limit at the policy's check points, the hard limit always."""
        points = {"before_call", check_point(self.view.path)}
        if "user_message" in points and not ends:  # a user message means that the run before it has ended
            points.add("end_of_run")
        if call.window is None or not points.isdisjoint(self.policy.checks):
            return call.window is not None
        return self._need(call) == "hard"

    def answered(self, request: Mapping[str, Any], asked: Request, level: Level) -> dict[str, Any]:
        """Does the second half of `before_model`: returns the request with the view in place of its list.

        A history that the provider accepts unchanged is sent in its own order, even where the view has moved tool
        results next to their calls.
        """
        messages = self.current(level)
        if messages is None or (self._history(level) and accepted(level.messages, self.view, asked.wire)):
            value = request[asked.field]
            return {**request, asked.field: value if isinstance(value, Sequence) else asked.given}
        return with_list(request, asked, WIRES[asked.wire].encode(messages), level.standing(self.view))

    def current(self, level: Level) -> list[Message] | None:
        """Returns the messages to send: the view, with the host's newest version of each untouched message.

        Returns None if the host's list is the view already.
        """
        view = self.view
        return None if self._is(view, level) else renewed(view.shown(), level)

    def ours(self, block: str, seal: str) -> bool:
        """Returns whether this session wrote the summary that carries this mark."""
        address = self.place
        try:
            located = address.store.locate(address.namespace, block)
        except NotFound:
            return False
        if located.session != address.session or located.entry.id != block:
            return False
        summaries: Iterable[Message] = ()
        if isinstance(located.entry, Block):
            summaries = (s.message for r in located.entry.replacements for s in r.show if isinstance(s, Say))
        elif isinstance(located.entry, Branch):
            summaries = (located.entry.message,)
        return any(summary_mark(text_of(m)) == (block, seal) for m in summaries)

    # -- compacting ----------------------------------------------------------------------------------------------------

    def reading(self, *, window: int | None = None, floor: int = 0) -> Reading:
        """Measures how many tokens the view takes, how reliable that number is, and out of which window.

        `floor` is the number of tokens sent besides the view. Without `window` the model's known window is used.
        """
        with self._lock:
            return measure(self._head.view, self.policy, self.call(window=window, floor=floor), self.bench())

    def call(self, *, to: int | None = None, window: int | None = None, floor: int = 0) -> Call:
        """Builds a compaction call with this session's model, window and calibration filled in.

        With a target (`to`) it is a manual call, which no trigger holds back; without one it is an automatic check.
        Replace fields of the result for anything else.
        """
        size = window if window is not None else (window_of(self.model) if self.model else None)
        demand: Demand = "manual" if to is not None else "check"
        consult = bool(self.answerer.before or self.answerer.listen)
        return Call(demand, to, size, model=self.model, floor=floor, anchors=self._head.anchors, consult=consult)

    def compact(self, call: Call | None = None, *, to: int | None = None, window: int | None = None) -> Outcome:
        """Compacts down to `to` tokens, or, without a target, when the policy's trigger fires for the window.

        Raises `UsageError` when neither a target nor a window is known; every other failure is an Outcome.
        """
        call = self.known(call or self.call(to=to, window=window))
        with self.compacting:
            return self._carried_out(call)

    def _carried_out(self, call: Call) -> Outcome:
        prepared = self.deferred(call) or self.adopted(call)
        if prepared is not None:
            return prepared
        with compaction(self.place.session, self.policy.name) as tell:
            effects, view = self.effects(call)
            outcome = self.install(run(effects, self.answering()), view)
            tell(outcome)
            return outcome

    def prepare(self, call: Call, answerer: Answerer | None = None) -> None:
        """Starts the next compaction on a thread before the trigger fires, so that no call has to wait for it.

        Does so only in the warning zone, if the policy prepares and a model writes the summaries. `before_model`
        calls this by itself.
        """
        answerer = answerer or self.answerer
        policy = self.policy
        if self.ahead is not None or not policy.prepares or answerer.model is None or call.window is None:
            return
        if answerer.before:  # hooks are asked when the trigger fires, and may want another summary
            return
        reading, limits = self._against(call)
        if limits.need(reading.tokens) != "warn" or self.view.marks.undone:
            return
        to = max(1, int((limits.target - reading.floor) / reading.slope))
        effects, view = self.effects(replace(call, demand="manual", to=to, consult=False))
        self.ahead = Preparation(lambda: (run(effects, answerer), view))

    def taken(self, call: Call) -> Preparation | None:
        """Returns the prepared compaction, finished or not, if this call uses it.

        A call uses it when the trigger fires or when someone asks for a compaction.
        """
        if self.ahead is None or call.demand != "check":
            return self.ahead
        if call.window is None:
            return None
        return self.ahead if self._need(call) in ("soft", "hard") else None

    def deferred(self, call: Call) -> Outcome | None:
        """Returns the Outcome of a check that need not wait for the compaction still being prepared.

        Returns None if nothing is being prepared, or if the view has reached the hard limit.
        """
        preparation = self.taken(call)
        if preparation is None or preparation.done or call.demand != "check":
            return None
        reading, limits = self._against(call)
        if limits.need(reading.tokens) == "hard":
            return None
        tokens, left = reading.tokens, limits.hard - reading.tokens
        reason = f"a summary is being prepared; {tokens:,} tokens leave {left:,} to the limit of {limits.hard:,}"
        return Outcome("nothing", reason, tokens, tokens, limits.target, policy=self.policy.name)

    def adopted(self, call: Call) -> Outcome | None:
        """Appends the prepared Block and returns its Outcome.

        Returns None if nothing was prepared for this call, or if the Block saves too little.
        """
        preparation = self.taken(call)
        if preparation is None:
            return None
        reading, limits = self._against(call) if call.window is not None else (self.reading(), None)
        self.ahead = None
        prepared = preparation.take()
        if isinstance(prepared, Exception):
            self.answerer.say(f"what was prepared ahead raised {type(prepared).__name__}: {prepared}; it was ignored")
            return None
        result, view = prepared
        if isinstance(result.entry, Block):
            saved = result.entry.tokens_before - result.entry.tokens_after
            most = call.to if call.to is not None else (limits.soft if limits else 0)
            if reading.tokens - saved * reading.slope > most:
                return None
            plan = f"prepared ahead: Block {result.entry.id}, {saved:,} tokens less"
            self.answerer.tell(self._started(Consult(plan, reading.estimate, result.outcome.target)))
        outcome = self.install(result, view)
        return outcome if outcome.status == "compacted" else None

    def _need(self, call: Call) -> Need:
        reading, limits = self._against(call)
        return limits.need(reading.tokens)

    def _against(self, call: Call) -> tuple[Reading, Limits]:
        """Measures the view for a check. Returns the Reading and the limits it is compared with."""
        assert call.window is not None
        reading = self.reading(window=call.window, floor=call.floor)
        policy = self.policy
        return reading, policy.trigger.limits(call.window, output_reserve=call.output_reserve, floor=reading.floor)

    def redo(self, block: str = "", again: Again = PLAIN) -> Outcome:
        """Rewrites the summaries of the newest live Block from the originals, for instance with another model.

        `block`, if given, is the id of that Block or the beginning of it. The result is a new Block over the same
        ranges, so `undo` brings the earlier text back. Raises `UsageError` for any other Block, because newer Blocks
        build on it.
        """
        with self.compacting:
            effects, view = self.redoing(block, again)
            return self.install(run(effects, self.reader()), view)

    def redoing(self, block: str, again: Again) -> tuple[Effects, View]:
        """Returns the generator behind `redo` and the view it works on, for callers who drive it themselves."""
        with self._lock:
            view = self.view
            newest = view.path.at(view.marks.live[-1]).id if view.marks.live else ""
            if not newest.startswith(block):
                what = newest or "and there is none"
                raise UsageError(f"only the newest Block in force can be written again, {what}")
            return redo(view, self.policy, again, self.fixed(view), now=now(), new_id=self.new_id), view

    def reader(self) -> Answerer:
        """Returns the answerer for `redo`, which can read this session's entries when an Ask needs originals."""
        return self.answerer if self.answerer.read is not None else replace(self.answerer, read=self._read)

    def known(self, call: Call) -> Call:
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

    def effects(self, call: Call) -> tuple[Effects, View]:
        """Returns the engine generator for this call and the view it works on, for callers who drive it themselves."""
        with self._lock:
            view = self.view
            self._warn(call)
            return compact(view, self.policy, call, self.fixed(view), now=now(), new_id=self.new_id), view

    def preview(
        self, call: Call | None = None, *, to: int | None = None, window: int | None = None
    ) -> tuple[Decision, Plan | None]:
        """Returns what `compact` would decide and plan for the same arguments. Changes nothing and calls no model."""
        with self._lock:
            call = self.known(call or self.call(to=to, window=window))
            return preview(self.view, self.policy, call, self.bench())

    def answering(self) -> Answerer:
        """Returns the answerer for a compaction: it tells its listeners of the start once no before-hook objects."""
        answerer = self.answerer

        def starts(consult: Consult) -> None:
            answerer.tell(self._started(consult))

        return replace(answerer, before=(*answerer.before, starts)) if answerer.listen else answerer

    def _started(self, consult: Consult) -> Started:
        return Started(self.place.session, self.policy.name, consult.tokens_before, consult.target, consult.plan, now())

    def _warn(self, call: Call) -> None:
        """Notifies the listeners if a check finds the view in the warning zone."""
        if not self.answerer.listen or call.demand != "check" or call.window is None:
            return
        reading, limits = self._against(call)
        if limits.need(reading.tokens) == "warn":
            self.answerer.tell(
                Warned(self.place.session, self.policy.name, reading.tokens, limits.soft, call.window, now())
            )

    def install(self, verdict: Verdict, planned_on: View) -> Outcome:
        """Appends the entry of an engine result, notifies hooks and listeners, and returns the final Outcome."""
        outcome = self._installed(verdict, planned_on)
        is_repeated = outcome.status == "unsatisfiable" and verdict.entry is None  # the first time it was reported
        event = news_of(self.place.session, outcome, now())
        if event is not None and not is_repeated:
            self.answerer.tell(event)
        if outcome.status == "compacted" and isinstance(verdict.entry, Block):
            self.answerer.appended(outcome, verdict.entry)
        return outcome

    def _installed(self, verdict: Verdict, planned_on: View) -> Outcome:
        """Appends the entry of an engine result and returns its Outcome with the message counts filled in.

        If the log has grown meanwhile, a Block whose ranges are still in view is appended at the new leaf. Otherwise
        nothing is written and the Outcome is `superseded`.
        """
        before = self.told(planned_on)
        if self.archive is not None and isinstance(verdict.entry, Block) and self._still_fits(verdict.entry):
            verdict = archived(verdict, self.archive, self.place.session)
        for _ in range(_RETRIES):
            with self._lock:
                entry = verdict.entry
                if entry is None:
                    return replace(verdict.outcome, messages_before=before, messages_after=before)
                entry = replace(entry, parent=self.leaf)
                if isinstance(entry, Block) and not self._still_fits(entry):
                    break
                try:
                    self._head.append([entry])
                except LostRace:
                    self.refresh()
                    continue
                after = self.told(self.view) if isinstance(entry, Block) else before
                return replace(verdict.outcome, messages_before=before, messages_after=after)
        reason = "the conversation changed in the range while the summary was made; nothing was written"
        return replace(
            verdict.outcome,
            status="superseded",
            reason=reason,
            tokens_after=verdict.outcome.tokens_before,
            block="",
            facts={},
            messages_before=before,
            messages_after=before,
        )

    # -- inside --------------------------------------------------------------------------------------------------------

    def fixed(self, view: View) -> Bench:
        """Returns measures with the size of this view counted now, so that other threads may append meanwhile."""
        measures = self.bench()
        tokens = measures.tally(view)
        return Bench(measures.sizes, lambda _view: tokens)

    def _still_fits(self, block: Block) -> bool:
        live = self.view.marks.live
        under = self.view.path.at(live[-1]).id if live else None
        return block.under == under and self.view.fits(block)
