"""Policies side by side at a size: what each would show of a session. Nothing is stored, and no model is asked.

Each policy compacts a copy of the session in memory, in which no compaction is in force. Code writes the summaries, so
that what is compared is what the policies keep.
"""

from __future__ import annotations

from contextlib import closing
from functools import partial

from msgspec import Struct
from msgspec.structs import replace
from starlette.responses import Response

from tenfold.apps.inspector.rendering import build_address, respond
from tenfold.apps.inspector.routes import respond_about
from tenfold.apps.inspector.session_pages import SeenMessage, read_seen
from tenfold.apps.inspector.timeline import MeasuredSession, Timeline, build_timeline, measure_session
from tenfold.apps.inspector.visits import OpenSession, Page, Visit
from tenfold.compaction.facts.section import is_must_keep
from tenfold.compaction.summarize.visible_text import is_fact_in
from tenfold.config.policies import DEFAULT
from tenfold.core.record.ask import Outcome
from tenfold.core.record.block import Block
from tenfold.core.record.entry import Attempt, CustomEntry, Entry, Retraction, get_kind
from tenfold.core.record.fact import Fact
from tenfold.core.record.message import NativeBytes
from tenfold.core.record.token_reading import ProviderTokens
from tenfold.core.text.excerpts import collapse_spaces
from tenfold.models.prices import find_rates
from tenfold.session import Session
from tenfold.session.drive import Answerer
from tenfold.store.base import Store
from tenfold.store.sqlite.store import SqliteStore

DEFAULT_TARGET = "10%"
NOW = "as it is now"
"""The name of the view that is in force, to compare with."""


class ComparedView(Struct, frozen=True):
    """What one policy makes of a session.

    `tokens` are as the provider counts. Of the session's `must_keep` facts, those in `missing` are not found in the
    view word for word. `first_price` is what the next request costs in dollars, whose view is new to the
    provider's cache, and `next_price` what one costs that reads the view from there; None if no price is known.
    """

    policy: str
    timeline: Timeline
    tokens: ProviderTokens
    messages: tuple[SeenMessage, ...]
    must_keep: int
    missing: tuple[Fact, ...]
    first_price: float | None = None
    next_price: float | None = None
    outcome: Outcome | None = None


def show_comparison(visit: Visit) -> Response:
    """The form, and a place for each policy that is chosen: each is filled once its view is made."""
    opened = visit.open()
    with opened.lock:
        known = visit.sessions.keeper.list_policies()
        asked = [name for name in known if visit.get(f"with.{name}")]
        chosen = asked or sorted(known, key=lambda name: name != DEFAULT)[:2]
        to, is_asked = visit.get("to", DEFAULT_TARGET), bool(asked)
        shown = {"policies": known, "chosen": chosen, "to": to, "is_asked": is_asked, "now": NOW}
        return respond_about(visit, opened, "compare.html", "compare", **shown)


def show_policy(visit: Visit) -> Response:
    """What one policy makes of the session, or the view that is in force."""
    opened, policy = visit.open(), visit.get("policy")
    with opened.lock:
        measured = opened.measure()
        if policy == NOW:
            compared = _describe(measured, NOW, None)
        else:
            with closing(SqliteStore(":memory:")) as memory:
                session = _leave_out_models(copy_session(visit, opened, memory, policy))
                outcome = session.compact(to=visit.get("to", DEFAULT_TARGET))
                compared = _describe(measure_session(session), policy, outcome)
        place = opened.session.address
        link = partial(build_address, id=place.session, head=place.head)
        return respond("compared.html", link=link, view=compared)


def copy_session(visit: Visit, opened: OpenSession, memory: Store, policy: str) -> Session:
    """Copies the path of a session into a store in memory, and opens it there with a policy. No compaction is in it."""
    measured, place, info = opened.measure(), opened.session.address, opened.row.info
    path, counter = measured.view.path, opened.session.conversation.counter.name
    memory.create(place.namespace, info)
    if path.length:
        entries = [*map(_leave_out_compaction, path.get_entries(0, path.length - 1))]
        memory.append(place.namespace, info.id, entries, expected=None, counts={counter: measured.sizes})
    (row,) = memory.list_sessions(place.namespace)
    opening = partial(visit.sessions.keeper.open, memory, row, namespace=place.namespace, head="main")
    return opening(policy=policy)


def _leave_out_models(session: Session) -> Session:
    built = session.policy
    session.compactor.use_answerer(Answerer())
    session.compactor.use_policy(replace(built, summary=replace(built.summary, models=())))
    session.compactor.archive = None
    return session


def _leave_out_compaction(entry: Entry) -> Entry:
    """Returns an entry that keeps the place of one about a compaction, so that positions are those of the session."""
    if not isinstance(entry, Block | Retraction | Attempt):
        return entry
    return CustomEntry(entry.id, entry.parent, entry.run, entry.time, get_kind(entry), NativeBytes("json", b"{}"))


def _describe(measured: MeasuredSession, policy: str, outcome: Outcome | None) -> ComparedView:
    session = measured.session
    tokens = session.take_reading().tokens
    messages = read_seen(measured, 0, len(measured.seen) - 1) if measured.seen else ()
    text = collapse_spaces("\n".join(f"{part.title} {part.text}" for each in messages for part in each.parts))
    must = [fact for fact in session.conversation.collect_facts() if is_must_keep(fact) and fact.live]
    missing = tuple(fact for fact in must if not is_fact_in(fact, text))
    rates = find_rates(session.compactor.model) if session.compactor.model else None
    return ComparedView(
        policy,
        build_timeline(measured),
        tokens,
        messages,
        len(must),
        missing,
        None if rates is None else tokens * rates.write / 1e6,
        None if rates is None else tokens * rates.cached / 1e6,
        outcome,
    )


COMPARE_PAGES: tuple[tuple[str, str, Page], ...] = (
    ("/session/compare", "GET", show_comparison),
    ("/session/compare/policy", "GET", show_policy),
)
"""The address, the method and the function of every page that compares policies."""
