"""The figures by method that charts, goals and sentences share, computed from a `Yardstick` alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from tenfold.evals.methods import BASELINES
from tenfold.evals.players import BY_HAND, WRITTEN
from tenfold.evals.probes.planted import PLACES
from tenfold.evals.replay import Replayed, Replays, able, no_result
from tenfold.evals.report import (
    OURS,
    REAL,
    Probed,
    Quality,
    area_of,
    by_method,
    in_area,
    measured,
    planted_in,
    pooled,
    present,
)
from tenfold.evals.speed import Speed
from tenfold.evals.tables import Table

Group = Literal["tenfold", "preset", "peer", "baseline", "real"]
_SAME = {"none": "keep-all"}
"""Methods that have another name in a replay than where their recall is scored."""


def group_of(name: str) -> Group:
    """Returns a method's group: Tenfold's own policy, another preset, another project, a baseline, a real summary."""
    if name.removesuffix(WRITTEN) == OURS:
        return "tenfold"
    if "/" in name:
        return "peer"
    if name in BASELINES or name in BY_HAND:
        return "baseline"
    return "real" if name == REAL else "preset"


def areas(made: Quality) -> dict[str, float]:
    """Returns the area over the budgets of each method that could run, best first."""
    found = {name: scores for name, scores in by_method(in_area(made)).items() if measured(scores)}
    area_by_method = {name: area_of(scores, present) for name, scores in found.items()}
    return dict(sorted(area_by_method.items(), key=lambda item: (-item[1], item[0])))


def at_real_size(made: Quality) -> dict[str, float]:
    """Returns each method's pooled score at the size of the summaries that models really wrote, best first."""
    own = by_method(r for r in made.recall if r.own)
    share_by_method = {name: pooled(scores, present) for name, scores in own.items() if measured(scores)}
    return dict(sorted(share_by_method.items(), key=lambda item: (-item[1], item[0])))


def probe_shares(
    probes: Iterable[Probed], kinds: Sequence[str], *, rounds: int, tenth: bool = True
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


def planted_shares(probes: Iterable[Probed], *, rounds: int) -> dict[str, dict[str, tuple[int, int]]]:
    """Returns, for each method and place, how many planted rules its views at a tenth hold, and how many there were.

    Missing results count as in `count_probes`. The result is empty if no rules were planted.
    """
    found = by_method(p for p in probes if p.tenth and p.rounds == rounds)
    return {
        name: {place: planted_in(own, place) for place, _ in PLACES}
        for name, own in found.items()
        if any(p.planted for p in own)
    }


def whole(made: Replays, window: int) -> dict[str, list[Replayed]]:
    """Returns what each method played in this window, for the methods that could run and played every session."""
    played = [one for one in able(made) if one.window == window]
    sessions = {one.session for one in played}
    return {name: own for name, own in _by_method(played).items() if {one.session for one in own} == sessions}


def bills(made: Replays, window: int) -> dict[str, dict[str, float]]:
    """Returns, for each price list, the cost of all sessions together with each method, in US dollars, cheapest first.

    Only methods that played every session are compared.
    """
    return {
        prices.model: dict(sorted(_costs(whole(made, window), index).items(), key=lambda item: (item[1], item[0])))
        for index, prices in enumerate(made.prices)
    }


def _costs(played: Mapping[str, Sequence[Replayed]], index: int) -> dict[str, float]:
    return {name: sum(one.bills[index].total for one in own) for name, own in played.items()}


def _by_method(played: Iterable[Replayed]) -> dict[str, list[Replayed]]:
    out: dict[str, list[Replayed]] = {}
    for one in played:
        out.setdefault(one.method, []).append(one)
    return out


def overflowing(made: Replays, window: int) -> set[str]:
    """Returns the methods that sent a request larger than the window, which a provider would refuse."""
    return {one.method for one in able(made) if one.window == window and one.overflows}


def cached(played: Sequence[Replayed]) -> float:
    """Returns the share of all input that came from the cache."""
    return sum(one.read for one in played) / max(1, sum(one.sent for one in played))


def amount(seconds: float) -> str:
    """Formats a time in the unit that shows it best."""
    for unit, scale in (("s", 1.0), ("ms", 1e3)):
        if seconds * scale >= 1:
            return f"{seconds * scale:,.3g} {unit}"
    return f"{seconds * 1e6:,.3g} us"


def per_turn(made: Speed, messages: int) -> dict[str, float]:
    """Returns the seconds of a turn by method at a length of history, for the way that a host would most likely use.

    Tenfold is given the whole list each time, as its peers are.
    """
    found = [t for t in made.turns if t.messages == messages and not t.unable and t.way in ("sync", "hook")]
    return {t.method: t.seconds for t in found}


def windows(made: Replays) -> list[int]:
    """Returns the windows that were played, smallest first."""
    return sorted({one.window for one in made.played})


def longest(made: Replays, window: int) -> list[list[Replayed]]:
    """Returns the sessions that fill this window, so that some method overflows it.

    The one with most requests comes first.
    """
    sessions: dict[str, list[Replayed]] = {}
    for one in able(made):
        if one.window == window:
            sessions.setdefault(one.session, []).append(one)
    full = [played for played in sessions.values() if any(one.overflows for one in played)]
    return sorted(full, key=lambda played: (-max(one.requests for one in played), played[0].session))


def scored_as(name: str) -> str:
    """Returns the name under which the recall of a replay's method is scored."""
    return _SAME.get(name, name)


def played_as(name: str) -> str:
    """Returns the name that a scored method has in a replay."""
    return next((played for played, scored in _SAME.items() if scored == name), name)


def together(made: Replays, rated: Mapping[str, float]) -> list[Table]:
    """Returns, for each window, the cost of all sessions with each method that played them all, best recall first.

    A second table does the same for only the sessions that fill the window.
    """
    out = []
    for window in windows(made):
        played = whole(made, window)
        sessions = len({one.session for own in played.values() for one in own})
        out.append(_sums(made, rated, played, f"All {sessions} sessions together, window {window:,}"))
        full = {own[0].session for own in longest(made, window)}
        reached = {name: [one for one in own if one.session in full] for name, own in played.items()}
        if full and len(full) < sessions:
            title = f"The {len(full)} sessions that reach the window of {window:,}"
            out.append(_sums(made, rated, reached, title))
    return [table for table in out if table.rows]


def _sums(made: Replays, rated: Mapping[str, float], played: Mapping[str, Sequence[Replayed]], title: str) -> Table:
    costs = [_costs(played, index) for index in range(len(made.prices))]
    rows: list[tuple[str, ...]] = []
    cheapest_first = sorted(played, key=lambda n: ([each[n] for each in costs[:1]], n))
    for name in sorted(cheapest_first, key=lambda n: -rated.get(scored_as(n), -1.0)):
        own, score = played[name], rated.get(scored_as(name))
        rows.append(
            (
                name,
                "-" if score is None else f"{score:.3f}",
                *(f"${each[name]:,.2f}" for each in costs),
                f"{max(one.peak for one in own):,}",
                f"{sum(one.overflows for one in own):,}",
                no_result(own),
                f"{sum(one.compactions for one in own):,}",
                f"{cached(own):.1%}",
                f"{sum(one.rewritten for one in own) / 1e6:.2f}M",
                amount(sum(one.blocked for one in own)),
                amount(max(one.longest for one in own)),
            )
        )
    lists = (f"bill, {prices.model.rpartition(':')[2]}" for prices in made.prices)
    columns = ("method", "recall", *lists, "peak", "over", "no result", "compactions", "cached", "rewritten", "blocked")
    note = (
        "recall: area of future-use recall, where the method was scored; over: requests larger than the window; "
        "no result: of the times the method was asked; compactions: requests that do not begin with all of the one "
        "before; blocked, longest: model calls apart; a session reaches the window where a method sent more than it"
    )
    return Table(title, (*columns, "longest"), rows, note)
