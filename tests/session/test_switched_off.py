"""A user may say "not this session": no automatic check compacts it then, in any process, but for the hard limit."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from msgspec.structs import replace

from tenfold.core.record.ask import Outcome
from tenfold.core.record.block import Run
from tenfold.core.record.message import Message, get_text
from tenfold.core.view.fold import Snapshot, View
from tenfold.errors import UsageError
from tenfold.events import Event
from tenfold.session import AsyncSession, Session, SessionAddress
from tenfold.session.drive import Answerer
from tenfold.store.sql.paths import decode_snapshot, encode_snapshot
from tenfold.store.sqlite.store import SqliteStore
from tests.engine.making import build_policy, make_reply, make_user_message, make_work, open_session, reopen_session

WINDOW = 9_200
"""The work of twelve steps, read as 8,420 tokens, fires the trigger of 7,820 and does not reach the hard limit."""
SMALL_WINDOW = 3_000


def check(session: Session, window: int = WINDOW) -> Outcome:
    call = session.compactor.build_call(window=window)
    return session.compact(replace(call, demand="check"))


def test_a_check_does_nothing_and_says_why() -> None:
    session = open_session(make_work(12))
    session.switch_auto("off")
    outcome = check(session)
    assert outcome.status == "nothing"
    assert "the user switched automatic compaction off for this session" in outcome.reason
    assert f"{WINDOW:,}" in outcome.reason
    assert not session.view.state.live_blocks
    assert not session.view.state.attempts, "nothing is written for it"
    session.switch_auto("on")
    assert check(session).status == "compacted"


def test_the_hard_limit_still_acts_and_so_do_a_person_and_a_refusal() -> None:
    session = open_session(make_work(12))
    session.switch_auto("off")
    assert check(session, SMALL_WINDOW).status == "compacted"
    other = open_session(make_work(12))
    other.switch_auto("off")
    assert other.compact(to="30%").status == "compacted"
    refused = open_session(make_work(12))
    refused.switch_auto("off")
    call = replace(refused.compactor.build_call(window=WINDOW), demand="overflow")
    assert refused.compact(call).status == "compacted"


def test_a_preview_says_so_too() -> None:
    session = open_session(make_work(12))
    session.switch_auto("off")
    decision, plan = session.preview(replace(session.compactor.build_call(window=WINDOW), demand="check"))
    assert plan is None
    assert "switched automatic compaction off" in decision.reason


def test_listeners_are_not_warned_of_what_will_not_happen() -> None:
    said: list[Event] = []
    session = open_session(make_work(12), answerer=Answerer(listeners=(said.append,)))
    warning = 11_000
    check(session, warning)
    assert [type(each).__name__ for each in said] == ["CompactionWarning"]
    session.switch_auto("off")
    check(session, warning)
    assert len(said) == 1


def test_it_is_written_once_and_another_state_is_refused() -> None:
    session = open_session(make_work(2))
    session.switch_auto("on")
    length = session.view.length
    session.switch_auto("off")
    session.switch_auto("off")
    assert session.view.length == length + 1
    state: Any = "never"
    with pytest.raises(UsageError, match="off or on, and not 'never'"):
        session.switch_auto(state)


def test_another_process_obeys_even_if_it_appends_nothing(tmp_path: Path) -> None:
    """Two stores over one file are what two processes have. The other one's view is older than the switch."""
    with closing(SqliteStore(tmp_path / "s.db")) as mine, closing(SqliteStore(tmp_path / "s.db")) as others:
        session = Session.create(SessionAddress(mine, "s"), build_policy())
        session.append(*make_work(12))
        other = Session(SessionAddress(others, "s"), build_policy())
        session.switch_auto("off")
        assert not other.view.state.is_auto_off, "it has not looked"
        outcome = check(other)
        assert "switched automatic compaction off" in outcome.reason
        other.append(make_user_message("on"))
        assert Session(SessionAddress(mine, "s"), build_policy()).view.state.is_auto_off
        other.switch_auto("on")
        assert check(session).status == "compacted"


def test_a_branch_keeps_it() -> None:
    session = open_session()
    first = [*make_work(3), make_reply("done")]
    session.sync(first)
    session.switch_auto("off")
    session.sync([*first[:-1], make_reply("done otherwise"), make_user_message("on")])
    assert session.view.state.is_auto_off
    assert get_text(session.view.get_messages()[-2]) == "done otherwise"


@pytest.mark.parametrize("state", ["off", "on"])
def test_a_snapshot_holds_it(state: Literal["off", "on"], tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "s.db")) as store:
        session = Session.create(SessionAddress(store, "s"), build_policy())
        session.append(*make_work(12))
        session.switch_auto("off")
        session.switch_auto(state)
        session.compact(to="20%")
        snapshot = store.open("default", "s").snapshot
        assert snapshot is not None
        assert snapshot.is_auto_off == (state == "off")
        assert reopen_session(session).view.state == session.view.state
        assert store.verify("default") == []


def test_a_snapshot_of_an_earlier_release_is_read() -> None:
    """It ends with the rules: what came later has its usual value."""
    view = View.from_path(open_session(make_work(2)).view.path)
    now = view.to_snapshot(b"meter")
    old = msgspec.msgpack.decode(encode_snapshot(now))
    assert old[-1] is False
    assert decode_snapshot(msgspec.msgpack.encode(old[:-1])) == now
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(now), type=_EarlierSnapshot).length == now.length


class _EarlierSnapshot(msgspec.Struct, frozen=True, array_like=True):
    """As the release before reads it."""

    length: int
    range_refs: tuple[Any, ...]
    live_blocks: tuple[int, ...]
    pins: tuple[int, ...]
    undone: bool = False
    meter_state: bytes = b""
    rule_settings: tuple[int, ...] = ()


def test_an_async_session_has_it() -> None:
    session = open_session(make_work(12))

    async def run() -> None:
        await AsyncSession(session).switch_auto("off")

    asyncio.run(run())
    assert session.view.state.is_auto_off
    assert Snapshot(1, (Run(0, 0),), (), ()).is_auto_off is False


def test_no_model_sees_it() -> None:
    session = open_session(make_work(2))
    before: list[Message] = session.view.get_messages()
    session.switch_auto("off")
    assert session.view.get_messages() == before
