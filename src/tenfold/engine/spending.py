"""Reads from the log what a conversation has sent since its last compaction."""

from __future__ import annotations

from collections.abc import Sequence

from tenfold.engine.call import Measures
from tenfold.meter.reading import Reading
from tenfold.record.entry import MessageEntry
from tenfold.trigger.economy import Spending
from tenfold.view.fold import View

_MICROSECONDS = 1_000_000


def read_spending(view: View, measures: Measures, reading: Reading, *, now: int, later: Sequence[int] = ()) -> Spending:
    """Reads the sizes of the requests since the newest Block or undo, in tokens of the Reading; `now` in microseconds.

    Each answer in view that came after it is one request, which sent what stands before the answer. `later` are the
    sizes of requests whose answers are not in view yet.
    """
    since = view.state.last_change
    visible = list(view.get_visible_messages())
    kept, total, newest = 0, 0, -1
    sizes: list[int] = []
    for shown, tokens in zip(visible, measures.token_cache.measure(visible), strict=True):
        if shown.position <= since:
            kept += tokens
        elif shown.message.role == "assistant" and shown.is_original:
            sizes.append(total)
            newest = shown.position
        total += tokens
    entry = view.path.get_entry(newest) if newest >= 0 else None
    time = entry.time if isinstance(entry, MessageEntry) else None
    return Spending(
        kept=round(reading.floor + reading.slope * kept),
        sizes=(*(round(reading.floor + reading.slope * size) for size in sizes), *later),
        idle=max(0, now - time) / _MICROSECONDS if time else None,
    )
