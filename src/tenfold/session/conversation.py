"""The log of a session on one head: reading it, appending to it, and measuring what it shows.

Appending writes to the store first and changes the view second. If the store refuses, everything stays as it was.
Nothing here decides whether to compact. `session.conversation` is for callers who work on the log themselves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.engine.call import Measures
from tenfold.compaction.facts.extractor import extract_facts, merge_facts
from tenfold.compaction.facts.ledger import build_setting_facts
from tenfold.compaction.facts.parse import parse_facts
from tenfold.compaction.facts.redacted_messages import redact_entry
from tenfold.compaction.facts.section import is_must_keep, render_facts
from tenfold.compaction.summarize.fill import select_carried
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
from tenfold.core.record.entry import (
    PREPARED_SUMMARY,
    Attempt,
    CustomEntry,
    Entry,
    MessageEntry,
    Pin,
    PreparedSummary,
    Retraction,
    Setting,
    Usage,
    get_message,
)
from tenfold.core.record.fact import ChangedFile, Fact, Rule, TodoList
from tenfold.core.record.message import Message, NativeBytes, get_text
from tenfold.core.record.token_reading import NO_TOKENS, Counted
from tenfold.core.text.surrogates import replace_surrogates
from tenfold.core.view.fold import View
from tenfold.core.view.path import Path
from tenfold.core.view.rules import Violation, check_messages
from tenfold.core.view.units import (
    MessageKey,
    Unit,
    build_block_key,
    build_original,
    build_original_key,
    get_step_messages,
)
from tenfold.core.wire.given_values import list_own_messages
from tenfold.core.wire.marks import extract_summary_text
from tenfold.errors import LostRace, NotFoundError, RecordError, UsageError
from tenfold.session.repeated_blocks import move_block
from tenfold.session.undoing import UndoPlan, plan_undo
from tenfold.store.base import DEFAULT_NAMESPACE, MAIN, HeadState, Store
from tenfold.store.ids import IDS, get_current_time

T = TypeVar("T")
APPEND_TRIES = 100
"""How often something is tried to append while other writers are first."""


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


class Conversation:
    """The messages of a session on one head, with a lock: what is written here is on the log and in the view.

    `view` is what the model sees now, an immutable value, and `leaf` the id of the last entry on the path, None if it
    has none yet. `calibration` is what the providers' usage reports have taught on this path, and `pending_usage`
    what was reported for the last request, whose answer is not appended yet. `is_moved` says that the
    session was moved elsewhere in the tree, which the store learns of with the next append.
    """

    def __init__(
        self, address: SessionAddress, counter: Counter, stamps: Stamps, create: Callable[[], None] | None = None
    ) -> None:
        """Opens a head. `create` creates the session before the first append; until then it may be in no store.

        Raises `NotFoundError` if the session does not exist, and there is no `create`.
        """
        self.lock = threading.RLock()
        self._create = create
        self._is_writing = False
        self.address, self.counter, self.stamps = address, counter, stamps
        self.leaf: str | None = None
        self._stored_leaf: str | None = None
        self.is_moved = False
        self.pending_usage: Usage | None = None
        self.sent_overhead, self.has_whole_request = NO_TOKENS, False
        self._counted: tuple[list[Unit] | None, int, int] = (None, 0, 0)
        self._open(self._read_head())

    # -- reading -------------------------------------------------------------------------------------------------------

    def count_uncompacted(self) -> Counted:
        """Counts the tokens of the whole path with no Block applied. A target such as 10% is a share of this number."""
        with self.lock:
            self.load_counts()
            return self._count_path()

    def get_message_sizes(self) -> dict[MessageKey, Counted]:
        """Returns the token count of each message in view, by the message's key."""
        with self.lock:
            shown = list(self.view.get_visible_messages())
            return dict(zip((s.key for s in shown), self.get_measures().token_cache.measure(shown), strict=True))

    def list_other_views(self) -> list[View]:
        """Returns what the other heads of the session show, read from the store."""
        address = self.address
        heads = address.store.read_heads(address.namespace, address.session)
        others = (replace(address, head=head) for head in heads if head != address.head)
        return [Conversation(other, self.counter, self.stamps).view for other in others]

    def find_newest_block_id(self) -> str | None:
        """Returns the id of the newest Block in force on this path, None if there is none."""
        live = self.view.state.live_blocks
        return self.view.path.get_entry(live[-1]).id if live else None

    def find_violations(self, wire: str) -> tuple[str, ...]:
        """Returns what a provider with that wire format would refuse in the view, one sentence for each violation."""
        violations = check_messages(self.view.get_messages(), wire)
        return tuple(f"{v.rule} at {_name_place(v)}: {v.problem}" for v in violations)

    def render_must_keep(self, budget: int) -> str:
        """Renders what must survive of the session, as a summary shows it: rules, request, to-dos, files, open errors.

        It is read from the whole path, within `budget` tokens by the policy's counter. "" if there is nothing.
        """
        facts = [fact for fact in self.collect_facts() if is_must_keep(fact)]
        return render_facts(facts, budget=budget, count=self.counter.count).text if facts else ""

    def collect_facts(self, *, human_only: bool = False) -> tuple[Fact, ...]:
        """Collects the facts of the whole path, with `human_only` those of what a person said."""
        with self.lock:
            path, settings = self.view.path, self.view.state.rule_settings
            entries = path.get_entries(0, path.length - 1) if path.length else []
            said = [(at, m) for at, entry in enumerate(entries) if (m := get_message(entry)) is not None]
            older = tuple(
                replace(fact, position=at)
                for at, message in said
                if message.origin == "tenfold"
                for fact in parse_facts(extract_summary_text(get_text(message)) or "")
            )
            held = (fact for fact in self.view.list_block_facts() if isinstance(fact, Rule) and fact.live)
            quoted = (rule for rule in held if rule.effect == "quotes")
            facts = extract_facts((at, m) for at, m in said if not human_only or m.origin == "human")
            return merge_facts((*older, *quoted), (*facts, *build_setting_facts((at, entries[at]) for at in settings)))

    def is_stored(self) -> bool:
        """Tells whether the store has the session. One that was opened and never used is nowhere."""
        return (
            self._create is None
            or self.address.store.read_info(self.address.namespace, self.address.session) is not None
        )

    def read_entries(self, positions: Sequence[int]) -> list[Entry]:
        """Reads entries of the path by their positions."""
        with self.lock:
            path = self.view.path
            return [path.get_entry(p) for p in positions]

    # -- writing -------------------------------------------------------------------------------------------------------

    def append_custom(self, kind: str, body: bytes, *, run: str = "", id: str = "") -> str:
        """Appends data of the host's own to the log, and returns the entry's id. No model is shown it.

        `kind` names what it is, and `run` the run it belongs to. Without an `id` a new one is made.
        """
        entry_id, native = id or self.stamps.new_id(), NativeBytes("json", body)

        def append() -> None:
            self.append([CustomEntry(entry_id, self.leaf, run, self.stamps.now(), kind, native)])

        self.write(append)
        return entry_id

    def note_prepared(self, entry: Entry | None, *, id: str = "") -> None:
        """Appends what models took for a Block or an Attempt that was made ahead of its use, which may never come.

        Without an `id` a new one is made. Raises whatever the store raises.
        """
        if not isinstance(entry, Block | Attempt) or not entry.spent.calls:
            return
        value = msgspec.json.encode(PreparedSummary(entry.time, entry.spent)).decode()
        id_ = id or self.stamps.new_id()
        self.write(lambda: self.append([Setting(id_, self.leaf, "", self.stamps.now(), PREPARED_SUMMARY, value)]))

    def append_result(self, entry: Entry, planned_path: Path | None = None) -> bool:
        """Appends a Block or an Attempt at the leaf. Returns False for a Block that does not fit any more.

        `planned_path` is the path of the view that a Block was planned on, if that was not the present one.

        Raises `LostRace` if another writer was first; nothing is written then.
        """
        with self.lock:
            entry = replace(entry, parent=self.leaf)
            if isinstance(entry, Block) and not self.can_append_block(entry, planned_path):
                return False
            self.append([entry])
            return True

    def use_calibration(self, calibration: Calibration) -> None:
        """Takes what reports have taught elsewhere, for a log whose answers do not hold them."""
        with self.lock:
            self.calibration = calibration

    def refresh(self) -> View:
        """Reads what other writers have appended to this head, which costs O(new), and returns the view.

        What writes does so by itself where another writer was first. Call it to see what others have written.
        """
        with self.lock:
            self._read_on()
            return self.view

    def is_current(self) -> bool:
        """Tells whether the head is where it is here, and nothing of the session was purged since. It reads the store.

        Raises `NotFoundError` if the whole session was purged.
        """
        with self.lock:
            leaf, purges = self.leaf, self.view.path.purges
        state = self._read_head(after=leaf)
        return (state.leaf, state.purges) == (leaf, purges)

    def catch_up(self) -> None:
        """Refreshes, unless the session went back or elsewhere and is yet to append there."""
        with self.lock:
            if self.is_at_head:
                self.refresh()

    def write(self, work: Callable[[], T]) -> T:
        """Does work that appends to this head; where another writer was first, catches up and does all of it again.

        Raises `LostRace` if that happens `APPEND_TRIES` times in a row, or at all after a `move_to`. Nothing is written
        then.
        """
        with self.lock:
            if self._is_writing:  # the work around this one is done again as a whole
                return work()
            self._is_writing = True
            try:
                return self._write_again(work)
            finally:
                self._is_writing = False

    def _write_again(self, work: Callable[[], T]) -> T:
        for _ in range(APPEND_TRIES - 1):
            try:
                return work()
            except LostRace:
                if self.is_moved:  # what is written belongs to the place that was moved to
                    raise
                self.refresh()
        try:
            return work()
        except LostRace as exc:
            raise LostRace(f"{exc}; so it was {APPEND_TRIES} times in a row, since others keep writing") from exc

    def move_to(self, path: Path, entries: Sequence[Entry], *, expected: str | None) -> bool:
        """Moves to the end of another path of this session's tree and appends `entries` there; see `navigate`.

        Returns False and changes nothing if the leaf is no longer `expected` or another writer was first.
        """
        with self.lock:
            if self.leaf != expected:
                return False
            before = self.view.path
            self._move_to(path)
            try:
                if entries:
                    self.append(entries)
            except BaseException as exc:
                self._move_to(before)
                if isinstance(exc, LostRace):
                    return False
                raise
            self.drop_usage()
            return True

    # -- measuring -----------------------------------------------------------------------------------------------------

    def get_measures(self, view: View | None = None) -> Measures:
        """Returns the token sizes and the counter with which this conversation's views are measured.

        Sizes are kept by position, so they belong to one path. A `view` of another path than the present one, as after
        a rewind, is counted anew.
        """
        self.load_counts()
        cache, total = self.token_cache, self.running_total
        if view is not None and view.path is not self.view.path:
            cache = TokenCache(self.counter)
            total = RunningTotal(cache)
        return Measures(cache, total, total.measure_media)

    def freeze_measures(self, view: View) -> Measures:
        """Returns measures with the size of this view counted now, so that other threads may append meanwhile."""
        measures = self.get_measures(view)
        tokens, media = measures.count_view(view), measures.measure_media(view)
        return Measures(measures.token_cache, lambda _view: tokens, lambda _view: media)

    # -- the head in the store: whoever calls one of these holds `lock` ------------------------------------------------

    def _read_on(self) -> None:
        """Reads what other writers have appended to the head, which costs O(new).

        All is read as at the beginning where the head was moved to another branch, by others or by a rewind here, and
        where an entry was purged.
        """
        path = self.view.path
        known = self.leaf if self.is_at_head else None
        state = self._read_head(after=known)
        first = state.length - len(state.entries)
        if state.purges != path.purges:  # what was purged is still among the entries that are held
            state, known = self._read_head(), None
        if known is None or state.snapshot is not None or first != path.length:
            self._open(state)
            return
        self.leaf = self._stored_leaf = state.leaf
        self._read_request(state)
        self._uncounted_refs += (Run(first, state.length - 1),) if state.entries else ()
        for entry in state.entries:
            path.append(entry)
            self._fold_entry(entry)
        new_parts = (ref for ref in self.view.range_refs if isinstance(ref, BlockPart) and ref.block >= first)
        self._uncounted_refs += tuple(new_parts) if state.entries else ()

    def _read_head(self, *, after: str | None = None) -> HeadState:
        """Reads the head from the store. A session that is to be created has no entries."""
        address = self.address
        try:
            return address.store.open(address.namespace, address.session, address.head, after=after)
        except NotFoundError:
            if self._create is None:
                raise
            return HeadState(None, 0, None, ())

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
        if self.pending_usage is None:
            return self.calibration
        self.load_counts()
        return record_usage(self.calibration, self.pending_usage, self.running_total(self.view), self.counter.name)

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

    def _read_counts(self, first: int, last: int) -> list[Counted | None]:
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

    def _count_path(self) -> Counted:
        """Counts the tokens of every message on the path, using the stored counts where there are any."""
        return sum(self._count_entries(), NO_TOKENS) if self.view.state.live_blocks else self.running_total(self.view)

    def count_entries(self) -> list[Counted]:
        """Counts each entry of the path as it was written, with no Block applied. One without a message counts 0."""
        with self.lock:
            self.load_counts()
            return self._count_entries()

    def _count_entries(self) -> list[Counted]:
        length = self.view.length
        sizes = self._read_counts(0, length - 1) if length else []
        if all(size is not None for size in sizes):
            return [size for size in sizes if size is not None]
        entries = enumerate(self.view.path.get_entries(0, length - 1))
        originals = {at: build_original(at, m) for at, e in entries if (m := get_message(e)) is not None}
        measured = dict(zip(originals, self.token_cache.measure(list(originals.values())), strict=True))
        return [measured.get(at, NO_TOKENS) for at in range(length)]

    def count_messages(self, view: View) -> int:
        """Counts the messages that a view shows. Counting goes on from the view that was counted last."""
        units, count = view.closed_units
        last_units, start, total = self._counted
        if units is not last_units or count < start:
            start = total = 0
        total += sum(len(unit.visible_messages) for unit in units[start:count])
        self._counted = (units, count, total)
        return total + (len(get_step_messages(view.open_step, closing=False)) if view.open_step is not None else 0)

    def append(self, entries: Sequence[Entry], *, knows_usage: bool = True) -> None:
        """Appends entries whose parents form a chain from the leaf. Lone surrogates are replaced by U+FFFD.

        Secrets are replaced if the store keeps none. Raises whatever the store raises, and nothing is changed then. For
        `knows_usage` see `Store.append`.
        """
        if self.address.store.redact_at_rest:
            entries = [redact_entry(entry) for entry in entries]
        try:
            self._append_as_they_are(entries, knows_usage=knows_usage)
        except UnicodeEncodeError:
            self._append_as_they_are(replace_surrogates(tuple(entries)), knows_usage=knows_usage)

    def _append_as_they_are(self, entries: Sequence[Entry], *, knows_usage: bool) -> None:
        view, calibration, path, address = self.view, self.calibration, self.view.path, self.address
        self.load_counts()
        try:
            for entry in entries:
                path.append(entry)
                self._fold_entry(entry)
            changed = isinstance(entries[-1], Block | Retraction)
            if self._create is not None:
                self._create()
                self._create = None
            address.store.append(
                address.namespace,
                address.session,
                entries,
                expected=self._stored_leaf,
                head=address.head,
                snapshot=self.view.to_snapshot(encode_calibration(self.calibration)) if changed else None,
                counts={self.counter.name: self._count_tokens(entries, view.length)},
                purges=path.purges,
                knows_usage=knows_usage,
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

        `usage` is stored with the last assistant message, the usage from `keep_usage` with the first. If another worker
        has kept that, `LostRace` is raised, and it is known once the session was refreshed. Raises whatever the store
        raises, and nothing is changed then.
        """
        messages = list_own_messages(messages)
        answers = [i for i, m in enumerate(messages) if m.role == "assistant"]
        usages: dict[int, Usage] = {}
        if answers and self.pending_usage is not None:
            usages[answers[0]] = self.pending_usage
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
            self.append(entries, knows_usage=not answers or self.pending_usage is not None or not self.is_at_head)
        if answers:
            self.pending_usage = None
        return [e.id for e in entries]

    def append_copies(
        self,
        kept: Sequence[tuple[int, Block | Pin | Setting]],
        positions: dict[int, int],
        *,
        are_facts_new: bool = False,
    ) -> None:
        """Appends copies of Blocks, pins and rules from another path, given with their positions there, oldest first.

        After a changed message they keep what was compacted small; without them it would be shown in full. `positions`
        are those of entries here, by those on the other path; the copies' are added. With `are_facts_new` the facts of
        the Blocks are collected from this path. A Block that does not fit here is left out.
        """
        for position, entry in kept:
            new = replace(entry, id=self.stamps.new_id(), parent=self.leaf)
            if isinstance(new, Block):
                new = replace(move_block(new, positions), previous_block=self.find_newest_block_id())
                if not self.view.can_append(new):
                    continue
                if are_facts_new:
                    new = self._collect_block_facts(new, positions)
            positions[position] = self.view.length
            self.append([new])

    def _collect_block_facts(self, block: Block, positions: Mapping[int, int]) -> Block:
        """Returns a Block that is about to follow with the facts of what is covered then, as the path has it now."""
        covered = (*self.view.range_refs, *block.replacements)
        last = max(each.last for each in covered if not isinstance(each, Run))
        quoted = (fact for fact in block.facts if isinstance(fact, Rule) and fact.effect == "quotes")
        moved = [replace(fact, position=positions.get(fact.position, fact.position)) for fact in quoted]
        facts = merge_facts(moved, self.collect_facts())
        held = [fact for fact in facts if fact.position <= last or isinstance(fact, ChangedFile | TodoList)]
        return self.view.with_facts(block, select_carried(held, ()))

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

    def plan_undo(self, block: str = "") -> UndoPlan:
        """Plans the undo of the Block whose id begins with `block`, "" for the newest. Changes nothing."""
        with self.lock:
            return plan_undo(self.view, block, leaf=self.leaf, new_id=self.stamps.new_id, now=self.stamps.now)

    def retract_block(self, block: str = "") -> str:
        """Undoes a Block in force, as `plan_undo` plans it, and returns its id."""
        plan = self.plan_undo(block)
        self.append(plan.entries)
        return plan.undone[0]

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

    def change_setting(self, key: str, text: str) -> None:
        """Appends a setting, as one that adds a rule or drops one."""
        self.append([Setting(self.stamps.new_id(), self.leaf, "", self.stamps.now(), key, text)])

    def keep_usage(self, usage: Usage) -> None:
        """Keeps what a provider reported for the last request until the answer is appended, in the store too.

        Raises whatever the store raises. The usage is kept here nevertheless.
        """
        self.pending_usage = usage
        self._store_request()

    def keep_overhead(self, tokens: Counted) -> None:
        """Keeps how many tokens the last request held besides its list, for the usage report that follows."""
        if tokens != self.sent_overhead or not self.has_whole_request:
            self.sent_overhead, self.has_whole_request = tokens, True
            self._store_request()

    def note_hidden_parts(self) -> None:
        """Notes that the last request held more than was seen, in the store too with the usage that follows."""
        self.has_whole_request = False

    def drop_usage(self) -> None:
        """Forgets the usage of the last request, since another branch follows. The store does at the next append."""
        self.pending_usage = None

    def _store_request(self) -> None:
        if self.leaf is None:  # there was no request
            return
        address, usage = self.address, self.pending_usage
        names = (address.namespace, address.session, address.head)
        address.store.keep_request(*names, usage=usage, overhead=self.sent_overhead if self.has_whole_request else None)

    def _read_request(self, state: HeadState) -> None:
        self.pending_usage = state.pending_usage
        self.sent_overhead, self.has_whole_request = state.overhead or NO_TOKENS, state.overhead is not None

    def _count_tokens(self, entries: Sequence[Entry], first: int) -> list[int]:
        originals = [build_original(p, m) for p, e in enumerate(entries, first) if (m := get_message(e)) is not None]
        sizes = iter(self.token_cache.measure(originals))
        return [next(sizes) if get_message(e) is not None else 0 for e in entries]

    def _move_to(self, path: Path) -> None:
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


def _name_place(violation: Violation) -> str:
    return f"message {violation.index}" + (f", {violation.path}" if violation.path else "")
