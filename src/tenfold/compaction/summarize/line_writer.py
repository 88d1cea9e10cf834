"""The writer of the preset `blocks`: a summary as lines, one for each step and each user message.

With a model it asks for one text; if that fails, the lines are used.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.plan.stages.step_lines import (
    LabelledLine,
    build_step_line,
    build_user_line,
    fit_lines,
    get_step,
)
from tenfold.compaction.plan.stubs import STEP_LINE_PREFIX
from tenfold.compaction.summarize.asking import clean_text
from tenfold.compaction.summarize.ladder import SummaryResult, WritingGenerator
from tenfold.compaction.summarize.mechanical import write_mechanical
from tenfold.compaction.summarize.write import write_summary
from tenfold.compaction.summarize.writer import WritingJob
from tenfold.core.record.block import ModelCost
from tenfold.core.record.message import Message, get_text
from tenfold.core.text.excerpts import Count, Keep, trim_lines


class LineWriter(Struct, frozen=True):
    """Asks a model, if there is one. Writes lines if there is none, or if it fails and the policy allows them."""

    def write(self, job: WritingJob) -> WritingGenerator:
        """See `Writer.write`."""
        notes: tuple[str, ...] = ()
        spent = ModelCost()
        if job.settings.models:
            on_failure = job.settings.on_failure
            model_failure = "keep_stages" if on_failure == "ladder" else on_failure
            result = yield from write_summary(job.task, replace(job.settings, on_failure=model_failure), job.count)
            if not result.failure or on_failure != "ladder":
                return result
            notes, spent = result.notes, result.spent
        return write_lines(job, notes, spent)


def write_lines(job: WritingJob, notes: tuple[str, ...] = (), spent: ModelCost = ModelCost()) -> SummaryResult:  # noqa: B008 - a frozen value
    """Writes the job's messages as lines within its budget, after the earlier summary in at most half of it."""
    previous = "\n\n".join(job.previous).strip()
    earlier = trim_lines(previous, job.budget // 2, job.count, Keep.ENDS) if previous else ""
    budget = job.budget - (job.count([earlier + "\n"])[0] + 1 if earlier else 0)
    lines = render_lines([m for _, m in job.items], budget, job.count, focus=f"{job.focus} {job.settings.instructions}")
    text = clean_text("\n".join(t for t in (earlier, lines) if t))
    if text and job.count([text])[0] <= job.budget:
        return SummaryResult(text, "extractive", notes, spent)
    return SummaryResult(write_mechanical(job.items, budget=job.budget, count=job.count), "mechanical", notes, spent)


def render_lines(messages: Sequence[Message], budget: int, count: Count, *, focus: str = "") -> str:
    """Renders a line for each step and each user message in at most `budget` tokens, if that is possible at all."""
    step_lines = [line for at in range(len(messages)) if (line := _build_line(messages, at)) is not None]
    return "\n".join(
        each.line for each in fit_lines(step_lines, budget, lambda lines: _count_sizes(lines, count), focus=focus)
    )


def _count_sizes(lines: Sequence[str], count: Count) -> list[int]:
    return count([line + "\n" for line in lines])


def _build_line(messages: Sequence[Message], at: int) -> LabelledLine | None:
    message = messages[at]
    if message.role == "assistant" or (message.origin == "tenfold" and get_text(message).startswith(STEP_LINE_PREFIX)):
        return build_step_line(get_step(messages, at))
    return build_user_line(message) if message.role == "user" and message.origin == "human" else None
