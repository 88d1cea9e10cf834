"""What the pages say of a session, asked for directly: sizes, states, ranges and texts are those of the session."""

from __future__ import annotations

import html
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from hypothesis import given
from msgspec.structs import replace
from starlette.testclient import TestClient

from tenfold.apps.inspector import session_pages as pages
from tenfold.apps.inspector.timeline import MOST_SEGMENTS, WIDTH, MeasuredSession, build_timeline, measure_session
from tenfold.apps.inspector.visits import OpenSession, OpenSessions
from tenfold.core.meter.counters import measure_messages
from tenfold.core.record.block import Block, ModelCost
from tenfold.core.record.entry import get_message
from tenfold.errors import NotFoundError
from tenfold.session import Session, SessionAddress
from tenfold.store.base import DEFAULT_NAMESPACE, SessionRow, Store
from tenfold.store.location import open_store
from tests.engine.making import build_policy, make_reply, make_user_message
from tests.inspector.conftest import Keeper
from tests.inspector.sessions import (
    DETAIL,
    HOSTILE_ID,
    MARKUP,
    RULE,
    append_summary,
    make_hostile_session,
    make_session,
)
from tests.laws.strategies import BLOCKS, LAW, TALK, Log, logs


def open_log(log: Log) -> MeasuredSession:
    """A log with Blocks of all kinds in it, as a session of a store in memory."""
    session = Session.create(SessionAddress(open_store(":memory:"), "drawn"), build_policy())
    parents = [None, *(entry.id for entry in log)]
    session.conversation.append([replace(entry, parent=parent) for entry, parent in zip(log, parents, strict=False)])
    return measure_session(session)


BUSY = logs(TALK + BLOCKS * 3).filter(bool)


@LAW
@given(BUSY)
def test_the_bars_hold_every_token_once(log: Log) -> None:
    measured = open_log(log)
    opened = measured.session
    timeline = build_timeline(measured)
    messages = [message for entry in log if (message := get_message(entry)) is not None]
    counted = sum(measure_messages(messages, opened.policy.counter))
    assert timeline.tokens == sum(s.tokens for s in timeline.whole) == counted
    shown = opened.conversation.get_message_sizes()
    assert timeline.view_tokens == sum(s.tokens for s in timeline.view) == sum(shown.values())
    for bar in (timeline.whole, timeline.view):
        assert len(bar) <= MOST_SEGMENTS + 1
        for before, after in pairwise(bar):
            assert after.x == pytest.approx(before.x + before.width, abs=0.01)
        assert not bar or bar[-1].x + bar[-1].width <= WIDTH + 0.01


@LAW
@given(BUSY)
def test_every_entry_says_whether_it_is_seen(log: Log) -> None:
    measured = open_log(log)
    shown = {each.original_position for each in measured.view.get_visible_messages() if each.is_original}
    instead = {each.original_position for each in measured.view.get_visible_messages() if not each.is_original}
    rows = [row for first in range(0, measured.view.length, pages.ROWS) for row in pages.read_rows(measured, first)]
    assert [row.position for row in rows] == list(range(measured.view.length))
    for row in rows:
        message = get_message(log[row.position])
        if row.seen == "shown" and message is not None and message.status == "ok":
            assert row.position in shown | instead  # a broken step is shown repaired
        elif row.seen == "shortened":
            assert row.position in instead
        elif row.seen in ("hidden", "replaced"):
            assert row.position not in shown


@LAW
@given(BUSY)
def test_the_comparison_covers_the_log_without_gaps(log: Log) -> None:
    measured = open_log(log)
    compared = pages.compare_view(measured)
    assert sum(each.tokens_before for each in compared) == sum(measured.sizes)
    for before, after in pairwise(compared):
        assert after.first > before.last


@LAW
@given(BUSY)
def test_the_tree_of_blocks_leads_down_to_every_original(log: Log) -> None:
    measured = open_log(log)
    opened = measured.session
    found: set[int] = set()
    stack = [(node.block, node.index) for node in pages.list_block_nodes(opened)]
    while stack:
        block, index = stack.pop()
        stack += [(node.block, node.index) for node in pages.list_block_nodes(opened, block, index)]
        found |= {row.position for row in pages.list_covered_rows(measured, block, index)}
    hidden = {at for at, state in enumerate(measured.states) if state in ("hidden", "replaced") and measured.sizes[at]}
    assert hidden <= found or len(hidden) > pages.ROWS


def test_a_large_session_has_a_bar_of_few_segments(store: Store) -> None:
    session = Session.create(SessionAddress(store, "long"), build_policy())
    session.append(*(make_user_message(f"message {n}") if n % 2 else make_reply(f"answer {n}") for n in range(4_500)))
    timeline = build_timeline(measure_session(session))
    assert len(timeline.whole) <= MOST_SEGMENTS + 1
    assert timeline.whole[-1].last == 4_499
    assert {s.who for s in timeline.whole} == {""}  # too many to say whose each is


def test_the_pages_of_a_session_show_what_it_holds(client: TestClient, store: Store) -> None:
    session = make_session(store)
    block = append_summary(session, 2, 9, "what was done at first")
    page = client.get("/session?id=work").text
    assert "The work of work" in page
    assert RULE in html.unescape(client.get("/session/instructions?id=work").text)
    seen = client.get("/session/seen?id=work").text
    assert "what was done at first" in seen
    assert "as it is" in seen
    assert block in client.get("/session/blocks?id=work").text
    found = client.get("/session/search", params={"id": "work", "words": "8443"}).text
    assert "<mark>8443</mark>" in found
    message = client.get("/session/message?id=work&at=0").text
    assert DETAIL in message


def test_what_is_not_there_is_said(client: TestClient, store: Store) -> None:
    make_session(store)
    for path in (
        "/session?id=nothing", "/session?id=work&at=99999", "/session/message?id=work&at=-5",
        "/session/blocks/inner?id=work&block=0&index=0", "/nowhere",
    ):  # fmt: skip
        answer = client.get(path)
        assert answer.status_code == 404, path
        assert "Traceback" not in answer.text
    assert client.get("/session?id=work&at=x").status_code == 400
    assert "holds no session yet" not in client.get("/").text


def test_an_empty_store_says_how_a_session_comes_in(client: TestClient) -> None:
    assert "tenfold import" in client.get("/").text


def test_hostile_texts_are_text(client: TestClient, store: Store) -> None:
    make_hostile_session(store)
    fields = {"id": HOSTILE_ID}
    for path in ("", "/seen", "/blocks", "/facts", "/instructions", "/search"):
        page = client.get(f"/session{path}", params=fields | {"words": MARKUP, "at": "0"}).text
        assert "<img" not in page, path
        assert "<b>bold" not in page, path
        assert not re.search(r"<script(?! src=\"/static)", page), path
        assert "\u202e" not in page, path
    assert "<img" not in client.get("/", params={"words": MARKUP}).text
    assert "<img" not in client.get("/").text
    message = client.get("/session/message", params=fields | {"at": "2"}).text
    assert len(message) < 100_000
    assert "more characters" in message
    assert len(client.get("/session/message", params=fields | {"at": "2", "whole": "yes"}).text) > 1_000_000


@pytest.mark.parametrize(
    ("text", "shown"),
    [("a\u202eb", "a\\u{202e}b"), ("a\x1b[31mb", "a\\u{1b}[31mb"), ("a\r\nb\tc", "a\nb\tc"), ("日本 é", "日本 é")],
)
def test_what_cannot_be_seen_is_escaped(text: str, shown: str) -> None:
    assert pages.escape_unseen(text) == shown


def test_a_long_comparison_leaves_out_what_is_the_same() -> None:
    old = [f"line {n}" for n in range(100)]
    new = [*old[:50], "changed", *old[51:]]
    lines = list(pages.compare_lines(old, new))
    assert [line.text for line in lines if line.sign == "-"] == ["line 50"]
    assert [line.text for line in lines if line.sign == "+"] == ["changed"]
    assert len(lines) == 16


def test_words_are_marked_wherever_they_stand() -> None:
    assert pages.mark_words("The Port, port 8443", "port") == [
        ("The ", False), ("Port", True), (", ", False), ("port", True), (" 8443", False),
    ]  # fmt: skip
    assert pages.mark_words("as it is", "") == [("as it is", False)]


@pytest.mark.parametrize(
    ("text", "words", "marked"),
    [
        ("the season as a reason", "as", ["as"]),
        ("report the port", "port", ["port"]),
        ("has them, as the rest", '"as the"', ["as the"]),
        ("the prices of a price, unpriced", "prices", ["prices", "price"]),
        ("open part0.py, not part01", "part0.py", ["part0.py"]),
        ("\u6211\u5011\u6703\u8b70\u4e86", "\u6703\u8b70", ["\u6703\u8b70"]),
    ],
)
def test_only_whole_words_are_marked(text: str, words: str, marked: list[str]) -> None:
    pieces = pages.mark_words(text, words)
    assert "".join(piece for piece, _ in pieces) == text
    assert [piece for piece, is_hit in pieces if is_hit] == marked


def test_a_hit_says_whose_it_is_and_whether_the_model_sees_it(client: TestClient, store: Store) -> None:
    session = make_session(store)
    session.append(make_user_message("Is heron a word?"), make_reply("heron is one."))
    append_summary(session, 2, 9, "heron, said first")
    append_summary(session, 0, 20, "all of it")
    append_summary(session, 26, 29, "heron, said once")
    session.undo()

    def search(words: str) -> list[str]:
        page = client.get("/session/search", params={"id": "work", "words": words}).text
        return re.findall(r'class="quiet">([^<]*)</span><pre>', page.split('<ol class="hits">')[1])

    assert sorted(search("heron")) == [
        "assistant, in view",
        "summary, its compaction was undone",
        "summary, replaced by a newer compaction",
        "user, in view",
    ]
    assert search("8443") == ["user, replaced by a summary"]


def test_a_replaced_message_says_which_of_its_sentences_are_in_view(client: TestClient, store: Store) -> None:
    session = make_session(store)
    append_summary(session, 0, 9, f"The user said: {RULE}")
    page = html.unescape(client.get("/session/message?id=work&at=0").text)
    assert "replaced by a summary" in page
    assert f"<mark>{RULE}</mark>" in page
    assert f"<mark>Mend the parser; {DETAIL}.</mark>" not in page
    assert ", hidden" not in page
    assert "replaced" in client.get("/session?id=work").text


def test_a_message_out_of_view_says_how_it_can_be_pinned(client: TestClient, store: Store) -> None:
    session = make_session(store)
    assert "Pin…" in client.get("/session/message?id=work&at=0").text
    first = append_summary(session, 0, 9, "first")
    append_summary(session, 14, 20, "between")
    append_summary(session, 0, 30, "all of it")
    with pytest.raises(NotFoundError, match="messages in view"):
        session.pin(session.view.path.get_entry(0).id)
    page = client.get("/session/message?id=work&at=0").text
    assert "Pin…" not in page
    assert "Replaced by compactions 1, 3, so it cannot be pinned" in " ".join(page.split())
    assert f"block={first}" in page
    assert 'href="#keep-text"' in page
    session.undo(first)
    assert "Pin…" in client.get("/session/message?id=work&at=0").text


def test_the_undo_of_a_compaction_made_anew_says_what_is_in_force_again(client: TestClient, store: Store) -> None:
    session = make_session(store, steps=60)
    session.compact(to="40%")
    assert "In force again" not in client.get("/session/undo?id=work").text
    session.compactor.set_aside()
    session.compact(to="20%")
    page = " ".join(client.get("/session/undo?id=work").text.split())
    assert page.count("<li>") == 2
    assert "In force again, since it had set them aside: </p>" in page.replace("aside:</p>", "aside: </p>")


def test_the_list_counts_the_compactions_in_force(client: TestClient, store: Store) -> None:
    session = make_session(store)
    for _ in range(3):
        append_summary(session, 2, 9, "undone")
        session.undo()
    append_summary(session, 2, 9, "in force")
    assert '<td class="n">1</td>' in client.get("/size?id=work").text


def test_a_session_is_live_after_a_message_and_not_after_a_compaction(client: TestClient, store: Store) -> None:
    session = make_session(store)
    assert "live" in client.get("/live/mark?id=work").text
    old = [replace(entry, time=1) for entry in session.view.path.get_entries(0, session.view.length - 1)]
    copy = Session.create(SessionAddress(store, "imported"), "tenfold")
    copy.conversation.append(
        [replace(entry, id=f"old-{at}", parent=f"old-{at - 1}" if at else None) for at, entry in enumerate(old)]
    )
    append_summary(copy, 2, 9, "compacted just now")
    row = next(row for row in store.list_sessions("default") if row.info.id == "imported")
    assert row.last_time is not None
    assert row.last_time > 1
    assert not client.get("/live/mark?id=imported").text.strip()


def test_a_summary_that_was_written_ahead_says_what_it_took(client: TestClient, store: Store) -> None:
    session = make_session(store)
    spent = ModelCost(1, 10_010, 300, "openai:small")
    session.conversation.note_prepared(Block("b", None, "", 5, "p", "c", (), spent=spent))
    page = client.get("/session/message", params={"id": "work", "at": session.view.length - 1}).text
    assert "written ahead of its use by openai:small: 10,010 tokens in, 300 out" in html.unescape(page)


def test_a_session_that_several_pages_want_at_once_is_opened_once(store: Store) -> None:
    """The list, its mark and the page each read a long session, and took three times as long."""
    make_session(store)
    begun, keeper = threading.Barrier(3, timeout=60), Keeper()
    opened: list[str] = []

    class Slow(Keeper):
        def open(self, store: Store, row: SessionRow, **asked: str) -> Session:
            opened.append(row.info.id)
            time.sleep(0.2)
            return keeper.open(store, row, namespace=asked["namespace"], head=asked["head"])

    sessions = OpenSessions(store, Slow(), None)

    def visit(_: int) -> OpenSession:
        begun.wait()
        return sessions.open(DEFAULT_NAMESPACE, "work")

    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(visit, range(3)))
    assert len({id(each) for each in found}) == 1
    assert opened == ["work"]
