"""The recorded sessions as single paths, where to cut them, and the same sessions with Blocks put in on the way."""

from __future__ import annotations

from functools import cache

from msgspec import Struct
from tests.sessions import recorded as read_all

from tenfold.record.entry import Entry
from tests.laws import oracle, strategies
from tests.laws.strategies import Log

SMALL = 40
SPREAD = 10
LATER = 12
EVERY = 9


class Session(Struct, frozen=True):
    """One path of a recorded session: from the root to its last entry."""

    name: str
    log: Log


@cache
def sessions() -> list[Session]:
    """Every recorded session that holds anything, as the path to its last leaf."""
    out: list[Session] = []
    for number, found in enumerate(read_all()):
        log = last_path(found.entries)
        if log:
            out.append(Session(f"{number:03d}-{found.info.format}-{len(log)}", log))
    return out


def name(session: Session) -> str:
    """The id of a test case: never anything that the session says."""
    return session.name


def last_path(entries: tuple[Entry, ...]) -> Log:
    """The entries from the root to the last one, by parent ids."""
    by_id = {entry.id: entry for entry in entries}
    out: list[Entry] = []
    entry = entries[-1] if entries else None
    while entry is not None:
        out.append(entry)
        entry = by_id.get(entry.parent) if entry.parent is not None else None
    return tuple(reversed(out))


def cuts(log: Log, *, most: int = SPREAD) -> list[int]:
    """Lengths to cut at: every one for a short log; for a long one a spread, shifted so as to fall inside steps too."""
    if len(log) <= SMALL:
        return list(range(len(log) + 1))
    step = len(log) / most
    spread = {int(i * step) + i % 4 for i in range(most)}
    steps = [g for g in oracle.groups(log) if g[1] - g[0] > 1][:: max(1, len(log) // 40)][:4]
    inside = {n for first, last, _ in steps for n in (first + 1, last, last + 1)}
    return sorted(n for n in spread | inside | {len(log)} if n <= len(log))


_COMPACTED: dict[str, Log] = {}


def compacted(session: Session) -> Log:
    """The session with Blocks of all kinds, nested ones, undos and refused ones appended while it went on."""
    if session.name not in _COMPACTED:
        out: Log = ()
        every = max(EVERY, len(session.log) // 12)
        kinds = ("block", "several", "nest", "undo", "clip", "wrong", "block", "nest", "overlap", "misundo")
        for number, start in enumerate(range(0, len(session.log), every)):
            grown = (*out, *session.log[start : start + every])
            out = strategies.play([(kinds[number % len(kinds)], number, 1 + number % 3, 1 + number % 6)], grown)
        _COMPACTED[session.name] = out
    return _COMPACTED[session.name]
