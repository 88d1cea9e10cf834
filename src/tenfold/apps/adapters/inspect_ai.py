"""Tenfold in an agent of Inspect: one model.

    agent = react(model=tenfold_model(), tools=[...])

Before each call of the model, the messages of the agent go into a session, and the model sees its view. The agent's own
messages stay whole, so logs and scorers see all of them.

Where an agent takes a strategy and no agent for its model, as `deepagent` and the bridges do, there is one:

    agent = deepagent(compaction=TenfoldCompaction())

Inspect asks that only for a shorter list when the conversation has grown too long, so a session holds nothing before.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Unpack

from tenfold.apps.adapters import name_extra

with name_extra(__name__):
    from inspect_ai.agent import Agent, AgentState
    from inspect_ai.event import SpanBeginEvent
    from inspect_ai.log import transcript
    from inspect_ai.log._samples import sample_active
    from inspect_ai.model import (
        ChatMessage,
        ChatMessageAssistant,
        ChatMessageSystem,
        ChatMessageTool,
        ChatMessageUser,
        CompactionStrategy,
        Model,
        ModelOutput,
        execute_tools,
        get_model,
    )
    from inspect_ai.tool import Tool, ToolDef, ToolInfo
    from inspect_ai.util import current_span_id

from tenfold.apps.adapters.host_sessions import MAX_SESSIONS, Fitted, HostSession, HostSessions, build_lookups
from tenfold.compaction.trigger.limits import FillTrigger
from tenfold.core.wire.given_values import name_type
from tenfold.errors import ContextOverflow, UsageError
from tenfold.formats.objects.inspect_ai import CONVERTER
from tenfold.recall.tools import SEARCH, describe_tools
from tenfold.session.concurrency import run_in_thread
from tenfold.session.opening import SessionOptions


def tenfold_model(
    model: str | Model | None = None, /, *, recall: bool = True, session: str = "", **options: Unpack[SessionOptions]
) -> Agent:
    """Builds what `react(model=...)` takes for a model: the one that is evaluated, or another one.

    It keeps the messages of the agent in a session, and has the model see them compacted when they grow too long. Each
    sample has a session of its own, and so has each agent that another one runs. They are new ones for each run of an
    evaluation, unless `session` names them: then the same sample goes on in the session "NAME/sample/epoch".

    The model is offered three tools to look up what it no longer sees, unless `recall` is False. The other options are
    those of `tenfold.open_session`: name the `window` if the model's is not known by its name.
    """
    if not (model is None or isinstance(model, str | Model)):
        raise UsageError(f"{name_type(model)} is no model of Inspect: pass its name, or what get_model() returns")
    conversations = _Conversations(session, options)
    lookups = conversations.build_tools(" Call it by itself.") if recall else []  # the agent does not know it
    names = {ToolDef(lookup).name for lookup in lookups}

    async def generate(state: AgentState, tools: list[Tool]) -> AgentState:
        """Has the model answer the view of a conversation, until it has looked up what it wants."""
        running, host = get_model(model), conversations.find(get_model(model).name)
        while True:
            offered = [*tools, *lookups]
            state.output = await _answer(running, host, state.messages, offered)
            state.messages.append(state.output.message)
            calls = state.output.message.tool_calls or []
            if not (calls and names.issuperset(call.function for call in calls)):
                return state
            state.messages.extend((await execute_tools(state.messages, lookups)).messages)

    return generate


class TenfoldCompaction(CompactionStrategy):
    """Gives the view of a session in place of a list that has grown too long. For the sessions see `tenfold_model`.

    The `threshold` is when Inspect asks: a number of tokens, or a share of the window. It is a source of tools as well:
    give it to the agent as one of its `tools`, and the model can look up what it no longer sees.
    """

    def __init__(self, *, threshold: float | None = None, session: str = "", **options: Unpack[SessionOptions]) -> None:
        """Without a `window`, the window is what Inspect knows of the model."""
        at: Any = FillTrigger().act_share if threshold is None else threshold
        window = options.get("window")
        if not isinstance(at, int | float) or at <= 0:
            raise UsageError(f"threshold is {threshold!r}: it is tokens, or a share of the window as in 0.85")
        if window and isinstance(at, float) and at <= 1:
            at = int(at * window)
        super().__init__(type="summary", threshold=at, memory=False)
        self._conversations = _Conversations(session, options)
        self._tools = self._conversations.build_tools()

    async def tools(self) -> list[Tool]:
        """Returns the tools with which the model looks up what it no longer sees."""
        return self._tools

    @property
    def preserve_prefix(self) -> bool:
        """Says that Inspect need not put back what was asked for: it is in the view."""
        return False

    async def compact(
        self, model: Model, messages: list[ChatMessage], tools: list[ToolInfo]
    ) -> tuple[list[ChatMessage], ChatMessageUser | None]:
        """Returns the view in place of the messages. Nothing is added to the history."""
        request = _Request(self._conversations.find(model.name), messages, model, tools)
        shown = await request.fit()
        if list(map(id, shown)) == list(map(id, messages)):  # it is too long by Inspect's count, or the provider's
            reading = await run_in_thread(request.host.session.take_reading)
            shown = await request.fit(to=max(1, reading.estimate // 2))
        return shown, None


class _Conversations:
    """The sessions of the conversations that an agent has, each found by where it runs."""

    def __init__(self, session: str, options: SessionOptions) -> None:
        self._sessions: HostSessions[ChatMessage] = HostSessions(CONVERTER, options)
        self._session = session

    def find(self, model: str = "") -> HostSession[ChatMessage]:
        """Finds the session of the agent that is running. One that another agent runs has its own."""
        sample, agents = sample_active(), _list_agents(current_span_id() or "")
        place: list[object] = []
        if self._session:
            place = [self._session, *((sample.sample.id, sample.epoch) if sample is not None else ())]
        elif sample is not None:
            place = [sample.sample_uuid]
        if agents and (len(agents) > 1 or not self._session):
            place.append(agents[0])
        return self._sessions.get("/".join(map(str, place)), model)

    def build_tools(self, note: str = "") -> list[Tool]:
        """Builds the tools to look things up in the conversation that calls them."""
        lookups = {function.__name__: _make_async(function) for function in build_lookups(lambda: self.find().tools)}
        told = describe_tools()
        return [ToolDef(each, description=told[name] + note, max_output=0).as_tool() for name, each in lookups.items()]


class _Request:
    """A list of messages for a model, and the session that it belongs to."""

    def __init__(
        self, host: HostSession[ChatMessage], messages: Sequence[ChatMessage], model: Model, tools: Sequence[ToolInfo]
    ) -> None:
        self.host = host
        start = next((at for at, each in enumerate(messages) if not isinstance(each, ChatMessageSystem)), len(messages))
        self._prompts, self._messages = messages[:start], messages[start:]
        self._fields: dict[str, Any] = {
            "model": model.name,
            "system": "\n\n".join(prompt.text for prompt in self._prompts),
            "tools": [_describe_tool(tool) for tool in tools],
            "max_tokens": model.config.max_tokens,
            "recall": "tool" if any(tool.name == SEARCH for tool in tools) else "none",
        }

    async def fit(self, *, to: int | None = None) -> list[ChatMessage]:
        """Returns what is sent."""
        return self._build(await self.host.afit(self._messages, to=to, **self._fields))

    async def shrink(self, error: BaseException) -> list[ChatMessage]:
        """Returns something shorter to send."""
        return self._build(await self.host.ashrink(error))

    def _build(self, fitted: Fitted[ChatMessage]) -> list[ChatMessage]:
        """Puts the system prompts first, and names the function of each result that has lost it.

        Some providers ask for it.
        """
        answers = (message for message in fitted.messages if isinstance(message, ChatMessageAssistant))
        names = {call.id: call.function for answer in answers for call in answer.tool_calls or ()}
        named = (
            message.model_copy(update={"function": names.get(message.tool_call_id)})
            if isinstance(message, ChatMessageTool) and not message.function
            else message
            for message in fitted.messages
        )
        return [*self._prompts, *named]


async def _answer(
    model: Model, host: HostSession[ChatMessage], messages: Sequence[ChatMessage], tools: Sequence[Tool]
) -> ModelOutput:
    """Has the model answer the view, and once more a shorter one if the provider refuses it as too long.

    Inspect tells that by how the answer ended. Its text is then the provider's error.
    """
    described = [_read_tool(tool) for tool in tools]
    request = _Request(host, messages, model, described)
    output = await model.generate(await request.fit(), tools)
    if output.stop_reason == "model_length":
        error = ContextOverflow(f"context_length_exceeded: {output.error or output.completion}")
        with suppress(ContextOverflow):  # it cannot be made shorter: the agent is told how the answer ended
            output = await model.generate(await request.shrink(error), tools)
    usage = output.usage
    if usage is not None:
        cached, written = usage.input_tokens_cache_read or 0, usage.input_tokens_cache_write or 0
        prompt = usage.input_tokens + cached + written
        await host.areport_usage(prompt, usage.output_tokens, cached=cached, written=written)
    return output


@functools.lru_cache(MAX_SESSIONS)
def _list_agents(span: str) -> tuple[str, ...]:
    """Lists the runs of agents that a span is in, the innermost first."""
    spans = {event.id: event for event in transcript().events if isinstance(event, SpanBeginEvent)}
    agents: list[str] = []
    at = spans.get(span)
    while at is not None:
        agents += [at.id] if at.type == "agent" else []
        at = spans.get(at.parent_id or "")
    return tuple(agents)


def _read_tool(tool: Tool) -> ToolInfo:
    read = ToolDef(tool)
    return ToolInfo(name=read.name, description=read.description, parameters=read.parameters)


def _describe_tool(tool: ToolInfo) -> dict[str, Any]:
    return {"type": "function", "function": tool.model_dump(exclude_none=True, exclude={"options"})}


def _make_async(function: Callable[..., str]) -> Callable[..., Any]:
    """Makes a function one that Inspect takes for a tool."""

    @functools.wraps(function)
    async def look_up(*args: Any, **arguments: Any) -> str:  # noqa: ANN401 - what the model wrote
        return await run_in_thread(lambda: function(*args, **arguments))

    return look_up
