"""The writer of the preset `clip`: it writes a range as batches, which are added to those of earlier compactions.

Each chunk becomes one batch. Earlier batches are given to the model as context only and are never written again. If
more batches stand than are shown and `MERGE_BUFFER`, one parent takes the place of the omitted middle in the archive;
the sources stay in the log. The resulting text is the clip-archive: the earliest and the latest batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.facts.parse import get_text_before_facts
from tenfold.compaction.summarize.asking import clean_text
from tenfold.compaction.summarize.ladder import (
    RUNGS,
    Asking,
    SummaryResult,
    SummarySettings,
    SummaryTask,
    WritingGenerator,
)
from tenfold.compaction.summarize.write import write_summary
from tenfold.compaction.summarize.writer import WritingJob, read_units
from tenfold.core.record.ask import Answer, SummaryAsk
from tenfold.core.record.block import (
    OWN_BLOCK,
    Batch,
    Batches,
    ModelCost,
    Rung,
    Slot,
    add_costs,
    format_time,
    resolve_slot,
)
from tenfold.core.record.message import Message, get_text, get_tool_calls
from tenfold.core.view.units import Unit
from tenfold.designs.clip.batches import (
    ARCHIVE_START,
    escape_archive_marks,
    fit_archive,
    list_restored_batches,
    parse_archive,
    render_archive,
    select_stored_batches,
)
from tenfold.designs.clip.fold_stage import BATCHES
from tenfold.designs.clip.prompt import BATCH_PROMPT

MERGE_BUFFER = 2
"""Batches that may stand besides those that are shown. One more, and the middle is merged, as published."""
MAX_LEVEL_BATCHES = 2
"""Batches of equal depth that a parent over the middle has as sources. One more, and they get a parent of their own."""
MIN_BATCH_TOKENS = 150
"""Tokens of the smallest useful batch, unless fewer are set. If the shown ones cannot have as many, fewer are shown."""
MIN_CHUNK_MESSAGES, MIN_CHUNK_TOKENS = 2, 1_000
"""Smallest chunk after time-outs, in messages and in tokens."""

SlotBatch = tuple[Slot, Batch]
Items = tuple[tuple[int, Message], ...]


class UnitMessages(Struct, frozen=True):
    """One unit to be summarized: its last position, its messages, and the tokens of their content."""

    last: int
    items: Items
    tokens: int = 0


class EarlierSummary(Struct, frozen=True):
    """An earlier summary, up to position `last`, that no archive of this log holds."""

    last: int
    text: str


class _MergedBatches(Struct, frozen=True):
    """A parent, in place of the batches `first` to `last` (exclusive) of a middle."""

    first: int
    last: int
    parent: SlotBatch


class BatchWriter(Struct, frozen=True):
    """The writer of `clip`.

    A chunk has at most `chunk_size` messages or, if it is set, `max_chunk_tokens`; a unit is never split. A batch takes
    at most `max_summary_tokens`. The archive shows the earliest `clip_first` and the latest `clip_last` batches. After
    a call that timed out, the rest is written in chunks half as large, up to `max_retries` times. `prompt` takes the
    place of the packaged one. `restored` are the batches of a user's archive that this log does not know. Its first
    archive begins with those of them that tell each message once, and takes the others over so that no label is used
    twice.
    """

    chunk_size: int = 20
    max_summary_tokens: int = 1_024
    clip_first: int = 2
    clip_last: int = 2
    max_chunk_tokens: int = 0
    max_retries: int = 2
    prompt: str = ""
    restored: tuple[Batch, ...] = ()
    kind: ClassVar[str] = BATCHES
    search_tool: ClassVar[str] = "memory_read"

    def get_settings(self, settings: SummarySettings) -> SummarySettings:
        """Returns the settings for one batch, with the prompt for it."""
        return replace(settings, first=self.prompt or BATCH_PROMPT)

    def write(self, job: WritingJob) -> WritingGenerator:
        """See `Writer.write`. A failed merge is noted and left for later; a failed chunk fails the whole text."""
        parts = split_parts(job)
        builder = _ArchiveBuilder(self, job, parts)
        yield from builder.write_parts(parts)
        if builder.failure:
            return SummaryResult("", builder.rung, tuple(builder.notes), builder.spent, builder.failure)
        yield from builder.merge_middle()
        archive = [batch for _, batch in builder.batches]
        text = fit_archive(archive, first=self.clip_first, last=self.clip_last, budget=job.budget, count=job.count)
        return SummaryResult(
            text,
            builder.rung,
            tuple(builder.notes),
            builder.spent,
            batches=Batches(tuple(builder.new_batches), tuple(slot for slot, _ in builder.batches)),
        )


class _ArchiveBuilder:
    """Builds one archive: its batches so far, those that are new, and what they cost."""

    def __init__(
        self, writer: BatchWriter, job: WritingJob, parts: Sequence[list[UnitMessages] | EarlierSummary]
    ) -> None:
        self.writer, self.job = writer, job
        self.batches = list_earlier_batches(job)
        self.new_batches: list[Batch] = []
        self.notes: list[str] = []
        self.rung: Rung = "none"
        self.spent = ModelCost()
        self.failure = ""
        parsed = [parse_archive(part.text) for part in parts if isinstance(part, EarlierSummary)]
        restored = writer.restored if job.redone is None else list_restored_batches(job.redone)
        self.restored = restored if not self.batches else ()
        earlier = [*(batch for _, batch in self.batches), *self.restored, *chain.from_iterable(parsed)]
        self.cycle = max((batch.cycle for batch in earlier), default=0) + 1
        shown_count = writer.clip_first + writer.clip_last
        share = (job.budget - 40 - 60 * shown_count) // shown_count if shown_count else writer.max_summary_tokens
        self.allotment = min(writer.max_summary_tokens, max(MIN_BATCH_TOKENS, share))
        self.next_position = max((b.last for _, b in self.batches), default=job.piece.first - 1) + 1
        path = job.view.path
        blocks = (path.get_block(position) for position in job.view.state.live_blocks)
        self.serials: dict[str, int] = {}
        for block in blocks:
            for batch in block.batches:
                self._record_serial(batch)
        told_once = {batch.archive_id for batch in select_stored_batches(self.restored)}
        for batch in self.restored:
            added = self._put_new(replace(batch, first=self.next_position, last=self.next_position - 1))
            if batch.archive_id in told_once:
                self.batches.append(added)

    def add_batch(self, batch: Batch) -> SlotBatch:
        """Adds a new batch, with the next serial number of its time, and returns it with the slot it will have."""
        return self._put_new(replace(batch, serial=self.serials.get(format_time(batch.end), 0) + 1))

    def _put_new(self, batch: Batch) -> SlotBatch:
        self._record_serial(batch)
        self.new_batches.append(batch)
        return Slot(OWN_BLOCK, len(self.new_batches) - 1), batch

    def _record_serial(self, batch: Batch) -> None:
        end = format_time(batch.end)
        self.serials[end] = max(self.serials.get(end, 0), batch.serial)

    def write_parts(self, parts: Sequence[list[UnitMessages] | EarlierSummary]) -> Asking[None]:
        """Writes a batch for each chunk, oldest first, and takes over each earlier summary as it is."""
        end = self.job.piece.last
        if self.job.supplied_text:
            items = tuple(item for part in parts if isinstance(part, list) for unit in part for item in unit.items)
            self._put_batch(items, end, clean_text(self.job.supplied_text))
            return
        for number, part in enumerate(parts, 1):
            if self.failure:
                return
            if isinstance(part, EarlierSummary):
                yield from self._import_summary(part.text, part.last if number < len(parts) else end)
            else:
                yield from self._write_chunks(part, part[-1].last if number < len(parts) else end)

    def _write_chunks(self, units: list[UnitMessages], until: int) -> Asking[None]:
        """Writes chunk after chunk, the last one up to `until`. After a time-out the chunks get smaller."""
        size, budget, retries = self.writer.chunk_size, self.writer.max_chunk_tokens, self.writer.max_retries
        remaining = units
        while remaining:
            chunks = split_chunks(remaining, size=size, budget=budget, max_tokens=self._get_input_limit())
            items = tuple(item for unit in chunks[0] for item in unit.items)
            written, is_late = yield from _watch_timeouts(self._write_chunk(items))
            self._add_cost(written)
            if written.failure and is_late and retries:
                retries -= 1
                size, budget = max(MIN_CHUNK_MESSAGES, size // 2), max(MIN_CHUNK_TOKENS, budget // 2) if budget else 0
                self.notes.append(f"no answer in time: {len(remaining)} units are told in chunks half as large")
                continue
            if written.failure:
                self.failure = written.failure
                return
            last = chunks[0][-1].last
            remaining = remaining[len(chunks[0]) :]
            self.rung = max(self.rung, written.rung, key=RUNGS.index)
            self._put_batch(items, last if remaining else until, written.text)

    def _get_input_limit(self) -> int:
        models = self.job.settings.models
        return self.job.settings.get_input_limit(models[0], self.allotment) if models else 0

    def _write_chunk(self, items: Items) -> WritingGenerator:
        job = self.job
        task = SummaryTask(
            items, job.facts, allotment=self.allotment, purpose="batch", focus=job.focus, context=self._render_context()
        )
        return write_summary(task, self.writer.get_settings(job.settings), job.count)

    def _render_context(self) -> str:
        """Renders the archive so far, as it would be shown, as context for the next chunk."""
        if not self.batches:
            return ""
        return render_archive(
            [b for _, b in self.batches], first=self.writer.clip_first, last=max(1, self.writer.clip_last)
        )

    def _put_batch(self, items: Items, last: int, text: str) -> None:
        times = [self.job.view.path.get_entry(at).time for at in (items[0][0], items[-1][0])] if items else [None, None]
        batch = Batch(
            escape_archive_marks(text), 0, self.next_position, last, times[0], times[1], len(items), (), self.cycle
        )
        self.batches.append(self.add_batch(batch))
        self.next_position = last + 1

    def _import_summary(self, text: str, until: int) -> Asking[None]:
        """Takes over batches from a summary left in view by another policy, or by a log that is not at hand.

        What an archive shows is not taken twice: restored batches hold it. Any other summary becomes one batch, and is
        written again if it is larger than a batch may be.
        """
        parsed = parse_archive(text)
        if self.restored and text.startswith(ARCHIVE_START):
            return
        if not parsed and self.job.count([text])[0] > self.writer.max_summary_tokens:
            written = yield from self._merge_texts((text,))
            self._add_cost(written)
            self.failure = written.failure
            if self.failure:
                return
            self.rung, text = max(self.rung, written.rung, key=RUNGS.index), written.text
        own = Batch(
            escape_archive_marks(text),
            0,
            self.next_position,
            until,
            count=until - self.next_position + 1,
            cycle=self.cycle,
        )
        for batch in parsed or (own,):
            self.batches.append(self.add_batch(replace(batch, first=self.next_position, last=until)))
        self.next_position = until + 1

    def _add_cost(self, written: SummaryResult) -> None:
        self.notes.extend(written.notes)
        if written.spent.calls:
            self.spent = add_costs(self.spent, written.spent)

    # -- merging -------------------------------------------------------------------------------------------------------

    def merge_middle(self) -> Asking[None]:
        """Puts one parent over the omitted middle if more batches stand than are shown and `MERGE_BUFFER`.

        The parent of the last time is not merged again but opened: the new one is written from its sources. Of those,
        three of equal depth get a parent of their own first, so depth grows with the logarithm of what was said.
        """
        first, last = self.writer.clip_first, len(self.batches) - self.writer.clip_last
        if last - first <= MERGE_BUFFER:
            return
        middle = self._open_parent(self.batches[first:last])
        while len(middle) > 1:
            level = find_full_level([batch for _, batch in middle]) or (0, len(middle))
            merged = yield from self._merge(middle, *level)
            if not merged:
                return
            middle[merged.first : merged.last] = [merged.parent]
            self.batches[first : len(self.batches) - self.writer.clip_last] = middle

    def _open_parent(self, middle: list[SlotBatch]) -> list[SlotBatch]:
        """Returns a middle with the sources of its first batch in place of it, unless they are a level of their own."""
        (slot, oldest), later = middle[0], middle[1:]
        sources = [self._get_source(slot, source) for source in oldest.sources]
        is_closed = not sources or find_full_level([batch for _, batch in sources]) is not None
        return middle if is_closed else [*sources, *later]

    def _get_source(self, parent: Slot, source: Slot) -> SlotBatch:
        if parent.block == OWN_BLOCK:
            return source, self.new_batches[source.index]
        slot = resolve_slot(source, parent.block)
        return slot, self.job.view.path.get_batch(slot)

    def _merge(self, middle: Sequence[SlotBatch], first: int, last: int) -> Asking[_MergedBatches | None]:
        """Writes a parent over a slice of the middle, or over its beginning. Returns None if no model could."""
        last = self._limit_to_input(middle, first, last)
        retries = self.writer.max_retries
        while True:
            sources = middle[first:last]
            written, is_late = yield from _watch_timeouts(self._merge_texts([b.text for _, b in sources]))
            self._add_cost(written)
            if not (written.failure and is_late and retries and last - first > MIN_CHUNK_MESSAGES):
                break
            retries, last = retries - 1, first + max(MIN_CHUNK_MESSAGES, (last - first) // 2)
        if written.failure:
            self.notes.append(f"{last - first} batches are merged another time: {written.failure}")
            return None
        self.rung = max(self.rung, written.rung, key=RUNGS.index)
        parent = self.add_batch(build_parent(sources, escape_archive_marks(written.text), self.cycle))
        return _MergedBatches(first, last, parent)

    def _limit_to_input(self, middle: Sequence[SlotBatch], first: int, last: int) -> int:
        """Returns the end of the slice that the model can be sent; it holds at least two batches."""
        bound = self._get_input_limit() * 3 // 4
        sizes = self.job.count([b.text for _, b in middle[first:last]])
        while bound and last - first > MIN_CHUNK_MESSAGES and sum(sizes[: last - first]) > bound:
            last -= 1
        return last

    def _merge_texts(self, texts: Sequence[str]) -> WritingGenerator:
        job = self.job
        tokens = sum(job.count(texts))
        task = SummaryTask(
            (),
            job.facts,
            allotment=min(self.writer.max_summary_tokens, max(MIN_BATCH_TOKENS // 2, tokens * 2 // 3)),
            purpose="merge",
            focus=job.focus,
            parts=tuple(texts),
        )
        return write_summary(task, job.settings, job.count)


def build_parent(sources: Sequence[SlotBatch], text: str, cycle: int) -> Batch:
    """Builds the parent of these batches: one deeper than the deepest, from the first's start to the last's end."""
    batches = [batch for _, batch in sources]
    return Batch(
        text,
        max(b.depth for b in batches) + 1,
        batches[0].first,
        batches[-1].last,
        batches[0].start,
        batches[-1].end,
        sum(b.count for b in batches),
        tuple(slot for slot, _ in sources),
        cycle,
    )


def find_full_level(batches: Sequence[Batch]) -> tuple[int, int] | None:
    """Returns the lowest full level among batches, as a slice of neighbours of equal depth; None if none is full."""
    runs: list[tuple[int, int]] = []
    start = 0
    for index, batch in enumerate(batches):
        if batch.depth != batches[start].depth:
            start = index
        if index + 1 == len(batches) or batches[index + 1].depth != batch.depth:
            runs.append((start, index + 1))
    full = [run for run in runs if run[1] - run[0] > MAX_LEVEL_BATCHES]
    return min(full, key=lambda run: batches[run[0]].depth, default=None)


def list_earlier_batches(job: WritingJob) -> list[SlotBatch]:
    """Returns the batches of the archives in the range, oldest first."""
    return [entry for unit in job.piece.units for entry in _list_archive(job, unit)]


def _list_archive(job: WritingJob, unit: Unit) -> tuple[SlotBatch, ...]:
    return job.view.path.list_top_batches(unit.block_part.block) if unit.block_part is not None else ()


def split_parts(job: WritingJob) -> list[list[UnitMessages] | EarlierSummary]:
    """Splits the range, in order, into units to be summarized and earlier summaries to be taken over, without archives.

    Messages that stood verbatim beside an archive, and no longer do, are summarized with the messages after them.
    """
    out: list[list[UnitMessages] | EarlierSummary] = []
    items: list[tuple[int, Message]] = []
    for unit, sources in read_units(job.piece):
        texts: list[str] = []
        for source in sources:
            if source.summary is not None:
                texts.append(get_text_before_facts(source.summary))
            elif not source.is_kept:
                is_from_block = source.position > unit.last  # it stands for the whole unit
                items.append((unit.first if is_from_block else source.position, source.message))
        has_archive = bool(_list_archive(job, unit))
        if items and not has_archive:
            size = sum(job.count([_get_content(message) for _, message in items]))
            if not out or isinstance(out[-1], EarlierSummary):
                out.append([])
            group = out[-1]
            assert isinstance(group, list)
            group.append(UnitMessages(unit.last, tuple(items), size))
            items = []
        if any(texts) and not has_archive:
            out.append(EarlierSummary(unit.last, "\n\n".join(t for t in texts if t)))
    return out


def _get_content(message: Message) -> str:
    return "\n".join((get_text(message), *(call.arguments for call in get_tool_calls(message))))


def split_chunks(
    units: Sequence[UnitMessages], *, size: int, budget: int = 0, max_tokens: int = 0
) -> list[list[UnitMessages]]:
    """Splits units into chunks: greedily within `budget` tokens, or else within `size` messages and `max_tokens`.

    A unit larger than that is a chunk of its own.
    """
    out: list[list[UnitMessages]] = []
    messages = tokens = 0
    bound = budget or max_tokens
    for unit in units:
        is_over = bool(bound) and tokens + unit.tokens > bound
        is_over = is_over or (not budget and messages + len(unit.items) > size)
        if is_over or not out:
            out.append([])
            messages = tokens = 0
        out[-1].append(unit)
        messages += len(unit.items)
        tokens += unit.tokens
    return out


def _watch_timeouts(writing: WritingGenerator) -> Asking[tuple[SummaryResult, bool]]:
    """Runs a writing and tells whether one of its Asks timed out.

    A late call is not repeated as it is: smaller chunks are tried instead.
    """
    is_late = False
    answers: tuple[Answer, ...] | None = None
    while True:
        try:
            asks = next(writing) if answers is None else writing.send(answers)
        except StopIteration as stop:
            written: SummaryResult = stop.value
            return written, is_late
        answers = yield tuple(
            replace(ask, can_retry_timeout=False) if isinstance(ask, SummaryAsk) else ask for ask in asks
        )
        is_late = is_late or any(answer.timed_out for answer in answers)
