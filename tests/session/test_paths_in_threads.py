"""What belongs to one path: its loader and its caches, read by a thread while another one goes on elsewhere."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tenfold.core.meter.counters import measure_messages
from tenfold.core.meter.reading import TokenCache
from tenfold.core.record.block import Block
from tenfold.core.view.path import Path
from tenfold.core.view.units import build_original
from tenfold.session import Session, SessionAddress
from tenfold.session.drive import Answerer, run_engine
from tenfold.store.base import SessionInfo
from tenfold.store.sqlite.store import SqliteStore
from tests.engine.making import (
    COUNTER,
    Telling,
    build_path,
    build_policy,
    get_blocks,
    get_entries,
    make_reply,
    make_user_message,
    make_work,
    open_session,
    reopen_session,
)

ROUNDS = 400


@contextmanager
def switch_often() -> Iterator[None]:
    """Lets threads take turns as often as they can, so that what is not safe shows within the run."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def run_beside(work: Callable[[], object], rounds: Callable[[], object]) -> None:
    """Runs `work` on a thread again and again until `rounds` has ended here."""
    is_over = threading.Event()
    problems: list[BaseException] = []

    def repeat() -> None:
        try:
            while not is_over.is_set():
                work()
        except BaseException as exc:  # noqa: BLE001 - it is raised below
            problems.append(exc)

    thread = threading.Thread(target=repeat)
    with switch_often():
        thread.start()
        try:
            rounds()
        finally:
            is_over.set()
            thread.join()
    assert problems == []


def test_a_token_cache_is_forked_while_a_compaction_measures_with_it() -> None:
    cache = TokenCache(COUNTER)
    shown = [build_original(position, make_user_message(str(position))) for position in range(20_000)]
    cache.measure(shown[:10_000])
    numbers = iter(range(10_000, 20_000))

    def measure() -> None:
        at = next(numbers, 0)
        cache.measure(shown[at : at + 1])

    run_beside(measure, lambda: [cache.fork(10_000) for _ in range(ROUNDS // 8)])
    assert sum(cache.fork(1).measure(shown[:1])) == sum(cache.measure(shown[:1]))


def test_a_path_is_forked_while_another_thread_loads_its_entries() -> None:
    whole = build_path([make_user_message(str(number)) for number in range(20_000)])
    path = Path(length=whole.length, load=whole.get_entries)
    path.get_entries(0, 9_999)
    numbers = iter(range(10_000, 20_000))
    run_beside(lambda: path.get_entry(next(numbers, 0)), lambda: [path.fork(10_000) for _ in range(ROUNDS // 8)])
    assert path.fork(3).get_entries(0, 2) == whole.get_entries(0, 2)


def test_a_view_reads_its_own_branch_after_the_head_was_moved_to_another_one() -> None:
    """It was opened from a snapshot, so that what the Block covers is read from the store when it is asked for."""
    address = SessionAddress(SqliteStore(":memory:"), "s")
    mine = Session.create(address, build_policy())
    mine.append(*make_work(12))
    assert mine.compact(to=900).status == "compacted"
    entries = get_entries(mine)
    reader = Session(address, build_policy())
    old = reader.view
    other = Session(address, build_policy())
    other.sync([make_work(1)[0], make_reply("another answer"), make_user_message("and on"), *make_work(12, start=40)])
    reader.refresh()
    assert reader.view.path.get_entry(1) != entries[1]
    assert old.path.get_entries(0, len(entries) - 1) == entries


def test_a_new_head_of_a_session_that_had_a_purge_compacts() -> None:
    store = SqliteStore(":memory:")
    first = Session.create(SessionAddress(store, "s"), build_policy())
    gone, *_ = first.append(make_user_message("a word to forget"))
    store.purge("default", "s", gone, now=1)
    head = Session(SessionAddress(store, "s", head="other"), build_policy())
    head.append(*make_work(12))
    assert head.compact(to=900).status == "compacted"


@pytest.mark.parametrize("purges", [0, 1, 3])
def test_an_unknown_head_knows_how_many_purges_there_were(purges: int) -> None:
    store = SqliteStore(":memory:")
    store.create("default", SessionInfo("s"))
    session = Session(SessionAddress(store, "s"), build_policy())
    for entry in session.append(*make_work(1))[:purges]:
        store.purge("default", "s", entry, now=1)
    assert store.open("default", "s", "unknown").purges == purges


def test_what_was_planned_before_a_rewind_is_not_measured_with_the_new_branch() -> None:
    """A model writes while the host goes back and on with much larger messages: their sizes are their own."""
    session = open_session(make_work(12), answerer=Answerer(Telling()))
    compactor = session.compactor
    effects, planned = compactor.get_effects(session.compactor.build_call(to=900))
    result = run_engine(effects, session.compactor.answerer)
    assert result.outcome.status == "compacted"
    first = make_work(12)[0]
    large = [make_reply("x" * 40_000), *(make_user_message(f"{number} " + "y" * 4_000) for number in range(40))]
    session.sync([first, *large])
    outcome = compactor.apply_result(result, planned)
    assert outcome.status == "superseded"
    assert outcome.reading_before is not None
    assert outcome.reading_before.estimate == sum(measure_messages(make_work(12), COUNTER))
    counted = sum(measure_messages([first, *large], COUNTER))
    assert session.take_reading().estimate == counted
    session.append(make_user_message("on"))
    assert reopen_session(session).take_reading().estimate == session.take_reading().estimate > counted


@pytest.mark.parametrize(("to", "status"), [(2_500, "superseded"), (9_000, "compacted")])
def test_a_block_planned_before_a_rewind_covers_nothing_that_it_was_not_made_of(to: int, status: str) -> None:
    """The new branch has other messages where the Block's range ends, or begins behind it: then it still fits."""
    session = open_session(make_work(12), answerer=Answerer(Telling()))
    whole = make_work(12)
    session.sync([*whole, make_user_message("more"), make_reply("z" * 20_000), make_user_message("and")])
    effects, planned = session.compactor.get_effects(session.compactor.build_call(to=to))
    result = run_engine(effects, session.compactor.answerer)
    assert isinstance(result.entry, Block)
    session.sync([*whole, make_user_message("less")])
    session.append(make_reply("yes"), make_user_message("on"))
    assert session.compactor.apply_result(result, planned).status == status
    assert session.view.get_messages()[-2:] == [make_reply("yes"), make_user_message("on")]
    reading = session.take_reading()
    assert reading.estimate == sum(measure_messages(session.view.get_messages(), COUNTER))
    assert [block.provider_tokens and block.provider_tokens[1] for block in get_blocks(session)] in (
        [],
        [reading.tokens],
    )
