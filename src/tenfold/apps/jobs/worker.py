"""Does jobs: in a process of its own (`tenfold worker`), or on threads beside a gateway.

DBOS stores each step. What it leaves to a service of its own, finding out that a worker died, is done here: workers say
that they live, and each has the jobs of those that do not queued again.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer

from tenfold.apps.jobs.compaction import ModelFinder, run_compaction
from tenfold.apps.jobs.database import (
    APPLICATION,
    QUEUE,
    SCHEMA,
    UPKEEP_QUEUE,
    WorkerTable,
    explain_failure,
    prepare_jobs,
)
from tenfold.apps.jobs.job import KINDS, CompactJob, CopyJob, ExportJob, IndexJob, Job, RetentionJob, get_kind
from tenfold.apps.jobs.job_settings import JobSettings, load_job_settings
from tenfold.apps.jobs.queue import JobQueue
from tenfold.config.settings import Config
from tenfold.core.meter.counters import choose_counter
from tenfold.core.text.redaction import redact
from tenfold.errors import StoreError, TenfoldError
from tenfold.formats.output_file import write_output
from tenfold.models.model import Model
from tenfold.session import SessionAddress, Stamps
from tenfold.session.conversation import Conversation
from tenfold.session.expiry import delete_sessions, find_expired
from tenfold.session.export import render_session
from tenfold.store.access import AccessRecord
from tenfold.store.base import Store
from tenfold.store.copy import copy_keys, copy_store
from tenfold.store.ids import get_current_time
from tenfold.store.location import migrate_store, open_store
from tenfold.store.lookup import find_session
from tenfold.telemetry import count_job, trace_span

LOG = logging.getLogger("tenfold.jobs")
APPLICATION_VERSION = "1"
"""Which order of steps the jobs have. Workers of another version leave a job alone that has begun."""
BEAT_SECONDS = 1.0
"""How often a worker says that it lives, and looks for the jobs of those that do not."""
LIFE_SECONDS = 8.0
"""For how long a worker is taken to live after it last said so."""
MOST_TRIES = 10
"""After how many workers' deaths a job is given up: it may be what kills them."""
GRACE_SECONDS = 20
"""How long a worker that ends lets its jobs finish. Others go on with what is not done then."""
_CHUNK = 100
"""Sessions that retention deletes in one step."""


def find_provider_model(names: Sequence[str]) -> Model:
    """Opens models by their providers' clients, with the keys of the environment. Raises `UsageError`."""
    from tenfold.models.provider import ProviderModel  # noqa: PLC0415 - an optional extra, and slow to load

    return ProviderModel(*names)


class _StoredSteps:
    """Stores the steps of the job that this thread works on."""

    def run(self, name: str, work: Callable[[], Any]) -> Any:  # noqa: ANN401 - any JSON
        options: Any = {
            "name": name,
            "retries_allowed": True,
            "max_attempts": 5,
            "should_retry": lambda exc: isinstance(exc, StoreError),
        }
        return DBOS.run_step(options, work)

    def sleep(self, seconds: float) -> None:
        DBOS.sleep(seconds)


class Worker:
    """Does the jobs of a store, on threads of this process, from `start` to `stop`. There is one for each process.

    with Worker(store, "agents.db", load_settings()):
        ...
    """

    def __init__(
        self,
        store: Store,
        location: str,
        config: Config,
        *,
        settings: JobSettings | None = None,
        find_model: ModelFinder = find_provider_model,
    ) -> None:
        """`location` is where the store is, so that its jobs are found. Raises `UsageError` for wrong settings."""
        self._store, self.location, self._config, self._find_model = store, location, config, find_model
        self.settings = settings or load_job_settings(config)
        self.id = f"{socket.gethostname()}-{os.getpid()}-{os.urandom(3).hex()}"
        self._url = prepare_jobs(location, migrate=False)
        self._workers = WorkerTable(self._url)
        self._stopping, self._is_ending = threading.Event(), False
        self._beat = threading.Thread(target=self._keep_alive, name="tenfold-worker", daemon=True)
        self._steps = _StoredSteps()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def start(self) -> None:
        """Begins to do jobs. Raises `JobError` if the database cannot be reached or has no tables for them."""
        settings = DBOSConfig(
            name=APPLICATION,
            system_database_url=self._url,
            dbos_system_schema=SCHEMA,
            executor_id=self.id,
            application_version=APPLICATION_VERSION,
            serializer=DBOSPortableJSONSerializer(),
            run_migrations=False,
            use_listen_notify=False,
            sys_db_pool_size=self.settings.at_once + 4,
            log_level="WARNING",
            scheduler_polling_interval_sec=5.0,
        )
        _use_own_log()
        DBOS(config=settings)
        by_kind = {kind: _register(kind, self._run) for kind in KINDS}
        with explain_failure(self.location):
            self._workers.note_alive(self.id, LIFE_SECONDS)
            DBOS.launch()
            DBOS.register_queue(
                QUEUE,
                worker_concurrency=self.settings.at_once,
                partition_worker_concurrency=min(self.settings.at_once, self.settings.at_once_per_namespace),
                polling_interval_sec=0.2,
                on_conflict="always_update",
            )
            DBOS.register_queue(UPKEEP_QUEUE, global_concurrency=1, on_conflict="always_update")
            self._schedule(by_kind)
        self._beat.start()
        LOG.info("worker %s does the jobs", self.id)

    def stop(self, grace: float = GRACE_SECONDS) -> None:
        """Ends. Jobs that run are given `grace` seconds; others go on with what is not done then."""
        self._is_ending = True
        DBOS.destroy(workflow_completion_timeout_sec=int(grace), destroy_registry=True)
        self._stopping.set()
        self._beat.join()
        with explain_failure(self.location):
            self._workers.forget(self.id)

    def _schedule(self, by_kind: dict[str, Callable[..., Any]]) -> None:
        """Has what the settings plan by the clock queued at those times, by one of the workers."""
        retention = self.settings.retention
        planned: dict[str, tuple[str, Job]] = {
            "index": (self.settings.index, IndexJob()),
            "retention": (retention.schedule, RetentionJob(dry_run=retention.dry_run)),
        }
        for kind, (cron, job) in planned.items():
            if cron:
                entry: Any = {"schedule_name": kind, "workflow_fn": by_kind[kind], "schedule": cron}
                entry |= {"context": msgspec.to_builtins(job), "queue_name": UPKEEP_QUEUE}
                DBOS.apply_schedules([entry])
            elif DBOS.get_schedule(kind) is not None:
                DBOS.delete_schedule(kind)

    def _keep_alive(self) -> None:
        """Says that this worker lives, and takes up what others have left, until it is to stop.

        Where the database was away, nobody could say that he lives: all are given the time to say so again.
        """
        waits_until = 0.0
        while not self._stopping.wait(BEAT_SECONDS):
            start = time.monotonic()
            try:
                self._workers.note_alive(self.id, LIFE_SECONDS)
                if time.monotonic() - start > BEAT_SECONDS:
                    waits_until = time.monotonic() + LIFE_SECONDS
                elif time.monotonic() > waits_until and not self._is_ending:
                    self.take_up_jobs()
            except Exception as exc:  # noqa: BLE001 - the database may be away for a while; the next beat tries again
                waits_until = time.monotonic() + LIFE_SECONDS
                LOG.warning("the jobs cannot be reached: %s", redact(f"{type(exc).__name__}: {exc}"))

    def take_up_jobs(self) -> int:
        """Has the jobs of workers that died queued again. Returns how many."""
        running = DBOS.list_workflows(status="PENDING", load_input=False, load_output=False)
        alive = self._workers.list_alive(get_current_time())
        dead = {each.executor_id for each in running if each.executor_id} - alive - {self.id}
        if not dead:
            return 0
        # The services of DBOS do this over the network; the function behind it takes a job from a dead worker only.
        taken = DBOS._recover_pending_workflows(sorted(dead))  # noqa: SLF001 - there is no public way to do it oneself
        LOG.warning("%d jobs of workers that died are queued again: %s", len(taken), ", ".join(sorted(dead)))
        return len(taken)

    # -- the jobs ------------------------------------------------------------------------------------------------------

    def _run(self, job: Job) -> dict[str, Any]:
        """Does one job. What it raises is kept with the job, without secrets."""
        kind, namespace = get_kind(job), getattr(job, "namespace", "")
        where = {"tenfold.job.kind": kind, "tenfold.job.id": DBOS.workflow_id or "", "tenfold.namespace": namespace}
        with trace_span("tenfold.job", where):
            try:
                result = self._do(job)
            except (TenfoldError, OSError):
                count_job(kind, namespace, "failed")
                raise
        count_job(kind, namespace, "done")
        done: dict[str, Any] = msgspec.to_builtins(result)
        return done

    def _do(self, job: Job) -> Any:  # noqa: ANN401 - JSON with a summary
        match job:
            case CompactJob():
                id_ = DBOS.workflow_id or ""
                return run_compaction(job, id_, self._steps, self._store, self._config, self._find_model)
            case IndexJob():
                return self._steps.run("index", self._index)
            case RetentionJob():
                return self._apply_retention(job)
            case ExportJob():
                return self._steps.run("export", lambda: self._export(job))
            case CopyJob():
                return self._steps.run("copy", lambda: self._copy(job))

    def _index(self) -> dict[str, Any]:
        count = 0
        while done := self._store.index():
            count += done
        self._forget_jobs()
        return {"summary": f"{count:,} entries indexed", "entries": count}

    def _apply_retention(self, job: RetentionJob) -> dict[str, Any]:
        names: list[str] = self._steps.run("list", self._store.list_namespaces)
        expired = {name: self._steps.run("choose", partial(self._choose, name)) for name in names}
        count, size = sum(len(ids) for ids, _ in expired.values()), sum(size for _, size in expired.values())
        for name, (ids, _) in [] if job.dry_run else expired.items():
            for start in range(0, len(ids), _CHUNK):
                self._steps.run("delete", partial(self._delete, name, ids[start : start + _CHUNK]))
        would = "would be deleted" if job.dry_run else "deleted"
        by_name = {name: len(ids) for name, (ids, _) in expired.items() if ids}
        listed = "; ".join(f"{name} {number:,}" for name, number in by_name.items())
        summary = f"{count:,} sessions, {size:,} bytes {would}" + (f": {listed}" if listed else "")
        return {"summary": summary, "sessions": {name: ids for name, (ids, _) in expired.items() if ids}}

    def _choose(self, namespace: str) -> tuple[list[str], int]:
        rules = self.settings.retention
        rule, keeps_pinned = rules.get_rule(namespace), not rules.can_delete_pinned(namespace)
        expired, _ = find_expired(self._store, namespace, rule, keeps_pinned=keeps_pinned)
        return [each.row.info.id for each in expired], sum(each.size for each in expired)

    def _delete(self, namespace: str, sessions: Sequence[str]) -> int:
        def note(session: str) -> None:
            if has_keys:
                self._store.record_access(
                    AccessRecord(0, get_current_time(), "retention", "job", "purge", namespace, session)
                )

        has_keys, still = bool(self._store.list_keys()), set(self._choose(namespace)[0])
        left = [session for session in sessions if session in still]  # others were used or pinned since
        with closing(JobQueue(self.location)) as queue:
            for session in left:
                queue.purge(namespace, session)
        delete_sessions(self._store, namespace, left, note)
        return len(left)

    def _forget_jobs(self) -> int:
        with closing(JobQueue(self.location)) as queue:
            return queue.delete_ended(get_current_time() - self.settings.keep_days * 86_400_000_000)

    def _export(self, job: ExportJob) -> dict[str, Any]:
        row = find_session(self._store, job.session, namespace=job.namespace)
        address = SessionAddress(self._store, row.info.id, job.namespace, job.head)
        counter = choose_counter(row.info.model or None).counter
        rendered = render_session(
            self._store,
            job.namespace,
            row,
            lambda: Conversation(address, counter, Stamps()).view,
            format=job.format,
            is_original=job.is_original,
        )
        write_output(Path(job.path), rendered.data, force=True, option="path")
        return {"summary": f"written: {job.path} ({len(rendered.data):,} bytes)", "notes": list(rendered.notes)}

    def _copy(self, job: CopyJob) -> dict[str, Any]:
        migrate_store(job.target)
        with closing(open_store(job.target)) as target:
            copy_keys(self._store, target, namespace=job.namespace or None)
            copied = list(copy_store(self._store, target, namespace=job.namespace or None))
        problems = [f"{each.session}: {each.problem.what}" for each in copied if each.problem is not None]
        summary = f"{len(copied):,} sessions compared, {sum(each.new_entries for each in copied):,} entries copied now"
        if problems:
            raise StoreError(f"{summary}, {len(problems):,} problems: {'; '.join(problems[:3])}")
        return {"summary": summary}


def _register(kind: str, run: Callable[[Job], dict[str, Any]]) -> Callable[..., Any]:
    """Makes the workflow of a kind. It is given a job, or by a schedule a time and a job."""

    def do(first: Any, second: Any = None) -> dict[str, Any]:  # noqa: ANN401 - JSON
        job: Job = msgspec.convert(first if second is None else second, Job)
        try:
            return run(job)
        except (TenfoldError, OSError) as exc:
            LOG.warning("job %s failed: %s", DBOS.workflow_id, redact(str(exc)))
            raise TenfoldError(redact(str(exc))) from None

    workflow: Callable[..., Any] = DBOS.workflow(name=kind, max_recovery_attempts=MOST_TRIES)(do)
    return workflow


def _use_own_log() -> None:
    """Has DBOS log where this program does, and not on the console by itself."""
    log = logging.getLogger("dbos")
    if not log.handlers:
        log.addHandler(logging.NullHandler())
