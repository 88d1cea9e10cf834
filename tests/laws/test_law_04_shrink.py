"""Law 4: a Block shrinks the view by at least the policy's minimum, or none is appended and the Outcome says why."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tenfold.record.ask import Outcome
from tenfold.record.block import Block
from tenfold.record.message import Message
from tenfold.session import Session
from tenfold.transcripts import Recorded
from tests.laws import conversations, recorded
from tests.laws.checks import BYTES
from tests.laws.conversations import sent, tokens
from tests.laws.strategies import ENGINE, Log


def shrinks_or_says_why(session: Session, before: list[Message], outcome: Outcome, minimum: int) -> None:
    """The law, against the messages themselves: counted here, not taken from the Outcome."""
    after = session.view.messages()
    assert outcome.reason
    if outcome.status == "compacted":
        assert session.view.marks.changed == session.view.length - 1
        block = session.view.path.at(session.view.length - 1)
        assert isinstance(block, Block)
        assert block.id == outcome.block
        assert tokens(before) - tokens(after) >= minimum, f"saves {tokens(before) - tokens(after)}, not {minimum}"
        assert (outcome.tokens_before, outcome.tokens_after) == (tokens(before), tokens(after))
        assert (block.tokens_before, block.tokens_after) == (tokens(before), tokens(after))
        assert tokens(after) <= outcome.target or outcome.target_missed
        assert not outcome.target_missed or sum(outcome.itemised.values()) > 0
    else:
        assert after == before
        assert not outcome.block


@ENGINE
@given(conversations.long_logs(), st.integers(1, 120))
def test_an_explicit_target_makes_the_view_smaller_or_nothing(log: Log, percent: int) -> None:
    session = conversations.opened(log)
    before = session.view.messages()
    outcome = session.compact(to=max(1, tokens(before) * percent // 100))
    shrinks_or_says_why(session, before, outcome, 1)


@ENGINE
@given(conversations.long_logs(least=6), st.integers(40, 200))
def test_a_window_saves_at_least_the_minimum_or_nothing(log: Log, percent: int) -> None:
    session = conversations.opened(log)
    before = session.view.messages()
    outcome = session.compact(window=max(1, tokens(before) * percent // 100))
    shrinks_or_says_why(session, before, outcome, session.policy.minimum_shrink(tokens(before)))


@ENGINE
@given(conversations.long_logs(), conversations.long_logs(least=2, most=8))
def test_one_compaction_after_the_other_each_shrinks_the_view(log: Log, more: Log) -> None:
    session = conversations.opened(log)
    for _ in range(3):
        before = session.view.messages()
        outcome = session.compact(to=max(1, tokens(before) // 2))
        shrinks_or_says_why(session, before, outcome, 1)
        if said := conversations.messages(more):
            session.append(*said)


def test_recorded_sessions_shrink_to_a_tenth_or_say_why(session: Recorded) -> None:
    done = recorded.tenth(session)
    shrinks_or_says_why(done.session, list(done.before), done.outcome, 1)
    if done.outcome.status != "compacted":
        assert sent(done.session) == [BYTES.encode(m) for m in done.before]
