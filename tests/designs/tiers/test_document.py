"""`tiers`: what the document claims beside its numbered behaviours."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tenfold.apps.agent import Agent
from tenfold.apps.agent.demonstration import build_demonstration
from tenfold.compaction.summarize.write import SummarySettings
from tenfold.core.record.ask import Answer, SummaryAsk
from tenfold.core.record.message import Message, get_text
from tenfold.designs.tiers import CompactionConfig, CompactTool, compact_with_summarization, get_summary
from tenfold.designs.tiers.policy import CLOSING, tiers
from tenfold.session import AsyncSession, Session
from tenfold.session.drive import Answerer
from tests.designs.tiers.test_summary import GOOD, count_total, make_chat_list, make_talk
from tests.engine.making import (
    COUNTER,
    Telling,
    get_blocks,
    make_call,
    make_edit_step,
    make_reply,
    make_result,
    make_user_message,
    open_session,
)


def open_tiers(history: list[Message], model: object) -> Session:
    policy = tiers(COUNTER, summary=SummarySettings(models=("small",)))
    return open_session(history, policy, answerer=Answerer(model=model))  # type: ignore[arg-type]


def test_an_agent_compacts_its_messages_with_a_summary() -> None:
    model = Telling(GOOD)
    agent = Agent(build_demonstration(), session=open_tiers(make_talk(60), model), window=24_000)
    outcome = asyncio.run(agent.run_compaction("the migration"))
    assert outcome.status == "compacted"
    assert "the migration" in model.asked[0].prompt
    assert "## Task State" in (get_summary(agent.session) or "")
    assert {r.kind for r in get_blocks(agent.session)[0].replacements} == {"summary"}


def test_the_tool_says_when_to_call_it_and_what_it_returns() -> None:
    text = CompactTool.description
    for words in ("something new", "work is finished", "lose track", "The result says what was kept"):
        assert words in text


def test_the_request_goes_on_in_the_same_call_and_nobody_is_asked() -> None:
    messages = make_chat_list(40)
    session = open_tiers([], Telling(GOOD))
    sent = session.before_model({"model": "m", "messages": messages}, window=16_000)["messages"]
    assert session.outcome is not None
    assert session.outcome.status == "compacted"
    assert sent[-1] == messages[-1], "the user's newest message is the last one, as it was"
    added = [message for message in sent if message not in messages]
    assert len(added) == 1
    assert CLOSING in str(added[0]["content"])


def test_files_commands_and_decisions_are_kept_whatever_the_summary_says() -> None:
    history = [make_user_message("Move the billing code.")]
    for number in range(6):
        history += make_edit_step(number, f"lib/billing_{number}.py")
    history += [make_call("t", "bash", '{"command": "make check"}'), make_result("t", "12 passed", name="bash")]
    history += [make_reply("I decided to keep the old schema, because the reports read it.")]
    history += make_talk(60)[1:]
    session = open_tiers(history, Telling(GOOD))
    outcome = session.compact(to=count_total(history) // 3)
    assert outcome.rung == "model"
    text = "\n".join(get_text(message) for message in session.view.get_messages())
    assert "billing" not in GOOD
    assert [n for n in range(6) if f"lib/billing_{n}.py" not in text] == []
    assert "make check" in text
    assert outcome.facts["file_modified"] == (6, 6)


class Slow:
    """A model that answers once the loop has turned a few times meanwhile, on the thread it is called on."""

    def __init__(self) -> None:
        self.is_turned = threading.Event()
        self.waited: list[bool] = []

    def answer(self, _ask: SummaryAsk) -> Answer:
        self.waited.append(self.is_turned.wait(60))
        return Answer(text=GOOD)


@pytest.mark.parametrize("way", ["session", "list"])
def test_the_event_loop_is_free_while_the_summary_is_written(way: str) -> None:
    slow = Slow()

    async def count_ticks() -> None:
        if way == "session":
            session = AsyncSession(open_tiers(make_talk(), slow))
            task = asyncio.ensure_future(session.compact(to=count_total(make_talk()) // 2))
        else:
            config = CompactionConfig(context_window=40_000)
            work = compact_with_summarization(make_chat_list(40), slow, config, counter=COUNTER)
            task = asyncio.ensure_future(work)  # type: ignore[arg-type]
        for _ in range(5):
            await asyncio.sleep(0.01)
        slow.is_turned.set()
        await task

    asyncio.run(count_ticks())
    assert slow.waited
    assert all(slow.waited)
