"""Checks whether the answers to the questions that come with a file survive a compaction.

The questions are those of `question_search.py`. Here the whole conversation is compacted. An answer counts if its text
is in a view within the budget, or in the result of one search for the question's own words.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from tenfold.testing.chats import count_total_tokens
from tenfold.testing.methods import Method, Preset, UnableError
from tenfold.testing.probes.chat_text import get_text
from tenfold.testing.probes.kinds import ChatMessage
from tenfold_yardstick.cases import COMPACTION, Case
from tenfold_yardstick.future_recall import build_search, is_over_budget
from tenfold_yardstick.question_search import QUESTIONS_SUFFIX, EvidenceHits, read_questioned_session, read_questions
from tenfold_yardstick.tables import Table

GOLD_BUDGET = 5_000
"""The size of the view in tokens, unless another is given."""


class AnswerCounts(Struct, frozen=True):
    """How one method did on the questions of one file.

    `asked` counts all questions, and `literal` those whose answer stands word for word in the history. `shown` counts
    those that the view answers, and `within` those that the view or one search answers (None: the method has no
    search). `past` is the session's size in tokens; a session up to the budget is not compacted. A view that is `over`
    the budget answers nothing. `beside` means that the questions are in a file beside the session.
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


def count_answers(
    path: Path,
    methods: Sequence[Method],
    *,
    budgets: Sequence[int] = (GOLD_BUDGET,),
    name: str = "",
    format: str | None = None,
) -> list[AnswerCounts]:
    """Counts how many of a file's questions are answered after each method at each budget.

    The result is empty if no questions come with the file. `name` and `format` are as in `read_sessions`. Raises what
    `read_questioned_session` raises.
    """
    posed = read_questions(path)
    if not posed:
        return []
    session = read_questioned_session(path, name, format=format)
    past = session.messages
    whole = _join_text(past)
    literal_questions = [(one.prompt, one.expected.casefold()) for one in posed if one.expected.casefold() in whole]
    search = build_search(Case(session.name, len(past), COMPACTION, past))
    away = {
        i
        for i, (prompt, answer) in enumerate(literal_questions)
        if any(answer in hit.casefold() for hit in search(prompt))
    }
    size, beside = count_total_tokens(past), path.with_suffix(QUESTIONS_SUFFIX).exists()
    out: list[AnswerCounts] = []
    for budget, method in product(budgets, methods):
        near = 0 if isinstance(method, Preset) else None
        score = AnswerCounts(
            session.name, method.name, budget, len(posed), len(literal_questions), within=near, past=size, beside=beside
        )
        try:
            result = method.compact(past, budget=budget)
        except UnableError as exc:
            out.append(replace(score, unable=str(exc)))
            continue
        if is_over_budget(method.name, result.tokens, budget):
            out.append(replace(score, over=True))
            continue
        view = _join_text(result.messages)
        shown = {i for i, (_, answer) in enumerate(literal_questions) if answer in view}
        out.append(replace(score, shown=len(shown), within=None if near is None else len(shown | away)))
    return out


class Quiz(Struct, frozen=True):
    """The results for all questions: what the searches found, and what was answered after a compaction."""

    search: tuple[EvidenceHits, ...] = ()
    gold: tuple[AnswerCounts, ...] = ()


def count_above_budget(scores: Sequence[AnswerCounts]) -> int:
    """Counts the literal questions of the sessions that had to be compacted."""
    return sum(one.literal for one in scores if one.past > one.budget)


def build_tables(scores: Sequence[AnswerCounts]) -> list[Table]:
    """Returns a table of the answered questions for each budget.

    Questions in files beside sessions get tables of their own.
    """
    kinds = sorted({(one.budget, one.beside) for one in scores})
    return [_build_table([one for one in scores if (one.budget, one.beside) == kind]) for kind in kinds]


def _build_table(scores: Sequence[AnswerCounts]) -> Table:
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
        f"Of {sum(one.asked for one in first)} questions those count whose answer stands word for word in the history: "
        f"{sum(one.literal for one in first)}. Sessions above {size} tokens were compacted; "
        f"{count_above_budget(first)} of the questions are about those. A result above its budget scores 0, and so "
        "does none. Only Tenfold's methods have a search."
    )
    columns = ("method", "in the view", "or one search away")
    title = "Questions of files beside sessions" if first[0].beside else "Questions with gold answers"
    ordered = [row for _, row in sorted(rows, key=lambda ranked: -ranked[0])]
    return Table(f"{title}, compacted to {size} tokens", columns, ordered, note)


def _join_text(messages: Sequence[ChatMessage]) -> str:
    return "\n".join(get_text(m) for m in messages).casefold()
