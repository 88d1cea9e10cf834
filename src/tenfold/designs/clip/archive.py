"""Keeps the batches of the preset `clip` in a memory, where they can be read and searched.

By default the memory is the log itself, which holds every batch. A user's own can receive each batch as well, before
its Block is appended. If the Block is not appended after all, its batches are deleted there, and so they are once it is
undone or written again, or a host changes a message so that its branch is left. Nothing else removes anything from it.

The log notes which Block is about to be archived (`_build_note_id`). So batches of a pass whose process was killed are
known for what they are, and the first pass of the next process deletes them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol, cast, runtime_checkable

from msgspec import Struct
from msgspec.structs import replace

from tenfold.core.record.block import Batch, Block, format_batch
from tenfold.core.view.fold import View
from tenfold.core.view.path import Path
from tenfold.designs.clip.batches import LABEL_START, format_label, parse_stored_batch
from tenfold.errors import NotFoundError
from tenfold.session import Session
from tenfold.session.concurrency import wait_for_result
from tenfold.session.conversation import Conversation
from tenfold.store.base import MAIN, Store
from tenfold.store.search.entry_text import fold_text
from tenfold.store.search.terms import parse_question
from tenfold.store.sql.word_search import match_words, parse_query

MEMORY_TIER = "archival"
"""The memory tier of all batches."""
ARCHIVE_REASON, MERGE_REASON = "Archived during context compaction", "Re-summarized during context compaction"
"""Why a batch was written: it summarizes messages, or it merges other batches."""

ARCHIVING = "tenfold.archiving"
"""The kind of the entry that notes that a Block's batches are about to be written to a user's archive."""


class ArchiveRecord(Struct, frozen=True):
    """A batch as an archive keeps it.

    `id` is `<block id>/<index>` and unique. `label` is for people and may repeat. `content` is the published form, a
    header line and the summary; `batch` holds the same in typed fields.
    """

    id: str
    label: str
    content: str
    conversation: str
    batch: Batch
    reason: str = ARCHIVE_REASON
    tier: str = MEMORY_TIER


@runtime_checkable
class BatchMemory(Protocol):
    """A store of batches. Each method may be a coroutine function. `write` may be called twice with the same id.

    A store that keeps nothing but labels and contents gives records back with `parse_record`.
    """

    def write(self, record: ArchiveRecord) -> bool | Awaitable[bool]:
        """Stores a batch and returns True. Any other result, or an exception, makes the whole compaction fail."""
        ...

    def read(self, id: str) -> ArchiveRecord | Awaitable[ArchiveRecord | None] | None:
        """Returns the batch with that id, None if there is none."""
        ...

    def search(self, words: str, *, limit: int = 20) -> Sequence[ArchiveRecord] | Awaitable[Sequence[ArchiveRecord]]:
        """Returns the batches that hold all the words, best first."""
        ...

    def list_records(self, conversation: str) -> Sequence[ArchiveRecord] | Awaitable[Sequence[ArchiveRecord]]:
        """Returns all batches of a conversation in the order in which they were written."""
        ...

    def delete(self, id: str) -> object:
        """Removes a batch whose compaction failed afterwards, or does not stand any more."""
        ...


class BatchArchive:
    """Keeps a session's batches in a user's memory: what `Session(..., archive=)` takes, and the settings name."""

    def __init__(self, memory: BatchMemory) -> None:
        self.memory = memory
        self._clean: set[tuple[str, str]] = set()

    def receive(self, session: Conversation, block: Block) -> str:
        """Writes a Block's batches to the memory. Returns why it refused one, "" if it took all.

        After a refusal none of them stays. The log notes the Block first, since the process may be killed before that
        is appended. Batches that came from the memory are not written again.
        """
        session.append_custom(ARCHIVING, b"{}", run=block.run, id=_build_note_id(block.id))
        return self._write_batches(session, block)

    def finish(self, session: Conversation, block: Block, *, is_appended: bool) -> str:
        """Deletes the batches of a Block that was not appended, else what earlier processes left of such Blocks."""
        if not is_appended:
            return self._delete(_list_own_records(block, session.address.session))
        name = session.address.namespace, session.address.session
        if name in self._clean:
            return ""
        problem = self._delete_strays(get_memory(session))
        if not problem:
            self._clean.add(name)
        return problem

    def follow(self, session: Conversation, before: View) -> str:
        """Deletes what no longer stands and writes what stands again.

        Nothing is deleted that stands on another head of the conversation, whose views are asked for only then.
        """
        old, new, name = list_standing_blocks(before), list_standing_blocks(session.view), session.address.session
        kept, standing = {block.id for block in old}, {block.id for block in new}
        gone = [block for block in old if block.id not in standing and block.batches]
        others = session.list_other_views() if gone else []
        elsewhere = {block.id for view in others for block in list_standing_blocks(view)}
        problems = [self._delete(_list_own_records(block, name)) for block in gone if block.id not in elsewhere]
        problems += [self._write_batches(session, block) for block in new if block.id not in kept]
        return "; ".join(filter(None, problems))

    def _write_batches(self, session: Conversation, block: Block) -> str:
        records = _list_own_records(block, session.address.session)
        for number, record in enumerate(records, 1):
            reply = call_archive(partial(self.memory.write, record))
            if reply.value is True:
                continue
            problem = reply.problem or f"its write gave {reply.value!r}, and True says it is kept"
            left = self._delete(records[:number])
            return f"the archive did not take batch {record.label}: {problem}{left and '; '}{left}"
        return ""

    def _delete_strays(self, log: LogArchive) -> str:
        """Deletes the batches of a log's passes that ended without their Block, as when the process was killed.

        Another process may be about to append such a Block, so this is for after the append of one, which leaves no
        room for the other.
        """

        def list_strays() -> list[ArchiveRecord]:
            records: Any = wait_for_result(self.memory.list_records(log.session))
            own = [record for record in records if record.conversation == log.session and log.has_made(record.id)]
            return [record for record in own if log.read(record.id) is None]

        reply = call_archive(list_strays)
        if reply.problem:
            return f"the archive could not be looked through for batches of no compaction: {reply.problem}"
        return self._delete(cast("list[ArchiveRecord]", reply.value))

    def _delete(self, records: Sequence[ArchiveRecord]) -> str:
        """Deletes records. Returns which are left, "" if none is: a batch that was never kept may have no delete."""
        problems: list[str] = []
        for record in records:
            problem = call_archive(partial(self.memory.delete, record.id)).problem
            if problem and call_archive(partial(self.memory.read, record.id)) != ArchiveReply():
                problems.append(f"batch {record.id} of no compaction is left in the archive: {problem}")
        return "; ".join(problems)


def parse_record(id: str, label: str, content: str, conversation: str) -> ArchiveRecord:
    """Builds the record of a batch from its label and content alone. Raises `BadInput` for a malformed header."""
    batch = parse_stored_batch(content)
    serial = label.removeprefix(f"{format_label(conversation, batch)}-")
    batch = replace(batch, serial=int(serial) if serial.isdecimal() else 1)
    return ArchiveRecord(id, label, content, conversation, batch, MERGE_REASON if batch.depth else ARCHIVE_REASON)


class LogArchive(Struct, frozen=True):
    """The default archive: the log itself. A batch is archived when its Block is appended."""

    store: Store
    namespace: str
    session: str

    def write(self, record: ArchiveRecord) -> bool:  # noqa: ARG002 - the Block that is about to be appended holds it
        """Does nothing, since the Block about to be appended holds the batch."""
        return True

    def read(self, id: str) -> ArchiveRecord | None:
        """Returns the batch with that id or label, even if a merge has replaced it. None if this session has none."""
        if id.startswith(LABEL_START):
            return next((record for record in self.list_records(self.session) if record.label == id), None)
        block, _, number = id.rpartition("/")
        try:
            located = self.store.locate(self.namespace, block or id)
        except NotFoundError:
            return None
        if located.session != self.session or not isinstance(located.entry, Block):
            return None
        return next(
            (a for a in build_records(located.entry, self.session) if a.id == f"{located.entry.id}/{number}"), None
        )

    def search(self, words: str, *, limit: int = 20) -> list[ArchiveRecord]:
        """Returns the batches whose stored form holds all the words, those of the best Block first.

        If none does, the words are taken for a question: the batches that hold most of what it asks about come first.
        """
        terms = parse_query(words)
        out: list[ArchiveRecord] = []
        for hit in self.store.search(self.namespace, words, session=self.session, limit=max(limit * 5, 100)):
            entry = self.store.locate(self.namespace, hit.entry).entry if hit.kind == "block" else None
            if isinstance(entry, Block):
                out.extend(a for a in build_records(entry, self.session) if match_words(a.content, terms))
        return (out or self._find_answers(words))[:limit]

    def _find_answers(self, question: str) -> list[ArchiveRecord]:
        terms = parse_question(fold_text(question))
        texts = [(record, fold_text(record.content)) for record in self.list_records(self.session)]
        held = [(sum(term in text for term in terms), record) for record, text in texts]
        return [record for count, record in sorted(held, key=lambda each: -each[0]) if count]

    def list_records(self, conversation: str) -> list[ArchiveRecord]:
        """Returns the batches of all Blocks in force, those under a merged one too. Other sessions have none here.

        Of a Block that was written again, they are those of the newer one.
        """
        if conversation != self.session:
            return []
        leaf = self.store.read_heads(self.namespace, self.session).get(MAIN)
        if leaf is None:
            return []
        length = self.store.locate(self.namespace, leaf).position + 1
        view = View.from_path(Path(self.store.read_range(self.namespace, self.session, leaf, 0, length - 1)))
        return [record for block in list_standing_blocks(view) for record in build_records(block, self.session)]

    def has_made(self, id: str) -> bool:
        """Tells whether a compaction of this log made the batch with that id, even if it failed or was undone."""
        block = id.rpartition("/")[0]
        return self._has_entry(block) or self._has_entry(_build_note_id(block))

    def _has_entry(self, id: str) -> bool:
        try:
            located = self.store.locate(self.namespace, id)
        except NotFoundError:
            return False
        return located.session == self.session and located.entry.id == id

    def delete(self, id: str) -> None:
        """Does nothing, since the Block of a failed compaction was never appended."""


def get_memory(session: Session | Conversation) -> LogArchive:
    """Returns a session's own log as an archive."""
    return LogArchive(session.address.store, session.address.namespace, session.address.session)


def _build_note_id(block: str) -> str:
    """Builds the id of the entry of kind `ARCHIVING` for a Block."""
    return f"batches-of-{block}"


def list_standing_blocks(view: View) -> list[Block]:
    """Returns the Blocks in force, oldest first, without those that were written again."""
    blocks = [view.path.get_block(position) for position in view.state.live_blocks]
    redone = {block.redone_block for block in blocks}
    return [block for block in blocks if block.id not in redone]


def build_records(block: Block, conversation: str) -> Iterator[ArchiveRecord]:
    """Yields the archive records of the batches that a Block adds."""
    for index, batch in enumerate(block.batches):
        reason = MERGE_REASON if batch.sources else ARCHIVE_REASON
        yield ArchiveRecord(
            f"{block.id}/{index}", format_label(conversation, batch), format_batch(batch), conversation, batch, reason
        )


def _list_own_records(block: Block, conversation: str) -> list[ArchiveRecord]:
    return [record for record in build_records(block, conversation) if not record.batch.archive_id]


class ArchiveReply(Struct, frozen=True):
    """What a call to an archive returned, or the `problem` that it raised."""

    value: object = None
    problem: str = ""


def call_archive(call: Callable[[], object]) -> ArchiveReply:
    """Calls an archive, plain or of coroutines. What it raises is a problem of the reply."""
    try:
        return ArchiveReply(wait_for_result(call()))
    except Exception as exc:  # noqa: BLE001 - an archive is a user's code, and no run may fail for one
        return ArchiveReply(problem=f"{type(exc).__name__}: {exc}")
