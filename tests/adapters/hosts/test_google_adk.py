"""The plugin for Google's ADK, with ADK's own agents, runners and models."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("google.adk", reason="make adapters installs it")

from google.adk.agents import LlmAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps import App
from google.adk.models import BaseLlm, Gemini, LlmRequest, LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService, InMemorySessionService
from google.adk.tools import google_search
from google.adk.tools.agent_tool import AgentTool
from google.adk.workflow import START, BaseNode, JoinNode, Workflow
from google.genai import types
from google.genai.errors import ClientError, ServerError
from google.genai.types import Content, Part, UserContent
from pydantic import BaseModel, Field

import tenfold
from tenfold.apps.adapters.google_adk import TenfoldPlugin
from tenfold.core.meter.counters import choose_counter
from tenfold.errors import BadInput
from tenfold.formats.objects.google_adk import CONVERTER
from tenfold.store.location import open_store
from tests.adapters.watched_store import WatchedStore
from tests.models.loopback import Got, Loopback, Served

PNG = b"\x89PNG\r\n\x1a\n" + b"\xfb\xff\xfe" * 20
COUNTER = choose_counter(None).counter
REFUSED = "The input token count (20000) exceeds the maximum number of tokens allowed (8000)."
Answer = Callable[[LlmRequest], Part]


class Scripted(BaseLlm):
    """A model of ADK that keeps what it is sent.

    It reports the tokens of the contents, and `tokens` besides for what nobody else sees.
    """

    model: str = "gemini-2.5-flash"
    answer: Answer
    tokens: int = 0
    seen: list[list[Content]] = Field(default_factory=list)
    tools: list[set[str]] = Field(default_factory=list)
    prompts: list[object] = Field(default_factory=list)

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: ARG002, FBT001, FBT002 - ADK's own signature
    ) -> AsyncGenerator[LlmResponse, None]:
        """Answers by the script."""
        self.seen.append(list(llm_request.contents))
        self.tools.append(set(llm_request.tools_dict))
        self.prompts.append(llm_request.config.system_instruction)
        said = Content(role="model", parts=[self.answer(llm_request)])
        used = self.tokens + COUNTER.count([render(llm_request.contents)])[0]
        usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=used, candidates_token_count=9)
        yield LlmResponse(content=said, usage_metadata=usage if self.tokens else None)


class Watcher(BasePlugin):
    """Keeps the contents of each request as ADK has built them."""

    def __init__(self) -> None:
        super().__init__(name="watcher")
        self.built: list[list[Content]] = []

    async def before_model_callback(
        self,
        *,
        callback_context: CallbackContext,  # noqa: ARG002 - ADK's own signature
        llm_request: LlmRequest,
    ) -> None:
        """Keeps the contents."""
        self.built.append(list(llm_request.contents))


def read_part(number: int) -> str:
    """Reads a part."""
    return f"part {number}: " + " ".join(f"word{number}x{n}" for n in range(120))


def call(name: str, **arguments: object) -> Part:
    return Part(function_call=types.FunctionCall(name=name, args=arguments))


def read_parts(count: int) -> Answer:
    """A model that reads so many parts, says so, and begins anew."""
    numbers = cycle(range(count + 1))

    def answer(_: LlmRequest) -> Part:
        number = next(numbers)
        return call("read_part", number=number) if number < count else Part(text="All is read.")

    return answer


def render(contents: list[Content]) -> str:
    return json.dumps([content.model_dump(mode="json", exclude_none=True) for content in contents])


async def ask(
    agent: BaseNode,
    *messages: str,
    plugins: list[BasePlugin],
    service: BaseSessionService | None = None,
    user: str = "me",
    session: str = "one",
    config: RunConfig | None = None,
) -> list[str]:
    """Sends the messages one after the other, and returns the texts of the events."""
    runner = Runner(
        app=App(name="app", root_agent=agent, plugins=plugins),
        session_service=service or InMemorySessionService(),
        auto_create_session=True,
    )
    said: list[str] = []
    for message in messages:
        events = runner.run_async(
            user_id=user, session_id=session, new_message=UserContent(message), run_config=config or RunConfig()
        )
        async for event in events:
            said += [part.text for part in (event.content.parts or ()) if part.text] if event.content else []
    return said


def test_the_store_is_not_asked_on_the_event_loop(tmp_path: Path) -> None:
    """Nor are reports written there: other requests would wait for whoever holds the store or the session."""
    store, model = WatchedStore(tmp_path / "w.db"), Scripted(answer=lambda _: Part(text="Yes."), tokens=900)
    asyncio.run(ask(LlmAgent(name="agent", model=model), "Go.", "On.", plugins=[TenfoldPlugin(store=store)]))
    assert store.askers
    assert threading.get_ident() not in store.askers


def list_sessions(store: Path) -> dict[str, int]:
    """The sessions of a store, each with its number of entries."""
    opened = open_store(store)
    rows = {row.info.id: row.entry_count for row in opened.list_sessions("default")}
    opened.close()
    return rows


# -- contents ----------------------------------------------------------------------------------------------------------

KINDS = [
    Part(text="Hello"),
    Part(text="I think", thought=True, thought_signature=b"\xfb\xff\xfe1"),
    Part(function_call=types.FunctionCall(name="f", id="adk-1", args={"some_key": None, "n": [1, {"deepKey": 2}]})),
    Part(function_call=types.FunctionCall(name="f", args={}), thought_signature=b"\xff"),
    Part(
        function_response=types.FunctionResponse(
            name="f",
            id="adk-1",
            response={"result": "text", "none": None},
            parts=[
                types.FunctionResponsePart(
                    inline_data=types.FunctionResponseBlob(mime_type="image/png", data=b"\xfb\xff")
                )
            ],
        )
    ),
    Part(inline_data=types.Blob(mime_type="image/png", data=PNG, display_name="a.png")),
    Part(
        inline_data=types.Blob(mime_type="video/mp4", data=PNG), video_metadata=types.VideoMetadata(start_offset="1s")
    ),
    Part(file_data=types.FileData(mime_type="application/pdf", file_uri="gs://a/b.pdf")),
    Part(executable_code=types.ExecutableCode(code="1 + 1", language=types.Language.PYTHON)),
    Part(code_execution_result=types.CodeExecutionResult(outcome=types.Outcome.OUTCOME_OK, output="2")),
]


@pytest.mark.parametrize("part", KINDS, ids=lambda part: next(iter(part.model_dump(exclude_none=True))))
def test_each_kind_of_part_is_converted_and_back(part: Part) -> None:
    for role in ("user", "model"):
        content = Content(role=role, parts=[part])
        read = CONVERTER.read(content)
        assert CONVERTER.build(json.loads(json.dumps(read))) == [content]
        assert CONVERTER.build(CONVERTER.read(content)) == [content]


def test_bytes_are_base64_in_the_usual_alphabet() -> None:
    content = Content(role="user", parts=[KINDS[1], KINDS[4], Part.from_bytes(data=b"\xfb\xff\xfe", mime_type="x/y")])
    parts = CONVERTER.read(content)[0]["parts"]
    assert parts[0]["thoughtSignature"] == "+//+MQ=="
    assert parts[1]["functionResponse"]["parts"][0]["inlineData"]["data"] == "+/8="
    assert parts[2]["inlineData"]["data"] == "+//+"


@pytest.mark.parametrize("wrong", ["Hello", Part(text="Hello"), {"role": "user", "parts": []}])
def test_what_is_no_content_is_named(wrong: object) -> None:
    with pytest.raises(BadInput, match=r"is no content of Google's ADK: pass google\.genai\.types\.Content"):
        CONVERTER.read(wrong)


# -- the plugin --------------------------------------------------------------------------------------------------------


def test_a_short_conversation_goes_out_as_it_is(tmp_path: Path) -> None:
    model, watcher = Scripted(answer=read_parts(2)), Watcher()
    agent = LlmAgent(name="worker", model=model, tools=[read_part])
    asyncio.run(ask(agent, "Begin.", plugins=[watcher, TenfoldPlugin(store=tmp_path / "t.db", window=50_000)]))
    assert [len(contents) for contents in model.seen] == [1, 3, 5]
    for sent, built in zip(model.seen, watcher.built, strict=True):
        assert list(map(id, sent)) == list(map(id, built))


def test_a_long_conversation_is_compacted_and_what_stays_is_the_same_objects(tmp_path: Path) -> None:
    model, watcher = Scripted(answer=read_parts(30)), Watcher()
    agent = LlmAgent(name="worker", model=model, instruction="Read all.", tools=[read_part])
    service = InMemorySessionService()
    plugins = [watcher, TenfoldPlugin(store=tmp_path / "t.db", window=8_000)]
    said = asyncio.run(ask(agent, "Begin.", plugins=plugins, service=service))
    assert said == ["All is read."]
    assert len(watcher.built[-1]) == 61
    assert len(render(model.seen[-1])) < len(render(watcher.built[-1])) / 2
    kept = set(map(id, watcher.built[-1]))
    assert [id(content) in kept for content in model.seen[-1][-4:]] == [True] * 4
    assert model.prompts[0] == model.prompts[-1]
    assert "word8x60" not in render(model.seen[-1])
    stored = asyncio.run(service.get_session(app_name="app", user_id="me", session_id="one"))
    assert stored is not None
    assert "word8x60" in render([event.content for event in stored.events if event.content])
    assert list(list_sessions(tmp_path / "t.db")) == ["app/me/one/worker"]


def test_a_restart_with_a_lost_list_goes_on(tmp_path: Path) -> None:
    def run(message: str) -> Scripted:
        model = Scripted(answer=read_parts(3))
        agent = LlmAgent(name="worker", model=model, tools=[read_part])
        asyncio.run(ask(agent, message, plugins=[TenfoldPlugin(store=tmp_path / "t.db", window=50_000)]))
        return model

    run("The secret word is plover.")
    second = run("Go on.")
    assert [len(contents) for contents in second.seen] == [9, 11, 13, 15]
    assert "plover" in render(second.seen[-1])
    assert "word2x5" in render(second.seen[-1])
    assert list_sessions(tmp_path / "t.db") == {"app/me/one/worker": 16}


def test_a_restart_with_the_whole_list_goes_on(tmp_path: Path) -> None:
    service = InMemorySessionService()
    for message in ("The secret word is plover.", "Go on."):
        model = Scripted(answer=read_parts(12))
        agent = LlmAgent(name="worker", model=model, tools=[read_part])
        plugins: list[BasePlugin] = [TenfoldPlugin(store=tmp_path / "t.db", window=8_000)]
        asyncio.run(ask(agent, message, plugins=plugins, service=service))
    assert render(model.seen[-1]).count("plover") == 1
    assert "word11x119" in render(model.seen[-1])
    assert list(list_sessions(tmp_path / "t.db")) == ["app/me/one/worker"]


def test_what_was_used_is_reported(tmp_path: Path) -> None:
    """The counts of the provider say that the window is nearly full, those of the texts do not."""
    for tokens in (0, 6_000):
        model = Scripted(answer=read_parts(8), tokens=tokens)
        agent = LlmAgent(name="worker", model=model, tools=[read_part])
        plugins: list[BasePlugin] = [TenfoldPlugin(store=tmp_path / f"{tokens}.db", window=8_000)]
        asyncio.run(ask(agent, "Begin.", plugins=plugins))
        assert ("tenfold" in render(model.seen[-1])) == bool(tokens)


def test_the_published_guard_works_as_a_policy(tmp_path: Path) -> None:
    model = Scripted(answer=read_parts(30))
    agent = LlmAgent(name="worker", model=model, tools=[read_part])
    is_installed = "threshold" in tenfold.POLICIES  # a source tree has no entry points
    policy = "threshold" if is_installed else "tenfold.designs.threshold.policy:threshold"
    plugin = TenfoldPlugin(store=tmp_path / "t.db", window=8_000, policy=policy)
    said = asyncio.run(ask(agent, "Begin.", plugins=[plugin]))
    assert said == ["All is read."]
    assert max(len(render(contents)) for contents in model.seen) < 8_000 * 4
    assert "tenfold-summary" in render(model.seen[-1])


@pytest.mark.parametrize("instruction", ["", "Read all."])
def test_a_summary_of_the_system_prompt_is_a_text_as_adk_has_it(tmp_path: Path, instruction: str) -> None:
    """One published design puts its summary there. An agent of a workflow has no instruction of its own."""
    model = Scripted(answer=read_parts(30))
    agent = LlmAgent(name="worker", model=model, instruction=instruction, tools=[read_part])
    plugin = TenfoldPlugin(store=tmp_path / "t.db", window=8_000, policy="tenfold.designs.clip.policy:clip")
    asyncio.run(ask(Workflow(name="flow", edges=[(START, agent)]), "Begin.", plugins=[plugin]))
    assert str(model.prompts[0] or "") == instruction
    last = model.prompts[-1]
    assert isinstance(last, str)
    assert last.startswith(f"{instruction}\n\n[Context Summary".lstrip())


# -- tools -------------------------------------------------------------------------------------------------------------


def test_the_model_looks_up_what_it_no_longer_sees(tmp_path: Path) -> None:
    reads = read_parts(30)

    def answer(request: LlmRequest) -> Part:
        if any(part.function_response and part.function_response.name == "recall_search" for part in parts(request)):
            return Part(text="It is found.")
        known = reads(request)
        return known if known.function_call else call("recall_search", words="word1x77")

    model = Scripted(answer=answer)
    agent = LlmAgent(name="worker", model=model, tools=[read_part])
    said = asyncio.run(ask(agent, "Begin.", plugins=[TenfoldPlugin(store=tmp_path / "t.db", window=8_000)]))
    assert said == ["It is found."]
    assert "word1x77" not in render(model.seen[-1][:-1]).replace('"words": "word1x77"', "")
    assert "word1x78" in render(model.seen[-1][-1:])


def parts(request: LlmRequest) -> Iterator[Part]:
    return (part for content in request.contents for part in content.parts or ())


class Verdict(BaseModel):
    """What an agent answers."""

    good: bool


@pytest.mark.parametrize(
    ("tools", "settings", "offered"),
    [([read_part], {}, True), ([], {}, True), ([], {"output_schema": Verdict}, False), ([google_search], {}, False)],
)
def test_tools_are_offered_where_the_provider_takes_them(
    tmp_path: Path,
    tools: list[Any],
    settings: dict[str, Any],
    offered: bool,  # noqa: FBT001 - a column of the table
) -> None:
    model = Scripted(answer=lambda _: Part(text='{"good": true}'))
    agent = LlmAgent(name="worker", model=model, tools=tools, **settings)
    asyncio.run(ask(agent, "Begin.", plugins=[TenfoldPlugin(store=tmp_path / "t.db", window=8_000)]))
    assert ("recall_search" in model.tools[0]) == offered


def test_no_tools_are_offered_without_recall(tmp_path: Path) -> None:
    model = Scripted(answer=read_parts(30))
    agent = LlmAgent(name="worker", model=model, tools=[read_part])
    plugin = TenfoldPlugin(store=tmp_path / "t.db", window=8_000, recall=False)
    asyncio.run(ask(agent, "Begin.", plugins=[plugin]))
    assert model.tools[-1] == {"read_part"}
    assert "recall" not in render(model.seen[-1])


# -- sessions ----------------------------------------------------------------------------------------------------------


def test_agents_and_tasks_are_apart(tmp_path: Path) -> None:
    said = iter(
        [
            call("helper", request="Do it."), Part(text="helper is done"), Part(text="root is done"),
            call("transfer_to_agent", agent_name="other"), Part(text="other is here"), Part(text="other goes on"),
        ]
    )  # fmt: skip
    model = Scripted(answer=lambda _: next(said))
    helper = LlmAgent(name="helper", model=model, description="Helps.")
    other = LlmAgent(name="other", model=model, description="Does other things.")
    root = LlmAgent(name="root", model=model, tools=[AgentTool(helper)], sub_agents=[other])
    plugins: list[BasePlugin] = [TenfoldPlugin(store=tmp_path / "t.db", window=50_000)]
    asyncio.run(ask(root, "First.", "Second.", "Third.", plugins=plugins))
    assert render(model.seen[1]).count('"text"') == 1
    rows = list_sessions(tmp_path / "t.db")
    assert len(rows) == 3
    assert rows["app/me/one/root"] == 6
    assert rows["app/me/one/other"] == 15  # what ADK quotes is another origin than the rest of its content
    assert next(count for name, count in rows.items() if name.endswith("/helper")) == 2


def test_the_nodes_of_a_workflow_are_apart(tmp_path: Path) -> None:
    """A workflow gives each of its agents one turn, in which it sees no other."""
    models = {name: Scripted(answer=read_parts(2)) for name in ("left", "right")}
    left, right = (LlmAgent(name=name, model=model, tools=[read_part]) for name, model in models.items())
    flow = Workflow(name="flow", edges=[(START, (left, right), JoinNode(name="join"))])
    asyncio.run(ask(flow, "First.", "Second.", plugins=[TenfoldPlugin(store=tmp_path / "t.db", window=50_000)]))
    for model in models.values():
        assert [len(contents) for contents in model.seen] == [1, 3, 5] * 2
        assert "First" not in render(model.seen[-1])
    assert sorted(list_sessions(tmp_path / "t.db").values()) == [6] * 4


def test_two_users_with_one_session_id_are_apart(tmp_path: Path) -> None:
    model = Scripted(answer=lambda _: Part(text="ok"))
    plugin = TenfoldPlugin(store=tmp_path / "t.db", window=50_000)
    for user in ("ann", "ben"):
        agent = LlmAgent(name="worker", model=model)
        asyncio.run(ask(agent, f"I am {user}.", plugins=[plugin], user=user))
    assert "ann" not in render(model.seen[-1])
    assert list_sessions(tmp_path / "t.db") == {"app/ann/one/worker": 2, "app/ben/one/worker": 2}


def test_an_agent_that_sees_one_turn_sees_no_other(tmp_path: Path) -> None:
    model = Scripted(answer=read_parts(3))
    agent = LlmAgent(name="worker", model=model, include_contents="none", tools=[read_part])
    plugin = TenfoldPlugin(store=tmp_path / "t.db", window=50_000)
    asyncio.run(ask(agent, "First.", "Second.", plugins=[plugin]))
    assert [len(contents) for contents in model.seen] == [1, 3, 5, 7] * 2
    assert "First" not in render(model.seen[-1])


def test_a_request_that_goes_on_by_an_id_stays_as_it_is(tmp_path: Path) -> None:
    class Interacting(BasePlugin):
        async def before_model_callback(
            self,
            *,
            callback_context: CallbackContext,  # noqa: ARG002 - ADK's own signature
            llm_request: LlmRequest,
        ) -> None:
            llm_request.previous_interaction_id = "earlier"

    model = Scripted(answer=lambda _: Part(text="ok"))
    plugins = [Interacting("interacting"), TenfoldPlugin(store=tmp_path / "t.db", window=50_000)]
    asyncio.run(ask(LlmAgent(name="worker", model=model), "First.", plugins=plugins))
    assert len(model.seen) == 1
    assert not (tmp_path / "t.db").exists()


# -- refusals ----------------------------------------------------------------------------------------------------------


def refuse_long(limit: int) -> Callable[[Got], Served]:
    """A provider that reads parts, and refuses a request with more bytes."""
    done = iter(range(100))

    def serve(got: Got) -> Served:
        if got.size > limit:
            return Served(status=400, error=REFUSED)
        number = next(done)
        if number < 20:
            return Served(finish="tool", call=(str(number), "read_part", {"number": number}), tokens=(0, 0))
        return Served("All is read.", tokens=(0, 0))

    return serve


@pytest.mark.parametrize("streaming", [StreamingMode.NONE, StreamingMode.SSE])
def test_a_refusal_is_answered_by_a_shorter_request(tmp_path: Path, streaming: StreamingMode) -> None:
    with Loopback(script=refuse_long(12_000)) as provider:
        model = Gemini(model="gemini-2.5-flash", base_url=provider.url, client_kwargs={"api_key": "nothing"})
        agent = LlmAgent(name="worker", model=model, instruction="Read all.", tools=[read_part])
        plugin = TenfoldPlugin(store=tmp_path / "t.db", window=1_000_000)
        config = RunConfig(streaming_mode=streaming)
        said = asyncio.run(ask(agent, "Begin.", plugins=[plugin], config=config))
        sizes = [got.size for got in provider.requests]
        refused = [at for at, size in enumerate(sizes) if size > 12_000]
    assert said[-1] == "All is read."
    assert refused
    assert all(sizes[at + 1] < 12_000 for at in refused)
    answered = provider.requests[refused[0] + 1].body
    assert answered["systemInstruction"] == provider.requests[refused[0]].body["systemInstruction"]
    assert answered["tools"] == provider.requests[refused[0]].body["tools"]


@pytest.mark.parametrize(
    ("served", "raised"),
    [
        (Served(status=400, error="The schema is invalid."), ClientError),
        (Served(status=500, error="Internal error."), ServerError),
    ],
)
def test_another_error_is_raised_as_it_is(tmp_path: Path, served: Served, raised: type[Exception]) -> None:
    with Loopback(served) as provider:
        model = Gemini(model="gemini-2.5-flash", base_url=provider.url, client_kwargs={"api_key": "nothing"})
        agent = LlmAgent(name="worker", model=model)
        with pytest.raises(raised, match=served.error):
            asyncio.run(ask(agent, "Begin.", plugins=[TenfoldPlugin(store=tmp_path / "t.db", window=8_000)]))
        assert len(provider.requests) == 1
