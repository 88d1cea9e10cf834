"""Draws the charts of the yardstick from a `Yardstick` alone. Needs matplotlib: `pip install 'tenfold[eval]'`.

No chart shows the name of a session: such names are untrusted text, and only the page around a chart can escape them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from tenfold.testing.probes.kinds import PROBE_KINDS
from tenfold_yardstick.drawing import (
    INK,
    MUTED,
    NORMAL_FONT,
    PAPER,
    PLAIN_STYLE,
    SERIES,
    SMALL_FONT,
    Chart,
    LineStyle,
    apply_style,
    assign_styles,
    create_canvas,
    label_line_ends,
    label_points,
    label_thousands,
)
from tenfold_yardstick.future_recall import QUARTERS
from tenfold_yardstick.generations import Generations, average_tokens, compute_recall, list_generations
from tenfold_yardstick.method_comparison import (
    compute_areas,
    compute_bills,
    count_probes,
    find_longest_sessions,
    find_overflowing,
    get_group,
    get_score_name,
    list_windows,
)
from tenfold_yardstick.quality_report import OURS, Yardstick, is_own
from tenfold_yardstick.replay import Replays, SessionReplay
from tenfold_yardstick.scores import (
    Quality,
    get_area_budgets,
    get_present,
    group_by_method,
    pool_share,
    select_area_scores,
    select_plain,
)
from tenfold_yardstick.speed import Speed

Lines = dict[str, list[tuple[float, float]]]
"""The points of each method's line."""
_K = 1_000
_MAX_PEERS, _MAX_LINES = 4, 7
"""How many peers are highlighted, and how many methods in all."""
_MAX_PANELS = 6
_LOOKUP = ", one lookup"
_MAX_SESSIONS = 2
"""For how many sessions, in each window, the context over time is drawn."""


def draw_charts(yardstick: Yardstick) -> list[Chart]:
    """Draws every chart that there is data for, in the order of the report."""
    with apply_style():
        charts: list[Chart | None] = []
        if yardstick.quality is not None:
            charts += [
                draw_recall_by_tokens(yardstick.quality),
                draw_recall_by_age(yardstick.quality),
                draw_probes_by_type(yardstick.quality),
                draw_recall_by_rounds(yardstick.quality),
            ]
        if yardstick.replay is not None:
            charts += draw_contexts(yardstick.replay, yardstick.quality)
            charts.append(
                draw_bill_against_score(yardstick.replay, yardstick.quality) if yardstick.quality is not None else None
            )
        charts.append(draw_turns_by_length(yardstick.speed) if yardstick.speed is not None else None)
        if yardstick.generations is not None:
            charts += [draw_recall_by_generation(yardstick.generations), draw_recall_by_retained(yardstick.generations)]
        return [each for each in charts if each is not None]


def choose_highlighted(quality: Quality) -> list[str]:
    """Returns the methods that get a colour: our policy, the user's own, the best preset and peers, baselines.

    If no fact was needed, the methods named first count as the best.
    """
    ordered_names = [name for name, area in compute_areas(quality).items() if area] or list(quality.methods)
    highlighted = [OURS] if OURS in ordered_names else []
    highlighted += [name for name in quality.methods if is_own(name)]  # whoever measures her own looks for it
    highlighted += [name for name in ordered_names if get_group(name) == "preset" and not is_own(name)][:1]
    projects: dict[str, str] = {}
    for name in ordered_names:
        if get_group(name) == "peer" and ":" not in name:
            projects.setdefault(name.partition("/")[0], name)
    highlighted += list(projects.values())[:_MAX_PEERS]
    highlighted += [name for name in ordered_names if get_group(name) == "baseline"][: _MAX_LINES - len(highlighted)]
    return highlighted


# -- recall ------------------------------------------------------------------------------------------------------------


def draw_recall_by_tokens(quality: Quality) -> Chart | None:
    """Draws future-use recall against the tokens that a method really used, with a point for each budget."""
    budgets = get_area_budgets(quality)
    lines: Lines = {}
    above = []
    for name, scores in group_by_method(select_area_scores(quality)).items():
        if 2 * sum(r.over for r in scores) > sum(not r.unable for r in scores) > 0:
            above.append(name)
            continue
        lines[name] = []
        for budget in budgets:
            able = [r for r in scores if r.budget == budget and not r.unable]
            if able:
                tokens = sum(r.tokens for r in able) / len(able)
                lines[name].append((tokens, pool_share([r for r in scores if r.budget == budget], get_present)))

    def set_scale(axes: Axes) -> None:
        axes.set_xscale("log")
        label_thousands(axes, ticks=budgets)
        axes.set_xlabel("tokens of the compacted view, mean over cuts")

    says = (
        "Share of the facts that the real future needed and the compacted view still shows, against the tokens of "
        f"that view; a point for each of the budgets {', '.join(f'{b / _K:g}k' for b in budgets)}. A result above "
        "its budget scores 0."
    )
    if above:
        says += f" Not drawn, since above their budget in more than half of the cuts: {', '.join(above)}."
    title = "Future-use recall against tokens really used"
    return _draw_recall(quality, lines, set_scale, name="recall-by-tokens", title=title, caption=says)


def draw_recall_by_age(quality: Quality) -> Chart | None:
    """Draws future-use recall by the quarter of the past in which a fact last occurred."""
    lines: Lines = {}
    for name, scores in group_by_method(select_plain(quality)).items():
        lines[name] = []
        for quarter in range(1, QUARTERS + 1):
            pairs = [r.quarters.get(str(quarter), (0, 0)) for r in scores]
            if needed := sum(of for _, of in pairs):
                lines[name].append((float(quarter), sum(have for have, _ in pairs) / needed))

    def set_scale(axes: Axes) -> None:
        axes.set_xticks(range(1, QUARTERS + 1), ["oldest quarter", "second", "third", "newest quarter"])
        axes.set_xlabel("where in the past's tokens the fact last occurred")

    says = "Share of the needed facts that the view still shows, by their age, over all budgets."
    title = "Future-use recall by age"
    return _draw_recall(quality, lines, set_scale, name="recall-by-age", title=title, caption=says)


def draw_recall_by_rounds(quality: Quality) -> Chart | None:
    """Draws future-use recall after several compactions, each to a tenth of the past."""
    if len(quality.rounds) < 2:
        return None
    lines: Lines = {}
    for name, scores in group_by_method(r for r in quality.recall if r.tenth).items():
        done = sorted({r.rounds for r in scores})
        lines[name] = [(float(n), pool_share([r for r in scores if r.rounds == n], get_present)) for n in done]

    def set_scale(axes: Axes) -> None:
        axes.set_xticks(list(quality.rounds))
        axes.set_xlabel("compactions one after the other up to the cut, each to a tenth of the past")

    says = "Share of the needed facts that the view still shows after several compactions, each to a tenth of the past."
    title = "Future-use recall after several compactions"
    return _draw_recall(quality, lines, set_scale, name="recall-by-rounds", title=title, caption=says)


def _draw_recall(
    quality: Quality, lines: Lines, set_scale: Callable[[Axes], None], *, name: str, title: str, caption: str
) -> Chart | None:
    """Draws a line for each method that kept anything, with its name at the line's end."""
    lines = {method: points for method, points in lines.items() if any(y for _, y in points)}
    if not lines:
        return None
    look = assign_styles(choose_highlighted(quality))
    figure, (axes,) = create_canvas(9.6, 6.4)
    figure.subplots_adjust(left=0.07, right=0.72, top=0.97, bottom=0.09)
    _draw_lines(axes, lines, look)
    set_scale(axes)
    _format_recall_axis(axes)
    label_line_ends(axes, {method: points[-1] for method, points in lines.items()}, look, lines=38)
    return Chart(name, title, caption, figure)


def _format_recall_axis(axes: Axes) -> None:
    axes.set_ylim(0, max(0.1, math.ceil(axes.get_ylim()[1] * 20) / 20))
    axes.set_ylabel("future-use recall, view alone")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.grid(visible=True, axis="y")


def _draw_lines(axes: Axes, lines: Lines, styles: Mapping[str, LineStyle]) -> None:
    for name, points in lines.items():
        how = styles.get(name, PLAIN_STYLE)
        axes.plot(
            [x for x, _ in points],
            [y for _, y in points],
            color=how.color,
            marker=how.marker,
            linewidth=how.width,
            markersize=6 if how.is_highlighted else 3,
            zorder=how.z_order,
            alpha=1.0 if how.is_highlighted else 0.7,
        )


# -- probes ------------------------------------------------------------------------------------------------------------


def draw_probes_by_type(quality: Quality) -> Chart | None:
    """Draws the typed probes that a view at a tenth of the past still answers, a row for each type."""
    first = min(quality.rounds)
    shares: dict[str, dict[str, float]] = {}
    counts: dict[str, int] = {}
    for kind in PROBE_KINDS:
        found = count_probes(quality.probes, [kind], rounds=first)
        if count := max((asked for _, asked in found.values()), default=0):
            counts[kind] = count
            shares[kind] = {name: have / asked for name, (have, asked) in found.items() if asked}
    if not shares:
        return None
    names = choose_highlighted(quality)
    look = assign_styles(names)
    figure, (axes,) = create_canvas(9.6, 1.4 + 0.42 * len(shares))
    figure.subplots_adjust(left=0.17, right=0.72, top=0.98, bottom=0.62 / (1.4 + 0.42 * len(shares)))
    for row, (_, found_here) in enumerate(shares.items()):
        axes.axhline(row, color=MUTED, linewidth=0.6, alpha=0.3, zorder=0)
        for name, share in found_here.items():
            how = look.get(name, PLAIN_STYLE)
            size = 64 if how.z_order == 20 else 40 if how.is_highlighted else 12
            axes.scatter([share], [row], s=size, color=how.color, marker=how.marker, zorder=how.z_order)
    axes.set_yticks(range(len(shares)), [f"{kind} ({counts[kind]:,})" for kind in shares])
    axes.set_ylim(len(shares) - 0.5, -0.5)
    axes.set_xlim(-0.02, 1.02)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_xlabel("probes that the view still answers, at 10 % of the past")
    axes.tick_params(axis="y", length=0)
    _draw_legend(axes, look)
    says = (
        "Share of typed probes that a view of a tenth of the past still answers, a row for each type with the number "
        "of probes asked; small grey dots are the other methods."
    )
    return Chart("probes-by-type", "Typed probes at 10 % of the past", says, figure)


def _draw_legend(axes: Axes, styles: Mapping[str, LineStyle]) -> None:
    marks = [
        axes.scatter([], [], s=64 if how.z_order == 20 else 40, color=how.color, marker=how.marker)
        for how in styles.values()
    ]
    marks.append(axes.scatter([], [], s=12, color=MUTED, marker=PLAIN_STYLE.marker))
    labels = [*styles, "other methods"]
    axes.legend(marks, labels, loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=NORMAL_FONT)


# -- replay ------------------------------------------------------------------------------------------------------------


def draw_contexts(replays: Replays, quality: Quality | None) -> list[Chart]:
    """Draws the size of each request in the course of a session, with a panel for each of a few methods."""
    ranked = list(compute_areas(quality)) if quality is not None else []
    return [
        _draw_context(played, window, ranked, number)
        for window in list_windows(replays)
        for number, played in enumerate(find_longest_sessions(replays, window)[:_MAX_SESSIONS], 1)
        if any(one.sizes for one in played)
    ]


def _draw_context(replays: Sequence[SessionReplay], window: int, ranking: Sequence[str], number: int) -> Chart:
    names = list(_choose_panels([one.method for one in replays], ranking))
    replay_by_method = {one.method: one for one in replays if one.method in names}
    figure, panels = create_canvas(
        9.6, 1.0 + 1.75 * math.ceil(len(names) / 2), rows=math.ceil(len(names) / 2), columns=2
    )
    figure.subplots_adjust(left=0.07, right=0.985, top=0.95, bottom=0.09, hspace=0.42, wspace=0.1)
    whole = next((one for one in replays if one.method == "none"), None)
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
        panel.set_title(f"{name}: rewrote {one.compactions:,} times", loc="left", color=color, fontsize=NORMAL_FONT)
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
    return Chart(f"context-{window // _K}k-{number}", f"Context over time: {replays[0].session}", says, figure)


def _choose_panels(names: Sequence[str], ranking: Sequence[str]) -> Iterator[str]:
    """Yields Tenfold's own method, then the best of each group by recall, then the others, as panels allow."""
    order = sorted(
        names, key=lambda n: ranking.index(get_score_name(n)) if get_score_name(n) in ranking else len(ranking)
    )
    first = [OURS] if OURS in names else []
    for group, count in (("peer", 2), ("preset", 1), ("baseline", 2)):
        first += [n for n in order if get_group(n) == group and n != "none"][:count]
    rest = [n for n in order if n not in first and n != "none"]
    yield from [*first, *rest][:_MAX_PANELS]


def draw_bill_against_score(replays: Replays, quality: Quality) -> Chart | None:
    """Draws what the sessions cost with each method against its recall, a panel for each price list."""
    window = list_windows(replays)[0] if replays.played else 0
    area_by_method = compute_areas(quality)
    lists = {
        model: {
            name: (dollars, area_by_method[get_score_name(name)])
            for name, dollars in costs.items()
            if get_score_name(name) in area_by_method
        }
        for model, costs in compute_bills(replays, window).items()
    }
    if not any(lists.values()):
        return None
    look = assign_styles(choose_highlighted(quality))
    figure, panels = create_canvas(9.6, 0.6 + 4.6 * len(lists), rows=len(lists))
    figure.subplots_adjust(left=0.07, right=0.97, top=0.96, bottom=0.2 / (1 + len(lists)) + 0.02, hspace=0.22)
    refused = find_overflowing(replays, window)
    for panel, (model, points) in zip(panels, lists.items(), strict=True):
        for name, (dollars, score) in points.items():
            how = look.get(name, PLAIN_STYLE)
            panel.scatter(
                [dollars],
                [score],
                s=80 if how.z_order == 20 else 42,
                marker=how.marker if how.is_highlighted else "o",
                edgecolors=how.color,
                facecolors=PAPER if name in refused else how.color,
                zorder=how.z_order,
            )
        panel.set_title(f"prices of {model.rpartition(':')[2]}", loc="left")
        panel.set_ylabel("future-use recall, area 4k to 32k")
        panel.set_ylim(-0.03, max(score for _, score in points.values()) * 1.12 + 0.02)
        panel.margins(x=0.12)
        panel.grid(visible=True)
        panel.xaxis.set_major_formatter(lambda value, _: f"${value:,g}")
        label_points(panel, points, look)
    panels[-1].set_xlabel(f"bill of all sessions together, window {window:,}")
    panels[-1].text(
        1,
        -0.14,
        "hollow: sent a request larger than the window",
        transform=panels[-1].transAxes,
        ha="right",
        color=MUTED,
        fontsize=SMALL_FONT,
    )
    says = "Upper left is best: more of what the future needed, for less money. Hollow marks sent refused requests. "
    says += "A name that stands apart has a line to its mark; those without room beside theirs are left out, and the "
    says += "table has them all."
    return Chart("bill-against-score", "Bill against score", says, figure)


# -- generations -------------------------------------------------------------------------------------------------------


def draw_recall_by_generation(result: Generations) -> Chart | None:
    """Draws the recall of answers after each generation, at the smallest budget, and with one lookup."""
    budget = min((one.budget for one in result.scores), default=0)
    lines: Lines = {}
    for one in result.scores:
        if one.budget == budget:
            lines.setdefault(one.method, [])
            if one.within is not None:
                lines.setdefault(one.method + _LOOKUP, [])
    numbers = list_generations(result)
    for name, points in lines.items():
        own = [one for one in result.scores if one.budget == budget and one.method == name.removesuffix(_LOOKUP)]
        for number in numbers:
            at = [one for one in own if one.generation == number]
            recall = compute_recall(at, has_lookup=name.endswith(_LOOKUP))
            if recall is not None and any(not one.unable for one in at):
                points.append((float(number), recall))

    def set_scale(axes: Axes) -> None:
        axes.set_xticks(numbers)
        axes.set_xlabel(f"compactions one after the other, each to {budget / _K:g}k tokens")

    says = (
        "Share of the questions that the view answers after each compaction, of those whose answers have been said by "
        "then. `full-past` is the ceiling, the session as it is; with one lookup, a search of the session may find it."
    )
    return _draw_generations(lines, set_scale, name="generations-recall", title="Recall over generations", caption=says)


def draw_recall_by_retained(result: Generations) -> Chart | None:
    """Draws the recall after the last generation against the tokens that a method retained, a point for each budget."""
    lines: Lines = {}
    last = max(list_generations(result), default=0)
    for budget in sorted({one.budget for one in result.scores}):
        for method in dict.fromkeys(one.method for one in result.scores):
            own = [o for o in result.scores if (o.method, o.budget, o.generation) == (method, budget, last)]
            recall, tokens = compute_recall(own), average_tokens(own)
            if recall is not None and tokens is not None:
                lines.setdefault(method, []).append((tokens, recall))

    def set_scale(axes: Axes) -> None:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value / _K:g}k")
        axes.set_xlabel(f"tokens retained after {last} compactions, mean over sessions")

    says = f"Share of the questions that the view answers after {last} compactions, against the tokens of that view."
    title = "Recall at retained tokens"
    return _draw_generations(lines, set_scale, name="generations-tokens", title=title, caption=says)


def _draw_generations(
    lines: Lines, set_scale: Callable[[Axes], None], *, name: str, title: str, caption: str
) -> Chart | None:
    lines = {method: points for method, points in lines.items() if points}
    if not lines:
        return None
    styles = assign_styles(sorted(lines, key=lambda method: (method != OURS, not is_own(method)))[:_MAX_LINES])
    figure, (axes,) = create_canvas(9.6, 5.6)
    figure.subplots_adjust(left=0.07, right=0.72, top=0.97, bottom=0.1)
    _draw_lines(axes, lines, styles)
    set_scale(axes)
    axes.set_ylim(0, 1.05)
    axes.set_ylabel("questions that the view answers")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.grid(visible=True, axis="y")
    label_line_ends(axes, {method: points[-1] for method, points in lines.items()}, styles, lines=32)
    return Chart(name, title, caption, figure)


# -- speed -------------------------------------------------------------------------------------------------------------


def draw_turns_by_length(speed: Speed) -> Chart | None:
    """Draws the cost of a turn against the length of the history, when nothing is to be compacted."""
    lines: Lines = {}
    for turn in speed.turns:
        if not turn.unable and turn.seconds:
            name = turn.method if turn.way == "hook" else f"{turn.method}: {turn.way}"
            lines.setdefault(name, []).append((float(turn.messages), turn.seconds * _K))
    if not lines:
        return None
    own_lines = [name for name in lines if get_group(name.partition(":")[0].partition(",")[0]) == "tenfold"]
    look = assign_styles(own_lines)
    figure, (axes,) = create_canvas(9.6, 5.6)
    figure.subplots_adjust(left=0.08, right=0.72, top=0.97, bottom=0.1)
    axes.set_xscale("log")
    axes.set_yscale("log")
    _draw_lines(axes, lines, look)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.set_xlabel("messages of the history")
    axes.set_ylabel("milliseconds of a turn in which nothing is compacted")
    axes.grid(visible=True, axis="y")
    label_line_ends(axes, {name: points[-1] for name, points in lines.items()}, look, lines=32)
    says = (
        "Median time that a turn waits when there is nothing to compact. Tenfold in each way that a host can give it "
        "the history: what is new (append), its whole list (sync), its whole request; the others by their own hook."
    )
    return Chart("speed-by-length", "A turn against the length of the history", says, figure)
