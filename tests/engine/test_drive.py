"""How the driver calls a model: time-outs, tries, pauses and cancellation, alike for the sync and the async side."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import _base as futures
from contextvars import ContextVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tenfold.compaction.engine.compact import Effects
from tenfold.core.record.ask import Answer, Ask, EngineResult, Outcome, SummaryAsk
from tenfold.core.record.block import Block, ModelCost
from tenfold.core.record.token_reading import NO_TOKENS
from tenfold.models.provider import ProviderModel
from tenfold.models.retry import RetryRule
from tenfold.models.scripted_model import ScriptedModel, ScriptedReply
from tenfold.session import AsyncSession
from tenfold.session.drive import Answerer, arun_engine, run_engine
from tests.engine.making import Awaited
from tests.laws import conversations
from tests.models.conftest import keys
from tests.models.loopback import Loopback, Served, get_base_url

__all__ = ["keys"]
ASK = SummaryAsk("system", "prompt", 100)


def ask_once(asks: Sequence[Ask], got: list[Answer]) -> Effects:
    """A generator in the engine's manner that asks once, and keeps the Answers."""
    answers = yield tuple(asks)
    got.extend(answers)
    return EngineResult(Outcome("nothing", "", NO_TOKENS, NO_TOKENS, NO_TOKENS))


class Clock:
    """Sleeps that take no time, noted."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep_async(self, seconds: float) -> None:
        self.slept.append(seconds)

    def make_patience(self, *, draw: float = 0.0, most: float = 60.0) -> RetryRule:
        return RetryRule(sleep=self.slept.append, async_sleep=self.sleep_async, draw=lambda: draw, max_pause=most)


Driven = Callable[[Answerer, Sequence[Ask]], list[Answer]]


def answer_sync(answerer: Answerer, asks: Sequence[Ask]) -> list[Answer]:
    got: list[Answer] = []
    run_engine(ask_once(asks, got), answerer)
    return got


def answer_async(answerer: Answerer, asks: Sequence[Ask]) -> list[Answer]:
    got: list[Answer] = []
    asyncio.run(arun_engine(ask_once(asks, got), answerer))
    return got


def answer_by_coroutine(answerer: Answerer, asks: Sequence[Ask]) -> list[Answer]:
    """With the model's call handed to `arun` as a coroutine."""
    model = answerer.model
    assert model is not None

    async def answer(ask: SummaryAsk) -> Answer:
        return await asyncio.to_thread(model.answer, ask)

    got: list[Answer] = []
    asyncio.run(arun_engine(ask_once(asks, got), replace(answerer, model=Awaited(answer))))
    return got


each_side = pytest.mark.parametrize("driven", [answer_sync, answer_async, answer_by_coroutine])
DOWN = ScriptedReply(error="down", retryable=True)


@each_side
def test_what_fails_for_the_moment_is_tried_again_after_growing_pauses(driven: Driven) -> None:
    clock, model = Clock(), ScriptedModel([DOWN, DOWN, "there"])
    (answer,) = driven(Answerer(model, retry_rule=clock.make_patience()), [ASK])
    assert (answer.text, answer.error) == ("there", "")
    assert clock.slept == [1.0, 2.0]
    assert answer.spent.calls == 3, "the tries that failed are counted"


@each_side
def test_what_fails_for_good_is_not_tried_again(driven: Driven) -> None:
    clock, model = Clock(), ScriptedModel([ScriptedReply(error="no such model"), "there"])
    (answer,) = driven(Answerer(model, retry_rule=clock.make_patience()), [ASK])
    assert answer.error == "no such model"
    assert (clock.slept, len(model.asks)) == ([], 1)


@each_side
def test_bad_answers_are_no_failed_calls(driven: Driven) -> None:
    """Empty and cut-off texts are the check's business: calling again at once would only give another."""
    for reply in (ScriptedReply(""), ScriptedReply("half of", finish="length"), ScriptedReply("", finish="refusal")):
        clock, model = Clock(), ScriptedModel([reply, "there"])
        (answer,) = driven(Answerer(model, retry_rule=clock.make_patience()), [ASK])
        assert (answer.text, answer.finish_reason, len(model.asks)) == (reply.text, reply.finish, 1)


@each_side
def test_the_ask_says_how_often(driven: Driven) -> None:
    for tries in (1, 2, 5):
        clock, model = Clock(), ScriptedModel([DOWN], repeat=True)
        (answer,) = driven(Answerer(model, retry_rule=clock.make_patience()), [replace(ASK, tries=tries)])
        assert len(model.asks) == answer.spent.calls == tries
        assert ("tried" in answer.error) == (tries > 1)


@each_side
def test_a_provider_that_says_when_is_waited_for(driven: Driven) -> None:
    clock, model = Clock(), ScriptedModel([ScriptedReply(error="busy", retryable=True, retry_after=17), "there"])
    (answer,) = driven(Answerer(model, retry_rule=clock.make_patience()), [ASK])
    assert answer.text == "there"
    assert clock.slept == [17.0]


@each_side
def test_a_provider_that_wants_an_hour_is_not(driven: Driven) -> None:
    clock, model = Clock(), ScriptedModel([ScriptedReply(error="busy", retryable=True, retry_after=3_600), "there"])
    (answer,) = driven(Answerer(model, retry_rule=clock.make_patience()), [ASK])
    assert answer.error == "busy"
    assert clock.slept == []


class Raises:
    """A model that raises, and then answers."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)

    def answer(self, ask: SummaryAsk) -> Answer:
        if self.errors:
            raise self.errors.pop(0)
        return Answer(text=ask.prompt)


@each_side
def test_exceptions_are_failed_calls_and_those_of_the_network_are_tried_again(driven: Driven) -> None:
    clock = Clock()
    answerer = Answerer(Raises(ConnectionResetError("gone"), TimeoutError("slow")), retry_rule=clock.make_patience())
    (answer,) = driven(answerer, [ASK])
    assert answer.text == "prompt"
    assert len(clock.slept) == 2
    (answer,) = driven(Answerer(Raises(ValueError("token=supersecretvalue1 is wrong"))), [ASK])
    assert "ValueError" in answer.error
    assert "supersecretvalue1" not in answer.error
    assert not answer.timed_out


class Gives:
    """A model of another library: it gives something else than an Answer, or has a coroutine function."""

    def __init__(self, answer: object) -> None:
        self._answer = answer

    def answer(self, ask: SummaryAsk) -> Answer:
        return self._answer(ask) if callable(self._answer) else self._answer  # type: ignore[return-value]


@pytest.mark.parametrize("driven", [answer_sync, answer_async])
def test_what_is_no_answer_is_a_failed_call_and_a_coroutine_is_awaited(driven: Driven) -> None:
    """An AttributeError of ours went through the host's call."""
    for wrong in ("a text", None, {"text": "x"}):
        (answer,) = driven(Answerer(Gives(wrong)), [ASK])
        assert answer.error == f"the model gave a {type(wrong).__name__}, and not an Answer"
    for unlike, name in ((Answer(text=None), "NoneType"), (Answer(text=3), "int")):  # type: ignore[arg-type]
        (answer,) = driven(Answerer(Gives(unlike)), [ASK])
        assert answer.error == f"the model gave an Answer whose text is a {name}, and not a str"

    async def answer_later(ask: SummaryAsk) -> Answer:
        await asyncio.sleep(0)
        return Answer(text=ask.prompt)

    (answer,) = driven(Answerer(Gives(answer_later)), [ASK])
    assert (answer.text, answer.error) == ("prompt", "")


@each_side
def test_ctrl_c_in_a_model_ends_the_run(driven: Driven) -> None:
    with pytest.raises(conversations.WasAsked):
        driven(Answerer(conversations.NeverAsk()), [ASK])


class Hangs:
    """A model that says nothing until it is let go."""

    def __init__(self) -> None:
        self.free = threading.Event()
        self.calls = 0

    def answer(self, _: SummaryAsk) -> Answer:
        self.calls += 1
        self.free.wait(60)
        return Answer(text="too late")


@pytest.mark.parametrize("driven", [answer_sync, answer_async])
def test_a_model_that_hangs_has_failed_when_its_time_is_over(driven: Driven) -> None:
    clock, model = Clock(), Hangs()
    (answer,) = driven(Answerer(model, retry_rule=clock.make_patience()), [replace(ASK, timeout=0.1)])
    assert answer.timed_out
    assert "no answer within 0.1 s" in answer.error
    assert (model.calls, len(clock.slept)) == (3, 2), "it may be a matter of the moment"
    assert answer.spent.calls == 3
    assert answer.spent.price is None
    model.free.set()


@pytest.mark.parametrize("driven", [answer_sync, answer_async])
def test_a_late_call_is_not_repeated_where_the_ask_forbids_it(driven: Driven) -> None:
    """For writers that would rather ask for less: a failure of another kind is still tried again."""
    clock, model = Clock(), Hangs()
    once = replace(ASK, timeout=0.1, can_retry_timeout=False)
    (answer,) = driven(Answerer(model, retry_rule=clock.make_patience()), [once])
    assert (answer.timed_out, model.calls) == (True, 1)
    model.free.set()
    (answer,) = driven(Answerer(ScriptedModel([DOWN, "there"]), retry_rule=clock.make_patience()), [once])
    assert answer.text == "there"


def test_a_coroutine_that_hangs_is_cancelled_when_its_time_is_over() -> None:
    ended: list[str] = []

    async def wait_forever(_: SummaryAsk) -> Answer:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")
        raise AssertionError

    got: list[Answer] = []
    asks = [replace(ASK, timeout=0.02, tries=1)]
    asyncio.run(arun_engine(ask_once(asks, got), Answerer(Awaited(wait_forever))))
    assert got[0].timed_out
    assert ended == ["cancelled"]


@each_side
def test_no_limit_is_a_limit_too(driven: Driven) -> None:
    (answer,) = driven(Answerer(ScriptedModel(["there"])), [replace(ASK, timeout=float("inf"))])
    assert answer.text == "there"


@each_side
def test_independent_asks_are_worked_on_at_once(driven: Driven) -> None:
    together = threading.Barrier(3, timeout=100)

    class Meets:
        def answer(self, ask: SummaryAsk) -> Answer:
            together.wait()
            return Answer(text=ask.prompt)

    answers = driven(Answerer(Meets()), [SummaryAsk("", name, 10) for name in "abc"])
    assert [a.text for a in answers] == ["a", "b", "c"]


SPEAKER: ContextVar[str] = ContextVar("speaker", default="nobody")


@each_side
def test_a_model_sees_the_context_of_its_caller(driven: Driven) -> None:
    """Traces and tenants travel in context variables: a call on another thread must not lose them."""

    class Says:
        def answer(self, ask: SummaryAsk) -> Answer:
            return Answer(text=SPEAKER.get() + ask.model)

    token = SPEAKER.set("the caller")
    try:
        (answer,) = driven(Answerer(Says()), [ASK])
    finally:
        SPEAKER.reset(token)
    assert answer.text == "the caller"


def test_a_model_that_can_be_awaited_is_on_the_async_side() -> None:
    where: list[str] = []

    class Both:
        def answer(self, ask: SummaryAsk) -> Answer:
            where.append("thread")
            return Answer(text=ask.prompt)

        async def aanswer(self, ask: SummaryAsk) -> Answer:
            where.append("loop")
            return Answer(text=ask.prompt)

    answer_sync(Answerer(Both()), [ASK])
    answer_async(Answerer(Both()), [ASK])
    assert where == ["thread", "loop"]


def test_a_hung_model_holds_up_no_program() -> None:
    """Sync and async: the interpreter ends, though a thread of the model's sleeps on."""
    program = """
import asyncio, time
from tenfold.session.drive import Answerer, arun_engine, run_engine
from tenfold.models.scripted_model import ScriptedModel, ScriptedReply
from tenfold.core.record.ask import EngineResult, Outcome, SummaryAsk
def effects():
    (answer,) = yield (SummaryAsk("", "", 1, timeout=0.05, tries=1),)
    return EngineResult(Outcome("nothing", answer.error, 0, 0, 0))
answerer = Answerer(ScriptedModel([ScriptedReply("late", delay=300)], repeat=True, sleep=time.sleep))
print(run_engine(effects(), answerer).outcome.reason)
print(asyncio.run(arun_engine(effects(), answerer)).outcome.reason)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=500)
    assert done.stdout.split("\n")[:2] == ["no answer within 0.05 s"] * 2


# -- the pauses --------------------------------------------------------------------------------------------------------


@given(st.integers(1, 40), st.floats(0, 1), st.floats(0, 60))
def test_a_pause_is_bounded_and_never_shorter_than_asked_for(failed: int, draw: float, asked: float) -> None:
    patience = RetryRule(draw=lambda: draw)
    pause = patience.compute_pause(failed, asked)
    assert asked <= pause <= 60
    full = min(2.0 ** (failed - 1), 60.0)
    assert pause == asked or full / 2 <= pause <= full


def test_jitter_takes_off_up_to_a_half() -> None:
    assert [RetryRule(draw=lambda: 0.0).compute_pause(n, 0) for n in (1, 2, 3, 9)] == [1.0, 2.0, 4.0, 60.0]
    assert [RetryRule(draw=lambda: 1.0).compute_pause(n, 0) for n in (1, 2, 3, 9)] == [0.5, 1.0, 2.0, 30.0]


@given(st.lists(st.tuples(st.sampled_from(["", "down"]), st.booleans()), min_size=1, max_size=6), st.integers(1, 6))
def test_the_tries_end_with_the_first_that_is_an_answer_or_final(script: list[tuple[str, bool]], tries: int) -> None:
    replies = [Answer(text="" if error else "ok", error=error, retryable=again) for error, again in script]
    replies.append(Answer(text="ok"))
    calls = RetryRule(draw=lambda: 0.0).schedule_calls(replace(ASK, tries=tries))
    assert next(calls) == 0.0
    made = 0
    try:
        while True:
            calls.send(replies[made])
            made += 1
    except StopIteration as stop:
        made += 1
        answer: Answer = stop.value
    final = next((i for i, r in enumerate(replies) if not (r.error and r.retryable)), len(replies))
    assert made == min(final + 1, tries)
    assert bool(answer.error) == bool(replies[made - 1].error)


# -- in a session ------------------------------------------------------------------------------------------------------


def compute_target(size: int) -> int:
    return max(1, size // 4)


def test_a_hanging_model_does_not_hold_a_compaction_for_ever() -> None:
    model = Hangs()
    policy = conversations.make_policy(models=("m",))
    policy = replace(policy, summary=replace(policy.summary, timeout=0.02, tries=1))
    session = conversations.open_session(conversations.build_seeded_log(1), policy, Answerer(model))
    outcome = session.compact(to=compute_target(session.conversation.count_uncompacted()))
    assert outcome.status == "compacted"
    assert outcome.rung in ("extractive", "mechanical")
    assert any("no answer within" in note for note in outcome.notes)
    assert not session.compactor.lock.is_held, "the session is free for the next one"
    model.free.set()


@pytest.mark.parametrize("kind", ["a thread", "a provider"])
def test_a_cancelled_compaction_leaves_no_block_and_ends_at_once(kind: str) -> None:
    hangs = Hangs()
    with Loopback(Served("late", hang=60)) as loopback:
        model = ProviderModel("openai:m", base_url=get_base_url("openai:", loopback)) if kind == "a provider" else hangs
        session = conversations.open_session(
            conversations.build_seeded_log(1), conversations.make_policy(models=("openai:m",)), Answerer(model)
        )
        held = session.view.length

        async def cancel_compaction() -> None:
            task = asyncio.create_task(
                AsyncSession(session).compact(to=compute_target(session.conversation.count_uncompacted()))
            )
            while not (loopback.requests or hangs.calls):  # noqa: ASYNC110 - both are threads
                await asyncio.sleep(0.005)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(cancel_compaction())
        hangs.free.set()
        time.sleep(0.02)
        assert session.view.length == held
        assert session.view.state.live_blocks == ()
        assert not session.compactor.lock.is_held


def test_usage_and_price_of_every_try_stand_on_the_block() -> None:
    clock = Clock()
    with Loopback(Served(status=500), Served("The work went on.", tokens=(3_000, 50))) as loopback:
        model = ProviderModel("openai:gpt-4o-mini", base_url=get_base_url("openai:", loopback))
        answerer = Answerer(model, retry_rule=clock.make_patience())
        policy = conversations.make_policy(models=("openai:gpt-4o-mini",))
        session = conversations.open_session(conversations.build_seeded_log(1), policy, answerer)
        outcome = session.compact(to=compute_target(session.conversation.count_uncompacted()))
        calls = len(loopback.requests)
    assert outcome.status == "compacted"
    block = session.view.path.get_entry(session.view.length - 1)
    assert isinstance(block, Block)
    assert block.spent == outcome.spent
    assert block.spent.calls == calls == len(clock.slept) + 1
    assert block.spent.model == "openai:gpt-4o-mini"
    assert block.spent.price == pytest.approx((calls - 1) * (3_000 * 0.15 + 50 * 0.6) / 1e6)
    assert replace(block.spent, price=None) == ModelCost(
        calls, 3_000 * (calls - 1), 50 * (calls - 1), block.spent.model
    )


def make_awaitable(value: Answer) -> Awaitable[Answer]:
    async def give() -> Answer:
        return value

    return give()


def test_an_answer_from_a_host_is_made_safe_too() -> None:
    got: list[Answer] = []
    answer = Answer(error="Authorization: Bearer abcdefghijklmnop12345 was refused")
    asyncio.run(arun_engine(ask_once([ASK], got), Answerer(Awaited(lambda _: make_awaitable(answer)))))
    assert "abcdefghijklmnop12345" not in got[0].error
    assert "refused" in got[0].error


def is_waiting(thread: threading.Thread) -> bool:
    """Whether a thread waits for a future."""
    frames = traceback.walk_stack(sys._current_frames()[thread.ident or 0])
    return any(frame.f_code.co_filename == futures.__file__ for frame, _ in frames)


class InterruptedModel:
    """A model during whose first call Ctrl-C reaches that call's own thread, as a system may deliver it to any."""

    def __init__(self) -> None:
        self.is_over, self.ended = threading.Event(), threading.Event()
        self.was_waited_for = False
        self._first = threading.Lock()

    def answer(self, _: SummaryAsk) -> Answer:
        if self._first.acquire(blocking=False):
            while not is_waiting(threading.main_thread()):
                time.sleep(0)
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)
            self.was_waited_for = not self.is_over.wait(10)
            self.ended.set()
        return Answer("late")


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="Windows sends no signal to a thread")
@pytest.mark.parametrize("count", [1, 2])
def test_an_interrupt_that_another_thread_received_ends_the_wait_for_a_model(count: int) -> None:
    """It was heard when the model's time was up: two minutes after Ctrl-C."""
    model = InterruptedModel()
    with pytest.raises(KeyboardInterrupt):
        answer_sync(Answerer(model=model), [ASK] * count)
    model.is_over.set()
    assert model.ended.wait(30)
    assert not model.was_waited_for
