"""Tenfold in an agent of Strands: one conversation manager.

    agent = Agent(model, tools=tools, conversation_manager=TenfoldConversationManager())

Before each call of the model, the messages of the agent go into a session, and the model sees its view. The agent's own
list stays whole, so what a session manager saves is whole too. The deprecated `Agent.structured_output` sends that list
as it is: pass `structured_output_model` with the prompt instead.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, Unpack

from tenfold.apps.adapters import name_extra

with name_extra(__name__):
    from strands import tool
    from strands.agent.conversation_manager import ConversationManager
    from strands.hooks import AgentInitializedEvent, HookRegistry
    from strands.middleware import InvokeModelContext, InvokeModelStage, ModelStopReason
    from strands.types.exceptions import ContextWindowOverflowException

from tenfold.apps.adapters.host_sessions import Fitted, HostSession, HostSessions, build_lookups
from tenfold.formats.objects.strands import CONVERTER, build_blocks, read_blocks
from tenfold.session.concurrency import run_uninterrupted
from tenfold.session.opening import SessionOptions

Message = dict[str, Any]
_DEFAULT_AGENT = "default"
"""The `agent_id` of an agent that has none of its own."""


class TenfoldConversationManager(ConversationManager):
    """Keeps the messages of an agent in a session, and has the model see them compacted when they grow too long.

    With a session manager, the session has the id of its session, with the `agent_id` behind it if the agent has one of
    its own: every process that serves it has the same one. Without, it has the id that Strands gives the first message.
    So one agent has a session for each list that it begins, as where it is a tool of another one. The model is offered
    three tools to look up what it no longer sees, unless `recall` is False.

    The options are those of `tenfold.open_session`. Without a `window`, it is the `context_window_limit` of the model.
    """

    def __init__(self, *, recall: bool = True, **options: Unpack[SessionOptions]) -> None:
        super().__init__()
        self._sessions: HostSessions[Message] = HostSessions(CONVERTER, options)
        self._recall = recall

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:  # noqa: ANN401 - what Strands may add
        """Waits for the agent to be made, to wrap the calls of its model."""
        super().register_hooks(registry, **kwargs)
        registry.add_callback(AgentInitializedEvent, self._attach)

    def apply_management(self, agent: Any, **kwargs: Any) -> None:  # noqa: ANN401 - an agent of any kind
        """Does nothing: the agent's list stays whole."""

    def reduce_context(self, agent: Any, e: Exception | None = None, **kwargs: Any) -> None:  # noqa: ANN401, ARG002
        """Raises the error, if there is one: what was sent last cannot be made shorter."""
        if e is not None:
            raise e

    def restore_from_session(self, state: dict[str, Any]) -> list[Any] | None:  # noqa: ARG002 - it keeps no state there
        """Has the agent get back all messages that were saved, also those that another manager had taken out."""
        self.removed_message_count = 0
        return None

    def _attach(self, event: AgentInitializedEvent) -> None:
        agent: Any = event.agent
        agent.add_middleware(InvokeModelStage, self._answer)
        if self._recall:
            lookups = build_lookups(lambda: self._find_session(agent).tools)
            agent.tool_registry.process_tools([tool(function) for function in lookups])

    async def _answer(
        self, context: InvokeModelContext, call: Callable[[InvokeModelContext], AsyncIterator[Any]]
    ) -> AsyncIterator[Any]:
        """Has the model answer the view, and once more a shorter one if the provider refuses it as too long."""
        host = self._find_session(context.agent)
        await run_uninterrupted(lambda: _use_window(host, getattr(context.model, "context_window_limit", None)))
        messages, added = _take_out_additions(context)
        system = (
            read_blocks(context.system_prompt) if isinstance(context.system_prompt, list) else context.system_prompt
        )
        fitted: Fitted[Message] = await host.afit(
            messages,
            system=system,
            recall="tool" if self._recall else "none",
            model=_find_setting(context.model, "model_id"),
            tools=[_describe_tool(spec) for spec in context.tool_specs],
            max_tokens=_find_setting(context.model, "max_tokens", "max_completion_tokens", "max_output_tokens"),
        )

        def fill(fitted: Fitted[Message]) -> InvokeModelContext:
            sent = _join_turns(fitted.messages, messages)
            if added:
                sent = [*sent[:-1], _join(sent[-1], {"content": added})]
            if fitted.system == system:
                return context.replace(messages=sent)
            return context.replace(messages=sent, system_prompt=build_blocks(fitted.system))

        try:
            async for event in call(fill(fitted)):
                await _report_usage(host, event)
                yield event
        except Exception as exc:  # noqa: BLE001 - `ashrink` raises what is about something else
            fitted = await host.ashrink(_name_overflow(exc))
            async for event in call(fill(fitted)):
                await _report_usage(host, event)
                yield event

    def _find_session(self, agent: Any) -> HostSession[Message]:  # noqa: ANN401 - an agent of any kind
        if getattr(agent, "_session_manager", None) is None:
            name = agent.messages[0].get("tracking_id", "") if agent.messages else ""
        else:
            name = "/".join([agent.session_id, *([agent.agent_id] if agent.agent_id != _DEFAULT_AGENT else [])])
        return self._sessions.get(name, _find_setting(agent.model, "model_id") or "")


def _take_out_additions(context: InvokeModelContext) -> tuple[list[Message], list[Any]]:
    """Takes the blocks out of the last message that were put into it for this call alone, as by `ContextInjector`."""
    messages, count = context.messages, context.dynamic_trailing_blocks
    if not (messages and count):
        return messages, []
    last = messages[-1]
    return [*messages[:-1], {**last, "content": last["content"][:-count]}], last["content"][-count:]


def _join_turns(sent: list[Message], own: list[Message]) -> list[Message]:
    """Joins messages of one role in a row, where one of them is new: Bedrock refuses a request that has two."""
    known, joined = set(map(id, own)), list[Message]()
    for message in sent:
        last = joined[-1] if joined else None
        is_same = last is not None and last["role"] == message["role"]
        if last is not None and is_same and not known.issuperset((id(last), id(message))):
            joined[-1] = _join(last, message)
        else:
            joined.append(message)
    return joined


def _join(message: Message, more: Message) -> Message:
    return {"role": message["role"], "content": [*message["content"], *more["content"]]}


def _name_overflow(error: Exception) -> Exception:
    """Names an overflow in words that are known for one: what Strands takes for one may have others."""
    is_overflow = isinstance(error, ContextWindowOverflowException)
    named: Exception = ContextWindowOverflowException(f"context window exceeded: {error}") if is_overflow else error
    return named


def _describe_tool(spec: Any) -> dict[str, Any]:  # noqa: ANN401 - a ToolSpec
    schema = spec["inputSchema"]
    return {"name": spec["name"], "description": spec["description"], "input_schema": schema.get("json", schema)}


def _find_setting(model: Any, *names: str) -> Any:  # noqa: ANN401 - a model of any provider
    """Finds a setting of a model, which has its provider's own among its `params`."""
    config = model.get_config()
    config = config if isinstance(config, dict) else vars(config)
    places = (config, config.get("params") or {})
    return next((place[name] for place in places for name in names if place.get(name)), None)


def _use_window(host: HostSession[Message], window: int | None) -> None:
    if host.session.compactor.window is None:
        host.session.compactor.use_window(window)


async def _report_usage(host: HostSession[Message], event: Any) -> None:  # noqa: ANN401 - an event of a stream
    if not isinstance(event, ModelStopReason):
        return
    usage = event["stop"][2]
    prompt, output = usage["inputTokens"], usage["outputTokens"]
    cached, written = usage.get("cacheReadInputTokens", 0), usage.get("cacheWriteInputTokens", 0)
    if prompt + output != usage["totalTokens"]:  # else the provider counts the cached ones among the input
        prompt += cached + written
    await host.areport_usage(prompt, output, cached=cached, written=written)
