"""What all adapters stand on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tenfold.apps.adapters.host_sessions import HostSessions
from tenfold.errors import UsageError
from tests.adapters.watched_store import HeldLock, WatchedStore

Item = dict[str, Any]


class Plain:
    """A framework whose messages are a provider's."""

    wire = "openai-chat"

    def read(self, message: Item) -> list[Item]:
        return [message]

    def build(self, messages: Sequence[Mapping[str, Any]]) -> list[Item]:
        return [dict(message) for message in messages]


def build_sessions(path: Path, **options: object) -> HostSessions[Item]:
    return HostSessions(Plain(), {"store": path / "s.db", **options})  # type: ignore[typeddict-item]


def ask(text: str) -> list[Item]:
    return [{"role": "user", "content": text}]


def test_conversations_without_an_id_share_nothing(tmp_path: Path) -> None:
    sessions = build_sessions(tmp_path)
    first = sessions.get()
    first.fit(ask("My account is 7731."), model="gpt-4o")
    first.keep_answer([{"role": "assistant", "content": "Noted."}])
    sent = sessions.get().fit(ask("Which account is mine?"), model="gpt-4o").messages
    assert sent == ask("Which account is mine?")


def test_a_task_told_again_to_a_new_process_goes_on(tmp_path: Path) -> None:
    first = build_sessions(tmp_path).get("one")
    first.fit(ask("Go on."), model="gpt-4o")
    first.keep_answer([{"role": "assistant", "content": "Belt 3 is fine."}])
    sent = build_sessions(tmp_path).get("one").fit(ask("Go on."), model="gpt-4o").messages
    assert [message["content"] for message in sent] == ["Go on.", "Belt 3 is fine.", "Go on."]


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_second_worker_goes_on_with_a_host_that_has_lost_its_list(tmp_path: Path, *, is_kept: bool) -> None:
    """It took the list for a rewrite of the conversation, and showed nothing else."""
    old, answer = build_sessions(tmp_path).get("one"), {"role": "assistant", "content": "It is 7731."}
    old.fit(ask("My account is 7731."), model="gpt-4o")
    old.keep_answer([{"role": "assistant", "content": "Noted."}])
    first, second = (build_sessions(tmp_path).get("one") for _ in range(2))
    first.fit(ask("Which account is mine?"), model="gpt-4o")
    if is_kept:
        first.keep_answer([answer])
    listed = [*ask("Which account is mine?"), answer, *ask("And my name?")]
    sent = second.fit(listed, model="gpt-4o").messages
    said = ["My account is 7731.", "Noted.", "Which account is mine?", "It is 7731.", "And my name?"]
    assert [message["content"] for message in sent] == said
    listed += [{"role": "assistant", "content": "I do not know."}, *ask("It is Ann.")]
    for worker in (first, old, second):
        shown = worker.fit(listed, model="gpt-4o").messages
        assert [message["content"] for message in shown] == [*said, "I do not know.", "It is Ann."]


def test_a_second_worker_goes_on_behind_what_was_compacted(tmp_path: Path) -> None:
    old, history = build_sessions(tmp_path, window=8_000).get("one"), ask("My account is 7731.")
    for number in range(20):
        history += [{"role": "assistant", "content": f"Belt {number} runs. " * 200}, *ask(f"And belt {number + 1}?")]
        old.fit(history, model="gpt-4o")
    first, second = (build_sessions(tmp_path, window=8_000).get("one") for _ in range(2))
    listed = ask("Which account is mine?")
    first.fit(listed, model="gpt-4o")
    listed += [{"role": "assistant", "content": "It is 7731."}, *ask("And my name?")]
    shown = second.fit(listed, model="gpt-4o").messages
    assert shown[-3:] == listed
    assert "7731" in str(shown[:-3])
    assert "tenfold-summary" in str(shown[:-3])


def test_a_host_that_rewinds_in_the_same_process_is_followed(tmp_path: Path) -> None:
    host = build_sessions(tmp_path).get("one")
    host.fit(ask("Go on."), model="gpt-4o")
    host.keep_answer([{"role": "assistant", "content": "Belt 3 is fine."}])
    assert host.fit(ask("Go on."), model="gpt-4o").messages == ask("Go on.")


def test_a_host_that_writes_the_time_into_its_first_message_keeps_the_summary(tmp_path: Path) -> None:
    """Its whole list was sent again, and compacted again with each request."""
    host, history, compactions = build_sessions(tmp_path, window=8_000).get("one"), [*ask("It is noon."), *ask("")], 0
    for number in range(30):
        history[0] = ask(f"Count the belts. It is 10:{number:02}.")[0]
        history[-1:] = [{"role": "assistant", "content": f"Belt {number} runs. " * 200}, *ask(f"And {number + 1}?")]
        before = host.session.view.find_newest_block()
        shown = host.fit(history, model="gpt-4o").messages
        assert (shown[0], shown[-1]) == (history[0], history[-1])
        newest = host.session.view.find_newest_block()
        compactions += newest is not None and (before is None or newest.time > before.time)
    assert 3 < compactions < 10


def test_a_session_is_opened_in_no_event_loop(tmp_path: Path) -> None:
    store = WatchedStore(tmp_path / "w.db")

    async def ask_host() -> list[Item]:
        host = build_sessions(tmp_path, store=store).get("one")
        return (await host.afit(ask("Go on."), model="gpt-4o")).messages

    assert asyncio.run(ask_host()) == ask("Go on.")
    assert store.askers
    assert threading.get_ident() not in store.askers


def test_the_loop_turns_while_another_thread_holds_the_session(tmp_path: Path) -> None:
    """Also where a request is fitted by force, and where a report or an answer is kept."""
    host = build_sessions(tmp_path, window=8_000).get("one")
    history = ask("Count the belts.")
    for number in range(4):
        history += [{"role": "assistant", "content": f"Belt {number} runs. " * 100}, *ask(f"And {number + 1}?")]

    async def work() -> None:
        async with HeldLock(host.session):
            await host.afit(history, model="gpt-4o")
        async with HeldLock(host.session):
            await host.afit(history, model="gpt-4o", to=500)
        async with HeldLock(host.session):
            await host.areport_usage(900, 10)
        async with HeldLock(host.session):
            await host.akeep_answer([{"role": "assistant", "content": "All of them run."}])
        async with HeldLock(host.session):
            await host.ashrink(ValueError("maximum context length is 400 tokens"))

    asyncio.run(work())
    assert host.session.take_reading().source == "calibrated"
    assert "All of them run." in str(host.session.view.get_messages())


def test_a_wrong_option_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no option 'windows'"):
        build_sessions(tmp_path, windows=8_000)
