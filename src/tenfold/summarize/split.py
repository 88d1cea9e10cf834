"""The writer of the preset `tail`: one text, or two at once if the cut splits an exchange, and then the lists of files.

The lists are made by code from the facts, so they include deletions, renames and shell commands. They do not depend on
what a model or a hook says about files.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from tenfold.record.block import Fact, FactKind, Rung
from tenfold.record.message import Message
from tenfold.summarize.ladder import Written, added
from tenfold.summarize.section import Count
from tenfold.summarize.summarize import Task, clean, write
from tenfold.summarize.writer import Effect, Job, together

NO_HISTORY = "No prior history."
"""Used as the history if a split exchange is the first thing that was said."""
TURN_CONTEXT = "\n\n---\n\n**Turn Context (split turn):**\n\n"
"""Separates the history from the beginning of the split exchange."""
HISTORY_SHARE = 8, 13
"""The history's share of the budget if an exchange is split (8 of 13): 0.8 to 0.5 of the reserve."""
FOOTER_SHARE = 4
"""The lists of files take at most a quarter of the budget."""
_CHANGED: frozenset[FactKind] = frozenset({"file_modified", "file_created", "file_deleted", "file_renamed"})
_FOOTERS = tuple(
    (f"\n</{tag}>", re.compile(rf"(?<!\n)\n*<{tag}>\n.*?\n</{tag}>", re.DOTALL))
    for tag in ("read-files", "modified-files")
)
_RUNGS: tuple[Rung, ...] = ("none", "model", "stricter", "next_model", "extractive", "mechanical")


class Files(Struct, frozen=True):
    """Sorted paths: files that were only read, and files created, changed, renamed (both names) or deleted."""

    read: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()


def files_of(facts: Sequence[Fact], *, until: int | None = None) -> Files:
    """Returns the files that these facts name. Facts from after position `until` are left out."""
    known = [f for f in facts if f.live and (until is None or f.at <= until)]
    modified = {path for f in known if f.kind in _CHANGED for path in _paths(f)}
    read = {path for f in known if f.kind == "file_read" for path in _paths(f)}
    return Files(tuple(sorted(read - modified)), tuple(sorted(modified)))


def _paths(fact: Fact) -> tuple[str, ...]:
    return tuple(fact.text.split(" -> ")) if fact.kind == "file_renamed" else (fact.text,)


def footer(files: Files, *, room: int | None = None, count: Count | None = None) -> str:
    """Renders the two lists as blocks with a blank line before each; "" if both are empty.

    With `budget` in tokens, as many paths of each as fit, and how many are not listed.
    """
    limit = max(len(files.read), len(files.modified))
    while True:
        text = _listed("read-files", files.read, limit) + _listed("modified-files", files.modified, limit)
        if room is None or count is None or not text or count([text])[0] <= room:
            return text
        if not limit:
            return ""
        limit = limit * 3 // 4 if limit > 1 else 0


def _listed(tag: str, paths: tuple[str, ...], most: int) -> str:
    if not paths:
        return ""
    shown = [clean(path).replace("\n", " ").replace("<", "%3C") for path in paths[:most]]
    shown += [f"({len(paths) - most:,} more)"] if len(paths) > most else []
    return f"\n\n<{tag}>\n" + "\n".join(shown) + f"\n</{tag}>"


def without_footer(text: str) -> str:
    """Returns an earlier summary without its lists of files, which are made anew."""
    for end, footer in _FOOTERS:
        listed, last, rest = text.rpartition(end)
        text = footer.sub("", listed + last) + rest
    return text


class Split(Struct, frozen=True):
    """Writes the history, the beginning of a split exchange if the plan has one, and the lists of files."""

    def write(self, job: Job) -> Effect:
        """See `Writer.write`. A split exchange takes two calls side by side; a caller's focus goes to the history."""
        files = footer(files_of(job.facts, until=job.piece.last), room=job.room // FOOTER_SHARE, count=job.count)
        budget = job.room - (job.count([files])[0] + 2 if files else 0)
        previous = tuple(t for text in job.previous if (t := without_footer(text).strip()))
        job = replace(job, previous=previous, room=budget)
        written = yield from (_split(job, job.piece.cuts[0]) if job.piece.cuts else _whole(job))
        return written if written.failed or not written.text else replace(written, text=written.text + files)


def _whole(job: Job) -> Effect:
    written = yield from write(job.task, job.settings, job.count)
    return _failing(written, "Summarization failed")


def _split(job: Job, turn: int) -> Effect:
    early = replace(job, items=tuple((at, m) for at, m in job.items if at < turn))
    budget = job.room - job.count([TURN_CONTEXT])[0] - 2
    part, total = HISTORY_SHARE
    history_budget = budget * part // total
    prefix_task = Task(
        items=_beginning(job, turn), facts=job.facts, allotment=budget - history_budget, purpose="prefix"
    )
    settings = replace(job.settings, instructions="", effort="")
    history, prefix = yield from together(
        _history(replace(early, room=history_budget)), write(prefix_task, settings, job.count)
    )
    history = _failing(history, "Summarization failed")
    prefix = _failing(prefix, "Turn prefix summarization failed")
    spent = added(history.spent, prefix.spent) if prefix.spent.calls else history.spent
    notes = (*history.notes, *prefix.notes)
    if history.failed or prefix.failed:
        return Written("", "none", notes, spent, "; ".join(t for t in (history.failed, prefix.failed) if t))
    rung = max(history.rung, prefix.rung, key=_RUNGS.index)
    return Written(f"{history.text}{TURN_CONTEXT}{prefix.text}", rung, notes, spent)


def _history(job: Job) -> Effect:
    """Writes what came before the split exchange. No model is asked if nothing new came: an earlier summary is used."""
    if job.items:
        return (yield from write(job.task, job.settings, job.count))
    previous = job.task.previous
    if not previous:
        return Written(NO_HISTORY, "none")
    if job.count([previous])[0] <= job.room:
        return Written(previous, "none")
    return (yield from write(job.task, job.settings, job.count))


def _beginning(job: Job, turn: int) -> tuple[tuple[int, Message], ...]:
    """Returns the exchange's messages before the cut, including the user's own, although that stays in view."""
    shown = (s for unit in job.piece.units if unit.first >= turn for s in unit.shown)
    reads = dict(job.piece.reads)
    return tuple((s.at if s.of is None else s.of, reads.get(s.key, s.message)) for s in shown)


def _failing(written: Written, what: str) -> Written:
    return replace(written, failed=f"{what}: {written.failed or 'Unknown error'}") if written.failed else written
