"""Tenfold in an agent or a team of agno: one call around it.

    agent = keep_in_window(Agent(model=OpenAIChat("gpt-5-mini"), tools=tools))

Agno's own `Compaction` acts between the runs of a session; while a run calls its tools, only once a request was
refused. What agno calls before every request is the model. So the agent gets a copy of its model that puts the messages
of each request into a session and sends the session's view. Agno's own list does not change: what it stores and
streams is what it was before.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import Any, TypeVar, Unpack

from tenfold.apps.adapters import name_extra

with name_extra(__name__):
    from agno.agent import Agent
    from agno.models.base import Model
    from agno.models.message import Message
    from agno.team import Team
    from agno.tools.function import Function

from tenfold.apps.adapters.host_sessions import Fitted, HostSession, HostSessions, build_lookups
from tenfold.core.wire.given_values import name_type
from tenfold.errors import UsageError
from tenfold.formats.objects.agno import CONVERTER
from tenfold.session.concurrency import run_uninterrupted
from tenfold.session.opening import SessionOptions

A = TypeVar("A")
_FALLBACKS = ("on_error", "on_rate_limit", "on_context_overflow")
_LIMITS = ("max_completion_tokens", "max_tokens", "max_output_tokens")
_COUNT_APART = frozenset({"Claude", "AwsBedrock"})
"""Models whose usage counts the cache beside the prompt, and not as a part of it."""


def keep_in_window(agent: A, *, recall: bool = True, **options: Unpack[SessionOptions]) -> A:
    """Keeps the conversations of an `Agent` or a `Team` in sessions, compacted when they grow too long.

    A session has the id of agno's session (`agent.run(task, session_id=...)`), so every process that serves it has the
    same one. It goes on from run to run, also where agno stores no history. If agno adds its history to the context,
    set `num_history_runs` high: runs that it leaves out are left out here as well. Each run of a member of a team, or
    of a step of a workflow, is a session of its own. The model is offered three tools to look up what it no longer
    sees, unless `recall` is False.

    The options are those of `tenfold.open_session`. Name the `window` if the model's is not known by its name. Returns
    the same agent. Raises `UsageError` for anything else, and for an agent without a model.
    """
    if not isinstance(agent, Agent | Team):
        raise UsageError(f"keep_in_window takes an Agent or a Team of agno, and not {name_type(agent)}")
    if not isinstance(agent.model, Model):
        raise UsageError("this agent has no model yet: name one, as in Agent(model=OpenAIChat('gpt-5-mini'))")
    if isinstance(agent.model, _SessionModel):
        raise UsageError("the model of this agent is that of another one which is kept in its window: give it its own")
    keeper = _AgnoSessions(agent, options, recall=recall)
    agent.model = keeper.wrap(agent.model)
    for models in (getattr(agent.fallback_config, name, []) for name in _FALLBACKS):
        models[:] = map(keeper.wrap, models)
    return agent


class _AgnoRun:
    """What goes on between two requests of a run. Without a session, everything is sent as it is."""

    def __init__(self, host: HostSession[Message] | None = None, *, recall: bool = False) -> None:
        self._host, self._recall = host, recall
        self._prompt: list[Message] = []
        self._fields: dict[str, Any] = {}
        self._asked: list[Message] = []

    def fit(self, model: Any, messages: list[Message], tools: Any) -> list[Message]:  # noqa: ANN401 - agno's
        """Returns what to send."""
        if self._host is None:
            return messages
        said = self._read_request(model, messages, tools)
        return self._join(self._host.fit(said, **self._fields))

    async def afit(self, model: Any, messages: list[Message], tools: Any) -> list[Message]:  # noqa: ANN401 - agno's
        """Does the same as `fit`."""
        if self._host is None:
            return messages
        said = self._read_request(model, messages, tools)
        return self._join(await self._host.afit(said, **self._fields))

    def shrink(self, error: Exception) -> list[Message]:
        """Returns something shorter. Raises an error again that is about something else."""
        if self._host is None:
            raise error
        return self._join(self._host.shrink(error))

    async def ashrink(self, error: Exception) -> list[Message]:
        """Does the same as `shrink`."""
        if self._host is None:
            raise error
        return self._join(await self._host.ashrink(error))

    def keep_end(self, messages: list[Message]) -> None:
        """Appends what came after the last request, which the next run's list may lack."""
        if self._host is not None and self._asked:
            self._host.keep_answer(self._find_answers(messages))

    async def akeep_end(self, messages: list[Message]) -> None:
        """Does the same as `keep_end`."""
        if self._host is not None and self._asked:
            await self._host.akeep_answer(self._find_answers(messages))

    def report_usage(self, model: Any, usage: Any) -> None:  # noqa: ANN401 - a model, and its MessageMetrics
        """Reports the usage that agno has read from an answer, if it has any."""
        if self._host is not None and usage is not None:
            cached, written = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
            is_apart = any(each.__name__ in _COUNT_APART for each in type(model).__mro__)
            prompt = (usage.input_tokens or 0) + (cached + written if is_apart else 0)
            self._host.report_usage(prompt, usage.output_tokens or 0, cached=cached, written=written)

    def _read_request(self, model: Any, messages: list[Message], tools: Any) -> list[Message]:  # noqa: ANN401 - agno's
        """Notes what is sent besides the messages behind the system prompt, and returns those."""
        count = int(bool(messages) and messages[0].role in ("system", "developer"))
        self._prompt, self._asked = messages[:count], list(messages)
        self._fields = {
            "model": model.id,
            "system": CONVERTER.read(messages[0])[0]["content"] if count else None,
            "tools": tools or None,
            "max_tokens": next(filter(None, (getattr(model, name, None) for name in _LIMITS)), None),
            "recall": "tool" if self._recall else "none",
        }
        return messages[count:]

    def _find_answers(self, messages: list[Message]) -> list[Message]:
        known = set(map(id, self._asked))
        return [message for message in messages if id(message) not in known]

    def _join(self, fitted: Fitted[Message]) -> list[Message]:
        return [*self._prompt, *fitted.messages]


class _AgnoSessions:
    """The sessions of one agent, and of the members of a team that have their model from it."""

    def __init__(self, agent: Any, options: SessionOptions, *, recall: bool) -> None:  # noqa: ANN401 - or a team
        self._agent, self._recall = agent, recall
        self._sessions: HostSessions[Message] = HostSessions(CONVERTER, options)
        self._runs: dict[str, _AgnoRun] = {}

    def __deepcopy__(self, memo: object) -> _AgnoSessions:
        """Copies of an agent have the same sessions."""
        return self

    def wrap(self, model: Any) -> Any:  # noqa: ANN401 - a model of any class
        """Returns a copy of a model that sends views. Agno looks at the name of its class, so that stays."""
        kept = copy.copy(model)
        kept.__class__ = type(type(model).__name__, (_SessionModel, type(model)), {})
        kept.keeper = self
        if hasattr(kept, "use_previous_response_id"):  # OpenAI would go on from its own copy of the conversation
            kept.use_previous_response_id = False
        if hasattr(kept, "_find_previous_interaction"):  # and so would Google
            kept.store = False
        return kept

    @contextmanager
    def open(self, model: str, request: dict[str, Any]) -> Iterator[_AgnoRun]:
        """Opens the session of a run, and adds the tools to look things up to what the model is offered."""
        run = request.get("run_response")
        if run is None:  # no part of a run: agno asks for a name, or for what to remember
            yield _AgnoRun()
            return
        runner = getattr(run, "agent_id", None) or getattr(run, "team_id", None)
        owners = ("team_id", "parent_team_id", "workflow_id")
        is_part = runner != self._agent.id or any(getattr(self._agent, name, None) for name in owners)
        kept = self._sessions.get(f"{run.session_id}/{runner}/{run.run_id}" if is_part else str(run.session_id), model)
        if self._recall:
            lookups = map(Function.from_callable, build_lookups(lambda: kept.tools))
            request["tools"] = [*(request.get("tools") or ()), *lookups]
        # Each run has a list of its own, even if it begins as the one before did.
        opened = self._runs[run.run_id] = _AgnoRun(HostSession(lambda: kept.session, CONVERTER), recall=self._recall)
        try:
            yield opened
        finally:
            self._runs.pop(run.run_id, None)

    def find(self, request: Mapping[str, Any]) -> _AgnoRun:
        """Finds the run that a request belongs to."""
        run = request.get("run_response")
        return self._runs.get(run.run_id if run is not None else "") or _AgnoRun()


class _SessionModel(Model):
    """Stands before the class of a model: the four ways to have it run, and the four ways to ask it."""

    keeper: _AgnoSessions

    def response(self, messages: list[Message], **rest: Any) -> Any:  # noqa: ANN401 - as agno has it
        with self.keeper.open(self.id, rest) as run:
            response = super().response(messages=messages, **rest)
            run.keep_end(messages)
        return response

    async def aresponse(self, messages: list[Message], **rest: Any) -> Any:  # noqa: ANN401
        with self.keeper.open(self.id, rest) as run:
            response = await super().aresponse(messages=messages, **rest)
            await run.akeep_end(messages)
        return response

    def response_stream(self, messages: list[Message], **rest: Any) -> Iterator[Any]:  # noqa: ANN401
        with self.keeper.open(self.id, rest) as run:
            yield from super().response_stream(messages=messages, **rest)
            run.keep_end(messages)

    async def aresponse_stream(self, messages: list[Message], **rest: Any) -> AsyncIterator[Any]:  # noqa: ANN401
        with self.keeper.open(self.id, rest) as run:
            async for event in super().aresponse_stream(messages=messages, **rest):
                yield event
            await run.akeep_end(messages)

    def invoke(self, messages: list[Message], **rest: Any) -> Any:  # noqa: ANN401
        run = self.keeper.find(rest)
        sent = run.fit(self, messages, rest.get("tools"))
        try:
            answer = super().invoke(messages=sent, **rest)
        except Exception as exc:  # noqa: BLE001 - `shrink` raises what is about something else
            answer = super().invoke(messages=run.shrink(exc), **rest)
        self._end_request(run, messages, rest, answer.response_usage)
        return answer

    async def ainvoke(self, messages: list[Message], **rest: Any) -> Any:  # noqa: ANN401
        run = self.keeper.find(rest)
        sent = await run.afit(self, messages, rest.get("tools"))
        try:
            answer = await super().ainvoke(messages=sent, **rest)
        except Exception as exc:  # noqa: BLE001 - as above
            answer = await super().ainvoke(messages=await run.ashrink(exc), **rest)
        await run_uninterrupted(lambda: self._end_request(run, messages, rest, answer.response_usage))
        return answer

    def invoke_stream(self, messages: list[Message], **rest: Any) -> Iterator[Any]:  # noqa: ANN401
        run, usage = self.keeper.find(rest), None
        stream = super().invoke_stream(messages=run.fit(self, messages, rest.get("tools")), **rest)
        try:
            first = next(stream, None)
        except Exception as exc:  # noqa: BLE001 - as above
            stream = super().invoke_stream(messages=run.shrink(exc), **rest)
            first = next(stream, None)
        for piece in chain([first] if first is not None else [], stream):
            usage = piece.response_usage or usage
            yield piece
        self._end_request(run, messages, rest, usage)

    async def ainvoke_stream(self, messages: list[Message], **rest: Any) -> AsyncIterator[Any]:  # noqa: ANN401
        run, usage = self.keeper.find(rest), None
        stream = super().ainvoke_stream(messages=await run.afit(self, messages, rest.get("tools")), **rest)
        try:
            piece = await anext(stream, None)
        except Exception as exc:  # noqa: BLE001 - as above
            stream = super().ainvoke_stream(messages=await run.ashrink(exc), **rest)
            piece = await anext(stream, None)
        while piece is not None:
            usage = piece.response_usage or usage
            yield piece
            piece = await anext(stream, None)
        await run_uninterrupted(lambda: self._end_request(run, messages, rest, usage))

    def _end_request(self, run: _AgnoRun, messages: list[Message], rest: Mapping[str, Any], usage: Any) -> None:  # noqa: ANN401
        if rest.get("retry_with_guidance"):  # Gemini takes its guidance out of the list that it was given
            self._remove_temporary_messages(messages)
        run.report_usage(self, usage)
