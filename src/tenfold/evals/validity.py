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
"""A multiple of the budget. A method's own counter may differ by that much."""
LEAST_SUMMARY = 200
"""The tokens of the shortest summary of all that is left out, with the words that a method puts around it."""


class Broken(Struct, frozen=True):
    """One gate that failed, at the message of the result at `index` (-1: in the result as a whole)."""

    gate: Gate
    at: int
    reason: str


class Checked(Struct, frozen=True):
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


Also = Callable[[int, int], Iterable[Broken]]
"""Returns further gates that fail if what lies before a cut is compacted to a budget."""


def broken(
    source: Sequence[ChatMessage], view: Sequence[ChatMessage], *, budget: int = 0, strict: bool = False
) -> list[Broken]:
    """Returns every gate that fails in the view, a compaction of `source`. With `budget` 0 the size is not checked.

    No method is held to a budget below the least of the source (see `count_least`), only to that least; recall and
    probes score 0 there. OpenAI accepts a list that begins with an assistant message, and system messages anywhere.
    `is_strict` counts both as rejected, as Anthropic and Gemini do, unless the session itself had them.
    """
    found = [*_pairs(source, view), *_order(source, view), *_contents(source, view)]
    found += [*_roles(view), *(_strict_roles(source, view) if strict else ())]
    if budget and (tokens := tokens_of(view)) > (allowed := max(budget, least(source))) * TOLERANCE:
        found.append(Broken("over budget", -1, f"{tokens:,} tokens where {allowed:,} were allowed"))
    return found


def least(source: Sequence[ChatMessage]) -> int:
    """Returns the tokens of what no compaction may touch, plus a summary.

    These are the leading system messages, the newest request and the open step. A step is open if the list ends before
    all its calls are answered. Some agents without tool calls get their tool output as user messages; that is no
    request.
    """
    start = next((i for i, m in enumerate(source) if m.get("role") not in _LEADING), len(source))
    requests = (m for m in reversed(source) if m.get("role") == "user" and text_origin(text_of_message(m)) == "human")
    last_answer = next((i for i in range(len(source) - 1, -1, -1) if source[i].get("role") != "tool"), len(source))
    step = source[last_answer:] if _open(source[last_answer:]) else ()
    return tokens_of([*source[:start], *islice(requests, 1), *step]) + LEAST_SUMMARY


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
    """Compacts twice at each of the cuts (every index if none are given), and counts the gates that fail.

    The budget is `budget`, or else `share` of what lies before the cut, but at least `min_budget` tokens.
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
    before = [_raw(message) for message in past]
    result = method.compact(past, budget=budget)
    again = method.compact([msgspec.json.decode(raw) for raw in before], budget=budget)
    found = broken(past, result.messages, budget=budget)
    if [_raw(message) for message in past] != before:
        found.append(Broken("changed input", -1, "the list that was passed in was changed"))
    if [_raw(m) for m in result.messages] != [_raw(m) for m in again.messages]:
        found.append(Broken("two runs differ", -1, f"{len(result.messages)} and {len(again.messages)} messages"))
    return found


# -- the gates ---------------------------------------------------------------------------------------------------------


def _ids(message: ChatMessage) -> list[str]:
    calls = message.get("tool_calls")
    return [str(c.get("id")) for c in calls if isinstance(c, dict)] if isinstance(calls, list) else []


def _pairs(source: Sequence[ChatMessage], view: Sequence[ChatMessage]) -> Iterator[Broken]:
    """Checks that each call has its one result right behind it, and that a step is kept as a whole or not at all."""
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
    """Counts the calls without a result, by id, since some agents use an id more than once."""
    return Counter(c for m in source for c in _ids(m)) - Counter(
        str(m.get("tool_call_id")) for m in source if m.get("role") == "tool"
    )


def _order(source: Sequence[ChatMessage], view: Sequence[ChatMessage]) -> Iterator[Broken]:
    """Checks that what is unchanged from the source stands in the source's order, and only once."""
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
    """Checks that system messages come first, and that a user opens the conversation."""
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
    """Checks that nothing is empty, and that a message with the content of a source message equals it byte for byte."""
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
