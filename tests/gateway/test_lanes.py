"""Which lane a request is given, before its session knows of the one before."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from tenfold.apps.gateway.lanes import FORK_EVIDENCE, Family, LaneTable, find_family
from tenfold.apps.gateway.model_request import ModelRequest, parse_request
from tenfold.config.policies import get_preset
from tenfold.core.meter.counters import choose_counter
from tenfold.session import Session, SessionAddress
from tenfold.store.base import SessionInfo, Store
from tenfold.store.location import open_store
from tests.gateway.conversations import KINDS, Talk, list_sessions, read_marks
from tests.gateway.loose_sessions import LooseSessions, go_on
from tests.gateway.serving import run_gateway, serve_gateway, wait_until

FAMILY = Family("tenant", "openai-chat", "key")
NAMED = replace(FAMILY, has_session_id=True)


def build_request(steps: int, *, last: str = "", opening: str = "Look at it.", **fields: object) -> ModelRequest:
    """A request after so many steps, with another text at the end if one is given."""
    messages = [{"role": "user", "content": opening}]
    for number in range(steps):
        messages.append({"role": "assistant", "content": f"Step {number}."})
        messages.append({"role": "user", "content": f"And part {number}?"})
    if last:
        messages[-1]["content"] = last
    body = json.dumps({"model": "m", "messages": messages, **fields}).encode()
    request = parse_request("/v1/chat/completions", body)
    assert request is not None
    return request


def open_table(store: Store | None = None, *, limit: int = 16, max_bytes: int = 10**9) -> LaneTable:
    """A table over a store, in memory if none is given."""
    place = store or open_store(":memory:")
    policy = get_preset("tenfold")(choose_counter(None).counter)

    def open_session(address: SessionAddress, model: str, info: SessionInfo | None) -> Session:
        return Session.create(address, policy, model=model, info=info) if info else Session(address, policy)

    return LaneTable(place, open_session, namespace="default", limit=limit, max_bytes=max_bytes)


def test_the_next_request_finds_its_lane_before_the_session_knows_of_the_last_one() -> None:
    table = open_table()
    first = table.find_lane(FAMILY, build_request(1))
    assert table.find_lane(FAMILY, build_request(2)) is first
    assert table.find_known_lane(FAMILY, build_request(3)) is first
    assert first.synced_count == 0


def test_two_conversations_that_differ_have_two_lanes_at_once() -> None:
    table = open_table()
    first = table.find_lane(FAMILY, build_request(2))
    other = table.find_lane(FAMILY, build_request(2, last="Something else."))
    assert other is not first
    assert table.find_known_lane(FAMILY, build_request(3)) is first


def test_a_request_goes_on_from_the_longest_list_that_it_begins_with() -> None:
    table = open_table()
    long = table.find_lane(NAMED, build_request(4))
    short = table.find_lane(NAMED, build_request(2))
    assert short is not long
    assert table.find_known_lane(NAMED, build_request(5)) is long
    assert table.find_lane(NAMED, build_request(6)) is long


GREETING = "hi"
TASK = "Look at the parts of the program, one after the other, and tell what each of them is for. " * 6


@pytest.mark.parametrize(
    ("opening", "family", "is_fork"),
    [
        (GREETING, FAMILY, False),
        (TASK[: FORK_EVIDENCE - 100], FAMILY, False),
        (TASK, FAMILY, True),
        (GREETING, NAMED, True),
    ],
)
def test_what_shares_a_greeting_is_no_branch(opening: str, family: Family, *, is_fork: bool) -> None:
    """Neither before the session knows of the first list nor after a restart, when it is read from the store."""
    store = open_store(":memory:")
    table = open_table(store)
    first = table.find_lane(family, build_request(2, opening=opening, last="My diagnosis is in the letter."))
    other = table.find_lane(family, build_request(2, opening=opening, last="What is the weather?"))
    assert (other.id == first.id) is is_fork
    first.session.session.requests.sync_request(
        build_request(2, opening=opening, last="My diagnosis is in the letter.").build_mapping(),
        window=None, recall="none", wire="openai-chat",
    )  # fmt: skip
    again = open_table(store).find_lane(family, build_request(2, opening=opening, last="And the news?"))
    assert (again.id == first.id) is is_fork
    store.close()


def test_end_users_of_one_key_have_families_of_their_own() -> None:
    plain = find_family("t", {}, build_request(1))
    named = [
        find_family("t", {}, build_request(1, user="one")),
        find_family("t", {}, build_request(1, user="two")),
        find_family("t", {}, build_request(1, safety_identifier="three")),
        find_family("t", {}, build_request(1, metadata={"user_id": "four"})),
        find_family("t", {}, build_request(1, metadata={"user_id": 5})),
        find_family("t", {}, build_request(1, user={"id": "six"})),
        find_family("t", {}, build_request(1, user=7)),
        find_family("t", {}, build_request(1, prompt_cache_key="program")),
        find_family("t", {"x-tenfold-session": "one"}, build_request(1)),
        find_family("t", {"x-tenfold-session": "one"}, build_request(1, user="two")),
    ]
    assert len({plain, *named}) == len(named) + 1
    assert [family.has_session_id for family in named] == [False] * 8 + [True] * 2, "a cache key may be many users'"
    assert find_family("t", {"x-tenfold-session": "one"}, build_request(3, opening="Other.")) == named[8]
    for nobody in (None, ""):
        assert find_family("t", {}, build_request(1, user=nobody, metadata={"user_id": nobody})) == plain


def test_two_forks_at_once_have_two_names() -> None:
    table = open_table()
    origin = table.find_lane(NAMED, build_request(3))
    forks = [table.find_lane(NAMED, build_request(3, last=f"Other {number}.")) for number in range(3)]
    heads = {lane.address.head for lane in (origin, *forks)}
    assert {lane.id for lane in forks} == {origin.id}
    assert len(heads) == 4
    assert all(head.startswith("fork-") for head in heads - {"main"})


def test_two_gateways_that_fork_one_session_at_once_have_two_branches(store: Store) -> None:
    """Each keeps its own branch, and each message is stored once."""
    trunk = Talk("chat")
    trunk.headers["x-session-id"] = "ses_1"
    trunk.add_user()
    trunk.add_steps(3)
    with run_gateway(store=store) as (upstream, one), serve_gateway(upstream.url, store=store) as other:
        trunk.send(one.url)
        wait_until(lambda: len(list_sessions(store)) == 1)
        talks = [trunk.copy(), trunk.copy()]
        trunk.add_answer()
        trunk.add_user()
        trunk.send(one.url)
        (session,) = list_sessions(store)
        wait_until(lambda: read_marks(store, session) == trunk.marks)
        for talk, tag in zip(talks, "xy", strict=True):
            talk.tag = tag
        for _ in range(3):
            for talk, gateway in zip(talks, (one, other), strict=True):
                talk.add_user()
                talk.add_answer()
                talk.send(gateway.url)
    assert read_marks(store, session) == trunk.marks | talks[0].marks | talks[1].marks
    assert len(store.read_heads("default", session)) == 3


@pytest.mark.parametrize("words", [40, 900])
@pytest.mark.parametrize("has_id", [True, False])
def test_parallel_forks_store_each_message_once(words: int, *, has_id: bool, store: Store) -> None:
    """Eight at once, those that fit and those that have to be compacted first: one session, and no race is lost."""
    trunk = Talk("chat")
    if has_id:
        trunk.headers["x-session-id"] = "ses_1"
    trunk.add_user()
    trunk.add_steps(8, words)
    talks = [trunk.copy() for _ in range(8)]
    for number, talk in enumerate(talks):
        talk.tag = f"f{number}"
        talk.add_answer()
        talk.add_user()
    with run_gateway(store=store, window=16_000) as (_upstream, gateway), ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda talk: talk.send(gateway.url), talks))
        for talk in talks:
            talk.add_answer()
            talk.add_user()
        answers += pool.map(lambda talk: talk.send(gateway.url), talks)
        totals = gateway.gateway.log.totals
    assert [answer.headers.get("x-tenfold-bypass") for answer in answers] == [None] * 16
    (session,) = list_sessions(store)
    assert read_marks(store, session) == Counter({mark: 1 for talk in talks for mark in talk.marks})
    assert len(store.read_heads("default", session)) == 8
    assert totals.compactions <= (8 if words > 40 else 0), "one for each branch at most"


async def turn_loop() -> None:
    """Lets all tasks come to where they wait."""
    for _ in range(50):
        await asyncio.sleep(0)


class LateFirstResult(ThreadPoolExecutor):
    """Threads for an event loop. What the first work returns is held back until `release` is called."""

    def __init__(self) -> None:
        super().__init__(4)
        self.work: list[Future[Any]] = []
        self._held: Future[Any] = Future()

    def submit(self, fn: Callable[..., Any], /, *args: object, **kwargs: object) -> Future[Any]:
        self.work.append(super().submit(fn, *args, **kwargs))
        return self.work[-1] if len(self.work) > 1 else self._held

    def release(self) -> None:
        self._held.set_result(self.work[0].result())


def test_a_fork_found_before_its_origin_has_work_waits_for_it(store: Store) -> None:
    """The thread that has found the lane of the trunk may be the later one to tell the event loop."""
    trunk = Talk("chat")
    trunk.add_user()
    trunk.add_steps(8)
    shared, fork = trunk.marks, trunk.copy()
    for talk, text in ((trunk, "Go on."), (fork, "Stop.")):
        talk.add_answer(text)
        talk.add_user(text)

    async def run() -> None:
        threads = LateFirstResult()
        asyncio.get_running_loop().set_default_executor(threads)
        async with httpx.AsyncClient() as client:
            loose = LooseSessions(store, client)
            learning = [asyncio.ensure_future(loose.learn(trunk))]
            await turn_loop()
            await asyncio.wrap_future(threads.work[0])
            learning.append(asyncio.ensure_future(loose.learn(fork)))
            await turn_loop()
            if len(threads.work) > 1:  # it did not wait, so it is let go all the way
                await learning[1]
            threads.release()
            first, second = await asyncio.gather(*learning)
        assert (first.id, first is second) == (second.id, False)

    asyncio.run(run())
    (session,) = list_sessions(store)
    stored = read_marks(store, session)
    assert {mark: stored[mark] for mark in shared} == shared


@pytest.mark.parametrize("kind", KINDS)
def test_a_fork_of_a_session_with_hidden_parts_is_sent_as_its_session_gives_it(kind: str, store: Store) -> None:
    """Also where all of it would fit: else the log, the bill and the meter take what is sent for something shorter."""

    async def run() -> None:
        talk = Talk(kind)
        talk.add_user()
        talk.add_steps(12, 40)
        async with httpx.AsyncClient(timeout=500) as client:
            sessions = LooseSessions(store, client)
            lane = await sessions.learn(go_on(talk))
            lane.session.session.compact(to=600)
            fork = go_on(talk).copy()
            hidden = await sessions.learn(talk)
            assert hidden is lane
            fork.items.pop()
            fork.add_user("And another question?")
            for _ in range(2):
                prepared = await sessions.prepare(fork)
                assert prepared.lane is not None
                await prepared.lane.finish_later_work()
                assert prepared.lane.address.head.startswith("fork-")
                assert prepared.lane.id == lane.id
                assert len(prepared.sent.items) < len(fork.items), prepared.reason
                go_on(fork)

    asyncio.run(run())


def test_lists_in_memory_are_bounded_by_their_bytes() -> None:
    store = open_store(":memory:")
    table = open_table(store, max_bytes=3_000_000)
    for number in range(12):
        family = replace(FAMILY, key=str(number))
        lane = table.find_lane(family, build_request(1, opening="word " * 100_000))
        asyncio.run(lane.run_on_newest(build_request(1), lambda: asyncio.sleep(0)))
    assert (len(table), table.size < 3_000_000) == (5, True)
    for number in range(12):
        table.find_lane(FAMILY, build_request(1, opening="word " * 100_000, last=f"Other {number}."))
    assert table.size < 3_000_000
    store.close()


def test_a_lookup_sees_the_path_of_its_own_request(store: Store) -> None:
    """Two users of a program behind one key share a long opening, so they are branches of one session."""
    talks = [Talk("chat") for _ in range(2)]
    with run_gateway(store=store) as (_upstream, gateway):
        for number, talk in enumerate(talks):
            talk.add_user(TASK)
            talk.add_answer()
            talk.add_user(f"My diagnosis is quokka{number}.")
            talk.send(gateway.url)
        sessions = gateway.gateway.sessions
        assert sessions is not None
        wait_until(lambda: list_sessions(store))  # it is stored after the answer
        (session,) = list_sessions(store)
        wait_until(lambda: len(store.read_heads("default", session)) == 2)
        (fork,) = set(store.read_heads("default", session)) - {"main"}
        for number, head in enumerate(("main", fork)):
            lane = next(each for each in sessions.lanes if each.address.head == head)
            found = sessions.open_recall(lane).handle("recall_search", {"words": "diagnosis"})
            assert f"quokka{number}" in found
            assert f"quokka{1 - number}" not in found
            entry = store.read_heads("default", session)[fork if head == "main" else "main"]
            assert sessions.open_recall(lane).handle("recall_read", {"entry": entry}).startswith("no entry ")
