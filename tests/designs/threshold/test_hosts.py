"""The guard in its hosts: state that outlives the process, stores that fail, coroutines, and a framework's objects."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from typing import Any

import pytest
from google.genai import types
from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field

from tenfold.core.meter.counters import CharacterCounter
from tenfold.core.record.ask import Answer, SummaryAsk
from tenfold.designs.threshold import Context, get_state, new, with_max_tokens
from tenfold.designs.threshold.policy import OPENING
from tenfold.models import ScriptedModel, ScriptedReply
from tenfold.store.sqlite.store import SqliteStore
from tests.designs.threshold.simulator import SUMMARY, make_text
from tests.designs.threshold.test_guard import dump_messages, make_guard, make_talk

RULE = "Always use tabs and never spaces."


def make_summariser() -> ScriptedModel:
    return ScriptedModel([ScriptedReply(SUMMARY)], repeat=True)


# -- state that outlives the process -----------------------------------------------------------------------------------


OWN_KEY = "__context_guard_log_agent"


@pytest.mark.parametrize("log", ["ours", "none", "damaged"])
def test_after_a_restart_the_stored_summary_stands_for_what_it_covers(
    log: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The host resends everything, and the guard's own store is gone. The published keys alone are enough for it."""
    state: dict[str, Any] = {}
    contents = [{"role": "user", "content": RULE}, *make_talk(10)]
    make_guard().plugin_config().before_model(Context("agent", "s", state), {"messages": list(contents)})
    assert state["__context_guard_summary_agent"].startswith("## Current State")
    contents += [{"role": "assistant", "content": "It is done."}, {"role": "user", "content": "And now?"}]
    model, kept = make_summariser(), json.loads(json.dumps(state))
    if log != "ours":
        kept[OWN_KEY] = {"none": "", "damaged": kept[OWN_KEY][:-9]}[log]
    again = make_guard(model=model)
    request = {"messages": list(contents)}
    again.plugin_config().before_model(Context("agent", "s", kept), request)
    assert not model.asks, "the summary is known"
    assert bool(caplog.records) == (log == "damaged"), "it is said"
    assert "Going on very well" in dump_messages(request)
    assert request["messages"][2:] == contents[-2:]
    session = again.strategies["agent"].get_session(Context("agent", "s"))
    assert [each.text for each in session.read_instructions() if each.is_rule] == [RULE]
    assert kept["__context_guard_contents_at_compaction_agent"] == len(contents) - 2


def test_after_a_restart_the_stored_report_corrects_the_next_estimate() -> None:
    state: dict[str, Any] = {}
    contents = make_talk(3)
    before = make_guard().plugin_config()
    before.before_model(Context("agent", "s", state), {"messages": list(contents)})
    before.after_model(Context("agent", "s", state), {"usage": {"prompt_tokens": 5_000}})
    assert state["__context_guard_real_tokens_agent"] == 5_000
    contents += [{"role": "assistant", "content": "Yes."}, {"role": "user", "content": make_text(2_400, 5)}]
    floats = {key: float(value) if isinstance(value, int) else value for key, value in state.items()}
    for kept, status in ((floats, "compacted"), ({}, "nothing")):
        again = make_guard()
        again.plugin_config().before_model(Context("agent", "s", kept), {"messages": list(contents)})
        outcome = again.strategies["agent"].get_session(Context("agent", "s")).outcome
        assert outcome is not None
        assert outcome.status == status


ORIGINAL = [
    {
        "role": "user",
        "content": f"{OPENING}\n## Current State\n{RULE}\n[End of summary - conversation continues below]",
    },
    {
        "role": "user",
        "content": "[System: The conversation was compacted because it exceeded the context window. The summary above "
        "contains all prior context. Continue working without asking the user to repeat anything.]",
    },
]


DOCUMENTED: list[dict[str, Any]] = [
    {"role": "user", "content": f"Previous conversation summary\n## Current State\n{RULE}\n## Next Steps\nGo on."},
    {
        "role": "user",
        "content": "The conversation was compacted. The user's current request is: `Go on`. Continue working.",
    },
]
"""The two messages as the document shows them."""


@pytest.mark.parametrize("form", ["ours", "the original's", "the document's"])
def test_a_summary_from_before_a_restart_is_not_what_the_user_says(form: str) -> None:
    """A host that keeps the compacted list, and no state: whose words the summary holds cannot be told any more."""
    contents = DOCUMENTED if form == "the document's" else ORIGINAL
    if form == "ours":
        request = {"messages": [{"role": "user", "content": RULE}, *make_talk(10)]}
        make_guard().plugin_config().before_model(Context("agent"), request)
        contents = request["messages"]
    again = make_guard()
    request = {"messages": [*contents, *make_talk(10)]}
    again.plugin_config().before_model(Context("agent"), request)
    session = again.strategies["agent"].get_session(Context("agent"))
    assert not [each for each in session.read_instructions() if RULE in each.text or OPENING in each.text]
    assert len(request["messages"]) == 2
    assert "## Rules" not in dump_messages(request)


def test_a_state_of_another_list_is_left_alone() -> None:
    state = {"__context_guard_summary_agent": "Old.", "__context_guard_contents_at_compaction_agent": 40}
    request = {"messages": make_talk(1)}
    make_guard().plugin_config().before_model(Context("agent", "s", state), request)
    assert request["messages"] == make_talk(1)


def test_the_report_after_a_compaction_survives_a_restart() -> None:
    """Its answer is the first message that the summary does not cover."""
    state: dict[str, Any] = {}
    contents = make_talk(10)
    before = make_guard().plugin_config()
    before.before_model(Context("agent", "s", state), {"messages": list(contents)})
    before.after_model(Context("agent", "s", state), {"usage": {"prompt_tokens": 3_000}})
    contents += [{"role": "assistant", "content": "Yes."}, {"role": "user", "content": "And now?"}]
    make_guard().plugin_config().before_model(Context("agent", "s", state), {"messages": list(contents)})
    assert state["__context_guard_real_tokens_agent"] == 3_000


def test_a_new_process_that_reads_no_request_leaves_the_stored_summary() -> None:
    """A report may come first, or a request that cannot be read."""
    state: dict[str, Any] = {}
    contents = make_talk(10)
    make_guard().plugin_config().before_model(Context("agent", "s", state), {"messages": list(contents)})
    summary = state["__context_guard_summary_agent"]
    for name in ("report", "unreadable"):
        plugin, context = make_guard().plugin_config(), Context("agent", "s", state)
        if name == "report":
            plugin.after_model(context, {"usage": {"prompt_tokens": 900}})
        else:
            plugin.before_model(context, {"messages": [{"role": "nobody", "content": object()}]})
        assert state["__context_guard_summary_agent"] == summary, name


def test_a_long_stored_summary_without_a_line_break_keeps_its_beginning() -> None:
    """It may come from an agent with a larger window."""
    said = " ".join(f"Part {n} of the work is done." for n in range(900))
    state = {"__context_guard_summary_agent": said, "__context_guard_contents_at_compaction_agent": 20}
    model, request = make_summariser(), {"messages": make_talk(10)}
    make_guard(model=model).plugin_config().before_model(Context("agent", "s", state), request)
    assert "Part 0 of the work is done." in dump_messages(request)
    assert "Part 40 of the work is done." in dump_messages(request)
    assert not model.asks


class OnlyItems:
    """A state that has items and nothing else."""

    def __getitem__(self, key: str) -> object:
        raise KeyError(key)


ODD_STATES: dict[str, Any] = {
    "none": None,
    "no mapping": "text",
    "without get": OnlyItems(),
    "todos that are no list": {"todos": 5},
    "a number in words": {"__context_guard_real_tokens_agent": "many"},
    "no number": {"__context_guard_real_tokens_agent": float("nan")},
    "a summary of a list": {"__context_guard_summary_agent": ["x"], "__context_guard_contents_at_compaction_agent": 4},
}


@pytest.mark.parametrize("name", ODD_STATES)
def test_a_state_that_cannot_be_read_does_not_let_the_conversation_through(name: str) -> None:
    plugin, contents = make_guard().plugin_config(), make_talk(10)
    for state in (ODD_STATES[name], ODD_STATES[name]):
        request = {"messages": list(contents)}
        plugin.before_model(Context("agent", "s", state), request)
        assert len(request["messages"]) <= 4
        plugin.after_model(Context("agent", "s", state), {"usage": {"prompt_tokens": 900}})
        contents += [{"role": "assistant", "content": "Yes."}, {"role": "user", "content": "And then?"}]


# -- stores that fail --------------------------------------------------------------------------------------------------


class Broken(SqliteStore):
    """A store whose calls raise what a store may raise, from the n-th on."""

    def __init__(self, error: Exception, *, first: int = 0) -> None:
        super().__init__(":memory:")
        self.error, self.left = error, first

    def __getattribute__(self, name: str) -> object:
        if name in {"create", "open", "append", "read_range"}:
            self.left -= 1
            if self.left < 0:
                raise self.error
        return super().__getattribute__(name)


@pytest.mark.parametrize("first", [0, 1, 2, 3, 5, 8])
@pytest.mark.parametrize("error", [OSError("no space"), KeyError("row"), RuntimeError("closed"), ValueError("odd")])
def test_no_hook_raises_whatever_a_store_does(error: Exception, first: int, caplog: pytest.LogCaptureFixture) -> None:
    """The conversation goes on in memory, so that it is not summarised anew at each call."""
    model = make_summariser()
    made = new(store=Broken(error, first=first)).add("agent", model, with_max_tokens(8_000), counter=CharacterCounter())
    plugin, contents = made.plugin_config(), make_talk(10)
    with caplog.at_level(logging.WARNING):
        for number in range(6):
            request = {"messages": list(contents)}
            plugin.before_model(Context("agent", "s"), request)
            plugin.after_model(Context("agent", "s"), {"usage": {"input_tokens": 900}})
            assert len(request["messages"]) <= 2 + 2 * number
            contents += [{"role": "assistant", "content": "Yes."}, {"role": "user", "content": "And then?"}]
    assert str(error) in caplog.text
    assert len(model.asks) <= 2


class ClosedRegistry:
    """A registry whose service is down."""

    def context_window(self, model: str) -> int:
        raise ConnectionError(f"no answer about {model!r}")

    def default_max_tokens(self, model: str) -> int:
        raise ConnectionError(f"no answer about {model!r}")


def test_a_registry_that_raises_does_not_let_the_conversation_through(caplog: pytest.LogCaptureFixture) -> None:
    """The published window of an unknown model is taken, as where the registry says that it knows none."""
    model = Named("some-summariser")
    request = {"model": "some-model", "messages": make_talk(500)}
    with caplog.at_level(logging.WARNING):
        new(ClosedRegistry()).add("agent", model).plugin_config().before_model(Context("agent"), request)
    assert len(request["messages"]) == 2
    assert len(model.script.asks) == 1
    assert "ConnectionError: no answer about 'some-model'" in caplog.text


def test_a_request_that_cannot_be_read_is_sent_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    request = {"messages": [{"role": "nobody", "content": object()}]}
    before = list(request["messages"])
    with caplog.at_level(logging.WARNING):
        make_guard().plugin_config().before_model(Context("agent"), request)
    assert request["messages"] == before
    assert "is sent as it is" in caplog.text


class Faulty:
    """An object of a framework whose properties raise."""

    agent_name = "agent"

    def __getattr__(self, name: str) -> object:
        raise RuntimeError(f"no {name}")


def test_no_hook_raises_whatever_a_frameworks_objects_do(caplog: pytest.LogCaptureFixture) -> None:
    plugin, request = make_guard().plugin_config(), {"messages": make_talk(10)}
    with caplog.at_level(logging.WARNING):
        for context, given in ((Faulty(), request), (Context("agent"), Faulty()), (Faulty(), Faulty())):
            plugin.before_model(context, given)
            plugin.after_model(context, given)
            asyncio.run(plugin.before_model_callback(callback_context=context, llm_request=given))
            asyncio.run(plugin.after_model_callback(callback_context=context, llm_response=given))
    assert "RuntimeError: no " in caplog.text


# -- coroutines, and a framework's own objects -------------------------------------------------------------------------


class LlmRequest(BaseModel):
    """The fields of ADK's own class of this name that matter here."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    model: str | None = None
    contents: list[types.Content] = Field(default_factory=list)
    config: types.GenerateContentConfig = Field(default_factory=types.GenerateContentConfig)
    tools_dict: dict[str, Any] = Field(default_factory=dict, exclude=True)


class LlmResponse(BaseModel):
    """The same of its response."""

    content: types.Content | None = None
    usage_metadata: types.GenerateContentResponseUsageMetadata | None = None
    partial: bool | None = None


class State:
    """ADK's state: used like a dictionary, and none."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def get(self, key: str, default: object = None) -> object:
        return self.values.get(key, default)

    def __getitem__(self, key: str) -> object:
        return self.values[key]

    def __setitem__(self, key: str, value: object) -> None:
        self.values[key] = value


class HostSession(Struct):
    id: str


class CallbackContext:
    """ADK's context of a callback."""

    def __init__(self, session: str = "s-1") -> None:
        self.agent_name, self.session, self.state = "agent", HostSession(session), State()


def make_contents(turns: int) -> list[types.Content]:
    out = []
    for number in range(turns):
        call = types.FunctionCall(name="look", args={"part": number})
        answer = types.FunctionResponse(name="look", response={"output": make_text(800, number)})
        out += [
            types.Content(role="user", parts=[types.Part(text=make_text(400, number))]),
            types.Content(role="model", parts=[types.Part(function_call=call)]),
            types.Content(role="user", parts=[types.Part(function_response=answer)]),
            types.Content(role="model", parts=[types.Part(text="Seen.", thought_signature=b"\x00\xff")]),
        ]
    return [*out, types.Content(role="user", parts=[types.Part(text="What did you see?")])]


def make_request(contents: list[types.Content]) -> LlmRequest:
    tools: list[Any] = [
        types.Tool(function_declarations=[types.FunctionDeclaration(name="look", description="Looks.")])
    ]
    config = types.GenerateContentConfig(system_instruction=make_text(400, 1), tools=tools)
    return LlmRequest(model="gemini-2.5-flash", contents=contents, config=config)


def test_the_callbacks_take_adks_own_objects_by_its_keywords() -> None:
    model = make_summariser()
    plugin = make_guard(model=model).plugin_config()
    context, contents = CallbackContext(), make_contents(12)
    for expected in (1, 1):
        request = make_request(list(contents))
        asyncio.run(plugin.before_model_callback(callback_context=context, llm_request=request))
        assert len(model.asks) == expected
        assert all(isinstance(each, types.Content) for each in request.contents)
        assert OPENING in request.contents[0].parts[0].text  # type: ignore[index, operator]
        assert "`What did you see?`" in request.contents[1].parts[0].text  # type: ignore[index, operator]
        assert all(kept is sent for kept, sent in zip(contents[49:], request.contents[2:], strict=True))
        assert request.config.system_instruction == make_text(400, 1)
        usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=700, candidates_token_count=9)
        response = LlmResponse(usage_metadata=usage)
        asyncio.run(plugin.after_model_callback(callback_context=context, llm_response=response))
        assert context.state.values["__context_guard_real_tokens_agent"] == 700
        contents += [
            types.Content(role="model", parts=[types.Part(text="A cellar.", thought_signature=b"\x01")]),
            types.Content(role="user", parts=[types.Part(text="And then?")]),
        ]


def test_a_partial_response_of_adk_is_no_report() -> None:
    made, context = make_guard(), CallbackContext()
    plugin = made.plugin_config()
    plugin.before_model(context, make_request(make_contents(1)))
    usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=700)
    plugin.after_model(context, LlmResponse(usage_metadata=usage, partial=True))
    assert context.state.values["__context_guard_real_tokens_agent"] == 0
    plugin.after_model(context, LlmResponse(usage_metadata=usage))
    assert context.state.values["__context_guard_real_tokens_agent"] == 700


def test_conversations_of_a_framework_are_kept_apart_by_their_session() -> None:
    made = make_guard()
    for name in ("one", "two"):
        made.plugin_config().before_model(CallbackContext(name), make_request(make_contents(1)))
    sessions = [made.strategies["agent"].get_session(Context("agent", name)) for name in ("one", "two")]
    assert [session.view.length for session in sessions] == [5, 5]


class SlowModel:
    """A coroutine that answers once another loop, that of the hooks, has turned a few times meanwhile."""

    def __init__(self) -> None:
        self.is_turned = threading.Event()
        self.waited: list[bool] = []

    async def aanswer(self, ask: SummaryAsk) -> Answer:
        return await asyncio.to_thread(self.answer, ask)

    def answer(self, ask: SummaryAsk) -> Answer:  # noqa: ARG002 - the answer is always the same
        self.waited.append(self.is_turned.wait(60))
        return Answer(text=SUMMARY)


def test_the_coroutines_do_not_hold_the_loop_while_a_model_writes() -> None:
    requests = [{"messages": make_talk(10)} for _ in range(3)]
    model = SlowModel()

    async def tick() -> None:
        for _ in range(10):
            await asyncio.sleep(0.005)
        model.is_turned.set()

    async def call_hooks() -> None:
        before = make_guard(model=model).plugin_config().before_model_callback
        hooks = (before(Context("agent", str(n)), request) for n, request in enumerate(requests))
        await asyncio.gather(tick(), *hooks)

    asyncio.run(call_hooks())
    assert all("Going on very well" in dump_messages(request) for request in requests)
    assert model.waited == [True] * len(model.waited), "the loop went on"
    assert len(model.waited) >= len(requests)


def test_the_coroutines_do_not_raise_either() -> None:
    made = new(store=Broken(RuntimeError("closed"))).add(
        "agent", make_summariser(), with_max_tokens(8_000), counter=CharacterCounter()
    )
    plugin, request = made.plugin_config(), {"messages": make_talk(10)}
    asyncio.run(plugin.before_model_callback(Context("agent"), request))
    asyncio.run(plugin.after_model_callback(Context("agent"), {"usage": {"input_tokens": 900}}))
    assert len(request["messages"]) == 2
    assert get_state(made.strategies["agent"].get_session(Context("agent"))).real_tokens == 900


# -- what the summariser is sent ---------------------------------------------------------------------------------------


class Named:
    """A model that knows its name."""

    def __init__(self, model: str) -> None:
        self.model, self.script = model, make_summariser()

    def answer(self, ask: SummaryAsk) -> Answer:
        return self.script.answer(ask)


class Sizes(Struct, frozen=True):
    """A registry with a small summariser in it."""

    def context_window(self, model: str) -> int:
        return {"small": 4_000, "agent-model": 32_000}.get(model, 0)

    def default_max_tokens(self, model: str) -> int:  # noqa: ARG002 - it knows none
        return 0


@pytest.mark.parametrize(("name", "given", "limit"), [("small", "", 3_200), ("", "small", 3_200), ("", "", 25_600)])
def test_the_summarisers_window_is_that_of_its_name_in_the_registry(name: str, given: str, limit: int) -> None:
    """Without a name it is the window of the conversation."""
    llm = Named(name)
    made = new(Sizes()).add("agent", llm, model=given)
    made.plugin_config().before_model(Context("agent"), {"model": "agent-model", "messages": make_talk(30)})
    (ask,) = llm.script.asks
    sent = CharacterCounter().count([ask.prompt])[0] * 2
    assert limit * 0.8 <= sent <= limit + 1_500


def test_a_summariser_that_no_registry_knows_has_the_window_of_the_option() -> None:
    """128,000 stands for an unknown model of a conversation; four fifths of it would overflow a small summarizer."""
    llm = Named("my-own-model")
    made = new().add("agent", llm, with_max_tokens(8_000))
    made.plugin_config().before_model(Context("agent"), {"messages": make_talk(60)})
    (ask,) = llm.script.asks
    assert 6_400 * 0.8 <= CharacterCounter().count([ask.prompt])[0] * 2 <= 6_400 + 700
