"""The result of one run of the yardstick as a value, and the tables made from it.

The cells are plain text, so a terminal, Markdown and HTML can each draw them in their own way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct

from tenfold.evals.future import BUDGETS, Recall, area
from tenfold.evals.gold import Answered
from tenfold.evals.identifiers import KINDS
from tenfold.evals.intervals import Interval, drawings, of_area, of_lead
from tenfold.evals.probes import KINDS as PROBED
from tenfold.evals.probes import Kind, Tally
from tenfold.evals.probes.planted import PLACES
from tenfold.evals.replay import Replays
from tenfold.evals.searching import Asked
from tenfold.evals.speed import Speed
from tenfold.evals.tables import Table, most_often
from tenfold.evals.validity import GATES, LEAST_SUMMARY, Checked, Gate
from tenfold.policies import POLICIES

OURS = "tenfold"
"""The method that all others are compared with."""
REAL = "real-summary"
RULES: tuple[Kind, ...] = ("constraint", "correction")
"""The kinds of what users said has to hold."""
One = TypeVar("One", Recall, "Probed")
_NONE = "-"
_K = 1_000


class Probed(Struct, frozen=True):
    """One method on one case at one budget after some rounds, judged by everything but future-use recall.

    `tenth` means that the budget is a tenth of the past, and `own` that it is the size of the session's real summary.
    `tallies` are the typed probes by kind and age quarter; all count as missed if the result is `over` its budget.
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
    tallies: tuple[Tally, ...] = ()
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
    recall: tuple[Recall, ...] = ()
    probes: tuple[Probed, ...] = ()
    checked: tuple[Checked, ...] = ()


class Yardstick(Struct, frozen=True):
    """What one report shows. Any part may be missing. HTML, charts and pages are made from this alone.

    `gold` are the questions with gold answers after a compaction. `peers` maps each installed peer to its version.
    """

    quality: Quality | None = None
    replay: Replays | None = None
    speed: Speed | None = None
    search: tuple[Asked, ...] = ()
    gold: tuple[Answered, ...] = ()
    date: str = ""
    machine: str = ""
    peers: dict[str, str] = {}


def as_json(made: Quality) -> bytes:
    """Returns the result as one JSON object."""
    return msgspec.json.encode(made)


def tables(made: Quality) -> list[Table]:
    """Returns every table that has rows: the headline first, and what could not run last."""
    found = [headline(made), by_age(made), by_kind(made), against_real(made)]
    found += [by_type(made, rounds) for rounds in sorted({made.rounds[0], made.rounds[-1]})]
    found += [by_budget(made), by_rounds(made), planted(made)]
    found += [validity(made), twice(made), unable(made)]
    return [table for table in found if table.rows]


# -- what the future needed --------------------------------------------------------------------------------------------


def headline(made: Quality) -> Table:
    """Returns future-use recall by method, best first: the area with its interval, and the score at each budget."""
    scores, area_scores = by_method(plain(made)), by_method(in_area(made))
    resamples = drawings(r.session for r in made.recall)
    rows = []
    for name, found in sorted(scores.items(), key=lambda item: -area_of(area_scores.get(item[0], ()), present)):
        own, able = area_scores.get(name, []), [r for r in found if not r.unable]
        searches = any(r.within is not None for r in found)
        if not able:
            continue
        rows.append(
            (
                name,
                f"{area_of(own, present):.3f}",
                _ends(of_area(own, resamples)),
                f"{mean_area(own, present):.3f}",
                *(f"{area_of(own, count):.3f}" if searches else _NONE for count in (within, early)),
                *(_share(pooled([r for r in found if r.budget == b], present)) for b in made.budgets),
                f"{refetch(found) / _K:.1f}k",
                f"{sum(r.tokens / r.budget for r in able) / len(able):.0%}",
                f"{sum(map(unsent, found))}/{len(found)}",
            )
        )
    budgets = tuple(f"{b / _K:g}k" for b in made.budgets)
    columns = (
        "method",
        "area",
        "95 %",
        "mean of cuts",
        "with search",
        "asked early",
        *budgets,
        "refetch",
        "of budget",
        "over, unable",
    )
    return Table("Future-use recall", columns, rows, _about_headline(made))


def _about_headline(made: Quality) -> str:
    area_over = area_budgets(made)
    counted = {b: len({(r.session, r.cut) for r in plain(made) if r.budget == b}) for b in made.budgets}
    each = ", ".join(f"{budget / _K:g}k {cuts}" for budget, cuts in counted.items() if cuts)
    note = (
        f"area over {area_over[0] / _K:g}k to {area_over[-1] / _K:g}k, of {_where(in_area(made))}; cuts with each "
        f"budget below their past's size: {each}; measured at any size: {_where(made.recall)}; facts pooled over cuts; "
        "over or unable scores 0; intervals: bootstrap of sessions"
    )
    found = lead(made)
    if found is None:
        return note
    at = found.by
    return f"{note}; {OURS} minus the best other, {found.over}: {at.value:+.3f} ({at.low:+.3f} to {at.high:+.3f})"


def _where(scores: Iterable[Recall]) -> str:
    """Says how many cuts and sessions these scores are of."""
    cuts = {(r.session, r.cut) for r in scores}
    return f"{len(cuts)} cuts of {len({session for session, _ in cuts})} sessions"


class Lead(Struct, frozen=True):
    """By how much the area of `tenfold` exceeds that of the method named.

    A negative margin means that it is smaller.
    """

    over: str
    by: Interval


def lead(made: Quality, over: Iterable[str] = ()) -> Lead | None:
    """Returns the lead over the best of the methods named, by default of all that are not Tenfold's.

    Returns None if either side is missing.
    """
    found = {name: scores for name, scores in by_method(in_area(made)).items() if measured(scores)}
    compared = set(over) or {name for name in found if name != OURS and name not in POLICIES}
    others = {name: area_of(scores, present) for name, scores in found.items() if name in compared}
    if OURS not in found or not others:
        return None
    best = max(others, key=lambda name: (others[name], name))
    return Lead(best, of_lead(found[OURS], found[best], drawings(r.session for r in made.recall)))


def by_age(made: Quality) -> Table:
    """Returns future-use recall by the quarter of the past's tokens in which a fact last occurred."""
    return _by(made, "by age (quarter of the past, 1 is the oldest)", ("1", "2", "3", "4"), lambda r: r.quarters)


def by_kind(made: Quality) -> Table:
    """Returns future-use recall by the kind of identifier."""
    return _by(made, "by kind", KINDS, lambda r: r.kinds)


def against_real(made: Quality) -> Table:
    """Returns every method at the size of the summaries that models really wrote for these sessions."""
    own, asked = by_method(r for r in made.recall if r.own), by_method(p for p in made.probes if p.own)
    cuts = list(dict.fromkeys((r.session, r.cut, r.budget) for r in made.recall if r.own))
    rows = []
    for name, scores in sorted(own.items(), key=lambda item: -pooled(item[1], present)):
        found = {(r.session, r.cut, r.budget): r for r in scores}
        if measured(scores):
            cells = (_share(pooled([found[c]], present)) if c in found else _NONE for c in cuts)
            probed = (_share(answered(asked[name], kinds)) for kinds in (RULES, PROBED))
            rows.append((name, *cells, _share(pooled(scores, present)), *probed))
    where = (f"{session} at {cut}, {budget / _K:.1f}k" for session, cut, budget in cuts)
    columns = ("method", *where, "pooled", "rules", "typed probes")
    return Table("At the size of the real model-written summaries", columns, rows)


def _by(made: Quality, title: str, keys: Sequence[str], of: Callable[[Recall], dict[str, tuple[int, int]]]) -> Table:
    totals: dict[str, dict[str, tuple[int, int]]] = {}
    for name, scores in by_method(plain(made)).items():
        into = totals.setdefault(name, {}) if measured(scores) else {}
        for key, (have, wanted) in (pair for score in scores for pair in of(score).items()):
            was, all_ = into.get(key, (0, 0))
            into[key] = (was + have, all_ + wanted)
    shares = {n: {k: have / wanted for k, (have, wanted) in t.items() if wanted} for n, t in totals.items()}
    used = [k for k in keys if any(k in t for t in shares.values())]
    counts = {k: max(t.get(k, (0, 0))[1] for t in totals.values()) for k in used}
    rows = [(name, *(_share(shares[name].get(k)) for k in used)) for name in made.methods if name in shares]
    rows.sort(key=lambda row: row[1:], reverse=True)
    note = "needed, over all budgets: " + ", ".join(f"{k} {counts[k]:,}" for k in used)
    return Table(f"Future-use recall {title}", ("method", *used), rows, note)


# -- what a reader would ask -------------------------------------------------------------------------------------------


def by_type(made: Quality, rounds: int) -> Table:
    """Returns the typed probes at a tenth of the past by their kind, after this many compactions."""
    found = by_method(p for p in made.probes if p.tenth and p.rounds == rounds)
    asked = _counts(next(iter(found.values()), []))
    used = [kind for kind in PROBED if asked[kind, "asked"]]
    rows = [
        (name, *(_share(answered(own, [kind]), 2) for kind in used), _share(answered(own, used)))
        for name, own in _best_first(found, PROBED)
    ]
    cuts = len({(p.session, p.cut) for own in found.values() for p in own})
    counts = ", ".join(f"{kind} {asked[kind, 'asked']}" for kind in used)
    note = f"asked in {cuts} cuts: {counts}; present is what stands near what it is about; over or unable scores 0"
    suffix = f", after {rounds} compactions" if rounds > made.rounds[0] else ""
    return Table(f"Typed probes at a tenth of the past{suffix}", ("method", *used, "all"), rows, note)


def by_budget(made: Quality) -> Table:
    """Returns all typed probes together, at each budget and at a tenth of the past.

    At a tenth they are also shown by age, with bare words and with stale answers.
    """
    once = [p for p in made.probes if not p.own and p.rounds == made.rounds[0]]
    tenth = by_method(p for p in once if p.tenth)
    found = by_method(once)
    rows = []
    for name, own in _best_first(found, PROBED):
        at = {b: [p for p in own if p.budget == b and not p.tenth] for b in made.budgets}
        ten = tenth.get(name, [])
        bare = answered(ten, PROBED, lambda t: t.bare)
        ages = (answered(ten, PROBED, quarter=quarter) for quarter in (1, 2, 3, 4))
        shares = (*(answered(at[b], PROBED) for b in made.budgets), answered(ten, PROBED), bare, *ages)
        rows.append((name, *map(_share, shares), str(stale(ten))))
    budgets = (f"{b / _K:g}k" for b in made.budgets)
    columns = ("method", *budgets, "10 %", "bare words", "oldest", "2", "3", "newest", "stale")
    note = "from 10 % on all at a tenth of the past; bare words: the answer's words stand anywhere; quarters of age"
    return Table("Typed probes by budget and age", columns, rows, note)


def by_rounds(made: Quality) -> Table:
    """Returns what is left after several compactions, each to a tenth of the past."""
    if len(made.rounds) < 2:
        return Table("After several compactions", ("method",), [])
    needed = by_method(r for r in made.recall if r.tenth)
    probed = by_method(p for p in made.probes if p.tenth)
    rows = []
    for name, own in _best_first(probed, PROBED):
        facts = needed.get(name, [])
        recall = (pooled([r for r in facts if r.rounds == n], present) for n in made.rounds)
        asked = (answered([p for p in own if p.rounds == n], kinds) for kinds in (PROBED, RULES) for n in made.rounds)
        rows.append((name, *(_share(share, 2) for share in (*recall, *asked))))
    columns = (f"{what} {n}x" for what in ("needed", "probes", "rules") for n in made.rounds)
    note = (
        "at a tenth of the past: needed facts, all typed probes, constraints and corrections, after so many compactions"
    )
    return Table("After several compactions", ("method", *columns), rows, note)


def planted(made: Quality) -> Table:
    """Returns the planted rules that are left, by where they stood, after the fewest and the most compactions."""
    found = by_method(p for p in made.probes if p.tenth)
    round_counts = sorted({made.rounds[0], made.rounds[-1]})
    rows = []
    for name, own in _best_first(found, PROBED):
        cells = (_planted([p for p in own if p.rounds == n], place) for n in round_counts for place, _ in PLACES)
        rows.append((name, *cells))
    rows.sort(key=lambda row: [float(cell) if cell != _NONE else 0.0 for cell in row[:0:-1]], reverse=True)
    columns = (f"{place} {n}x" for n in round_counts for place, _ in PLACES)
    note = "at a tenth of the past; a rule said in passing and never mentioned again; the number: compactions"
    return Table("Planted rules by where they stood", ("method", *columns), rows, note)


def planted_in(probed: Iterable[Probed], place: str) -> tuple[int, int]:
    """Returns how many rules planted at a place these views still hold, and how many were planted.

    No result holds none.
    """
    found = [p.planted.get(place, (0, 1)) for p in probed]
    return sum(have for have, _ in found), sum(asked for _, asked in found)


def _planted(probed: Sequence[Probed], place: str) -> str:
    have, asked = planted_in(probed, place)
    return _share(have / asked) if asked else _NONE


# -- validity ----------------------------------------------------------------------------------------------------------


def validity(made: Quality) -> Table:
    """Returns how often each gate failed in a method's results, and the false facts and stale answers in them."""
    failed = Counter(gate for p in made.probes for gate in p.gates)
    gates = [gate for gate in GATES if failed[gate]]
    rows = []
    for name, own in by_method(made.probes).items():
        able = [p for p in own if not p.unable]
        if able:
            counts = [sum(gate in p.gates for p in able) for gate in gates]
            false = sum(p.false for p in able)
            rows.append((name, str(len(able)), *map(str, (*counts, false, stale(able)))))
    rows.sort(key=lambda row: sum(map(int, row[2:])))
    note = (
        "results in which a gate failed (no other failed anywhere); false facts and stale answers in all of them; a "
        "budget below the system prompt, the user's newest request, an open step and a summary of "
        f"{LEAST_SUMMARY} tokens counts here as that much (recall and probes give what lands above the budget 0)"
    )
    return Table("Validity, false facts, stale answers", ("method", "results", *gates, "false", "stale"), rows, note)


def twice(made: Quality) -> Table:
    """Returns the gates that Tenfold's methods failed, run twice at each cut and once in the session's own format."""
    rows: list[tuple[str, ...]] = []
    first: list[str] = []
    for name in dict.fromkeys(one.method for one in made.checked):
        own = [one for one in made.checked if one.method == name]
        counts: Counter[Gate] = Counter()
        for one in own:
            counts.update(one.counts)
            first += [f"{name} in {one.session}: {gate}, {why}" for gate, why in one.first.items()]
        failed = ", ".join(f"{gate} {count}" for gate, count in counts.items()) or "none"
        figures = (sum(one.cuts for one in own), sum(one.thinking for one in own), sum(one.unable for one in own))
        rows.append((name, *map(str, figures), failed))
    columns = ("method", "cuts", "with thinking", "unable", "gates that failed")
    return Table("Validity of Tenfold's methods, run twice", columns, rows, "; ".join(first[:3]))


def unable(made: Quality) -> Table:
    """Returns the methods that gave no result somewhere, with the most frequent reason."""
    rows: list[tuple[str, ...]] = []
    for name, own in by_method(made.probes).items():
        reasons = [p.unable for p in own if p.unable]
        if reasons:
            rows.append((name, f"{len(reasons)}/{len(own)}", most_often(reasons)))
    return Table("Could not run", ("method", "of its results", "the reason most often"), rows)


# -- the arithmetic ----------------------------------------------------------------------------------------------------

Count = Callable[[Recall], int]


def plain(made: Quality) -> list[Recall]:
    """Returns the scores after the fewest compactions at the named budgets."""
    return [r for r in made.recall if not r.own and not r.tenth and r.rounds == made.rounds[0]]


def area_budgets(made: Quality) -> tuple[int, ...]:
    """Returns the budgets of the headline's area: those from 4k to 32k, or all of them if none is in that range."""
    return tuple(b for b in made.budgets if BUDGETS[0] <= b <= BUDGETS[-1]) or made.budgets


def in_area(made: Quality) -> list[Recall]:
    """Returns the plain scores that the headline's area is taken over."""
    budgets = area_budgets(made)
    return [r for r in plain(made) if r.budget in budgets]


def by_method(scores: Iterable[One]) -> dict[str, list[One]]:
    """Groups the scores by method."""
    out: dict[str, list[One]] = {}
    for score in scores:
        out.setdefault(score.method, []).append(score)
    return out


def present(score: Recall) -> int:
    """Returns how many needed facts are in the view."""
    return score.present


def within(score: Recall) -> int:
    """Returns how many needed facts are in the view or one search away."""
    return score.within or 0


def early(score: Recall) -> int:
    """Returns the same, with the search made before the agent began the message that used the fact."""
    return score.early or 0


def unsent(score: Recall) -> bool:
    """Whether there is nothing to send: no result, or one above its budget."""
    return score.over or bool(score.unable)


def refetch(scores: Sequence[Recall]) -> float:
    """Returns the tokens it takes to read what is missing again: the mean over all results."""
    found = [r.refetch for r in scores if not r.unable]
    return sum(found) / len(found)


def measured(scores: Sequence[Recall]) -> bool:
    """Whether a method gave any result. One that never did is listed with its reason and not scored."""
    return any(not r.unable for r in scores)


def pooled(scores: Sequence[Recall], count: Count) -> float:
    """Returns the share of all needed facts together, or 0 if none was needed."""
    total = sum(r.needed for r in scores)
    return sum(count(r) for r in scores) / total if total else 0.0


def area_of(scores: Sequence[Recall], count: Count) -> float:
    """Returns the area over the budgets of the pooled share."""
    return area({b: pooled([r for r in scores if r.budget == b], count) for b in {r.budget for r in scores}})


def mean_area(scores: Sequence[Recall], count: Count) -> float:
    """Returns the mean of the cases' own areas. Every case weighs the same, however many facts it needed."""
    cuts = dict.fromkeys((r.session, r.cut) for r in scores)
    areas = [area_of([r for r in scores if (r.session, r.cut) == cut], count) for cut in cuts]
    return sum(areas) / len(areas) if areas else 0.0


def answered(
    probed: Iterable[Probed],
    kinds: Sequence[Kind],
    count: Callable[[Tally], int] = lambda tally: tally.present,
    *,
    quarter: int = 0,
) -> float | None:
    """Returns the share of the probes of these kinds that the views answer; of one age quarter, if given."""
    found = [t for p in probed for t in p.tallies if t.kind in kinds and quarter in (0, t.quarter)]
    asked = sum(t.asked for t in found)
    return sum(map(count, found)) / asked if asked else None


def stale(probed: Iterable[Probed]) -> int:
    """Counts the probes that the views answer with something superseded."""
    return sum(t.stale for p in probed for t in p.tallies)


def _counts(probed: Iterable[Probed]) -> Counter[tuple[Kind, str]]:
    counts: Counter[tuple[Kind, str]] = Counter()
    for tally in (t for p in probed for t in p.tallies):
        counts[tally.kind, "asked"] += tally.asked
    return counts


def _best_first(found: dict[str, list[Probed]], kinds: Sequence[Kind]) -> list[tuple[str, list[Probed]]]:
    """Sorts the methods that gave any result by their share of these probes."""
    able = [(name, own) for name, own in found.items() if any(not p.unable for p in own)]
    return sorted(able, key=lambda item: -(answered(item[1], kinds) or 0.0))


def _share(value: float | None, digits: int = 3) -> str:
    return _NONE if value is None else f"{value:.{digits}f}"


def _ends(found: Interval) -> str:
    return f"{found.low:.2f} to {found.high:.2f}"
