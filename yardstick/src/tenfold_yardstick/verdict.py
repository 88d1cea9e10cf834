"""Says whether Tenfold is first, by how much, and where it is not: sentences and a table, from a `Yardstick` alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tenfold.testing.probes.kinds import PROBE_KINDS
from tenfold.testing.probes.planted_rules import PLACES
from tenfold_yardstick.future_recall import QUARTERS
from tenfold_yardstick.goals import compute_search_recall
from tenfold_yardstick.intervals import CONFIDENCE
from tenfold_yardstick.method_comparison import (
    compute_areas,
    compute_bills,
    compute_real_size_shares,
    count_planted_rules,
    count_probes,
    find_overflowing,
    find_place,
    get_group,
    get_turn_seconds,
    list_windows,
    select_complete,
)
from tenfold_yardstick.methods import CONTROLS
from tenfold_yardstick.peers import NAMES_SUFFIX
from tenfold_yardstick.quality_report import OURS, Yardstick, compute_lead
from tenfold_yardstick.question_search import DEPTHS
from tenfold_yardstick.replay import Replays, SessionReplay, compute_cached_share
from tenfold_yardstick.scores import (
    Quality,
    average_area,
    average_refetch,
    compute_method_area,
    get_area_budgets,
    get_file,
    get_present,
    group_by_method,
    is_measured,
    is_unsent,
    pool_share,
    select_area_scores,
    select_plain,
)
from tenfold_yardstick.speed import Speed
from tenfold_yardstick.tables import Table

_K = 1_000
_DOLLARS, _SHARE, _PERCENT, _COUNT = "${:,.2f}", "{:.3f}", "{:.1%}", "{:,.0f}"
_WEAKNESS = "Future-use recall counts words that are left, and does not show whether anybody could go on from them"
_NAME_LIST = "name-list"
_BEHIND_TITLE = "Where another method is better"
_FAIRNESS_NOTE = (
    " In replays it is compared only with methods that played every session and sent no request larger than the window:"
    " a method that never compacts never waits, and rewrites nothing."
)


class MethodRanking(NamedTuple):
    """One measure of every method that it could be taken of. `template` formats a value."""

    measure: str
    values: dict[str, float]
    template: str = _SHARE
    is_lower_better: bool = False

    def find_better(self) -> list[str]:
        """Returns the methods that are better than Tenfold's own policy by their formatted values, best first."""
        own = self.values.get(OURS)
        if own is None:
            return []
        sign = 1 if self.is_lower_better else -1
        found = [n for n, v in self.values.items() if sign * v < sign * own and self._format(v) != self._format(own)]
        return sorted(found, key=lambda n: (sign * self.values[n], n))

    def _format(self, value: float) -> str:
        return self.template.format(value)

    def format_value(self, name: str) -> str:
        """Returns a method's formatted value."""
        return self._format(self.values[name])


def write_verdict(yardstick: Yardstick) -> list[str]:
    """Returns the answer in a few sentences, or none if recall was not measured for Tenfold's own policy."""
    if yardstick.quality is None or OURS not in compute_areas(yardstick.quality):
        return []
    area_by_method = compute_areas(yardstick.quality)
    place, methods = find_place(area_by_method)
    cuts = len({(r.session, r.cut) for r in select_area_scores(yardstick.quality)})
    sessions = len({r.session for r in select_area_scores(yardstick.quality)})
    first = "is first" if place == 1 else f"is number {place}"
    sentences = [
        _WEAKNESS + _describe_names(yardstick.quality),
        (
            f"By this count, Tenfold's policy `{OURS}` {first} of {methods} methods: an area of "
            f"{area_by_method[OURS]:.3f} over {_format_count(cuts, 'cut')} of {_format_count(sessions, 'session')}."
        ),
        *_describe_file_mean(yardstick.quality),
        *_describe_standins(area_by_method),
    ]
    for group, title in (("peer", "the best of the other projects"), ("baseline", "the best of the simple baselines")):
        best = next((name for name in area_by_method if get_group(name) == group), None)
        if best is not None:
            sentences.append(_describe_lead(yardstick.quality, best, title))
    better = [
        name for name in area_by_method if get_group(name) == "preset" and area_by_method[name] > area_by_method[OURS]
    ]
    if better:
        sentences.append(f"Of Tenfold's other presets, {_join_names(better)} scored higher.")
    others = [one for one in list_rankings(yardstick) if any(get_group(n) == "peer" for n in one.find_better())]
    counted = sum(1 for one in list_rankings(yardstick) if any(get_group(n) == "peer" for n in one.values))
    if counted:
        sentences.append(
            f"Other projects can be compared with `{OURS}` in {_format_count(counted, 'measure')}. In {len(others)} of "
            f'them at least one is better: the table "{_BEHIND_TITLE}" lists them.'
        )
    return sentences


def _describe_names(quality: Quality) -> str:
    """Says how a bare list of names does by the count, if it was measured."""
    scores = group_by_method(select_area_scores(quality))
    own, names = (scores.get(name, []) for name in (OURS, _NAME_LIST))
    if not names:
        return "."
    shares = {
        budget: [pool_share([r for r in each if r.budget == budget], get_present) for each in (own, names)]
        for budget in get_area_budgets(quality)
    }
    above = [f"{budget / _K:g}k" for budget, (ours, listed) in shares.items() if listed > ours]
    area = compute_method_area(names, get_present)
    return (
        f": a bare list of names has {area:.3f}" + f", and more than `{OURS}` at {', '.join(above)}" * bool(above) + "."
    )


def _describe_file_mean(quality: Quality) -> list[str]:
    """Says how Tenfold does where each file weighs the same, if there are several."""
    files: dict[str, set[str]] = {}
    for score in select_area_scores(quality):
        files.setdefault(get_file(score.session), set()).add(score.session)
    if len(files) < 2:
        return []
    areas = compute_areas(quality, average_area)
    place, _ = find_place(areas)
    largest = max(files, key=lambda file: len(files[file]))
    where = "first" if place == 1 else f"number {place}"
    most = _format_count(len(files[largest]), "session")
    return [
        (
            f"Where each of the {len(files)} files weighs the same, so that the {most} of `{largest}` do not decide, "
            f"it is {where} with {areas[OURS]:.3f}."
        )
    ]


def _describe_standins(areas: Mapping[str, float]) -> list[str]:
    """Says how far the stand-in for a model moves the other projects, if two were measured."""
    moved = {n: areas[n + NAMES_SUFFIX] - areas[n] for n in areas if n + NAMES_SUFFIX in areas}
    if not moved:
        return []
    most = max(moved, key=lambda name: abs(moved[name]))
    return [
        (
            f"The stand-in that replaces a model in the other projects moves them by up to {abs(moved[most]):.3f} "
            f"(`{most}`, {areas[most]:.3f} or {areas[most + NAMES_SUFFIX]:.3f}); each has the place of its better area."
        )
    ]


def _describe_lead(quality: Quality, best: str, title: str) -> str:
    """Says by how much Tenfold leads, and how sure that is."""
    found = compute_lead(quality, (best,))
    if found is None:
        return f"The best of them is {title}, `{best}`; too few sessions say by how much."
    margin = found.margin
    way = "above" if margin.value > 0 else "below"
    return (
        f"`{OURS}` is {abs(margin.value):.3f} {way} {title}, `{best}` ({100 * CONFIDENCE:.0f} % interval of the "
        f"difference {margin.low:+.3f} to {margin.high:+.3f}, sessions resampled)."
    )


def build_behind_table(yardstick: Yardstick) -> Table:
    """Returns every measure in which a method beats Tenfold's own policy, the best one, and how many do."""
    rows: list[tuple[str, ...]] = []
    total = 0
    for one in list_rankings(yardstick):
        total += 1
        ahead = one.find_better()
        if ahead:
            peer = next((n for n in ahead if get_group(n) == "peer"), None)
            other = f"{peer} {one.format_value(peer)}" if peer else "-"
            rows.append(
                (
                    one.measure,
                    one.format_value(OURS),
                    f"{ahead[0]} {one.format_value(ahead[0])}",
                    other,
                    f"{len(ahead)}",
                )
            )
    columns = ("measure", OURS, "best", "best other project, where better", "methods ahead")
    note = f"{len(rows)} of {total} measures. In the others `{OURS}` is first, or level with the first."
    note += _FAIRNESS_NOTE if yardstick.replay is not None else ""
    return Table(_BEHIND_TITLE, columns, rows, note)


def list_rankings(yardstick: Yardstick) -> Iterator[MethodRanking]:
    """Yields every measure by which methods can be ordered and that was taken of Tenfold's own policy."""
    found = [
        *(_rank_by_recall(yardstick.quality) if yardstick.quality is not None else ()),
        *(_rank_by_probes(yardstick.quality) if yardstick.quality is not None else ()),
        *(_rank_by_replays(yardstick.replay) if yardstick.replay is not None else ()),
        *(_rank_by_turns(yardstick.speed) if yardstick.speed is not None else ()),
        *(
            MethodRanking(f"search, recall at {depth}", compute_search_recall(yardstick.search, i))
            for i, depth in enumerate(DEPTHS)
            if yardstick.search
        ),
    ]
    for one in found:
        values = {name: value for name, value in one.values.items() if name not in CONTROLS}
        if OURS in values and len(values) > 1:
            yield one._replace(values=values)


def _rank_by_recall(quality: Quality) -> Iterator[MethodRanking]:
    scores = {name: found for name, found in group_by_method(select_area_scores(quality)).items() if is_measured(found)}
    yield MethodRanking("future-use recall, area", compute_areas(quality))
    for budget in get_area_budgets(quality):
        at = {n: pool_share([r for r in found if r.budget == budget], get_present) for n, found in scores.items()}
        yield MethodRanking(f"future-use recall at {budget / _K:g}k", at)
    everywhere = {name: found for name, found in group_by_method(select_plain(quality)).items() if is_measured(found)}
    lost = {name: sum(map(is_unsent, found)) / len(found) for name, found in everywhere.items()}
    yield MethodRanking("results over budget or unable", lost, _PERCENT, is_lower_better=True)
    missed = {name: average_refetch(found) for name, found in everywhere.items() if not any(r.unable for r in found)}
    yield MethodRanking("price of a miss, tokens", missed, _COUNT, is_lower_better=True)
    for quarter in range(1, QUARTERS + 1):
        shares: dict[str, float] = {}
        for name, found in everywhere.items():
            pairs = [r.quarters.get(str(quarter), (0, 0)) for r in found]
            if wanted := sum(of for _, of in pairs):
                shares[name] = sum(have for have, _ in pairs) / wanted
        yield MethodRanking(f"future-use recall, age quarter {quarter} (1 is the oldest)", shares)
    yield MethodRanking("future-use recall at the size of real summaries", compute_real_size_shares(quality))
    for rounds in quality.rounds:
        after = f", after {rounds} compactions" if rounds != quality.rounds[0] else ""
        again = group_by_method(r for r in quality.recall if r.tenth and r.rounds == rounds)
        share_by_method = {n: pool_share(found, get_present) for n, found in again.items() if is_measured(found)}
        yield MethodRanking(f"future-use recall at 10 %{after}", share_by_method)


def _rank_by_probes(quality: Quality) -> Iterator[MethodRanking]:
    for rounds in (quality.rounds[0], quality.rounds[-1])[: len(quality.rounds)]:
        after = f", after {rounds} compactions" if rounds != quality.rounds[0] else ""
        for kind in PROBE_KINDS:
            found = count_probes(quality.probes, [kind], rounds=rounds)
            yield MethodRanking(
                f"probes at 10 %{after}: {kind}", {n: have / asked for n, (have, asked) in found.items()}
            )
        rules = count_planted_rules(quality.probes, rounds=rounds)
        for place, _ in PLACES:
            shares = {name: own[place][0] / own[place][1] for name, own in rules.items()}
            yield MethodRanking(f"planted constraints at 10 %{after}: {place}", shares)


_REPLAY_MEASURES: tuple[tuple[str, Callable[[Sequence[SessionReplay]], float], str, bool], ...] = (
    ("time blocked in all", lambda own: sum(one.blocked for one in own), "{:,.3f} s", True),
    ("longest block", lambda own: max(one.longest for one in own), "{:,.3f} s", True),
    ("tokens rewritten", lambda own: sum(one.rewritten for one in own), _COUNT, True),
    ("cached share", compute_cached_share, _PERCENT, False),
    ("compactions", lambda own: sum(one.compactions for one in own), _COUNT, True),
    ("peak", lambda own: max(one.peak for one in own), _COUNT, True),
)
"""The measures over all sessions of a replay together: name, function, template, and whether lower is better."""


def _rank_by_replays(replays: Replays) -> Iterator[MethodRanking]:
    for window in list_windows(replays):
        refused = find_overflowing(replays, window) - {OURS}
        where = f"replays, window {window:,}"
        for model, costs in compute_bills(replays, window).items():
            sent = {name: dollars for name, dollars in costs.items() if name not in refused}
            what = f"bill of the {where}, {model.rpartition(':')[2]} (recall not regarded)"
            yield MethodRanking(what, sent, _DOLLARS, is_lower_better=True)
        played = {name: own for name, own in select_complete(replays, window).items() if name not in refused}
        for what, value, form, less in _REPLAY_MEASURES:
            yield MethodRanking(f"{where}: {what}", {name: value(own) for name, own in played.items()}, form, less)


def _rank_by_turns(speed: Speed) -> Iterator[MethodRanking]:
    for messages in sorted({t.messages for t in speed.turns if t.way == "hook"}):
        found = {name: 1_000 * seconds for name, seconds in get_turn_seconds(speed, messages).items()}
        yield MethodRanking(
            f"a turn at {messages:,} messages, the whole list given", found, "{:,.3g} ms", is_lower_better=True
        )


def _format_count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"


def _join_names(names: list[str]) -> str:
    quoted = [f"`{name}`" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"
