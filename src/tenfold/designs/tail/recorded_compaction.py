"""Restores the newest compaction that pi or Claude Code recorded in a session file, as a Block.

Reading a file keeps such an entry as it is and hides nothing. Restored, the view is the context that the tool sent: its
summary, and what it kept. The summary is then updated by the next compaction, and its files go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from tenfold.config.presets.tail import tail
from tenfold.engine.call import Call
from tenfold.engine.compact import build_draft
from tenfold.formats.message_parts import parse_texts
from tenfold.meter.counters import measure_messages
from tenfold.plan.draft import SUMMARY
from tenfold.record.ask import EngineResult, Outcome
from tenfold.record.block import Block, FileLists, Replacement, Substitute
from tenfold.record.entry import CustomEntry, Entry
from tenfold.session import Session
from tenfold.store.ids import IDS, get_current_time
from tenfold.summarize.fill import build_summary_message, collect_facts, select_carried
from tenfold.view.fold import View


class RecordedCompaction(Struct, frozen=True):
    """A compaction as a file tells of it. The entry at position `first_kept` is the first that stays."""

    summary: str
    first_kept: int
    tokens_before: int = 0
    files: FileLists = FileLists()
    from_hook: bool = False


def find_recorded_compaction(entries: Sequence[Entry]) -> RecordedCompaction | None:
    """Finds the newest compaction that another tool recorded on a path. None if there is none or a Block follows."""
    for position in reversed(range(len(entries))):
        entry = entries[position]
        if isinstance(entry, Block):
            return None
        if isinstance(entry, CustomEntry) and entry.kind in _READERS:
            fields = msgspec.json.decode(entry.native.body)
            return _READERS[entry.kind](fields, entries, position)
    return None


def _read_pi(fields: dict[str, Any], entries: Sequence[Entry], position: int) -> RecordedCompaction:
    """Reads pi's entry. Its first kept entry is named by id, in version 1 by its number among the lines."""
    kept_id, number = fields.get("firstKeptEntryId"), fields.get("firstKeptEntryIndex")
    first = next((n for n, e in enumerate(entries) if kept_id and _get_source(e) == kept_id), None)
    if first is None and isinstance(number, int):
        first = max(0, number - 1)  # the header is line 0
    details = fields.get("details") or {}
    files = FileLists(tuple(details.get("readFiles") or ()), tuple(details.get("modifiedFiles") or ()))
    kept = position + 1 if first is None or first > position else first
    summary, tokens = str(fields.get("summary") or ""), fields.get("tokensBefore")
    return RecordedCompaction(
        summary, kept, tokens if isinstance(tokens, int) else 0, files, fields.get("fromHook") is True
    )


def _read_claude_code(fields: dict[str, Any], entries: Sequence[Entry], position: int) -> RecordedCompaction:
    """Reads Claude Code's summary line, which keeps nothing of what came before it."""
    before = entries[position - 1] if position else None
    boundary = msgspec.json.decode(before.native.body) if isinstance(before, CustomEntry) else {}
    tokens = (boundary.get("compactMetadata") or {}).get("preTokens")
    summary = "\n".join(part.text for part in parse_texts((fields.get("message") or {}).get("content")))
    return RecordedCompaction(summary, position + 1, tokens if isinstance(tokens, int) else 0)


_READERS: dict[str, Callable[[dict[str, Any], Sequence[Entry], int], RecordedCompaction]] = {
    "compaction": _read_pi,
    "compact_summary": _read_claude_code,
}


def _get_source(entry: Entry) -> str | None:
    return getattr(entry, "source_id", None) or None


def build_recorded_block(session: Session, found: RecordedCompaction, supplied_details: str) -> EngineResult | None:
    """Builds the Block of a recorded compaction over the view. None if nothing lies before the first kept entry."""
    view, policy = session.view, session.policy
    span = _find_span(view, found.first_kept)
    covered = view.get_slice(*span) if span is not None else None
    if span is None or covered is None:
        return None
    block_id, settings = IDS.generate(), tail(policy.counter).summary
    message = build_summary_message(block_id, (found.summary,), settings)
    size = measure_messages([message], policy.counter)[0]
    draft = build_draft(view, policy, Call(), session.get_measures())
    before = draft.tokens
    hidden = sum(p.tokens for p in draft.pieces if span[0] <= p.first <= span[1])
    facts = tuple(f for f in collect_facts(draft) if f.position <= span[1])
    replacement = Replacement(
        *span, covered, (Substitute(message),), SUMMARY, sizes=(size,), reason="recorded by another tool"
    )
    block = Block(
        block_id,
        None,
        "",
        get_current_time(),
        policy.name,
        policy.counter.name,
        (replacement,),
        select_carried(facts, ()),
        previous_block=session.find_newest_block_id(),
        reason="recorded",
        tokens_before=before,
        tokens_after=before - hidden + size,
        supplied_details=supplied_details,
        files=found.files,
    )
    reason = "a compaction that the file records"
    outcome = Outcome("compacted", reason, before, block.tokens_after, block.tokens_after, block=block_id)
    return EngineResult(msgspec.structs.replace(outcome, policy=policy.name), block)


def _find_span(view: View, first_kept: int) -> tuple[int, int] | None:
    """Finds the whole units before the first kept entry, after leading system messages."""
    units = [unit for unit in view.units if unit.last < first_kept]
    while units and any(s.message.role == "system" for s in units[0].visible_messages):
        units.pop(0)
    return (units[0].first, units[-1].last) if units else None
