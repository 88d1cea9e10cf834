"""The writer of the preset `tail`: one text, or two at once if the cut splits an exchange, and then the lists of files.

The lists are made by code from the facts, so they include deletions, renames and shell commands. They do not depend on
what a model or a hook says about files.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from tenfold.facts.merge import WRITTEN_KINDS
from tenfold.record.block import Fact, add_costs
from tenfold.record.message import Message
from tenfold.summarize.asking import clean_text
from tenfold.summarize.ladder import RUNGS, SummaryResult, SummaryTask, WritingGenerator
from tenfold.summarize.write import write_summary
from tenfold.summarize.writer import WritingJob, read_unit, run_together
from tenfold.text.excerpts import Count

NO_HISTORY = "No prior history."
"""Used as the history if a split exchange is the first thing that was said."""
TURN_CONTEXT = "\n\n---\n\n**Turn Context (split turn):**\n\n"
"""Separates the history from the beginning of the split exchange."""
HISTORY_SHARE = 8, 13
"""The history's share of the budget if an exchange is split (8 of 13): 0.8 to 0.5 of the reserve."""
FOOTER_SHARE = 4
"""The lists of files take at most a quarter of the budget."""
_FOOTERS = tuple(
    (f"\n</{tag}>", re.compile(rf"(?<!\n)\n*<{tag}>\n.*?\n</{tag}>", re.DOTALL))
    for tag in ("read-files", "modified-files")
)


class FileLists(Struct, frozen=True):
    """Sorted paths: files that were only read, and files created, changed, renamed (both names) or deleted."""

    read: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()


def list_files(facts: Sequence[Fact], *, until: int | None = None) -> FileLists:
    """Returns the files that these facts name. Facts from after position `until` are left out."""
    known = [f for f in facts if f.live and (until is None or f.position <= until)]
    modified = {path for f in known if f.kind in WRITTEN_KINDS for path in _get_paths(f)}
    read = {path for f in known if f.kind == "file_read" for path in _get_paths(f)}
    return FileLists(tuple(sorted(read - modified)), tuple(sorted(modified)))


def _get_paths(fact: Fact) -> tuple[str, ...]:
    return tuple(fact.text.split(" -> ")) if fact.kind == "file_renamed" else (fact.text,)


def render_footer(files: FileLists, *, budget: int | None = None, count: Count | None = None) -> str:
    """Renders the two lists as blocks with a blank line before each; "" if both are empty.

    With `budget` in tokens, as many paths of each as fit, and how many are not listed.
    """
    limit = max(len(files.read), len(files.modified))
    while True:
        text = _render_list("read-files", files.read, limit) + _render_list("modified-files", files.modified, limit)
        if budget is None or count is None or not text or count([text])[0] <= budget:
            return text
        if not limit:
            return ""
        limit = limit * 3 // 4 if limit > 1 else 0


def _render_list(tag: str, paths: tuple[str, ...], limit: int) -> str:
    if not paths:
        return ""
    shown = [clean_text(path).replace("\n", " ").replace("<", "%3C") for path in paths[:limit]]
    shown += [f"({len(paths) - limit:,} more)"] if len(paths) > limit else []
    return f"\n\n<{tag}>\n" + "\n".join(shown) + f"\n</{tag}>"


def without_footer(text: str) -> str:
    """Returns an earlier summary without its lists of files, which are made anew."""
    for end, footer in _FOOTERS:
        listed, last, rest = text.rpartition(end)
        text = footer.sub("", listed + last) + rest
    return text


class SplitWriter(Struct, frozen=True):
    """Writes the history, the beginning of a split exchange if the plan has one, and the lists of files."""

    def write(self, job: WritingJob) -> WritingGenerator:
        """See `Writer.write`. A split exchange takes two calls side by side; a caller's focus goes to the history."""
        files = render_footer(
            list_files(job.facts, until=job.piece.last), budget=job.budget // FOOTER_SHARE, count=job.count
        )
        budget = job.budget - (job.count([files])[0] + 2 if files else 0)
        previous = tuple(t for text in job.previous if (t := without_footer(text).strip()))
        job = replace(job, previous=previous, budget=budget)
        written = yield from (
            _write_split(job, job.piece.cut_positions[0]) if job.piece.cut_positions else _write_whole(job)
        )
        return written if written.failure or not written.text else replace(written, text=written.text + files)


def _write_whole(job: WritingJob) -> WritingGenerator:
    written = yield from write_summary(job.task, job.settings, job.count)
    return _label_failure(written, "Summarization failed")


def _write_split(job: WritingJob, turn: int) -> WritingGenerator:
    early = replace(job, items=tuple((at, m) for at, m in job.items if at < turn))
    budget = job.budget - job.count([TURN_CONTEXT])[0] - 2
    part, total = HISTORY_SHARE
    history_budget = budget * part // total
    prefix_task = SummaryTask(
        items=_list_beginning(job, turn), facts=job.facts, allotment=budget - history_budget, purpose="prefix"
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
    sources = (source for unit in job.piece.units if unit.first >= turn for source in read_unit(job.piece, unit))
    return tuple((source.position, source.message) for source in sources)


def _label_failure(written: SummaryResult, what: str) -> SummaryResult:
    return replace(written, failure=f"{what}: {written.failure or 'Unknown error'}") if written.failure else written
