"""Finds those of a loop's messages that the log does not have, also where a request has brought them in another form.

A wire writes some messages differently: OpenAI's formats mark a failed tool in the text of its result, others join two
answers in one, or have the system prompt in a field of its own. The log has what the request brought.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import dropwhile, pairwise, takewhile

import msgspec
from msgspec import Struct

from tenfold.core.record.message import Message
from tenfold.core.wire import WIRES, DecodedHistory
from tenfold.core.wire.fingerprint import fingerprint_message
from tenfold.core.wire.marks import is_system_prompt


class _SentGroup(Struct, frozen=True):
    """What a wire makes of the messages at `indices`: the `received` ones."""

    indices: frozenset[int]
    received: list[Message]


def find_missing_messages(
    messages: Sequence[Message],
    logged: Sequence[Message],
    shown: Collection[bytes],
    clean: Callable[[Message], Message],
) -> list[Message]:
    """Returns those of a loop's messages that are not among the `logged` ones, as often as they are lacking.

    `shown` are the fingerprints of messages that need not be in the log. `clean` turns a message into the form in which
    the log has it.
    """
    keys = [fingerprint_message(clean(message)) for message in messages]
    known = Counter(map(fingerprint_message, logged))
    missing: list[int] = []
    for at, key in enumerate(keys):
        known[key] -= 1
        if known[key] < 0 and key not in shown:
            missing.append(at)
    known = +known
    wire = _find_wire(logged)
    for group in _encode_groups(messages, wire) if wire and missing else []:
        found = Counter(keys[at] for at in group.indices.difference(missing))
        wanted = Counter(fingerprint_message(clean(message)) for message in group.received) - found
        if wanted <= known:
            known -= wanted
            missing = [at for at in missing if at not in group.indices]
    return [messages[at] for at in missing]


def drop_earlier_messages(
    messages: Sequence[Message],
    logged: Sequence[Message],
    histories: Sequence[Sequence[Message]],
    clean: Callable[[Message], Message],
) -> list[Message]:
    """Returns a loop's messages without those of earlier loops, where a host gives its whole history as the loop's.

    `histories` are forms of what the session had before the loop: as it is in the log, and as the view shows it. One
    has to stand at the beginning, whole, with something behind it. Messages that begin as the `logged` ones of the loop
    are its own, whatever an earlier loop has said. A system prompt at the beginning stays.
    """
    prompts = list(takewhile(is_system_prompt, messages))
    rest = messages[len(prompts) :]
    if _count_opening(rest, logged, clean):
        return [*messages]
    for history in histories:
        count = _count_opening(rest, history, clean)
        if 0 < count < len(rest):
            return [*prompts, *rest[count:]]
    return [*messages]


def _count_opening(messages: Sequence[Message], known: Sequence[Message], clean: Callable[[Message], Message]) -> int:
    """Counts the messages at the beginning that are the known ones, as they are or as a wire writes them. 0 if none."""
    wanted = [fingerprint_message(message) for message in dropwhile(is_system_prompt, known)]
    wire = _find_wire(known)
    each_alone = [_SentGroup(frozenset([at]), [message]) for at, message in enumerate(messages)]
    for groups in (each_alone, _encode_groups(messages, wire) if wire else []):
        found: list[bytes] = []
        for count, group in enumerate(groups, 1):
            found += (fingerprint_message(clean(message)) for message in group.received)
            if found == wanted and found:
                return sum(len(each.indices) for each in groups[:count])
            if found != wanted[: len(found)]:
                break
    return 0


def _find_wire(logged: Sequence[Message]) -> str:
    """Finds the wire of the newest request that brought some of the messages, "" if none did."""
    return next((m.native.format for m in reversed(logged) if m.native is not None and m.native.format in WIRES), "")


def _encode_groups(messages: Sequence[Message], wire: str) -> list[_SentGroup]:
    """Sends messages by a wire and reads them again, in groups that share an item or a message.

    The system prompt is a group without any message where the wire has it apart from the list.
    """
    encoded = WIRES[wire].encode(messages)
    decoded = DecodedHistory().decode_next([msgspec.json.decode(item.raw) for item in encoded.items], wire)
    is_apart = WIRES[wire].profile.has_separate_system
    prompts = [at for at, _ in takewhile(lambda pair: pair[1].role == "system", enumerate(messages)) if is_apart]
    groups = [_SentGroup(frozenset(prompts), [])]
    for item, (start, end) in zip(encoded.items, pairwise((0, *decoded.ends)), strict=True):
        if start == end:  # it goes on with the message of the item before
            groups[-1] = _SentGroup(groups[-1].indices.union(item.indices), groups[-1].received)
        elif item.indices:
            groups.append(_SentGroup(frozenset(item.indices), decoded.messages[start:end]))
    return groups
