"""How much of a host's message list a log already holds.

Hosts resend their whole history on every request, either raw or beginning with one of our views. Nothing here writes to
the log: `requests.py` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import compress, takewhile
from operator import is_not

from msgspec import Struct
from msgspec.structs import replace

from tenfold.core.record.block import Block
from tenfold.core.record.entry import Entry, Pin, Setting, Tombstone, get_message, is_auto_setting, is_rule_setting
from tenfold.core.record.message import Message, get_call_ids, get_text
from tenfold.core.view.fold import View
from tenfold.core.view.path import Path
from tenfold.core.view.units import MessageKey, VisibleMessage, build_original_key, get_step_messages, is_visible
from tenfold.core.wire.fingerprint import digest_purged, fingerprint_message
from tenfold.core.wire.marks import find_summary_mark, is_system_prompt

KeyLookup = Callable[[int, Message], bytes]
"""A function that returns the (cached) fingerprint of the original message at a position."""
_CHUNK_SIZE = 512


class HistoryMatch(Struct, frozen=True, order=True):
    """The result of matching a list against the log: the first `count` messages are known.

    `position` is that of the last entry they represent. `keys` are the `VisibleMessage.key` of the known messages, in
    order. Matches are ordered by how much they cover.
    """

    count: int
    position: int
    keys: tuple[MessageKey, ...] = ()


class HostList(Struct):
    """A host's message list after the log was synchronized with it.

    `view` is the view at that time, and `keys` are the `VisibleMessage.key` of each message. If requests only grow,
    their lists share `host_messages`, `keys` and `index_by_key`, which only get longer; the first `count` items belong
    to this one. An `is_partial` list was appended to a history that it does not hold.
    """

    view: View
    host_messages: list[Message]
    keys: list[MessageKey]
    count: int
    is_floor_ignored: bool = False
    is_partial: bool = False
    index_by_key: dict[MessageKey, int] = {}

    @property
    def messages(self) -> list[Message]:
        """The messages of the list. Do not change them."""
        return self.host_messages if len(self.host_messages) == self.count else self.host_messages[: self.count]

    def extend(self, messages: list[Message], view: View, positions: Sequence[int]) -> HostList:
        """Returns the list of a later request that begins with this one. Its new messages are in the log there."""
        return replace(self.add_known(view, positions), host_messages=messages)

    def add_known(self, view: View, positions: Sequence[int]) -> HostList:
        """Returns the list with the messages after it that the log has at these positions. The next list has them."""
        self.keys[self.count :] = map(build_original_key, positions)
        return replace(self, view=view, count=self.count + len(positions))

    def find_visible(self, view: View) -> set[int]:
        """Returns the indices of the messages that a view shows unchanged."""
        shown = {s.key for s in view.get_visible_messages()}
        return {at for at, key in enumerate(self.keys[: self.count]) if key in shown}

    def index_messages(self) -> Callable[[MessageKey], Message | None]:
        """Returns a function that finds the host's message with a key, None if there is none."""
        for at in range(len(self.index_by_key), self.count):
            self.index_by_key[self.keys[at]] = at
        indices, messages, count = self.index_by_key, self.host_messages, self.count

        def find(key: MessageKey) -> Message | None:
            at = indices.get(key, count)
            return messages[at] if at < count else None

        return find

    def is_extended_by(self, messages: Sequence[Message], get_key: KeyLookup) -> bool:
        """Whether a list is this one plus new messages, so that the log need not be searched. See `match_list`."""
        count = self.count
        if len(messages) < count or messages is self.host_messages:
            return len(messages) >= count
        head, own = messages[:count], self.messages
        if head == own:
            return True
        passed = len(_match_prompts(messages, self.view.path, get_key)) if self.is_floor_ignored else 0
        changed = compress(range(passed, count), map(is_not, head[passed:], own[passed:]))
        pairs = ((head[at], own[at]) for at in changed)
        return all(new == old or fingerprint_message(new) == fingerprint_message(old) for new, old in pairs)


def match_list(
    messages: Sequence[Message], view: View, get_key: KeyLookup, *, is_floor_ignored: bool = False
) -> HistoryMatch:
    """Finds the best match of a host's list: the path's raw history, this view, or an older view and what follows it.

    With `is_floor_ignored`, the system prompts at the beginning of the list and of the path count as equal even if
    their texts differ, since hosts put the time into them.
    """
    keys = [fingerprint_message(m) for m in messages]
    if is_floor_ignored:
        prompts = _match_prompts(messages, view.path, get_key)
        keys[: len(prompts)] = prompts
    best = _match_raw_history(keys, view.path, get_key)
    if not view.state.live_blocks and best.count == len(keys):
        return best
    best = max(best, _match_view(keys, view, get_key))
    if best.count == len(keys):
        return best
    marks = (find_summary_mark(get_text(m)) for m in messages if m.role in ("user", "system"))
    blocks = {mark.block for mark in marks if mark is not None}
    if blocks:
        path = view.path
        for position in range(path.length - 1, -1, -1):
            entry = path.get_entry(position)
            if isinstance(entry, Block) and entry.id in blocks:
                return max(best, _match_view(keys, View.from_path(path.fork(position + 1)), get_key, later_path=path))
    return best


def _match_prompts(messages: Sequence[Message], path: Path, get_key: KeyLookup) -> list[bytes]:
    """Returns the fingerprints of the system prompts at the beginning of the path, if the list begins with as many."""
    prompts = list(takewhile(is_system_prompt, messages))
    fingerprints = (
        [get_key(at, m) for at, m in takewhile(lambda pair: is_system_prompt(pair[1]), path.list_messages())]
        if prompts
        else []
    )
    return fingerprints if len(fingerprints) == len(prompts) else []


def find_next_message(path: Path, position: int) -> int | None:
    """Finds the position of the first message after `position` that shows anything. None if there is none."""
    for at in range(position + 1, path.length):
        message = get_message(path.get_entry(at))
        if message is not None and is_visible(message):
            return at
    return None


def find_carried_entries(view: View, position: int) -> list[tuple[int, Block | Pin | Setting]]:
    """Finds the entries at or after a position that concern only entries before it. A branch can keep them.

    These are the pins of earlier messages, rules added or dropped by command, automatic compaction switched off or on,
    and the live Blocks that cover earlier positions only. The first Block that
    covers more or holds batches ends the search for Blocks, since later ones were made on top of it. Each entry comes
    with its own position.
    """
    path, live = view.path, set(view.state.live_blocks)
    out: list[tuple[int, Block | Pin | Setting]] = []
    blocks = True
    for at in range(position, path.length):
        entry = path.get_entry(at)
        if isinstance(entry, Block) and at in live:
            blocks = blocks and has_only_earlier_ranges(entry, position)
            out += [(at, entry)] if blocks else []
        elif (isinstance(entry, Pin) and entry.position < position) or (
            isinstance(entry, Setting) and (is_rule_setting(entry) or is_auto_setting(entry))
        ):
            out.append((at, entry))
    return out


def has_only_earlier_ranges(entry: Entry, position: int) -> bool:
    """Tells whether an entry is a Block without batches that covers only what stands before a position."""
    return (
        isinstance(entry, Block)
        and not entry.top_batches
        and all(replacement.last < position for replacement in entry.replacements)
    )


def is_continuation(messages: Sequence[Message], match: HistoryMatch, view: View, get_key: KeyLookup) -> bool:
    """Whether a list goes on from the log or rewrites it, and is not one of new messages alone.

    It does if it begins with what the path or the view begins with, system prompts aside, or if it has, before its last
    message, an answer, a tool result or a summary that is on the path or in the view. So it may be edited, shortened at
    either end, or begin with a summary by the host. A path without an answer has no history that could be lost, and
    every list continues it.
    """
    prompts = sum(1 for _ in takewhile(is_system_prompt, messages))
    if match.count > prompts or len(messages) == prompts:
        return True
    on_path = list(view.path.list_messages())
    if all(message.role != "assistant" for _, message in on_path):
        return True
    known = {get_key(position, message) for position, message in on_path}
    known |= {fingerprint_message(shown.message) for shown in view.get_visible_messages() if not shown.is_original}
    return any(
        fingerprint_message(message) in known
        for message in messages[prompts:-1]
        if message.role != "user" or message.origin == "tenfold"
    )


def find_start_of_tail(messages: Sequence[Message], path: Path, get_key: KeyLookup) -> int | None:
    """Finds the position from where the path's messages, to its end, are those that a list begins with.

    The longest such tail counts. None if there is none, or if it is the whole path. System prompts aside.
    """
    keys = [fingerprint_message(message) for message in messages if not is_system_prompt(message)]
    on_path = [pair for pair in path.list_messages() if not is_system_prompt(pair[1])]
    tail = on_path[max(1, len(on_path) - len(keys)) :]
    path_keys = [get_key(*pair) for pair in tail]
    starts = (at for at in range(len(tail)) if path_keys[at:] == keys[: len(tail) - at])
    return next((tail[at][0] for at in starts), None)


def count_before_undo(view: View, position: int) -> int | None:
    """Counts the messages from a position to where the newest compaction was undone. None if none was after it."""
    undone = view.state.last_change
    if not view.state.undone or undone < position:
        return None
    return sum(get_message(entry) is not None for entry in view.path.get_entries(position, undone))


def _match_raw_history(keys: list[bytes], path: Path, get_key: KeyLookup) -> HistoryMatch:
    known: list[MessageKey] = []
    last = -1
    for start in range(0, path.length, _CHUNK_SIZE):
        for at, entry in enumerate(path.get_entries(start, min(start + _CHUNK_SIZE, path.length) - 1), start):
            message = get_message(entry)
            if message is None:
                continue
            if len(known) == len(keys) or not is_same_message(entry, get_key(at, message), keys[len(known)]):
                return HistoryMatch(len(known), last, tuple(known))
            known.append(build_original_key(at))
            last = at
    return HistoryMatch(len(known), last, tuple(known))


def _match_view(keys: list[bytes], view: View, get_key: KeyLookup, *, later_path: Path | None = None) -> HistoryMatch:
    """Matches a view, and the messages of `later_path` after it. A replaced range matches completely or not at all."""
    known: list[MessageKey] = []
    position = -1
    for shown, last, is_replaced in _group_visible_messages(view):
        equal_count = 0
        for each in shown:
            fingerprint = (
                get_key(each.position, each.message) if each.is_original else fingerprint_message(each.message)
            )
            entry = view.path.get_entry(each.position) if each.is_original else None
            there = keys[len(known) + equal_count : len(known) + equal_count + 1]
            if not there or not is_same_message(entry, fingerprint, there[0]):
                break
            equal_count += 1
        if equal_count < len(shown):
            if not is_replaced:
                position = max([position, *(s.position for s in shown[:equal_count] if s.is_original)])
                known.extend(s.key for s in shown[:equal_count])
            return HistoryMatch(len(known), position, tuple(known))
        known.extend(s.key for s in shown)
        position = last
    for at in range(view.length, later_path.length if later_path is not None else 0):
        entry = (later_path or view.path).get_entry(at)
        message = get_message(entry)
        if message is not None:
            if len(known) == len(keys) or not is_same_message(entry, get_key(at, message), keys[len(known)]):
                break
            known.append(build_original_key(at))
            position = at
    return HistoryMatch(len(known), position, tuple(known))


def is_same_message(entry: Entry | None, own: bytes, sent: bytes) -> bool:
    """Tells whether a message that a host sent is that of an entry, by their fingerprints.

    Hosts go on sending what was purged here. It must not come back as something new.
    """
    if sent == own:
        return True
    return isinstance(entry, Tombstone) and entry.digest == digest_purged(entry.id, sent)


def _group_visible_messages(view: View) -> list[tuple[tuple[VisibleMessage, ...], int, bool]]:
    groups = [
        (u.visible_messages, u.last, u.block_part is not None)
        for u in view.units
        if u.block_part is not None or u.visible_messages
    ]
    if view.open_step is not None:
        groups.append((get_step_messages(view.open_step, closing=False), view.open_step.entries[-1][0], False))
    return groups


def refresh_messages(shown: Iterable[VisibleMessage], host_list: HostList) -> list[Message]:
    """Returns the view's messages, unchanged ones in the host's newest form: its cache marks may have moved."""
    find = host_list.index_messages()
    out: list[Message] = []
    for each in shown:
        newest, known = find(each.key), each.message
        is_same = newest is None or newest is known or get_call_ids(newest) != get_call_ids(known)
        out.append(known if newest is None or is_same else newest)
    return out
