"""Several gateways on one PostgreSQL. Gateways and the server's backends are killed: nothing is lost or doubled."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

from tenfold.core.record.block import Block
from tenfold.store.base import DEFAULT_NAMESPACE
from tenfold.store.location import open_store
from tests.gateway.conversations import KINDS, Talk, find_marks, list_sessions, read_marks
from tests.gateway.program import ServeProgram
from tests.gateway.replicas import ANSWER, FLAGS, WINDOW, begin_talk, go_on, send_until_answered
from tests.gateway.serving import RawUpstream
from tests.postgres import create_database, end_backends
from tests.thorough import IS_THOROUGH

GATEWAYS, CLIENTS, REQUESTS, KILLS = (4, 64, 2_000, 200) if IS_THOROUGH else (2, 6, 50, 6)
PAUSE = 1.0 if IS_THOROUGH else 0.5
"""Seconds between two kills, on average."""


class Clients:
    """Clients that work until they are told to stop, each with a conversation of its own."""

    def __init__(self, urls: Sequence[str]) -> None:
        pairs = zip(range(CLIENTS), itertools.cycle(KINDS), strict=False)
        self.talks = [begin_talk(kind, f"c{number}", 15) for number, kind in pairs]
        self.counts: Counter[str] = Counter()
        self.done = threading.Event()
        self._urls, self._turn = urls, itertools.count()

    def work(self, talk: Talk) -> None:
        """Goes on with a conversation, through one gateway after the other."""
        while not self.done.is_set():
            go_on(talk)
            answer = send_until_answered(talk, self._urls, self._turn)
            self.counts.update(["requests", *(["bypasses"] if "x-tenfold-bypass" in answer.headers else [])])


def kill_at_random(gateways: Sequence[ServeProgram], database: str) -> Counter[str]:
    """Kills gateways, which are started again, and ends the database's backends."""
    chooser, kills = random.Random(41), Counter[str]()  # noqa: S311  choices that can be repeated
    while kills.total() < KILLS:
        time.sleep(chooser.random() * 2 * PAUSE)
        if kills.total() % 2:
            end_backends(database)
            kills["backends"] += 1
        else:
            gateway = chooser.choice(gateways)
            gateway.kill()
            gateway.start()
            kills["gateways"] += 1
    return kills


def test_whatever_is_killed_nothing_is_lost_or_doubled(report: list[str]) -> None:
    with ExitStack() as stack:
        database = stack.enter_context(create_database())
        upstream = stack.enter_context(RawUpstream(ANSWER))
        gateways = [stack.enter_context(ServeProgram(database, upstream.url, *FLAGS)) for _ in range(GATEWAYS)]
        for gateway in gateways:
            gateway.wait_until_ready()
        clients, started = Clients([gateway.url for gateway in gateways]), time.monotonic()
        with ThreadPoolExecutor(CLIENTS) as pool:
            working = [pool.submit(clients.work, talk) for talk in clients.talks]
            try:
                kills = kill_at_random(gateways, database)
                until = time.monotonic() + 500
                while clients.counts["requests"] < REQUESTS and time.monotonic() < until:
                    time.sleep(0.1)
            finally:
                clients.done.set()
            for each in working:
                each.result()
        seconds = time.monotonic() - started
        for gateway in gateways:
            gateway.wait_until_ready()
            gateway.terminate()
            gateway.wait(200)
        logs = [gateway.read_log() for gateway in gateways]
        bodies = [got.body for got in upstream.requests]
        with closing(open_store(database)) as store:
            stored = {session: read_marks(store, session) for session in list_sessions(store)}
            blocks = sum(isinstance(e, Block) for s in stored for e in store.read_entries(DEFAULT_NAMESPACE, s))
            assert store.verify(DEFAULT_NAMESPACE) == []
    report.append(
        f"replicas: {GATEWAYS} gateways, {CLIENTS} clients, {dict(clients.counts)}, {dict(kills)} killed, {blocks} "
        f"compactions, {seconds:.1f} s"
    )
    assert clients.counts["requests"] >= REQUESTS
    assert blocks >= CLIENTS
    check_sent(bodies, clients.counts)
    check_stored(clients.talks, stored)
    faults = sum(log.count("Traceback") for log in logs) - 2 * sum(log.count("a fault of the gateway") for log in logs)
    assert faults <= 0, "each traceback is of a request that was forwarded as it came, and of its cause"


def check_sent(bodies: Sequence[bytes], counts: Counter[str]) -> None:
    """Checks that no request mixes conversations, and that what was compacted stays so.

    A gateway that cannot reach its store in time forwards what came.
    """
    assert all(len({mark.partition(":")[0] for mark in find_marks(body.decode())}) == 1 for body in bodies)
    assert counts["bypasses"] <= counts["requests"] / 100
    assert sum(len(body) > WINDOW * 6 for body in bodies) <= counts["bypasses"]


def check_stored(talks: Sequence[Talk], stored: Mapping[str, Counter[str]]) -> None:
    """Checks that each conversation has sessions of its own, and that they hold every message once."""
    by_tag: dict[str, Counter[str]] = {}
    for session, marks in stored.items():
        tags = {mark.partition(":")[0] for mark in marks}
        assert len(tags) == 1, f"{session} holds several conversations"
        (tag,) = tags
        by_tag[tag] = by_tag.get(tag, Counter()) + marks
    for talk in talks:
        assert set(talk.marks) <= set(by_tag[talk.tag]), "nothing that was sent is lost"
        assert set(by_tag[talk.tag].values()) == {1}, "nothing stands twice"
