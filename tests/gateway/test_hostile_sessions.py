"""What clients do to their lists: trim, edit, repeat, go back, ask besides. Nothing is mixed up, nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tenfold.store.base import DEFAULT_NAMESPACE, Store
from tests.gateway.conversations import KINDS, Talk, find_marks, read_stored
from tests.gateway.serving import RawUpstream, run_gateway

pytestmark = [pytest.mark.parametrize("kind", KINDS), pytest.mark.costly(2)]
WINDOW = 16_000


class Place:
    """A gateway, and every mark that was ever sent to it."""

    def __init__(self, upstream: RawUpstream, url: str) -> None:
        self.upstream, self.url = upstream, url
        self.sent: set[str] = set()

    def send(self, talk: Talk) -> set[str]:
        """Sends a conversation, and returns the marks that the provider saw."""
        self.sent |= set(talk.marks)
        assert talk.send(self.url).status_code == 200
        return set(find_marks(self.upstream.requests[-1].body.decode()))


@pytest.fixture
def place(store: Store) -> Iterator[Place]:
    with run_gateway(store=store, window=WINDOW) as (upstream, gateway):
        opened = Place(upstream, gateway.url)
        yield opened
    stored = read_stored(store)
    assert opened.sent == {mark for marks in stored.values() for mark in marks}, "nothing is lost"
    assert store.verify(DEFAULT_NAMESPACE) == []


def add_turn(talk: Talk, words: int = 300) -> None:
    """A step, an answer and a question."""
    talk.add_step(words)
    talk.add_answer()
    talk.add_user()


@pytest.mark.parametrize("has_id", [True, False])
def test_a_client_that_trims_its_own_list(kind: str, place: Place, *, has_id: bool) -> None:
    talk, own = Talk(kind), 1 if kind == "chat" else 0
    if has_id:
        talk.headers["x-session-id"] = "ses_1"
    talk.add_user()
    for number in range(24):
        add_turn(talk)
        seen = place.send(talk)
        assert seen <= set(talk.marks), "what it has dropped does not come back"
        assert len(place.upstream.requests[-1].body) < WINDOW * 5
        if number % 3 == 2:
            talk.items[own : own + 4] = []


def test_an_early_message_that_is_edited(kind: str, place: Place) -> None:
    talk = Talk(kind)
    talk.headers["x-session-id"] = "ses_1"
    talk.add_user()
    for _ in range(18):
        add_turn(talk)
        place.send(talk)
    edited = talk.copy()
    edited.tag = "e"
    first, said = edited.items[1 if kind == "chat" else 0], f"Look at another one. {edited.mark()}"
    first.update({"parts": [{"text": said}]} if kind == "generate" else {"content": said})
    for _ in range(3):
        assert not {mark for mark in place.send(edited) if mark == "a:1"}
        add_turn(edited)
        add_turn(talk)
        assert not {mark for mark in place.send(talk) if mark.startswith("e:")}
    place.send(edited)


def test_the_same_request_several_times_at_once(kind: str, place: Place, store: Store) -> None:
    talk = Talk(kind)
    talk.add_user()
    with ThreadPoolExecutor(3) as pool:
        for _ in range(12):
            add_turn(talk)
            list(pool.map(place.send, [talk] * 3))
    (marks,) = read_stored(store).values()
    assert set(marks.values()) == {1}


def test_side_requests_under_the_same_id(kind: str, place: Place) -> None:
    talk = Talk(kind, tools=5)
    talk.headers["x-session-id"] = "ses_1"
    talk.add_user()
    for number in range(12):
        add_turn(talk)
        place.send(talk)
        side = Talk(kind, f"s{number}", system="You are a small helper.")
        side.headers["x-session-id"] = "ses_1"
        side.add_user("Name the topic.")
        side.add_answer()
        side.add_user()
        assert place.send(side) == set(side.marks)
        assert not {mark for mark in place.send(talk) if mark.startswith("s")}


def test_equal_system_prompts_and_beginnings(kind: str, place: Place) -> None:
    opening = Talk(kind)
    opening.add_user()
    opening.add_answer()
    opening.add_user()
    place.send(opening)
    talks = [opening.copy() for _ in range(3)]
    for number, talk in enumerate(talks):
        talk.tag = f"y{number}"
    for _ in range(8):
        for talk in talks:
            add_turn(talk, 500)
            assert all(mark.startswith((f"{talk.tag}:", "a:")) for mark in place.send(talk))


def test_a_user_who_goes_back_and_forth(kind: str, place: Place) -> None:
    talk, states = Talk(kind), list[Talk]()
    talk.add_user()
    for _ in range(14):
        add_turn(talk)
        place.send(talk)
        states.append(talk.copy())
    later = set(talk.marks) - set(states[4].marks)
    back = states[4].copy()
    back.tag = "b"
    for _ in range(10):
        add_turn(back)
        assert not place.send(back) & later, "what was taken back is not told"
    assert not {mark for mark in place.send(states[-1]) if mark.startswith("b:")}
    assert place.send(states[7]) <= set(states[7].marks)
