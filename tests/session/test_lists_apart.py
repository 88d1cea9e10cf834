"""A list that does not continue the session is refused, or appended by name; what continues it is decided by structure.

And a session that cannot compact for want of a window says so, once.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

import tenfold
from tenfold.core.record.message import Message, Text, get_text
from tenfold.errors import UsageError
from tenfold.events import CompactionSkip, Event
from tenfold.session import AsyncSession, Session
from tenfold.session.drive import Answerer
from tenfold.store.base import Store
from tests.engine.making import (
    build_policy,
    get_entries,
    make_reply,
    make_system_message,
    make_user_message,
    make_work,
    open_session,
)

MODEL = "gpt-4o"
HELD = [
    make_system_message(),
    make_user_message("What does a parcel cost?"),
    make_reply("Four euros."),
    make_user_message("ok"),
    make_reply("Anything else?"),
    make_user_message("ok"),
    make_reply("Good bye."),
]
NEW = make_user_message("Where is my parcel?")
APART: dict[str, list[Message]] = {
    "the new message": [NEW],
    "with the system prompt": [HELD[0], NEW],
    "with another system prompt": [make_system_message("It is Monday."), NEW],
    "said before": [make_user_message("ok")],
    "several": [NEW, make_user_message("And the invoice?")],
}
CONTINUING: dict[str, list[Message]] = {
    "one more": [*HELD, NEW],
    "without the system prompt": [*HELD[1:], NEW],
    "the same": HELD,
    "the first question again": HELD[:2],
    "an edit of the first message": [HELD[0], make_user_message("What does a letter cost?"), *HELD[2:], NEW],
    "the newest ones": [*HELD[3:], NEW],
    "a summary by the host": [make_user_message("So far: it costs four euros."), HELD[6], NEW],
    "another first answer": [*HELD[:2], make_reply("Five."), NEW],
    "nothing": [],
    "only the system prompt": HELD[:1],
}


@pytest.mark.parametrize("name", APART)
def test_a_list_that_shares_nothing_with_the_session_is_refused(name: str) -> None:
    session = open_session(HELD)
    with pytest.raises(UsageError, match=r"this list of \d does not continue session 's'.*6 messages.*append=True"):
        session.sync(APART[name])
    assert session.view.get_messages() == HELD
    assert len(get_entries(session)) == len(HELD)


@pytest.mark.parametrize("name", APART)
def test_by_name_it_is_appended_and_the_model_gets_all(name: str) -> None:
    session = open_session(HELD)
    new = [message for message in APART[name] if message.role != "system"]
    assert session.sync(APART[name], append=True).get_messages() == [*HELD, *new]
    length = len(get_entries(session))
    assert session.sync(APART[name], append=True).get_messages() == [*HELD, *new], "sent again before it is answered"
    assert len(get_entries(session)) == length
    session.append(make_reply("Here."))
    assert session.sync(APART[name], append=True).get_messages() == [*HELD, *new, make_reply("Here."), *new]


@pytest.mark.parametrize("name", CONTINUING)
def test_a_list_that_shares_more_is_a_rewrite(name: str) -> None:
    session, listed = open_session(HELD), CONTINUING[name]
    assert session.sync(listed).get_messages() == listed


@pytest.mark.parametrize("name", CONTINUING)
def test_by_name_nothing_is_rewritten(name: str) -> None:
    """What goes on from the end of the log goes on from there, and any other list is appended."""
    session, listed = open_session(HELD), [message for message in CONTINUING[name] if message.role != "system"]
    ends = [HELD[at:] for at in range(1, len(HELD)) if listed[: len(HELD) - at] == HELD[at:]]
    known = len(ends[0]) if ends else 0
    for _ in range(2):
        assert session.sync(CONTINUING[name], append=True).get_messages() == [*HELD, *listed[known:]]


def test_a_session_without_an_answer_has_nothing_to_lose() -> None:
    session = open_session([make_system_message(), make_user_message("What does a parcel cost?")])
    assert session.sync([make_system_message(), NEW]).get_messages() == [make_system_message(), NEW]


def test_a_list_that_begins_with_an_earlier_view_continues() -> None:
    session = open_session(make_work(12))
    session.compact(to=900)
    first = session.view.get_messages()
    session.append(NEW, make_reply("On its way."))
    session.compact(to=700)
    assert session.sync([*first, NEW, make_reply("On its way."), HELD[3]]).get_messages()[-1] == HELD[3]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_request_is_refused_or_sent_with_the_whole_history(is_async: bool) -> None:  # noqa: FBT001 - a parameter
    session = open_session(HELD, model=MODEL)
    request: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "Where is my parcel?"}]}

    def ask(*, append: bool) -> dict[str, Any]:
        if not is_async:
            return session.before_model(request, append=append)
        return asyncio.run(AsyncSession(session).before_model(request, append=append))

    with pytest.raises(UsageError, match="append=True"):
        ask(append=False)
    sent = ask(append=True)["messages"]
    assert [item["content"] for item in sent[-2:]] == ["Good bye.", "Where is my parcel?"]
    assert len(sent) == len(HELD) + 1
    assert ask(append=True)["messages"] == sent


def get_problems(session: Session, told: list[Event], requests: int, **request: Any) -> list[str]:  # noqa: ANN401
    for _ in range(requests):
        session.before_model({"messages": [{"role": "user", "content": "go"}], **request})
    return [event.outcome.reason for event in told if isinstance(event, CompactionSkip)]


@pytest.mark.parametrize(("model", "what"), [("nobody-knows-this", "'nobody-knows-this'"), ("", "no model is named")])
def test_a_window_that_is_not_known_is_said_once(model: str, what: str, caplog: pytest.LogCaptureFixture) -> None:
    told: list[Event] = []
    session = open_session(answerer=Answerer(listeners=(told.append,)))
    reasons = get_problems(session, told, 3, **({"model": model} if model else {}))
    assert len(reasons) == 1
    assert what in reasons[0]
    assert "window=" in reasons[0]
    assert session.outcome is not None
    assert (session.outcome.status, session.outcome.reason) == ("nothing", reasons[0])
    assert session.outcome.reading_after is not None
    assert [record.getMessage() for record in caplog.records] == [reasons[0]]


def test_another_model_without_a_window_is_said_too_and_a_known_one_not() -> None:
    told: list[Event] = []
    session = open_session(answerer=Answerer(listeners=(told.append,), problem_reporter=lambda _: None))
    get_problems(session, told, 2, model="nobody-knows-this")
    get_problems(session, told, 2, model=MODEL)
    assert len(get_problems(session, told, 2, model="nor-that")) == 2


def test_a_policy_that_compacts_by_hand_only_says_nothing() -> None:
    told: list[Event] = []
    session = open_session((), replace(build_policy(), auto=False), answerer=Answerer(listeners=(told.append,)))
    assert get_problems(session, told, 2, model="nobody-knows-this") == []
    assert session.outcome is None


def test_the_async_side_says_it_as_well() -> None:
    told: list[Event] = []
    session = open_session(answerer=Answerer(listeners=(told.append,), problem_reporter=lambda _: None))

    async def run() -> None:
        wrapped = AsyncSession(session)
        for _ in range(2):
            await wrapped.before_model({"model": "nobody", "messages": [{"role": "user", "content": "go"}]})
        assert wrapped.outcome is not None
        assert "'nobody'" in wrapped.outcome.reason

    asyncio.run(run())
    assert len(told) == 1


@pytest.mark.parametrize("repeated", [1, 2, 3])
def test_a_new_message_that_repeats_the_first_is_appended(repeated: int, store: Store) -> None:
    """A host that sends only what is new may say "Hi" twice: the conversation does not begin anew by it."""
    session = tenfold.open_session("s", model="gpt-4o", store=store)
    said = ["Hi", "My order is A-17.", "Thank you."]
    for text in said:
        session.before_model({"model": "gpt-4o", "messages": [{"role": "user", "content": text}]}, append=True)
        session.append(Message("assistant", (Text("Yes?"),), "model"))
    new = [{"role": "user", "content": text} for text in ["Hi", "I am back.", "Now?"][:repeated]]
    sent = session.before_model({"model": "gpt-4o", "messages": new}, append=True)
    texts = [text for each in said for text in (each, "Yes?")] + [each["content"] for each in new]
    assert [message["content"] for message in sent["messages"]] == texts
    assert list(map(get_text, session.view.get_messages())) == texts
    again = session.before_model({"model": "gpt-4o", "messages": new}, append=True)
    assert [message["content"] for message in again["messages"]] == texts, "a request that is sent again adds nothing"
