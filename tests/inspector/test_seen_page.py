"""The page of what the model sees holds every message of the view, whole and in order, whatever the policy made."""

from __future__ import annotations

import html
import re

import pytest
from starlette.testclient import TestClient

from tenfold.core.record.message import Message, Text, get_tool_result
from tenfold.session import Session
from tenfold.store.base import Store
from tests.engine.making import make_reply, make_user_message, make_work
from tests.inspector.conftest import Keeper
from tests.inspector.sessions import append_summary, make_session

ARTICLE = re.compile(r'<article class="said ?(\w*)" id="v(\d+)">(.*?)</article>', re.DOTALL)
LATER = re.compile(r'hx-get="(/session/seen/messages[^"]*)"')


def read_pages(client: TestClient, id_: str = "work") -> list[tuple[str, int, str]]:
    """Reads the page as a browser does that is scrolled to its end: each message with its mark, number and text."""
    text = client.get(f"/session/seen?id={id_}").text
    while (later := LATER.search(text)) is not None:
        tag = text[text.rindex("<", 0, later.start()) :]
        address = html.unescape(later[1])
        loaded = client.get(address).text
        if tag.startswith("<button"):  # the rest of a long message
            start = text.rindex("<article", 0, later.start())
            end = text.index("</article>", later.end()) + len("</article>")
        else:
            start, end = text.rindex("<p", 0, later.start()), text.index("</p>", later.end()) + len("</p>")
        text = text[:start] + loaded + text[end:]
    return [(note, int(number), html.unescape(body)) for note, number, body in ARTICLE.findall(text)]


def list_texts(message: Message) -> list[str]:
    """The texts of a message, and the arguments of its calls."""
    result = get_tool_result(message)
    parts = result.content if result is not None else message.parts
    return [part.text if isinstance(part, Text) else getattr(part, "arguments", "") for part in parts]


def assert_page_shows_view(client: TestClient, session: Session) -> list[tuple[str, int, str]]:
    """The page shows exactly the messages of the view."""
    shown, messages = read_pages(client), session.refresh().get_messages()
    assert [number for _, number, _ in shown] == list(range(len(messages)))
    for (_, _, body), message in zip(shown, messages, strict=True):
        assert message.role in body
        for text in list_texts(message):
            assert text in body
    return shown


def make_long_session(store: Store, keeper: Keeper, policy: str) -> Session:
    """A session of many exchanges, opened with a policy."""
    session = make_session(store)
    for number in range(6):
        session.append(make_user_message(f"Now part {number}, and keep the tests green."), make_reply("Gladly."))
        session.append(*make_work(12))
    (row,) = store.list_sessions("default")
    return keeper.open(store, row, namespace="default", head="main", policy=policy)


@pytest.mark.parametrize("policy", ["tenfold", "tail", "tiers", "blocks", "clip"])
def test_every_message_of_the_view_is_on_the_page(
    client: TestClient, store: Store, keeper: Keeper, policy: str
) -> None:
    session = make_long_session(store, keeper, policy)
    whole = assert_page_shows_view(client, session)
    assert {note for note, _, _ in whole} == {""}
    session.pin(session.view.path.get_entry(0).id)
    outcome = session.compact(to="30%")
    assert outcome.status == "compacted"
    notes = {number: note for note, number, _ in assert_page_shows_view(client, session)}
    pinned = [
        n for n, each in enumerate(session.view.get_visible_messages()) if each.is_original and each.position == 0
    ]
    assert [number for number, note in notes.items() if note == "pinned"] == pinned != []
    assert set(notes.values()) & {"summary", "shortened"}


def test_what_stays_within_a_compacted_range_is_shown_and_marked(client: TestClient, store: Store) -> None:
    session = make_session(store, steps=60)
    session.append(make_user_message("The release is called Heron."), make_reply("Noted."), *make_work(60))
    at = next(at for at, m in enumerate(session.view.get_messages()) if "Heron" in str(m))
    session.pin(session.view.path.get_entry(at).id)
    session.compact(to="12%")
    shown = assert_page_shows_view(client, session)
    assert [note for note, _, body in shown if "The release is called Heron." in body and "entry" in body] == ["pinned"]
    told = html.unescape(client.get(f"/session/message?id=work&at={at - 1}").text)
    assert "Heron" in told.split("What the model sees of them")[1].split("What was said")[0]
    assert "Heron" not in told.split("What was said")[1]
    session.undo()
    session.compact(to="60%")
    assert {note for note, _, _ in assert_page_shows_view(client, session)} >= {"stays", "shortened"}


def test_a_long_view_is_loaded_in_pieces_and_a_long_message_on_demand(client: TestClient, store: Store) -> None:
    session = make_session(store)
    session.append(*make_work(130))
    session.append(make_user_message("word " * 30_000))
    page = client.get("/session/seen?id=work").text
    assert len(ARTICLE.findall(page)) < len(session.refresh().get_messages())
    assert_page_shows_view(client, session)
    last = len(session.view.get_messages()) - 1
    assert f'id="v{last}"' not in page
    assert f'id="v{last}"' in client.get(f"/session/seen?id=work&message={last}").text
    assert client.get("/session/seen/messages?id=work&from=99999").status_code == 404


def test_a_summary_stands_beside_what_it_replaced(client: TestClient, store: Store) -> None:
    session = make_session(store)
    append_summary(session, 2, 9, "what was done at first")
    shown = assert_page_shows_view(client, session)
    assert [(note, "what was done at first" in body) for note, _, body in shown].count(("summary", True)) == 1
