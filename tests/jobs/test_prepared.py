"""Summaries that are needed soon are written by workers, and any process with the session open takes them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tenfold.apps.jobs.prepared import JobPreparation, JobPreparer
from tenfold.apps.jobs.queue import JobQueue
from tenfold.core.record.ask import Answer, SummaryAsk
from tenfold.core.record.block import Block
from tenfold.session import Session, SessionAddress
from tenfold.session.drive import Answerer
from tenfold.store.base import DEFAULT_NAMESPACE, SessionInfo, Store
from tenfold.store.location import open_store
from tests.jobs.places import KINDS, SUMMARY, build_request, create_place, open_place, wait_for_jobs
from tests.jobs.test_jobs import Writer, dump_jobs, run_worker

Item = dict[str, Any]
pytestmark = [pytest.mark.parametrize("kind", KINDS), pytest.mark.costly(2)]


def open_replica(store: Store, queue: JobQueue, model: Writer | None = None) -> Session:
    """A process that has the session open, with or without a model of its own."""
    address = SessionAddress(store, "s")
    return Session.create(
        address, "tenfold", answerer=Answerer(model, preparer=JobPreparer(queue)), info=SessionInfo("s")
    )


def build_window_case() -> tuple[int, Item, Item]:
    """A window, a request in its warning zone, and the next one, over the trigger."""
    with closing(open_store(":memory:")) as store:
        plain = Session.create(SessionAddress(store, "s"), "tenfold")
        plain.before_model(build_request(40), window=10_000_000)
        window = int(plain.take_reading(window=10_000_000).tokens / 0.78)
    return window, build_request(40), build_request(46)


def get_job(session: Session) -> str:
    """The id of the job that prepares the session's next summary."""
    preparation = session.compactor.preparation
    assert isinstance(preparation, JobPreparation)
    return preparation.id


def list_blocks(store: Store) -> list[Block]:
    return [entry for entry in store.read_entries(DEFAULT_NAMESPACE, "s") if isinstance(entry, Block)]


@contextmanager
def open_both(kind: str, folder: Path) -> Iterator[tuple[str, Store, Store]]:
    """A store that two processes have open."""
    with create_place(kind, folder) as location, open_place(location) as one, open_place(location) as other:
        yield location, one, other


def test_a_replica_takes_what_another_had_prepared(kind: str, tmp_path: Path) -> None:
    window, warned, over = build_window_case()
    writer = Writer()
    with open_both(kind, tmp_path) as (location, here, there), run_worker(here, location, writer) as queue:
        asking = open_replica(here, queue)
        assert asking.before_model(warned, window=window) == warned
        (row,) = wait_for_jobs(queue, job := get_job(asking))
        assert row.state == "done", row.error
        assert list_blocks(here) == [], "it is not appended before it is needed"
        taking = open_replica(there, queue)
        assert len(taking.before_model(over, window=window)["messages"]) < len(over["messages"])
        (block,) = list_blocks(there)
        assert SUMMARY.splitlines()[1] in repr(block.replacements)
        assert len(writer.asked) == 1
        assert queue.is_used(job)
        sent = asking.before_model(over, window=window)["messages"]
        assert len(sent) < len(over["messages"]), "whoever asked for it sees the other's Block"
        assert list_blocks(here) == [block]
        assert here.verify(DEFAULT_NAMESPACE) == []


def test_two_replicas_ask_for_one_job(kind: str, tmp_path: Path) -> None:
    window, warned, _ = build_window_case()
    with open_both(kind, tmp_path) as (location, here, there), JobQueue(location) as queue:
        replicas = [open_replica(here, queue), open_replica(there, queue)]
        for each in replicas:
            each.before_model(warned, window=window)
        assert get_job(replicas[0]) == get_job(replicas[1])
        assert len(queue.list()) == 1


def test_nobody_waits_for_a_worker_that_does_not_come(kind: str, tmp_path: Path) -> None:
    """Where the request no longer fits without a summary and no worker has begun, the process writes it itself."""
    window, warned, _ = build_window_case()
    own = Writer()
    with open_both(kind, tmp_path) as (location, here, _there), JobQueue(location) as queue:
        session = open_replica(here, queue, own)
        session.before_model(warned, window=window)
        job = get_job(session)
        assert own.asked == []
        full = build_request(70)
        assert len(session.before_model(full, window=window)["messages"]) < len(full["messages"])
        assert len(own.asked) == 1
        (row,) = wait_for_jobs(queue, job)
        assert row.state == "cancelled"


def test_a_job_that_runs_is_waited_for(kind: str, tmp_path: Path) -> None:
    window, warned, _ = build_window_case()
    gate, begun = threading.Event(), threading.Event()

    class Slow:
        def answer(self, ask: SummaryAsk) -> Answer:
            begun.set()
            assert gate.wait(60)
            return Answer(text=f"{SUMMARY}\n{ask.purpose}")

    own = Writer()
    with open_both(kind, tmp_path) as (location, here, there), run_worker(there, location, Slow()) as queue:
        session = open_replica(here, queue, own)
        session.before_model(warned, window=window)
        assert begun.wait(60)
        threading.Timer(0.3, gate.set).start()
        full = build_request(70)
        assert len(session.before_model(full, window=window)["messages"]) < len(full["messages"])
        assert len(list_blocks(here)) == 1
        assert own.asked == []


def test_a_failed_job_is_not_added_again_at_once(kind: str, tmp_path: Path) -> None:
    """What failed is reported, and the process prepares the summary itself."""
    window, warned, over = build_window_case()

    own = Writer()
    with open_both(kind, tmp_path) as (location, here, _there), JobQueue(location) as queue:
        session = open_replica(here, queue, own)
        session.before_model(warned, window=window)
        queue.cancel([get_job(session)])
        later = open_replica(here, queue, own)
        assert len(later.before_model(over, window=window)["messages"]) <= len(over["messages"])
        assert not isinstance(later.compactor.preparation, JobPreparation)
        assert len(queue.list()) == 1
        later.compactor.drop_preparation()


def test_a_purge_reaches_the_jobs(kind: str, tmp_path: Path) -> None:
    window, warned, _ = build_window_case()
    with open_both(kind, tmp_path) as (location, here, _there), run_worker(here, location, Writer()) as queue:
        session = open_replica(here, queue)
        session.before_model(warned, window=window)
        wait_for_jobs(queue, get_job(session))
        assert "All files are read." in dump_jobs(location)
        assert queue.purge(DEFAULT_NAMESPACE, "s") == 1
        assert "All files are read." not in dump_jobs(location)
        full = build_request(70)
        sent = session.before_model(full, window=window)["messages"]
        assert len(sent) < len(full["messages"]), "without what was prepared, code writes"


def test_an_entry_that_was_purged_before_is_no_hindrance_and_one_purged_since_is(kind: str, tmp_path: Path) -> None:
    window, warned, over = build_window_case()
    with open_both(kind, tmp_path) as (location, here, there), run_worker(there, location, Writer()) as queue:
        session = open_replica(here, queue)
        session.before_model(warned, window=10_000_000)
        entries = here.read_entries(DEFAULT_NAMESPACE, "s")
        there.purge(DEFAULT_NAMESPACE, "s", entries[1].id, now=1)
        asking = open_replica(here, queue)
        asking.before_model(warned, window=window)
        wait_for_jobs(queue, get_job(asking))
        taking = open_replica(there, queue)
        assert len(taking.before_model(over, window=window)["messages"]) < len(over["messages"])
        assert taking.outcome is not None
        assert taking.outcome.status == "compacted"
        (block,) = list_blocks(there)
        assert SUMMARY.splitlines()[1] in repr(block.replacements), "what was prepared was taken"


def test_what_quotes_an_entry_that_was_purged_since_is_not_taken(kind: str, tmp_path: Path) -> None:
    window, warned, over = build_window_case()
    with open_both(kind, tmp_path) as (location, here, there), run_worker(there, location, Writer()) as queue:
        asking = open_replica(here, queue)
        asking.before_model(warned, window=window)
        wait_for_jobs(queue, get_job(asking))
        entries = here.read_entries(DEFAULT_NAMESPACE, "s")
        there.purge(DEFAULT_NAMESPACE, "s", entries[1].id, now=1)  # and nobody tells the jobs
        asking.before_model(over, window=window)
        blocks = list_blocks(there)
        assert all(SUMMARY.splitlines()[1] not in repr(block.replacements) for block in blocks)
        assert there.verify(DEFAULT_NAMESPACE) == []
