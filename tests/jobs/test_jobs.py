"""What each kind of job does, on both stores, and what is seen of it."""

from __future__ import annotations

import json
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from msgspec.structs import replace

from tenfold.apps.jobs.compaction import run_compaction
from tenfold.apps.jobs.database import SCHEMA, JobError
from tenfold.apps.jobs.job import CompactJob, CopyJob, ExportJob, IndexJob, RetentionJob
from tenfold.apps.jobs.job_settings import JobSettings, NamespaceRetention, RetentionSettings, load_job_settings
from tenfold.apps.jobs.queue import JobQueue, QueueFull
from tenfold.apps.jobs.worker import Worker
from tenfold.config.settings import DEFAULT_CONFIG, Config, load_settings
from tenfold.core.record.ask import Answer, SummaryAsk
from tenfold.core.record.token_reading import Counted
from tenfold.errors import NotFoundError, UnusableModel, UsageError
from tenfold.models.model import Model
from tenfold.session import Session, SessionAddress
from tenfold.session.bill import build_bill
from tenfold.store.base import DEFAULT_NAMESPACE, SessionInfo, Store
from tenfold.store.ids import get_current_time
from tenfold.store.location import find_jobs_file
from tests.engine.making import make_user_message
from tests.jobs.places import KINDS, MODEL, SUMMARY, add_session, create_place, open_place, wait_for_jobs

pytestmark = [pytest.mark.parametrize("kind", KINDS), pytest.mark.costly(2)]
TARGET = Counted(4_000)


class Writer:
    """A model that answers by a list, the last of it again and again."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = answers or (Answer(text=SUMMARY),)
        self.asked: list[SummaryAsk] = []
        self.times: list[float] = []

    def answer(self, ask: SummaryAsk) -> Answer:
        self.asked.append(ask)
        self.times.append(time.monotonic())
        return self.answers[min(len(self.asked), len(self.answers)) - 1]


@contextmanager
def run_worker(
    store: Store, location: str, model: Model | None = None, *, settings: JobSettings | None = None
) -> Iterator[JobQueue]:
    """Does jobs in this process, with a model of the operator's if there is one."""

    def find_model(_: Sequence[str]) -> Model:
        if model is None:
            raise UnusableModel("openai:gpt-4o-mini: set the environment variable OPENAI_API_KEY")
        return model

    config = load_settings(environ={"TENFOLD_MODEL": MODEL})
    worker = Worker(store, location, config, settings=settings, find_model=find_model)
    worker.start()
    try:
        with JobQueue(location) as queue:
            yield queue
    finally:
        worker.stop(grace=0)


def test_a_session_is_compacted_by_the_operators_model(kind: str, tmp_path: Path) -> None:
    model = Writer()
    with create_place(kind, tmp_path) as location, open_place(location) as store:
        add_session(store, "one")
        with run_worker(store, location, model) as queue:
            (row,) = wait_for_jobs(queue, queue.add(CompactJob("one", to=TARGET)))
        assert row.state == "done", row.error
        assert row.result.startswith("compacted: ")
        session = Session(SessionAddress(store, "one"), "tenfold")
        assert session.take_reading().estimate <= TARGET
        block = session.view.find_newest_block()
        assert block is not None
        assert SUMMARY.splitlines()[1] in repr(block.replacements)
        assert len(model.asked) == 1
        assert store.verify(DEFAULT_NAMESPACE) == []


def test_without_a_model_code_writes_and_the_job_says_so(kind: str, tmp_path: Path) -> None:
    with create_place(kind, tmp_path) as location, open_place(location) as store:
        add_session(store, "one")
        with run_worker(store, location) as queue:
            (row,) = wait_for_jobs(queue, queue.add(CompactJob("one", to=TARGET)))
        assert row.result.startswith("compacted: ")
        why = "no model was asked for a summary: openai:gpt-4o-mini: set the environment variable OPENAI_API_KEY"
        assert row.result.count(why) == 1
        assert Session(SessionAddress(store, "one"), "tenfold").take_reading().estimate <= TARGET


def test_where_the_settings_name_no_model_the_job_says_so_if_there_was_something_to_write(
    kind: str, tmp_path: Path
) -> None:
    with create_place(kind, tmp_path) as location, open_place(location) as store:
        add_session(store, "one")
        add_session(store, "small", steps=1)
        worker = Worker(store, location, load_settings(environ={}))
        worker.start()
        try:
            with JobQueue(location) as queue:
                ids = [queue.add(CompactJob(name, to=TARGET)) for name in ("one", "small")]
                written, nothing = wait_for_jobs(queue, *ids)
        finally:
            worker.stop(grace=0)
    assert "no model was asked for a summary: the worker's settings name none" in written.result
    assert nothing.result.startswith("nothing: ")
    assert "no model" not in nothing.result


def test_a_failing_model_is_asked_again_when_its_provider_says(kind: str, tmp_path: Path) -> None:
    busy = Answer(error="HTTP 429: slow down", retryable=True, retry_after=0.4)
    model = Writer(busy, Answer(text=SUMMARY))
    with create_place(kind, tmp_path) as location, open_place(location) as store:
        add_session(store, "one")
        with run_worker(store, location, model) as queue:
            (row,) = wait_for_jobs(queue, queue.add(CompactJob("one", to=TARGET)))
    assert row.result.startswith("compacted: ")
    first, second = model.times
    assert second - first >= 0.4


class Recorded:
    """The steps of a job as a worker that died has stored them. What is not among them is done."""

    def __init__(self, results: list[Any]) -> None:
        self.results, self._next = results, 0

    def run(self, name: str, work: Callable[[], Any]) -> Any:  # noqa: ANN401 - any JSON
        del name
        if self._next == len(self.results):
            self.results.append(work())
        self._next += 1
        return self.results[self._next - 1]

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def test_whoever_goes_on_asks_no_model_again_and_leaves_no_lease(kind: str, tmp_path: Path) -> None:
    """A worker died when the answer was stored, and its lease was not given back yet."""
    config, model = load_settings(environ={"TENFOLD_MODEL": MODEL}), Writer()
    with create_place(kind, tmp_path) as location, open_place(location) as store:
        add_session(store, "one")
        job, stored = CompactJob("one", to=TARGET), list[Any]()
        run_compaction(replace(job, appends=False), "job", Recorded(stored), store, config, lambda _: model)
        del stored[2:]  # the worker died before its next step
        now = get_current_time()
        assert store.take_lease(DEFAULT_NAMESPACE, "one", "main", "job", now=now, until=now + 10**9)
        result = run_compaction(job, "job", Recorded(stored), store, config, lambda _: model)
        assert result.outcome.status == "compacted"
        assert len(model.asked) == 1
        assert store.take_lease(DEFAULT_NAMESPACE, "one", "main", "another", now=now, until=now + 10**9)
        length = Session(SessionAddress(store, "one"), "tenfold").view.length
        run_compaction(job, "job", Recorded(stored[:-1]), store, config, lambda _: model)
        assert Session(SessionAddress(store, "one"), "tenfold").view.length == length, "nothing is appended twice"


def test_what_a_summary_took_that_nobody_uses_is_on_the_bill_once(kind: str, tmp_path: Path) -> None:
    config, model = load_settings(environ={"TENFOLD_MODEL": MODEL}), Writer()
    with create_place(kind, tmp_path) as location, open_place(location) as store:
        add_session(store, "one")
        job, stored = CompactJob("one", to=TARGET, appends=False), list[Any]()
        run_compaction(job, "job", Recorded(stored), store, config, lambda _: model)
        del stored[2:]  # the worker died when it had noted the cost and not said so
        run_compaction(job, "job", Recorded(stored), store, config, lambda _: model)
        assert build_bill(store).total.summaries == 1


def test_a_job_that_fails_is_seen_and_done_again(kind: str, tmp_path: Path) -> None:
    with create_place(kind, tmp_path) as location, open_place(location) as store:
        with run_worker(store, location) as queue:
            id_ = queue.add(CompactJob("late", to=TARGET))
            (row,) = wait_for_jobs(queue, id_)
            assert (row.state, row.tries) == ("failed", 1)
            assert "late" in row.error
            assert [each.id for each in queue.list(states=("failed",))] == [id_]
            add_session(store, "late")
            queue.retry(row)
            (row,) = wait_for_jobs(queue, id_)
        assert row.state == "done", row.error


def test_a_session_is_exported_as_the_command_does_it(kind: str, tmp_path: Path) -> None:
    with create_place(kind, tmp_path) as location, open_place(location) as store:
        session = add_session(store, "one")
        out = tmp_path / "out.json"
        with run_worker(store, location) as queue:
            (row,) = wait_for_jobs(queue, queue.add(ExportJob("one", str(out), format="anthropic")))
        assert row.state == "done", row.error
        assert len(json.loads(out.read_bytes())) == len(session.view.get_messages())
        assert stat.S_IMODE(out.stat().st_mode) == 0o600


def test_a_file_that_cannot_be_written_is_a_failed_job(kind: str, tmp_path: Path) -> None:
    with create_place(kind, tmp_path) as location, open_place(location) as store:
        add_session(store, "one", steps=2)
        with run_worker(store, location) as queue:
            (row,) = wait_for_jobs(queue, queue.add(ExportJob("one", str(tmp_path / "nowhere" / "out.json"))))
    assert row.state == "failed"
    assert "nowhere" in row.error


def test_what_no_search_has_seen_is_indexed(kind: str, tmp_path: Path) -> None:
    with create_place(kind, tmp_path) as location, open_place(location) as store:
        session = add_session(store, "one")
        with run_worker(store, location) as queue:
            (row,) = wait_for_jobs(queue, queue.add(IndexJob()))
        assert row.result == f"{session.view.length:,} entries indexed"
        assert store.check().late_entries == 0


def test_sessions_are_copied_to_another_store(kind: str, tmp_path: Path) -> None:
    with create_place(kind, tmp_path) as location, open_place(location) as store:
        session = add_session(store, "one")
        target = str(tmp_path / "copy.db")
        with run_worker(store, location) as queue:
            (row,) = wait_for_jobs(queue, queue.add(CopyJob(target)))
            assert row.result == f"1 sessions compared, {session.view.length} entries copied now"
            with pytest.raises(UsageError, match="its target may hold no password"):
                queue.add(CopyJob("postgresql://anna:secret@db/agents"))
        with open_place(target) as copied:
            assert copied.read_entries(DEFAULT_NAMESPACE, "one") == store.read_entries(DEFAULT_NAMESPACE, "one")


def add_old_session(store: Store, name: str, namespace: str) -> None:
    """A session whose last use was years ago."""
    session = add_session(store, f"{name}-draft", namespace=namespace, steps=1)
    entries = [replace(entry, time=1_500_000_000_000_000) for entry in session.view.path.get_entries(0, 2)]
    store.create(namespace, SessionInfo(name))
    store.purge(namespace, f"{name}-draft", None, now=1)
    store.append(namespace, name, entries, expected=None)


def test_retention_reaches_every_namespace_and_says_first_what_it_would_delete(kind: str, tmp_path: Path) -> None:
    rules = RetentionSettings(older_than="90d", namespaces={"archive": NamespaceRetention(older_than="")})
    with create_place(kind, tmp_path) as location, open_place(location) as store:
        for namespace in ("acme", "beta", "archive"):
            add_old_session(store, f"old-{namespace}", namespace)
        add_session(store, "new", namespace="acme", steps=1)
        with run_worker(store, location, settings=JobSettings(retention=rules)) as queue:
            (row,) = wait_for_jobs(queue, queue.add(RetentionJob(dry_run=True)))
            assert row.result.endswith("bytes would be deleted: acme 1; beta 1")
            assert [len(store.list_sessions(name)) for name in ("acme", "beta", "archive")] == [2, 1, 1]
            kept = queue.add(ExportJob("old-acme", str(tmp_path / "old.json"), "acme"))
            wait_for_jobs(queue, kept)
            (row,) = wait_for_jobs(queue, queue.add(RetentionJob()))
            assert row.result.endswith("bytes deleted: acme 1; beta 1")
            assert queue.find(kept) is None, "what the jobs know of a session goes with it"
        rest = {name: [row.info.id for row in store.list_sessions(name)] for name in ("acme", "beta", "archive")}
        assert rest == {"acme": ["new"], "beta": [], "archive": ["old-archive"]}


def test_a_tenant_with_many_jobs_does_not_hold_up_the_others(kind: str, tmp_path: Path) -> None:
    gate, begun = threading.Event(), list[str]()

    class Slow:
        def answer(self, ask: SummaryAsk) -> Answer:
            begun.append(ask.prompt)
            assert gate.wait(60)
            return Answer(text=SUMMARY)

    settings = JobSettings(at_once=3, at_once_per_namespace=2)
    with create_place(kind, tmp_path) as location, open_place(location) as store:
        for number in range(5):
            add_session(store, f"greedy{number}", namespace="greedy")
        add_session(store, "modest", namespace="modest")
        with JobQueue(location) as queue:
            greedy = [queue.add(CompactJob(f"greedy{n}", "greedy", to=TARGET)) for n in range(5)]
            modest = queue.add(CompactJob("modest", "modest", to=TARGET))
        with run_worker(store, location, Slow(), settings=settings) as queue:
            while len(begun) < 3:
                assert (row := queue.find(modest)) is not None
                assert row.state in ("waiting", "running")
            assert sum("modest" in prompt for prompt in begun) == 1
            gate.set()
            assert {row.state for row in wait_for_jobs(queue, *greedy, modest)} == {"done"}


def test_so_many_jobs_wait_and_no_more(kind: str, tmp_path: Path) -> None:
    with create_place(kind, tmp_path) as location, JobQueue(location, max_waiting=3) as queue:
        ids = [queue.add(CompactJob(f"s{number}", to=TARGET)) for number in range(3)]
        with pytest.raises(QueueFull, match="3 jobs of default wait, and at most 3 may: start more workers"):
            queue.add(CompactJob("s4", to=TARGET))
        queue.add(CompactJob("s4", "other", to=TARGET))
        queue.cancel(ids[:1])
        queue.add(CompactJob("s4", to=TARGET))
        assert [row.state for row in queue.list(namespace="default")].count("waiting") == 3
        with pytest.raises(NotFoundError, match="jobs with an id that begins with 'compact-': 2"):
            queue.resolve("compact-")


def test_no_job_holds_a_credential(kind: str, tmp_path: Path) -> None:
    """The operator's key is in the environment of the worker, and nowhere in what is stored of its jobs."""
    with create_place(kind, tmp_path) as location, open_place(location) as store:
        add_session(store, "one")
        leak = Answer(error="HTTP 401: no such key sk-proj-abcdefghijklmnopqrstuvwxyz0123456789")
        with run_worker(store, location, Writer(leak)) as queue:
            wait_for_jobs(queue, queue.add(CompactJob("one", to=TARGET)))
        assert "sk-proj-" not in dump_jobs(location)


def dump_jobs(location: str) -> str:
    """Everything that is stored of the jobs, as text."""
    if not location.startswith("postgresql"):
        with closing(sqlite3.connect(find_jobs_file(location))) as file:
            return "\n".join(file.iterdump())
    with psycopg.connect(location) as db:
        tables = db.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = %s", [SCHEMA])
        names = [name for (name,) in tables.fetchall()]
        return "\n".join(str(db.execute(f'TABLE {SCHEMA}."{name}"').fetchall()) for name in names)


def test_jobs_that_cannot_be_kept_are_refused(kind: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="jobs outlive a process, and a store in memory does not"):
        JobQueue(":memory:")
    if kind == "postgres":
        from tests.postgres import create_database  # noqa: PLC0415 - for this kind alone

        with create_database() as url, pytest.raises(JobError, match="`tenfold store migrate` makes their tables"):
            JobQueue(url)
    else:
        with create_place(kind, tmp_path) as location, JobQueue(location):
            assert stat.S_IMODE(find_jobs_file(location).stat().st_mode) == 0o600


@pytest.mark.costly(1)  # each table once with each kind: they cost nothing
@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"at_onse": 2}, "contains unknown field `at_onse`"),
        ({"at_once": 0}, "the setting at_once of jobs is 0: it has to be at least 1"),
        ({"retention": {"older_than": "soon"}}, "'soon' is not an age"),
        ({"index": "often"}, "the setting index of jobs is 'often', which is no cron expression"),
        ({"retention": {"older_than": "9d", "schedule": "3 am"}}, "the setting retention.schedule of jobs is '3 am'"),
        ({"retention": {"schedule": "0 3 * * *"}}, "retention has a schedule and nothing to delete"),
        ({"retention": {"namespaces": {"acme": {"keep_under": "much"}}}}, "'much' is not a size"),
    ],
)
def test_a_wrong_setting_is_named(kind: str, table: dict[str, object], problem: str) -> None:
    del kind
    config = Config(DEFAULT_CONFIG.common, {}, "tenfold.toml", jobs=table)
    with pytest.raises(UsageError, match=problem) as caught:
        load_job_settings(config)
    assert "[tenfold.jobs] in tenfold.toml" in str(caught.value)


def test_a_session_that_was_used_after_it_was_chosen_stays(kind: str, tmp_path: Path) -> None:
    """Retention looks again before it deletes: another worker may have chosen long ago."""
    rules = RetentionSettings(older_than="90d")
    with create_place(kind, tmp_path) as location, open_place(location) as store:
        for name in ("old", "again"):
            add_old_session(store, name, "acme")
        worker = Worker(store, location, load_settings(environ={}), settings=JobSettings(retention=rules))
        assert sorted(worker._choose("acme")[0]) == ["again", "old"]
        Session(SessionAddress(store, "again", "acme"), "tenfold").append(make_user_message("I am back."))
        assert worker._delete("acme", ["again", "old"]) == 1
        assert [row.info.id for row in store.list_sessions("acme")] == ["again"]


@pytest.mark.costly(1)  # the kind that can be tried is always tried
def test_a_database_that_gives_no_answer_holds_nobody_up(kind: str, tmp_path: Path) -> None:
    if kind == "postgres":
        pytest.skip("a lock of another program is what a file has")
    with create_place(kind, tmp_path) as location, JobQueue(location, patience=0.3) as queue:
        with closing(sqlite3.connect(find_jobs_file(location), isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            start = time.monotonic()
            for problem in ("gave no answer within 0.3 s", "gave no answer a moment ago"):
                with pytest.raises(JobError, match=problem):
                    queue.add(IndexJob())
            assert time.monotonic() - start < 20
            other.execute("ROLLBACK")
        time.sleep(0.4)
        assert queue.add(IndexJob())


def test_what_is_known_of_ended_jobs_is_forgotten(kind: str, tmp_path: Path) -> None:
    with create_place(kind, tmp_path) as location, open_place(location) as store, run_worker(store, location) as queue:
        first = queue.add(IndexJob())
        (row,) = wait_for_jobs(queue, first)
        assert queue.delete_ended(row.ended - 1_000_000) == 0
        assert queue.delete_ended(row.ended + 2_000_000) == 1
        assert queue.find(first) is None
