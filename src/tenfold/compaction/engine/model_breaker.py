"""Finds whether asking the summary model again is in vain, because it failed several times in a row.

The log says so. Every Block and every attempt records what it spent on a model, and a Block also who wrote its text.
"""

from __future__ import annotations

from collections.abc import Iterator

from tenfold.compaction.engine.policy import Policy
from tenfold.core.meter.counters import measure_messages
from tenfold.core.record.block import Block
from tenfold.core.record.entry import Attempt, get_message
from tenfold.core.record.token_reading import NO_TOKENS, Reading
from tenfold.core.text.excerpts import Keep, excerpt
from tenfold.core.view.fold import View

MAX_FAILURES = 2
"""Compactions in a row without a usable answer, after which the model is left alone for a while."""
PAUSE_SECONDS = 5 * 60
"""How long at most, from the last failure on."""
MODEL_RUNGS = ("model", "stricter", "next_model")
"""The rungs on which a model wrote the text."""
_REASON_CHARACTERS = 300
_MAX_ENTRIES = 2_000
"""Entries that are looked at. In the pause there are rarely more than a few hundred."""


def explain_pause(view: View, policy: Policy, reading: Reading, now: int) -> str:
    """Explains why no model is asked for a summary now. "" if one may be asked.

    After `MAX_FAILURES` it is asked again once the conversation has grown by the policy's minimum growth, after each
    further failure by twice as many tokens, and in any case after a pause. `reading`, that of the view, says what the
    provider counts for them. `now` is in microseconds, as the times of entries are.
    """
    since = now - PAUSE_SECONDS * 1_000_000
    failures = list(_list_failures(view, since))
    if len(failures) < MAX_FAILURES:
        return ""
    needed = policy.get_minimum_growth(reading.window or reading.tokens) * 2 ** (len(failures) - MAX_FAILURES)
    entries = view.path.get_entries(failures[0] + 1, view.length - 1) if failures[0] + 1 < view.length else ()
    messages = [message for entry in entries if (message := get_message(entry)) is not None]
    grown = reading.to_provider_part(sum(measure_messages(messages, policy.counter), NO_TOKENS))
    if grown >= needed:
        return ""
    return (
        f"the summary model gave nothing usable {len(failures)} times in a row, and {grown:,} tokens came since; it is "
        f"asked again after {needed:,} or {PAUSE_SECONDS // 60} minutes, or when you ask for a compaction yourself; "
        f"the last time: {_describe_failure(view, failures[0])}"
    )


def _describe_failure(view: View, position: int) -> str:
    entry = view.path.get_entry(position)
    reason = entry.reason if isinstance(entry, Attempt) else "; ".join(entry.notes) if isinstance(entry, Block) else ""
    return excerpt(reason, _REASON_CHARACTERS, Keep.START)


def _list_failures(view: View, since: int) -> Iterator[int]:
    """Yields where on this path a model was asked in vain, the newest first, up to its last usable answer."""
    for position in range(view.length - 1, max(view.length - _MAX_ENTRIES, 0) - 1, -1):
        entry = view.path.get_entry(position)
        if (entry.time or since) < since:
            return
        if not isinstance(entry, Block | Attempt) or not entry.spent.calls:
            continue
        if isinstance(entry, Block) and entry.rung in MODEL_RUNGS:
            return
        yield position
