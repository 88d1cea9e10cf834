"""The guard of the design: its hooks, options and formulas, the models it knows, and the state keys."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.plan.stages.elide import TruncateOutputsStage
from tenfold.config.policies import POLICIES
from tenfold.core.meter.counters import CharacterCounter, measure_messages
from tenfold.core.record.ask import Answer, SummaryAsk
from tenfold.core.record.message import Document, Image, Message, Text, ToolCall, ToolResult
from tenfold.core.record.token_reading import ProviderTokens
from tenfold.designs.threshold import (
    BuiltinRegistry,
    Context,
    ContextGuard,
    GuardState,
    Option,
    calibrate,
    compute_max_output_tokens,
    compute_threshold,
    compute_word_limit,
    estimate_request,
    estimate_tokens,
    get_state,
    load_state,
    new,
    render_host_todos,
    with_default_factor,
    with_max_compaction_attempts,
    with_max_tokens,
    with_sliding_window,
)
from tenfold.designs.threshold.estimator import RatioEstimator
from tenfold.designs.threshold.policy import OPENING
from tenfold.designs.threshold.trigger import CalibratedBufferTrigger, EntryTrigger
from tenfold.designs.threshold.writer import BriefingWriter
from tenfold.models import Model, ScriptedModel, ScriptedReply
from tenfold.store.sqlite.store import SqliteStore
from tests.designs.threshold.simulator import SUMMARY, make_text
from tests.engine.making import make_call, make_result, make_user_message

AGENT = Context("agent", "s", MappingProxyType({}))
"""Of a host that keeps no state."""


def make_guard(
    *options: Option, model: Model | None = None, window: int = 8_000, store: SqliteStore | None = None
) -> ContextGuard:
    llm = model or ScriptedModel([ScriptedReply(SUMMARY)], repeat=True)
    return new(store=store).add("agent", llm, with_max_tokens(window), *options, counter=CharacterCounter())


def make_talk(turns: int, *, size: int = 1_000, ask: str = "") -> list[dict[str, Any]]:
    """A host's list in the wire of OpenAI: turns of a question and an answer, and a last question."""
    out: list[dict[str, Any]] = []
    for number in range(turns):
        out.append({"role": "user", "content": make_text(size, number)})
        out.append({"role": "assistant", "content": make_text(size, number + 100)})
    return [*out, {"role": "user", "content": ask or "What is the state of the billing work now?"}]


def dump_messages(request: dict[str, Any]) -> str:
    return json.dumps(request["messages"])


# -- hooks -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("request_", [None, {}, {"messages": []}, {"model": "m"}])
def test_no_request_no_contents_and_an_unknown_agent_are_left_alone(request_: dict[str, Any] | None) -> None:
    plugin = make_guard().plugin_config()
    before = json.dumps(request_)
    plugin.before_model(AGENT, request_)
    assert json.dumps(request_) == before
    full = {"messages": make_talk(10)}
    plugin.before_model(Context("another", "s"), full)
    plugin.after_model(Context("another", "s"), {"usage": {"prompt_tokens": 700}})
    assert full == {"messages": make_talk(10)}


class Refusing(SqliteStore):
    """A store that does not take a Block or anything else any more."""

    def append(self, *_args: object, **_options: object) -> None:
        raise OSError("no space left on device")


def test_an_error_never_lets_the_bloated_conversation_through(caplog: pytest.LogCaptureFixture) -> None:
    """The original logs the error and sends the request as it is."""
    plugin = make_guard(store=Refusing(":memory:")).plugin_config()
    request = {"messages": make_talk(10)}
    with caplog.at_level(logging.WARNING):
        plugin.before_model(AGENT, request)
    assert "no space left" in caplog.text
    assert len(request["messages"]) == 2
    assert OPENING in dump_messages(request)


def test_options_choose_the_strategy_and_fall_back_to_the_published_numbers() -> None:
    plain, count = ContextGuard(), CharacterCounter()
    plain.add("a", None, counter=count)
    plain.add("b", None, with_sliding_window(30), counter=count)
    plain.add("c", None, with_sliding_window(0), with_max_tokens(-1), with_max_compaction_attempts(0), counter=count)
    plain.add("d", None, with_max_compaction_attempts(5), with_max_tokens(9_000), counter=count)
    found = plain.strategies
    assert [found[a].name for a in "abcd"] == ["threshold", "sliding_window", "sliding_window", "threshold"]
    assert (found["b"].policy.trigger, found["c"].policy.trigger) == (EntryTrigger(30), EntryTrigger(20))
    writers = [found[a].policy.writer for a in "cd"]
    assert [w.attempts for w in writers if isinstance(w, BriefingWriter)] == [3, 5]
    assert (found["c"].get_window("gpt-4o"), found["d"].get_window("gpt-4o")) == (128_000, 9_000)
    plain.add("a", None, with_sliding_window(5), counter=count)
    assert found["a"].name == "sliding_window", "one strategy for each agent"


def test_each_agent_summarises_with_its_own_model_and_keeps_its_own_conversation() -> None:
    first, second = ScriptedModel([SUMMARY]), ScriptedModel([SUMMARY])
    two = make_guard(model=first).add("other", second, with_max_tokens(8_000), counter=CharacterCounter())
    for agent in ("agent", "other"):
        two.plugin_config().before_model(Context(agent, "s"), {"messages": make_talk(10)})
    assert (len(first.asks), len(second.asks)) == (1, 1)
    assert two.strategies["agent"].compact(AGENT, {"messages": make_talk(1)})["messages"] == make_talk(1)


@pytest.mark.parametrize(
    ("report", "real"),
    [
        ({"usage": {"prompt_tokens": 700, "completion_tokens": 90}}, 700),
        ({"usage": {"input_tokens": 700, "output_tokens": 90}}, 700),
        ({"usage": {"prompt_tokens": 0, "completion_tokens": 90}}, 0),
        ({"usage": {"prompt_tokens": 700}, "partial": True}, 0),
        ({"choices": []}, 0),
        (None, 0),
    ],
)
def test_only_the_prompt_tokens_of_a_whole_report_are_kept(report: dict[str, Any] | None, real: int) -> None:
    made = make_guard()
    plugin, request = made.plugin_config(), {"messages": make_talk(1)}
    plugin.before_model(AGENT, request)
    plugin.after_model(AGENT, report)
    answered = [*make_talk(1), {"role": "assistant", "content": "All is well."}]
    plugin.before_model(AGENT, {"messages": answered})
    assert get_state(made.strategies["agent"].get_session(AGENT)).real_tokens == real


def test_each_request_leaves_its_estimate_and_a_compaction_takes_the_report_back() -> None:
    made = make_guard()
    plugin, session = made.plugin_config(), made.strategies["agent"].get_session(AGENT)
    contents = make_talk(2)
    plugin.before_model(AGENT, {"system": make_text(400, 1), "messages": list(contents)})
    first = get_state(session)
    assert first.real_tokens == 0
    assert first.last_heuristic > estimate_request({"system": make_text(400, 1), "messages": make_talk(2)})
    plugin.after_model(AGENT, {"usage": {"input_tokens": 2_000}})
    assert get_state(session) == replace(first, real_tokens=2_000)
    contents += [{"role": "assistant", "content": "Yes."}, *make_talk(10)]
    plugin.before_model(AGENT, {"system": make_text(400, 1), "messages": contents})
    state = get_state(session)
    assert session.outcome is not None
    assert session.outcome.status == "compacted"
    assert state.real_tokens == 0, "a factor of the bloated request says nothing any more"
    assert 0 < state.last_heuristic < first.last_heuristic, "that of the request as it was sent"
    assert state.contents_at_compaction == len(contents)
    assert session.outcome.reading_before is not None
    assert state.summarized_at == session.outcome.reading_before.estimate
    assert state.summary.startswith("## Current State")


# -- counting ----------------------------------------------------------------------------------------------------------


def test_the_rule_of_thumb_rounds_down_for_each_field() -> None:
    assert estimate_tokens([make_user_message("x" * 400)]) == 100
    assert estimate_tokens([make_user_message("abc"), make_user_message("abcde")]) == 1
    assert estimate_tokens([make_call("c", "lookup", '{"path": "abcdefgh", "n": 12345}')]) == 1 + 1 + 2 + 0 + 1
    assert estimate_tokens([make_result("c", "y" * 40, name="lookup")]) == 1 + 10
    assert estimate_tokens([]) == 0
    assert estimate_tokens([Message("user", (), "human")]) == 0


def test_the_whole_request_is_counted() -> None:
    contents = [{"role": "user", "content": "x" * 400}]
    assert estimate_request({"system": "y" * 200, "messages": contents}) == 150
    tools = [{"name": "look", "description": "z" * 400}]
    assert estimate_request({"messages": contents, "tools": tools}) >= 200
    blob = Message("user", (Image(media_type="image/png", data="A" * 1_600),), "human")
    assert estimate_tokens([blob]) == 2 + 300


@pytest.mark.parametrize(
    ("now", "real", "last", "expected"),
    [
        (750, 1_000, 500, 1_500),
        (500, 300, 600, 500),
        (100, 100_000, 50_000, 100_000),
        (90_009, 140_000, 70_000, 180_018),
        (100, 0, 0, 200),
        (100, 900, 0, 900),
        (100, 150, 0, 200),
        (1_000, 9_000, 1_000, 9_000),
        (3_000, 9_000, 1_000, 15_000),
    ],
)
def test_the_published_formula_gives_its_examples(now: int, real: int, last: int, expected: int) -> None:
    assert calibrate(now, real=real, last=last) == expected


def test_the_factor_is_the_published_one_and_can_be_set() -> None:
    for name in ("threshold", "sliding"):
        made = POLICIES[name](CharacterCounter())
        assert made.estimator == RatioEstimator(2.0)
        assert POLICIES[name](CharacterCounter(), default_factor=2.5).estimator == RatioEstimator(2.5)
    for factor, compacts in ((1.0, False), (4.0, True)):
        made_ = make_guard(with_default_factor(factor))
        made_.plugin_config().before_model(AGENT, {"messages": make_talk(4)})
        outcome = made_.strategies["agent"].get_session(AGENT).outcome
        assert outcome is not None
        assert (outcome.status == "compacted") == compacts


@pytest.mark.parametrize(
    ("window", "buffer", "tokens", "words"),
    [
        (250_000, 20_000, 10_000, 7_500),
        (200_000, 20_000, 10_000, 7_500),
        (199_999, 39_999, 19_999, 14_999),
        (50_000, 10_000, 5_000, 3_750),
        (10_000, 2_000, 1_000, 750),
        (8_000, 1_600, 800, 600),
    ],
)
def test_buffer_threshold_and_word_limit(window: int, buffer: int, tokens: int, words: int) -> None:
    assert compute_threshold(window) == window - buffer
    assert (compute_max_output_tokens(window), compute_word_limit(window)) == (tokens, words)
    limits = CalibratedBufferTrigger().get_limits(window, output_reserve=0, floor=0)
    assert limits.get_need(ProviderTokens(window - buffer)) == "soft", "at the threshold it is compacted"
    assert limits.get_need(ProviderTokens(window - buffer - 1)) in ("none", "warn")


class Half(Struct, frozen=True):
    """A registry that knows one model, by half."""

    def context_window(self, model: str) -> int:
        return 8_000 if model == "mine" else 0

    def default_max_tokens(self, model: str) -> int:  # noqa: ARG002 - it knows none
        return 0


def test_the_window_is_the_option_then_the_registry_then_the_published_one() -> None:
    built = BuiltinRegistry()
    assert (built.context_window("claude-3-5-haiku"), built.default_max_tokens("claude-3-5-haiku")) == (200_000, 8_192)
    assert (built.context_window("no-such-model"), built.default_max_tokens("no-such-model")) == (128_000, 4_096)
    model = ScriptedModel([SUMMARY], repeat=True)
    own = ContextGuard(Half()).add("agent", model, counter=CharacterCounter())
    assert [own.strategies["agent"].get_window(m) for m in ("mine", "other")] == [8_000, 128_000]
    for name, kept in (("mine", 2), ("other", 21)):
        request = {"model": name, "messages": make_talk(10)}
        own.plugin_config().before_model(Context("agent", name), request)
        assert len(request["messages"]) == kept


def test_todos_are_maps_or_objects_and_blank_ones_are_dropped() -> None:
    class Todo(Struct):
        content: str
        status: str = ""

    block = render_host_todos(
        [{"content": "write the tests", "status": "in_progress"}, Todo("ship it"), {"content": "  "}]
    )
    assert "- [in_progress] write the tests\n- [pending] ship it\n" in block
    assert "## Todo List" in block
    assert "todos tool" in block
    assert render_host_todos([{"content": ""}]) == ""
    model = ScriptedModel([SUMMARY], repeat=True)
    context = Context("agent", "s", {"todos": [{"content": "write the tests", "status": "in_progress"}]})
    make_guard(model=model).plugin_config().before_model(context, {"messages": make_talk(10)})
    assert "- [in_progress] write the tests" in model.asks[0].prompt


# -- defects that must not come back -----------------------------------------------------------------------------------


def test_chinese_images_and_base64_are_counted_by_rule() -> None:
    """The original counts bytes / 4: three bytes of a Chinese character as 0.75 tokens, a picture as its base64."""
    count = CharacterCounter()
    assert measure_messages([make_user_message("编" * 1_000)], count)[0] >= 1_000
    assert estimate_tokens([make_user_message("编" * 1_000)]) == 750
    picture = Message("user", (Image(media_type="image/png", data="A" * 4_000_000),), "human")
    assert measure_messages([picture], count)[0] < 2_000
    assert estimate_tokens([picture]) > 100_000
    document = Document(name="a.txt", media_type="text/plain", text="words " * 10)
    assert estimate_tokens([Message("user", (document, Text("abcd")), "human")]) == 15 + 1
    inner = ToolResult("c", "look", (Text("abcdefgh"), Image(media_type="ab", data="A" * 16)))
    assert estimate_tokens([Message("tool", (inner,), "tool")]) == 1 + 2 + 3
    assert estimate_tokens([Message("assistant", (ToolCall("c", "f", "[1, 2"),), "model")]) == 1


def test_tools_taken_away_bring_the_count_down() -> None:
    """The original takes the larger of the last report and today's count, and compacts a request that shrank."""
    made = make_guard()
    plugin, session = made.plugin_config(), made.strategies["agent"].get_session(AGENT)
    tools = [{"name": "look", "description": make_text(8_000, 1), "input_schema": {}}]
    contents = make_talk(2)
    plugin.before_model(AGENT, {"messages": list(contents), "system": "s", "tools": tools})
    plugin.after_model(AGENT, {"usage": {"input_tokens": 6_500}})
    contents += [{"role": "assistant", "content": "Yes."}, {"role": "user", "content": make_text(600, 9)}]
    plugin.before_model(AGENT, {"messages": list(contents), "system": "s"})
    without = session.outcome
    plugin.before_model(AGENT, {"messages": list(contents), "system": "s", "tools": tools})
    assert [o.status for o in (without, session.outcome) if o is not None] == ["nothing", "compacted"]


def test_a_rewind_drops_the_report_and_the_summary_that_lies_after_it() -> None:
    """The original addresses by count: after a rewind its watermark hides messages that no summary covers."""
    made = make_guard()
    plugin = made.plugin_config()
    plugin.before_model(AGENT, {"messages": make_talk(10)})
    rewound = [
        *make_talk(10)[:3],
        {"role": "assistant", "content": "Another answer."},
        {"role": "user", "content": "Why?"},
    ]
    request = {"messages": list(rewound)}
    plugin.before_model(AGENT, request)
    assert request["messages"] == rewound
    state = get_state(made.strategies["agent"].get_session(AGENT))
    assert state == GuardState(last_heuristic=state.last_heuristic)


class Meeting:
    """A model that answers only once two conversations are being summarised at the same time."""

    def __init__(self) -> None:
        self.barrier = threading.Barrier(2, timeout=100)

    def answer(self, ask: SummaryAsk) -> Answer:  # noqa: ARG002 - the answer is always the same
        self.barrier.wait()
        return Answer(text=SUMMARY)


def test_two_conversations_of_one_agent_are_summarised_at_once() -> None:
    """The original holds one mutex of the strategy during the call: the second would wait for ever."""
    made = make_guard(model=Meeting())
    requests: Sequence[dict[str, Any]] = [{"messages": make_talk(10)} for _ in range(2)]
    before = made.plugin_config().before_model
    threads = [
        threading.Thread(target=before, args=(Context("agent", str(n)), request), daemon=True)
        for n, request in enumerate(requests)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join(30)
    assert all("Going on very well" in dump_messages(r) for r in requests), "neither fell back to a mechanical summary"


def test_a_request_that_is_alone_and_too_long_becomes_a_summary_and_a_continuation(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its excerpt was all that was sent, and the state could not be read: `max() arg is an empty sequence`."""
    state: dict[str, Any] = {}
    context = Context("agent", "s", state)
    made = make_guard()
    contents = [{"role": "user", "content": f"Sum this up. {make_text(50_000, 1)} And keep the units."}]
    for _ in range(3):
        request = {"messages": list(contents)}
        with caplog.at_level(logging.WARNING):
            made.plugin_config().before_model(context, request)
        summary, continuation = [message["content"] for message in request["messages"]][:2]
        assert "Going on very well" in summary
        assert "Sum this up." in continuation
        assert "And keep the units." in continuation
        assert load_state(state, "agent").summary == SUMMARY
        contents += [{"role": "assistant", "content": "Fine."}, {"role": "user", "content": "Go on."}]
    assert caplog.records == []


def test_the_state_is_read_where_a_compaction_only_shortened() -> None:
    made = make_guard()
    strategy = made.strategies["agent"]
    strategy.policy = replace(strategy.policy, stages=(TruncateOutputsStage(),))
    request = {"messages": [{"role": "user", "content": make_text(50_000, 1)}]}
    made.plugin_config().before_model(AGENT, request)
    session = strategy.get_session(AGENT)
    (block,) = [session.view.path.get_block(at) for at in session.view.state.live_blocks]
    assert [r.kind for r in block.replacements] == ["request-excerpt"]
    assert (get_state(session).summary, get_state(session).contents_at_compaction) == ("", 0)


def test_a_host_that_resends_everything_is_given_the_summary_again_without_a_call() -> None:
    """Without it compaction has no effect: the raw list is as long as before at the next call."""
    model = ScriptedModel([SUMMARY])
    plugin = make_guard(model=model).plugin_config()
    contents = make_talk(10)
    first = {"messages": list(contents)}
    plugin.before_model(AGENT, first)
    for number in range(3):
        contents += [{"role": "assistant", "content": f"Answer {number}."}, {"role": "user", "content": f"On {number}"}]
        request = {"messages": list(contents)}
        plugin.before_model(AGENT, request)
        assert request["messages"][:2] == first["messages"], "what was sent stays the beginning"
        assert request["messages"][2:] == contents[21:]
    assert len(model.asks) == 1
    own = {"messages": [*first["messages"], *contents[21:]]}
    plugin.before_model(AGENT, own)
    assert len(own["messages"]) == 8, "a list that begins with the summary already is left as it is"
