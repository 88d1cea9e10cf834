"""Fills a Plan: writes what its Block shows. Facts come from code, texts from Asks.

There is one facts section, in the newest summary. Nothing here appends or measures. The allotments of a Plan are upper
bounds for every text written here; tokens that a narrative leaves over go to the facts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.facts.extractor import extract_facts, merge_facts
from tenfold.compaction.facts.file_footer import list_files, merge_file_lists
from tenfold.compaction.facts.ledger import build_setting_facts
from tenfold.compaction.facts.parse import parse_claims, parse_facts
from tenfold.compaction.facts.section import FactsSection, is_must_keep
from tenfold.compaction.facts.section_headings import NO_FACTS, RULES_TITLE, TITLE
from tenfold.compaction.plan.draft import (
    SUMMARY,
    SUMMARY_OVERHEAD,
    Draft,
    DraftPiece,
    Goal,
    RecallMode,
    build_replacements,
    find_unwritten,
)
from tenfold.compaction.plan.pipeline import Plan
from tenfold.compaction.plan.stubs import find_hidden_part, render_expand_hint
from tenfold.compaction.summarize.asking import clean_text
from tenfold.compaction.summarize.ladder import Asking, SummaryResult, SummarySettings
from tenfold.compaction.summarize.reserved_marks import NOTES_FRAME
from tenfold.compaction.summarize.supplied_text import clean_supplied_text
from tenfold.compaction.summarize.visible_text import (
    NEW_BLOCK_ID,
    build_section,
    get_narrative,
    get_visible_text,
    is_fact_in,
)
from tenfold.compaction.summarize.writer import (
    Footer,
    SingleTextWriter,
    Writer,
    WritingJob,
    get_footer_renderer,
    get_text_kinds,
    read_units,
)
from tenfold.core.record.block import (
    NO_BATCHES,
    Batches,
    FileLists,
    ModelCost,
    Replacement,
    Rung,
    Substitute,
    add_costs,
)
from tenfold.core.record.entry import get_message
from tenfold.core.record.fact import ChangedFile, Correction, Fact, FileRead, Request, Rule, TodoList
from tenfold.core.record.message import Message, Text, get_text
from tenfold.core.record.token_reading import Counted
from tenfold.core.text.excerpts import Count, collapse_spaces, trim_lines, wrap_lines
from tenfold.core.view.fold import View
from tenfold.core.wire.marks import extract_summary_text, find_summary_mark, render_summary

MIN_NARRATIVE_TOKENS = 30
"""A narrative of fewer tokens says nothing beyond the facts and is left out."""


class FilledPlan(Struct, frozen=True):
    """A Plan with its summaries written.

    `all_facts` are the facts of all that is covered, `carried_facts` those that hold after the Block, `visible_facts`
    those in view. `failure` says why there is no usable text, "" if there is one.
    """

    replacements: tuple[Replacement, ...]
    all_facts: tuple[Fact, ...]
    carried_facts: tuple[Fact, ...] = ()
    visible_facts: tuple[Fact, ...] = ()
    unshown_facts: int = 0
    dropped_facts: int = 0
    rung: Rung = "none"
    notes: tuple[str, ...] = ()
    spent: ModelCost = ModelCost()
    failure: str = ""
    supplied_details: str = ""
    batches: Batches = NO_BATCHES
    files: FileLists | None = None


class FillRequest(Struct, frozen=True):
    """What is needed to write the texts of one Block besides the Plan: its id, the facts, settings, texts from hooks.

    `supplied_details` is what a hook says about the text it supplied (`Answer.supplied_details`). That text is then
    used word for word. `supplied_files` are the files that it names. `token_factor` is that of `WritingJob`.
    """

    block: str
    facts: tuple[Fact, ...]
    settings: SummarySettings
    count: Count
    focus: str = ""
    supplied_text: str = ""
    writer: Writer = SingleTextWriter()
    supplied_details: str = ""
    supplied_files: FileLists | None = None
    token_factor: float = 1.0


def fill_plan(plan: Plan, request: FillRequest) -> Asking[FilledPlan]:
    """Writes every summary of the Plan, and the facts section into the newest one."""
    facts = request.facts
    replaced_ends = (p.last for p in plan.draft.pieces if p.is_changed or p.units[0].block_part is not None)
    covered = max(replaced_ends)  # with older Blocks' ranges, whose facts hold on
    filled = FilledPlan(
        (),
        tuple(f for f in facts if f.position <= covered or isinstance(f, ChangedFile | TodoList)),  # the latest states
        supplied_details=request.supplied_details,
    )
    newest = max((p.first for p in plan.changed_pieces if p.summary_budget), default=-1)
    pieces = {p.first: p for p in plan.changed_pieces}
    if newest >= 0 and (get_footer_renderer(request.writer) is not None or request.supplied_files is not None):
        covered_files = collect_covered_files(plan.draft, pieces[newest].last)
        filled = replace(filled, files=merge_file_lists((covered_files, request.supplied_files or FileLists())))
    out: list[Replacement] = []
    for planned in (
        _with_block_id(plan.draft, replacement, request.block) for replacement in build_replacements(plan.draft)
    ):
        piece = pieces[planned.first]
        if piece.summary_budget:
            section = None
            if request.supplied_details and piece.first == newest:
                section = _build_supplied_section(plan, filled.all_facts, request.supplied_text)
                written = SummaryResult(text=clean_supplied_text(request.supplied_text, request.facts), rung="none")
            else:
                files = filled.files if piece.first == newest else None
                written, section = yield from _write_text(
                    plan, piece, request, has_section=piece.first == newest, files=files
                )
                request = replace(request, facts=_with_quoted_rules(request.facts, written.rules))
                filled = replace(filled, all_facts=_with_quoted_rules(filled.all_facts, written.rules))
            replacement, written = _place_text(plan, piece, planned, section, request, written)
            filled = replace(
                filled,
                rung=written.rung,
                notes=(*filled.notes, *written.notes),
                failure=filled.failure or written.failure,
                batches=written.batches if written.batches.top else filled.batches,
                spent=add_costs(filled.spent, written.spent) if written.spent.calls else filled.spent,
            )
            if section is not None:
                filled = replace(filled, visible_facts=section.visible, unshown_facts=len(section.unshown))
            out.append(replacement)
        else:
            out.append(planned)
    if newest < 0:  # without a summary to hold a section, count the facts not in view
        hidden = build_section(plan, facts, budget=0, count=request.count)
        filled = replace(filled, unshown_facts=len(hidden.unshown))
    carried = select_carried(filled.all_facts, filled.visible_facts)
    dropped = sum(1 for f in filled.all_facts if is_must_keep(f)) - sum(1 for f in carried if is_must_keep(f))
    return replace(
        filled,
        replacements=tuple(out),
        carried_facts=carried,
        dropped_facts=dropped + _count_dropped_before(plan.draft),
    )


def _with_quoted_rules(facts: tuple[Fact, ...], rules: tuple[Rule, ...]) -> tuple[Fact, ...]:
    """Returns the facts with the rules that a text's model has quoted, in order."""
    return tuple(sorted((*facts, *rules), key=lambda fact: fact.order)) if rules else facts


MAX_CARRIED_MUST_KEEP, MAX_CARRIED_OTHERS = 300, 150
"""How many must-keep facts, and how many others, are kept beyond those that a Block shows: the newest. The Blocks of a
path are read before a compaction, and the first may have summarized a whole session."""


def select_carried(facts: Sequence[Fact], visible: Sequence[Fact]) -> tuple[Fact, ...]:
    """Selects the facts that hold after a Block: all that it shows, and the newest of the others."""
    shown_ids = {id(f) for f in visible}
    remaining = {True: MAX_CARRIED_MUST_KEEP, False: MAX_CARRIED_OTHERS}
    chosen: set[int] = set()
    for fact in sorted(facts, key=lambda f: f.order, reverse=True):
        is_must = is_must_keep(fact)
        if id(fact) in shown_ids:
            chosen.add(id(fact))
        elif remaining[is_must]:
            remaining[is_must] -= 1
            chosen.add(id(fact))
    return tuple(f for f in facts if id(f) in chosen)


def _count_dropped_before(draft: Draft) -> int:
    newest = draft.view.find_newest_block()
    return newest.dropped_facts if newest is not None else 0


def parse_summary(message: Message, position: int) -> tuple[Fact, ...]:
    """Parses the facts of a message that is a summary, our own or one of unknown source; () for any other."""
    if message.origin not in ("tenfold", "harness"):
        return ()
    parse = parse_facts if message.origin == "tenfold" else parse_claims
    return parse(extract_summary_text(get_text(message)) or "", position=position)


def _list_originals(draft: Draft, pieces: Sequence[DraftPiece]) -> list[tuple[int, Message]]:
    """Lists the original messages of these pieces with their positions, also of results that came late."""
    units = (unit for piece in pieces for unit in piece.units if unit.block_part is None)
    visible = [shown for unit in units for shown in unit.visible_messages]
    originals = [(s.position, s.message) for s in visible if s.is_original]
    # tool results that arrived after their step was closed
    late_positions = [s.position for s in visible if not s.is_original and s.message.origin == "tool"]
    originals += [(at, m) for at in late_positions if (m := get_message(draft.view.path.get_entry(at))) is not None]
    return sorted(originals, key=lambda item: item[0])


def collect_facts(draft: Draft) -> tuple[Fact, ...]:
    """Collects the facts of everything in view: those of the live Blocks, and of the original messages since."""
    older = draft.view.list_block_facts()
    for shown in (s for p in draft.pieces for s in p.get_visible_messages() if s.is_original):
        found = parse_summary(shown.message, shown.position)
        older = merge_facts(older, found) if found else older
    originals = _list_originals(draft, draft.pieces)
    if draft.view.open_step is not None:
        originals += [(p, m) for p, e in draft.view.open_step.entries if (m := get_message(e)) is not None]
    settings = build_setting_facts((at, draft.view.path.get_entry(at)) for at in draft.view.state.rule_settings)
    return merge_facts(older, (*extract_facts(originals), *settings))


FOOTER_SHARE = 4
"""A footer takes at most a quarter of the summary's budget."""
TEXT_SHARE = 4
"""A quarter of the budget is the text's, however many rules the user gave, where a summary without a text is none."""


def collect_covered_files(draft: Draft, last: int) -> FileLists:
    """Collects the files of everything up to position `last`: those of the newest live Block, and of what came since.

    What comes after `last` does not count, although the facts of a file that it touches again stand there.
    """
    newest = draft.view.find_newest_block()
    lists: list[FileLists] = []
    if newest is not None:
        covered = max((r.last for r in newest.replacements), default=-1)
        facts = draft.view.list_block_facts()
        lists.append(newest.files if newest.files is not None else list_files(facts, until=covered))
    originals = _list_originals(draft, [p for p in draft.pieces if p.first <= last])
    lists += [list_files(parse_summary(message, position)) for position, message in originals]
    lists.append(list_files(extract_facts(originals)))
    return merge_file_lists(lists)


def count_visible_facts(plan: Plan, filled: FilledPlan) -> dict[str, tuple[int, int]]:
    """Counts, for each kind, the facts visible in the view that the Plan leads to, and all facts.

    Only valid facts count: no resolved errors, earlier to-do lists or earlier requests.
    """
    text = get_visible_text(plan)
    visible_ids = {id(f) for f in filled.visible_facts}
    out: dict[str, tuple[int, int]] = {}
    for fact in filled.all_facts:
        if fact.live:
            kept, total = out.get(fact.kind, (0, 0))
            out[fact.kind] = (kept + (id(fact) in visible_ids or is_fact_in(fact, text)), total + 1)
    return out


def _build_supplied_section(plan: Plan, facts: Sequence[Fact], text: str) -> FactsSection:
    """Returns the facts that a supplied text or the view beside it contains. Missing facts are reported, not added."""
    visible_text = collapse_spaces(f"{get_visible_text(plan)} {text}")
    visible = tuple(f for f in facts if is_fact_in(f, visible_text))
    return FactsSection("", visible, tuple(f for f in facts if is_must_keep(f) and f not in visible), 0)


def _write_text(
    plan: Plan, piece: DraftPiece, request: FillRequest, *, has_section: bool, files: FileLists | None = None
) -> Asking[tuple[SummaryResult, FactsSection | None]]:
    """Writes the text of a summary, and the section of the facts. A file in the lists of `files` is not in the section.

    The text gets what the must-keep facts leave, and what it leaves goes to further facts. Must-keep facts always stand
    in the section, because it is what the next compaction of a plain list reads them from.
    """
    room = piece.summary_budget - plan.goal.summary_overhead
    if not has_section:
        return (yield from _write_narrative(plan, piece, room, request, "")), None
    render = get_footer_renderer(request.writer) if files is not None else None
    footer = render(files or FileLists(), budget=room // FOOTER_SHARE, count=request.count) if render else Footer()
    listed, facts = _split_at_footer(request.facts, footer) if footer.text else ((), request.facts)
    room -= request.count([footer.text])[0] + 2 if footer.text else 0
    build = partial(build_section, plan, count=request.count)
    with_story = plan.goal.fills_room  # other policies give all kinds of facts their share before the text
    words = plan.goal.words_budget
    first = tuple(f for f in facts if not with_story or is_must_keep(f) or (words and isinstance(f, Request)))
    held: tuple[Fact, ...] = tuple(fact for fact in first if fact.live and isinstance(fact, Rule | Correction))
    text_room = room // (2 if with_story else TEXT_SHARE)
    rules = build(held, budget=room - text_room)  # they hold, so they come before the text
    largest: int = plan.goal.facts_budget
    if words:  # a model's notes tell the rest
        largest = min(largest, room // 2)
    most = request.settings.facts_per_text
    if most is not None:  # what the text must leave to them is no more than they may take
        largest = min(largest, int(room * most / (1 + most)))
    own_line = MIN_NARRATIVE_TOKENS if _is_of_archive(piece, request) else 0  # it is written however little fits
    needed = build(first, budget=max(0, min(max(largest, rules.tokens), room - own_line)))
    needed = _with_rules(needed, rules, partial(build, first))
    written = yield from _write_narrative(plan, piece, room - needed.tokens, request, needed.text)
    if written.rules:  # they hold as well, so the text makes room for them
        first, held, facts = (_with_quoted_rules(each, written.rules) for each in (first, held, facts))
        rules = build(held, budget=room - text_room)
        needed = _with_rules(build(first, budget=max(needed.tokens, rules.tokens)), rules, partial(build, first))
        if sum(request.count([written.text])) > room - needed.tokens:
            shorter = trim_lines(wrap_lines(written.text), room - needed.tokens, request.count)
            written = replace(written, text=shorter)
    left = room - sum(request.count([written.text]))
    shown = first if with_story and written.text else facts  # a story has told what else there is
    rules, budget = build(held, budget=left), int(left)
    if not with_story:  # the facts section keeps to its share
        budget = min(budget, max(plan.goal.facts_budget, needed.tokens))
    if most is not None and written.text:
        budget = min(budget, int(most * request.count([written.text])[0]))
    section = _with_rules(build(shown, budget=budget, told=written.text), rules, partial(build, shown))
    if most is None or not written.text:
        section = section if len(section.unshown) <= len(needed.unshown) else needed
    return written, replace(section, visible=(*section.visible, *listed), footer=footer.text.strip())


def _split_at_footer(facts: Sequence[Fact], footer: Footer) -> tuple[tuple[Fact, ...], tuple[Fact, ...]]:
    """Splits facts into those that the footer tells, and all others. It does not tell deletions and renames apart."""

    def is_listed(fact: Fact) -> bool:
        match fact:
            case FileRead() | ChangedFile(change="modified" | "created"):
                return fact.text in footer.paths
            case _:
                return False

    return tuple(f for f in facts if is_listed(f)), tuple(f for f in facts if not is_listed(f))


def _with_rules(section: FactsSection, rules: FactsSection, build: Callable[..., FactsSection]) -> FactsSection:
    """Returns the section if it has all rules of the user that fit the summary, else one of those `rules` alone.

    They stand beside every bound on facts. `build` builds the section within a budget.
    """
    shown = set(map(id, rules.visible))
    if shown.isdisjoint(map(id, section.unshown)):
        return section
    empty = build(budget=0)
    unshown = tuple(fact for fact in empty.unshown if id(fact) not in shown)
    text = rules.text.replace(TITLE, RULES_TITLE, 1)
    return replace(rules, text=text, visible=(*empty.visible, *rules.visible), unshown=unshown)


def _write_narrative(
    plan: Plan, piece: DraftPiece, budget: int, request: FillRequest, told: str
) -> Asking[SummaryResult]:
    draft = plan.draft
    if _is_of_archive(piece, request):
        job = build_job(draft.view, plan.goal, piece, budget, request)
        return (yield from request.writer.write(replace(job, supplied_text=request.supplied_text)))
    if piece.kind != SUMMARY:
        return SummaryResult(text="", rung="none")
    if request.supplied_text:
        return SummaryResult(text=clean_text(request.supplied_text), rung="none")
    if budget < MIN_NARRATIVE_TOKENS:
        return SummaryResult(text="", rung="mechanical")
    job = build_job(draft.view, plan.goal, piece, budget, request)
    job = replace(job, told=told, hidden_parts=_find_hidden_parts(job, draft))
    return (yield from request.writer.write(job))


def _is_of_archive(piece: DraftPiece, request: FillRequest) -> bool:
    """Tells whether a piece is to hold several texts: the writer is asked for it whatever the room is."""
    return piece.kind != SUMMARY and piece.kind in get_text_kinds(request.writer)


def _find_hidden_parts(job: WritingJob, draft: Draft) -> dict[int, str]:
    """Finds what the view leaves out of a request of which it shows an excerpt, by its position."""
    shown = {item.original_position: get_text(item.message) for item, _ in draft.excerpts.values()}
    texts = {position: get_text(message) for position, message in job.kept_items if position in shown}
    return {position: hidden for position, text in texts.items() if (hidden := find_hidden_part(text, shown[position]))}


def _place_text(
    plan: Plan,
    piece: DraftPiece,
    replacement: Replacement,
    section: FactsSection | None,
    request: FillRequest,
    written: SummaryResult,
) -> tuple[Replacement, SummaryResult]:
    """Puts the text and the section into the replacement, within its allotment."""
    is_of_text = piece.kind in get_text_kinds(request.writer)
    if section is not None and not (section.text or is_of_text) and plan.goal.fills_room:
        section = replace(section, text=NO_FACTS)
    facts = section.text if section else ""
    build = partial(_build_piece_message, plan, piece, request, section)
    message, size = build(written.text)
    other_tokens = sum(replacement.sizes) - piece.summary_budget
    if request.supplied_details and (size + other_tokens >= piece.tokens_before or not written.text.strip()):
        problem = f"it takes {size:,} tokens in place of {piece.tokens_before - other_tokens:,}"
        problem = problem if written.text.strip() else "it is empty"
        written = replace(written, text="", failure=f"the supplied summary cannot be used: {problem}")
    elif size > piece.summary_budget and request.supplied_text and not request.supplied_details:
        note = f"the supplied summary takes {size:,} tokens; it was cut to its allotment of {piece.summary_budget:,}"
        written = replace(written, text=wrap_lines(written.text), notes=(*written.notes, note))
    while size > piece.summary_budget and written.text and not request.supplied_details:
        limit = request.count([written.text])[0] - (size - piece.summary_budget) - 1
        shorter = trim_lines(written.text, limit, request.count)
        written = replace(written, text=shorter if len(shorter) < len(written.text) else "")
        message, size = build(written.text)
    at = find_unwritten(replacement.shown_items)
    if piece.kind == SUMMARY and extract_summary_text(get_text(message)) == "":  # too short for a text: say how many
        placeholder, placeholder_size = build(
            f"({len(piece.get_visible_messages()) - len(replacement.shown_items) + 1:,} messages are not shown here)"
        )
        message, size = (placeholder, placeholder_size) if placeholder_size <= piece.summary_budget else (message, size)
    if is_of_text or (facts and size <= piece.summary_budget):
        return _with_item(replacement, at, Substitute(message), size), written
    shown_items, sizes = list(replacement.shown_items), list(replacement.sizes)
    del shown_items[at], sizes[at]  # all facts are in view anyway: show no empty section
    return replace(replacement, shown_items=tuple(shown_items), sizes=tuple(sizes)), written


def _build_piece_message(
    plan: Plan, piece: DraftPiece, request: FillRequest, section: FactsSection | None, narrative_text: str
) -> tuple[Message, Counted]:
    """Builds the message of a summary and counts its tokens."""
    settings = request.settings  # a facts section alone gets no opening and closing
    if piece.kind not in get_text_kinds(request.writer):
        settings = replace(settings, opening="", closing="")
    facts, footer = (section.text, section.footer) if section else ("", "")
    texts = narrative_text, facts, render_expand_hint(plan.goal.recall, request.block), footer
    message = build_summary_message(request.block, texts, settings)
    return message, plan.draft.measure_messages([message])[0]


def _with_item(replacement: Replacement, at: int, item: Substitute, size: Counted) -> Replacement:
    """Returns the replacement with another item in one place."""
    shown_items, sizes = list(replacement.shown_items), list(replacement.sizes)
    shown_items[at], sizes[at] = item, size
    return replace(replacement, shown_items=tuple(shown_items), sizes=tuple(sizes))


def _with_block_id(draft: Draft, replacement: Replacement, block: str) -> Replacement:
    """Puts the Block's id into older summaries that the replacement shows in another form."""
    for at, each in enumerate(replacement.shown_items):
        if (
            isinstance(each, Substitute)
            and (mark := find_summary_mark(get_text(each.message)))
            and mark.block == NEW_BLOCK_ID
        ):
            text = extract_summary_text(get_text(each.message)) or ""
            message = replace(each.message, parts=(Text(render_summary(block, text)),))
            size = draft.measure_messages([message])[0]
            replacement = _with_item(replacement, at, replace(each, message=message), size)
    return replacement


def count_frame(draft: Draft, recall: RecallMode, settings: SummarySettings) -> Counted:
    """Counts the tokens of a summary without any text, with a margin because ids and hashes vary."""
    message = build_summary_message(NEW_BLOCK_ID, (render_expand_hint(recall, NEW_BLOCK_ID),), settings)
    size = draft.measure_messages([message])[0]
    return max(SUMMARY_OVERHEAD, size * 5 // 4)


def build_summary_message(block: str, texts: Sequence[str], settings: SummarySettings) -> Message:
    """Builds the message that carries a summary: delimiter, the policy's opening, the texts, the policy's closing."""
    text = "\n\n".join(t for t in texts if t)
    content = "\n".join(t for t in (settings.opening, text, settings.closing) if t)
    return Message(settings.role, (Text(render_summary(block, content)),), "tenfold")


def build_job(view: View, goal: Goal, piece: DraftPiece, budget: int, request: FillRequest) -> WritingJob:
    """Builds what a writer receives for one piece of a Plan on this view."""
    items: list[tuple[int, Message]] = []
    kept: list[tuple[int, Message]] = []
    previous: list[str] = []
    has_notes = False
    for source in (source for _, sources in read_units(piece) for source in sources):
        if source.summary is not None:
            has_notes = has_notes or NOTES_FRAME in source.summary
            previous.append(get_narrative(source.summary, request.settings))
        else:
            stays = source.is_kept and source.message.role == "user"
            (kept if stays else items).append((source.position, source.message))
    return WritingJob(
        piece=piece,
        view=view,
        goal=goal,
        items=tuple(items),
        previous=tuple(text for text in previous if text),
        facts=request.facts,
        budget=budget,
        settings=request.settings,
        count=request.count,
        focus=request.focus,
        kept_items=tuple(kept),
        token_factor=request.token_factor,
        has_notes=has_notes,
    )
