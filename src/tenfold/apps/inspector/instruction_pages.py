"""What the user asked for, and whether the model sees it: the page of the instructions, and the notice about rules."""

from __future__ import annotations

from starlette.responses import Response

from tenfold.apps.inspector.rendering import build_address, go_to, respond
from tenfold.apps.inspector.routes import respond_about
from tenfold.apps.inspector.rules_in_view import count_unseen_rules
from tenfold.apps.inspector.session_pages import MOST_RULE_CHARACTERS
from tenfold.apps.inspector.visits import OpenSession, Page, Visit
from tenfold.errors import NotFoundError


def show_instructions(visit: Visit) -> Response:
    """What the user asked for, with forms to add a rule and to drop one."""
    opened = visit.open()
    with opened.lock:
        return _respond(visit, opened, at=visit.get_number("at", -1))


def _respond(visit: Visit, opened: OpenSession, *, at: int = -1, text: str = "", problem: str = "") -> Response:
    found = opened.list_instructions()
    shown = {"found": found, "chosen": at, "text": text, "problem": problem, "most": MOST_RULE_CHARACTERS}
    return respond_about(
        visit, opened, "instructions.html", "instructions", code=400 if problem else 200, **shown
    )  # fmt: skip


def show_rules_notice(visit: Visit) -> Response:
    """Says on every page of a session if there are rules that the model does not see."""
    opened = visit.open()
    with opened.lock:
        found = count_unseen_rules(opened.measure())
        return respond("rules_notice.html", visit=visit, opened=opened, found=found)


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
        found = next((each for each in rules if _normalize_breaks(each) == text), None)
        if found is None:
            raise NotFoundError(f"no active rule is {text[:200]!r}: it may have been dropped meanwhile")
        opened.session.drop_rule(found)
        visit.note("rule dropped", opened.session.address.session)
        return _go_to_newest(opened)


def _get_rule(visit: Visit) -> str:
    return _normalize_breaks(visit.get("text"))


def _normalize_breaks(text: str) -> str:
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
