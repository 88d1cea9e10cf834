"""Batches of a clip-archive as text: labels, headers, and the archive as the model sees it.

The forms are those of the published design. The record holds each batch in typed fields and the texts are made from
them. They are parsed only where no log is at hand: on import.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import zip_longest

from msgspec.structs import replace

from tenfold.core.record.block import UNKNOWN_TIME, Batch, Block, format_time
from tenfold.core.text.excerpts import Count, Keep, excerpt
from tenfold.errors import BadInput

ARCHIVE_START = "[Context Summary"
"""How a clip-archive begins. `core.wire.marks.SUMMARY_HEAD` knows its first line."""
EARLIEST_HEADING, RECENT_HEADING = "## Earliest context", "## Recent context"
LABEL_START = "compaction-batch-"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z|unknown"
_HEADER = re.compile(rf"\[depth:(\d+)\|start:({_TIME})\|end:({_TIME})\|count:(\d+)\]\n(.*)", re.DOTALL)
_BATCH_LINE = re.compile(rf"^\[Batch (\d+) — depth (\d+), ({_TIME}) to ({_TIME})\]$", re.MULTILINE)
_TOTAL = re.compile(r"\[Context Summary — (\d+) messages compressed(?: across (\d+) compaction cycles?)?\]")
_ARCHIVE_MARKS = re.compile(
    r"^\[(?=Batch \d+ —|Context Summary|\.\.\. \d+ earlier summaries)|^#+ (?=(?:Earliest|Recent) context$)",
    re.MULTILINE,
)


def parse_time(text: str) -> int | None:
    """Parses a time of `format_time` into microseconds UTC; None for `UNKNOWN_TIME`, and for what is no date."""
    try:
        return (datetime.fromisoformat(text) - _EPOCH) // timedelta(microseconds=1)
    except ValueError:
        return None


def format_label(conversation: str, batch: Batch) -> str:
    """Returns the label of a batch.

    Of batches that end in the same millisecond, or at no known time, the later ones have their serial number in it.
    """
    label = f"{LABEL_START}{conversation}-{format_time(batch.end)}"
    return label if batch.serial == 1 else f"{label}-{batch.serial}"


def parse_stored_batch(content: str) -> Batch:
    """Parses a batch from its archived text, for imports. Raises `BadInput` if header or dates are malformed."""
    found = _HEADER.fullmatch(content)
    if found is None or any(format_time(parse_time(time)) != time for time in found.group(2, 3)):
        line = excerpt(content.split("\n", 1)[0], 100, Keep.START)
        raise BadInput(
            f"no batch header in {line!r}: it must be [depth:N|start:ISO|end:ISO|count:M] with times in milliseconds "
            f"and Z (or {UNKNOWN_TIME}), and the summary on the next line"
        )
    depth, start, end, count, text = found.groups()
    return Batch(text, int(depth), -1, -1, parse_time(start), parse_time(end), int(count))


def select_stored_batches(batches: Iterable[Batch]) -> list[Batch]:
    """Selects the batches that tell each message once, in order, from all that an archive kept of a conversation.

    Those that summarize messages come first. A merged one is taken only where its sources were deleted, which its times
    say: nothing else lies within them.
    """
    listed = list(batches)
    kept: list[Batch] = []
    for batch in sorted(listed, key=lambda each: each.depth):
        if not batch.depth or _is_alone(batch, kept):
            kept.append(batch)
    order = {id(batch): place for place, batch in enumerate(listed)}
    starts = [batch.start for batch in kept if batch.start is not None]
    if len(starts) == len(kept):
        return sorted(kept, key=lambda each: (each.start or 0, order[id(each)]))
    return sorted(kept, key=lambda each: order[id(each)])


def _is_alone(batch: Batch, others: Iterable[Batch]) -> bool:
    """Tells whether a batch has known times and no other one lies within them."""
    if batch.start is None or batch.end is None:
        return False
    return not any(
        other.start is not None and other.end is not None and batch.start <= other.start and other.end <= batch.end
        for other in others
    )


def list_fresh_batches(block: Block) -> list[Batch]:
    """Returns the batches that a Block made of messages: neither merged ones nor such as it took over."""
    cycle = max((batch.cycle for batch in block.batches), default=0)
    return [batch for batch in block.batches if not batch.sources and batch.cycle == cycle and not batch.archive_id]


def list_restored_batches(block: Block) -> tuple[Batch, ...]:
    """Returns the batches that a Block took over from a user's archive."""
    return tuple(batch for batch in block.batches if batch.archive_id)


def escape_archive_marks(text: str) -> str:
    """Rewrites lines of a model's text that look like lines of the archive itself."""
    return _ARCHIVE_MARKS.sub(lambda found: "(" if found.group() == "[" else "", text)


def render_archive(batches: Sequence[Batch], *, first: int, last: int) -> str:
    """Renders the clip-archive: the earliest `first` and the latest `last` batches, and how many are omitted between.

    The first line states the number of messages of all batches together, and the number of compactions that made them.
    """
    if not batches:
        return f"{ARCHIVE_START} — 0 messages compressed]"
    cycles = max(b.cycle for b in batches)
    total = sum(b.count for b in batches)
    head = (
        f"{ARCHIVE_START} — {total} messages compressed across {cycles} compaction cycle{'' if cycles == 1 else 's'}]"
    )
    numbered = [
        f"[Batch {n} — depth {b.depth}, {format_time(b.start)} to {format_time(b.end)}]\n{b.text}"
        for n, b in enumerate(batches, 1)
    ]
    if len(batches) <= first + last:
        return "\n\n".join((head, *numbered)).strip()
    omitted = f"[... {len(batches) - first - last} earlier summaries omitted, searchable via memory_read ...]"
    early = (EARLIEST_HEADING, *numbered[:first]) if first else ()
    late = (RECENT_HEADING, *numbered[len(batches) - last :]) if last else ()
    return "\n\n".join((head, *early, omitted, *late)).strip()


def fit_archive(batches: Sequence[Batch], *, first: int, last: int, budget: int, count: Count) -> str:
    """Renders the clip-archive within `budget` tokens: with fewer batches, then with one shortened, then with none.

    Nothing is lost: every batch is whole in the log.
    """
    first, last = min(first, len(batches)), min(last, len(batches))
    while True:
        text = render_archive(batches, first=first, last=last)
        if count([text])[0] <= budget:
            return text
        if first + last <= 1:
            break
        if first + last > len(batches):
            first = len(batches) - last
        first, last = (first - 1, last) if first >= last else (first, last - 1)
    index = 0 if first else len(batches) - 1
    full_text = batches[index].text if first + last else ""
    size = len(full_text)
    while size:
        size = size * 3 // 4
        shorter = replace(batches[index], text=excerpt(full_text, size, Keep.HEAD).rstrip() + " ...")
        text = render_archive((*batches[:index], shorter, *batches[index + 1 :]), first=first, last=last)
        if size and count([text])[0] <= budget:
            return text
    count_line = render_archive(batches, first=0, last=0)
    return count_line if count([count_line])[0] <= budget else ""


def parse_archive(text: str) -> tuple[Batch, ...]:
    """Parses the batches that a clip-archive shows, where no log holds them; () for any other text.

    Positions are not known. The first batch's count is that of all messages in the archive.
    """
    total = _TOTAL.match(text)
    if total is None:
        return ()
    found = list(_BATCH_LINE.finditer(text))  # empty if only the count fitted
    out: list[Batch] = []
    for line, following in zip_longest(found, found[1:]):
        body = text[line.end() : following.start() if following is not None else len(text)].strip()
        body = re.sub(
            rf"(?<!\s)\s*(?:\[\.\.\. \d+ earlier summaries omitted[^\n]*|{EARLIEST_HEADING}|{RECENT_HEADING})$",
            "",
            body,
        )
        body = re.sub(r"(?<!\s)\s*\[\.\.\. \d+ earlier summaries omitted[^\n]*$", "", body)
        count = int(total.group(1)) if not out else 0
        start, end = parse_time(line.group(3)), parse_time(line.group(4))
        out.append(Batch(body, int(line.group(2)), -1, -1, start, end, count, (), int(total.group(2) or 1)))
    return tuple(out)
