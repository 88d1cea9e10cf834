"""Where a session is read and written: one head of its log, with its view and what the meter has learned on the way.

Appending writes to the store first and changes the view second. If the store refuses, everything stays as it was. This
module does not decide whether to compact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.facts.redacted_messages import redact_entry
from tenfold.core.meter.counters import Counter
from tenfold.core.meter.estimators import (
    Calibration,
    decode_calibration,
    encode_calibration,
    expire_reports,
    record_usage,
)
from tenfold.core.meter.reading import RunningTotal, TokenCache
from tenfold.core.record.block import Block, BlockPart, KeptOriginal, RangeRef, Run
from tenfold.core.record.entry import BranchSummary, Entry, MessageEntry, Pin, Retraction, Setting, Usage, get_message
from tenfold.core.record.message import Message
from tenfold.core.record.token_reading import Counted
from tenfold.core.text.surrogates import replace_surrogates
from tenfold.core.view.fold import View
from tenfold.core.view.path import Path
from tenfold.core.view.units import Unit, build_block_key, build_original, build_original_key, get_step_messages
from tenfold.core.wire.given_values import list_own_messages
from tenfold.errors import NotFoundError, RecordError, UsageError
from tenfold.store.base import DEFAULT_NAMESPACE, MAIN, HeadState, Store
from tenfold.store.ids import IDS, get_current_time


def _shift_ref(ref: RangeRef, new_positions: Mapping[int, int]) -> RangeRef:
    """Returns the reference with the Block's new position, if that Block was appended again elsewhere."""
    return replace(ref, block=new_positions.get(ref.block, ref.block)) if isinstance(ref, BlockPart) else ref


class SessionAddress(Struct, frozen=True):
    """Where a session is stored. Workers that open the same address serve one conversation.

    `namespace` is the tenant, and `head` the branch to go on with. Raises `UsageError` for what is no store, and for a
    name that no store can hold.
    """

    store: Store
    session: str
    namespace: str = DEFAULT_NAMESPACE
    head: str = MAIN

    def __post_init__(self) -> None:
        """Raises `UsageError` for what is no store, and for a name that no store can hold."""
        if not hasattr(self.store, "read_heads"):
            raise UsageError(f"the store is {self.store!r}: open one first, with store = tenfold.open_store(path)")
        names: tuple[object, ...] = (self.session, self.namespace, self.head)
        for name in names:
            if not isinstance(name, str) or not name:
                raise UsageError(f"{name!r} is no name: a session, its namespace and its head have texts as names")
            if replace_surrogates(name) != name:
                raise UsageError(f"{name!r} names no session: it holds half of a character (a lone surrogate)")


def check_address(address: object) -> SessionAddress:
    """Returns an address unchanged. Raises `UsageError` for anything else, such as the path of a store."""
    if isinstance(address, SessionAddress):
        return address
    raise UsageError(f"address is {address!r}: it is SessionAddress(store, id), with store = tenfold.open_store(path)")


class Stamps(Struct, frozen=True):
    """Where new entries get their ids and times from, all in microseconds UTC.

    `message_time` is the time of a message that is appended, None if nobody knows it. Give others for repeatable runs.
    """

    new_id: Callable[[], str] = IDS.generate
    now: Callable[[], int] = get_current_time
    message_time: Callable[[], int | None] = get_current_time


class LogCursor:
    """The end of one path of a session's log, to read from and append to.

    It is not thread-safe: the conversation that owns it holds a lock. `is_moved` says that it was moved elsewhere in
    the tree, which the store learns of with the next append.
    """

    def __init__(self, address: SessionAddress, counter: Counter, stamps: Stamps) -> None:
        """Opens the head from its newest snapshot and what follows, which costs O(view), not O(log)."""
        self.address, self.counter, self.stamps = address, counter, stamps
        self.leaf: str | None = None
        self._stored_leaf: str | None = None
        self.is_moved = False
        self._pending_usage: Usage | None = None
        self.sent_overhead, self.has_whole_request = 0, False
        self._counted: tuple[list[Unit] | None, int, int] = (None, 0, 0)
        self._open(address.store.open(address.namespace, address.session, address.head))

    def refresh(self) -> bool:
        """Reads what other writers have appended to the head, which costs O(new). Tells whether the path is another.

        It is, and is read as at the beginning, where the head was moved to another branch, by others or by a rewind
        here, and where an entry was purged.
        """
        address, path = self.address, self.view.path
        known = self.leaf if self.is_at_head else None
        state = address.store.open(address.namespace, address.session, address.head, after=known)
        first = state.length - len(state.entries)
        if state.purges != path.purges:  # what was purged is still among the entries that are held
            state, known = address.store.open(address.namespace, address.session, address.head), None
        if known is None or state.snapshot is not None or first != path.length:
            self._open(state)
            return True
        self.leaf = self._stored_leaf = state.leaf
        self._read_request(state)
        self._uncounted_refs += (Run(first, state.length - 1),) if state.entries else ()
        for entry in state.entries:
            path.append(entry)
            self._fold_entry(entry)
        new_parts = (ref for ref in self.view.range_refs if isinstance(ref, BlockPart) and ref.block >= first)
        self._uncounted_refs += tuple(new_parts) if state.entries else ()
        return False

    @property
    def is_at_head(self) -> bool:
        """Whether the next append goes on from where the head is in the store, as far as is known here."""
        return self.leaf == self._stored_leaf

    def _open(self, state: HeadState) -> None:
        self.is_moved = False
        self.leaf = self._stored_leaf = state.leaf
        self._read_request(state)
        self.token_cache = TokenCache(self.counter)
        self.running_total = RunningTotal(self.token_cache)
        refs = state.snapshot.range_refs if state.snapshot else ()
        later = state.length - len(state.entries)
        self._uncounted_refs: tuple[RangeRef, ...] = (*refs, Run(later, state.length - 1)) if state.entries else refs
        path = Path(length=state.length, load=partial(self._load, state.leaf), purges=state.purges)
        for position, entry in enumerate(state.entries, state.length - len(state.entries)):
            path.cache_entry(position, entry)
        for position, entry in state.snapshot_entries.items():
            path.cache_entry(position, entry)
        self._fold(path, state)

    def _load(self, leaf: str | None, first: int, last: int) -> Sequence[Entry]:
        """Loads entries of the path that ends in `leaf`: an older view reads its own path, wherever the head is now."""
        assert leaf is not None
        return self.address.store.read_range(self.address.namespace, self.address.session, leaf, first, last)

    def _fold(self, path: Path, state: HeadState) -> None:
        start = (
            View.from_snapshot(state.snapshot, path, include_later=False) if state.snapshot else View.build_empty(path)
        )
        try:
            self.calibration = decode_calibration(state.snapshot.meter_state) if state.snapshot else Calibration()
        except RecordError:  # what was learned is lost, but it is learned again from the next answers
            self.calibration = Calibration()
        self.view = start
        if any(isinstance(e, MessageEntry) and e.usage is not None for e in state.entries):
            for entry in state.entries:
                self._fold_entry(entry)
        else:
            self.view = start.extend(state.entries)

    def _fold_entry(self, entry: Entry) -> None:
        """Folds one entry. If it carries usage, the meter learns from it, since the view is still the one sent."""
        if isinstance(entry, MessageEntry) and entry.usage is not None:
            self.load_counts()
            estimate, status = self.running_total(self.view), entry.message.status
            self.calibration = record_usage(self.calibration, entry.usage, estimate, self.counter.name, status=status)
        elif isinstance(entry, Block | Retraction):
            self.calibration = expire_reports(self.calibration)
        self.view = self.view.extend((entry,))

    def build_next_calibration(self) -> Calibration:
        """Builds what the meter will have learned once an answer is appended, with the usage that is kept for it."""
        if self._pending_usage is None:
            return self.calibration
        self.load_counts()
        return record_usage(self.calibration, self._pending_usage, self.running_total(self.view), self.counter.name)

    def load_counts(self) -> None:
        """Loads the stored token counts of what is in view, so that nothing is counted twice."""
        refs, self._uncounted_refs = self._uncounted_refs, ()
        for ref in refs:
            if isinstance(ref, BlockPart):
                self._load_replacement_counts(ref)
            elif self.leaf is not None:
                for position, tokens in enumerate(self._read_counts(ref.first, ref.last), ref.first):
                    if tokens is not None:
                        self.token_cache.add(build_original_key(position), tokens)

    def _read_counts(self, first: int, last: int) -> list[int | None]:
        address = self.address
        assert self.leaf is not None
        return address.store.read_counts(address.namespace, address.session, self.leaf, self.counter.name, first, last)

    def _load_replacement_counts(self, ref: BlockPart) -> None:
        block = self.view.path.get_entry(ref.block)
        if not isinstance(block, Block) or block.counter != self.counter.name:
            return
        replacement = block.replacements[ref.index]
        if not replacement.sizes:  # a purge changed its text, so the stored sizes no longer hold
            return
        for index, (show, tokens) in enumerate(zip(replacement.shown_items, replacement.sizes, strict=True)):
            key = build_original_key(show.position) if isinstance(show, KeptOriginal) else build_block_key(ref, index)
            self.token_cache.add(key, tokens)

    def count_uncompacted(self) -> Counted:
        """Counts the tokens of every message on the path, using the stored counts where there are any."""
        if not self.view.state.live_blocks:
            return self.running_total(self.view)
        length = self.view.length
        stored = self._read_counts(0, length - 1)
        if any(n is None for n in stored):
            entries = enumerate(self.view.path.get_entries(0, length - 1))
            originals = [build_original(p, m) for p, e in entries if (m := get_message(e)) is not None]
            return Counted(sum(self.token_cache.measure(originals)))
        return Counted(sum(n for n in stored if n is not None))

    def count_messages(self, view: View) -> int:
        """Counts the messages that a view shows. Counting goes on from the view that was counted last."""
        units, count = view.closed_units
        last_units, start, total = self._counted
        if units is not last_units or count < start:
            start = total = 0
        total += sum(len(unit.visible_messages) for unit in units[start:count])
        self._counted = (units, count, total)
        return total + (len(get_step_messages(view.open_step, closing=False)) if view.open_step is not None else 0)

    def append(self, entries: Sequence[Entry]) -> None:
        """Appends entries whose parents form a chain from the leaf. Lone surrogates are replaced by U+FFFD.

        Secrets are replaced if the store keeps none. Raises whatever the store raises, and nothing is changed then.
        """
        if self.address.store.redact_at_rest:
            entries = [redact_entry(entry) for entry in entries]
        try:
            self._append_as_they_are(entries)
        except UnicodeEncodeError:
            self._append_as_they_are(replace_surrogates(tuple(entries)))

    def _append_as_they_are(self, entries: Sequence[Entry]) -> None:
        view, calibration, path, address = self.view, self.calibration, self.view.path, self.address
        self.load_counts()
        try:
            for entry in entries:
                path.append(entry)
                self._fold_entry(entry)
            changed = isinstance(entries[-1], Block | Retraction)
            address.store.append(
                address.namespace,
                address.session,
                entries,
                expected=self._stored_leaf,
                head=address.head,
                snapshot=self.view.to_snapshot(encode_calibration(self.calibration)) if changed else None,
                counts={self.counter.name: self._count_tokens(entries, view.length)},
                purges=path.purges if any(isinstance(e, Block | BranchSummary) for e in entries) else None,
            )
        except BaseException:
            while path.length > view.length:
                path.drop_last()
            self.view, self.calibration = view, calibration
            self.token_cache = self.token_cache.fork(view.length)  # other messages will take these positions
            self.running_total = RunningTotal(self.token_cache)
            raise
        self.leaf = self._stored_leaf = entries[-1].id
        self.is_moved = False

    def append_messages(
        self, messages: Sequence[Message], *, usage: Usage | None, run: str, times: Sequence[int | None] | None = None
    ) -> list[str]:
        """Appends messages at the leaf, atomically, and returns their ids. `times` are theirs; without, they came now.

        `usage` is stored with the last assistant message, the usage from `keep_usage` with the first. Raises whatever
        the store raises, and nothing is changed then.
        """
        messages = list_own_messages(messages)
        answers = [i for i, m in enumerate(messages) if m.role == "assistant"]
        usages: dict[int, Usage] = {}
        pending = self._find_pending_usage() if answers else None
        if pending is not None:
            usages[answers[0]] = pending
        if answers and usage is not None:
            usages[answers[-1]] = usage
        entries: list[Entry] = []
        parent, stamps = self.leaf, self.stamps
        for index, message in enumerate(messages):
            time = stamps.message_time() if times is None else times[index]
            entry = MessageEntry(stamps.new_id(), parent, run, time, message, usages.get(index))
            entries.append(entry)
            parent = entry.id
        if entries:
            self.append(entries)
        if answers:
            self._pending_usage = None
        return [e.id for e in entries]

    def append_copies(self, kept: Sequence[tuple[int, Block | Pin | Setting]]) -> None:
        """Appends copies of Blocks, pins and rules from another path, given with their positions there, oldest first.

        After a changed message they keep what was compacted before it small; without them it would be shown in full.
        """
        positions: dict[int, int] = {}
        for position, entry in kept:
            positions[position] = self.view.length
            new = replace(entry, id=self.stamps.new_id(), parent=self.leaf)
            if isinstance(new, Block):
                shifted = tuple(
                    replace(r, covered_ranges=tuple(_shift_ref(c, positions) for c in r.covered_ranges))
                    for r in new.replacements
                )
                new = replace(new, previous_block=self.find_newest_block_id(), replacements=shifted)
            self.append([new])

    def find_newest_block_id(self) -> str | None:
        """Returns the id of the newest Block in force on this path, None if there is none."""
        live = self.view.state.live_blocks
        return self.view.path.get_entry(live[-1]).id if live else None

    def can_append_block(self, block: Block, planned_path: Path | None = None) -> bool:
        """Tells whether a planned Block still fits: no other Block came since, and its ranges are in view.

        Its ranges are positions. If the path that it was planned on is another one, its entries have to stand here too.
        """
        path, last = self.view.path, max((each.last for each in block.replacements), default=-1)
        if block.previous_block != self.find_newest_block_id() or not self.view.can_append(block):
            return False
        if planned_path is None or planned_path is path or last < 0:
            return True
        return planned_path.get_entry(last).id == path.get_entry(last).id

    def retract_block(self) -> str:
        """Retracts the newest Block in force and returns its id. Raises `UsageError` if there is none."""
        block = self.find_newest_block_id()
        if block is None:
            raise UsageError("there is nothing to undo: no compaction is in force on this path")
        self.append([Retraction(self.stamps.new_id(), self.leaf, "", self.stamps.now(), block)])
        return block

    def note_undo(self) -> None:
        """Notes that a compaction was undone on the branch that this one takes the place of."""
        self.append([Retraction(self.stamps.new_id(), self.leaf, "", self.stamps.now(), "")])

    def pin_message(self, entry: str, *, pinned: bool) -> str:
        """Pins or unpins the message whose id begins with `entry`, and returns its full id.

        Raises `NotFoundError` unless exactly one message in view has such an id.
        """
        path = self.view.path
        visible = (s.position for s in self.view.get_visible_messages() if s.is_original)
        positions = {position for position in visible if path.get_entry(position).id.startswith(entry)}
        if len(positions) != 1:
            raise NotFoundError(
                f"messages in view with an id that begins with {entry!r}: {len(positions)}, and it must be one; "
                "`tenfold show` lists them, and what is hidden can be expanded"
            )
        (position,) = positions
        id_ = path.get_entry(position).id
        self.append([Pin(self.stamps.new_id(), self.leaf, "", self.stamps.now(), id_, position, pinned)])
        return id_

    def change_rule(self, text: str, *, key: str) -> None:
        """Appends a setting that adds a rule or drops one."""
        self.append([Setting(self.stamps.new_id(), self.leaf, "", self.stamps.now(), key, text)])

    @property
    def pending_usage(self) -> Usage | None:
        """What a provider reported for the last request, whose answer is not appended yet."""
        return self._pending_usage

    def keep_usage(self, usage: Usage) -> None:
        """Keeps what a provider reported for the last request until the answer is appended, in the store too.

        Raises whatever the store raises. The usage is kept here nevertheless.
        """
        self._pending_usage = usage
        self._store_request()

    def keep_overhead(self, tokens: int) -> None:
        """Keeps how many tokens the last request held besides its list, for the usage report that follows."""
        if tokens != self.sent_overhead or not self.has_whole_request:
            self.sent_overhead, self.has_whole_request = tokens, True
            self._store_request()

    def note_hidden_parts(self) -> None:
        """Notes that the last request held more than was seen, in the store too with the usage that follows."""
        self.has_whole_request = False

    def drop_usage(self) -> None:
        """Forgets the usage of the last request, since another branch follows. The store does at the next append."""
        self._pending_usage = None

    def _store_request(self) -> None:
        address, usage = self.address, self._pending_usage
        names = (address.namespace, address.session, address.head)
        address.store.keep_request(*names, usage=usage, overhead=self.sent_overhead if self.has_whole_request else None)

    def _read_request(self, state: HeadState) -> None:
        self._pending_usage = state.pending_usage
        self.sent_overhead, self.has_whole_request = state.overhead or 0, state.overhead is not None

    def _find_pending_usage(self) -> Usage | None:
        """Finds the usage of the last request. Another worker may have got the report, and kept it in the store."""
        if self._pending_usage is not None or self.leaf is None or not self.is_at_head:
            return self._pending_usage
        address = self.address
        state = address.store.open(address.namespace, address.session, address.head, after=self.leaf)
        return state.pending_usage if state.leaf == self.leaf else None

    def _count_tokens(self, entries: Sequence[Entry], first: int) -> list[int]:
        originals = [build_original(p, m) for p, e in enumerate(entries, first) if (m := get_message(e)) is not None]
        sizes = iter(self.token_cache.measure(originals))
        return [next(sizes) if get_message(e) is not None else 0 for e in entries]

    def move_to(self, path: Path) -> None:
        """Moves to the end of another path of the tree. New entries are appended there."""
        self.leaf = path.get_entry(path.length - 1).id if path.length else None
        self.is_moved = not self.is_at_head
        path.purges = self.view.path.purges  # it was read from the store now, and knows of these at least
        self.view = View.from_path(path)
        self.token_cache = TokenCache(self.counter)
        self.running_total = RunningTotal(self.token_cache)
        self._uncounted_refs = self.view.range_refs
        self.calibration = expire_reports(self.calibration)

    def rewind(self, position: int) -> None:
        """Moves back to the entry at `position` (-1: before the first). New entries branch off there."""
        path = self.view.path.fork(position + 1)
        self.leaf = path.get_entry(position).id if position >= 0 else None
        self.view = View.from_path(path)
        self.token_cache = self.token_cache.fork(position + 1)
        self.running_total = RunningTotal(self.token_cache)
        self._uncounted_refs = self.view.range_refs if self._uncounted_refs else ()
        self.calibration = expire_reports(self.calibration)
