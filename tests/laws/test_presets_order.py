"""Laws 9, 11 and 14 for every preset: answers in any order, runs given up, and messages that come meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from tenfold.aio import AsyncSession
from tenfold.drive import Answerer, arun, run
from tenfold.engine import Call
from tenfold.llm.model import Model
from tenfold.record.ask import Answer, Consult, Summarize
from tenfold.record.block import Block
from tenfold.record.message import Message
from tenfold.session import Session
from tenfold.view.view import View
from tests.laws import checks, conversations, presets
from tests.laws.conversations import NeverAsk, entries, recording, sent, tokens
from tests.laws.presets import NAMES, PRESET, QUICK, Bad, Counted, Good, Judge
from tests.laws.strategies import Log
from tests.laws.test_law_09_replay import effects_of, replayed


def target(session: Session, percent: int) -> Call:
    """A share of the view as an explicit target."""
    return Call(to=max(1, tokens(session.view.messages()) * percent // 100))


def started(name: str, log: Log, model: Model, percent: int) -> Session:
    """A session that was compacted half way, so that what comes next updates a summary."""
    half = len(log) // 2
    session = presets.opened(name, log[:half], model)
    session.compact(target(session, percent))
    session.append(*conversations.messages(log[half:]))
    return session


def answering(name: str, ways: Sequence[str]) -> Counted:
    """A model that answers in these bad ways, or well where there are none."""
    return Bad(ways) if ways else Good(presets.using(name).summary)


@pytest.mark.parametrize("name", NAMES)
@PRESET
@given(
    log=presets.stories(),
    percent=st.integers(10, 60),
    ways=st.just([]) | presets.bad_ways(),
    order=st.permutations(range(4)),
)
def test_sync_async_and_replay_agree_in_any_order_of_completion(
    name: str, log: Log, percent: int, ways: list[str], order: list[int]
) -> None:
    session = started(name, log, answering(name, ways), 30)
    call = target(session, percent)
    answerer = Answerer(answering(name, ways), patience=QUICK)
    known: dict[bytes, Answer] = {}
    came = 0

    async def delayed(ask: Summarize) -> Answer:
        nonlocal came
        came += 1
        for _ in range(3 * order[came % len(order)]):
            await asyncio.sleep(0)
        assert answerer.model is not None
        return answerer.model.answer(ask)

    plain = run(recording(effects_of(session, call), known), answerer)
    assert run(effects_of(session, call), answerer) == plain
    assert asyncio.run(arun(effects_of(session, call), answerer, answer=delayed)) == plain
    assert replayed(effects_of(session, call), known) == plain


@pytest.mark.parametrize("name", NAMES)
@PRESET
@given(log=presets.stories(), more=presets.stories(least=1, most=8), percent=st.integers(10, 60))
def test_a_block_fits_every_later_leaf_and_messages_that_come_meanwhile_stay(
    name: str, log: Log, more: Log, percent: int
) -> None:
    """Law 14: another writer appends while the model writes; the Block goes behind it, and none is lost."""
    late = conversations.messages(more)
    session = started(name, log, Good(presets.using(name).summary), 40)

    class Interrupted(Good):
        def said(self, ask: Summarize) -> Answer:
            if self.calls == 1:
                Session(session.place, session.policy).append(*late)
            return super().said(ask)

    path, call = presets.path_of(session), target(session, percent)
    planned = run(effects_of(session, call), session.answerer).entry
    if isinstance(planned, Block):
        later = Session(session.place, session.policy)
        assert later.view.fits(planned)
        ahead = presets.path_of(presets.opened(name, (*path, *renumbered(path, late)), None))
        checks.fits_later_leaves(View, path, replace(planned, parent=path[-1].id), ahead[len(path) :])
    model = Interrupted(presets.using(name).summary)
    session.answerer = Answerer(model, patience=QUICK)
    outcome = session.compact(call)
    assume(model.calls)
    assume("too long" not in outcome.reason)  # its headings alone are more than a small target leaves room for
    assert outcome.status == "compacted", f"{outcome.status}: {outcome.reason}"
    block = session.view.path.at(session.view.length - 1)
    assert isinstance(block, Block)
    said = [m for e in entries(session)[len(path) :] if (m := getattr(e, "message", None)) is not None]
    assert said == late
    assert [m for s, m in zip(session.view.shown(), session.view.messages(), strict=True) if s.at >= len(path)]
    presets.well_formed(session)
    presets.reachable(session)
    presets.reopens(session)
    checks.agrees_with_oracle(View, presets.path_of(session))
    checks.tiles_every_position(View, presets.path_of(session))


def renumbered(path: Log, late: Sequence[Message]) -> Log:
    """These messages as entries that follow the path."""
    session = conversations.opened(path)
    session.append(*late)
    return presets.path_of(session)[len(path) :]


@pytest.mark.parametrize("name", NAMES)
@PRESET
@given(log=presets.stories(), percent=st.integers(10, 60))
def test_what_a_hook_cancels_or_supplies_obeys_the_laws(name: str, log: Log, percent: int) -> None:
    """Law 11 for a hook that cancels: nothing at all is left. A text that it gives is under the laws of any other."""
    judge = Judge(started(name, log, Good(presets.using(name).summary), 40))
    session = judge.session
    call = replace(target(session, percent), consult=True)
    before, held, model = sent(session), entries(session), session.answerer.model
    asked: list[Consult] = []

    def cancels(ask: Consult) -> Answer:
        asked.append(ask)
        return Answer(cancel=True, error="not now")

    session.answerer = Answerer(NeverAsk(), before=(cancels,))
    outcome = session.compact(call)
    assert (sent(session), outcome.status == "cancelled") == (before, bool(asked))
    if asked:
        assert entries(session) == held
        session.answerer = Answerer(model, before=(lambda _: Answer(text="It went as planned."),), patience=QUICK)
        judge.compact(call)
        judge.whole()


@pytest.mark.parametrize("name", NAMES)
def test_a_cancelled_task_and_an_undo_meanwhile_leave_no_block(name: str) -> None:
    """Law 11; and law 14 for a Block that has become stale: `superseded`, and nothing is written (DESIGN, The flow)."""
    session = presets.opened(name, (), Good(presets.using(name).summary))
    session.append(*presets.work(0, 8_000))
    assert session.compact(target(session, 40)).status == "compacted"
    session.append(*presets.work(100, 8_000))
    call = target(session, 30)
    before, held = sent(session), entries(session)

    async def cancelled() -> None:
        asked = asyncio.Event()

        async def never(_: Summarize) -> Answer:
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError

        task = asyncio.create_task(AsyncSession(session, answer=never).compact(call))
        waiting = asyncio.create_task(asked.wait())
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        assert asked.is_set(), "the model was never asked"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert (sent(session), entries(session)) == (before, held)

    class Undoes(Good):
        def said(self, ask: Summarize) -> Answer:
            if self.calls == 1:
                Session(session.place, session.policy).undo()
            return super().said(ask)

    model = Undoes(presets.using(name).summary)
    session.answerer = Answerer(model, patience=QUICK)
    outcome = session.compact(call)
    assert model.calls
    assert outcome.status == "superseded"
    assert not outcome.block
    assert len(entries(session)) == len(held) + 1
    assert session.view.marks.live == ()
    assert sent(session) == sent(Session(session.place, session.policy))
