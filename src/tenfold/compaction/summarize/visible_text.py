"""What a view shows already, apart from the summary that is being written: facts in view need not be repeated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tenfold.compaction.facts.file_changes import find_changed_files
from tenfold.compaction.facts.parse import get_text_before_facts, without_section
from tenfold.compaction.facts.section import FactsSection, get_shown_text, is_must_keep, render_facts
from tenfold.compaction.facts.section_headings import split_at_title
from tenfold.compaction.plan.draft import UNWRITTEN_SUMMARY
from tenfold.compaction.plan.pipeline import Plan
from tenfold.compaction.summarize.ladder import SummarySettings
from tenfold.compaction.summarize.reserved_marks import NOTES_FRAME
from tenfold.core.record.block import Block, BlockPart, Replacement, ShownItem, Substitute
from tenfold.core.record.entry import get_message
from tenfold.core.record.fact import ChangedFile, Correction, Fact, Remark, Request, Rule
from tenfold.core.record.message import Message, Text, get_text, get_tool_calls
from tenfold.core.text.excerpts import ENDS_MARK, Count, collapse_spaces, has_words
from tenfold.core.view.fold import View
from tenfold.core.wire.marks import extract_summary_text, render_summary


def get_words(message: Message) -> str:
    """Returns the text of a message and of its tool calls."""
    calls = (f"{c.name} {c.arguments}" for c in get_tool_calls(message))
    return "\n".join((get_text(message), *calls))


def get_shown_positions(shown_items: Sequence[ShownItem]) -> set[int | None]:
    """Returns the positions of the originals that are shown, as they are or as an excerpt of what the user wrote."""
    return {
        show.original_position if isinstance(show, Substitute) else show.position
        for show in shown_items
        if not isinstance(show, Substitute) or show.message.origin == "human"
    }


def get_visible_text(plan: Plan) -> str:
    """Returns the text that stays in view under the Plan: unchanged messages and stubs, no summaries to be written."""
    return _join_words(_list_visible_messages(plan))


def _join_words(messages: Iterable[Message]) -> str:
    return collapse_spaces("\n".join(map(get_words, messages)))


def get_users_words(messages: Iterable[Message]) -> str:
    """Returns the text of what the user said, in the user's messages or in an earlier summary, with single spaces.

    Whether a rule, a correction or a request is in view follows from it, by `is_fact_in`: the same words in an answer
    or in a tool's output do not hold.
    """
    return _join_words(message for message in messages if message.origin in ("human", "tenfold"))


def _list_visible_messages(plan: Plan) -> list[Message]:
    out: list[Message] = []
    for piece in plan.draft.pieces:
        if not piece.is_changed:
            out.extend(s.message for s in piece.get_visible_messages())
            continue
        for show in (
            s for s in piece.shown_items if not (isinstance(s, Substitute) and s.message is UNWRITTEN_SUMMARY)
        ):
            message = (
                show.message
                if isinstance(show, Substitute)
                else get_message(plan.draft.view.path.get_entry(show.position))
            )
            if message is not None:
                out.append(message)
    return out


NEW_BLOCK_ID = "01234567-89ab-7cde-8f01-23456789abcd"
"""Stands in a Plan for the id of the Block to be made."""


def drop_old_section(message: Message, settings: SummarySettings) -> Message | None:
    """Removes the facts section of a message in view, since a newer one replaces it. The rest of a summary stays.

    Returns the message itself if it has no section, None if nothing else is in it.
    """
    text = extract_summary_text(get_text(message)) if message.origin == "tenfold" else None
    if text is None or split_at_title(text) is None:
        return message
    if not get_narrative(text, settings):
        return None
    return Message(message.role, (Text(render_summary(NEW_BLOCK_ID, without_section(text))),), "tenfold")


def is_shown_again(view: View, replacement: Replacement) -> bool:
    """Tells whether a replacement shows the same as the older one it covers, apart from the facts section."""
    ref = replacement.covered_ranges[0]
    if not isinstance(ref, BlockPart) or len(replacement.covered_ranges) > 1:
        return False
    older = view.path.get_entry(ref.block)
    return isinstance(older, Block) and _without_facts(replacement.shown_items) == _without_facts(
        older.replacements[ref.index].shown_items
    )


def _without_facts(show: Sequence[ShownItem]) -> list[ShownItem | str]:
    out: list[ShownItem | str] = []
    for each in show:
        text = extract_summary_text(get_text(each.message)) if isinstance(each, Substitute) else None
        if text is None:
            out.append(each)
        elif get_text_before_facts(text):
            out.append(without_section(text))
    return out


_BEGINNING_CHARS = 80
"""Where so much of a request is in view, it is there as a whole or by head and tail."""


_USERS = (Request, Rule, Correction, Remark)
"""What only the user's own words show, or an earlier summary's: the same words in a tool's output do not."""


def build_section(plan: Plan, facts: Sequence[Fact], *, budget: int, count: Count, told: str = "") -> FactsSection:
    """Builds the facts section for the Plan. What is in view is not repeated, nor what is `told` by the summary's text.

    Of what the text tells, must-keep facts are repeated all the same.
    """
    messages = _list_visible_messages(plan)
    told, in_view = collapse_spaces(told), _join_words(messages)
    users_words = get_users_words(messages)
    changed_files = find_changed_files(messages)
    text = f"{in_view} {told}"

    def is_visible(fact: Fact) -> bool:
        if isinstance(fact, ChangedFile):  # a path that is merely mentioned says nothing of a change
            return fact.text in changed_files and is_fact_in(fact, in_view)
        if isinstance(fact, _USERS) and fact.live:
            is_excerpted = isinstance(fact, Request) and collapse_spaces(fact.text)[:_BEGINNING_CHARS] in users_words
            return is_excerpted or is_fact_in(fact, users_words)
        return is_fact_in(fact, in_view if is_must_keep(fact) else text)

    return render_facts(
        facts,
        budget=budget,
        count=count,
        is_visible=is_visible,
        usual_budget=plan.goal.facts_budget,
        words_budget=max(plan.goal.words_budget, budget // 2) if plan.goal.words_budget else 0,
    )


def is_fact_in(fact: Fact, text: str) -> bool:
    """Tells whether a fact is in a text that has single spaces; of a shortened fact, whether all its parts are."""
    if get_shown_text(fact) != fact.label and has_words(collapse_spaces(get_shown_text(fact)), text):
        return True
    head, *rest = ENDS_MARK.split(collapse_spaces(fact.label))
    return has_words(head, text) if not rest else all(part in text for part in (head, *rest))


def get_narrative(text: str, settings: SummarySettings) -> str:
    """Returns the narrative of a summary in view, without facts section, opening, closing and `NOTES_FRAME`."""
    text = get_text_before_facts(text).removeprefix(settings.opening).removesuffix(settings.closing)
    return text.strip().removeprefix(NOTES_FRAME).strip()
