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
from tenfold.evals.cases import MODEL, ChatMessage, Conversation, counter
from tenfold.evals.material import Material, decoded
from tenfold.evals.methods import Unable
from tenfold.evals.resident import Resident, child
from tenfold.log.base import DEFAULT_NAMESPACE, Store
from tenfold.log.memory import MemoryStore
from tenfold.log.sqlite import SqliteStore
from tenfold.policies import policy_named
from tenfold.record.message import Message, Text
from tenfold.session import Place, Session

LENGTHS = (100, 1_000, 10_000, 100_000)
"""How many messages the measured histories have, and how many entries the archives."""
MIDDLE = 10_000
"""The length up to which peers, compactions and memory are measured. The slowest peer takes seconds per turn there."""
FULL = 1_000_000
"""The entries of the largest archive, measured on request only: its index takes gigabytes and minutes."""
TURNS = (20, 100)
"""The fewest and the most turns for a median, after one warm-up turn.

In between it is one for each hundred messages.
"""
LIMIT = 20.0
"""How many seconds the turns of one method at one length may take together. At least one turn is made."""
BEYOND = 2_000_000_000
"""A window in tokens that no history fills, so that nothing has to be compacted."""
ENTRY = 1_000
"""The characters of an entry of an archive."""
QUERIES = 20
"""How many searches are made in an archive, each for three words of one of its entries."""
BATCH = 5_000
"""How many messages are appended at once, and how many entries one session of an archive has."""
SHOWN = 80_000
"""The tokens that a stored history is compacted to, whenever it has grown by a fortieth, before it is opened."""
OPENINGS = 11
"""How many openings the median is taken of."""
_SEED = 7
_WORD = re.compile(r"[A-Za-z]{5,20}")


class Turned(Struct, frozen=True):
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


class Packed(Struct, frozen=True):
    """A compaction to a tenth, by code alone, of a history in memory: the tokens before and after, and the time."""

    messages: int
    before: int
    after: int
    seconds: float


class Opened(Struct, frozen=True):
    """The time to open the store of a session and read its view, which shows `shown` of its `messages`."""

    messages: int
    shown: int
    seconds: float


class Archived(Struct, frozen=True):
    """An archive in SQLite: seconds to write all entries, to index them, and for the median and the slowest search."""

    entries: int
    write: float
    index: float
    search: float
    slowest: float
    bytes: int


class Blocked(Struct, frozen=True):
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
    turns: tuple[Turned, ...] = ()
    packed: tuple[Packed, ...] = ()
    opened: tuple[Opened, ...] = ()
    archived: tuple[Archived, ...] = ()
    resident: tuple[Resident, ...] = ()
    blocked: tuple[Blocked, ...] = ()


class Hooked(Protocol):
    """A peer whose hook before a model call can be timed."""

    @property
    def name(self) -> str:
        """The name in tables."""
        ...

    def turns(
        self, past: Sequence[ChatMessage], steps: Sequence[Sequence[ChatMessage]], *, limit: float
    ) -> list[float]:
        """Returns the seconds of each turn after a first that warms up. Raises `UnableError`."""
        ...


Step = TypeVar("Step")
Measured = Turned | Packed | Opened | Archived | Resident | Blocked
Part = tuple[str, Callable[[], list[Measured]]]
"""A part of the measurement: its name, and the function that makes it."""


def parts(
    found: Sequence[Conversation],
    *,
    peers: Sequence[Hooked] = (),
    lengths: Sequence[int] = LENGTHS,
    full: bool = False,
    waits: bool = True,
) -> list[Part]:
    """Returns all measurements on these sessions at these lengths, to be run one by one and joined by `collect_speed`.

    `has_waits` False leaves out the runs of an agent. Raises `UsageError` if no session holds an answer of its model.
    """
    material = Material(found)
    near = [n for n in lengths if n <= MIDDLE]
    out: list[Part] = [(f"turns at {n:,}", partial(turns, material, n)) for n in lengths]
    out += [(f"{p.name} at {n:,}", partial(hooked, p, material, n)) for p in peers for n in near]
    out += [(f"compaction of {n:,}", partial(packed, material, n)) for n in near]
    out += [(f"opening {n:,}", partial(opening, material, n)) for n in lengths]
    out += [(f"archive of {n:,}", partial(archive, material, n)) for n in (*lengths, *([FULL] if full else []))]
    out += [(f"memory at {n:,}", partial(resident, material, n)) for n in near]
    out += [(f"what calls wait: {name}", partial(blocked, material, name)) for name in SUMMARIES if waits]
    return out


def put(measured: Sequence[Measured]) -> Speed:
    """Joins the measurements into one value."""
    return Speed(
        __version__,
        counter().name,
        tuple(m for m in measured if isinstance(m, Turned)),
        tuple(m for m in measured if isinstance(m, Packed)),
        tuple(m for m in measured if isinstance(m, Opened)),
        tuple(m for m in measured if isinstance(m, Archived)),
        tuple(m for m in measured if isinstance(m, Resident)),
        tuple(m for m in measured if isinstance(m, Blocked)),
    )


# -- a turn ------------------------------------------------------------------------------------------------------------


def turns_at(messages: int) -> int:
    """Returns how many turns are timed at a length: few enough that the history stays about as long as stated."""
    least, most = TURNS
    return min(most, max(least, messages // 100))


def turns(material: Material, messages: int) -> list[Measured]:
    """Times each way in which a host can give a turn to a session: what is new, its whole list, its whole request."""
    past, steps = material.history(messages, turns=turns_at(messages) + 1)
    known, new = decoded(past), [decoded(step) for step in steps]
    out: list[Measured] = []
    with tempfile.TemporaryDirectory() as folder:
        for method, store in (("tenfold", MemoryStore()), ("tenfold, SQLite", SqliteStore(Path(folder) / "s.db"))):
            with closing(store):
                durations = _timed(_appending(_filled(store, known)), new)
            out.append(_turned(method, "append", messages, durations))
    durations = _timed(_syncing(_filled(MemoryStore(), known), known), new)
    out.append(_turned("tenfold", "sync", messages, durations))
    durations = _timed(_requesting(_filled(MemoryStore(), known), past), steps)
    out.append(_turned("tenfold", "request", messages, durations))
    return out


def hooked(peer: Hooked, material: Material, messages: int) -> list[Measured]:
    """Times a peer's own hook before a model call, with its window or limit out of reach."""
    past, steps = material.history(messages, turns=turns_at(messages) + 1)
    try:
        return [_turned(peer.name, "hook", messages, peer.turns(past, steps, limit=LIMIT))]
    except Unable as reason:
        return [Turned(peer.name, "hook", messages, unable=str(reason))]


def _turned(method: str, way: str, messages: int, took: Sequence[float]) -> Turned:
    return Turned(method, way, messages, statistics.median(took), max(took), len(took))


def _timed(turn: Callable[[Step], object], steps: Sequence[Step]) -> list[float]:
    """Returns the seconds of each turn after the first, until `MAX_SECONDS` of them are used."""
    durations: list[float] = []
    for step in steps:
        start = time.perf_counter()
        turn(step)
        durations.append(time.perf_counter() - start)
        if sum(durations) > LIMIT:
            break
    return durations[1:] or durations


def session(store: Store) -> Session:
    """Creates an empty session with the default policy and the yardstick's counter."""
    return Session.create(Place(store, "speed"), policy_named("tenfold")(counter()))


def _filled(store: Store, known: Sequence[Message]) -> Session:
    filled = session(store)
    for start in range(0, len(known), BATCH):
        filled.append(*known[start : start + BATCH])
    filled.reading(window=BEYOND)
    return filled


def _appending(made: Session) -> Callable[[list[Message]], None]:
    def turn(new: list[Message]) -> None:
        made.append(*new)
        _idle(made)

    return turn


def _syncing(made: Session, known: Sequence[Message]) -> Callable[[list[Message]], None]:
    whole = list(known)

    def turn(new: list[Message]) -> None:
        whole.extend(new)
        made.sync(whole)
        _idle(made)

    return turn


def _requesting(made: Session, past: Sequence[ChatMessage]) -> Callable[[list[ChatMessage]], None]:
    whole = list(past)

    def turn(new: list[ChatMessage]) -> None:
        whole.extend(new)
        sent = made.before_model({"model": MODEL, "messages": whole}, window=BEYOND)
        assert len(sent["messages"]) == len(whole)

    return turn


def _idle(made: Session) -> None:
    outcome = made.compact(window=BEYOND)
    assert outcome.status == "nothing", outcome


# -- a compaction, an opening, memory ----------------------------------------------------------------------------------


def packed(material: Material, messages: int) -> list[Measured]:
    """Times the compaction to a tenth of a history in memory whose tokens are already counted."""
    filled = _filled(MemoryStore(), decoded(material.history(messages)[0]))
    before = filled.uncompacted()
    start = time.perf_counter()
    outcome = filled.compact(to=max(1, before // 10))
    return [Packed(messages, before, outcome.tokens_after, time.perf_counter() - start)]


def opening(material: Material, messages: int) -> list[Measured]:
    """Times the opening of a stored session with a short view: a new connection, a new session, reading its view."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.db"
        shown = _stored(path, material, messages)
        durations: list[float] = []
        for _ in range(OPENINGS):
            start = time.perf_counter()
            with closing(SqliteStore(path)) as store:
                Session(Place(store, "speed"), policy_named("tenfold")(counter())).view.messages()
                durations.append(time.perf_counter() - start)
    return [Opened(messages, shown, statistics.median(durations))]


def _stored(path: Path, material: Material, messages: int) -> int:
    """Stores a history, compacting it as it grows. Returns how many messages its view shows."""
    known = decoded(material.history(messages)[0])
    step = max(250, messages // 40)
    with closing(SqliteStore(path)) as store:
        stored = session(store)
        for start in range(0, len(known), step):
            stored.append(*known[start : start + step])
            stored.compact(to=SHOWN)
        return len(stored.view.messages())


def resident(material: Material, messages: int) -> list[Measured]:
    """Measures the memory of a fresh process that holds a history, and of one that opens it stored and compacted."""
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder) / "lines.jsonl"
        lines.write_bytes(b"\n".join(msgspec.json.encode(m) for m in material.history(messages)[0]))
        _stored(Path(folder) / "s.db", material, messages)
        return [child("held", messages, str(lines)), child("opened", messages, str(Path(folder) / "s.db"), "speed")]


# -- the archive -------------------------------------------------------------------------------------------------------


def archive(material: Material, entries: int) -> list[Measured]:
    """Times writing, indexing and searching an archive of this many stretches of the sessions' text."""
    rng = random.Random(_SEED)  # noqa: S311 - the same entries every time
    text = material.text()
    numbers = sorted(rng.sample(range(entries), min(QUERIES, entries)))
    queries: list[str] = []
    with tempfile.TemporaryDirectory() as folder, closing(SqliteStore(Path(folder) / "a.db")) as store:
        write = 0.0
        for first in range(0, entries, BATCH):
            batch = [_entry(rng, text, first + i) for i in range(min(BATCH, entries - first))]
            queries += [_query(rng, batch[n - first]) for n in numbers if first <= n < first + len(batch)]
            start = time.perf_counter()
            batch_session = Session.create(Place(store, f"s{first}"), policy_named("tenfold")(counter()))
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
    return [Archived(entries, write, index, statistics.median(durations), max(durations), size)]


def _entry(rng: random.Random, text: str, number: int) -> str:
    start = rng.randrange(max(1, len(text) - ENTRY))
    return f"{number} {text[start : start + ENTRY]}"[:ENTRY]


def _query(rng: random.Random, entry: str) -> str:
    words = sorted(set(_WORD.findall(entry)))
    return " ".join(rng.sample(words, min(3, len(words)))) or entry[:20]


# -- what calls wait ---------------------------------------------------------------------------------------------------

SUMMARIES = {"while the call waits": (True, False), "in the background": (True, True), "by code alone": (False, False)}
"""Who writes a summary, and when: whether a model does, and whether it is prepared before it is due."""


def blocked(material: Material, summary: str) -> list[Measured]:
    """Times the calls of an agent with scripted models, in a run in which compactions become due."""
    if find_spec("pydantic_ai") is None:
        return [Blocked(summary, unable="the agent runs on pydantic-ai: pip install 'tenfold[models]'")]
    from tenfold.evals.waiting import Run, waits  # noqa: PLC0415 - an optional extra

    writes, background = SUMMARIES[summary]
    return [told(summary, waits(material.text(), Run(), writes=writes, background=background))]


def told(summary: str, waited: Sequence[tuple[float, bool]]) -> Blocked:
    """Returns the waits of a run's calls as one value."""
    full = [seconds for seconds, compacted in waited if compacted]
    other = [seconds for seconds, compacted in waited if not compacted]
    if not full:
        return Blocked(summary, len(waited), unable="no compaction fell due in this run")
    middle = statistics.median(other) if other else 0.0
    return Blocked(summary, len(waited), len(full), statistics.median(full), max(full), middle)
