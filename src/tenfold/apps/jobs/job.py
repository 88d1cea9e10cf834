"""What jobs are: a kind each, with all that a worker has to know. None holds a credential."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from tenfold.compaction.plan.draft import RecallMode
from tenfold.core.record.token_reading import NO_TOKENS, Counted
from tenfold.store.base import DEFAULT_NAMESPACE, MAIN

JobState = Literal["waiting", "running", "done", "failed", "cancelled", "given-up"]
"""`given-up` is a job whose workers died too often."""


class CompactJob(Struct, frozen=True, tag_field="kind", tag="compact", omit_defaults=True):
    """Compacts a head of a session. The summary is written by the operator's model, without one by code.

    `leaf` is the entry that the view ends with, "" the head's last one when the job begins. With `appends` the Block is
    appended; otherwise the result waits for a process that has the session open, which appends it when it is needed.
    `policy` is its name in the settings, and `model` the agent's model. The others are fields of a `Call`.
    """

    session: str
    namespace: str = DEFAULT_NAMESPACE
    head: str = MAIN
    leaf: str = ""
    appends: bool = True
    policy: str = ""
    model: str = ""
    to: Counted | None = None
    window: int | None = None
    floor: Counted = NO_TOKENS
    output_reserve: int = 0
    recall: RecallMode = "none"
    run: str = ""
    focus: str = ""


class IndexJob(Struct, frozen=True, tag_field="kind", tag="index", omit_defaults=True):
    """Indexes what no search has seen yet, of all namespaces."""


class RetentionJob(Struct, frozen=True, tag_field="kind", tag="retention", omit_defaults=True):
    """Deletes the sessions that the settings let expire, of all namespaces. With `dry_run` it only says which."""

    dry_run: bool = False


class ExportJob(Struct, frozen=True, tag_field="kind", tag="export", omit_defaults=True):
    """Writes a session to a file that the worker can reach. For the fields see `render_session`."""

    session: str
    path: str
    namespace: str = DEFAULT_NAMESPACE
    head: str = MAIN
    format: str = ""
    is_original: bool = False


class CopyJob(Struct, frozen=True, tag_field="kind", tag="copy", omit_defaults=True):
    """Copies the sessions of a namespace ("": of all) to another store. Its address holds no password."""

    target: str
    namespace: str = ""


Job = CompactJob | IndexJob | RetentionJob | ExportJob | CopyJob
KINDS: tuple[str, ...] = ("compact", "index", "retention", "export", "copy")


def get_kind(job: Job) -> str:
    """Returns the name of a job's kind."""
    return str(job.__struct_config__.tag)


class JobRow(Struct, frozen=True):
    """One line of the list of jobs. Times are in microseconds UTC, 0 where it has not come to that.

    `worker` did it last, in the try of that number. `result` says how it ended, and `error` why it failed.
    """

    id: str
    kind: str
    namespace: str
    session: str
    state: JobState
    created: int
    started: int = 0
    ended: int = 0
    worker: str = ""
    tries: int = 0
    result: str = ""
    error: str = ""
