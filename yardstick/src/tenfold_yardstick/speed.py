"""Measures what Tenfold costs besides the model: turns, compaction, opening, the archive, memory, and waiting calls.

Every measure uses the named sessions, repeated until they are long enough. A turn is compared with the time that other
projects' own hooks take (`peers.py`). All times are seconds on this machine.
"""

from __future__ import annotations

import random
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec
from msgspec import Struct

from tenfold import __version__
from tenfold.config.policies import get_preset
from tenfold.core.record.message import Message, Text
from tenfold.session import Session, SessionAddress
from tenfold.store.base import DEFAULT_NAMESPACE, Store
from tenfold.store.sqlite.store import SqliteStore
from tenfold.testing.chats import MODEL, get_counter
from tenfold.testing.methods import UnableError
from tenfold.testing.probes.kinds import ChatMessage
from tenfold_yardstick.cases import EvalSession
from tenfold_yardstick.long_history import LongHistory, decode_messages
from tenfold_yardstick.memory_use import MemoryUse, measure_in_child

LENGTHS = (100, 1_000, 10_000, 100_000)
"""How many messages the measured histories have, and how many entries the archives."""
COMPARISON_LENGTH = 10_000
"""The length up to which peers, compactions and memory are measured. The slowest peer takes seconds per turn there."""
FULL_ARCHIVE = 1_000_000
"""The entries of the largest archive, measured on request only: its index takes gigabytes and minutes."""
TURN_LIMITS = (20, 100)
"""The fewest and the most turns for a median, after one warm-up turn.

In between it is one for each hundred messages.
"""
MAX_SECONDS = 20.0
"""How many seconds the turns of one method at one length may take together. At least one turn is made."""
UNREACHED_WINDOW = 2_000_000_000
"""A window in tokens that no history fills, so that nothing has to be compacted."""
ENTRY_LENGTH = 1_000
"""The characters of an entry of an archive."""
QUERY_COUNT = 20
"""How many searches are made in an archive, each for three words of one of its entries."""
BATCH_SIZE = 5_000
"""How many messages are appended at once, and how many entries one session of an archive has."""
STORED_VIEW_TOKENS = 80_000
"""The tokens that a stored history is compacted to, whenever it has grown by a fortieth, before it is opened."""
OPENING_COUNT = 11
"""How many openings the median is taken of."""
_SEED = 7
_WORD = re.compile(r"[A-Za-z]{5,20}")


class TurnTiming(Struct, frozen=True):
    """The cost of a turn at a length of history, when nothing is to be compacted. `unable` says why it is unknown.

    `way` is how the host gives its history: "append" what is new, "sync" or "request" the whole list; "hook" is a
    peer's own. `seconds` is the median and `slowest` the longest of `turns` turns.
    """

    method: str
    way: str
    messages: int
    seconds: float = 0.0
    slowest: float = 0.0
    turns: int = 0
    unable: str = ""


class CompactionTiming(Struct, frozen=True):
    """A compaction to a tenth, by code alone, of a history in memory: the tokens before and after, and the time."""

    messages: int
    before: int
    after: int
    seconds: float


class OpeningTiming(Struct, frozen=True):
    """The time to open the store of a session and read its view, which shows `shown` of its `messages`."""

    messages: int
    shown: int
    seconds: float


class ArchiveTiming(Struct, frozen=True):
    """An archive in SQLite: seconds to write all entries, to index them, and for the median and the slowest search."""

    entries: int
    write: float
    index: float
    search: float
    slowest: float
    bytes: int


class WaitTiming(Struct, frozen=True):
    """How long the calls of an agent waited for Tenfold: those with a compaction, and the `other` ones.

    `summary` says who wrote the summary and when. `unable` says why the times are unknown.
    """

    summary: str
    calls: int = 0
    compactions: int = 0
    median: float = 0.0
    most: float = 0.0
    other: float = 0.0
    unable: str = ""


class Speed(Struct, frozen=True):
    """The result of `tenfold eval speed`, from which everything shown of it is drawn."""

    version: str
    counter: str
    turns: tuple[TurnTiming, ...] = ()
    packed: tuple[CompactionTiming, ...] = ()
    opened: tuple[OpeningTiming, ...] = ()
    archived: tuple[ArchiveTiming, ...] = ()
    resident: tuple[MemoryUse, ...] = ()
    blocked: tuple[WaitTiming, ...] = ()


class TimedPeer(Protocol):
    """A peer whose hook before a model call can be timed."""

    @property
    def name(self) -> str:
        """The name in tables."""
        ...

    def time_turns(
        self, past: Sequence[ChatMessage], steps: Sequence[Sequence[ChatMessage]], *, limit: float
    ) -> list[float]:
        """Returns the seconds of each turn after a first that warms up. Raises `UnableError`."""
        ...


Step = TypeVar("Step")
Measurement = TurnTiming | CompactionTiming | OpeningTiming | ArchiveTiming | MemoryUse | WaitTiming
MeasurementTask = tuple[str, Callable[[], list[Measurement]]]
"""A part of the measurement: its name, and the function that makes it."""


def build_tasks(
    sessions: Sequence[EvalSession],
    *,
    peers: Sequence[TimedPeer] = (),
    lengths: Sequence[int] = LENGTHS,
    has_full_archive: bool = False,
    has_waits: bool = True,
) -> list[MeasurementTask]:
    """Returns all measurements on these sessions at these lengths, to be run one by one and joined by `collect_speed`.

    `has_waits` False leaves out the runs of an agent. Raises `UsageError` if no session holds an answer of its model.
    """
    material = LongHistory(sessions)
    near = [n for n in lengths if n <= COMPARISON_LENGTH]
    out: list[MeasurementTask] = [(f"turns at {n:,}", partial(time_turns, material, n)) for n in lengths]
    out += [(f"{p.name} at {n:,}", partial(time_peer, p, material, n)) for p in peers for n in near]
    out += [(f"compaction of {n:,}", partial(time_compaction, material, n)) for n in near]
    out += [(f"opening {n:,}", partial(time_opening, material, n)) for n in lengths]
    out += [
        (f"archive of {n:,}", partial(time_archive, material, n))
        for n in (*lengths, *([FULL_ARCHIVE] if has_full_archive else []))
    ]
    out += [(f"memory at {n:,}", partial(measure_memory, material, n)) for n in near]
    out += [(f"what calls wait: {name}", partial(time_calls, material, name)) for name in SUMMARY_WAYS if has_waits]
    return out


def collect_speed(measurements: Sequence[Measurement]) -> Speed:
    """Joins the measurements into one value."""
    return Speed(
        __version__,
        get_counter().name,
        tuple(m for m in measurements if isinstance(m, TurnTiming)),
        tuple(m for m in measurements if isinstance(m, CompactionTiming)),
        tuple(m for m in measurements if isinstance(m, OpeningTiming)),
        tuple(m for m in measurements if isinstance(m, ArchiveTiming)),
        tuple(m for m in measurements if isinstance(m, MemoryUse)),
        tuple(m for m in measurements if isinstance(m, WaitTiming)),
    )


# -- a turn ------------------------------------------------------------------------------------------------------------


def count_turns(messages: int) -> int:
    """Returns how many turns are timed at a length: few enough that the history stays about as long as stated."""
    least, most = TURN_LIMITS
    return min(most, max(least, messages // 100))


def time_turns(history: LongHistory, messages: int) -> list[Measurement]:
    """Times each way in which a host can give a turn to a session: what is new, its whole list, its whole request."""
    past, steps = history.build_history(messages, turns=count_turns(messages) + 1)
    known, new = decode_messages(past), [decode_messages(step) for step in steps]
    out: list[Measurement] = []
    with tempfile.TemporaryDirectory() as folder:
        for method, store in (
            ("tenfold", SqliteStore(":memory:")),
            ("tenfold, SQLite", SqliteStore(Path(folder) / "s.db")),
        ):
            with closing(store):
                durations = _time_steps(_build_append_turn(_fill_session(store, known)), new)
            out.append(_summarize_turns(method, "append", messages, durations))
    durations = _time_steps(_build_sync_turn(_fill_session(SqliteStore(":memory:"), known), known), new)
    out.append(_summarize_turns("tenfold", "sync", messages, durations))
    durations = _time_steps(_build_request_turn(_fill_session(SqliteStore(":memory:"), known), past), steps)
    out.append(_summarize_turns("tenfold", "request", messages, durations))
    return out


def time_peer(peer: TimedPeer, history: LongHistory, messages: int) -> list[Measurement]:
    """Times a peer's own hook before a model call, with its window or limit out of reach."""
    past, steps = history.build_history(messages, turns=count_turns(messages) + 1)
    try:
        return [_summarize_turns(peer.name, "hook", messages, peer.time_turns(past, steps, limit=MAX_SECONDS))]
    except UnableError as reason:
        return [TurnTiming(peer.name, "hook", messages, unable=str(reason))]


def _summarize_turns(method: str, way: str, messages: int, durations: Sequence[float]) -> TurnTiming:
    return TurnTiming(method, way, messages, statistics.median(durations), max(durations), len(durations))


def _time_steps(turn: Callable[[Step], object], steps: Sequence[Step]) -> list[float]:
    """Returns the seconds of each turn after the first, until `MAX_SECONDS` of them are used."""
    durations: list[float] = []
    for step in steps:
        start = time.perf_counter()
        turn(step)
        durations.append(time.perf_counter() - start)
        if sum(durations) > MAX_SECONDS:
            break
    return durations[1:] or durations


def create_session(store: Store) -> Session:
    """Creates an empty session with the default policy and the yardstick's counter."""
    return Session.create(SessionAddress(store, "speed"), get_preset("tenfold")(get_counter()))


def _fill_session(store: Store, messages: Sequence[Message]) -> Session:
    filled = create_session(store)
    for start in range(0, len(messages), BATCH_SIZE):
        filled.append(*messages[start : start + BATCH_SIZE])
    filled.take_reading(window=UNREACHED_WINDOW)
    return filled


def _build_append_turn(session: Session) -> Callable[[list[Message]], None]:
    def run_turn(new: list[Message]) -> None:
        session.append(*new)
        _check_idle(session)

    return run_turn


def _build_sync_turn(session: Session, messages: Sequence[Message]) -> Callable[[list[Message]], None]:
    whole = list(messages)

    def run_turn(new: list[Message]) -> None:
        whole.extend(new)
        session.sync(whole)
        _check_idle(session)

    return run_turn


def _build_request_turn(session: Session, past: Sequence[ChatMessage]) -> Callable[[list[ChatMessage]], None]:
    whole = list(past)

    def run_turn(new: list[ChatMessage]) -> None:
        whole.extend(new)
        sent = session.before_model({"model": MODEL, "messages": whole}, window=UNREACHED_WINDOW)
        assert len(sent["messages"]) == len(whole)

    return run_turn


def _check_idle(session: Session) -> None:
    outcome = session.compact(window=UNREACHED_WINDOW)
    assert outcome.status == "nothing", outcome


# -- a compaction, an opening, memory ----------------------------------------------------------------------------------


def time_compaction(history: LongHistory, messages: int) -> list[Measurement]:
    """Times the compaction to a tenth of a history in memory whose tokens are already counted."""
    filled = _fill_session(SqliteStore(":memory:"), decode_messages(history.build_history(messages)[0]))
    before = filled.conversation.count_uncompacted()
    start = time.perf_counter()
    outcome = filled.compact(to=max(1, before // 10))
    return [CompactionTiming(messages, before, outcome.tokens_after, time.perf_counter() - start)]


def time_opening(history: LongHistory, messages: int) -> list[Measurement]:
    """Times the opening of a stored session with a short view: a new connection, a new session, reading its view."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.db"
        shown = _store_history(path, history, messages)
        durations: list[float] = []
        for _ in range(OPENING_COUNT):
            start = time.perf_counter()
            with closing(SqliteStore(path)) as store:
                Session(SessionAddress(store, "speed"), get_preset("tenfold")(get_counter())).view.get_messages()
                durations.append(time.perf_counter() - start)
    return [OpeningTiming(messages, shown, statistics.median(durations))]


def _store_history(path: Path, history: LongHistory, messages: int) -> int:
    """Stores a history, compacting it as it grows. Returns how many messages its view shows."""
    known = decode_messages(history.build_history(messages)[0])
    step = max(250, messages // 40)
    with closing(SqliteStore(path)) as store:
        stored = create_session(store)
        for start in range(0, len(known), step):
            stored.append(*known[start : start + step])
            stored.compact(to=STORED_VIEW_TOKENS)
        return len(stored.view.get_messages())


def measure_memory(history: LongHistory, messages: int) -> list[Measurement]:
    """Measures the memory of a fresh process that holds a history, and of one that opens it stored and compacted."""
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder) / "lines.jsonl"
        lines.write_bytes(b"\n".join(msgspec.json.encode(m) for m in history.build_history(messages)[0]))
        _store_history(Path(folder) / "s.db", history, messages)
        return [
            measure_in_child("held", messages, str(lines)),
            measure_in_child("opened", messages, str(Path(folder) / "s.db"), "speed"),
        ]


# -- the archive -------------------------------------------------------------------------------------------------------


def time_archive(history: LongHistory, entries: int) -> list[Measurement]:
    """Times writing, indexing and searching an archive of this many stretches of the sessions' text."""
    rng = random.Random(_SEED)  # noqa: S311 - the same entries every time
    text = history.get_text()
    numbers = sorted(rng.sample(range(entries), min(QUERY_COUNT, entries)))
    queries: list[str] = []
    with tempfile.TemporaryDirectory() as folder, closing(SqliteStore(Path(folder) / "a.db")) as store:
        write = 0.0
        for first in range(0, entries, BATCH_SIZE):
            batch = [_draw_entry(rng, text, first + i) for i in range(min(BATCH_SIZE, entries - first))]
            queries += [_draw_query(rng, batch[n - first]) for n in numbers if first <= n < first + len(batch)]
            start = time.perf_counter()
            batch_session = Session.create(SessionAddress(store, f"s{first}"), get_preset("tenfold")(get_counter()))
            batch_session.append(*(Message("user", (Text(each),), "human") for each in batch))
            write += time.perf_counter() - start
        start = time.perf_counter()
        while store.index():
            pass
        index = time.perf_counter() - start
        durations: list[float] = []
        for query in queries:
            start = time.perf_counter()
            store.search(DEFAULT_NAMESPACE, query, limit=10)
            durations.append(time.perf_counter() - start)
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
    return [ArchiveTiming(entries, write, index, statistics.median(durations), max(durations), size)]


def _draw_entry(rng: random.Random, text: str, number: int) -> str:
    start = rng.randrange(max(1, len(text) - ENTRY_LENGTH))
    return f"{number} {text[start : start + ENTRY_LENGTH]}"[:ENTRY_LENGTH]


def _draw_query(rng: random.Random, entry: str) -> str:
    words = sorted(set(_WORD.findall(entry)))
    return " ".join(rng.sample(words, min(3, len(words)))) or entry[:20]


# -- what calls wait ---------------------------------------------------------------------------------------------------

SUMMARY_WAYS = {
    "while the call waits": (True, False),
    "in the background": (True, True),
    "by code alone": (False, False),
}
"""Who writes a summary, and when: whether a model does, and whether it is prepared before it is due."""


def time_calls(history: LongHistory, summary: str) -> list[Measurement]:
    """Times the calls of an agent with scripted models, in a run in which compactions become due."""
    if find_spec("pydantic_ai") is None:
        return [WaitTiming(summary, unable="the agent runs on pydantic-ai: pip install 'tenfold[models]'")]
    from tenfold_yardstick.waits import TimedRun, make_summarizer, measure_waits  # noqa: PLC0415 - an optional extra

    writes, background = SUMMARY_WAYS[summary]
    run = TimedRun()
    summarizer = make_summarizer(run) if writes else None
    return [summarize_waits(summary, measure_waits(history.get_text(), run, summarizer, is_prepared=background))]


def summarize_waits(summary: str, waits: Sequence[tuple[float, bool]]) -> WaitTiming:
    """Returns the waits of a run's calls as one value."""
    full = [seconds for seconds, compacted in waits if compacted]
    other = [seconds for seconds, compacted in waits if not compacted]
    if not full:
        return WaitTiming(summary, len(waits), unable="no compaction fell due in this run")
    middle = statistics.median(other) if other else 0.0
    return WaitTiming(summary, len(waits), len(full), statistics.median(full), max(full), middle)
