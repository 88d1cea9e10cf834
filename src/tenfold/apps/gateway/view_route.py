"""The gateway's own route for extensions of clients: a conversation in, what a model should be sent of it out.

An extension that runs inside a client asks here before each call to the model, and sends the request itself.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tenfold.apps.gateway.gateway_settings import GatewaySettings
from tenfold.apps.gateway.heavy_requests import find_bulk
from tenfold.apps.gateway.incoming_request import ENCODING_HEADER, ClientGone, Entrance, IncomingRequest, NotTaken
from tenfold.apps.gateway.lanes import Lane, find_family
from tenfold.apps.gateway.live_sessions import LiveSessions, PreparedRequest
from tenfold.apps.gateway.model_request import ModelRequest, count_marks
from tenfold.apps.gateway.request_log import LOG, RequestLog, RequestRecord
from tenfold.apps.listening import send_error
from tenfold.core.wire import WIRES, splice
from tenfold.errors import BadInput, TenfoldError, UsageError

VIEW_PATH = "/tenfold/view"
_OWN_FIELDS = ("wire", "session", "window", "usage", "refused", "messages")


class ProviderRefusal(Exception):
    """A refusal by the provider, in its own words, and with its HTTP status, None if that is not known."""

    def __init__(self, text: str, status_code: int | None) -> None:
        super().__init__(text)
        self.status_code = status_code


class ViewQuestion(Struct, frozen=True):
    """What an extension asks: the request that it is about to send, and what it knows besides.

    `session` is "" and `window` None where it does not know them. `usage` is the provider's report of the answer to the
    previous request, None without one. `refused` is how the provider refused this request, None if it did not.
    """

    request: ModelRequest
    session: str = ""
    window: int | None = None
    usage: Any = None
    refused: ProviderRefusal | None = None


class ViewRoute(Struct, frozen=True):
    """The ASGI application behind `POST /tenfold/view`.

        {"wire": "openai-chat", "messages": [...], "session": "ses_1", "model": "gpt-5", "window": 128000}
        {"messages": [...], "changed": {}, "tokens_before": 120345, "tokens_after": 48120}

    `wire` is one of `tenfold.core.wire.WIRES`, and `messages` the whole conversation in it. `session` is the client's
    own id of the conversation; without it, its first message is looked for. Without a `window`, in tokens, it is the
    model's. `usage` is the provider's report of the answer to the previous request, in any wire; the meter learns from
    it. All other fields are those of the request that will be sent: its system prompt, tools and limits are counted.

    An extension whose request the provider has refused asks again with `refused`, `{"status": 400, "text": "..."}`: it
    gets something shorter to send. The window that the provider names is that of the model from now on. 422 if the
    refusal says anything else than that the request was too long, and 409 if it cannot be made shorter.

    Messages that stay are returned as they came. `changed` holds other fields of the request that are to be replaced.
    The tokens are those of the request as the provider counts, with nothing hidden and as it is now. Summaries are
    written by code, since no credentials for a model come with the request. 400 for a body that is wrong, 408 for one
    that does not come, 413 for one that is too large, 415 for one that is not sent as JSON or cannot be unpacked, 429
    and 503 with `retry-after` where too many requests are running, 500 for a fault of the gateway: whoever asks then
    sends what it has.
    """

    settings: GatewaySettings
    sessions: LiveSessions
    entrance: Entrance
    log: RequestLog

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        try:
            async with self.entrance.take_in(scope, receive, is_json=True, has_type=True) as incoming:
                answer = await self._answer(incoming)
        except ClientGone:
            return
        except (NotTaken, UsageError, BadInput) as exc:
            await send_error(send, exc.status if isinstance(exc, NotTaken) else 400, str(exc))
        except Exception as exc:  # noqa: BLE001 - the client goes on with what it has, and is told why
            LOG.warning("a fault of the gateway; the client goes on with its own messages", exc_info=exc)
            text = str(exc) if isinstance(exc, TenfoldError) else f"a fault of the gateway: {type(exc).__name__}"
            await send_error(send, 500, text)
        else:
            await Response(msgspec.json.encode(answer), media_type="application/json")(scope, receive, send)

    async def _answer(self, incoming: IncomingRequest) -> dict[str, Any]:
        body = incoming.plain
        if body is None:
            raise NotTaken(415, f"the body cannot be unpacked: send it without {ENCODING_HEADER}, or as gzip or zstd")
        if excess := await asyncio.to_thread(find_bulk, body, count_marks(body)):
            raise NotTaken(413, excess)
        question = await asyncio.to_thread(parse_question, body)
        async with self.sessions.heavy.hold(question.request) as excess:
            if excess:
                raise NotTaken(413, excess)
            return await self._build_view(question, incoming.tenant)

    async def _build_view(self, question: ViewQuestion, tenant: str) -> dict[str, Any]:
        """Has the session of a conversation learn of it, and returns the answer."""
        asked, find = question.request, partial(find_family, session=question.session)
        family = await asyncio.to_thread(find, f"view {tenant}", {}, asked)
        lane = await asyncio.to_thread(self.sessions.lanes.find_lane, family, asked)
        window = self.sessions.find_window(tenant, asked, question.window)
        if question.usage is not None:
            await asyncio.to_thread(lane.session.session.requests.note_hidden_parts)
            await lane.session.after_model(question.usage)
        prepared = await self.sessions.compact_request(lane, asked, window)
        if question.refused is not None:
            prepared = await self._shrink(prepared, lane, question.refused, tenant, window)
        record = RequestRecord("POST", VIEW_PATH, self.settings.namespace, asked.wire, asked.model, lane.id, 200)
        record.compaction, record.reason = prepared.compaction, prepared.reason
        record.tokens_before, record.tokens_after = prepared.tokens_before, prepared.tokens_after
        record.head, record.window = lane.address.head, window or 0
        record.note = "a view for an extension"
        self.log.add(record)
        changed = {
            name: raw
            for name, raw in prepared.sent.fields.items()
            if name != asked.list_field and bytes(raw) != bytes(asked.fields.get(name, b""))
        }
        tokens = {"tokens_before": record.tokens_before, "tokens_after": record.tokens_after}
        return {"messages": [Raw(item) for item in prepared.sent.items], "changed": changed, **tokens}

    async def _shrink(
        self, prepared: PreparedRequest, lane: Lane, refused: ProviderRefusal, tenant: str, window: int | None
    ) -> PreparedRequest:
        """Compacts what the provider has refused as too long, and returns what to send."""
        asked = prepared.original
        try:
            call = await asyncio.to_thread(lane.session.session.requests.build_overflow_call, refused, window)
        except ProviderRefusal as exc:
            raise NotTaken(422, "the provider refused the request, and not as too long: nothing shorter helps") from exc
        if call.window is not None and (window is None or call.window < window):
            self.sessions.note_window(tenant, asked, call.window)
        outcome = await lane.session.compact(call)
        if outcome.status != "compacted":
            raise NotTaken(409, f"the request cannot be made shorter: {outcome.reason}")
        again = await self.sessions.compact_request(lane, asked, call.window or window)
        return replace(again, compaction=outcome.status, reason=outcome.reason, spent=outcome.spent)


def parse_question(body: bytes) -> ViewQuestion:
    """Parses the body. Raises `UsageError` for a field that is missing or wrong."""
    fields = splice.parse_object(body)
    if fields is None:
        raise UsageError("the body is no JSON object")
    wire = splice.get_text(fields, "wire")
    if wire not in WIRES:
        raise UsageError(f"there is no wire {wire!r}: 'wire' is one of {', '.join(WIRES)}")
    raws = splice.parse_array(fields.get("messages"))
    if raws is None:
        raise UsageError("'messages' is a list: the whole conversation, oldest first")
    window: Any = splice.parse_value(fields["window"]) if "window" in fields else None
    if window is not None and (not isinstance(window, int) or isinstance(window, bool) or window < 1):
        raise UsageError(f"'window' is a number of tokens, at least 1, and not {window!r}")
    items = [bytes(raw) for raw in raws]
    kept = {name: raw for name, raw in fields.items() if name not in _OWN_FIELDS}
    model = splice.get_text(fields, "model")
    request = ModelRequest(wire, body, kept, [], model, is_stream=False, most_values=count_marks(body))
    usage = splice.parse_value(fields["usage"]) if "usage" in fields else None
    refused = _parse_refusal(splice.parse_value(fields["refused"])) if "refused" in fields else None
    return ViewQuestion(request.with_items(items), splice.get_text(fields, "session"), window, usage, refused)


def _parse_refusal(value: Any) -> ProviderRefusal:  # noqa: ANN401 - any JSON
    match value:
        case {"text": str(text), "status": int() | None as status}:
            return ProviderRefusal(text, status)
        case {"text": str(text)} if "status" not in value:
            return ProviderRefusal(text, None)
    raise UsageError('\'refused\' is what the provider said: {"status": 400, "text": "..."}')
