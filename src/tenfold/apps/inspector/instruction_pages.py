"""What the user asked for, and whether the model sees it: the page of the instructions, and the notice about rules.

Whether a rule is in view is decided as a compaction decides it, from the words of the user and of summaries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace
from starlette.responses import Response

from tenfold.apps.inspector.rendering import build_address, go_to, respond
from tenfold.apps.inspector.routes import respond_about
from tenfold.apps.inspector.session_pages import MOST_RULE_CHARACTERS
from tenfold.apps.inspector.timeline import MeasuredSession
from tenfold.apps.inspector.visits import OpenSession, Page, Visit
from tenfold.compaction.facts.extractor import extract_facts
from tenfold.compaction.facts.ledger import Instruction, build_ledger, build_setting_facts, settle_rules
from tenfold.compaction.summarize.visible_text import get_users_words, is_fact_in
from tenfold.core.record.block import KeptOriginal, Replacement
from tenfold.core.record.entry import RULE_ADDED, RULE_DROPPED, Setting, get_message
from tenfold.core.record.fact import Rule
from tenfold.core.record.message import Message
from tenfold.core.view.fold import View
from tenfold.errors import NotFoundError
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


def list_instructions(measured: MeasuredSession) -> InstructionList:
    """Lists the instructions of a session, and looks each rule up in the view. It reads the whole path."""
    session, view = measured.session, measured.view
    facts = session.conversation.collect_facts(human_only=True)
    facts_of_rules = {(fact.text, fact.position): fact for fact in facts if isinstance(fact, Rule)}
    words = [(number, get_users_words([each.message])) for number, each in enumerate(measured.seen)]
    words = [(number, text) for number, text in words if text]
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


def show_instructions(visit: Visit) -> Response:
    """What the user asked for, with forms to add a rule and to drop one."""
    opened = visit.open()
    with opened.lock:
        return _respond(visit, opened, at=visit.get_number("at", -1))


def _respond(visit: Visit, opened: OpenSession, *, at: int = -1, text: str = "", problem: str = "") -> Response:
    found = list_instructions(opened.measure())
    shown = {"found": found, "chosen": at, "text": text, "problem": problem, "most": MOST_RULE_CHARACTERS}
    return respond_about(
        visit, opened, "instructions.html", "instructions", code=400 if problem else 200, **shown
    )  # fmt: skip


def show_rules_notice(visit: Visit) -> Response:
    """Says on every page of a session if there are rules that the model does not see."""
    opened = visit.open()
    with opened.lock:
        return respond("rules_notice.html", visit=visit, opened=opened, found=list_instructions(opened.measure()))


def add_rule(visit: Visit) -> Response:
    """Adds a rule of the user's, or says on the page why it cannot be one."""
    visit.require_write("add a rule")
    opened, text = visit.open(), _get_rule(visit)
    with opened.lock:
        if not text or len(text) > MOST_RULE_CHARACTERS:
            problem = (
                f"Not added: a rule may have {MOST_RULE_CHARACTERS:,} characters, and this one has {len(text):,}. "
                "Keep the sentences that are to hold."
                if text
                else "Not added: the rule is empty. Say what the agent has to keep to."
            )
            return _respond(visit, opened, text=text, problem=problem)
        opened.session.add_rule(text)
        visit.note("rule added", opened.session.address.session)
        return _go_to_newest(opened)


def drop_rule(visit: Visit) -> Response:
    """Drops a rule of the user's."""
    visit.require_write("drop a rule")
    opened, text = visit.open(), _get_rule(visit)
    with opened.lock:
        rules = [each.text for each in opened.session.read_instructions() if each.is_rule]
        found = next((each for each in rules if _unify_lines(each) == text), None)
        if found is None:
            raise NotFoundError(f"no active rule is {text[:200]!r}: it may have been dropped meanwhile")
        opened.session.drop_rule(found)
        visit.note("rule dropped", opened.session.address.session)
        return _go_to_newest(opened)


def _get_rule(visit: Visit) -> str:
    return _unify_lines(visit.get("text"))


def _unify_lines(text: str) -> str:
    """Returns a text with the line breaks that it had before a browser sent it."""
    return text.replace("\r\n", "\n").strip()


def _go_to_newest(opened: OpenSession) -> Response:
    """Shows the instructions, with the one that was added or dropped just now chosen."""
    place, newest = opened.session.address, opened.session.view.state.rule_settings[-1]
    return go_to(build_address("/session/instructions", id=place.session, head=place.head, at=newest))


INSTRUCTION_PAGES: tuple[tuple[str, str, Page], ...] = (
    ("/session/instructions", "GET", show_instructions),
    ("/session/instructions/add", "POST", add_rule),
    ("/session/instructions/drop", "POST", drop_rule),
    ("/session/rules", "GET", show_rules_notice),
)
"""The address, the method and the function of every page about instructions."""
