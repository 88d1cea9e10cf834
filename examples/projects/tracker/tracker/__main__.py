"""The command line."""

import argparse
import os
import sys
from datetime import date

from tracker import legacy, query, recur, render, store
from tracker.model import Item
from tracker.util import parse_date


def parser():
    root = argparse.ArgumentParser(prog="tracker")
    commands = root.add_subparsers(dest="command", required=True)
    add = commands.add_parser("add")
    add.add_argument("title")
    add.add_argument("--due")
    add.add_argument("--every", default="")
    add.add_argument("--tag", action="append", default=[])
    add.add_argument("--priority", type=int, default=3)
    show = commands.add_parser("list")
    show.add_argument("--tag")
    show.add_argument("--words")
    show.add_argument("--late", action="store_true")
    done = commands.add_parser("done")
    done.add_argument("number", type=int)
    read = commands.add_parser("import")
    read.add_argument("file")
    return root


def main(argv, path, today):
    given = parser().parse_args(argv)
    items = store.load(path)
    if given.command == "add":
        due = parse_date(given.due, today) if given.due else None
        items.append(Item(store.next_number(items), given.title, due, tags=given.tag, every=given.every, priority=given.priority))
    elif given.command == "done":
        at = [item.number for item in items].index(given.number)
        items[at], following = recur.finish(items[at], store.next_number(items), today)
        if following:
            items.append(following)
    elif given.command == "import":
        items.extend(legacy.read_csv(given.file, today))
    else:
        print(render.listing(query.matching(items, tag=given.tag, words=given.words, late=given.late, today=today), today))
        return 0
    store.save(path, items)
    print(render.line(items[-1], today))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ.get("TRACKER_FILE", "tasks.json"), date.today()))
