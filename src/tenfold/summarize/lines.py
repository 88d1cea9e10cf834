"""A summary as lines, one for each step and each user message: how the preset `blocks` writes without a model.

With a model it writes one text; when that comes to nothing, the lines stand in its place.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from tenfold.plan.stages.lines import LINE, Told, fitted, step_line, user_line
from tenfold.record.block import Spent
from tenfold.record.message import Message, text_of
from tenfold.summarize.check import thinned
from tenfold.summarize.extract import mechanical
from tenfold.summarize.ladder import Written
from tenfold.summarize.section import Count
from tenfold.summarize.summarize import clean, write
from tenfold.summarize.writer import Effect, Job


class Lines(Struct, frozen=True):
    """Asks a model, if there is one; lines where there is none, or no usable text comes and the policy lets them in."""

    def write(self, job: Job) -> Effect:
        """See `Writer.write`."""
        notes: tuple[str, ...] = ()
        spent = Spent()
        if job.settings.models:
            wanted = job.settings.on_failure
            asking = "keep_stages" if wanted == "ladder" else wanted
            tried = yield from write(job.task, replace(job.settings, on_failure=asking), job.count)
            if not tried.failed or wanted != "ladder":
                return tried
            notes, spent = tried.notes, tried.spent
        return written_lines(job, notes, spent)


def written_lines(job: Job, notes: tuple[str, ...] = (), spent: Spent = Spent()) -> Written:  # noqa: B008 - a frozen value
    """The job's messages as lines within its room, after the earlier summary, which takes at most half of it."""
    before = "\n\n".join(job.previous).strip()
    kept = thinned(before, job.room // 2, job.count) if before else ""
    room = job.room - (job.count([kept + "\n"])[0] + 1 if kept else 0)
    story = lines_of([m for _, m in job.items], room, job.count, focus=f"{job.focus} {job.settings.instructions}")
    text = clean("\n".join(t for t in (kept, story) if t))
    if text and job.count([text])[0] <= job.room:
        return Written(text, "extractive", notes, spent)
    return Written(mechanical(job.items, budget=job.room, count=job.count), "mechanical", notes, spent)


def lines_of(messages: Sequence[Message], room: int, count: Count, *, focus: str = "") -> str:
    """A line for each step and each message of the user in at most `room` tokens, if there is any way."""
    told = [line for m in messages if (line := _told(m)) is not None]
    return "\n".join(each.line for each in fitted(told, room, lambda lines: _sizes(lines, count), focus=focus))


def _sizes(lines: Sequence[str], count: Count) -> list[int]:
    return count([line + "\n" for line in lines])


def _told(message: Message) -> Told | None:
    if message.role == "assistant" or (message.origin == "tenfold" and text_of(message).startswith(LINE)):
        return step_line(message)
    return user_line(message) if message.role == "user" and message.origin == "human" else None
