"""Programs that work with the official clients: each keeps its list in its provider's form and asks a session first."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import anthropic
import openai
from msgspec.structs import replace

from tenfold.models.overflow import is_overflow
from tenfold.session import AsyncSession, Session

Json = dict[str, Any]
Answer = Any
"""What a client gives back: an object of its own."""
Call = tuple[str, str, Json]
"""The id of a tool call, the tool's name, its arguments."""
PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
SYSTEM = "You look at the parts of a program. Be brief."


class Host:
    """A program's own list, and how its provider's requests and answers are formed.

    With `keeps_own` the list is never shortened: each request begins as the last one did. Otherwise the program goes
    on with the list that the session gave back. `said` is everything that ever was in the list.
    """

    wire = ""
    model = ""
    field = "messages"

    def __init__(self, *, keeps_own: bool) -> None:
        self.keeps_own = keeps_own
        self.list: list[Any] = []
        self.said: list[Any] = []

    def add(self, *items: object) -> None:
        """Adds items to the list."""
        self.list += items
        self.said += items

    def build_request(self) -> Json:
        """The arguments of the client's call."""
        raise NotImplementedError

    def read_answer(self, answer: Answer) -> list[Call]:
        """Adds an answer to the list and gives its calls."""
        raise NotImplementedError

    def add_results(self, results: Mapping[str, str]) -> None:
        """Adds what the tools gave, by the ids of the calls."""
        raise NotImplementedError

    def open_client(self, url: str) -> Any:  # noqa: ANN401 - each provider's client is a class of its own
        """The plain client."""
        raise NotImplementedError

    def open_async_client(self, url: str) -> Any:  # noqa: ANN401 - the same
        """The client for coroutines."""
        raise NotImplementedError

    def get_call(self, client: Any) -> Callable[..., Any]:  # noqa: ANN401 - the same
        """The client's call, which takes a request."""
        raise NotImplementedError

    def take_back(self, request: Mapping[str, Any]) -> None:
        """Goes on with the list that the session gave back, unless the program keeps its own."""
        if not self.keeps_own:
            self.list = list(request[self.field])


class AnthropicHost(Host):
    """Anthropic's Messages."""

    wire = "anthropic"
    model = "claude-opus-4-6"

    def build_request(self) -> Json:
        tools = [{"name": "look", "description": "Looks.", "input_schema": PARAMETERS}]
        return {
            "model": self.model,
            "max_tokens": 1_000,
            "system": SYSTEM,
            "tools": tools,
            "thinking": {"type": "adaptive"},
            "messages": self.list,
        }

    def read_answer(self, answer: Answer) -> list[Call]:
        self.add({"role": "assistant", "content": answer.content})
        return [(part.id, part.name, part.input) for part in answer.content if part.type == "tool_use"]

    def add_results(self, results: Mapping[str, str]) -> None:
        content = [{"type": "tool_result", "tool_use_id": call, "content": text} for call, text in results.items()]
        self.add({"role": "user", "content": content})

    def open_client(self, url: str) -> anthropic.Anthropic:
        return anthropic.Anthropic(base_url=url, max_retries=0)

    def open_async_client(self, url: str) -> anthropic.AsyncAnthropic:
        return anthropic.AsyncAnthropic(base_url=url, max_retries=0)

    def get_call(self, client: Any) -> Callable[..., Any]:  # noqa: ANN401 - the same
        call: Callable[..., Any] = client.messages.create
        return call


class OpenAIHost(Host):
    """What both of OpenAI's have in common."""

    def open_client(self, url: str) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{url}/v1", max_retries=0)

    def open_async_client(self, url: str) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(base_url=f"{url}/v1", max_retries=0)


class ChatHost(OpenAIHost):
    """OpenAI's Chat Completions."""

    wire = "openai-chat"
    model = "gpt-4o"

    def __init__(self, *, keeps_own: bool) -> None:
        super().__init__(keeps_own=keeps_own)
        self.add({"role": "system", "content": SYSTEM})

    def build_request(self) -> Json:
        function = {"name": "look", "description": "Looks.", "parameters": PARAMETERS}
        tools = [{"type": "function", "function": function}]
        return {"model": self.model, "max_completion_tokens": 1_000, "tools": tools, "messages": self.list}

    def read_answer(self, answer: Answer) -> list[Call]:
        message = answer.choices[0].message
        self.add(message)
        return [(c.id, c.function.name, json.loads(c.function.arguments)) for c in message.tool_calls or ()]

    def add_results(self, results: Mapping[str, str]) -> None:
        self.add(*({"role": "tool", "tool_call_id": call, "content": text} for call, text in results.items()))

    def get_call(self, client: Any) -> Callable[..., Any]:  # noqa: ANN401 - the same
        call: Callable[..., Any] = client.chat.completions.create
        return call


class ResponsesHost(OpenAIHost):
    """OpenAI's Responses, without anything kept by the server."""

    wire = "openai-responses"
    model = "gpt-5-mini"
    field = "input"

    def build_request(self) -> Json:
        tools = [{"type": "function", "name": "look", "description": "Looks.", "parameters": PARAMETERS}]
        return {
            "model": self.model,
            "max_output_tokens": 1_000,
            "instructions": SYSTEM,
            "tools": tools,
            "store": False,
            "include": ["reasoning.encrypted_content"],
            "input": self.list,
        }

    def read_answer(self, answer: Answer) -> list[Call]:
        self.add(*answer.output)
        return [(i.call_id, i.name, json.loads(i.arguments)) for i in answer.output if i.type == "function_call"]

    def add_results(self, results: Mapping[str, str]) -> None:
        self.add(*({"type": "function_call_output", "call_id": call, "output": text} for call, text in results.items()))

    def get_call(self, client: Any) -> Callable[..., Any]:  # noqa: ANN401 - the same
        call: Callable[..., Any] = client.responses.create
        return call


HOSTS: Mapping[str, type[Host]] = {"anthropic": AnthropicHost, "chat": ChatHost, "responses": ResponsesHost}


def take_steps(host: Host, tasks: Sequence[str], results: Iterator[str]) -> Generator[None, Answer, None]:
    """Adds to a host's list what the user and the tools say; pauses for the answer to each request."""
    for task in tasks:
        host.add({"role": "user", "content": task})
        while calls := host.read_answer((yield)):
            host.add_results({call: next(results) for call, _, _ in calls})


def work(host: Host, session: Session, url: str, window: int, tasks: Sequence[str], results: Iterator[str]) -> None:
    """Has the tasks done, one after the other, with the plain client. What is refused as too long is compacted."""
    steps = take_steps(host, tasks, results)
    with host.open_client(url) as client, suppress(StopIteration):
        next(steps)
        while True:
            request = session.before_model(host.build_request(), window=window)
            host.take_back(request)
            try:
                answer = host.get_call(client)(**request)
            except (anthropic.BadRequestError, openai.BadRequestError) as refused:
                if not is_overflow(str(refused), status=refused.status_code):
                    raise
                session.compact(replace(session.compactor.build_call(window=window), demand="overflow"))
                continue
            session.after_model(answer)
            steps.send(answer)
    session.before_model(host.build_request(), window=window)


async def awork(
    host: Host, session: AsyncSession, url: str, window: int, tasks: Sequence[str], results: Iterator[str]
) -> None:
    """Does the same as `work`, as a coroutine; what is refused is an error."""
    steps = take_steps(host, tasks, results)
    async with host.open_async_client(url) as client:
        with suppress(StopIteration):
            next(steps)
            while True:
                request = await session.before_model(host.build_request(), window=window)
                host.take_back(request)
                answer = await host.get_call(client)(**request)
                await session.after_model(answer)
                steps.send(answer)
    await session.before_model(host.build_request(), window=window)
