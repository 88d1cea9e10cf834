"""The recorded sessions as single paths, where to cut them, and the same sessions with Blocks put in on the way."""

from __future__ import annotations

from msgspec.structs import replace

from tenfold.core.record.block import Block
from tenfold.core.record.entry import Entry
from tenfold.core.view.fold import View
from tenfold.core.view.path import Path
from tenfold.formats import ParsedSession
from tests.laws import conversations, oracle, strategies
from tests.laws.compactions import Desk, build_tenth_call
from tests.laws.strategies import Log

SMALL = 40
SPREAD = 10
EVERY = 9
LIVED = 10
_COMPACTED: dict[int, Log] = {}
_LIVED: dict[int, Log] = {}


def get_path(session: ParsedSession) -> Log:
    """The entries from the root to the last one, by parent ids."""
    by_id = {entry.id: entry for entry in session.entries}
    out: list[Entry] = []
    entry = session.entries[-1] if session.entries else None
    while entry is not None:
        out.append(entry)
        entry = by_id.get(entry.parent) if entry.parent is not None else None
    return tuple(reversed(out))


def choose_cuts(log: Log, *, most: int = SPREAD) -> list[int]:
    """Lengths to cut at: every one for a short log; for a long one a spread, shifted so as to fall inside steps too."""
    if len(log) <= SMALL:
        return list(range(len(log) + 1))
    step = len(log) / most
    spread = {int(i * step) + i % 4 for i in range(most)}
    steps = [g for g in oracle.find_groups(log) if g[1] - g[0] > 1][:: max(1, len(log) // 40)][:4]
    inside = {n for first, last, _ in steps for n in (first + 1, last, last + 1)}
    return sorted(n for n in spread | inside | {len(log)} if n <= len(log))


def build_path_with_blocks(session: ParsedSession) -> Log:
    """The session's path with Blocks of all kinds, nested ones, undos and refused ones appended while it went on.

    Kept for the whole test run: sessions are read once and live as long.
    """
    if id(session) not in _COMPACTED:
        log = get_path(session)
        out: Log = ()
        every = max(EVERY, len(log) // 12)
        kinds = ("block", "several", "nest", "undo", "clip", "wrong", "block", "nest", "overlap", "misundo")
        for number, start in enumerate(range(0, len(log), every)):
            grown = (*out, *log[start : start + every])
            out = strategies.play([(kinds[number % len(kinds)], number, 1 + number % 3, 1 + number % 6)], grown)
        _COMPACTED[id(session)] = out
    return _COMPACTED[id(session)]


def build_compacted_path(session: ParsedSession) -> Log:
    """The session's path as a long one goes on: compacted to a tenth by the engine whenever `LIVED` units are in view.

    Kept for the whole test run.
    """
    if id(session) not in _LIVED:
        desk = replace(Desk.from_log((), conversations.make_policy()), series="1111")
        path = Path(())
        view = View.build_empty(path)
        out: list[Entry] = []
        for entry in get_path(session):
            view = _extend_view(view, out, entry)
            if view.open_step is None and len(view.units) > LIVED:
                block = desk.get_result(view, build_tenth_call(conversations.count_tokens(view.get_messages()))).entry
                view = _extend_view(view, out, block) if isinstance(block, Block) else view
        _LIVED[id(session)] = tuple(out)
    return _LIVED[id(session)]


def _extend_view(view: View, out: list[Entry], entry: Entry) -> View:
    entry = replace(entry, parent=out[-1].id if out else None)
    out.append(entry)
    view.path.append(entry)
    return view.extend([entry])
