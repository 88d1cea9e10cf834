"""The log of a session on one head, for several threads: reading it, appending to it, and measuring what it shows.

Every method is synchronous and can be called from several threads. `session.conversation` is for callers who work on
the log themselves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from tenfold.compaction.engine.call import Measures
from tenfold.compaction.facts.extractor import extract_facts, merge_facts
from tenfold.compaction.facts.ledger import build_setting_facts
from tenfold.compaction.facts.parse import parse_facts
from tenfold.compaction.facts.section import is_must_keep, render_facts
from tenfold.core.meter.counters import Counter
from tenfold.core.meter.estimators import Calibration
from tenfold.core.meter.reading import RunningTotal, TokenCache
from tenfold.core.record.block import Block, Fact
from tenfold.core.record.entry import CustomEntry, Entry, Usage, get_message
from tenfold.core.record.message import NativeBytes, get_text
from tenfold.core.record.token_reading import Counted
from tenfold.core.view.fold import View
from tenfold.core.view.path import Path
from tenfold.core.view.rules import Violation, check_messages
from tenfold.core.view.units import MessageKey
from tenfold.core.wire.marks import extract_summary_text
from tenfold.errors import LostRace
from tenfold.session.log_cursor import LogCursor, SessionAddress, Stamps

T = TypeVar("T")
APPEND_TRIES = 100
"""How often something is tried to append while other writers are first."""


class Conversation:
    """The messages of a session on one head, with a lock: what is written here is on the log and in the view."""

    def __init__(self, address: SessionAddress, counter: Counter, stamps: Stamps) -> None:
        """Opens a head. Raises `NotFoundError` if the session does not exist."""
        self.address, self.stamps = address, stamps
        self.lock = threading.RLock()
        self.cursor = LogCursor(address, counter, stamps)
        self._is_writing = False

    # -- reading -------------------------------------------------------------------------------------------------------

    @property
    def view(self) -> View:
        """What the model sees now. It is an immutable value: it does not change while the session goes on."""
        return self.cursor.view

    @property
    def leaf(self) -> str | None:
        """The id of the last entry on the path, or None if there is no entry yet."""
        return self.cursor.leaf

    @property
    def calibration(self) -> Calibration:
        """What the providers' usage reports have taught on this path."""
        return self.cursor.calibration

    def count_uncompacted(self) -> Counted:
        """Counts the tokens of the whole path with no Block applied. A target such as 10% is a share of this number."""
        with self.lock:
            self.cursor.load_counts()
            return self.cursor.count_uncompacted()

    def get_message_sizes(self) -> dict[MessageKey, int]:
        """Returns the token count of each message in view, by the message's key."""
        with self.lock:
            shown = list(self.view.get_visible_messages())
            return dict(zip((s.key for s in shown), self.get_measures().token_cache.measure(shown), strict=True))

    def list_other_views(self) -> list[View]:
        """Returns what the other heads of the session show, read from the store."""
        address = self.address
        heads = address.store.read_heads(address.namespace, address.session)
        others = (replace(address, head=head) for head in heads if head != address.head)
        return [LogCursor(other, self.cursor.counter, self.stamps).view for other in others]

    def find_newest_block_id(self) -> str | None:
        """Returns the id of the newest Block in force, None if there is none."""
        return self.cursor.find_newest_block_id()

    def find_violations(self, wire: str) -> tuple[str, ...]:
        """Returns what a provider with that wire format would refuse in the view, one sentence for each violation."""
        violations = check_messages(self.view.get_messages(), wire)
        return tuple(f"{v.rule} at {_name_place(v)}: {v.problem}" for v in violations)

    def render_must_keep(self, budget: int) -> str:
        """Renders what must survive of the session, as a summary shows it: rules, request, to-dos, files, open errors.

        It is read from the whole path, within `budget` tokens by the policy's counter. "" if there is nothing.
        """
        facts = [fact for fact in self.collect_facts() if is_must_keep(fact)]
        return render_facts(facts, budget=budget, count=self.cursor.counter.count).text if facts else ""

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
            facts = extract_facts((at, m) for at, m in said if not human_only or m.origin == "human")
            return merge_facts(older, (*facts, *build_setting_facts((at, entries[at]) for at in settings)))

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
            self.cursor.append([CustomEntry(entry_id, self.leaf, run, self.stamps.now(), kind, native)])

        self.write(append)
        return entry_id

    def append_result(self, entry: Entry, planned_path: Path | None = None) -> bool:
        """Appends a Block or an Attempt at the leaf. Returns False for a Block that does not fit any more.

        `planned_path` is the path of the view that a Block was planned on, if that was not the present one.

        Raises `LostRace` if another writer was first; nothing is written then.
        """
        with self.lock:
            entry = replace(entry, parent=self.leaf)
            if isinstance(entry, Block) and not self.cursor.can_append_block(entry, planned_path):
                return False
            self.cursor.append([entry])
            return True

    @property
    def pending_usage(self) -> Usage | None:
        """The usage of the last request, as long as its answer is not appended."""
        return self.cursor.pending_usage

    @property
    def sent_overhead(self) -> int:
        """The tokens that the last request of a host held besides its list, by this session's counter."""
        return self.cursor.sent_overhead

    def use_calibration(self, calibration: Calibration) -> None:
        """Takes what reports have taught elsewhere, for a log whose answers do not hold them."""
        with self.lock:
            self.cursor.calibration = calibration

    def refresh(self) -> View:
        """Reads what other writers have appended to this head, which costs O(new), and returns the view.

        What writes does so by itself where another writer was first. Call it to see what others have written.
        """
        with self.lock:
            self.cursor.refresh()
            return self.view

    def catch_up(self) -> None:
        """Refreshes, unless the session went back or elsewhere and is yet to append there."""
        with self.lock:
            if self.cursor.is_at_head:
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
                if self.cursor.is_moved:  # what is written belongs to the place that was moved to
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
            self.cursor.move_to(path)
            try:
                if entries:
                    self.cursor.append(entries)
            except BaseException as exc:
                self.cursor.move_to(before)
                if isinstance(exc, LostRace):
                    return False
                raise
            self.cursor.drop_usage()
            return True

    # -- measuring -----------------------------------------------------------------------------------------------------

    def get_measures(self, view: View | None = None) -> Measures:
        """Returns the token sizes and the counter with which this conversation's views are measured.

        Sizes are kept by position, so they belong to one path. A `view` of another path than the present one, as after
        a rewind, is counted anew.
        """
        self.cursor.load_counts()
        cache, total = self.cursor.token_cache, self.cursor.running_total
        if view is not None and view.path is not self.view.path:
            cache = TokenCache(self.cursor.counter)
            total = RunningTotal(cache)
        return Measures(cache, total, total.measure_media)

    def freeze_measures(self, view: View) -> Measures:
        """Returns measures with the size of this view counted now, so that other threads may append meanwhile."""
        measures = self.get_measures(view)
        tokens, media = measures.count_view(view), measures.measure_media(view)
        return Measures(measures.token_cache, lambda _view: tokens, lambda _view: media)


def _name_place(violation: Violation) -> str:
    return f"message {violation.index}" + (f", {violation.path}" if violation.path else "")
