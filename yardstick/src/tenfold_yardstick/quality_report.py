"""The result of one run of the yardstick as a value, and the tables made from it.

The cells are plain text, so a terminal, Markdown and HTML can each draw them in their own way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from tenfold.config.policies import POLICIES
from tenfold.testing.identifier_finder import IDENTIFIER_KINDS
from tenfold.testing.methods import BASELINES
from tenfold.testing.probes import PROBE_KINDS as PROBED
from tenfold.testing.probes import ProbeKind
from tenfold.testing.probes.planted_rules import PLACES
from tenfold.testing.validity import GATES, Gate
from tenfold_yardstick.future_recall import RecallScore
from tenfold_yardstick.gates import LEAST_SUMMARY
from tenfold_yardstick.generations import Generations
from tenfold_yardstick.gold_answers import AnswerCounts
from tenfold_yardstick.intervals import Interval, compute_area_interval, compute_lead_interval, draw_resamples
from tenfold_yardstick.methods import CONTROLS
from tenfold_yardstick.peers import NAMES, NAMES_SUFFIX, SENTENCES
from tenfold_yardstick.question_search import EvidenceHits
from tenfold_yardstick.reading.scoring import ReadingScores
from tenfold_yardstick.replay import Replays
from tenfold_yardstick.scores import (
    ProbeScore,
    Quality,
    average_area,
    average_refetch,
    compute_answered_share,
    compute_file_areas,
    compute_method_area,
    count_asked,
    count_stale,
    get_area_budgets,
    get_early,
    get_file,
    get_present,
    get_within,
    group_by_method,
    is_measured,
    is_unsent,
    pool_share,
    select_area_scores,
    select_plain,
)
from tenfold_yardstick.speed import Speed
from tenfold_yardstick.tables import Table, find_most_frequent

OURS = "tenfold"
"""The method that all others are compared with."""
REAL_SUMMARY = "real-summary"
RULE_KINDS: tuple[ProbeKind, ...] = ("constraint", "correction")
"""The kinds of what users said has to hold."""
_CONTROL_NOTE = (
    " Three rows are no methods and have no place: `name-list` fills the budget with the names of the past and has not "
    "one sentence, `empty-view` has the system prompt alone, and `full-past` has everything, whatever the budget."
)
_BLANK = "-"
_K = 1_000


class Yardstick(Struct, frozen=True):
    """What one report shows. Any part may be missing. HTML, charts and pages are made from this alone.

    `gold` are the questions with gold answers after a compaction. `peers` maps each installed peer to its version.
    """

    quality: Quality | None = None
    replay: Replays | None = None
    speed: Speed | None = None
    search: tuple[EvidenceHits, ...] = ()
    gold: tuple[AnswerCounts, ...] = ()
    date: str = ""
    machine: str = ""
    peers: dict[str, str] = {}
    reading: ReadingScores | None = None
    generations: Generations | None = None


def build_tables(quality: Quality) -> list[Table]:
    """Returns every table that has rows: the headline first, and what could not run last."""
    found = [
        build_headline(quality),
        build_standin_table(quality),
        build_file_table(quality),
        build_age_table(quality),
        build_kind_table(quality),
        build_real_summary_table(quality),
    ]
    found += [build_probe_table(quality, rounds) for rounds in sorted({quality.rounds[0], quality.rounds[-1]})]
    found += [build_budget_table(quality), build_rounds_table(quality), build_planted_table(quality)]
    found += [build_validity_table(quality), build_repeat_table(quality), build_unable_table(quality)]
    return [table for table in found if table.rows]


# -- what the future needed --------------------------------------------------------------------------------------------


def build_headline(quality: Quality) -> Table:
    """Returns future-use recall by method, best first: the area with its interval, and the score at each budget."""
    scores, area_scores = group_by_method(select_plain(quality)), group_by_method(select_area_scores(quality))
    resamples = draw_resamples(r.session for r in select_area_scores(quality))
    rows = []
    for name, found in sorted(
        scores.items(), key=lambda item: -compute_method_area(area_scores.get(item[0], ()), get_present)
    ):
        own, able = area_scores.get(name, []), [r for r in found if not r.unable]
        searches = any(r.within is not None for r in found)
        if not able:
            continue
        rows.append(
            (
                name,
                _format_area(own, compute_method_area(own, get_present)),
                _format_interval(compute_area_interval(own, resamples)),
                _format_area(own, average_area(own, get_present)),
                *(
                    _format_area(own, compute_method_area(own, count)) if searches else _BLANK
                    for count in (get_within, get_early)
                ),
                *(_format_pooled([r for r in found if r.budget == b]) for b in quality.budgets),
                f"{average_refetch(found) / _K:.1f}k",
                f"{sum(r.tokens / r.budget for r in able) / len(able):.0%}",
                f"{sum(map(is_unsent, found))}/{len(found)}",
            )
        )
    budgets = tuple(f"{b / _K:g}k" for b in quality.budgets)
    columns = (
        "method",
        "area",
        "95 %",
        "mean of files",
        "with search",
        "asked early",
        *budgets,
        "refetch",
        "of budget",
        "not sent",
    )
    return Table("Future-use recall", columns, rows, _describe_headline(quality))


def _describe_headline(quality: Quality) -> str:
    area_over = get_area_budgets(quality)
    counted = {b: len({(r.session, r.cut) for r in select_plain(quality) if r.budget == b}) for b in quality.budgets}
    each = ", ".join(f"{budget / _K:g}k {cuts}" for budget, cuts in counted.items() if cuts)
    note = (
        f"The area is over {area_over[0] / _K:g}k to {area_over[-1] / _K:g}k tokens, of "
        f"{_describe_places(select_area_scores(quality))}. All facts count alike, whichever cut they are of. A result "
        "above its budget scores 0, and so does one that a provider refuses, and none. The interval comes from "
        f"resampled sessions. A cut counts at a budget below its past's size: {each}; at any size "
        f"{_describe_places(quality.recall)}."
    )
    if CONTROLS.keys() & set(quality.methods):
        note += _CONTROL_NOTE
    found = compute_lead(quality)
    if found is None:
        return note
    at = found.margin
    return f"{note} `{OURS}` minus the best other, {found.method}: {at.value:+.3f} ({at.low:+.3f} to {at.high:+.3f})."


def _describe_places(scores: Iterable[RecallScore]) -> str:
    """Says how many cuts and sessions these scores are of."""
    cuts = {(r.session, r.cut) for r in scores}
    return f"{len(cuts)} cuts of {len({session for session, _ in cuts})} sessions"


class Lead(Struct, frozen=True):
    """By how much the area of `tenfold` exceeds that of the method named.

    A negative margin means that it is smaller.
    """

    method: str
    margin: Interval


def compute_lead(quality: Quality, names: Iterable[str] = ()) -> Lead | None:
    """Returns the lead over the best of the methods named, by default of all that are not Tenfold's.

    Returns None if either side is missing, or if no resample has facts for both.
    """
    found = {
        name: scores for name, scores in group_by_method(select_area_scores(quality)).items() if is_measured(scores)
    }
    compared = set(names) or {name for name in found if name != OURS and name not in POLICIES and name not in CONTROLS}
    others = {name: compute_method_area(scores, get_present) for name, scores in found.items() if name in compared}
    if OURS not in found or not others:
        return None
    best = max(others, key=lambda name: (others[name], name))
    resamples = draw_resamples(r.session for r in select_area_scores(quality))
    margin = compute_lead_interval(found[OURS], found[best], resamples)
    return Lead(best, margin) if margin is not None else None


def build_standin_table(quality: Quality) -> Table:
    """Returns the area of each peer that summarizes with either stand-in for its model, and the difference."""
    scores = {n: own for n, own in group_by_method(select_area_scores(quality)).items() if is_measured(own)}
    areas = {name: compute_method_area(own, get_present) for name, own in scores.items()}
    pairs = {name: (areas[name], areas[name + NAMES_SUFFIX]) for name in areas if name + NAMES_SUFFIX in areas}
    rows: list[tuple[str, ...]] = [
        (name, f"{plain:.3f}", f"{named:.3f}", f"{named - plain:+.3f}")
        for name, (plain, named) in sorted(pairs.items(), key=lambda item: -max(item[1]))
    ]
    own = f" `{OURS}` has {areas[OURS]:.3f}; no stand-in writes for it." if OURS in areas else ""
    note = (
        "The area where the stand-in for the model quotes sentences, and where it lists names and nothing else. A real "
        f"model does neither, so what it would give may lie anywhere near.{own}"
    )
    columns = ("method", SENTENCES, NAMES, "difference")
    return Table("How much the stand-in for a model decides", columns, rows, note)


def build_file_table(quality: Quality) -> Table:
    """Returns the area for the sessions of each file: `tenfold` beside the best peer, the best baseline and controls.

    A method of one's own has a column of its own.
    """
    scores = {n: own for n, own in group_by_method(select_area_scores(quality)).items() if is_measured(own)}
    areas = {name: compute_file_areas(own, get_present) for name, own in scores.items()}
    groups = {
        OURS: [name for name in areas if name == OURS],
        **{name: [name] for name in areas if is_own(name)},
        "best other project": [name for name in areas if "/" in name],
        "best baseline": [name for name in areas if name in BASELINES],
        **{name: [name] for name in CONTROLS if name in areas},
    }
    shown = {title: names for title, names in groups.items() if names}
    needed = {(r.session, r.cut): r.needed for r in select_area_scores(quality)}
    rows = []
    for file in dict.fromkeys(get_file(session) for session, _ in needed):
        own = {place: count for place, count in needed.items() if get_file(place[0]) == file}
        cells = (_format_best({n: areas[n][file] for n in names if file in areas[n]}) for names in shown.values())
        rows.append((file, str(len({session for session, _ in own})), str(sum(own.values())), *cells))
    note = "Over those of the budgets that a past exceeds. Of a group, the method that is best on this file."
    return Table("Future-use recall by file", ("file", "sessions", "facts", *shown), rows, note)


def is_own(name: str) -> bool:
    """Tells whether a method is the user's: a function, or an instance of the settings."""
    return "/" not in name and name not in {OURS, REAL_SUMMARY, *POLICIES, *BASELINES, *CONTROLS}


def _format_best(areas: Mapping[str, float]) -> str:
    if not areas:
        return _BLANK
    best = max(areas, key=lambda name: areas[name])
    return f"{areas[best]:.3f}" + f" {best}" * (len(areas) > 1)


def build_age_table(quality: Quality) -> Table:
    """Returns future-use recall by the quarter of the past's tokens in which a fact last occurred."""
    return _build_recall_table(
        quality, "by age (quarter of the past, 1 is the oldest)", ("1", "2", "3", "4"), lambda r: r.quarters
    )


def build_kind_table(quality: Quality) -> Table:
    """Returns future-use recall by the kind of identifier."""
    return _build_recall_table(quality, "by kind", IDENTIFIER_KINDS, lambda r: r.kinds)


def build_real_summary_table(quality: Quality) -> Table:
    """Returns every method at the size of the summaries that models really wrote for these sessions."""
    own, asked = (
        group_by_method(r for r in quality.recall if r.own),
        group_by_method(p for p in quality.probes if p.own),
    )
    cuts = list(dict.fromkeys((r.session, r.cut, r.budget) for r in quality.recall if r.own))
    rows = []
    for name, scores in sorted(own.items(), key=lambda item: -pool_share(item[1], get_present)):
        found = {(r.session, r.cut, r.budget): r for r in scores}
        if is_measured(scores):
            cells = (_format_share(pool_share([found[c]], get_present)) if c in found else _BLANK for c in cuts)
            probed = (_format_share(compute_answered_share(asked[name], kinds)) for kinds in (RULE_KINDS, PROBED))
            rows.append((name, *cells, _format_share(pool_share(scores, get_present)), *probed))
    where = (f"{session} at {cut}, {budget / _K:.1f}k" for session, cut, budget in cuts)
    columns = ("method", *where, "pooled", "rules", "typed probes")
    return Table("At the size of the real model-written summaries", columns, rows)


def _build_recall_table(
    quality: Quality, title: str, keys: Sequence[str], get_counts: Callable[[RecallScore], dict[str, tuple[int, int]]]
) -> Table:
    totals: dict[str, dict[str, tuple[int, int]]] = {}
    for name, scores in group_by_method(select_plain(quality)).items():
        into = totals.setdefault(name, {}) if is_measured(scores) else {}
        for key, (have, wanted) in (pair for score in scores for pair in get_counts(score).items()):
            was, all_ = into.get(key, (0, 0))
            into[key] = (was + have, all_ + wanted)
    shares = {n: {k: have / wanted for k, (have, wanted) in t.items() if wanted} for n, t in totals.items()}
    used = [k for k in keys if any(k in t for t in shares.values())]
    counts = {k: max(t.get(k, (0, 0))[1] for t in totals.values()) for k in used}
    rows = [(name, *(_format_share(shares[name].get(k)) for k in used)) for name in quality.methods if name in shares]
    rows.sort(key=lambda row: row[1:], reverse=True)
    note = f"Facts needed, over all budgets: {', '.join(f'{k} {counts[k]:,}' for k in used)}."
    return Table(f"Future-use recall {title}", ("method", *used), rows, note)


# -- what a reader would ask -------------------------------------------------------------------------------------------


def build_probe_table(quality: Quality, rounds: int) -> Table:
    """Returns the typed probes at a tenth of the past by their kind, after this many compactions."""
    found = group_by_method(p for p in quality.probes if p.tenth and p.rounds == rounds)
    asked = count_asked(next(iter(found.values()), []))
    used = [kind for kind in PROBED if asked[kind]]
    rows = [
        (
            name,
            *(_format_share(compute_answered_share(own, [kind]), 2) for kind in used),
            _format_share(compute_answered_share(own, used)),
        )
        for name, own in _sort_best_first(found, PROBED)
    ]
    cuts = len({(p.session, p.cut) for own in found.values() for p in own})
    counts = ", ".join(f"{kind} {asked[kind]}" for kind in used)
    note = f"Asked in {cuts} cuts: {counts}. An answer has to stand near what it is about."
    suffix = f", after {rounds} compactions" if rounds > quality.rounds[0] else ""
    return Table(f"Typed probes at a tenth of the past{suffix}", ("method", *used, "all"), rows, note)


def build_budget_table(quality: Quality) -> Table:
    """Returns all typed probes together, at each budget and at a tenth of the past.

    At a tenth they are also shown by age, with bare words and with stale answers.
    """
    once = [p for p in quality.probes if not p.own and p.rounds == quality.rounds[0]]
    tenth = group_by_method(p for p in once if p.tenth)
    found = group_by_method(once)
    rows = []
    for name, own in _sort_best_first(found, PROBED):
        at = {b: [p for p in own if p.budget == b and not p.tenth] for b in quality.budgets}
        ten = tenth.get(name, [])
        bare = compute_answered_share(ten, PROBED, lambda t: t.bare)
        ages = (compute_answered_share(ten, PROBED, quarter=quarter) for quarter in (1, 2, 3, 4))
        shares = (
            *(compute_answered_share(at[b], PROBED) for b in quality.budgets),
            compute_answered_share(ten, PROBED),
            bare,
            *ages,
        )
        rows.append((name, *map(_format_share, shares), str(count_stale(ten))))
    budgets = (f"{b / _K:g}k" for b in quality.budgets)
    columns = ("method", *budgets, "10 %", "bare words", "oldest", "2", "3", "newest", "stale")
    note = "The columns from 10 % on are at a tenth of the past, the last ones by how old the answer is, in quarters."
    return Table("Typed probes by budget and age", columns, rows, note)


def build_rounds_table(quality: Quality) -> Table:
    """Returns what is left after several compactions, each to a tenth of the past."""
    if len(quality.rounds) < 2:
        return Table("After several compactions", ("method",), [])
    needed = group_by_method(r for r in quality.recall if r.tenth)
    probed = group_by_method(p for p in quality.probes if p.tenth)
    rows = []
    for name, own in _sort_best_first(probed, PROBED):
        facts = needed.get(name, [])
        recall = ([r for r in facts if r.rounds == n] for n in quality.rounds)
        asked = (
            compute_answered_share([p for p in own if p.rounds == n], kinds)
            for kinds in (PROBED, RULE_KINDS)
            for n in quality.rounds
        )
        rows.append((name, *(_format_pooled(r, 2) for r in recall), *(_format_share(share, 2) for share in asked)))
    columns = (f"{what} {n}x" for what in ("needed", "probes", "rules") for n in quality.rounds)
    note = "At a tenth of the past, after so many compactions: needed facts, typed probes, and the user's rules alone."
    return Table("After several compactions", ("method", *columns), rows, note)


def build_planted_table(quality: Quality) -> Table:
    """Returns the planted rules that are left, by where they stood, after the fewest and the most compactions."""
    found = group_by_method(p for p in quality.probes if p.tenth)
    round_counts = sorted({quality.rounds[0], quality.rounds[-1]})
    rows = []
    for name, own in _sort_best_first(found, PROBED):
        cells = (_format_planted([p for p in own if p.rounds == n], place) for n in round_counts for place, _ in PLACES)
        rows.append((name, *cells))
    rows.sort(key=lambda row: [float(cell) if cell != _BLANK else 0.0 for cell in row[:0:-1]], reverse=True)
    columns = (f"{place} {n}x" for n in round_counts for place, _ in PLACES)
    note = "At a tenth of the past, after so many compactions. Each rule is said once in passing."
    return Table("Planted rules by where they stood", ("method", *columns), rows, note)


def count_planted(scores: Iterable[ProbeScore], place: str) -> tuple[int, int]:
    """Returns how many rules planted at a place these views still hold, and how many were planted.

    No result holds none.
    """
    found = [p.planted.get(place, (0, 1)) for p in scores]
    return sum(have for have, _ in found), sum(asked for _, asked in found)


def _format_planted(scores: Sequence[ProbeScore], place: str) -> str:
    have, asked = count_planted(scores, place)
    return _format_share(have / asked) if asked else _BLANK


# -- validity ----------------------------------------------------------------------------------------------------------


def build_validity_table(quality: Quality) -> Table:
    """Returns how often each gate failed in a method's results, and the false facts and stale answers in them."""
    failed = Counter(gate for p in quality.probes for gate in p.gates)
    gates = [gate for gate in GATES if failed[gate]]
    rows = []
    for name, own in group_by_method(quality.probes).items():
        able = [p for p in own if not p.unable]
        if able:
            counts = [sum(gate in p.gates for p in able) for gate in gates]
            false = sum(p.false for p in able)
            rows.append((name, str(len(able)), *map(str, (*counts, false, count_stale(able)))))
    rows.sort(key=lambda row: sum(map(int, row[2:])))
    note = (
        "In how many results each gate failed; gates that never failed are left out. False facts and stale answers are "
        "of all results together. Nobody can go below the system prompt, the newest request, an open step and a "
        f"summary of {LEAST_SUMMARY} tokens, so here a smaller budget counts as that much."
    )
    return Table("Validity, false facts, stale answers", ("method", "results", *gates, "false", "stale"), rows, note)


def build_repeat_table(quality: Quality) -> Table:
    """Returns the gates that Tenfold's methods failed, run twice at each cut and once in the session's own format."""
    rows: list[tuple[str, ...]] = []
    first: list[str] = []
    for name in dict.fromkeys(one.method for one in quality.checked):
        own = [one for one in quality.checked if one.method == name]
        counts: Counter[Gate] = Counter()
        for one in own:
            counts.update(one.counts)
            first += [f"{name} in {one.session}: {gate}, {why}" for gate, why in one.first.items()]
        failed = ", ".join(f"{gate} {count}" for gate, count in counts.items()) or "none"
        figures = (sum(one.cuts for one in own), sum(one.thinking for one in own), sum(one.unable for one in own))
        rows.append((name, *map(str, figures), failed))
    columns = ("method", "cuts", "with thinking", "unable", "gates that failed")
    return Table("Validity of Tenfold's methods, run twice", columns, rows, "; ".join(first[:3]))


def build_unable_table(quality: Quality) -> Table:
    """Returns the methods that gave no result somewhere, with the most frequent reason."""
    rows: list[tuple[str, ...]] = []
    for name, own in group_by_method(quality.probes).items():
        reasons = [p.unable for p in own if p.unable]
        if reasons:
            rows.append((name, f"{len(reasons)}/{len(own)}", find_most_frequent(reasons)))
    return Table("Could not run", ("method", "of its results", "the reason most often"), rows)


def _sort_best_first(
    scores: dict[str, list[ProbeScore]], kinds: Sequence[ProbeKind]
) -> list[tuple[str, list[ProbeScore]]]:
    """Sorts the methods that gave any result by their share of these probes."""
    able = [(name, own) for name, own in scores.items() if any(not p.unable for p in own)]
    return sorted(able, key=lambda item: -(compute_answered_share(item[1], kinds) or 0.0))


def _format_share(value: float | None, digits: int = 3) -> str:
    return _BLANK if value is None else f"{value:.{digits}f}"


def _format_pooled(scores: Sequence[RecallScore], digits: int = 3) -> str:
    """Returns the share of the needed facts together, or a blank where no cut needed any."""
    return _format_share(pool_share(scores, get_present), digits) if any(r.needed for r in scores) else _BLANK


def _format_area(scores: Sequence[RecallScore], area: float) -> str:
    return _format_share(area) if any(r.needed for r in scores) else _BLANK


def _format_interval(interval: Interval | None) -> str:
    return _BLANK if interval is None else f"{interval.low:.2f} to {interval.high:.2f}"
