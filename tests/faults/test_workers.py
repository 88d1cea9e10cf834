"""Workers are killed at random steps: others go on, nothing is lost or done twice, and the views are the same."""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path

import pytest

from tenfold.apps.jobs.job import CompactJob
from tenfold.apps.jobs.queue import JobQueue
from tenfold.core.record.block import Block
from tenfold.core.record.token_reading import Counted
from tenfold.session import Session, SessionAddress
from tenfold.store.base import DEFAULT_NAMESPACE, Store
from tests.jobs.places import (
    KINDS,
    SUMMARY,
    WorkerProgram,
    add_session,
    build_environment,
    create_place,
    open_place,
    wait_for_jobs,
    wait_until,
)
from tests.models.loopback import Got, Loopback, Served
from tests.thorough import IS_THOROUGH

WORKERS, SESSIONS, ROUNDS, KILLS = (4, 24, 20, 200) if IS_THOROUGH else (2, 6, 1, 2)
"""How many there are of each. The jobs of a round have ended when the next begins; the kills are shared out."""
AT_ONCE = 4
_MADE_HERE = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f-]{21}|hash=\\*\"[0-9a-f]+")
"""What differs from run to run: ids, and the hash of a summary, which covers its id."""


def answer(got: Got) -> Served:
    """A summary that depends on the request alone, after a moment in which the worker may be killed."""
    said = _MADE_HERE.sub("*", got.prompt)
    return Served(text=f"{SUMMARY}\n- {sha256(said.encode()).hexdigest()[:16]}", hang=0.3)


def run_jobs(location: str, model: Loopback, settings: Path, kills: int) -> tuple[dict[str, str], Counter[str]]:
    """Compacts all sessions in each round, while workers are killed. Returns the views, and how the jobs ended.

    Characters are counted: a tokenizer counts one random id as more tokens than another, and plans by that.
    """
    chooser, ended = random.Random(43), Counter[str]()  # noqa: S311 - choices that can be repeated
    settings.write_text('[tenfold]\ncounter = "tenfold.core.meter.counters:CharacterCounter"\n')
    environment = {**build_environment(model.url), "TENFOLD_CONFIG": str(settings)}
    with ExitStack() as stack:
        store = stack.enter_context(open_place(location))
        queue = stack.enter_context(JobQueue(location))
        workers = [stack.enter_context(WorkerProgram(location, environment)) for _ in range(WORKERS)]
        for name in (names := [f"s{number}" for number in range(SESSIONS)]):
            add_session(store, name, steps=12)
        for number in range(ROUNDS):
            target = Counted(3_000 - 50 * number)
            ids = [queue.add(CompactJob(name, to=target)) for name in names]
            for _ in range(kills // ROUNDS + (number < kills % ROUNDS)):
                wait_for_work(model, queue)
                time.sleep(chooser.random() * 0.5)
                (worker := chooser.choice(workers)).kill()
                worker.start()
            ended += Counter(row.state for row in wait_for_jobs(queue, *ids, seconds=300))
            for name in names:
                grow(store, name, number)
        for worker in workers:
            worker.wait_until_ready()
            assert worker.stop() == 0, worker.read_log()
        views = {name: render(store, name) for name in names}
        blocks = Counter(
            name for name in names for e in store.read_entries(DEFAULT_NAMESPACE, name) if isinstance(e, Block)
        )
        assert set(blocks.values()) == {ROUNDS}, "each job compacts once"
        assert store.verify(DEFAULT_NAMESPACE) == []
        assert "Traceback" not in "".join(worker.read_log() for worker in workers)
    return views, ended


def wait_for_work(model: Loopback, queue: JobQueue) -> None:
    """Waits until a model is asked for something, or all jobs are done."""
    seen = len(model.requests)
    wait_until(lambda: len(model.requests) > seen or not queue.list(states=("waiting", "running")), seconds=300)


def grow(store: Store, name: str, number: int) -> None:
    """Has the conversation go on, so that there is something to compact in the next round."""
    other = add_session(store, f"{name}-more{number}", steps=8)
    session = Session(SessionAddress(store, name), "tenfold")
    session.append(*other.view.get_messages())
    store.purge(DEFAULT_NAMESPACE, f"{name}-more{number}", None, now=1)


def render(store: Store, name: str) -> str:
    """What the model sees of a session, without what differs from run to run."""
    messages = Session(SessionAddress(store, name), "tenfold").view.get_messages()
    return _MADE_HERE.sub("*", "\n".join(str(message.parts) for message in messages))


@pytest.mark.parametrize("kind", KINDS if IS_THOROUGH else ("postgres",))
def test_whatever_worker_dies_its_jobs_are_done_once(kind: str, tmp_path: Path, report: list[str]) -> None:
    asked, results = list[int](), list[dict[str, str]]()
    started = time.monotonic()
    for kills in (0, KILLS):
        folder = tmp_path / str(kills)
        folder.mkdir()
        with create_place(kind, folder) as location, Loopback(script=answer) as model:
            views, ended = run_jobs(location, model, folder / "tenfold.toml", kills)
            assert ended == Counter(done=SESSIONS * ROUNDS)
            asked.append(len(model.requests))
            results.append(views)
    undisturbed, disturbed = results
    report.append(
        f"workers on {kind}: {WORKERS} workers, {SESSIONS * ROUNDS} jobs, {KILLS} killed, {asked[1]} model calls for "
        f"{asked[0]}, {time.monotonic() - started:.1f} s"
    )
    assert disturbed == undisturbed
    assert asked[0] == SESSIONS * ROUNDS
    assert asked[1] <= asked[0] + KILLS * AT_ONCE, "only an answer that was on its way is asked for again"
