"""Keeps the log in step with the message list that a host resends on every request.

What it remembers from one request to the next only saves work: known messages are recognized by content.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from operator import is_

from tenfold.compaction.facts.redacted_messages import redact_message
from tenfold.core.meter.counters import Counter, measure_messages
from tenfold.core.record.entry import MessageEntry, get_message
from tenfold.core.record.message import Message
from tenfold.core.text.surrogates import replace_surrogates
from tenfold.core.view.units import MessageKey, Unit, build_original_key, get_step_messages, scan_entries
from tenfold.core.wire import WIRES, DecodedHistory, EncodedList, SummaryConfirmer, Wire
from tenfold.core.wire.base import DecodedPrefix
from tenfold.core.wire.encoding import RepeatedEncoding
from tenfold.core.wire.fingerprint import fingerprint_message
from tenfold.core.wire.given_values import list_own_messages
from tenfold.core.wire.marks import is_system_prompt
from tenfold.errors import UsageError
from tenfold.session.log_cursor import LogCursor
from tenfold.session.requests import (
    HostList,
    count_before_undo,
    find_carried_entries,
    find_next_message,
    is_continuation,
    match_list,
    refresh_messages,
)


class HostSync:
    """Matches a host's lists with the log of one cursor. Its owner holds the lock, as for the cursor."""

    def __init__(self, cursor: LogCursor) -> None:
        """Begins without a list: the first one is matched message by message."""
        self._cursor = cursor
        self._fingerprints: dict[int, bytes] = {}
        self._given: list[Message] = []
        self._clean: list[Message] = []
        self._last_list: HostList | None = None
        self._encoding = RepeatedEncoding()
        self._compared: tuple[list[Unit] | None, list[MessageKey] | None, int, int] = (None, None, 0, 0)
        self.history = DecodedHistory()
        self._counted: tuple[tuple[str, ...], Counter | None] = ((), None)
        self._count = 0
        self._grown: tuple[list[Message], int] = ([], 0)

    def forget(self) -> None:
        """Forgets which entry stands where, after the cursor moved or was read again."""
        self._fingerprints, self._grown = {}, ([], 0)

    def clean(self, messages: Sequence[Message]) -> list[Message]:
        """Returns a host's list without lone surrogates. What it began with the last time is not looked at again."""
        given = list(list_own_messages(messages))
        known = len(self._given) if given[: len(self._given)] == self._given else 0
        self._given, self._clean = given, [*self._clean[:known], *map(replace_surrogates, given[known:])]
        return self._clean

    def keep_request(self, history: DecodedHistory) -> None:
        """Keeps the decoded messages of a request for the next one, which mostly has the same ones."""
        self.history = history

    def count_overhead(self, texts: tuple[str, ...], counter: Counter) -> int:
        """Counts what a request holds besides its list. Mostly it is the same as in the request before."""
        if self._counted != (texts, counter):
            self._counted, self._count = (texts, counter), sum(counter.count(list(texts))) if texts else 0
        return self._count

    def count_prompt_growth(self, messages: Sequence[Message]) -> int:
        """Counts by how much the system prompts at the beginning of a list are longer than those of the log.

        The newest are sent, and the log keeps the first: what it measures of them may be too little.
        """
        prompts, path = list(takewhile(is_system_prompt, messages)), self._cursor.view.path
        if len(prompts) == len(self._grown[0]) and all(map(is_, prompts, self._grown[0])):
            return self._grown[1]
        entries = (get_message(path.get_entry(at)) for at in range(min(path.length, len(prompts))))
        known = [message for message in entries if message is not None and is_system_prompt(message)]
        growth = 0
        if known and len(known) == len(prompts):  # else they differ as any other message does
            new, old = (sum(measure_messages(each, self._cursor.counter)) for each in (prompts, known))
            growth = max(0, new - old)
            self._grown = prompts, growth
        return growth

    def sync(
        self,
        messages: list[Message],
        *,
        is_floor_ignored: bool = False,
        run: str = "",
        times: Sequence[int | None] | None = None,
        append: bool = False,
    ) -> HostList:
        """Appends what of a list the log does not have yet, on a new branch if a known message was changed.

        Raises `UsageError` for a list that does not continue the log (see `is_continuation`); `append` appends it.

        Nobody may change `messages` afterwards. With `is_floor_ignored`, leading system prompts count as equal
        whatever their text. `run` is the id of the run that new messages belong to. `times` says when each message was
        written; without, the new ones came now.
        """
        if self._cursor.address.store.redact_at_rest:  # it is compared with what the log holds
            messages = [redact_message(message) for message in messages]
        view, known = self._cursor.view, self._find_known_list(messages, is_floor_ignored=is_floor_ignored)
        if known is not None:
            return self._append_new(messages, known, run, times)
        match = match_list(messages, view, self._get_fingerprint, is_floor_ignored=is_floor_ignored)
        changed = find_next_message(view.path, match.position)
        if changed is not None and not is_continuation(messages, match, view, self._get_fingerprint):
            if not append:
                raise UsageError(self._explain_apart(messages))
            return self._append_apart(messages, run, times, is_floor_ignored=is_floor_ignored)
        undone = count_before_undo(view, changed) if changed is not None else None
        if changed is not None and self._branch_before(changed):
            match = match_list(messages, self._cursor.view, self._get_fingerprint, is_floor_ignored=is_floor_ignored)
        matched = HostList(self._cursor.view, messages, list(match.keys), match.count, is_floor_ignored)
        if undone is not None:
            matched = self._append_with_undo(messages, matched, run, times, undone)
        return self._append_new(messages, matched, run, times)

    def read_next(self, items: Sequence[bytes], confirm: SummaryConfirmer) -> list[Message] | None:
        """Reads items that come after those of the last list. Nothing is changed.

        None if somebody has changed the view since, or if it would show them otherwise than in their own order.
        """
        last, view, history = self._last_list, self._cursor.view, self.history
        is_redacted = self._cursor.address.store.redact_at_rest
        if last is None or last.view is not view or view.open_step is not None or is_redacted:
            return None
        prefix = DecodedPrefix(history.item_count, history.message_count, history.messages)
        messages = WIRES[history.wire].decode(items, confirm=confirm, prefix=prefix)
        entries = ((at, MessageEntry("", None, "", None, message)) for at, message in enumerate(messages))
        units, step = scan_entries(entries, None)
        shown = [each.message for unit in units for each in unit.visible_messages]
        shown += [each.message for each in get_step_messages(step, closing=False)] if step is not None else []
        return messages if len(shown) == len(messages) and all(map(is_, shown, messages)) else None

    def encode_next(self, messages: Sequence[Message]) -> list[bytes] | None:
        """Encodes messages that come behind what was sent last. None if that would be encoded otherwise then."""
        return self._encoding.encode_next(messages)

    def add_summaries(self, messages: list[Message], summaries: Sequence[Message]) -> list[Message]:
        """Returns a list with the summaries of the system prompt before it, where other wires have them.

        A host may also keep its own list and send it with the system prompt that it got back. Then the log knows more
        of the list alone, and that is returned.
        """
        if not summaries:
            return messages
        whole = [*summaries, *messages]
        known = self._find_extension(whole, messages)
        if known is not None:
            return known
        counts = self._count_known(whole), self._count_known(messages)
        return messages if counts[1] > max(0, counts[0] - len(summaries)) else whole

    def add_missing_summaries(self, messages: list[Message]) -> list[Message]:
        """Returns a list with the view's own summaries before it, if it goes on from the view without them.

        They were sent in a system prompt beside the list, and the host wrote a new one. Any other list is returned as
        it is.
        """
        opening = takewhile(lambda shown: shown.message.role == "system", self._cursor.view.get_visible_messages())
        missing = [shown.message for shown in opening if shown.message.origin == "tenfold"]
        if not missing:
            return messages
        whole = [*missing, *messages]
        known = self._find_extension(messages, whole)
        if known is not None:
            return known
        return whole if self._count_known(whole) - len(missing) > self._count_known(messages) else messages

    def _find_extension(self, *lists: list[Message]) -> list[Message] | None:
        """Returns the first of these lists that goes on from the last one, if that is still the newest."""
        last = self._last_list
        if last is None or last.view is not self._cursor.view or not last.is_floor_ignored:
            return None
        return next((each for each in lists if last.is_extended_by(each, self._get_fingerprint)), None)

    def _find_known_list(self, messages: list[Message], *, is_floor_ignored: bool) -> HostList | None:
        """Returns the last list, if this one goes on from it, with the messages that the log has got from others since.

        None if the list does not, or if the log did otherwise: then the list is looked for in the whole log.
        """
        last, view = self._last_list, self._cursor.view
        if last is None or last.is_floor_ignored != is_floor_ignored or last.view.path is not view.path:
            return None
        if last.view.state.last_change != view.state.last_change or view.length < last.view.length:
            return None
        if not last.is_extended_by(messages, self._get_fingerprint):
            return None
        positions: list[int] = []
        for position in range(last.view.length, view.length):
            message, at = get_message(view.path.get_entry(position)), last.count + len(positions)
            if message is None:
                continue
            if at >= len(messages) or fingerprint_message(messages[at]) != self._get_fingerprint(position, message):
                return None
            positions.append(position)
        return last.add_known(view, positions)

    def _count_known(self, messages: Sequence[Message]) -> int:
        """Returns how many messages of a list the log holds."""
        return self.match(messages)[0]

    def match(self, messages: Sequence[Message]) -> tuple[int, bool]:
        """Returns how many messages of a list the log holds, and whether it holds nothing after them."""
        view = self._cursor.view
        found = match_list(list_own_messages(messages), view, self._get_fingerprint, is_floor_ignored=True)
        return found.count, find_next_message(view.path, found.position) is None

    def _branch_before(self, changed: int) -> bool:
        """Branches off before a changed message. Returns whether Blocks or pins were carried to the new branch."""
        cursor = self._cursor
        kept = find_carried_entries(cursor.view, changed)
        cursor.rewind(changed - 1)
        self._fingerprints = {position: key for position, key in self._fingerprints.items() if position < changed}
        cursor.drop_usage()
        cursor.append_copies(kept)
        return bool(kept)

    def _explain_apart(self, messages: Sequence[Message]) -> str:
        held = sum(not is_system_prompt(m) for _, m in self._cursor.view.path.list_messages())
        new = sum(not is_system_prompt(m) for m in messages)
        name = self._cursor.address.session
        return (
            f"this list of {new:,} does not continue session {name!r}: it begins otherwise, and "
            f"has no answer, tool result or summary of the {held:,} messages there. Send the whole list, as with every "
            f"request; or append=True appends these {new:,}; to begin anew, create another session"
        )

    def _append_apart(
        self, messages: list[Message], run: str, times: Sequence[int | None] | None, *, is_floor_ignored: bool
    ) -> HostList:
        """Appends a list that does not continue the log. What the log ends with already is not appended again."""
        path_messages = list(self._cursor.view.path.list_messages())
        prompts = list(takewhile(is_system_prompt, messages))
        own = list(takewhile(lambda pair: is_system_prompt(pair[1]), path_messages))
        known = own if len(own) == len(prompts) else []
        if own and not known:
            messages, times = messages[len(prompts) :], times and times[len(prompts) :]
        new = messages[len(known) :]
        tail = path_messages[len(path_messages) - len(new) :] if len(new) <= len(path_messages) else []
        if [self._get_fingerprint(*pair) for pair in tail] == [fingerprint_message(m) for m in new]:
            known = [*known, *tail]
        keys = [build_original_key(position) for position, _ in known]
        matched = HostList(self._cursor.view, messages, keys, len(keys), is_floor_ignored, is_partial=True)
        return self._append_new(messages, matched, run, times)

    def _append_with_undo(
        self, messages: list[Message], matched: HostList, run: str, times: Sequence[int | None] | None, replaced: int
    ) -> HostList:
        """Appends the messages in place of those before an undo on the branch that was left, and then the undo.

        So what the view has grown by since is what came behind them, and what was undone is not made again at once.
        """
        end = matched.count + replaced
        self._append_new(messages[:end], matched, run, times)
        self._cursor.note_undo()
        assert self._last_list is not None
        return self._last_list.add_known(self._cursor.view, ())

    def _append_new(
        self, messages: list[Message], matched: HostList, run: str, times: Sequence[int | None] | None
    ) -> HostList:
        """Appends the messages after the matched ones, and keeps the list for the next request."""
        cursor, start, count = self._cursor, self._cursor.view.length, matched.count
        if count < len(messages):
            new = messages[count:]
            cursor.append_messages(new, usage=None, run=run, times=times and times[count : count + len(new)])
        self._last_list = matched.extend(messages, cursor.view, range(start, start + len(messages) - count))
        return self._last_list

    def get_messages_to_send(self, host_list: HostList) -> list[Message] | None:
        """Returns the view with the host's newest version of each untouched message, None if the list is the view."""
        if self._is_view(host_list):
            return None
        return refresh_messages(self._cursor.view.get_visible_messages(), host_list)

    def encode(self, messages: Sequence[Message], wire: Wire) -> EncodedList:
        """Encodes what is sent in place of a host's list. What was sent before it too is not encoded again."""
        return self._encoding.encode(messages, wire)

    def _is_view(self, host_list: HostList) -> bool:
        """Tells whether a list is exactly what the view shows. Goes on from where they last agreed."""
        view = self._cursor.view
        units, count = view.closed_units
        last_units, last_keys, index, total = self._compared
        if units is not last_units or host_list.keys is not last_keys or count < index:
            index = total = 0
        for unit in units[index:count]:
            keys = [s.key for s in unit.visible_messages]
            if host_list.keys[total : total + len(keys)] != keys:
                break
            index, total = index + 1, total + len(keys)
        self._compared = (units, host_list.keys, index, total)
        rest = [s.key for s in get_step_messages(view.open_step, closing=False)] if view.open_step is not None else []
        is_complete = total + len(rest) == host_list.count
        return is_complete and index == count and rest == host_list.keys[total : host_list.count]

    def is_whole_history(self, host_list: HostList) -> bool:
        """Tells whether a list is the whole history, with no message replaced by a summary or a stub."""
        if host_list.is_partial:
            return False
        keys = host_list.keys[: host_list.count]
        last = keys[-1][0] if keys else -1
        return all(kind == -1 for _, _, kind in keys) and find_next_message(self._cursor.view.path, last) is None

    def _get_fingerprint(self, position: int, message: Message) -> bytes:
        key = self._fingerprints.get(position)
        if key is None:
            key = self._fingerprints[position] = fingerprint_message(message)
        return key
