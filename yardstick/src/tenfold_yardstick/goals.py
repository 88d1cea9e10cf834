"""The goals that the yardstick sets for Tenfold, and whether a result meets them.

The goals were set before the measurement. Code judges each of them from a `Yardstick` alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from tenfold_yardstick.gold_answers import GOLD_BUDGET, count_above_budget
from tenfold_yardstick.method_comparison import (
    compute_areas,
    compute_bills,
    compute_real_size_shares,
    count_planted_rules,
    count_probes,
    find_overflowing,
    get_group,
    get_score_name,
    list_windows,
)
from tenfold_yardstick.quality_report import OURS, REAL_SUMMARY, Yardstick
from tenfold_yardstick.question_search import DEPTHS, EvidenceHits
from tenfold_yardstick.replay import Replays
from tenfold_yardstick.scores import (
    ProbeScore,
    Quality,
    compute_method_area,
    count_stale,
    get_early,
    get_within,
    group_by_method,
    select_area_scores,
)
from tenfold_yardstick.speed import COMPARISON_LENGTH, Speed
from tenfold_yardstick.speed_tables import compute_peer_median, compute_speedups, get_compared_length
from tenfold_yardstick.tables import Table, format_seconds

MIN_LEAD = 0.10
"""How far Tenfold's area must be above the best peer's, as an absolute difference."""
MIN_SPEEDUP = 100
"""How many times less a turn has to take than the median peer's."""
MAX_WAIT = 0.050
"""The longest time that a call may wait for a compaction, in seconds."""
BACKGROUND = "in the background"
RECALL_MARGIN = 0.05
"""The bill is compared with methods whose recall is at most this much below the best recall."""
_MANY_ROUNDS = 10
GoalVerdict = Literal["met", "not met", "not measured"]


class YardstickGoal(Struct, frozen=True):
    """One goal: its subject, its target, the measured result, and the verdict."""

    subject: str
    target: str
    result: str
    verdict: GoalVerdict


def judge_goals(yardstick: Yardstick) -> list[YardstickGoal]:
    """Returns every goal, judged, in the order in which they were set."""
    return [
        *_judge_recall(yardstick.quality),
        *_judge_probes(yardstick.quality),
        *_judge_planted_rules(yardstick.quality),
        _judge_gold_answers(yardstick),
        *_judge_validity(yardstick.quality),
        *_judge_bill(yardstick.replay, yardstick.quality),
        *_judge_speed(yardstick.speed),
        _judge_search(yardstick.search),
    ]


def build_goals_table(goals: Sequence[YardstickGoal]) -> Table:
    """Returns the goals as a table."""
    rows: list[tuple[str, ...]] = [(g.subject, g.target, g.result, g.verdict) for g in goals]
    met = sum(g.verdict == "met" for g in goals)
    return Table(
        "Goals",
        ("what", "goal", "measured", "verdict"),
        rows,
        f"These goals were set before anything was measured. {met} of {len(goals)} are met.",
    )


def _judge(subject: str, target: str, result: str, *, is_met: bool) -> YardstickGoal:
    return YardstickGoal(subject, target, result, "met" if is_met else "not met")


def _leave_open(subject: str, target: str) -> YardstickGoal:
    return YardstickGoal(subject, target, "-", "not measured")


# -- quality -----------------------------------------------------------------------------------------------------------


def _judge_recall(quality: Quality | None) -> Iterator[YardstickGoal]:
    what = "future-use recall, area over the budgets, view alone"
    first, lead = "first of all methods", f"at least +{MIN_LEAD:.2f} over the best peer"
    ahead = "how far that area is above the best of the other projects"
    real = ("the same at the size of real model-written summaries", "not below them")
    near = ("future-use recall with one search", "at least 0.98")
    area_by_method = compute_areas(quality) if quality is not None else {}
    if quality is None or OURS not in area_by_method:
        yield from (_leave_open(what, first), _leave_open(ahead, lead), _leave_open(*real), _leave_open(*near))
        return
    own = area_by_method[OURS]
    others = {name: score for name, score in area_by_method.items() if get_group(name) != "tenfold"}
    peers = {name: score for name, score in others.items() if get_group(name) == "peer"}
    best = next(iter(others), "")
    result = f"{own:.3f}; best other: {best} {others[best]:.3f}" if best else f"{own:.3f}"
    yield _judge(what, first, result, is_met=bool(best) and own > others[best]) if best else _leave_open(what, first)
    if peers:
        peer = next(iter(peers))
        yield _judge(
            ahead, lead, f"{own - peers[peer]:+.3f} ({peer} {peers[peer]:.3f})", is_met=own - peers[peer] >= MIN_LEAD
        )
    else:
        yield _leave_open(ahead, lead)
    sized = compute_real_size_shares(quality)
    if OURS in sized and REAL_SUMMARY in sized:
        result = f"{sized[OURS]:.3f}; real summaries {sized[REAL_SUMMARY]:.3f}"
        yield _judge(*real, result, is_met=sized[OURS] >= sized[REAL_SUMMARY])
    else:
        yield _leave_open(*real)
    reached, before = (
        compute_method_area(group_by_method(select_area_scores(quality))[OURS], count)
        for count in (get_within, get_early)
    )
    yield _judge(*near, f"{reached:.3f}; asked before the answer is begun {before:.3f}", is_met=reached >= 0.98)


_PROBE_GOALS: tuple[tuple[str, tuple[str, ...], float], ...] = (
    ("constraints", ("constraint",), 1.0),
    ("corrections", ("correction",), 1.0),
    ("paths edited and read", ("edited", "read"), 0.95),
    ("commands with their outcome", ("outcome",), 0.95),
    ("errors", ("error",), 0.95),
    ("numbers", ("number",), 0.80),
)


def _judge_probes(quality: Quality | None) -> Iterator[YardstickGoal]:
    probes = quality.probes if quality is not None else ()
    first = min(quality.rounds) if quality is not None and quality.rounds else 1
    for name, kinds, least in _PROBE_GOALS:
        for rounds in (first, _MANY_ROUNDS) if least == 1.0 else (first,):
            after = f", after {rounds} compactions" if rounds != first else ""
            what, goal = (
                f"typed probes at 10 %{after}: {name}",
                "all" if least == 1.0 else f"at least {100 * least:.0f} %",
            )
            have, asked = count_probes(probes, kinds, rounds=rounds).get(OURS, (0, 0))
            if asked:
                yield _judge(
                    what, goal, f"{have:,} of {asked:,} ({100 * have / asked:.1f} %)", is_met=have >= least * asked
                )
            else:
                yield _leave_open(what, goal)


def _judge_planted_rules(quality: Quality | None) -> Iterator[YardstickGoal]:
    first = quality.rounds[0] if quality is not None and quality.rounds else 1
    for rounds in (first, _MANY_ROUNDS):
        after = f", after {rounds} compactions" if rounds != first else ""
        what, goal = f"planted constraints at 10 %{after}: top, middle, bottom", "all"
        own = count_planted_rules(quality.probes if quality is not None else (), rounds=rounds).get(OURS)
        if own is None:
            yield _leave_open(what, goal)
            continue
        have, asked = (sum(counts) for counts in zip(*own.values(), strict=True))
        places = ", ".join(f"{place} {kept:,} of {of:,}" for place, (kept, of) in own.items())
        yield _judge(what, goal, f"{have:,} of {asked:,}: {places}", is_met=have == asked)


def _judge_gold_answers(yardstick: Yardstick) -> YardstickGoal:
    what, goal = "questions with gold answers that stand in the history, at 5k tokens or one search away", "all"
    every = [one for one in yardstick.gold if (one.method, one.budget) == (OURS, GOLD_BUDGET)]
    own, beside = ([one for one in every if bool(one.source) == is_beside] for is_beside in (False, True))
    literal, more = (sum(one.literal for one in some) for some in (own, beside))
    reached, there = (sum(one.within or 0 for one in some) for some in (own, beside))
    measured = f"{reached} of {literal}, {count_above_budget(own)} of them of sessions above the budget"
    measured += f"; of files beside sessions {there} of {more}, {count_above_budget(beside)} above it" if more else ""
    return _judge(what, goal, measured, is_met=reached == literal) if literal else _leave_open(what, goal)


def _judge_validity(quality: Quality | None) -> Iterator[YardstickGoal]:
    ours: list[ProbeScore] = (
        [p for p in quality.probes if get_group(p.method) in ("tenfold", "preset")] if quality else []
    )
    gates: dict[str, int] = {}
    twice = [c for c in (quality.checked if quality else ()) if get_group(c.method) in ("tenfold", "preset")]
    for counts in [*(p.gates for p in ours), *(c.counts for c in twice)]:
        for gate, count in counts.items():
            gates[gate] = gates.get(gate, 0) + count
    own, others = ([p for p in ours if (p.method == OURS) == mine] for mine in (True, False))
    outdated = f"{count_stale(own):,} in {len(own):,} views"
    outdated += f"; other presets {count_stale(others):,} in {len(others):,} views" if others else ""
    false = sum(p.false for p in ours)
    broken = ", ".join(f"{gate} {count:,}" for gate, count in sorted(gates.items()) if count)
    views = f"in {len(ours):,} views"
    again = f" and in two runs at {sum(c.cuts for c in twice):,} cuts" if twice else ""
    found = (
        ("validity, all of Tenfold's policies", broken or f"0 {views}{again}", not broken),
        ("false facts, all of Tenfold's policies", f"{false:,} {views}", not false),
        (f"stale facts, policy {OURS}", outdated, not count_stale(own)),
    )
    for what, measured, met in found:
        yield _judge(what, "0", measured, is_met=met) if ours else _leave_open(what, "0")


# -- the rest ----------------------------------------------------------------------------------------------------------


def _judge_bill(replays: Replays | None, quality: Quality | None) -> Iterator[YardstickGoal]:
    what, goal = "bill of a replay", f"lowest of all methods whose recall is within {RECALL_MARGIN} of the best"
    area_by_method = compute_areas(quality) if quality is not None else {}
    if replays is None or not replays.played or OURS not in area_by_method:
        yield _leave_open(what, goal)
        return
    for window in list_windows(replays):
        refused = find_overflowing(replays, window)
        for model, costs in compute_bills(replays, window).items():
            known = {name: dollars for name, dollars in costs.items() if get_score_name(name) in area_by_method}
            best = max((area_by_method[get_score_name(name)] for name in known), default=0.0)
            near = {
                n: d
                for n, d in known.items()
                if area_by_method[get_score_name(n)] >= best - RECALL_MARGIN and n not in refused
            }
            where = f"{what}, window {window:,}, {model.rpartition(':')[2]}"
            if OURS not in known:
                yield _leave_open(where, goal)
                continue
            other = min((n for n in near if n != OURS), key=lambda n: near[n], default="")
            rest = [n for n in known if n != OURS and n not in refused]
            following = max(rest, key=lambda n: area_by_method[get_score_name(n)], default="")
            result = f"${known[OURS]:,.2f}"
            if other:
                result += f"; cheapest other: {other} {area_by_method[get_score_name(other)]:.3f}, ${near[other]:,.2f}"
            elif following:
                result += "; of the methods never refused no other is that near in recall; the next, "
                result += f"{following} {area_by_method[get_score_name(following)]:.3f}, ${known[following]:,.2f}"
            met = OURS in near and (not other or near[OURS] <= near[other])
            yield _judge(where, goal, result, is_met=met)


def _judge_speed(speed: Speed | None) -> Iterator[YardstickGoal]:
    at = get_compared_length(speed) if speed is not None else COMPARISON_LENGTH
    goal = f"at least {MIN_SPEEDUP} x below the median peer"
    ratios = compute_speedups(speed) if speed is not None else {}
    if speed is None or not ratios:
        yield _leave_open(f"overhead per turn at {at:,} messages", goal)
    else:
        middle = f"median peer {format_seconds(compute_peer_median(speed))}"
        for (method, way), ratio in ratios.items():
            what = f"overhead per turn at {at:,} messages: {method}, given by `{way}`"
            yield _judge(what, goal, f"{ratio:,.3g} x ({middle})", is_met=ratio >= MIN_SPEEDUP)
    what, goal = "what calls wait for a compaction, summary in the background", f"under {format_seconds(MAX_WAIT)}"
    waits = [b for b in (speed.blocked if speed is not None else ()) if b.summary == BACKGROUND and b.compactions]
    if not waits:
        yield _leave_open(what, goal)
    for one in waits:
        result = f"{format_seconds(one.median)}, the longest {format_seconds(one.most)}, {one.compactions} compactions"
        yield _judge(what, goal, result, is_met=one.most < MAX_WAIT)


def _judge_search(scores: Sequence[EvidenceHits]) -> YardstickGoal:
    what, goal = f"search, recall at {DEPTHS[-1]}", "above plain BM25 with stemming in the same run"
    found = compute_search_recall(scores)
    own, others = found.get(OURS), [share for name, share in found.items() if name != OURS]
    if own is None or not others:
        return _leave_open(what, goal)
    return _judge(what, goal, f"{own:.3f}; BM25 {max(others):.3f}", is_met=own > max(others))


def compute_search_recall(scores: Sequence[EvidenceHits], depth: int = len(DEPTHS) - 1) -> dict[str, float]:
    """Returns, for each search, its mean recall over all questions.

    The recall of a question is the share found of the evidence that this many hits can hold.
    """
    out: dict[str, float] = {}
    for name in dict.fromkeys(one.method for one in scores):
        own = [one for one in scores if one.method == name]
        out[name] = sum(one.found[depth] / min(DEPTHS[depth], one.evidence) for one in own) / len(own)
    return out
