"""Tenfold in an agent of the OpenHands SDK: one condenser.

    agent = Agent(llm=llm, tools=[*tools, RECALL], condenser=TenfoldCondenser())

Before each call of the model, the conversation's events go into a session, and the model sees its view. A condenser may
return either a `View` or a `Condensation`, which forgets events for good. This one returns a `View`: OpenHands' own log
stays whole, and what Tenfold has shortened is shown shortened. What passes by the condenser sees the whole log, such as
`conversation.ask_agent`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Unpack, cast
from weakref import WeakKeyDictionary

from msgspec import Struct

from tenfold.apps.adapters import name_extra

with name_extra(__name__):
    from openhands.sdk.context.condenser import CondenserBase
    from openhands.sdk.context.view import View
    from openhands.sdk.event import ActionEvent, Condensation, LLMConvertibleEvent, MessageEvent, SystemPromptEvent
    from openhands.sdk.llm import LLM, Message
    from openhands.sdk.llm.call_context import resolve_llm_call_context
    from openhands.sdk.llm.exceptions import LLMContextWindowExceedError
    from openhands.sdk.tool import (
        Action,
        Observation,
        Tool,
        ToolAnnotations,
        ToolDefinition,
        ToolExecutor,
        register_tool,
    )
    from pydantic import Field, PrivateAttr, field_serializer

from tenfold.apps.adapters.host_sessions import Fitted, HostSession, HostSessions
from tenfold.core.wire.given_values import name_type
from tenfold.errors import UsageError
from tenfold.formats.objects.openhands import CONVERTER
from tenfold.recall.tools import SEARCH, RecallTools
from tenfold.session.concurrency import run_in_thread, run_uninterrupted
from tenfold.session.opening import SessionOptions

_TOO_LONG = "context window exceeded"
_ASKED_SHARE = 0.5
"""How much stays when a user asks for a condensation."""
_SOURCES = {"user": "user", "tool": "environment"}
"""Which source OpenHands gives to an event of a role. All others are the agent's."""


class _Turn(Struct, frozen=True):
    """One call of the condenser. `groups` are the events, each with those that make one message with it."""

    host: HostSession[Message]
    groups: list[list[LLMConvertibleEvent]]
    messages: list[Message]
    fields: dict[str, Any]
    opening: SystemPromptEvent | None
    is_refused: bool


class TenfoldCondenser(CondenserBase):
    """Keeps the events of a conversation in a session, and has the model see them compacted when they grow too long.

    The session has the id of the conversation, so every process that serves it has the same one, and the conversation
    of a sub-agent has its own. `session` names it otherwise for the first conversation that this object sees, and any
    other one is apart from it.

    Give the agent the tools `RECALL` as well, and the model can look up what it no longer sees.

    The options are those of `tenfold.open_session`. Without a `window`, it is the LLM's `max_input_tokens`, or that of
    the model. OpenHands saves the options with the agent, but only those that are names and numbers.
    """

    session: str = ""
    conversation: str = Field(default="", description="The conversation that `session` names; at first it is unknown.")
    options: dict[str, Any] = Field(default_factory=dict)
    _sessions: HostSessions[Message] = PrivateAttr()
    _sent: WeakKeyDictionary[HostSession[Message], int] = PrivateAttr(default_factory=WeakKeyDictionary)

    def __init__(
        self,
        *,
        session: str = "",
        conversation: str = "",
        options: Mapping[str, Any] | None = None,
        **named: Unpack[SessionOptions],
    ) -> None:
        """`conversation` and `options` are what OpenHands has saved. Name the options themselves."""
        given = {**(options or {}), **named}
        given.update({name: os.fspath(value) for name, value in given.items() if isinstance(value, os.PathLike)})
        super().__init__(session=session, conversation=conversation, options=given)
        self._sessions = HostSessions(CONVERTER, cast("SessionOptions", given))

    @field_serializer("options", when_used="json")
    def _save_options(self, options: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in options.items() if isinstance(value, str | int | None)}

    def handles_condensation_requests(self) -> bool:
        """Says yes: OpenHands asks for a condensation when the provider has refused a request, or a user wants one."""
        return True

    def condense(self, view: View, agent_llm: LLM | None = None) -> View | Condensation:
        """Returns what the model sees in place of the conversation's events."""
        turn = self._begin(view, agent_llm)
        fitted = turn.host.fit(turn.messages, **turn.fields)
        if not view.unhandled_condensation_request:
            return self._show(turn, view, fitted)
        if turn.is_refused:
            turn.host.shrink(LLMContextWindowExceedError(_TOO_LONG))
        else:
            turn.host.fit(turn.messages, to=_choose_target(turn.host), **turn.fields)
        return _build_answer()

    async def acondense(self, view: View, agent_llm: LLM | None = None) -> View | Condensation:
        """Does the same as `condense`, and blocks no event loop."""
        turn = await run_uninterrupted(lambda: self._begin(view, agent_llm))
        fitted = await turn.host.afit(turn.messages, **turn.fields)
        if not view.unhandled_condensation_request:
            return self._show(turn, view, fitted)
        if turn.is_refused:
            await turn.host.ashrink(LLMContextWindowExceedError(_TOO_LONG))
        else:
            target = await run_in_thread(lambda: _choose_target(turn.host))
            await turn.host.afit(turn.messages, to=target, **turn.fields)
        return _build_answer()

    def find_tools(self, conversation: str, llm: LLM) -> RecallTools:
        """Returns the tools to look things up in the conversation with this id."""
        return self._find_session(conversation, llm).tools

    def _begin(self, view: View, llm: LLM | None) -> _Turn:
        """Reads the events, and reports what the last request took."""
        if not isinstance(view, View):
            raise UsageError(f"{name_type(view)} is no View of OpenHands: View.from_events(events) makes one of events")
        host = self._find_session(resolve_llm_call_context(None).session_id or "", llm)
        opening = next((event for event in view.events[:1] if isinstance(event, SystemPromptEvent)), None)
        events = view.events if opening is None else view.events[1:]
        groups = [list(group) for _, group in groupby(events, _get_message_id)]
        messages = [message for group in groups for message in LLMConvertibleEvent.events_to_messages(group)]
        sent = self._sent.get(host)
        if llm is not None and sent is not None:
            _report_usage(host, llm, view.events[sent:])
        return _Turn(host, groups, messages, _describe_request(opening, llm), opening, sent == len(view.events))

    def _show(self, turn: _Turn, view: View, fitted: Fitted[Message]) -> View:
        """Returns the view of what is sent: OpenHands' own events where nothing was replaced."""
        self._sent[turn.host] = len(view.events)
        own = {id(message): group for message, group in zip(turn.messages, turn.groups, strict=True)}
        if [*map(id, fitted.messages)] == [*own]:
            return view
        names: dict[str, str] = {}
        events: list[LLMConvertibleEvent] = [] if turn.opening is None else [turn.opening]
        for message in fitted.messages:
            names.update({call.id: call.name for call in message.tool_calls or ()})
            events += own.get(id(message)) or [_build_event(message, names)]
        return View(events=events)

    def _find_session(self, conversation: str, llm: LLM | None) -> HostSession[Message]:
        """Finds the session of a conversation. The window is the LLM's if it is not known by the model's name."""
        if self.session and not self.conversation:
            self.conversation = conversation
        is_named = conversation == self.conversation
        name = self.session if self.session and is_named else "/".join(filter(None, (self.session, conversation)))
        host = self._sessions.get(name, llm.model if llm is not None else "")
        compactor = host.session.compactor
        if llm is not None and compactor.window is None:
            limit = llm.max_input_tokens
            if limit is None and compactor.build_call().window is None:
                limit = llm.effective_max_input_tokens
            compactor.use_window(limit and limit + (llm.max_output_tokens or 0))
        return host


def _get_message_id(event: LLMConvertibleEvent) -> str:
    """Returns what the events of one message have in common: the calls of an answer are events of their own."""
    return str(event.llm_response_id if isinstance(event, ActionEvent) else event.id)


def _report_usage(host: HostSession[Message], llm: LLM, new: Sequence[LLMConvertibleEvent]) -> None:
    """Reports what the newest answer took. `new` are the events since the last request."""
    response = next((found for event in reversed(new) if (found := getattr(event, "llm_response_id", None))), None)
    usage = next((each for each in reversed(llm.metrics.token_usages) if each.response_id == response), None)
    if usage is not None:
        cached, written = usage.cache_read_tokens, usage.cache_write_tokens
        host.report_usage(usage.prompt_tokens, usage.completion_tokens, cached=cached, written=written)


def _describe_request(opening: SystemPromptEvent | None, llm: LLM | None) -> dict[str, Any]:
    """Describes what is sent besides the messages. The tools stand in the event of the system prompt.

    Where no `max_output_tokens` are named, OpenHands asks for as many as the model can write. They are not reserved.
    """
    fields: dict[str, Any] = {}
    if opening is not None:
        tools = [tool.to_openai_tool(add_security_risk_prediction=True) for tool in opening.tools]
        (prompt,) = CONVERTER.read(opening.to_llm_message())
        is_offered = any(tool.name == SEARCH for tool in opening.tools)
        fields = {"system": prompt["content"], "tools": tools or None, "recall": "tool" if is_offered else "none"}
    return fields if llm is None else {**fields, "model": llm.model, "max_tokens": llm.max_output_tokens}


def _choose_target(host: HostSession[Message]) -> int:
    return max(1, int(_ASKED_SHARE * host.session.take_reading().estimate))


def _build_answer() -> Condensation:
    """Builds the event that answers a request for a condensation. It forgets nothing: the next view is shorter."""
    return Condensation(llm_response_id="tenfold")


def _build_event(message: Message, names: Mapping[str, str]) -> MessageEvent:
    """Builds the event of a message that Tenfold has written or shortened."""
    if message.role == "tool" and not message.name:
        message = message.model_copy(update={"name": names.get(message.tool_call_id or "", "")})
    return MessageEvent(source=_SOURCES.get(message.role, "agent"), llm_message=message)


class RecallObservation(Observation):
    """What was looked up."""


class _OpenHandsLookup(ToolExecutor[Action, RecallObservation]):
    """Looks something up in the session of the conversation that calls it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, action: Action, conversation: Any = None) -> RecallObservation:  # noqa: ANN401 - see the class
        condenser = conversation.agent.condenser
        condensers = (condenser, *getattr(condenser, "condensers", ()))
        found = next((each for each in condensers if isinstance(each, TenfoldCondenser)), None)
        if found is None:
            raise UsageError("the tools RECALL need an agent with condenser=TenfoldCondenser()")
        tools = found.find_tools(str(conversation.id), conversation.agent.llm)
        arguments = action.model_dump(exclude={"kind"}, exclude_none=True)
        looked_up: RecallObservation = RecallObservation.from_text(tools.handle(self._name, arguments))
        return looked_up


class RecallTool(ToolDefinition[Action, RecallObservation]):
    """A tool with which the model looks up what it no longer sees. `RECALL` is all three of them."""

    lookup: str

    @property
    def name(self) -> str:
        """The name that the model calls. Other classes of tools have one for all of their objects."""
        return self.lookup

    @classmethod
    def create(cls, conv_state: Any = None) -> Sequence[RecallTool]:  # noqa: ANN401, ARG003 - as OpenHands calls it
        """Creates the three tools."""
        return [
            cls(
                lookup=definition["name"],
                description=definition["description"],
                action_type=_ACTIONS[definition["name"]],
                observation_type=RecallObservation,
                annotations=ToolAnnotations(readOnlyHint=True, idempotentHint=True, openWorldHint=False),
                executor=_OpenHandsLookup(definition["name"]),
            )
            for definition in (schema["function"] for schema in RecallTools.build_schemas())
        ]


_ACTIONS: Mapping[str, type[Action]] = {
    definition["name"]: Action.from_mcp_schema(
        f"{definition['name'].title().replace('_', '')}Action", definition["parameters"]
    )
    for definition in (schema["function"] for schema in RecallTools.build_schemas())
}
RECALL = Tool(name="tenfold_recall")
"""The three tools, for the tools of an agent whose condenser is a `TenfoldCondenser`."""
register_tool(RECALL.name, RecallTool)
