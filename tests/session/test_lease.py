"""Of several processes one has a model write for a session. Nobody waits for it, least of all when it has died."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

from tenfold.session import Session
from tenfold.session.compactor import LEASE_SECONDS
from tenfold.session.drive import Answerer
from tenfold.store.base import DEFAULT_NAMESPACE, SessionInfo, Store
from tenfold.store.ids import get_current_time
from tests.engine.making import open_session
from tests.session.test_preparing import WAIT, Waiting, build_request, build_window_case, build_writing_policy
from tests.stores import STORES, open_test_store

POLICY = replace(build_writing_policy(), can_prepare=False)


def open_workers(first: Waiting, second: Waiting) -> tuple[Session, Session]:
    """Two workers on one session, each with a model of its own."""
    one = open_session([], POLICY, answerer=Answerer(first))
    return one, Session(one.address, POLICY, answerer=Answerer(second))


def test_one_worker_asks_and_the_other_goes_on_without_waiting() -> None:
    (window, *_), over = build_window_case(), build_request(45)
    busy, idle = Waiting(is_let=False), Waiting()
    one, two = open_workers(busy, idle)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(one.before_model, over, window=window)
        while not busy.asked:
            assert not running.done()
        assert two.before_model(over, window=window)["messages"] == over["messages"]
        assert two.outcome is not None
        assert two.outcome.reason.startswith("another process is compacting this session; ")
        busy.let.set()
        assert len(running.result(WAIT)["messages"]) < len(over["messages"])
    assert idle.asked == []
    assert len(two.before_model(over, window=window)["messages"]) < len(over["messages"]), "it sees the other's Block"
    assert idle.asked == []


def test_what_may_not_fit_is_compacted_by_code_meanwhile() -> None:
    window, _, over = build_window_case()
    tight = int(window * 0.8)
    busy, idle = Waiting(is_let=False), Waiting()
    one, two = open_workers(busy, idle)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(one.before_model, over, window=window)
        while not busy.asked:
            assert not running.done()
        assert len(two.before_model(over, window=tight)["messages"]) < len(over["messages"])
        busy.let.set()
        running.result(WAIT)
    assert idle.asked == []
    assert one.outcome is not None
    assert one.outcome.status == "superseded"


def test_a_worker_that_died_is_waited_for_no_longer_than_its_lease() -> None:
    window, _, over = build_window_case()
    model = Waiting()
    _, two = open_workers(Waiting(), model)
    address, now = two.address, get_current_time()
    dead = (address.namespace, address.session, address.head, "a process that died")
    assert address.store.take_lease(*dead, now=now - LEASE_SECONDS * 1_000_000, until=now - 1)
    assert len(two.before_model(over, window=window)["messages"]) < len(over["messages"])
    assert len(model.asked) == 1


def test_a_lease_is_given_back_when_the_work_is_done_or_fails() -> None:
    window, _, over = build_window_case()
    for model in (Waiting(), Waiting(error="the provider is down")):
        session, _ = open_workers(model, Waiting())
        session.before_model(over, window=window)
        address, now = session.address, get_current_time()
        names = (address.namespace, address.session, address.head, "another")
        assert model.asked
        assert address.store.take_lease(*names, now=now, until=now + 1)


@pytest.mark.parametrize("kind", STORES)
def test_only_one_of_many_takes_a_lease(kind: str, tmp_path: Path) -> None:
    with open_test_store(kind, tmp_path) as store:
        check_leases(store)


def check_leases(store: Store) -> None:
    """What a store promises of leases."""
    store.create(DEFAULT_NAMESPACE, SessionInfo("s"))
    place = (DEFAULT_NAMESPACE, "s", "main")
    barrier = threading.Barrier(8)

    def take(number: int) -> bool:
        barrier.wait()
        return store.take_lease(*place, f"worker {number}", now=100, until=200)

    with ThreadPoolExecutor(8) as pool:
        taken = [number for number, has in enumerate(pool.map(take, range(8))) if has]
    assert len(taken) == 1
    holder = f"worker {taken[0]}"
    assert store.take_lease(*place, holder, now=150, until=300), "the holder may lengthen it"
    assert not store.take_lease(*place, "late", now=299, until=400)
    store.drop_lease(*place, "late")
    assert not store.take_lease(*place, "late", now=299, until=400), "nobody drops another's"
    assert store.take_lease(*place, "late", now=300, until=400), "it has run out"
    store.drop_lease(*place, "late")
    assert store.take_lease(*place, holder, now=301, until=400)
    assert store.take_lease(DEFAULT_NAMESPACE, "s", "other head", "late", now=301, until=400)
