"""The in-memory mode of `blocks` with its hooks, events and strategies, and a counter of one's own."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import tenfold
from tenfold.core.record.message import Message, Text, get_text, get_tool_result
from tenfold.core.view.rules import check_messages
from tenfold.designs.blocks import (
    CompactionConfig,
    CompactionEnded,
    CompactionStarted,
    CompactionStrategy,
    ContextConfig,
    DefaultCompaction,
    TokenCounter,
    build_policy,
    compact_in_memory,
    should_compact,
)
from tenfold.designs.blocks.policy import blocks
from tenfold.session import Session
from tests.designs.blocks.making import (
    COUNTER,
    FILLER,
    HookRecorder,
    count_tokens,
    count_view_tokens,
    get_newest_block,
    make_reply,
    make_session,
    make_turn,
    make_user_message,
)
from tests.laws import conversations
from tests.laws.nearby import WIRES
from tests.laws.strategies import ENGINE, Log

FULL = [make_user_message("go"), *(make_reply(f"note {n}: {FILLER * 20}") for n in range(180))]
"""A list of 85,000 tokens by characters."""
DEFAULT = ContextConfig(token_counter=COUNTER)


class Halves:
    """Keeps the later half."""

    def compact(self, messages: Sequence[Message], config: ContextConfig) -> list[Message]:  # noqa: ARG002 - the protocol's
        return list(messages[len(messages) // 2 :])


class Empty:
    """Returns no list."""

    def compact(self, messages: Sequence[Message], config: ContextConfig) -> list[Message]:  # noqa: ARG002 - the protocol's
        return None  # type: ignore[return-value]


class Rows(Halves):
    """Returns a list of something else."""

    def compact(self, messages: Sequence[Message], config: ContextConfig) -> list[Message]:
        return [{"role": m.role} for m in super().compact(messages, config)]  # type: ignore[misc]


class Raises:
    """Has no result."""

    def compact(self, messages: Sequence[Message], config: ContextConfig) -> list[Message]:
        raise RuntimeError(f"no room for {len(messages)} in {config.max_context_tokens}")


@pytest.mark.parametrize("strategy", [None, Halves()])
def test_hooks_and_events_stand_around_the_in_memory_mode(strategy: CompactionStrategy | None) -> None:
    assert 81_000 <= count_tokens(FULL) < 96_000
    hooks = HookRecorder()
    made = compact_in_memory(
        FULL,
        replace(DEFAULT, compaction=CompactionConfig(in_memory_strategy=strategy)),
        loop_id="run-1",
        before_compaction_start=hooks.record_before,
        after_compaction_end=hooks.record_after,
        sender=hooks.heard.append,
    )
    before, after = count_tokens(FULL), count_tokens(made)
    assert after < before * 6 // 10
    first, started, ended, last = hooks.heard
    assert first == ("before", before, len(FULL))
    assert isinstance(started, CompactionStarted)
    assert (started.loop_id, started.estimated_tokens, started.message_count) == ("run-1", before, len(FULL))
    assert isinstance(ended, CompactionEnded)
    assert (ended.messages_before, ended.messages_after) == (len(FULL), len(made))
    assert (ended.estimated_tokens_before, ended.estimated_tokens_after) == (before, after)
    assert (ended.loop_id, ended.loops_compacted) == ("run-1", 0)
    assert ended.timestamp >= started.timestamp > 0
    assert last == ("after", len(FULL), len(made), before, after)


def test_what_fires_in_memory_also_compacts_and_what_does_not_fire_is_quiet() -> None:
    heard: list[object] = []
    made = compact_in_memory(FULL, DEFAULT, sender=heard.append)
    assert count_tokens(made) <= 40_000
    assert not should_compact(count_tokens(made), DEFAULT)
    assert compact_in_memory(made, DEFAULT, before_compaction_start=lambda *_: False, sender=heard.append) == made
    assert [type(e).__name__ for e in heard] == ["CompactionStarted", "CompactionEnded"]
    own = replace(DEFAULT, compaction=CompactionConfig(in_memory_strategy=Halves()))
    assert compact_in_memory(made, own, sender=heard.append) == made, "the same for a strategy of one's own"
    assert compact_in_memory(FULL, None, sender=heard.append) == FULL, "without a configuration compaction is off"
    assert len(heard) == 2


def test_in_a_small_window_more_is_left_than_nothing() -> None:
    """The assumed system prompt of 4,000 tokens would take all of it; the trigger takes it for a quarter."""
    small = replace(DEFAULT, max_context_tokens=4_000)
    made = compact_in_memory(FULL, small)
    assert 1_000 < count_tokens(made) <= 1_600


class Clears(Halves):
    """Shortens the list that it is given."""

    def compact(self, messages: Sequence[Message], config: ContextConfig) -> list[Message]:  # noqa: ARG002 - the protocol's
        assert isinstance(messages, list)
        del messages[10:]
        return messages


def test_a_strategy_is_given_a_copy() -> None:
    given = list(FULL)
    config = replace(DEFAULT, compaction=CompactionConfig(in_memory_strategy=Clears()))
    assert compact_in_memory(given, config) == FULL[:10]
    assert given == FULL


@pytest.mark.parametrize("how", ["plain", "coroutine"])
def test_a_before_hook_that_says_false_leaves_the_list_as_it_is(how: str) -> None:
    async def refuse_slowly(_tokens: int, _messages: int) -> bool:
        await asyncio.sleep(0)
        return False

    hook = (lambda _tokens, _messages: False) if how == "plain" else refuse_slowly
    heard: list[object] = []
    made = compact_in_memory(
        FULL,
        DEFAULT,
        before_compaction_start=hook,
        after_compaction_end=lambda *_: heard.append(_),
        sender=heard.append,
    )
    assert (made, heard) == (FULL, [])


def test_what_raises_in_memory_is_logged_and_the_levels_stand_in(caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: int) -> bool:
        raise RuntimeError("no index")

    heard: list[object] = []
    config = replace(DEFAULT, compaction=CompactionConfig(in_memory_strategy=Raises()))
    with caplog.at_level(logging.WARNING, logger="tenfold"):
        made = compact_in_memory(
            FULL,
            config,
            before_compaction_start=fail,
            after_compaction_end=fail,  # type: ignore[arg-type]
            sender=heard.append,
        )
    assert count_tokens(made) <= 40_000
    assert [type(e).__name__ for e in heard] == ["CompactionStarted", "CompactionEnded"]
    said = " ".join(caplog.messages)
    assert "before_compaction_start: it raised RuntimeError: no index" in said
    assert "after_compaction_end: it raised RuntimeError: no index" in said
    assert "in_memory_strategy: it raised RuntimeError: no room for" in said


@pytest.mark.parametrize(
    ("strategy", "problem"),
    [
        (Raises(), "it raised RuntimeError: no room for"),
        (Empty(), "it gave a NoneType; give a list of Message"),
        (Rows(), "it gave a list; give a list of Message"),
    ],
)
def test_a_strategy_of_no_use_in_a_plan_is_logged(
    strategy: CompactionStrategy, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    config = replace(DEFAULT, compaction=CompactionConfig(in_memory_strategy=strategy))
    with caplog.at_level(logging.WARNING, logger="tenfold"):
        made = tenfold.compact(make_rows(FULL), to=count_tokens(FULL) // 10, policy=build_policy(config, COUNTER))
        assert made.outcome.status == "compacted"
        assert f"in_memory_strategy: {problem}" in " ".join(caplog.messages)
        caplog.clear()
        assert count_tokens(compact_in_memory(FULL, config)) <= 40_000
        assert f"in_memory_strategy: {problem}" in " ".join(caplog.messages)


def make_rows(messages: Sequence[Message]) -> list[dict[str, str]]:
    return [{"role": m.role, "content": get_text(m)} for m in messages]


def test_the_configured_in_memory_strategy_shortens_plain_lists() -> None:
    config = replace(DEFAULT, compaction=CompactionConfig(in_memory_strategy=Halves()))
    rows = make_rows(FULL)
    made = tenfold.compact(rows, to=count_tokens(FULL) * 6 // 10, policy=build_policy(config, COUNTER))
    assert made.outcome.status == "compacted"
    shown = json.dumps(made.messages)
    assert "note 120:" in shown
    assert "note 50:" not in shown
    assert "[Context compacted" not in shown, "the levels were not needed"
    assert all(any(m is row for row in rows) for m in made.messages if "note " in str(m["content"])[:5])
    deeper = tenfold.compact(rows, to=count_tokens(FULL) // 10, policy=build_policy(config, COUNTER))
    assert "[Context compacted" in json.dumps(deeper.messages), "they go on where the strategy stops"


def test_both_strategies_of_a_configuration_are_in_its_policy() -> None:
    own = CompactionConfig(in_memory_strategy=Halves())
    policy = build_policy(ContextConfig(compaction=own), COUNTER)
    assert [s.name for s in policy.in_memory_stages] == ["in-memory", "cut-outputs", "earlier-lines", "drop-between"]
    assert policy.stages == blocks(COUNTER).stages
    named = ContextConfig(compaction=CompactionConfig(in_memory_strategy=DefaultCompaction()))
    assert build_policy(named, COUNTER) == build_policy(ContextConfig(), COUNTER), "naming the default is naming none"


class Cuts:
    """Shortens the outputs and adds a note."""

    def compact(self, messages: Sequence[Message], config: ContextConfig) -> list[Message]:
        out = [Message("user", (Text("Some of this is left out."),), "human")]
        for message in messages:
            result = get_tool_result(message)
            if result is None:
                out.append(message)
            else:
                content = (Text(get_text(message)[: config.tool_output_max_lines]),)
                out.append(replace(message, parts=(replace(result, content=content),)))
        return out


class Thirds(Cuts):
    """The same, and leaves out every third message: calls without results, results without calls."""

    def compact(self, messages: Sequence[Message], config: ContextConfig) -> list[Message]:
        return [m for n, m in enumerate(super().compact(messages, config)) if n % 3]


@ENGINE
@given(log=conversations.long_logs(), percent=st.integers(5, 90), which=st.sampled_from((Halves, Cuts, Thirds, Raises)))
def test_an_in_memory_strategy_runs_under_the_laws(log: Log, percent: int, which: type[CompactionStrategy]) -> None:
    config = ContextConfig(token_counter=COUNTER, compaction=CompactionConfig(in_memory_strategy=which()))
    policy = build_policy(config, COUNTER)
    session = conversations.open_session(log, replace(policy, stages=policy.in_memory_stages))
    outcome = session.compact(to=max(1, count_view_tokens(session) * percent // 100))
    if outcome.status == "compacted":
        assert outcome.tokens_after == count_view_tokens(session) < outcome.tokens_before
        assert outcome.tokens_after <= outcome.target or outcome.target_missed
    for wire in WIRES:
        assert check_messages(session.view.get_messages(), wire) == []


def test_what_an_in_memory_strategy_writes_is_not_taken_for_the_users_words() -> None:
    history = [make_user_message("Never push to main."), *(m for n in range(12) for m in make_turn(n, lines=120))]
    config = ContextConfig(token_counter=COUNTER, compaction=CompactionConfig(in_memory_strategy=Cuts()))
    policy = build_policy(config, COUNTER)
    session = make_session([history], replace(policy, stages=policy.in_memory_stages))
    session.compact(to=count_view_tokens(session) // 2)
    assert {r.kind for r in get_newest_block(session).replacements} == {"in-memory"}
    shown = session.view.get_messages()
    results = [m for m in shown if m.role == "tool"]
    assert results
    assert all(len(get_text(m)) <= 50 for m in results[:-1])
    assert all(m.origin == "tenfold" for m in shown if get_text(m) == "Some of this is left out.")
    assert history[0] in shown, "the current request stays"


class Words(TokenCounter):
    """An exact counter of one's own: a token is a word."""

    def estimate_text(self, text: str) -> int:
        return len(text.split())


def make_words(tokens: int) -> list[Message]:
    """Messages that take so many tokens with 4 for each."""
    whole, rest = divmod(tokens, 1_000)
    sizes = [1_000] * (whole - 1) + [1_000 + rest]
    return [make_user_message(" ".join(["word"] * (size - 4))) for size in sizes]


@pytest.mark.parametrize(("tokens", "fires"), [(80_000, False), (80_999, False), (81_000, True), (82_000, True)])
def test_with_a_counter_of_ones_own_it_fires_at_the_published_size(tokens: int, fires: bool) -> None:  # noqa: FBT001 - a table
    config = ContextConfig(token_counter=Words())
    assert should_compact(tokens, config) is fires
    session = make_session([make_words(tokens)], build_policy(config, COUNTER), model="some-model")
    reading = session.take_reading(window=100_000)
    assert (reading.tokens, reading.slope) == (tokens, 1.0)
    assert (session.compact(window=100_000).status == "compacted") is fires


@pytest.mark.parametrize("model", ["", "gpt-4o", "claude-opus-4-7", "some-model"])
def test_a_counter_of_ones_own_is_not_corrected_for_any_model(model: str) -> None:
    session = make_session([make_words(3_000)], blocks(Words()), model=model)
    reading = session.take_reading(window=100_000)
    assert reading.tokens == 3_000
    assert reading.evidence == ("counter of the caller",)


def test_a_request_with_a_counter_of_ones_own_fires_there_too() -> None:
    rows = make_rows(make_words(80_999))
    session: Session = make_session([], build_policy(ContextConfig(token_counter=Words()), COUNTER))
    session.before_model({"model": "some-model", "messages": rows}, window=100_000)
    statuses = [session.outcome.status if session.outcome else ""]
    rows.append({"role": "user", "content": "on"})
    session.before_model({"model": "some-model", "messages": rows}, window=100_000)
    statuses.append(session.outcome.status if session.outcome else "")
    assert statuses == ["nothing", "compacted"]
