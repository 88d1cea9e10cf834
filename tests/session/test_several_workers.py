"""Several workers on one session: each catches up with what the others have written, and goes on by itself."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tenfold.core.record.entry import MessageEntry
from tenfold.core.record.message import get_text
from tenfold.errors import LostRace
from tenfold.session import Session, SessionAddress
from tenfold.session.branches import navigate
from tenfold.session.drive import Answerer
from tenfold.store.sqlite.store import SqliteStore
from tests.engine.making import (
    Telling,
    build_policy,
    get_blocks,
    get_entries,
    make_reply,
    make_user_message,
    make_work,
    open_session,
    reopen_session,
)
from tests.sessions import ROOT
from yardstick.bench.entered import count_entered

MODEL = "gpt-4o"
Item = dict[str, Any]


def get_texts(session: Session) -> list[str]:
    """The texts of every message in the log, on all branches."""
    return [get_text(each.message) for each in get_entries(session) if isinstance(each, MessageEntry)]


def open_workers(count: int, **options: Any) -> list[Session]:  # noqa: ANN401 - those of a session
    address = SessionAddress(SqliteStore(":memory:"), "s")
    return [Session.create(address, build_policy(), **options) for _ in range(count)]


def test_everything_that_writes_goes_on_from_where_another_worker_is() -> None:
    one, two = open_workers(2)
    (first, *_) = one.append(*make_work(12))
    two.pin(first)
    one.add_rule("Write in English.")
    two.conversation.append_custom("note", b"{}")
    assert one.compact(to=900).status == "compacted"
    two.drop_rule("Write in English.")
    assert two.undo() == get_blocks(one)[0].id
    one.append(make_user_message("on"))
    assert one.view.get_messages() == [*make_work(12), make_user_message("on")]
    assert one.view.to_snapshot() == reopen_session(one).view.to_snapshot()


@pytest.mark.parametrize("seed", range(3))
def test_a_conversation_that_any_worker_may_serve_is_in_the_log_as_it_is(seed: int) -> None:
    """Each request is served by one of three workers, its report noted by another, and now and then one is new."""
    choice = random.Random(seed)  # noqa: S311 - a run that can be repeated
    workers = open_workers(3, answerer=Answerer(Telling()), model=MODEL)
    listed: list[Item] = [{"role": "system", "content": "Be careful."}]
    for turn in range(24):
        listed.append({"role": "user", "content": f"question {turn} " + "word " * choice.randrange(200)})
        at = choice.randrange(3)
        if choice.random() < 0.2:
            workers[at] = reopen_session(workers[at])
        sent = workers[at].before_model({"model": MODEL, "messages": listed}, window=3_000)
        tokens = sum(4 + len(item["content"]) // 4 for item in sent["messages"])
        choice.choice(workers).after_model({"usage": {"prompt_tokens": tokens, "completion_tokens": 9}})
        listed.append({"role": "assistant", "content": f"answer {turn}"})
    workers[0].before_model({"model": MODEL, "messages": listed}, window=3_000)
    assert get_texts(workers[0]) == [item["content"] for item in listed]
    assert get_blocks(workers[0])
    assert workers[0].view.get_messages() == reopen_session(workers[0]).view.get_messages()


def test_threads_with_a_session_each_lose_and_double_nothing() -> None:
    workers = open_workers(4)
    problems: list[BaseException] = []

    def work(at: int) -> None:
        try:
            for number in range(40):
                workers[at].append(make_user_message(f"{at}-{number}"))
        except BaseException as exc:  # noqa: BLE001 - it is compared below
            problems.append(exc)

    threads = [threading.Thread(target=work, args=(at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    texts = get_texts(workers[0])
    assert sorted(texts) == sorted(f"{at}-{number}" for at in range(4) for number in range(40))
    for at in range(4):
        own = [text for text in texts if text.startswith(f"{at}-")]
        assert own == [f"{at}-{number}" for number in range(40)]


PROGRAM = """
import sys
from tenfold.compaction.engine.policy import tenfold
from tenfold.core.meter.counters import CharacterCounter
from tenfold.core.record.message import Message, Text
from tenfold.session import Session, SessionAddress
from tenfold.store.sqlite.store import SqliteStore
store = SqliteStore(sys.argv[1])
session = Session.create(SessionAddress(store, "s"), tenfold(CharacterCounter()))
print("ready", flush=True)
sys.stdin.readline()
for number in range(30):
    session.append(Message("user", (Text(f"{sys.argv[2]}-{number}"),), "human"))
store.close()
"""


def test_two_processes_on_one_file_lose_and_double_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "log.db")
    started = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, path, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for name in ("a", "b")
    ]
    for each in started:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    for each in started:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    for each in started:
        each.communicate()
        assert each.returncode == 0
    store = SqliteStore(path)
    session = Session(SessionAddress(store, "s"), build_policy())
    texts = [get_text(message) for message in session.view.get_messages()]
    for name in ("a", "b"):
        assert [text for text in texts if text[0] == name] == [f"{name}-{number}" for number in range(30)]
    assert store.verify("default") == []
    store.close()


def test_catching_up_costs_what_is_new_and_not_what_was_there() -> None:
    entered = []
    for steps in (10, 100):
        one = open_session(make_work(steps))
        two = reopen_session(one)
        one.append(make_user_message("on"))
        two.refresh()
        one.append(make_user_message("and"), make_reply("yes"))
        entered.append(count_entered(two.refresh).total())
        assert two.view.get_messages() == one.view.get_messages()
    assert entered[0] == entered[1]


def test_a_request_that_another_worker_came_before_costs_what_is_new() -> None:
    entered = []
    for steps in (10, 100):
        one = open_session()
        two = reopen_session(one)
        messages = make_work(steps)
        for worker in (one, two, one, two):
            messages = [*messages, make_user_message("go on"), make_reply("yes")]
            worker.sync(messages)
        messages = [*messages, make_user_message("go on"), make_reply("yes")]
        entered.append(count_entered(partial(one.sync, messages)).total())
        assert len(get_entries(one)) == len(messages)
    assert entered[0] == entered[1]


def test_a_block_of_another_worker_is_in_view_after_catching_up() -> None:
    one, two = open_workers(2)
    one.append(*make_work(12))
    two.refresh()
    assert one.compact(to=900).status == "compacted"
    two.append(make_user_message("on"))
    assert two.view.get_messages() == [*one.view.get_messages(), make_user_message("on")]
    assert two.take_reading() == reopen_session(two).take_reading()


def test_a_worker_that_another_one_is_always_before_says_how_often_it_tried() -> None:
    store = AlwaysLate(":memory:")
    session = Session.create(SessionAddress(store, "s"), build_policy())
    with pytest.raises(LostRace, match="in a row"):
        session.append(make_user_message("go"))
    assert 1 < store.tries < 1_000


class AlwaysLate(SqliteStore):
    """A store in which somebody else always writes just before."""

    tries = 0

    def append(self, *_: Any, **__: Any) -> None:  # noqa: ANN401 - whatever a store is given
        self.tries += 1
        raise LostRace("another writer moved it")


@pytest.mark.parametrize("what", ["pin", "undo", "rule"])
def test_who_went_to_another_place_stays_there(what: str) -> None:
    session = open_session(make_work(12))
    session.compact(to=900)
    block = session.leaf
    session.append(make_user_message("next"), make_reply("yes"))
    assert block is not None
    assert navigate(session, block).status == "moved"
    if what == "undo":
        assert session.undo() == block
        assert session.view.get_messages() == make_work(12)
        return
    session.add_rule("Be brief.") if what == "rule" else session.pin(session.view.path.get_entry(0).id)
    if what == "rule":
        session.drop_rule("Be brief.")
    session.append(make_user_message("otherwise"))
    assert make_user_message("next") not in session.view.get_messages()
    assert reopen_session(session).view.get_messages() == session.view.get_messages()


def test_who_went_to_another_place_writes_nothing_where_another_worker_went_on() -> None:
    session = open_session([make_user_message("go"), make_reply("yes"), make_user_message("on"), make_reply("no")])
    other = reopen_session(session)
    assert navigate(session, session.view.path.get_entry(1).id).status == "moved"
    other.append(make_user_message("meanwhile"))
    with pytest.raises(LostRace, match="open the session again"):
        session.append(make_user_message("otherwise"))
    assert "otherwise" not in get_texts(session)


def test_workers_that_are_asked_the_same_at_once_append_it_once() -> None:
    workers = open_workers(2, answerer=Answerer(Telling()), model=MODEL)
    listed: list[Item] = []
    problems: list[BaseException] = []

    def ask(worker: Session) -> None:
        try:
            worker.before_model({"model": MODEL, "messages": list(listed)}, window=4_000)
        except BaseException as exc:  # noqa: BLE001 - it is compared below
            problems.append(exc)

    for turn in range(12):
        listed.append({"role": "user", "content": f"question {turn} " + "word " * 300})
        threads = [threading.Thread(target=ask, args=(worker,)) for worker in workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        listed.append({"role": "assistant", "content": f"answer {turn}"})
    assert problems == []
    assert get_texts(workers[0]) == [item["content"] for item in listed[:-1]]
    assert get_blocks(workers[0])
    assert workers[0].refresh().get_messages() == workers[1].refresh().get_messages()
    assert workers[0].address.store.verify("default") == []
