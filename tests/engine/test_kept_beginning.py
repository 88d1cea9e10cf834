"""An automatic compaction leaves the beginning of the conversation as it is: the provider's cache still holds it."""

from __future__ import annotations

from itertools import takewhile
from operator import eq
from typing import Any

import pytest
from msgspec.structs import replace

import tenfold
from tenfold.config.settings import build_policy
from tenfold.core.meter.counters import CharacterCounter, measure_messages
from tenfold.core.record.message import Message, Text, ToolCall, ToolResult
from tenfold.core.view.rules import check_messages
from tenfold.session import Session, SessionAddress
from tenfold.store.sqlite.store import SqliteStore

WINDOW = 40_000
COUNTER = CharacterCounter()


def open_session(**settings: Any) -> Session:  # noqa: ANN401 - settings of every type
    return Session.create(SessionAddress(SqliteStore(":memory:"), "s"), build_policy("tenfold", COUNTER, **settings))


def add_step(session: Session, number: int) -> None:
    """Adds a step of about 1,000 tokens. Its words are its own, so that nothing is repeated."""
    words = " ".join(f"word{number}-{n}" for n in range(400))
    call = ToolCall(f"c{number}", "look", f'{{"path": "part{number}.py"}}')
    session.append(
        Message("assistant", (Text(f"I look at part {number}."), call), "model"),
        Message("tool", (ToolResult(call.id, "look", (Text(words),)),), "tool"),
    )


def run(session: Session, steps: int, window: int = WINDOW) -> list[list[Message]]:
    """Goes on for some steps, and returns the view before and after each compaction."""
    views = []
    for number in range(steps):
        add_step(session, number)
        before = session.view.get_messages()
        check = session.compactor.build_call(window=window)
        if session.compactor.is_check_due(check) and session.compact(check).status == "compacted":
            views += [before, session.view.get_messages()]
    return views


def list_shared(before: list[Message], after: list[Message]) -> list[Message]:
    return [one for one, _ in takewhile(lambda pair: eq(*pair), zip(after, before, strict=False))]


def test_what_stays_is_what_the_cache_holds_over_any_number_of_compactions() -> None:
    session = open_session()
    session.append(Message("user", (Text("Look at all the parts. Never touch config.py."),), "human"))
    views = run(session, 120)
    assert len(views) >= 6
    kept = [list_shared(before, after) for before, after in zip(views[::2], views[1::2], strict=True)]
    tokens = [sum(measure_messages(each, COUNTER)) for each in kept]
    assert all(each > 0.15 * WINDOW - 2_100 for each in tokens), "whole steps, in 15 % of the window"
    assert tokens[-1] <= 0.15 * WINDOW
    assert all(each[: len(kept[-1])] == kept[-1] for each in kept)
    assert session.view.get_messages()[: len(kept[-1])] == kept[-1]


@pytest.mark.parametrize("window", [8_000, 12_000, 16_000])
def test_no_call_is_kept_without_its_result(window: int) -> None:
    """A step whose output was cut before was kept as far as the output, and a summary covered the rest."""
    session = open_session()
    session.append(Message("user", (Text("Look at all the parts."),), "human"))
    views = run(session, 60, window)
    assert len(views) > 8
    assert [problem for view in views for problem in check_messages(view, "openai-chat")] == []


@pytest.mark.parametrize("head", [0.0, 0.375])
def test_a_named_target_leaves_no_room_for_it(head: float) -> None:
    policy = build_policy("tenfold", COUNTER)
    policy = replace(policy, shares=replace(policy.shares, head=head))
    history = [
        {"role": "user", "content": f"{n}: " + " ".join(f"word{n}-{at}" for at in range(300))} for n in range(40)
    ]
    view = tenfold.compact(history, to=4_000, policy=policy)
    assert view.messages[0] != history[0]


def test_thrift_leaves_no_room_for_it() -> None:
    *_, before, after = run(open_session(thrift=1.0), 80)
    assert list_shared(before, after) == []


def test_a_first_message_that_is_too_long_is_no_beginning() -> None:
    session = open_session()
    session.append(Message("user", (Text("Read this. " + " ".join(f"name{n}" for n in range(4_000))),), "human"))
    session.append(Message("assistant", (Text("I have read it."),), "model"))
    session.append(Message("user", (Text("Now look at all the parts."),), "human"))
    *_, after = run(session, 80)
    assert after[0].origin == "tenfold", "it is summarized, as what follows it is"
