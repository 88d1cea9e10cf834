"""Has the summaries that a session needs soon written by workers: what was written outlives the process that asked."""

from __future__ import annotations

import logging
import time
from concurrent.futures import Future
from hashlib import sha256
from typing import Any

import msgspec

from tenfold.apps.jobs.compaction import JobResult
from tenfold.apps.jobs.job import CompactJob, JobRow
from tenfold.apps.jobs.queue import PREPARED, JobQueue, digest_session
from tenfold.compaction.engine.call import Call
from tenfold.core.text.redaction import redact
from tenfold.errors import TenfoldError
from tenfold.session.concurrency import start_thread
from tenfold.session.conversation import Conversation, SessionAddress
from tenfold.session.preparation import Preparation, PreparedResult
from tenfold.store.ids import get_current_time

LOG = logging.getLogger("tenfold.jobs")
PATIENCE = 120.0
"""Seconds that a request waits for a job that runs, where it cannot be sent without the summary."""
_PAUSE = 600_000_000
"""Microseconds after a failed job in which none is added for the same summary."""
_POLL = 0.25
"""Seconds between two looks at a job."""


class JobPreparer:
    """Has compactions prepared by the workers of a store. Give it to an `Answerer`.

    All processes with the session open find the same job, and whichever needs the summary first appends it.
    """

    def __init__(self, queue: JobQueue, *, policy: str = "") -> None:
        """`policy` is its name in the settings of the workers, "" the configured one."""
        self._queue, self._policy = queue, policy

    def prepare(self, conversation: Conversation, call: Call) -> Preparation | None:
        """See `Preparer.prepare`. What stands in the way is logged, and the caller does without."""
        address = conversation.address
        prefix = _name_summary(address, conversation.find_newest_block_id())
        job = CompactJob(
            session=address.session,
            namespace=address.namespace,
            head=address.head,
            leaf=conversation.leaf or "",
            appends=False,
            policy=self._policy,
            model=call.model,
            to=call.to,
            window=call.window,
            floor=call.floor,
            output_reserve=call.output_reserve,
            recall=call.recall,
            run=call.run,
            focus=call.focus,
        )
        try:
            newest = next(iter(self._queue.list(prefixes=[prefix], limit=1)), None)
            if newest is not None and newest.state in ("waiting", "running", "done"):
                if not self._queue.is_used(newest.id):
                    return JobPreparation(self._queue, newest.id, address)
            elif newest is not None and get_current_time() - newest.ended < _PAUSE:
                return None
            if conversation.is_moved:  # the workers find the leaf by the store, and it is not there yet
                return None
            name = f"{prefix}-{job.leaf}"
            if newest is not None and newest.id == name:  # it did not fit, and would not the next time
                return None
            return JobPreparation(self._queue, self._queue.add(job, id=name), address)
        except TenfoldError as exc:
            LOG.warning("no job was added for the next summary: %s", redact(str(exc)))
            return None


def _name_summary(address: SessionAddress, block: str | None) -> str:
    """Names the summary that follows a Block of a head, the same in every process."""
    place = sha256(f"{address.head}\0{block or ''}".encode("utf-8", "replace")).hexdigest()[:12]
    return f"{PREPARED}-{digest_session(address.namespace, address.session)}-{place}"


class JobPreparation:
    """A compaction that a job prepares."""

    def __init__(self, queue: JobQueue, id: str, address: SessionAddress) -> None:
        self.id, self._queue, self._address = id, queue, address
        self._looked, self._is_done = 0.0, False
        self._future: Future[PreparedResult] | None = None

    def is_done(self) -> bool:
        """See `Preparation.is_done`. It looks a few times in a second at most."""
        if not self._is_done and time.monotonic() - self._looked > _POLL:
            self._looked = time.monotonic()
            row = self._find()
            self._is_done = row is None or row.state not in ("waiting", "running")
        return self._is_done

    def watch(self) -> Future[PreparedResult]:
        """See `Preparation.watch`. It fails where no worker has begun the job, and where none ends it in time."""
        if self._future is None:
            if self._is_done:
                self._future = Future()
                try:
                    self._future.set_result(self._read())
                except Exception as exc:  # noqa: BLE001 - raised where the result is asked for, as a thread's is
                    self._future.set_exception(exc)
            else:
                self._future = start_thread(self._wait, "tenfold-prepare")
        return self._future

    def drop(self) -> None:
        """See `Preparation.drop`."""
        try:
            self._queue.mark_used(self.id)
        except TenfoldError as exc:
            LOG.warning("job %s could not be marked as used: %s", self.id, redact(str(exc)))

    def _find(self) -> JobRow | None:
        try:
            return self._queue.find(self.id)
        except TenfoldError as exc:
            LOG.warning("job %s cannot be looked at: %s", self.id, redact(str(exc)))
            return None

    def _wait(self) -> PreparedResult:
        deadline = time.monotonic() + PATIENCE
        row = self._find()
        if row is not None and row.state == "waiting":
            self._queue.cancel([self.id])
            raise TenfoldError(f"no worker has begun job {self.id}: start one with `tenfold worker`")
        while row is not None and row.state == "running":
            if time.monotonic() > deadline:
                raise TenfoldError(f"job {self.id} was not done in {PATIENCE:g} s")
            time.sleep(_POLL)
            row = self._find()
        return self._read()

    def _read(self) -> PreparedResult:
        row = self._queue.find(self.id)
        if row is None or row.state != "done":
            raise TenfoldError(
                f"job {self.id} is {row.state if row else 'gone'}: {row.error if row else 'it was purged'}"
            )
        given: Any = self._queue.read_result(self.id)
        result = msgspec.convert(given, JobResult)
        address = self._address
        return result.decode(), result.open_view(address.store, address.namespace)
