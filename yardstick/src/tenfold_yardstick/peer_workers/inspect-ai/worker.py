"""The worker of inspect-ai: `CompactionSummary`, `CompactionEdit` and `CompactionTrim`, each through `compact`."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageTool,
    ChatMessageUser,
    CompactionEdit,
    CompactionStrategy,
    CompactionSummary,
    CompactionTrim,
    GenerateConfig,
    ModelAPI,
    ModelOutput,
    ModelUsage,
    compaction,
    get_model,
    modelapi,
)
from inspect_ai.tool import ToolCall
from serving import (
    BEYOND,
    Chat,
    Spent,
    Tried,
    Turn,
    Turns,
    call,
    call_names,
    fit_setting,
    get_text,
    render_messages,
    run_in_loop,
    serve,
    tokens,
)
from standin import summary

STEPS = 400
"""How many ratios `CompactionTrim` is tried with."""


def native(past: list[Chat], first: int = 0) -> list[ChatMessage]:
    """Converts OpenAI Chat messages to inspect's, with ids that count from `first`."""
    names, made = call_names(past), list[ChatMessage]()
    for at, message in enumerate(past, first):
        text, identifier = get_text(message), f"m{at}"
        if message["role"] == "tool":
            called = message["tool_call_id"]
            made.append(ChatMessageTool(id=identifier, content=text, tool_call_id=called, function=names.get(called)))
        elif message["role"] == "assistant":
            calls = [
                ToolCall(
                    id=c["id"], function=c["function"]["name"], arguments=json.loads(c["function"]["arguments"] or "{}")
                )
                for c in message.get("tool_calls") or ()
            ]
            made.append(ChatMessageAssistant(id=identifier, content=text, tool_calls=calls or None))
        else:
            made.append(ChatMessageUser(id=identifier, content=text))
    return made


def chat(messages: list[ChatMessage]) -> list[Chat]:
    """Converts inspect's messages back."""
    made: list[Chat] = []
    for message in messages:
        entry: Chat = {"role": message.role, "content": message.text}
        if isinstance(message, ChatMessageTool):
            entry["tool_call_id"] = message.tool_call_id
        elif isinstance(message, ChatMessageAssistant) and message.tool_calls:
            entry["tool_calls"] = [
                call(c.id, c.function, json.dumps(c.arguments, ensure_ascii=False)) for c in message.tool_calls
            ]
        made.append(entry)
    return made


@modelapi(name="standin")
class StandIn(ModelAPI):
    """The stand-in as a model. The last message that it gets is the request for the summary."""

    def __init__(self, model_name: str, base_url: Any = None, api_key: Any = None, **args: Any) -> None:
        super().__init__(model_name, base_url, api_key, [], args.get("config") or GenerateConfig())
        self.allowed = int(args["allowed"])

    async def generate(self, input: list[ChatMessage], *_: Any, **__: Any) -> ModelOutput:
        """Returns the summary."""
        texts = render_messages(chat(input[:-1]))
        return ModelOutput.from_content("standin", Spent.add("\n".join(texts), summary(texts, self.allowed)))

    async def count_text_tokens(self, text: str) -> int:
        """Counts tokens as the yardstick does, since inspect's own counter downloads a vocabulary."""
        return tokens(text)


def run_strategy(strategy: CompactionStrategy, past: list[Chat], allowed: int) -> list[Chat]:
    """Returns what the strategy leaves for the model."""
    model = get_model("standin/model", memoize=False, allowed=allowed)
    made, _ = asyncio.run(strategy.compact(model, native(past), []))
    return chat(made)


def summarizing(past: list[Chat], budget: int, _window: int | None) -> Tried:
    """Searches the tokens of the summary, which may take everything: only the first request is kept beside it."""
    return fit_setting(lambda allowed: run_strategy(CompactionSummary(), past, max(1, allowed)), past, budget, budget)


def edit(past: list[Chat], budget: int, _window: int | None) -> Tried:
    """Searches `keep_tool_uses`. Inputs are removed too if no tool use may stay."""

    def run(setting: int) -> list[Chat]:
        strategy = CompactionEdit(keep_tool_uses=max(0, setting - 1), keep_tool_inputs=setting > 0)
        return run_strategy(strategy, past, 1)

    return fit_setting(run, past, budget, 1 + len(call_names(past)))


def trim(past: list[Chat], budget: int, _window: int | None) -> Tried:
    """Searches `preserve`, the share of messages that stays."""
    return fit_setting(lambda share: run_strategy(CompactionTrim(preserve=share / STEPS), past, 1), past, budget, STEPS)


def turns(strategy: CompactionStrategy) -> Turns:
    """Times `compact_input` of the handler that its agents use.

    As with them, it learns the real size of each prompt.
    """

    def turn(past: list[Chat]) -> Turn:
        model, history = get_model("standin/model", memoize=False, allowed=1), native(past)
        handler = compaction(strategy, prefix=[], model=model)
        output = ModelOutput(model="standin", usage=ModelUsage(input_tokens=1_000))
        run_in_loop(handler.compact_input(history))

        def grows(step: list[Chat]) -> None:
            run_in_loop(handler.record_output(list(history), output))
            history.extend(native(step, len(history)))

        def hook() -> bool:
            made, _ = run_in_loop(handler.compact_input(history))
            return len(made) == len(history)

        return Turn(grows, hook)

    return turn


if __name__ == "__main__":
    serve(
        {"summary": summarizing, "edit": edit, "trim": trim},
        ["inspect-ai"],
        {
            "summary": turns(CompactionSummary(threshold=BEYOND)),
            "edit": turns(CompactionEdit(threshold=BEYOND)),
            "trim": turns(CompactionTrim(threshold=BEYOND)),
        },
    )
