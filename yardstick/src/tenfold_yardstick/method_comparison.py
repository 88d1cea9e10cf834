"""The figures by method that charts, goals and sentences share, computed from a `Yardstick` alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

from tenfold.testing.methods import BASELINES
from tenfold.testing.probes.planted_rules import PLACES
from tenfold_yardstick.future_recall import RecallScore
from tenfold_yardstick.methods import CONTROLS
from tenfold_yardstick.peers import NAMES_SUFFIX
from tenfold_yardstick.players import MANUAL_PLAYERS, MODEL_SUFFIX
from tenfold_yardstick.quality_report import OURS, REAL_SUMMARY, count_planted
from tenfold_yardstick.replay import Replays, SessionReplay, build_cost_table, select_able
from tenfold_yardstick.scores import (
    FactCounter,
    ProbeScore,
    Quality,
    compute_method_area,
    get_present,
    group_by_method,
    is_measured,
    pool_share,
    select_area_scores,
)
from tenfold_yardstick.speed import Speed
from tenfold_yardstick.tables import Table

MethodGroup = Literal["tenfold", "preset", "peer", "baseline", "real", "control"]
_SCORE_NAMES = {"none": "keep-all"}
"""Methods that have another name in a replay than where their recall is scored."""


def get_group(name: str) -> MethodGroup:
    """Returns the group of a method: whose it is, or that it is a baseline, a recorded summary or a control."""
    if name in CONTROLS:
        return "control"
    if name.removesuffix(MODEL_SUFFIX) == OURS:
        return "tenfold"
    if "/" in name or ":" in name:  # another project's, or a function of the user's own
        return "peer"
    if name in BASELINES or name in MANUAL_PLAYERS:
        return "baseline"
    return "real" if name == REAL_SUMMARY else "preset"


AreaFunction = Callable[[Sequence[RecallScore], FactCounter], float]


def compute_areas(quality: Quality, compute: AreaFunction = compute_method_area) -> dict[str, float]:
    """Returns the area over the budgets of each method that could run, best first. Controls are no methods."""
    found = {
        name: compute(scores, get_present)
        for name, scores in group_by_method(select_area_scores(quality)).items()
        if is_measured(scores) and name not in CONTROLS
    }
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def find_place(areas: Mapping[str, float]) -> tuple[int, int]:
    """Returns the place of Tenfold's own policy by these areas, and of how many methods.

    A peer that was measured with two stand-ins for its model is one method, with the better of its areas.
    """
    best: dict[str, float] = {}
    for name, area in areas.items():
        plain = name.removesuffix(NAMES_SUFFIX)
        best[plain] = max(area, best.get(plain, 0.0))
    return 1 + sum(area > best[OURS] for area in best.values()), len(best)


def compute_real_size_shares(quality: Quality) -> dict[str, float]:
    """Returns each method's pooled score at the size of the summaries that models really wrote, best first."""
    own = group_by_method(r for r in quality.recall if r.own)
    share_by_method = {name: pool_share(scores, get_present) for name, scores in own.items() if is_measured(scores)}
    return dict(sorted(share_by_method.items(), key=lambda item: (-item[1], item[0])))


def count_probes(
    probes: Iterable[ProbeScore], kinds: Sequence[str], *, rounds: int, tenth: bool = True
) -> dict[str, tuple[int, int]]:
    """Returns, for each method, how many probes of these kinds its views still answer, and how many were asked.

    Where a method gave no result, all count as missed. A method that never gave one is left out.
    """
    out: dict[str, tuple[int, int]] = {}
    able: set[str] = set()
    for one in probes:
        if one.rounds == rounds and one.tenth == tenth and not one.own:
            have, asked = out.get(one.method, (0, 0))
            found = [tally for tally in one.tallies if tally.kind in kinds]
            out[one.method] = have + sum(t.present for t in found), asked + sum(t.asked for t in found)
            able |= {one.method} if not one.unable else set()
    return {name: counts for name, counts in out.items() if name in able and counts[1]}


def count_planted_rules(probes: Iterable[ProbeScore], *, rounds: int) -> dict[str, dict[str, tuple[int, int]]]:
    """Returns, for each method and place, how many planted rules its views at a tenth hold, and how many there were.

    Missing results count as in `count_probes`. The result is empty if no rules were planted.
    """
    found = group_by_method(p for p in probes if p.tenth and p.rounds == rounds)
    return {
        name: {place: count_planted(own, place) for place, _ in PLACES}
        for name, own in found.items()
        if any(p.planted for p in own)
    }


def select_complete(replays: Replays, window: int) -> dict[str, list[SessionReplay]]:
    """Returns what each method played in this window, for the methods that could run and played every session."""
    played = [one for one in select_able(replays) if one.window == window]
    sessions = {one.session for one in played}
    return {name: own for name, own in _group_by_method(played).items() if {one.session for one in own} == sessions}


def compute_bills(replays: Replays, window: int) -> dict[str, dict[str, float]]:
    """Returns, for each price list, the cost of all sessions together with each method, in US dollars, cheapest first.

    Only methods that played every session are compared.
    """
    return {
        prices.model: dict(
            sorted(_sum_bills(select_complete(replays, window), index).items(), key=lambda item: (item[1], item[0]))
        )
        for index, prices in enumerate(replays.prices)
    }


def _sum_bills(replays: Mapping[str, Sequence[SessionReplay]], index: int) -> dict[str, float]:
    return {name: sum(one.bills[index].total for one in own) for name, own in replays.items()}


def _group_by_method(replays: Iterable[SessionReplay]) -> dict[str, list[SessionReplay]]:
    out: dict[str, list[SessionReplay]] = {}
    for one in replays:
        out.setdefault(one.method, []).append(one)
    return out


def find_overflowing(replays: Replays, window: int) -> set[str]:
    """Returns the methods that sent a request larger than the window, which a provider would refuse."""
    return {one.method for one in select_able(replays) if one.window == window and one.overflows}


def get_turn_seconds(speed: Speed, messages: int) -> dict[str, float]:
    """Returns the seconds of a turn by method at a length of history, for the way that a host would most likely use.

    Tenfold is given the whole list each time, as its peers are.
    """
    found = [t for t in speed.turns if t.messages == messages and not t.unable and t.way in ("sync", "hook")]
    return {t.method: t.seconds for t in found}


def list_windows(replays: Replays) -> list[int]:
    """Returns the windows that were played, smallest first."""
    return sorted({one.window for one in replays.played})


def find_longest_sessions(replays: Replays, window: int) -> list[list[SessionReplay]]:
    """Returns the sessions that fill this window, so that some method overflows it.

    The one with most requests comes first.
    """
    sessions: dict[str, list[SessionReplay]] = {}
    for one in select_able(replays):
        if one.window == window:
            sessions.setdefault(one.session, []).append(one)
    full = [played for played in sessions.values() if any(one.overflows for one in played)]
    return sorted(full, key=lambda played: (-max(one.requests for one in played), played[0].session))


def get_score_name(name: str) -> str:
    """Returns the name under which the recall of a replay's method is scored."""
    return _SCORE_NAMES.get(name, name)


def get_replay_name(name: str) -> str:
    """Returns the name that a scored method has in a replay."""
    return next((played for played, scored in _SCORE_NAMES.items() if scored == name), name)


def build_total_tables(replays: Replays, areas: Mapping[str, float]) -> list[Table]:
    """Returns, for each window, the cost of all sessions with each method that played them all, best recall first.

    A second table does the same for only the sessions that fill the window.
    """
    out = []
    for window in list_windows(replays):
        played = select_complete(replays, window)
        sessions = len({one.session for own in played.values() for one in own})
        titles = {f"All {sessions} sessions together, window {window:,}": played}
        full = {own[0].session for own in find_longest_sessions(replays, window)}
        if full and len(full) < sessions:
            title = f"The {len(full)} sessions that reach the window of {window:,}"
            titles[title] = {name: [one for one in own if one.session in full] for name, own in played.items()}
        for title, own in titles.items():
            bills = {name: [each.bills[0].total for each in one if each.bills] for name, one in own.items()}
            scores = {name: areas[get_score_name(name)] for name in own if get_score_name(name) in areas}
            names = sorted(own, key=lambda n: (-scores.get(n, -1.0), sum(bills[n]), n))
            out.append(build_cost_table(replays, {name: own[name] for name in names}, title, scores))
    return [table for table in out if table.rows]
