"""The result of one run of the yardstick as a value, and the tables drawn from it alone.

Rows are plain texts, so that a terminal, Markdown and HTML can each draw them in their own way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct

from tenfold import __version__
from tenfold.evals.cases import counter
from tenfold.evals.future import Recall, area
from tenfold.evals.identifiers import KINDS

_NONE = "-"
_K = 1_000


class Report(Struct, frozen=True):
    """What was measured, and with what. Everything shown of a run is drawn from this."""

    version: str
    counter: str
    methods: tuple[str, ...]
    budgets: tuple[int, ...]
    rounds: int
    recall: tuple[Recall, ...] = ()


class Table(NamedTuple):
    """A table as texts. `note` says how to read it."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    note: str = ""


def report(methods: Sequence[str], budgets: Sequence[int], rounds: int, recall: Iterable[Recall]) -> Report:
    """A report of these scores, with the version and the counter that made them."""
    return Report(__version__, counter().name, tuple(methods), tuple(budgets), rounds, tuple(recall))


def as_json(made: Report) -> bytes:
    """The report as one JSON object."""
    return msgspec.json.encode(made)


def tables(made: Report) -> list[Table]:
    """Every table of a report: the headline, by age, by kind, and against real summaries where there were any."""
    wanted = [headline(made), by_age(made), by_kind(made)]
    if any(r.own for r in made.recall):
        wanted.append(against_real(made))
    return wanted


def headline(made: Report) -> Table:
    """Future-use recall by method, best first: the area over the budgets, then the score at each."""
    rows = []
    scores = {name: [r for r in made.recall if r.method == name and not r.own] for name in made.methods}
    for name, found in sorted(scores.items(), key=lambda item: -area_of(item[1], _present)):
        if not measured(found):
            continue
        able = [r for r in found if not r.unable]
        rows.append(
            (
                name,
                f"{area_of(found, _present):.3f}",
                f"{mean_area(found, _present):.3f}",
                f"{area_of(found, _within):.3f}" if any(r.within is not None for r in found) else _NONE,
                *(_share(pooled([r for r in found if r.budget == b], _present)) for b in made.budgets),
                f"{sum(r.refetch for r in able) / max(1, len(able)) / _K:.1f}k",
                f"{sum(r.tokens / r.budget for r in able) / max(1, len(able)):.0%}",
                f"{sum(r.over or bool(r.unable) for r in found)}/{len(found)}",
            )
        )
    budgets = tuple(f"{b / _K:g}k" for b in made.budgets)
    columns = ("method", "area", "mean of cases", "with search", *budgets, "refetch", "of budget", "over or unable")
    count = len({(r.session, r.cut) for r in made.recall})
    note = f"{count} cuts; facts pooled over cuts, each budget below the past's size; over or unable scores 0"
    return Table("Future-use recall", columns, rows, note)


def by_age(made: Report) -> Table:
    """The same by the age of the fact: in which quarter of the past's tokens it last occurred."""
    return _by(made, "by age (quarter of the past, 1 is the oldest)", ("1", "2", "3", "4"), lambda r: r.quarters)


def by_kind(made: Report) -> Table:
    """The same by the kind of identifier."""
    return _by(made, "by kind", KINDS, lambda r: r.kinds)


def against_real(made: Report) -> Table:
    """Every method at the size of the summaries that models really wrote for these sessions."""
    own = [r for r in made.recall if r.own]
    names = sorted(made.methods, key=lambda n: -pooled([r for r in own if r.method == n], _present))
    cuts = list(dict.fromkeys((r.session, r.cut, r.budget) for r in own))
    rows = []
    for name in names:
        found = {(r.session, r.cut, r.budget): r for r in own if r.method == name}
        if measured(list(found.values())):
            cells = (_share(pooled([found[c]], _present)) if c in found else _NONE for c in cuts)
            rows.append((name, *cells, _share(pooled(list(found.values()), _present))))
    columns = ("method", *(f"{session} at {cut}, {budget / _K:.1f}k" for session, cut, budget in cuts), "pooled")
    return Table("At the size of the real model-written summaries", columns, rows)


# -- the arithmetic ----------------------------------------------------------------------------------------------------

Count = Callable[[Recall], int]


def _present(score: Recall) -> int:
    return score.present


def _within(score: Recall) -> int:
    return score.within or 0


def measured(scores: Sequence[Recall]) -> bool:
    """Whether a method could do anything at all: one that never could is listed with its reason, not scored."""
    return any(not r.unable for r in scores)


def pooled(scores: Sequence[Recall], count: Count) -> float:
    """The share of all needed facts together; 0 where none was needed."""
    total = sum(r.needed for r in scores)
    return sum(count(r) for r in scores) / total if total else 0.0


def area_of(scores: Sequence[Recall], count: Count) -> float:
    """The area over the budgets of the pooled share."""
    return area({b: pooled([r for r in scores if r.budget == b], count) for b in {r.budget for r in scores}})


def mean_area(scores: Sequence[Recall], count: Count) -> float:
    """The mean over cases of each one's own area: every case weighs the same, however much it needed."""
    cuts = dict.fromkeys((r.session, r.cut) for r in scores)
    areas = [area_of([r for r in scores if (r.session, r.cut) == cut], count) for cut in cuts]
    return sum(areas) / len(areas) if areas else 0.0


def _by(made: Report, title: str, keys: Sequence[str], of: Callable[[Recall], dict[str, tuple[int, int]]]) -> Table:
    totals: dict[str, dict[str, tuple[int, int]]] = {}
    for score in made.recall:
        if score.own or score.unable:
            continue
        into = totals.setdefault(score.method, {})
        for key, (have, wanted) in of(score).items():
            was, all_ = into.get(key, (0, 0))
            into[key] = (was + have, all_ + wanted)
    shares = {n: {k: have / wanted for k, (have, wanted) in t.items() if wanted} for n, t in totals.items()}
    used = [k for k in keys if any(k in t for t in shares.values())]
    counts = {k: max(t.get(k, (0, 0))[1] for t in totals.values()) for k in used}
    rows = [(name, *(_share(shares[name].get(k)) for k in used)) for name in made.methods if name in shares]
    rows.sort(key=lambda row: row[1:], reverse=True)
    note = "needed, over all budgets: " + ", ".join(f"{k} {counts[k]:,}" for k in used)
    return Table(f"Future-use recall {title}", ("method", *used), rows, note)


def _share(value: float | None) -> str:
    return _NONE if value is None else f"{value:.3f}"
