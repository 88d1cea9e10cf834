"""The goals that the yardstick sets for Tenfold, and whether a result meets them.

The goals were set before the measurement. Code judges each of them from a `Yardstick` alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from tenfold.evals.gold import BUDGET, above
from tenfold.evals.replay import Replays
from tenfold.evals.report import (
    OURS,
    REAL,
    Probed,
    Quality,
    Yardstick,
    area_of,
    by_method,
    early,
    in_area,
    stale,
    within,
)
from tenfold.evals.searching import DEPTHS, Asked
from tenfold.evals.speed import MIDDLE, Speed
from tenfold.evals.speed_tables import against, compared_at, median_peer
from tenfold.evals.standing import (
    amount,
    areas,
    at_real_size,
    bills,
    group_of,
    overflowing,
    planted_shares,
    probe_shares,
    scored_as,
    windows,
)
from tenfold.evals.tables import Table

LEAD = 0.10
"""How far Tenfold's area must be above the best peer's, as an absolute difference."""
TIMES = 100
"""How many times less a turn has to take than the median peer's."""
WAIT = 0.050
"""The longest time that a call may wait for a compaction, in seconds."""
BACKGROUND = "in the background"
NEAR = 0.05
"""The bill is compared with methods whose recall is at most this much below the best recall."""
_MANY = 10
Verdict = Literal["met", "not met", "not measured"]


class Goal(Struct, frozen=True):
    """One goal: its subject, its target, the measured result, and the verdict."""

    what: str
    goal: str
    measured: str
    verdict: Verdict


def goals(made: Yardstick) -> list[Goal]:
    """Returns every goal, judged, in the order in which they were set."""
    return [
        *_recall(made.quality),
        *_probes(made.quality),
        *_planted(made.quality),
        _gold(made),
        *_sound(made.quality),
        *_bill(made.replay, made.quality),
        *_speed(made.speed),
        _search(made.search),
    ]


def goals_table(found: Sequence[Goal]) -> Table:
    """Returns the goals as a table."""
    rows: list[tuple[str, ...]] = [(g.what, g.goal, g.measured, g.verdict) for g in found]
    met = sum(g.verdict == "met" for g in found)
    return Table("Goals", ("what", "goal", "measured", "verdict"), rows, f"{met} of {len(found)} met")


def _judged(what: str, goal: str, measured: str, *, met: bool) -> Goal:
    return Goal(what, goal, measured, "met" if met else "not met")


def _open(what: str, goal: str) -> Goal:
    return Goal(what, goal, "-", "not measured")


# -- quality -----------------------------------------------------------------------------------------------------------


def _recall(made: Quality | None) -> Iterator[Goal]:
    what = "future-use recall, area over the budgets, view alone"
    first, lead = "first of all methods", f"at least +{LEAD:.2f} over the best peer"
    ahead = "how far that area is above the best of the other projects"
    real = ("the same at the size of real model-written summaries", "not below them")
    near = ("future-use recall with one search", "at least 0.98")
    area_by_method = areas(made) if made is not None else {}
    if made is None or OURS not in area_by_method:
        yield from (_open(what, first), _open(ahead, lead), _open(*real), _open(*near))
        return
    own = area_by_method[OURS]
    others = {name: score for name, score in area_by_method.items() if group_of(name) != "tenfold"}
    peers = {name: score for name, score in others.items() if group_of(name) == "peer"}
    best = next(iter(others), "")
    result = f"{own:.3f}; best other: {best} {others[best]:.3f}" if best else f"{own:.3f}"
    yield _judged(what, first, result, met=bool(best) and own > others[best]) if best else _open(what, first)
    if peers:
        peer = next(iter(peers))
        yield _judged(
            ahead, lead, f"{own - peers[peer]:+.3f} ({peer} {peers[peer]:.3f})", met=own - peers[peer] >= LEAD
        )
    else:
        yield _open(ahead, lead)
    sized = at_real_size(made)
    if OURS in sized and REAL in sized:
        result = f"{sized[OURS]:.3f}; real summaries {sized[REAL]:.3f}"
        yield _judged(*real, result, met=sized[OURS] >= sized[REAL])
    else:
        yield _open(*real)
    reached, before = (area_of(by_method(in_area(made))[OURS], count) for count in (within, early))
    yield _judged(*near, f"{reached:.3f}; asked before the answer is begun {before:.3f}", met=reached >= 0.98)


_ASKED: tuple[tuple[str, tuple[str, ...], float], ...] = (
    ("constraints", ("constraint",), 1.0),
    ("corrections", ("correction",), 1.0),
    ("paths edited and read", ("edited", "read"), 0.95),
    ("commands with their outcome", ("outcome",), 0.95),
    ("errors", ("error",), 0.95),
    ("numbers", ("number",), 0.80),
)


def _probes(made: Quality | None) -> Iterator[Goal]:
    probes = made.probes if made is not None else ()
    first = min(made.rounds) if made is not None and made.rounds else 1
    for name, kinds, least in _ASKED:
        for rounds in (first, _MANY) if least == 1.0 else (first,):
            after = f", after {rounds} compactions" if rounds != first else ""
            what, goal = (
                f"typed probes at 10 %{after}: {name}",
                "all" if least == 1.0 else f"at least {100 * least:.0f} %",
            )
            have, asked = probe_shares(probes, kinds, rounds=rounds).get(OURS, (0, 0))
            if asked:
                yield _judged(
                    what, goal, f"{have:,} of {asked:,} ({100 * have / asked:.1f} %)", met=have >= least * asked
                )
            else:
                yield _open(what, goal)


def _planted(made: Quality | None) -> Iterator[Goal]:
    first = made.rounds[0] if made is not None and made.rounds else 1
    for rounds in (first, _MANY):
        after = f", after {rounds} compactions" if rounds != first else ""
        what, goal = f"planted constraints at 10 %{after}: top, middle, bottom", "all"
        own = planted_shares(made.probes if made is not None else (), rounds=rounds).get(OURS)
        if own is None:
            yield _open(what, goal)
            continue
        have, asked = (sum(counts) for counts in zip(*own.values(), strict=True))
        places = ", ".join(f"{place} {kept:,} of {of:,}" for place, (kept, of) in own.items())
        yield _judged(what, goal, f"{have:,} of {asked:,}: {places}", met=have == asked)


def _gold(made: Yardstick) -> Goal:
    what, goal = "questions with gold answers that stand in the history, at 5k tokens or one search away", "all"
    every = [one for one in made.gold if (one.method, one.budget) == (OURS, BUDGET)]
    own, beside = ([one for one in every if one.beside == is_beside] for is_beside in (False, True))
    literal, more = (sum(one.literal for one in some) for some in (own, beside))
    reached, there = (sum(one.within or 0 for one in some) for some in (own, beside))
    measured = f"{reached} of {literal}, {above(own)} of them of sessions above the budget"
    measured += f"; of files beside sessions {there} of {more}, {above(beside)} above it" if more else ""
    return _judged(what, goal, measured, met=reached == literal) if literal else _open(what, goal)


def _sound(made: Quality | None) -> Iterator[Goal]:
    ours: list[Probed] = [p for p in made.probes if group_of(p.method) in ("tenfold", "preset")] if made else []
    gates: dict[str, int] = {}
    twice = [c for c in (made.checked if made else ()) if group_of(c.method) in ("tenfold", "preset")]
    for counts in [*(p.gates for p in ours), *(c.counts for c in twice)]:
        for gate, count in counts.items():
            gates[gate] = gates.get(gate, 0) + count
    own, others = ([p for p in ours if (p.method == OURS) == mine] for mine in (True, False))
    outdated = f"{stale(own):,} in {len(own):,} views"
    outdated += f"; other presets {stale(others):,} in {len(others):,} views" if others else ""
    false = sum(p.false for p in ours)
    broken = ", ".join(f"{gate} {count:,}" for gate, count in sorted(gates.items()) if count)
    views = f"in {len(ours):,} views"
    again = f" and in two runs at {sum(c.cuts for c in twice):,} cuts" if twice else ""
    found = (
        ("validity, all of Tenfold's policies", broken or f"0 {views}{again}", not broken),
        ("false facts, all of Tenfold's policies", f"{false:,} {views}", not false),
        (f"stale facts, policy {OURS}", outdated, not stale(own)),
    )
    for what, measured, met in found:
        yield _judged(what, "0", measured, met=met) if ours else _open(what, "0")


# -- the rest ----------------------------------------------------------------------------------------------------------


def _bill(made: Replays | None, scored: Quality | None) -> Iterator[Goal]:
    what, goal = "bill of a replay", f"lowest of all methods whose recall is within {NEAR} of the best"
    area_by_method = areas(scored) if scored is not None else {}
    if made is None or not made.played or OURS not in area_by_method:
        yield _open(what, goal)
        return
    for window in windows(made):
        refused = overflowing(made, window)
        for model, costs in bills(made, window).items():
            known = {name: dollars for name, dollars in costs.items() if scored_as(name) in area_by_method}
            best = max((area_by_method[scored_as(name)] for name in known), default=0.0)
            near = {n: d for n, d in known.items() if area_by_method[scored_as(n)] >= best - NEAR and n not in refused}
            where = f"{what}, window {window:,}, {model.rpartition(':')[2]}"
            if OURS not in known:
                yield _open(where, goal)
                continue
            other = min((n for n in near if n != OURS), key=lambda n: near[n], default="")
            rest = [n for n in known if n != OURS and n not in refused]
            following = max(rest, key=lambda n: area_by_method[scored_as(n)], default="")
            result = f"${known[OURS]:,.2f}"
            if other:
                result += f"; cheapest other: {other} {area_by_method[scored_as(other)]:.3f}, ${near[other]:,.2f}"
            elif following:
                result += "; of the methods never refused no other is that near in recall; the next, "
                result += f"{following} {area_by_method[scored_as(following)]:.3f}, ${known[following]:,.2f}"
            met = OURS in near and (not other or near[OURS] <= near[other])
            yield _judged(where, goal, result, met=met)


def _speed(made: Speed | None) -> Iterator[Goal]:
    at = compared_at(made) if made is not None else MIDDLE
    goal = f"at least {TIMES} x below the median peer"
    ratios = against(made) if made is not None else {}
    if made is None or not ratios:
        yield _open(f"overhead per turn at {at:,} messages", goal)
    else:
        middle = f"median peer {amount(median_peer(made))}"
        for (method, way), ratio in ratios.items():
            what = f"overhead per turn at {at:,} messages: {method}, given by `{way}`"
            yield _judged(what, goal, f"{ratio:,.3g} x ({middle})", met=ratio >= TIMES)
    what, goal = "what calls wait for a compaction, summary in the background", f"under {amount(WAIT)}"
    waits = [b for b in (made.blocked if made is not None else ()) if b.summary == BACKGROUND and b.compactions]
    if not waits:
        yield _open(what, goal)
    for one in waits:
        result = f"{amount(one.median)}, the longest {amount(one.most)}, {one.compactions} compactions"
        yield _judged(what, goal, result, met=one.most < WAIT)


def _search(scores: Sequence[Asked]) -> Goal:
    what, goal = f"search, recall at {DEPTHS[-1]}", "above plain BM25 with stemming in the same run"
    found = search_recall(scores)
    own, others = found.get(OURS), [share for name, share in found.items() if name != OURS]
    if own is None or not others:
        return _open(what, goal)
    return _judged(what, goal, f"{own:.3f}; BM25 {max(others):.3f}", met=own > max(others))


def search_recall(scores: Sequence[Asked], depth: int = len(DEPTHS) - 1) -> dict[str, float]:
    """Returns, for each search, its mean recall over all questions.

    The recall of a question is the share found of the evidence that this many hits can hold.
    """
    out: dict[str, float] = {}
    for name in dict.fromkeys(one.method for one in scores):
        own = [one for one in scores if one.method == name]
        out[name] = sum(one.found[depth] / min(DEPTHS[depth], one.evidence) for one in own) / len(own)
    return out
