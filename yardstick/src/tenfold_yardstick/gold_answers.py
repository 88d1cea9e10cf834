"""Checks whether the answers to the questions about a session survive a compaction.

The whole conversation is compacted. An answer counts if its text is in a view that would have been sent, or in the
result of one search for the question's own words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product

from msgspec import Struct
from msgspec.structs import replace

from tenfold.testing.chats import count_total_tokens
from tenfold.testing.methods import Method, UnableError
from tenfold_yardstick.asked_sessions import AskedSession, join_text
from tenfold_yardstick.cases import COMPACTION, Case
from tenfold_yardstick.future_recall import build_search, is_over_budget
from tenfold_yardstick.gates import find_failures_within, find_refusal
from tenfold_yardstick.methods import has_search
from tenfold_yardstick.question_search import EvidenceHits
from tenfold_yardstick.tables import Table

GOLD_BUDGET = 5_000
"""The size of the view in tokens, unless another is given."""


class AnswerCounts(Struct, frozen=True):
    """How one method did on the questions about one session, of one kind where a public set has kinds.

    `asked` counts all questions, and `literal` those whose answer stands word for word in the history. `shown` counts
    those that the view answers, and `within` those that the view or one search answers (None: the method has no
    search). `past` is the session's size in tokens; a session up to the budget is not compacted, and `tokens` is the
    size of the view. A view that is `over` the budget or `refused` by a gate of validity answers nothing. `source` is
    where the questions are (see `AskedSession`).
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
    source: str = ""
    kind: str = ""
    refused: str = ""
    tokens: int = 0


def count_answers(
    session: AskedSession, methods: Sequence[Method], *, budgets: Sequence[int] = (GOLD_BUDGET,)
) -> list[AnswerCounts]:
    """Counts how many of the questions about a session are answered after each method at each budget, by kind."""
    past = session.messages
    whole, size = join_text(past), count_total_tokens(past)
    literal = [question for question in session.questions if question.is_in(whole)]
    search = build_search(Case(session.name, len(past), COMPACTION, past))
    away = {one for one in literal if one.is_in("\n".join(search(one.prompt)).casefold())}
    asked = Counter(question.kind for question in session.questions)
    out: list[AnswerCounts] = []
    for budget, method in product(budgets, methods):
        made, score = _compact(session, method, budget, size)
        shown = {one for one in literal if one.is_in(made)}
        is_lost = bool(score.unable or score.refused or score.over)
        reached = shown if is_lost else shown | away
        for kind, count in asked.items():
            near = sum(one.kind == kind for one in reached) if has_search(method) else None
            found = sum(one.kind == kind for one in shown)
            of = sum(one.kind == kind for one in literal)
            out.append(replace(score, kind=kind, asked=count, literal=of, shown=found, within=near))
    return out


def _compact(session: AskedSession, method: Method, budget: int, size: int) -> tuple[str, AnswerCounts]:
    """Returns the text of the view, "" if it would not have been sent, and a score that says so."""
    score = AnswerCounts(session.name, method.name, budget, 0, 0, past=size, source=session.source)
    try:
        result = method.compact(session.messages, budget=budget)
    except UnableError as exc:
        return "", replace(score, unable=str(exc))
    over = is_over_budget(method.name, result.tokens, budget)
    refused = find_refusal(find_failures_within(session.messages, result.messages, budget))
    score = replace(score, over=over, refused=refused, tokens=result.tokens)
    return "" if over or refused else join_text(result.messages), score


class Quiz(Struct, frozen=True):
    """The results for all questions: what the searches found, and what was answered after a compaction."""

    search: tuple[EvidenceHits, ...] = ()
    gold: tuple[AnswerCounts, ...] = ()


def count_above_budget(scores: Sequence[AnswerCounts]) -> int:
    """Counts the literal questions of the sessions that had to be compacted."""
    return sum(one.literal for one in scores if one.past > one.budget)


def build_tables(scores: Sequence[AnswerCounts]) -> list[Table]:
    """Returns a table of the answered questions for each budget, and one by kind where the questions have kinds.

    Questions in files beside sessions, and those of a public set, get tables of their own.
    """
    tables: list[Table] = []
    for budget, source in sorted({(one.budget, one.source) for one in scores}):
        own = [one for one in scores if (one.budget, one.source) == (budget, source)]
        tables.append(_build_table(own))
        if any(one.kind for one in own):
            tables.append(_build_kind_table(own))
    return tables


def _build_table(scores: Sequence[AnswerCounts]) -> Table:
    rows: list[tuple[int, tuple[str, ...]]] = []
    for name in dict.fromkeys(one.method for one in scores):
        own = [one for one in scores if one.method == name]
        literal = sum(one.literal for one in own)
        near = [one.within for one in own if one.within is not None]
        shown = sum(one.shown for one in own)
        sizes = {one.session: one.tokens for one in own if not one.unable}
        tokens = f"{sum(sizes.values()) / len(sizes):,.0f}" if sizes else "-"
        rows.append((shown, (name, f"{shown}/{literal}", f"{sum(near)}/{literal}" if near else "-", tokens)))
    first = [one for one in scores if one.method == scores[0].method]
    note = (
        f"Of {sum(one.asked for one in first)} questions those count whose answer stands word for word in the history: "
        f"{sum(one.literal for one in first)}. Sessions above {_format_budget(scores)} tokens were compacted; "
        f"{count_above_budget(first)} of the questions are about those. A result above its budget scores 0, and so "
        "does one that a provider refuses, and none. Only Tenfold's methods have a search. Tokens are the mean of the "
        "views."
    )
    columns = ("method", "in the view", "or one search away", "tokens")
    ordered = [row for _, row in sorted(rows, key=lambda ranked: -ranked[0])]
    return Table(f"{_get_title(scores)}, compacted to {_format_budget(scores)} tokens", columns, ordered, note)


def _build_kind_table(scores: Sequence[AnswerCounts]) -> Table:
    kinds = [
        kind for kind in dict.fromkeys(one.kind for one in scores) if any(o.literal for o in scores if o.kind == kind)
    ]
    rows: list[tuple[str, ...]] = []
    for name in dict.fromkeys(one.method for one in scores):
        own = {kind: [one for one in scores if (one.method, one.kind) == (name, kind)] for kind in kinds}
        rows.append(
            (name, *(f"{sum(o.shown for o in own[kind])}/{sum(o.literal for o in own[kind])}" for kind in kinds))
        )
    title = f"{_get_title(scores)} in the view, by kind, compacted to {_format_budget(scores)} tokens"
    return Table(title, ("method", *kinds), rows)


def _get_title(scores: Sequence[AnswerCounts]) -> str:
    return f"Questions of {scores[0].source}" if scores[0].source else "Questions with gold answers"


def _format_budget(scores: Sequence[AnswerCounts]) -> str:
    return f"{scores[0].budget / 1_000:g}k"
