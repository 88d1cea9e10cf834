"""One head of a session as it is read and written: what it says, what the model sees of it, what it takes.

Every method is synchronous and safe from several threads. Compacting is `session.py`'s part.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from tenfold.archive import Archive
from tenfold.drive import Answerer
from tenfold.engine import Bench
from tenfold.errors import LostRace, NotFound, UsageError
from tenfold.hosting import Key, Level, carried, matched, next_message
from tenfold.log.base import DEFAULT_NAMESPACE, MAIN, Hit, SessionInfo, Store
from tenfold.log.head import Head
from tenfold.log.ids import IDS, now
from tenfold.policy import Policy
from tenfold.preparing import Preparation
from tenfold.recall.asking import asked
from tenfold.recall.expand import Line, expand
from tenfold.record.ask import Outcome
from tenfold.record.block import Block, Ref, Rep
from tenfold.record.entry import Entry, Pin, Retraction, Said, Usage
from tenfold.record.message import Message
from tenfold.summarize.edge import with_prompts
from tenfold.view.path import Path
from tenfold.view.rules import check
from tenfold.view.units import Unit, shown_of
from tenfold.view.view import View
from tenfold.wire import Resent
from tenfold.wire.same import same_key

Provider = Callable[[], Policy]
"""Gives the policy in force: asked at every check, so that a change applies without a restart."""


THE_SESSIONS = "the session's model"
"""Stands for a model that no policy names."""


def _moved(ref: Ref, places: Mapping[int, int]) -> Ref:
    """A reference to what a Block shows, where that Block stands at another place now."""
    return replace(ref, block=places.get(ref.block, ref.block)) if isinstance(ref, Rep) else ref


def _providing(policy: Policy | Provider) -> Provider:
    return policy if callable(policy) else lambda: policy


class Place(Struct, frozen=True):
    """Where a session lives: a store, the session's id, the namespace (the tenant), and the head it continues."""

    store: Store
    session: str
    namespace: str = DEFAULT_NAMESPACE
    head: str = MAIN


class Conversation:
    """What a session says: read, appended to, brought level with a host's list, undone, pinned, searched."""

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
        self.awaited: object = None  # the model call of a host on the async side, which stands for the answerer's model
        self._force: tuple[Policy, object, Policy] | None = None
        self.answerer, self.archive = answerer or Answerer(), archive
        self.new_id = IDS.new
        self.said_at: Callable[[], int | None] = now
        self._lock = threading.RLock()
        self.compacting = threading.Lock()
        self.outcome: Outcome | None = None
        self.ahead: Preparation | None = None
        self._used: Usage | None = None
        self._apart = 0
        self._keys: dict[int, bytes] = {}
        self._level: Level | None = None
        self._resent = Resent()
        self._told: tuple[list[Unit] | None, int, int] = (None, 0, 0)
        self._agreed: tuple[list[Unit] | None, list[Key] | None, int, int] = (None, None, 0, 0)
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
    ) -> Self:
        """Makes the session in the store, or takes up the one of that id, and opens it."""
        place.store.create(place.namespace, info or SessionInfo(place.session, model=model))
        return cls(place, policy, model=model, answerer=answerer, archive=archive)

    @property
    def policy(self) -> Policy:
        """The policy in force now, with the counter this session was opened with.

        Where it names no models and the session has one, that one writes.
        """
        given, model = self._provider(), self.awaited or self.answerer.model
        if self._force is None or self._force[0] is not given or self._force[1] is not model:
            self._force = given, model, self._outfitted(given, asks=model is not None)
        return self._force[2]

    @policy.setter
    def policy(self, policy: Policy | Provider) -> None:
        self._provider = _providing(policy)

    def _outfitted(self, policy: Policy, *, asks: bool) -> Policy:
        summary = with_prompts(policy.summary)
        if asks and not summary.models:
            summary = replace(summary, models=(THE_SESSIONS,))
        return replace(policy, summary=summary, counter=self._head.counter)

    @property
    def view(self) -> View:
        """What the model sees now. A value: it stays as it is while the session goes on."""
        return self._head.view

    @property
    def leaf(self) -> str | None:
        """The id of the last entry on the path, None before the first."""
        return self._head.leaf

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
        """Finds originals and summaries of this session: what holds all the words first, then what holds some."""
        place = self.place
        return asked(place.store, place.namespace, words, session=place.session, limit=limit)

    def expand(self, id: str, *, deep: bool = False) -> list[Line]:
        """What a Block stands for, one level down or (`deep`) as the originals; for a message's id, that message."""
        return expand(self.place.store, self.place.namespace, id, deep=deep, session=self.place.session)

    def violations(self, wire: str) -> tuple[str, ...]:
        """What a provider of that wire would refuse in the view, one sentence each; empty when it is well-formed."""
        return tuple(f"{v.rule} at message {v.index}: {v.what}" for v in check(self.view.messages(), wire))

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
                entries.append(Said(self.new_id(), parent, run, self.said_at(), message, took.get(index)))
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
        self._synced(list(messages))
        return self.view

    def _synced(self, given: list[Message], *, floor: bool = False) -> Level:
        """The list, which nobody changes any more, as the log now has it. For `floor` see `matched`."""
        with self._lock:
            level = self._level
            if level is not None and level.view is self.view and level.floor == floor and level.known(given, self._key):
                return self._leveled(given, level)
            match = matched(given, self.view, self._key, floor=floor)
            differs = next_message(self.view.path, match.position)
            if differs is not None:  # what stands silently before it, Blocks included, stays on the branch
                kept = carried(self.view, differs)
                self._head.rewind(differs - 1)
                self._keys = {at: key for at, key in self._keys.items() if at < differs}
                self._used = None
                self._carry(kept)
                match = matched(given, self.view, self._key, floor=floor) if kept else match
            return self._leveled(given, Level(self.view, given, list(match.keys), match.count, floor))

    def _carry(self, kept: Sequence[tuple[int, Block | Pin]]) -> None:
        """Appends anew what stood behind a rewrite and speaks of what lies before it: the view stays small."""
        places: dict[int, int] = {}
        for at, entry in kept:
            places[at] = self.view.length
            new = replace(entry, id=self.new_id(), parent=self._head.leaf)
            if isinstance(new, Block):
                live = self.view.marks.live
                under = self.view.path.at(live[-1]).id if live else None
                made = tuple(replace(r, covers=tuple(_moved(c, places) for c in r.covers)) for r in new.replacements)
                new = replace(new, under=under, replacements=made)
            self._head.append([new])

    def _leveled(self, given: list[Message], level: Level) -> Level:
        """Appends what of the list is not known yet, and remembers the list for the next request."""
        start, known = self.view.length, level.count
        if known < len(given):
            self.append(*given[known:])
            level.keys.extend((start + i, 0, -1) for i in range(len(given) - known))
        self._level = replace(level, view=self.view, given=given, count=len(given))
        return self._level

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
            self._head.append([Retraction(self.new_id(), self.leaf, "", now(), block)])
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
            self._head.append([Pin(self.new_id(), self.leaf, "", now(), path.at(at).id, at, on)])
            return path.at(at).id

    def refresh(self) -> View:
        """Reads what other writers appended to this head, and gives the view."""
        with self._lock:
            self._head.refresh()
            self._keys = {}
            return self.view

    def told(self, view: View) -> int:
        """How many messages a view shows: counted on from the last view of this session that was asked for."""
        units, count = view.closed
        counted, at, total = self._told
        if units is not counted or count < at:
            at = total = 0
        total += sum(len(unit.shown) for unit in units[at:count])
        self._told = (units, count, total)
        return total + (len(shown_of(view.step, closing=False)) if view.step is not None else 0)

    def _is(self, view: View, level: Level) -> bool:
        """Whether a view of this session shows just what the list has: looked at from where it last did."""
        units, count = view.closed
        whose, keys, at, total = self._agreed
        if units is not whose or level.keys is not keys or count < at:
            at = total = 0
        for unit in units[at:count]:
            own = [s.key for s in unit.shown]
            if level.keys[total : total + len(own)] != own:
                break
            at, total = at + 1, total + len(own)
        self._agreed = (units, level.keys, at, total)
        rest = [s.key for s in shown_of(view.step, closing=False)] if view.step is not None else []
        whole = total + len(rest) == level.count
        return whole and at == count and rest == level.keys[total : level.count]

    def _history(self, level: Level) -> bool:
        """Whether the list is all that was said, and holds nothing that a view put in the place of something."""
        keys = level.keys[: level.count]
        last = keys[-1][0] if keys else -1
        return all(kind == -1 for _, _, kind in keys) and next_message(self.view.path, last) is None

    def bench(self) -> Bench:
        """What this session's views are measured with."""
        self._head.know_counts()
        return Bench(self._head.sizes, self._head.tally)

    def _key(self, position: int, message: Message) -> bytes:
        known = self._keys.get(position)
        if known is None:
            known = self._keys[position] = same_key(message)
        return known
