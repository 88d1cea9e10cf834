"""One branch of a session: reading it, appending to it, syncing it with a host's list, undo, pins and search.

Every method is synchronous and can be called from several threads. The subclass `Session` adds compaction.
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
"""Returns the policy in force. It is called at every check, so that a change applies without a restart."""


THE_SESSIONS = "the session's model"
"""The name of the session's own model, which writes the summaries when the policy names no model."""


def _moved(ref: Ref, places: Mapping[int, int]) -> Ref:
    """Returns the reference with the Block's new position, if that Block was appended again elsewhere."""
    return replace(ref, block=places.get(ref.block, ref.block)) if isinstance(ref, Rep) else ref


def _providing(policy: Policy | Provider) -> Provider:
    return policy if callable(policy) else lambda: policy


class Place(Struct, frozen=True):
    """Where a session is stored: the store, the session's id, the namespace (the tenant), and the head to continue."""

    store: Store
    session: str
    namespace: str = DEFAULT_NAMESPACE
    head: str = MAIN


class Conversation:
    """The messages of a session on one head: read, append, sync with a host's list, undo, pin and search."""

    def __init__(
        self,
        place: Place,
        policy: Policy | Provider,
        *,
        model: str = "",
        answerer: Answerer | None = None,
        archive: Archive | None = None,
    ) -> None:
        """Opens a head. Raises `NotFound` if the session does not exist.

        `model` names the agent's model, for its window and its calibration. A callable `policy` is called again at
        every check (`settings.Live` follows a file), but the counter stays the one the session was opened with. An
        `archive` receives every batch before the Block that contains it is appended.
        """
        self.place, self.model = place, model
        self._provider: Provider = _providing(policy)
        self.awaited: object = None  # an async host's model call, used in place of the answerer's model
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
        """Creates the session in the store, unless one with that id exists, and opens it."""
        place.store.create(place.namespace, info or SessionInfo(place.session, model=model))
        return cls(place, policy, model=model, answerer=answerer, archive=archive)

    @property
    def policy(self) -> Policy:
        """The policy in force now, with the counter this session was opened with.

        If the policy names no model, the session's own model (if there is one) writes the summaries.
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
        """What the model sees now. It is an immutable value: it does not change while the session goes on."""
        return self._head.view

    @property
    def leaf(self) -> str | None:
        """The id of the last entry on the path, or None if there is no entry yet."""
        return self._head.leaf

    def uncompacted(self) -> int:
        """Counts the tokens of the whole path with no Block applied. A target such as 10% is a share of this number."""
        with self._lock:
            self._head.know_counts()
            return self._head.uncompacted()

    def sizes(self) -> dict[tuple[int, int, int], int]:
        """Returns the token count of each message in view, by the message's key."""
        with self._lock:
            shown = list(self.view.shown())
            return dict(zip((s.key for s in shown), self.bench().sizes.each(shown), strict=True))

    def search(self, words: str, *, limit: int = 20) -> list[Hit]:
        """Searches this session's messages and summaries. Hits with all the words come first, then hits with some."""
        address = self.place
        return asked(address.store, address.namespace, words, session=address.session, limit=limit)

    def expand(self, id: str, *, deep: bool = False) -> list[Line]:
        """Returns what a Block replaces: one level down, or with `deep` the originals.

        For the id of a message, returns that message.
        """
        return expand(self.place.store, self.place.namespace, id, deep=deep, session=self.place.session)

    def violations(self, wire: str) -> tuple[str, ...]:
        """Returns what a provider with that wire format would refuse in the view, one sentence for each violation."""
        return tuple(f"{v.rule} at message {v.index}: {v.what}" for v in check(self.view.messages(), wire))

    def append(self, *messages: Message, usage: Usage | None = None, run: str = "") -> list[str]:
        """Appends messages at the leaf, atomically, and returns their ids. `run` is the id of the run they belong to.

        `usage` is stored with the last assistant message; the usage from `record_usage` with the first. Raises
        `LostRace` if another writer was first. Nothing is written then: call `refresh` and append again.
        """
        with self._lock:
            answers = [i for i, m in enumerate(messages) if m.role == "assistant"]
            usages: dict[int, Usage] = {}
            if answers and self._used is not None:
                usages[answers[0]] = self._used
            if answers and usage is not None:
                usages[answers[-1]] = usage
            entries: list[Entry] = []
            parent = self._head.leaf
            for index, message in enumerate(messages):
                entries.append(Said(self.new_id(), parent, run, self.said_at(), message, usages.get(index)))
                parent = entries[-1].id
            if entries:
                self._head.append(entries)
            if answers:
                self._used = None
            return [e.id for e in entries]

    def sync(self, messages: Sequence[Message]) -> View:
        """Syncs the log with a host's whole message list, which hosts resend on every request, and returns the view.

        The list may be the raw history, or begin with an earlier view. Known messages are matched by content and new
        ones are appended, so nothing is duplicated. If a known message was changed, a branch begins before it.
        """
        self._synced(list(messages))
        return self.view

    def _synced(self, given: list[Message], *, floor: bool = False) -> Level:
        """Syncs the log with a list that nobody changes afterwards, and returns the synced list.

        With `is_floor_ignored`, leading system prompts count as equal whatever their text.
        """
        with self._lock:
            last = self._level
            if last is not None and last.view is self.view and last.floor == floor and last.known(given, self._key):
                return self._leveled(given, last)
            match = matched(given, self.view, self._key, floor=floor)
            changed = next_message(self.view.path, match.position)
            if changed is not None:  # entries without a message before it, Blocks included, stay on the new branch
                kept = carried(self.view, changed)
                self._head.rewind(changed - 1)
                self._keys = {position: key for position, key in self._keys.items() if position < changed}
                self._used = None
                self._carry(kept)
                match = matched(given, self.view, self._key, floor=floor) if kept else match
            return self._leveled(given, Level(self.view, given, list(match.keys), match.count, floor))

    def _carry(self, kept: Sequence[tuple[int, Block | Pin]]) -> None:
        """Appends copies of the Blocks and pins that came after a changed message but concern only earlier ones.

        Without them the new branch would show in full what was compacted already.
        """
        positions: dict[int, int] = {}
        for position, entry in kept:
            positions[position] = self.view.length
            new = replace(entry, id=self.new_id(), parent=self._head.leaf)
            if isinstance(new, Block):
                live = self.view.marks.live
                under = self.view.path.at(live[-1]).id if live else None
                shifted = tuple(
                    replace(r, covers=tuple(_moved(c, positions) for c in r.covers)) for r in new.replacements
                )
                new = replace(new, under=under, replacements=shifted)
            self._head.append([new])

    def _leveled(self, given: list[Message], level: Level) -> Level:
        """Appends the messages of the list that the log does not have yet, and keeps the list for the next request."""
        start, matched_count = self.view.length, level.count
        if matched_count < len(given):
            self.append(*given[matched_count:])
            level.keys.extend((start + i, 0, -1) for i in range(len(given) - matched_count))
        self._level = replace(level, view=self.view, given=given, count=len(given))
        return self._level

    def move(self, path: Path, entries: Sequence[Entry], *, expected: str | None) -> bool:
        """Moves to the end of another path of this session's tree and appends `entries` there; see `navigate`.

        Returns False and changes nothing if the leaf is no longer `expected` or another writer was first.
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
        """Keeps the usage the provider reported for the last request; the next appended answer is stored with it.

        Reports without prompt tokens are ignored.
        """
        if usage.prompt > 0:
            with self._lock:
                self._used = replace(usage, apart=usage.apart or self._apart)

    def undo(self) -> str:
        """Retracts the newest live Block and returns its id. Raises `UsageError` if there is none."""
        with self._lock:
            live = self.view.marks.live
            if not live:
                raise UsageError("there is nothing to undo: no compaction is in force on this path")
            block = self.view.path.at(live[-1]).id
            self._head.append([Retraction(self.new_id(), self.leaf, "", now(), block)])
            return block

    def pin(self, entry: str, *, on: bool = True) -> str:
        """Pins a message, so that no compaction hides or shortens it; `on=False` unpins it. Returns its full id.

        `entry` may be the beginning of an id. Raises `NotFound` unless it names exactly one message in view.
        """
        with self._lock:
            path = self.view.path
            positions = {s.at for s in self.view.shown() if s.original and path.at(s.at).id.startswith(entry)}
            if len(positions) != 1:
                raise NotFound(
                    f"messages in view with an id that begins with {entry!r}: {len(positions)}, and it must be one; "
                    "`tenfold show` lists them, and what is hidden can be expanded"
                )
            position = positions.pop()
            self._head.append([Pin(self.new_id(), self.leaf, "", now(), path.at(position).id, position, on)])
            return path.at(position).id

    def refresh(self) -> View:
        """Reads what other writers have appended to this head, and returns the view."""
        with self._lock:
            self._head.refresh()
            self._keys = {}
            return self.view

    def told(self, view: View) -> int:
        """Counts the messages that a view shows. Counting goes on from the view that was counted last."""
        units, count = view.closed
        last_units, start, total = self._told
        if units is not last_units or count < start:
            start = total = 0
        total += sum(len(unit.shown) for unit in units[start:count])
        self._told = (units, count, total)
        return total + (len(shown_of(view.step, closing=False)) if view.step is not None else 0)

    def _is(self, view: View, level: Level) -> bool:
        """Returns whether a view shows exactly the messages of the list. Goes on from where they last agreed."""
        units, count = view.closed
        last_units, last_keys, index, total = self._agreed
        if units is not last_units or level.keys is not last_keys or count < index:
            index = total = 0
        for unit in units[index:count]:
            keys = [s.key for s in unit.shown]
            if level.keys[total : total + len(keys)] != keys:
                break
            index, total = index + 1, total + len(keys)
        self._agreed = (units, level.keys, index, total)
        rest = [s.key for s in shown_of(view.step, closing=False)] if view.step is not None else []
        is_complete = total + len(rest) == level.count
        return is_complete and index == count and rest == level.keys[total : level.count]

    def _history(self, level: Level) -> bool:
        """Returns whether the list is the whole history, with no message replaced by a summary or a stub."""
        keys = level.keys[: level.count]
        last = keys[-1][0] if keys else -1
        return all(kind == -1 for _, _, kind in keys) and next_message(self.view.path, last) is None

    def bench(self) -> Bench:
        """Returns the token sizes and the counter with which this session's views are measured."""
        self._head.know_counts()
        return Bench(self._head.sizes, self._head.tally)

    def _key(self, position: int, message: Message) -> bytes:
        key = self._keys.get(position)
        if key is None:
            key = self._keys[position] = same_key(message)
        return key
