"""Whether the model sees the user's rules: each with the message of the view that shows it, or what took it out of it.

It is decided as a compaction decides it, from the words of the user and of summaries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from tenfold.apps.inspector.timeline import MeasuredSession
from tenfold.compaction.facts.extractor import extract_facts, merge_facts
from tenfold.compaction.facts.ledger import Instruction, build_ledger, build_setting_facts, settle_rules
from tenfold.compaction.summarize.visible_text import get_users_words, is_fact_in
from tenfold.core.record.block import KeptOriginal, Replacement
from tenfold.core.record.entry import RULE_ADDED, RULE_DROPPED, Setting, get_message
from tenfold.core.record.fact import Rule
from tenfold.core.record.message import Message
from tenfold.core.view.fold import View
from tenfold.session.undoing import has_newer_rules


class ListedInstruction(Struct, frozen=True):
    """An instruction, with where it stands.

    Of a rule in force, `seen` is the number of the message of the view that shows it, -1 if none does; then `since` is
    the number of the compaction that took it out of view, 0 if it was never in view, and `block` is its id. `ended_by`
    is the position of what ended a rule, -1 if nobody knows it. `is_added` says that a command added it, or dropped it.
    """

    instruction: Instruction
    seen: int = -1
    since: int = 0
    block: str = ""
    ended_by: int = -1
    is_added: bool = False

    @property
    def is_unseen(self) -> bool:
        """Whether it is a rule in force that the model does not see."""
        return self.instruction.is_rule and self.seen < 0


class InstructionList(Struct, frozen=True):
    """The instructions of a session, the newest first: rules, words in other languages, and requests."""

    rules: tuple[ListedInstruction, ...]
    unclassified: tuple[ListedInstruction, ...]
    requests: tuple[ListedInstruction, ...]
    has_newer_rules: bool
    compactions: int

    @property
    def in_force(self) -> int:
        """How many rules are in force."""
        return sum(each.instruction.is_rule for each in self.rules)

    @property
    def unseen(self) -> int:
        """How many of them the model does not see."""
        return sum(each.is_unseen for each in self.rules)


class UnseenRules(Struct, frozen=True):
    """How many rules are in force, and how many the model does not see. The names are those of `InstructionList`."""

    unseen: int
    in_force: int
    has_newer_rules: bool
    compactions: int


def count_unseen_rules(measured: MeasuredSession) -> UnseenRules:
    """Counts the rules that the newest compaction knew and those given since. It reads the view, not the whole path."""
    view = measured.view
    blocks, settings = view.state.live_blocks, view.state.rule_settings
    first = blocks[-1] + 1 if blocks else view.length  # where nothing is compacted, all that was said is in view
    entries = view.path.get_entries(first, view.length - 1) if first < view.length else []
    said = [(at, m) for at, each in enumerate(entries, first) if (m := get_message(each)) is not None]
    new = extract_facts((at, message) for at, message in said if message.origin == "human")
    added = build_setting_facts((at, view.path.get_entry(at)) for at in settings)
    facts = merge_facts(view.list_block_facts(), (*new, *added))
    known = {(fact.text, fact.position): fact for fact in facts if isinstance(fact, Rule)}
    in_force = [each for each in build_ledger(facts) if each.is_rule]
    texts = [text for _, text in _list_words(measured)] if in_force else []
    unseen = [
        each
        for each in in_force
        if (rule := known.get((each.text, each.position))) is not None
        and not any(is_fact_in(rule, text) for text in texts)
    ]
    return UnseenRules(len(unseen), len(in_force), has_newer_rules(view), len(blocks))


def _list_words(measured: MeasuredSession) -> list[tuple[int, str]]:
    """Lists the words of the user in each message of the view that has some, with its number."""
    words = ((number, get_users_words([each.message])) for number, each in enumerate(measured.seen))
    return [(number, text) for number, text in words if text]


def list_instructions(measured: MeasuredSession) -> InstructionList:
    """Lists the instructions of a session, and looks each rule up in the view. It reads the whole path."""
    session, view = measured.session, measured.view
    facts = session.conversation.collect_facts(human_only=True)
    facts_of_rules = {(fact.text, fact.position): fact for fact in facts if isinstance(fact, Rule)}
    words = _list_words(measured)
    listed: dict[str, list[ListedInstruction]] = {"standing": [], "request": [], "unclassified": []}
    for each in reversed(build_ledger(facts)):
        row = ListedInstruction(each)
        rule = facts_of_rules.get((each.text, each.position)) if each.scope == "standing" else None
        if rule is not None:
            is_added = each.position in view.state.rule_settings
            if each.is_rule:
                seen = next((number for number, text in words if is_fact_in(rule, text)), -1)
                since = 0 if seen >= 0 else _find_loss(view, rule, is_added=is_added)
                block = view.path.get_block(view.state.live_blocks[since - 1]).id if since else ""
                row = replace(row, seen=seen, since=since, block=block, is_added=is_added)
            else:
                row = replace(row, ended_by=_find_end(view, rule), is_added=is_added)
        listed[each.scope].append(row)
    rules, unclassified, requests = (tuple(listed[scope]) for scope in ("standing", "unclassified", "request"))
    return InstructionList(rules, unclassified, requests, has_newer_rules(view), len(view.state.live_blocks))


def _find_loss(view: View, rule: Rule, *, is_added: bool) -> int:
    """Finds which compaction in force took a rule out of view, by its number from 1. 0 if it was never in view."""
    place = None if is_added else (rule.position, rule.position)
    since = 0
    for number, at in enumerate(view.state.live_blocks, 1):
        block = view.path.get_block(at)
        shows = (each for each in block.replacements if is_fact_in(rule, get_users_words(_read_shown(view, each))))
        if (holder := next(shows, None)) is not None:
            place, since = (holder.first, holder.last), 0
        elif place is not None and any(r.first <= place[0] and place[1] <= r.last for r in block.replacements):
            place, since = None, number
    return since


def _read_shown(view: View, replacement: Replacement) -> Iterator[Message]:
    for item in replacement.shown_items:
        message = get_message(view.path.get_entry(item.position)) if isinstance(item, KeptOriginal) else item.message
        if message is not None:
            yield message


def _find_end(view: View, rule: Rule) -> int:
    """Finds the position of what ended a rule, -1 if nobody knows it."""
    if rule.end == "dropped":
        return rule.position
    held = replace(rule, live=True, end="")
    for later in _read_later_rules(view, rule):
        ended = settle_rules((held, later))
        if any(each.end and each.text == rule.text for each in ended):
            return later.position
    return -1


def _read_later_rules(view: View, rule: Rule) -> Iterable[Rule]:
    """Yields what the user said of rules from a rule on, each as it was read from its own message."""
    for at, entry in enumerate(view.path.get_entries(rule.position, view.length - 1), rule.position):
        message = get_message(entry)
        if message is not None and message.origin == "human":
            yield from (f for f in extract_facts([(at, message)]) if isinstance(f, Rule) and f.text != rule.text)
        elif isinstance(entry, Setting) and entry.key in (RULE_ADDED, RULE_DROPPED):
            yield from build_setting_facts([(at, entry)])
