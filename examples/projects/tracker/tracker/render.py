"""How items look in a terminal."""

from tracker.model import Item
from tracker.util import plural, shorten, show_date

WIDTH = 72


def line(item: Item, today):
    """One item on one line."""
    mark = "x" if item.done else "!" if item.is_late(today) else " "
    due = show_date(item.due, today) if item.due else ""
    tags = " ".join(f"#{tag}" for tag in item.tags)
    title = shorten(item.title, WIDTH - len(due) - len(tags) - 12)
    return f"[{mark}] {item.number:>3} {title:<{WIDTH - len(due) - len(tags) - 12}} {tags} {due}".rstrip()


def listing(items: list[Item], today):
    """All of them, and how many."""
    return "\n".join([*(line(item, today) for item in items), plural(len(items), "item")])
