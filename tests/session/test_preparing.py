"""Summaries written ahead: in the warning zone, off the critical path, and used only where they still fit."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, ClassVar

import pytest
from msgspec.structs import replace

from tenfold.compaction.engine.policy import Policy
from tenfold.compaction.plan.draft import Draft, Goal
from tenfold.compaction.plan.stages import SummarizePrefixStage
from tenfold.compaction.summarize.ladder import OnFailure
from tenfold.compaction.trigger.limits import FillTrigger
from tenfold.core.record.ask import Answer, SummaryAsk
from tenfold.core.record.block import ModelCost
from tenfold.events import Event
from tenfold.session import AsyncSession, Session
from tenfold.session.bill import build_bill
from tenfold.session.drive import Answerer
from tests.engine.making import build_policy, get_attempts, get_blocks, open_session, reopen_session
from tests.session.test_hosting import MORE, STEP, TEXT

Item = dict[str, Any]
WAIT = 20.0


class Waiting:
    """A model that answers, or waits until it is let."""

    def __init__(self, *, error: str = "", is_let: bool = True) -> None:
        self.let = threading.Event()
        self.asked: list[SummaryAsk] = []
        self.error = error
        if is_let:
            self.let.set()

    def answer(self, ask: SummaryAsk) -> Answer:
        self.asked.append(ask)
        assert self.let.wait(WAIT)
        if self.error:
            return Answer(error=self.error)
        return Answer(text="Files were read, one after the other.", spent=ModelCost(1, 100, 10, ask.model))


def build_request(steps: int) -> Item:
    history = [TEXT["openai-chat"]("Always keep the tests green. Read all files.")]
    for number in range(steps):
        history += STEP["openai-chat"](number)
    return {**MORE["openai-chat"], "messages": [*history, TEXT["openai-chat"]("go on")]}


def build_writing_policy(*, on_failure: OnFailure = "ladder") -> Policy:
    """A policy that always has a model write."""
    return build_policy(models=("m",), on_failure=on_failure, stages=(SummarizePrefixStage(),))


def build_window_case() -> tuple[int, Item, Item]:
    """A window, a request in its warning zone, and the next one, over the trigger."""
    plain = open_session([], build_policy())
    plain.before_model(build_request(40), window=10_000_000)
    window = int(plain.take_reading(window=10_000_000).tokens / 0.78)
    return window, build_request(40), build_request(52)


def prepare(model: Waiting, policy: Policy | None = None, **hooks: Any) -> tuple[Session, int, Item]:  # noqa: ANN401
    """A session that has begun to prepare a compaction, its window, and a request over the trigger."""
    window, warned, over = build_window_case()
    session = open_session([], policy or build_writing_policy(), answerer=Answerer(model, **hooks))
    session.before_model(warned, window=window)
    return session, window, over


def test_the_request_goes_out_while_the_summary_is_still_written() -> None:
    window, warned, over = build_window_case()
    model = Waiting(is_let=False)
    session = open_session([], build_writing_policy(), answerer=Answerer(model))
    sent = session.before_model(warned, window=window)
    assert len(sent["messages"]) == len(warned["messages"])
    assert session.compactor.preparation is not None
    assert not session.compactor.preparation.is_done()
    assert get_blocks(session) == []
    model.let.set()
    sent = session.before_model(over, window=window)
    (block,) = get_blocks(session)
    assert len(sent["messages"]) < len(over["messages"])
    assert session.outcome is not None
    assert (session.outcome.status, session.outcome.block) == ("compacted", block.id)
    assert len(model.asked) == 1
    assert (
        block.tokens_before < session.conversation.count_uncompacted()
    )  # it was planned before the last messages came
    assert session.conversation.find_violations("openai-chat") == ()


def test_above_the_trigger_no_call_waits_for_it_while_there_is_room() -> None:
    model = Waiting(is_let=False)
    session, window, _ = prepare(model)
    late, later = build_request(45), build_request(46)
    assert session.before_model(late, window=window)["messages"] == late["messages"]
    assert session.outcome is not None
    assert (session.outcome.status, get_blocks(session)) == ("nothing", [])
    assert "a summary is being prepared" in session.outcome.reason
    host = AsyncSession(session)
    assert asyncio.run(host.before_model(late, window=window))["messages"] == late["messages"]
    assert session.compactor.preparation is not None
    model.let.set()
    session.compactor.preparation.watch().result(WAIT)
    assert len(session.before_model(later, window=window)["messages"]) < len(later["messages"])
    assert (len(get_blocks(session)), len(model.asked)) == (1, 1)


def test_above_the_limit_a_call_waits_for_it() -> None:
    model = Waiting(is_let=False)
    session, window, over = prepare(model)
    threading.Timer(0.2, model.let.set).start()
    assert len(session.before_model(over, window=window)["messages"]) < len(over["messages"])
    assert len(get_blocks(session)) == 1


def test_a_manual_request_adopts_it() -> None:
    model = Waiting()
    session, window, _ = prepare(model)
    tokens = session.take_reading(window=window).tokens
    outcome = session.compact(to=tokens * 9 // 10)
    assert (outcome.status, len(model.asked)) == ("compacted", 1)


def test_what_is_not_enough_is_made_anew() -> None:
    session, _, _ = prepare(Waiting())
    outcome = session.compact(to=1_500)
    assert outcome.status == "compacted"
    assert outcome.tokens_after <= 1_500
    assert len(get_blocks(session)) == 1


def test_a_conversation_that_was_rewritten_does_not_get_it() -> None:
    model = Waiting()
    session, window, over = prepare(model)
    changed = {**over, "messages": [{**over["messages"][0], "content": "Something else. "}, *over["messages"][1:]]}
    session.before_model(changed, window=window)
    (block,) = get_blocks(session)
    assert block.tokens_before > session.take_reading(window=window).estimate
    assert session.outcome is not None
    assert session.outcome.status == "compacted"


def test_one_that_failed_is_remembered_and_the_hard_limit_still_holds() -> None:
    session, window, over = prepare(Waiting(error="down"), build_writing_policy(on_failure="abort"))
    session.before_model(over, window=window)
    assert [a.status for a in get_attempts(session)] == ["failed"]
    (block,) = get_blocks(session)
    assert block.rung == "extractive", "above the hard limit code writes what the model does not"
    assert "down" in block.notes[0]


def test_after_an_undo_nothing_is_prepared() -> None:
    window, warned, _ = build_window_case()
    model = Waiting()
    session = open_session([], build_writing_policy(), answerer=Answerer(model))
    session.before_model(warned, window=10_000_000)
    session.compact(to=2_000)
    session.undo()
    session.before_model(warned, window=window)
    assert session.compactor.preparation is None


def test_without_a_model_there_is_nothing_to_prepare() -> None:
    window, warned, _ = build_window_case()
    session = open_session([], build_policy())
    session.before_model(warned, window=window)
    assert session.compactor.preparation is None


def test_a_coroutine_model_prepares_on_its_own_loop() -> None:
    window, warned, over = build_window_case()
    loops: set[int] = set()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        gate = asyncio.Event()

        async def answer(ask: SummaryAsk) -> Answer:
            loops.add(id(asyncio.get_running_loop()))
            await gate.wait()
            return Answer(text="Files were read.", spent=ModelCost(1, 100, 10, ask.model))

        session = AsyncSession(open_session([], build_writing_policy()), answer=answer)
        await session.before_model(warned, window=window)
        assert session.session.compactor.preparation is not None
        gate.set()
        await session.before_model(over, window=window)
        assert len(get_blocks(session.session)) == 1
        assert loops == {id(loop)}

    asyncio.run(main())


def test_a_before_hook_is_asked_at_the_trigger_so_nothing_is_prepared_past_it() -> None:
    """A summary written ahead was appended although the hook would have cancelled it."""
    session, window, over = prepare(Waiting(), before_hooks=(lambda _: Answer(cancel=True, error="not now"),))
    session.before_model(over, window=window)
    assert get_blocks(session) == []
    assert session.outcome is not None
    assert session.outcome.status == "cancelled"


def test_what_was_prepared_starts_when_it_is_adopted() -> None:
    told: list[Event] = []
    session, window, over = prepare(Waiting(), listeners=(told.append,))
    session.before_model(over, window=window)
    assert [type(e).__name__ for e in told] == ["CompactionWarning", "CompactionStart", "CompactionEnd"]


class RaisesOnce:
    """A stage that raises the first time it is applied."""

    name: ClassVar[str] = "raises-once"
    structural: ClassVar[bool] = False

    def __init__(self) -> None:
        self.applied = 0

    def apply(self, draft: Draft, _goal: Goal) -> Draft:
        self.applied += 1
        if self.applied == 1:
            raise OSError("the service was away")
        return draft


@pytest.mark.parametrize("side", ["sync", "async"])
def test_one_that_raised_is_reported_once_and_made_anew(side: str) -> None:
    window, warned, over = build_window_case()
    model = Waiting()
    said: list[str] = []
    stages = (RaisesOnce(), SummarizePrefixStage())
    using = build_policy(models=("m",), stages=stages)
    session = open_session([], using, answerer=Answerer(model, problem_reporter=said.append))

    async def run_async_side() -> None:
        twin = AsyncSession(session)
        await twin.before_model(warned, window=window)
        assert session.compactor.preparation is not None
        await twin.before_model(over, window=window)

    if side == "async":
        asyncio.run(run_async_side())
    else:
        session.before_model(warned, window=window)
        assert session.compactor.preparation is not None
        session.before_model(over, window=window)
    assert said == ["what was prepared ahead raised OSError: the service was away; it was ignored"]
    assert session.compactor.preparation is None
    assert session.outcome is not None
    assert session.outcome.status == "compacted"
    assert len(get_blocks(session)) == 1


# -- no call below the hard limit waits --------------------------------------------------------------------------------


def build_jump_case() -> tuple[int, Item, Item]:
    """A window, a request far below its warning zone, and the next one, between trigger and hard limit."""
    plain = open_session([], build_policy())
    plain.before_model(build_request(40), window=10_000_000)
    return int(plain.take_reading(window=10_000_000).tokens / 0.9), build_request(10), build_request(40)


@pytest.mark.parametrize("side", ["sync", "async"])
def test_a_jump_over_the_warning_zone_waits_for_no_model(side: str) -> None:
    window, small, over = build_jump_case()
    model = Waiting(is_let=False)
    session = open_session([], build_writing_policy(), answerer=Answerer(model))

    def send(request: Item) -> Item:
        if side == "sync":
            return session.before_model(request, window=window)
        return asyncio.run(AsyncSession(session).before_model(request, window=window))

    send(small)
    sent = send(over)  # the model has not answered yet
    assert len(sent["messages"]) == len(over["messages"])
    assert session.outcome is not None
    assert "a summary is being prepared" in session.outcome.reason
    model.let.set()
    assert session.compactor.preparation is not None
    session.compactor.preparation.watch().result(WAIT)
    assert len(send(over)["messages"]) < len(over["messages"])
    assert len(get_blocks(session)) == 1
    assert len(model.asked) == 1


def test_a_preparation_that_saves_too_little_is_made_anew_and_the_call_does_not_wait() -> None:
    """A call waited 2,037 ms for a model: what was prepared had been dropped, and it made the compaction itself."""
    window = 3 * build_window_case()[0]
    grown = build_request(40 * 3 + 8)  # above the trigger by more than what was prepared saves
    model = Waiting(is_let=False)
    session = open_session([], build_writing_policy(), answerer=Answerer(model))
    session.before_model(build_request(40 * 3 - 8), window=window)
    first = session.compactor.preparation
    assert first is not None
    model.let.set()
    first.watch().result(WAIT)
    model.let.clear()
    session.compactor.use_policy(replace(session.policy, trigger=FillTrigger(act_share=0.2, warning_share=0.1)))
    sent = session.before_model(grown, window=window)  # the model has not answered again
    assert len(sent["messages"]) == len(grown["messages"])
    assert session.compactor.preparation not in (None, first)
    model.let.set()


def test_a_model_that_fails_is_not_asked_ahead_of_time_on_every_request() -> None:
    window = build_window_case()[0]
    model = Waiting(error="down")
    session = open_session([], build_writing_policy(on_failure="abort"), answerer=Answerer(model))
    for steps in range(40, 46):
        request = build_request(steps)
        session.before_model({**request, "messages": request["messages"][:-1]}, window=window)
        if session.compactor.preparation is not None:
            session.compactor.preparation.watch().result(WAIT)
        session.compact(session.compactor.build_call(window=window))
    assert 1 <= len(model.asked) <= 2


# -- what it says and costs --------------------------------------------------------------------------------------------


def test_the_sizes_of_what_was_prepared_are_those_of_the_view_that_it_shortens() -> None:
    """They were of two moments: before when it was planned, after when it was used. So the bill saw half of it."""
    session, window, over = prepare(Waiting())
    assert session.compactor.preparation is not None
    session.compactor.preparation.watch().result(WAIT)
    plain = open_session([], build_policy())
    plain.before_model(over, window=10_000_000)
    whole = plain.take_reading(window=window)
    sent = session.before_model(over, window=window)
    (block,) = get_blocks(session)
    assert block.provider_tokens is not None
    before, after = block.provider_tokens
    assert before == pytest.approx(whole.tokens, rel=0.01)
    assert after == pytest.approx(session.take_reading(window=window).tokens, rel=0.01)
    assert session.outcome is not None
    assert (session.outcome.tokens_before, session.outcome.tokens_after) == (before, after)
    shown = (session.outcome.messages_before, session.outcome.messages_after)
    assert shown == (len(over["messages"]), len(sent["messages"]))


def count_summaries(session: Session) -> tuple[int, int]:
    """How many summaries are on the bill of a session, and the tokens that their models read."""
    (line,) = build_bill(session.address.store).lines
    return line.summaries, line.summarized.input


def test_a_summary_that_is_never_used_is_on_the_bill_and_one_that_is_used_is_there_once() -> None:
    session, window, over = prepare(Waiting())
    assert session.compactor.preparation is not None
    session.compactor.preparation.watch().result(WAIT)
    assert get_blocks(session) == []
    assert count_summaries(session) == (1, 100)
    assert session.view.get_messages() == reopen_session(session).view.get_messages()
    session.before_model(over, window=window)
    assert len(get_blocks(session)) == 1
    assert count_summaries(session) == (1, 100)


def test_one_that_failed_ahead_of_its_use_is_on_the_bill_once() -> None:
    model = Waiting(error="down")
    session, window, _ = prepare(model, build_writing_policy(on_failure="abort"))
    assert session.compactor.preparation is not None
    session.compactor.preparation.watch().result(WAIT)
    assert get_attempts(session) == []
    assert count_summaries(session) == (1, 0)
    session.before_model(build_request(45), window=window)
    assert [a.status for a in get_attempts(session)] == ["failed"]
    if session.compactor.preparation is not None:  # it is asked once more
        session.compactor.preparation.watch().result(WAIT)
    assert count_summaries(session) == (len(model.asked), 0)
