"""From a Plan to what a Block shows: facts by code, text by Ask, one facts section in the newest summary.

Nothing here appends or measures. A Plan's allotments are upper bounds that every text written here keeps; what a
narrative leaves of them goes to the facts.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from tenfold.plan.draft import FRAME, TO_BE_WRITTEN, Draft, Goal, Piece, Recall, place_to_write, replacements
from tenfold.plan.plan import Plan
from tenfold.plan.stages.condense import BATCHES, SUMMARY
from tenfold.plan.stages.elide import expansion
from tenfold.record.ask import Answer, Ask
from tenfold.record.block import MUST_KEEP, Batch, Block, Fact, Rep, Replacement, Rung, Say, Show, Slot, Spent
from tenfold.record.entry import message_of
from tenfold.record.message import Message, Text, calls_of, text_of
from tenfold.summarize.check import shortened
from tenfold.summarize.facts import extract, merge
from tenfold.summarize.facts.merging import WRITTEN
from tenfold.summarize.ladder import Settings, Written, added
from tenfold.summarize.parse import narrative, parse, sectionless
from tenfold.summarize.section import TITLE, Section, must_keep, render
from tenfold.summarize.summarize import clean
from tenfold.summarize.writer import Job, Prose, Writer
from tenfold.text import CLIPPED
from tenfold.view.view import View
from tenfold.wire.marks import render_summary, summary_mark, summary_text

Count = Callable[[Sequence[str]], list[int]]
_TELLS = (SUMMARY, BATCHES)
LEAST_NARRATIVE = 30
"""Tokens below which a narrative says nothing that the facts do not: it is left out."""


class Filled(Struct, frozen=True):
    """A Plan with its summaries written.

    `known` are the facts of all that is covered, `facts` those that go on with the Block, `kept` those in view.
    `failed` says why there is no usable text, "" when there is.
    """

    replacements: tuple[Replacement, ...]
    known: tuple[Fact, ...]
    facts: tuple[Fact, ...] = ()
    kept: tuple[Fact, ...] = ()
    unshown: int = 0
    dropped: int = 0
    rung: Rung = "none"
    notes: tuple[str, ...] = ()
    spent: Spent = Spent()
    failed: str = ""
    supplied: str = ""
    batches: tuple[Batch, ...] = ()
    standing: tuple[Slot, ...] = ()


class Writing(Struct, frozen=True):
    """What the texts of one Block need besides the Plan: its id, the facts, how to write, what hooks gave.

    `given` is what a hook says of the text it supplied (`Answer.supplied`): that text then stands word for word.
    """

    block: str
    facts: tuple[Fact, ...]
    settings: Settings
    count: Count
    focus: str = ""
    supplied: str = ""
    writer: Writer = Prose()
    given: str = ""


def fill(plan: Plan, writing: Writing) -> Generator[tuple[Ask, ...], tuple[Answer, ...], Filled]:
    """Writes every summary of the Plan, the facts section into the newest one."""
    facts = writing.facts
    replaced = (p.last for p in plan.draft.pieces if p.changed or p.units[0].ref is not None)
    covered = max(replaced)  # older Blocks' ranges too: only the newest Block's facts are carried on
    filled = Filled((), tuple(f for f in facts if f.at <= covered or f.kind in STATES), supplied=writing.given)
    newest = max((p.first for p in plan.changed if p.allotment), default=-1)
    pieces = {p.first: p for p in plan.changed}
    out: list[Replacement] = []
    for each in (_signed(plan.draft, made, writing.block) for made in replacements(plan.draft)):
        piece = pieces[each.first]
        if piece.allotment:
            section = None
            if piece.first == newest:
                budget = min(plan.goal.facts, piece.allotment - plan.goal.frame)
                section = section_of(plan, facts, budget=budget, count=writing.count)
                section = _told(plan, filled.known, writing.supplied) if writing.given else section
            made, written = yield from _summary(plan, piece, each, section, writing)
            if section is not None and not writing.given:
                made, section = _topped_up(plan, piece, each, (made, section), writing, written.text)
            filled = replace(
                filled,
                rung=written.rung,
                notes=(*filled.notes, *written.notes),
                failed=filled.failed or written.failed,
                batches=written.batches or filled.batches,
                standing=written.standing or filled.standing,
                spent=added(filled.spent, written.spent) if written.spent.calls else filled.spent,
            )
            if section is not None:
                filled = replace(filled, kept=section.kept, unshown=len(section.unshown))
            out.append(made)
        else:
            out.append(each)
    if newest < 0:  # no summary that could carry a section: what is not in view anyway is counted
        hidden = section_of(plan, facts, budget=0, count=writing.count)
        filled = replace(filled, unshown=len(hidden.unshown))
    carried = carry(filled.known, filled.kept)
    dropped = sum(1 for f in filled.known if must_keep(f)) - sum(1 for f in carried if must_keep(f))
    return replace(filled, replacements=tuple(out), facts=carried, dropped=dropped + _dropped_before(plan.draft))


STATES = WRITTEN | {"todo"}
"""Kinds whose latest fact sums up the earlier ones: it is carried even where the latest change is still in view."""
CARRIED, CARRIED_BESIDE = 300, 150
"""Must-keep facts, and others, that a Block carries beyond those it shows: the newest. A Block is read at every
opening, so it must not grow with the session; 1,000 facts decode in about 1 ms."""


def carry(facts: Sequence[Fact], shown: Sequence[Fact]) -> tuple[Fact, ...]:
    """The facts that go on with a Block: all that it shows, and the newest of the rest."""
    sure = {id(f) for f in shown}
    room = {True: CARRIED, False: CARRIED_BESIDE}
    taken: set[int] = set()
    for fact in sorted(facts, key=lambda f: f.order, reverse=True):
        kind = must_keep(fact)
        if id(fact) in sure or fact.kind == "name":  # of names there is a bound of their own
            taken.add(id(fact))
        elif room[kind]:
            room[kind] -= 1
            taken.add(id(fact))
    return tuple(f for f in facts if id(f) in taken)


def _dropped_before(draft: Draft) -> int:
    live = draft.view.marks.live
    newest = draft.view.path.at(live[-1]) if live else None
    return newest.dropped if isinstance(newest, Block) else 0


def known_facts(draft: Draft) -> tuple[Fact, ...]:
    """The facts of everything in view: those of the newest live Block, and those of the originals since."""
    marks = draft.view.marks
    newest = draft.view.path.at(marks.live[-1]) if marks.live else None
    older = newest.facts if isinstance(newest, Block) else ()
    for shown in (s for p in draft.pieces for s in p.shown() if s.original and s.message.origin == "tenfold"):
        older = merge(older, tuple(replace(f, at=shown.at) for f in parse(summary_text(text_of(shown.message)) or "")))
    said = [s for p in draft.pieces if p.units[0].ref is None for s in p.shown()]
    originals = [(s.at, s.message) for s in said if s.original]
    late = [s.at for s in said if not s.original and s.message.origin == "tool"]  # results that came after their step
    originals += [(at, m) for at in late if (m := message_of(draft.view.path.at(at))) is not None]
    originals.sort(key=lambda item: item[0])
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
        for show in (s for s in piece.show if not (isinstance(s, Say) and s.message is TO_BE_WRITTEN)):
            message = show.message if isinstance(show, Say) else message_of(plan.draft.view.path.at(show.position))
            if message is not None:
                words.append(_words(message))
    return flat("\n".join(words))


def flat(text: str) -> str:
    """The text with every run of white space as one space: quoting and indenting do not make it another text."""
    return " ".join(text.split())


def is_section(message: Message) -> bool:
    """Whether a message in view is a facts section and nothing else: what an elision left, and the next one renews."""
    text = summary_text(text_of(message)) if message.origin == "tenfold" else None
    return text is not None and text.startswith(TITLE) and not narrative(text)


NEW = "01234567-89ab-7cde-8f01-23456789abcd"
"""Stands in a Plan for the id of the Block that is about to be made."""


def beside_newer(message: Message, settings: Settings) -> Message | None:
    """A message in view as it stands beside a newer facts section: a summary keeps its text, and loses its own section.

    The message itself where it has none, None where nothing else is in it.
    """
    text = summary_text(text_of(message)) if message.origin == "tenfold" else None
    if text is None or TITLE not in text:
        return message
    if not story_of(text, settings):
        return None
    return Message(message.role, (Text(render_summary(NEW, sectionless(text))),), "tenfold")


def shown_again(view: View, made: Replacement) -> bool:
    """Whether a replacement shows what an older one showed, but for its facts section: it tells nothing anew."""
    ref = made.covers[0]
    if not isinstance(ref, Rep) or len(made.covers) > 1:
        return False
    older = view.path.at(ref.block)
    return isinstance(older, Block) and _apart_from_facts(made.show) == _apart_from_facts(
        older.replacements[ref.index].show
    )


def _apart_from_facts(show: Sequence[Show]) -> list[Show | str]:
    out: list[Show | str] = []
    for each in show:
        text = summary_text(text_of(each.message)) if isinstance(each, Say) else None
        if text is None:
            out.append(each)
        elif narrative(text):
            out.append(sectionless(text))
    return out


def section_of(plan: Plan, facts: Sequence[Fact], *, budget: int, count: Count) -> Section:
    """The facts section under the Plan: must-keep facts that stand in view verbatim anyway are not repeated."""
    text = standing(plan)

    def hidden(fact: Fact) -> bool:
        return (fact.kind in MUST_KEEP or fact.kind == "identifier") and _stands_in(fact, text)

    names, depth = min(plan.goal.names, budget), plan.goal.depth
    return render(facts, budget=budget, count=count, hidden=hidden, names=names, depth=depth, beside=text)


def _stands_in(fact: Fact, text: str) -> bool:
    """Whether a fact stands in a text on one line; of one that was clipped, both of its ends."""
    head, *rest = CLIPPED.split(flat(fact.text))
    return stands(head, text) if not rest else all(part in text for part in (head, *rest))


def stands(words: str, text: str) -> bool:
    """Whether `words` occur in `text` for themselves: not as a part of a longer word or path."""
    start = text.find(words) if words else -1
    while start >= 0:
        before, after = text[start - 1 : start], text[start + len(words) : start + len(words) + 2]
        if not _goes_on(before, words[0]) and not _goes_on(after, words[-1]):
            return True
        start = text.find(words, start + 1)
    return False


def _goes_on(edge: str, inner: str) -> bool:
    """Whether a word or path goes on over the edge of what was found. A full stop before white space ends it."""
    if not (inner.isalnum() or inner == "_"):
        return False
    near = edge[:1]
    return near.isalnum() or near in ("_", "/", "\\", "-") if near != "." else edge[1:].isalnum()


def kept_facts(plan: Plan, filled: Filled) -> dict[str, tuple[int, int]]:
    """How many facts of each kind stand in the view that the Plan leads to, and how many there are.

    Only what still holds is counted: resolved errors, earlier to-do states and earlier requests are not; nor are the
    names in use, of which a view shows as many as fit.
    """
    text = standing(plan)
    sure = {id(f) for f in filled.kept}
    out: dict[str, tuple[int, int]] = {}
    for fact in filled.known:
        if fact.live and fact.kind != "name":
            kept, total = out.get(fact.kind, (0, 0))
            out[fact.kind] = (kept + (id(fact) in sure or _stands_in(fact, text)), total + 1)
    return out


def _told(plan: Plan, facts: Sequence[Fact], text: str) -> Section:
    """Which facts a supplied text tells, or the view beside it: reported, not mended."""
    words = flat(f"{standing(plan)} {text}")
    kept = tuple(f for f in facts if _stands_in(f, words))
    return Section("", kept, tuple(f for f in facts if must_keep(f) and f not in kept), 0)


def _words(message: Message) -> str:
    calls = (f"{c.name} {c.arguments}" for c in calls_of(message))
    return "\n".join((text_of(message), *calls))


def _summary(
    plan: Plan, piece: Piece, each: Replacement, section: Section | None, writing: Writing
) -> Generator[tuple[Ask, ...], tuple[Answer, ...], tuple[Replacement, Written]]:
    draft, frame = plan.draft, plan.goal.frame
    facts = section.text if section else ""
    room = piece.allotment - frame - (section.tokens if section else 0)
    if piece.kind == BATCHES:
        job = job_of(draft.view, plan.goal, piece, room, writing)
        written = yield from writing.writer.write(replace(job, supplied=writing.supplied))
    elif piece.kind != SUMMARY or (room < LEAST_NARRATIVE and not (writing.supplied or writing.given)):
        written = Written(text="", rung="none" if piece.kind != SUMMARY else "mechanical")
    elif writing.supplied or writing.given:
        written = Written(text=clean(writing.supplied), rung="none")
    else:
        written = yield from writing.writer.write(job_of(draft.view, plan.goal, piece, room, writing))
    said = partial(_saying, plan, piece, writing, facts)
    message, size = said(written.text)
    others = sum(each.sizes) - piece.allotment
    if writing.given and (size + others >= piece.before or not written.text.strip()):
        what = f"it takes {size:,} tokens in place of {piece.before - others:,}"
        what = what if written.text.strip() else "it is empty"
        written = replace(written, text="", failed=f"the summary that a before-hook supplied cannot be used: {what}")
    elif size > piece.allotment and writing.supplied and not writing.given:
        note = f"the supplied summary takes {size:,} tokens; it was cut to its allotment of {piece.allotment:,}"
        written = replace(written, notes=(*written.notes, note))
    while size > piece.allotment and written.text and not writing.given:
        fits = writing.count([written.text])[0] - (size - piece.allotment) - 1
        shorter = shortened(written.text, fits, writing.count)
        written = replace(written, text=shorter if len(shorter) < len(written.text) else "")
        message, size = said(written.text)
    at = place_to_write(each.show)
    show, sizes = list(each.show), list(each.sizes)
    if piece.kind == SUMMARY and summary_text(text_of(message)) == "":  # no room for a text: at least how much it was
        counted, least = said(f"({len(piece.shown()) - len(each.show) + 1:,} messages are not shown here)")
        message, size = (counted, least) if least <= piece.allotment else (message, size)
    if piece.kind not in _TELLS and not facts:  # all of them stand in view after all: an empty section says nothing
        del show[at], sizes[at]
    else:
        show[at], sizes[at] = Say(message), size
    return replace(each, show=tuple(show), sizes=tuple(sizes)), written


def _saying(plan: Plan, piece: Piece, writing: Writing, facts: str, story: str) -> tuple[Message, int]:
    """The summary's message with its size."""
    settings = writing.settings  # a facts section alone is no summary, so nothing is said around it
    if piece.kind not in _TELLS:
        settings = replace(settings, opening="", closing="")
    return _said(plan.draft, (story, facts), writing.block, plan.goal.recall, settings)


def _topped_up(
    plan: Plan, piece: Piece, each: Replacement, made: tuple[Replacement, Section], writing: Writing, story: str
) -> tuple[Replacement, Section]:
    """The summary with the further facts for which its allotment leaves room, once the narrative took its own.

    Only of a policy that shows names in use: those take what is left. Others keep a facts section to its share.
    """
    wrote, section = made
    told = section.tokens + writing.count([story])[0] + plan.goal.frame
    left = piece.allotment - told - max(plan.tokens_after - plan.goal.target, 0)
    if not plan.goal.names or left < LEAST_NARRATIVE or len(wrote.show) < len(each.show):
        return made
    fuller = section_of(plan, writing.facts, budget=section.tokens + left, count=writing.count)
    message, size = _saying(plan, piece, writing, fuller.text, story)
    if size > piece.allotment or fuller.tokens <= section.tokens:
        return made
    at = place_to_write(each.show)
    show, sizes = list(wrote.show), list(wrote.sizes)
    show[at], sizes[at] = Say(message), size
    return replace(wrote, show=tuple(show), sizes=tuple(sizes)), fuller


def _signed(draft: Draft, made: Replacement, block: str) -> Replacement:
    """The replacement with this Block's id under what it shows of older summaries in another form."""
    show, sizes = list(made.show), list(made.sizes)
    for at, each in enumerate(made.show):
        if isinstance(each, Say) and (mark := summary_mark(text_of(each.message))) and mark.block == NEW:
            text = summary_text(text_of(each.message)) or ""
            message = replace(each.message, parts=(Text(render_summary(block, text)),))
            show[at], sizes[at] = replace(each, message=message), draft.weigh([message])[0]
    return replace(made, show=tuple(show), sizes=tuple(sizes)) if show != list(made.show) else made


def frame_of(draft: Draft, recall: Recall, settings: Settings) -> int:
    """What a summary takes without any text in it, by this draft's counter; ids and hashes vary, so with a margin."""
    _, size = _said(draft, ("", ""), NEW, recall, settings)
    return max(FRAME, size * 5 // 4)


def _said(draft: Draft, texts: tuple[str, str], block: str, recall: Recall, settings: Settings) -> tuple[Message, int]:
    message = carrier(block, (*texts, expansion(recall, block)), settings)
    return message, draft.weigh([message])[0]


def carrier(block: str, texts: Sequence[str], settings: Settings) -> Message:
    """The message that carries a summary: its delimiter, the policy's opening and closing, and the texts between."""
    text = "\n\n".join(t for t in texts if t)
    whole = "\n".join(t for t in (settings.opening, text, settings.closing) if t)
    return Message(settings.role, (Text(render_summary(block, whole)),), "tenfold")


def story_of(text: str, settings: Settings) -> str:
    """The narrative of a summary in view: without facts section, opening and closing."""
    return narrative(text).removeprefix(settings.opening).removesuffix(settings.closing).strip()


def job_of(view: View, goal: Goal, piece: Piece, room: int, writing: Writing) -> Job:
    """What a writer is given for a piece of a plan on this view."""
    items: list[tuple[int, Message]] = []
    previous: list[str] = []
    kept = {s.position for s in piece.show if not isinstance(s, Say)}
    reads = dict(piece.reads)
    for unit in piece.units:
        for shown in unit.shown:
            text = summary_text(text_of(shown.message)) if shown.message.origin == "tenfold" else None
            if text is not None:
                previous.extend([story] if (story := story_of(text, writing.settings)) else [])
            elif not (shown.original and shown.at in kept and shown.message.role == "user"):
                items.append((shown.at if shown.of is None else shown.of, reads.get(shown.key, shown.message)))
    return Job(
        piece=piece,
        view=view,
        goal=goal,
        items=tuple(items),
        previous=tuple(previous),
        facts=writing.facts,
        room=room,
        settings=writing.settings,
        count=writing.count,
        focus=writing.focus,
        block=writing.block,
    )
