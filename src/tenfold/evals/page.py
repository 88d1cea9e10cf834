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
from tenfold.evals import gold, replay, report, searching, speed_tables
from tenfold.evals.drawing import Drawn, as_svg
from tenfold.evals.goals import Goal, goals, goals_table
from tenfold.evals.plots import figures
from tenfold.evals.report import OURS, Yardstick
from tenfold.evals.standing import areas, together
from tenfold.evals.tables import Table
from tenfold.evals.verdict import behind, verdict
from tenfold.shown import told

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
_OPEN = 12
"""How many tables of a part are shown open. If there are more, all but the first two are folded."""


class _Figure(NamedTuple):
    title: str
    says: str
    svg: Markup


class Section(NamedTuple):
    """A part of the report: its charts, then its tables."""

    anchor: str
    title: str
    figures: Sequence[_Figure] = ()
    tables: Sequence[Table] = ()


def page(made: Yardstick, *, repeat: str, judged: bool = False) -> str:
    """Returns the report as HTML. `command` is the command that repeats it. `has_goals` adds Tenfold's own goals."""
    shape = Environment(autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True)
    charts = {each.name: each for each in figures(made)}
    shown_goals = goals(made) if judged else []
    columns = {name for part in tables(made).values() for table in part for name in table.columns}
    return shape.from_string(_template()).render(
        title="The yardstick",
        facts=facts(made),
        said=[told(sentence.replace("`", "")) for sentence in verdict(made)],
        sections=[section for section in _sections(made, charts, shown_goals) if section.figures or section.tables],
        texts=("Goals", behind(made).title, "Other projects"),
        terms={name: meaning for name, meaning in TERMS.items() if name in columns},
        verdicts=_VERDICTS,
        own=OURS,
        most=_OPEN,
        repeat=told(repeat),
    )


def facts(made: Yardstick) -> list[str]:
    """Returns when, with what, and on which machine the report was made: the line under its title."""
    out = [made.date, f"Tenfold {made.quality.version if made.quality is not None else __version__}"]
    if made.quality is not None:
        out.append(f"tokens counted with {made.quality.counter}")
    return [told(fact) for fact in (*out, made.machine) if fact]


def today() -> str:
    """Returns the current date in UTC."""
    return f"{datetime.now(UTC):%Y-%m-%d}"


def machine() -> str:
    """Describes the machine in a line: processors, architecture, system and Python, but no name and no path."""
    system = f"{platform.system()} {platform.release().split('-')[0]}"
    return f"{os.cpu_count()} cores, {platform.machine()}, {system}, Python {platform.python_version()}"


def tables(made: Yardstick) -> dict[str, list[Table]]:
    """Returns all tables, by the part of the report that they belong to."""
    area_by_method = areas(made.quality) if made.quality is not None else {}
    return {
        "quality": report.tables(made.quality) if made.quality is not None else [],
        "replay": [*together(made.replay, area_by_method), *replay.tables(made.replay)]
        if made.replay is not None
        else [],
        "speed": speed_tables.tables(made.speed) if made.speed is not None else [],
        "search": [*([searching.table(made.search)] if made.search else []), *gold.tables(made.gold)],
    }


def peers_table(made: Yardstick) -> Table:
    """Returns the other projects that were measured, with their versions."""
    return Table("Other projects", ("project", "version"), sorted(made.peers.items()))


def _sections(made: Yardstick, drawn: dict[str, Drawn], wanted: Sequence[Goal]) -> Iterator[Section]:
    found = tables(made)
    if wanted:
        yield Section("goals", "Goals", tables=_safe([goals_table(wanted)]))
    worse = behind(made)
    if worse.rows:
        yield Section("behind", worse.title, tables=_safe([worse]))
    yield Section("recall", "What a compaction keeps", _of(drawn, ("recall", "probes")), _safe(found["quality"]))
    yield Section("replay", "What a session costs", _of(drawn, ("context", "bill")), _safe(found["replay"]))
    yield Section("speed", "Speed and memory", _of(drawn, ("speed",)), _safe(found["speed"]))
    yield Section("search", "Search", tables=_safe(found["search"]))
    if made.peers:
        yield Section("peers", "Other projects", tables=_safe([peers_table(made)]))


def _of(drawn: dict[str, Drawn], beginnings: tuple[str, ...]) -> list[_Figure]:
    """Returns the charts whose names begin with one of the prefixes."""
    return [
        _Figure(told(each.title), told(each.says), Markup(as_svg(each.figure, says=told(each.title))))  # noqa: S704 - matplotlib escapes what it writes
        for name, each in drawn.items()
        if name.startswith(beginnings)
    ]


def _safe(found: Iterable[Table]) -> list[Table]:
    """Returns the tables made safe to display."""
    return [
        Table(told(t.title), tuple(map(told, t.columns)), [tuple(map(told, row)) for row in t.rows], told(t.note))
        for t in found
    ]


def _template() -> str:
    return files("tenfold.evals").joinpath(_TEMPLATE).read_text("utf-8")
