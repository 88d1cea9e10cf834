"""Runs a real client through `tenfold wrap`, twice over one session, and says what came of it."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from tenfold.store.location import open_store
from tests.live.client_rows import ClientRow
from tests.live.scripted_provider import BYTES_PER_TOKEN, ScriptedProvider
from tests.live.terminal_run import run_in_terminal

ROOT = Path(__file__).parents[2]
INSTALLED = ROOT / ".clients"
TASKS = (
    "Read all parts of the program one after the other. Never touch config/secret.toml.",
    "Go on with the other parts.",
)
STEPS = 22
"""Calls of tools for each task."""
TIMEOUT = 300
_WORDS = ("alpha", "beta", "gamma", "delta", "value", "result", "total")


class ClientResult(Struct, frozen=True):
    """What came of a run. `problems` is empty if everything holds that the page promises."""

    client: str
    version: str
    window: int
    steps: int
    requests: int
    compactions: int
    largest: int
    refusals: tuple[str, ...]
    native: int
    is_resumed: bool | None
    is_searched: bool
    is_undone: bool
    seconds: float
    problems: tuple[str, ...]


def find_programs(row: ClientRow) -> Path | None:
    """The folder with a client's programs, None if it is not installed."""
    if not row.place:
        return Path(sys.executable).parent
    places = (INSTALLED / row.place / "node_modules" / ".bin", INSTALLED / row.place / "bin")
    return next((place for place in places if place.is_dir()), None)


def run_client(row: ClientRow, programs: Path) -> ClientResult:
    """Gives a client two tasks of 22 steps each, the second in the same session."""
    with TemporaryDirectory(prefix="tenfold-client-", ignore_cleanup_errors=True) as temporary:
        home = Path(temporary)
        work = home / "work"
        write_parts(work)
        tasks = TASKS if row.resume else TASKS[:1]
        steps = STEPS if row.resume else 2 * STEPS
        with ScriptedProvider(
            window=row.window, steps=steps, folder=str(work), end_command=row.end_command
        ) as provider:
            env = build_environment(home, programs) | row.configure(home, provider.url)
            start, problems = time.monotonic(), list[str]()
            for number, task in enumerate(tasks):
                if number:
                    provider.start_task()
                problems += run_task(row, task, provider, home, env)
            seconds = time.monotonic() - start
            if row.stop:
                subprocess.run(row.stop, env=env, cwd=work, capture_output=True, check=False, timeout=30)
        return _judge_run(row, provider, home, env, seconds, problems)


def write_parts(folder: Path) -> None:
    """Writes sixty files of two kilobytes, every one with words of its own."""
    folder.mkdir()
    chosen = random.Random(1)  # noqa: S311 - the same files every time
    for number in range(1, 61):
        lines = (f"line{number}x{n} {' '.join(chosen.choices(_WORDS, k=8))}" for n in range(40))
        (folder / f"part{number:02}.txt").write_text("\n".join(lines), "utf-8")


def build_environment(home: Path, programs: Path) -> dict[str, str]:
    """An environment with nothing of the user's."""
    node = os.pathsep.join(place for place in os.environ["PATH"].split(os.pathsep) if "shims" not in place)
    return {
        "HOME": str(home),
        "PATH": os.pathsep.join((str(programs), node)),
        "PYTHONPATH": str(ROOT / "src"),
        "TENFOLD_STORE": str(home / "tenfold.db"),
        "TERM": "dumb",
        "LANG": "C.UTF-8",
        "CI": "1",
    }


def run_task(row: ClientRow, task: str, provider: ScriptedProvider, home: Path, env: dict[str, str]) -> list[str]:
    """Gives a client one task, and returns what went wrong."""
    is_first = task == TASKS[0]
    sessions = sorted((home / ".cline/data/sessions").glob("*"))
    python = "python" if row.place else sys.executable
    named = {
        "home": home,
        "clients": ROOT / "clients",
        "python": python,
        "session": sessions[-1].name if sessions else "",
    }
    words = [word.format_map(named) for word in (row.begin if is_first else row.resume)]
    wrapped = [sys.executable, "-m", "tenfold", "wrap", "--window", str(row.window)]
    wrapped += [*(word.format(url=provider.url) for word in row.options), *words]
    if row.resumes_in_terminal and not is_first:
        _, shown = run_in_terminal(
            wrapped, task, lambda: provider.count("end") == len(TASKS), env=env, cwd=home / "work", timeout=TIMEOUT
        )
        return _check_last_line(shown)
    wrapped.append(task)
    try:
        ran = subprocess.run(
            wrapped, cwd=home / "work", env=env, capture_output=True, text=True, check=False, timeout=TIMEOUT,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return [f"it did not end within {TIMEOUT} s"]
    if ran.returncode:
        return [f"exit code {ran.returncode}: {ran.stderr[-600:]}"]
    return _check_last_line(ran.stderr)


def _check_last_line(shown: str) -> list[str]:
    """The wrapper's line stands at the end."""
    last = " ".join(shown.split())[-200:]  # a terminal breaks it
    return [] if "inspect it: tenfold show" in last else [f"the last line is {last}"]


def _judge_run(
    row: ClientRow, provider: ScriptedProvider, home: Path, env: dict[str, str], seconds: float, problems: list[str]
) -> ClientResult:
    store = open_store(home / "tenfold.db")
    rows = store.list_sessions("default")
    main = max(rows, key=lambda each: each.entry_count, default=None)
    found = main is not None and bool(store.search("default", "line3x27", session=main.info.id))
    second = main is not None and bool(store.search("default", TASKS[1], session=main.info.id))
    compactions = main.block_count if main is not None else 0
    store.close()
    undone = main is not None and _undo_compaction(main.info.id, env)
    if provider.count("end") != (2 if row.resume else 1):
        problems.append(f"the task was finished {provider.count('end')} times")
    for holds, text in ((found, "nothing is found"), (undone, "nothing is undone"), (compactions, "no compaction")):
        if not holds:
            problems.append(text)
    if row.resume and not second:
        problems.append("the second task is not in the same session")
    return ClientResult(
        client=row.name,
        version=row.version,
        window=row.window,
        steps=provider.step,
        requests=len(provider.answered) - provider.count("summary"),
        compactions=compactions,
        largest=max((each.size for each in provider.answered), default=0) // BYTES_PER_TOKEN,
        refusals=tuple(provider.list_refusals()),
        native=provider.count("native"),
        is_resumed=second if row.resume else None,
        is_searched=found,
        is_undone=undone,
        seconds=seconds,
        problems=(*problems, *provider.list_refusals(), *["a native compaction"] * provider.count("native")),
    )


def _undo_compaction(session: str, env: dict[str, str]) -> bool:
    command = [sys.executable, "-m", "tenfold", "undo", session]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    return ran.returncode == 0 and ran.stdout.startswith("undone: block")
