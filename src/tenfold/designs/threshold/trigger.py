"""When `threshold` and `sliding` act: at the buffer of the window, and by the entries since the summary.

An entry, which the design calls a turn, is a message, or the results of one step together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct

from tenfold.compaction.plan.draft import Draft, is_summary_unit
from tenfold.compaction.plan.protected import is_continuation
from tenfold.compaction.trigger.limits import Limits, clamp_limits, divide_window, take_share
from tenfold.core.record.message import get_tool_calls
from tenfold.core.view.fold import View
from tenfold.core.view.units import VisibleMessage, get_step_messages

LARGE_WINDOW, LARGE_BUFFER = 200_000, 20_000
"""The buffer's size in large windows."""


def get_buffer(window: int) -> int:
    """Returns the buffer in this window: 20,000 tokens in windows of 200,000 and more, else a fifth.

    The jump at 200,000 (39,999 below, 20,000 from it on) is published.
    """
    return LARGE_BUFFER if window >= LARGE_WINDOW else take_share(0.20, window)


class CalibratedBufferTrigger(Struct, frozen=True):
    """Keeps the buffer free."""

    def get_limits(self, window: int, *, output_reserve: int, floor: int) -> Limits:
        """Triggers at the limit. Aims at floor + buffer: one half for the summary, one for facts and continuation."""
        buffer = get_buffer(window)
        parts = divide_window(window, output_reserve)
        return clamp_limits(parts, soft=window - buffer, target=floor + buffer)


class EntryTrigger(Struct, frozen=True):
    """Keeps the buffer free, and acts as well when more than `max_entries` entries follow the newest summary."""

    max_entries: int = 20

    def get_limits(self, window: int, *, output_reserve: int, floor: int) -> Limits:
        """See `CalibratedBufferTrigger.get_limits`."""
        return CalibratedBufferTrigger().get_limits(window, output_reserve=output_reserve, floor=floor)

    def find_reason(self, view: View) -> str:
        """Counts the entries. See `limits.get_view_check`."""
        if count_entries_since(view, limit=self.max_entries) <= self.max_entries:
            return ""
        return f"more than {self.max_entries:,} entries follow the newest summary"


def get_text_limit(window: int) -> int:
    """Returns the tokens that the text of a summary may take: half the buffer."""
    return get_buffer(window) // 2


EntryKind = Literal["text", "call", "result"]
"""An entry is a message, or the results of one step together. System messages and continuations are none."""


def find_entry_split(kinds: Sequence[EntryKind], index: int) -> int:
    """Returns where a list of entries may be split so that no result loses its call: at or near `index`.

    Walks back while a call or a result stands there. If that reaches the beginning, walks forward past the call and its
    results. If that reaches the end, goes back to the call alone. Returns the length of the list if it is all one step,
    and an index outside of the list unchanged.
    """
    if index <= 0 or index >= len(kinds):
        return index
    at = index
    while at > 0 and kinds[at] != "text":
        at -= 1
    if at > 0:
        return at
    at = _skip_results(kinds, index + (kinds[index] == "call"))
    if at < len(kinds):
        return at
    at = index
    while at > 0 and kinds[at] == "result":
        at -= 1
    return at or len(kinds)


def _skip_results(kinds: Sequence[EntryKind], index: int) -> int:
    """Returns the first index from `index` on that is no result."""
    while 0 < index < len(kinds) and kinds[index] == "result":
        index += 1
    return index


def find_entry_tails(draft: Draft, counts: Iterable[int], least: int) -> list[int]:
    """Returns the indexes of the pieces where tails of about so many entries begin, in this order.

    Only entries after the newest summary count. Last comes the tail of `least` entries, which may begin with a call.
    Tails that would hold all entries or none are left out.
    """
    start = _find_summary_end(draft)
    entries = list(_list_entries(p.get_visible_messages() for p in draft.pieces[start:]))
    kinds = [kind for kind, _ in entries]
    splits = [find_entry_split(kinds, len(kinds) - count) for count in counts]
    splits.append(_skip_results(kinds, len(kinds) - least))
    return [start + entries[at][1] for at in dict.fromkeys(splits) if 0 < at < len(entries)]


def count_entries_since(view: View, *, limit: int) -> int:
    """Counts the entries after the newest summary, no further than one more than `limit`.

    It goes by what the view shows, so it is right after a rewind and on every branch.
    """
    open_messages = get_step_messages(view.open_step, closing=False) if view.open_step is not None else ()
    units = view.units
    index, number = len(units), len(list(_list_entries([open_messages])))
    while index and number <= limit:
        index -= 1
        if is_summary_unit(view, units[index]):
            break
        number += len(list(_list_entries([units[index].visible_messages])))
    return number


def _find_summary_end(draft: Draft) -> int:
    """Returns the index after the newest summary among the pieces. What it covers no longer counts."""
    for index in reversed(range(draft.floor_end, len(draft.pieces))):
        if any(is_summary_unit(draft.view, unit) for unit in draft.pieces[index].units):
            return index + 1
    return draft.floor_end


def _list_entries(groups: Iterable[Sequence[VisibleMessage]]) -> Iterator[tuple[EntryKind, int]]:
    """Yields the entries of groups of messages, each with its group's number."""
    for number, group in enumerate(groups):
        before: EntryKind = "text"
        for shown in group:
            message = shown.message
            if message.role == "system" or is_continuation(message):
                continue
            kind: EntryKind = "call" if get_tool_calls(message) else "text"
            if message.role == "tool":
                kind = "result"
            if not kind == before == "result":
                yield kind, number
            before = kind
