"""When items come back."""

from dataclasses import replace
from datetime import date, timedelta

from tracker.model import Item


def following(day, every):
    """The next day after `day`: every is '3d', '2w' or '1m'."""
    count, unit = int(every[:-1]), every[-1]
    if unit == "d":
        return day + timedelta(days=count)
    if unit == "w":
        return day + timedelta(weeks=count)
    if unit == "m":
        month = day.month - 1 + count
        return date(day.year + month // 12, month % 12 + 1, day.day)
    raise ValueError(f"every {every!r}: expected a number and d, w or m")


def finish(item: Item, number, today):
    """The done item and, if it recurs, the item that follows."""
    done = replace(item, done=True)
    if not item.every:
        return done, None
    due = following(item.due or today, item.every)
    return done, Item(number=number, title=item.title, due=due, tags=list(item.tags), every=item.every, priority=item.priority)
