"""Hard gates on a compacted list of chat messages. Each gate is a count, and every count must be 0.

The result is compared with the list that was compacted, so a defect that a session already had is not charged to the
method. Chat messages hold no thinking and no signatures; the yardstick checks those in a session's own format.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal, get_args

import msgspec
from msgspec import Struct

from tenfold.testing.probes.chat_text import get_text
from tenfold.testing.probes.kinds import ChatMessage

Gate = Literal[
    "orphan call",
    "orphan result",
    "split step",
    "duplicate id",
    "changed order",
    "rejected role",
    "thinking moved",
    "signature dropped",
    "empty content",
    "over budget",
    "changed input",
    "two runs differ",
]
GATES: tuple[Gate, ...] = get_args(Gate)
KNOWN_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
TOLERANCE = 1.02
"""A multiple of the budget. A method's own counter may differ by that much."""


class GateFailure(Struct, frozen=True):
    """One gate that failed, at the message of the result at `index` (-1: in the result as a whole)."""

    gate: Gate
    index: int
    reason: str


def find_failures(source: Sequence[ChatMessage], view: Sequence[ChatMessage]) -> list[GateFailure]:
    """Returns every gate that fails in the view, a compaction of `source`.

    OpenAI accepts a list that begins with an assistant message, and system messages anywhere, so both may be.
    """
    return [
        *_check_pairs(source, view),
        *_check_order(source, view),
        *_check_contents(source, view),
        *_check_roles(view),
    ]


# -- the gates ---------------------------------------------------------------------------------------------------------


def _get_call_ids(message: ChatMessage) -> list[str]:
    calls = message.get("tool_calls")
    return [str(c.get("id")) for c in calls if isinstance(c, dict)] if isinstance(calls, list) else []


def _check_pairs(source: Sequence[ChatMessage], view: Sequence[ChatMessage]) -> Iterator[GateFailure]:
    """Checks that each call has its one result right behind it, and that a step is kept as a whole or not at all."""
    spared = count_open_calls(source)
    given = Counter(c for message in source for c in _get_call_ids(message))
    seen: Counter[str] = Counter()
    waiting: list[str] = []
    for at, message in enumerate(view):
        if message.get("role") == "tool":
            call = str(message.get("tool_call_id"))
            if call in waiting:
                waiting.remove(call)
            else:
                yield GateFailure("orphan result", at, f"a result of {call}, which is not open")
            continue
        for c in waiting:
            if spared[c]:
                spared[c] -= 1
            else:
                yield GateFailure("orphan call", at, f"{c} is not answered before this")
        waiting = _get_call_ids(message)
        seen.update(waiting)
        yield from (GateFailure("duplicate id", at, c) for c in dict.fromkeys(waiting) if seen[c] > max(1, given[c]))
    yield from (GateFailure("orphan call", len(view), f"{c} has no result") for c in waiting if not spared[c])
    for message in source:
        step = _get_call_ids(message)
        if 0 < sum(c in seen for c in step) < len(step):
            yield GateFailure("split step", -1, f"of {len(step)} parallel calls only some are left")


def count_open_calls(source: Sequence[ChatMessage]) -> Counter[str]:
    """Counts the calls without a result, by id, since some agents use an id more than once."""
    return Counter(c for m in source for c in _get_call_ids(m)) - Counter(
        str(m.get("tool_call_id")) for m in source if m.get("role") == "tool"
    )


def _check_order(source: Sequence[ChatMessage], view: Sequence[ChatMessage]) -> Iterator[GateFailure]:
    """Checks that what is unchanged from the source stands in the source's order, and only once."""
    places: dict[bytes, list[int]] = {}
    for index, message in enumerate(source):
        places.setdefault(msgspec.json.encode(message), []).append(index)
    calls: dict[str, list[int]] = {}
    for index, message in enumerate(source):
        for call in _get_call_ids(message):
            calls.setdefault(call, []).append(index)
    last = -1
    for at, message in enumerate(view):
        own = sorted(i for c in _get_call_ids(message) for i in calls.get(c, ())) or places.get(
            msgspec.json.encode(message), []
        )
        if own:
            following = next((i for i in own if i > last), None)
            if following is None:
                yield GateFailure("changed order", at, f"message {own[-1]} of the source comes after message {last}")
            last = max(last, following if following is not None else last)


def _check_roles(view: Sequence[ChatMessage]) -> Iterator[GateFailure]:
    for at, message in enumerate(view):
        if message.get("role") not in KNOWN_ROLES:
            yield GateFailure("rejected role", at, f"no provider knows the role {message.get('role')!r}")


def _check_contents(source: Sequence[ChatMessage], view: Sequence[ChatMessage]) -> Iterator[GateFailure]:
    """Checks that nothing is empty, and that a message with the content of a source message equals it byte for byte."""
    own = {msgspec.json.encode(message) for message in source}
    same = {(m.get("role"), str(m.get("tool_call_id")), tuple(_get_call_ids(m)), get_text(m)) for m in source}
    for at, message in enumerate(view):
        if msgspec.json.encode(message) in own:
            continue
        text = get_text(message)
        if not text.strip() or _has_blank_part(message):
            yield GateFailure("empty content", at, f"a {message.get('role')} message without content")
        elif (message.get("role"), str(message.get("tool_call_id")), tuple(_get_call_ids(message)), text) in same:
            yield GateFailure("changed input", at, "it says what the source says, in other bytes")


def _has_blank_part(message: ChatMessage) -> bool:
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    return any(isinstance(p, dict) and p.get("type") == "text" and not str(p.get("text", "")).strip() for p in parts)
