"""The writer of the preset `clip`: it writes a range as batches, which are added to those of earlier compactions.

Each chunk becomes one batch. Earlier batches are given to the model as context only and are never written again. If a
level of the omitted middle holds more than `MAX_LEVEL_BATCHES` batches, a parent batch replaces them in the archive;
the sources stay in the log. The resulting text is the clip-archive: the earliest and the latest batches.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tenfold.record.ask import Answer, Ask, Summarize
from tenfold.record.block import OWN, Batch, Keep, Rung, Slot, Spent
from tenfold.record.message import Message, calls_of, text_of
from tenfold.summarize.batches import fitted, parse_rendered, rendered, standing, tidy
from tenfold.summarize.ladder import Written, added
from tenfold.summarize.parse import narrative
from tenfold.summarize.summarize import Task, clean, write
from tenfold.summarize.writer import Effect, Job
from tenfold.view.units import Unit
from tenfold.wire.marks import summary_text

BUFFER = 2
"""Batches that a level of the middle may hold. With those shown, this is the published `clip_first + clip_last + 2`."""
LEAST_BATCH = 150
"""Tokens of the smallest useful batch. If the shown batches cannot have as many each, fewer are shown."""
FLOOR_MESSAGES, FLOOR_TOKENS = 2, 1_000
"""Smallest chunk after time-outs, in messages and in tokens."""
_RUNGS: tuple[Rung, ...] = ("none", "model", "stricter", "next_model", "extractive", "mechanical")

Told = tuple[Slot, Batch]
Items = tuple[tuple[int, Message], ...]


class Stretch(Struct, frozen=True):
    """One unit to be summarized: its last position, its messages, and the tokens of their content."""

    last: int
    items: Items
    tokens: int = 0


class Text(Struct, frozen=True):
    """An earlier summary, up to position `last`, that no archive of this log holds."""

    last: int
    text: str


class Folding(Struct, frozen=True):
    """The writer of `clip`.

    A chunk has at most `chunk_size` messages or, if it is set, `max_chunk_tokens`; a unit is never split. A batch takes
    at most `max_summary_tokens`. The archive shows the earliest `clip_first` and the latest `clip_last` batches. After
    a call that timed out, the rest is written in chunks half as large, up to `max_retries` times.
    """

    chunk_size: int = 20
    max_summary_tokens: int = 1_024
    clip_first: int = 2
    clip_last: int = 2
    max_chunk_tokens: int = 0
    max_retries: int = 2

    def write(self, job: Job) -> Effect:
        """See `Writer.write`. A failed merge is noted and left for later; a failed chunk fails the whole text."""
        builder = _Fold(self, job, told_before(job))
        yield from builder.tell(parts_of(job))
        if builder.failed:
            return Written("", builder.rung, tuple(builder.notes), builder.spent, builder.failed)
        yield from builder.merge()
        archive = [batch for _, batch in builder.told]
        text = fitted(archive, first=self.clip_first, last=self.clip_last, room=job.room, count=job.count)
        return Written(
            text,
            builder.rung,
            tuple(builder.notes),
            builder.spent,
            batches=tuple(builder.made),
            standing=tuple(slot for slot, _ in builder.told),
        )


class _Fold:
    """Builds one archive: its batches so far, those that are new, and what they cost."""

    def __init__(self, how: Folding, job: Job, told: Sequence[Told]) -> None:
        self.how, self.job = how, job
        self.told = list(told)
        self.made: list[Batch] = []
        self.notes: list[str] = []
        self.rung: Rung = "none"
        self.spent = Spent()
        self.failed = ""
        self.cycle = max((b.cycle for _, b in told), default=0) + 1
        shown_count = how.clip_first + how.clip_last
        share = (job.room - 40 - 60 * shown_count) // shown_count if shown_count else how.max_summary_tokens
        self.allotment = max(LEAST_BATCH, min(how.max_summary_tokens, share))
        self.cursor = max((b.last for _, b in told), default=job.piece.first - 1) + 1

    def add(self, batch: Batch) -> Told:
        """Adds a new batch and returns it with the slot it will have."""
        self.made.append(batch)
        return Slot(OWN, len(self.made) - 1), batch

    def tell(self, parts: Sequence[list[Stretch] | Text]) -> Generator[tuple[Ask, ...], tuple[Answer, ...], None]:
        """Writes a batch for each chunk, oldest first, and takes over each earlier summary as it is."""
        end = self.job.piece.last
        if self.job.supplied:
            items = tuple(item for part in parts if isinstance(part, list) for unit in part for item in unit.items)
            self._put(items, end, clean(self.job.supplied))
            return
        for number, part in enumerate(parts, 1):
            if isinstance(part, Text):
                self._take_over(part.text, part.last if number < len(parts) else end)
            elif not self.failed:
                yield from self._tell(part, part[-1].last if number < len(parts) else end)

    def _tell(self, units: list[Stretch], until: int) -> Generator[tuple[Ask, ...], tuple[Answer, ...], None]:
        """Writes chunk after chunk, the last one up to `until`. After a time-out the chunks get smaller."""
        size, budget, retries = self.how.chunk_size, self.how.max_chunk_tokens, self.how.max_retries
        remaining = units
        while remaining:
            chunks = chunked(remaining, size=size, budget=budget, most=self._bound())
            items = tuple(item for unit in chunks[0] for item in unit.items)
            written, is_late = yield from _watched(self._effort(items))
            self._spend(written)
            if written.failed and is_late and retries:
                retries -= 1
                size, budget = max(FLOOR_MESSAGES, size // 2), max(FLOOR_TOKENS, budget // 2) if budget else 0
                self.notes.append(f"no answer in time: {len(remaining)} units are told in chunks half as large")
                continue
            if written.failed:
                self.failed = written.failed
                return
            last = chunks[0][-1].last
            remaining = remaining[len(chunks[0]) :]
            self.rung = max(self.rung, written.rung, key=_RUNGS.index)
            self._put(items, last if remaining else until, written.text)

    def _bound(self) -> int:
        models = self.job.settings.models
        return self.job.settings.input_bound(models[0], self.allotment) if models else 0

    def _effort(self, items: Items) -> Effect:
        job = self.job
        tokens = sum(job.count([_content(message) for _, message in items]))
        task = Task(
            items,
            job.facts,
            allotment=max(LEAST_BATCH // 2, min(self.allotment, tokens)),
            purpose="batch",
            focus=job.focus,
            context=self._context(),
        )
        return write(task, job.settings, job.count)

    def _context(self) -> str:
        """Renders the archive so far, as it would be shown, as context for the next chunk."""
        if not self.told:
            return ""
        return rendered([b for _, b in self.told], first=self.how.clip_first, last=max(1, self.how.clip_last))

    def _put(self, items: Items, last: int, text: str) -> None:
        times = [self.job.view.path.at(at).time for at in (items[0][0], items[-1][0])] if items else [None, None]
        batch = Batch(tidy(text), 0, self.cursor, last, times[0], times[1], len(items), (), self.cycle)
        self.told.append(self.add(batch))
        self.cursor = last + 1

    def _take_over(self, text: str, until: int) -> None:
        """Takes over batches from a summary left in view by another policy, or by a log that is not at hand."""
        parsed = parse_rendered(text)
        self.cycle = max((self.cycle, *(batch.cycle + 1 for batch in parsed)))
        own = Batch(tidy(text), 0, self.cursor, until, count=until - self.cursor + 1, cycle=self.cycle)
        for batch in parsed or (own,):
            self.told.append(self.add(replace(batch, first=self.cursor, last=until)))
        self.cursor = until + 1

    def _spend(self, written: Written) -> None:
        self.notes.extend(written.notes)
        if written.spent.calls:
            self.spent = added(self.spent, written.spent)

    # -- merging -------------------------------------------------------------------------------------------------------

    def merge(self) -> Generator[tuple[Ask, ...], tuple[Answer, ...], None]:
        """Puts parents over full levels of the middle, the lowest level first, until none is full."""
        while (level := full_level([b for _, b in self.told], self.how)) is not None:
            first, last = level
            last = self._within(first, last)
            retries = self.how.max_retries
            while True:
                sources = self.told[first:last]
                written, is_late = yield from _watched(self._merging([b for _, b in sources]))
                self._spend(written)
                if not (written.failed and is_late and retries and last - first > FLOOR_MESSAGES):
                    break
                retries, last = retries - 1, first + max(FLOOR_MESSAGES, (last - first) // 2)
            if written.failed:
                self.notes.append(f"{last - first} batches are merged another time: {written.failed}")
                return
            self.rung = max(self.rung, written.rung, key=_RUNGS.index)
            self.told[first:last] = [self.add(parent(sources, tidy(written.text), self.cycle))]

    def _within(self, first: int, last: int) -> int:
        """Returns the end of the slice that the model can be sent; it holds at least two batches."""
        bound = self._bound() * 3 // 4
        sizes = self.job.count([b.text for _, b in self.told[first:last]])
        while bound and last - first > FLOOR_MESSAGES and sum(sizes[: last - first]) > bound:
            last -= 1
        return last

    def _merging(self, sources: Sequence[Batch]) -> Effect:
        job = self.job
        tokens = sum(job.count([b.text for b in sources]))
        task = Task(
            (),
            job.facts,
            allotment=max(LEAST_BATCH // 2, min(self.how.max_summary_tokens, tokens * 2 // 3)),
            purpose="merge",
            focus=job.focus,
            parts=tuple(b.text for b in sources),
        )
        return write(task, job.settings, job.count)


def parent(sources: Sequence[Told], text: str, cycle: int) -> Batch:
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


def full_level(archive: Sequence[Batch], how: Folding) -> tuple[int, int] | None:
    """Returns the lowest full level of the omitted middle, as a slice of neighbouring batches; None if none is full.

    A level holds batches of equal depth, so the depth grows with the logarithm of the number of messages.
    """
    first, last = how.clip_first, len(archive) - how.clip_last
    runs: list[tuple[int, int]] = []
    start = first
    for index in range(first, last):
        if archive[index].depth != archive[start].depth:
            start = index
        if index + 1 == last or archive[index + 1].depth != archive[start].depth:
            runs.append((start, index + 1))
    full = [run for run in runs if run[1] - run[0] > BUFFER]
    return min(full, key=lambda run: archive[run[0]].depth, default=None)


def told_before(job: Job) -> list[Told]:
    """Returns the batches of the archives in the range, oldest first."""
    return [entry for unit in job.piece.units for entry in _archive(job, unit)]


def _archive(job: Job, unit: Unit) -> tuple[Told, ...]:
    return standing(job.view.path, unit.ref.block) if unit.ref is not None else ()


def parts_of(job: Job) -> list[list[Stretch] | Text]:
    """Splits the range, in order, into units to be summarized and earlier summaries to be taken over, without archives.

    Messages that stood verbatim beside an archive, and no longer do, are summarized with the messages after them.
    """
    out: list[list[Stretch] | Text] = []
    kept_positions = {show.position for show in job.piece.show if isinstance(show, Keep)}
    items: list[tuple[int, Message]] = []
    for unit in job.piece.units:
        texts: list[str] = []
        for shown in unit.shown:
            text = summary_text(text_of(shown.message)) if shown.message.origin == "tenfold" else None
            if text is not None:
                texts.append(narrative(text))
            elif not (shown.original and shown.at in kept_positions):
                at = shown.at if shown.original else unit.first
                items.append((at if shown.of is None else shown.of, shown.message))
        has_archive = bool(_archive(job, unit))
        if items and not has_archive:
            size = sum(job.count([_content(message) for _, message in items]))
            if not out or isinstance(out[-1], Text):
                out.append([])
            group = out[-1]
            assert isinstance(group, list)
            group.append(Stretch(unit.last, tuple(items), size))
            items = []
        if any(texts) and not has_archive:
            out.append(Text(unit.last, "\n\n".join(t for t in texts if t)))
    return out


def _content(message: Message) -> str:
    return "\n".join((text_of(message), *(call.arguments for call in calls_of(message))))


def chunked(units: Sequence[Stretch], *, size: int, budget: int = 0, most: int = 0) -> list[list[Stretch]]:
    """Splits units into chunks: greedily within `budget` tokens, or else within `size` messages and `max_tokens`.

    A unit larger than that is a chunk of its own.
    """
    out: list[list[Stretch]] = []
    messages = tokens = 0
    bound = budget or most
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


def _watched(effort: Effect) -> Generator[tuple[Ask, ...], tuple[Answer, ...], tuple[Written, bool]]:
    """Runs a writing and tells whether one of its Asks timed out.

    A late call is not repeated as it is: smaller chunks are tried instead.
    """
    is_late = False
    answers: tuple[Answer, ...] | None = None
    while True:
        try:
            asks = next(effort) if answers is None else effort.send(answers)
        except StopIteration as stop:
            written: Written = stop.value
            return written, is_late
        answers = yield tuple(replace(ask, repeat_late=False) if isinstance(ask, Summarize) else ask for ask in asks)
        is_late = is_late or any(answer.timed_out for answer in answers)
