"""Writes summaries with the client's own provider: the same upstream, the same credentials, one request each."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError
from typing import Any
from urllib.parse import quote

import httpx
import msgspec
from msgspec import Struct

from tenfold.apps.gateway.upstream_bodies import MAX_ERROR, UpstreamBody
from tenfold.apps.gateway.upstreams import get_api
from tenfold.compaction.summarize.ladder import SummarySettings
from tenfold.core.meter.counters import CHARACTERS_BOUNDS, find_family, get_family_factor
from tenfold.core.meter.windows import find_window
from tenfold.core.record.ask import Answer, SummaryAsk
from tenfold.core.record.block import ModelCost
from tenfold.core.record.message import Message, Text, get_text
from tenfold.core.text.redaction import redact
from tenfold.core.wire import get_wire
from tenfold.models.choose import AUTO, resolve_models
from tenfold.models.prices import find_rates
from tenfold.session.requests import read_usage

OUTPUT_SLACK = 1.25
"""Output tokens allowed for each of ours: see `tenfold.models.provider`."""
THINKING_TOKENS = 4_096
"""Output tokens granted on top, since a model may think before it writes."""
BYTES_PER_TOKEN = (3, 4)
"""How short a token of a prompt may be, and how long it usually is."""
MAX_SUMMARY = 8 * 1024 * 1024
"""Bytes of an answer with a summary that are read, unpacked."""
OTHER_TOKENS = 64
"""What a request has besides its messages."""
_RETRYABLE = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


class UpstreamCall(Struct, frozen=True):
    """How a client reaches its model: the address, its headers with the credentials, the wire and the model.

    `url` has `{model}` in the place of the model where the API names it in the path. `limit_field` is the one of the
    API's in which the client limits the answer, "" if it does not. `window` is the model's, if it is known. It lives as
    long as the session is in memory, and is never written anywhere.
    """

    wire: str
    url: str
    headers: Mapping[str, str]
    model: str
    limit_field: str = ""
    is_own_address: bool = False
    window: int | None = None

    @property
    def qualified_model(self) -> str:
        """The model with its provider, as in `openai:gpt-5`."""
        return f"{get_api(self.wire).provider}:{self.model}"


def choose_summary_models(choice: Sequence[str], call: UpstreamCall) -> tuple[str, ...]:
    """Returns the models that write the summaries, in order: those chosen, then the request's own.

    They are all called at the client's upstream, so models of other providers are left out. "auto" is a cheap model of
    the provider, where its own address is used: only there it is known what a name without a provider means.
    """
    provider = call.qualified_model.partition(":")[0]
    chosen = resolve_models(choice, call.qualified_model) if call.is_own_address else choice
    names = [name if ":" in name else f"{provider}:{name}" for name in chosen if name != AUTO]
    own = (name for name in names if name.startswith(f"{provider}:"))
    return tuple(dict.fromkeys((*own, call.qualified_model)))


def limit_summary_input(settings: SummarySettings, call: UpstreamCall, counter: str) -> int:
    """Returns the most tokens, as `counter` counts them, that a request for a summary may have for all its models.

    They fit the windows however far the count is off, since nothing may have been reported yet. The window of the
    request's own model is the gateway's. 0 where that one is not known: the settings decide then.
    """
    limits = [settings.input_tokens] if settings.input_tokens else []
    for name in settings.models if call.window else ():
        window = call.window if name == call.qualified_model else find_window(name)
        if window:
            bounds = CHARACTERS_BOUNDS if counter == "chars4" else find_family(name).bounds
            most = get_family_factor(name, counter) * (1 + bounds.above)
            limits.append(int(window * min(settings.input_share, 1 / most)))
    return min(limits, default=0)


class UpstreamModel:
    """The model of a gateway's session. `use_call` says how the client reached its provider the last time."""

    def __init__(self, client: httpx.AsyncClient, call: UpstreamCall) -> None:
        """To be made on the event loop on which the client is used."""
        self._client, self._call, self._loop = client, call, asyncio.get_running_loop()

    @property
    def model(self) -> str:
        """The name of the model that writes if the policy names none."""
        return self._call.qualified_model

    def use_call(self, call: UpstreamCall) -> None:
        """Takes the address, the credentials and the model of the client's newest request."""
        self._call = call

    def answer(self, ask: SummaryAsk) -> Answer:
        """Answers one Ask from a thread other than the event loop's."""
        working = self.aanswer(ask)
        try:
            return asyncio.run_coroutine_threadsafe(working, self._loop).result()
        except (RuntimeError, CancelledError) as exc:  # the loop is closed, or closes now
            working.close()
            return Answer(error=f"the gateway is stopping: {type(exc).__name__}")

    async def aanswer(self, ask: SummaryAsk) -> Answer:
        """Answers one Ask. A failed call is an Answer with an error."""
        call = self._call
        qualified = ask.model if ":" in ask.model else call.qualified_model
        model = qualified.partition(":")[2]
        body = build_summary_request(call, ask, model)
        url = call.url.replace("{model}", quote(model, safe=""))
        request = self._client.build_request("POST", url, headers=dict(call.headers), content=body, timeout=ask.timeout)
        try:
            status, answer = await self._read_answer(request)
        except httpx.TimeoutException:
            return Answer(
                error=f"no answer from the upstream within {ask.timeout:g} s",
                retryable=True,
                timed_out=True,
                spent=ModelCost(calls=1, model=qualified, price=None),
            )
        except httpx.HTTPError as exc:
            return _build_failure(f"{type(exc).__name__}: {exc}", qualified, retryable=True)
        if answer is None:
            text = f"the answer of the upstream is not readable, or above {MAX_SUMMARY:,} bytes"
            return _build_failure(text, qualified, retryable=False)
        if status != httpx.codes.OK:
            text = f"HTTP {status}: {answer[:600].decode('utf-8', 'replace')[:300]}"
            return _build_failure(text, qualified, retryable=status in _RETRYABLE)
        try:
            return read_summary_answer(call.wire, msgspec.json.decode(answer), qualified)
        except (msgspec.DecodeError, RecursionError, LookupError, TypeError, AttributeError) as exc:
            return _build_failure(f"the answer of the upstream cannot be read: {exc}", qualified, retryable=False)

    async def _read_answer(self, request: httpx.Request) -> tuple[int, bytes | None]:
        """Returns the status and the body of the response, None if it is too large or cannot be read."""
        response = await self._client.send(request, stream=True)
        try:
            body = UpstreamBody.open(response)
            is_answer = response.status_code == httpx.codes.OK
            plain = await body.read(MAX_SUMMARY if is_answer else MAX_ERROR)
            if body.fault is not None:
                raise body.fault
        finally:
            await response.aclose()
        if not is_answer:
            return response.status_code, plain or b""
        return response.status_code, None if plain is None or len(plain) > MAX_SUMMARY else plain


def build_summary_request(call: UpstreamCall, ask: SummaryAsk, model: str) -> bytes:
    """Builds the body of a request for a summary in the client's API.

    The answer is not allowed more than the prompt leaves of the window, since many providers refuse that.
    """
    wire = get_wire(call.wire)
    user = Message("user", (Text(ask.prompt),), "human")
    system = (Message("system", (Text(ask.system),), "harness"),) if ask.system else ()
    encoded = wire.encode((*system, user))
    body: dict[str, Any] = {wire.profile.request.list_field: [msgspec.json.decode(item.raw) for item in encoded.items]}
    if encoded.system and wire.profile.add_system is not None:
        body = wire.profile.add_system(body, encoded.system)
    limit = _limit_answer(call, ask, len(msgspec.json.encode(body)))
    api = get_api(call.wire)
    limited = {call.limit_field or api.limit_fields[0 if call.is_own_address else -1]: limit}
    body |= {api.limit_holder: limited} if api.limit_holder else limited
    named = {} if api.model_path else {"model": model}
    return msgspec.json.encode({**named, **body, **api.fixed_fields})


def _limit_answer(call: UpstreamCall, ask: SummaryAsk, size: int) -> int:
    """Returns how many tokens the answer may take: with room to think, as far as a prompt of `size` bytes leaves it."""
    most = int(ask.max_tokens * OUTPUT_SLACK) + THINKING_TOKENS
    if call.window is None:
        return most
    certain, likely = (call.window - OTHER_TOKENS - size // each for each in BYTES_PER_TOKEN)
    return max(ask.max_tokens // 2, min(most, max(certain, min(ask.max_tokens, likely))))


def read_summary_answer(wire: str, response: dict[str, Any], model: str) -> Answer:
    """Reads the text, the finish reason and the cost from a response of that API."""
    form = get_api(wire).answers
    messages = get_wire(wire).decode([msgspec.json.encode(item) for item in form.get_messages(response)])
    text = "".join(get_text(message) for message in messages if message.role == "assistant")
    usage = read_usage(response, model=model)
    rates = find_rates(model)
    price = None
    if usage is not None and rates is not None:
        price = (usage.prompt * rates.input + usage.output * rates.output) / 1e6
    spent = ModelCost(
        calls=1,
        input_tokens=usage.prompt if usage else 0,
        output_tokens=usage.output if usage else 0,
        model=model,
        price=price,
    )
    return Answer(text=text, finish_reason=form.read_finish(response), spent=spent)


def _build_failure(text: str, model: str, *, retryable: bool) -> Answer:
    return Answer(error=redact(text), retryable=retryable, spent=ModelCost(calls=1, model=model, price=0.0))
