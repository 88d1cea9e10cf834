"""Encodes the lists of one session's requests: each is mostly the one before and a few messages more."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from tenfold.core.record.message import Message
from tenfold.core.wire.base import EncodedList
from tenfold.core.wire.encoding import ListEncoding, Wire
from tenfold.core.wire.segments import can_divide

LATEST_STEPS = 4
"""How many steps at the end of a list are encoded each time: cache marks move there from request to request."""


class RepeatedEncoding:
    """Gives what `Wire.encode` gives, and encodes what a list has in common with the one before only once.

    It keeps the beginning of the last list, as messages and encoded, and nothing of the lists before that. It only
    saves work: a list that begins otherwise, as after a compaction or an undo, is encoded as a whole.
    """

    def __init__(self) -> None:
        self._wire: Wire | None = None
        self._messages: list[Message] = []
        self._encoding: ListEncoding | None = None
        self._last: tuple[ListEncoding, Message] | None = None

    def encode(self, messages: Sequence[Message], wire: Wire) -> EncodedList:
        """Encodes messages; see `Wire.encode`. Nobody may change the messages, which are kept."""
        encoding, count = self._encoding, len(self._messages)
        is_begun = encoding is not None and self._wire is wire and messages[:count] == self._messages
        if encoding is None or not is_begun or not encoding.ledger.can_take(messages[count:]):
            encoding, count = ListEncoding(wire), 0
        self._encoding = self._last = None  # if it fails half-way, the next list is encoded as a whole
        end = _find_division(messages, count)
        if end > count:
            encoding.extend(messages[count:end])
        if end and encoding.ledger.has_source and encoding.ledger.can_take(messages[end:]):
            self._wire, self._messages, self._encoding = wire, list(messages[:end]), encoding
            whole = encoding.copy()
        else:
            whole, end = ListEncoding(wire), 0
        whole.extend(messages[end:])
        self._last = (whole, messages[-1]) if messages else None
        return whole.build_list()

    def encode_next(self, messages: Sequence[Message]) -> list[bytes] | None:
        """Encodes messages that come behind the last list, and keeps nothing of them. Returns their native items.

        None if the last list would be encoded otherwise with them behind it.
        """
        if self._last is None or not messages:
            return None
        whole, newest = self._last
        is_apart = can_divide((newest, messages[0]), 1) and whole.ledger.can_take(messages)
        if not (is_apart and whole.ledger.has_source):
            return None
        longer, before = whole.copy(), whole.build_list()
        longer.extend(messages)
        after = longer.build_list()
        return [item.raw for item in after.items[len(before.items) :]] if after.system == before.system else None


def _find_division(messages: Sequence[Message], start: int) -> int:
    """Finds where the newest steps begin, if the list may be divided there after `start`. Else returns `start`."""
    places = (at for at in range(len(messages) - 1, start, -1) if can_divide(messages, at))
    return next(islice(places, LATEST_STEPS - 1, None), start)
