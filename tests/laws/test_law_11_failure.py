"""Law 11: a failed, refused or cancelled run changes no view; it leaves one Attempt exactly where it must be known."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from tenfold.compaction.engine.call import Call
from tenfold.core.record.ask import Answer, ConsultAsk, Outcome
from tenfold.core.record.entry import Attempt, Entry
from tenfold.session import Session
from tenfold.session.drive import Answerer
from tests.laws import conversations
from tests.laws.checks import get_counted
from tests.laws.conversations import Broken, NeverAsk, count_tokens, encode_view, read_entries
from tests.laws.strategies import ENGINE, Log


def compute_target(session: Session, percent: int) -> int:
    """A share of the view's tokens."""
    return max(1, count_tokens(session.view.get_messages()) * percent // 100)


def get_left_entries(session: Session, before: list[bytes], held: list[Entry]) -> list[Entry]:
    """The entries that a run without a Block left. The view is what it was, also where it is opened anew."""
    assert encode_view(session) == before
    assert encode_view(Session(session.address, session.policy)) == before
    now = read_entries(session)
    assert now[: len(held)] == held
    return now[len(held) :]


def assert_remembers(left: list[Entry], outcome: Outcome) -> None:
    """Exactly one Attempt, which says what the Outcome says."""
    assert len(left) == 1
    attempt = left[0]
    assert isinstance(attempt, Attempt)
    assert (attempt.status, attempt.reason) == (outcome.status, outcome.reason)
    counted = get_counted(outcome)
    assert attempt.tokens == counted.before
    assert abs(attempt.target - counted.target) <= 1


@ENGINE
@given(conversations.long_logs(), st.integers(10, 60))
def test_a_failed_summary_changes_no_view_and_leaves_one_attempt(log: Log, percent: int) -> None:
    model = Broken()
    using = conversations.make_policy(models=("broken", "next"), on_failure="abort")
    session = conversations.open_session(log, using, Answerer(model))
    before, held = encode_view(session), read_entries(session)
    outcome = session.compact(to=compute_target(session, percent))
    assume(model.calls)
    assert outcome.status == "failed"
    assert "the provider is down" in outcome.reason
    left = get_left_entries(session, before, held)
    assert_remembers(left, outcome)
    assert isinstance(left[0], Attempt)
    assert left[0].spent.calls == model.calls


@ENGINE
@given(conversations.long_logs(), st.integers(10, 60), st.text("ab ", max_size=9))
def test_a_hook_that_cancels_leaves_nothing(log: Log, percent: int, why: str) -> None:
    asked: list[ConsultAsk] = []

    def cancel(ask: ConsultAsk) -> Answer:
        asked.append(ask)
        return Answer(cancel=True, error=why)

    session = conversations.open_session(
        log, conversations.make_policy(models=("m",)), Answerer(NeverAsk(), before_hooks=(cancel,))
    )
    before, held = encode_view(session), read_entries(session)
    outcome = session.compact(
        replace(session.compactor.build_call(to=compute_target(session, percent)), has_before_hooks=True)
    )
    assume(asked)
    assert outcome.status == "cancelled"
    assert get_left_entries(session, before, held) == []


@ENGINE
@given(conversations.long_logs(least=3), st.integers(1, 60), st.sampled_from(("check", "manual", "tool", "overflow")))
def test_an_unsatisfiable_window_is_said_once(log: Log, window: int, demand: str) -> None:
    session = conversations.open_session(log, conversations.make_policy(models=("m",)), Answerer(NeverAsk()))
    before, held = encode_view(session), read_entries(session)
    call = replace(Call(window=window), demand=demand)
    outcome = session.compact(call)
    assume(outcome.status == "unsatisfiable")
    assert outcome.itemised
    assert_remembers(get_left_entries(session, before, held), outcome)
    if demand != "manual":
        held = read_entries(session)
        assert session.compact(call).status == "unsatisfiable"
        assert get_left_entries(session, before, held) == []


@ENGINE
@given(conversations.long_logs(), st.integers(100, 400))
def test_what_is_not_called_for_leaves_nothing(log: Log, percent: int) -> None:
    session = conversations.open_session(log, conversations.make_policy(models=("m",)), Answerer(NeverAsk()))
    before, held = encode_view(session), read_entries(session)
    assert session.compact(to=compute_target(session, percent)).status == "nothing"
    assert (
        session.compact(replace(Call(window=3 * compute_target(session, percent)), demand="check")).status == "nothing"
    )
    assert get_left_entries(session, before, held) == []


@ENGINE
@given(conversations.long_logs(least=1, most=8), st.integers(10, 99))
def test_every_ending_without_a_block_keeps_the_view_and_leaves_at_most_one_attempt(log: Log, percent: int) -> None:
    session = conversations.open_session(log)
    before, held = encode_view(session), read_entries(session)
    outcome = session.compact(window=compute_target(session, percent))
    assume(outcome.status != "compacted")
    left = get_left_entries(session, before, held)
    assert outcome.status in ("nothing", "unsatisfiable")
    if left:
        assert_remembers(left, outcome)
    else:
        assert outcome.status == "nothing"
