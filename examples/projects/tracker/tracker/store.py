"""The file: one JSON object with the items and the next number."""

import json
import os
from dataclasses import asdict
from datetime import date

from tracker.model import Item

VERSION = 2


class DamagedFile(ValueError):
    """Raised with the path and what is wrong."""


def load(path):
    """The items of a file; none if there is no file yet."""
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        try:
            data = json.load(file)
        except json.JSONDecodeError as error:
            raise DamagedFile(f"{path}: {error}") from error
    if data.get("version") != VERSION:
        raise DamagedFile(f"{path}: version {data.get('version')}, this program reads {VERSION}")
    return [from_row(row) for row in data["items"]]


def save(path, items):
    """Writes the whole file anew, beside the old one first."""
    data = {"version": VERSION, "items": [to_row(item) for item in items]}
    beside = f"{path}.new"
    with open(beside, "w", encoding="utf-8") as file:
        json.dump(data, file, indent=1, ensure_ascii=False)
    os.replace(beside, path)


def to_row(item):
    row = asdict(item)
    row["due"] = item.due.isoformat() if item.due else None
    return row


def from_row(row):
    due = date.fromisoformat(row["due"]) if row.get("due") else None
    return Item(**{**row, "due": due})


def next_number(items):
    return max((item.number for item in items), default=0) + 1
