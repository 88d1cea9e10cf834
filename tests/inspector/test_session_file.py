"""One file for a colleague: it holds the pages about a session, asks for nothing, runs nothing, and shows no secret."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest
from msgspec.structs import replace
from selenium import webdriver
from selenium.webdriver.common.by import By

from tenfold.apps.inspector.session_file import FIRST_ENTRIES, MOST_BYTES, MOST_ENTRIES, render_session_file
from tenfold.core.record.entry import Usage
from tenfold.core.record.message import Message, Text, ToolResult
from tenfold.session import Session
from tenfold.store.base import SessionInfo, Store
from tenfold.store.lookup import find_session
from tests.engine.making import make_call, make_reply, make_user_message
from tests.inspector.browser import Browser
from tests.inspector.conftest import Keeper
from tests.inspector.sessions import DETAIL, MARKUP, RULE, TURNED, append_summary, make_hostile_session, make_session

SECRET = "sk-ant-api03-" + "Ab3dE6gH9jK2mN5p" * 6

Render = Callable[[Session], str]


@pytest.fixture
def render(store: Store, keeper: Keeper) -> Render:
    """Renders the file of a session as the command does."""
    opener = partial(keeper.open, namespace="default", head="main")

    def run(session: Session) -> str:
        row = find_session(store, session.address.session, namespace="default")
        return render_session_file(store, session, row, opener).decode()

    return run


def test_it_holds_the_pages_of_the_session(store: Store, render: Render) -> None:
    session = make_session(store, steps=12)
    session.append(make_user_message("on"), make_reply("yes"), usage=Usage.build(4_000, 20, model="gpt-4o"))
    append_summary(session, 2, 5, "what came first")
    session.compact(to="30%")
    page = render(session)
    for part in (RULE, DETAIL, "What the model sees", "Compactions", "Facts", "Instructions", "of the input tokens"):
        assert part in page
    assert len(re.findall(r'<details class="entry">', page)) == session.view.length
    assert len(re.findall(r'<svg class="bar', page)) == 2
    for block in session.view.state.live_blocks:
        assert session.view.path.get_entry(block).id in page
    assert "what came first" in page, "what lies under a newer compaction is there too"


def test_nothing_is_loaded_and_no_script_could_run(store: Store, render: Render) -> None:
    session = make_session(store, steps=4)
    append_summary(session, 2, 5, "shorter")
    page = render(session)
    assert "<script" not in page
    body = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    attributes = {name for tag in re.findall(r"<[a-z][^>]*>", body) for name in re.findall(r"\s([\w-]+)=\"", tag)}
    assert {"class", "href", "id"} <= attributes
    assert not [name for name in attributes if name.startswith(("hx-", "on", "data-", "src", "style", "action"))]
    assert {link for link in re.findall(r'href="([^"]*)"', body) if not link.startswith("#")} == {"data:,"}
    style = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    assert len(style) == 1
    policy = re.findall(r'Content-Security-Policy" content="([^"]+)"', page)[0]
    assert "default-src 'none'" in policy
    assert f"'sha256-{b64encode(sha256(style[0].encode()).digest()).decode()}'" in policy
    assert "http" not in style[0]


def test_every_link_leads_to_a_place_in_the_file(store: Store, render: Render) -> None:
    session = make_session(store, steps=12)
    append_summary(session, 2, 5, "what came first")
    session.compact(to="30%")
    page = render(session)
    places = {*re.findall(r'\sid="([^"]+)"', page), ""}
    wanted = set(re.findall(r'href="#([^"]*)"', page))
    assert len(wanted) > 20
    assert wanted <= places


def test_secrets_are_replaced_in_messages_summaries_and_titles(store: Store, render: Render) -> None:
    session = make_session(store, steps=4)
    store.create("default", SessionInfo("work", title=f"The key {SECRET}", file=f"folder/{SECRET}"))
    session.append(
        make_user_message(f"Always use {SECRET}."), make_call("k", "bash", f'{{"command": "curl -H {SECRET}"}}')
    )
    session.append(Message("tool", (ToolResult("k", "bash", (Text(f"TOKEN={SECRET}"),)),), "tool"))
    append_summary(session, 2, 5, f"the key is {SECRET}")
    page = render(session)
    assert SECRET not in page
    assert SECRET[:30] not in page
    assert page.count("[redacted]") >= 5
    assert SECRET in str(session.view.get_messages()), "the session itself is as it was"


def test_hostile_texts_are_text(store: Store, render: Render) -> None:
    page = render(make_hostile_session(store))
    assert MARKUP not in page
    assert "&lt;script&gt;" in page
    assert TURNED not in page
    assert "\\u{202e}" in page
    assert "more characters" in page, "a line of a million characters is shortened, and it is said"
    assert len(page) < 1_000_000


def test_a_long_session_stays_small_and_says_what_it_leaves_out(store: Store, render: Render) -> None:
    session = make_session(store, steps=0)
    text = "The output of a long run, line after line, which nobody reads to its end. " * 40
    session.append(*(make_reply(f"{number} {text}") for number in range(4_990)))
    assert 4_900 < session.view.length <= MOST_ENTRIES
    page = render(session)
    assert len(page.encode()) <= MOST_BYTES < 10_000_000
    assert page.count('<details class="entry">') == session.view.length
    shown, rest = re.findall(r"Of a text with more than ([\d,]+) characters", page)[0], "more characters</p>"
    assert int(shown.replace(",", "")) < len(text)
    assert page.count(rest) >= 4_990
    session.append(*(make_reply(f"late {number}") for number in range(200)))
    page = render(session)
    left_out = session.view.length - MOST_ENTRIES
    assert f"{left_out:,} of {session.view.length:,} entries are left out, from number {FIRST_ENTRIES} on" in page
    assert page.count('<details class="entry">') == MOST_ENTRIES
    assert len(page.encode()) <= MOST_BYTES


def test_an_empty_session_has_a_file_too(store: Store, render: Render) -> None:
    session = make_session(store, steps=0)
    empty = replace(session.address, session="empty")
    store.create("default", SessionInfo("empty"))
    assert "<title>empty" in render(Session(empty, "tenfold"))


def test_it_opens_in_a_browser_without_a_complaint(
    chromium: webdriver.Chrome, store: Store, render: Render, tmp_path: Path
) -> None:
    session = make_session(store, steps=6)
    append_summary(session, 2, 5, "what came first")
    for name, page in (("plain", render(session)), ("hostile", render(make_hostile_session(store)))):
        file = tmp_path / f"{name}.html"
        file.write_text(page)
        opened = Browser(chromium, file.as_uri())
        opened.leave()
        opened.go("#e1")
        assert chromium.title.endswith("Tenfold")
        assert chromium.find_element(By.CSS_SELECTOR, "main").text
        assert chromium.find_element(By.ID, "e1").is_displayed(), "the link opens the message"
        assert chromium.execute_script("return getComputedStyle(document.querySelector('.bar')).height") == "38px"
        assert opened.list_problems() == []
        assert [url for url in opened.list_requests() if not url.startswith((file.as_uri(), "data:"))] == []
        opened.leave()
