"""Law 9: sync, async and replayed runs of the same answers, in any order of completion, give the same Outcome."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tenfold.compaction.engine.call import Call, Measures
from tenfold.compaction.engine.compact import Effects, compact
from tenfold.core.meter.reading import RunningTotal, TokenCache
from tenfold.core.record.ask import Answer, EngineResult, Outcome, SummaryAsk
from tenfold.core.record.block import Block
from tenfold.core.record.token_reading import NO_TOKENS
from tenfold.session import AsyncSession, Session
from tenfold.session.drive import Answerer, arun_engine, run_engine
from tests.engine.making import Awaited
from tests.laws import conversations
from tests.laws.checks import BYTES
from tests.laws.conversations import Echo, count_tokens
from tests.laws.strategies import ENGINE, ID


def start_engine(session: Session, call: Call) -> Effects:
    """The engine's generator, with ids and times that every run sees alike."""
    count = iter(range(1 << 20, 1 << 21))
    sizes = TokenCache(session.policy.counter)
    new_id: Callable[[], str] = lambda: ID.format(next(count))  # noqa: E731 - one line, used once
    return compact(
        session.view, session.policy, call, Measures(sizes, RunningTotal(sizes)), now=1_000_000, new_id=new_id
    )


def replay(effects: Effects, answers: dict[bytes, Answer]) -> EngineResult:
    """Runs on recorded answers only: an Ask that was not recorded is a KeyError."""
    try:
        asks = next(effects)
        while True:
            asks = effects.send(tuple(answers[BYTES.encode(ask)] for ask in asks))
    except StopIteration as stop:
        verdict: EngineResult = stop.value
        return verdict


def ask_three_rounds() -> Effects:
    """A generator in the engine's manner that asks several things at once."""
    told: list[str] = []
    for number in range(3):
        asks = tuple(SummaryAsk("", f"{number}.{i}", 10) for i in range(4))
        answers = yield asks
        told.extend(a.text or a.error for a in answers)
    return EngineResult(Outcome("nothing", " ".join(told), NO_TOKENS, NO_TOKENS, NO_TOKENS))


class Slow:
    """A model that answers in an order of its own."""

    def answer(self, ask: SummaryAsk) -> Answer:
        if ask.prompt == "1.1":
            raise ValueError("refused")
        return Answer(text=f"<{ask.prompt}>")


@given(st.permutations(range(4)))
@ENGINE
def test_answers_are_matched_to_asks_in_any_order_of_completion(order: Sequence[int]) -> None:
    answerer = Answerer(Slow())
    plain = run_engine(ask_three_rounds(), answerer)

    async def answer_late(ask: SummaryAsk) -> Answer:
        for _ in range(order[int(ask.prompt[-1])]):
            await asyncio.sleep(0)
        return answerer.answer(ask)

    assert asyncio.run(arun_engine(ask_three_rounds(), replace(answerer, model=Awaited(answer_late)))) == plain
    assert plain.outcome.reason.split()[:2] == ["<0.0>", "<0.1>"]
    assert "refused" in plain.outcome.reason


def test_both_sessions_write_the_same_block() -> None:
    for seed in range(6):
        log = conversations.build_seeded_log(seed)
        dice = random.Random(seed)  # noqa: S311 - test data
        one = conversations.open_session(log, conversations.make_policy(models=("echo",)), Answerer(Echo()))
        other = conversations.open_session(log, conversations.make_policy(models=("echo",)), Answerer(Echo()))
        to = count_tokens(one.view.get_messages()) // dice.choice((2, 3, 4))
        plain = one.compact(to=to)
        awaited = asyncio.run(AsyncSession(other).compact(to=to))
        assert plain.status == awaited.status
        assert (plain.tokens_after, plain.messages_after) == (awaited.tokens_after, awaited.messages_after)
        ours, theirs = one.view.path.get_entry(one.view.length - 1), other.view.path.get_entry(other.view.length - 1)
        assert isinstance(ours, Block)
        assert isinstance(theirs, Block)
        assert [(r.first, r.last, r.covered_ranges, r.kind) for r in ours.replacements] == [
            (r.first, r.last, r.covered_ranges, r.kind) for r in theirs.replacements
        ]
