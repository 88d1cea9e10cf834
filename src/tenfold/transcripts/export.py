"""Collects what a session writes to a file: all original entries, or the view with stubs for what it hides."""

from __future__ import annotations

from collections.abc import Iterator

from tenfold.log.base import Store
from tenfold.record.block import Block
from tenfold.record.entry import Branch, Custom, Entry, Said, Setting, message_of
from tenfold.transcripts.base import Item, Replaced
from tenfold.view.units import Shown, Unit
from tenfold.view.view import View

_FOREIGN = (Said, Branch, Setting, Custom)


def originals(store: Store, namespace: str, session: str) -> list[Item]:
    """Returns every entry that can come from a file, in the order it was appended, over all branches."""
    return [e for e in store.original(namespace, session) if isinstance(e, _FOREIGN)]


def view_items(view: View) -> list[Item]:
    """Returns the view as a file would hold it.

    These are the untouched entries, stubs for what is hidden, and entries without a message from the visible ranges.
    """
    items: list[Item] = []
    for unit in view.units:
        items.extend(_hidden(view, unit) if unit.ref is not None else _plain(view, unit.first, unit.last, unit.shown))
    if view.step is not None:
        first, last = view.step.first, view.step.entries[-1][0]
        own = [Shown(m, p, p, (p, 0, -1), True) for p, e in view.step.entries if (m := message_of(e)) is not None]
        items.extend(_plain(view, first, last, tuple(own)))
    return items


def _plain(view: View, first: int, last: int, shown: tuple[Shown, ...]) -> Iterator[Item]:
    originals_at = {s.at for s in shown if s.original}
    for position in range(first, last + 1):
        entry = view.path.at(position)
        if position in originals_at or (isinstance(entry, _FOREIGN) and message_of(entry) is None):
            yield entry
        for each in shown:
            if each.at == position and not each.original:
                yield Replaced(each.message, _source(entry), _source_before(view, position))


def _hidden(view: View, unit: Unit) -> Iterator[Item]:
    """Yields what a replaced range shows. A summary gets the position and foreign id of the last entry it hides."""
    visible = {s.at if s.original else s.of for s in unit.shown}
    hidden = (p for p in range(unit.last, unit.first - 1, -1) if p not in visible)
    source = next((s for p in hidden if (s := _source(view.path.at(p)))), "")
    for each in unit.shown:
        if each.original:
            yield view.path.at(each.at)
        elif each.of is not None:
            yield Replaced(each.message, _source(view.path.at(each.of)), _source_before(view, each.of))
        else:
            yield Replaced(each.message, source, _source_before(view, unit.first))


def _source(entry: Entry) -> str:
    return entry.source if isinstance(entry, _FOREIGN) else ""


def _source_before(view: View, position: int) -> str:
    while position > 0:
        position -= 1
        entry = view.path.at(position)
        if not isinstance(entry, Block) and (source := _source(entry)):
            return source
    return ""
