"""raw/ST-nn.csv -> clean/ST-nn.csv. No row is dropped: what is wrong is mended or flagged, and the flag says how."""

import csv
import datetime
import itertools
import pathlib
import sys

FIELDS = ["time", "station", "temperature", "humidity", "wind", "flag"]


def flag(row, word):
    row["flag"] = f"{row['flag']} {word}".strip()


# A rule takes the rows of one station, in order, and changes or flags them.


RULES = []


def clean(path):
    with open(path, newline="", encoding="utf-8") as file:
        rows = [dict(row, flag="") for row in csv.DictReader(file)]
    for rule in RULES:
        rule(rows)
    return rows


def main(paths):
    target = pathlib.Path("clean")
    target.mkdir(exist_ok=True)
    for path in map(pathlib.Path, paths):
        rows = clean(path)
        with target.joinpath(path.name).open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        print(f"{path.name}: {len(rows)} rows, {sum(bool(row['flag']) for row in rows)} flagged")


if __name__ == "__main__":
    main(sys.argv[1:])
