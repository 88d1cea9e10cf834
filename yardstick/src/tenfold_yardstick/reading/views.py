"""Makes the views that are read: every method at every size, after one compaction and after several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from itertools import product

from msgspec import Struct

from tenfold.testing.chats import count_total_tokens, get_role
from tenfold.testing.methods import Method, UnableError, compact_in_rounds
from tenfold.testing.probes.chat_text import get_tool_calls
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
    text = render_view(result.messages)
    key = sha256(text.encode()).hexdigest()
    return ReadView(case.name, method.name, size, rounds, budget, result.tokens, text, key)


def render_view(messages: Sequence[ChatMessage]) -> str:
    """Renders chat messages as text: each under its role, with its calls."""
    return "\n\n".join(_render_message(message) for message in messages) + "\n"


def _render_message(message: ChatMessage) -> str:
    content = message.get("content")
    parts = content if isinstance(content, list) else [content]
    lines = [f"[{get_role(message)}]", *(_render_part(part) for part in parts if part)]
    lines += [f"[call {name} {arguments}]" for _, name, arguments in get_tool_calls(message)]
    return "\n".join(lines)


def _render_part(part: object) -> str:
    if not isinstance(part, dict):
        return str(part)
    return str(part.get("text") or part.get("refusal") or f"[{part.get('type', 'part')}]")
