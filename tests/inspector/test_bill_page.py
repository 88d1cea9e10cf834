"""The page of the bill: the ledger's figures, with their denominators, in red where Tenfold cost more."""

from __future__ import annotations

import re

import pytest
from starlette.testclient import TestClient

from tenfold.apps.inspector.bill_pages import HEIGHT, MOST_POINTS, WIDTH, draw_plot
from tenfold.core.record.entry import Usage
from tenfold.models.prices import Dollars
from tenfold.session import Session, SessionAddress
from tenfold.session.bill import build_bill
from tenfold.session.bill_text import describe_shares, explain_loss, format_dollars
from tenfold.session.ledger import SHARE_NAMES, BillLine, BillPoint
from tenfold.store.base import SessionInfo, Store
from tests.engine.making import make_reply, make_user_message, make_work
from tests.inspector.sessions import MARKUP

MODEL = "claude-sonnet-4-5"


def converse(store: Store, id_: str, model: str = MODEL, *, after: int = 2, client: str = "") -> Session:
    """A session whose answers hold reports. Right after its compaction the provider's cache is written anew."""
    info = SessionInfo(id_, model=model, client=client)
    session = Session.create(SessionAddress(store, id_), "tenfold", model=model, info=info)
    session.append(*make_work(6))
    session.append(make_user_message("on"), make_reply("yes"), usage=report(6_000, read=100))
    session.compact(to="40%")
    for number in range(after):
        read = 0 if number == 0 else 2_400
        session.append(make_user_message(f"part {number}"), make_reply("yes"), usage=report(2_500, read=read))
    return session


def report(prompt: int, *, read: int) -> Usage:
    return Usage.build(prompt, 20, read, prompt - read, MODEL)


def get_text(client: TestClient, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return " ".join(re.sub(r"<[^>]+>", " ", answer.text).replace("&#39;", "'").split())


def test_it_shows_the_figures_of_the_ledger(client: TestClient, store: Store) -> None:
    converse(store, "one", client="chat")
    converse(store, "two", client="gateway: codex", after=40)
    found, said = build_bill(store), get_text(client, "/bill")
    for name in SHARE_NAMES.values():
        assert name in said
    for line in (*found.lines, found.total):
        assert line.answers > 0
        for amount in (line.unhidden_paid.total, line.total_paid, line.saving):
            assert format_dollars(amount).replace("-", "\N{MINUS SIGN}") in said
    for text, _ in describe_shares(found.total):
        assert text.replace("-", "\N{MINUS SIGN}") in said
    for prices in found.prices:
        assert prices.source in said
    assert "codex" in get_text(client, "/bill?by=client")
    assert MODEL in get_text(client, "/bill?by=model")


def test_a_loss_is_red_has_a_minus_sign_and_is_explained(client: TestClient, store: Store) -> None:
    converse(store, "one", after=1)
    total = build_bill(store).total
    assert total.saving < 0, "the cache was written anew for one request"
    page = client.get("/bill").text
    assert re.search(r'<span class="bad">\N{MINUS SIGN}\$0\.\d+</span>', page)
    assert "Why it does not pay" in page
    (reason,) = explain_loss(total)
    assert "not read from the cache" in reason
    assert reason in get_text(client, "/bill")
    assert reason in get_text(client, "/session/bill?id=one")


def test_what_saved_is_not_called_a_loss(client: TestClient, store: Store) -> None:
    converse(store, "one", after=60)
    assert build_bill(store).total.saving > 0
    page = client.get("/bill").text
    assert 'class="bad"' not in page
    assert "does not pay" not in page


def test_an_unknown_price_is_said(client: TestClient, store: Store) -> None:
    session = Session.create(SessionAddress(store, "s"), "tenfold", model="nobody:made-this")
    session.append(make_user_message("go"), make_reply("yes"), usage=Usage.build(600, 20, model="nobody:made-this"))
    said = get_text(client, "/bill")
    assert "the price is not known" in said
    assert "No price is known for 1 request by nobody:made-this" in said
    assert "<svg viewBox" not in client.get("/bill").text.partition("<main")[2], "there is nothing to draw"


def test_since_leaves_out_what_was_before(client: TestClient, store: Store) -> None:
    converse(store, "one")
    assert "since then" in get_text(client, "/bill?since=2999-01-01")
    assert "one" in get_text(client, "/bill?since=7d")
    refused = client.get("/bill?since=soon")
    assert refused.status_code == 400
    assert "give an age, as in 7d or 12h" in refused.text
    assert client.get("/bill?by=colour").status_code == 400


def test_a_session_has_its_own_bill_with_what_each_compaction_costs(client: TestClient, store: Store) -> None:
    session = converse(store, "one")
    converse(store, "two", after=30)
    said = get_text(client, "/session/bill?id=one")
    assert format_dollars(build_bill(store, sessions=("one",)).total.total_paid) in said
    receipt = session.view.path.get_block(session.view.state.live_blocks[0]).receipt
    assert receipt is not None
    assert "What each compaction in force costs and saves" in said
    assert f"costs ${receipt.rewrite:.4f}" in said


def test_names_are_text(client: TestClient, store: Store) -> None:
    converse(store, MARKUP, client=MARKUP)
    for path in ("/bill", "/bill?by=client"):
        assert MARKUP not in client.get(path).text
        assert "&lt;script&gt;" in client.get(path).text


def make_points(count: int, *, time: int | None = 1_000_000) -> tuple[BillPoint, ...]:
    return tuple(BillPoint(None if time is None else time * at, at * 2.0, at * 0.5, at * 3.0) for at in range(count))


@pytest.mark.parametrize("time", [1_000_000, None, 0])
def test_the_plot_ends_where_the_sums_end(time: int | None) -> None:
    plot = draw_plot(make_points(2_001, time=time))
    assert plot is not None
    assert plot.top == 6_000
    ends = [[float(n) for n in line.split()[-1].split(",")] for line in (plot.without, plot.paid, plot.own)]
    assert ends == [[WIDTH, 0], [WIDTH, 80], [WIDTH, 200]]
    assert plot.paid.split()[0] == f"0.0,{HEIGHT:.1f}"
    assert len(plot.paid.split()) <= MOST_POINTS + 1
    assert plot.first == ("1970-01-01 00:00" if time else "request 1")


def test_nothing_is_drawn_of_nothing() -> None:
    assert draw_plot(()) is None
    assert draw_plot(make_points(1)) is None
    assert draw_plot((BillPoint(1, 0.0, 0.0, 0.0), BillPoint(2, 0.0, 0.0, 0.0))) is None


def test_a_loss_is_explained_by_what_it_was_spent_on() -> None:
    own = BillLine(
        "", paid=Dollars(1.0), lookup_paid=Dollars(0.5), summary_paid=Dollars(1.0), unhidden_paid=Dollars(2.0)
    )
    assert explain_loss(own) == [
        "What was hidden saved $1.00.",
        "Tenfold's own requests cost more than that: summaries $1.00 and lookups $0.5000.",
    ]
    both = BillLine("", paid=Dollars(2.0), summary_paid=Dollars(1.0), unhidden_paid=Dollars(1.0))
    assert [reason.partition(" ")[0] for reason in explain_loss(both)] == ["The", "Tenfold's"]
    assert explain_loss(BillLine("")) == []
