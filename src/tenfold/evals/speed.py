"""What Tenfold costs beside the model: a turn, a compaction, an opening, the archive, memory, and what calls wait.

Every measure is taken on the sessions named, repeated until they are long enough. A turn is held against what other
projects' own hooks take in it (`peers.py`). Times are this machine's, in seconds.
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
"""Messages of the histories that are measured, and entries of the archives."""
MIDDLE = 10_000
"""Peers, compactions and memory are measured up to this length: the slowest peer takes seconds a turn there."""
FULL = 1_000_000
"""Entries of the largest archive, on request alone: its index takes gigabytes and minutes."""
TURNS = (20, 100)
"""The fewest and the most turns that a median is taken of, after one that warms up; between them one in a hundred."""
LIMIT = 20.0
"""Seconds that the turns of one method at one length may take together; at least one is made."""
BEYOND = 2_000_000_000
"""Tokens of a window that no history fills, so that nothing is to be compacted."""
ENTRY = 1_000
"""Characters of an archive's entry."""
QUERIES = 20
"""Searches in an archive, each for three words of one of its entries."""
BATCH = 5_000
"""Messages appended at once, and entries of one session of an archive."""
SHOWN = 80_000
"""Tokens that a stored history is compacted to, each time it grew by a fortieth, before it is opened."""
OPENINGS = 11
"""Openings that a median is taken of."""
_SEED = 7
_WORD = re.compile(r"[A-Za-z]{5,20}")


class Turned(Struct, frozen=True):
    """What a turn costs at a length of history when nothing is to be compacted. `unable` says why it is not known.

    `way` is how the host gives its history: "append" what is new, "sync" or "request" the whole list; "hook" is a
    peer's own. `seconds` is the median, `slowest` the longest of `turns` turns.
    """

    method: str
    way: str
    messages: int
    seconds: float = 0.0
    slowest: float = 0.0
    turns: int = 0
    unable: str = ""


class Packed(Struct, frozen=True):
    """A compaction to a tenth, by code alone, of a history held in memory: from and to how many tokens, how long."""

    messages: int
    before: int
    after: int
    seconds: float


class Opened(Struct, frozen=True):
    """A stored session of `messages`, `shown` of them in view, whose store is opened anew and its view read."""

    messages: int
    shown: int
    seconds: float


class Archived(Struct, frozen=True):
    """An archive in SQLite: seconds to write all entries and to index them, of the median and the slowest search."""

    entries: int
    write: float
    index: float
    search: float
    slowest: float
    bytes: int


class Blocked(Struct, frozen=True):
    """What the calls of an agent's run waited for Tenfold: those that were compacted for, and the `other` ones.

    `summary` says who wrote it and when; `unable` why that is not known.
    """

    summary: str
    calls: int = 0
    compactions: int = 0
    median: float = 0.0
    most: float = 0.0
    other: float = 0.0
    unable: str = ""


class Speed(Struct, frozen=True):
    """The result of `tenfold eval speed`: everything shown of it is drawn from this."""

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
        """What tables call it."""
        ...

    def turns(
        self, past: Sequence[ChatMessage], steps: Sequence[Sequence[ChatMessage]], *, limit: float
    ) -> list[float]:
        """Seconds of each turn after a first that warms up. Raises `Unable`."""
        ...


Step = TypeVar("Step")
Measured = Turned | Packed | Opened | Archived | Resident | Blocked
Part = tuple[str, Callable[[], list[Measured]]]
"""A part of the measurement: its name, and what makes it."""


def parts(
    found: Sequence[Conversation],
    *,
    peers: Sequence[Hooked] = (),
    lengths: Sequence[int] = LENGTHS,
    full: bool = False,
    waits: bool = True,
) -> list[Part]:
    """Every measure on these sessions at these lengths, to be made one by one, and put together by `put`.

    Without `waits` no agent is run. Raises `UsageError` where no session holds an answer of its model.
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
    """What was measured, in one value."""
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
    """How many turns are timed at a length: few enough that the history stays about as long as is said."""
    least, most = TURNS
    return min(most, max(least, messages // 100))


def turns(material: Material, messages: int) -> list[Measured]:
    """Each way in which a host can give a turn to a session: what is new, its whole list, its whole request."""
    past, steps = material.history(messages, turns=turns_at(messages) + 1)
    known, new = decoded(past), [decoded(step) for step in steps]
    out: list[Measured] = []
    with tempfile.TemporaryDirectory() as folder:
        for method, store in (("tenfold", MemoryStore()), ("tenfold, SQLite", SqliteStore(Path(folder) / "s.db"))):
            with closing(store):
                took = _timed(_appending(_filled(store, known)), new)
            out.append(_turned(method, "append", messages, took))
    took = _timed(_syncing(_filled(MemoryStore(), known), known), new)
    out.append(_turned("tenfold", "sync", messages, took))
    took = _timed(_requesting(_filled(MemoryStore(), known), past), steps)
    out.append(_turned("tenfold", "request", messages, took))
    return out


def hooked(peer: Hooked, material: Material, messages: int) -> list[Measured]:
    """A peer's own hook before a model call, with its window or limit out of reach."""
    past, steps = material.history(messages, turns=turns_at(messages) + 1)
    try:
        return [_turned(peer.name, "hook", messages, peer.turns(past, steps, limit=LIMIT))]
    except Unable as reason:
        return [Turned(peer.name, "hook", messages, unable=str(reason))]


def _turned(method: str, way: str, messages: int, took: Sequence[float]) -> Turned:
    return Turned(method, way, messages, statistics.median(took), max(took), len(took))


def _timed(turn: Callable[[Step], object], steps: Sequence[Step]) -> list[float]:
    """Seconds of each turn after the first, until `LIMIT` of them are used up."""
    took: list[float] = []
    for step in steps:
        start = time.perf_counter()
        turn(step)
        took.append(time.perf_counter() - start)
        if sum(took) > LIMIT:
            break
    return took[1:] or took


def session(store: Store) -> Session:
    """An empty session with the default policy and the yardstick's counter."""
    return Session.create(Place(store, "speed"), policy_named("tenfold")(counter()))


def _filled(store: Store, known: Sequence[Message]) -> Session:
    made = session(store)
    for start in range(0, len(known), BATCH):
        made.append(*known[start : start + BATCH])
    made.reading(window=BEYOND)
    return made


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
    """A history in memory, counted already, taken to a tenth."""
    made = _filled(MemoryStore(), decoded(material.history(messages)[0]))
    before = made.uncompacted()
    start = time.perf_counter()
    outcome = made.compact(to=max(1, before // 10))
    return [Packed(messages, before, outcome.tokens_after, time.perf_counter() - start)]


def opening(material: Material, messages: int) -> list[Measured]:
    """A stored session with a short view, opened: a new connection, a new session, its view read."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.db"
        shown = _stored(path, material, messages)
        took: list[float] = []
        for _ in range(OPENINGS):
            start = time.perf_counter()
            with closing(SqliteStore(path)) as store:
                Session(Place(store, "speed"), policy_named("tenfold")(counter())).view.messages()
                took.append(time.perf_counter() - start)
    return [Opened(messages, shown, statistics.median(took))]


def _stored(path: Path, material: Material, messages: int) -> int:
    """Stores a history that was compacted as it grew; how many messages its view shows."""
    known = decoded(material.history(messages)[0])
    step = max(250, messages // 40)
    with closing(SqliteStore(path)) as store:
        made = session(store)
        for start in range(0, len(known), step):
            made.append(*known[start : start + step])
            made.compact(to=SHOWN)
        return len(made.view.messages())


def resident(material: Material, messages: int) -> list[Measured]:
    """What a fresh process takes that holds a whole history, and one that opens it stored and compacted."""
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder) / "lines.jsonl"
        lines.write_bytes(b"\n".join(msgspec.json.encode(m) for m in material.history(messages)[0]))
        _stored(Path(folder) / "s.db", material, messages)
        return [child("held", messages, str(lines)), child("opened", messages, str(Path(folder) / "s.db"), "speed")]


# -- the archive -------------------------------------------------------------------------------------------------------


def archive(material: Material, entries: int) -> list[Measured]:
    """So many stretches of the sessions' text in one store, written, indexed and searched."""
    rng = random.Random(_SEED)  # noqa: S311 - the same entries every time
    text = material.text()
    wanted = sorted(rng.sample(range(entries), min(QUERIES, entries)))
    queries: list[str] = []
    with tempfile.TemporaryDirectory() as folder, closing(SqliteStore(Path(folder) / "a.db")) as store:
        write = 0.0
        for first in range(0, entries, BATCH):
            batch = [_entry(rng, text, first + i) for i in range(min(BATCH, entries - first))]
            queries += [_query(rng, batch[n - first]) for n in wanted if first <= n < first + len(batch)]
            start = time.perf_counter()
            made = Session.create(Place(store, f"s{first}"), policy_named("tenfold")(counter()))
            made.append(*(Message("user", (Text(each),), "human") for each in batch))
            write += time.perf_counter() - start
        start = time.perf_counter()
        while store.index():
            pass
        index = time.perf_counter() - start
        took: list[float] = []
        for query in queries:
            start = time.perf_counter()
            store.search(DEFAULT_NAMESPACE, query, limit=10)
            took.append(time.perf_counter() - start)
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
    return [Archived(entries, write, index, statistics.median(took), max(took), size)]


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
    """An agent's run with scripted models, in which compactions fall due."""
    if find_spec("pydantic_ai") is None:
        return [Blocked(summary, unable="the agent runs on pydantic-ai: pip install 'tenfold[models]'")]
    from tenfold.evals.waiting import Run, waits  # noqa: PLC0415 - an optional extra

    writes, background = SUMMARIES[summary]
    return [told(summary, waits(material.text(), Run(), writes=writes, background=background))]


def told(summary: str, waited: Sequence[tuple[float, bool]]) -> Blocked:
    """The waits of a run's calls as one value."""
    full = [seconds for seconds, compacted in waited if compacted]
    other = [seconds for seconds, compacted in waited if not compacted]
    if not full:
        return Blocked(summary, len(waited), unable="no compaction fell due in this run")
    middle = statistics.median(other) if other else 0.0
    return Blocked(summary, len(waited), len(full), statistics.median(full), max(full), middle)
