"""Collects what a session writes to a file: all original entries, or the view with stubs for what it hides."""

from __future__ import annotations

from collections.abc import Iterator

from tenfold.core.record.block import Block
from tenfold.core.record.entry import BranchSummary, CustomEntry, Entry, MessageEntry, Setting, get_message
from tenfold.core.view.fold import View
from tenfold.core.view.units import Unit, VisibleMessage, build_original
from tenfold.formats.base import ExportItem, ReplacementMessage
from tenfold.formats.session_draft import APPLIED_KIND, DAMAGED_KIND
from tenfold.store.base import Store

_IMPORTED_TYPES = (MessageEntry, BranchSummary, Setting, CustomEntry)
FILE_KINDS = frozenset(str(kind.__struct_config__.tag) for kind in _IMPORTED_TYPES)
"""The kinds of entries, as they are stored, that come from a session file."""


def get_original_items(store: Store, namespace: str, session: str) -> list[ExportItem]:
    """Returns every entry that can come from a file, in the order it was appended, over all branches."""
    return [e for e in store.read_entries(namespace, session) if isinstance(e, _IMPORTED_TYPES)]


def get_view_items(view: View) -> list[ExportItem]:
    """Returns the view as a file would hold it.

    These are the untouched entries, stubs for what is hidden, and entries without a message from the visible ranges.
    """
    items: list[ExportItem] = []
    for unit in view.units:
        items.extend(
            _get_replaced_items(view, unit)
            if unit.block_part is not None
            else _get_shown_items(view, unit.first, unit.last, unit.visible_messages)
        )
    if view.open_step is not None:
        first, last = view.open_step.first, view.open_step.entries[-1][0]
        own = [build_original(p, m) for p, e in view.open_step.entries if (m := get_message(e)) is not None]
        items.extend(_get_shown_items(view, first, last, tuple(own)))
    return items


def _get_shown_items(view: View, first: int, last: int, shown: tuple[VisibleMessage, ...]) -> Iterator[ExportItem]:
    originals_at = {s.position for s in shown if s.is_original}
    for position in range(first, last + 1):
        entry = view.path.get_entry(position)
        if position in originals_at or _is_visible_without_message(entry):
            yield entry
        for each in shown:
            if each.position == position and not each.is_original:
                yield ReplacementMessage(each.message, _get_source(entry), _find_source_before(view, position))


def _is_visible_without_message(entry: Entry) -> bool:
    """Tells whether an entry goes into a file although it is no message.

    A damaged line would only damage the file, and a copy of an earlier view would take the place of this one.
    """
    is_left_out = isinstance(entry, CustomEntry) and entry.kind in (DAMAGED_KIND, APPLIED_KIND)
    return isinstance(entry, _IMPORTED_TYPES) and get_message(entry) is None and not is_left_out


def _get_replaced_items(view: View, unit: Unit) -> Iterator[ExportItem]:
    """Yields what a replaced range shows. A summary gets the position and foreign id of the last entry it hides."""
    visible = {s.position if s.is_original else s.original_position for s in unit.visible_messages}
    hidden = (p for p in range(unit.last, unit.first - 1, -1) if p not in visible)
    source = next((s for p in hidden if (s := _get_source(view.path.get_entry(p)))), "")
    for each in unit.visible_messages:
        if each.is_original:
            yield view.path.get_entry(each.position)
        elif each.original_position is not None:
            yield ReplacementMessage(
                each.message,
                _get_source(view.path.get_entry(each.original_position)),
                _find_source_before(view, each.original_position),
            )
        else:
            yield ReplacementMessage(each.message, source, _find_source_before(view, unit.first))


def _get_source(entry: Entry) -> str:
    return entry.source_id if isinstance(entry, _IMPORTED_TYPES) else ""


def _find_source_before(view: View, position: int) -> str:
    while position > 0:
        position -= 1
        entry = view.path.get_entry(position)
        if not isinstance(entry, Block) and (source := _get_source(entry)):
            return source
    return ""
