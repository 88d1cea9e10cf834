"""The worker of openhands-sdk: `LLMSummarizingCondenser` over a `View` of its events. It needs Python 3.12."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from openhands.sdk.context.condenser import LLMSummarizingCondenser
from openhands.sdk.context.view import View
from openhands.sdk.event import ActionEvent, LLMConvertibleEvent, MessageEvent, ObservationEvent
from openhands.sdk.event.condenser import Condensation
from openhands.sdk.llm import Message, MessageToolCall, TextContent
from openhands.sdk.mcp.definition import MCPToolAction
from openhands.sdk.testing import TestLLM
from openhands.sdk.tool.schema import Observation
from serving import BEYOND, Chat, Spent, Tried, Turn, call, call_names, fit_setting, get_text, serve, size
from standin import allotment, summary


class Output(Observation):
    """The output of a tool."""


class StandIn(TestLLM):
    """Answers with a summary of the events in the last message, and counts as the yardstick does."""

    budget: int = 0

    def completion(self, messages: list[Message], *given: Any, **options: Any) -> Any:
        """Adds the summary to the scripted answers.

        The first line of a block is left out, since it only names its kind of event.
        """
        prompt = "\n".join(c.text for c in messages[-1].content if isinstance(c, TextContent))
        blocks = [block.partition("\n")[2] for block in prompt.replace("</EVENT>", "").split("<EVENT>\n")[1:]]
        text = Spent.add(prompt, summary(blocks, allotment(self.budget)))
        self._scripted_responses.append(Message(role="assistant", content=[TextContent(text=text)]))
        return super().completion(messages, *given, **options)

    def get_token_count(self, messages: list[Message], *_: Any, **__: Any) -> int:
        """Returns the tokens of whole messages."""
        return size(chat(messages))


def events(past: Sequence[Chat], first: int = 0) -> list[LLMConvertibleEvent]:
    """Converts OpenAI Chat messages to events. The calls of a message become actions of the same response."""
    names, made, actions = call_names(past), list[LLMConvertibleEvent](), dict[str, str]()
    for at, message in enumerate(past, first):
        said = [TextContent(text=get_text(message))] if get_text(message) else []
        if message["role"] == "tool":
            called = message["tool_call_id"]
            made.append(
                ObservationEvent(
                    id=f"e{at}",
                    observation=Output(content=said),
                    action_id=actions.get(called, called),
                    tool_name=names.get(called, "tool"),
                    tool_call_id=called,
                )
            )
            continue
        if message["role"] != "assistant" or not message.get("tool_calls"):
            role = "assistant" if message["role"] == "assistant" else "user"
            source = "agent" if role == "assistant" else "user"
            made.append(MessageEvent(id=f"e{at}", source=source, llm_message=Message(role=role, content=said)))
            continue
        for nth, each in enumerate(message["tool_calls"]):
            inner = each["function"]
            actions[each["id"]] = f"e{at}.{nth}"
            made.append(
                ActionEvent(
                    id=f"e{at}.{nth}",
                    thought=said if nth == 0 else [],
                    action=MCPToolAction(data=json.loads(inner["arguments"] or "{}")),
                    tool_name=inner["name"],
                    tool_call_id=each["id"],
                    tool_call=MessageToolCall(
                        id=each["id"], name=inner["name"], arguments=inner["arguments"], origin="completion"
                    ),
                    llm_response_id=f"r{at}",
                )
            )
    return made


def chat(messages: Sequence[Message]) -> list[Chat]:
    """Converts messages for a model to OpenAI Chat messages."""
    made: list[Chat] = []
    for message in messages:
        text = "\n".join(c.text for c in message.content if isinstance(c, TextContent))
        entry: Chat = {"role": message.role, "content": text or None}
        if message.role == "tool":
            entry = {"role": "tool", "tool_call_id": message.tool_call_id, "content": text}
        elif message.tool_calls:
            entry["tool_calls"] = [call(c.id, c.name, c.arguments) for c in message.tool_calls]
        made.append(entry)
    return made


def summarizing(past: list[Chat], budget: int, _window: int | None) -> Tried:
    """Searches `max_tokens`, of which it keeps half. If its two first events alone are too much, `keep_first` is 0."""
    given = events(past)

    def run(keep: int, keep_first: int) -> list[Chat]:
        llm = StandIn(model="standin", budget=budget, usage_id="standin")
        condenser = LLMSummarizingCondenser(
            llm=llm, max_size=100_000, max_tokens=max(2, 2 * keep), keep_first=keep_first, minimum_progress=0.01
        )
        view = View.from_events(given)
        made = condenser.condense(view, agent_llm=llm)
        if isinstance(made, Condensation):
            view = View.from_events([*given, made])
        return chat(LLMConvertibleEvent.events_to_messages(view.events))

    tried = fit_setting(lambda keep: run(keep, 2), past, budget, budget)
    return tried if tried.size <= budget else fit_setting(lambda keep: run(keep, 0), past, budget, budget)


def turn(past: list[Chat]) -> Turn:
    """Times `condense` over the one view that its conversation keeps, with its default counter (litellm's).

    The model is one that litellm does not know, since a known window would be the lower limit.
    """
    llm = TestLLM(model="standin", usage_id="standin")
    condenser = LLMSummarizingCondenser(llm=llm, max_size=BEYOND, max_tokens=BEYOND)
    view = View.from_events(events(past))

    def grows(step: list[Chat]) -> None:
        for event in events(step, len(view.events)):  # ids of its own: there are no fewer events than messages
            view.append_event(event)

    return Turn(grows, lambda: condenser.condense(view, agent_llm=llm) is view)


if __name__ == "__main__":
    serve({"summarizing": summarizing}, ["openhands-sdk"], {"summarizing": turn})
