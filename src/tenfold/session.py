"""The public face of a log: one conversation, opened over a store.

Every method is synchronous and safe from several threads; `aio.AsyncSession` runs these same methods in threads.
The lock is held to append and to install a view, never while a model writes: readers are not blocked by a compaction.
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
"""Tokens of a part that takes more of them than bytes, at most: an image or a file by its address, and its frame."""


class Session(Conversation):
    """One conversation. `Session.create` makes it in the store, `Session(place, policy)` opens one that exists."""

    # -- for hosts -----------------------------------------------------------------------------------------------------

    def before_model(
        self, request: Mapping[str, Any], *, window: int | None = None, recall: Recall = "none", wire: str = ""
    ) -> dict[str, Any]:
        """The request to send in place of this one (a provider's keyword arguments): its list brought down to size.

        Syncs, then compacts if the policy's trigger calls for it; `outcome` says what came of that. Items that stay
        are the very objects passed in, so what was changed in place is sent as it now is; in a list of more than 64,
        far from its end, the log may follow some requests later, but before it is compacted here. Without a known
        window nothing is ever compacted. Raises `UsageError` for a request without a whole conversation.
        """
        with self.compacting:
            asked, level, call = self.asked(request, window=window, recall=recall, wire=wire)
            if call is not None:
                self.outcome = self._carried_out(call)
                self.prepare(call)
            return self.answered(request, asked, level)

    def after_model(self, report: Any) -> None:  # noqa: ANN401 - a provider's JSON, or an object of its SDK
        """Notes what the provider reported for the request just made: a response, or its usage, of any wire.

        Reports that are partial, failed, or count no prompt tokens are left out.
        """
        usage = usage_of(report, model=self.model)
        if usage is not None:
            self.used(usage)

    def asked(
        self, request: Mapping[str, Any], *, window: int | None, recall: Recall, wire: str, whole: bool = False
    ) -> tuple[Request, Level, Call | None]:
        """The first half of `before_model`: the request read and synced, and the demand it makes, if any.

        With `whole`, and where the trigger may fire, the content of every item is looked at (decision 0014): say so
        before compacting unasked.
        """
        with self._lock:
            known = self._resent
            asked = read_request(request, confirm=self.ours, wire=wire, known=known, whole=whole)
            self.model = asked.model or self.model
            floor = sum(self.policy.counter.count(list(asked.apart))) if asked.apart else 0
            wanted = Call(window=window, floor=floor, output_reserve=asked.output, recall=recall)
            if not whole and self._nears(asked.resent.since(known), wanted):
                again = {**request, asked.field: asked.given}
                asked = read_request(again, confirm=self.ours, wire=asked.wire, known=asked.resent, whole=True)
            self._resent = asked.resent
        return asked, *self.demanded(asked.resent.said(), wanted)

    def _nears(self, new: tuple[int, int], call: Call) -> bool:
        """Whether the trigger may fire with so many bytes and parts more: at most a token each, and an image each."""
        known = self.call(window=call.window, floor=call.floor)
        if known.window is None:
            return False
        reading, limits = self._against(replace(known, output_reserve=call.output_reserve))
        size, parts = new
        return limits.need(reading.tokens + int(reading.slope * (size + parts * LARGEST))) != "none"

    def demanded(self, messages: list[Message], call: Call, *, ends: bool = False) -> tuple[Level, Call | None]:
        """A host's whole list, which nobody changes any more, synced, and the check that a call with it makes, if due.

        Of `call` the window, the floor (what is sent besides the list), the output reserve and `recall` are taken.
        `ends` is of a host that makes the check at the end of a run itself. System prompts in front may change from
        request to request: the newest are sent, the log keeps the first.
        """
        level = self._synced(messages, floor=True)
        self._apart = call.floor
        known = self.call(window=call.window, floor=call.floor)
        check = replace(known, demand="check", output_reserve=call.output_reserve, recall=call.recall)
        return level, check if self.due(check, ends=ends) else None

    def due(self, call: Call, *, ends: bool = False) -> bool:
        """Whether this is a check point: for the soft limit where the policy says so, for the hard one always."""
        points = {"before_call", check_point(self.view.path)}
        if "user_message" in points and not ends:  # the run before it has ended, which other hosts say nowhere
            points.add("end_of_run")
        if call.window is None or not points.isdisjoint(self.policy.checks):
            return call.window is not None
        return self._need(call) == "hard"

    def answered(self, request: Mapping[str, Any], asked: Request, level: Level) -> dict[str, Any]:
        """The second half of `before_model`: the request with the view in place of its list.

        A history that can be sent as it is goes out in its own order, also where the view has put results to calls.
        """
        messages = self.current(level)
        if messages is None or (self._history(level) and accepted(level.messages, self.view, asked.wire)):
            value = request[asked.field]
            return {**request, asked.field: value if isinstance(value, Sequence) else asked.given}
        return with_list(request, asked, WIRES[asked.wire].encode(messages), level.standing(self.view))

    def current(self, level: Level) -> list[Message] | None:
        """The view with the host's newest form of what it shows untouched; None where the list is the view already."""
        view = self.view
        return None if self._is(view, level) else renewed(view.shown(), level)

    def ours(self, block: str, seal: str) -> bool:
        """Whether this session's store wrote the summary that carries this mark."""
        place = self.place
        try:
            found = place.store.locate(place.namespace, block)
        except NotFound:
            return False
        if found.session != place.session or found.entry.id != block:
            return False
        says: Iterable[Message] = ()
        if isinstance(found.entry, Block):
            says = (s.message for r in found.entry.replacements for s in r.show if isinstance(s, Say))
        elif isinstance(found.entry, Branch):
            says = (found.entry.message,)
        return any(summary_mark(text_of(m)) == (block, seal) for m in says)

    # -- compacting ----------------------------------------------------------------------------------------------------

    def reading(self, *, window: int | None = None, floor: int = 0) -> Reading:
        """How many tokens the view takes, how sure that is, and out of which window.

        `floor` counts what is sent besides the view; without `window` the model's known one is taken.
        """
        with self._lock:
            return measure(self._head.view, self.policy, self.call(window=window, floor=floor), self.bench())

    def call(self, *, to: int | None = None, window: int | None = None, floor: int = 0) -> Call:
        """A demand with this session's model, window and calibration filled in; replace fields for anything else.

        With a target it is a person's demand, which no trigger holds back; without one it is a check.
        """
        known = window if window is not None else (window_of(self.model) if self.model else None)
        demand: Demand = "manual" if to is not None else "check"
        consult = bool(self.answerer.before or self.answerer.listen)
        return Call(demand, to, known, model=self.model, floor=floor, anchors=self._head.anchors, consult=consult)

    def compact(self, call: Call | None = None, *, to: int | None = None, window: int | None = None) -> Outcome:
        """Compacts if that is called for: down to `to` tokens, or as the policy's trigger and the window say.

        Raises `UsageError` when neither a target nor a window is known; every other ending is an Outcome.
        """
        call = self.known(call or self.call(to=to, window=window))
        with self.compacting:
            return self._carried_out(call)

    def _carried_out(self, call: Call) -> Outcome:
        ahead = self.deferred(call) or self.adopted(call)
        if ahead is not None:
            return ahead
        with compaction(self.place.session, self.policy.name) as tell:
            effects, view = self.effects(call)
            outcome = self.install(run(effects, self.answering()), view)
            tell(outcome)
            return outcome

    def prepare(self, call: Call, answerer: Answerer | None = None) -> None:
        """Starts the compaction that the trigger will soon call for, off the critical path.

        Only in the warning zone, where the policy prepares and a model writes; `before_model` does this by itself.
        """
        answerer = answerer or self.answerer
        policy = self.policy
        if self.ahead is not None or not policy.prepares or answerer.model is None or call.window is None:
            return
        if answerer.before:  # a hook has its say when the trigger fires, and may want another summary
            return
        reading, limits = self._against(call)
        if limits.need(reading.tokens) != "warn" or self.view.marks.undone:
            return
        to = max(1, int((limits.target - reading.floor) / reading.slope))
        effects, view = self.effects(replace(call, demand="manual", to=to, consult=False))
        self.ahead = Preparation(lambda: (run(effects, answerer), view))

    def taken(self, call: Call) -> Preparation | None:
        """What was prepared, done or not, if this call takes it: the trigger fires or a person asks."""
        if self.ahead is None or call.demand != "check":
            return self.ahead
        if call.window is None:
            return None
        return self.ahead if self._need(call) in ("soft", "hard") else None

    def deferred(self, call: Call) -> Outcome | None:
        """Nothing yet: a check goes on without what is still being prepared, as long as there is room for it."""
        ahead = self.taken(call)
        if ahead is None or ahead.done or call.demand != "check":
            return None
        reading, limits = self._against(call)
        if limits.need(reading.tokens) == "hard":
            return None
        tokens, room = reading.tokens, limits.hard - reading.tokens
        told = f"a summary is being prepared; {tokens:,} tokens leave {room:,} to the limit of {limits.hard:,}"
        return Outcome("nothing", told, tokens, tokens, limits.target, policy=self.policy.name)

    def adopted(self, call: Call) -> Outcome | None:
        """What was prepared, appended: if there is something, this call takes it, and it is enough."""
        ahead = self.taken(call)
        if ahead is None:
            return None
        reading, limits = self._against(call) if call.window is not None else (self.reading(), None)
        self.ahead = None
        made = ahead.take()
        if isinstance(made, Exception):
            self.answerer.say(f"what was prepared ahead raised {type(made).__name__}: {made}; it was ignored")
            return None
        verdict, view = made
        if isinstance(verdict.entry, Block):
            saves = verdict.entry.tokens_before - verdict.entry.tokens_after
            least = call.to if call.to is not None else (limits.soft if limits else 0)
            if reading.tokens - saves * reading.slope > least:
                return None
            ready = f"prepared ahead: Block {verdict.entry.id}, {saves:,} tokens less"
            self.answerer.tell(self._started(Consult(ready, reading.estimate, verdict.outcome.target)))
        outcome = self.install(verdict, view)
        return outcome if outcome.status == "compacted" else None

    def _need(self, call: Call) -> Need:
        reading, limits = self._against(call)
        return limits.need(reading.tokens)

    def _against(self, call: Call) -> tuple[Reading, Limits]:
        """The Reading of a check, and the sizes it is held against."""
        assert call.window is not None
        reading = self.reading(window=call.window, floor=call.floor)
        policy = self.policy
        return reading, policy.trigger.limits(call.window, output_reserve=call.output_reserve, floor=reading.floor)

    def redo(self, block: str = "", again: Again = PLAIN) -> Outcome:
        """Writes the summaries of the newest live Block again from the originals: with another model, or more tokens.

        `block`, if given, must be that Block (or the beginning of its id): older ones lie under it. The result is a
        Block over the same ranges, so undo gives the earlier text back. Raises `UsageError` for another Block.
        """
        with self.compacting:
            effects, view = self.redoing(block, again)
            return self.install(run(effects, self.reader()), view)

    def redoing(self, block: str, again: Again) -> tuple[Effects, View]:
        """The generator behind `redo`, and the view it works on: for drivers of one's own."""
        with self._lock:
            view = self.view
            newest = view.path.at(view.marks.live[-1]).id if view.marks.live else ""
            if not newest.startswith(block):
                what = newest or "and there is none"
                raise UsageError(f"only the newest Block in force can be written again, {what}")
            return redo(view, self.policy, again, self.fixed(view), now=now(), new_id=self.new_id), view

    def reader(self) -> Answerer:
        """The answerer, able to read this session's entries for Asks that want originals."""
        return self.answerer if self.answerer.read is not None else replace(self.answerer, read=self._read)

    def known(self, call: Call) -> Call:
        """The call itself. Raises `UsageError` when it has neither a target nor a window, or no size as a target."""
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
        """The engine's generator for this call, and the view it works on: for drivers of one's own."""
        with self._lock:
            view = self.view
            self._warn(call)
            return compact(view, self.policy, call, self.fixed(view), now=now(), new_id=self.new_id), view

    def preview(
        self, call: Call | None = None, *, to: int | None = None, window: int | None = None
    ) -> tuple[Decision, Plan | None]:
        """What `compact` would decide and plan for the same arguments; changes nothing and calls no model."""
        with self._lock:
            call = self.known(call or self.call(to=to, window=window))
            return preview(self.view, self.policy, call, self.bench())

    def answering(self) -> Answerer:
        """The answerer, which tells its listeners when a compaction starts that no before-hook objected to."""
        answerer = self.answerer

        def starts(consult: Consult) -> None:
            answerer.tell(self._started(consult))

        return replace(answerer, before=(*answerer.before, starts)) if answerer.listen else answerer

    def _started(self, consult: Consult) -> Started:
        return Started(self.place.session, self.policy.name, consult.tokens_before, consult.target, consult.plan, now())

    def _warn(self, call: Call) -> None:
        """Tells of a check in the warning zone."""
        if not self.answerer.listen or call.demand != "check" or call.window is None:
            return
        reading, limits = self._against(call)
        if limits.need(reading.tokens) == "warn":
            self.answerer.tell(
                Warned(self.place.session, self.policy.name, reading.tokens, limits.soft, call.window, now())
            )

    def install(self, verdict: Verdict, planned_on: View) -> Outcome:
        """Appends what a Verdict holds, tells hooks and listeners, and gives the Outcome as it then is."""
        outcome = self._installed(verdict, planned_on)
        told = outcome.status == "unsatisfiable" and verdict.entry is None  # recorded before, and said then
        news = news_of(self.place.session, outcome, now())
        if news is not None and not told:
            self.answerer.tell(news)
        if outcome.status == "compacted" and isinstance(verdict.entry, Block):
            self.answerer.appended(outcome, verdict.entry)
        return outcome

    def _installed(self, verdict: Verdict, planned_on: View) -> Outcome:
        """Appends what a Verdict holds, and gives its Outcome with what only the new view can tell.

        When the log moved meanwhile, a Block whose ranges are still in view goes on the new leaf; else the Outcome is
        `superseded` and nothing is written.
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
        """What a compaction of this view is measured with while other threads append: its size is known already."""
        bench = self.bench()
        tokens = bench.tally(view)
        return Bench(bench.sizes, lambda _view: tokens)

    def _still_fits(self, block: Block) -> bool:
        live = self.view.marks.live
        under = self.view.path.at(live[-1]).id if live else None
        return block.under == under and self.view.fits(block)
