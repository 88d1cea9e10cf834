"""The tools by themselves: what they answer, under which cap, and that no argument leads to another tenant."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenfold.apps.mcp.session_tools import ANSWER_CAP, SessionTools
from tenfold.core.meter.counters import choose_counter
from tenfold.errors import NotFoundError, UsageError
from tenfold.store.base import Store
from tenfold.store.location import open_store

COUNT = choose_counter(None).counter.count


@pytest.fixture
def store(store_path: Path) -> Iterator[Store]:
    opened = open_store(store_path)
    yield opened
    opened.close()


def get_session(store: Store, format_: str, namespace: str = "default") -> str:
    return next(row.info.id for row in store.list_sessions(namespace) if row.info.format == format_)


def test_a_search_over_all_sessions_names_what_read_takes(store: Store) -> None:
    tools = SessionTools(store)
    answer = tools.search("price list")
    assert f"session {get_session(store, 'claude-code')}" in answer
    entry = answer.split(" ", 1)[0]
    assert f" {entry} " in tools.read(entry)


def test_a_search_in_one_session_gives_numbers(store: Store) -> None:
    tools = SessionTools(store)
    session = get_session(store, "claude-code")
    number = tools.search("price list", session[:18]).split(" ", 1)[0]
    assert re.fullmatch(r"\d+", number)
    assert tools.read(number, session).startswith(f"[{number} ")
    with pytest.raises(NotFoundError, match="begins with 'nowhere'"):
        tools.search("price", "nowhere")
    assert "name the session too" in tools.read(number)


def test_every_answer_is_under_its_cap_and_goes_on(store: Store) -> None:
    tools = SessionTools(store)
    session = get_session(store, "claude-code")
    whole = tools.read("20", session, around=40)
    assert "part=2) goes on]" in whole
    entry = re.search(r'read\(entry="([^"]+)", around=40, part=2\) goes on', whole)
    assert entry is not None
    assert tools.read(entry[1], around=40, part=2) != whole
    answers = [whole, tools.search("price"), tools.list_rules(session), tools.report_status(session)]
    answers += [tools.report_status(), tools.preview_compaction(session)]
    assert all(COUNT([answer])[0] <= ANSWER_CAP for answer in answers)


def test_rules_status_and_preview_tell_of_the_session(store: Store) -> None:
    tools = SessionTools(store)
    session = get_session(store, "claude-code")
    rules = tools.list_rules(session)
    assert rules.startswith("1. ")
    assert len(rules.splitlines()) == 10
    status = tools.report_status(session)
    assert "rules of the user in force: 10" in status
    assert "compactions: 0, the newest in force: none" in status
    before = store.list_sessions("default")
    preview = tools.preview_compaction(session)
    assert preview.startswith("would compact: ")
    assert "plan: " in preview
    assert store.list_sessions("default") == before
    with pytest.raises(UsageError, match="a target of -1 tokens"):
        tools.preview_compaction(session, -1)


def test_another_tenant_is_neither_found_nor_read_nor_listed(store: Store) -> None:
    ours, theirs = SessionTools(store), SessionTools(store, namespace="other")
    foreign = get_session(store, "pi", "other")
    entry = theirs.search("log").split(" ", 1)[0]
    assert f" {entry} " in theirs.read(entry)
    assert "no entry" in ours.read(entry)
    assert "no entry" in ours.expand(entry)
    assert foreign not in ours.report_status() + ours.search("log")
    for look in (ours.list_rules, ours.report_status, ours.preview_compaction, lambda name: ours.search("log", name)):
        with pytest.raises(NotFoundError):
            look(foreign)


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "file:///etc/passwd", "last' OR '1'='1", "%", ""])
def test_a_path_is_only_a_name_that_no_entry_has(store: Store, name: str) -> None:
    tools = SessionTools(store)
    assert "no entry" in tools.read(name) or "needs the argument" in tools.read(name)
    assert "no entry" in tools.expand(name) or "needs the argument" in tools.expand(name)
    assert "recall_" not in tools.read(name), "the tools have other names here"
    if name:
        with pytest.raises(NotFoundError):
            tools.report_status(name)


def test_an_empty_store_says_how_a_session_gets_in() -> None:
    tools = SessionTools(open_store(":memory:"))
    assert "no session is stored yet" in tools.report_status()
    assert "nothing in your sessions holds 'x'" in tools.search("x")
    with pytest.raises(NotFoundError, match="tenfold compact FILE"):
        tools.list_rules()
