"""Law 8: killed at any moment, the store reopens as a prefix of the uninterrupted run."""

from __future__ import annotations

import contextlib
import mmap
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path as FilePath

import pytest

from tenfold.core.view.fold import View
from tenfold.core.view.path import Path
from tenfold.store.location import open_store
from tenfold.store.sqlite.store import SqliteStore
from tests.faults.run import (
    DONE,
    INDEXING,
    NS,
    PHASE,
    SESSION,
    STARTED,
    Step,
    count_steps,
    fork_process,
    make_steps,
    perform,
)
from tests.postgres import create_database
from tests.thorough import IS_THOROUGH

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="SIGKILL and fork are POSIX")

KILLS = 220


def reopen_store(place: str, run: list[Step]) -> int:
    """Opens what the killed process left, checks that it is a prefix of the run, and returns its number of steps."""
    store = open_store(place)
    try:
        there = store.read_entries(NS, SESSION)
        whole = count_steps(run, len(there))
        assert there == [e for step in run[:whole] for e in step.entries]
        opened = store.open(NS, SESSION)
        assert opened.leaf == (there[-1].id if there else None)
        assert store.verify(NS) == []
        if there:
            counts = store.read_counts(NS, SESSION, there[-1].id, "chars4", 0, opened.length - 1)
            assert None not in counts
            entries = store.read_range(NS, SESSION, there[-1].id, 0, opened.length - 1)
            view = (
                View.from_snapshot(opened.snapshot, Path(entries)) if opened.snapshot else View.from_path(Path(entries))
            )
            assert view.get_messages() == View.from_path(Path(entries)).get_messages()
        return whole
    finally:
        store.close()


def stop_inside_append(child: int, shared: mmap.mmap) -> int | None:
    """Stops the child inside an append's transaction, however slow the machine is. Returns its status if it ended."""
    while True:
        os.kill(child, signal.SIGSTOP)
        _, status = os.waitpid(child, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            return status
        if shared[PHASE] and not shared[INDEXING]:
            return None
        os.kill(child, signal.SIGCONT)
        time.sleep(0.0001)


@contextlib.contextmanager
def make_place(kind: str, folder: FilePath, number: int) -> Iterator[str]:
    """A place for a store of this kind that is not there yet."""
    if kind == "postgres":
        with create_database() as url:
            yield url
    else:
        yield str(folder / f"{number}.db")


class Tally:
    """What became of the processes that were to be killed."""

    kills = inside = importing = finished = runs = 0


def carry_on_with_kills(place: str, run: list[Step], chooser: random.Random, tally: Tally, *, seconds: float) -> None:
    """Carries a run to its end by processes that are killed within so many seconds, every other one in an append."""
    shared, done = mmap.mmap(-1, 64), 0
    while done < len(run):
        shared[:] = bytes(len(shared))
        child = fork_process(lambda: perform(place, run, shared))
        while not shared[STARTED] and os.waitpid(child, os.WNOHANG) == (0, 0):
            time.sleep(0.0002)
        time.sleep(chooser.random() * seconds)
        status = stop_inside_append(child, shared) if tally.kills % 2 else None
        if status is None:
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
        returned = shared[DONE]
        before, done = done, reopen_store(place, run)
        assert done >= before
        assert returned <= done <= returned + 1, "a call that had returned was lost, or came from nowhere"
        if not os.WIFSIGNALED(status):
            tally.finished += 1
            continue
        tally.kills += 1
        appending = shared[PHASE] and not shared[INDEXING]
        tally.inside += appending
        tally.importing += appending and returned < len(run) and run[returned].imported


KINDS = {"sqlite": (KILLS, 0.008), "postgres": (KILLS if IS_THOROUGH else KILLS // 5, 0.03)}
"""For each kind of store how many processes are killed, and within how many seconds."""


@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_random_moments_it_is_a_prefix(kind: str, tmp_path: FilePath, report: list[str]) -> None:
    chooser, tally = random.Random(20), Tally()  # noqa: S311  moments that can be repeated
    most, seconds = KINDS[kind]
    started = time.monotonic()
    while tally.kills < most or tally.inside * 2 < tally.kills:
        assert tally.kills < 4 * most, f"only {tally.inside} of {tally.kills} kills hit a transaction"
        with make_place(kind, tmp_path, tally.runs) as place:
            carry_on_with_kills(place, make_steps(tally.runs, 70), chooser, tally, seconds=seconds)
        tally.runs += 1
    report.append(
        f"{kind}: {tally.kills} processes killed at random moments, {tally.inside} of them inside an append's "
        f"transaction ({tally.importing} of those an import), {tally.finished} finished first, {tally.runs} runs, "
        f"{time.monotonic() - started:.1f} s"
    )
    assert tally.inside * 2 >= tally.kills


def find_mixed_run() -> list[Step]:
    """The shortest run that begins with an import, a message and a Block."""
    seed = 0
    while True:
        run = make_steps(seed, 3)
        if run[0].imported and not run[1].imported and run[2].snapshot is not None:
            return run
        seed += 1


def test_killed_at_every_statement_it_is_a_prefix(tmp_path: FilePath, report: list[str]) -> None:
    shared = mmap.mmap(-1, 64)
    run = find_mixed_run()
    statement = 0
    while True:
        statement += 1
        path = str(tmp_path / f"{statement}.db")
        shared[:] = bytes(len(shared))
        child = fork_process(lambda path=path, at=statement: perform(path, run, shared, die_at=at))  # type: ignore[misc]
        status = os.waitpid(child, 0)[1]
        if not os.WIFSIGNALED(status):
            assert status == 0
            break
        returned = shared[DONE]
        if shared[STARTED]:
            assert returned <= reopen_store(path, run) <= returned + 1
    report.append(f"{statement - 1} processes killed, one before each statement of an import and two appends")
    assert statement > 20


def test_killed_while_the_store_is_made_it_can_be_made_again(tmp_path: FilePath, report: list[str]) -> None:
    chooser = random.Random(4)  # noqa: S311  the same
    shared = mmap.mmap(-1, 64)
    kills = 0
    for number in range(30):
        path = str(tmp_path / f"{number}.db")
        shared[:] = bytes(len(shared))
        child = fork_process(lambda path=path: perform(path, [], shared))  # type: ignore[misc]
        time.sleep(chooser.random() * 0.012)
        os.kill(child, signal.SIGKILL)
        kills += os.WIFSIGNALED(os.waitpid(child, 0)[1]) and not shared[STARTED]
        store = SqliteStore(path)
        assert store.verify(NS) == []
        assert len(store.list_sessions(NS)) <= 1
        store.close()
    report.append(f"{kills} processes killed while they made a store")
    assert kills
