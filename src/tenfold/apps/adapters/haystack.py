"""Tenfold in an agent of Haystack: its hooks.

    agent = Agent(chat_generator=generator, tools=tools, hooks=build_hooks("support-42", window=128_000))

Before each call of the chat generator, the messages of the agent go into a session, and the model sees its view. What
`Agent.run` returns is the whole history.

A hook is not told that a provider has refused a request. `ShorterRetry` around the chat generator is: it answers a
refusal as too long with a shorter request.

    agent = Agent(chat_generator=ShorterRetry(generator), tools=tools, hooks=build_hooks("support-42", window=128_000))
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Unpack

from tenfold.apps.adapters import name_extra

with name_extra(__name__):
    from haystack import component
    from haystack.components.agents.state import State
    from haystack.components.agents.state.state_utils import replace_values
    from haystack.components.generators.chat.types import ChatGenerator
    from haystack.core.serialization import component_to_dict, default_to_dict
    from haystack.dataclasses import ChatMessage, StreamingCallbackT
    from haystack.hooks.protocol import Hook, HookPoint
    from haystack.tools import Tool, ToolsType

from tenfold.apps.adapters.host_sessions import Fitted, HostSession, HostSessions
from tenfold.core.wire.given_values import name_type
from tenfold.errors import UsageError
from tenfold.formats.objects.haystack import CONVERTER, name_tools
from tenfold.recall.tools import RecallTools
from tenfold.session.concurrency import run_uninterrupted
from tenfold.session.opening import SessionOptions
from tenfold.store.ids import IDS

Json = dict[str, Any]
SESSION_KEY = "tenfold_session"
"""Names the session of one run: `agent.run(messages, hook_context={"tenfold_session": "support-42"})`."""


@dataclass
class _HaystackRun:
    """A run of an agent: its session, its whole history, and what stands in its state instead."""

    state: weakref.ref[State]
    session: str
    host: HostSession[ChatMessage]
    whole: list[ChatMessage] = field(default_factory=list)
    shown: list[ChatMessage] = field(default_factory=list)
    fields: Mapping[str, Any] = field(default_factory=dict)

    def is_of(self, state: State) -> bool:
        return self.state() is state

    def is_waiting_for_tools(self) -> bool:
        """Tells whether its tools are running: what runs in the same context now is run by one of them."""
        state = self.state()
        messages = state.data.get("messages") if state is not None else None
        return bool(messages and messages[-1].tool_calls)

    def extend(self, state: State) -> list[Mapping[str, Any]]:
        """Adds what the state has got since. Returns the reports of what it took, for `report`.

        A list that others have changed replaces all.
        """
        messages, count = state.data.get("messages") or [], len(self.shown)
        is_extended = count > 0 and _is_same_list(messages[:count], self.shown)
        new = messages[count:] if is_extended else []
        self.whole = [*self.whole, *new] if is_extended else list(messages)
        self.shown = list(messages)
        return [message.meta for message in new if message.meta.get("usage")]

    def report(self, reports: Sequence[Mapping[str, Any]]) -> None:
        """Reports what answers took: `reports` are what Haystack says of them besides."""
        for meta in reports:
            session = self.host.session
            session.compactor.use_model(session.compactor.model or meta.get("model", ""))
            session.after_model(meta["usage"])

    def place(self, fitted: Fitted[ChatMessage]) -> list[ChatMessage]:
        """Puts the system prompt before the view."""
        return name_tools([*self.split_prompt()[0], *fitted.messages])

    def show(self, state: State, fitted: Fitted[ChatMessage]) -> None:
        """Puts the view into the state, unless it is what stands there."""
        self.shown = self.place(fitted)
        if not _is_same_list(self.shown, state.data["messages"]):
            state.set("messages", self.shown, handler_override=replace_values)

    def split_prompt(self) -> tuple[list[ChatMessage], list[ChatMessage]]:
        """Splits the system prompt from the history: a list that is lost in a restart still begins with it."""
        count = 1 if self.whole and self.whole[0].role.value == "system" else 0
        return self.whole[:count], self.whole[count:]


_RUN: ContextVar[_HaystackRun | None] = ContextVar("tenfold_haystack_run", default=None)
"""The run that an agent is in. Haystack runs its tools in copies of the same context."""


def build_hooks(
    session: str = "", *, recall: bool = True, **options: Unpack[SessionOptions]
) -> dict[HookPoint, list[Hook]]:
    """Builds the hooks of an agent that keep its messages in a session. See `TenfoldHook`."""
    return {"before_llm": [TenfoldHook(session, recall=recall, **options)], "after_run": [WholeHistoryHook()]}


class TenfoldHook:
    """Keeps the messages of an agent in a session, and has the model see them compacted when they grow too long.

    `session` is its id. A run can name another one: see `SESSION_KEY`. Without either, each run has a session of its
    own. So has each run of an agent that is a tool of another one: its id is that of its caller, and a part of its own.
    The model is offered three tools to look up what it no longer sees, unless `recall` is False or it has no tools.

    The options are those of `tenfold.open_session`. Name the `window`, as Haystack's own compaction wants it. Else it
    is known by the model, which is named here or by its answers.

    Pipelines save it with the agent. To load them, Haystack wants to be told that it may import it:
    `HAYSTACK_DESERIALIZATION_ALLOWLIST="tenfold.*"`.
    """

    allowed_hook_points = ("before_llm",)

    def __init__(self, session: str = "", *, recall: bool = True, **options: Unpack[SessionOptions]) -> None:
        if not isinstance(session, str):
            raise UsageError(f"session is {name_type(session)}: pass the session's id, as in build_hooks('support-42')")
        self._session, self._recall, self._options = session, recall, options
        self._sessions: HostSessions[ChatMessage] = HostSessions(CONVERTER, options)
        self._tools = [_build_tool(schema["function"]) for schema in RecallTools.build_schemas()] if recall else []

    def run(self, state: State) -> None:
        """Puts the view into the state in place of the messages."""
        run, reports = self._follow(state)
        run.report(reports)
        run.show(state, run.host.fit(run.split_prompt()[1], **run.fields))

    async def run_async(self, state: State) -> None:
        """Does the same as `run`, and blocks no event loop."""
        run, reports = self._follow(state)
        await run_uninterrupted(lambda: run.report(reports))
        run.show(state, await run.host.afit(run.split_prompt()[1], **run.fields))

    def to_dict(self) -> Json:
        """Serializes the hook. Raises `UsageError` for an option that is no plain value, such as an open store."""
        options = {
            name: os.fspath(value) if isinstance(value, os.PathLike) else value for name, value in self._options.items()
        }
        for name, value in options.items():
            if not isinstance(value, str | int | None):
                raise UsageError(f"{name} is {name_type(value)}, which no pipeline can save: pass its name or path")
        serialized: Json = default_to_dict(self, session=self._session, recall=self._recall, **options)
        return serialized

    def _follow(self, state: State) -> tuple[_HaystackRun, list[Mapping[str, Any]]]:
        """Finds the run that a state belongs to, and adds to its history what is new. Returns the reports with it."""
        run = _RUN.get()
        if run is None or not run.is_of(state):
            name = self._choose_session(state, run)
            run = _HaystackRun(weakref.ref(state), name, self._sessions.get(name))
            _RUN.set(run)
        reports = run.extend(state)
        run.fields = self._describe_request(state, run)
        return run, reports

    def _choose_session(self, state: State, caller: _HaystackRun | None) -> str:
        named = (state.data.get("hook_context") or {}).get(SESSION_KEY)
        if named:
            return str(named)
        if caller is not None and caller.is_waiting_for_tools():
            return f"{caller.session}/{IDS.generate()}"
        return self._session or IDS.generate()

    def _describe_request(self, state: State, run: _HaystackRun) -> Mapping[str, Any]:
        """Describes what is sent besides the messages, and adds the tools to look things up."""
        tools: list[Tool] = state.data.get("tools") or []
        known = {tool.name for tool in tools}
        if tools:  # the Agent sends this very list with the next request, and finds the called tools in it
            tools += [tool for tool in self._tools if tool.name not in known]
        prompt, messages = run.split_prompt()
        named = next((message.meta["model"] for message in reversed(messages) if message.meta.get("model")), None)
        return {
            "model": self._options.get("model") or named,
            "system": prompt[0].text if prompt else None,
            "tools": [{"type": "function", "function": tool.tool_spec} for tool in tools],
            "recall": "tool" if self._recall and tools else "none",
        }


class WholeHistoryHook:
    """Has `Agent.run` return the whole history, and keeps the last answer in the session. It has no options."""

    allowed_hook_points = ("after_run",)

    def run(self, state: State) -> None:
        """Puts the whole history back into the state."""
        run = _RUN.get()
        if run is not None and run.is_of(state):
            run.report(run.extend(state))
            run.host.fit(run.split_prompt()[1], **run.fields)
            state.set("messages", run.whole, handler_override=replace_values)

    async def run_async(self, state: State) -> None:
        """Does the same as `run`, and blocks no event loop."""
        run = _RUN.get()
        if run is not None and run.is_of(state):
            reports = run.extend(state)
            await run_uninterrupted(lambda: run.report(reports))
            await run.host.afit(run.split_prompt()[1], **run.fields)
            state.set("messages", run.whole, handler_override=replace_values)


@component
class ShorterRetry:
    """A chat generator around another one, which answers a refusal as too long with a shorter request, once."""

    def __init__(self, chat_generator: ChatGenerator) -> None:
        if not callable(getattr(chat_generator, "run", None)):
            raise UsageError(f"chat_generator is {name_type(chat_generator)}: pass a chat generator of Haystack")
        self.chat_generator = chat_generator

    @component.output_types(replies=list[ChatMessage])
    def run(
        self,
        messages: list[ChatMessage],
        streaming_callback: StreamingCallbackT | None = None,
        generation_kwargs: dict[str, Any] | None = None,
        tools: ToolsType | None = None,
    ) -> Json:
        """Has the generator answer, and once more a shorter request if the provider refuses this one as too long."""
        inputs = {"streaming_callback": streaming_callback, "generation_kwargs": generation_kwargs, "tools": tools}
        try:
            result: Json = self.chat_generator.run(messages=messages, **inputs)
        except Exception as exc:
            run = _find_sent(messages)
            if run is None:
                raise
            result = self.chat_generator.run(messages=run.place(run.host.shrink(exc)), **inputs)
        return result

    @component.output_types(replies=list[ChatMessage])
    async def run_async(
        self,
        messages: list[ChatMessage],
        streaming_callback: StreamingCallbackT | None = None,
        generation_kwargs: dict[str, Any] | None = None,
        tools: ToolsType | None = None,
    ) -> Json:
        """Does the same as `run`, and blocks no event loop."""
        inputs = {"streaming_callback": streaming_callback, "generation_kwargs": generation_kwargs, "tools": tools}
        try:
            return await self._answer_async(messages, inputs)
        except Exception as exc:
            run = _find_sent(messages)
            if run is None:
                raise
            shorter = run.place(await run.host.ashrink(exc))
            return await self._answer_async(shorter, inputs)

    async def _answer_async(self, messages: list[ChatMessage], inputs: Mapping[str, Any]) -> Json:
        generator = self.chat_generator
        if not hasattr(generator, "run_async"):
            return await asyncio.to_thread(generator.run, messages=messages, **inputs)
        result: Json = await generator.run_async(messages=messages, **inputs)
        return result

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - what the generator has
        """Finds what else the generator has: its model, and what warms it up and closes it."""
        if name == "chat_generator" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.chat_generator, name)

    def to_dict(self) -> Json:
        """Serializes the component with its generator."""
        inner = component_to_dict(self.chat_generator, "chat_generator")
        serialized: Json = default_to_dict(self, chat_generator=inner)
        return serialized


def _find_sent(messages: Sequence[ChatMessage]) -> _HaystackRun | None:
    """Finds the run whose view a request holds."""
    run = _RUN.get()
    return run if run is not None and _is_same_list(messages, run.shown) else None


def _is_same_list(some: Sequence[object], others: Sequence[object]) -> bool:
    return [*map(id, some)] == [*map(id, others)]


def _build_tool(definition: Mapping[str, Any]) -> Tool:
    """Builds a tool to look something up in the session of the run that calls it."""

    def call(**arguments: Any) -> str:  # noqa: ANN401 - what the model wrote
        run = _RUN.get()
        return run.host.tools.handle(definition["name"], arguments) if run is not None else "there is no session"

    return Tool(definition["name"], definition["description"], definition["parameters"], call)
