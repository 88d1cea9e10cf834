"""Tenfold in an app of Google's Agent Development Kit: one plugin.

    app = App(name="app", root_agent=agent, plugins=[TenfoldPlugin()])

Before each call of a model, the contents of the request go into a session, and the model sees its view. ADK builds them
anew from its events each time, and the events do not change, so rewinding, artifacts and other plugins work as before.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Any, Unpack

import msgspec

from tenfold.apps.adapters import name_extra

with name_extra(__name__):
    from google.adk.agents.callback_context import CallbackContext
    from google.adk.agents.llm_agent import LlmAgent
    from google.adk.models import LlmRequest, LlmResponse
    from google.adk.plugins.base_plugin import BasePlugin
    from google.adk.tools import FunctionTool
    from google.genai.types import Content, GenerateContentConfig

from tenfold.apps.adapters.host_sessions import MAX_SESSIONS, Fitted, HostSession, HostSessions, build_lookups
from tenfold.formats.objects.google_adk import CONVERTER
from tenfold.session.opening import SessionOptions


class TenfoldPlugin(BasePlugin):
    """Keeps the contents that an agent sees in a session, and has the model see them compacted when they are too long.

    Each agent has a session of its own in a session of ADK, called "app/user/session/agent". So has each task that one
    agent gives to another, and each turn of an agent that sees nothing else. The models are offered three tools to look
    up what they no longer see, unless `recall` is False.

    The options are those of `tenfold.open_session`. Name the `window` if the model's is not known by its name.
    """

    def __init__(self, *, recall: bool = True, name: str = "tenfold", **options: Unpack[SessionOptions]) -> None:
        super().__init__(name=name)
        self._sessions: HostSessions[Content] = HostSessions(CONVERTER, options)
        self._recall = recall
        self._running: OrderedDict[tuple[str, ...], _AdkCall] = OrderedDict()

    async def before_model_callback(self, *, callback_context: CallbackContext, llm_request: LlmRequest) -> None:
        """Puts the view in place of a request's contents.

        A request that goes on from an earlier one by its id, with Gemini's interactions, stays as it is: Google keeps
        the contents before it.
        """
        if llm_request.previous_interaction_id or not llm_request.contents:
            return
        name = "/".join((*_list_names(callback_context), *_name_turn(callback_context, llm_request)))
        host = self._sessions.get(name, llm_request.model or "")
        is_offered = self._recall and _can_take_tools(llm_request.config)
        if is_offered:
            llm_request.append_tools([FunctionTool(function) for function in build_lookups(lambda: host.tools)])
        config = llm_request.config
        fitted: Fitted[Content] = await host.afit(
            llm_request.contents,
            system=config.system_instruction,
            recall="tool" if is_offered else "none",
            model=llm_request.model,
            tools=_describe_tools(config),
            max_output_tokens=config.max_output_tokens,
        )
        place = _find_place(callback_context)
        self._running[place] = call = _AdkCall(host, config.model_copy())
        self._running.move_to_end(place)
        while len(self._running) > MAX_SESSIONS:
            self._running.popitem(last=False)
        call.fill(llm_request, fitted)

    async def after_model_callback(self, *, callback_context: CallbackContext, llm_response: LlmResponse) -> None:
        """Reports what the request took, and keeps the answer."""
        call, usage = self._running.get(_find_place(callback_context)), llm_response.usage_metadata
        if call is None or llm_response.partial:
            return
        if usage is not None:
            prompt = (usage.prompt_token_count or 0) + (usage.tool_use_prompt_token_count or 0)
            output = (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0)
            await call.host.areport_usage(prompt, output, cached=usage.cached_content_token_count or 0)
        if llm_response.content is not None and llm_response.content.parts:
            await call.host.akeep_answer([llm_response.content])

    async def on_model_error_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest, error: Exception
    ) -> LlmResponse | None:
        """Has the model answer a shorter request, if the provider has refused this one as too long."""
        call = self._running.get(_find_place(callback_context))
        agent = callback_context.get_invocation_context().agent
        if call is None or not isinstance(agent, LlmAgent):
            return None
        try:
            fitted = await call.host.ashrink(error)
        except Exception as exc:
            if exc is error:  # it is about something else: ADK goes on with it
                return None
            raise
        call.fill(llm_request, fitted)
        answers = [each async for each in agent.canonical_model.generate_content_async(llm_request)]
        return answers[-1] if answers else None


class _AdkCall:
    """The call of a model that runs at a place: its session, and the settings of its request before it was sent."""

    def __init__(self, host: HostSession[Content], config: GenerateContentConfig) -> None:
        self.host, self._config = host, config

    def fill(self, request: LlmRequest, fitted: Fitted[Content]) -> None:
        """Puts what is sent into a request."""
        system = fitted.system
        if isinstance(system, dict):  # ADK's models take a text
            system = "\n\n".join(part["text"] for part in system["parts"])
        request.contents = fitted.messages
        request.config = self._config.model_copy(update={"system_instruction": system})


def _list_names(context: CallbackContext) -> list[str]:
    """Lists the names of what a conversation belongs to, the widest first."""
    session = context.session
    parts = (session.app_name, session.user_id, session.id, context.agent_name, context.branch, context.isolation_scope)
    return [part for part in parts if part]


def _find_place(context: CallbackContext) -> tuple[str, ...]:
    """Finds where a model is called: one place has one call at a time."""
    return (*_list_names(context), context.node_path)


def _name_turn(context: CallbackContext, request: LlmRequest) -> list[str]:
    """Names the turn of an agent that sees no other turn: by its place in the run, and what the agent was told."""
    agent = context.get_invocation_context().agent
    if getattr(agent, "include_contents", "") != "none" and getattr(agent, "mode", "") != "single_turn":
        return []
    told = msgspec.json.encode((context.invocation_id, context.node_path, CONVERTER.read(request.contents[0])))
    return [hashlib.sha256(told).hexdigest()[:16]]


def _can_take_tools(config: GenerateContentConfig) -> bool:
    """Whether functions may be offered: not beside a schema for the answer, nor beside Google's own tools alone."""
    declared = any(getattr(tool, "function_declarations", None) for tool in config.tools or ())
    return config.response_schema is None and (declared or not config.tools)


def _describe_tools(config: GenerateContentConfig) -> list[Any]:
    described = (tool for tool in config.tools or () if hasattr(tool, "model_dump"))
    return [tool.model_dump(mode="json", by_alias=True, exclude_none=True, fallback=str) for tool in described]
