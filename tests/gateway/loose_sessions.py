"""The sessions of a gateway on the event loop of a test, without a server."""

from __future__ import annotations

import httpx

from tenfold.apps.gateway.gateway_settings import GatewaySettings
from tenfold.apps.gateway.lanes import Lane
from tenfold.apps.gateway.live_sessions import LiveSessions, PreparedRequest
from tenfold.apps.gateway.model_request import ModelRequest, parse_request
from tenfold.apps.gateway.upstream_model import UpstreamCall
from tenfold.config.settings import load_settings
from tenfold.store.base import Store
from tests.gateway.conversations import PATHS, Talk


class LooseSessions:
    """The sessions of a gateway on this event loop, without a server, before an upstream that is never called."""

    def __init__(self, store: Store, client: httpx.AsyncClient) -> None:
        settings = GatewaySettings(port=0, window=16_000, summary_model="none")
        self.sessions = LiveSessions(settings, store, load_settings(), client)

    async def prepare(self, talk: Talk) -> PreparedRequest:
        """What is to be sent of a conversation."""
        request = parse_request(PATHS[talk.kind], talk.build_body())
        assert request is not None
        return await self.prepare_request(request, talk.tag)

    async def prepare_request(self, request: ModelRequest, tenant: str = "t") -> PreparedRequest:
        """What is to be sent of a request."""
        return await self.sessions.prepare(request, {}, tenant, UpstreamCall(request.wire, "", {}, request.model))

    async def learn(self, talk: Talk) -> Lane:
        """Has a session learn of a conversation to the end, and returns its lane."""
        prepared = await self.prepare(talk)
        assert prepared.lane is not None
        await prepared.lane.finish_later_work()
        return prepared.lane


def go_on(talk: Talk) -> Talk:
    """The model answers, and the user says something more."""
    talk.add_answer()
    talk.add_user()
    return talk
