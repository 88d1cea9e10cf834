"""The public face of a log: one conversation, opened over a store.

Every method is synchronous and safe from several threads; `aio.AsyncSession` runs these same methods in threads.
The lock is held to append and to install a view, never while a model writes: readers are not blocked by a compaction.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tenfold.archive import Archive, archived
from tenfold.drive import Answerer, run
from tenfold.engine import Bench, Call, Effects, compact, measure, preview
from tenfold.errors import LostRace, NotFound, UsageError
from tenfold.events import Started, Warned, news_of
from tenfold.hosting import Key, Request, check_point, matched, next_message, read_request, renewed, usage_of, with_list
from tenfold.log.base import DEFAULT_NAMESPACE, MAIN, Hit, SessionInfo, Store
from tenfold.log.head import Head
from tenfold.log.ids import IDS, now
from tenfold.meter.reading import Reading
from tenfold.meter.windows import window_of
from tenfold.plan.draft import Recall
from tenfold.plan.plan import Plan
from tenfold.policy import Policy
from tenfold.preparing import Preparation
from tenfold.recall.expand import Line, expand
from tenfold.record.ask import Consult, Outcome, Verdict
from tenfold.record.block import Block, Say
from tenfold.record.entry import Branch, Entry, Pin, Retraction, Said, Usage
from tenfold.record.message import Message, text_of
from tenfold.redo import PLAIN, Again, redo
from tenfold.spans import compaction
from tenfold.summarize.edge import with_prompts
from tenfold.trigger.triggers import Decision, Demand, Limits
from tenfold.view.path import Path
from tenfold.view.rules import check
from tenfold.view.view import View
from tenfold.wire import WIRES, summary_mark
from tenfold.wire.same import same_key

_RETRIES = 5
Provider = Callable[[], Policy]
"""Gives the policy in force: asked at every check, so that a change applies without a restart."""


def _providing(policy: Policy | Provider) -> Provider:
    if callable(policy):
        return policy
    prompted = _prompted(policy)
    return lambda: prompted


def _prompted(policy: Policy) -> Policy:
    """The policy with the packaged prompts where it has none of its own."""
    summary = with_prompts(policy.summary)
    return policy if summary is policy.summary else replace(policy, summary=summary)


class Place(Struct, frozen=True):
    """Where a session lives: a store, the session's id, the namespace (the tenant), and the head it continues."""

    store: Store
    session: str
    namespace: str = DEFAULT_NAMESPACE
    head: str = MAIN


class Session:
    """One conversation. `Session.create` makes it in the store, `Session(place, policy)` opens one that exists."""

    def __init__(
        self,
        place: Place,
        policy: Policy | Provider,
        *,
        model: str = "",
        answerer: Answerer | None = None,
        archive: Archive | None = None,
    ) -> None:
        """Opens a head. `model` names the agent's model: its window and its calibration. Raises `NotFound`.

        A `policy` that is a callable is asked anew at every check (`settings.Live` follows a file); only the counter
        stays as it was at the opening. An `archive` is given every batch before the Block that brings it is appended.
        """
        self.place, self.model = place, model
        self._provider: Provider = _providing(policy)
        self.answerer, self.archive = answerer or Answerer(), archive
        self._lock = threading.RLock()
        self.compacting = threading.Lock()
        self.outcome: Outcome | None = None
        self.ahead: Preparation | None = None
        self._used: Usage | None = None
        self._apart = 0
        self._keys: dict[int, bytes] = {}
        counter = self._provider().counter
        self._head = Head(place.store, place.namespace, place.session, name=place.head, counter=counter)

    @classmethod
    def create(
        cls,
        place: Place,
        policy: Policy | Provider,
        *,
        model: str = "",
        answerer: Answerer | None = None,
        info: SessionInfo | None = None,
        archive: Archive | None = None,
    ) -> Session:
        """Makes the session in the store, or takes up the one of that id, and opens it."""
        place.store.create(place.namespace, info or SessionInfo(place.session, model=model))
        return cls(place, policy, model=model, answerer=answerer, archive=archive)

    # -- reading -------------------------------------------------------------------------------------------------------

    @property
    def policy(self) -> Policy:
        """The policy in force now, with the counter this session was opened with."""
        policy = _prompted(self._provider())
        return policy if policy.counter == self._head.counter else replace(policy, counter=self._head.counter)

    @policy.setter
    def policy(self, policy: Policy | Provider) -> None:
        self._provider = _providing(policy)

    @property
    def view(self) -> View:
        """What the model sees now. A value: it stays as it is while the session goes on."""
        return self._head.view

    @property
    def leaf(self) -> str | None:
        """The id of the last entry on the path, None before the first."""
        return self._head.leaf

    def reading(self, *, window: int | None = None, floor: int = 0) -> Reading:
        """How many tokens the view takes, how sure that is, and out of which window.

        `floor` counts what is sent besides the view; without `window` the model's known one is taken.
        """
        with self._lock:
            return measure(self._head.view, self.policy, self.call(window=window, floor=floor), self.bench())

    def uncompacted(self) -> int:
        """Tokens of the whole path with no Block applied, by the policy's counter: what shares refer to."""
        with self._lock:
            self._head.know_counts()
            return self._head.uncompacted()

    def sizes(self) -> dict[tuple[int, int, int], int]:
        """Tokens of each message in view, by its `Shown.key`."""
        with self._lock:
            shown = list(self.view.shown())
            return dict(zip((s.key for s in shown), self.bench().sizes.each(shown), strict=True))

    def search(self, words: str, *, limit: int = 20) -> list[Hit]:
        """Finds originals and summaries of this session that hold all the words, best first."""
        place = self.place
        return place.store.search(place.namespace, words, session=place.session, limit=limit)

    def expand(self, id: str, *, deep: bool = False) -> list[Line]:
        """What a Block stands for, one level down or (`deep`) as the originals; for a message's id, that message."""
        return expand(self.place.store, self.place.namespace, id, deep=deep, session=self.place.session)

    def violations(self, wire: str) -> tuple[str, ...]:
        """What a provider of that wire would refuse in the view, one sentence each; empty when it is well-formed."""
        return tuple(f"{v.rule} at message {v.index}: {v.what}" for v in check(self.view.messages(), wire))

    # -- writing -------------------------------------------------------------------------------------------------------

    def append(self, *messages: Message, usage: Usage | None = None, run: str = "") -> list[str]:
        """Appends messages at the leaf, atomically, and returns their ids. `run` is the id of the run they belong to.

        `usage` belongs to the last of them that is an answer; what `used` noted belongs to the first. Raises
        `LostRace` when another writer was first: nothing is written; `refresh` and append again.
        """
        with self._lock:
            answers = [i for i, m in enumerate(messages) if m.role == "assistant"]
            took: dict[int, Usage] = {}
            if answers and self._used is not None:
                took[answers[0]] = self._used
            if answers and usage is not None:
                took[answers[-1]] = usage
            entries: list[Entry] = []
            parent = self._head.leaf
            for index, message in enumerate(messages):
                entries.append(Said(IDS.new(), parent, run, now(), message, took.get(index)))
                parent = entries[-1].id
            if entries:
                self._head.append(entries)
            if answers:
                self._used = None
            return [e.id for e in entries]

    def sync(self, messages: Sequence[Message]) -> View:
        """Brings the log level with a host's whole list, which hosts resend on every request, and gives the view.

        The list may be the raw history or begin with a view of ours. What is known is matched by content; what is
        new is appended; a rewrite becomes a branch before the first message that differs. Nothing is duplicated.
        """
        self._synced(messages)
        return self.view

    def _synced(self, messages: Sequence[Message]) -> tuple[View, tuple[Key, ...]]:
        """The view, and the `Shown.key` of each message of the list."""
        with self._lock:
            match = matched(messages, self.view, self._key)
            differs = next_message(self.view.path, match.position)
            if differs is not None:  # what stands silently before it, Blocks included, stays on the branch
                self._head.rewind(differs - 1)
                self._keys = {at: key for at, key in self._keys.items() if at < differs}
                self._used = None
            start = self.view.length
            self.append(*messages[match.count :])
            new = ((start + i, 0, -1) for i in range(len(messages) - match.count))
            return self.view, (*match.keys, *new)

    def move(self, path: Path, entries: Sequence[Entry], *, expected: str | None) -> bool:
        """Goes to the end of a path of this session's tree and appends there; see `branches.navigate`.

        False, and nothing done, where the leaf is not `expected` any more or another writer was first.
        """
        with self._lock:
            if self.leaf != expected:
                return False
            before = self.view.path
            self._head.move(path)
            try:
                if entries:
                    self._head.append(entries)
            except BaseException as exc:
                self._head.move(before)
                if isinstance(exc, LostRace):
                    return False
                raise
            self._keys, self._used, self.ahead = {}, None, None
            return True

    # -- for hosts -----------------------------------------------------------------------------------------------------

    def before_model(
        self, request: Mapping[str, Any], *, window: int | None = None, recall: Recall = "none", wire: str = ""
    ) -> dict[str, Any]:
        """The request to send in place of this one (a provider's keyword arguments): its list brought down to size.

        Syncs, then compacts if the policy's trigger calls for it; `outcome` says what came of that. Items that stay
        are the very objects passed in. Without a known window nothing is ever compacted. Raises `UsageError` for a
        request without a whole conversation.
        """
        with self.compacting:
            asked, keys, call = self.asked(request, window=window, recall=recall, wire=wire)
            if call is not None:
                self.outcome = self._carried_out(call)
                self.prepare(call)
            return self.answered(request, asked, keys)

    def after_model(self, report: Any) -> None:  # noqa: ANN401 - a provider's JSON, or an object of its SDK
        """Notes what the provider reported for the request just made: a response, or its usage, of any wire.

        Reports that are partial, failed, or count no prompt tokens are left out.
        """
        usage = usage_of(report, model=self.model)
        if usage is not None:
            self.used(usage)

    def asked(
        self, request: Mapping[str, Any], *, window: int | None, recall: Recall, wire: str
    ) -> tuple[Request, tuple[Key, ...], Call | None]:
        """The first half of `before_model`: the request read and synced, and the demand it makes, if any."""
        asked = read_request(request, confirm=self._ours, wire=wire)
        self.model = asked.model or self.model
        _, keys = self._synced(asked.messages)
        floor = self._apart = sum(self.policy.counter.count(list(asked.apart))) if asked.apart else 0
        call = replace(
            self.call(window=window, floor=floor), demand="check", output_reserve=asked.output, recall=recall
        )
        return asked, keys, call if self._due(call) else None

    def _due(self, call: Call) -> bool:
        """Whether this is a check point: for the soft limit where the policy says so, for the hard one always."""
        if call.window is None or not {"before_call", check_point(self.view.path)}.isdisjoint(self.policy.checks):
            return call.window is not None
        reading, limits = self._against(call)
        return reading.tokens > limits.hard

    def answered(self, request: Mapping[str, Any], asked: Request, keys: Sequence[Key]) -> dict[str, Any]:
        """The second half of `before_model`: the request with the view in place of its list."""
        shown = list(self.view.shown())
        if [s.key for s in shown] == list(keys):  # the list is the view already
            return {**request, asked.field: request[asked.field]}
        messages = renewed(asked.messages, shown, keys)
        return with_list(request, asked, WIRES[asked.wire].encode(messages))

    def _ours(self, block: str, seal: str) -> bool:
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

    def _read(self, positions: Sequence[int]) -> list[Entry]:
        with self._lock:
            path = self.view.path
            return [path.at(p) for p in positions]

    def used(self, usage: Usage) -> None:
        """Notes what the provider reported for the request just made: it belongs to the next answer appended.

        Reports without prompt tokens are left out.
        """
        if usage.prompt > 0:
            with self._lock:
                self._used = replace(usage, apart=usage.apart or self._apart)

    def undo(self) -> str:
        """Retracts the newest live Block and returns its id. Raises `UsageError` when there is none."""
        with self._lock:
            live = self.view.marks.live
            if not live:
                raise UsageError("there is nothing to undo: no compaction is in force on this path")
            block = self.view.path.at(live[-1]).id
            self._head.append([Retraction(IDS.new(), self.leaf, "", now(), block)])
            return block

    def pin(self, entry: str, *, on: bool = True) -> str:
        """Keeps a message in view through every compaction, or with `on=False` no longer. Returns its full id.

        `entry` may be the beginning of an id. Raises `NotFound` unless it names one message in view.
        """
        with self._lock:
            path = self.view.path
            found = {s.at for s in self.view.shown() if s.original and path.at(s.at).id.startswith(entry)}
            if len(found) != 1:
                raise NotFound(
                    f"messages in view with an id that begins with {entry!r}: {len(found)}, and it must be one; "
                    "`tenfold show` lists them, and what is hidden can be expanded"
                )
            at = found.pop()
            self._head.append([Pin(IDS.new(), self.leaf, "", now(), path.at(at).id, at, on)])
            return path.at(at).id

    def refresh(self) -> View:
        """Reads what other writers appended to this head, and gives the view."""
        with self._lock:
            self._head.refresh()
            self._keys = {}
            return self.view

    # -- compacting ----------------------------------------------------------------------------------------------------

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
        ahead = self.adopted(call)
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
        reading, limits = self._against(call)
        if limits.need(reading.tokens) != "warn" or self.view.marks.undone:
            return
        to = max(1, int((limits.target - reading.floor) / reading.slope))
        effects, view = self.effects(replace(call, demand="manual", to=to, consult=False))
        self.ahead = Preparation(lambda: (run(effects, answerer), view))

    def adopted(self, call: Call) -> Outcome | None:
        """What was prepared, appended: if there is something, the trigger fires or a person asks, and it is enough."""
        ahead = self.ahead
        if ahead is None:
            return None
        reading, limits = self._against(call) if call.window is not None else (self.reading(), None)
        if call.demand == "check" and (limits is None or limits.need(reading.tokens) not in ("soft", "hard")):
            return None
        verdict, view = ahead.take()
        self.ahead = None
        if isinstance(verdict.entry, Block):
            saves = verdict.entry.tokens_before - verdict.entry.tokens_after
            least = call.to if call.to is not None else (limits.soft if limits else 0)
            if reading.tokens - saves * reading.slope > least:
                return None
        outcome = self.install(verdict, view)
        return outcome if outcome.status == "compacted" else None

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
            return redo(view, self.policy, again, self.fixed(view), now=now(), new_id=IDS.new), view

    def reader(self) -> Answerer:
        """The answerer, able to read this session's entries for Asks that want originals."""
        return self.answerer if self.answerer.read is not None else replace(self.answerer, read=self._read)

    def known(self, call: Call) -> Call:
        """The call itself. Raises `UsageError` when it has neither a target nor a window."""
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
            return compact(view, self.policy, call, self.fixed(view), now=now(), new_id=IDS.new), view

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
        before = sum(1 for _ in planned_on.shown())
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
                after = sum(1 for _ in self.view.shown()) if isinstance(entry, Block) else before
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

    def bench(self) -> Bench:
        """What this session's views are measured with."""
        self._head.know_counts()
        return Bench(self._head.sizes, self._head.tally)

    def _still_fits(self, block: Block) -> bool:
        live = self.view.marks.live
        under = self.view.path.at(live[-1]).id if live else None
        return block.under == under and self.view.fits(block)

    def _key(self, position: int, message: Message) -> bytes:
        known = self._keys.get(position)
        if known is None:
            known = self._keys[position] = same_key(message)
        return known
