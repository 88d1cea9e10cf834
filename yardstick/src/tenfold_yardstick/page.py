"""Renders the yardstick as a single HTML file. It needs `pip install 'tenfold[eval]'`.

Everything from a session is treated as text: control characters are removed from names and reasons, secrets are
redacted, and everything is escaped. The file loads nothing and runs no script.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from typing import NamedTuple

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from tenfold import __version__
from tenfold.core.text.terminal_safe import sanitize
from tenfold_yardstick import generations, gold_answers, quality_report, question_search, replay, speed_tables
from tenfold_yardstick.drawing import Chart, as_svg
from tenfold_yardstick.goals import build_goals_table, judge_goals
from tenfold_yardstick.method_comparison import build_total_tables, compute_areas
from tenfold_yardstick.plots import draw_charts
from tenfold_yardstick.quality_report import OURS, Yardstick
from tenfold_yardstick.reading import score_tables
from tenfold_yardstick.tables import Table
from tenfold_yardstick.verdict import build_behind_table, write_verdict

_TEMPLATE = "page.html.jinja"
READING_INTRO = """\
Where code counts words, a list of names scores high, and nobody can go on from such a list. So this test asks for
more. A model sees nothing but the view, and answers questions that a careful person asked about the past. Another
model grades each answer against the right one, and does not know the method. [The reading test](reading.md) says how.
The measures further below ask no model. They cover many more places, and show which facts were lost."""
RECALL_INTRO = """\
These counts see words and not sense: a bare list of names scores high, and nobody could go on from it. So read the
reading test first.

**Future-use recall** is the share of the facts which the agent needed later, and which the view still shows. A fact
is a path, a name, an id, a number or a url. The agent used it after the cut, it stood before the cut, and nobody
repeated it in between. A result above its budget scores 0, since it could not have been sent. The **area** sums up
the recall at the budgets from 4k to 32k tokens in one number from 0 to 1.

**Typed probes** are questions that a careful reader would ask: which rule holds, which file was changed, how a
command ended. **Planted rules** are rules that the yardstick puts into the past, said once in passing. **Validity**
counts what a provider would reject, and **false facts** are names that the session never held."""
REPLAY_INTRO = """\
Here each session is played again, request by request. The bill is computed from list prices, and from what the
provider's cache can serve at best. A method that often rewrites the beginning of the conversation gets little from
the cache, and you pay for that. A provider refuses a request that is larger than the window; such requests are
counted as *over*."""
SPEED_INTRO = """\
A turn is what happens before a call of the model: the host hands over its messages, and usually nothing has to be
compacted yet. A compaction, an opening of a stored session and a search are timed by themselves."""
SEARCH_INTRO = """\
What a view does not show any more, a search should find. Each question here has a known answer. First the whole
history is searched with the words of the question. Then the history is compacted, and the answer has to stand in the
view, or in what one search finds."""
GENERATIONS_INTRO = """\
A long session is compacted more than once, and each time the view of the last compaction is compacted too. Here a
session grows in equal stretches and is compacted after each. Then up to fifteen questions are asked, spread over what
has been said, and code looks for their answers in the view. The lookup arm may search the session once for the words of
the question. The ceiling, `full-past`, is the session without a compaction.
[The measures](measures.md#recall-over-generations) has the procedure, the figures on a public set, and how to set yours
beside them."""
PEERS_INTRO = """\
These are the versions that were measured. [The peers](peers.md) says how each one is asked."""
_NOT_MEASURED = "Future-use recall was not measured."
TERMS = {
    "area": "mean height of the recall over the logarithm of the budgets, 0 to 1",
    "95 %": "bootstrap interval of the area, over whole sessions",
    "mean of files": "the area with every file weighing alike, however many sessions it holds; else facts are pooled",
    "with search": "facts in the view or found by one search; only Tenfold's methods have one",
    "asked early": "the same, the search made before the agent began the message that used the fact",
    "refetch": "tokens that the agent would read again to get back what is missing, mean over results",
    "of budget": "tokens really used, as a share of the budget, mean over results",
    "not sent": "results above their budget, refused by providers or not given, of all; they score 0",
    "bare words": "probes whose answer's words stand anywhere, not near what they are about",
    "stale": "answers that something later in the past had superseded",
    "complete": "share of the grades that are 1",
    "half": "share of the grades that are 0.5",
    "misleading": "share of the grades that are -1: the answer contradicts the gold answer",
    "graded": "answers behind the score, those that say nothing included",
    "above": "views more than 2 % over their size; they are scored all the same",
    "range": "the score if of several grades of an answer the worst counted, and if the best did",
    "readings": "how often each view was read; all readings count",
    "stale readings": "answers given from an older view, which do not count",
    "peak": "tokens of the largest request",
    "over": "requests larger than the window, which a provider refuses",
    "compactions": "in a replay: requests that do not begin with all of the one before",
    "cached": "share of the input that a provider's cache can serve at best",
    "rewritten": "tokens that are not new and yet not cached, because something before them changed",
    "blocked": "seconds that the conversation waited for the method, model calls apart",
    "longest": "the longest of these waits",
    "counts": "of what a turn counts the tokens: rows do equal work only where this is the same",
    "way": "how the host gives a turn: what is new (append), its whole list (sync), its request; hook: a peer's own",
}
"""The columns of tables that need an explanation."""
_VERDICTS = ("met", "not met")
_NO_MODEL = "No model"
_READING_MODELS = "Models answered and graded the reading test, as its note says; otherwise no model"
_MAX_OPEN_TABLES = 12
"""How many tables of a part are shown open. If there are more, all but the first two are folded."""


class ReportSection(NamedTuple):
    """A part of the report: what it asks and how to read it, its charts, and its tables."""

    anchor: str
    title: str
    intro: str
    charts: Sequence[Chart]
    tables: Sequence[Table]


def render_page(yardstick: Yardstick, *, command: str, has_goals: bool = False) -> str:
    """Returns the report as HTML. `command` is the command that repeats it. `has_goals` adds Tenfold's own goals."""
    shape = Environment(autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True)
    shape.filters |= {"safe_text": sanitize, "plain": _strip_markdown, "drawn": _draw_svg}
    sections = build_sections(yardstick, draw_charts(yardstick), has_goals=has_goals)
    columns = {name for part in build_tables(yardstick).values() for table in part for name in table.columns}
    return shape.from_string(files("tenfold_yardstick").joinpath(_TEMPLATE).read_text("utf-8")).render(
        title="The yardstick",
        facts=list_run_facts(yardstick),
        sections=[each._replace(tables=_sanitize_tables(each.tables)) for each in sections],
        texts=("Goals", build_behind_table(yardstick).title, "Other projects"),
        terms={name: meaning for name, meaning in TERMS.items() if name in columns},
        verdicts=_VERDICTS,
        own=OURS,
        most=_MAX_OPEN_TABLES,
        repeat=sanitize(command),
        models=_NO_MODEL if yardstick.reading is None else _READING_MODELS,
    )


def build_sections(yardstick: Yardstick, charts: Sequence[Chart], *, has_goals: bool) -> list[ReportSection]:
    """Returns the parts of the report that there is anything to show of, in their order. Intros are Markdown."""
    found = build_tables(yardstick)
    first = [build_goals_table(judge_goals(yardstick))] if has_goals else []
    first += [table for table in (build_behind_table(yardstick),) if table.rows]
    peers = [Table("Other projects", ("project", "version"), sorted(yardstick.peers.items()))]
    parts = [
        ("reading", "Can a reader go on from it?", READING_INTRO, (), found["reading"]),
        ("first", "Is Tenfold first?", "\n".join(write_verdict(yardstick)) or _NOT_MEASURED, (), first),
        ("recall", "What a compaction keeps", RECALL_INTRO, ("recall", "probes"), found["quality"]),
        ("replay", "What a session costs", REPLAY_INTRO, ("context", "bill"), found["replay"]),
        ("speed", "Speed and memory", SPEED_INTRO, ("speed",), found["speed"]),
        ("search", "Search", SEARCH_INTRO, (), found["search"]),
        ("generations", "Over generations", GENERATIONS_INTRO, ("generations",), found["generations"]),
        ("peers", "Other projects", PEERS_INTRO, (), peers if yardstick.peers else []),
    ]
    return [
        ReportSection(anchor, title, intro, [each for each in charts if each.name.startswith(own)] if own else [], rows)
        for anchor, title, intro, own, rows in parts
        if rows or any(each.name.startswith(own) for each in charts if own)
    ]


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
        "generations": generations.build_tables(yardstick.generations) if yardstick.generations is not None else [],
    }


def _draw_svg(chart: Chart) -> Markup:
    return Markup(as_svg(chart.figure, caption=sanitize(chart.title)))  # noqa: S704 - matplotlib escapes what it writes


def _strip_markdown(text: str) -> str:
    """Returns the text of an intro without its links and marks, safe to display."""
    return sanitize(re.sub(r"[`*]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)))


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
