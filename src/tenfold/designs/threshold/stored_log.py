"""What a session knows beside its messages, as one string for a host's state dictionary.

The host sends all messages again. With them and this string, a session of a new process has the same log as before: its
Blocks, its fruitless attempts, when the summary model was last asked, and what the provider's reports have taught.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.engine.model_breaker import MODEL_RUNGS
from tenfold.core.meter.estimators import decode_calibration, encode_calibration, expire_reports
from tenfold.core.record.block import Block, BlockPart
from tenfold.core.record.codec import decode_entry, encode_entry
from tenfold.core.record.entry import Attempt, CustomEntry, Entry, MessageEntry, Retraction, Usage
from tenfold.core.record.message import Message
from tenfold.core.view.fold import View
from tenfold.session import Session

_LEFT_OUT = "left-out"
"""The kind of an entry that stands in the place of one that a stored log leaves out."""


class StoredLog(Struct, frozen=True):
    """A path of `length` entries without its messages.

    `entries` holds the encoded entries by their positions, and `left_out` are the positions of those that nothing
    depends on any more. `calibration` is encoded as in a snapshot. `usage` is the report whose answer is not there yet.
    """

    length: int
    entries: dict[int, bytes]
    left_out: tuple[int, ...]
    calibration: bytes
    usage: Usage | None = None

    @property
    def message_count(self) -> int:
        """How many messages there are on the path."""
        return self.length - len(self.entries) - len(self.left_out)


def export_log(session: Session) -> str:
    """Exports what a session knows beside its messages as JSON."""
    view = session.view
    path = enumerate(view.path.get_entries(0, view.length - 1) if view.length else ())
    others = {at: entry for at, entry in path if not isinstance(entry, MessageEntry)}
    kept = _find_kept(view, others)
    entries = {at: encode_entry(others[at]) for at in others if at in kept}
    left_out = tuple(at for at in others if at not in kept)
    calibration = encode_calibration(session.conversation.calibration)
    stored = StoredLog(view.length, entries, left_out, calibration, session.conversation.pending_usage)
    return msgspec.json.encode(stored).decode()


def _find_kept(view: View, others: Mapping[int, Entry]) -> set[int]:
    """Finds the entries to keep: of Blocks and attempts the newest in force, and all since a model was last of use."""
    kept = {at for at, e in others.items() if not isinstance(e, Block | Attempt | Retraction) and not _is_stand_in(e)}
    kept |= {*view.state.live_blocks[-1:], *view.state.attempts}
    for at, entry in reversed(list(others.items())):
        if isinstance(entry, Block | Attempt) and entry.spent.calls:
            kept.add(at)
            if isinstance(entry, Block) and entry.rung in MODEL_RUNGS:
                break
    blocks = {others[at].id for at in kept}
    return kept | {at for at, e in others.items() if isinstance(e, Retraction) and e.block in {"", *blocks}}


def _is_stand_in(entry: Entry) -> bool:
    return isinstance(entry, CustomEntry) and entry.kind == _LEFT_OUT


def restore_log(session: Session, text: str, messages: Sequence[Message]) -> bool:
    """Restores a log in a session without entries. `messages` is the host's whole list.

    Returns False where the list does not begin with that log's messages. Of the log, only what the provider's reports
    have taught is then of use. Raises `msgspec.MsgspecError` or `RecordError` for a text that is no export of a log.
    """
    stored = msgspec.json.decode(text, type=StoredLog)
    calibration = decode_calibration(stored.calibration)
    first = next((m for m in messages if m.role != "system"), None)
    if first is None or first.origin == "harness" or stored.message_count > len(messages):
        session.conversation.use_calibration(expire_reports(calibration))
        return False
    for count, entry in list(_list_entries(stored)):
        session.sync(messages[:count])
        if entry is None:
            session.conversation.append_custom(_LEFT_OUT, b"{}")
        else:
            session.conversation.append_result(_with_known_ranges(session, entry, stored))
    session.sync(messages[: stored.message_count])
    session.conversation.use_calibration(calibration)
    if stored.usage is not None:
        session.requests.record_usage(stored.usage)
    return True


def _list_entries(stored: StoredLog) -> Iterator[tuple[int, Entry | None]]:
    """Yields the entries in order, None for one that was left out, each with the number of messages before it."""
    for number, at in enumerate(sorted((*stored.entries, *stored.left_out))):
        body = stored.entries.get(at)
        yield at - number, None if body is None else decode_entry(body)


def _with_known_ranges(session: Session, entry: Entry, stored: StoredLog) -> Entry:
    """Returns a Block that covers the messages themselves where it covered a Block that was left out."""
    if not isinstance(entry, Block):
        return entry
    left_out = set(stored.left_out)
    replacements = []
    for each in entry.replacements:
        is_gone = any(isinstance(ref, BlockPart) and ref.block in left_out for ref in each.covered_ranges)
        known = session.view.get_slice(each.first, each.last) if is_gone else None
        replacements.append(replace(each, covered_ranges=known or each.covered_ranges))
    return replace(entry, replacements=tuple(replacements), previous_block=session.conversation.find_newest_block_id())
