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
from tenfold.summarize.facts import extract, merge
from tenfold.summarize.section import Section, narrative, parse, render
from tenfold.summarize.summarize import Settings, Task, Written, write
from tenfold.wire.marks import render_summary, summary_text

Count = Callable[[Sequence[str]], list[int]]
_WRAPPER = 60
"""Tokens of the delimiter around a summary: tag, Block id, hash and the frame of a message."""


class Filled(Struct, frozen=True):
    """A Plan with its summaries written. `failed` says why there is no usable text, "" when there is."""

    replacements: tuple[Replacement, ...]
    facts: tuple[Fact, ...]
    unshown: int = 0
    rung: Rung = "none"
    notes: tuple[str, ...] = ()
    spent: Spent = Spent()
    failed: str = ""


class Writing(Struct, frozen=True):
    """What the texts of one Block need besides the Plan: its id, the settings, a counter, and what hooks gave."""

    block: str
    settings: Settings
    count: Count
    focus: str = ""
    supplied: str = ""


def fill(plan: Plan, writing: Writing) -> Generator[tuple[Ask, ...], tuple[Answer, ...], Filled]:
    """Writes every summary of the Plan, the facts section into the newest one."""
    facts = known_facts(plan.draft)
    covered = max(p.last for p in plan.changed)
    filled = Filled((), tuple(f for f in facts if f.at <= covered))
    newest = max((p.first for p in plan.changed if p.allotment), default=-1)
    pieces = {p.first: p for p in plan.changed}
    out: list[Replacement] = []
    for each in replacements(plan.draft):
        piece = pieces[each.first]
        if piece.allotment:
            section = _section(plan, piece, facts, writing.count) if piece.first == newest else None
            each, written = yield from _summary(plan.draft, piece, each, section, facts=facts, writing=writing)
            filled = replace(
                filled, rung=written.rung, notes=(*filled.notes, *written.notes), failed=written.failed,
                spent=added(filled.spent, written.spent),
            )
            if section is not None:
                filled = replace(filled, unshown=sum(1 for f in section.unshown if f.live and f.kind in MUST_KEEP))
        out.append(each)
    return replace(filled, replacements=tuple(out))


def added(one: Spent, other: Spent) -> Spent:
    """The cost of two groups of calls together; the price is unknown when either is and calls were made."""
    price = None if None in (one.price, other.price) and one.calls and other.calls else (
        None if one.price is None and other.price is None else (one.price or 0.0) + (other.price or 0.0)
    )
    return Spent(
        one.calls + other.calls, one.input_tokens + other.input_tokens, one.output_tokens + other.output_tokens,
        other.model or one.model, price,
    )


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
    facts = merge(older, extract(originals))
    request = next((p for p, why in draft.held.items() if why == "current request"), -1)
    return tuple(replace(f, live=f.at == request) if f.kind == "request" else f for f in facts)


def kept_facts(plan: Plan, filled: Filled) -> dict[str, tuple[int, int]]:
    """How many facts of each kind stand in the view that the Plan leads to, and how many there are.

    Only what still holds is counted: resolved errors, earlier to-do states and earlier requests are not.
    """
    shown = {r.first: r.show for r in filled.replacements}
    texts: list[str] = []
    for piece in plan.draft.pieces:
        if piece.first not in shown:
            texts.extend(_words(s.message) for s in piece.shown())
            continue
        for show in shown[piece.first]:
            message = show.message if isinstance(show, Say) else message_of(plan.draft.view.path.at(show.position))
            if message is not None:
                texts.append(_words(message))
    text = "\n".join(texts)
    out: dict[str, tuple[int, int]] = {}
    for fact in filled.facts:
        if fact.live:
            kept, total = out.get(fact.kind, (0, 0))
            out[fact.kind] = (kept + (fact.text in text), total + 1)
    return out


def _words(message: Message) -> str:
    calls = (f"{c.name} {c.arguments}" for c in calls_of(message))
    return "\n".join((text_of(message), *calls))


def _section(plan: Plan, piece: Piece, facts: tuple[Fact, ...], count: Count) -> Section:
    kept = [s.message for p in plan.draft.pieces if not p.changed for s in p.shown()]
    for show in piece.show:
        if not isinstance(show, Say) and (message := message_of(plan.draft.view.path.at(show.position))) is not None:
            kept.append(message)
    text = "\n".join(text_of(m) for m in kept)

    def visible(fact: Fact) -> bool:
        return fact.kind in MUST_KEEP and fact.text in text

    budget = min(plan.goal.facts, piece.allotment - _WRAPPER)
    return render(facts, budget=budget, count=count, hidden=visible)


def _summary(
    draft: Draft, piece: Piece, each: Replacement, section: Section | None, *, facts: tuple[Fact, ...],
    writing: Writing,
) -> Generator[tuple[Ask, ...], tuple[Answer, ...], tuple[Replacement, Written]]:
    room = piece.allotment - _WRAPPER - (section.tokens if section else 0)
    if writing.supplied:
        written = Written(writing.supplied, "none")
    else:
        written = yield from write(_task(draft, piece, facts, room, writing.focus), writing.settings, writing.count)
    text = "\n\n".join(t for t in (written.text, section.text if section else "") if t)
    message = Message("user", (Text(render_summary(writing.block, text)),), "tenfold")
    sizes = (*each.sizes[:-1], draft.sized([message])[0])
    return replace(each, show=(*each.show[:-1], Say(message)), sizes=sizes), written


def _task(draft: Draft, piece: Piece, facts: tuple[Fact, ...], room: int, focus: str) -> Task:
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
        items=tuple(items), facts=facts, previous="\n\n".join(previous), allotment=room,
        purpose="update" if previous else "first", focus=focus,
    )
