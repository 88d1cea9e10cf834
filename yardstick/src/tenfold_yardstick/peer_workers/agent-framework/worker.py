"""The worker of agent-framework-core: `TokenBudgetComposedStrategy` over collapsed tool results and a summary."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from agent_framework import (
    CharacterEstimatorTokenizer,
    ChatResponse,
    Content,
    Message,
    SummarizationStrategy,
    TokenBudgetComposedStrategy,
    ToolResultCompactionStrategy,
    apply_compaction,
)
from serving import BEYOND, FRAME, Chat, Spent, Tried, Turn, call, fit_setting, get_text, run_in_loop, serve, tokens
from standin import allotment, summary


class Counter:
    """The yardstick's counter. It gets a message as JSON and counts what a model reads of it."""

    def count_tokens(self, text: str) -> int:
        """Returns the tokens of a serialised message, or of a plain text."""
        try:
            contents = json.loads(text)["contents"]
        except (ValueError, TypeError, KeyError):
            return tokens(text)
        said = [c.get(k) for c in contents for k in ("text", "name", "arguments", "result")]
        return FRAME + sum(tokens(s if isinstance(s, str) else json.dumps(s)) for s in said if s)


class StandIn:
    """Answers with a summary of the transcript in the last message."""

    def __init__(self, budget: int) -> None:
        self.additional_properties: dict[str, Any] = {}
        self.budget = budget

    async def get_response(self, messages: list[Message], **_: Any) -> ChatResponse:
        """Returns the summary."""
        prompt = messages[-1].text
        text = Spent.add(prompt, summary(prompt, allotment(self.budget)))
        return ChatResponse(messages=[Message("assistant", [text])])


def native(past: list[Chat], first: int = 0) -> list[Message]:
    """Converts OpenAI Chat messages to the framework's, with ids that count from `first`."""
    made: list[Message] = []
    for at, message in enumerate(past, first):
        text = get_text(message)
        if message["role"] == "tool":
            contents = [Content.from_function_result(message["tool_call_id"], result=text)]
        else:
            contents = [Content.from_text(text)] if text else []
            contents += [
                Content.from_function_call(c["id"], c["function"]["name"], arguments=c["function"]["arguments"])
                for c in message.get("tool_calls") or ()
            ]
        made.append(Message(message["role"], contents, message_id=f"m{at}"))
    return made


def chat(messages: list[Message]) -> list[Chat]:
    """Converts the framework's messages back."""
    made: list[Chat] = []
    for message in messages:
        results = [c for c in message.contents if c.type == "function_result"]
        made += [{"role": "tool", "tool_call_id": c.call_id, "content": str(c.result)} for c in results]
        if results:
            continue
        calls = [
            call(c.call_id, c.name, c.arguments if isinstance(c.arguments, str) else json.dumps(c.arguments or {}))
            for c in message.contents
            if c.type == "function_call"
        ]
        role = message.role if isinstance(message.role, str) else message.role.value
        made.append({"role": role, "content": message.text or None, **({"tool_calls": calls} if calls else {})})
    return made


def token_budget(past: list[Chat], budget: int, _window: int | None) -> Tried:
    """Searches `target_count` of the summary.

    If a try needs the last resort, dropping messages, a lower value is tried.
    """

    def run(count: int) -> list[Chat]:
        messages, counter = native(past), Counter()
        strategy = TokenBudgetComposedStrategy(
            token_budget=budget,
            tokenizer=counter,
            strategies=[
                ToolResultCompactionStrategy(),
                SummarizationStrategy(
                    client=StandIn(budget), target_count=max(1, count), threshold=0, max_summary_input_tokens=None
                ),
            ],
        )
        made = asyncio.run(apply_compaction(messages, strategy=strategy, tokenizer=counter))
        dropped = any("fallback" in str(m.additional_properties) for m in messages)
        return past if dropped and count > 1 else chat(made)

    return fit_setting(run, past, budget, len(past))


def turn(past: list[Chat]) -> Turn:
    """Times `apply_compaction` on the one list that its tool loop keeps, including marks of earlier turns."""
    tokenizer = CharacterEstimatorTokenizer()
    strategy = TokenBudgetComposedStrategy(
        token_budget=BEYOND,
        tokenizer=tokenizer,
        strategies=[ToolResultCompactionStrategy(), SummarizationStrategy(client=StandIn(1))],
    )
    history = native(past)

    def hook() -> bool:
        made = run_in_loop(apply_compaction(history, strategy=strategy, tokenizer=tokenizer))
        return len(made) == len(history)

    return Turn(lambda step: history.extend(native(step, len(history))), hook)


if __name__ == "__main__":
    serve({"token-budget": token_budget}, ["agent-framework-core"], {"token-budget": turn})
