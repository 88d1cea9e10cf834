"""Charts: what is drawn is what was measured, the same bytes each time, and readable whatever the page's colours."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.text import Annotation, Text
from msgspec.structs import replace

from tenfold_yardstick.drawing import (
    SERIES,
    Chart,
    apply_style,
    as_svg,
    assign_styles,
    create_canvas,
    label_line_ends,
    label_points,
    render_figure,
    spread_labels,
)
from tenfold_yardstick.plots import choose_highlighted, draw_charts
from tenfold_yardstick.quality_report import Yardstick
from tests.yardstick.yardsticks import KEPT, OTHER, PEER, make_quality, make_yardstick


def draw_figures(made: Yardstick) -> dict[str, Chart]:
    return {each.name: each for each in draw_charts(made)}


@pytest.fixture(scope="module")
def all_of_it() -> dict[str, Chart]:
    return draw_figures(make_yardstick())


def get_lines(figure: Figure) -> dict[str, list[tuple[float, float]]]:
    """The lines of a chart by their colour."""
    found = {}
    for line in figure.axes[0].lines:
        points = np.column_stack([np.asarray(data, float) for data in (line.get_xdata(), line.get_ydata())])
        found[str(line.get_color())] = [(float(x), float(y)) for x, y in points]
    return found


def test_each_part_has_its_charts_and_what_is_missing_has_none(all_of_it: dict[str, Chart]) -> None:
    assert list(all_of_it) == [
        "recall-by-tokens",
        "recall-by-age",
        "probes-by-type",
        "recall-by-rounds",
        "context-10k-1",
        "bill-against-score",
        "speed-by-length",
    ]
    assert draw_charts(Yardstick()) == []
    assert list(draw_figures(Yardstick(speed=make_yardstick().speed))) == ["speed-by-length"]
    assert list(draw_figures(Yardstick(replay=make_yardstick().replay))) == ["context-10k-1"]


def test_recall_stands_over_the_tokens_really_used(all_of_it: dict[str, Chart]) -> None:
    ours = get_lines(all_of_it["recall-by-tokens"].figure)[SERIES[0]]
    assert ours == [(3_900, 0.8), (7_900, 0.9), (15_900, 1.0), (31_900, 1.0)]


def test_a_method_that_is_always_above_its_budget_is_named_not_drawn(all_of_it: dict[str, Chart]) -> None:
    chart = all_of_it["recall-by-tokens"]
    shown = {text.get_text() for text in chart.figure.axes[0].texts}
    assert shown == set(KEPT) - {"keep-all"}
    assert chart.caption.endswith("more than half of the cuts: keep-all.")


def test_age_and_rounds_are_those_of_the_scores(all_of_it: dict[str, Chart]) -> None:
    ages = get_lines(all_of_it["recall-by-age"].figure)[SERIES[0]]
    assert ages == [(1.0, (3 + 4 + 4 + 5 + 5) / 25), (4.0, (4 + 4 + 5 + 5 + 5) / 25)]
    assert get_lines(all_of_it["recall-by-rounds"].figure)[SERIES[0]] == [(1.0, 0.9), (10.0, 0.8)]


def test_a_label_stands_at_the_height_of_its_lines_end_where_there_is_room(all_of_it: dict[str, Chart]) -> None:
    for name in ("recall-by-tokens", "speed-by-length"):
        axes = all_of_it[name].figure.axes[0]
        for label in axes.texts:
            assert isinstance(label, Annotation)
            tip = (axes.transData + axes.transAxes.inverted()).transform(np.asarray(label.xy, float))
            assert abs(float(tip[1]) - float(label.xyann[1])) < 0.06, label.get_text()


def test_context_marks_where_a_request_was_compacted(all_of_it: dict[str, Chart]) -> None:
    panels = [axes for axes in all_of_it["context-10k-1"].figure.axes if axes.get_visible()]
    assert [axes.get_title(loc="left").partition(":")[0] for axes in panels] == ["tenfold", PEER, "tail"]
    for axes in panels:
        marks = [c for c in axes.collections if isinstance(c, PathCollection)]
        assert [np.asarray(c.get_offsets()).tolist() for c in marks] == [[[3.0, 4_000.0]]]


def test_who_is_emphasised_is_ours_the_best_preset_one_of_each_project_and_baselines() -> None:
    two = KEPT | {"langchain/trim": 9, "tiers": 7}
    assert choose_highlighted(make_quality(two)) == ["tenfold", "tiers", "langchain/trim", OTHER, "keep-last"]


def test_the_same_result_gives_the_same_bytes() -> None:
    first, second = draw_charts(make_yardstick()), draw_charts(make_yardstick())
    assert [as_svg(a.figure, caption=a.caption) for a in first] == [as_svg(b.figure, caption=b.caption) for b in second]
    assert render_figure(first[0].figure, "png") == render_figure(second[0].figure, "png")
    other = draw_charts(replace(make_yardstick(), quality=make_quality({**KEPT, "tenfold": 7})))
    assert as_svg(first[0].figure, caption="") != as_svg(other[0].figure, caption="")


def test_an_svg_takes_its_colours_from_the_page_and_loads_nothing(all_of_it: dict[str, Chart]) -> None:
    for each in all_of_it.values():
        text = as_svg(each.figure, caption='five < "six"')
        assert 'aria-label="five &lt; &quot;six&quot;"' in text
        assert "currentColor" in text
        assert set(re.findall(r"#[0-9a-f]{6}", re.sub(r"var\([^)]*\)", "", text))) <= {"#000000"}
        assert re.findall(r'(?:href|src)="(?!#)[^"]*"', text) == []
        assert re.findall(r"url\((?!#)", text) == []
        assert "<script" not in text


def test_a_name_is_drawn_as_it_is_even_if_it_looks_like_a_formula() -> None:
    chart = draw_figures(make_yardstick(kept={"tenfold": 8, "a$x^2$b": 4}))["recall-by-tokens"]
    assert "a$x^2$b" in as_svg(chart.figure, caption="")


@given(st.lists(st.floats(0, 1), max_size=30).map(sorted), st.floats(0.001, 0.2))
def test_labels_keep_their_distance_and_their_order(wanted: list[float], gap: float) -> None:
    placed = spread_labels(wanted, gap, 0.0, 1.0)
    assert len(placed) == len(wanted)
    assert all(b - a >= gap - 1e-9 for a, b in pairwise(placed))
    if (len(wanted) - 1) * gap <= 1:
        assert all(-1e-9 <= place <= 1 + 1e-9 for place in placed)


def test_a_name_that_would_cover_another_is_left_out() -> None:
    with apply_style():
        _, (axes,) = create_canvas(9.0, 4.0)
        crowd = {f"a/rather-long-name-{n}": (1.0 + n / 50, 0.5 + n % 3 / 100) for n in range(12)}
        points = {"tenfold": (1.1, 0.9), "alone": (3.0, 0.1), **crowd}
        axes.scatter(*zip(*points.values(), strict=True))
        label_points(axes, points, assign_styles(["tenfold"]))
        boxes = [Text.get_window_extent(text) for text in axes.texts]
    named = [text.get_text() for text in axes.texts]
    assert {"tenfold", "alone"} <= set(named)
    assert 2 < len(named) < len(points)
    assert [box.count_overlaps(boxes) for box in boxes] == [1] * len(boxes), "each meets itself alone"


def test_a_name_stands_beside_its_point_or_has_a_line_to_it_that_crosses_nothing() -> None:
    with apply_style():
        figure, (axes,) = create_canvas(9.0, 4.0)
        strong = {f"strong/method-{n}": (1.0 + n / 8, 0.5) for n in range(4)}
        points = {**strong, **{f"plain-{n}": (1.0 + n / 6, 0.45) for n in range(4)}, "far": (4.0, 0.1)}
        axes.scatter(*zip(*points.values(), strict=True))
        label_points(axes, points, assign_styles([*strong]))
    render_figure(figure, "png")
    names = {text.get_text(): text for text in axes.texts if isinstance(text, Annotation)}
    assert set(strong) < set(names)
    boxes = {name: Text.get_window_extent(text) for name, text in names.items()}
    led = {name: text.arrow_patch.get_path() for name, text in names.items() if text.arrow_patch is not None}
    assert led
    for name, line in led.items():
        assert name in strong
        assert [other for other, box in boxes.items() if other != name and line.intersects_bbox(box)] == []
    for name in set(names) - set(strong):
        assert names[name].xyann in ((7, 0), (-7, 0)), "nobody asks whose it is"


def test_the_line_from_a_name_to_its_curve_crosses_no_other_name() -> None:
    with apply_style():
        figure, (axes,) = create_canvas(6, 4)
        tips = {f"method-{n}": (1.0, 0.5 + n / 1_000) for n in range(12)}
        axes.plot([0, 1], [0, 1])
        label_line_ends(axes, tips, {}, lines=20)
    render_figure(figure, "png")
    names = [text for text in axes.texts if isinstance(text, Annotation)]
    left = min(Text.get_window_extent(text).x0 for text in names)  # an annotation's own extent holds its line too
    lines = [patch.get_path() for text in names if (patch := text.arrow_patch) is not None]
    assert len(lines) == len(tips)
    assert [line for line in lines if np.asarray(line.vertices)[:, 0].max() > left] == []
