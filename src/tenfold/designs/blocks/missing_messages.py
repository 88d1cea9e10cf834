"""Finds those of a loop's messages that the log does not have, also where a request has brought them in another form.

A wire writes some messages differently: OpenAI's formats mark a failed tool in the text of its result, others join two
answers in one, or have the system prompt in a field of its own. The log has what the request brought.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise, takewhile

import msgspec
from msgspec import Struct

from tenfold.record.message import Message
from tenfold.wire import WIRES, DecodedHistory
from tenfold.wire.fingerprint import fingerprint_message


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
    wire = next((m.native.format for m in reversed(logged) if m.native is not None and m.native.format in WIRES), "")
    for group in _encode_groups(messages, wire) if wire and missing else []:
        found = Counter(keys[at] for at in group.indices.difference(missing))
        wanted = Counter(fingerprint_message(clean(message)) for message in group.received) - found
        if wanted <= known:
            known -= wanted
            missing = [at for at in missing if at not in group.indices]
    return [messages[at] for at in missing]


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
