"""The look of the charts and their output: colours, labels that do not overlap, PNG and SVG.

The colours are those of Okabe and Ito (2008), which people with any colour vision can tell apart. Each line also has a
marker of its own. An SVG takes its colours from the page around it, so it is readable on light and on dark pages.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Literal, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.path import Path
from matplotlib.text import Annotation, Text
from matplotlib.ticker import FuncFormatter
from matplotlib.transforms import Bbox

INK, MUTED, PAPER = "#1b2025", "#8b929b", "#fefefe"
SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a5c3e", "#5d5fb3")
"""One colour for each highlighted line, the first for Tenfold."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")
DPI = 100
SMALL_FONT, NORMAL_FONT = 8.0, 9.5
_IDS = re.compile(r' id="[\w.]+_\d+"')
_SIZE = re.compile(r'<svg [^>]*?viewBox="([^"]+)"[^>]*>')


class Chart(NamedTuple):
    """A chart: the name of its file, its title, a caption that says what it shows, and the figure."""

    name: str
    title: str
    caption: str
    figure: Figure


class LineStyle(NamedTuple):
    """How one method is drawn in every chart."""

    color: str
    marker: str
    width: float
    z_order: int

    @property
    def is_highlighted(self) -> bool:
        """Whether this is one of the highlighted methods."""
        return self.color != MUTED


PLAIN_STYLE = LineStyle(MUTED, ".", 0.8, 1)


def apply_style() -> AbstractContextManager[None]:
    """Returns the style that every figure is created and written in, as a context manager."""
    return mpl.rc_context(
        {
            "font.family": "DejaVu Sans",  # comes with matplotlib, so it is the same everywhere
            "font.size": NORMAL_FONT,
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
            "xtick.labelsize": NORMAL_FONT,
            "ytick.labelsize": NORMAL_FONT,
            "axes.titlesize": NORMAL_FONT,
            "axes.labelsize": NORMAL_FONT,
            "grid.color": MUTED,
            "grid.alpha": 0.25,
            "grid.linewidth": 0.6,
            "figure.facecolor": PAPER,
            "axes.facecolor": "none",
            "svg.fonttype": "none",  # keeps text as text, to be found, copied and read aloud
            "svg.hashsalt": "tenfold",
        }
    )


def assign_styles(names: Sequence[str]) -> dict[str, LineStyle]:
    """Gives each of the names a style, the first with the thickest line. All other methods get `PLAIN_STYLE`."""
    return {
        name: LineStyle(SERIES[i], MARKERS[i], 2.8 if i == 0 else 1.7, 20 - i)
        for i, name in enumerate(names[: len(SERIES)])
    }


def create_canvas(width: float, height: float, *, rows: int = 1, columns: int = 1) -> tuple[Figure, list[Axes]]:
    """Returns a figure of this size in inches, and its axes row by row. The figure is not registered with pyplot."""
    figure = Figure(figsize=(width, height), dpi=DPI)
    grid = figure.subplots(rows, columns, squeeze=False)
    return figure, [axes for row in grid for axes in row]


def label_thousands(axes: Axes, *, ticks: Sequence[float] = ()) -> None:
    """Labels a horizontal axis of tokens in thousands, such as 4k."""
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / 1_000:g}k"))
    if ticks:
        axes.set_xticks(list(ticks))
        axes.minorticks_off()


_LEADER = {"arrowstyle": "-", "lw": 0.6, "alpha": 0.6, "shrinkB": 2}
"""The line from a label to the point that it names."""


def label_line_ends(
    axes: Axes, tips: Mapping[str, tuple[float, float]], styles: Mapping[str, LineStyle], *, lines: float
) -> None:
    """Writes each name in a column right of the axes, as close as possible to the end of its line.

    `lines` is how many labels fit below each other into the height of the axes.
    """
    axes.autoscale_view()  # otherwise the limits are those of an empty chart until it is drawn
    across = axes.transData + axes.transAxes.inverted()
    heights = {name: float(across.transform(tip)[1]) for name, tip in tips.items()}
    ordered_names = sorted(tips, key=lambda name: (heights[name], name))
    places = spread_labels([heights[name] for name in ordered_names], 1 / lines, 0.0, 1.0)
    for name, y in zip(ordered_names, places, strict=True):
        how = styles.get(name, PLAIN_STYLE)
        text = axes.annotate(
            name,
            tips[name],
            (1.03, y),
            textcoords="axes fraction",
            va="center",
            color=how.color,
            fontsize=NORMAL_FONT if how.is_highlighted else SMALL_FONT,
            fontweight="bold" if how.z_order == 20 else "normal",
            arrowprops=_LEADER | {"color": how.color, "relpos": (0, 0.5)},
            annotation_clip=False,
        )
        text.set_zorder(how.z_order)


def spread_labels(targets: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Moves labels apart: returns places near the targets with at least `gap` between two of them.

    The targets must be in ascending order. The places lie between `low` and `high` if they fit there. Neighbours that
    are too close are spread around their mean, as in isotonic regression.
    """
    blocks: list[tuple[float, int]] = []  # the mean of wanted[i] - i * gap, and the count
    for i, value in enumerate(targets):
        mean, count = value - i * gap, 1
        while blocks and blocks[-1][0] > mean:
            other, many = blocks.pop()
            mean, count = (mean * count + other * many) / (count + many), count + many
        blocks.append((mean, count))
    flat = [mean for mean, count in blocks for _ in range(count)]
    most = high - gap * (len(flat) - 1)
    return [max(low, min(mean, most)) + i * gap for i, mean in enumerate(flat)]


_SIDES = ((7, 0), (-7, 0))
"""Where a name may stand so that it is clear which point it names: the distance from its point, in points of type."""
_REMOTE_PLACES = (
    *((0, 8), (0, -8)),
    *((dx, dy) for dy in (10, -10, 16, -16, 24, -24, 32, -32, 40, -40, 48, -48) for dx in (12, -12, 24, -24)),
)
"""Where else a name may stand. A line leads from the name to its point, unless it is right above or below the point."""


def label_points(axes: Axes, points: Mapping[str, tuple[float, float]], styles: Mapping[str, LineStyle]) -> None:
    """Writes each name beside its point where it covers no other name and no point, highlighted names first.

    A highlighted name may stand further away, with a line to its point that crosses nothing. Any other name stands
    right beside its point or is left out, because a label that might belong to another point would mislead.
    """
    figure = axes.get_figure(root=True)
    assert figure is not None
    axes.autoscale_view()  # limits are updated lazily, and the places of points depend on them
    spots = {name: axes.transData.transform(point) for name, point in points.items()}
    occupied = [Bbox.from_extents(x - 6, y - 6, x + 6, y + 6) for x, y in spots.values()]
    lines: list[Path] = []
    for name in sorted(points, key=lambda n: -styles.get(n, PLAIN_STYLE).z_order):
        how, (x, y) = styles.get(name, PLAIN_STYLE), spots[name]
        others = [each for each in occupied if not each.contains(x, y)]
        best: tuple[int, Annotation, Bbox, list[Path]] | None = None
        for dx, dy in (*_SIDES, *_REMOTE_PLACES) if how.is_highlighted else _SIDES:
            text = axes.annotate(
                name,
                points[name],
                (dx, dy),
                textcoords="offset points",
                color=how.color,
                fontsize=SMALL_FONT,
                fontweight="bold" if how.z_order == 20 else "normal",
                ha="left" if dx > 0 else "right" if dx < 0 else "center",
                va="center" if dx else "bottom" if dy > 0 else "top",
                arrowprops=_LEADER | {"color": how.color, "relpos": (float(dx < 0), 0.5)} if dx and dy else None,
            )
            text.get_window_extent()  # moves it into place; an annotation's extent includes its line
            box = Text.get_window_extent(text)
            own = [Path([(x, y), (box.x1 if dx < 0 else box.x0, (box.y0 + box.y1) / 2)])] if dx and dy else []
            crossed = sum(line.intersects_bbox(each) for line in own for each in others)
            crossed += sum(line.intersects_bbox(box) for line in lines)
            hits = crossed + box.count_overlaps(occupied) + 3 * (box.x0 < axes.bbox.x0) + 3 * (box.x1 > figure.bbox.x1)
            if best is None or hits < best[0]:
                if best is not None:
                    best[1].remove()
                best = hits, text, box, own
            else:
                text.remove()
            if not hits:
                break
        assert best is not None
        if best[0] and not how.is_highlighted:
            best[1].remove()
        else:
            occupied.append(best[2])
            lines += best[3]


# -- output ------------------------------------------------------------------------------------------------------------


_METADATA: Mapping[str, dict[str, None]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None, "Format": None, "Type": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
"""What is left out of a file, so that the same figure gives the same bytes."""


def render_figure(figure: Figure, kind: Literal["png", "svg", "pdf"]) -> bytes:
    """Renders the figure as a file of this kind. The same figure gives the same bytes each time."""
    out = io.BytesIO()
    with apply_style():
        figure.savefig(out, format=kind, dpi=DPI, metadata=_METADATA[kind])
    return out.getvalue()


def as_svg(figure: Figure, *, caption: str) -> str:
    """Returns the figure as an SVG element for an HTML page. The same figure gives the same text each time.

    `caption` is read aloud to people who cannot see the chart. The colours come from the page: `currentColor`, and the
    variables --paper, --muted and --series-1 to --series-8.
    """
    body = render_figure(figure, "svg").decode()
    body = _IDS.sub("", body[body.index("<svg ") :])  # ids are equal in all figures, and a page has several
    size = _SIZE.match(body)
    assert size is not None
    label = caption.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    head = f'<svg viewBox="{size[1]}" xmlns:xlink="http://www.w3.org/1999/xlink" role="img" aria-label="{label}">'
    body = head + body[size.end() :]
    replacements = {INK: "currentColor", MUTED: f"var(--muted, {MUTED})", PAPER: f"var(--paper, {PAPER})"}
    replacements |= {color: f"var(--series-{i}, {color})" for i, color in enumerate(SERIES, 1)}
    for color, instead in replacements.items():
        body = body.replace(color, instead)
    return body.strip()
