"""Says whether Tenfold is first, by how much, and where it is not: sentences and a table, from a `Yardstick` alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tenfold.evals.future import QUARTERS
from tenfold.evals.goals import search_recall
from tenfold.evals.intervals import LEVEL
from tenfold.evals.probes.kinds import KINDS
from tenfold.evals.probes.planted import PLACES
from tenfold.evals.replay import Replayed, Replays
from tenfold.evals.report import (
    OURS,
    Quality,
    Yardstick,
    area_budgets,
    by_method,
    in_area,
    lead,
    measured,
    plain,
    pooled,
    present,
    refetch,
    unsent,
)
from tenfold.evals.searching import DEPTHS
from tenfold.evals.speed import Speed
from tenfold.evals.standing import (
    areas,
    at_real_size,
    bills,
    cached,
    group_of,
    overflowing,
    per_turn,
    planted_shares,
    probe_shares,
    whole,
    windows,
)
from tenfold.evals.tables import Table

_K = 1_000
_DOLLARS, _SHARE, _PERCENT, _COUNT = "${:,.2f}", "{:.3f}", "{:.1%}", "{:,.0f}"
_BEHIND = "Where another method is better"
_FAIR = (
    "; replays: held only against methods that played every session and sent no request larger than the window, since "
    "who never compacts never waits and rewrites nothing"
)


class Standing(NamedTuple):
    """One measure of every method that it could be taken of. `template` formats a value."""

    what: str
    values: dict[str, float]
    form: str = _SHARE
    less: bool = False

    def ahead(self) -> list[str]:
        """Returns the methods that are better than Tenfold's own policy by their formatted values, best first."""
        own = self.values.get(OURS)
        if own is None:
            return []
        sign = 1 if self.less else -1
        found = [n for n, v in self.values.items() if sign * v < sign * own and self._text(v) != self._text(own)]
        return sorted(found, key=lambda n: (sign * self.values[n], n))

    def _text(self, value: float) -> str:
        return self.form.format(value)

    def shown(self, name: str) -> str:
        """Returns a method's formatted value."""
        return self._text(self.values[name])


def verdict(made: Yardstick) -> list[str]:
    """Returns the answer in a few sentences, or none if recall was not measured for Tenfold's own policy."""
    if made.quality is None or OURS not in areas(made.quality):
        return []
    area_by_method = areas(made.quality)
    place = list(area_by_method).index(OURS) + 1
    cuts = len({(r.session, r.cut) for r in in_area(made.quality)})
    sessions = len({r.session for r in in_area(made.quality)})
    first = "is first" if place == 1 else f"is number {place}"
    opening = (
        f"By future-use recall, Tenfold's policy `{OURS}` {first} of {len(area_by_method)} methods: an area of "
        f"{area_by_method[OURS]:.3f} over {_many(cuts, 'cut')} of {_many(sessions, 'session')}."
    )
    sentences = [opening]
    for group, title in (("peer", "the best of the other projects"), ("baseline", "the best of the simple baselines")):
        best = next((name for name in area_by_method if group_of(name) == group), None)
        if best is not None:
            sentences.append(_lead(made.quality, best, title))
    better = [
        name for name in area_by_method if group_of(name) == "preset" and area_by_method[name] > area_by_method[OURS]
    ]
    if better:
        sentences.append(f"Of Tenfold's other presets, {_listed(better)} scored higher.")
    others = [one for one in standings(made) if any(group_of(n) == "peer" for n in one.ahead())]
    counted = sum(1 for one in standings(made) if any(group_of(n) == "peer" for n in one.values))
    if counted:
        sentences.append(
            f"Other projects could be held against `{OURS}` in {_many(counted, 'measure')}; in {len(others)} of these "
            f'at least one of them was better: the table "{_BEHIND}" says which.'
        )
    return sentences


def _lead(made: Quality, best: str, title: str) -> str:
    """Says by how much Tenfold leads, and how sure that is."""
    found = lead(made, (best,))
    assert found is not None
    margin = found.by
    way = "above" if margin.value > 0 else "below"
    return (
        f"That is {abs(margin.value):.3f} {way} {title}, `{best}` ({100 * LEVEL:.0f} % interval of the difference "
        f"{margin.low:+.3f} to {margin.high:+.3f}, sessions resampled)."
    )


def behind(made: Yardstick) -> Table:
    """Returns every measure in which a method beats Tenfold's own policy, the best one, and how many do."""
    rows: list[tuple[str, ...]] = []
    total = 0
    for one in standings(made):
        total += 1
        ahead = one.ahead()
        if ahead:
            peer = next((n for n in ahead if group_of(n) == "peer"), None)
            other = f"{peer} {one.shown(peer)}" if peer else "-"
            rows.append((one.what, one.shown(OURS), f"{ahead[0]} {one.shown(ahead[0])}", other, f"{len(ahead)}"))
    columns = ("measure", OURS, "best", "best other project, where better", "methods ahead")
    note = f"{len(rows)} of {total} measures; in the others {OURS} is first or level with the first"
    note += _FAIR if made.replay is not None else ""
    return Table(_BEHIND, columns, rows, note)


def standings(made: Yardstick) -> Iterator[Standing]:
    """Yields every measure by which methods can be ordered and that was taken of Tenfold's own policy."""
    found = [
        *(_of_recall(made.quality) if made.quality is not None else ()),
        *(_of_probes(made.quality) if made.quality is not None else ()),
        *(_of_replays(made.replay) if made.replay is not None else ()),
        *(_of_turns(made.speed) if made.speed is not None else ()),
        *(
            Standing(f"search, recall at {depth}", search_recall(made.search, i))
            for i, depth in enumerate(DEPTHS)
            if made.search
        ),
    ]
    yield from (one for one in found if OURS in one.values and len(one.values) > 1)


def _of_recall(made: Quality) -> Iterator[Standing]:
    scores = {name: found for name, found in by_method(in_area(made)).items() if measured(found)}
    yield Standing("future-use recall, area", areas(made))
    for budget in area_budgets(made):
        at = {n: pooled([r for r in found if r.budget == budget], present) for n, found in scores.items()}
        yield Standing(f"future-use recall at {budget / _K:g}k", at)
    everywhere = {name: found for name, found in by_method(plain(made)).items() if measured(found)}
    lost = {name: sum(map(unsent, found)) / len(found) for name, found in everywhere.items()}
    yield Standing("results over budget or unable", lost, _PERCENT, less=True)
    missed = {name: refetch(found) for name, found in everywhere.items() if not any(r.unable for r in found)}
    yield Standing("price of a miss, tokens", missed, _COUNT, less=True)
    for quarter in range(1, QUARTERS + 1):
        shares: dict[str, float] = {}
        for name, found in everywhere.items():
            pairs = [r.quarters.get(str(quarter), (0, 0)) for r in found]
            if wanted := sum(of for _, of in pairs):
                shares[name] = sum(have for have, _ in pairs) / wanted
        yield Standing(f"future-use recall, age quarter {quarter} (1 is the oldest)", shares)
    yield Standing("future-use recall at the size of real summaries", at_real_size(made))
    for rounds in made.rounds:
        after = f", after {rounds} compactions" if rounds != made.rounds[0] else ""
        again = by_method(r for r in made.recall if r.tenth and r.rounds == rounds)
        share_by_method = {n: pooled(found, present) for n, found in again.items() if measured(found)}
        yield Standing(f"future-use recall at 10 %{after}", share_by_method)


def _of_probes(made: Quality) -> Iterator[Standing]:
    for rounds in (made.rounds[0], made.rounds[-1])[: len(made.rounds)]:
        after = f", after {rounds} compactions" if rounds != made.rounds[0] else ""
        for kind in KINDS:
            found = probe_shares(made.probes, [kind], rounds=rounds)
            yield Standing(f"probes at 10 %{after}: {kind}", {n: have / asked for n, (have, asked) in found.items()})
        rules = planted_shares(made.probes, rounds=rounds)
        for place, _ in PLACES:
            shares = {name: own[place][0] / own[place][1] for name, own in rules.items()}
            yield Standing(f"planted constraints at 10 %{after}: {place}", shares)


_REPLAYED: tuple[tuple[str, Callable[[Sequence[Replayed]], float], str, bool], ...] = (
    ("time blocked in all", lambda own: sum(one.blocked for one in own), "{:,.3f} s", True),
    ("longest block", lambda own: max(one.longest for one in own), "{:,.3f} s", True),
    ("tokens rewritten", lambda own: sum(one.rewritten for one in own), _COUNT, True),
    ("cached share", cached, _PERCENT, False),
    ("compactions", lambda own: sum(one.compactions for one in own), _COUNT, True),
    ("peak", lambda own: max(one.peak for one in own), _COUNT, True),
)
"""The measures over all sessions of a replay together: name, function, template, and whether lower is better."""


def _of_replays(made: Replays) -> Iterator[Standing]:
    for window in windows(made):
        refused = overflowing(made, window) - {OURS}
        where = f"replays, window {window:,}"
        for model, costs in bills(made, window).items():
            sent = {name: dollars for name, dollars in costs.items() if name not in refused}
            what = f"bill of the {where}, {model.rpartition(':')[2]} (recall not regarded)"
            yield Standing(what, sent, _DOLLARS, less=True)
        played = {name: own for name, own in whole(made, window).items() if name not in refused}
        for what, value, form, less in _REPLAYED:
            yield Standing(f"{where}: {what}", {name: value(own) for name, own in played.items()}, form, less)


def _of_turns(made: Speed) -> Iterator[Standing]:
    for messages in sorted({t.messages for t in made.turns if t.way == "hook"}):
        found = {name: 1_000 * seconds for name, seconds in per_turn(made, messages).items()}
        yield Standing(f"a turn at {messages:,} messages, the whole list given", found, "{:,.3g} ms", less=True)


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def _listed(names: list[str]) -> str:
    quoted = [f"`{name}`" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"
