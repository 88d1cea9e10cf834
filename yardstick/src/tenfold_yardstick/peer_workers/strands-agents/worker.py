"""The worker of strands-agents: `SummarizingConversationManager` and `SlidingWindowConversationManager`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from serving import BEYOND, Chat, Spent, Tried, Turn, call, fit_setting, get_text, render_messages, run_in_loop, serve
from standin import allotment, summary
from strands import Agent
from strands.agent.conversation_manager import SlidingWindowConversationManager, SummarizingConversationManager
from strands.event_loop.event_loop import _estimate_input_tokens
from strands.hooks import BeforeModelCallEvent
from strands.models.model import Model
from strands.types.exceptions import ContextWindowOverflowException

Native = dict[str, Any]
"""A message in the form of Bedrock's Converse."""


class StandIn(Model):
    """Answers with a summary of the messages it is sent. The last of them is the request for the summary."""

    def __init__(self, budget: int) -> None:
        self.budget = budget

    def update_config(self, **_: Any) -> None:
        """Does nothing."""

    def get_config(self) -> dict[str, Any]:
        """Returns a configuration with a window that never limits."""
        return {"model_id": "standin", "context_window_limit": BEYOND}

    async def structured_output(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        """Never called."""
        raise NotImplementedError
        yield

    async def stream(self, messages: list[Native], *_: Any, **__: Any) -> AsyncIterator[Any]:
        """Yields the summary as one delta."""
        texts = render_messages(chat(messages[:-1]))
        text = Spent.add("\n".join(texts), summary(texts, allotment(self.budget)))
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": {}}}
        yield {"contentBlockDelta": {"delta": {"text": text or "Nothing."}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}


def native(past: list[Chat]) -> list[Native]:
    """Converts OpenAI Chat messages to Converse messages.

    Results are user messages; those of parallel calls share one.
    """
    made: list[Native] = []
    for message in past:
        text = get_text(message)
        if message["role"] == "tool":
            result = {"toolUseId": message["tool_call_id"], "status": "success", "content": [{"text": text}]}
            last = made[-1] if made else None
            if last and last["role"] == "user" and all("toolResult" in b for b in last["content"]):
                last["content"].append({"toolResult": result})
            else:
                made.append({"role": "user", "content": [{"toolResult": result}]})
            continue
        blocks: list[Native] = [{"text": text}] if text else []
        for each in message.get("tool_calls") or ():
            inner = each["function"]
            use = {"toolUseId": each["id"], "name": inner["name"], "input": json.loads(inner["arguments"] or "{}")}
            blocks.append({"toolUse": use})
        made.append({"role": "assistant" if message["role"] == "assistant" else "user", "content": blocks})
    return made


def chat(messages: list[Native]) -> list[Chat]:
    """Converts Converse messages back."""
    made: list[Chat] = []
    for message in messages:
        text = "\n".join(b["text"] for b in message["content"] if "text" in b)
        uses = [b["toolUse"] for b in message["content"] if "toolUse" in b]
        for block in message["content"]:
            if "toolResult" in block:
                result = block["toolResult"]
                said = "\n".join(c.get("text", "") for c in result["content"])
                made.append({"role": "tool", "tool_call_id": result["toolUseId"], "content": said})
        if message["role"] == "assistant":
            calls = [call(u["toolUseId"], u["name"], json.dumps(u["input"], ensure_ascii=False)) for u in uses]
            made.append({"role": "assistant", "content": text or None, **({"tool_calls": calls} if calls else {})})
        elif text:
            made.append({"role": "user", "content": text})
    return made


def summarizing(past: list[Chat], budget: int, _window: int | None) -> Tried:
    """Searches `preserve_recent_messages`. Reduces as often as possible, as on a window that overflows again."""

    def run(keep: int) -> list[Chat]:
        manager = SummarizingConversationManager(summary_ratio=0.8, preserve_recent_messages=max(1, keep))
        agent = Agent(model=StandIn(budget), messages=native(past), conversation_manager=manager, callback_handler=None)
        overflow = ContextWindowOverflowException("too long")
        while len(agent.messages) > max(1, keep) + 1:
            before = len(agent.messages)
            try:
                manager.reduce_context(agent, e=overflow)
            except ContextWindowOverflowException:
                break
            if len(agent.messages) >= before:
                break
        return chat(list(agent.messages))

    return fit_setting(run, past, budget, len(past))


def sliding_window(past: list[Chat], budget: int, _window: int | None) -> Tried:
    """Searches `window_size`, in messages."""

    def run(size: int) -> list[Chat]:
        manager = SlidingWindowConversationManager(window_size=max(1, size))
        agent = Agent(model=StandIn(budget), messages=native(past), conversation_manager=manager, callback_handler=None)
        manager.apply_management(agent)
        return chat(list(agent.messages))

    return fit_setting(run, past, budget, len(past))


def summarizing_turn(past: list[Chat]) -> Turn:
    """Times what its loop does before a model call: the estimate, then the manager's hook (`proactive_compression`).

    The last answer of the model reports its usage, as in a real run, so only what follows it is estimated.
    """
    manager = SummarizingConversationManager(proactive_compression=True)
    agent = Agent(model=StandIn(1), messages=native(past), conversation_manager=manager, callback_handler=None)
    usage = {"inputTokens": 1_000, "outputTokens": 10, "totalTokens": 1_010}

    def grows(step: list[Chat]) -> None:
        agent.messages.extend(native(step))
        last = next(m for m in reversed(agent.messages) if m["role"] == "assistant")
        last["metadata"] = {"usage": usage}

    async def before_call() -> bool:
        before = len(agent.messages)
        size = await _estimate_input_tokens(agent)
        event = BeforeModelCallEvent(agent=agent, invocation_state={}, projected_input_tokens=size)
        await agent.hooks.invoke_callbacks_async(event)
        return len(agent.messages) == before

    return Turn(grows, lambda: run_in_loop(before_call()))


def sliding_window_turn(past: list[Chat]) -> Turn:
    """Times `apply_management`, which compares the number of messages with its window and knows no tokens."""
    manager = SlidingWindowConversationManager(window_size=BEYOND)
    agent = Agent(model=StandIn(1), messages=native(past), conversation_manager=manager, callback_handler=None)

    def hook() -> bool:
        before = len(agent.messages)
        manager.apply_management(agent)
        return len(agent.messages) == before

    return Turn(lambda step: agent.messages.extend(native(step)), hook)


if __name__ == "__main__":
    serve(
        {"summarizing": summarizing, "sliding-window": sliding_window},
        ["strands-agents"],
        {"summarizing": summarizing_turn, "sliding-window": sliding_window_turn},
    )
