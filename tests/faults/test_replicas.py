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

GATEWAYS, CLIENTS, REQUESTS, KILLS = (4, 64, 2_000, 200) if IS_THOROUGH else (2, 6, 60, 6)
PAUSE = 1.0 if IS_THOROUGH else 0.5
"""Seconds between two kills, on average."""


def test_whatever_is_killed_nothing_is_lost_or_doubled(report: list[str]) -> None:
    talks = [begin_talk(kind, f"c{n}", 15) for n, kind in zip(range(CLIENTS), itertools.cycle(KINDS), strict=False)]
    chooser, turn = random.Random(41), itertools.count()  # noqa: S311  choices that can be repeated
    kills: Counter[str] = Counter()
    done = threading.Event()
    with ExitStack() as stack:
        database = stack.enter_context(create_database())
        upstream = stack.enter_context(RawUpstream(ANSWER))
        gateways = [stack.enter_context(ServeProgram(database, upstream.url, *FLAGS)) for _ in range(GATEWAYS)]
        for gateway in gateways:
            gateway.wait_until_ready()
        urls = [gateway.url for gateway in gateways]

        def work(talk: Talk) -> int:
            requests = 0
            while not done.is_set() or requests < REQUESTS // CLIENTS:
                go_on(talk)
                send_until_answered(talk, urls, turn)
                requests += 1
            return requests

        started = time.monotonic()
        with ThreadPoolExecutor(CLIENTS) as pool:
            working = [pool.submit(work, talk) for talk in talks]
            while kills.total() < KILLS and not all(each.done() for each in working):
                time.sleep(chooser.random() * 2 * PAUSE)
                if kills.total() % 2:
                    end_backends(database)
                    kills["backends"] += 1
                else:
                    gateway = chooser.choice(gateways)
                    gateway.kill()
                    gateway.start()
                    kills["gateway"] += 1
            done.set()
            requests = sum(each.result() for each in working)
        seconds = time.monotonic() - started
        for gateway in gateways:
            gateway.wait_until_ready()
            gateway.terminate()
        for gateway in gateways:
            gateway.wait(200)
        logs = [gateway.read_log() for gateway in gateways]
        sizes = [len(got.body) for got in upstream.requests]
        bodies = [got.body.decode() for got in upstream.requests]
        with closing(open_store(database)) as store:
            stored = {session: read_marks(store, session) for session in list_sessions(store)}
            blocks = sum(isinstance(e, Block) for s in stored for e in store.read_entries(DEFAULT_NAMESPACE, s))
            assert store.verify(DEFAULT_NAMESPACE) == []
    report.append(
        f"replicas: {GATEWAYS} gateways, {CLIENTS} clients, {requests} requests, {dict(kills)} killed, {blocks} "
        f"compactions, {seconds:.1f} s"
    )
    assert kills.total() == KILLS
    assert blocks >= CLIENTS
    assert max(sizes) < WINDOW * 6, "what was compacted stays so"
    assert all(len({mark.partition(":")[0] for mark in find_marks(body)}) == 1 for body in bodies)
    check_stored(talks, stored)
    faults = [log[log.index("Traceback") - 500 :][:6_000] for log in logs if "Traceback" in log]
    assert faults == []


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
