"""Restores the newest compaction that pi or Claude Code recorded in a session file, as a Block.

Reading a file keeps such an entry as it is and hides nothing. Restored, the view is the context that the tool sent: its
summary, and what it kept. The summary is then updated by the next compaction, and its files go on. `tenfold compact`
does it for a policy that says so (`Policy.restorer`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from tenfold.compaction.engine.call import Call
from tenfold.compaction.engine.compact import build_draft
from tenfold.compaction.facts.file_footer import merge_file_lists
from tenfold.compaction.plan.draft import SUMMARY
from tenfold.compaction.summarize.asking import clean_text
from tenfold.compaction.summarize.fill import (
    build_summary_message,
    collect_covered_files,
    collect_facts,
    select_carried,
)
from tenfold.core.meter.counters import measure_messages
from tenfold.core.record.ask import EngineResult, Outcome
from tenfold.core.record.block import RECORDED, Block, FileLists, Replacement, Substitute
from tenfold.core.record.entry import BranchSummary, CustomEntry, Entry, MessageEntry, Setting, get_message
from tenfold.core.view.fold import View
from tenfold.formats.content_blocks import parse_texts
from tenfold.formats.json_items import parse_json
from tenfold.formats.output_pieces import get_native
from tenfold.formats.session_draft import DAMAGED_KIND, MAX_TOKENS, parse_token_count
from tenfold.session import Session
from tenfold.store.ids import IDS, get_current_time


class SuppliedCompaction(Struct, frozen=True):
    """What a hook, or another tool's file, states about a summary. Stored on the Block as JSON."""

    retained_from_id: str
    tokens_before: int
    read_files: tuple[str, ...] = ()
    modified_files: tuple[str, ...] = ()
    from_hook: bool = True


class RecordedCompaction(Struct, frozen=True):
    """A compaction as a file tells of it. The entry at position `first_kept` is the first that stays."""

    summary: str
    first_kept: int
    tokens_before: int = 0
    files: FileLists = FileLists()
    from_hook: bool = False


def find_recorded_compaction(entries: Sequence[Entry]) -> RecordedCompaction | None:
    """Finds the newest compaction that another tool recorded on a path.

    Returns None if there is none, if it has no summary, or if a Block follows it.
    """
    for position in reversed(range(len(entries))):
        entry = entries[position]
        if isinstance(entry, Block):
            return None
        if isinstance(entry, CustomEntry) and entry.kind in _READERS:
            found = _READERS[entry.kind](parse_json(entry.native.body), entries, position)
            return found if found.summary.strip() else None
    return None


def is_compaction_last(entries: Sequence[Entry]) -> bool:
    """Whether the last entry is a compaction. A Block that was restored counts where the tool recorded it."""
    last = entries[-1]
    if isinstance(last, Block) and last.reason == RECORDED and len(entries) > 1:
        last = entries[-2]
        return isinstance(last, CustomEntry) and last.kind in _READERS
    return isinstance(last, Block)


def _read_pi(fields: dict[str, Any], entries: Sequence[Entry], position: int) -> RecordedCompaction:
    """Reads pi's entry. Its first kept entry is named by id, in version 1 by its number among the lines."""
    kept_id, number = fields.get("firstKeptEntryId"), fields.get("firstKeptEntryIndex")
    before = entries[:position]
    first = next((n for n, e in enumerate(before) if kept_id and getattr(e, "source_id", "") == kept_id), None)
    if first is None and isinstance(number, int):
        lines = [n for n, e in enumerate(before) if _is_line(e)]  # a log that grew has Blocks between them
        index = max(0, number - 1)  # the header is line 0
        first = lines[index] if index < len(lines) else None
    stated = fields.get("details")
    details = stated if isinstance(stated, dict) else {}
    return RecordedCompaction(
        _get_text(fields.get("summary")),
        position + 1 if first is None else first,
        _get_tokens(fields.get("tokensBefore")),
        FileLists(_list_paths(details.get("readFiles")), _list_paths(details.get("modifiedFiles"))),
        fields.get("fromHook") is True,
    )


def _read_claude_code(fields: dict[str, Any], entries: Sequence[Entry], position: int) -> RecordedCompaction:
    """Reads Claude Code's summary line, which keeps nothing of what came before it."""
    before = entries[position - 1] if position else None
    boundary = parse_json(before.native.body) if isinstance(before, CustomEntry) else {}
    metadata = boundary.get("compactMetadata") if isinstance(boundary, dict) else None
    tokens = metadata.get("preTokens") if isinstance(metadata, dict) else None
    message = fields.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    summary = "\n".join(part.text for part in parse_texts(content))
    return RecordedCompaction(summary, position + 1, _get_tokens(tokens))


_READERS: dict[str, Callable[[dict[str, Any], Sequence[Entry], int], RecordedCompaction]] = {
    "compaction": _read_pi,
    "compact_summary": _read_claude_code,
}


def _is_line(entry: Entry) -> bool:
    """Whether an entry is a line that pi counts: it came with the file, and pi could read it."""
    is_damaged = isinstance(entry, CustomEntry) and entry.kind == DAMAGED_KIND
    return (
        isinstance(entry, MessageEntry | BranchSummary | CustomEntry | Setting)
        and not is_damaged
        and get_native(entry) is not None
    )


def _get_text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _get_tokens(value: object) -> int:
    tokens = parse_token_count(value)
    return tokens if tokens <= MAX_TOKENS else 0


def _list_paths(value: object) -> tuple[str, ...]:
    return tuple(path for path in value if isinstance(path, str) and path) if isinstance(value, list) else ()


def restore_compaction(session: Session) -> Outcome | None:
    """Appends the newest compaction that another tool recorded in the session's file as a Block.

    Returns None if there is none on the path, if it has no summary, if a Block follows it already, or if nothing lies
    before what it kept. The Outcome is `nothing` if its summary is not smaller than what it replaces.
    """
    with session.compactor.lock:
        view = session.view
        found = find_recorded_compaction(view.path.get_entries(0, view.length - 1))
        span = _find_span(view, found.first_kept) if found is not None else None
        if found is None or span is None:
            return None
        return session.compactor.apply_result(_build_result(session, view, found, span), view)


def _build_result(session: Session, view: View, found: RecordedCompaction, span: tuple[int, int]) -> EngineResult:
    """Builds the Block of a recorded compaction over the positions of `span`, and its Outcome."""
    policy, covered = session.policy, view.get_slice(*span)
    assert covered is not None
    block_id = IDS.generate()
    message = build_summary_message(block_id, (clean_text(found.summary),), policy.summary)
    size = measure_messages([message], policy.counter)[0]
    draft = build_draft(view, policy, Call(), session.conversation.get_measures())
    before, hidden = draft.tokens, sum(p.tokens for p in draft.pieces if span[0] <= p.first <= span[1])
    if size >= hidden:
        reason = f"the summary that the file records takes {size:,} tokens in place of {hidden:,}"
        return EngineResult(Outcome("nothing", reason, before, before, before, policy=policy.name))
    facts = tuple(f for f in collect_facts(draft) if f.position <= span[1])
    files = merge_file_lists((found.files, collect_covered_files(draft, span[1])))
    later = view.path.get_entries(span[1] + 1, view.length - 1)
    kept = next((e.id for e in later if get_message(e) is not None), "")
    stated = SuppliedCompaction(kept, found.tokens_before, files.read, files.modified, found.from_hook)
    replacement = Replacement(
        *span, covered, (Substitute(message),), SUMMARY, sizes=(size,), reason="recorded by another tool"
    )
    after = before - hidden + size
    block = Block(
        block_id,
        None,
        "",
        get_current_time(),
        policy.name,
        policy.counter.name,
        (replacement,),
        previous_block=session.conversation.find_newest_block_id(),
        reason=RECORDED,
        tokens_before=before,
        tokens_after=after,
        supplied_details=msgspec.json.encode(stated).decode(),
        files=files,
    )
    block = view.with_facts(block, select_carried(facts, ()))
    reason = "a compaction that the file records"
    return EngineResult(Outcome("compacted", reason, before, after, after, block=block_id, policy=policy.name), block)


def _find_span(view: View, first_kept: int) -> tuple[int, int] | None:
    """Finds the whole units before the first kept entry, after leading system messages."""
    units = [unit for unit in view.units if unit.last < first_kept]
    while units and any(s.message.role == "system" for s in units[0].visible_messages):
        units.pop(0)
    return (units[0].first, units[-1].last) if units else None
