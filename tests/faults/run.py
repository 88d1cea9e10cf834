"""One deterministic run of appends and imports, and a child process that performs it until it is killed.

The child tells its phase through shared memory: the byte `PHASE` is 1 from BEGIN to the end of COMMIT (`INDEXING`: of
the index, not of an append), `DONE` counts the batches whose call has returned. Each is one byte, so that a kill never
meets it half written.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import random
import signal
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tenfold.core.record.block import Block, Replacement, Substitute
from tenfold.core.record.entry import Entry, MessageEntry
from tenfold.core.record.message import Message, Text
from tenfold.core.view.fold import Snapshot, View
from tenfold.core.view.path import Path
from tenfold.store.base import DEFAULT_NAMESPACE, SessionInfo
from tenfold.store.location import open_store
from tenfold.store.sql.store import SqlStore

NS, SESSION = DEFAULT_NAMESPACE, "s"
PHASE, STARTED, INDEXING, DONE = 0, 1, 2, 8


def mark_writes(store: SqlStore[Any], shared: mmap.mmap) -> None:
    """Has a store tell in shared memory whether a write transaction is open."""
    write = store._database.write

    @contextlib.contextmanager
    def write_marked(namespace: str | None = None) -> Iterator[Any]:
        with write(namespace) as db:
            shared[PHASE] = 1
            yield db
        shared[PHASE] = 0

    store._database.write = write_marked


class Step(NamedTuple):
    """One call of `append`: its entries, the snapshot stored with them, whether it is an import."""

    entries: list[Entry]
    snapshot: Snapshot | None
    imported: bool


def make_steps(seed: int, count: int) -> list[Step]:
    """The uninterrupted run: single messages, imports of a tree with a fork, and Blocks with their snapshots."""
    chooser = random.Random(seed)  # noqa: S311  a run that can be repeated
    out: list[Step] = []
    view = View.from_path(Path())
    number = 0

    def make_entry(parent: str | None) -> MessageEntry:
        nonlocal number
        number += 1
        words = " ".join(f"w{chooser.randrange(10**6)}" for _ in range(chooser.choice((1, 20, 150))))
        message = Message("user", (Text(words),), "human")
        return MessageEntry(f"{number:08x}-0000-7000-8000-{seed:012x}", parent, "r", number, message)

    for _ in range(count):
        leaf = view.path.get_entry(view.length - 1).id if view.length else None
        kind = chooser.random()
        if kind < 0.1 and view.length > 6:
            entry = _make_block(view, leaf, f"ffffffff-{len(out):04x}-7000-8000-{seed:012x}")
            view = _grow_view(view, [entry])
            out.append(Step([entry], view.to_snapshot(), imported=False))
        elif kind < 0.35:
            stem: list[Entry] = [make_entry(leaf)]
            for _ in range(chooser.randrange(5, 40)):
                stem.append(make_entry(stem[-1].id))
            fork = [make_entry(stem[0].id)]
            tail: list[Entry] = [make_entry(stem[-1].id)]
            out.append(Step([*stem, *fork, *tail], None, imported=True))
            view = _grow_view(view, [*stem, *tail])
        else:
            message = make_entry(leaf)
            view = _grow_view(view, [message])
            out.append(Step([message], None, imported=False))
    return out


def perform(place: str, run: list[Step], shared: mmap.mmap, *, die_at: int = 0) -> None:
    """Carries on the run from where the store stands. With `die_at`, kills itself at that statement (SQLite only)."""
    store = open_store(place)
    assert isinstance(store, SqlStore)
    mark_writes(store, shared)
    traced = 0

    def trace(_: str) -> None:
        nonlocal traced
        traced += 1
        if traced == die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    if die_at:
        store._database._idle_connections[0].set_trace_callback(trace)
    store.create(NS, SessionInfo(SESSION))
    stored = len(store.read_entries(NS, SESSION))
    done = count_steps(run, stored)
    shared[DONE] = done
    shared[STARTED] = 1
    leaf = store.open(NS, SESSION).leaf
    for number, step in enumerate(run[done:], done + 1):
        counts = {"chars4": [len(step.entries)] * len(step.entries)}
        store.append(NS, SESSION, step.entries, expected=leaf, snapshot=step.snapshot, counts=counts)
        shared[DONE] = number
        leaf = step.entries[-1].id
        if number % 16 == 0:
            shared[INDEXING] = 1
            store.index(limit=50)
            shared[INDEXING] = 0
    store.close()


def count_steps(run: list[Step], entries: int) -> int:
    """How many whole steps give this number of entries. Raises ValueError if none do: a step was torn."""
    total = 0
    for number, step in enumerate(run):
        if total == entries:
            return number
        total += len(step.entries)
    if total != entries:
        raise ValueError(f"{entries} entries are not a whole number of steps")
    return len(run)


def fork_process(work: Callable[[], None]) -> int:
    """Runs `work` in a fork and returns its process id. The fork ends without running this process's exit code."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)


def _make_block(view: View, leaf: str | None, name: str) -> Block:
    last = view.length - 3
    covers = view.get_slice(0, last)
    assert covers is not None
    say = Substitute(Message("user", (Text(f"summary up to {last}"),), "tenfold"))
    replacement = Replacement(0, last, covers, (say,), "summary")
    return Block(name, leaf, "r", view.length, "test", "chars4", (replacement,))


def _grow_view(view: View, entries: list[Entry]) -> View:
    for entry in entries:
        view.path.append(entry)
    return view.extend(entries)
