"""How charts look, and what becomes of a figure: colours, labels that do not overlap, PNG and SVG.

The colours are those of Okabe and Ito (2008), which people with any colour vision can tell apart; each also has a
marker of its own. An SVG takes its colours from the page it stands in, so that it is readable on light and on dark.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.path import Path
from matplotlib.text import Annotation, Text
from matplotlib.ticker import FuncFormatter
from matplotlib.transforms import Bbox

INK, MUTED, PAPER = "#1b2025", "#8b929b", "#fefefe"
SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a5c3e", "#5d5fb3")
"""One colour for each line that matters, the first for Tenfold."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")
DPI = 100
SMALL, NORMAL = 8.0, 9.5
_IDS = re.compile(r' id="[\w.]+_\d+"')
_SIZE = re.compile(r'<svg [^>]*?viewBox="([^"]+)"[^>]*>')


class Drawn(NamedTuple):
    """A chart: the name of its file, its title, what it shows in a sentence, and the figure."""

    name: str
    title: str
    says: str
    figure: Figure


class Look(NamedTuple):
    """How one method is drawn wherever it appears."""

    color: str
    marker: str
    width: float
    above: int

    @property
    def strong(self) -> bool:
        """Whether it is one of those that matter."""
        return self.color != MUTED


PLAIN = Look(MUTED, ".", 0.8, 1)


def style() -> AbstractContextManager[None]:
    """How everything is drawn: figures are made, and written, inside it."""
    return mpl.rc_context(
        {
            "font.family": "DejaVu Sans",  # comes with matplotlib: the same everywhere
            "font.size": NORMAL,
            "text.parse_math": False,  # a name may hold a dollar sign
            "text.color": INK,
            "axes.edgecolor": MUTED,
            "axes.labelcolor": INK,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.linewidth": 0.8,
            "xtick.color": MUTED,
            "ytick.color": MUTED,
            "xtick.labelcolor": INK,
            "ytick.labelcolor": INK,
            "xtick.labelsize": NORMAL,
            "ytick.labelsize": NORMAL,
            "axes.titlesize": NORMAL,
            "axes.labelsize": NORMAL,
            "grid.color": MUTED,
            "grid.alpha": 0.25,
            "grid.linewidth": 0.6,
            "figure.facecolor": PAPER,
            "axes.facecolor": "none",
            "svg.fonttype": "none",  # text stays text: it can be found, copied and read aloud
            "svg.hashsalt": "tenfold",
        }
    )


def looks(names: Sequence[str]) -> dict[str, Look]:
    """A look for each of the names, the first with the thickest line. Every other method gets `PLAIN`."""
    return {
        name: Look(SERIES[i], MARKERS[i], 2.8 if i == 0 else 1.7, 20 - i) for i, name in enumerate(names[: len(SERIES)])
    }


def canvas(width: float, height: float, *, rows: int = 1, columns: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure of that many inches, and its axes row by row. Nothing of it is known to pyplot."""
    figure = Figure(figsize=(width, height), dpi=DPI)
    grid = figure.subplots(rows, columns, squeeze=False)
    return figure, [axes for row in grid for axes in row]


def in_thousands(axes: Axes, *, ticks: Sequence[float] = ()) -> None:
    """Labels a horizontal axis of tokens as in 4k."""
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / 1_000:g}k"))
    if ticks:
        axes.set_xticks(list(ticks))
        axes.minorticks_off()


_LEADER = {"arrowstyle": "-", "lw": 0.6, "alpha": 0.6, "shrinkB": 2}
"""The line from a name to what it names."""


def ends(axes: Axes, tips: Mapping[str, tuple[float, float]], look: Mapping[str, Look], *, lines: float) -> None:
    """Writes each name in a column right of the axes, as near as it can stand to the tip of its line.

    `lines` is how many labels fit one below the other into the height of the axes.
    """
    axes.autoscale_view()  # else the limits are those of an empty chart until it is drawn
    across = axes.transData + axes.transAxes.inverted()
    heights = {name: float(across.transform(tip)[1]) for name, tip in tips.items()}
    wanted = sorted(tips, key=lambda name: (heights[name], name))
    places = spread([heights[name] for name in wanted], 1 / lines, 0.0, 1.0)
    for name, y in zip(wanted, places, strict=True):
        how = look.get(name, PLAIN)
        text = axes.annotate(
            name,
            tips[name],
            (1.03, y),
            textcoords="axes fraction",
            va="center",
            color=how.color,
            fontsize=NORMAL if how.strong else SMALL,
            fontweight="bold" if how.above == 20 else "normal",
            arrowprops=_LEADER | {"color": how.color, "relpos": (0, 0.5)},
            annotation_clip=False,
        )
        text.set_zorder(how.above)


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places near the wanted ones, which rise, with at least `gap` between two, between `low` and `high` if they fit.

    Neighbours that are too near are moved apart around their mean, as in isotonic regression.
    """
    blocks: list[tuple[float, int]] = []  # mean of wanted[i] - i * gap, and how many
    for i, value in enumerate(wanted):
        mean, count = value - i * gap, 1
        while blocks and blocks[-1][0] > mean:
            other, many = blocks.pop()
            mean, count = (mean * count + other * many) / (count + many), count + many
        blocks.append((mean, count))
    flat = [mean for mean, count in blocks for _ in range(count)]
    most = high - gap * (len(flat) - 1)
    return [max(low, min(mean, most)) + i * gap for i, mean in enumerate(flat)]


_SIDES = ((7, 0), (-7, 0))
"""Where a name stands so that nobody asks whose it is, in points of type from its point."""
_APART = (
    *((0, 8), (0, -8)),
    *((dx, dy) for dy in (10, -10, 16, -16, 24, -24, 32, -32, 40, -40, 48, -48) for dx in (12, -12, 24, -24)),
)
"""Where a name may stand besides: a line leads from it to its point, unless it is right above or below."""


def beside(axes: Axes, points: Mapping[str, tuple[float, float]], look: Mapping[str, Look]) -> None:
    """Writes each name beside its point where it covers no other name and no point; those that matter come first.

    These may stand apart, with a line to their point that crosses nothing. The others stand right beside it or are
    left out: a name that nobody can read, or that might be another point's, tells nothing.
    """
    figure = axes.get_figure(root=True)
    assert figure is not None
    axes.autoscale_view()  # limits are brought up to date when they are drawn: only then is it known where points lie
    spots = {name: axes.transData.transform(point) for name, point in points.items()}
    taken = [Bbox.from_extents(x - 6, y - 6, x + 6, y + 6) for x, y in spots.values()]
    lines: list[Path] = []
    for name in sorted(points, key=lambda n: -look.get(n, PLAIN).above):
        how, (x, y) = look.get(name, PLAIN), spots[name]
        others = [each for each in taken if not each.contains(x, y)]
        best: tuple[int, Annotation, Bbox, list[Path]] | None = None
        for dx, dy in (*_SIDES, *_APART) if how.strong else _SIDES:
            text = axes.annotate(
                name,
                points[name],
                (dx, dy),
                textcoords="offset points",
                color=how.color,
                fontsize=SMALL,
                fontweight="bold" if how.above == 20 else "normal",
                ha="left" if dx > 0 else "right" if dx < 0 else "center",
                va="center" if dx else "bottom" if dy > 0 else "top",
                arrowprops=_LEADER | {"color": how.color, "relpos": (float(dx < 0), 0.5)} if dx and dy else None,
            )
            text.get_window_extent()  # brings it to its place; the extent of an annotation holds its line too
            box = Text.get_window_extent(text)
            own = [Path([(x, y), (box.x1 if dx < 0 else box.x0, (box.y0 + box.y1) / 2)])] if dx and dy else []
            crossed = sum(line.intersects_bbox(each) for line in own for each in others)
            crossed += sum(line.intersects_bbox(box) for line in lines)
            hits = crossed + box.count_overlaps(taken) + 3 * (box.x0 < axes.bbox.x0) + 3 * (box.x1 > figure.bbox.x1)
            if best is None or hits < best[0]:
                if best is not None:
                    best[1].remove()
                best = hits, text, box, own
            else:
                text.remove()
            if not hits:
                break
        assert best is not None
        if best[0] and not how.strong:
            best[1].remove()
        else:
            taken.append(best[2])
            lines += best[3]


# -- output ------------------------------------------------------------------------------------------------------------


def as_png(figure: Figure) -> bytes:
    """The picture for a page of documentation, the same bytes each time."""
    out = io.BytesIO()
    with style():
        figure.savefig(out, format="png", dpi=DPI, metadata={"Software": None})
    return out.getvalue()


def as_svg(figure: Figure, *, says: str) -> str:
    """The picture as an element to stand inside a page, the same text each time. `says` is read to who cannot see it.

    Its colours are the page's: `currentColor`, and the variables --paper, --muted and --series-1 to --series-8.
    """
    out = io.StringIO()
    with style():
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    body = out.getvalue()
    body = _IDS.sub("", body[body.index("<svg ") :])  # the same in every figure, and a page has several
    found = _SIZE.match(body)
    assert found is not None
    label = says.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    head = f'<svg viewBox="{found[1]}" xmlns:xlink="http://www.w3.org/1999/xlink" role="img" aria-label="{label}">'
    body = head + body[found.end() :]
    named = {INK: "currentColor", MUTED: f"var(--muted, {MUTED})", PAPER: f"var(--paper, {PAPER})"}
    named |= {color: f"var(--series-{i}, {color})" for i, color in enumerate(SERIES, 1)}
    for color, instead in named.items():
        body = body.replace(color, instead)
    return body.strip()
