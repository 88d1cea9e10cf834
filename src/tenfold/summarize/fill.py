"""Fills a Plan: writes what its Block shows. Facts come from code, texts from Asks.

There is one facts section, in the newest summary. Nothing here appends or measures. The allotments of a Plan are upper
bounds for every text written here; tokens that a narrative leaves over go to the facts.
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
"""A narrative of fewer tokens says nothing beyond the facts and is left out."""


class Filled(Struct, frozen=True):
    """A Plan with its summaries written.

    `all_facts` are the facts of all that is covered, `carried_facts` those stored in the Block, `visible_facts` those
    in view. `failure` says why there is no usable text, "" if there is one.
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
    """What is needed to write the texts of one Block besides the Plan: its id, the facts, settings, texts from hooks.

    `supplied_details` is what a hook says about the text it supplied (`Answer.supplied_details`). That text is then
    used word for word.
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
    """Writes every summary of the Plan, and the facts section into the newest one."""
    facts = writing.facts
    replaced_ends = (p.last for p in plan.draft.pieces if p.changed or p.units[0].ref is not None)
    covered = max(replaced_ends)  # with older Blocks' ranges, since only the newest Block keeps its facts
    filled = Filled((), tuple(f for f in facts if f.at <= covered or f.kind in STATES), supplied=writing.given)
    newest = max((p.first for p in plan.changed if p.allotment), default=-1)
    pieces = {p.first: p for p in plan.changed}
    out: list[Replacement] = []
    for planned in (_signed(plan.draft, replacement, writing.block) for replacement in replacements(plan.draft)):
        piece = pieces[planned.first]
        if piece.allotment:
            section = None
            if piece.first == newest:
                budget = min(plan.goal.facts, piece.allotment - plan.goal.frame)
                section = section_of(plan, facts, budget=budget, count=writing.count)
                section = _told(plan, filled.known, writing.supplied) if writing.given else section
            replacement, written = yield from _summary(plan, piece, planned, section, writing)
            if section is not None and not writing.given:
                replacement, section = _topped_up(plan, piece, planned, (replacement, section), writing, written.text)
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
            out.append(replacement)
        else:
            out.append(planned)
    if newest < 0:  # without a summary to hold a section, count the facts not in view
        hidden = section_of(plan, facts, budget=0, count=writing.count)
        filled = replace(filled, unshown=len(hidden.unshown))
    carried = carry(filled.known, filled.kept)
    dropped = sum(1 for f in filled.known if must_keep(f)) - sum(1 for f in carried if must_keep(f))
    return replace(filled, replacements=tuple(out), facts=carried, dropped=dropped + _dropped_before(plan.draft))


STATES = WRITTEN | {"todo"}
"""Kinds whose latest fact sums up the earlier ones. It is carried even if the latest change is still in view."""
CARRIED, CARRIED_BESIDE = 300, 150
"""How many must-keep facts, and how many others, a Block stores beyond those it shows: the newest. A Block is read
at every opening, so it must not grow with the session; 1,000 facts decode in about 1 ms."""


def carry(facts: Sequence[Fact], shown: Sequence[Fact]) -> tuple[Fact, ...]:
    """Selects the facts stored in a Block: all that it shows, and the newest of the others."""
    shown_ids = {id(f) for f in shown}
    remaining = {True: CARRIED, False: CARRIED_BESIDE}
    chosen: set[int] = set()
    for fact in sorted(facts, key=lambda f: f.order, reverse=True):
        is_must = must_keep(fact)
        if id(fact) in shown_ids or fact.kind == "name":  # the number of names is limited elsewhere
            chosen.add(id(fact))
        elif remaining[is_must]:
            remaining[is_must] -= 1
            chosen.add(id(fact))
    return tuple(f for f in facts if id(f) in chosen)


def _dropped_before(draft: Draft) -> int:
    live = draft.view.marks.live
    newest = draft.view.path.at(live[-1]) if live else None
    return newest.dropped if isinstance(newest, Block) else 0


def known_facts(draft: Draft) -> tuple[Fact, ...]:
    """Collects the facts of everything in view: those of the newest live Block, and of the original messages since."""
    marks = draft.view.marks
    newest = draft.view.path.at(marks.live[-1]) if marks.live else None
    older = newest.facts if isinstance(newest, Block) else ()
    for shown in (s for p in draft.pieces for s in p.shown() if s.original and s.message.origin == "tenfold"):
        older = merge(older, tuple(replace(f, at=shown.at) for f in parse(summary_text(text_of(shown.message)) or "")))
    visible = [s for p in draft.pieces if p.units[0].ref is None for s in p.shown()]
    originals = [(s.at, s.message) for s in visible if s.original]
    # tool results that arrived after their step was closed
    late_positions = [s.at for s in visible if not s.original and s.message.origin == "tool"]
    originals += [(at, m) for at in late_positions if (m := message_of(draft.view.path.at(at))) is not None]
    originals.sort(key=lambda item: item[0])
    if draft.view.step is not None:
        originals += [(p, m) for p, e in draft.view.step.entries if (m := message_of(e)) is not None]
    return merge(older, extract(originals))


def standing(plan: Plan) -> str:
    """Returns the text that stays in view under the Plan: unchanged messages and stubs, no summaries to be written."""
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
    """Replaces every run of white space by one space, so that quoting and indenting make no difference."""
    return " ".join(text.split())


def is_section(message: Message) -> bool:
    """Tells whether a message in view is only a facts section. An elision leaves one; the next compaction renews it."""
    text = summary_text(text_of(message)) if message.origin == "tenfold" else None
    return text is not None and text.startswith(TITLE) and not narrative(text)


NEW = "01234567-89ab-7cde-8f01-23456789abcd"
"""Stands in a Plan for the id of the Block to be made."""


def beside_newer(message: Message, settings: Settings) -> Message | None:
    """Removes the facts section of a message in view, since a newer one replaces it. The rest of a summary stays.

    Returns the message itself if it has no section, None if nothing else is in it.
    """
    text = summary_text(text_of(message)) if message.origin == "tenfold" else None
    if text is None or TITLE not in text:
        return message
    if not story_of(text, settings):
        return None
    return Message(message.role, (Text(render_summary(NEW, sectionless(text))),), "tenfold")


def shown_again(view: View, made: Replacement) -> bool:
    """Tells whether a replacement shows the same as the older one it covers, apart from the facts section."""
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
    """Builds the facts section for the Plan. Must-keep facts and identifiers already in view are not repeated."""
    text = standing(plan)

    def hidden(fact: Fact) -> bool:
        return (fact.kind in MUST_KEEP or fact.kind == "identifier") and _stands_in(fact, text)

    names, depth = min(plan.goal.names, budget), plan.goal.depth
    return render(facts, budget=budget, count=count, hidden=hidden, names=names, depth=depth, beside=text)


def _stands_in(fact: Fact, text: str) -> bool:
    """Tells whether a fact is in a text that has single spaces; of a shortened fact, whether all its parts are."""
    head, *rest = CLIPPED.split(flat(fact.text))
    return stands(head, text) if not rest else all(part in text for part in (head, *rest))


def stands(words: str, text: str) -> bool:
    """Tells whether `words` occur in `text` by themselves, not as part of a longer word or path."""
    start = text.find(words) if words else -1
    while start >= 0:
        before, after = text[start - 1 : start], text[start + len(words) : start + len(words) + 2]
        if not _goes_on(before, words[0]) and not _goes_on(after, words[-1]):
            return True
        start = text.find(words, start + 1)
    return False


def _goes_on(edge: str, inner: str) -> bool:
    """Tells whether a word or path continues across the edge of a match. A full stop before white space ends it."""
    if not (inner.isalnum() or inner == "_"):
        return False
    near = edge[:1]
    return near.isalnum() or near in ("_", "/", "\\", "-") if near != "." else edge[1:].isalnum()


def kept_facts(plan: Plan, filled: Filled) -> dict[str, tuple[int, int]]:
    """Counts, for each kind, the facts visible in the view that the Plan leads to, and all facts.

    Only valid facts count: no resolved errors, earlier to-do lists or earlier requests. Names in use do not count
    either, since a view shows as many as fit.
    """
    text = standing(plan)
    visible_ids = {id(f) for f in filled.kept}
    out: dict[str, tuple[int, int]] = {}
    for fact in filled.known:
        if fact.live and fact.kind != "name":
            kept, total = out.get(fact.kind, (0, 0))
            out[fact.kind] = (kept + (id(fact) in visible_ids or _stands_in(fact, text)), total + 1)
    return out


def _told(plan: Plan, facts: Sequence[Fact], text: str) -> Section:
    """Returns the facts that a supplied text or the view beside it contains. Missing facts are reported, not added."""
    visible_text = flat(f"{standing(plan)} {text}")
    visible = tuple(f for f in facts if _stands_in(f, visible_text))
    return Section("", visible, tuple(f for f in facts if must_keep(f) and f not in visible), 0)


def _words(message: Message) -> str:
    calls = (f"{c.name} {c.arguments}" for c in calls_of(message))
    return "\n".join((text_of(message), *calls))


def _summary(
    plan: Plan, piece: Piece, each: Replacement, section: Section | None, writing: Writing
) -> Generator[tuple[Ask, ...], tuple[Answer, ...], tuple[Replacement, Written]]:
    draft, frame = plan.draft, plan.goal.frame
    facts = section.text if section else ""
    budget = piece.allotment - frame - (section.tokens if section else 0)
    if piece.kind == BATCHES:
        job = job_of(draft.view, plan.goal, piece, budget, writing)
        written = yield from writing.writer.write(replace(job, supplied=writing.supplied))
    elif piece.kind != SUMMARY or (budget < LEAST_NARRATIVE and not (writing.supplied or writing.given)):
        written = Written(text="", rung="none" if piece.kind != SUMMARY else "mechanical")
    elif writing.supplied or writing.given:
        written = Written(text=clean(writing.supplied), rung="none")
    else:
        written = yield from writing.writer.write(job_of(draft.view, plan.goal, piece, budget, writing))
    build = partial(_saying, plan, piece, writing, facts)
    message, size = build(written.text)
    other_tokens = sum(each.sizes) - piece.allotment
    if writing.given and (size + other_tokens >= piece.before or not written.text.strip()):
        problem = f"it takes {size:,} tokens in place of {piece.before - other_tokens:,}"
        problem = problem if written.text.strip() else "it is empty"
        written = replace(written, text="", failed=f"the summary that a before-hook supplied cannot be used: {problem}")
    elif size > piece.allotment and writing.supplied and not writing.given:
        note = f"the supplied summary takes {size:,} tokens; it was cut to its allotment of {piece.allotment:,}"
        written = replace(written, notes=(*written.notes, note))
    while size > piece.allotment and written.text and not writing.given:
        limit = writing.count([written.text])[0] - (size - piece.allotment) - 1
        shorter = shortened(written.text, limit, writing.count)
        written = replace(written, text=shorter if len(shorter) < len(written.text) else "")
        message, size = build(written.text)
    at = place_to_write(each.show)
    show, sizes = list(each.show), list(each.sizes)
    if piece.kind == SUMMARY and summary_text(text_of(message)) == "":  # too short for a text: say how many
        placeholder, placeholder_size = build(
            f"({len(piece.shown()) - len(each.show) + 1:,} messages are not shown here)"
        )
        message, size = (placeholder, placeholder_size) if placeholder_size <= piece.allotment else (message, size)
    if piece.kind not in _TELLS and not facts:  # all facts are in view anyway: show no empty section
        del show[at], sizes[at]
    else:
        show[at], sizes[at] = Say(message), size
    return replace(each, show=tuple(show), sizes=tuple(sizes)), written


def _saying(plan: Plan, piece: Piece, writing: Writing, facts: str, story: str) -> tuple[Message, int]:
    """Builds the message of a summary and counts its tokens."""
    settings = writing.settings  # a facts section alone gets no opening and closing
    if piece.kind not in _TELLS:
        settings = replace(settings, opening="", closing="")
    return _said(plan.draft, (story, facts), writing.block, plan.goal.recall, settings)


def _topped_up(
    plan: Plan, piece: Piece, each: Replacement, made: tuple[Replacement, Section], writing: Writing, story: str
) -> tuple[Replacement, Section]:
    """Adds further facts to the summary if the narrative left tokens of the allotment.

    Only for a policy that shows names in use, which fill the rest. Others keep the facts section to its share.
    """
    written_replacement, section = made
    used = section.tokens + writing.count([story])[0] + plan.goal.frame
    remaining = piece.allotment - used - max(plan.tokens_after - plan.goal.target, 0)
    if not plan.goal.names or remaining < LEAST_NARRATIVE or len(written_replacement.show) < len(each.show):
        return made
    larger = section_of(plan, writing.facts, budget=section.tokens + remaining, count=writing.count)
    message, size = _saying(plan, piece, writing, larger.text, story)
    if size > piece.allotment or larger.tokens <= section.tokens:
        return made
    at = place_to_write(each.show)
    show, sizes = list(written_replacement.show), list(written_replacement.sizes)
    show[at], sizes[at] = Say(message), size
    return replace(written_replacement, show=tuple(show), sizes=tuple(sizes)), larger


def _signed(draft: Draft, made: Replacement, block: str) -> Replacement:
    """Puts the Block's id into older summaries that the replacement shows in another form."""
    show, sizes = list(made.show), list(made.sizes)
    for at, each in enumerate(made.show):
        if isinstance(each, Say) and (mark := summary_mark(text_of(each.message))) and mark.block == NEW:
            text = summary_text(text_of(each.message)) or ""
            message = replace(each.message, parts=(Text(render_summary(block, text)),))
            show[at], sizes[at] = replace(each, message=message), draft.weigh([message])[0]
    return replace(made, show=tuple(show), sizes=tuple(sizes)) if show != list(made.show) else made


def frame_of(draft: Draft, recall: Recall, settings: Settings) -> int:
    """Counts the tokens of a summary without any text, with a margin because ids and hashes vary."""
    _, size = _said(draft, ("", ""), NEW, recall, settings)
    return max(FRAME, size * 5 // 4)


def _said(draft: Draft, texts: tuple[str, str], block: str, recall: Recall, settings: Settings) -> tuple[Message, int]:
    message = carrier(block, (*texts, expansion(recall, block)), settings)
    return message, draft.weigh([message])[0]


def carrier(block: str, texts: Sequence[str], settings: Settings) -> Message:
    """Builds the message that carries a summary: delimiter, the policy's opening, the texts, the policy's closing."""
    text = "\n\n".join(t for t in texts if t)
    content = "\n".join(t for t in (settings.opening, text, settings.closing) if t)
    return Message(settings.role, (Text(render_summary(block, content)),), "tenfold")


def story_of(text: str, settings: Settings) -> str:
    """Returns the narrative of a summary in view, without facts section, opening and closing."""
    return narrative(text).removeprefix(settings.opening).removesuffix(settings.closing).strip()


def job_of(view: View, goal: Goal, piece: Piece, room: int, writing: Writing) -> Job:
    """Builds what a writer receives for one piece of a Plan on this view."""
    items: list[tuple[int, Message]] = []
    previous: list[str] = []
    kept_positions = {s.position for s in piece.show if not isinstance(s, Say)}
    reads = dict(piece.reads)
    for unit in piece.units:
        for shown in unit.shown:
            text = summary_text(text_of(shown.message)) if shown.message.origin == "tenfold" else None
            if text is not None:
                previous.extend([narrative_text] if (narrative_text := story_of(text, writing.settings)) else [])
            elif not (shown.original and shown.at in kept_positions and shown.message.role == "user"):
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
