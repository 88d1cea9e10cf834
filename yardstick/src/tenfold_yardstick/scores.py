"""The scores of one run of the yardstick, and the arithmetic over them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from msgspec import Struct

from tenfold.testing.probes import PROBE_KINDS, IndexedView, Probe, ProbeKind, judge
from tenfold.testing.validity import Gate
from tenfold_yardstick.future_recall import BUDGETS, RecallScore, compute_area
from tenfold_yardstick.gates import GateCounts

One = TypeVar("One", RecallScore, "ProbeScore")


class ProbeTally(Struct, frozen=True):
    """The verdicts on the probes of one kind and age quarter (1 is the oldest).

    `bare` counts the probes whose answer's words occur anywhere, without an anchor.
    """

    kind: ProbeKind
    quarter: int
    asked: int
    present: int
    stale: int
    bare: int


class ProbeScore(Struct, frozen=True):
    """One method on one case at one budget after some rounds, judged by everything but future-use recall.

    `tenth` means that the budget is a tenth of the past, and `own` that it is the size of the session's real summary.
    `tallies` are the typed probes by kind and age quarter; all count as missed if the result is `over` its budget, or
    fails a gate for which a provider refuses it.
    `planted` maps the place of a planted rule to (present, asked). `false` counts identifiers in the view that its
    source never held. `gates` are the gates that failed. `unable` is the reason if there is no result.
    """

    session: str
    cut: int
    kind: str
    method: str
    budget: int
    rounds: int
    tokens: int = 0
    past_tokens: int = 0
    tenth: bool = False
    own: bool = False
    tallies: tuple[ProbeTally, ...] = ()
    planted: dict[str, tuple[int, int]] = {}
    false: int = 0
    gates: dict[Gate, int] = {}
    over: bool = False
    unable: str = ""


class Quality(Struct, frozen=True):
    """The result of `tenfold eval quality`: what was measured, with what, and every score.

    `rounds` are the numbers of compactions up to a cut. All budgets were measured after the fewest, and a tenth of the
    past after the others too. `checked` are the gates at the cuts, or at every index if that was asked for.
    """

    version: str
    counter: str
    methods: tuple[str, ...]
    budgets: tuple[int, ...]
    rounds: tuple[int, ...]
    recall: tuple[RecallScore, ...] = ()
    probes: tuple[ProbeScore, ...] = ()
    checked: tuple[GateCounts, ...] = ()


FactCounter = Callable[[RecallScore], int]


def select_plain(quality: Quality) -> list[RecallScore]:
    """Returns the scores after the fewest compactions at the named budgets."""
    return [r for r in quality.recall if not r.own and not r.tenth and r.rounds == quality.rounds[0]]


def get_area_budgets(quality: Quality) -> tuple[int, ...]:
    """Returns the budgets of the headline's area: those from 4k to 32k, or all of them if none is in that range."""
    return tuple(b for b in quality.budgets if BUDGETS[0] <= b <= BUDGETS[-1]) or quality.budgets


def select_area_scores(quality: Quality) -> list[RecallScore]:
    """Returns the plain scores that the headline's area is taken over."""
    budgets = get_area_budgets(quality)
    return [r for r in select_plain(quality) if r.budget in budgets]


def group_by_method(scores: Iterable[One]) -> dict[str, list[One]]:
    """Groups the scores by method."""
    out: dict[str, list[One]] = {}
    for score in scores:
        out.setdefault(score.method, []).append(score)
    return out


def get_present(score: RecallScore) -> int:
    """Returns how many needed facts are in the view."""
    return score.present


def get_within(score: RecallScore) -> int:
    """Returns how many needed facts are in the view or one search away."""
    return score.within or 0


def get_early(score: RecallScore) -> int:
    """Returns the same, with the search made before the agent began the message that used the fact."""
    return score.early or 0


def is_unsent(score: RecallScore) -> bool:
    """Whether there is nothing to send: no result, one above its budget, or one that a provider refuses."""
    return score.over or bool(score.unable or score.refused)


def average_refetch(scores: Sequence[RecallScore]) -> float:
    """Returns the tokens it takes to read what is missing again: the mean over all results."""
    found = [r.refetch for r in scores if not r.unable]
    return sum(found) / len(found)


def is_measured(scores: Sequence[RecallScore]) -> bool:
    """Whether a method gave any result. One that never did is listed with its reason and not scored."""
    return any(not r.unable for r in scores)


def pool_share(scores: Sequence[RecallScore], count: FactCounter) -> float:
    """Returns the share of all needed facts together, or 0 if none was needed."""
    total = sum(r.needed for r in scores)
    return sum(count(r) for r in scores) / total if total else 0.0


def compute_method_area(scores: Sequence[RecallScore], count: FactCounter) -> float:
    """Returns the area over the budgets of the pooled share."""
    return compute_area(
        {b: pool_share([r for r in scores if r.budget == b], count) for b in {r.budget for r in scores}}
    )


def get_file(session: str) -> str:
    """Returns the file that a session is of. The sessions of one file are of one kind."""
    return session.partition("#")[0]


def compute_file_areas(scores: Sequence[RecallScore], count: FactCounter) -> dict[str, float]:
    """Returns the area for the sessions of each file, over the budgets that their pasts exceed."""
    files = dict.fromkeys(get_file(r.session) for r in scores)
    return {file: compute_method_area([r for r in scores if get_file(r.session) == file], count) for file in files}


def average_area(scores: Sequence[RecallScore], count: FactCounter) -> float:
    """Returns the mean of the files' areas. A file weighs the same however many sessions it holds."""
    areas = compute_file_areas(scores, count).values()
    return sum(areas) / len(areas) if areas else 0.0


def compute_answered_share(
    scores: Iterable[ProbeScore],
    kinds: Sequence[ProbeKind],
    count: Callable[[ProbeTally], int] = lambda tally: tally.present,
    *,
    quarter: int = 0,
) -> float | None:
    """Returns the share of the probes of these kinds that the views answer; of one age quarter, if given."""
    found = [t for p in scores for t in p.tallies if t.kind in kinds and quarter in (0, t.quarter)]
    asked = sum(t.asked for t in found)
    return sum(map(count, found)) / asked if asked else None


def count_stale(scores: Iterable[ProbeScore]) -> int:
    """Counts the probes that the views answer with something superseded."""
    return sum(t.stale for p in scores for t in p.tallies)


def count_asked(scores: Iterable[ProbeScore]) -> Counter[ProbeKind]:
    """Counts the probes that were asked, by kind."""
    counts: Counter[ProbeKind] = Counter()
    for tally in (t for p in scores for t in p.tallies):
        counts[tally.kind] += tally.asked
    return counts


def has_bare_words(probe: Probe, view: IndexedView) -> bool:
    """Whether the words of the answer are anywhere in the view.

    This rule is too generous; it is for comparison only.
    """
    return all(view.find_spans(term) for term in probe.answer)


def count_verdicts(probes: Sequence[Probe], view: IndexedView, total: int) -> list[ProbeTally]:
    """Counts the verdicts by kind and age quarter. `total` is the number of messages of the past."""
    counts: dict[tuple[str, int], list[int]] = {}
    for probe in probes:
        quarter = min(4, 1 + 4 * probe.index // max(total, 1))
        row = counts.setdefault((probe.kind, quarter), [0, 0, 0, 0])
        verdict = judge(probe, view)
        row[0] += 1
        row[1] += verdict == "present"
        row[2] += verdict == "stale"
        row[3] += has_bare_words(probe, view)
    return [
        ProbeTally(kind, quarter, *counts[kind, quarter])
        for kind in PROBE_KINDS
        for quarter in (1, 2, 3, 4)
        if (kind, quarter) in counts
    ]
