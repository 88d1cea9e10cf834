"""Prints what a station's file looks like: rows, gaps, repeats, ranges, runs of one value."""

import csv
import datetime
import itertools
import sys

COLUMNS = ("temperature", "humidity", "wind")


def number(text):
    try:
        return float(text)
    except ValueError:
        return None


def main(path):
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    times = [datetime.datetime.fromisoformat(row["time"].replace("Z", "+00:00")) for row in rows]
    print(f"{path}: {len(rows)} rows, {rows[0]['time']} .. {rows[-1]['time']}")
    gaps = [(a, b) for a, b in itertools.pairwise(times) if b - a > datetime.timedelta(hours=1)]
    for a, b in gaps:
        print(f"  gap: nothing between {a.isoformat()} and {b.isoformat()}")
    print(f"  repeated times: {len(times) - len(set(times))}")
    print(f"  offsets: {sorted({time.strftime('%z') for time in times})}")
    for column in COLUMNS:
        values = [number(row[column]) for row in rows]
        good = [value for value in values if value is not None]
        longest = max(len(list(group)) for _, group in itertools.groupby(row[column] for row in rows))
        print(f"  {column:<12} unreadable {len(values) - len(good):>3}  min {min(good):>8.1f}  mean "
              f"{sum(good) / len(good):>7.2f}  max {max(good):>7.1f}  longest run {longest}")
    if "flag" in rows[0]:
        flags = [row["flag"] for row in rows if row["flag"]]
        print(f"  flags: {len(flags)} {dict(sorted((flag, flags.count(flag)) for flag in set(flags)))}")


if __name__ == "__main__":
    main(sys.argv[1])
