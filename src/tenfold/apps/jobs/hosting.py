"""Brings jobs into a program that serves sessions: summaries become jobs, and for a file it does the jobs as well."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct

from tenfold.apps.jobs.job_settings import load_job_settings
from tenfold.apps.jobs.prepared import JobPreparer
from tenfold.apps.jobs.queue import JobQueue
from tenfold.apps.jobs.worker import Worker
from tenfold.config.settings import Config
from tenfold.store.base import Store
from tenfold.store.location import is_database


class HostedJobs(Struct, frozen=True):
    """The jobs of a store, for a program that serves its sessions.

    `preparer` is None where the settings name no model, since a job knows no client's credentials: whoever serves then
    prepares summaries itself.
    """

    queue: JobQueue
    preparer: JobPreparer | None


_PATIENCE = 2.0
"""Seconds that a request waits for the jobs' database before it does without."""
LOG = logging.getLogger("tenfold.jobs")


@contextmanager
def host_jobs(store: Store, location: str, config: Config, *, policy: str = "") -> Iterator[HostedJobs]:
    """Opens the jobs of a store for the length of a block.

    The jobs of a file are done in this process, those of a database by `tenfold worker`.
    """
    settings = load_job_settings(config)
    with JobQueue(location, max_waiting=settings.max_waiting, patience=_PATIENCE) as queue:
        has_model = bool(config.get_common(policy).models)
        if not has_model:
            LOG.info("the settings name no model, so no summary is a job: they are prepared by the clients' own models")
        hosted = HostedJobs(queue, JobPreparer(queue, policy=policy) if has_model else None)
        if is_database(location):
            yield hosted
        else:
            with Worker(store, location, config, settings=settings):
                yield hosted
