"""One branch of a session: reading it, appending to it, syncing it with a host's list, undo, pins and search.

Every method is synchronous and can be called from several threads. The subclass `Session` adds compaction.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from tenfold.config.policy import Policy
from tenfold.engine.background import Preparation
from tenfold.engine.compact import Measures
from tenfold.engine.drive import Answerer
from tenfold.errors import LostRace, NotFoundError, UsageError
from tenfold.recall.expand import ExpandedMessage, expand
from tenfold.recall.search import search_store
from tenfold.record.ask import Outcome
from tenfold.record.block import Block, BlockPart, RangeRef
from tenfold.record.entry import Entry, MessageEntry, Pin, Retraction, Usage
from tenfold.record.message import Message
from tenfold.session.log_cursor import Head
from tenfold.session.requests import HostList, find_carried_entries, find_next_message, match_list
from tenfold.store.archive import Archive
from tenfold.store.base import DEFAULT_NAMESPACE, MAIN, Hit, SessionInfo, Store
from tenfold.store.ids import IDS, get_current_time
from tenfold.summarize.prompt_files import with_prompts
from tenfold.view.fold import View
from tenfold.view.path import Path
from tenfold.view.rules import check_messages
from tenfold.view.units import MessageKey, Unit, build_original_key, get_step_messages
from tenfold.wire import DecodedHistory
from tenfold.wire.fingerprint import fingerprint_message

PolicyProvider = Callable[[], Policy]
"""Returns the policy in force. It is called at every check, so that a change applies without a restart."""


SESSION_MODEL = "the session's model"
"""The name of the session's own model, which writes the summaries when the policy names no model."""


def _shift_ref(ref: RangeRef, new_positions: Mapping[int, int]) -> RangeRef:
    """Returns the reference with the Block's new position, if that Block was appended again elsewhere."""
    return replace(ref, block=new_positions.get(ref.block, ref.block)) if isinstance(ref, BlockPart) else ref


def _as_provider(policy: Policy | PolicyProvider) -> PolicyProvider:
    return policy if callable(policy) else lambda: policy


class SessionAddress(Struct, frozen=True):
    """Where a session is stored: the store, the session's id, the namespace (the tenant), and the head to continue."""

    store: Store
    session: str
    namespace: str = DEFAULT_NAMESPACE
    head: str = MAIN


class Conversation:
    """The messages of a session on one head: read, append, sync with a host's list, undo, pin and search."""

    def __init__(
        self,
        address: SessionAddress,
        policy: Policy | PolicyProvider,
        *,
        model: str = "",
        answerer: Answerer | None = None,
        archive: Archive | None = None,
    ) -> None:
        """Opens a head. Raises `NotFoundError` if the session does not exist.

        `model` names the agent's model, for its window and its calibration. A callable `policy` is called again at
        every check (`settings.Live` follows a file), but the counter stays the one the session was opened with. An
        `archive` receives every batch before the Block that contains it is appended.
        """
        self.address, self.model = address, model
        self._policy_provider: PolicyProvider = _as_provider(policy)
        self.async_model: object = None  # an async host's model call, used in place of the answerer's model
        self._policy_cache: tuple[Policy, object, Policy] | None = None
        self.answerer, self.archive = answerer or Answerer(), archive
        self.new_id = IDS.generate
        self.message_clock: Callable[[], int | None] = get_current_time
        self._lock = threading.RLock()
        self.compaction_lock = threading.Lock()
        self.outcome: Outcome | None = None
        self.preparation: Preparation | None = None
        self._pending_usage: Usage | None = None
        self._overhead = 0
        self._fingerprints: dict[int, bytes] = {}
        self._host_list: HostList | None = None
        self._decoded_history = DecodedHistory()
        self._count_cache: tuple[list[Unit] | None, int, int] = (None, 0, 0)
        self._comparison_cache: tuple[list[Unit] | None, list[MessageKey] | None, int, int] = (None, None, 0, 0)
        counter = self._policy_provider().counter
        self._head = Head(address.store, address.namespace, address.session, name=address.head, counter=counter)

    @classmethod
    def create(
        cls,
        address: SessionAddress,
        policy: Policy | PolicyProvider,
        *,
        model: str = "",
        answerer: Answerer | None = None,
        info: SessionInfo | None = None,
        archive: Archive | None = None,
    ) -> Self:
        """Creates the session in the store, unless one with that id exists, and opens it."""
        address.store.create(address.namespace, info or SessionInfo(address.session, model=model))
        return cls(address, policy, model=model, answerer=answerer, archive=archive)

    @property
    def policy(self) -> Policy:
        """The policy in force now, with the counter this session was opened with.

        If the policy names no model, the session's own model (if there is one) writes the summaries.
        """
        given, model = self._policy_provider(), self.async_model or self.answerer.model
        if self._policy_cache is None or self._policy_cache[0] is not given or self._policy_cache[1] is not model:
            self._policy_cache = given, model, self._complete_policy(given, has_model=model is not None)
        return self._policy_cache[2]

    @policy.setter
    def policy(self, policy: Policy | PolicyProvider) -> None:
        self._policy_provider = _as_provider(policy)

    def _complete_policy(self, policy: Policy, *, has_model: bool) -> Policy:
        summary = with_prompts(policy.summary)
        if has_model and not summary.models:
            summary = replace(summary, models=(SESSION_MODEL,))
        return replace(policy, summary=summary, counter=self._head.counter)

    @property
    def view(self) -> View:
        """What the model sees now. It is an immutable value: it does not change while the session goes on."""
        return self._head.view

    @property
    def leaf(self) -> str | None:
        """The id of the last entry on the path, or None if there is no entry yet."""
        return self._head.leaf

    def count_uncompacted(self) -> int:
        """Counts the tokens of the whole path with no Block applied. A target such as 10% is a share of this number."""
        with self._lock:
            self._head.load_counts()
            return self._head.count_uncompacted()

    def get_message_sizes(self) -> dict[MessageKey, int]:
        """Returns the token count of each message in view, by the message's key."""
        with self._lock:
            shown = list(self.view.get_visible_messages())
            return dict(zip((s.key for s in shown), self.get_measures().token_cache.measure(shown), strict=True))

    def search(self, words: str, *, limit: int = 20) -> list[Hit]:
        """Searches this session's messages and summaries. Hits with all the words come first, then hits with some."""
        address = self.address
        return search_store(address.store, address.namespace, words, session=address.session, limit=limit)

    def expand(self, id: str, *, deep: bool = False) -> list[ExpandedMessage]:
        """Returns what a Block replaces: one level down, or with `deep` the originals.

        For the id of a message, returns that message.
        """
        return expand(self.address.store, self.address.namespace, id, deep=deep, session=self.address.session)

    def find_violations(self, wire: str) -> tuple[str, ...]:
        """Returns what a provider with that wire format would refuse in the view, one sentence for each violation."""
        return tuple(
            f"{v.rule} at message {v.index}: {v.problem}" for v in check_messages(self.view.get_messages(), wire)
        )

    def append(self, *messages: Message, usage: Usage | None = None, run: str = "") -> list[str]:
        """Appends messages at the leaf, atomically, and returns their ids. `run` is the id of the run they belong to.

        `usage` is stored with the last assistant message; the usage from `record_usage` with the first. Raises
        `LostRace` if another writer was first. Nothing is written then: call `refresh` and append again.
        """
        with self._lock:
            answers = [i for i, m in enumerate(messages) if m.role == "assistant"]
            usages: dict[int, Usage] = {}
            if answers and self._pending_usage is not None:
                usages[answers[0]] = self._pending_usage
            if answers and usage is not None:
                usages[answers[-1]] = usage
            entries: list[Entry] = []
            parent = self._head.leaf
            for index, message in enumerate(messages):
                entries.append(
                    MessageEntry(self.new_id(), parent, run, self.message_clock(), message, usages.get(index))
                )
                parent = entries[-1].id
            if entries:
                self._head.append(entries)
            if answers:
                self._pending_usage = None
            return [e.id for e in entries]

    def sync(self, messages: Sequence[Message]) -> View:
        """Syncs the log with a host's whole message list, which hosts resend on every request, and returns the view.

        The list may be the raw history, or begin with an earlier view. Known messages are matched by content and new
        ones are appended, so nothing is duplicated. If a known message was changed, a branch begins before it.
        """
        self._sync_list(list(messages))
        return self.view

    def _sync_list(self, messages: list[Message], *, is_floor_ignored: bool = False) -> HostList:
        """Syncs the log with a list that nobody changes afterwards, and returns the synced list.

        With `is_floor_ignored`, leading system prompts count as equal whatever their text.
        """
        with self._lock:
            last = self._host_list
            if (
                last is not None
                and last.view is self.view
                and last.is_floor_ignored == is_floor_ignored
                and last.is_extended_by(messages, self._get_fingerprint)
            ):
                return self._append_new_messages(messages, last)
            match = match_list(messages, self.view, self._get_fingerprint, is_floor_ignored=is_floor_ignored)
            changed = find_next_message(self.view.path, match.position)
            if changed is not None:  # entries without a message before it, Blocks included, stay on the new branch
                kept = find_carried_entries(self.view, changed)
                self._head.rewind(changed - 1)
                self._fingerprints = {
                    position: key for position, key in self._fingerprints.items() if position < changed
                }
                self._pending_usage = None
                self._reappend_entries(kept)
                match = (
                    match_list(messages, self.view, self._get_fingerprint, is_floor_ignored=is_floor_ignored)
                    if kept
                    else match
                )
            return self._append_new_messages(
                messages, HostList(self.view, messages, list(match.keys), match.count, is_floor_ignored)
            )

    def _reappend_entries(self, entries: Sequence[tuple[int, Block | Pin]]) -> None:
        """Appends copies of the Blocks and pins that came after a changed message but concern only earlier ones.

        Without them the new branch would show in full what was compacted already.
        """
        positions: dict[int, int] = {}
        for position, entry in entries:
            positions[position] = self.view.length
            new = replace(entry, id=self.new_id(), parent=self._head.leaf)
            if isinstance(new, Block):
                live = self.view.state.live_blocks
                under = self.view.path.get_entry(live[-1]).id if live else None
                shifted = tuple(
                    replace(r, covered_ranges=tuple(_shift_ref(c, positions) for c in r.covered_ranges))
                    for r in new.replacements
                )
                new = replace(new, previous_block=under, replacements=shifted)
            self._head.append([new])

    def _append_new_messages(self, messages: list[Message], host_list: HostList) -> HostList:
        """Appends the messages of the list that the log does not have yet, and keeps the list for the next request."""
        start, matched_count = self.view.length, host_list.count
        if matched_count < len(messages):
            self.append(*messages[matched_count:])
            host_list.keys.extend(build_original_key(start + i) for i in range(len(messages) - matched_count))
        self._host_list = replace(host_list, view=self.view, host_messages=messages, count=len(messages))
        return self._host_list

    def move_to(self, path: Path, entries: Sequence[Entry], *, expected: str | None) -> bool:
        """Moves to the end of another path of this session's tree and appends `entries` there; see `navigate`.

        Returns False and changes nothing if the leaf is no longer `expected` or another writer was first.
        """
        with self._lock:
            if self.leaf != expected:
                return False
            before = self.view.path
            self._head.move_to(path)
            try:
                if entries:
                    self._head.append(entries)
            except BaseException as exc:
                self._head.move_to(before)
                if isinstance(exc, LostRace):
                    return False
                raise
            self._fingerprints, self._pending_usage, self.preparation = {}, None, None
            return True

    def _read_entries(self, positions: Sequence[int]) -> list[Entry]:
        with self._lock:
            path = self.view.path
            return [path.get_entry(p) for p in positions]

    def record_usage(self, usage: Usage) -> None:
        """Keeps the usage the provider reported for the last request; the next appended answer is stored with it.

        Reports without prompt tokens are ignored.
        """
        if usage.prompt > 0:
            with self._lock:
                self._pending_usage = replace(usage, overhead=usage.overhead or self._overhead)

    def undo(self) -> str:
        """Retracts the newest live Block and returns its id. Raises `UsageError` if there is none."""
        with self._lock:
            live = self.view.state.live_blocks
            if not live:
                raise UsageError("there is nothing to undo: no compaction is in force on this path")
            block = self.view.path.get_entry(live[-1]).id
            self._head.append([Retraction(self.new_id(), self.leaf, "", get_current_time(), block)])
            return block

    def pin(self, entry: str, *, on: bool = True) -> str:
        """Pins a message, so that no compaction hides or shortens it; `on=False` unpins it. Returns its full id.

        `entry` may be the beginning of an id. Raises `NotFoundError` unless it names exactly one message in view.
        """
        with self._lock:
            path = self.view.path
            positions = {
                s.position
                for s in self.view.get_visible_messages()
                if s.is_original and path.get_entry(s.position).id.startswith(entry)
            }
            if len(positions) != 1:
                raise NotFoundError(
                    f"messages in view with an id that begins with {entry!r}: {len(positions)}, and it must be one; "
                    "`tenfold show` lists them, and what is hidden can be expanded"
                )
            position = positions.pop()
            self._head.append(
                [Pin(self.new_id(), self.leaf, "", get_current_time(), path.get_entry(position).id, position, on)]
            )
            return path.get_entry(position).id

    def refresh(self) -> View:
        """Reads what other writers have appended to this head, and returns the view."""
        with self._lock:
            self._head.refresh()
            self._fingerprints = {}
            return self.view

    def count_messages(self, view: View) -> int:
        """Counts the messages that a view shows. Counting goes on from the view that was counted last."""
        units, count = view.closed_units
        last_units, start, total = self._count_cache
        if units is not last_units or count < start:
            start = total = 0
        total += sum(len(unit.visible_messages) for unit in units[start:count])
        self._count_cache = (units, count, total)
        return total + (len(get_step_messages(view.open_step, closing=False)) if view.open_step is not None else 0)

    def _is_same_list(self, view: View, host_list: HostList) -> bool:
        """Returns whether a view shows exactly the messages of the list. Goes on from where they last agreed."""
        units, count = view.closed_units
        last_units, last_keys, index, total = self._comparison_cache
        if units is not last_units or host_list.keys is not last_keys or count < index:
            index = total = 0
        for unit in units[index:count]:
            keys = [s.key for s in unit.visible_messages]
            if host_list.keys[total : total + len(keys)] != keys:
                break
            index, total = index + 1, total + len(keys)
        self._comparison_cache = (units, host_list.keys, index, total)
        rest = [s.key for s in get_step_messages(view.open_step, closing=False)] if view.open_step is not None else []
        is_complete = total + len(rest) == host_list.count
        return is_complete and index == count and rest == host_list.keys[total : host_list.count]

    def _is_whole_history(self, host_list: HostList) -> bool:
        """Returns whether the list is the whole history, with no message replaced by a summary or a stub."""
        keys = host_list.keys[: host_list.count]
        last = keys[-1][0] if keys else -1
        return all(kind == -1 for _, _, kind in keys) and find_next_message(self.view.path, last) is None

    def get_measures(self) -> Measures:
        """Returns the token sizes and the counter with which this session's views are measured."""
        self._head.load_counts()
        return Measures(self._head.sizes, self._head.tally)

    def _get_fingerprint(self, position: int, message: Message) -> bytes:
        key = self._fingerprints.get(position)
        if key is None:
            key = self._fingerprints[position] = fingerprint_message(message)
        return key
