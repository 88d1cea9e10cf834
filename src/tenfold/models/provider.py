"""Models of the providers, called through pydantic-ai's direct request. It is imported only when it is used.

A model is named as `provider:model`: `anthropic:claude-haiku-4-5`, `openai:gpt-4o-mini`, `google:gemini-2.5-flash`,
`groq:...`, `openrouter:...`, `mistral:...`, `bedrock:...`, `ollama:...`, or anything else that pydantic-ai knows. A
server that speaks OpenAI's Chat Completions is reached as `openai:MODEL` with a base URL.

Each Ask is one request, without streaming and without tools. Keys come from the provider's environment variable. They
are never stored, and they are removed from error texts.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from inspect import signature
from typing import Any
from urllib.parse import urlsplit

from tenfold.core.meter.windows import find_window
from tenfold.core.record.ask import Answer, SummaryAsk
from tenfold.core.record.block import ModelCost
from tenfold.core.text.redaction import MASK, redact
from tenfold.errors import UnusableModel, UsageError

try:
    from genai_prices import calc_price
    from pydantic_ai.direct import model_request
    from pydantic_ai.exceptions import (
        AgentRunError,
        ModelAPIError,
        ModelConnectionError,
        ModelHTTPError,
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
    raise UnusableModel(
        f"a model is to write the summaries, and {exc.name} is not installed: pip install 'tenfold[models]'"
    ) from exc

OUTPUT_SLACK = 1.25
"""Output tokens allowed for each of ours, because a provider's tokenizer counts up to a third more for the same text.
The check catches texts that are too long by our own count."""
THINKING_TOKENS = 4_096
"""Output tokens granted on top of the answer to a model that always thinks."""
HARD_THINKING_TOKENS = 24_576
"""The same where an effort is requested: the most that pydantic-ai lets a model think at "high" where it needs a number
(Google 24,576, Anthropic 16,384)."""
_DAY = 86_400.0
_TRANSIENT_ERRORS = (ModelRateLimitError, ModelUnavailableError, ModelServerError, ModelConnectionError)
_TRANSIENT_STATUSES = frozenset({408, 425})
"""Statuses of the moment that pydantic-ai knows no kind of error for."""
_FINISH_REASONS = {"length": "length", "content_filter": "refusal", "tool_call": "tool"}
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL")


class ProviderModel:
    """Answers Asks through a provider's own client.

    An Ask may name another model than `model`, with its provider. `base_url` redirects every request. Safe to use from
    several threads, and inside a running event loop.
    """

    def __init__(self, model: str, *fallbacks: str, base_url: str = "") -> None:
        """Opens each named model once, to find out early if one cannot be used.

        Raises `UsageError` for an unknown provider, a client that is not installed or a missing key. It names the
        install command or the environment variable that helps.
        """
        self.model, self.base_url = model, base_url
        for name in (model, *fallbacks):
            open_client(name, base_url)

    def answer(self, ask: SummaryAsk) -> Answer:
        """Answers one Ask with one request. A failed request returns an Answer with its error."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self.aanswer(ask))
        with ThreadPoolExecutor(1, "tenfold-model") as other:  # a running loop cannot run another one
            return other.submit(asyncio.run, self.aanswer(ask)).result()

    async def aanswer(self, ask: SummaryAsk) -> Answer:
        """Does the same as `answer`, as a coroutine. Cancelling it cancels the request."""
        name = ask.model if ":" in ask.model else self.model
        try:
            client = open_client(name, self.base_url)
        except UsageError as exc:
            return Answer(error=str(exc), spent=ModelCost(calls=1, model=name, price=0.0))
        request = [ModelRequest.user_text_prompt(ask.prompt, instructions=ask.system or None)]
        try:
            async with client:
                response = await model_request(client, request, model_settings=_build_settings(client, ask))
        except (ModelAPIError, UnexpectedModelBehavior, UserError) as exc:
            return _build_failure(exc, name)
        return _build_answer(response, name)


def open_client(name: str, base_url: str = "") -> Client:
    """Opens the provider's client for `provider:model`. Raises `UsageError`, with the next step, if it cannot."""
    provider, colon, model = name.partition(":")
    if not (provider and colon and model):
        raise UsageError(f"{name!r} names no provider: write PROVIDER:MODEL, as in openai:gpt-4o-mini")
    if provider == "openai" and (base_url or os.environ.get("OPENAI_BASE_URL")):
        provider = "openai-chat"  # every OpenAI-compatible server speaks this; `openai-responses:` selects the other
    try:
        infer_provider_class(provider)
        return infer_model(f"{provider}:{model}", _build_provider_factory(base_url) if base_url else infer_provider)
    except ImportError as exc:
        missing = f"the client of {provider} is not installed: pip install {_find_extra(exc)}"
        raise UnusableModel(f"{name}: {missing}") from exc
    except ValueError as exc:
        raise UsageError(f"{name}: no provider is called {provider!r}; there are {PROVIDERS} and more") from exc
    except UserError as exc:
        variables = re.findall(r"`([A-Z][A-Z0-9_]{3,})`", str(exc))
        missing = f"set the environment variable {variables[0]}" if variables else without_keys(str(exc))
        raise UnusableModel(f"{name}: {missing}") from exc


def resolve_window(client: Client, window: int | None = None) -> int | None:
    """Returns a model's context window in tokens: `window`, else what pydantic-ai knows, else our own table."""
    return window or client.context_window or find_window(client.model_name)


PROVIDERS = "anthropic, openai, openai-chat, openai-responses, google, groq, openrouter, mistral, bedrock, ollama"
"""The providers that error texts and help name. pydantic-ai knows more."""


def _build_provider_factory(base_url: str) -> Callable[[str], Provider[Any]]:
    def build_provider(provider: str) -> Provider[Any]:
        kind: Any = infer_provider_class(provider)
        parameters = signature(kind).parameters
        argument = next((name for name in ("base_url", "api_base") if name in parameters), "")
        redirected: Provider[Any]
        if argument:
            redirected = kind(**{argument: base_url})
            return redirected
        if "openai_client" in parameters:  # OpenRouter and others have their address as a property of the class
            redirected = type("Redirected", (kind,), {"base_url": base_url})()
            if redirected.client.base_url == redirected.client.with_options(base_url=base_url).base_url:
                return redirected
        raise UsageError(f"{provider} takes no base URL; `openai:MODEL` with one reaches any other server")

    return build_provider


def _find_extra(exc: ImportError) -> str:
    found = re.search(r"pydantic-ai-slim\[[\w,-]+\]", str(exc))
    return f"'{found.group()}'" if found else str(exc.name)


def _build_settings(client: Client, ask: SummaryAsk) -> ModelSettings:
    """Sets up one try with limits for time and tokens. Thinking is off unless an effort is requested.

    A model that cannot stop thinking gets extra tokens for it.
    """
    always_thinks = bool(client.profile.get("thinking_always_enabled"))
    thinks_hard = bool(ask.effort) and (always_thinks or bool(client.profile.get("supports_thinking")))
    thinking_tokens = HARD_THINKING_TOKENS if thinks_hard else THINKING_TOKENS if always_thinks else 0
    settings = ModelSettings(max_tokens=int(ask.max_tokens * OUTPUT_SLACK) + thinking_tokens)
    if "timeout" not in client.unsupported_settings:
        settings["timeout"] = min(ask.timeout, _DAY)  # Anthropic's client refuses long answers without a timeout
    if ask.timeout != float("inf"):
        settings["request_timeout"] = ask.timeout
    if "max_retries" not in client.unsupported_settings:
        settings["max_retries"] = 0
    if thinks_hard and ask.effort:
        settings["thinking"] = ask.effort
    elif not always_thinks:
        settings["thinking"] = False
    if ask.temperature is not None and not always_thinks and not thinks_hard and _can_set_temperature(client):
        settings["temperature"] = ask.temperature
    return settings


def _can_set_temperature(client: Client) -> bool:
    """Tells whether a temperature may be sent. pydantic-ai would print a warning if it had to drop it."""
    refused = any(value for key, value in client.profile.items() if key.endswith("disallows_sampling_settings"))
    return not refused and "temperature" not in client.unsupported_settings


def _build_answer(response: ModelResponse, name: str) -> Answer:
    spent = ModelCost(
        calls=1,
        input_tokens=response.usage.input_tokens,
        output_tokens=response.usage.output_tokens,
        model=name,
        price=_find_price(response, name),
    )
    if response.finish_reason == "error":
        return Answer(error="the provider ended the answer with an error", spent=spent, retryable=True)
    text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
    if any(isinstance(part, ToolCallPart) for part in response.parts):
        return Answer(text=text, finish_reason="tool", spent=spent)
    return Answer(text=text, finish_reason=_FINISH_REASONS.get(response.finish_reason or "", "stop"), spent=spent)


def _find_price(response: ModelResponse, name: str) -> float | None:
    """Returns the list price in US dollars, or None if genai-prices does not know it."""
    for model in (response.model_name, name.partition(":")[2]):
        try:
            return float(calc_price(response.usage, model or "", provider_id=response.provider_name or "").total_price)
        except (LookupError, ValueError):
            continue
    return None


def _build_failure(exc: ModelAPIError | UnexpectedModelBehavior | UserError, name: str) -> Answer:
    timed_out = isinstance(exc, ModelRequestTimeout | ModelTimeoutError)
    is_transient_status = isinstance(exc, ModelHTTPError) and exc.status_code in _TRANSIENT_STATUSES
    return Answer(
        error=describe_error(exc),
        retryable=timed_out or is_transient_status or isinstance(exc, _TRANSIENT_ERRORS),
        retry_after=(exc.retry_after or 0.0) if isinstance(exc, ModelAPIError) else 0.0,
        timed_out=timed_out,
        spent=ModelCost(calls=1, model=name, price=None if timed_out else 0.0),
    )


def _extract_message(exc: AgentRunError | UserError) -> str:
    """Returns the provider's own error message. The caller knows which model it was."""
    if not isinstance(exc, ModelHTTPError):
        return str(exc)
    body: Any = exc.body
    with suppress(ValueError, TypeError):
        body = json.loads(body)
    for key in ("error", "Error", "message", "Message"):
        body = body.get(key, body) if isinstance(body, dict) else body
    return f"HTTP {exc.status_code}: {body}" if body else f"HTTP {exc.status_code}"


def describe_error(exc: AgentRunError | UserError) -> str:
    """Describes what went wrong in the provider's words, without keys. A server that is not there is named."""
    text = _describe_missing_server(exc) if isinstance(exc, ModelConnectionError) else ""
    return without_keys(text or _extract_message(exc))[:500]


def _describe_missing_server(exc: ModelConnectionError) -> str:
    """Names the address that could not be connected to, and the reason. "" if the server was reached or is unknown."""
    causes = list(_list_causes(exc))
    host = next((url for cause in causes if (url := _get_server(cause))), "")
    if exc.phase != "connect" or not host:
        return ""
    system = next((cause for cause in reversed(causes) if isinstance(cause, OSError)), None)
    why = "nothing listens there" if isinstance(system, ConnectionRefusedError) else (system and system.strerror) or exc
    return f"no connection to {host}: {why}; check that the server runs, and that its address is right"


def _list_causes(exc: BaseException) -> Iterator[BaseException]:
    """Yields an error and what led to it, the first cause last."""
    cause: BaseException | None = exc
    while cause is not None:
        yield cause
        grouped = cause.exceptions[0] if isinstance(cause, BaseExceptionGroup) else None
        cause = grouped or cause.__cause__ or cause.__context__


def _get_server(exc: BaseException) -> str:
    """Returns the address of the server that a request was meant for, without a path or a name. "" if it is unknown."""
    try:
        request = getattr(exc, "request", None)
    except RuntimeError:  # an error of httpx that was given no request
        return ""
    url = urlsplit(str(getattr(request, "url", "")))
    return f"{url.scheme}://{url.netloc.rpartition('@')[2]}" if url.netloc else ""


def without_keys(text: str) -> str:
    """Removes keys from a text: those of known shapes, and the values of secret environment variables."""
    for variable, value in os.environ.items():
        if len(value) >= 8 and _SECRET_NAME.search(variable):
            text = text.replace(value, MASK)
    return redact(text)
