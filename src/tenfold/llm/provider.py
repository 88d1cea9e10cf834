"""Models of the providers, through pydantic-ai's direct request: one thin adapter, imported only when used.

A model is named as `provider:model`: `anthropic:claude-haiku-4-5`, `openai:gpt-4o-mini`, `google:gemini-2.5-flash`,
`groq:...`, `openrouter:...`, `mistral:...`, `bedrock:...`, `ollama:...`, and what else pydantic-ai knows. Whatever
speaks OpenAI's Chat Completions is reached as `openai:MODEL` with a base URL. Keys come from the environment variable
of the provider, are never stored, and are taken out of error texts. One request, no streaming, no tools.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from inspect import signature
from typing import Any

from tenfold.errors import UsageError
from tenfold.record.ask import Answer, Summarize
from tenfold.record.block import Spent
from tenfold.redact import MASK, redact

try:
    from genai_prices import calc_price
    from pydantic_ai.direct import model_request
    from pydantic_ai.exceptions import (
        AgentRunError,
        ModelAPIError,
        ModelConnectionError,
        ModelHTTPError,
        ModelQuotaExceededError,
        ModelRateLimitError,
        ModelRequestTimeout,
        ModelServerError,
        ModelTimeoutError,
        ModelUnavailableError,
        UnexpectedModelBehavior,
        UserError,
    )
    from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models import Model as Client
    from pydantic_ai.models import infer_model
    from pydantic_ai.providers import Provider, infer_provider, infer_provider_class
    from pydantic_ai.settings import ModelSettings
except ImportError as exc:
    raise UsageError(
        f"a model is to write the summaries, and {exc.name} is not installed: pip install 'tenfold[models]'"
    ) from exc

SLACK = 1.25
"""Output tokens a provider may give for each of ours: its tokenizer counts the same text up to a third higher. What is
too long by our own count is caught by the check."""
THINKING = 4_096
"""Output tokens granted beside the answer to a model that cannot be kept from thinking."""
THINKING_HARD = 24_576
"""The same where an effort is asked for: the most that pydantic-ai lets a model think at "high" where it needs a number
(Google 24,576, Anthropic 16,384)."""
_DAY = 86_400.0
_FOR_THE_MOMENT = (ModelRateLimitError, ModelUnavailableError, ModelServerError, ModelConnectionError)
_STATUSES = frozenset({408, 425, 429})
_FINISHES = {"length": "length", "content_filter": "refusal", "tool_call": "tool"}
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL")


class ProviderModel:
    """Answers Asks through a provider's own client. An Ask may name another model than `model`, with its provider.

    `base_url` sends every request there. Safe from several threads, and inside a running event loop.
    """

    def __init__(self, model: str, *fallbacks: str, base_url: str = "") -> None:
        """Opens each named model once, to find out that it can be.

        Raises `UsageError` for an unknown provider, a client that is not installed or a missing key, naming the
        `pip install` or the environment variable.
        """
        self.model, self.base_url = model, base_url
        for name in (model, *fallbacks):
            client_for(name, base_url)

    def answer(self, ask: Summarize) -> Answer:
        """The answer to one Ask: one request. A failed one is an Answer with its error."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self.aanswer(ask))
        with ThreadPoolExecutor(1, "tenfold-model") as other:  # a loop that runs cannot run another one
            return other.submit(asyncio.run, self.aanswer(ask)).result()

    async def aanswer(self, ask: Summarize) -> Answer:
        """`answer` as a coroutine; cancelling it cancels the request."""
        name = ask.model if ":" in ask.model else self.model
        try:
            client = client_for(name, self.base_url)
        except UsageError as exc:
            return Answer(error=str(exc), spent=Spent(calls=1, model=name, price=0.0))
        request = [ModelRequest.user_text_prompt(ask.prompt, instructions=ask.system or None)]
        try:
            async with client:
                response = await model_request(client, request, model_settings=_settings(client, ask))
        except (ModelAPIError, UnexpectedModelBehavior, UserError) as exc:
            return _failed(exc, name)
        return _answered(response, name)


def client_for(name: str, base_url: str = "") -> Client:
    """The provider's client for `provider:model`. Raises `UsageError` where there can be none, with the next step."""
    provider, colon, model = name.partition(":")
    if not (provider and colon and model):
        raise UsageError(f"{name!r} names no provider: write PROVIDER:MODEL, as in openai:gpt-4o-mini")
    if provider == "openai" and (base_url or os.environ.get("OPENAI_BASE_URL")):
        provider = "openai-chat"  # what every OpenAI-compatible server speaks; `openai-responses:` asks for the other
    try:
        infer_provider_class(provider)
        return infer_model(f"{provider}:{model}", _opened_at(base_url) if base_url else infer_provider)
    except ImportError as exc:
        raise UsageError(f"{name}: the client of {provider} is not installed: pip install {_extra(exc)}") from exc
    except ValueError as exc:
        raise UsageError(f"{name}: no provider is called {provider!r}; there are {PROVIDERS} and more") from exc
    except UserError as exc:
        variables = re.findall(r"`([A-Z][A-Z0-9_]{3,})`", str(exc))
        missing = f"set the environment variable {variables[0]}" if variables else without_keys(str(exc))
        raise UsageError(f"{name}: {missing}") from exc


PROVIDERS = "anthropic, openai, openai-chat, openai-responses, google, groq, openrouter, mistral, bedrock, ollama"
"""Providers as error texts and help name them; pydantic-ai knows more."""


def _opened_at(base_url: str) -> Callable[[str], Provider[Any]]:
    def opened(provider: str) -> Provider[Any]:
        kind: Callable[..., Provider[Any]] = infer_provider_class(provider)
        takes = signature(kind).parameters
        if "base_url" in takes:
            return kind(base_url=base_url)
        if "openai_client" in takes:  # OpenRouter and others that speak OpenAI's API at one address
            made = kind()
            made.client.base_url = base_url
            return made
        raise UsageError(f"{provider} takes no base URL; `openai:MODEL` with one reaches any other server")

    return opened


def _extra(exc: ImportError) -> str:
    found = re.search(r"pydantic-ai-slim\[[\w,-]+\]", str(exc))
    return f"'{found.group()}'" if found else str(exc.name)


def _settings(client: Client, ask: Summarize) -> ModelSettings:
    """One try, bounded in time and tokens; thinking where an effort is asked for, else none where it can be off."""
    always = bool(client.profile.get("thinking_always_enabled"))
    hard = bool(ask.effort) and (always or bool(client.profile.get("supports_thinking")))
    beside = THINKING_HARD if hard else THINKING if always else 0
    settings = ModelSettings(max_tokens=int(ask.max_tokens * SLACK) + beside)
    if "timeout" not in client.unsupported_settings:
        settings["timeout"] = min(ask.timeout, _DAY)  # without one, Anthropic's client refuses to wait for long answers
    if ask.timeout != float("inf"):
        settings["request_timeout"] = ask.timeout
    if "max_retries" not in client.unsupported_settings:
        settings["max_retries"] = 0
    if hard and ask.effort:
        settings["thinking"] = ask.effort
    elif not always:
        settings["thinking"] = False
    if ask.temperature is not None and not always and not hard and _takes_temperature(client):
        settings["temperature"] = ask.temperature
    return settings


def _takes_temperature(client: Client) -> bool:
    """Whether it may be sent: pydantic-ai would warn the program's user of one that it has to leave out."""
    refused = any(value for key, value in client.profile.items() if key.endswith("disallows_sampling_settings"))
    return not refused and "temperature" not in client.unsupported_settings


def _answered(response: ModelResponse, name: str) -> Answer:
    spent = Spent(
        calls=1,
        input_tokens=response.usage.input_tokens,
        output_tokens=response.usage.output_tokens,
        model=name,
        price=_price(response, name),
    )
    if response.finish_reason == "error":
        return Answer(error="the provider ended the answer with an error", spent=spent, retryable=True)
    text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
    if any(isinstance(part, ToolCallPart) for part in response.parts):
        return Answer(text=text, finish="tool", spent=spent)
    return Answer(text=text, finish=_FINISHES.get(response.finish_reason or "", "stop"), spent=spent)


def _price(response: ModelResponse, name: str) -> float | None:
    """The list price in US dollars, None where genai-prices knows none."""
    for model in (response.model_name, name.partition(":")[2]):
        try:
            return float(calc_price(response.usage, model or "", provider_id=response.provider_name or "").total_price)
        except (LookupError, ValueError):
            continue
    return None


def _failed(exc: ModelAPIError | UnexpectedModelBehavior | UserError, name: str) -> Answer:
    status = exc.status_code if isinstance(exc, ModelHTTPError) else 0
    timed_out = isinstance(exc, ModelRequestTimeout | ModelTimeoutError)
    again = timed_out or isinstance(exc, _FOR_THE_MOMENT) or status in _STATUSES or status >= 500
    after = (exc.retry_after or 0.0) if isinstance(exc, ModelAPIError) else 0.0
    return Answer(
        error=error_of(exc),
        retryable=again and not isinstance(exc, ModelQuotaExceededError),
        retry_after=after,
        timed_out=timed_out,
        spent=Spent(calls=1, model=name, price=None if timed_out else 0.0),
    )


def _said(exc: AgentRunError | UserError) -> str:
    """What went wrong in the provider's words; whoever reads it knows which model was asked."""
    if not isinstance(exc, ModelHTTPError):
        return str(exc)
    body: Any = exc.body
    with suppress(ValueError, TypeError):
        body = json.loads(body)
    for key in ("error", "Error", "message", "Message"):
        body = body.get(key, body) if isinstance(body, dict) else body
    return f"HTTP {exc.status_code}: {body}" if body else f"HTTP {exc.status_code}"


def error_of(exc: AgentRunError | UserError) -> str:
    """What went wrong, in the provider's words, without keys."""
    return without_keys(_said(exc))[:500]


def without_keys(text: str) -> str:
    """Text without keys: those of known shapes, and those that stand in the environment."""
    for variable, value in os.environ.items():
        if len(value) >= 8 and _SECRET.search(variable):
            text = text.replace(value, MASK)
    return redact(text)
