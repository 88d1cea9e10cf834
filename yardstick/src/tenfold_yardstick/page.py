"""Renders the yardstick as a single HTML file. It needs `pip install 'tenfold[eval]'`.

Everything from a session is treated as text: control characters are removed from names and reasons, secrets are
redacted, and everything is escaped. The file loads nothing and runs no script.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from typing import NamedTuple

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from tenfold import __version__
from tenfold.core.text.terminal_safe import sanitize
from tenfold_yardstick import gold_answers, quality_report, question_search, replay, speed_tables
from tenfold_yardstick.drawing import Chart, as_svg
from tenfold_yardstick.goals import YardstickGoal, build_goals_table, judge_goals
from tenfold_yardstick.method_comparison import build_total_tables, compute_areas
from tenfold_yardstick.plots import draw_charts
from tenfold_yardstick.quality_report import OURS, Yardstick
from tenfold_yardstick.reading import score_tables
from tenfold_yardstick.tables import Table
from tenfold_yardstick.verdict import build_behind_table, write_verdict

_TEMPLATE = "page.html.jinja"
TERMS = {
    "area": "mean height of the recall over the logarithm of the budgets, 0 to 1",
    "95 %": "bootstrap interval of the area, over whole sessions",
    "mean of cuts": "the area with every cut weighing alike; else facts are pooled",
    "with search": "facts in the view or found by one search; only Tenfold's methods have one",
    "asked early": "the same, the search made before the agent began the message that used the fact",
    "refetch": "tokens that the agent would read again to get back what is missing, mean over results",
    "of budget": "tokens really used, as a share of the budget, mean over results",
    "over, unable": "results above their budget or not given, of all; they score 0",
    "bare words": "probes whose answer's words stand anywhere, not near what they are about",
    "stale": "answers that something later in the past had superseded",
    "complete": "answers with the grade 1",
    "half": "answers with the grade 0.5",
    "misleading": "share of the answers with the grade -1, which contradict the gold answer",
    "graded": "answers behind the score, those that say nothing included",
    "above": "views more than 2 % over their size; they are scored all the same",
    "stale readings": "answers given from an older view, which do not count",
    "peak": "tokens of the largest request",
    "over": "requests larger than the window, which a provider refuses",
    "compactions": "in a replay: requests that do not begin with all of the one before",
    "cached": "share of the input that a provider's cache can serve at best",
    "rewritten": "tokens that are not new and yet not cached, because something before them changed",
    "blocked": "seconds that the conversation waited for the method, model calls apart",
    "longest": "the longest of these waits",
    "way": "how the host gives a turn: what is new (append), its whole list (sync), its request; hook: a peer's own",
}
"""The columns of tables that need an explanation."""
_VERDICTS = ("met", "not met")
_NO_MODEL = "No model"
_READING_MODELS = "Models answered and graded the reading test, as its note says; otherwise no model"
_MAX_OPEN_TABLES = 12
"""How many tables of a part are shown open. If there are more, all but the first two are folded."""


class _PageFigure(NamedTuple):
    title: str
    caption: str
    svg: Markup


class ReportSection(NamedTuple):
    """A part of the report: its charts, then its tables."""

    anchor: str
    title: str
    figures: Sequence[_PageFigure] = ()
    tables: Sequence[Table] = ()


def render_page(yardstick: Yardstick, *, command: str, has_goals: bool = False) -> str:
    """Returns the report as HTML. `command` is the command that repeats it. `has_goals` adds Tenfold's own goals."""
    shape = Environment(autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True)
    charts = {each.name: each for each in draw_charts(yardstick)}
    shown_goals = judge_goals(yardstick) if has_goals else []
    columns = {name for part in build_tables(yardstick).values() for table in part for name in table.columns}
    return shape.from_string(_load_template()).render(
        title="The yardstick",
        facts=list_run_facts(yardstick),
        said=[sanitize(sentence.replace("`", "")) for sentence in write_verdict(yardstick)],
        sections=[
            section for section in _build_sections(yardstick, charts, shown_goals) if section.figures or section.tables
        ],
        texts=("Goals", build_behind_table(yardstick).title, "Other projects"),
        terms={name: meaning for name, meaning in TERMS.items() if name in columns},
        verdicts=_VERDICTS,
        own=OURS,
        most=_MAX_OPEN_TABLES,
        repeat=sanitize(command),
        models=_NO_MODEL if yardstick.reading is None else _READING_MODELS,
    )


def list_run_facts(yardstick: Yardstick) -> list[str]:
    """Returns when, with what, and on which machine the report was made: the line under its title."""
    out = [yardstick.date, f"Tenfold {yardstick.quality.version if yardstick.quality is not None else __version__}"]
    if yardstick.quality is not None:
        out.append(f"tokens counted with {yardstick.quality.counter}")
    return [sanitize(fact) for fact in (*out, yardstick.machine) if fact]


def get_date() -> str:
    """Returns the current date in UTC."""
    return f"{datetime.now(UTC):%Y-%m-%d}"


def describe_machine() -> str:
    """Describes the machine in a line: processors, architecture, system and Python, but no name and no path."""
    system = f"{platform.system()} {platform.release().split('-')[0]}"
    return f"{os.cpu_count()} cores, {platform.machine()}, {system}, Python {platform.python_version()}"


def build_tables(yardstick: Yardstick) -> dict[str, list[Table]]:
    """Returns all tables, by the part of the report that they belong to."""
    area_by_method = compute_areas(yardstick.quality) if yardstick.quality is not None else {}
    return {
        "reading": score_tables.build_tables(yardstick.reading) if yardstick.reading is not None else [],
        "quality": quality_report.build_tables(yardstick.quality) if yardstick.quality is not None else [],
        "replay": [*build_total_tables(yardstick.replay, area_by_method), *replay.build_tables(yardstick.replay)]
        if yardstick.replay is not None
        else [],
        "speed": speed_tables.build_tables(yardstick.speed) if yardstick.speed is not None else [],
        "search": [
            *([question_search.build_table(yardstick.search)] if yardstick.search else []),
            *gold_answers.build_tables(yardstick.gold),
        ],
    }


def build_peers_table(yardstick: Yardstick) -> Table:
    """Returns the other projects that were measured, with their versions."""
    return Table("Other projects", ("project", "version"), sorted(yardstick.peers.items()))


def _build_sections(
    yardstick: Yardstick, charts: dict[str, Chart], goals: Sequence[YardstickGoal]
) -> Iterator[ReportSection]:
    found = build_tables(yardstick)
    if goals:
        yield ReportSection("goals", "Goals", tables=_sanitize_tables([build_goals_table(goals)]))
    worse = build_behind_table(yardstick)
    if worse.rows:
        yield ReportSection("behind", worse.title, tables=_sanitize_tables([worse]))
    yield ReportSection("reading", "The reading test", tables=_sanitize_tables(found["reading"]))
    yield ReportSection(
        "recall",
        "What a compaction keeps",
        _select_figures(charts, ("recall", "probes")),
        _sanitize_tables(found["quality"]),
    )
    yield ReportSection(
        "replay",
        "What a session costs",
        _select_figures(charts, ("context", "bill")),
        _sanitize_tables(found["replay"]),
    )
    yield ReportSection(
        "speed", "Speed and memory", _select_figures(charts, ("speed",)), _sanitize_tables(found["speed"])
    )
    yield ReportSection("search", "Search", tables=_sanitize_tables(found["search"]))
    if yardstick.peers:
        yield ReportSection("peers", "Other projects", tables=_sanitize_tables([build_peers_table(yardstick)]))


def _select_figures(charts: dict[str, Chart], prefixes: tuple[str, ...]) -> list[_PageFigure]:
    """Returns the charts whose names begin with one of the prefixes."""
    return [
        _PageFigure(
            sanitize(each.title),
            sanitize(each.caption),
            Markup(as_svg(each.figure, caption=sanitize(each.title))),  # noqa: S704 - matplotlib escapes what it writes
        )
        for name, each in charts.items()
        if name.startswith(prefixes)
    ]


def _sanitize_tables(tables: Iterable[Table]) -> list[Table]:
    """Returns the tables made safe to display."""
    return [
        Table(
            sanitize(t.title),
            tuple(map(sanitize, t.columns)),
            [tuple(map(sanitize, row)) for row in t.rows],
            sanitize(t.note),
        )
        for t in tables
    ]


def _load_template() -> str:
    return files("tenfold_yardstick").joinpath(_TEMPLATE).read_text("utf-8")
