"""Whether the answers to the questions that come with a file are still there after a compaction.

The questions are those of `searching.py`; here the whole conversation is compacted, and an answer counts where its
text stands in a view that is within the budget, or in what one search for the question's own words brings back.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from tenfold.evals.cases import COMPACTION, Case, ChatMessage, text_of_message, tokens_of
from tenfold.evals.future import TOLERANCE, search_of
from tenfold.evals.methods import Method, Preset, Unable
from tenfold.evals.searching import BESIDE, Asked, posed_in, quizzed
from tenfold.evals.tables import Table

BUDGET = 5_000
"""Tokens of the view, where nothing else is asked for."""


class Answered(Struct, frozen=True):
    """One method on one file: questions whose answer's text is literally in the history, and where it still is.

    `asked` are all questions, `literal` those whose answer can be found at all, `shown` those answered by the view,
    `within` those answered by the view or by one search (None: the method has no search). `past` is the session's size
    in tokens: up to the budget it is not compacted. A view that is `over` the budget answers nothing. `beside` says
    that the questions stand in a file beside the session.
    """

    session: str
    method: str
    budget: int
    asked: int
    literal: int
    shown: int = 0
    within: int | None = None
    unable: str = ""
    past: int = 0
    over: bool = False
    beside: bool = False


def answered(
    path: Path,
    methods: Sequence[Method],
    *,
    budgets: Sequence[int] = (BUDGET,),
    name: str = "",
    format: str | None = None,
) -> list[Answered]:
    """How many of a file's questions are answered after each method at each budget; empty where no questions come.

    `name` and `format` are as in `conversations`. Raises what `quizzed` raises.
    """
    posed = posed_in(path)
    if not posed:
        return []
    session = quizzed(path, name, format=format)
    past = session.messages
    whole = _text(past)
    wanted = [(one.prompt, one.expected.casefold()) for one in posed if one.expected.casefold() in whole]
    search = search_of(Case(session.name, len(past), COMPACTION, past))
    away = {i for i, (prompt, answer) in enumerate(wanted) if any(answer in hit.casefold() for hit in search(prompt))}
    size, beside = tokens_of(past), path.with_suffix(BESIDE).exists()
    out: list[Answered] = []
    for budget, method in product(budgets, methods):
        near = 0 if isinstance(method, Preset) else None
        score = Answered(
            session.name, method.name, budget, len(posed), len(wanted), within=near, past=size, beside=beside
        )
        try:
            made = method.compact(past, budget=budget)
        except Unable as exc:
            out.append(replace(score, unable=str(exc)))
            continue
        if made.tokens > budget * TOLERANCE:
            out.append(replace(score, over=True))
            continue
        view = _text(made.messages)
        shown = {i for i, (_, answer) in enumerate(wanted) if answer in view}
        out.append(replace(score, shown=len(shown), within=None if near is None else len(shown | away)))
    return out


class Quiz(Struct, frozen=True):
    """All that was asked of files: what searches found of the evidence, and what was answered after a compaction."""

    search: tuple[Asked, ...] = ()
    gold: tuple[Answered, ...] = ()


def above(scores: Sequence[Answered]) -> int:
    """How many of the literal questions are of sessions that had to be compacted."""
    return sum(one.literal for one in scores if one.past > one.budget)


def tables(scores: Sequence[Answered]) -> list[Table]:
    """Questions answered by method: a table for each budget, those of files beside sessions by themselves."""
    kinds = sorted({(one.budget, one.beside) for one in scores})
    return [_table([one for one in scores if (one.budget, one.beside) == kind]) for kind in kinds]


def _table(scores: Sequence[Answered]) -> Table:
    rows: list[tuple[int, tuple[str, ...]]] = []
    for name in dict.fromkeys(one.method for one in scores):
        own = [one for one in scores if one.method == name]
        literal = sum(one.literal for one in own)
        near = [one.within for one in own if one.within is not None]
        shown = sum(one.shown for one in own)
        rows.append((shown, (name, f"{shown}/{literal}", f"{sum(near)}/{literal}" if near else "-")))
    first = [one for one in scores if one.method == scores[0].method]
    size = f"{scores[0].budget / 1_000:g}k"
    note = (
        f"{sum(one.asked for one in first)} questions; counted are those whose answer's text stands literally in the "
        f"history: {above(first)} of {sum(one.literal for one in first)} are of sessions above {size} tokens, the "
        "others are not compacted; over or unable scores 0; only Tenfold's methods have a search"
    )
    columns = ("method", "in the view", "or one search away")
    title = "Questions of files beside sessions" if first[0].beside else "Questions with gold answers"
    ordered = [row for _, row in sorted(rows, key=lambda ranked: -ranked[0])]
    return Table(f"{title}, compacted to {size} tokens", columns, ordered, note)


def _text(messages: Sequence[ChatMessage]) -> str:
    return "\n".join(text_of_message(m) for m in messages).casefold()
