"""Methods to compact a conversation: Tenfold's policies and simple baselines, once or several times in a row.

A method gets the past as OpenAI Chat messages and a token budget, and returns such messages. Without a writer none of
these methods calls a model.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.engine.policy import Policy
from tenfold.errors import TenfoldError, UsageError
from tenfold.models.model import Model
from tenfold.session.stateless import compact
from tenfold.testing.chats import MODEL, count_message_tokens, count_total_tokens, get_role
from tenfold.testing.probes.chat_text import get_tool_calls
from tenfold.testing.probes.kinds import ChatMessage

GAP_TEXT = "[{count:,} earlier messages were left out]"
MASK_TEXT = "[tool output left out: {tokens:,} tokens]"
_MARKER_TOKENS = 16
"""Tokens kept free for the marker in the middle."""


class MethodResult(Struct, frozen=True):
    """What a method made of a past. `spent_input` and `spent_output` are the tokens of its model calls."""

    messages: tuple[ChatMessage, ...]
    tokens: int
    seconds: float
    spent_input: int = 0
    spent_output: int = 0
    note: str = ""


class UnableError(TenfoldError):
    """Raised by a method that cannot compact this past. The message is the reason that reports show."""


class Method(Protocol):
    """One way to compact a conversation."""

    @property
    def name(self) -> str:
        """The name in tables, and the name that `--methods` takes."""
        ...

    def compact(self, past: Sequence[ChatMessage], *, budget: int) -> MethodResult:
        """Returns the messages to send in place of `past`, in at most about `budget` tokens. Raises `UnableError`."""
        ...


class Preset(Struct, frozen=True):
    """A policy of Tenfold, run through the public `compact`. Without a `writer`, code alone writes its summaries.

    It is the policy of that name with its published settings, or `policy`.
    """

    name: str
    writer: Model | None = None
    policy: Policy | None = None

    def compact(self, past: Sequence[ChatMessage], *, budget: int) -> MethodResult:
        """See `Method.compact`."""
        start = time.perf_counter()
        compaction = compact(
            past, to=budget, model=MODEL, format="openai-chat", policy=self.policy or self.name, summarizer=self.writer
        )
        seconds = time.perf_counter() - start
        out = compaction.outcome
        if out.status not in ("compacted", "nothing"):
            raise UnableError(f"{out.status}: {out.reason}")
        note = "" if out.status == "compacted" else f"nothing: {out.reason}"
        spent = (out.spent.input_tokens, out.spent.output_tokens)
        return MethodResult(tuple(compaction.messages), count_total_tokens(compaction.messages), seconds, *spent, note)


class Baseline(Struct, frozen=True):
    """A method of a few lines: a function from messages and a budget to messages."""

    name: str
    function: Callable[[Sequence[ChatMessage], int], list[ChatMessage]]

    def compact(self, past: Sequence[ChatMessage], *, budget: int) -> MethodResult:
        """See `Method.compact`."""
        start = time.perf_counter()
        messages = self.function(past, budget)
        return MethodResult(tuple(messages), count_total_tokens(messages), time.perf_counter() - start)


# -- the baselines -----------------------------------------------------------------------------------------------------


def keep_all(past: Sequence[ChatMessage], _budget: int) -> list[ChatMessage]:
    """Returns the past unchanged, whether or not it fits."""
    return list(past)


def keep_last(past: Sequence[ChatMessage], budget: int) -> list[ChatMessage]:
    """Keeps the system prompt and the newest steps that fit beside it."""
    head, steps = split_steps(past)
    room = budget - count_total_tokens(head)
    return [*head, *take_fitting_steps(steps, room)]


def truncate_middle(past: Sequence[ChatMessage], budget: int) -> list[ChatMessage]:
    """Keeps the system prompt, the oldest steps in half of the budget, a marker, and the newest steps in the rest."""
    head, steps = split_steps(past)
    room = budget - count_total_tokens(head) - _MARKER_TOKENS
    if count_total_tokens(past) <= budget:
        return list(past)
    first = take_fitting_steps(steps, room // 2, oldest=True)
    last = take_fitting_steps(steps, room - count_total_tokens(first))
    gap: ChatMessage = {
        "role": "user",
        "content": GAP_TEXT.format(count=len(past) - len(head) - len(first) - len(last)),
    }
    return [*head, *first, gap, *last]


def mask_10(past: Sequence[ChatMessage], budget: int) -> list[ChatMessage]:
    """Replaces every tool output but the newest ten by a marker, then applies `keep_last` if that is not enough."""
    outputs = [i for i, m in enumerate(past) if get_role(m) == "tool"]
    old = set(outputs[:-10])
    sizes = count_message_tokens(past)
    masked = [{**m, "content": MASK_TEXT.format(tokens=sizes[i])} if i in old else m for i, m in enumerate(past)]
    return keep_last(masked, budget)


def split_steps(past: Sequence[ChatMessage]) -> tuple[list[ChatMessage], list[list[ChatMessage]]]:
    """Splits the past into the leading system messages and steps. A step keeps calls and results together."""
    start = next((i for i, m in enumerate(past) if get_role(m) != "system"), len(past))
    steps: list[list[ChatMessage]] = []
    for message in past[start:]:
        if get_role(message) == "tool" and steps and any(get_tool_calls(steps[-1][0])):
            steps[-1].append(message)
        else:
            steps.append([message])
    return list(past[:start]), steps


def take_fitting_steps(steps: Sequence[list[ChatMessage]], budget: int, *, oldest: bool = False) -> list[ChatMessage]:
    """Returns the messages of as many steps, counted from one end, as fit into the budget."""
    fitting: list[list[ChatMessage]] = []
    for step in steps if oldest else reversed(steps):
        budget -= count_total_tokens(step)
        if budget < 0:
            break
        fitting.append(step)
    return [message for step in (fitting if oldest else fitting[::-1]) for message in step]


BASELINES: Mapping[str, Baseline] = {
    b.name: b
    for b in (
        Baseline("keep-all", keep_all),
        Baseline("keep-last", keep_last),
        Baseline("truncate-middle", truncate_middle),
        Baseline("mask-10", mask_10),
    )
}
"""The simple methods that everyone writes first."""


# -- several compactions in a row --------------------------------------------------------------------------------------


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
