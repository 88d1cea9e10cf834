"""Where the batches of a clip-archive can be kept besides the log, and read and searched.

The log itself is the default, and is complete: a user's own memory store may receive every batch as well, before the
Block that brings it is appended. Nothing is ever taken out of an archive here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from inspect import isawaitable
from typing import Protocol, runtime_checkable

from msgspec import Struct
from msgspec.structs import replace

from tenfold.errors import NotFound
from tenfold.log.base import Store
from tenfold.log.ids import IDS, now
from tenfold.log.words import find, parse
from tenfold.record.ask import Verdict
from tenfold.record.block import Batch, Block
from tenfold.record.entry import Attempt
from tenfold.summarize.batches import label, stored

TIER = "archival"
"""The tier of memory that batches belong to."""
ARCHIVED, MERGED = "Archived during context compaction", "Re-summarized during context compaction"
"""Why a batch is written: it tells messages, or other batches."""


class Archived(Struct, frozen=True):
    """A batch as an archive keeps it. `id` is `<block id>/<index>` and unique; `label` is for people and may recur.

    `content` is the published form: header line, then the summary. `batch` holds the same in typed fields.
    """

    id: str
    label: str
    content: str
    conversation: str
    batch: Batch
    reason: str = ARCHIVED
    tier: str = TIER


@runtime_checkable
class Archive(Protocol):
    """A store of batches. Each method may be a coroutine function; `write` may be called again with the same id."""

    def write(self, record: Archived) -> bool | Awaitable[bool]:
        """Keeps a batch. Anything but True, or an exception, is a refusal: the compaction then fails as a whole."""
        ...

    def read(self, id: str) -> Archived | Awaitable[Archived | None] | None:
        """The batch of that id, None if there is none."""
        ...

    def search(self, words: str, *, limit: int = 20) -> Sequence[Archived] | Awaitable[Sequence[Archived]]:
        """The batches that hold all the words, best first."""
        ...


class LogArchive(Struct, frozen=True):
    """The log as an archive, the default: what a Block appends is archived by that."""

    store: Store
    namespace: str
    session: str

    def write(self, record: Archived) -> bool:  # noqa: ARG002 - the Block that is about to be appended holds it
        """Nothing is left to do."""
        return True

    def read(self, id: str) -> Archived | None:
        """The batch of that id, superseded by a merge or not; None if there is none in this session."""
        block, _, number = id.rpartition("/")
        try:
            located = self.store.locate(self.namespace, block or id)
        except NotFound:
            return None
        if located.session != self.session or not isinstance(located.entry, Block):
            return None
        return next((a for a in records(located.entry, self.session) if a.id == f"{located.entry.id}/{number}"), None)

    def search(self, words: str, *, limit: int = 20) -> list[Archived]:
        """The batches whose stored form holds all the words, best Block first."""
        wanted = parse(words)
        out: list[Archived] = []
        for hit in self.store.search(self.namespace, words, session=self.session, limit=max(limit * 5, 100)):
            entry = self.store.locate(self.namespace, hit.entry).entry if hit.kind == "block" else None
            if isinstance(entry, Block):
                out.extend(a for a in records(entry, self.session) if find(a.content, wanted))
        return out[:limit]


def records(block: Block, conversation: str) -> Iterator[Archived]:
    """The batches that a Block adds, as they are archived."""
    for index, batch in enumerate(block.batches):
        reason = MERGED if batch.sources else ARCHIVED
        yield Archived(f"{block.id}/{index}", label(conversation, batch), stored(batch), conversation, batch, reason)


def refusal(archive: Archive, block: Block, conversation: str) -> str:
    """Writes a Block's batches to the archive; why it did not take one of them, "" if it took them all."""
    for record in records(block, conversation):
        try:
            taken: object = settled(archive.write(record))
        except Exception as exc:  # noqa: BLE001 - an archive is a user's code, and no run may fail for one
            return f"the archive did not take batch {record.label}: {type(exc).__name__}: {exc}"
        if taken is not True:
            return f"the archive did not take batch {record.label}: its write gave {taken!r}, and True says it is kept"
    return ""


def archived(verdict: Verdict, archive: Archive, conversation: str) -> Verdict:
    """The Verdict once the archive holds its Block's batches; a failed one, without the Block, where it refused."""
    block = verdict.entry
    why = refusal(archive, block, conversation) if isinstance(block, Block) else ""
    if not why or not isinstance(block, Block):
        return verdict
    was = verdict.outcome
    outcome = replace(was, status="failed", reason=why, tokens_after=was.tokens_before, block="", rung="", facts={})
    size = (was.tokens_before, was.target)
    return Verdict(
        outcome, Attempt(IDS.new(), None, block.run, now(), block.policy, "failed", why, *size, spent=block.spent)
    )


def settled(value: object) -> object:
    """The value itself, or what an awaitable comes to: run to its end on a thread of its own."""
    if not isawaitable(value):
        return value

    async def wait() -> object:
        return await value

    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="tenfold-archive") as pool:
        return pool.submit(asyncio.run, wait()).result()
