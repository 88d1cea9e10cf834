"""Tenfold in an agent of LangChain or LangGraph: one middleware.

    agent = create_agent("openai:gpt-5-mini", tools, middleware=[TenfoldMiddleware()])

Before each call of the model, the messages of the agent's state go into a session, and the model sees its view. The
state itself does not change, so checkpoints, streaming and other middleware work as before.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Unpack

from tenfold.apps.adapters import name_extra

with name_extra(__name__):
    from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
    from langchain.tools import ToolRuntime
    from langchain_core.messages import AIMessage, BaseMessage
    from langchain_core.tools import BaseTool, StructuredTool
    from langchain_core.utils.function_calling import convert_to_openai_tool
    from langgraph.config import get_config

from tenfold.apps.adapters.host_sessions import Fitted, HostSession, HostSessions
from tenfold.formats.objects.langchain import CONVERTER
from tenfold.recall.tools import RecallTools
from tenfold.session.concurrency import run_uninterrupted
from tenfold.session.opening import SessionOptions


class TenfoldMiddleware(AgentMiddleware[Any, Any, Any]):
    """Keeps the messages of an agent in a session, and has the model see them compacted when they grow too long.

    The session has the id of the thread (`{"configurable": {"thread_id": ...}}`), so every process that serves the
    thread has the same one. Without a thread it has the id of the first message, which LangGraph gives it. The model is
    offered three tools to look up what it no longer sees, unless `recall` is False.

    The options are those of `tenfold.open_session`. Name the `window` if the model's is not known by its name.
    """

    def __init__(self, *, recall: bool = True, **options: Unpack[SessionOptions]) -> None:
        super().__init__()
        self._sessions: HostSessions[BaseMessage] = HostSessions(CONVERTER, options)
        self._recall = recall
        self.tools: list[BaseTool] = [self._build_tool(each) for each in RecallTools.build_schemas()] if recall else []

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Has the model answer the view, and once more a shorter one if the provider refuses it as too long."""
        host = self._find_session(request.messages, request.model)
        fitted = host.fit(request.messages, **self._describe_request(request))
        try:
            response = handler(request.override(messages=fitted.messages))
        except Exception as exc:  # noqa: BLE001 - `shrink` raises what is about something else
            response = handler(request.override(messages=host.shrink(exc).messages))
        _report_usage(host, response)
        host.keep_answer(_list_answers(response))
        return response

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Does the same as `wrap_model_call`, and blocks no event loop."""
        host = self._find_session(request.messages, request.model)
        fitted: Fitted[BaseMessage] = await host.afit(request.messages, **self._describe_request(request))
        try:
            response = await handler(request.override(messages=fitted.messages))
        except Exception as exc:  # noqa: BLE001 - as above
            fitted = await host.ashrink(exc)
            response = await handler(request.override(messages=fitted.messages))
        await run_uninterrupted(lambda: _report_usage(host, response))
        await host.akeep_answer(_list_answers(response))
        return response

    def _find_session(self, messages: list[Any], model: Any = None) -> HostSession[BaseMessage]:  # noqa: ANN401
        """Finds the session of the thread that is running. An agent that a tool of another one runs has its own."""
        try:
            running = get_config().get("configurable", {})
        except RuntimeError:  # outside of a graph
            running = {}
        thread = running.get("thread_id") or (messages[0].id if messages else "")
        caller = str(running.get("checkpoint_ns", "")).rpartition("|")[0]
        return self._sessions.get("/".join(str(part) for part in (thread, caller) if part), _name_model(model))

    def _describe_request(self, request: ModelRequest[Any]) -> Mapping[str, Any]:
        """Describes what is sent besides the messages."""
        return {
            "model": _name_model(request.model),
            "system": request.system_prompt,
            "tools": [convert_to_openai_tool(tool) for tool in request.tools],
            "max_tokens": getattr(request.model, "max_tokens", None),
            "recall": "tool" if self._recall else "none",
        }

    def _build_tool(self, schema: Mapping[str, Any]) -> BaseTool:
        """Builds a tool to look something up in the thread that calls it."""
        definition = schema["function"]
        name, description, parameters = (definition[key] for key in ("name", "description", "parameters"))

        def call(runtime: ToolRuntime, **arguments: Any) -> str:  # noqa: ANN401 - what the model wrote
            return self._find_session(runtime.state["messages"]).tools.handle(name, arguments)

        return StructuredTool(name=name, description=description, args_schema=parameters, func=call)


def _name_model(model: Any) -> str:  # noqa: ANN401 - a chat model of any package
    return str(getattr(model, "model_name", "") or getattr(model, "model", "") or "").removeprefix("models/")


def _list_answers(response: ModelResponse[Any]) -> list[BaseMessage]:
    return [each for each in response.result if isinstance(each, AIMessage)]


def _report_usage(host: HostSession[BaseMessage], response: ModelResponse[Any]) -> None:
    answer = next((each for each in response.result if isinstance(each, AIMessage)), None)
    usage = answer.usage_metadata if answer is not None else None
    if usage is not None:
        details = usage.get("input_token_details", {})
        cached, written = details.get("cache_read", 0), details.get("cache_creation", 0)
        host.report_usage(usage["input_tokens"], usage["output_tokens"], cached=cached, written=written)
