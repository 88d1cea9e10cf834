"""Which items."""

from tracker.model import Item


def matching(items: list[Item], *, tag=None, words=None, late=None, today=None):
    """Open items that satisfy all given conditions."""
    found = [item for item in items if item.is_open]
    if tag:
        found = [item for item in found if item.tagged(tag)]
    if words:
        wanted = words.lower().split()
        found = [item for item in found if all(word in item.title.lower() for word in wanted)]
    if late:
        found = [item for item in found if item.is_late(today)]
    return sorted(found, key=order)


def order(item: Item):
    """By date, those without one last; then by priority; then by number."""
    return (item.due is None, item.due, item.priority, item.number) if item.due else (True, 0, item.priority, item.number)


def by_tag(items: list[Item]):
    """Tag -> open items, tags sorted, an item under each of its tags."""
    groups = {}
    for item in items:
        if item.is_open:
            for tag in item.tags or ["-"]:
                groups.setdefault(tag, []).append(item)
    return dict(sorted(groups.items()))
