"""Draws the charts of the yardstick from a `Yardstick` alone. Needs matplotlib: `pip install 'tenfold[eval]'`.

No chart shows the name of a session: such names are untrusted text, and only the page around a chart can escape them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from tenfold.evals.drawing import (
    INK,
    MUTED,
    NORMAL,
    PAPER,
    PLAIN,
    SERIES,
    SMALL,
    Drawn,
    Look,
    beside,
    canvas,
    ends,
    in_thousands,
    looks,
    style,
)
from tenfold.evals.future import QUARTERS
from tenfold.evals.probes.kinds import KINDS
from tenfold.evals.replay import Replayed, Replays
from tenfold.evals.report import OURS, Quality, Yardstick, area_budgets, by_method, in_area, plain, pooled, present
from tenfold.evals.speed import Speed
from tenfold.evals.standing import areas, bills, group_of, longest, overflowing, probe_shares, scored_as, windows

_K = 1_000
_PEERS, _LINES = 4, 7
"""How many peers are highlighted, and how many methods in all."""
_PANELS = 6
_SESSIONS = 2
"""For how many sessions, in each window, the context over time is drawn."""


def figures(made: Yardstick) -> list[Drawn]:
    """Draws every chart that there is data for, in the order of the report."""
    with style():
        charts: list[Drawn | None] = []
        if made.quality is not None:
            charts += [by_tokens(made.quality), by_age(made.quality), by_type(made.quality), by_rounds(made.quality)]
        if made.replay is not None:
            charts += context(made.replay, made.quality)
            charts.append(bill_and_score(made.replay, made.quality) if made.quality is not None else None)
        charts.append(by_length(made.speed) if made.speed is not None else None)
        return [each for each in charts if each is not None]


def emphasised(made: Quality) -> list[str]:
    """Returns the methods that get a colour: our policy, the best preset, the best peer of each project, baselines.

    If no fact was needed, the methods named first count as the best.
    """
    ordered_names = [name for name, area in areas(made).items() if area] or list(made.methods)
    highlighted = [OURS] if OURS in ordered_names else []
    highlighted += [name for name in ordered_names if group_of(name) == "preset"][:1]
    projects: dict[str, str] = {}
    for name in ordered_names:
        if group_of(name) == "peer":
            projects.setdefault(name.partition("/")[0], name)
    highlighted += list(projects.values())[:_PEERS]
    highlighted += [name for name in ordered_names if group_of(name) == "baseline"][: _LINES - len(highlighted)]
    return highlighted


# -- recall ------------------------------------------------------------------------------------------------------------


def by_tokens(made: Quality) -> Drawn | None:
    """Draws future-use recall against the tokens that a method really used, with a point for each budget."""
    budgets = area_budgets(made)
    lines: dict[str, list[tuple[float, float]]] = {}
    above = []
    for name, scores in by_method(in_area(made)).items():
        if 2 * sum(r.over for r in scores) > sum(not r.unable for r in scores) > 0:
            above.append(name)
            continue
        points = []
        for budget in budgets:
            able = [r for r in scores if r.budget == budget and not r.unable]
            if able:
                tokens = sum(r.tokens for r in able) / len(able)
                points.append((tokens, pooled([r for r in scores if r.budget == budget], present)))
        if any(y for _, y in points):
            lines[name] = points
    if not lines:
        return None
    look = looks(emphasised(made))
    figure, (axes,) = canvas(9.6, 6.4)
    figure.subplots_adjust(left=0.07, right=0.72, top=0.97, bottom=0.09)
    axes.set_xscale("log")
    _lines(axes, lines, look)
    in_thousands(axes, ticks=budgets)
    axes.set_xlabel("tokens of the compacted view, mean over cuts")
    _recall_axis(axes)
    ends(axes, {name: points[-1] for name, points in lines.items()}, look, lines=38)
    says = (
        "Share of the facts that the real future needed and the compacted view still shows, against the tokens of "
        f"that view; a point for each of the budgets {', '.join(f'{b / _K:g}k' for b in budgets)}. A result above "
        "its budget scores 0."
    )
    if above:
        says += f" Not drawn, since above their budget in more than half of the cuts: {', '.join(above)}."
    return Drawn("recall-by-tokens", "Future-use recall against tokens really used", says, figure)


def by_age(made: Quality) -> Drawn | None:
    """Draws future-use recall by the quarter of the past in which a fact last occurred."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for name, scores in by_method(plain(made)).items():
        points = []
        for quarter in range(1, QUARTERS + 1):
            pairs = [r.quarters.get(str(quarter), (0, 0)) for r in scores]
            if needed := sum(of for _, of in pairs):
                points.append((float(quarter), sum(have for have, _ in pairs) / needed))
        if points and any(y for _, y in points):
            lines[name] = points
    if not lines:
        return None
    look = looks(emphasised(made))
    figure, (axes,) = canvas(9.6, 6.4)
    figure.subplots_adjust(left=0.07, right=0.72, top=0.97, bottom=0.09)
    _lines(axes, lines, look)
    axes.set_xticks(range(1, QUARTERS + 1), ["oldest quarter", "second", "third", "newest quarter"])
    axes.set_xlabel("where in the past's tokens the fact last occurred")
    _recall_axis(axes)
    ends(axes, {name: points[-1] for name, points in lines.items()}, look, lines=38)
    says = "Share of the needed facts that the view still shows, by their age, over all budgets."
    return Drawn("recall-by-age", "Future-use recall by age", says, figure)


def by_rounds(made: Quality) -> Drawn | None:
    """Draws future-use recall after several compactions, each to a tenth of the past."""
    if len(made.rounds) < 2:
        return None
    lines: dict[str, list[tuple[float, float]]] = {}
    for name, scores in by_method(r for r in made.recall if r.tenth).items():
        done = sorted({r.rounds for r in scores})
        points = [(float(n), pooled([r for r in scores if r.rounds == n], present)) for n in done]
        if any(y for _, y in points):
            lines[name] = points
    if not lines:
        return None
    look = looks(emphasised(made))
    figure, (axes,) = canvas(9.6, 6.4)
    figure.subplots_adjust(left=0.07, right=0.72, top=0.97, bottom=0.09)
    _lines(axes, lines, look)
    axes.set_xticks(list(made.rounds))
    axes.set_xlabel("compactions one after the other up to the cut, each to a tenth of the past")
    _recall_axis(axes)
    ends(axes, {name: points[-1] for name, points in lines.items()}, look, lines=38)
    says = "Share of the needed facts that the view still shows after several compactions, each to a tenth of the past."
    return Drawn("recall-by-rounds", "Future-use recall after several compactions", says, figure)


def _recall_axis(axes: Axes) -> None:
    axes.set_ylim(0, max(0.1, math.ceil(axes.get_ylim()[1] * 20) / 20))
    axes.set_ylabel("future-use recall, view alone")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.grid(visible=True, axis="y")


def _lines(axes: Axes, lines: Mapping[str, Sequence[tuple[float, float]]], look: Mapping[str, Look]) -> None:
    for name, points in lines.items():
        how = look.get(name, PLAIN)
        axes.plot(
            [x for x, _ in points],
            [y for _, y in points],
            color=how.color,
            marker=how.marker,
            linewidth=how.width,
            markersize=6 if how.strong else 3,
            zorder=how.above,
            alpha=1.0 if how.strong else 0.7,
        )


# -- probes ------------------------------------------------------------------------------------------------------------


def by_type(made: Quality) -> Drawn | None:
    """Draws the typed probes that a view at a tenth of the past still answers, a row for each type."""
    first = min(made.rounds)
    shares: dict[str, dict[str, float]] = {}
    counts: dict[str, int] = {}
    for kind in KINDS:
        found = probe_shares(made.probes, [kind], rounds=first)
        if count := max((asked for _, asked in found.values()), default=0):
            counts[kind] = count
            shares[kind] = {name: have / asked for name, (have, asked) in found.items() if asked}
    if not shares:
        return None
    names = emphasised(made)
    look = looks(names)
    figure, (axes,) = canvas(9.6, 1.4 + 0.42 * len(shares))
    figure.subplots_adjust(left=0.17, right=0.72, top=0.98, bottom=0.62 / (1.4 + 0.42 * len(shares)))
    for row, (_, found_here) in enumerate(shares.items()):
        axes.axhline(row, color=MUTED, linewidth=0.6, alpha=0.3, zorder=0)
        for name, share in found_here.items():
            how = look.get(name, PLAIN)
            size = 64 if how.above == 20 else 40 if how.strong else 12
            axes.scatter([share], [row], s=size, color=how.color, marker=how.marker, zorder=how.above)
    axes.set_yticks(range(len(shares)), [f"{kind} ({counts[kind]:,})" for kind in shares])
    axes.set_ylim(len(shares) - 0.5, -0.5)
    axes.set_xlim(-0.02, 1.02)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_xlabel("probes that the view still answers, at 10 % of the past")
    axes.tick_params(axis="y", length=0)
    _legend(axes, look)
    says = (
        "Share of typed probes that a view of a tenth of the past still answers, a row for each type with the number "
        "of probes asked; small grey dots are the other methods."
    )
    return Drawn("probes-by-type", "Typed probes at 10 % of the past", says, figure)


def _legend(axes: Axes, look: Mapping[str, Look]) -> None:
    marks = [
        axes.scatter([], [], s=64 if how.above == 20 else 40, color=how.color, marker=how.marker)
        for how in look.values()
    ]
    marks.append(axes.scatter([], [], s=12, color=MUTED, marker=PLAIN.marker))
    labels = [*look, "other methods"]
    axes.legend(marks, labels, loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=NORMAL)


# -- replay ------------------------------------------------------------------------------------------------------------


def context(made: Replays, scored: Quality | None) -> list[Drawn]:
    """Draws the size of each request in the course of a session, with a panel for each of a few methods."""
    ranked = list(areas(scored)) if scored is not None else []
    return [
        _context(played, window, ranked, number)
        for window in windows(made)
        for number, played in enumerate(longest(made, window)[:_SESSIONS], 1)
        if any(one.sizes for one in played)
    ]


def _context(played: Sequence[Replayed], window: int, ranked: Sequence[str], number: int) -> Drawn:
    names = list(_panels([one.method for one in played], ranked))
    replay_by_method = {one.method: one for one in played if one.method in names}
    figure, panels = canvas(9.6, 1.0 + 1.75 * math.ceil(len(names) / 2), rows=math.ceil(len(names) / 2), columns=2)
    figure.subplots_adjust(left=0.07, right=0.985, top=0.95, bottom=0.09, hspace=0.42, wspace=0.1)
    whole = next((one for one in played if one.method == "none"), None)
    for panel in panels[len(names) :]:
        panel.set_visible(False)
    for panel, name in zip(panels, names, strict=False):
        one = replay_by_method[name]
        color = SERIES[0] if name == OURS else INK
        if whole is not None:
            panel.plot(whole.sizes, color=MUTED, linewidth=0.8, alpha=0.7)
        panel.plot(one.sizes, color=color, linewidth=1.5, zorder=5)
        marked = [at for at in one.rewrote if at and one.sizes[at] < one.sizes[at - 1]]
        panel.scatter(marked, [one.sizes[at] for at in marked], s=16, color=SERIES[1], marker="v", zorder=6)
        panel.axhline(window, color=SERIES[1], linewidth=0.9, linestyle=(0, (4, 3)))
        panel.set_ylim(0, window * 1.25)
        panel.set_xlim(0, one.requests)
        panel.set_title(f"{name}: rewrote {one.compactions:,} times", loc="left", color=color, fontsize=NORMAL)
        panel.yaxis.set_major_formatter(lambda value, _: f"{value / _K:g}k" if value else "0")
        panel.grid(visible=True, axis="y")
    for panel in panels[: len(names) : 2]:
        panel.set_ylabel("tokens sent")
    for panel in panels[max(0, len(names) - 2) : len(names)]:
        panel.set_xlabel("request")
    says = (
        f"Tokens of each request in a window of {window:,} (dashed), a panel for each method. Triangles: the request "
        "does not begin with all of the one before and is smaller. Grey: nothing compacted."
    )
    return Drawn(f"context-{window // _K}k-{number}", f"Context over time: {played[0].session}", says, figure)


def _panels(names: Sequence[str], ranked: Sequence[str]) -> Iterator[str]:
    """Yields Tenfold's own method, then the best of each group by recall, then the others, as panels allow."""
    order = sorted(names, key=lambda n: ranked.index(scored_as(n)) if scored_as(n) in ranked else len(ranked))
    first = [OURS] if OURS in names else []
    for group, count in (("peer", 2), ("preset", 1), ("baseline", 2)):
        first += [n for n in order if group_of(n) == group and n != "none"][:count]
    rest = [n for n in order if n not in first and n != "none"]
    yield from [*first, *rest][:_PANELS]


def bill_and_score(made: Replays, scored: Quality) -> Drawn | None:
    """Draws what the sessions cost with each method against its recall, a panel for each price list."""
    window = windows(made)[0] if made.played else 0
    area_by_method = areas(scored)
    lists = {
        model: {
            name: (dollars, area_by_method[scored_as(name)])
            for name, dollars in costs.items()
            if scored_as(name) in area_by_method
        }
        for model, costs in bills(made, window).items()
    }
    if not any(lists.values()):
        return None
    look = looks(emphasised(scored))
    figure, panels = canvas(9.6, 0.6 + 4.6 * len(lists), rows=len(lists))
    figure.subplots_adjust(left=0.07, right=0.97, top=0.96, bottom=0.2 / (1 + len(lists)) + 0.02, hspace=0.22)
    refused = overflowing(made, window)
    for panel, (model, points) in zip(panels, lists.items(), strict=True):
        for name, (dollars, score) in points.items():
            how = look.get(name, PLAIN)
            panel.scatter(
                [dollars],
                [score],
                s=80 if how.above == 20 else 42,
                marker=how.marker if how.strong else "o",
                edgecolors=how.color,
                facecolors=PAPER if name in refused else how.color,
                zorder=how.above,
            )
        panel.set_title(f"prices of {model.rpartition(':')[2]}", loc="left")
        panel.set_ylabel("future-use recall, area 4k to 32k")
        panel.set_ylim(-0.03, max(score for _, score in points.values()) * 1.12 + 0.02)
        panel.margins(x=0.12)
        panel.grid(visible=True)
        panel.xaxis.set_major_formatter(lambda value, _: f"${value:,g}")
        beside(panel, points, look)
    panels[-1].set_xlabel(f"bill of all sessions together, window {window:,}")
    panels[-1].text(
        1,
        -0.14,
        "hollow: sent a request larger than the window",
        transform=panels[-1].transAxes,
        ha="right",
        color=MUTED,
        fontsize=SMALL,
    )
    says = "Upper left is best: more of what the future needed, for less money. Hollow marks sent refused requests. "
    says += "A name that stands apart has a line to its mark; those without room beside theirs are left out, and the "
    says += "table has them all."
    return Drawn("bill-against-score", "Bill against score", says, figure)


# -- speed -------------------------------------------------------------------------------------------------------------


def by_length(made: Speed) -> Drawn | None:
    """Draws the cost of a turn against the length of the history, when nothing is to be compacted."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for turn in made.turns:
        if not turn.unable and turn.seconds:
            name = turn.method if turn.way == "hook" else f"{turn.method}: {turn.way}"
            lines.setdefault(name, []).append((float(turn.messages), turn.seconds * _K))
    if not lines:
        return None
    own_lines = [name for name in lines if group_of(name.partition(":")[0].partition(",")[0]) == "tenfold"]
    look = looks(own_lines)
    figure, (axes,) = canvas(9.6, 5.6)
    figure.subplots_adjust(left=0.08, right=0.72, top=0.97, bottom=0.1)
    axes.set_xscale("log")
    axes.set_yscale("log")
    _lines(axes, lines, look)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.set_xlabel("messages of the history")
    axes.set_ylabel("milliseconds of a turn in which nothing is compacted")
    axes.grid(visible=True, axis="y")
    ends(axes, {name: points[-1] for name, points in lines.items()}, look, lines=32)
    says = (
        "Median time that a turn waits when there is nothing to compact. Tenfold in each way that a host can give it "
        "the history: what is new (append), its whole list (sync), its whole request; the others by their own hook."
    )
    return Drawn("speed-by-length", "A turn against the length of the history", says, figure)
