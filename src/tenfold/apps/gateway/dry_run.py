"""Says what the gateway would do with one request. Nothing is sent, and nothing is stored."""

from __future__ import annotations

import asyncio

import httpx
from msgspec.structs import replace

from tenfold.apps.gateway.gateway_settings import GatewaySettings
from tenfold.apps.gateway.live_sessions import LiveSessions, PreparedRequest
from tenfold.apps.gateway.model_request import ModelRequest, parse_body
from tenfold.apps.gateway.upstream_model import UpstreamCall
from tenfold.config.settings import Config
from tenfold.core.wire import splice
from tenfold.errors import BadInput
from tenfold.session.requests import read_request
from tenfold.store.base import MEMORY_LOCATION
from tenfold.store.location import open_store


def describe_dry_run(settings: GatewaySettings, config: Config, body: bytes) -> str:
    """Returns what would be sent for a request with this body, and why. Summaries are written by code.

    Raises `BadInput` if the body is no request of an API.
    """
    request = _recognize_request(body)
    settings = replace(settings, summary_model="none", shadow=False)
    call = UpstreamCall(request.wire, settings.addresses.get_base(request.wire), {}, request.model)
    prepared = asyncio.run(_prepare(settings, config, request, call))
    lines = [f"{request.wire}, model {request.model or 'unknown'}, {len(request.items)} messages, {len(body):,} bytes"]
    if prepared.tokens_before:
        lines.append(f"tokens: {prepared.tokens_before:,} -> {prepared.tokens_after:,}")
    sent = prepared.sent
    if sent is prepared.original:
        lines.append(f"it is forwarded as it came: {prepared.reason}")
    else:
        kept = set(request.items)
        same = sum(item in kept for item in sent.items)
        lines.append(
            f"compaction: {prepared.compaction or 'in force'}, {prepared.reason}; "
            f"{len(sent.items)} messages, {same} of them as they came"
        )
        lines.append(f"the body that is sent, {len(sent.body):,} bytes:")
        lines.append(sent.body.decode("utf-8", "replace"))
    return "\n".join(lines)


def _recognize_request(body: bytes) -> ModelRequest:
    """Finds the API of a request by its body."""
    fields = splice.parse_value(body)
    if not isinstance(fields, dict):
        raise BadInput("this is no request: give the JSON body of one call to a model")
    request = parse_body(read_request(fields).wire, body)
    assert request is not None
    return request


async def _prepare(
    settings: GatewaySettings, config: Config, request: ModelRequest, call: UpstreamCall
) -> PreparedRequest:
    store = open_store(MEMORY_LOCATION)
    async with httpx.AsyncClient() as client:
        prepared = await LiveSessions(settings, store, config, client).prepare(request, {}, "", call)
        if prepared.pending is not None:
            prepared = await prepared.pending.start()
    store.close()
    return prepared
