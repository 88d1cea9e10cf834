"""A scripted agent with a window of 16,000 tokens: straight to its provider, and through the gateway.

The provider is a server on this machine. It counts tokens as OpenAI does, refuses what does not fit, and has the model
read another file at every step. The agent resends its whole history each time, as agents do, and knows nothing of
Tenfold.
"""

from __future__ import annotations

import json
import threading
from typing import Any

import httpx
import uvicorn
from msgspec import Struct
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tenfold.apps.cli.console import print_table, show
from tenfold.apps.gateway.application import Gateway
from tenfold.apps.gateway.gateway_settings import GatewaySettings
from tenfold.apps.gateway.server import GatewayThread, ServerThread
from tenfold.core.meter.counters import choose_counter
from tenfold.store.base import DEFAULT_NAMESPACE, Store

WINDOW = 16_000
STEPS = 60
RULE = "Never edit anything under deploy/."
DETAIL = "timeout_ms = 4317"
Json = dict[str, Any]


class Journey(Struct):
    """How far the agent came, and the sizes of its requests as the provider counted them."""

    steps: int = 0
    sizes: list[int] = []
    refusal: str = ""


class ScriptedProvider:
    """A provider that speaks OpenAI's Chat Completions. `sizes` are the tokens of the requests of the agent."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.last_request: Json = {}
        self._lock = threading.Lock()
        self._counter = choose_counter(None).counter
        routes = [Route("/v1/chat/completions", self.answer, methods=["POST"])]
        self.application = Starlette(routes=routes)

    async def answer(self, request: Request) -> Response:
        """Answers with a call to `read_file`, or with a summary where no tool is offered."""
        body = await request.body()
        (tokens,) = self._counter.count([body.decode()])
        asked: Json = json.loads(body)
        if tokens > WINDOW:
            text = (
                f"This model's maximum context length is {WINDOW} tokens. However, your messages have {tokens} tokens."
            )
            error = {"message": text, "type": "invalid_request_error", "code": "context_length_exceeded"}
            return JSONResponse({"error": error}, 400)
        message: Json = {"role": "assistant", "content": "The files were read one after the other."}
        if asked.get("tools"):
            with self._lock:
                self.sizes.append(tokens)
                self.last_request = asked
            number = len(self.sizes)
            function = {"name": "read_file", "arguments": json.dumps({"path": f"src/part{number}.py"})}
            message = {"role": "assistant", "content": f"Next is part {number}."}
            message["tool_calls"] = [{"id": f"call_{number}", "type": "function", "function": function}]
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if asked.get("tools") else "stop"}
        usage = {"prompt_tokens": tokens, "completion_tokens": 30, "total_tokens": tokens + 30}
        return JSONResponse({"id": "demo", "object": "chat.completion", "choices": [choice], "usage": usage})


def run_agent(url: str, provider: ScriptedProvider) -> Journey:
    """Lets the agent take its steps, up to the first refusal."""
    parameters = {"type": "object", "properties": {"path": {"type": "string"}}}
    tools = [{"type": "function", "function": {"name": "read_file", "parameters": parameters}}]
    messages: list[Json] = [{"role": "user", "content": f"Find out which part sets the timeout. {RULE}"}]
    provider.sizes = []
    journey = Journey(sizes=provider.sizes)
    with httpx.Client(base_url=url, timeout=60) as client:
        for number in range(1, STEPS + 1):
            request = {"model": "scripted", "messages": messages, "tools": tools}
            answer = client.post("/v1/chat/completions", json=request, headers={"authorization": "Bearer none"})
            if answer.status_code != httpx.codes.OK:
                journey.refusal = answer.json()["error"]["message"]
                return journey
            message = answer.json()["choices"][0]["message"]
            messages.append(message)
            (call,) = message["tool_calls"]
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": _read_file(number)})
            journey.steps = number
    return journey


def _read_file(number: int) -> str:
    lines = [f"part{number}_value_{line} = {line * number}" for line in range(120)]
    return "\n".join([*lines, DETAIL] if number == 3 else lines)


def show_gateway(store: Store) -> bool:
    """Runs the agent twice and prints both. Returns whether the gateway kept it going, and found the detail again."""
    provider = ScriptedProvider()
    show()
    show(
        f"An agent with a window of {WINDOW:,} tokens takes {STEPS} steps, unchanged, without and with the gateway:",
        style="bold",
    )
    with ServerThread(uvicorn.Config(provider.application, host="127.0.0.1", port=0, log_config=None)) as upstream:
        direct = run_agent(upstream.url, provider)
        settings = GatewaySettings(port=0, upstream=upstream.url, window=WINDOW)
        gateway = Gateway(settings, store)
        with GatewayThread(gateway) as served:
            helped = run_agent(served.url, provider)
    totals = gateway.log.totals
    rows = [
        (
            "straight to the provider",
            f"{direct.steps} of {STEPS}",
            f"{max(direct.sizes):,}",
            "refused: its request is too long",
        ),
        (
            "through the gateway",
            f"{helped.steps} of {STEPS}",
            f"{max(helped.sizes):,}",
            f"compactions: {totals.compactions}",
        ),
    ]
    print_table(("the agent", "steps", "largest request", "outcome"), rows, right=("steps", "largest request"))
    show(f"tokens of all its requests: {totals.tokens_before:,} -> {totals.tokens_after:,}")
    has_rule = RULE in json.dumps(provider.last_request)
    (session,) = totals.sessions
    hits = store.search(DEFAULT_NAMESPACE, "timeout_ms", session=session)
    is_found = any(DETAIL in hit.snippet for hit in hits)
    show(f"its last request still holds the rule {RULE!r}: {'yes' if has_rule else 'NO'}")
    show(f"`{DETAIL}` from step 3 is found by search: {'yes' if is_found else 'NO'}")
    return helped.steps == STEPS and not helped.refusal and bool(direct.refusal) and has_rule and is_found
