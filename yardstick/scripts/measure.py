"""Measures everything and writes `docs/yardstick.md`: `make yardstick`.

The stages reading, quality, gates, replay, speed and search each run the users' own command, over the project's
sessions and the folder that `TENFOLD_SESSIONS` names, and leave their result in `build/yardstick`. The stage page
writes the pages from these results: the documentation, and `build/report.html`. Without a stage all of them run:
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
from tenfold.testing.methods import ALL
from tenfold_yardstick import page
from tenfold_yardstick.drawing import as_png
from tenfold_yardstick.goals import build_goals_table, judge_goals
from tenfold_yardstick.gold_answers import Quiz
from tenfold_yardstick.method_comparison import find_longest_sessions, list_windows
from tenfold_yardstick.peers import PEERS
from tenfold_yardstick.plots import draw_charts
from tenfold_yardstick.quality_report import OURS, Yardstick
from tenfold_yardstick.reading.question_files import READING_SUFFIX
from tenfold_yardstick.reading.recordings import READINGS_FILE
from tenfold_yardstick.reading.scoring import ReadingScores
from tenfold_yardstick.replay import Replays
from tenfold_yardstick.scores import Quality, select_area_scores
from tenfold_yardstick.speed import Speed
from tenfold_yardstick.tables import Table
from tenfold_yardstick.verdict import build_behind_table, write_verdict

ROOT = Path(__file__).resolve().parents[2]
OWN = ROOT / "examples" / "sessions"
OWN_READINGS = ROOT / "examples" / "reading"
BUILD = ROOT / "build" / "yardstick"
DOCS = ROOT / "docs"
ROUNDS, READING_ROUNDS, WINDOWS = "1,3,5,10", "1,5", "100k"
COMMAND = "make peers yardstick"
Kind = TypeVar("Kind")
_SESSIONS = (".jsonl", ".json", ".traj")
_ENDS = ", ".join(_SESSIONS)
_DISTRIBUTIONS = ("{}", "{}-core", "{}-ai", "{}-sdk")
_NUMBER = re.compile(r"[-+$]?\d[\d.,]*(?: to \S+| ?[%\w]{1,2}|/\d+)?$|-$")
_PATH = re.compile(r"(?<![\w.:/])/(?:[\w.@+-]+/)+[\w.@+-]*")

_OPENING = """# The yardstick

What `make yardstick` measured: {facts}. Every figure on this page is computed from that result, the
sentences with figures too. What each figure means is defined in [The measures](measures.md); the commands are those of
[`tenfold eval`](commands.md#tenfold-eval-quality); who the other projects are and how each is asked, is said in
[The peers](peers.md).
"""
_READING = """## Can a reader go on from it?

A model that sees nothing but a view answers questions that a careful person asked about the past, and another model
grades the answers against gold answers: [The reading test](reading.md). It comes first because the recall of words
below is not enough. A view can hold every name and number that is needed later, and still not say what was decided,
why, and whether it worked; a list of words scores high there and nobody can go on from it. Recall, probes and bills
stay, because they need no model, cover many more places, and show what exactly was lost.
"""
_BOUNDS = """## What these figures do not say

- **No model was asked**, apart from the reading test. Where a method needs one, all get the same deterministic
  stand-in, Tenfold's own policies none at all. The figures say what each method keeps by its own code and by its own
  choice of what stays. They do not say how good a summary by a real model would be; `real-summary`, where it is listed,
  are summaries that models really wrote in recorded sessions.
- **A setting is searched for.** Most of the other projects have no budget to give. The yardstick looks for the setting
  that lands as near below the budget as it can; a user who keeps the default gets less. Where none lands below it, the
  score there is 0.
- **Recall is of text.** A fact counts where it stands word for word; what a model would make of it is not measured.
- **Secrets count as missing.** Of the urls that are asked for some have a password in them. Tenfold's summaries leave
  it out, and a url without it is not the one that was asked for.
- **Bills are computed**, from list prices and from what a provider's cache can serve at best: caches that expire
  between two requests are not modelled.
- **What looks like a secret is not carried.** Tenfold redacts a password in a url wherever it writes words of its own,
  so url probes of a session whose test data are such urls are lost to it and found with methods that keep them.
- **Times are of one machine.** Other projects are timed inside their own processes, around their own hook; nothing of
  the protocol is in it. What is compared is a turn in which nothing is to be compacted.
- **Few sessions make wide intervals**, and they speak of sessions like these, which are no held-out set: measure it on
  your own.
"""
_REPEAT = """## How to repeat it

    make peers                                   # the other projects, each in an environment of its own
    TENFOLD_SESSIONS=/path/to/sessions make yardstick

Without `TENFOLD_SESSIONS` the project's own sessions are measured alone. Each stage can be run by itself
(`python -m yardstick.scripts.measure reading`, then `quality`, `gates`, `replay`, `speed`, `search`, `page`); results
lie in `build/yardstick`, all of them in `build/yardstick.json`, and the same report as one HTML page in
`build/report.html`.
On sessions of your own: `tenfold eval quality FILES... --methods all,peers --html report.html`.
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
    if ran.returncode:
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
        pins = (ROOT / "yardstick" / "peers" / worker / "requirements.txt").read_text("utf-8").splitlines()
        pinned = dict(
            line.replace("_", "-").split("==", 1) for line in pins if "==" in line and not line.startswith("#")
        )
        name = next(n for n in (end.format(worker) for end in _DISTRIBUTIONS) if n in pinned)
        out[name] = pinned[name] if (ROOT / ".peers" / worker).is_dir() else "not installed"
    return out


def write_pages() -> None:
    """Writes the pages."""
    made = load_yardstick()
    save_result("../yardstick", msgspec.json.encode(made))
    (BUILD.parent / "report.html").write_text(page.render_page(made, command=COMMAND, has_goals=True), "utf-8")
    pictures = DOCS / "yardstick"
    pictures.mkdir(exist_ok=True)
    drawn = {each.name: each for each in draw_charts(made)}
    for name, each in drawn.items():
        (pictures / f"{name}.png").write_bytes(as_png(each.figure))
    for path in pictures.glob("*.png"):
        if path.stem not in drawn:
            path.unlink()
    text = render_document(
        made, {name: (each.title, each.caption) for name, each in drawn.items()}, measured=read_measurements()
    )
    (DOCS / "yardstick.md").write_text(text, "utf-8")
    print(f"{DOCS / 'yardstick.md'}\n{BUILD.parent / 'report.html'}")


def read_measurements() -> dict[str, str]:
    """Returns when and with which commit each stage was measured, if known, since a stage can run by itself."""
    found = {stage: BUILD / f"{stage}.measured" for stage in STAGES}
    return {stage: path.read_text("utf-8") for stage, path in found.items() if path.exists()}


def render_measurements(measured: Mapping[str, str]) -> str:
    """Returns a line for all stages that were measured on one day with one commit."""
    stages: dict[str, list[str]] = {}
    for stage, line in measured.items():
        stages.setdefault(line.rstrip("."), []).append(stage)
    return "\n".join(f"{line}: {', '.join(names)}.\n" for line, names in stages.items())


def render_document(
    yardstick: Yardstick, charts: Mapping[str, tuple[str, str]], *, measured: Mapping[str, str] | None = None
) -> str:
    """Returns the page of the documentation. It holds names and numbers of sessions, and no path of this machine.

    `measured` says when and with which commit each stage was measured.
    """
    found = page.build_tables(yardstick)
    worse = build_behind_table(yardstick)
    parts = [
        _OPENING.format(facts="; ".join(page.list_run_facts(yardstick)[1:])),
        render_measurements(measured or {}),
        render_reading(found["reading"]),
        "## Is Tenfold first?\n",
        "\n".join(write_verdict(yardstick)) + "\n"
        if write_verdict(yardstick)
        else "Future-use recall was not measured.\n",
        render_table(build_goals_table(judge_goals(yardstick)), level=3),
        render_table(worse, level=3) if worse.rows else "",
        describe_sessions(yardstick),
        render_section("What a compaction keeps", charts, ("recall", "probes"), found["quality"]),
        render_section(
            "What a session costs", charts, ("context", "bill"), select_cost_tables(yardstick, found["replay"])
        ),
        render_section("Speed and memory", charts, ("speed",), found["speed"]),
        render_section("Search", charts, (), found["search"]),
        _BOUNDS,
        "## The other projects\n",
        render_table(page.build_peers_table(yardstick), level=0),
        _REPEAT,
    ]
    return remove_paths("\n".join(part for part in parts if part))


def render_reading(tables: Sequence[Table]) -> str:
    """Returns the part of the reading test, or "" if it did not run."""
    return "\n".join([_READING, *(render_table(table, level=3) for table in tables)]) if tables else ""


def describe_sessions(yardstick: Yardstick) -> str:
    """Says what was measured: how many sessions, cuts and needed facts."""
    if yardstick.quality is None or not yardstick.quality.recall:
        return ""
    cuts = {(r.session, r.cut): r for r in select_area_scores(yardstick.quality)}
    sizes = sorted(r.past_tokens for r in cuts.values())
    return (
        f"Measured on {len({name for name, _ in cuts})} recorded sessions, cut in {len(cuts)} places, with pasts of "
        f"{sizes[0]:,} to {sizes[-1]:,} tokens, of which their real futures went on to need "
        f"{sum(r.needed for r in cuts.values()):,} facts: these make the area. Pasts below 4k tokens, and those whose "
        "future needed nothing, count at the smaller budgets, in probes, in planted rules and in validity.\n\n"
        + render_table(build_sources_table(yardstick.quality), level=3)
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
    return Table("The sessions", columns, rows, "where each is from: [The measures](measures.md#the-sessions)")


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


def render_section(
    title: str, charts: Mapping[str, tuple[str, str]], prefixes: tuple[str, ...], tables: Iterable[Table]
) -> str:
    """Returns a part of the page, its pictures and then its tables, or "" if there are neither."""
    pictures = [
        f"### {what}\n\n![{what}](yardstick/{name}.png)\n\n{says}\n"
        for name, (what, says) in charts.items()
        if prefixes and name.startswith(prefixes)
    ]
    parts = [*pictures, *(render_table(table, level=3) for table in tables)]
    return "\n".join([f"## {title}\n", *parts]) if parts else ""


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
