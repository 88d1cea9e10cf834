"""Hard gates on a compacted list of chat messages. Each gate is a count, and every count must be 0.

The result is compared with the list that was compacted, so a defect that a session already had is not charged to the
method. Chat messages hold no thinking and no signatures; `own_format.py` checks those in a session's own format.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Literal, get_args

import msgspec
from msgspec import Struct

from tenfold.core.wire.marks import find_text_origin
from tenfold.testing.cases import ChatMessage, count_total_tokens, get_message_text
from tenfold.testing.methods import Method, UnableError

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
_SYSTEM_ROLES = frozenset({"system", "developer"})
TOLERANCE = 1.02
"""A multiple of the budget. A method's own counter may differ by that much."""
LEAST_SUMMARY = 200
"""The tokens of the shortest summary of all that is left out, with the words that a method puts around it."""


class GateFailure(Struct, frozen=True):
    """One gate that failed, at the message of the result at `index` (-1: in the result as a whole)."""

    gate: Gate
    index: int
    reason: str


class GateCounts(Struct, frozen=True):
    """One method over the cuts of one session: how often each gate failed, where first, and how many cuts did not run.

    `thinking` counts the cuts before which the session's own messages hold thinking or signatures.
    """

    session: str
    method: str
    cuts: int
    counts: dict[Gate, int]
    first: dict[Gate, str]
    unable: int = 0
    thinking: int = 0


ExtraGates = Callable[[int, int], Iterable[GateFailure]]
"""Returns further gates that fail if what lies before a cut is compacted to a budget."""


def find_failures(
    source: Sequence[ChatMessage], view: Sequence[ChatMessage], *, budget: int = 0, is_strict: bool = False
) -> list[GateFailure]:
    """Returns every gate that fails in the view, a compaction of `source`. With `budget` 0 the size is not checked.

    No method is held to a budget below the least of the source (see `count_least`), only to that least; recall and
    probes score 0 there. OpenAI accepts a list that begins with an assistant message, and system messages anywhere.
    `is_strict` counts both as rejected, as Anthropic and Gemini do, unless the session itself had them.
    """
    found = [*_check_pairs(source, view), *_check_order(source, view), *_check_contents(source, view)]
    found += [*_check_roles(view), *(_check_strict_roles(source, view) if is_strict else ())]
    if budget and (tokens := count_total_tokens(view)) > (allowed := max(budget, count_least(source))) * TOLERANCE:
        found.append(GateFailure("over budget", -1, f"{tokens:,} tokens where {allowed:,} were allowed"))
    return found


def count_least(source: Sequence[ChatMessage]) -> int:
    """Returns the tokens of what no compaction may touch, plus a summary.

    These are the leading system messages, the newest request and the open step. A step is open if the list ends before
    all its calls are answered. Some agents without tool calls get their tool output as user messages; that is no
    request.
    """
    start = next((i for i, m in enumerate(source) if m.get("role") not in _SYSTEM_ROLES), len(source))
    requests = (
        m for m in reversed(source) if m.get("role") == "user" and find_text_origin(get_message_text(m)) == "human"
    )
    last_answer = next((i for i in range(len(source) - 1, -1, -1) if source[i].get("role") != "tool"), len(source))
    step = source[last_answer:] if _count_open_calls(source[last_answer:]) else ()
    return count_total_tokens([*source[:start], *islice(requests, 1), *step]) + LEAST_SUMMARY


def check_cuts(  # noqa: PLR0913 - what, by which method, and where; all but the first two by keyword
    messages: Sequence[ChatMessage],
    method: Method,
    *,
    session: str,
    cuts: Sequence[int] = (),
    budget: int = 0,
    share: float = 0.1,
    min_budget: int = 2_000,
    find_more: ExtraGates = lambda _cut, _budget: (),
) -> GateCounts:
    """Compacts twice at each of the cuts (every index if none are given), and counts the gates that fail.

    The budget is `budget`, or else `share` of what lies before the cut, but at least `min_budget` tokens.
    """
    counts: Counter[Gate] = Counter()
    first: dict[Gate, str] = {}
    unable = 0
    chosen = list(cuts) or list(range(1, len(messages) + 1))
    for cut in chosen:
        past = messages[:cut]
        allowed = budget or max(min_budget, int(share * count_total_tokens(past)))
        try:
            found = [*_check_cut(past, method, allowed), *find_more(cut, allowed)]
        except UnableError:
            unable += 1
            continue
        for each in found:
            counts[each.gate] += 1
            first.setdefault(each.gate, f"cut {cut}, message {each.index}: {each.reason}")
    return GateCounts(session, method.name, len(chosen), dict(counts), first, unable)


def _check_cut(past: Sequence[ChatMessage], method: Method, budget: int) -> list[GateFailure]:
    before = [_encode_message(message) for message in past]
    result = method.compact(past, budget=budget)
    again = method.compact([msgspec.json.decode(raw) for raw in before], budget=budget)
    found = find_failures(past, result.messages, budget=budget)
    if [_encode_message(message) for message in past] != before:
        found.append(GateFailure("changed input", -1, "the list that was passed in was changed"))
    if [_encode_message(m) for m in result.messages] != [_encode_message(m) for m in again.messages]:
        found.append(GateFailure("two runs differ", -1, f"{len(result.messages)} and {len(again.messages)} messages"))
    return found


# -- the gates ---------------------------------------------------------------------------------------------------------


def _get_call_ids(message: ChatMessage) -> list[str]:
    calls = message.get("tool_calls")
    return [str(c.get("id")) for c in calls if isinstance(c, dict)] if isinstance(calls, list) else []


def _check_pairs(source: Sequence[ChatMessage], view: Sequence[ChatMessage]) -> Iterator[GateFailure]:
    """Checks that each call has its one result right behind it, and that a step is kept as a whole or not at all."""
    spared = _count_open_calls(source)
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


def _count_open_calls(source: Sequence[ChatMessage]) -> Counter[str]:
    """Counts the calls without a result, by id, since some agents use an id more than once."""
    return Counter(c for m in source for c in _get_call_ids(m)) - Counter(
        str(m.get("tool_call_id")) for m in source if m.get("role") == "tool"
    )


def _check_order(source: Sequence[ChatMessage], view: Sequence[ChatMessage]) -> Iterator[GateFailure]:
    """Checks that what is unchanged from the source stands in the source's order, and only once."""
    places: dict[bytes, list[int]] = {}
    for index, message in enumerate(source):
        places.setdefault(_encode_message(message), []).append(index)
    calls: dict[str, list[int]] = {}
    for index, message in enumerate(source):
        for call in _get_call_ids(message):
            calls.setdefault(call, []).append(index)
    last = -1
    for at, message in enumerate(view):
        own = sorted(i for c in _get_call_ids(message) for i in calls.get(c, ())) or places.get(
            _encode_message(message), []
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


def _check_strict_roles(source: Sequence[ChatMessage], view: Sequence[ChatMessage]) -> Iterator[GateFailure]:
    """Checks that system messages come first, and that a user opens the conversation."""
    late = {get_message_text(m) for m in _find_late_system(source)}
    for message in _find_late_system(view):
        if get_message_text(message) not in late:
            yield GateFailure("rejected role", -1, "a system message that did not come with the session, behind others")
    opens, opened = _get_opening_role(source), _get_opening_role(view)
    if opened not in (None, "user", opens):
        yield GateFailure("rejected role", 0, f"the conversation opens with {opened}")


def _find_late_system(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    start = next((i for i, m in enumerate(messages) if m.get("role") not in _SYSTEM_ROLES), len(messages))
    return [m for m in messages[start:] if m.get("role") in _SYSTEM_ROLES]


def _get_opening_role(messages: Sequence[ChatMessage]) -> object:
    return next((m.get("role") for m in messages if m.get("role") not in _SYSTEM_ROLES), None)


def _check_contents(source: Sequence[ChatMessage], view: Sequence[ChatMessage]) -> Iterator[GateFailure]:
    """Checks that nothing is empty, and that a message with the content of a source message equals it byte for byte."""
    own = {_encode_message(message) for message in source}
    same = {(m.get("role"), str(m.get("tool_call_id")), tuple(_get_call_ids(m)), get_message_text(m)) for m in source}
    for at, message in enumerate(view):
        if _encode_message(message) in own:
            continue
        text = get_message_text(message)
        if not text.strip() or _has_blank_part(message):
            yield GateFailure("empty content", at, f"a {message.get('role')} message without content")
        elif (message.get("role"), str(message.get("tool_call_id")), tuple(_get_call_ids(message)), text) in same:
            yield GateFailure("changed input", at, "it says what the source says, in other bytes")


def _has_blank_part(message: ChatMessage) -> bool:
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    return any(isinstance(p, dict) and p.get("type") == "text" and not str(p.get("text", "")).strip() for p in parts)


def _encode_message(message: ChatMessage) -> bytes:
    return msgspec.json.encode(message)
