"""Whether the answers to the questions that a file brings with it are still there after a compaction.

The questions are those of `searching.py`; here the whole conversation is compacted, and an answer counts where its
text stands in the view, or in what one search for the question's own words brings back.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from tenfold.evals.cases import COMPACTION, Case, ChatMessage, conversations, text_of_message
from tenfold.evals.future import search_of
from tenfold.evals.methods import Method, Unable
from tenfold.evals.searching import posed_in
from tenfold.evals.tables import Table

BUDGET = 5_000
"""Tokens of the view."""


class Answered(Struct, frozen=True):
    """One method on one file: questions whose answer's text is literally in the history, and where it still is.

    `asked` are all questions, `literal` those whose answer can be found at all, `shown` those answered by the view,
    `within` those answered by the view or by one search.
    """

    session: str
    method: str
    budget: int
    asked: int
    literal: int
    shown: int = 0
    within: int = 0
    unable: str = ""


def answered(path: Path, methods: Sequence[Method], *, budget: int = BUDGET, name: str = "") -> list[Answered]:
    """How many of a file's questions are answered after each method; empty where the file brings none.

    `name` is what the file is called. Raises what `read_file` raises.
    """
    posed = posed_in(path)
    if not posed:
        return []
    (session,) = conversations(path, name)
    past = session.messages
    whole = _text(past)
    wanted = [(prompt, answer.casefold()) for prompt, answer in posed if answer.casefold() in whole]
    search = search_of(Case(session.name, len(past), COMPACTION, past))
    away = {i for i, (prompt, answer) in enumerate(wanted) if any(answer in hit.casefold() for hit in search(prompt))}
    out: list[Answered] = []
    for method in methods:
        score = Answered(session.name, method.name, budget, len(posed), len(wanted))
        try:
            view = _text(method.compact(past, budget=budget).messages)
        except Unable as exc:
            out.append(replace(score, unable=str(exc)))
            continue
        shown = {i for i, (_, answer) in enumerate(wanted) if answer in view}
        out.append(replace(score, shown=len(shown), within=len(shown | away)))
    return out


def table(scores: Sequence[Answered]) -> Table:
    """Questions answered by method, over all files."""
    rows = []
    for name in dict.fromkeys(one.method for one in scores):
        own = [one for one in scores if one.method == name]
        literal = sum(one.literal for one in own)
        rows.append((name, *(f"{sum(count)}/{literal}" for count in ([o.shown for o in own], [o.within for o in own]))))
    asked = sum(one.asked for one in scores if one.method == rows[0][0]) if rows else 0
    note = f"{asked} questions; counted are those whose answer's text stands literally in the history"
    title = f"Questions with gold answers, compacted to {scores[0].budget / 1_000:g}k tokens" if scores else "Questions"
    return Table(title, ("method", "in the view", "or one search away"), rows, note)


def _text(messages: Sequence[ChatMessage]) -> str:
    return "\n".join(text_of_message(m) for m in messages).casefold()
