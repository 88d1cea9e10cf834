"""Adds jobs and lists them. Nothing is done here: that is a worker's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from hashlib import sha256
from typing import Any, Self, TypeVar

import msgspec
from dbos import DBOSClient, DBOSPortableJSONSerializer, EnqueueOptions, WorkflowStatus

from tenfold.apps.jobs.database import APPLICATION, QUEUE, SCHEMA, UPKEEP_QUEUE, JobError, explain_failure, prepare_jobs
from tenfold.apps.jobs.job import CompactJob, CopyJob, ExportJob, Job, JobRow, JobState, get_kind
from tenfold.core.text.redaction import redact
from tenfold.errors import NotFoundError, UsageError
from tenfold.session.concurrency import start_thread
from tenfold.store.ids import IDS, convert_time
from tenfold.store.location import describe_location, has_password

T = TypeVar("T")
PATIENCE = 10.0
"""Seconds after which a call of the database is given up. DBOS itself tries a locked file again for ever."""
MAX_WAITING = 1_000
"""How many jobs of a namespace may wait."""
PREPARED = "prepare"
"""How the ids of compactions begin that are prepared ahead."""
_STATES: dict[str, JobState] = {
    "ENQUEUED": "waiting",
    "DELAYED": "waiting",
    "PENDING": "running",
    "SUCCESS": "done",
    "ERROR": "failed",
    "CANCELLED": "cancelled",
    "MAX_RECOVERY_ATTEMPTS_EXCEEDED": "given-up",
}
_STATUSES = {state: [status for status, named in _STATES.items() if named == state] for state in _STATES.values()}

_ENDED: tuple[JobState, ...] = ("done", "failed", "cancelled", "given-up")
_PAGE = 1_000
"""Jobs that are forgotten at once. A result may be large, so none is read for it."""


class QueueFull(UsageError):
    """Too many jobs of a namespace wait."""


class JobQueue:
    """The jobs of a store. Safe to use from several threads; close it at the end.

    with JobQueue("agents.db") as queue:
        queue.add(CompactJob("session-1", to=20_000))
    """

    def __init__(self, location: str, *, max_waiting: int = MAX_WAITING, patience: float = PATIENCE) -> None:
        """Opens the jobs of the store at this location. Raises `JobError` if they cannot be reached.

        A call that has no answer after `patience` seconds raises it too, and for as long those after it.
        """
        self.location, self.url, self._max_waiting = location, prepare_jobs(location, migrate=False), max_waiting
        self._explain = partial(explain_failure, location)
        self._patience, self._stuck_until = patience, 0.0
        with self._explain():
            self._client = DBOSClient(
                system_database_url=self.url,
                dbos_system_schema=SCHEMA,
                serializer=DBOSPortableJSONSerializer(),
                application_name=APPLICATION,
                retry_connection_errors=False,
            )
            try:
                self._client.list_workflows(limit=1)
            except BaseException:
                self._client.destroy()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._client.destroy()

    def _ask(self, work: Callable[[], T]) -> T:
        """Asks the database. What does not come back in time is left to its thread."""
        if time.monotonic() < self._stuck_until:
            raise JobError(f"the jobs of {describe_location(self.location)} gave no answer a moment ago: try again")
        with self._explain():
            asked = start_thread(work, "tenfold-jobs")
            try:
                return asked.result(self._patience)
            except TimeoutError as exc:
                self._stuck_until = time.monotonic() + self._patience
                raise JobError(
                    f"the jobs of {describe_location(self.location)} gave no answer within {self._patience:g} s: "
                    "another program may hold them locked, see `tenfold store check`"
                ) from exc

    def add(self, job: Job, *, id: str = "") -> str:
        """Adds a job and returns its id. One with this id that is there already stays as it is.

        Raises `QueueFull` if too many jobs of its namespace wait, and `UsageError` for a target with a password.
        """
        namespace, kind = getattr(job, "namespace", ""), get_kind(job)
        if isinstance(job, CopyJob) and has_password(job.target):
            raise UsageError(
                "a job is stored, so its target may hold no password: leave that to ~/.pgpass or PGPASSFILE"
            )
        is_of_namespace = isinstance(job, CompactJob | ExportJob)
        session = getattr(job, "session", "")
        name = id or "-".join(filter(None, (kind, session and digest_session(namespace, session), IDS.generate())))
        options: EnqueueOptions = {
            "workflow_name": kind,
            "queue_name": QUEUE if is_of_namespace else UPKEEP_QUEUE,
            "workflow_id": name,
            "attributes": {"namespace": namespace, "session": session},
        }
        if is_of_namespace:
            options |= {"queue_partition_key": namespace, "authenticated_user": namespace}
        waiting = self.count_waiting(namespace if is_of_namespace else None)
        if waiting >= self._max_waiting:
            raise QueueFull(
                f"{waiting:,} jobs of {namespace or 'the store'} wait, and at most {self._max_waiting:,} may: "
                "start more workers, or see `tenfold jobs list` for what holds them up"
            )
        self._ask(lambda: self._client.enqueue(options, msgspec.to_builtins(job)))
        return name

    def count_waiting(self, namespace: str | None) -> int:
        """Counts the jobs of a namespace (None: of all) that wait, up to the most that may."""
        return len(self.list(namespace=namespace, states=("waiting",), limit=self._max_waiting))

    def count_states(self, limit: int = 10_000) -> dict[str, int]:
        """Counts the jobs in each state, among the newest ones. None where they cannot be reached at this moment."""
        states: dict[str, int] = dict.fromkeys(_STATUSES, 0)
        try:
            found = self._list(sort_desc=True, limit=limit, load_output=False, queue_name=[QUEUE, UPKEEP_QUEUE])
        except JobError:
            return {}
        for status in found:
            states[_STATES[status.status]] += 1
        return states

    def list(
        self,
        *,
        namespace: str | None = None,
        states: Iterable[JobState] = (),
        prefixes: Sequence[str] = (),
        limit: int = 100,
    ) -> list[JobRow]:
        """Lists jobs, the newest first. `prefixes` are how their ids may begin."""
        statuses = [status for state in states for status in _STATUSES[state]]
        found = self._list(
            status=statuses or None, workflow_id_prefix=[*prefixes] or None, user=namespace, sort_desc=True, limit=limit
        )
        return [_read_row(status) for status in found]

    def _list(self, **chosen: Any) -> Sequence[WorkflowStatus]:  # noqa: ANN401 - what DBOS takes
        return self._ask(lambda: self._client.list_workflows(load_input=False, **chosen))

    def find(self, id: str) -> JobRow | None:
        """Finds a job by its id."""
        found = self._list(workflow_ids=[id])
        return _read_row(found[0]) if found else None

    def read_result(self, id: str) -> Any:  # noqa: ANN401 - it is of the job's kind
        """Reads what a job returned, None if it has not come to that."""
        found = self._list(workflow_ids=[id])
        return found[0].output if found else None

    def resolve(self, id: str) -> JobRow:
        """Finds the one job whose id begins like this. Raises `NotFoundError`."""
        found = self.list(prefixes=[id], limit=2) if id else []
        if len(found) != 1:
            raise NotFoundError(
                f"jobs with an id that begins with {id!r}: {len(found)}; `tenfold jobs list` names them"
            )
        return found[0]

    def cancel(self, ids: Sequence[str]) -> None:
        """Cancels jobs. One that runs ends at its next step."""
        self._ask(lambda: self._client.cancel_workflows([*ids]))

    def retry(self, row: JobRow) -> None:
        """Has a job that ended without success done again. What its steps have stored is not done again."""
        queue = QUEUE if row.kind in ("compact", "export") else UPKEEP_QUEUE
        if row.state != "failed":
            self._ask(lambda: self._client.resume_workflow(row.id, queue_name=queue))
            return
        steps = self._ask(lambda: self._client.list_workflow_steps(row.id))
        first = next((number for number, step in enumerate(steps, 1) if step["error"] is not None), len(steps) + 1)
        options = {"queue_name": queue, "queue_partition_key": row.namespace if queue == QUEUE else None}
        self._ask(lambda: self._client.rewind_workflow(row.id, start_step=first, **options))

    def mark_used(self, id: str) -> None:
        """Notes that nobody will take a result any more."""
        self._ask(lambda: self._client.update_workflow_attributes(id, {"used": True}, merge=True))

    def is_used(self, id: str) -> bool:
        """Tells whether a result was taken, or will not be."""
        found = self._list(workflow_ids=[id], load_output=False)
        return not found or bool((found[0].attributes or {}).get("used"))

    def purge(self, namespace: str, session: str) -> int:
        """Deletes all jobs of a session with what they hold of its text. Returns how many."""
        prefixes = [f"{kind}-{digest_session(namespace, session)}-" for kind in ("compact", "export", PREPARED)]
        ids = [status.workflow_id for status in self._list(workflow_id_prefix=prefixes, load_output=False)]
        if ids:
            self._ask(lambda: self._client.cancel_workflows(ids))
            self._ask(lambda: self._client.delete_workflows(ids))
        return len(ids)

    def delete_ended(self, before: int) -> int:
        """Deletes what is known of jobs that ended before a time in microseconds UTC. Returns how many."""
        statuses = [status for state in _ENDED for status in _STATUSES[state]]
        until = convert_time(before).isoformat()
        count = 0
        while old := self._list(status=statuses, completed_before=until, load_output=False, limit=_PAGE):
            ids = [status.workflow_id for status in old]
            self._ask(lambda ids=ids: self._client.delete_workflows(ids))  # type: ignore[misc]
            count += len(ids)
        return count


def digest_session(namespace: str, session: str) -> str:
    """Returns what stands for a session in the ids of its jobs, by which they are found."""
    return sha256(f"{namespace}\0{session}".encode("utf-8", "replace")).hexdigest()[:12]


def _read_row(status: WorkflowStatus) -> JobRow:
    attributes = status.attributes or {}
    output = status.output if isinstance(status.output, dict) else {}
    return JobRow(
        status.workflow_id,
        status.name,
        attributes.get("namespace", ""),
        attributes.get("session", ""),
        _STATES[status.status],
        _to_microseconds(status.created_at),
        _to_microseconds(status.dequeued_at),
        _to_microseconds(status.completed_at),
        status.executor_id or "",
        status.recovery_attempts or 0,
        str(output.get("summary", "")),
        redact(str(status.error)) if status.error is not None else "",
    )


def _to_microseconds(milliseconds: int | None) -> int:
    return (milliseconds or 0) * 1_000
