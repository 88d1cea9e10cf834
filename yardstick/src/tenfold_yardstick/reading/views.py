"""Makes the views that are read: every method at every size, after one compaction and after several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from itertools import accumulate, product

from msgspec import Struct
from msgspec.structs import replace

from tenfold.testing.chats import count_total_tokens, render_view
from tenfold.testing.methods import Method, UnableError, compact_in_rounds, split_past
from tenfold.testing.probes.kinds import ChatMessage
from tenfold_yardstick.reading.question_files import ReadingCase

SIZES = (0.05, 0.1, 0.2)
"""The sizes of a view, as shares of the past."""
ROUNDS_SIZE = 0.1
"""The only size at which more than one compaction is made."""


class ReadView(Struct, frozen=True, omit_defaults=True):
    """What one method made of one past, as the text that a reader gets. `unable` says why there is none.

    `size` is the share of the past that it may take. `budget` is that many tokens, and those of the leading system
    messages, which every method keeps. `hash` is the SHA-256 of the text.
    """

    session: str
    method: str
    size: float
    rounds: int
    budget: int
    tokens: int = 0
    text: str = ""
    hash: str = ""
    unable: str = ""


def make_views(
    case: ReadingCase,
    methods: Sequence[Method],
    *,
    sizes: Sequence[float] = SIZES,
    rounds: Sequence[int] = (1,),
    on_progress: Callable[[], None] = lambda: None,
) -> Iterator[ReadView]:
    """Yields what the methods make of a past at each size. More than one round is made only at `ROUNDS_SIZE`."""
    overhead = count_total_tokens(case.overhead)
    past = count_total_tokens(case.past) - overhead
    for times, size, method in product(rounds, sizes, methods):
        if times == min(rounds) or size == ROUNDS_SIZE:
            yield _make_view(case, method, size, times, int(past * size) + overhead)
            on_progress()


def _make_view(case: ReadingCase, method: Method, size: float, rounds: int, budget: int) -> ReadView:
    try:
        result = compact_in_rounds(method, case.past, budget=budget, rounds=rounds)
    except UnableError as exc:
        return ReadView(case.name, method.name, size, rounds, budget, unable=str(exc))
    return _build_view(ReadView(case.name, method.name, size, rounds, budget, result.tokens), result.messages)


def split_case(case: ReadingCase, generations: int) -> list[ReadingCase]:
    """Returns what has been said after each of so many equal stretches of a past, with the questions answered by then.

    A question is answered when the last message of its evidence has been said; one without evidence, in the end. The
    cases are called NAME@1, NAME@2 and so on. One without a question is among them too.
    """
    ends = list(accumulate(map(len, split_past(case.past, generations))))
    out: list[ReadingCase] = []
    for number, end in enumerate(ends, 1):
        asked = tuple(one for one in case.questions if max(one.evidence, default=len(case.past) - 1) < end)
        out.append(ReadingCase(f"{case.name}@{number}", case.past[:end], asked))
    return out


def make_generation_views(
    case: ReadingCase,
    methods: Sequence[Method],
    *,
    sizes: Sequence[float],
    generations: int,
    on_progress: Callable[[], None] = lambda: None,
) -> Iterator[ReadView]:
    """Yields what the methods make of a past generation by generation: each time of their last view and what is new.

    The size is the same in all generations: a share of the whole past. Each view is of the case that `split_case` gives
    for its generation, and generations without a question have none.
    """
    cases = split_case(case, generations)
    overhead = count_total_tokens(case.overhead)
    for size, method in product(sizes, methods):
        budget = int((count_total_tokens(case.past) - overhead) * size) + overhead
        seen = 0
        view: tuple[ChatMessage, ...] = ()
        unable = ""
        for number, said in enumerate(cases, 1):
            tokens = 0
            try:
                if not unable:
                    result = method.compact((*view, *said.past[seen:]), budget=budget)
                    view, tokens = result.messages, result.tokens
            except UnableError as exc:
                unable = str(exc)
            seen = len(said.past)
            if said.questions:
                yield _build_view(ReadView(said.name, method.name, size, number, budget, tokens, unable=unable), view)
            on_progress()


def _build_view(view: ReadView, messages: Sequence[ChatMessage]) -> ReadView:
    if view.unable:
        return view
    text = render_view(messages)
    return replace(view, text=text, hash=sha256(text.encode()).hexdigest())
