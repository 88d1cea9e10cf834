"""Hooks and events: who is told what, in which order, and that nobody who is told can spoil anything."""

from __future__ import annotations

import asyncio

from tenfold.aio import AsyncSession
from tenfold.drive import Answerer
from tenfold.events import Ended, Event, Failed, Skipped, Started, Warned
from tenfold.llm.scripted import Reply, ScriptedModel
from tenfold.record.ask import Answer, Consult, Outcome
from tenfold.record.block import Block
from tests.engine.making import opened, policy, work


def kinds(told: list[Event | str]) -> list[str]:
    return [each if isinstance(each, str) else type(each).__name__ for each in told]


def test_a_compaction_is_bracketed_and_hooks_stand_around_it() -> None:
    told: list[Event | str] = []

    def before(consult: Consult) -> None:
        told.append(f"before {consult.tokens_before}")

    def after(outcome: Outcome, block: Block) -> None:
        assert outcome.block == block.id
        told.append("after")

    session = opened(work(20), answerer=Answerer(before=(before,), after=(after,), listen=(told.append,)))
    outcome = session.compact(to=900)
    assert kinds(told) == [f"before {outcome.tokens_before}", "Started", "Ended", "after"]
    started, ended = told[1], told[2]
    assert isinstance(started, Started)
    assert isinstance(ended, Ended)
    assert (started.tokens, started.target, started.session) == (outcome.tokens_before, 900, session.place.session)
    assert started.plan.startswith("plan: ")
    assert ended.outcome == outcome


def test_a_cancelled_one_never_starts() -> None:
    told: list[Event | str] = []
    cancels = Answerer(before=(lambda _: Answer(cancel=True, error="not now"),), listen=(told.append,))
    assert opened(work(20), answerer=cancels).compact(to=900).status == "cancelled"
    assert kinds(told) == ["Skipped"]


def test_a_failed_one_says_so() -> None:
    told: list[Event | str] = []
    answerer = Answerer(ScriptedModel([Reply(error="down")], repeat=True), listen=(told.append,))
    session = opened(work(30), policy(models=("m",), on_failure="abort"), answerer=answerer)
    outcome = session.compact(to=900)
    assert outcome.status == "failed"
    assert kinds(told) == ["Started", "Failed"]
    assert isinstance(told[1], Failed)
    assert told[1].outcome == outcome


def test_a_quiet_check_is_no_news_a_warning_is_and_so_is_a_refusal() -> None:
    told: list[Event | str] = []
    session = opened(work(30), answerer=Answerer(listen=(told.append,)))
    tokens = session.reading(window=1_000_000).tokens
    session.compact(window=tokens * 10)
    assert told == []
    window = int(tokens / 0.75)
    limits = session.policy.trigger.limits(window, output_reserve=0, floor=0)
    assert limits.warn <= tokens < limits.soft
    session.compact(window=window)
    (warned,) = told
    assert isinstance(warned, Warned)
    assert (warned.tokens, warned.limit, warned.window) == (tokens, limits.soft, window)
    assert 0.7 < warned.fill < 0.8
    session.compact(to=tokens * 2)
    assert kinds(told) == ["Warned", "Skipped"]
    assert isinstance(told[1], Skipped)
    assert told[1].outcome.status == "nothing"


def test_one_who_raises_is_reported_and_ignored() -> None:
    reports: list[str] = []

    def bad(*_: object) -> None:
        raise ValueError("mine")

    answerer = Answerer(after=(bad,), listen=(bad,), report=reports.append)
    assert opened(work(20), answerer=answerer).compact(to=900).status == "compacted"
    assert [r.split(" raised")[0] for r in reports] == ["a listener", "a listener", "an after-hook"]
    assert all("ValueError: mine" in r for r in reports)


def test_the_async_side_tells_the_same() -> None:
    told: list[Event | str] = []
    session = opened(work(20), answerer=Answerer(listen=(told.append,)))
    asyncio.run(AsyncSession(session).compact(to=900))
    assert kinds(told) == ["Started", "Ended"]
