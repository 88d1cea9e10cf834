"""Hard gates on a compacted list of chat messages: each is a count, and each count must be 0.

They are checked against the list that was compacted, so a defect that a session already had is not charged to the
method. Thinking and signatures do not exist in this neutral form: `own_wire.py` checks them in a session's own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Literal, get_args

import msgspec
from msgspec import Struct

from tenfold.evals.cases import ChatMessage, text_of_message, tokens_of
from tenfold.evals.methods import Method, Unable
from tenfold.wire.marks import text_origin

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
ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
_LEADING = frozenset({"system", "developer"})
TOLERANCE = 1.02
"""Of the budget: what a method lands on may differ that much by its own counter."""
LEAST_SUMMARY = 200
"""Tokens of the shortest summary in place of all that is left out, with the words that a method puts around one."""


class Broken(Struct, frozen=True):
    """One gate that did not hold, at message `at` of the result (-1: of the whole)."""

    gate: Gate
    at: int
    reason: str


class Checked(Struct, frozen=True):
    """One method over the cuts of one session: how often each gate failed, where first, and what could not be run.

    `thinking` counts the cuts at which the session's own messages before it hold thinking or signatures.
    """

    session: str
    method: str
    cuts: int
    counts: dict[Gate, int]
    first: dict[Gate, str]
    unable: int = 0
    thinking: int = 0


Also = Callable[[int, int], Iterable[Broken]]
"""Further gates that fail where what lies before a cut is compacted to a budget."""


def broken(
    source: Sequence[ChatMessage], view: Sequence[ChatMessage], *, budget: int = 0, strict: bool = False
) -> list[Broken]:
    """Every gate that the view fails, a compaction of `source`. `budget` 0 does not look at its size.

    No method is held to a budget below the `least` of the source, only to that least; recall and probes give 0 there.
    OpenAI takes a list that the assistant opens, and system messages anywhere. `strict` counts both as rejected, which
    they are by Anthropic and Gemini when a list is passed on as it is, unless the session itself had them.
    """
    found = [*_pairs(source, view), *_order(source, view), *_contents(source, view)]
    found += [*_roles(view), *(_strict_roles(source, view) if strict else ())]
    if budget and (tokens := tokens_of(view)) > (allowed := max(budget, least(source))) * TOLERANCE:
        found.append(Broken("over budget", -1, f"{tokens:,} tokens where {allowed:,} were allowed"))
    return found


def least(source: Sequence[ChatMessage]) -> int:
    """Tokens of what no compaction may touch: system messages in front, newest request, open step; and a summary.

    What an agent without tool calls is shown of its tools stands in a user's place, and is no request. A step is open
    where the list ends before all its calls are answered.
    """
    start = next((i for i, m in enumerate(source) if m.get("role") not in _LEADING), len(source))
    said = (m for m in reversed(source) if m.get("role") == "user" and text_origin(text_of_message(m)) == "human")
    called = next((i for i in range(len(source) - 1, -1, -1) if source[i].get("role") != "tool"), len(source))
    step = source[called:] if _open(source[called:]) else ()
    return tokens_of([*source[:start], *islice(said, 1), *step]) + LEAST_SUMMARY


def check(  # noqa: PLR0913 - what, by which method, and where; all but the first two by keyword
    messages: Sequence[ChatMessage],
    method: Method,
    *,
    session: str,
    cuts: Sequence[int] = (),
    budget: int = 0,
    share: float = 0.1,
    floor: int = 2_000,
    also: Also = lambda _cut, _budget: (),
) -> Checked:
    """Compacts at each of the cuts (every index, where none are given), twice, and counts the gates that fail.

    The budget is `budget`, or else `share` of what lies before the cut, at least `floor` tokens.
    """
    counts: Counter[Gate] = Counter()
    first: dict[Gate, str] = {}
    unable = 0
    chosen = list(cuts) or list(range(1, len(messages) + 1))
    for cut in chosen:
        past = messages[:cut]
        allowed = budget or max(floor, int(share * tokens_of(past)))
        try:
            found = [*_at(past, method, allowed), *also(cut, allowed)]
        except Unable:
            unable += 1
            continue
        for each in found:
            counts[each.gate] += 1
            first.setdefault(each.gate, f"cut {cut}, message {each.at}: {each.reason}")
    return Checked(session, method.name, len(chosen), dict(counts), first, unable)


def _at(past: Sequence[ChatMessage], method: Method, budget: int) -> list[Broken]:
    given = [_raw(message) for message in past]
    made = method.compact(past, budget=budget)
    again = method.compact([msgspec.json.decode(raw) for raw in given], budget=budget)
    found = broken(past, made.messages, budget=budget)
    if [_raw(message) for message in past] != given:
        found.append(Broken("changed input", -1, "the list that was passed in was changed"))
    if [_raw(m) for m in made.messages] != [_raw(m) for m in again.messages]:
        found.append(Broken("two runs differ", -1, f"{len(made.messages)} and {len(again.messages)} messages"))
    return found


# -- the gates ---------------------------------------------------------------------------------------------------------


def _ids(message: ChatMessage) -> list[str]:
    calls = message.get("tool_calls")
    return [str(c.get("id")) for c in calls if isinstance(c, dict)] if isinstance(calls, list) else []


def _pairs(source: Sequence[ChatMessage], view: Sequence[ChatMessage]) -> Iterator[Broken]:
    """Calls and results: each with the other, together, once, and all of a step or none of it."""
    spared = _open(source)
    given = Counter(c for message in source for c in _ids(message))
    seen: Counter[str] = Counter()
    waiting: list[str] = []
    for at, message in enumerate(view):
        if message.get("role") == "tool":
            call = str(message.get("tool_call_id"))
            if call in waiting:
                waiting.remove(call)
            else:
                yield Broken("orphan result", at, f"a result of {call}, which is not open")
            continue
        for c in waiting:
            if spared[c]:
                spared[c] -= 1
            else:
                yield Broken("orphan call", at, f"{c} is not answered before this")
        waiting = _ids(message)
        seen.update(waiting)
        yield from (Broken("duplicate id", at, c) for c in dict.fromkeys(waiting) if seen[c] > max(1, given[c]))
    yield from (Broken("orphan call", len(view), f"{c} has no result") for c in waiting if not spared[c])
    for message in source:
        step = _ids(message)
        if 0 < sum(c in seen for c in step) < len(step):
            yield Broken("split step", -1, f"of {len(step)} parallel calls only some are left")


def _open(source: Sequence[ChatMessage]) -> Counter[str]:
    """The calls that have no result, each as often as it has none: some agents use an id again."""
    return Counter(c for m in source for c in _ids(m)) - Counter(
        str(m.get("tool_call_id")) for m in source if m.get("role") == "tool"
    )


def _order(source: Sequence[ChatMessage], view: Sequence[ChatMessage]) -> Iterator[Broken]:
    """What of the source is still there as it was stands in the source's order, and is not there twice."""
    places: dict[bytes, list[int]] = {}
    for index, message in enumerate(source):
        places.setdefault(_raw(message), []).append(index)
    calls: dict[str, list[int]] = {}
    for index, message in enumerate(source):
        for call in _ids(message):
            calls.setdefault(call, []).append(index)
    last = -1
    for at, message in enumerate(view):
        own = sorted(i for c in _ids(message) for i in calls.get(c, ())) or places.get(_raw(message), [])
        if own:
            following = next((i for i in own if i > last), None)
            if following is None:
                yield Broken("changed order", at, f"message {own[-1]} of the source comes after message {last}")
            last = max(last, following if following is not None else last)


def _roles(view: Sequence[ChatMessage]) -> Iterator[Broken]:
    for at, message in enumerate(view):
        if message.get("role") not in ROLES:
            yield Broken("rejected role", at, f"no provider knows the role {message.get('role')!r}")


def _strict_roles(source: Sequence[ChatMessage], view: Sequence[ChatMessage]) -> Iterator[Broken]:
    """System messages lead, and a user opens the conversation."""
    late = {text_of_message(m) for m in _late_system(source)}
    for message in _late_system(view):
        if text_of_message(message) not in late:
            yield Broken("rejected role", -1, "a system message that did not come with the session, behind others")
    opens, opened = _opening(source), _opening(view)
    if opened not in (None, "user", opens):
        yield Broken("rejected role", 0, f"the conversation opens with {opened}")


def _late_system(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    start = next((i for i, m in enumerate(messages) if m.get("role") not in _LEADING), len(messages))
    return [m for m in messages[start:] if m.get("role") in _LEADING]


def _opening(messages: Sequence[ChatMessage]) -> object:
    return next((m.get("role") for m in messages if m.get("role") not in _LEADING), None)


def _contents(source: Sequence[ChatMessage], view: Sequence[ChatMessage]) -> Iterator[Broken]:
    """Nothing is empty, and what says the same as a message of the source is that message, byte for byte."""
    own = {_raw(message) for message in source}
    same = {(m.get("role"), str(m.get("tool_call_id")), tuple(_ids(m)), text_of_message(m)) for m in source}
    for at, message in enumerate(view):
        if _raw(message) in own:
            continue
        text = text_of_message(message)
        if not text.strip() or _blank_part(message):
            yield Broken("empty content", at, f"a {message.get('role')} message without content")
        elif (message.get("role"), str(message.get("tool_call_id")), tuple(_ids(message)), text) in same:
            yield Broken("changed input", at, "it says what the source says, in other bytes")


def _blank_part(message: ChatMessage) -> bool:
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    return any(isinstance(p, dict) and p.get("type") == "text" and not str(p.get("text", "")).strip() for p in parts)


def _raw(message: ChatMessage) -> bytes:
    return msgspec.json.encode(message)
