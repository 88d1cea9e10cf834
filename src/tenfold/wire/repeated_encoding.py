"""Encodes the lists of one session's requests: each is mostly the one before and a few messages more."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from tenfold.record.message import Message
from tenfold.wire.base import EncodedList
from tenfold.wire.encoding import ListEncoding, Wire
from tenfold.wire.segments import can_divide

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

    def encode(self, messages: Sequence[Message], wire: Wire) -> EncodedList:
        """Encodes messages; see `Wire.encode`. Nobody may change the messages, which are kept."""
        encoding, count = self._encoding, len(self._messages)
        is_begun = encoding is not None and self._wire is wire and messages[:count] == self._messages
        if encoding is None or not is_begun or not encoding.ledger.can_take(messages[count:]):
            encoding, count = ListEncoding(wire), 0
        self._encoding = None  # if it fails half-way, the next list is encoded as a whole
        end = _find_division(messages, count)
        if end > count:
            encoding.extend(messages[count:end])
        if not (end and encoding.ledger.has_source and encoding.ledger.can_take(messages[end:])):
            return wire.encode(messages)
        self._wire, self._messages, self._encoding = wire, list(messages[:end]), encoding
        whole = encoding.copy()
        whole.extend(messages[end:])
        return whole.build_list()


def _find_division(messages: Sequence[Message], start: int) -> int:
    """Finds where the newest steps begin, if the list may be divided there after `start`. Else returns `start`."""
    places = (at for at in range(len(messages) - 1, start, -1) if can_divide(messages, at))
    return next(islice(places, LATEST_STEPS - 1, None), start)
