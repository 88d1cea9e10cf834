"""A web handler that opens the session for each step learns from reports as one that keeps it open does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tenfold.core.record.entry import MessageEntry, Usage
from tenfold.core.record.token_reading import Counted
from tenfold.session import Session, SessionAddress
from tenfold.session.drive import Answerer
from tenfold.store.sqlite.store import SqliteStore
from tests.engine.making import build_policy, get_entries, make_reply, make_user_message, open_session, reopen_session

MODEL = "gpt-4o"
TOOLS = [{"type": "function", "function": {"name": "read", "parameters": {"about": "a file " * 200}}}]
Item = dict[str, Any]


@contextmanager
def open_for_one_step(path: Path) -> Iterator[Session]:
    store = SqliteStore(path)
    try:
        yield Session.create(SessionAddress(store, "s"), build_policy(), model=MODEL)
    finally:
        store.close()


def report(tokens: int) -> dict[str, Any]:
    return {"usage": {"prompt_tokens": tokens, "completion_tokens": 9}}


def test_a_handler_that_opens_the_session_for_each_step_learns_from_reports(tmp_path: Path) -> None:
    kept = open_session(model=MODEL)
    listed: list[Item] = []
    for turn in range(6):
        listed.append({"role": "user", "content": f"question {turn} " + "word " * 600})
        request = {"model": MODEL, "messages": listed, "tools": TOOLS}
        tokens = 1_000 + 2 * sum(len(item["content"]) // 4 for item in listed)
        kept.before_model(request, window=100_000)
        kept.after_model(report(tokens))
        with open_for_one_step(tmp_path / "log.db") as session:
            session.before_model(request, window=100_000)
        with open_for_one_step(tmp_path / "log.db") as session:
            session.after_model(report(tokens))
        listed.append({"role": "assistant", "content": f"answer {turn}"})
    listed.append({"role": "user", "content": "and?"})
    kept.before_model({"model": MODEL, "messages": listed, "tools": TOOLS}, window=100_000)
    with open_for_one_step(tmp_path / "log.db") as session:
        session.before_model({"model": MODEL, "messages": listed, "tools": TOOLS}, window=100_000)
        assert session.take_reading() == kept.take_reading()
        assert session.take_reading().source == "reported"
        assert session.conversation.calibration == kept.conversation.calibration
        row = session.conversation.calibration.find_model(MODEL, "chars4")
        assert row is not None
        assert (row.last_overhead > 0, row.compute_slope(1.0) > 1.5) == (True, True)
        usages = [entry.usage for entry in get_entries(session) if isinstance(entry, MessageEntry)]
        assert [usage is not None for usage in usages] == [False, True] * 6 + [False]


@pytest.mark.parametrize("tools", [TOOLS, []], ids=["tools", "nothing beside the list"])
@pytest.mark.parametrize("factor", [0.1, 10])
def test_a_wrong_report_is_not_believed_where_each_step_opens_the_session(
    factor: float, tools: list[Item], tmp_path: Path
) -> None:
    listed: list[Item] = []
    for turn in range(4):
        listed.append({"role": "user", "content": f"question {turn} " + "word " * 600})
        with open_for_one_step(tmp_path / "log.db") as session:
            session.before_model({"model": MODEL, "messages": listed, "tools": tools}, window=100_000)
            tokens = session.take_reading().estimate
        with open_for_one_step(tmp_path / "log.db") as session:
            session.after_model(report(int(factor * tokens)))
        listed.append({"role": "assistant", "content": f"answer {turn}"})
        with open_for_one_step(tmp_path / "log.db") as session:
            session.before_model({"model": MODEL, "messages": listed, "tools": tools}, window=100_000)
            seen = session.conversation.calibration.find_seen(MODEL, session.policy.counter.name)
            assert seen is not None
            assert (seen.is_believed, seen.doubts) == (False, turn + 1)


def test_a_request_with_hidden_parts_is_unbounded_for_the_next_step_too(tmp_path: Path) -> None:
    with open_for_one_step(tmp_path / "log.db") as session:
        session.before_model({"model": MODEL, "messages": [{"role": "user", "content": "go"}]}, window=100_000)
        session.requests.note_hidden_parts()
        session.after_model(report(9_000))
        assert session.conversation.pending_usage == Usage.build(9_000, 9, model=MODEL)
    with open_for_one_step(tmp_path / "log.db") as session:
        session.after_model(report(9_000))
        assert session.conversation.pending_usage == Usage.build(9_000, 9, model=MODEL)


def test_a_report_waits_for_its_answer_and_goes_with_one_only() -> None:
    session = open_session([make_user_message("go")])
    session.requests.record_usage(Usage.build(900, model=MODEL))
    assert reopen_session(session).conversation.pending_usage == Usage.build(900, model=MODEL)
    reopen_session(session).append(make_user_message("and"))
    assert reopen_session(session).conversation.pending_usage == Usage.build(900, model=MODEL)
    reopen_session(session).append(make_reply("yes"))
    assert reopen_session(session).conversation.pending_usage is None
    session.append(make_reply("no"))
    kept = [entry.usage for entry in get_entries(session) if isinstance(entry, MessageEntry)]
    assert kept == [None, None, Usage.build(900, model=MODEL), None]


def test_a_worker_learns_of_a_report_that_another_one_took() -> None:
    one = open_session([make_user_message("go")])
    two = reopen_session(one)
    two.requests.record_usage(Usage.build(900, model=MODEL))
    one.append(make_reply("yes"))
    assert one.conversation.calibration == reopen_session(one).conversation.calibration
    assert one.conversation.calibration.find_model(MODEL, "chars4") is not None


def test_a_report_for_what_was_changed_is_dropped_in_the_store_too() -> None:
    session = open_session([make_user_message("go"), make_reply("yes"), make_user_message("on")])
    session.requests.record_usage(Usage.build(900, model=MODEL))
    reopen_session(session).sync([make_user_message("go"), make_reply("yes"), make_user_message("stop")])
    assert reopen_session(session).conversation.pending_usage is None


def test_a_report_that_the_store_does_not_take_is_kept_in_memory_and_said() -> None:
    told: list[str] = []
    session = open_session([make_user_message("go")], model=MODEL, answerer=Answerer(problem_reporter=told.append))
    session.address.store.close()
    session.after_model(report(900))
    assert session.conversation.pending_usage == Usage.build(900, 9, model=MODEL)
    assert "closed" in told[0]
    assert len(told) == 1


def test_the_store_keeps_a_report_for_each_head() -> None:
    session = open_session([make_user_message("go")])
    store = session.address.store
    other = Session(replace(session.address, head="other"), build_policy())
    other.append(make_user_message("no"))
    store.keep_request("default", "s", "other", usage=Usage.build(5), overhead=Counted(7))
    store.keep_request("default", "s", "unknown", usage=Usage.build(5), overhead=Counted(7))
    assert (store.open("default", "s").pending_usage, store.open("default", "s").overhead) == (None, None)
    state = store.open("default", "s", "other")
    assert (state.pending_usage, state.overhead) == (Usage.build(5), 7)


@pytest.mark.parametrize("damage", ["x'c1'", "7", "'text'"])
def test_a_damaged_report_is_one_that_did_not_come(tmp_path: Path, damage: str) -> None:
    with open_for_one_step(tmp_path / "log.db") as session:
        session.append(make_user_message("go"))
        session.requests.record_usage(Usage.build(900, model=MODEL))
        store = session.address.store
        assert isinstance(store, SqliteStore)
        with store._database.write() as db:
            db.execute(f"UPDATE head SET pending = {damage}")  # noqa: S608 - constants
    with open_for_one_step(tmp_path / "log.db") as session:
        assert session.conversation.pending_usage is None
        session.append(make_reply("yes"))
