"""Law 4: a Block shrinks the view by at least the policy's minimum, or none is appended and the Outcome says why.

Above the hard limit, where a provider would refuse the request, a Block that helps at all is appended (decision 0019).
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenfold.core.record.ask import Outcome
from tenfold.core.record.block import Block
from tenfold.core.record.message import Message
from tenfold.formats import ParsedSession
from tenfold.session import Session
from tests.laws import conversations, recorded
from tests.laws.checks import BYTES, get_counted
from tests.laws.conversations import count_tokens, encode_view, get_minimum_saving
from tests.laws.strategies import ENGINE, Log


def assert_shrinks_or_explains(session: Session, before: list[Message], outcome: Outcome, minimum: int) -> None:
    """The law, against the messages themselves: counted here, not taken from the Outcome."""
    after = session.view.get_messages()
    assert outcome.reason
    if outcome.status == "compacted":
        assert session.view.state.last_change == session.view.length - 1
        block = session.view.path.get_entry(session.view.length - 1)
        assert isinstance(block, Block)
        assert block.id == outcome.block
        assert count_tokens(before) - count_tokens(after) >= minimum, (
            f"saves {count_tokens(before) - count_tokens(after)}, not {minimum}"
        )
        counted = get_counted(outcome)
        assert (counted.before, counted.after) == (count_tokens(before), count_tokens(after))
        assert (block.tokens_before, block.tokens_after) == (count_tokens(before), count_tokens(after))
        assert count_tokens(after) <= counted.target or outcome.target_missed
        assert not outcome.target_missed or sum(outcome.itemised.values()) > 0
    else:
        assert after == before
        assert not outcome.block


@ENGINE
@given(conversations.long_logs(), st.integers(1, 120))
def test_an_explicit_target_makes_the_view_smaller_or_nothing(log: Log, percent: int) -> None:
    session = conversations.open_session(log)
    before = session.view.get_messages()
    outcome = session.compact(to=max(1, count_tokens(before) * percent // 100))
    assert_shrinks_or_explains(session, before, outcome, 1)


@ENGINE
@given(conversations.long_logs(least=6), st.integers(40, 200))
def test_a_window_saves_at_least_the_minimum_or_nothing(log: Log, percent: int) -> None:
    session = conversations.open_session(log)
    before = session.view.get_messages()
    call = session.compactor.build_call(window=max(1, count_tokens(before) * percent // 100))
    minimum = get_minimum_saving(session, before, call)
    assert_shrinks_or_explains(session, before, session.compact(call), minimum)


@ENGINE
@given(conversations.long_logs(), conversations.long_logs(least=2, most=8))
def test_one_compaction_after_the_other_each_shrinks_the_view(log: Log, more: Log) -> None:
    session = conversations.open_session(log)
    for _ in range(3):
        before = session.view.get_messages()
        outcome = session.compact(to=max(1, count_tokens(before) // 2))
        assert_shrinks_or_explains(session, before, outcome, 1)
        if said := conversations.extract_messages(more):
            session.append(*said)


@pytest.mark.costly(2)
def test_recorded_sessions_shrink_to_a_tenth_or_say_why(session: ParsedSession) -> None:
    done = recorded.compact_to_tenth(session)
    assert_shrinks_or_explains(done.session, list(done.before), done.outcome, 1)
    if done.outcome.status != "compacted":
        assert encode_view(done.session) == [BYTES.encode(m) for m in done.before]
