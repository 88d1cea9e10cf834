"""The public face of a log: one conversation, opened over a store.

Every method is synchronous and safe from several threads; `aio.AsyncSession` runs these same methods in threads.
The lock is held to append and to install a view, never while a model writes: readers are not blocked by a compaction.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from tenfold.drive import Answerer, run
from tenfold.engine import Bench, Call, Effects, compact, measure, preview
from tenfold.errors import LostRace, NotFound, UsageError
from tenfold.log.base import DEFAULT_NAMESPACE, MAIN, Hit, SessionInfo, Store
from tenfold.log.head import Head
from tenfold.log.ids import IDS, now
from tenfold.meter.reading import Reading
from tenfold.meter.windows import window_of
from tenfold.plan.plan import Plan
from tenfold.policy import Policy
from tenfold.recall.expand import Line, expand
from tenfold.record.ask import Outcome, Verdict
from tenfold.record.block import Block
from tenfold.record.entry import Entry, Pin, Retraction, Said, Usage, message_of
from tenfold.record.message import Message, text_of
from tenfold.trigger.triggers import Decision
from tenfold.view.path import Path
from tenfold.view.rules import check
from tenfold.view.units import shown_of
from tenfold.view.view import View
from tenfold.wire.marks import summary_mark
from tenfold.wire.same import same_key

_RETRIES = 5


class Place(Struct, frozen=True):
    """Where a session lives: a store, the session's id, the namespace (the tenant), and the head it continues."""

    store: Store
    session: str
    namespace: str = DEFAULT_NAMESPACE
    head: str = MAIN


class Session:
    """One conversation. `Session.create` makes it in the store, `Session(place, policy)` opens one that exists."""

    def __init__(self, place: Place, policy: Policy, *, model: str = "", answerer: Answerer | None = None) -> None:
        """Opens a head. `model` names the agent's model: its window and its calibration. Raises `NotFound`."""
        self.place, self.policy, self.model = place, policy, model
        self.answerer = answerer or Answerer()
        self._lock = threading.RLock()
        self._compacting = threading.Lock()
        self._used: Usage | None = None
        self._keys: dict[int, bytes] = {}
        self._head = Head(place.store, place.namespace, place.session, name=place.head, counter=policy.counter)

    @classmethod
    def create(
        cls, place: Place, policy: Policy, *, model: str = "", answerer: Answerer | None = None,
        info: SessionInfo | None = None,
    ) -> Session:
        """Makes the session in the store, or takes up the one of that id, and opens it."""
        place.store.create(place.namespace, info or SessionInfo(place.session, model=model))
        return cls(place, policy, model=model, answerer=answerer)

    # -- reading -------------------------------------------------------------------------------------------------------

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
        """Tokens of the whole path with no Block applied, by the policy's counter: what shares of the whole refer to."""
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

    def expand(self, id: str, *, deep: bool = False) -> list[Line]:  # noqa: A002 - the log's word
        """What a Block stands for, one level down or (`deep`) as the originals; for a message's id, that message."""
        return expand(self.place.store, self.place.namespace, id, deep=deep)

    def violations(self, wire: str) -> tuple[str, ...]:
        """What a provider of that wire would refuse in the view, one sentence each; empty when it is well-formed."""
        return tuple(f"{v.rule} at message {v.index}: {v.what}" for v in check(self.view.messages(), wire))

    # -- writing -------------------------------------------------------------------------------------------------------

    def append(self, *messages: Message, usage: Usage | None = None) -> list[str]:
        """Appends messages at the leaf, atomically, and returns their ids. `usage` belongs to the last one.

        Raises `LostRace` when another writer was first: nothing is written; `refresh` and append again.
        """
        with self._lock:
            entries: list[Entry] = []
            parent = self._head.leaf
            for message in messages:
                took = None
                if message.role == "assistant" and message is messages[-1]:
                    took = usage or self._used
                entries.append(Said(IDS.new(), parent, "", now(), message, took))
                parent = entries[-1].id
            self._head.append(entries)
            if messages[-1].role == "assistant":
                self._used = None
            return [e.id for e in entries]

    def sync(self, messages: Sequence[Message]) -> View:
        """Brings the log level with a host's whole list, which hosts resend on every request, and gives the view.

        The list may be the raw history or begin with a view of ours. What is known is matched by content; what is
        new is appended; a rewrite becomes a branch at the last message that still agrees. Nothing is duplicated.
        """
        with self._lock:
            keys = [same_key(m) for m in messages]
            matched, position = self._best_match(messages, keys)
            if self._message_after(position):
                self._head.rewind(position)
                self._keys = {at: key for at, key in self._keys.items() if at <= position}
            if matched < len(messages):
                self.append(*messages[matched:])
            return self.view

    def used(self, usage: Usage) -> None:
        """Notes what the provider reported for the request just made: it belongs to the next answer appended.

        Reports without prompt tokens are left out.
        """
        if usage.prompt > 0:
            with self._lock:
                self._used = usage

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
        """A demand with this session's model, window and calibration filled in; replace fields for anything else."""
        known = window if window is not None else (window_of(self.model) if self.model else None)
        return Call(to=to, window=known, model=self.model, floor=floor, anchors=self._head.anchors)

    def compact(self, call: Call | None = None, *, to: int | None = None, window: int | None = None) -> Outcome:
        """Compacts if that is called for: down to `to` tokens, or as the policy's trigger and the window say.

        Raises `UsageError` when neither a target nor a window is known; every other ending is an Outcome.
        """
        call = self.known(call or self.call(to=to, window=window))
        with self._compacting:
            effects, view = self.effects(call)
            return self.install(run(effects, self.answerer), view)

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
            return compact(view, self.policy, call, self.bench(), now=now(), new_id=IDS.new), view

    def preview(
        self, call: Call | None = None, *, to: int | None = None, window: int | None = None
    ) -> tuple[Decision, Plan | None]:
        """What `compact` would decide and plan for the same arguments; changes nothing and calls no model."""
        with self._lock:
            call = self.known(call or self.call(to=to, window=window))
            return preview(self.view, self.policy, call, self.bench())

    def install(self, verdict: Verdict, planned_on: View) -> Outcome:
        """Appends what a Verdict holds, and gives its Outcome with what only the new view can tell.

        When the log moved meanwhile, a Block whose ranges are still in view goes on the new leaf; else the Outcome is
        `superseded` and nothing is written.
        """
        before = sum(1 for _ in planned_on.shown())
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
                    self._head.refresh()
                    continue
                after = sum(1 for _ in self.view.shown()) if isinstance(entry, Block) else before
                return replace(verdict.outcome, messages_before=before, messages_after=after)
        reason = "the conversation changed in the range while the summary was made; nothing was written"
        return replace(
            verdict.outcome, status="superseded", reason=reason, tokens_after=verdict.outcome.tokens_before, block="",
            facts={}, messages_before=before, messages_after=before,
        )

    # -- inside --------------------------------------------------------------------------------------------------------

    def bench(self) -> Bench:
        """What this session's views are measured with."""
        self._head.know_counts()
        return Bench(self._head.sizes, self._head.tally)

    def _still_fits(self, block: Block) -> bool:
        live = self.view.marks.live
        under = self.view.path.at(live[-1]).id if live else None
        return block.under == under and self.view.fits(block)

    def _message_after(self, position: int) -> bool:
        path = self.view.path
        return any(message_of(e) is not None for e in path.span(position + 1, path.length - 1))

    def _best_match(self, messages: Sequence[Message], keys: list[bytes]) -> tuple[int, int]:
        matches = [self._as_history(keys), _as_view(keys, self.view)]
        marks = (summary_mark(text_of(m)) for m in messages if m.role in ("user", "system"))
        blocks = {mark.block for mark in marks if mark is not None}
        if blocks and max(matches)[0] < len(keys):
            path = self.view.path
            for position in range(path.length - 1, -1, -1):
                entry = path.at(position)
                if isinstance(entry, Block) and entry.id in blocks:
                    matches.append(_as_view(keys, View.of(path.fork(position + 1)), then=path))
                    break
        return max(matches)

    def _as_history(self, keys: list[bytes]) -> tuple[int, int]:
        """How many of the keys are this path's raw messages from the root, and the position of the last of them."""
        path, matched, position = self.view.path, 0, -1
        for at in range(path.length):
            message = message_of(path.at(at))
            if message is None:
                continue
            if matched == len(keys) or self._key(at, message) != keys[matched]:
                break
            matched, position = matched + 1, at
        return matched, position

    def _key(self, position: int, message: Message) -> bytes:
        known = self._keys.get(position)
        if known is None:
            known = self._keys[position] = same_key(message)
        return known


def _as_view(keys: list[bytes], view: View, *, then: Path | None = None) -> tuple[int, int]:
    """How many of the keys are the messages of this view, and the position of the last entry they stand for.

    A replaced range matches as a whole or not at all. `then` goes on with the raw messages after the view's end.
    """
    matched, position = 0, -1
    groups = [(u.shown, u.last) for u in view.units if u.ref is not None or u.shown]
    whole = {u.last for u in view.units if u.ref is not None}
    if view.step is not None:
        groups.append((shown_of(view.step, closing=False), view.step.entries[-1][0]))
    for shown, last in groups:
        own = [same_key(s.message) for s in shown]
        agreed = next((i for i, key in enumerate(own) if keys[matched + i : matched + i + 1] != [key]), len(own))
        if agreed < len(own):
            if last in whole:
                return matched, position
            originals = [s.at for s in shown[:agreed] if s.original]
            return matched + agreed, max([position, *originals])
        matched, position = matched + agreed, last
    if then is not None:
        for at in range(view.length, then.length):
            message = message_of(then.at(at))
            if message is not None:
                if keys[matched : matched + 1] != [same_key(message)]:
                    break
                matched, position = matched + 1, at
    return matched, position
