"""Law 11: a failed, refused or cancelled run changes no view; it leaves one Attempt exactly where it must be known."""

from __future__ import annotations

import asyncio
import threading

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from tenfold.aio import AsyncSession
from tenfold.drive import Answerer
from tenfold.engine import Call
from tenfold.record.ask import Answer, Consult, Outcome, Summarize
from tenfold.record.entry import Attempt, Entry
from tenfold.record.message import Message, Text
from tenfold.session import Session
from tests.laws import conversations
from tests.laws.checks import BYTES
from tests.laws.conversations import Broken, Echo, NeverAsk, entries, sent, tokens
from tests.laws.strategies import ENGINE, Log


def target(session: Session, percent: int) -> int:
    """A share of the view's tokens."""
    return max(1, tokens(session.view.messages()) * percent // 100)


def left_by(session: Session, before: list[bytes], held: list[Entry]) -> list[Entry]:
    """The entries that a run without a Block left. The view is what it was, also where it is opened anew."""
    assert sent(session) == before
    assert sent(Session(session.place, session.policy)) == before
    now = entries(session)
    assert now[: len(held)] == held
    return now[len(held) :]


def remembers(left: list[Entry], outcome: Outcome) -> None:
    """Exactly one Attempt, which says what the Outcome says."""
    assert len(left) == 1
    attempt = left[0]
    assert isinstance(attempt, Attempt)
    assert (attempt.status, attempt.reason) == (outcome.status, outcome.reason)
    assert (attempt.tokens, attempt.target) == (outcome.tokens_before, outcome.target)


@ENGINE
@given(conversations.long_logs(), st.integers(10, 60))
def test_a_failed_summary_changes_no_view_and_leaves_one_attempt(log: Log, percent: int) -> None:
    model = Broken()
    using = conversations.policy(models=("broken", "next"), on_failure="abort")
    session = conversations.opened(log, using, Answerer(model))
    before, held = sent(session), entries(session)
    outcome = session.compact(to=target(session, percent))
    assume(model.calls)
    assert outcome.status == "failed"
    assert "the provider is down" in outcome.reason
    left = left_by(session, before, held)
    remembers(left, outcome)
    assert isinstance(left[0], Attempt)
    assert left[0].spent.calls == model.calls


@ENGINE
@given(conversations.long_logs(), st.integers(10, 60), st.text("ab ", max_size=9))
def test_a_hook_that_cancels_leaves_nothing(log: Log, percent: int, why: str) -> None:
    asked: list[Consult] = []

    def cancels(ask: Consult) -> Answer:
        asked.append(ask)
        return Answer(cancel=True, error=why)

    session = conversations.opened(log, conversations.policy(models=("m",)), Answerer(NeverAsk(), before=(cancels,)))
    before, held = sent(session), entries(session)
    outcome = session.compact(replace(session.call(to=target(session, percent)), consult=True))
    assume(asked)
    assert outcome.status == "cancelled"
    assert left_by(session, before, held) == []


@ENGINE
@given(conversations.long_logs(least=3), st.integers(1, 60), st.sampled_from(("check", "manual", "tool", "overflow")))
def test_an_unsatisfiable_window_is_said_once(log: Log, window: int, demand: str) -> None:
    session = conversations.opened(log, conversations.policy(models=("m",)), Answerer(NeverAsk()))
    before, held = sent(session), entries(session)
    call = replace(Call(window=window), demand=demand)
    outcome = session.compact(call)
    assume(outcome.status == "unsatisfiable")
    assert outcome.itemised
    remembers(left_by(session, before, held), outcome)
    if demand != "manual":
        held = entries(session)
        assert session.compact(call).status == "unsatisfiable"
        assert left_by(session, before, held) == []


@ENGINE
@given(conversations.long_logs(), st.integers(100, 400))
def test_what_is_not_called_for_leaves_nothing(log: Log, percent: int) -> None:
    session = conversations.opened(log, conversations.policy(models=("m",)), Answerer(NeverAsk()))
    before, held = sent(session), entries(session)
    assert session.compact(to=target(session, percent)).status == "nothing"
    assert session.compact(replace(Call(window=3 * target(session, percent)), demand="check")).status == "nothing"
    assert left_by(session, before, held) == []


@ENGINE
@given(conversations.long_logs(least=1, most=8), st.integers(10, 99))
def test_every_ending_without_a_block_keeps_the_view_and_leaves_at_most_one_attempt(log: Log, percent: int) -> None:
    session = conversations.opened(log)
    before, held = sent(session), entries(session)
    outcome = session.compact(window=target(session, percent))
    assume(outcome.status != "compacted")
    left = left_by(session, before, held)
    assert outcome.status in ("nothing", "unsatisfiable")
    if left:
        remembers(left, outcome)
    else:
        assert outcome.status == "nothing"


def test_a_cancelled_task_leaves_no_block() -> None:
    session = conversations.opened(conversations.seeded(1), conversations.policy(models=("m",)), Answerer(NeverAsk()))
    before, held = sent(session), entries(session)

    async def cancelled() -> None:
        asked = asyncio.Event()

        async def never(_: Summarize) -> Answer:
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError

        task = asyncio.create_task(AsyncSession(session, answer=never).compact(to=target(session, 25)))
        waiting = asyncio.create_task(asked.wait())
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        assert asked.is_set(), "the model was never asked"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert left_by(session, before, held) == []
    session.answerer = Answerer(Echo())
    assert session.compact(to=target(session, 25)).status == "compacted"


def test_messages_that_come_while_a_model_writes_stay_and_the_block_still_fits() -> None:
    """Law 14 through the session: two writers lose no message."""
    log = conversations.seeded(2)
    late = Message("user", (Text("and one more thing"),), "human")
    session = conversations.opened(log, conversations.policy(models=("m",)))

    class Interrupted(Echo):
        def answer(self, ask: Summarize) -> Answer:
            if not self.calls:
                writer = threading.Thread(target=lambda: Session(session.place, session.policy).append(late))
                writer.start()
                writer.join()
            return super().answer(ask)

    session.answerer = Answerer(Interrupted())
    outcome = session.compact(to=target(session, 25))
    assert outcome.status == "compacted"
    assert session.view.messages()[-1] == late
    held = [BYTES.encode(e) for e in entries(session)]
    assert held[: len(log)] == [BYTES.encode(e) for e in log]
    assert len(held) == len(log) + 2


def test_an_undo_while_a_model_writes_supersedes_the_block() -> None:
    session = conversations.opened(conversations.seeded(3), conversations.policy(models=("m",)), Answerer(Echo()))
    assert session.compact(to=target(session, 60)).status == "compacted"
    session.append(Message("user", (Text("go on " * 400),), "human"))

    class Undoes(Echo):
        def answer(self, ask: Summarize) -> Answer:
            if not self.calls:
                Session(session.place, session.policy).undo()
            return super().answer(ask)

    model = Undoes()
    session.answerer = Answerer(model)
    outcome = session.compact(to=target(session, 35))
    assert model.calls
    assert outcome.status == "superseded"
    opened = Session(session.place, session.policy)
    assert opened.view.marks.live == ()
    assert sent(session) == sent(opened)
    assert not outcome.block
