"""Measures everything and writes `docs/yardstick.md`: `make yardstick`.

The stages reading, quality, gates, replay, speed, search and generations each run the users' own command, over the
project's sessions and the folder that `TENFOLD_SESSIONS` names, and leave their result in `build/yardstick`. The stage
page writes the pages from these results: the documentation, and `build/report.html`. Without a stage all of them run:
`python -m yardstick.scripts.measure STAGE...`.

The stage reading asks no model: it takes recordings from `examples/reading`, or from the folder that `TENFOLD_READING`
names, which may hold files of questions about other sessions too.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from scripts.figures import describe_measurement
from tenfold.apps.cli.process import ExitCode
from tenfold_yardstick import page
from tenfold_yardstick.drawing import Chart, render_figure
from tenfold_yardstick.generations import Generations
from tenfold_yardstick.gold_answers import Quiz
from tenfold_yardstick.method_comparison import find_longest_sessions, list_windows
from tenfold_yardstick.methods import ALL
from tenfold_yardstick.peers import FOLDER, PEERS, find_version
from tenfold_yardstick.plots import draw_charts
from tenfold_yardstick.quality_report import OURS, Yardstick
from tenfold_yardstick.reading.question_files import READING_SUFFIX
from tenfold_yardstick.reading.recordings import READINGS_FILE
from tenfold_yardstick.reading.scoring import ReadingScores
from tenfold_yardstick.replay import Replays
from tenfold_yardstick.scores import Quality, select_area_scores
from tenfold_yardstick.speed import Speed
from tenfold_yardstick.tables import Table

ROOT = Path(__file__).resolve().parents[2]
OWN = ROOT / "examples" / "sessions"
OWN_READINGS = ROOT / "examples" / "reading"
BUILD = ROOT / "build" / "yardstick"
DOCS = ROOT / "docs"
ROUNDS, READING_ROUNDS, WINDOWS = "1,3,5,10", "1,5", "100k"
GENERATION_METHODS, GENERATION_BUDGET = "tenfold,tail,keep-last,truncate-middle,name-list", "4k"
COMMAND = "make peers yardstick"
Kind = TypeVar("Kind")
_SESSIONS = (".jsonl", ".json", ".traj")
_ENDS = ", ".join(_SESSIONS)
_NUMBER = re.compile(r"[-+$]?\d[\d.,]*(?: to \S+| ?[%\w]{1,2}|/\d+)?$|-$")
_PATH = re.compile(r"(?<![\w.:/])/(?:[\w.@+-]+/)+[\w.@+-]*")

_OPENING = """# The yardstick

What will your agent miss after a compaction, and what do you save? This page measures both for Tenfold, for other
libraries and for simple baselines, on recorded sessions.

Each session is cut where its agent was about to call the model. A method compacts all that comes before the cut to a
given number of tokens, its **budget**; what it leaves is the **view**. The session really went on after the cut. So
code can look up what the agent used later, and whether the view still shows it.

The figures, and the sentences with figures, are of {facts}.
[The measures](measures.md) defines each figure. [The peers](peers.md) says who the other projects are. You can measure
your own sessions with [`tenfold eval`](commands.md#tenfold-eval-quality).
"""
_SEVERAL_COMMITS = "Not all parts were measured at one commit: each says at which, so compare within a part only.\n"
_SECTION_STAGES = {
    "reading": ("reading",),
    "first": ("quality", "gates", "replay", "speed", "search"),
    "recall": ("quality", "gates"),
    "replay": ("replay",),
    "speed": ("speed",),
    "search": ("search",),
    "generations": ("generations",),
}
"""The stages that each section of the page has its figures from, by the section's anchor."""
_BOUNDS = """## What these figures do not say

- **How good a summary by your model is.** Only the reading test asks models. Everywhere else a method that needs a
  model gets a fixed stand-in, and Tenfold's policies write by code. What words are left depends much on the stand-in,
  so recall is measured with two of them (`+names`), which a table compares. `real-summary`, where it is listed, stands
  for the summaries that models really wrote in these sessions.
- **What you get without tuning.** Most of the other projects take no budget. The yardstick tries their settings until
  the result lands just below the budget. With the default settings you get less.
- **Whether a model uses what it sees.** A fact counts where it stands in the view word for word.
- **Whether a url works.** Tenfold takes a password out of a url. The url that is left counts as lost.
- **Your exact bill.** A cache may expire between two requests. The yardstick assumes that it never does.
- **How fast your machine is.** All times are of one machine. The other projects are timed inside their own processes,
  so the time to talk to them is left out.
- **How it does on sessions unlike these.** Few sessions give wide intervals, and Tenfold was developed with these.
  Measure your own.
"""
_REPEAT = """## How to repeat it

    tenfold eval peers install all               # installs the other projects, each in an environment of its own
    TENFOLD_SESSIONS=/path/to/sessions make yardstick

Without `TENFOLD_SESSIONS` only the project's own sessions are measured. You can run each stage by itself: `python -m
yardstick.scripts.measure reading`, then `quality`, `gates`, `replay`, `speed`, `search`, `generations` and `page`. The
results are in `build/yardstick`, all of them together in `build/yardstick.json`, and as one HTML page in
`build/report.html`.

On your own sessions: `tenfold eval quality FILES... --methods all,peers --html report.html`.
"""


# -- the stages --------------------------------------------------------------------------------------------------------


def list_folders() -> list[Path]:
    """Returns what is measured: the project's own sessions, and what is in the folder that `TENFOLD_SESSIONS` names."""
    named = os.environ.get("TENFOLD_SESSIONS", "")
    return [OWN, *find_session_paths(Path(named))] if named else [OWN]


def find_session_paths(folder: Path) -> list[Path]:
    """Returns the folders and files in a folder that may hold sessions. Ends the program if there are none."""
    if not folder.is_dir():
        sys.exit(f"yardstick: TENFOLD_SESSIONS names {folder}, which is no folder")
    found = [p for p in sorted(folder.iterdir()) if any(f.suffix in _SESSIONS for f in (p, *p.rglob("*")))]
    return found or sys.exit(f"yardstick: in {folder}, which TENFOLD_SESSIONS names, nothing ends in {_ENDS}")


def run_stage(stage: str, *arguments: str, name: str = "", files: Sequence[Path] = ()) -> None:
    """Runs `tenfold eval` with `--json` over the files and saves its output under `name`, or the stage's name.

    Without files it runs over all sessions.
    """
    paths = map(str, files or list_folders())
    command = [sys.executable, "-m", "tenfold", "eval", stage, *paths, *arguments, "--json"]
    measured = describe_measurement()
    ran = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=False)
    if ran.returncode and not (ran.returncode == ExitCode.FAILED and ran.stdout):  # a method that could not run is told
        sys.exit(f"yardstick: the stage {name or stage} ended with {ran.returncode}")
    save_result(name or stage, ran.stdout)
    (BUILD / f"{name or stage}.measured").write_text(measured, "utf-8")


def save_result(name: str, data: bytes) -> None:
    """Writes a result completely or not at all."""
    BUILD.mkdir(parents=True, exist_ok=True)
    beside = BUILD / f"{name}.part"
    beside.write_bytes(data)
    beside.replace(BUILD / f"{name}.json")


def replay_readings() -> None:
    """Replays the reading test of all methods from recordings, if there are any."""
    named = os.environ.get("TENFOLD_READING", "")
    folder = Path(named) if named else OWN_READINGS
    if not (folder / READINGS_FILE).exists():
        print(f"yardstick: {folder} holds no {READINGS_FILE}, so the reading test is left out")
        return
    files = [OWN, folder] if named and any(folder.rglob("*" + READING_SUFFIX)) else [OWN]
    options = ("--methods", f"{ALL},peers", "--rounds", READING_ROUNDS, "--replay", str(folder.resolve()))
    run_stage("reading", *options, files=files)


def measure_quality() -> None:
    """Measures recall, probes, false facts and validity of all methods."""
    run_stage("quality", "--methods", f"{ALL},peers", "--rounds", ROUNDS)


def check_gates() -> None:
    """Checks the validity of the policy `tenfold` at every index of every session, twice at each."""
    run_stage("quality", "--methods", OURS, "--budgets", "4k", "--every-cut", name="gates")


def replay_sessions() -> None:
    """Replays every session request by request with all methods."""
    run_stage("replay", "--methods", f"{ALL},peers", "--windows", WINDOWS)


def measure_speed() -> None:
    """Times Tenfold and the peers, with archives of up to a million entries, which take three gigabytes for a while."""
    run_stage("speed", "--methods", "peers", "--full")


def search_questions() -> None:
    """Searches for what the questions ask, and for their answers after a compaction."""
    run_stage("search", "--methods", f"{ALL},peers")


def measure_generations() -> None:
    """Asks the questions about the project's own sessions after each of ten compactions."""
    run_stage("generations", "--methods", GENERATION_METHODS, "--budgets", GENERATION_BUDGET, files=[OWN])


# -- the pages ---------------------------------------------------------------------------------------------------------


def load_yardstick() -> Yardstick:
    """Returns the stages' results as one value. A stage that did not run is missing in it."""
    days = sorted({f"{datetime.fromtimestamp(path.stat().st_mtime, UTC):%Y-%m-%d}" for path in BUILD.glob("*.json")})
    if not days:
        sys.exit("yardstick: nothing was measured yet: python -m yardstick.scripts.measure quality")
    quiz = read_result("search", Quiz) or Quiz()
    return Yardstick(
        merge_gates(read_result("quality", Quality), read_result("gates", Quality)),
        read_result("replay", Replays),
        read_result("speed", Speed),
        quiz.search,
        quiz.gold,
        " to ".join(dict.fromkeys((days[0], days[-1]))),
        page.describe_machine(),
        read_versions(),
        read_result("reading", ReadingScores),
        read_result("generations", Generations),
    )


def read_result(name: str, kind: type[Kind]) -> Kind | None:
    """Returns the result of a stage, if it ran."""
    path = BUILD / f"{name}.json"
    return msgspec.json.decode(path.read_bytes(), type=kind) if path.exists() else None


def merge_gates(quality: Quality | None, gates: Quality | None) -> Quality | None:
    """Returns what was measured at the cuts, with the gates of those methods that were checked at every index."""
    if quality is None or gates is None:
        return quality
    rest = (each for each in quality.checked if each.method not in gates.methods)
    return replace(quality, checked=(*gates.checked, *rest))


def read_versions() -> dict[str, str]:
    """Returns the version of each installed project, from the pins of its environment."""
    out: dict[str, str] = {}
    for worker in dict.fromkeys(peer.worker for peer in PEERS):
        name, version = find_version(worker)
        out[name] = version if (ROOT / FOLDER / worker).is_dir() else "not installed"
    return out


def write_pages() -> None:
    """Writes the pages."""
    made = load_yardstick()
    save_result("../yardstick", msgspec.json.encode(made))
    (BUILD.parent / "report.html").write_text(page.render_page(made, command=COMMAND, has_goals=True), "utf-8")
    pictures = DOCS / "yardstick"
    pictures.mkdir(exist_ok=True)
    drawn = draw_charts(made)
    for path in {*pictures.glob("*.png")} - {pictures / f"{each.name}.png" for each in drawn}:
        path.unlink()
    for each in drawn:
        (pictures / f"{each.name}.png").write_bytes(render_figure(each.figure, "png"))
    (DOCS / "yardstick.md").write_text(render_document(made, drawn, measured=read_measurements()), "utf-8")
    print(f"{DOCS / 'yardstick.md'}\n{BUILD.parent / 'report.html'}")


def read_measurements() -> dict[str, str]:
    """Returns when and with which commit each stage was measured, if known, since a stage can run by itself."""
    found = {stage: BUILD / f"{stage}.measured" for stage in STAGES}
    return {stage: path.read_text("utf-8") for stage, path in found.items() if path.exists()}


def render_measurements(measured: Mapping[str, str], stages: Iterable[str]) -> str:
    """Returns a line for all of these stages that were measured on one day with one commit."""
    found: dict[str, list[str]] = {}
    for stage in stages:
        if stage in measured:
            found.setdefault(measured[stage].rstrip("."), []).append(stage)
    return "\n".join(f"{line}: {', '.join(names)}.\n" for line, names in found.items())


def render_document(yardstick: Yardstick, charts: Sequence[Chart], *, measured: Mapping[str, str] | None = None) -> str:
    """Returns the page of the documentation. It holds names and numbers of sessions, and no path of this machine.

    `measured` says when and with which commit each stage was measured. Where that differs, each section says its own.
    """
    at = measured or {}
    is_one = len(set(at.values())) < 2
    sections = page.build_sections(yardstick, charts, has_goals=True)
    parts = [
        _OPENING.format(facts="; ".join(page.list_run_facts(yardstick)[1:])),
        render_measurements(at, at) if is_one else _SEVERAL_COMMITS,
        *(
            render_section(yardstick, each, measured={} if is_one else at)
            for each in sections
            if each.anchor != "peers"
        ),
        _BOUNDS,
        *(render_section(yardstick, each) for each in sections if each.anchor == "peers"),
        _REPEAT,
    ]
    return remove_paths("\n".join(part for part in parts if part))


def render_section(
    yardstick: Yardstick, section: page.ReportSection, *, measured: Mapping[str, str] | None = None
) -> str:
    """Returns a part of the page: its intro, when it was measured, its pictures and then its tables."""
    measurements = render_measurements(measured or {}, _SECTION_STAGES.get(section.anchor, ()))
    tables = select_cost_tables(yardstick, section.tables) if section.anchor == "replay" else section.tables
    pictures = [f"### {c.title}\n\n![{c.title}](yardstick/{c.name}.png)\n\n{c.caption}\n" for c in section.charts]
    drawn = [render_table(table, level=3 * (table.title != section.title)) for table in tables]
    end = [describe_sessions(yardstick.quality)] if section.anchor == "first" and yardstick.quality is not None else []
    return "\n".join(
        [f"## {section.title}\n", f"{section.intro}\n", *filter(None, [measurements]), *pictures, *drawn, *end]
    )


def describe_sessions(quality: Quality) -> str:
    """Says what was measured: how many sessions, cuts and needed facts."""
    if not quality.recall:
        return ""
    cuts = {(r.session, r.cut): r for r in select_area_scores(quality)}
    sizes = sorted(r.past_tokens for r in cuts.values())
    return (
        f"The area rests on {len({name for name, _ in cuts})} recorded sessions, cut in {len(cuts)} places. Their "
        f"pasts have {sizes[0]:,} to {sizes[-1]:,} tokens, and their agents later needed "
        f"{sum(r.needed for r in cuts.values()):,} facts. A past below 4k tokens is no part of the area, nor is one "
        "whose future needed nothing. Both count at smaller budgets, in probes, in planted rules and in validity.\n\n"
        + render_table(build_sources_table(quality), level=3)
    )


def build_sources_table(quality: Quality) -> Table:
    """Returns the measured files, each with its sessions, the cuts that count for the area, and the facts needed."""
    cuts: dict[str, dict[tuple[str, int], int]] = {}
    for each in quality.probes:
        cuts.setdefault(each.session.partition("#")[0], {})[each.session, each.cut] = each.past_tokens
    needed = {(r.session, r.cut): r.needed for r in select_area_scores(quality)}
    rows = []
    for file, pasts in cuts.items():
        rated = [needed[place] for place in pasts if place in needed]
        found = (len({session for session, _ in pasts}), len(pasts), max(pasts.values()), len(rated), sum(rated))
        rows.append((file, *(f"{number:,}" for number in found)))
    columns = ("file", "sessions", "cuts", "longest past", "cuts in the area", "facts needed there")
    return Table(
        "The sessions", columns, rows, "[The measures](measures.md#the-sessions) says where each file is from."
    )


def select_cost_tables(yardstick: Yardstick, tables: Sequence[Table]) -> list[Table]:
    """Returns the tables of replays.

    Of those of single sessions only the two longest that had to compact are included.
    """
    if yardstick.replay is None:
        return []
    names = {
        f"{played[0].session}, window {window:,}"
        for window in list_windows(yardstick.replay)
        for played in find_longest_sessions(yardstick.replay, window)[:2]
    }
    single = {f"{one.session}, window {one.window:,}" for one in yardstick.replay.played}
    return [table for table in tables if table.title not in single or table.title in names]


def render_table(table: Table, *, level: int) -> str:
    """Returns a table as Markdown under a heading of this level (0: no heading)."""

    def render_row(cells: Iterable[str]) -> str:
        return f"| {' | '.join(' '.join(cell.split()).replace('|', chr(92) + '|') for cell in cells)} |"

    numbers = [all(_NUMBER.match(row[i]) for row in table.rows) for i in range(len(table.columns))]
    rule = render_row("---:" if number else "---" for number in numbers)
    heading = [f"{'#' * level} {table.title}", ""] if level else []
    note = ["", table.note] if table.note else []
    return "\n".join([*heading, render_row(table.columns), rule, *map(render_row, table.rows), *note, ""])


def remove_paths(text: str) -> str:
    """Removes the paths of this machine, which the reasons of other projects may contain."""
    kept_text = _PATH.sub("(a path)", text.replace(str(ROOT), "(here)"))
    return kept_text.replace("TENFOLD_SESSIONS=(a path)", "TENFOLD_SESSIONS=/path/to/sessions")


STAGES: Mapping[str, Callable[[], None]] = {
    "reading": replay_readings,
    "quality": measure_quality,
    "gates": check_gates,
    "replay": replay_sessions,
    "speed": measure_speed,
    "search": search_questions,
    "generations": measure_generations,
    "page": write_pages,
}


def main() -> None:
    """Runs the named stages, or all of them."""
    wanted = sys.argv[1:] or list(STAGES)
    strange = [name for name in wanted if name not in STAGES]
    if strange:
        sys.exit(f"yardstick: there is no stage {strange[0]!r}; there are {', '.join(STAGES)}")
    for name in wanted:
        start = time.perf_counter()
        STAGES[name]()
        print(f"{name}: {time.perf_counter() - start:,.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
