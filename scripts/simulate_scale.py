"""Simulates a store of up to a thousand million sessions, on paper: `python -m scripts.simulate_scale [--write]`.

Tenfold does not partition tables or move sessions to object storage today. The script says what that would take and
cost, from figures that were measured and assumptions that are all in `Assumptions`: change one, and run it again.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

PAGE = Path(__file__).parents[1] / "docs" / "scale.md"
BEGIN, END = "<!-- begin: python -m scripts.simulate_scale -->\n", "<!-- end -->\n"
TOTALS = (10**6, 10**8, 10**9)
SAMPLE = 100_000
"""Sessions that are simulated one by one; what they do is scaled up."""
TERABYTE = 10**12


class Assumptions(Struct, frozen=True):
    """What the figures follow from.

    Bytes and entries were measured on 141 recorded sessions of eight agents, stored in PostgreSQL 18 with everything
    indexed, and the seconds with `yardstick.bench.processes`. The rest is assumed.
    """

    entries: int = 40  # of a session, on average; half of the sessions have less than 20
    spread: float = 1.2  # of the logarithm of that
    entry_bytes: int = 1_480  # of an entry in its table, with the table's indexes
    index_bytes: int = 5_850  # of an entry in the search index
    cold_bytes: int = 340  # of an entry in an archive of its session, compressed as a whole
    catalog_bytes: int = 250  # of the row that says where a cold session is
    years: float = 3.0  # over which the sessions came, evenly
    one_day: float = 0.8  # share of sessions that are used on one day only
    return_days: float = 12.0  # until a session of the others is used again, on average, as often as not
    cold_days: int = 30  # without use, after which a session goes to object storage
    peak: float = 4.0  # requests in the busiest hour, by the average of the day
    gateway_seconds: float = 0.005  # of a processor, for a request
    database_seconds: float = 0.004  # of a processor of the database, for a request
    busy: float = 0.5  # how busy processors are to be in the busiest hour
    shard_terabytes: float = 4.0  # that one database is to hold
    partition_entries: float = 1e8  # that one partition is to hold
    disk_dollars: float = 110.0  # for a terabyte of fast disk, a month, and as much again for a replica
    object_dollars: float = 23.0  # for a terabyte of object storage, a month
    processor_dollars: float = 30.0  # for a processor with memory, a month


class Load(Struct, frozen=True):
    """What a store of so many sessions has to bear."""

    sessions: int
    hot: float
    entries_hot: float
    entries_cold: float
    requests: float


def simulate(total: int, of: Assumptions, seed: int = 41) -> Load:
    """Simulates the lives of some sessions until today, and scales up."""
    chooser, days = random.Random(seed), of.years * 365
    shift = of.spread**2 / 2  # so that the average is what it is to be
    hot, entries_hot, entries_cold, uses = 0, 0.0, 0.0, 0.0
    for _ in range(SAMPLE):
        last = start = chooser.random() * days
        entries = of.entries * chooser.lognormvariate(-shift, of.spread)
        if chooser.random() > of.one_day:
            while chooser.random() < 0.5 and last < days:
                last += chooser.expovariate(1 / of.return_days)
        last = min(last, days)
        uses += entries / 2  # a request for each two entries: what came, and the answer
        if days - last < of.cold_days or start == days:
            hot, entries_hot = hot + 1, entries_hot + entries
        else:
            entries_cold += entries
    scale = total / SAMPLE
    seconds = days * 86_400
    return Load(total, hot * scale, entries_hot * scale, entries_cold * scale, uses * scale / seconds)


def describe(load: Load, of: Assumptions) -> Iterator[tuple[str, str]]:
    """Says what that takes: a name and a figure for each row."""
    hot_bytes = load.entries_hot * (of.entry_bytes + of.index_bytes)
    all_hot = (load.entries_hot + load.entries_cold) * (of.entry_bytes + of.index_bytes)
    cold_bytes = load.entries_cold * of.cold_bytes
    catalog = (load.sessions - load.hot) * of.catalog_bytes
    shards = max(1, -(-int(hot_bytes + catalog) // int(of.shard_terabytes * TERABYTE)))
    months = of.cold_days / 30 + 1
    hashes = max(1.0, load.entries_hot / months / of.partition_entries)
    peak = load.requests * of.peak
    gateways = max(2.0, peak * of.gateway_seconds / of.busy)
    processors = max(2.0, peak * of.database_seconds / of.busy) * 2  # a replica beside each
    disk = (hot_bytes + catalog) / TERABYTE * of.disk_dollars * 2
    objects = cold_bytes / TERABYTE * of.object_dollars
    compute = (gateways + processors) * of.processor_dollars
    yield "sessions that are hot", f"{load.hot:,.0f} ({load.hot / load.sessions:.1%})"
    yield "entries, hot and cold", f"{load.entries_hot:.2g} and {load.entries_cold:.2g}"
    yield "in the database (entries, search, catalog)", f"{(hot_bytes + catalog) / TERABYTE:,.2f} TB"
    yield "in object storage", f"{cold_bytes / TERABYTE:,.3f} TB"
    yield "if all stayed in the database", f"{all_hot / TERABYTE:,.2f} TB"
    yield "requests a second, on average and in the busiest hour", f"{load.requests:,.1f} and {peak:,.0f}"
    yield "databases of at most 4 TB", f"{shards:,}"
    yield "partitions (by namespace and month)", f"{max(1, round(hashes)) * round(months):,}"
    yield "processors for gateways, and for databases with replicas", f"{gateways:,.0f} and {processors:,.0f}"
    yield "dollars a month for disk, objects, processors", f"{disk:,.0f}, {objects:,.0f}, {compute:,.0f}"
    million = load.sessions / 10**6
    yield "dollars a month for each million sessions", f"{(disk + objects + compute) / million:,.2f}"
    yield "and if all stayed in the database", f"{(all_hot / TERABYTE * of.disk_dollars * 2 + compute) / million:,.2f}"


def render() -> str:
    """Renders the table, with the assumptions below it."""
    of = Assumptions()
    columns = [dict(describe(simulate(total, of), of)) for total in TOTALS]
    heads = " | ".join(f"{total:,} sessions" for total in TOTALS)
    lines = [f"| | {heads} |", "|---|" + "---:|" * len(TOTALS)]
    lines += [f"| {name} | {' | '.join(column[name] for column in columns)} |" for name in columns[0]]
    named = ", ".join(f"`{name}` {getattr(of, name):g}" for name in of.__struct_fields__)
    return "\n".join([*lines, "", f"Assumptions: {named}.", ""])


def main() -> None:
    """Prints the table, or writes it into the page."""
    if "--write" not in sys.argv[1:]:
        sys.stdout.write(render())
        return
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    PAGE.write_text(before + BEGIN + render() + END + rest.partition(END)[2], "utf-8")


if __name__ == "__main__":
    main()
