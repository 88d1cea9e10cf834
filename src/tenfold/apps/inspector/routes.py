"""Every page of the inspector by its address. Each function reads what its page shows and renders the template."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from tenfold.apps.inspector import session_pages as pages
from tenfold.apps.inspector.live import list_near
from tenfold.apps.inspector.rendering import build_address, respond
from tenfold.apps.inspector.timeline import MeasuredSession
from tenfold.apps.inspector.visits import OpenSession, Page, Visit
from tenfold.core.record.entry import get_message
from tenfold.core.record.fact import Fact
from tenfold.session import Session
from tenfold.session.tree import build_rows
from tenfold.store.base import Hit, SessionRow

LISTED = 100
"""Sessions on one page of the list."""
SEARCH_HITS = 30


def show_sessions(visit: Visit) -> Response:
    """The list of sessions, newest first, with those that a few words name."""
    words, first = visit.get("words"), visit.get_number("from")
    rows = [row for row in visit.store.list_sessions(visit.namespace) if _has_words(row, words)]
    more = first + LISTED if first + LISTED < len(rows) else None
    return respond(
        "sessions.html", visit=visit, words=words, rows=rows[first : first + LISTED], count=len(rows), more=more
    )


def _has_words(row: SessionRow, words: str) -> bool:
    info = row.info
    text = f"{info.id} {info.title} {info.file} {info.model} {info.format}".casefold()
    return all(word in text for word in words.casefold().split())


def show_size(visit: Visit) -> Response:
    """The size of one session in the list, which is read when its line is scrolled into view."""
    opened = visit.open()
    with opened.lock:
        return respond("size.html", timeline=opened.draw())


def show_live_mark(visit: Visit) -> Response:
    """Marks a session as live if a message came in the last minutes. What Tenfold itself did to it does not count."""
    opened = visit.open()
    with opened.lock:
        path = opened.measure().view.path
        entries = (path.get_entry(at) for at in range(path.length - 1, -1, -1))
        newest = next((entry for entry in entries if get_message(entry) is not None), None)
        return respond("live_mark.html", time=getattr(newest, "time", None))


def respond_about(visit: Visit, opened: OpenSession, template: str, tab: str, **values: Any) -> Response:  # noqa: ANN401
    """Renders a page about a session, with its heading and its bars."""
    place = opened.session.address
    heads = visit.store.read_heads(place.namespace, place.session)
    return respond(
        template,
        visit=visit,
        opened=opened,
        info=opened.row.info,
        session=opened.session,
        timeline=opened.draw(),
        heads=sorted(heads),
        head=place.head,
        tab=tab,
        near=list_near(opened),
        link=lambda path, **fields: build_address(path, id=place.session, head=place.head, **fields),
        **values,
    )


def show_messages(visit: Visit) -> Response:
    """All entries of a session: the first and the newest piece, and between them what is read when it is seen."""
    opened = visit.open()
    with opened.lock:
        measured = opened.measure()
        visit.note("read", opened.session.address.session)
        length = measured.view.length
        at = visit.get_number("at", -1)
        selected = pages.read_message(measured, at) if at >= 0 else None
        loaded = max(at, 0) // pages.ROWS * pages.ROWS
        pieces = [(first, first == loaded) for first in range(0, length, pages.ROWS)]
        rows = pages.read_rows(measured, loaded)
        found = {"pieces": pieces, "rows": rows, "selected": selected, "at": at, "size": pages.ROWS}
        return respond_about(visit, opened, "messages.html", "messages", **found)


def show_rows(visit: Visit) -> Response:
    """A piece of the list of entries."""
    opened = visit.open()
    with opened.lock:
        first = visit.get_number("from")
        rows = pages.read_rows(
            opened.measure(), first, min(pages.ROWS, visit.get_number("to", first + pages.ROWS) - first + 1)
        )
        return respond("rows.html", rows=rows, opened=opened, at=-1)


def show_message(visit: Visit) -> Response:
    """One message, whole, with what the model sees in its place."""
    opened = visit.open()
    with opened.lock:
        limit = None if visit.get("whole") == "yes" else pages.MOST_CHARACTERS
        message = pages.read_message(opened.measure(), visit.get_number("at"), limit)
        return respond("message.html", message=message, opened=opened, visit=visit)


def show_seen(visit: Visit) -> Response:
    """What the model sees beside what there is."""
    opened = visit.open()
    with opened.lock:
        compared = pages.compare_view(opened.measure(), visit.get_number("message", -1))
        made, outcome = visit.get("made"), opened.outcome
        outcome = outcome if outcome is not None and outcome.block == made else None
        return respond_about(visit, opened, "seen.html", "seen", compared=compared, outcome=outcome)


def show_seen_messages(visit: Visit) -> Response:
    """A piece of what the model sees, or one message of it, whole."""
    opened = visit.open()
    with opened.lock:
        limit = None if visit.get("whole") == "yes" else pages.MOST_CHARACTERS
        first = visit.get_number("from")
        last = min(visit.get_number("to", first), first + pages.PIECE_MESSAGES - 1)
        messages = pages.read_seen(opened.measure(), first, last, limit)
        return respond("seen_messages.html", messages=messages, opened=opened)


def show_blocks(visit: Visit) -> Response:
    """The tree of Blocks, and that of the branches."""
    opened = visit.open()
    with opened.lock:
        nodes = pages.list_block_nodes(opened.session)
        return respond_about(visit, opened, "blocks.html", "compactions", nodes=nodes)


def show_branches(visit: Visit) -> Response:
    """The tree of branches: the user's messages, the forks, and where each branch ends. It reads the whole log."""
    opened = visit.open()
    with opened.lock:
        return respond("branches.html", rows=build_rows(opened.session), opened=opened)


def show_inner_blocks(visit: Visit) -> Response:
    """What lies directly under one replacement of a Block."""
    opened = visit.open()
    with opened.lock:
        block, index = visit.get("block"), visit.get_number("index")
        nodes = pages.list_block_nodes(opened.session, block, index)
        originals = pages.list_covered_rows(opened.measure(), block, index)
        return respond("inner_blocks.html", opened=opened, nodes=nodes, rows=originals, at=-1)


def show_facts(visit: Visit) -> Response:
    """The facts of a session, each with a link to the message that it comes from."""
    opened = visit.open()
    with opened.lock:
        return respond_about(visit, opened, "facts.html", "facts", groups=group_facts(opened.session))


def group_facts(session: Session) -> dict[str, list[Fact]]:
    """Groups the facts of a session by their kind, the newest first."""
    groups: dict[str, list[Fact]] = {}
    for fact in reversed(session.conversation.collect_facts()):
        groups.setdefault(fact.kind.replace("_", " "), []).append(fact)
    return groups


def search_session(visit: Visit) -> Response:
    """The messages that contain some words, with the words marked."""
    opened, words = visit.open(), visit.get("words")
    with opened.lock:
        hits = opened.session.search(words, limit=SEARCH_HITS) if words.strip() else []
        measured = opened.measure()
        marked = [
            (hit, pages.mark_words(pages.escape_unseen(hit.snippet), words), *_describe_hit(measured, hit))
            for hit in hits
        ]
        return respond_about(visit, opened, "search.html", "search", words=words, hits=marked)


def _describe_hit(measured: MeasuredSession, hit: Hit) -> tuple[str, str]:
    """Says whose a hit is, and whether the model sees it now."""
    view = measured.view
    if hit.position >= view.length or view.path.get_entry(hit.position).id != hit.entry:
        return hit.kind, "on another branch"
    (row,) = pages.read_rows(measured, hit.position, 1)
    if hit.kind == "block":  # a summary in view is no hit
        is_live = hit.position in view.state.live_blocks
        return "summary", "replaced by a newer compaction" if is_live else "its compaction was undone"
    states = {"shown": "in view", "shortened": "in view, shortened", "replaced": "replaced by a summary"}
    return row.who, states.get(row.seen, "not in view")


PAGES: tuple[tuple[str, str, Page], ...] = (
    ("/", "GET", show_sessions),
    ("/size", "GET", show_size),
    ("/live/mark", "GET", show_live_mark),
    ("/session", "GET", show_messages),
    ("/session/rows", "GET", show_rows),
    ("/session/message", "GET", show_message),
    ("/session/seen", "GET", show_seen),
    ("/session/seen/messages", "GET", show_seen_messages),
    ("/session/blocks", "GET", show_blocks),
    ("/session/branches", "GET", show_branches),
    ("/session/blocks/inner", "GET", show_inner_blocks),
    ("/session/facts", "GET", show_facts),
    ("/session/search", "GET", search_session),
)
"""The address, the method and the function of every page."""
