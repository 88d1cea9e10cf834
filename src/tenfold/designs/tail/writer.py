"""The writer of `tail`: one text, or two at once if the cut splits an exchange, and the lists of files at its end.

Code makes the lists from facts, so they include deletions, renames and shell commands, and do not depend on what a
model or a hook says about files.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.facts.file_footer import FOOTER_TAGS, without_footer
from tenfold.compaction.summarize.asking import clean_text
from tenfold.compaction.summarize.ladder import RUNGS, SummaryResult, SummaryTask, WritingGenerator
from tenfold.compaction.summarize.write import write_summary
from tenfold.compaction.summarize.writer import Footer, WritingJob, read_units, run_together
from tenfold.core.record.block import FileLists, add_costs
from tenfold.core.record.message import Message
from tenfold.core.text.excerpts import Count

PREFIX_HEADINGS = ("## Original Request", "## Early Progress", "## Context for Suffix")
"""The headings of the beginning of a split exchange."""
NO_HISTORY = "No prior history."
"""Used as the history if a split exchange is the first thing that was said."""
TURN_CONTEXT = "\n\n---\n\n**Turn Context (split turn):**\n\n"
"""Separates the history from the beginning of the split exchange."""
HISTORY_SHARE = 8, 13
"""The history's share of the budget if an exchange is split (8 of 13): 0.8 to 0.5 of the reserve."""


class SplitWriter(Struct, frozen=True):
    """Writes the history, and the beginning of a split exchange if the plan has one.

    `prefix` is the prompt for that beginning. The lists of the files that were read or modified stand last.
    """

    prefix: str = ""

    def write(self, job: WritingJob) -> WritingGenerator:
        """See `Writer.write`. A split exchange takes two calls side by side; a caller's focus goes to the history."""
        previous = tuple(t for text in job.previous if (t := without_footer(text).strip()))
        job = replace(job, previous=previous)
        if not job.piece.cut_positions:
            return (yield from _write_whole(job))
        return (yield from _write_split(job, job.piece.cut_positions[0], self.prefix))

    @staticmethod
    def render_footer(files: FileLists, *, budget: int | None = None, count: Count | None = None) -> Footer:
        """Renders the two lists as blocks with a blank line before each; "" if both are empty.

        With `budget` in tokens, as many paths of each as fit. How many are not listed is always said.
        """
        limit = max(len(files.read), len(files.modified))
        while True:
            lists = zip(FOOTER_TAGS, (files.read, files.modified), strict=True)
            text = "".join(_render_list(tag, paths, limit) for (tag, _), paths in lists)
            if not limit or budget is None or count is None or count([text])[0] <= budget:
                return Footer(text, frozenset((*files.read[:limit], *files.modified[:limit])))
            limit = limit * 3 // 4


def _write_whole(job: WritingJob) -> WritingGenerator:
    written = yield from write_summary(job.task, job.settings, job.count)
    return _label_failure(written, "Summarization failed")


def _write_split(job: WritingJob, turn: int, prompt: str) -> WritingGenerator:
    early = replace(job, items=tuple((at, m) for at, m in job.items if at < turn))
    budget = job.budget - job.count([TURN_CONTEXT])[0] - 2
    part, total = HISTORY_SHARE
    history_budget = budget * part // total
    prefix_task = SummaryTask(
        items=_list_beginning(job, turn),
        facts=job.facts,
        allotment=budget - history_budget,
        purpose="prefix",
        prompt=prompt,
        headings=PREFIX_HEADINGS,
    )
    settings = replace(job.settings, instructions="", effort="")
    history, prefix = yield from run_together(
        _write_history(replace(early, budget=history_budget)), write_summary(prefix_task, settings, job.count)
    )
    history = _label_failure(history, "Summarization failed")
    prefix = _label_failure(prefix, "Turn prefix summarization failed")
    spent = add_costs(history.spent, prefix.spent) if prefix.spent.calls else history.spent
    notes = (*history.notes, *prefix.notes)
    if history.failure or prefix.failure:
        return SummaryResult("", "none", notes, spent, "; ".join(t for t in (history.failure, prefix.failure) if t))
    rung = max(history.rung, prefix.rung, key=RUNGS.index)
    return SummaryResult(f"{history.text}{TURN_CONTEXT}{prefix.text}", rung, notes, spent)


def _write_history(job: WritingJob) -> WritingGenerator:
    """Writes what came before the split exchange. No model is asked if nothing new came: an earlier summary is used."""
    if job.items:
        return (yield from write_summary(job.task, job.settings, job.count))
    previous = job.task.previous
    if not previous:
        return SummaryResult(NO_HISTORY, "none")
    if job.count([previous])[0] <= job.budget:
        return SummaryResult(previous, "none")
    return (yield from write_summary(job.task, job.settings, job.count))


def _list_beginning(job: WritingJob, turn: int) -> tuple[tuple[int, Message], ...]:
    """Returns the exchange's messages before the cut, including the user's own, although that stays in view."""
    sources = (source for unit, read in read_units(job.piece) if unit.first >= turn for source in read)
    return tuple((source.position, source.message) for source in sources)


def _label_failure(written: SummaryResult, what: str) -> SummaryResult:
    return replace(written, failure=f"{what}: {written.failure or 'Unknown error'}") if written.failure else written


def _render_list(tag: str, paths: tuple[str, ...], limit: int) -> str:
    if not paths:
        return ""
    shown = [_render_path(path) for path in paths[:limit]]
    shown += [f"({len(paths) - limit:,} more)"] if len(paths) > limit else []
    return f"\n\n<{tag}>\n" + "\n".join(shown) + f"\n</{tag}>"


def _render_path(path: str) -> str:
    return " ".join(clean_text(path).splitlines()).replace("<", "%3C")
