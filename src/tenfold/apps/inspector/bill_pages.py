"""What the sessions cost, and what they would have cost without Tenfold: the ledger of `tenfold bill`, drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from starlette.responses import Response

from tenfold.apps.inspector.rendering import respond
from tenfold.apps.inspector.routes import respond_about
from tenfold.apps.inspector.visits import Page, Visit
from tenfold.compaction.trigger.economy import explain_receipt
from tenfold.core.record.block import Block
from tenfold.errors import UsageError
from tenfold.session import Session
from tenfold.session.bill import build_bill
from tenfold.session.bill_text import describe_limits, describe_shares, explain_loss, parse_start
from tenfold.session.ledger import SHARE_NAMES, Bill, BillPoint, Grouping
from tenfold.store.ids import convert_time

WIDTH, HEIGHT = 1_000, 240
"""The size of the plot in its own units."""
MOST_POINTS = 500
"""Requests that are drawn: of more, every second, third and so on."""


class BillPlot(Struct, frozen=True):
    """The dollars so far as lines of a picture: what was paid, Tenfold's own of it, and what would have been paid.

    `top` is the amount at the upper edge. `first` and `last` say where the picture begins and ends.
    """

    paid: str
    own: str
    without: str
    top: float
    first: str
    last: str


def show_bill(visit: Visit) -> Response:
    """The bill of all sessions."""
    by, since = _read_grouping(visit.get("by", "session")), visit.get("since")
    found = build_bill(visit.store, namespace=visit.namespace, since=_read_start(since), by=by)
    return respond("bill.html", visit=visit, by=by, since=since, **describe_bill(found))


def show_session_bill(visit: Visit) -> Response:
    """The bill of one session, by the models that answered, with what each compaction in force costs and saves."""
    opened = visit.open()
    with opened.lock:
        place = opened.session.address
        found = build_bill(place.store, namespace=place.namespace, sessions=(place.session,), by="model")
        receipts = list_receipts(opened.session)
        return respond_about(visit, opened, "session_bill.html", "bill", receipts=receipts, **describe_bill(found))


def describe_bill(found: Bill) -> dict[str, Any]:
    """Returns what the template of a bill shows, by the names that it has there."""
    total = (found.total,) if len(found.lines) > 1 else ()
    return {
        "found": found,
        "lines": (*found.lines, *total),
        "shares": describe_shares(found.total),
        "share_names": SHARE_NAMES,
        "losses": [(line, reasons) for line in (*total, *found.lines) if (reasons := explain_loss(line))],
        "limits": describe_limits(found),
        "plot": draw_plot(found.points),
    }


def list_receipts(session: Session) -> list[tuple[Block, str]]:
    """Lists the Blocks in force of which it is known what they cost, each with a sentence that says it."""
    blocks = (session.view.path.get_entry(at) for at in session.view.state.live_blocks)
    return [(each, explain_receipt(each.receipt)) for each in blocks if isinstance(each, Block) and each.receipt]


def _read_grouping(text: str) -> Grouping:
    match text:
        case "session" | "model" | "client":
            return text
        case _:
            raise UsageError(f"a bill is by session, model or client, and not by {text[:40]!r}")


def _read_start(text: str) -> int | None:
    return parse_start(text.strip())


def draw_plot(points: Sequence[BillPoint]) -> BillPlot | None:
    """Draws what was paid so far after each request. None for fewer than two requests, or without any price.

    The picture goes from the first time to the last. Where one is not known, it goes from request to request.
    """
    top = max((max(each.paid, each.without) for each in points), default=0.0)
    if len(points) < 2 or not top:
        return None
    times = [each.time for each in points if each.time is not None]
    is_timed = len(times) == len(points) and times[-1] > times[0]
    places = [float(time) for time in times] if is_timed else [float(number) for number in range(len(points))]
    step = -(-len(points) // MOST_POINTS)
    shown = sorted({*range(0, len(points), step), len(points) - 1})
    length = places[-1] - places[0]

    def draw(read: Callable[[BillPoint], float]) -> str:
        return " ".join(
            f"{WIDTH * (places[at] - places[0]) / length:.1f},{HEIGHT * (1 - read(points[at]) / top):.1f}"
            for at in shown
        )

    first, last = (_format_time(times[0]), _format_time(times[-1])) if is_timed else ("request 1", f"{len(points):,}")
    return BillPlot(
        draw(lambda each: each.paid), draw(lambda each: each.own), draw(lambda each: each.without), top, first, last
    )


def _format_time(time: int) -> str:
    return f"{convert_time(time):%Y-%m-%d %H:%M}"


BILL_PAGES: tuple[tuple[str, str, Page], ...] = (
    ("/bill", "GET", show_bill),
    ("/session/bill", "GET", show_session_bill),
)
"""The address, the method and the function of every page about money."""
