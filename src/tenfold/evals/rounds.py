"""Several compactions one after the other, as a long conversation has them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from msgspec.structs import replace

from tenfold.errors import UsageError
from tenfold.evals.cases import ChatMessage
from tenfold.evals.methods import Compacted, Method, steps_of


def grown(method: Method, past: Sequence[ChatMessage], *, budget: int, rounds: int) -> Compacted:
    """What a method has made of the past when it grew in `rounds` equal stretches and was compacted after each.

    Each time the method gets its own last result and the messages of the next stretch, cut where no call is open.
    Times and model calls of all rounds are added up. Raises `Unable` with what the method raises in any round.
    """
    if rounds < 1:
        raise UsageError(f"{rounds} rounds: a past is compacted at least once")
    made = Compacted((), 0, 0.0)
    for stretch in stretches(past, rounds):
        new = method.compact((*made.messages, *stretch), budget=budget)
        made = replace(
            new,
            seconds=made.seconds + new.seconds,
            spent_input=made.spent_input + new.spent_input,
            spent_output=made.spent_output + new.spent_output,
        )
    return made


def stretches(past: Sequence[ChatMessage], rounds: int) -> list[tuple[ChatMessage, ...]]:
    """The past in `rounds` stretches of about as many messages, none ending inside a step; fewer for a short past."""
    head, steps = steps_of(past)
    ends = [len(head)]
    for step in steps:
        ends.append(ends[-1] + len(step))
    marks = [max(e for e in ends if e <= max(len(past) * n // rounds, ends[0])) for n in range(1, rounds)]
    bounds = [0, *marks, len(past)]
    return [tuple(past[a:b]) for a, b in pairwise(bounds) if a < b]
