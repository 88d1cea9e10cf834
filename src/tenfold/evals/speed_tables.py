"""Makes the tables of `tenfold eval speed` from its result alone."""

from __future__ import annotations

import statistics

from tenfold.evals.speed import MIDDLE, Speed, Turned
from tenfold.evals.tables import Table

_NONE = "-"


def tables(made: Speed) -> list[Table]:
    """Returns a table for each measure that was taken."""
    found = [per_turn(made), packed(made), opened(made), archived(made), resident(made), blocked(made)]
    return [table for table in found if table.rows]


def per_turn(made: Speed) -> Table:
    """Returns the cost of a turn by method and length, quickest first at the length where peers are compared."""
    lengths = sorted({t.messages for t in made.turns})
    at = compared_at(made)
    names = dict.fromkeys((t.method, t.way) for t in made.turns)
    found = {(t.method, t.way, t.messages): t for t in made.turns}

    def order(name: tuple[str, str]) -> tuple[bool, float]:
        one = found.get((*name, at))
        return (one is None or bool(one.unable), one.seconds if one else 0.0)

    rows: list[tuple[str, ...]] = [
        (*name, *(_time(found.get((*name, n))) for n in lengths)) for name in sorted(names, key=order)
    ]
    notes = [f"median of a turn in which nothing is to be compacted; the longest at {at:,}: {_longest(made, at)}"]
    ratios = against(made)
    if ratios:
        ratio_texts = ", ".join(f"{name} ({way}) {_times(ratio)} it" for (name, way), ratio in ratios.items())
        notes.append(f"median peer at {at:,}: {_amount(median_peer(made))}; {ratio_texts}")
    notes += [f"{t.method} cannot: {t.unable}" for t in made.turns if t.unable and t.messages == at]
    return Table("A turn", ("method", "way", *(f"{n:,}" for n in lengths)), rows, "; ".join(notes))


def compared_at(made: Speed) -> int:
    """Returns the length at which peers are compared: 10,000 messages, or the longest they were timed at."""
    lengths = {t.messages for t in made.turns if t.way == "hook"} or {t.messages for t in made.turns}
    return MIDDLE if MIDDLE in lengths else max(lengths, default=0)


def median_peer(made: Speed) -> float:
    """Returns the seconds of a turn of the median peer, of those that could be timed, or 0 if there is none."""
    at = compared_at(made)
    found = [t.seconds for t in made.turns if t.way == "hook" and t.messages == at and not t.unable]
    return statistics.median(found) if found else 0.0


def against(made: Speed) -> dict[tuple[str, str], float]:
    """Returns how many times less than the median peer's turn each of Tenfold's ways takes, if peers were timed."""
    middle, at = median_peer(made), compared_at(made)
    ours = [t for t in made.turns if t.way != "hook" and t.messages == at and t.seconds]
    return {(t.method, t.way): middle / t.seconds for t in ours} if middle else {}


def packed(made: Speed) -> Table:
    """Returns the compactions, each also scaled to 100,000 tokens."""
    rows: list[tuple[str, ...]] = [
        (
            f"{p.messages:,}",
            f"{p.before:,}",
            f"{p.after:,}",
            _amount(p.seconds),
            _amount(p.seconds / max(1, p.before) * 100_000),
        )
        for p in made.packed
    ]
    note = "to a tenth, by code alone, a history in memory whose sizes are known"
    return Table("A compaction", ("messages", "tokens", "after", "time", "per 100k tokens"), rows, note)


def opened(made: Speed) -> Table:
    """Returns the openings of stored sessions."""
    rows: list[tuple[str, ...]] = [(f"{o.messages:,}", f"{o.shown:,}", _amount(o.seconds)) for o in made.opened]
    note = "SQLite, a new connection each time; the file is in the system's cache"
    return Table("Opening a stored session", ("messages", "in view", "time"), rows, note)


def archived(made: Speed) -> Table:
    """Returns the archives by size."""
    rows: list[tuple[str, ...]] = [
        (
            f"{a.entries:,}",
            _amount(a.write / max(1, a.entries)),
            _amount(a.index / max(1, a.entries)),
            _amount(a.search),
            _amount(a.slowest),
            f"{a.bytes / 1_000_000:,.0f} MB",
        )
        for a in made.archived
    ]
    columns = ("entries", "write, each", "index, each", "search", "slowest search", "on disk")
    note = "SQLite, entries of 1,000 characters, the first ten hits for three words of an entry, over all sessions"
    return Table("The archive", columns, rows, note)


def resident(made: Speed) -> Table:
    """Returns the memory of fresh processes."""
    rows: list[tuple[str, ...]] = [
        (r.what, f"{r.messages:,}", *((r.unable, _NONE) if r.unable else (f"{r.megabytes:,} MB", f"{r.before:,} MB")))
        for r in made.resident
    ]
    note = (
        "most of a fresh process, and what of it before it had a session; held: the whole history in memory; opened: "
        "stored and compacted; what is held was counted, and the counter's vocabulary is in it; not known on Windows"
    )
    return Table("Memory", ("session", "messages", "most", "before"), rows, note)


def blocked(made: Speed) -> Table:
    """Returns how long calls wait."""
    rows: list[tuple[str, ...]] = [
        (
            b.summary,
            *(
                (b.unable, *[_NONE] * 4)
                if b.unable
                else (f"{b.calls}", f"{b.compactions}", _amount(b.median), _amount(b.most), _amount(b.other))
            ),
        )
        for b in made.blocked
    ]
    columns = ("summary", "calls", "compactions", "median", "most", "other calls")
    note = (
        "what an agent's calls wait for Tenfold where a compaction falls due, and where none does (median); scripted "
        "models: a call takes 0.1 s, a summary 0.4 s; a window of 32,000 tokens"
    )
    return Table("What calls wait", columns, rows, note)


def _times(ratio: float) -> str:
    return f"{ratio:,.3g} x below" if ratio >= 1 else f"{1 / ratio:,.3g} x above"


def _longest(made: Speed, at: int) -> str:
    slow = max((t for t in made.turns if t.messages == at and not t.unable), key=lambda t: t.slowest, default=None)
    return _NONE if slow is None else f"{slow.method} {_amount(slow.slowest)}"


def _time(one: Turned | None) -> str:
    return _NONE if one is None or one.unable else _amount(one.seconds)


def _amount(seconds: float) -> str:
    """Formats a time in the unit that shows it best."""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1 or unit == "us":
            return f"{seconds * scale:,.3g} {unit}"
    return _NONE
