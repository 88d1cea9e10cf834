"""Compacts a past several times, one after the other, as happens in a long conversation."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from msgspec.structs import replace

from tenfold.errors import UsageError
from tenfold.testing.cases import ChatMessage
from tenfold.testing.methods import Method, MethodResult, split_steps


def compact_in_rounds(method: Method, past: Sequence[ChatMessage], *, budget: int, rounds: int) -> MethodResult:
    """Returns what a method makes of the past when it grows in `rounds` equal stretches and is compacted after each.

    Each time the method gets its own last result and the messages of the next stretch. Stretches end where no call is
    open. Times and model calls of all rounds are added up. Raises `UnableError` if the method does in any round.
    """
    if rounds < 1:
        raise UsageError(f"{rounds} rounds: a past is compacted at least once")
    result = MethodResult((), 0, 0.0)
    for stretch in split_past(past, rounds):
        new = method.compact((*result.messages, *stretch), budget=budget)
        result = replace(
            new,
            seconds=result.seconds + new.seconds,
            spent_input=result.spent_input + new.spent_input,
            spent_output=result.spent_output + new.spent_output,
        )
    return result


def split_past(past: Sequence[ChatMessage], rounds: int) -> list[tuple[ChatMessage, ...]]:
    """Splits the past into `rounds` stretches of about equal length that never end inside a step.

    A short past has fewer.
    """
    head, steps = split_steps(past)
    ends = [len(head)]
    for step in steps:
        ends.append(ends[-1] + len(step))
    marks = [max(e for e in ends if e <= max(len(past) * n // rounds, ends[0])) for n in range(1, rounds)]
    bounds = [0, *marks, len(past)]
    return [tuple(past[a:b]) for a, b in pairwise(bounds) if a < b]
