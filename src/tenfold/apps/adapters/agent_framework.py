"""Tenfold in an agent of Microsoft's Agent Framework: one context provider.

    agent = Agent(client, tools=tools, context_providers=[TenfoldProvider()])

Before each call of the model, also between the tools of one run, the messages go into a session, and the model sees its
view. Tenfold takes the place of the framework's `compaction_strategy`. The history of the framework stays whole.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Unpack

from tenfold.apps.adapters import name_extra

with name_extra(__name__):
    from agent_framework import (
        ChatContext,
        ChatMiddleware,
        ChatResponse,
        ChatResponseUpdate,
        ContextProvider,
        FunctionInvocationLayer,
        FunctionTool,
        Message,
        ResponseStream,
        included_messages,
    )

from tenfold.apps.adapters.host_sessions import HostSession, HostSessions, build_lookups
from tenfold.errors import UsageError
from tenfold.formats.objects.agent_framework import CONVERTER
from tenfold.session.opening import SessionOptions


class TenfoldProvider(ContextProvider):
    """Keeps the messages of an agent in a session, and has the model see them compacted when they grow too long.

    The session has the id of the framework's session and the name of the agent, as in "thread-17/writer". Without a
    name it is the id alone: name the agents that share a session. The model is offered three tools to look up what it
    no longer sees, unless `recall` is False.

    The options are those of `tenfold.open_session`. Name the `window` if the model's is not known by its name.
    """

    def __init__(self, *, recall: bool = True, source_id: str = "tenfold", **options: Unpack[SessionOptions]) -> None:
        super().__init__(source_id)
        self._sessions: HostSessions[Message] = HostSessions(CONVERTER, options)
        self._recall = recall

    async def before_run(self, *, agent: Any, session: Any, context: Any, state: dict[str, Any]) -> None:  # noqa: ANN401, ARG002 - the framework's signature
        """Prepares a run: each of its calls of the model goes through the session.

        Raises `UsageError` if the provider keeps the conversation, and the agent sends only what is new.
        """
        client = getattr(agent, "client", None)
        settings: dict[str, Any] = {**getattr(agent, "default_options", {}), **context.options}
        store = settings.get("store")
        is_kept = getattr(client, "STORES_BY_DEFAULT", False) if store is None else store
        if is_kept or session.service_session_id or settings.get("conversation_id"):
            raise UsageError(
                f"{type(client).__name__} has its provider keep the conversation, and sends only what is new, so there "
                "is nothing to compact: pass default_options={'store': False} to the agent, and a session without "
                "service_session_id"
            )
        model = str(settings.get("model") or getattr(client, "model", None) or "")
        host = self._sessions.get("/".join(filter(None, (session.session_id, agent.name))), model)
        is_offered = self._recall and isinstance(client, FunctionInvocationLayer)
        if is_offered:
            context.extend_tools(self.source_id, build_lookups(lambda: host.tools))
        context.extend_middleware(self.source_id, _SessionMiddleware(host, model, is_offered=is_offered))


class _SessionMiddleware(ChatMiddleware):
    """Takes each call of the model through the session, and once more if the provider refuses it as too long."""

    def __init__(self, host: HostSession[Message], model: str, *, is_offered: bool) -> None:
        self._host, self._model, self._is_offered = host, model, is_offered

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Has the model answer the view."""
        messages = list(context.messages)
        fitting = _Fitting(self._host, self._describe_request(context.options or {}))
        # The strategy runs last, when a provider of history has put what was said before in front of the messages.
        context.kwargs["compaction_strategy"] = fitting

        async def call_again(error: Exception) -> None:
            await fitting.shrink(error)
            context.messages = list(messages)
            await call_next()

        if not context.stream:
            try:
                await call_next()
            except Exception as exc:  # noqa: BLE001 - `shrink` raises what is about something else
                await call_again(exc)
            await _keep_answer(self._host, context.result)
            return
        await call_next()
        context.result = self._continue_stream(context, call_again)

    def _continue_stream(
        self, context: ChatContext, call_again: Callable[[Exception], Awaitable[None]]
    ) -> ResponseStream[ChatResponseUpdate, ChatResponse]:
        """Returns a stream that goes on with a second one, if the provider refuses the request of the first."""
        streams = [context.result]

        async def pull() -> AsyncIterator[ChatResponseUpdate]:
            is_begun = False
            try:
                async with streams[-1] as stream:
                    async for update in stream:
                        is_begun = True
                        yield update
            except Exception as exc:
                if is_begun:
                    raise
                await call_again(exc)
                streams.append(context.result)
                async with streams[-1] as stream:
                    async for update in stream:
                        yield update

        async def finish(_: Sequence[ChatResponseUpdate]) -> ChatResponse:
            response: ChatResponse = await streams[-1].get_final_response()
            await _keep_answer(self._host, response)
            return response

        return ResponseStream(pull(), finalizer=finish)

    def _describe_request(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Describes what is sent besides the messages."""
        tools = (
            each.to_json_schema_spec() if isinstance(each, FunctionTool) else each
            for each in options.get("tools") or ()
        )
        return {
            "model": options.get("model") or self._model,
            "system": options.get("instructions"),
            "tools": [each for each in tools if isinstance(each, dict)],
            "max_tokens": options.get("max_tokens"),
            "recall": "tool" if self._is_offered else "none",
        }


class _Fitting:
    """The compaction strategy of one call of the model: it puts the session's view in place of the messages."""

    def __init__(self, host: HostSession[Message], request: dict[str, Any]) -> None:
        self._host, self._request = host, request
        self._shrunk: list[Message] | None = None

    async def __call__(self, messages: list[Message]) -> bool:
        """Puts what to send in place of the messages. Those that the framework has left out are not sent either."""
        sent = self._shrunk
        if sent is None:
            sent = (await self._host.afit(included_messages(messages), **self._request)).messages
        is_changed = list(map(id, sent)) != list(map(id, messages))
        messages[:] = sent
        return is_changed

    async def shrink(self, error: Exception) -> None:
        """Takes something shorter the next time. Raises the error if it is about something else."""
        self._shrunk = (await self._host.ashrink(error)).messages


async def _keep_answer(host: HostSession[Message], response: Any) -> None:  # noqa: ANN401 - None if another middleware ended it
    """Reports what the request took, and keeps the answer."""
    usage: Mapping[str, Any] = getattr(response, "usage_details", None) or {}
    read, written = usage.get("cache_read_input_token_count") or 0, usage.get("cache_creation_input_token_count") or 0
    prompt = usage.get("input_token_count") or 0
    if "anthropic.cache_read_input_tokens" in usage:  # Anthropic counts the others apart
        prompt += read + written
    await host.areport_usage(prompt, usage.get("output_token_count") or 0, cached=read, written=written)
    await host.akeep_answer(getattr(response, "messages", None) or [])
