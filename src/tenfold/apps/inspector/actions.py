"""What can be done to a session from its page. Each action is a question that says what will change, and its answer.

The questions change nothing and are asked by opening an address; the answers are forms. Every answer is noted in the
store's record of who did what, where there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from msgspec import Struct
from starlette.responses import Response

from tenfold.apps.inspector.compare_pages import copy_session
from tenfold.apps.inspector.planned_bar import draw_plan
from tenfold.apps.inspector.rendering import build_address, go_to, respond
from tenfold.apps.inspector.visits import OpenSession, Page, Visit
from tenfold.compaction.engine.call import Call
from tenfold.compaction.engine.redo import RedoRequest
from tenfold.compaction.plan.pipeline import Plan
from tenfold.compaction.trigger.limits import Decision
from tenfold.core.record.ask import Outcome
from tenfold.core.record.block import Block
from tenfold.core.record.entry import get_message
from tenfold.core.record.token_reading import Counted
from tenfold.core.view.fold import View
from tenfold.errors import UsageError
from tenfold.session import Session
from tenfold.session.undoing import has_newer_rules
from tenfold.store.ids import get_current_time
from tenfold.store.sqlite.store import SqliteStore

DEFAULT_TARGET = "10%"
"""What the form asks for at first: a tenth of the tokens."""


class Undone(Struct, frozen=True):
    """What an undo would change: the Blocks that go, those that stay, and the size of the view before and after.

    `restored` are Blocks that are in force again, since the compaction that is undone had set them aside.
    """

    blocks: tuple[Block, ...]
    staying: int
    restored: tuple[Block, ...]
    before: Counted
    after: Counted


def ask_compaction(visit: Visit) -> Response:
    """Asks how far to compact, and with which policy. With a target it shows the plan, drawn before it runs."""
    visit.require_write("compact")
    opened, to, policy = visit.open(), visit.get("to"), visit.get("policy")
    with opened.lock:
        session = _choose_session(visit, opened, policy)
        view = opened.measure().view
        undone = _list_undone(visit, view)
        decision, plan = _preview(visit, opened, session, to) if to else (None, None)
        return respond(
            "compact.html",
            opened=opened,
            to=to or DEFAULT_TARGET,
            policy=policy,
            policies=visit.sessions.keeper.list_policies(),
            decision=decision,
            plan=plan,
            pieces=draw_plan(plan) if plan is not None else [],
            undone=undone,
            anew=visit.get("anew"),
            has_rules=has_newer_rules(view),
            models=session.policy.summary.models,
        )


def _list_undone(visit: Visit, view: View) -> list[Block]:
    """Lists the Blocks that are undone before a compaction anew, the newest first, or nothing for a usual one.

    The view of the newest Block does not show a rule that came later, or that it left out. The originals do.
    """
    is_anew = visit.get("anew") == "yes" or has_newer_rules(view)
    return [view.path.get_block(at) for at in reversed(view.state.live_blocks)] if is_anew else []


def _preview(visit: Visit, opened: OpenSession, session: Session, to: str) -> tuple[Decision[Counted], Plan | None]:
    """Returns what would be decided and planned; for a compaction anew, from the originals in a copy in memory."""
    if not _list_undone(visit, session.view):
        return session.preview(_build_call(session, to))
    with closing(SqliteStore(":memory:")) as memory:
        copy = copy_session(visit, opened, memory, visit.get("policy"))
        return copy.preview(_build_call(copy, to))


def compact(visit: Visit) -> Response:
    """Compacts the session as the plan said."""
    visit.require_write("compact")
    opened = visit.open()
    with opened.lock:
        session, to = _choose_session(visit, opened, visit.get("policy")), visit.get("to", DEFAULT_TARGET)
        undone = _list_undone(visit, session.view)
        if undone:
            decision, plan = _preview(visit, opened, session, to)
            if plan is None:
                return respond("outcome.html", opened=opened, reason=decision.explain(), notes=(), undone=[])
            session.compactor.set_aside()
        outcome: Outcome | None = None
        try:
            outcome = session.compact(_build_call(session, to))
        finally:
            if (outcome is None or outcome.status != "compacted") and session.compactor.restore():
                undone = []
        visit.note("compact", session.address.session)
    return _show_outcome(opened, outcome, undone)


def _choose_session(visit: Visit, opened: OpenSession, policy: str, model: str = "") -> Session:
    """Returns the session that is held open, or the same one opened with another policy or model."""
    if not policy and not model:
        opened.measure()
        return opened.session
    if policy and policy not in visit.sessions.keeper.list_policies():
        known = ", ".join(visit.sessions.keeper.list_policies())
        raise UsageError(f"there is no policy {policy!r}: it is one of {known}")
    place = opened.session.address
    return visit.sessions.keeper.open(
        visit.store, opened.row, namespace=place.namespace, head=place.head, policy=policy, model=model
    )


def _build_call(session: Session, to: str) -> Call:
    return session.compactor.validate_call(session.compactor.build_call(to=to))


def _show_outcome(opened: OpenSession, outcome: Outcome, undone: Sequence[Block] = ()) -> Response:
    """Shows the session as it is now with how it went, or why it was not compacted."""
    if outcome.status != "compacted":
        reason = f"{outcome.status}: {outcome.reason}"
        return respond("outcome.html", opened=opened, reason=reason, notes=outcome.notes, undone=undone)
    opened.outcome = outcome
    return go_to(_get_address(opened, "/session/seen", made=outcome.block))


def _get_address(opened: OpenSession, path: str, **fields: object) -> str:
    place = opened.session.address
    return build_address(path, id=place.session, head=place.head, **fields)


def ask_undo(visit: Visit) -> Response:
    """Asks whether to undo a Block, and says what else goes with it and how large the view will be."""
    visit.require_write("undo a compaction")
    opened = visit.open()
    with opened.lock:
        view = opened.measure().view
        conversation = opened.session.conversation
        plan = conversation.plan_undo(visit.get("block"))
        by_id = {block.id: block for position in view.state.live_blocks for block in [view.path.get_block(position)]}
        undone = Undone(
            tuple(by_id[id_] for id_ in plan.undone),
            len(plan.copied),
            tuple(entry for entry in plan.entries if isinstance(entry, Block))[: len(plan.restored)],
            _count_view(opened.session, view),
            _count_view(opened.session, plan.view),
        )
        return respond("undo.html", opened=opened, undone=undone)


def _count_view(session: Session, view: View) -> Counted:
    return session.conversation.get_measures(view).count_view(view)


def undo(visit: Visit) -> Response:
    """Undoes a Block."""
    visit.require_write("undo a compaction")
    opened = visit.open()
    with opened.lock:
        opened.measure()
        opened.session.undo(visit.get("block"))
        visit.note("undo", opened.session.address.session)
    return go_to(_get_address(opened, "/session/blocks"))


def ask_redo(visit: Visit) -> Response:
    """Asks which model is to write the newest summaries again, and how long they may be."""
    visit.require_write("rewrite a summary")
    opened = visit.open()
    with opened.lock:
        view = opened.measure().view
        block = view.find_newest_block()
        if block is None:
            raise UsageError("there is no summary to rewrite: no compaction is in force on this path")
        written = sum((sum(each.sizes) for each in block.replacements if each.kind == "summary"), 0)
        return respond(
            "redo.html", opened=opened, block=block, written=written, models=opened.session.policy.summary.models
        )


def redo(visit: Visit) -> Response:
    """Writes the newest summaries again from the originals."""
    visit.require_write("rewrite a summary")
    opened, model = visit.open(), visit.get("model").strip()
    with opened.lock:
        opened.measure()
        session = _choose_session(visit, opened, "", model)
        request = RedoRequest(model, visit.get("focus").strip(), visit.get_number("tokens"))
        outcome = session.redo(visit.get("block"), request)
        visit.note("redo", session.address.session)
    return _show_outcome(opened, outcome)


def ask_pin(visit: Visit) -> Response:
    """Asks whether to pin a message, and says what that costs each request."""
    visit.require_write("pin a message")
    opened = visit.open()
    with opened.lock:
        measured, at = opened.measure(), visit.get_number("at")
        entry = measured.view.path.get_entry(at)
        is_pinned = at in measured.view.state.pins
        return respond("pin.html", opened=opened, entry=entry, at=at, tokens=measured.sizes[at], is_pinned=is_pinned)


def pin(visit: Visit) -> Response:
    """Pins or unpins a message."""
    visit.require_write("pin a message")
    opened, is_wanted = visit.open(), visit.get("on") == "yes"
    with opened.lock:
        opened.measure()
        entry = opened.session.pin(visit.get("entry"), on=is_wanted)
        visit.note("pin" if is_wanted else "unpin", entry)
    return go_to(_get_address(opened, "/session", at=visit.get("at")))


def ask_purge(visit: Visit) -> Response:
    """Asks whether to purge an entry, or the whole session, and says what that takes away for good."""
    visit.require_write("purge")
    opened = visit.open()
    with opened.lock:
        measured, at = opened.measure(), visit.get_number("at", -1)
        place = opened.session.address
        entry = measured.view.path.get_entry(at) if at >= 0 else None
        if entry is not None and get_message(entry) is None:
            raise UsageError(f"entry {at} holds no message: purge the message that is to go")
        tokens = measured.sizes[at] if at >= 0 else sum(measured.sizes)
        files = visit.store.list_exports(place.namespace, place.session)
        return respond("purge.html", opened=opened, entry=entry, at=at, tokens=tokens, files=sorted(files))


def purge(visit: Visit) -> Response:
    """Removes an entry's content with everything that quotes it, or the session."""
    visit.require_write("purge")
    opened, entry = visit.open(), visit.get("entry") or None
    place = opened.session.address
    if visit.get("confirmed") != "yes":
        raise UsageError("nothing was purged: tick the box that says you know it cannot be undone")
    with opened.lock:
        visit.sessions.keeper.purge_jobs(place.namespace, place.session)
        visit.store.purge(place.namespace, place.session, entry, now=get_current_time())
        visit.note("purge", entry or place.session)
        visit.sessions.forget(place.namespace, place.session)
    return go_to(_get_address(opened, "/session") if entry else "/")


ACTIONS: tuple[tuple[str, str, Page], ...] = (
    ("/session/compact", "GET", ask_compaction),
    ("/session/compact", "POST", compact),
    ("/session/undo", "GET", ask_undo),
    ("/session/undo", "POST", undo),
    ("/session/redo", "GET", ask_redo),
    ("/session/redo", "POST", redo),
    ("/session/pin", "GET", ask_pin),
    ("/session/pin", "POST", pin),
    ("/session/purge", "GET", ask_purge),
    ("/session/purge", "POST", purge),
)
"""The address, the method and the function of every action."""
