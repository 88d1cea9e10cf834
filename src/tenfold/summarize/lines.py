"""The writer of the preset `blocks`: a summary as lines, one for each step and each user message.

With a model it asks for one text; if that fails, the lines are used.
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
    """Asks a model, if there is one. Writes lines if there is none, or if it fails and the policy allows them."""

    def write(self, job: Job) -> Effect:
        """See `Writer.write`."""
        notes: tuple[str, ...] = ()
        spent = Spent()
        if job.settings.models:
            on_failure = job.settings.on_failure
            model_failure = "keep_stages" if on_failure == "ladder" else on_failure
            result = yield from write(job.task, replace(job.settings, on_failure=model_failure), job.count)
            if not result.failed or on_failure != "ladder":
                return result
            notes, spent = result.notes, result.spent
        return written_lines(job, notes, spent)


def written_lines(job: Job, notes: tuple[str, ...] = (), spent: Spent = Spent()) -> Written:  # noqa: B008 - a frozen value
    """Writes the job's messages as lines within its budget, after the earlier summary in at most half of it."""
    previous = "\n\n".join(job.previous).strip()
    earlier = thinned(previous, job.room // 2, job.count) if previous else ""
    budget = job.room - (job.count([earlier + "\n"])[0] + 1 if earlier else 0)
    lines = lines_of([m for _, m in job.items], budget, job.count, focus=f"{job.focus} {job.settings.instructions}")
    text = clean("\n".join(t for t in (earlier, lines) if t))
    if text and job.count([text])[0] <= job.room:
        return Written(text, "extractive", notes, spent)
    return Written(mechanical(job.items, budget=job.room, count=job.count), "mechanical", notes, spent)


def lines_of(messages: Sequence[Message], room: int, count: Count, *, focus: str = "") -> str:
    """Renders a line for each step and each user message in at most `budget` tokens, if that is possible at all."""
    step_lines = [line for m in messages if (line := _told(m)) is not None]
    return "\n".join(each.line for each in fitted(step_lines, room, lambda lines: _sizes(lines, count), focus=focus))


def _sizes(lines: Sequence[str], count: Count) -> list[int]:
    return count([line + "\n" for line in lines])


def _told(message: Message) -> Told | None:
    if message.role == "assistant" or (message.origin == "tenfold" and text_of(message).startswith(LINE)):
        return step_line(message)
    return user_line(message) if message.role == "user" and message.origin == "human" else None
