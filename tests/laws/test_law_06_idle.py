"""Law 6: nothing is done, and no model called, if nothing follows the newest Block and the same is asked again.

After each compaction of `test_presets_*.py` the same is asked again; here it is asked after what looks like news.
"""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from tenfold.compaction.engine.call import Call
from tenfold.core.record.token_reading import Counted
from tenfold.session.drive import Answerer
from tests.laws import conversations, presets, strategies
from tests.laws.conversations import Echo, count_tokens, encode_view, read_entries
from tests.laws.strategies import ENGINE, Log


@pytest.mark.parametrize("demand", ["check", "manual", "tool", "overflow"])
def test_an_open_step_from_before_the_block_is_no_message_after_it(demand: str) -> None:
    log = conversations.lengthen_log(
        strategies.play([*[("user", 0, 0, 0), ("answer", 0, 0, 0)] * 15, ("calls", 0, 0, 0)]), 20
    )
    call = replace(Call(window=count_tokens(conversations.open_session(log).view.get_messages())), demand=demand)
    session = conversations.open_session(log, conversations.make_policy(models=("echo",)), Answerer(Echo()))
    assert session.compact(call).status == "compacted"
    presets.assert_repeat_does_nothing(session, call)


@ENGINE
@given(conversations.long_logs(), st.integers(10, 60))
def test_a_pin_is_no_message_and_changes_nothing_about_that(log: Log, percent: int) -> None:
    session = conversations.open_session(log)
    call = Call(to=Counted(max(1, count_tokens(session.view.get_messages()) * percent // 100)))
    assume(session.compact(call).status == "compacted")
    kept = [s.position for s in session.view.get_visible_messages() if s.is_original]
    assume(kept)
    session.pin(session.view.path.get_entry(kept[0]).id)
    held = read_entries(session)
    assert session.compact(call).status == "nothing"
    assert read_entries(session) == held


@ENGINE
@given(conversations.long_logs(), st.integers(10, 60), st.booleans())
def test_syncing_what_is_in_view_changes_nothing(log: Log, percent: int, hushed: bool) -> None:  # noqa: FBT001
    log = strategies.play([("error", 0, 0, 0)], log) if hushed else log
    session = conversations.open_session(log)
    session.compact(to=max(1, count_tokens(session.view.get_messages()) * percent // 100))
    before, held = encode_view(session), read_entries(session)
    session.sync(session.view.get_messages())
    assert (encode_view(session), read_entries(session)) == (before, held)
    session.sync(conversations.extract_messages(log))
    assert (encode_view(session), read_entries(session)) == (before, held)
