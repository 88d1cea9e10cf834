"""A provider on this machine: speaks the APIs of OpenAI (Chat and Responses; others speak them too), Anthropic, Google
and Bedrock to the real clients.

It answers from a script, on a free port of 127.0.0.1, in a thread that ends with the `with` block, and keeps what it
was asked. All but Bedrock's are streamed where that is asked for.
"""

from __future__ import annotations

import base64
import json
import re
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import unquote

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tests.models.streams import stream_events

Json = dict[str, Any]
Api = Literal["chat", "responses", "messages", "generate", "converse"]
Finish = Literal["stop", "length", "tool", "refusal", "unsaid"]
PATHS: Mapping[str, Api] = {
    "/chat/completions": "chat",
    "/responses": "responses",
    "/messages": "messages",
    ":generateContent": "generate",
    ":streamGenerateContent": "generate",
    "/converse": "converse",
}


class Served(Struct, frozen=True):
    """One scripted answer. A `status` other than 200 is an error; `hang` is how many seconds to say nothing first.

    With a `finish` of "unsaid", Chat never says why the answer ended. `call` is what a `finish` of "tool" calls: the
    end of its id, the tool's name, the arguments; `also` are calls beside it. At Responses the ids of other items end
    alike.
    `thought` is what the model thought, with the signature that the API gives it: thinking at Anthropic (redacted if
    there is no text), a reasoning item at Responses, a thoughtSignature at Google; nothing at the others.
    A `body` is what an error answers, word for word. A stream ends after `breaks` events: in the middle of the body, or
    `smoothly`, as if that were all; an answer that is not streamed after as many bytes. At Responses a text stands
    before calls only if it `speaks_first`.
    """

    text: str = ""
    finish: Finish = "stop"
    status: int = 200
    retry_after: float | None = None
    hang: float = 0.0
    error: str = "scripted"
    tokens: tuple[int, int] = (1_000, 100)
    call: tuple[str, str, Json] = ("1", "look", {})
    also: tuple[tuple[str, str, Json], ...] = ()
    thought: tuple[str, str] | None = None
    body: Json | None = None
    breaks: int | None = None
    smoothly: bool = False
    speaks_first: bool = False

    @property
    def calls(self) -> tuple[tuple[str, str, Json], ...]:
        """What it calls."""
        return (self.call, *self.also) if self.finish == "tool" else ()


class Got(Struct, frozen=True):
    """One request as it came in: `size` bytes long, for `model`; `prompt` is all its text."""

    api: Api
    headers: dict[str, str]
    body: Json
    size: int = 0
    model: str = ""
    streamed: bool = False

    @property
    def prompt(self) -> str:
        """The whole body as text: what a test looks for words in."""
        return json.dumps(self.body, ensure_ascii=False)


Script = Callable[[Got], Served]


class Loopback:
    """The server, started by `with`. After the last answer of a script it gives that one again.

    `sent` is told of each whole answer before it goes out. The bodies of the newest `kept` requests are kept.
    """

    def __init__(
        self,
        *answers: Served | str,
        script: Script | None = None,
        sent: Callable[[Api, Json], None] | None = None,
        kept: int = sys.maxsize,
    ) -> None:
        served = [Served(text=a) if isinstance(a, str) else a for a in answers]
        self._script: Script = script or (lambda _: served[min(len(self.requests), len(served)) - 1])
        self._sent, self._kept = sent, kept
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._got: list[Got] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._build_handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), name="loopback", daemon=True)

    @property
    def url(self) -> str:
        """The base URL for Anthropic's client; OpenAI's takes `url` + "/v1"."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def requests(self) -> list[Got]:
        """The requests so far, in order."""
        with self._lock:
            return list(self._got)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, at: TracebackType | None) -> None:
        self._closing.set()
        for thread in threading.enumerate():
            if thread.name == "tenfold-prepare":  # it may still ask for a summary, and without a server asks for long
                thread.join(10)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def serve(self, got: Got) -> Served:
        """What is answered to a request, after the silence it asks for."""
        with self._lock:
            self._got.append(got)
            if (old := len(self._got) - 1 - self._kept) >= 0:
                self._got[old] = replace(self._got[old], body={})
        served = self._script(got)
        self._closing.wait(served.hang)
        return served

    def _build_handler(self) -> type[BaseHTTPRequestHandler]:  # noqa: C901 - a handler is a class, and this one is small
        loopback = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # headers and body in one packet: two would wait for each other

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers.get("content-length", "0")))
                got = _read(self.path, {k.lower(): v for k, v in self.headers.items()}, raw)
                if got is None:
                    self._send(404, {"error": {"type": "not_found_error", "message": f"no such path: {self.path}"}}, {})
                    return
                self._answer(got, loopback.serve(got))

            def _answer(self, got: Got, served: Served) -> None:
                if served.status != 200:
                    after = {} if served.retry_after is None else {"retry-after": f"{served.retry_after:g}"}
                    self._send(served.status, served.body or _build_error(got.api, served), after)
                else:
                    answer = SPOKEN[got.api](served, got.model)
                    if loopback._sent is not None:
                        loopback._sent(got.api, answer)
                    if got.streamed:
                        self._stream(stream_events(got.api, answer), served)
                    else:
                        self._send(200, answer, {}, breaks=served.breaks)

            def _stream(self, told: Iterable[bytes], served: Served) -> None:
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                with suppress(ConnectionError):
                    for event in islice(told, served.breaks):
                        self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
                    if served.breaks is None or served.smoothly:
                        self.wfile.write(b"0\r\n\r\n")
                    self.wfile.flush()  # at once: a packet for each event costs two switches of threads
                self.close_connection = served.breaks is not None

            def _send(self, status: int, value: Json, headers: Mapping[str, str], *, breaks: int | None = None) -> None:
                data = json.dumps(value).encode()
                try:
                    self.send_response(status)
                    for name, content in {"content-type": "application/json", **headers}.items():
                        self.send_header(name, content)
                    self.send_header("content-length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data[:breaks])
                    self.close_connection = self.close_connection or breaks is not None
                except ConnectionError:  # the client gave up waiting: that is what some tests are about
                    self.close_connection = True

            def log_message(self, format: str, *args: object) -> None:
                """Says nothing: a test's output is its own."""

        return Handler


def _read(path: str, headers: dict[str, str], raw: bytes) -> Got | None:
    """The request, None for a path that no API has."""
    api = next((api for end, api in PATHS.items() if path.partition("?")[0].endswith(end)), None)
    if api is None:
        return None
    body = msgspec.json.decode(raw)
    in_path = NAMED.search(unquote(path))
    model = str(body.get("model") or (in_path and in_path[1]))
    return Got(api, headers, body, len(raw), model, bool(body.get("stream")) or ":stream" in path)


def _build_error(api: Api, served: Served) -> Json:
    kind = {401: "authentication_error", 429: "rate_limit_error", 529: "overloaded_error"}.get(
        served.status, "api_error" if served.status >= 500 else "invalid_request_error"
    )
    if api == "generate":
        return {"error": {"code": served.status, "message": served.error, "status": kind.upper()}}
    if api == "converse":
        return {"message": served.error}
    error: Json = {"type": kind, "message": served.error}
    return {"type": "error", "error": error} if api == "messages" else {"error": {**error, "code": None, "param": None}}


def _build_chat(served: Served, model: str) -> Json:
    message: Json = {"role": "assistant", "content": served.text or None, "refusal": None}
    if served.calls:
        message["tool_calls"] = [
            {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(wanted)}}
            for number, name, wanted in served.calls
        ]
    ends = {"stop": "stop", "length": "length", "tool": "tool_calls", "refusal": "content_filter", "unsaid": None}
    taken, given = served.tokens
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": model,
        "provider": "Loopback",  # OpenRouter's client looks for it
        "choices": [{"index": 0, "message": message, "finish_reason": ends[served.finish], "logprobs": None}],
        "usage": {"prompt_tokens": taken, "completion_tokens": given, "total_tokens": taken + given},
    }


def _build_responses(served: Served, model: str) -> Json:
    tag = served.call[0]
    said: list[Json] = []
    if served.thought is not None:
        summary = [{"type": "summary_text", "text": served.thought[0]}]
        said.append(
            {"id": f"rs_{tag}", "type": "reasoning", "summary": summary, "encrypted_content": served.thought[1]}
        )
    if served.text and (served.speaks_first or not served.calls):
        content = {"type": "output_text", "text": served.text, "annotations": []}
        said.append({"id": f"msg_{tag}", "type": "message", "role": "assistant", "content": [content]})
    for number, name, wanted in served.calls:
        call = {"call_id": f"call_{number}", "name": name, "arguments": json.dumps(wanted)}
        said.append({"id": f"fc_{number}", "type": "function_call", **call})
    for item in said:
        item["status"] = "completed"
    why = {"length": "max_output_tokens", "refusal": "content_filter"}.get(served.finish)
    taken, given = served.tokens
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "incomplete" if why else "completed",
        "incomplete_details": {"reason": why} if why else None,
        "error": None,
        "model": model,
        "output": said,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": taken,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": given,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": taken + given,
        },
    }


def _build_messages(served: Served, model: str) -> Json:
    content: list[Json] = []
    if served.thought is not None:
        text, signature = served.thought
        thinking = {"type": "thinking", "thinking": text, "signature": signature}
        content.append(thinking if text else {"type": "redacted_thinking", "data": signature})
    if served.text:
        content.append({"type": "text", "text": served.text})
    for number, name, wanted in served.calls:
        content.append({"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": wanted})
    ends = {"stop": "end_turn", "length": "max_tokens", "tool": "tool_use", "refusal": "refusal"}
    taken, given = served.tokens
    return {
        "id": f"msg_{served.call[0]}",  # Claude Code joins answers of one id
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": ends[served.finish],
        "stop_sequence": None,
        "usage": {"input_tokens": taken, "output_tokens": given},
    }


def _build_generate(served: Served, model: str) -> Json:
    parts: list[Json] = [{"text": served.text}] if served.text else []
    parts.extend({"functionCall": {"name": name, "args": wanted}} for _, name, wanted in served.calls)
    if served.thought is not None and parts:  # at the first call, or at the end of what was said
        marked = parts[1 if served.text and served.calls else 0]
        marked["thoughtSignature"] = base64.b64encode(served.thought[1].encode()).decode()
    ends = {"stop": "STOP", "length": "MAX_TOKENS", "tool": "STOP", "refusal": "SAFETY"}
    taken, given = served.tokens
    return {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": ends[served.finish], "index": 0}],
        "usageMetadata": {"promptTokenCount": taken, "candidatesTokenCount": given, "totalTokenCount": taken + given},
        "modelVersion": model,
        "responseId": "resp_1",
    }


def _build_converse(served: Served, _model: str) -> Json:
    content: list[Json] = [{"text": served.text}] if served.text else []
    for number, name, wanted in served.calls:
        content.append({"toolUse": {"toolUseId": f"tooluse_{number}", "name": name, "input": wanted}})
    ends = {"stop": "end_turn", "length": "max_tokens", "tool": "tool_use", "refusal": "content_filtered"}
    taken, given = served.tokens
    return {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": ends[served.finish],
        "usage": {"inputTokens": taken, "outputTokens": given, "totalTokens": taken + given},
        "metrics": {"latencyMs": 1},
    }


SPOKEN: Mapping[Api, Callable[[Served, str], Json]] = {
    "chat": _build_chat,
    "responses": _build_responses,
    "messages": _build_messages,
    "generate": _build_generate,
    "converse": _build_converse,
}
NAMED = re.compile(r"/models?/([^/:]+(?::\d)?)")
"""The model in a path, where the body does not name it."""
ANSWERS: Sequence[str] = ("openai:gpt-4o-mini", "openai-responses:gpt-4o-mini", "anthropic:claude-haiku-4-5")
"""Models whose clients are served, one for each API that most speak."""
OTHERS: Sequence[str] = (
    "google:gemini-2.5-flash",
    "groq:llama-3.3-70b-versatile",
    "openrouter:anthropic/claude-haiku-4.5",
    "mistral:mistral-small-latest",
    "bedrock:amazon.nova-lite-v1:0",
    "ollama:llama3",
)
"""A model of each other provider, whose clients are served as well."""
KEYS: Mapping[str, str] = dict.fromkeys(
    (
        "GOOGLE_API_KEY",
        "GROQ_API_KEY",
        "OPENROUTER_API_KEY",
        "MISTRAL_API_KEY",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
    ),
    "only-for-this-server",
) | {"AWS_DEFAULT_REGION": "eu-west-1"}
"""What their clients look for in the environment."""


def get_base_url(model: str, loopback: Loopback) -> str:
    """The base URL under which that model's client finds the server."""
    bare = model.startswith(("anthropic:", "google:", "groq:", "mistral:", "bedrock:"))
    return loopback.url if bare else f"{loopback.url}/v1"
