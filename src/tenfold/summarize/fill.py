"""From a Plan to what a Block shows: facts by code, text by Ask, one facts section in the newest summary.

Nothing here appends or measures; a Plan's allotments are upper bounds that every text written here keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tenfold.plan.draft import Draft, Piece, replacements
from tenfold.plan.plan import Plan
from tenfold.plan.stages.condense import SUMMARY, replacement
from tenfold.record.ask import Answer, Ask
from tenfold.record.block import MUST_KEEP, Block, Fact, Replacement, Rung, Say, Spent
from tenfold.record.entry import message_of
from tenfold.record.message import Message, Text, calls_of, text_of
from tenfold.summarize.check import shortened
from tenfold.summarize.facts import extract, merge
from tenfold.summarize.ladder import Settings, Written, added
from tenfold.summarize.section import Section, narrative, parse, render
from tenfold.summarize.summarize import Task, write
from tenfold.wire.marks import render_summary, summary_text

Count = Callable[[Sequence[str]], list[int]]
WRAPPER = 80
"""Tokens of the delimiter around a summary: tag, Block id, hash and the frame of a message (60 to 75 by o200k)."""
LEAST_NARRATIVE = 30
"""Tokens below which a narrative says nothing that the facts do not: it is left out."""


class Filled(Struct, frozen=True):
    """A Plan with its summaries written. `failed` says why there is no usable text, "" when there is."""

    replacements: tuple[Replacement, ...]
    facts: tuple[Fact, ...]
    kept: tuple[Fact, ...] = ()
    unshown: int = 0
    rung: Rung = "none"
    notes: tuple[str, ...] = ()
    spent: Spent = Spent()
    failed: str = ""


class Writing(Struct, frozen=True):
    """What the texts of one Block need besides the Plan: its id, the facts, settings, a counter, what hooks gave."""

    block: str
    facts: tuple[Fact, ...]
    settings: Settings
    count: Count
    focus: str = ""
    supplied: str = ""


def fill(plan: Plan, writing: Writing) -> Generator[tuple[Ask, ...], tuple[Answer, ...], Filled]:
    """Writes every summary of the Plan, the facts section into the newest one."""
    facts = writing.facts
    covered = max(p.last for p in plan.changed)
    filled = Filled((), tuple(f for f in facts if f.at <= covered))
    newest = max((p.first for p in plan.changed if p.allotment), default=-1)
    pieces = {p.first: p for p in plan.changed}
    out: list[Replacement] = []
    for each in replacements(plan.draft):
        piece = pieces[each.first]
        if piece.allotment:
            section = None
            if piece.first == newest:
                budget = min(plan.goal.facts, piece.allotment - WRAPPER)
                section = section_of(plan, facts, budget=budget, count=writing.count)
            each, written = yield from _summary(plan.draft, piece, each, section, writing)
            filled = replace(
                filled, rung=written.rung, notes=(*filled.notes, *written.notes), failed=written.failed,
                spent=added(filled.spent, written.spent) if written.spent.calls else filled.spent,
            )
            if section is not None:
                filled = replace(filled, kept=section.kept, unshown=len(section.unshown))
        out.append(each)
    return replace(filled, replacements=tuple(out))


def known_facts(draft: Draft) -> tuple[Fact, ...]:
    """The facts of everything in view: those of the newest live Block, and those of the originals since."""
    marks = draft.view.marks
    newest = draft.view.path.at(marks.live[-1]) if marks.live else None
    older = newest.facts if isinstance(newest, Block) else ()
    for shown in (s for p in draft.pieces for s in p.shown() if s.original and s.message.origin == "tenfold"):
        older = merge(older, tuple(replace(f, at=shown.at) for f in parse(summary_text(text_of(shown.message)) or "")))
    originals = [(s.at, s.message) for p in draft.pieces if p.units[0].ref is None for s in p.shown() if s.original]
    if draft.view.step is not None:
        originals += [(p, m) for p, e in draft.view.step.entries if (m := message_of(e)) is not None]
    return merge(older, extract(originals))


def standing(plan: Plan) -> str:
    """The words that stay in view under the Plan: untouched messages and stubs, without what is yet to be written."""
    words: list[str] = []
    for piece in plan.draft.pieces:
        if not piece.changed:
            words.extend(_words(s.message) for s in piece.shown())
            continue
        for show in piece.show[:-1] if piece.allotment else piece.show:
            message = show.message if isinstance(show, Say) else message_of(plan.draft.view.path.at(show.position))
            if message is not None:
                words.append(_words(message))
    return flat("\n".join(words))


def flat(text: str) -> str:
    """The text with every run of white space as one space: quoting and indenting do not make it another text."""
    return " ".join(text.split())


def section_of(plan: Plan, facts: Sequence[Fact], *, budget: int, count: Count) -> Section:
    """The facts section under the Plan: must-keep facts that stand in view verbatim anyway are not repeated."""
    text = standing(plan)
    return render(facts, budget=budget, count=count, hidden=lambda f: f.kind in MUST_KEEP and flat(f.text) in text)


def kept_facts(plan: Plan, filled: Filled) -> dict[str, tuple[int, int]]:
    """How many facts of each kind stand in the view that the Plan leads to, and how many there are.

    Only what still holds is counted: resolved errors, earlier to-do states and earlier requests are not.
    """
    text = standing(plan)
    sure = {id(f) for f in filled.kept}
    out: dict[str, tuple[int, int]] = {}
    for fact in filled.facts:
        if fact.live:
            kept, total = out.get(fact.kind, (0, 0))
            out[fact.kind] = (kept + (id(fact) in sure or flat(fact.text) in text), total + 1)
    return out


def _words(message: Message) -> str:
    calls = (f"{c.name} {c.arguments}" for c in calls_of(message))
    return "\n".join((text_of(message), *calls))


def _summary(
    draft: Draft, piece: Piece, each: Replacement, section: Section | None, writing: Writing
) -> Generator[tuple[Ask, ...], tuple[Answer, ...], tuple[Replacement, Written]]:
    facts = section.text if section else ""
    room = piece.allotment - WRAPPER - (section.tokens if section else 0)
    if piece.kind != SUMMARY or (room < LEAST_NARRATIVE and not writing.supplied):
        written = Written(text="", rung="none" if piece.kind != SUMMARY else "mechanical")
    elif writing.supplied:
        written = Written(text=writing.supplied, rung="none")
    else:
        written = yield from write(_task(draft, piece, room, writing), writing.settings, writing.count)
    message, size = _said(draft, written.text, facts, writing.block)
    while size > piece.allotment and written.text and not writing.supplied:
        shorter = shortened(written.text, writing.count([written.text])[0] - (size - piece.allotment) - 1, writing.count)
        written = replace(written, text=shorter if len(shorter) < len(written.text) else "")
        message, size = _said(draft, written.text, facts, writing.block)
    return replace(each, show=(*each.show[:-1], Say(message)), sizes=(*each.sizes[:-1], size)), written


def _said(draft: Draft, narrative_text: str, facts: str, block: str) -> tuple[Message, int]:
    text = "\n\n".join(t for t in (narrative_text, facts) if t)
    message = Message("user", (Text(render_summary(block, text)),), "tenfold")
    return message, draft.weigh([message])[0]


def _task(draft: Draft, piece: Piece, room: int, writing: Writing) -> Task:
    items: list[tuple[int, Message]] = []
    previous: list[str] = []
    kept = {s.position for s in piece.show if not isinstance(s, Say)}
    for unit in piece.units:
        summarized = unit.ref is not None and replacement(draft, unit.ref).kind == SUMMARY
        for shown in unit.shown:
            text = summary_text(text_of(shown.message)) if shown.message.origin == "tenfold" else None
            if text is not None and (shown.original or summarized):
                previous.append(narrative(text))
            elif not (shown.original and shown.at in kept and shown.message.role == "user"):
                items.append((shown.at if shown.of is None else shown.of, shown.message))
    return Task(
        items=tuple(items), facts=writing.facts, previous="\n\n".join(previous), allotment=room,
        purpose="update" if previous else "first", focus=writing.focus,
    )
