"""The worker of google-adk: an `App` with `EventsCompactionConfig`, run by its `Runner`.

The result is what the model gets.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator

from google.adk.agents import LlmAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.apps.app import App, EventsCompactionConfig
from google.adk.apps.llm_event_summarizer import LlmEventSummarizer
from google.adk.events import Event
from google.adk.flows.llm_flows.compaction import request_processor
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types
from serving import (
    BEYOND,
    Chat,
    Spent,
    Tried,
    Turn,
    call,
    call_names,
    fit_setting,
    get_text,
    pieces,
    run_in_loop,
    serve,
)
from standin import allotment, summary

AGENT = "agent"
FULL = 0.9
"""A share of the past's size (characters / 4, its own estimate), so that it compacts once but not its new summary."""

NEXT = "Go on."
"""The message that starts the run in which the compaction happens. It is removed again."""


class StandIn(BaseLlm):
    """Answers the prompt for a summary."""

    budget: int

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse]:
        """Yields the summary."""
        prompt = llm_request.contents[-1].parts[0].text
        text = Spent.add(prompt, summary(prompt, allotment(self.budget)))
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]))


class Listener(BaseLlm):
    """The agent's model, which keeps what it is sent."""

    heard: list[list[types.Content]]
    spent: tuple[int, int] = (0, 0)

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse]:
        """Answers with one word."""
        self.heard.append(list(llm_request.contents))
        self.spent = (Spent.read, Spent.written)
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="Done.")]))


def events(past: list[Chat]) -> list[Event]:
    """Converts OpenAI Chat messages to events of a session, one second apart."""
    names, made = call_names(past), list[Event]()
    for at, message in enumerate(past):
        text = get_text(message)
        if message["role"] == "tool":
            called = message["tool_call_id"]
            response = types.FunctionResponse(id=called, name=names.get(called, "tool"), response={"result": text})
            content, author = types.Content(role="user", parts=[types.Part(function_response=response)]), AGENT
        elif message["role"] == "assistant":
            parts = [types.Part(text=text)] if text else []
            for each in message.get("tool_calls") or ():
                arguments = json.loads(each["function"]["arguments"] or "{}")
                made_call = types.FunctionCall(id=each["id"], name=each["function"]["name"], args=arguments)
                parts.append(types.Part(function_call=made_call))
            content, author = types.Content(role="model", parts=parts), AGENT
        else:
            content, author = types.Content(role="user", parts=[types.Part(text=text)]), "user"
        made.append(Event(author=author, content=content, timestamp=float(at + 1), invocation_id=f"i{at // 8}"))
    return made


def chat(contents: list[types.Content]) -> list[Chat]:
    """Converts what reached the model to OpenAI Chat messages."""
    made: list[Chat] = []
    for content in contents:
        text = "\n".join(p.text for p in content.parts or () if p.text)
        calls = [
            call(p.function_call.id, p.function_call.name, json.dumps(p.function_call.args, ensure_ascii=False))
            for p in content.parts or ()
            if p.function_call
        ]
        for part in content.parts or ():
            if part.function_response:
                result = (part.function_response.response or {}).get("result", "")
                made.append({"role": "tool", "tool_call_id": part.function_response.id, "content": str(result)})
        if content.role == "model":
            made.append({"role": "assistant", "content": text or None, **({"tool_calls": calls} if calls else {})})
        elif text:
            made.append({"role": "user", "content": text})
    return made


async def _run(past: list[Chat], budget: int, keep: int) -> list[Chat]:
    standin, listener = StandIn(model="standin", budget=budget), Listener(model="listener", heard=[])
    config = EventsCompactionConfig(
        token_threshold=max(1, int(FULL * sum(len(piece) for message in past for piece in pieces(message)) / 4)),
        event_retention_size=keep,
        summarizer=LlmEventSummarizer(llm=standin, prompt_template="{conversation_history}"),
    )
    app = App(name="app", root_agent=LlmAgent(name=AGENT, model=listener), events_compaction_config=config)
    service = InMemorySessionService()
    session = await service.create_session(app_name="app", user_id="u")
    for event in events(past):
        await service.append_event(session, event)
    asked = types.Content(role="user", parts=[types.Part(text=NEXT)])
    runner = Runner(app=app, session_service=service)
    async for _ in runner.run_async(user_id="u", session_id=session.id, new_message=asked):
        pass
    Spent.read, Spent.written = listener.spent  # a second compaction after the answer belongs to the next request
    heard = chat(listener.heard[0])
    return [m for m in heard if not (m["role"] == "user" and m["content"] == NEXT)]


def token_threshold(past: list[Chat], budget: int, _window: int | None) -> Tried:
    """Searches `event_retention_size`, the number of events that stay."""
    return fit_setting(lambda keep: asyncio.run(_run(past, budget, keep)), past, budget, len(past))


def turn(past: list[Chat]) -> Turn:
    """Times its processor before a model call.

    The model's events report the size of their prompts, as in a real run.
    """
    service = InMemorySessionService()
    session = run_in_loop(service.create_session(app_name="app", user_id="u"))
    context = InvocationContext(
        session_service=service,
        session=session,
        agent=LlmAgent(name=AGENT, model=Listener(model="listener", heard=[])),
        invocation_id="i",
        events_compaction_config=EventsCompactionConfig(
            token_threshold=BEYOND,
            event_retention_size=1,
            summarizer=LlmEventSummarizer(llm=StandIn(model="standin", budget=1)),
        ),
    )
    request = LlmRequest()

    async def run_processor() -> bool:
        async for _ in request_processor.run_async(context, request):
            pass
        return not context.token_compaction_checked

    session.events.extend(build_reported_events(past))
    return Turn(lambda step: session.events.extend(build_reported_events(step)), lambda: run_in_loop(run_processor()))


def build_reported_events(messages: list[Chat]) -> list[Event]:
    """Returns events in which each answer of the model reports the size of its prompt."""
    made = events(messages)
    for event in made:
        if event.content.role == "model":
            event.usage_metadata = types.GenerateContentResponseUsageMetadata(prompt_token_count=1_000)
    return made


if __name__ == "__main__":
    serve({"token-threshold": token_threshold}, ["google-adk"], {"token-threshold": turn})
