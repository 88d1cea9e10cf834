"""The methods that are compared: Tenfold's policies, simple baselines, and the real summaries that sessions hold.

A method gets the past as OpenAI Chat messages and a token budget, and returns such messages. None of these methods
calls a model. The peers, which run in processes of their own, are in `peers.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from tenfold.config.policies import POLICIES
from tenfold.errors import TenfoldError, UsageError
from tenfold.models.model import Model
from tenfold.session.stateless import compact
from tenfold.testing.cases import (
    MODEL,
    Case,
    ChatMessage,
    count_message_tokens,
    count_total_tokens,
    get_message_calls,
    get_role,
)

ALL = "all"
GAP_TEXT = "[{count:,} earlier messages were left out]"
MASK_TEXT = "[tool output left out: {tokens:,} tokens]"
SUMMARY_TEXT = "The conversation before this point was summarized:\n\n{text}"
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
    """A policy of Tenfold, run through the public `compact`. Without a `writer`, code alone writes its summaries."""

    name: str
    writer: Model | None = None

    def compact(self, past: Sequence[ChatMessage], *, budget: int) -> MethodResult:
        """See `Method.compact`."""
        start = time.perf_counter()
        compaction = compact(
            past, to=budget, model=MODEL, format="openai-chat", policy=self.name, summarizer=self.writer
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


class RealSummaries(Struct, frozen=True):
    """The summaries that models really wrote in these sessions, each with the messages that were kept beside it.

    Each summary has its own size, whatever the budget.
    """

    cases: tuple[Case, ...]
    name: str = "real-summary"

    def compact(self, past: Sequence[ChatMessage], *, budget: int) -> MethodResult:
        """See `Method.compact`. Raises `UnableError` if the session holds no summary at this cut."""
        del budget
        case = next((c for c in self.cases if c.summary and c.cut == len(past) and c.past == tuple(past)), None)
        if case is None:
            raise UnableError("the session holds no model-written summary at this cut")
        head = [m for m in past[: case.kept_from] if get_role(m) == "system"]
        summary: ChatMessage = {"role": "user", "content": SUMMARY_TEXT.format(text=case.summary)}
        messages = (*head, summary, *past[case.kept_from :])
        return MethodResult(messages, count_total_tokens(messages), 0.0, note="written by the session's own model")


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
        if get_role(message) == "tool" and steps and any(True for _ in get_message_calls(steps[-1][0])):
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


def get_methods(names: Sequence[str], cases: Sequence[Case] = ()) -> list[Method]:
    """Returns the methods of these names in order, each once; "all" stands for every method.

    `cases` hold the real summaries. Raises `UsageError`, with the known names, for any other name.
    """
    real = RealSummaries(tuple(c for c in cases if c.summary))
    known: dict[str, Method] = {"tenfold": Preset("tenfold")}
    known |= {name: Preset(name) for name in POLICIES}
    known |= BASELINES
    known[real.name] = real
    chosen: dict[str, Method] = {}
    for name in names:
        if name == ALL:
            chosen |= {k: m for k, m in known.items() if m is not real or real.cases}
        elif name in known:
            chosen[name] = known[name]
        else:
            raise UsageError(f"no method is called {name!r}; there are {ALL}, {', '.join(known)}")
    return list(chosen.values())
