"""Makes the tables of `tenfold eval speed` from its result alone."""

from __future__ import annotations

import statistics

from tenfold_yardstick.peers import PEERS
from tenfold_yardstick.speed import COMPARISON_LENGTH, Speed, TurnTiming
from tenfold_yardstick.tables import Table, format_seconds

_BLANK = "-"
_COUNTED = {peer.name: peer.counts for peer in PEERS}
"""Of what each peer counts the tokens in a turn. Tenfold remembers what it counted before."""


def build_tables(speed: Speed) -> list[Table]:
    """Returns a table for each measure that was taken."""
    found = [
        build_turn_table(speed),
        build_compaction_table(speed),
        build_opening_table(speed),
        build_archive_table(speed),
        build_memory_table(speed),
        build_wait_table(speed),
    ]
    return [table for table in found if table.rows]


def build_turn_table(speed: Speed) -> Table:
    """Returns the cost of a turn by method and length, quickest first at the length where peers are compared."""
    lengths = sorted({t.messages for t in speed.turns})
    at = get_compared_length(speed)
    names = dict.fromkeys((t.method, t.way) for t in speed.turns)
    found = {(t.method, t.way, t.messages): t for t in speed.turns}

    def rank_method(name: tuple[str, str]) -> tuple[bool, float]:
        one = found.get((*name, at))
        return (one is None or bool(one.unable), one.seconds if one else 0.0)

    rows: list[tuple[str, ...]] = [
        (*name, _COUNTED.get(name[0], "what is new"), *(_format_turn(found.get((*name, n))) for n in lengths))
        for name in sorted(names, key=rank_method)
    ]
    opening = (
        "The median of turns in which nothing is compacted, after one that warms up. All leave the messages as they "
        "were; of what each counts the tokens differs, and only rows with the same do equal work. "
        f"The longest at {at:,}: {_format_longest(speed, at)}."
    )
    notes = [opening]
    ratios = compute_speedups(speed)
    if ratios:
        ratio_texts = ", ".join(f"{name} ({way}) {_format_ratio(ratio)} it" for (name, way), ratio in ratios.items())
        notes.append(f"Median peer at {at:,}: {format_seconds(compute_peer_median(speed))}; {ratio_texts}.")
    notes += [f"{t.method} cannot: {t.unable}." for t in speed.turns if t.unable and t.messages == at]
    return Table("A turn", ("method", "way", "counts", *(f"{n:,}" for n in lengths)), rows, " ".join(notes))


def get_compared_length(speed: Speed) -> int:
    """Returns the length at which peers are compared: 10,000 messages, or the longest they were timed at."""
    lengths = {t.messages for t in speed.turns if t.way == "hook"} or {t.messages for t in speed.turns}
    return COMPARISON_LENGTH if COMPARISON_LENGTH in lengths else max(lengths, default=0)


def compute_peer_median(speed: Speed) -> float:
    """Returns the seconds of a turn of the median peer, of those that could be timed, or 0 if there is none."""
    at = get_compared_length(speed)
    found = [t.seconds for t in speed.turns if t.way == "hook" and t.messages == at and not t.unable]
    return statistics.median(found) if found else 0.0


def compute_speedups(speed: Speed) -> dict[tuple[str, str], float]:
    """Returns how many times less than the median peer's turn each of Tenfold's ways takes, if peers were timed."""
    middle, at = compute_peer_median(speed), get_compared_length(speed)
    ours = [t for t in speed.turns if t.way != "hook" and t.messages == at and t.seconds]
    return {(t.method, t.way): middle / t.seconds for t in ours} if middle else {}


def build_compaction_table(speed: Speed) -> Table:
    """Returns the compactions, each also scaled to 100,000 tokens."""
    rows: list[tuple[str, ...]] = [
        (
            f"{p.messages:,}",
            f"{p.before:,}",
            f"{p.after:,}",
            format_seconds(p.seconds),
            format_seconds(p.seconds / max(1, p.before) * 100_000),
        )
        for p in speed.packed
    ]
    note = "To a tenth, by code alone. The history is in memory, and its tokens are counted already."
    return Table("A compaction", ("messages", "tokens", "after", "time", "per 100k tokens"), rows, note)


def build_opening_table(speed: Speed) -> Table:
    """Returns the openings of stored sessions."""
    rows: list[tuple[str, ...]] = [(f"{o.messages:,}", f"{o.shown:,}", format_seconds(o.seconds)) for o in speed.opened]
    note = "From SQLite, by a new connection each time. The file is in the system's cache."
    return Table("Opening a stored session", ("messages", "in view", "time"), rows, note)


def build_archive_table(speed: Speed) -> Table:
    """Returns the archives by size."""
    rows: list[tuple[str, ...]] = [
        (
            f"{a.entries:,}",
            format_seconds(a.write / max(1, a.entries)),
            format_seconds(a.index / max(1, a.entries)),
            format_seconds(a.search),
            format_seconds(a.slowest),
            f"{a.bytes / 1_000_000:,.0f} MB",
        )
        for a in speed.archived
    ]
    columns = ("entries", "write, each", "index, each", "search", "slowest search", "on disk")
    note = "In SQLite, with entries of 1,000 characters. A search gives ten hits for three words, over all sessions."
    return Table("The archive", columns, rows, note)


def build_memory_table(speed: Speed) -> Table:
    """Returns the memory of fresh processes."""
    rows: list[tuple[str, ...]] = [
        (r.what, f"{r.messages:,}", *((r.unable, _BLANK) if r.unable else (f"{r.megabytes:,} MB", f"{r.before:,} MB")))
        for r in speed.resident
    ]
    note = (
        "The most that a fresh process took, and what it took before it had a session. Held: the whole history is in "
        "memory and counted, with the counter's vocabulary. Opened: it is stored and compacted. Windows does not say."
    )
    return Table("Memory", ("session", "messages", "most", "before"), rows, note)


def build_wait_table(speed: Speed) -> Table:
    """Returns how long calls wait."""
    rows: list[tuple[str, ...]] = [
        (
            b.summary,
            *(
                (b.unable, *[_BLANK] * 4)
                if b.unable
                else (
                    f"{b.calls}",
                    f"{b.compactions}",
                    format_seconds(b.median),
                    format_seconds(b.most),
                    format_seconds(b.other),
                )
            ),
        )
        for b in speed.blocked
    ]
    columns = ("summary", "calls", "compactions", "median", "most", "other calls")
    note = (
        "How long an agent's calls wait for Tenfold where a compaction falls due, and where none does (median). The "
        "models are scripted: a call takes 0.1 s, a summary 0.4 s. The window has 32,000 tokens."
    )
    return Table("What calls wait", columns, rows, note)


def _format_ratio(ratio: float) -> str:
    return f"{ratio:,.3g} x below" if ratio >= 1 else f"{1 / ratio:,.3g} x above"


def _format_longest(speed: Speed, length: int) -> str:
    slow = max((t for t in speed.turns if t.messages == length and not t.unable), key=lambda t: t.slowest, default=None)
    return _BLANK if slow is None else f"{slow.method} {format_seconds(slow.slowest)}"


def _format_turn(timing: TurnTiming | None) -> str:
    return _BLANK if timing is None or timing.unable else format_seconds(timing.seconds)
