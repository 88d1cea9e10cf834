"""Tenfold in an agent or a crew of CrewAI: one call around it.

    agent = keep_in_window(Agent(role="Reader", goal="Read all", backstory="...", llm="openai/gpt-5-mini", tools=tools))

A `before_llm_call` hook may change CrewAI's own list and nothing else: it sees neither the tools nor what the provider
reports, cannot catch a refusal, and its errors are swallowed. So the agent gets a copy of its LLM that puts the
messages of each call into a session and sends the session's view. CrewAI's own list does not change.
"""

from __future__ import annotations

import copy
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, Unpack

from tenfold.apps.adapters import name_extra

with name_extra(__name__):
    from crewai import Agent, Crew
    from crewai.agents.parser import AgentFinish
    from crewai.execution import get_execution_uuid
    from crewai.hooks.llm_hooks import model_call_hooks_already_dispatched
    from crewai.llms.base_llm import BaseLLM
    from crewai.tools import tool
    from crewai.utilities.agent_utils import format_answer
    from pydantic import BaseModel

from tenfold.apps.adapters.host_sessions import MAX_SESSIONS, Fitted, HostSession, HostSessions, build_lookups
from tenfold.core.wire.given_values import name_type
from tenfold.errors import BadInput, UsageError
from tenfold.recall.tools import READ, RecallTools
from tenfold.session.concurrency import run_uninterrupted
from tenfold.session.opening import SessionOptions
from tenfold.store.ids import IDS

A = TypeVar("A")
Json = dict[str, Any]
_KEPT = frozenset({"role", "content", "name", "tool_calls", "tool_call_id"})


def keep_in_window(target: A, *, session: str = "", recall: bool = True, **options: Unpack[SessionOptions]) -> A:
    """Keeps the conversations of an `Agent`, or of all agents of a `Crew`, in sessions: compacted when they grow.

    CrewAI has no id for a conversation. With a `session`, the agent has one of that name, and goes on with it in every
    task and every process; it serves one conversation at a time. The agents of a crew each have one:
    "`session`/`role`". Without a name, each task is a session of its own. The model is offered three tools to look up
    what it no longer sees, unless `recall` is False. CrewAI offers an agent's tools in tasks that name none: add
    `agent.tools` to the others.

    The options are those of `tenfold.open_session`. Name the `window` if the model's is not known by its name. Returns
    the same agent or crew. Raises `UsageError` for anything else.
    """
    if isinstance(target, Crew):
        roles = [agent.role for agent in target.agents]
        if session and len(set(roles)) < len(roles):
            raise UsageError(f"the agents of this crew are {', '.join(roles)}: with a session, each needs its own role")
        for agent in target.agents:
            keep_in_window(agent, session=session and f"{session}/{agent.role}", recall=recall, **options)
            for task in target.tasks:
                if task.agent is agent and recall:
                    task.tools = [*task.tools, *(each for each in agent.tools if each not in task.tools)]
    elif isinstance(target, Agent) and isinstance(target.llm, BaseLLM):
        if isinstance(target.llm, _SessionLLM):
            raise UsageError(f"the agent {target.role!r} is kept in its window already: call keep_in_window once")
        keeper = _CrewSessions(options, session)
        target.llm = keeper.wrap(target.llm)
        if recall:
            lookups = build_lookups(keeper.find_tools)
            target.tools = [*(target.tools or ()), *(tool(each.__name__)(each) for each in lookups)]
    else:
        raise UsageError(f"keep_in_window takes an Agent or a Crew of CrewAI, and not {name_type(target)}")
    return target


class _ChatConverter:
    """CrewAI's messages are those of OpenAI Chat, with what it notes for itself. See `Converter`."""

    wire = "openai-chat"

    def read(self, message: Any) -> list[Json]:  # noqa: ANN401 - whatever stands in a list
        """See `Converter.read`. Attached files are named: CrewAI sends them with its own message."""
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise BadInput(f"{name_type(message)} is no message of CrewAI: it is a dict with a role")
        item = {key: value for key, value in message.items() if key in _KEPT}
        names = [{"type": "text", "text": f"[file {name}]"} for name in message.get("files") or ()]
        if names:
            content = item.get("content") or []
            item["content"] = [*([{"type": "text", "text": content}] if isinstance(content, str) else content), *names]
        return [item]

    def build(self, messages: Sequence[Mapping[str, Any]]) -> list[Json]:
        """See `Converter.build`."""
        return [dict(message) for message in messages]


CONVERTER = _ChatConverter()


class _CrewRun:
    """One task that an agent works on. Without a session, everything is sent as it is."""

    def __init__(self, first: Any = None, host: HostSession[Json] | None = None) -> None:  # noqa: ANN401 - a message
        self.first, self.host, self.execution = first, host, get_execution_uuid()
        self._prompt: list[Json] = []

    def fit(self, llm: Any, messages: Any, tools: Any) -> Any:  # noqa: ANN401 - CrewAI's
        """Returns what to send."""
        if self.host is None:
            return messages
        said, fields = self._read_call(llm, messages, tools)
        return self._join(self.host.fit(said, **fields))

    async def afit(self, llm: Any, messages: Any, tools: Any) -> Any:  # noqa: ANN401 - CrewAI's
        """Does the same as `fit`."""
        if self.host is None:
            return messages
        said, fields = self._read_call(llm, messages, tools)
        return self._join(await self.host.afit(said, **fields))

    def shrink(self, error: Exception) -> list[Json]:
        """Returns something shorter. Raises an error again that is about something else."""
        if self.host is None:
            raise error
        return self._join(self.host.shrink(error))

    async def ashrink(self, error: Exception) -> list[Json]:
        """Does the same as `shrink`."""
        if self.host is None:
            raise error
        return self._join(await self.host.ashrink(error))

    def report_usage(self, usage: Any) -> None:  # noqa: ANN401 - UsageMetrics
        """Reports what the call took, unless other calls of this LLM were counted with it."""
        if self.host is not None and usage.successful_requests == 1:
            cached, written = usage.cached_prompt_tokens, usage.cache_creation_tokens
            self.host.report_usage(usage.prompt_tokens, usage.completion_tokens, cached=cached, written=written)

    def keep_answer(self, answer: Any, tools: Any) -> None:  # noqa: ANN401 - what an LLM returns
        """Appends a last answer, which is in no later list."""
        if self.host is not None and (said := _read_last_answer(answer, tools)):
            self.host.keep_answer([said])

    async def akeep_answer(self, answer: Any, tools: Any) -> None:  # noqa: ANN401 - what an LLM returns
        """Does the same as `keep_answer`."""
        if self.host is not None and (said := _read_last_answer(answer, tools)):
            await self.host.akeep_answer([said])

    def _read_call(self, llm: Any, messages: list[Json], tools: Any) -> tuple[list[Json], Json]:  # noqa: ANN401
        """Returns the messages behind the system prompt, and what else is sent."""
        count = int(messages[0].get("role") == "system")
        self._prompt = messages[:count]
        is_offered = READ in str(tools or [message.get("content") for message in messages[: count + 1]])
        fields = {
            "model": llm.model,
            "system": CONVERTER.read(messages[0])[0]["content"] if count else None,
            "tools": tools or None,
            "max_tokens": getattr(llm, "max_completion_tokens", None) or llm.max_tokens,
            "recall": "tool" if is_offered else "none",
        }
        return messages[count:], fields

    def _join(self, fitted: Fitted[Json]) -> list[Json]:
        return [*self._prompt, *fitted.messages]


def _read_last_answer(answer: Any, tools: Any) -> Json | None:  # noqa: ANN401 - what an LLM returns
    """Reads an answer after which CrewAI asks no more. None if it calls a tool, in one way or the other."""
    text = answer.model_dump_json() if isinstance(answer, BaseModel) else answer
    is_last = isinstance(text, str) and (tools or isinstance(format_answer(text), AgentFinish))
    return {"role": "assistant", "content": text.rstrip()} if is_last else None


class _CrewSessions:
    """The sessions of one agent, and of the copies that CrewAI makes of it."""

    def __init__(self, options: SessionOptions, session: str) -> None:
        self._sessions: HostSessions[Json] = HostSessions(CONVERTER, options)
        self._session = session
        self._runs: OrderedDict[int, _CrewRun] = OrderedDict()
        self._lock = threading.Lock()

    def wrap(self, llm: Any) -> Any:  # noqa: ANN401 - an LLM of any class
        """Returns a copy of an LLM that sends views."""
        cls, kept = type(llm), copy.copy(llm)
        fields = {"__module__": cls.__module__, "__qualname__": cls.__qualname__}
        build_class: Any = type(cls)  # of pydantic
        new = build_class(cls.__name__, (_SessionLLM, cls), fields)
        new.keeper = self
        object.__setattr__(kept, "__class__", new)
        return kept

    def find(self, llm: Any, messages: Any, rest: Mapping[str, Any]) -> _CrewRun:  # noqa: ANN401 - what an LLM was given
        """Finds the task that a call belongs to, by its first message: CrewAI keeps that for as long as a task lasts.

        What an agent asks besides, as to plan or to remember, is not in a session.
        """
        said = [each for each in messages if each.get("role") != "system"] if isinstance(messages, list) else []
        with self._lock:
            run = self._runs.pop(id(said[0]), None) if said else None
            if run is None:
                if not said or not model_call_hooks_already_dispatched():
                    return _CrewRun()
                owner = rest.get("from_task") or rest.get("from_agent")
                name = self._session or f"{getattr(owner, 'id', 'task')}/{IDS.generate()}"
                kept = self._sessions.get(name, llm.model)
                run = _CrewRun(said[0], HostSession(lambda: kept.session, CONVERTER))
            self._runs[id(said[0])] = run
            while len(self._runs) > MAX_SESSIONS:
                self._runs.popitem(last=False)
            return run

    def find_tools(self) -> RecallTools:
        """Finds the tools of the task that was worked on last in this execution: a crew's agents work in turn."""
        with self._lock:
            runs = [run for run in self._runs.values() if run.execution == get_execution_uuid()]
        if not runs or runs[-1].host is None:
            raise UsageError("no task is worked on here: these tools look something up for the agent that has them")
        return runs[-1].host.tools


_Mixin: Any = object


class _SessionLLM(_Mixin):
    """Stands before the class of an LLM."""

    __slots__ = ()
    keeper: _CrewSessions

    def __copy__(self) -> Any:  # noqa: ANN401 - an LLM of any class
        """Some LLMs copy themselves to their own class."""
        copied = super().__copy__()
        object.__setattr__(copied, "__class__", type(self))
        return copied

    def call(self, messages: Any, *args: Any, **rest: Any) -> Any:  # noqa: ANN401 - as CrewAI has it
        """Sends the view, and something shorter once more if the provider refuses it as too long."""
        run, tools = self.keeper.find(self, messages, rest), rest.get("tools") or (args[0] if args else None)
        sent, before = run.fit(self, messages, tools), self.get_token_usage_summary()
        try:
            answer = super().call(sent, *args, **rest)
        except Exception as exc:  # noqa: BLE001 - `shrink` raises what is about something else
            answer = super().call(run.shrink(exc), *args, **rest)
        run.report_usage(self.get_token_usage_summary().delta_since(before))
        run.keep_answer(answer, tools)
        return answer

    async def acall(self, messages: Any, *args: Any, **rest: Any) -> Any:  # noqa: ANN401 - as CrewAI has it
        """Does the same as `call`, and blocks no event loop."""
        run, tools = self.keeper.find(self, messages, rest), rest.get("tools") or (args[0] if args else None)
        sent, before = await run.afit(self, messages, tools), self.get_token_usage_summary()
        try:
            answer = await super().acall(sent, *args, **rest)
        except Exception as exc:  # noqa: BLE001 - as above
            answer = await super().acall(await run.ashrink(exc), *args, **rest)
        usage = self.get_token_usage_summary().delta_since(before)
        await run_uninterrupted(lambda: run.report_usage(usage))
        await run.akeep_answer(answer, tools)
        return answer

    def is_context_window_overflowing_threshold(self, *_args: Any, **_rest: Any) -> bool:  # noqa: ANN401
        """Has CrewAI leave its own list whole."""
        return False
