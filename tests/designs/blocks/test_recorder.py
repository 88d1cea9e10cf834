"""Loops of hosts that send their own requests, and the recorder of `blocks`, whose events live in the log."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tenfold.core.record.block import Block
from tenfold.core.record.message import Message, get_text
from tenfold.designs.blocks import (
    AgentEnd,
    AgentStart,
    CompactionConfig,
    ContextConfig,
    MessageDelta,
    SessionRecorder,
    compact_context,
    compact_session_loops,
    get_loop_records,
)
from tenfold.designs.blocks.policy import blocks
from tenfold.session import AsyncSession, Session, SessionAddress
from tenfold.session.drive import Answerer
from tenfold.store.sqlite.store import SqliteStore
from tests.designs.blocks.making import (
    COUNTER,
    FILLER,
    count_view_tokens,
    get_newest_block,
    make_loop,
    make_reply,
    make_session,
    make_turn,
    make_user_message,
)

WINDOW = 10_000


def make_rows(count: int, *, start: int = 0) -> list[dict[str, Any]]:
    """A request and so many answers of 700 tokens, as a host sends them."""
    rows = [{"role": "user", "content": f"Look into matter {start}."}]
    return [*rows, *({"role": "assistant", "content": f"note {start + n}: {FILLER * 30}"} for n in range(count))]


def send(session: Session, rows: list[dict[str, Any]], run: str) -> None:
    session.before_model({"model": "m", "messages": rows}, window=WINDOW, run=run)


def get_names(recorder: SessionRecorder, loop: str) -> list[str]:
    return [type(event).__name__ for _, event in recorder.get_events(loop)]


def get_blocks(session: Session) -> list[Block]:
    return [e for e in session.view.path.get_entries(0, session.view.length - 1) if isinstance(e, Block)]


def test_a_request_and_a_list_name_their_loop() -> None:
    session = make_session([])
    rows = make_rows(2)
    send(session, rows, "run-1")
    session.sync([*session.view.get_messages(), make_reply("Done.")], run="run-1")
    rows += [{"role": "assistant", "content": "Done."}, *make_rows(1, start=10)]
    send(session, rows, "run-2")
    assert [(r.loop_id, len(r.messages)) for r in get_loop_records(session)] == [("run-1", 4), ("run-2", 2)]
    session.before_model({"model": "m", "messages": [*rows, *make_rows(0, start=20)]}, window=WINDOW)
    assert [r.loop_id for r in get_loop_records(session)][:2] == ["run-1", "run-2"], "without one it is an exchange"


def test_the_recorder_hears_coroutines_and_demands_by_hand() -> None:
    session = make_session([])
    recorder = SessionRecorder(session)
    recorder.record(AgentStart("run-1"))
    session.append(*make_loop(20), run="run-1")
    asyncio.run(_compact_from_coroutine(session))
    session.append(*[m for n in range(50, 70) for m in make_turn(n)], run="run-1")
    assert compact_session_loops(session, "run-1", None, CompactionConfig(), WINDOW).status == "compacted"
    session.append(*[m for n in range(80, 90) for m in make_turn(n)], run="run-1")
    assert compact_context(session, ContextConfig(max_context_tokens=WINDOW)) == 1
    assert get_names(recorder, "run-1") == ["AgentStart", *["CompactionStarted", "CompactionEnded"] * 3]
    assert [b.run for b in get_blocks(session)] == ["", "run-1", "run-1"]


async def _compact_from_coroutine(session: Session) -> None:
    outcome = await AsyncSession(session).compact(window=WINDOW)
    assert outcome.status == "compacted"


def test_a_recorder_that_is_the_sender_too_records_an_event_once() -> None:
    session = make_session([make_loop(20)])
    recorder = SessionRecorder(session)
    assert compact_context(session, ContextConfig(max_context_tokens=WINDOW), recorder.record) == 1
    assert get_names(recorder, "run-1") == ["AgentStart", "CompactionStarted", "CompactionEnded", "AgentEnd"]


def test_events_survive_reopening(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db")
    session = Session.create(SessionAddress(store, "s"), blocks(COUNTER))
    recorder = SessionRecorder(session, deltas=True)
    recorder.record(AgentStart("a"))
    recorder.record(MessageDelta("a", "I loo"))
    recorder.record(MessageDelta("a", "I loo"))
    session.append(*make_loop(20), run="a")
    session.compact(window=WINDOW)
    recorder.record(AgentEnd("a", tuple(make_loop(20))))
    recorder.record(AgentStart("b"))
    recorder.flush()
    recorder.record(AgentStart("c"))
    before, loops = [recorder.get_events(loop) for loop in "abc"], recorder.get_loops()
    store.close()

    again = Session(SessionAddress(SqliteStore(tmp_path / "s.db"), "s"), blocks(COUNTER))
    reopened = SessionRecorder(again)
    assert [reopened.get_events(loop) for loop in "abc"] == before
    assert reopened.get_loops() == loops
    assert [(r.loop_id, r.status) for r in loops] == [("a", "completed"), ("b", "aborted"), ("c", "running")]
    assert [name for _, name in loops[0].events] == [
        "AgentStart", "MessageDelta", "MessageDelta", "CompactionStarted", "CompactionEnded", "AgentEnd",
    ]  # fmt: skip
    assert [number for number, _ in loops[0].events] == [1, 2, 3, 4, 5, 6]
    assert get_loop_records(again)[0].messages == loops[0].messages
    reopened.record(AgentEnd("c", (make_user_message("go"),)))
    assert [r.status for r in reopened.get_loops()] == ["completed", "aborted", "completed"]
    assert get_text(again.view.get_messages()[-1]) == "go"


def test_events_are_shown_to_no_model_and_change_no_view() -> None:
    plain, recorded = make_session([]), make_session([])
    recorder = SessionRecorder(recorded)
    for session in (plain, recorded):
        for n in range(1, 4):
            if session is recorded:
                recorder.record(AgentStart(f"run-{n}"))
            session.append(*make_loop(10, start=n * 20), run=f"run-{n}")
            session.compact(window=WINDOW)
            if session is recorded:
                recorder.record(AgentEnd(f"run-{n}"))

    def strip_marks(messages: list[Message]) -> list[Message]:
        return [m for m in messages if "<tenfold-summary" not in get_text(m)]

    assert strip_marks(recorded.view.get_messages()) == strip_marks(plain.view.get_messages())
    assert count_view_tokens(recorded) == count_view_tokens(plain)
    assert len(get_blocks(recorded)) == len(get_blocks(plain)) > 0


@pytest.mark.parametrize("run", ["run-1", ""])
def test_the_end_of_a_loop_appends_nothing_twice(run: str) -> None:
    session = make_session([])
    recorder = SessionRecorder(session)
    recorder.record(AgentStart("run-1"))
    rows = make_rows(3)
    send(session, rows, run)
    rows.append({"role": "assistant", "content": "Done."})
    known = session.view.get_messages()
    whole = (*known, make_reply("Done."))
    recorder.record(AgentEnd("run-1", whole))
    assert session.view.get_messages() == [*whole]
    send(session, [*rows, *make_rows(0, start=9)], "run-2")
    assert session.view.get_messages()[:-1] == [*whole]
    assert get_text(session.view.get_messages()[-1]) == "Look into matter 9."


def test_what_a_loop_says_twice_is_appended_as_often_as_it_was_said() -> None:
    session = make_session([[make_user_message("go"), make_reply("ok")]])
    recorder = SessionRecorder(session)
    recorder.record(AgentStart("run-2"))
    said = (make_user_message("go"), make_reply("ok"), make_user_message("go"), make_reply("ok"))
    session.append(*said[:2], run="run-2")
    recorder.record(AgentEnd("run-2", said))
    assert [m.message for m in get_loop_records(session)[1].messages] == [*said]
    assert len(session.view.get_messages()) == 6
    recorder.record(AgentStart("run-2"))
    recorder.record(AgentEnd("run-2", said))
    assert len(session.view.get_messages()) == 10, "a run that has ended and goes on says the same once more"


@pytest.mark.parametrize("how", ["compact", "request", "call", "coroutine"])
def test_a_compaction_before_the_first_message_of_a_loop_is_filed_with_that_loop(how: str) -> None:
    session = make_session([])
    recorder = SessionRecorder(session)
    recorder.record(AgentStart("run-1"))
    rows = make_rows(9)
    session.before_model({"model": "m", "messages": rows}, window=10**6, run="run-1")
    recorder.record(AgentEnd("run-1"))
    recorder.record(AgentStart("run-2"))
    if how == "compact":
        session.compact(window=7_000)
    elif how == "request":
        session.before_model({"model": "m", "messages": rows}, window=7_000, run="run-2")
    elif how == "call":
        session.compact(replace(session.compactor.build_call(window=7_000), run="run-2"))
    else:
        request = {"model": "m", "messages": rows}
        asyncio.run(AsyncSession(session).before_model(request, window=7_000, run="run-2"))
    assert len(get_blocks(session)) == 1
    assert get_names(recorder, "run-1") == ["AgentStart", "AgentEnd"]
    assert get_names(recorder, "run-2") == ["AgentStart", "CompactionStarted", "CompactionEnded"]
    assert get_newest_block(session).run == ("" if how == "compact" else "run-2")
    assert [r.loop_id for r in recorder.get_loops()] == ["run-1", "run-2"]


def test_two_writers_lose_no_event() -> None:
    session = make_session([])
    recorder = SessionRecorder(session)
    recorder.record(AgentStart("run-1"))
    other = Session(session.address, session.policy, answerer=Answerer())
    other.append(*make_loop(1), run="run-1")
    recorder.record(AgentEnd("run-1", (*make_loop(1), make_reply("Done."))))
    assert get_names(recorder, "run-1") == ["AgentStart", "AgentEnd"]
    assert session.view.get_messages() == [*make_loop(1), make_reply("Done.")]
