"""The types of the design behind `blocks`: turns, blocks, their JSON, configuration, counting and the trigger."""

from __future__ import annotations

import asyncio
import base64
from datetime import UTC, datetime

import pytest
from pydantic_ai import Agent as Runner
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel

import tenfold
from tenfold.apps.agent import Agent, Memory
from tenfold.compaction.engine.policy import Policy
from tenfold.core.record.entry import Usage
from tenfold.core.record.message import Image, Message, OpaquePart, Text, Thinking, ToolCall, ToolResult
from tenfold.designs.blocks import (
    CompactedSection,
    CompactionBlock,
    CompactionConfig,
    ContextConfig,
    ContextTracker,
    FixedCount,
    LoopRecord,
    TokenBudget,
    TokenCounter,
    TurnId,
    TurnMap,
    TurnMessage,
    TurnRange,
    assign_turns,
    build_policy,
    from_json,
    should_compact,
    to_json,
)
from tenfold.designs.blocks.policy import blocks
from tenfold.errors import BadInput, UsageError
from tests.designs.blocks.making import (
    COUNTER,
    FILLER,
    count_view_tokens,
    make_loop,
    make_reply,
    make_session,
    make_turn,
    make_user_message,
)

BLOCK = CompactionBlock(
    keep_first=TurnRange(0, 1),
    keep_compacted=CompactedSection(TurnRange(2, 14), (make_reply("x"),)),
    keep_recent=CompactedSection(TurnRange(15, 19), ()),
    created_at=datetime(2026, 1, 2, tzinfo=UTC),
)


def test_json_has_the_published_names_and_leaves_out_what_is_absent() -> None:
    data = to_json(BLOCK)
    for key in (b'"startTurn":2', b'"endTurn":14', b'"createdAt":"2026', b'"keep_first"', b'"keep_compacted"'):
        assert key in data
    assert from_json(CompactionBlock, data) == BLOCK
    assert to_json(CompactionBlock(created_at=BLOCK.created_at)) == b'{"createdAt":"2026-01-02T00:00:00Z"}'
    record = LoopRecord("r", assign_turns([make_user_message("go")], "r"))
    assert b'"turnId":{"loopId":"r","turnIndex":0}' in to_json(record)
    assert from_json(LoopRecord, to_json(record)) == record
    assert from_json(TurnMessage, to_json(TurnMessage(make_user_message("go")))).turn_id is None


@pytest.mark.parametrize(
    "broken", ['{"startTurn": 0}', '{"start_turn": 0, "end_turn": 1}', '{"startTurn": 2, "endTurn": 1}', "[]", "{"]
)
def test_nothing_loads_silently_as_none(broken: str) -> None:
    with pytest.raises(BadInput, match="TurnRange"):
        from_json(TurnRange, broken)
    with pytest.raises(BadInput, match="keep_frist"):
        from_json(CompactionBlock, '{"keep_frist": null}')


def make_tagged_messages(*turns: tuple[str, int] | None) -> list[TurnMessage]:
    return [TurnMessage(make_reply(str(n)), TurnId(*t) if t is not None else None) for n, t in enumerate(turns)]


def test_a_turn_map_groups_neighbours_of_one_turn() -> None:
    messages = make_tagged_messages(("a", 0), ("a", 0), None, ("a", 0), ("a", 7), ("a", 7))
    made = TurnMap.from_messages(messages)
    assert made.turn_count() == 4, "a message without a turn is its own group and ends the current one"
    assert [made.turn_msg_range(n) for n in range(5)] == [(0, 2), (2, 3), (3, 4), (4, 6), None]
    assert made.messages_for_range(TurnRange(1, 2), messages) == messages[2:4]
    assert made.messages_for_range(TurnRange(3, 9), messages) == messages[4:6]
    assert made.messages_for_range(TurnRange(4, 9), messages) == []
    assert TurnMap.from_messages([]).turn_count() == 0
    assert made.turn_msg_range(-1) is None


def test_neighbouring_loops_with_equal_indices_are_two_groups() -> None:
    """The original ignores the loop: turn 0 of the second loop merges with turn 0 of the first."""
    made = TurnMap.from_messages(make_tagged_messages(("a", 0), ("b", 0), ("b", 1)))
    assert made.groups == ((0, 1), (1, 2), (2, 3))


def test_positions_and_turn_indices_are_the_same_numbers() -> None:
    """The original calls ranges turn indices and treats them as positions: a leading message shifts them all."""
    go, then, so = (make_user_message(text) for text in ("go", "and", "so?"))
    messages = assign_turns([go, *make_turn(0), then, *make_turn(1), *make_turn(2), so], "r")
    made = TurnMap.from_messages(messages)
    assert made.turn_count() == 4
    for index in range(4):
        own = made.messages_for_range(TurnRange(index, index), messages)
        assert {m.turn_id.turn_index for m in own if m.turn_id is not None} == {index}


@pytest.mark.parametrize("window", [0, -1, 8_000.5])
def test_a_window_that_holds_nothing_is_an_error_and_no_nan(window: int) -> None:
    """The original divides by it: headroom is NaN or infinite, and compaction never or always fires."""
    with pytest.raises(UsageError, match="window"):
        ContextConfig(max_context_tokens=window)
    session = make_session([make_loop(3)])
    with pytest.raises(UsageError, match="window"):
        session.compact(window=window)


def test_the_configuration_is_the_preset() -> None:
    assert build_policy(ContextConfig(), COUNTER) == blocks(COUNTER)
    config = CompactionConfig(keep_first_turns=1, compaction_scope=TokenBudget(), focus_message="the port")
    made = build_policy(ContextConfig(compaction=config, keep_recent=4), COUNTER)
    wanted = blocks(
        COUNTER, keep_first_turns=1, compaction_scope="token_budget", focus_message="the port", keep_recent=4
    )
    assert made == wanted


@pytest.mark.parametrize("value", ["x", 2.5, True, None, -1])
def test_a_size_that_is_no_number_is_refused_with_a_sentence(value: object) -> None:
    """Text raised a bare TypeError, and a fraction was taken."""
    for name in ("keep_first_turns", "keep_recent_turns", "max_summary_tokens", "tool_output_max_lines"):
        with pytest.raises(UsageError, match=f"^{name} is {value!r}; give a whole number of 0 or more$"):
            CompactionConfig(**{name: value})  # type: ignore[arg-type]
    for name in ("system_prompt_tokens", "keep_recent", "keep_first", "tool_output_max_lines"):
        with pytest.raises(UsageError, match=f"^{name} is {value!r}; give a whole number of 0 or more$"):
            ContextConfig(**{name: value})  # type: ignore[arg-type]
    for name in ("compact_at_pct", "compact_budget_threshold_pct"):
        with pytest.raises(UsageError, match=f"{name} (is )?{value!r}; they are shares|{name} is {value!r} and"):
            CompactionConfig(**{name: value})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=f"^compaction_scope is {value!r}; give a whole number"):
        CompactionConfig(compaction_scope=FixedCount(value))  # type: ignore[arg-type]


def test_a_scope_of_another_type_is_refused() -> None:
    for scope in (2, "token_budget", None, TokenBudget, FixedCount):
        with pytest.raises(UsageError, match=r"give FixedCount\(n\), for instance FixedCount\(3\), or TokenBudget\(\)"):
            CompactionConfig(compaction_scope=scope)  # type: ignore[arg-type]


@pytest.mark.parametrize(("model", "default"), [("", 100_000), ("some-model", 100_000), ("gpt-4o", 128_000)])
def test_the_window_of_a_configuration_is_that_of_its_sessions(model: str, default: int) -> None:
    session = make_session([make_loop(20)], build_policy(ContextConfig(max_context_tokens=8_000), COUNTER), model=model)
    assert session.compactor.build_call().window == 8_000
    assert session.compactor.build_call(window=50_000).window == 50_000, "a caller's own comes first"
    assert session.compact().status == "compacted"
    rows = [{"role": "user", "content": "go"}, *({"role": "assistant", "content": FILLER * 9} for _ in range(60))]
    policy = build_policy(ContextConfig(max_context_tokens=8_000), COUNTER)
    assert tenfold.compact(rows, model=model or None, policy=policy).outcome.status == "compacted"
    request = make_session([], policy)
    request.before_model({"model": model or "some-model", "messages": rows})
    assert request.outcome is not None
    assert request.outcome.status == "compacted"
    assert (
        make_session([], build_policy(ContextConfig(), COUNTER), model=model).compactor.build_call().window == default
    )


@pytest.mark.parametrize("policy", [build_policy(ContextConfig(), COUNTER), blocks(COUNTER)])
def test_an_unknown_model_has_the_default_window(policy: Policy) -> None:
    """Nothing was compacted for it."""
    session = make_session([], policy)
    rows = [{"role": "user", "content": "go"}, *({"role": "assistant", "content": FILLER * 90} for _ in range(60))]
    session.before_model({"model": "some-model", "messages": rows})
    assert session.outcome is not None
    assert session.outcome.status == "compacted"
    assert tenfold.compact(rows, model="some-model", policy=policy).outcome.status == "compacted"
    model = FunctionModel(lambda *_: ModelResponse([TextPart("Done.")]), model_name="some-model")
    agent = Agent(model, session=make_session([make_loop(120)], policy))
    assert agent.window == 100_000
    assert asyncio.run(agent.invoke("Go on.")) == "Done."
    assert agent.outcome is not None
    assert agent.outcome.status == "compacted"
    plain = make_session([], policy)
    assert asyncio.run(Runner(model, capabilities=[Memory(plain)]).run("Go on.")).output == "Done."
    assert plain.outcome is not None


def test_an_agent_goes_by_the_window_of_the_configuration() -> None:
    model = FunctionModel(lambda *_: ModelResponse([TextPart("Done.")]), model_name="gpt-4o")
    policy = build_policy(ContextConfig(max_context_tokens=8_000), COUNTER)
    agent = Agent(model, session=make_session([make_loop(20)], policy))
    assert agent.window == 8_000
    assert asyncio.run(agent.invoke("Go on.")) == "Done."
    assert agent.outcome is not None
    assert agent.outcome.status == "compacted"
    plain = make_session([], policy)
    assert asyncio.run(Runner(model, capabilities=[Memory(plain)]).run("Go on.")).output == "Done."
    assert plain.outcome is not None
    assert "the trigger of 4,801" in plain.outcome.reason


def test_without_a_context_config_compaction_is_off() -> None:
    assert not should_compact(10_000_000, None)
    assert should_compact(10_000_000, ContextConfig())


def test_the_published_counts() -> None:
    counter = TokenCounter()
    assert (counter.estimate_text("hello"), counter.estimate_text("")) == (2, 0)
    assert counter.estimate_text("é" * 4) == 2, "bytes, not characters"
    assert counter.estimate_message(make_user_message("hello")) == counter.estimate_message(make_reply("hello")) == 6
    assert counter.estimate_message(Message("assistant", (Thinking("hello"),), "model")) == 6
    call = Message("assistant", (ToolCall("1", "read", '{"a": 1}'),), "model")
    assert counter.estimate_message(call) == 1 + 2 + 8 + 4
    result = Message("tool", (ToolResult("1", "read", (Text("hello"),)),), "tool")
    assert counter.estimate_message(result) == 2 + 1 + 8
    assert counter.estimate_message(Message("user", (OpaquePart("x", b"12345678"),), "human")) == 2 + 4 + 4


@pytest.mark.parametrize(("raw", "tokens"), [(3, 85), (300_000, 400), (60_000_000, 16_000)])
def test_an_image_is_bounded_on_both_sides(raw: int, tokens: int) -> None:
    data = base64.b64encode(b"x" * raw).decode()
    assert TokenCounter().estimate_message(Message("user", (Image(data=data),), "human")) == tokens + 4


class Words(TokenCounter):
    """A counter of one's own: one method is overridden."""

    def estimate_text(self, text: str) -> int:
        return len(text.split())


def test_one_overridden_method_counts_everywhere() -> None:
    session = make_session([make_loop(20)], blocks(Words()))
    assert session.take_reading(window=100_000).estimate == count_view_tokens(session)
    assert session.compact(to=count_view_tokens(session) * 3 // 4).status == "compacted"
    assert Words().name != TokenCounter().name
    assert count_view_tokens(session) < count_view_tokens(make_session([make_loop(20)]))


def test_a_tracker_is_a_report_and_an_estimate_of_what_follows() -> None:
    tracker, counter = ContextTracker(), TokenCounter()
    messages = [make_user_message("hello"), make_reply("hello"), make_user_message("hello")]
    assert tracker.estimate(messages) == 18
    tracker.record_usage(Usage.build(1_000, 50, cache_read=800), 1)
    assert tracker.estimate(messages) == 1_050 + counter.estimate_message(messages[2])
    tracker.record_usage(Usage.build(0), 2)
    assert tracker.estimate(messages) == 1_056, "a report that counts nothing is left out"
    assert tracker.estimate(messages[:1]) == 6, "its message is not in this list"
    tracker.reset()
    assert tracker.estimate(messages) == 18


def test_what_the_provider_reported_decides_the_trigger() -> None:
    """The original exports its tracker and never uses it: the loop goes by the heuristic alone."""
    session = make_session([make_loop(3)], model="some-model")
    quiet = session.compact(window=20_000)
    assert quiet.status == "nothing"
    session.requests.record_usage(Usage.build(19_000, 10, model="some-model"))
    session.append(make_reply("Done."))
    reading = session.take_reading(window=20_000)
    assert reading.source == "reported"
    assert reading.tokens >= 19_000
    assert session.preview(window=20_000)[0].need in ("soft", "hard")


def test_the_policy_refuses_sizes_and_shares_as_the_configuration_does() -> None:
    with pytest.raises(UsageError, match="keep_recent_turns is -1"):
        blocks(COUNTER, keep_recent_turns=-1)
    with pytest.raises(UsageError, match="compaction_scope is 'all'"):
        blocks(COUNTER, compaction_scope="all")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="compact_at_pct is"):
        CompactionConfig(compact_at_pct=0.04)
