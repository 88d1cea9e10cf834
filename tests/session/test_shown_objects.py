"""What a person sees of an object at a prompt or in a notebook: what it is, and how large."""

from __future__ import annotations

import asyncio
import threading
from html.parser import HTMLParser
from pathlib import Path

import pytest

import tenfold
from tenfold.config.settings import build_policy as choose_policy
from tenfold.core.meter.counters import CharacterCounter
from tenfold.recall.tools import RecallTools
from tenfold.session import AsyncSession, SessionAddress
from tenfold.store.sqlite.store import SqliteStore
from tests.engine.making import FILLER, get_blocks, make_work, open_session

MESSAGES = [{"role": "user", "content": "go <b>on</b> & on"}, {"role": "assistant", "content": FILLER * 40}] * 10


def test_sessions_say_whose_they_are_and_how_large() -> None:
    session = open_session(make_work(12), model="gpt-4o")
    assert repr(session) == "<Session 's', head 'main', model 'gpt-4o': 50 messages in view, 50 entries>"
    session.compact(to=900)
    shown = len(session.view.get_messages())
    expected = f" 's', head 'main', model 'gpt-4o': {shown} messages in view, 51 entries, 1 compaction in force>"
    assert (repr(session), repr(AsyncSession(session))) == (f"<Session{expected}", f"<AsyncSession{expected}")
    assert repr(session.view) == f"<View: {shown} messages in view, 51 entries, 1 compaction in force>"


def test_a_session_is_shown_while_another_thread_holds_it() -> None:
    session = open_session(make_work(2))
    with session.conversation.lock:
        shown: list[str] = []
        thread = threading.Thread(target=lambda: shown.append(repr(session)))
        thread.start()
        thread.join(5)
    assert shown == ["<Session 's', head 'main': 10 messages in view, 10 entries>"]


def test_a_block_and_a_plan_say_their_sizes_and_not_their_texts() -> None:
    session = open_session(make_work(12))
    plan = session.preview(to=900)[1]
    outcome = session.compact(to=900)
    (block,) = get_blocks(session)
    sizes = f"{block.tokens_before:,} -> {block.tokens_after:,} tokens"
    assert repr(block) == f"<Block {block.id!r} by tenfold: {len(block.replacements)} replacements, {sizes}>"
    assert repr(plan).startswith(f"<Plan: {block.tokens_before:,} -> at most ")
    assert repr(outcome) == (
        f"<Outcome compacted: {outcome.tokens_before:,} -> {outcome.tokens_after:,} tokens, "
        f"{outcome.messages_before} -> {outcome.messages_after} messages>"
    )


@pytest.mark.parametrize("name", ["tenfold", "tail", "clip"])
def test_a_policy_says_its_name_and_its_stages(name: str) -> None:
    policy = choose_policy(name, CharacterCounter())
    assert repr(policy).startswith(f"<Policy {name!r}: {len(policy.stages)} stage")
    assert len(repr(policy)) < 120


def test_a_store_says_where_it_is_and_how_large(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "log.db")
    size = (tmp_path / "log.db").stat().st_size
    assert repr(store) == f"<SqliteStore '{tmp_path}/log.db': {size:,} bytes>"
    assert repr(SessionAddress(store, "s")).startswith("SessionAddress(store=<SqliteStore")
    store.close()
    assert repr(SqliteStore(":memory:")) == "<SqliteStore ':memory:'>"


def test_what_has_done_nothing_says_why() -> None:
    outcome = tenfold.compact(MESSAGES[:2], to=100_000).outcome
    assert repr(outcome) == f"<Outcome nothing: {outcome.reason}>"


class Texts(HTMLParser):
    """Collects the tags and the text of a fragment."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002 - of the base
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += f"{data}\n"


def test_a_result_is_a_table_in_a_notebook_with_every_text_escaped() -> None:
    made = tenfold.compact(MESSAGES, to=1_000)
    assert repr(made) == f"<CompactResult in openai-chat: {len(made.messages)} messages, {made.outcome!r}>"
    found = Texts()
    found.feed(made._repr_html_())
    assert set(found.tags) <= {"table", "tr", "th", "td"}
    assert "go <b>on</b> & on" in found.text
    assert f"{made.outcome.tokens_before:,} -> {made.outcome.tokens_after:,}" in found.text
    assert found.tags.count("tr") >= len(made.messages)
    assert len(made._repr_html_()) < 20_000


def test_a_result_shows_no_secret_in_a_notebook() -> None:
    secret = "sk-proj-" + "a1B2" * 10
    made = tenfold.compact([{"role": "user", "content": f"OPENAI_API_KEY={secret}"}], to=100_000)
    assert secret not in made._repr_html_()


def test_an_outcome_is_a_table_too() -> None:
    found = Texts()
    found.feed(open_session(make_work(12)).compact(to=900)._repr_html_())
    assert {"status", "reason", "tokens", "messages", "target"} <= set(found.text.split())


def test_async_results_are_the_same() -> None:
    assert "table" in asyncio.run(tenfold.acompact(MESSAGES, to=1_000))._repr_html_()


def test_what_a_session_and_the_package_hand_out_is_shown_in_a_line(tmp_path: Path) -> None:
    session = open_session(make_work(12))
    assert repr(session.view.path) == "<Path: 50 entries>"
    assert repr(session.tools) == "<RecallTools of session 's', head 'main'>"
    everywhere = RecallTools(session.address.store, "team", "", count=lambda texts: [len(text) for text in texts])
    assert repr(everywhere) == "<RecallTools of all of 'team'>"
    assert repr(session.compactor) == "<CompactionRunner of session 's': no request yet>"
    session.before_model({"model": "gpt-4o", "messages": MESSAGES}, window=2_000, append=True)
    assert session.outcome is not None
    assert repr(session.compactor) == f"<CompactionRunner of session 's': {session.outcome!r}>"
    assert repr(tenfold.POLICIES) == f"<InstalledPolicies: {', '.join(tenfold.POLICIES)}>"
    assert repr(tenfold.ScriptedModel(["one", "two"])) == "<ScriptedModel: 0 of 2 replies given>"
    file = tmp_path / "chat.json"
    file.write_text('[{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}]')
    (parsed,) = tenfold.read_file(file)
    assert repr(parsed) == f"<ParsedSession {str(file)!r} in openai-chat: 2 entries>"
