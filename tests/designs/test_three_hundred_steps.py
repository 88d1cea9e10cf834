"""Three hundred steps of every design in three windows, with the official clients and a summary model that fails.

The server refuses what a real provider refuses, by rules and a count of its own; the summary model fails for a third
of the way, in ten ways, and then recovers.
"""

from __future__ import annotations

import asyncio
from pathlib import Path as FilePath

import pytest
from msgspec.structs import replace

from tenfold.compaction.engine.model_breaker import MODEL_RUNGS
from tenfold.compaction.engine.policy import Policy
from tenfold.config.settings import build_policy
from tenfold.core.meter.counters import choose_counter
from tenfold.core.record.block import Block
from tenfold.core.record.entry import Attempt, get_message
from tenfold.core.wire import WIRES, to_json_bytes
from tenfold.models.provider import ProviderModel
from tenfold.models.retry import RetryRule
from tenfold.session import AsyncSession, Session, SessionAddress
from tenfold.session.drive import Answerer
from tenfold.store.sqlite.store import SqliteStore
from tests.designs.failing_writer import (
    GARBAGE,
    RULE,
    STEPS,
    STEPS_OF_TASK,
    TASKS,
    WRITER,
    TaskProvider,
    iterate_results,
)
from tests.designs.hosts import HOSTS, Host, awork, work
from tests.models.conftest import keys
from tests.models.loopback import get_base_url
from tests.thorough import IS_THOROUGH

__all__ = ["keys"]
SMALL, MIDDLE, LARGE = WINDOWS = (8_000, 32_000, 200_000)
SIZES = {SMALL: 1_200, MIDDLE: 3_000, LARGE: 9_000}
"""Characters of a tool's result, of which three are about a token; some have three times as many."""
OWN, GIVEN, OWN_ASYNC, GIVEN_ASYNC = ("own list", "list given back", "own list, async", "list given back, async")
PAIRS = {
    "tail": (("chat", OWN), ("responses", GIVEN), ("anthropic", OWN_ASYNC)),
    "tiers": (("responses", GIVEN_ASYNC), ("anthropic", OWN), ("chat", GIVEN)),
    "blocks": (("anthropic", OWN), ("responses", OWN_ASYNC), ("chat", GIVEN_ASYNC)),
    "threshold": (("anthropic", GIVEN_ASYNC), ("chat", OWN), ("responses", GIVEN)),
    "clip": (("responses", OWN), ("chat", GIVEN), ("anthropic", GIVEN)),
    "sliding": (("chat", OWN_ASYNC), ("anthropic", GIVEN), ("responses", OWN)),
    "tenfold": (("anthropic", OWN_ASYNC), ("responses", GIVEN_ASYNC), ("chat", OWN)),
}
"""The client and the form of each policy's run in each window."""
RUNS = tuple((policy, w, *pair) for policy, pairs in PAIRS.items() for w, pair in zip(WINDOWS, pairs, strict=True))
SHORT = {("tail", LARGE), ("tiers", SMALL), ("blocks", SMALL), ("threshold", MIDDLE), ("clip", MIDDLE)}
TAKEN = tuple(run for run in RUNS if IS_THOROUGH or run[:2] in SHORT)
"""All of them, or one of each published design, of which `make test` takes every second one.

A run takes 5 to 25 s of a core, most of it in client and server.
"""
UNASKED = {("tiers", LARGE), ("tenfold", LARGE)}
"""Where what can be done without a model is enough: there nearly all of the conversation is results of tools."""
AT_ONCE = RetryRule(sleep=lambda _: None, async_sleep=lambda _: asyncio.sleep(0))


def open_log(file: FilePath, provider: TaskProvider, policy: str) -> Session:
    """A session in a file. Its policy waits for a summary only a moment as long as the model fails."""
    given = build_policy(policy, choose_counter("claude").counter)
    impatient = replace(given, summary=replace(given.summary, timeout=1.0))

    def get_policy() -> Policy:
        return impatient if provider.is_failing else given

    answerer = Answerer(model=ProviderModel(WRITER, base_url=get_base_url(WRITER, provider)), retry_rule=AT_ONCE)
    return Session.create(SessionAddress(SqliteStore(str(file)), "s"), get_policy, answerer=answerer)


def assert_nothing_lost(log: Session, host: Host) -> None:
    """What was said is in the log byte for byte, and all of it is in view or behind a Block in force."""
    path = log.view.path
    messages = {p: m for p in range(path.length) if (m := get_message(path.get_entry(p))) is not None}
    encoded = WIRES[host.wire].encode(list(messages.values()))
    assert [item.raw for item in encoded.items] == [to_json_bytes(item) for item in host.said]
    reached = {shown.original_position for shown in log.view.get_visible_messages() if shown.is_original}
    for block in log.view.state.live_blocks:
        expanded = log.expand(path.get_entry(block).id, deep=True)
        assert {each.position: each.message for each in expanded}.items() <= messages.items()
        reached |= {each.position for each in expanded}
    assert reached == set(messages)


def assert_model_came_back(log: Session, provider: TaskProvider) -> None:
    """The summary model failed, was asked again after it had recovered, and wrote the newest text."""
    path = log.view.path
    entries = [path.get_entry(p) for p in range(path.length)]
    asked = [entry for entry in entries if isinstance(entry, Block | Attempt) and entry.spent.calls]
    usable = [isinstance(entry, Block) and entry.rung in MODEL_RUNGS for entry in asked]
    assert provider.failed
    assert provider.good
    assert usable[-1]


@pytest.mark.costly(4)
@pytest.mark.parametrize(("policy", "window", "client", "form"), TAKEN)
def test_three_hundred_steps(policy: str, window: int, client: str, form: str, tmp_path: FilePath) -> None:
    file = tmp_path / "log.db"
    host = HOSTS[client](keeps_own=form.startswith("own"))
    with TaskProvider(window) as provider:
        log = open_log(file, provider, policy)
        results = iterate_results(SIZES[window])
        if form.endswith("async"):
            asyncio.run(awork(host, AsyncSession(log), provider.url, window, TASKS, results))
        else:
            work(host, log, provider.url, window, TASKS, results)
        newest = provider.newest_prompt
        assert [refused.message for _, refused in provider.refused] == []
        assert provider.overflows == 0
    assert provider.done == STEPS
    assert len(provider.sizes) == STEPS + len(TASKS)
    assert provider.told > 3 * window
    assert provider.forgotten == []
    assert RULE in newest
    assert TASKS[-1] in newest
    assert GARBAGE not in newest
    opened = Session(SessionAddress(SqliteStore(str(file)), "s"), log.policy)
    assert opened.view.get_messages() == log.view.get_messages()
    assert_nothing_lost(opened, host)
    if (policy, window) not in UNASKED:
        assert_model_came_back(opened, provider)


@pytest.mark.parametrize(("policy", "client"), [("tail", "chat"), ("clip", "anthropic"), ("threshold", "responses")])
def test_a_host_that_is_refused_compacts_and_goes_on(policy: str, client: str, tmp_path: FilePath) -> None:
    """The model takes less than the program was told: each refusal is answered by a compaction and a request."""
    file = tmp_path / "log.db"
    host = HOSTS[client](keeps_own=True)
    with TaskProvider(SMALL * 3 // 4) as provider:
        log = open_log(file, provider, policy)
        work(host, log, provider.url, SMALL, TASKS[:2], iterate_results(SIZES[SMALL]))
        assert [refused.message for _, refused in provider.refused] == []
        assert provider.overflows
        assert provider.done == 2 * STEPS_OF_TASK
        assert len(provider.sizes) == provider.done + 2
    assert_nothing_lost(log, host)


def test_a_summary_model_is_sent_what_its_own_window_takes(tmp_path: FilePath) -> None:
    """Its window is smaller than the agent's, and known by its name alone."""
    host = HOSTS["anthropic"](keeps_own=False)
    with TaskProvider(LARGE) as provider:
        log = open_log(tmp_path / "log.db", provider, "threshold")
        work(host, log, provider.url, LARGE, TASKS[:2], iterate_results(SIZES[LARGE]))
        assert provider.failed, "it was asked"
        assert [refused.message for _, refused in provider.refused] == []
        assert provider.overflows == 0
