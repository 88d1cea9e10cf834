"""A conversation that a gateway has compacted, in each API: official clients, the gateway, a provider on loopback."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

import anthropic
import openai
from google import genai
from google.genai import errors as google_errors
from msgspec import Struct

from tenfold.apps.gateway.application import Gateway
from tenfold.apps.gateway.gateway_settings import RecallChoice
from tenfold.core.wire import WIRES
from tenfold.core.wire.api import StreamForm
from tenfold.store.base import Store
from tests.gateway import conversations
from tests.gateway.serving import serve_gateway
from tests.models.loopback import Got, Loopback, Served
from tests.models.provider_rules import Issued, find_refusal

Json = dict[str, Any]
KEY = "only-for-this-server"
PARAMETERS = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
    "additionalProperties": False,
}
HIDDEN_WORDS = "quokka marmalade zeppelin"
"""What stands in a result of the hidden past, and nowhere else."""
HIDDEN_STEP = 3
STEPS = 24
WINDOW = 8_000
RECALLS = ("recall_search", "recall_read", "recall_expand")


def open_stream(wire: str) -> StreamForm:
    """Reads the streams of an API in which lookups are hidden."""
    api = WIRES[wire].api
    assert api is not None
    assert api.stream is not None
    return api.stream(RECALLS)


class Final(Struct, frozen=True):
    """What a client has in the end. `prompt` is the usage it was told, `message` what it sends back as the answer."""

    text: str
    calls: list[str]
    stop: str
    prompt: int
    message: list[Json]


class Talk:
    """One API: how its official client sends a request and what it makes of the answer."""

    wire = ""
    api = ""

    def build_history(self) -> list[Json]:
        """A conversation of many steps, with some words in an early result."""
        talk = conversations.Talk(self.api)
        talk.items = [self.say("Look at all the parts. Never touch config.py.")]
        for step in range(STEPS):
            words = [f"{('alpha', 'beta', 'gamma')[n % 3]}{step * n}" for n in range(160)]
            words[80] = HIDDEN_WORDS if step == HIDDEN_STEP else words[80]
            talk.add_call(f"old{step}", f"src/{step}.py", f"part {step}: {' '.join(words)}")
        return talk.items

    def say(self, text: str) -> Json:
        """A message of the user."""
        return {"role": "user", "content": text}

    def ask(self, url: str, items: Sequence[Json], *, streamed: bool, extra: Mapping[str, Any] | None = None) -> Final:
        """Sends a request with the official client, and returns what it has in the end."""
        raise NotImplementedError

    def add_results(self, calls: Sequence[str], text: str = "seen") -> list[Json]:
        """The results of the calls of an answer, by the ends of their ids."""
        raise NotImplementedError


class ChatTalk(Talk):
    """OpenAI's Chat Completions."""

    wire = "openai-chat"
    api = "chat"

    def ask(self, url: str, items: Sequence[Json], *, streamed: bool, extra: Mapping[str, Any] | None = None) -> Final:
        function = {"name": "look", "description": "Looks.", "parameters": PARAMETERS, "strict": True}
        request: Json = {
            "model": "gpt-4o",
            "messages": items,
            "tools": [{"type": "function", "function": function}],
            **(extra or {}),
        }
        with openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client:
            if streamed:
                with client.chat.completions.stream(**request) as stream:
                    answer: Any = stream.get_final_completion()
            else:
                answer = client.chat.completions.create(**request)
        choice = answer.choices[0]
        message = choice.message.to_dict()
        message = {key: message[key] for key in ("role", "content", "tool_calls") if message.get(key)}
        for call in message.get("tool_calls", ()):
            call.pop("index", None)
            call["function"].pop("parsed_arguments", None)
        calls = [call["function"]["name"] for call in message.get("tool_calls", ())]
        return Final(choice.message.content or "", calls, choice.finish_reason, answer.usage.prompt_tokens, [message])

    def add_results(self, calls: Sequence[str], text: str = "seen") -> list[Json]:
        return [{"role": "tool", "tool_call_id": f"call_{call}", "content": text} for call in calls]


class ResponsesTalk(Talk):
    """OpenAI's Responses."""

    wire = "openai-responses"
    api = "responses"

    def ask(self, url: str, items: Sequence[Json], *, streamed: bool, extra: Mapping[str, Any] | None = None) -> Final:
        tool = {"type": "function", "name": "look", "description": "Looks.", "parameters": PARAMETERS, "strict": True}
        request: Json = {"model": "gpt-5-mini", "input": items, "tools": [tool], "store": False, **(extra or {})}
        with openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client:
            if streamed:
                with client.responses.stream(**request) as stream:
                    numbers = [event.sequence_number for event in stream]
                    answer: Any = stream.get_final_response()
                assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
            else:
                answer = client.responses.create(**request)
        output = [item.to_dict() for item in answer.output]
        for item in output:
            item.pop("parsed_arguments", None)
            for part in item.get("content") or ():
                part.pop("parsed", None)
        calls = [item["name"] for item in output if item["type"] == "function_call"]
        return Final(answer.output_text, calls, answer.status, answer.usage.input_tokens, output)

    def add_results(self, calls: Sequence[str], text: str = "seen") -> list[Json]:
        return [{"type": "function_call_output", "call_id": f"call_{call}", "output": text} for call in calls]


class AnthropicTalk(Talk):
    """Anthropic's Messages."""

    wire = "anthropic"
    api = "messages"

    def ask(self, url: str, items: Sequence[Json], *, streamed: bool, extra: Mapping[str, Any] | None = None) -> Final:
        request: Json = {
            "model": "claude-opus-4-6",
            "max_tokens": 1_000,
            "messages": items,
            "tools": [{"name": "look", "description": "Looks.", "input_schema": PARAMETERS}],
            **(extra or {}),
        }
        with anthropic.Anthropic(base_url=url, api_key=KEY, max_retries=0) as client:
            if streamed:
                with client.messages.stream(**request) as stream:
                    answer: Any = stream.get_final_message()
            else:
                answer = client.messages.create(**request)
        content = [
            {key: value for key, value in block.to_dict().items() if key in _BLOCK_FIELDS} for block in answer.content
        ]
        text = "".join(block.get("text", "") for block in content)
        calls = [block["name"] for block in content if block["type"] == "tool_use"]
        message = {"role": "assistant", "content": content}
        return Final(text, calls, answer.stop_reason, answer.usage.input_tokens, [message])

    def add_results(self, calls: Sequence[str], text: str = "seen") -> list[Json]:
        given = [{"type": "tool_result", "tool_use_id": f"toolu_{call}", "content": text} for call in calls]
        return [{"role": "user", "content": given}]


_BLOCK_FIELDS = ("type", "text", "thinking", "signature", "id", "name", "input")


class GeminiTalk(Talk):
    """Google's Gemini."""

    wire = "gemini"
    api = "generate"

    def say(self, text: str) -> Json:
        return {"role": "user", "parts": [{"text": text}]}

    def build_history(self) -> list[Json]:
        return [*super().build_history(), self.say("Go on.")]  # calls before the user's last words need no signature

    def ask(self, url: str, items: Sequence[Json], *, streamed: bool, extra: Mapping[str, Any] | None = None) -> Final:
        function = {"name": "look", "description": "Looks.", "parametersJsonSchema": PARAMETERS}
        config: Any = {"tools": [{"functionDeclarations": [function]}], **(extra or {})}
        request: Json = {"model": "gemini-2.5-flash", "contents": items, "config": config}
        with closing(genai.Client(api_key=KEY, http_options={"base_url": url})) as client:
            if streamed:
                answers: list[Any] = list(client.models.generate_content_stream(**request))
            else:
                answers = [client.models.generate_content(**request)]
        parts = [
            part.model_dump(mode="json", by_alias=True, exclude_none=True)
            for answer in answers
            for part in (answer.candidates[0].content.parts or ())
        ]
        text = "".join(part.get("text", "") for part in parts)
        calls = [part["functionCall"]["name"] for part in parts if "functionCall" in part]
        stop, usage = answers[-1].candidates[0].finish_reason, answers[-1].usage_metadata
        return Final(text, calls, stop.value, usage.prompt_token_count, [{"role": "model", "parts": parts}])

    def add_results(self, calls: Sequence[str], text: str = "seen") -> list[Json]:
        return [
            {
                "role": "user",
                "parts": [{"functionResponse": {"name": "look", "response": {"result": text}}} for _ in calls],
            }
        ]


TALKS: Mapping[str, Talk] = {talk.wire: talk for talk in (ChatTalk(), ResponsesTalk(), AnthropicTalk(), GeminiTalk())}
FAILURES = (openai.APIError, anthropic.APIError, google_errors.APIError)
"""What the clients raise when the provider says that something failed."""


class Provider(Loopback):
    """A provider that answers the requests with tools in turn, and writes summaries where there are none.

    An answer may be a function of what the request has. `rounds` are the requests with tools, `refused` what the real
    API would have refused.
    """

    def __init__(self, *answers: Served | Callable[[Got], Served]) -> None:
        self.issued = Issued()
        super().__init__(script=self._serve_round, sent=self.issued.note)
        self._answers = answers
        self.rounds: list[Got] = []
        self.refused: list[str] = []

    def _serve_round(self, got: Got) -> Served:
        if not got.body.get("tools"):
            return Served("## Goal\nLook at the parts.")
        issued = None if got.api == "messages" else self.issued  # of thinking, no server knows to which call it led
        broken = find_refusal(got.api, got.body, issued=issued)
        if broken is not None:
            self.refused.append(f"request {len(self.rounds) + 1}: {broken.message}")
        self.rounds.append(got)
        answer = self._answers[min(len(self.rounds), len(self._answers)) - 1]
        return answer(got) if callable(answer) else answer


def find_tools(got: Got) -> list[str]:
    """The names of the tools that a request offers."""
    out: list[str] = []
    for tool in got.body.get("tools", ()):
        functions = tool.get("functionDeclarations") or [tool.get("function") or tool]
        out += [function["name"] for function in functions]
    return out


def look_up(number: str = "r1", words: str = "quokka marmalade", **fields: Any) -> Served:  # noqa: ANN401
    """An answer that searches the hidden past."""
    return Served(finish="tool", call=(number, "recall_search", {"words": words}), **fields)


@contextmanager
def serve_recall(
    provider: Loopback, *, recall: RecallChoice = "inside", store: Store | None = None
) -> Iterator[tuple[str, Gateway]]:
    """Runs a gateway in front of a provider and gives its address."""
    settings = {"window": WINDOW, "summary_model": "none", "recall": recall}
    with serve_gateway(provider.url, store=store, **settings) as served:
        yield served.url, served.gateway


def count_recalls(gateway: Gateway) -> int:
    """How many lookups the gateway says it answered."""
    line = next(
        each
        for each in gateway.log.render_metrics().decode().splitlines()
        if each.startswith("tenfold_gateway_recall_calls_total")
    )
    return int(float(line.split()[1]))
