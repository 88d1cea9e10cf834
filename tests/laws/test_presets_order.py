"""Laws 9, 11 and 14 for every preset: answers in any order, runs given up, and messages that come meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from tenfold.compaction.engine.call import Call
from tenfold.core.record.ask import Answer, ConsultAsk, SummaryAsk
from tenfold.core.record.block import Block
from tenfold.core.record.message import Message
from tenfold.core.record.token_reading import Counted as CountedTokens
from tenfold.core.view.fold import View
from tenfold.models.model import Model
from tenfold.session import AsyncSession, Session
from tenfold.session.drive import Answerer, arun_engine, run_engine
from tests.engine.making import Awaited
from tests.laws import checks, conversations, presets
from tests.laws.conversations import NeverAsk, count_tokens, encode_view, read_entries, record_answers
from tests.laws.presets import NAMES, PRESET, QUICK, Bad, Counted, Good, Judge
from tests.laws.strategies import Log
from tests.laws.test_law_09_replay import replay, start_engine


def build_target_call(session: Session, percent: int) -> Call:
    """A share of the view as an explicit target."""
    return Call(to=CountedTokens(max(1, count_tokens(session.view.get_messages()) * percent // 100)))


def start_session(name: str, log: Log, model: Model, percent: int) -> Session:
    """A session that was compacted half way, so that what comes next updates a summary."""
    half = len(log) // 2
    session = presets.open_session(name, log[:half], model)
    session.compact(build_target_call(session, percent))
    session.append(*conversations.extract_messages(log[half:]))
    return session


def build_model(name: str, ways: Sequence[str]) -> Counted:
    """A model that answers in these bad ways, or well where there are none."""
    return Bad(ways) if ways else Good(presets.build_preset(name).summary)


@pytest.mark.parametrize("name", NAMES)
@PRESET
@given(
    log=presets.stories(),
    percent=st.integers(10, 60),
    ways=st.just([]) | presets.bad_ways(),
    order=st.permutations(range(4)),
)
@pytest.mark.costly(2)
def test_sync_async_and_replay_agree_in_any_order_of_completion(
    name: str, log: Log, percent: int, ways: list[str], order: list[int]
) -> None:
    session = start_session(name, log, build_model(name, ways), 30)
    call = build_target_call(session, percent)
    answerer = Answerer(build_model(name, ways), retry_rule=QUICK)
    known: dict[bytes, Answer] = {}
    came = 0

    async def answer_late(ask: SummaryAsk) -> Answer:
        nonlocal came
        came += 1
        for _ in range(3 * order[came % len(order)]):
            await asyncio.sleep(0)
        assert answerer.model is not None
        return answerer.model.answer(ask)

    plain = run_engine(record_answers(start_engine(session, call), known), answerer)
    assert run_engine(start_engine(session, call), answerer) == plain
    assert asyncio.run(arun_engine(start_engine(session, call), replace(answerer, model=Awaited(answer_late)))) == plain
    assert replay(start_engine(session, call), known) == plain


@pytest.mark.parametrize("name", NAMES)
@PRESET
@given(log=presets.stories(), more=presets.stories(least=1, most=8), percent=st.integers(10, 60))
def test_a_block_fits_every_later_leaf_and_messages_that_come_meanwhile_stay(
    name: str, log: Log, more: Log, percent: int
) -> None:
    """Law 14: another writer appends while the model writes; the Block goes behind it, and none is lost."""
    late = conversations.extract_messages(more)
    session = start_session(name, log, Good(presets.build_preset(name).summary), 40)

    class Interrupted(Good):
        def build_answer(self, ask: SummaryAsk) -> Answer:
            if self.calls == 1:
                Session(session.address, session.policy).append(*late)
            return super().build_answer(ask)

    path, call = presets.get_path(session), build_target_call(session, percent)
    planned = run_engine(start_engine(session, call), session.compactor.answerer).entry
    if isinstance(planned, Block):
        later = Session(session.address, session.policy)
        assert later.view.can_append(planned)
        ahead = presets.get_path(presets.open_session(name, (*path, *renumber_messages(path, late)), None))
        checks.assert_fits_later_leaves(View, path, replace(planned, parent=path[-1].id), ahead[len(path) :])
    model = Interrupted(presets.build_preset(name).summary)
    session.compactor.use_answerer(Answerer(model, retry_rule=QUICK))
    outcome = session.compact(call)
    assume(model.calls)
    assume("too long" not in outcome.reason)  # its headings alone are more than a small target leaves room for
    assert outcome.status == "compacted", f"{outcome.status}: {outcome.reason}"
    block = session.view.path.get_entry(session.view.length - 1)
    assert isinstance(block, Block)
    said = [m for e in read_entries(session)[len(path) :] if (m := getattr(e, "message", None)) is not None]
    assert said == late
    assert [
        m
        for s, m in zip(session.view.get_visible_messages(), session.view.get_messages(), strict=True)
        if s.position >= len(path)
    ]
    presets.assert_well_formed(session)
    presets.assert_reachable(session)
    presets.assert_reopens(session)
    checks.assert_agrees_with_oracle(View, presets.get_path(session))
    checks.assert_positions_tiled(View, presets.get_path(session))


def renumber_messages(path: Log, late: Sequence[Message]) -> Log:
    """These messages as entries that follow the path."""
    session = conversations.open_session(path)
    session.append(*late)
    return presets.get_path(session)[len(path) :]


@pytest.mark.parametrize("name", NAMES)
@PRESET
@given(log=presets.stories(), percent=st.integers(10, 60))
def test_what_a_hook_cancels_or_supplies_obeys_the_laws(name: str, log: Log, percent: int) -> None:
    """Law 11 for a hook that cancels: nothing at all is left. A text that it gives is under the laws of any other."""
    judge = Judge(start_session(name, log, Good(presets.build_preset(name).summary), 40))
    session = judge.session
    call = replace(build_target_call(session, percent), has_before_hooks=True)
    before, held, model = encode_view(session), read_entries(session), session.compactor.answerer.model
    asked: list[ConsultAsk] = []

    def cancel(ask: ConsultAsk) -> Answer:
        asked.append(ask)
        return Answer(cancel=True, error="not now")

    session.compactor.use_answerer(Answerer(NeverAsk(), before_hooks=(cancel,)))
    outcome = session.compact(call)
    assert (encode_view(session), outcome.status == "cancelled") == (before, bool(asked))
    if asked:
        assert read_entries(session) == held
        session.compactor.use_answerer(
            Answerer(model, before_hooks=(lambda _: Answer(text="It went as planned."),), retry_rule=QUICK)
        )
        judge.compact(call)
        judge.check_whole_path()


@pytest.mark.parametrize("name", NAMES)
def test_a_cancelled_task_and_an_undo_meanwhile_leave_no_block(name: str) -> None:
    """Law 11; and law 14 for a Block that has become stale: `superseded`, and nothing is written (DESIGN, The flow)."""
    session = presets.open_session(name, (), Good(presets.build_preset(name).summary))
    session.append(*presets.build_work(0, 8_000))
    assert session.compact(build_target_call(session, 40)).status == "compacted"
    session.append(*presets.build_work(100, 8_000))
    call = build_target_call(session, 25)
    before, held = encode_view(session), read_entries(session)

    async def cancel_task() -> None:
        asked = asyncio.Event()

        async def wait_forever(_: SummaryAsk) -> Answer:
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError

        task = asyncio.create_task(AsyncSession(session, answer=wait_forever).compact(call))
        waiting = asyncio.create_task(asked.wait())
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        assert asked.is_set(), "the model was never asked"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel_task())
    assert (encode_view(session), read_entries(session)) == (before, held)

    class Undoes(Good):
        def build_answer(self, ask: SummaryAsk) -> Answer:
            if self.calls == 1:
                Session(session.address, session.policy).undo()
            return super().build_answer(ask)

    model = Undoes(presets.build_preset(name).summary)
    session.compactor.use_answerer(Answerer(model, retry_rule=QUICK))
    outcome = session.compact(call)
    assert model.calls
    assert outcome.status == "superseded"
    assert not outcome.block
    assert len(read_entries(session)) == len(held) + 1
    assert session.view.state.live_blocks == ()
    assert encode_view(session) == encode_view(Session(session.address, session.policy))
