"""Counts the gates of validity that fail, over the cuts of a session, with the size that a result may have.

No method is held to a budget below the least of the source (see `count_least`), only to that least; recall and probes
score 0 there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

import msgspec
from msgspec import Struct

from tenfold.core.wire.marks import find_text_origin
from tenfold.testing.chats import count_total_tokens
from tenfold.testing.methods import Method, UnableError
from tenfold.testing.probes.chat_text import get_text
from tenfold.testing.probes.kinds import ChatMessage
from tenfold.testing.validity import TOLERANCE, Gate, GateFailure, count_open_calls, find_failures

LEAST_SUMMARY = 200
"""The tokens of the shortest summary of all that is left out, with the words that a method puts around it."""
MIN_BUDGET = 2_000
REFUSED_GATES: frozenset[Gate] = frozenset(
    {"orphan call", "orphan result", "split step", "duplicate id", "rejected role", "empty content"}
)
"""The gates for which a provider refuses the request. A view that fails one would not have been sent and scores 0."""
_SYSTEM_ROLES = frozenset({"system", "developer"})


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


def find_failures_within(source: Sequence[ChatMessage], view: Sequence[ChatMessage], budget: int) -> list[GateFailure]:
    """Returns every gate that fails in the view, a compaction of `source` to the budget."""
    found = find_failures(source, view)
    if (tokens := count_total_tokens(view)) > (allowed := max(budget, count_least(source))) * TOLERANCE:
        found.append(GateFailure("over budget", -1, f"{tokens:,} tokens where {allowed:,} were allowed"))
    return found


def find_refusal(failures: Iterable[GateFailure]) -> str:
    """Returns the first of the gates that failed for which a provider refuses the view, or "" if none did."""
    return next((each.gate for each in failures if each.gate in REFUSED_GATES), "")


def count_least(source: Sequence[ChatMessage]) -> int:
    """Returns the tokens of what no compaction may touch, plus a summary.

    These are the leading system messages, the newest request and the open step. A step is open if the list ends before
    all its calls are answered. Some agents without tool calls get their tool output as user messages; that is no
    request.
    """
    start = next((i for i, m in enumerate(source) if m.get("role") not in _SYSTEM_ROLES), len(source))
    requests = (m for m in reversed(source) if m.get("role") == "user" and find_text_origin(get_text(m)) == "human")
    last_answer = next((i for i in range(len(source) - 1, -1, -1) if source[i].get("role") != "tool"), len(source))
    step = source[last_answer:] if count_open_calls(source[last_answer:]) else ()
    return count_total_tokens([*source[:start], *islice(requests, 1), *step]) + LEAST_SUMMARY


def check_cuts(
    messages: Sequence[ChatMessage],
    method: Method,
    cuts: Sequence[int],
    *,
    session: str,
    find_more: ExtraGates = lambda _cut, _budget: (),
) -> GateCounts:
    """Compacts twice at each of the cuts, and counts the gates that fail.

    The budget is a tenth of what lies before the cut, but at least `MIN_BUDGET` tokens.
    """
    counts: Counter[Gate] = Counter()
    first: dict[Gate, str] = {}
    unable = 0
    for cut in cuts:
        past = messages[:cut]
        allowed = max(MIN_BUDGET, count_total_tokens(past) // 10)
        try:
            found = [*_check_cut(past, method, allowed), *find_more(cut, allowed)]
        except UnableError:
            unable += 1
            continue
        for each in found:
            counts[each.gate] += 1
            first.setdefault(each.gate, f"cut {cut}, message {each.index}: {each.reason}")
    return GateCounts(session, method.name, len(cuts), dict(counts), first, unable)


def _check_cut(past: Sequence[ChatMessage], method: Method, budget: int) -> list[GateFailure]:
    before = [msgspec.json.encode(message) for message in past]
    result = method.compact(past, budget=budget)
    again = method.compact([msgspec.json.decode(raw) for raw in before], budget=budget)
    found = find_failures_within(past, result.messages, budget)
    if [msgspec.json.encode(message) for message in past] != before:
        found.append(GateFailure("changed input", -1, "the list that was passed in was changed"))
    if [msgspec.json.encode(m) for m in result.messages] != [msgspec.json.encode(m) for m in again.messages]:
        found.append(GateFailure("two runs differ", -1, f"{len(result.messages)} and {len(again.messages)} messages"))
    return found
