"""`tenfold jobs` adds jobs and shows how they are, `tenfold worker` does them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tenfold.store.location import find_jobs_file
from tests.cli.conftest import Cli
from tests.jobs.places import WorkerProgram, wait_until


def test_jobs_are_added_done_and_listed(tenfold: Cli, pi: Path, tmp_path: Path) -> None:
    tenfold.run_ok("import", pi)
    assert "no jobs" in tenfold.run_ok("jobs", "list").out
    compacting = tenfold.run_ok("jobs", "compact", "last", "--to", "4000").out.strip()
    exporting = tenfold.run_ok("jobs", "export", "last", tmp_path / "out.json", "--as", "openai-chat").out.strip()
    listed = tenfold.run_ok("jobs", "list").out
    assert listed.index(exporting) < listed.index(compacting), "the newest first"
    assert "no worker has begun it: `tenfold worker` does jobs" in listed
    environment = {**os.environ, "NO_COLOR": "1"}
    with WorkerProgram(str(tenfold.store), environment) as worker:
        wait_until(lambda: not tenfold.run_ok("jobs", "list", "--state", "waiting", "--state", "running", "--json").out)
        worker.wait_until_ready()
        assert worker.stop() == 0
    rows = {row["id"]: row for row in tenfold.run_ok("jobs", "list", "--json").objects}
    assert {rows[name]["state"] for name in (compacting, exporting)} == {"done"}
    assert rows[compacting]["result"].startswith("compacted: ")
    assert (tmp_path / "out.json").is_file()
    assert "sees" in tenfold.run_ok("show", "last").out


def test_a_job_is_cancelled_and_queued_again(tenfold: Cli, pi: Path) -> None:
    tenfold.run_ok("import", pi)
    first = tenfold.run_ok("jobs", "compact", "last", "--to", "4000").out.strip()
    tenfold.run_ok("jobs", "compact", "last", "--to", "3000")
    ambiguous = tenfold("jobs", "cancel", "compact-")
    assert (ambiguous.code, "jobs with an id that begins with 'compact-': 2" in ambiguous.err) == (2, True)
    assert "is waiting: only one that ended without success" in tenfold("jobs", "retry", first).err
    assert first in tenfold.run_ok("jobs", "cancel", first).out
    assert "is cancelled: there is nothing to cancel" in tenfold("jobs", "cancel", first).err
    assert first in tenfold.run_ok("jobs", "list", "--state", "cancelled").out
    assert first in tenfold.run_ok("jobs", "retry", first).out
    assert first in tenfold.run_ok("jobs", "list", "--state", "waiting").out


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["list", "--state", "broken"], "no job is 'broken': they are waiting, running, done"),
        (["compact", "nowhere", "--to", "100"], "no session has an id that begins with 'nowhere'"),
        (["cancel", "nothing"], "jobs with an id that begins with 'nothing': 0"),
        (["copy", "postgresql://anna:secret@db/agents"], "its target may hold no password"),
        (["list", "--store", ":memory:"], "jobs outlive a process, and a store in memory does not"),
    ],
)
def test_what_cannot_be_done_says_why(tenfold: Cli, pi: Path, arguments: list[str], problem: str) -> None:
    tenfold.run_ok("import", pi)
    failed = tenfold("jobs", *arguments)
    assert failed.code == 2
    assert problem in failed.err
    assert "secret" not in failed.err


def test_a_purge_takes_the_jobs_of_the_session_along(tenfold: Cli, pi: Path) -> None:
    tenfold.run_ok("import", pi)
    job = tenfold.run_ok("jobs", "compact", "last", "--to", "4000").out.strip()
    assert find_jobs_file(str(tenfold.store)).is_file()
    (session,) = [row["session"] for row in tenfold.run_ok("sessions", "--json").objects]
    tenfold.run_ok("purge", session, "--yes")
    assert job not in tenfold.run_ok("jobs", "list").out
