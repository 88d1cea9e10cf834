"""Runs the agent of a framework in a small window against a provider on this machine, and says what came of it."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from http import HTTPStatus
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from tenfold.store.location import open_store
from tests.adapters.host_rows import HostRow
from tests.adapters.text_tools import offer_tools, render_answer
from tests.live.client_runs import build_environment, write_parts
from tests.live.scripted_provider import BYTES_PER_TOKEN, ScriptedProvider
from tests.models.loopback import Got, Served

ROOT = Path(__file__).parents[2]
INSTALLED = ROOT / ".adapters"
EXAMPLES = ROOT / "examples" / "integrations"
SESSION = "thread-17"
TASKS = (
    "Read all parts of the program one after the other. Never touch config/secret.toml.",
    "Go on with the other parts.",
)
STEPS = 30
"""Calls of tools for each of the two tasks. The second is given to a new process."""
TIMEOUT = 240


class HostProvider(ScriptedProvider):
    """The provider, which keeps what it was sent: a cache would have had what began like an earlier request."""

    def __init__(self, *, window: int, folder: str) -> None:
        super().__init__(window=window, steps=STEPS, folder=folder)
        self.sent: list[str] = []

    def _answer(self, got: Got) -> Served:
        served = super()._answer(offer_tools(got))
        if served.status == HTTPStatus.OK:
            self.sent.append(render_request(got))
        return render_answer(got, served)

    def compute_cached_share(self) -> float:
        """Computes which share of all that was answered, summaries too, began like an earlier request."""
        shared = sum(count_shared(self.sent[:at], new) for at, new in enumerate(self.sent))
        return shared / max(1, sum(map(len, self.sent)))


def render_request(got: Got) -> str:
    """Renders a request in the order in which providers cache it: tools, system prompt, messages."""
    body = got.body
    ordered = ("tools", "system", "systemInstruction", "instructions", "messages", "input", "contents")
    return json.dumps([body[key] for key in ordered if key in body], ensure_ascii=False)


def count_shared(earlier: Sequence[str], new: str) -> int:
    """Counts the characters with which a text begins like one of the earlier ones."""
    most = 0
    for old in reversed(earlier):
        if old.startswith(new[: most + 1]):
            rest = takewhile(lambda pair: pair[0] == pair[1], zip(old[most:], new[most:], strict=False))
            most += sum(1 for _ in rest)
    return most


class HostResult(Struct, frozen=True):
    """What came of a run. `problems` is empty if all is well.

    `largest` is the largest request and `sent` all that was answered, in tokens.
    """

    steps: int
    requests: int
    refusals: tuple[str, ...]
    largest: int
    sent: int
    cached: float
    compactions: int
    seconds: float
    problems: tuple[str, ...]


def find_python(row: HostRow) -> Path | None:
    """Finds the interpreter that has a framework: one of those in .adapters, or this one. None if there is none."""
    own = INSTALLED / row.name / "bin" / "python"
    return own if own.exists() else Path(sys.executable) if is_installed_here(row) else None


def is_installed_here(row: HostRow) -> bool:
    """Tells whether this interpreter has a framework."""
    return all(map(_is_installed, row.modules))


def run_tests(row: HostRow, python: Path) -> str:
    """Runs the tests of an adapter in a process of its own. Returns what they printed if one failed, else ""."""
    file = f"tests/adapters/hosts/test_{row.name.replace('-', '_')}.py"
    command = [str(python), "-m", "pytest", "-q", "--noconftest", "-c", os.devnull, f"--rootdir={ROOT}", file]
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    ran = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    return "" if ran.returncode == 0 else f"{ran.stdout[-2_000:]}{ran.stderr[-500:]}"


def _is_installed(module: str) -> bool:
    """Looks for a module by its files: to ask for one within a package would import that, which takes seconds."""
    top, *inner = module.split(".")
    spec = importlib.util.find_spec(top)
    places = [Path(place, *inner) for place in (spec.submodule_search_locations or ())] if spec is not None else []
    found = (place.is_dir() or place.with_suffix(".py").is_file() for place in places)
    return spec is not None and (not inner or any(found))


def run_host(row: HostRow, python: Path, window: int, *, own: bool = False) -> HostResult:
    """Gives an agent two tasks of 30 steps each, the second in a new process.

    With `own` it is the one with the framework's compaction of its own, which gets both tasks' steps in one.
    """
    script = ROOT / "adapters" / row.name / "own_agent.py" if own else EXAMPLES / f"{row.file}.py"
    with TemporaryDirectory(prefix="tenfold-host-", ignore_cleanup_errors=True) as temporary:
        home = Path(temporary)
        write_parts(home / "work")
        problems: list[str] = []
        start = time.monotonic()
        with HostProvider(window=window, folder=str(home / "work")) as provider:
            env = build_environment(home, python.parent) | row.configure(provider.url)
            env |= {"WINDOW": str(window), "TENFOLD_STORE": str(home / "tenfold.db")}
            for number, task in enumerate(TASKS):
                if number:
                    provider.start_task()
                problems += _run_task([str(python), str(script), SESSION, task], env, home)
        seconds = time.monotonic() - start
        compactions = 0
        if not own:
            store = open_store(home / "tenfold.db")
            rows = store.list_sessions("default")
            problems += _judge_store(rows, bool(store.search("default", "line3x27")))
            compactions = sum(each.block_count for each in rows)
            store.close()
        if provider.count("end") != len(TASKS):
            problems.append(f"{provider.count('end')} of {len(TASKS)} tasks were finished")
        return HostResult(
            provider.step,
            len(provider.answered),
            tuple(provider.list_refusals()),
            max((each.size for each in provider.answered), default=0) // BYTES_PER_TOKEN,
            sum(map(len, provider.sent)) // BYTES_PER_TOKEN,
            provider.compute_cached_share(),
            compactions,
            seconds,
            tuple(problems),
        )


def _judge_store(rows: Sequence[object], is_found: bool) -> list[str]:  # noqa: FBT001 - one of two facts
    problems = [] if is_found else ["what a tool gave at the beginning is not found"]
    return problems if len(rows) == 1 else [*problems, f"there are {len(rows)} sessions, and not one"]


def _run_task(command: Sequence[str], env: dict[str, str], home: Path) -> list[str]:
    try:
        ran = subprocess.run(
            command, cwd=home / "work", env=env, capture_output=True, text=True, check=False, timeout=TIMEOUT,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return [f"it did not end within {TIMEOUT} s"]
    if ran.returncode:
        return [f"exit code {ran.returncode}: {ran.stderr[-1_500:]}"]
    return [] if "The task is done" in ran.stdout else [f"it printed {ran.stdout[-300:]!r}"]
