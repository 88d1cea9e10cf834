"""The commands of durable jobs: `tenfold jobs ...`, and `tenfold worker`, which does them."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from tenfold.apps.cli.console import print_json, print_note, show
from tenfold.apps.cli.source_files import parse_path
from tenfold.apps.cli.store_access import (
    JsonOption,
    NamespaceOption,
    SessionArgument,
    StoreOption,
    complete_values,
    find_location,
    find_stored_session,
    open_cli_store,
)
from tenfold.apps.keyring import note_access
from tenfold.config.settings import load_settings
from tenfold.core.text.terminal_safe import sanitize, to_one_line
from tenfold.core.wire import WIRES
from tenfold.errors import UsageError
from tenfold.store.base import MEMORY_LOCATION
from tenfold.store.ids import convert_time
from tenfold.store.location import describe_location, is_database
from tenfold.store.lookup import LAST

if TYPE_CHECKING:
    from tenfold.apps.jobs.job import Job, JobRow
    from tenfold.apps.jobs.queue import JobQueue

LOG_FORMAT = "%(asctime)s %(levelname)s %(message)s"
JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="A job: its id, or the beginning of it.")]
AllNamespacesOption = Annotated[
    str, typer.Option("--namespace", metavar="NAME", help="The jobs of this tenant only. Default: all.")
]


def register(app: typer.Typer) -> None:
    """Adds the group `jobs` and its commands."""
    group = typer.Typer(
        no_args_is_help=True,
        help="Adds durable jobs, and shows how they are: summaries, exports, retention, copies, indexing.",
        epilog="Example: tenfold jobs list",
    )
    group.command("list", epilog="Example: tenfold jobs list --state failed")(list_jobs)
    group.command("cancel", epilog="Example: tenfold jobs cancel compact-01a2")(cancel)
    group.command("retry", epilog="Example: tenfold jobs retry compact-01a2")(retry)
    group.command("compact", epilog="Example: tenfold jobs compact last --to 20000")(add_compaction)
    group.command("export", epilog="Example: tenfold jobs export last /srv/exports/session.jsonl")(add_export)
    group.command("index", epilog="Example: tenfold jobs index")(add_index)
    group.command("retention", epilog="Example: tenfold jobs retention --dry-run")(add_retention)
    group.command("copy", epilog="Example: tenfold jobs copy postgresql://tenfold@db/agents")(add_copy)
    app.add_typer(group, name="jobs")


@contextmanager
def _open_queue(store: str | None) -> Iterator[JobQueue]:
    from tenfold.apps.jobs.job_settings import load_job_settings  # noqa: PLC0415 - an optional extra, slow to load
    from tenfold.apps.jobs.queue import JobQueue  # noqa: PLC0415 - the same

    settings, location = load_job_settings(load_settings()), find_location(store)
    if location != MEMORY_LOCATION and not is_database(location) and not Path(location).exists():
        raise UsageError(f"there is no store {location}, so it has no jobs: name one with --store")
    with JobQueue(location, max_waiting=settings.max_waiting) as queue:
        yield queue


def list_jobs(
    *,
    state: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STATE",
            help="Only jobs that are waiting, running, done, failed, cancelled or given-up. Give it again for another.",
        ),
    ] = None,
    namespace: AllNamespacesOption = "",
    limit: Annotated[int, typer.Option(min=1, help="How many, the newest first.")] = 50,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Lists jobs: what they are, how they stand, and why they failed."""
    from tenfold.apps.jobs.job import JobState  # noqa: PLC0415 - an optional extra

    known: dict[str, JobState] = {name: name for name in JobState.__args__}  # type: ignore[attr-defined]
    for name in state or ():
        if name not in known:
            raise UsageError(f"no job is {name!r}: they are {', '.join(known)}")
    with _open_queue(store) as queue:
        states = [known[name] for name in state or ()]
        rows = queue.list(namespace=namespace or None, states=states, limit=limit)
    if json:
        for row in rows:
            print_json(row)
        return
    if not rows:
        show("no jobs; `tenfold jobs --help` says which there are")
        return
    for row in rows:
        parts = (f"{row.state:<9}", row.id, row.namespace, _format_time(row.created), _describe_end(row))
        show(sanitize("  ".join(filter(None, parts))))
        if explanation := _explain(row):
            show(f"           {to_one_line(explanation, 240)}")


def _format_time(time: int) -> str:
    return convert_time(time).strftime("%m-%d %H:%M:%S") if time else ""


def _describe_end(row: JobRow) -> str:
    took = f"{(row.ended - row.started) / 1e6:.1f} s" if row.ended and row.started else ""
    return f"{took}, try {row.tries}" if row.tries > 1 else took


def _explain(row: JobRow) -> str:
    if row.error:
        return row.error
    waits = "no worker has begun it: `tenfold worker` does jobs" if row.state == "waiting" else ""
    return row.result or waits or (f"worker {row.worker}" if row.state == "running" else "")


def cancel(job: JobArgument, *, store: StoreOption = None) -> None:
    """Cancels a job. One that runs ends at its next step, and what it has done until then stays done."""
    with _open_queue(store) as queue:
        row = queue.resolve(job)
        if row.state not in ("waiting", "running"):
            raise UsageError(f"job {row.id} is {row.state}: there is nothing to cancel")
        queue.cancel([row.id])
    show(f"cancelled: {row.id}")


def retry(job: JobArgument, *, store: StoreOption = None) -> None:
    """Has a job done again that failed, was cancelled or given up. What it has stored is not done again."""
    with _open_queue(store) as queue:
        row = queue.resolve(job)
        if row.state in ("waiting", "running", "done"):
            raise UsageError(f"job {row.id} is {row.state}: only one that ended without success is done again")
        queue.retry(row)
    show(f"queued again: {row.id}")


def _add(store: str | None, job: Job) -> None:
    with _open_queue(store) as queue:
        show(queue.add(job))


def _find(store: str | None, session: str, namespace: str, action: str) -> tuple[str, str]:
    """Finds the id of a session and the model of its agent."""
    with open_cli_store(store) as place:
        row = find_stored_session(place, session, namespace=namespace)
        if action:
            note_access(place, namespace, action, row.info.id)
    return row.info.id, row.info.model


def add_compaction(
    session: SessionArgument = LAST,
    *,
    to: Annotated[int, typer.Option(min=1, metavar="TOKENS", help="The size to compact to, in tokens.")],
    focus: Annotated[str, typer.Option(metavar="TEXT", help="What the summary should dwell on.")] = "",
    policy: Annotated[str, typer.Option(help="The policy: one of the worker's settings.")] = "",
    store: StoreOption = None,
    namespace: NamespaceOption = "",
) -> None:
    """Adds a job that compacts a session. The summary is written by the model of the worker's settings, or by code."""
    from tenfold.apps.jobs.job import CompactJob  # noqa: PLC0415 - an optional extra
    from tenfold.core.record.token_reading import Counted  # noqa: PLC0415 - for this command alone

    id_, model = _find(store, session, namespace, "")
    _add(store, CompactJob(id_, namespace, to=Counted(to), focus=focus, policy=policy, model=model))


def add_export(
    session: SessionArgument,
    file: Annotated[Path, typer.Argument(parser=parse_path, metavar="FILE", help="The file, where the worker runs.")],
    *,
    as_: Annotated[
        str,
        typer.Option(
            "--as",
            metavar="FORMAT",
            help="The format. Default: the session's own.",
            autocompletion=complete_values(*WIRES),
        ),
    ] = "",
    view: Annotated[
        bool, typer.Option("--view/--original", help="What the model sees now, or all messages as they came.")
    ] = True,
    store: StoreOption = None,
    namespace: NamespaceOption = "",
) -> None:
    """Adds a job that writes a session to a file. Secrets are not redacted."""
    from tenfold.apps.jobs.job import ExportJob  # noqa: PLC0415 - an optional extra

    id_, _ = _find(store, session, namespace, "export")
    _add(store, ExportJob(id_, str(file.absolute()), namespace, format=as_, is_original=not view))


def add_index(*, store: StoreOption = None) -> None:
    """Adds a job that indexes what no search has seen yet. Workers do this every few minutes by themselves."""
    from tenfold.apps.jobs.job import IndexJob  # noqa: PLC0415 - an optional extra

    _add(store, IndexJob())


def add_retention(
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be deleted, and delete nothing.")] = False,
    store: StoreOption = None,
) -> None:
    """Adds a job that deletes what the worker's settings let expire, of all tenants: see the table `jobs.retention`."""
    from tenfold.apps.jobs.job import RetentionJob  # noqa: PLC0415 - an optional extra

    _add(store, RetentionJob(dry_run))


def add_copy(
    target: Annotated[str, typer.Argument(metavar="TO", help="A store: a file, or postgresql://USER@HOST/DATABASE.")],
    *,
    namespace: Annotated[str, typer.Option(metavar="NAME", help="Copy one tenant only. Default: all.")] = "",
    store: StoreOption = None,
) -> None:
    """Adds a job that copies the sessions to another store, as `tenfold store copy` does."""
    from tenfold.apps.jobs.job import CopyJob  # noqa: PLC0415 - an optional extra

    with open_cli_store(store) as place:
        note_access(place, namespace or "all", "copy", describe_location(target))
    _add(store, CopyJob(target, namespace))


def run_worker(*, store: StoreOption = None) -> None:
    """Does the jobs of a store until it is stopped, as many at a time as `jobs.at_once` in your settings says.

    Start as many as you like, on any machine that reaches the store. If one dies, the others go on with its jobs.
    """
    ended = threading.Event()

    def end(_: int, __: FrameType | None) -> None:
        ended.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    from tenfold.apps.jobs.worker import Worker  # noqa: PLC0415 - an optional extra, and slow to load

    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT, stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # a line for each call of a model
    location = find_location(store)
    with open_cli_store(store, create=True) as place, Worker(place, location, load_settings()) as worker:
        print_note(f"worker {worker.id} does the jobs; `tenfold jobs list` shows them")
        while not ended.wait(1.0):
            pass
