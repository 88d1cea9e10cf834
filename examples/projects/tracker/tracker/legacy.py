"""Reads the CSV format of version 1: title;due;done."""

import csv

from tracker.model import Item
from tracker.util import parse_date


def read_csv(path, today):
    items = []
    with open(path, newline="", encoding="utf-8") as file:
        for number, row in enumerate(csv.reader(file, delimiter=";"), 1):
            due = parse_date(row[1], today) if row[1] else None
            items.append(Item(number=number, title=row[0], due=due, done=row[2] == "1"))
    return items
