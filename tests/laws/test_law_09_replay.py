"""Law 9: sync, async and replayed runs of the same answers, in any order of completion, give the same Outcome."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

from hypothesis import given
from hypothesis import strategies as st

from tenfold.aio import AsyncSession
from tenfold.drive import Answerer, arun, run
from tenfold.engine import Bench, Call, Effects, compact
from tenfold.meter.reading import Sizes, Tally
from tenfold.record.ask import Answer, Outcome, Summarize, Verdict
from tenfold.record.block import Block
from tenfold.session import Session
from tests.laws import conversations
from tests.laws.checks import BYTES
from tests.laws.conversations import Echo, recording, tokens
from tests.laws.strategies import ENGINE, ID, Log


def effects_of(session: Session, call: Call) -> Effects:
    """The engine's generator, with ids and times that every run sees alike."""
    count = iter(range(1 << 20, 1 << 21))
    sizes = Sizes(session.policy.counter)
    new_id: Callable[[], str] = lambda: ID.format(next(count))  # noqa: E731 - one line, used once
    return compact(session.view, session.policy, call, Bench(sizes, Tally(sizes)), now=1_000_000, new_id=new_id)


def replayed(effects: Effects, answers: dict[bytes, Answer]) -> Verdict:
    """Runs on recorded answers only: an Ask that was not recorded is a KeyError."""
    try:
        asks = next(effects)
        while True:
            asks = effects.send(tuple(answers[BYTES.encode(ask)] for ask in asks))
    except StopIteration as stop:
        verdict: Verdict = stop.value
        return verdict


@ENGINE
@given(log=conversations.long_logs(), percent=st.integers(5, 70), consult=st.booleans())
def test_sync_async_and_replay_come_to_the_same_verdict(log: Log, percent: int, *, consult: bool) -> None:
    session = conversations.opened(log, conversations.policy(models=("echo", "other")))
    call = Call(to=max(1, tokens(session.view.messages()) * percent // 100), consult=consult)
    answerer = Answerer(Echo(), before=(lambda _: Answer(focus="the tests"),))
    known: dict[bytes, Answer] = {}

    async def slowly(ask: Summarize) -> Answer:
        await asyncio.sleep(0)
        return answerer.answer(ask)

    plain = run(effects_of(session, call), answerer)
    awaited = asyncio.run(arun(effects_of(session, call), answerer, answer=slowly))
    assert run(recording(effects_of(session, call), known), answerer) == plain
    assert plain == awaited
    assert replayed(effects_of(session, call), known) == plain
    if plain.outcome.status == "compacted" and plain.outcome.rung == "model":
        assert known


def three_rounds() -> Effects:
    """A generator in the engine's manner that asks several things at once."""
    told: list[str] = []
    for number in range(3):
        asks = tuple(Summarize("", f"{number}.{i}", 10) for i in range(4))
        answers = yield asks
        told.extend(a.text or a.error for a in answers)
    return Verdict(Outcome("nothing", " ".join(told), 0, 0, 0))


class Slow:
    """A model that answers in an order of its own."""

    def answer(self, ask: Summarize) -> Answer:
        if ask.prompt == "1.1":
            raise ValueError("refused")
        return Answer(text=f"<{ask.prompt}>")


@given(st.permutations(range(4)))
@ENGINE
def test_answers_are_matched_to_asks_in_any_order_of_completion(order: Sequence[int]) -> None:
    answerer = Answerer(Slow())
    plain = run(three_rounds(), answerer)

    async def delayed(ask: Summarize) -> Answer:
        for _ in range(order[int(ask.prompt[-1])]):
            await asyncio.sleep(0)
        return answerer.answer(ask)

    assert asyncio.run(arun(three_rounds(), answerer, answer=delayed)) == plain
    assert plain.outcome.reason.split()[:2] == ["<0.0>", "<0.1>"]
    assert "refused" in plain.outcome.reason


def test_both_sessions_write_the_same_block() -> None:
    for seed in range(6):
        log = conversations.seeded(seed)
        dice = random.Random(seed)  # noqa: S311 - test data
        one = conversations.opened(log, conversations.policy(models=("echo",)), Answerer(Echo()))
        other = conversations.opened(log, conversations.policy(models=("echo",)), Answerer(Echo()))
        to = tokens(one.view.messages()) // dice.choice((2, 3, 4))
        plain = one.compact(to=to)
        awaited = asyncio.run(AsyncSession(other).compact(to=to))
        assert plain.status == awaited.status
        assert (plain.tokens_after, plain.messages_after) == (awaited.tokens_after, awaited.messages_after)
        ours, theirs = one.view.path.at(one.view.length - 1), other.view.path.at(other.view.length - 1)
        assert isinstance(ours, Block)
        assert isinstance(theirs, Block)
        assert [(r.first, r.last, r.covers, r.kind) for r in ours.replacements] == [
            (r.first, r.last, r.covers, r.kind) for r in theirs.replacements
        ]
