"""Tenfold in an agent of the OpenAI Agents SDK: a session that keeps the conversation, and its runs.

    session = TenfoldSession("support-42")
    result = await Runner.run(agent, text, session=session, run_config=session.config())

Before each call of the model, the items of the run go into the session, and the model sees its view. The run's own
items stay whole. Without the `run_config` the conversation is kept as well, but it is compacted only between two runs:
the SDK asks a session for its items at the beginning of a run, and never in it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from inspect import isawaitable
from typing import Any, Unpack

import msgspec

from tenfold.apps.adapters import name_extra

with name_extra(__name__):
    from agents import Agent, FunctionTool, Model, ModelProvider, RunConfig, SessionSettings, function_tool
    from agents.models import get_default_model
    from agents.run_config import CallModelData, ModelInputData

from tenfold.apps.adapters.host_sessions import Fitted, HostSession, HostSessions, build_lookups
from tenfold.core.wire import WIRES
from tenfold.core.wire.given_values import name_type
from tenfold.errors import BadInput, UsageError
from tenfold.recall.tools import SEARCH, RecallTools
from tenfold.session.concurrency import run_uninterrupted
from tenfold.session.opening import SessionOptions
from tenfold.store.ids import IDS

Item = dict[str, Any]
_TAKEN_BACK = "item_taken_back"
"""The kind of the entry behind the last item that is left."""


class ItemConverter:
    """Passes the SDK's items through: they are those of the Responses API. See `Converter`."""

    wire = "openai-responses"

    def read(self, message: Any) -> list[Item]:  # noqa: ANN401 - whatever stands in a list
        """See `Converter.read`."""
        if not isinstance(message, dict):
            raise BadInput(f"{name_type(message)} is no item of the Responses API, which are dicts")
        return [message]

    def build(self, messages: Sequence[Mapping[str, Any]]) -> list[Item]:
        """See `Converter.build`. An answer is one text: the SDK's model for Chat takes no other without an id."""
        return [_join_texts(message) if message.get("role") == "assistant" else dict(message) for message in messages]


def _is_answer(item: Mapping[str, Any]) -> bool:
    return item.get("role") == "assistant" or item.get("type") == "function_call"


def _join_texts(answer: Mapping[str, Any]) -> Item:
    parts = answer["content"]
    if "id" in answer or isinstance(parts, str) or not all(part.get("type") == "output_text" for part in parts):
        return dict(answer)
    return {**answer, "content": "".join(part["text"] for part in parts)}


class _Talk:
    """One list of items that grows from call to call of a model: that of a run, or of an agent that is a tool in it.

    `task` is the one that the run is in, except for its first call, for which the SDK makes another one. `parts` are
    those of the agents that were tools in it, and `shown` is the list of the last call. `is_wrapped` tells whether a
    `TenfoldModel` was asked, and `agent` is the name of who asks.
    """

    def __init__(self, session: TenfoldSession, id: str) -> None:
        self.session, self.id, self.task = session, id, asyncio.current_task()
        self.shown: list[Item] | None = None
        self.parts: list[_Talk] = []
        self.agent, self.is_wrapped = "", False
        self.finish: Callable[[Fitted[Item]], Awaitable[ModelInputData]] | None = None

    @property
    def host(self) -> HostSession[Item]:
        """Where it is kept."""
        return self.session.find(self.id)

    def is_continued_by(self, items: Sequence[Item]) -> bool:
        """Whether a list goes on from the last one."""
        return self.shown is not None and len(items) > len(self.shown) and items[: len(self.shown)] == self.shown


_TALK: ContextVar[_Talk | None] = ContextVar("tenfold_talk", default=None)
"""The one that is going on here."""


class TenfoldSession:
    """Keeps the conversation of an agent in a session, and has the model see it compacted when it grows too long.

    It is a session of the SDK: pass it to `Runner` as `session`, and its `config()` as `run_config`. Every process that
    names the same id has the same conversation. An agent that is a tool of another one has a session of its own for
    each call, which begins with the id of its caller's.

    Give the agents the tools `RECALL` as well, and the model can look up what it no longer sees.

    The options are those of `tenfold.open_session`. Name the `window` if the model's is not known by its name.
    """

    session_settings: SessionSettings | None = None

    def __init__(self, session_id: str, **options: Unpack[SessionOptions]) -> None:
        if not session_id or not isinstance(session_id, str):
            raise UsageError(f'a session is named by the id of its conversation, as "support-42", not {session_id!r}')
        self.session_id = session_id
        self._options: SessionOptions = options
        self._sessions: HostSessions[Item] = HostSessions(ITEMS, options)
        self._items: list[Item] | None = None
        self._lock = threading.Lock()
        self._is_configured = self._has_warned = False

    def config(self, run_config: RunConfig | None = None) -> RunConfig:
        """Returns the configuration of a run in which the model sees the view: this one, or the SDK's own.

        A `call_model_input_filter` that it has is given the view, and its limit of items is ignored. Models that agents
        name are asked through `TenfoldModel`, and one that an agent has as an object is replaced by a `TenfoldModel` of
        it. In a streamed run the SDK takes the object before that, for the first request: then wrap it yourself.
        """
        given = RunConfig() if run_config is None else run_config
        if not isinstance(given, RunConfig):
            raise UsageError(f"config takes a RunConfig of the SDK, not {name_type(given)}")
        self._is_configured = True
        return dataclasses.replace(
            given,
            model=TenfoldModel(given.model) if isinstance(given.model, Model) else given.model,
            model_provider=_Provider(given.model_provider),
            session_settings=None,
            call_model_input_filter=partial(self._show, given),
        )

    async def get_items(self, limit: int | None = None) -> list[Item]:
        """Returns the conversation as the model sees it, or the last items of it."""
        items = await run_uninterrupted(self._read_view)
        if items and limit is None and not self._is_configured:
            items = (await self.find().afit(items)).messages
        self._items = items
        _TALK.set(_Talk(self, self.session_id))  # the SDK asks when a run begins
        return list(items) if limit is None else items[max(0, len(items) - limit) :]

    async def add_items(self, items: list[Item]) -> None:
        """Appends items to the conversation."""
        await run_uninterrupted(lambda: self._warn_of_unseen_calls(items))
        await run_uninterrupted(partial(self._change_items, lambda known: [*known, *items]))

    async def pop_item(self) -> Item | None:
        """Takes the last item out of the conversation, and returns it. The log goes on from before it."""
        items = await run_uninterrupted(partial(self._change_items, lambda known: known[:-1]))
        if len(items) == 1:
            await self.clear_session()
        return items[-1] if items else None

    async def clear_session(self) -> None:
        """Removes the session from the store, with all that was ever in it."""
        await run_uninterrupted(lambda: self.find().remove())
        self._sessions, self._items = HostSessions(ITEMS, self._options), []

    def find(self, id: str = "") -> HostSession[Item]:
        """Finds where the conversation is kept, or that of an agent which is a tool in it."""
        return self._sessions.get(id or self.session_id)

    def learn_model(self, model: str) -> None:
        """Names the model of the first agent that is asked, if the options name none."""
        if model and not self._options.get("model"):
            self._options["model"] = model
            self._sessions = HostSessions(ITEMS, self._options)

    def _warn_of_unseen_calls(self, items: Sequence[Item]) -> None:
        """Reports once that a run has answered without the filter, or that a model was asked without `TenfoldModel`."""
        talk = _TALK.get()
        if talk is None or talk.session is not self or self._has_warned or not any(map(_is_answer, items)):
            return
        problem = ""
        if talk.shown is None:
            problem = (
                f"a run has session={self.session_id!r} and not its configuration, so it is compacted only when it is "
                "over, and fails if it outgrows the model's window: pass run_config=session.config() as well, or "
                "session.config(your_run_config)"
            )
        elif not talk.is_wrapped:
            problem = (
                f"the model of the agent {talk.agent!r} was asked as an object that is not wrapped, so what a request "
                "took is not known, and one that is refused as too long fails: give the agent model=TenfoldModel(model)"
            )
        if problem:
            self._has_warned = True
            self.find().session.compactor.answerer.report_problem(problem)

    def _read_view(self) -> list[Item]:
        encoded = WIRES[ITEMS.wire].encode(self.find().session.refresh().get_messages())
        read = [(msgspec.json.decode(item.raw), item.exact) for item in encoded.items]
        return [each for item, is_exact in read for each in ([item] if is_exact else ITEMS.build([item]))]

    def _change_items(self, change: Callable[[list[Item]], list[Item]]) -> list[Item]:
        """Changes the items that the SDK has of the conversation, and returns what they were.

        They are those that it was given, and what it has added since.
        """
        with self._lock:
            known = self._read_view() if self._items is None else self._items
            items, session = change(known), self.find().session
            if len(items) > len(known) or len(known) > 1:  # else there is nothing left, or was nothing
                session.sync(WIRES[ITEMS.wire].decode([msgspec.json.encode(ITEMS.read(item)[0]) for item in items]))
            if 0 < len(items) < len(known):  # else other processes would still see it
                session.conversation.append_custom(_TAKEN_BACK, b"{}")
            self._items = items
            return known

    async def _show(self, given: RunConfig, data: CallModelData[Any]) -> ModelInputData:
        """Returns what the model sees: the filter of a run."""
        agent, items = data.agent, data.model_data.input
        fields = _describe_request(given, agent) | {"instructions": data.model_data.instructions}
        talk = self._find_talk(agent, items)
        talk.agent = agent.name
        if given.model is None and isinstance(agent.model, Model) and not isinstance(agent.model, TenfoldModel):
            with suppress(AttributeError):  # of an agent that cannot be changed
                agent.model = TenfoldModel(agent.model)
        talk.session.learn_model(fields["model"] or "")

        async def finish(fitted: Fitted[Item]) -> ModelInputData:
            shown: Any = ModelInputData(fitted.messages, data.model_data.instructions)
            if given.call_model_input_filter is not None:
                shown = given.call_model_input_filter(CallModelData(shown, agent, data.context))
            return await shown if isawaitable(shown) else shown

        talk.shown, talk.finish = items, finish
        return await finish(await talk.host.afit(items, **fields))

    def _find_talk(self, agent: Agent[Any], items: list[Item]) -> _Talk:
        """Finds whose list it is. That of an agent that is a tool goes on in another task than its caller's."""
        talk, task = _TALK.get(), asyncio.current_task()
        if talk is None:  # the SDK goes on with a run that was interrupted, and has not asked for the items
            talk = _Talk(self, self.session_id)
        elif talk.shown is not None and talk.task is not task:
            caller, talk = talk, next((part for part in talk.parts if part.is_continued_by(items)), None)
            if talk is None:
                talk = _Talk(caller.session, f"{caller.id}/{agent.name}-{IDS.generate()}")
                caller.parts.append(talk)
            talk.task = task
        _TALK.set(talk)
        return talk


def _note_wrapped() -> _Talk | None:
    """Notes that a `TenfoldModel` is asked in the talk that is going on here, and returns that."""
    talk = _TALK.get()
    if talk is not None:
        talk.is_wrapped = True
    return talk


class TenfoldModel(Model):
    """Another model, whose usage is reported, and which answers a shorter list if the provider refuses one as too long.

    In a run without a `TenfoldSession` it is just that other model.
    """

    def __init__(self, model: Model) -> None:
        self._model = model

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - what other models have besides
        if name == "_model":  # while it is copied
            raise AttributeError(name)
        return getattr(self._model, name)

    async def get_response(self, system_instructions: Any, input: Any, *rest: Any, **named: Any) -> Any:  # noqa: ANN401
        """See `Model`."""
        talk = _note_wrapped()
        try:
            response = await self._model.get_response(system_instructions, input, *rest, **named)
        except Exception as exc:
            if talk is None:
                raise
            shown = await _shrink(talk, exc)
            response = await self._model.get_response(shown.instructions, shown.input, *rest, **named)
        await _report_usage(talk, response.usage)
        return response

    async def stream_response(  # noqa: D102 - see the class
        self,
        system_instructions: Any,  # noqa: ANN401 - see `Model`
        input: Any,  # noqa: ANN401
        *rest: Any,  # noqa: ANN401
        **named: Any,  # noqa: ANN401
    ) -> AsyncIterator[Any]:
        talk, has_begun = _note_wrapped(), False
        try:
            async for event in self._model.stream_response(system_instructions, input, *rest, **named):
                has_begun = True
                await _report_usage(talk, _find_usage(event))
                yield event
        except Exception as exc:
            if talk is None or has_begun:
                raise
            shown = await _shrink(talk, exc)
            async for event in self._model.stream_response(shown.instructions, shown.input, *rest, **named):
                await _report_usage(talk, _find_usage(event))
                yield event

    def get_retry_advice(self, request: Any) -> Any:  # noqa: ANN401 - see `Model`
        """See `Model`."""
        return self._model.get_retry_advice(request)

    async def close(self) -> None:
        """See `Model`."""
        await self._model.close()

    async def _cleanup_on_run_end(self, owner: object) -> None:
        await self._model._cleanup_on_run_end(owner)  # noqa: SLF001 - what the SDK calls


class _Provider(ModelProvider):
    """Wraps the models that agents name."""

    def __init__(self, provider: ModelProvider) -> None:
        self._provider = provider

    def get_model(self, model_name: str | None) -> Model:
        return TenfoldModel(self._provider.get_model(model_name))

    async def aclose(self) -> None:
        await self._provider.aclose()


ITEMS = ItemConverter()


def _find_tools() -> RecallTools:
    talk = _TALK.get()
    if talk is None:
        raise UsageError("the tools RECALL need a run with session=TenfoldSession(...) and its config() as run_config")
    return talk.host.tools


RECALL: list[FunctionTool] = [function_tool(function) for function in build_lookups(_find_tools)]
"""The tools with which the model looks up what it no longer sees: `Agent(..., tools=[*tools, *RECALL])`."""


def _describe_request(run_config: RunConfig, agent: Agent[Any]) -> dict[str, Any]:
    """Describes what is sent besides the items, as far as it is known before the call. The reported usage has all."""
    model = run_config.model or agent.model or get_default_model()
    settings = agent.model_settings.resolve(run_config.model_settings)
    return {
        "model": model if isinstance(model, str) else getattr(model, "model", None),
        "tools": [_describe_tool(tool) for tool in (*agent.tools, *agent.handoffs)] or None,
        "max_output_tokens": settings.max_tokens,
        "recall": "tool" if any(tool.name == SEARCH for tool in agent.tools) else "none",
    }


def _describe_tool(tool: Any) -> Item:  # noqa: ANN401 - a tool of any kind, a handoff, or an agent to hand off to
    return {
        "type": "function",
        "name": getattr(tool, "tool_name", "") or tool.name,
        "description": getattr(tool, "description", "") or getattr(tool, "tool_description", ""),
        "parameters": getattr(tool, "params_json_schema", None) or getattr(tool, "input_json_schema", {}),
    }


async def _shrink(talk: _Talk, error: Exception) -> ModelInputData:
    """Returns something shorter to send. Raises the error again if it is about something else."""
    if talk.finish is None:
        raise error
    return await talk.finish(await talk.host.ashrink(error))


def _find_usage(event: Any) -> Any:  # noqa: ANN401 - an event of a stream
    return event.response.usage if getattr(event, "type", "") == "response.completed" else None


async def _report_usage(talk: _Talk | None, usage: Any) -> None:  # noqa: ANN401 - the SDK's, or OpenAI's
    if talk is None or usage is None:
        return
    details = usage.input_tokens_details
    cached, written = getattr(details, "cached_tokens", 0) or 0, getattr(details, "cache_write_tokens", 0) or 0
    await talk.host.areport_usage(usage.input_tokens, usage.output_tokens, cached=cached, written=written)
