"""A session says what it would send behind its last list, before it learns of the request that adds it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tenfold.session import Session
from tests.engine.making import make_user_message, open_session, reopen_session
from tests.session.test_hosting import FIELD, MORE, STEP, TEXT

Item = dict[str, Any]
WINDOW = 8_000


class Host:
    """A client whose list is sent as JSON bytes."""

    def __init__(self, wire: str) -> None:
        self.wire, self.session = wire, open_session()
        self.items: list[Item] = [TEXT[wire]("Please tidy up.")]
        self._number = 0
        while self.session.conversation.find_newest_block_id() is None:
            self.add_step()
            self.send()
        self.add_step()
        self.send()

    def add_step(self) -> None:
        """One more step."""
        self._number += 1
        self.items += STEP[self.wire](self._number)

    def encode(self, items: list[Item]) -> list[bytes]:
        """Native messages as they are sent."""
        return [json.dumps(item).encode() for item in items]

    def send(self, **fields: object) -> None:
        """Asks the session what to send."""
        request = {**MORE[self.wire], FIELD[self.wire]: self.encode(self.items), **fields}
        self.sent = self.session.before_model(request, window=WINDOW, wire=self.wire)[FIELD[self.wire]]


@pytest.mark.parametrize("wire", FIELD)
def test_what_is_added_is_what_the_session_sends_then(wire: str) -> None:
    host = Host(wire)
    sent, count = host.sent, len(host.items)
    host.add_step()
    added = host.session.requests.encode_next(sent, host.encode(host.items[count:]))
    length = host.session.view.length
    host.send()
    assert added is not None
    assert host.sent == [*sent, *added]
    assert length < host.session.view.length


CHANGES: dict[str, Callable[[Session], object]] = {
    "undo": lambda session: session.undo(),
    "compaction": lambda session: session.compact(to=1_200),
    "pin": lambda session: session.pin(session.view.path.get_entry(session.view.length - 1).id),
    "rule": lambda session: session.add_rule("Be brief."),
    "another writer": lambda session: [reopen_session(session).append(make_user_message("Hm.")), session.refresh()],
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_session_that_was_changed_has_to_be_asked(change: str) -> None:
    host = Host("openai-chat")
    CHANGES[change](host.session)
    assert host.session.requests.encode_next(host.sent, host.encode(STEP[host.wire](900))) is None


def test_a_session_that_was_asked_for_something_else_has_to_be_asked_again() -> None:
    host = Host("openai-chat")
    sent = host.sent
    host.add_step()
    host.send()
    assert host.session.requests.encode_next(sent, host.encode(STEP[host.wire](900))) is None
    assert host.session.requests.encode_next([*host.sent], host.encode(STEP[host.wire](900))) is None
    assert host.session.requests.encode_next(host.sent, host.encode(STEP[host.wire](900))) is not None


def test_what_may_be_due_has_to_be_asked_for() -> None:
    host = Host("openai-chat")
    large = [*STEP[host.wire](900), TEXT[host.wire]("word " * 3_000)]
    assert host.session.requests.encode_next(host.sent, host.encode(large)) is None
    host.session.after_model({"usage": {"prompt_tokens": 5_900, "completion_tokens": 7}})
    assert host.session.requests.encode_next(host.sent, host.encode(STEP[host.wire](900))) is None


def test_a_call_that_was_looked_for_already_has_to_be_asked_for() -> None:
    """A later call of the same id would change what its result before was sent as."""
    host = Host("anthropic")
    again = json.loads(json.dumps(STEP[host.wire](900)).replace("c900", "c1"))
    added = host.session.requests.encode_next(host.sent, host.encode(again))
    sent = host.sent
    host.items += again
    host.send()
    assert added is None or host.sent == [*sent, *added]
