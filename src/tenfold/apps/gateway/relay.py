"""Handles one request: reads it, asks the sessions what to send, sends it, and passes the response on as it comes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import Any, TypeVar

import httpx
from starlette.types import Receive, Scope, Send

from tenfold.apps.gateway.client_marks import SESSION_HEADER
from tenfold.apps.gateway.gateway_settings import GatewaySettings
from tenfold.apps.gateway.heavy_requests import read_call
from tenfold.apps.gateway.incoming_request import (
    ENCODING_HEADER,
    NO_JSON,
    BodyTooLarge,
    BodyTooSlow,
    ClientGone,
    IncomingRequest,
    RawHeaders,
    is_json,
    join_headers,
    list_types,
    read_body,
    unpack_body,
)
from tenfold.apps.gateway.live_sessions import LiveSessions, PreparedRequest
from tenfold.apps.gateway.model_request import ModelRequest, find_wire
from tenfold.apps.gateway.recall_loop import ClientAnswer, RecallLoop, UpstreamSender
from tenfold.apps.gateway.request_limits import RequestLimits
from tenfold.apps.gateway.request_log import LOG, RequestLog, RequestRecord
from tenfold.apps.gateway.tenants import digest_credentials, keep_credentials
from tenfold.apps.gateway.unchanged import HEADER, NO_CALL, encode_header
from tenfold.apps.gateway.upstream_bodies import MAX_ERROR, UpstreamBody
from tenfold.apps.gateway.upstream_model import UpstreamCall
from tenfold.apps.gateway.upstreams import choose_likely_wire, get_api
from tenfold.apps.gateway.usage_reader import UsageReader
from tenfold.apps.listening import send_error
from tenfold.errors import BadInput
from tenfold.models.overflow import find_named_limit, is_overflow
from tenfold.session.drive import trace_span

_HOP_HEADERS = frozenset({
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
    "transfer-encoding", "upgrade", "host", "content-length",
})  # fmt: skip
"""Headers that are about one connection only (RFC 9110, 7.6.1), and those that are written anew."""
KEY_HEADER = "x-tenfold-key"
_OWN_HEADERS = (KEY_HEADER, SESSION_HEADER, ENCODING_HEADER, "accept-encoding", "accept", "content-type")
"""Headers of a client that the gateway's own requests do not take over."""
_OWN_RESPONSE_HEADERS = ("access-control-", "x-tenfold-")
"""How the headers of a response begin that only the gateway sets."""
Result = TypeVar("Result")


class Relay:
    """The ASGI application behind every path that is not the gateway's own."""

    def __init__(
        self,
        settings: GatewaySettings,
        sessions: LiveSessions,
        client: httpx.AsyncClient,
        log: RequestLog,
        limits: RequestLimits,
    ) -> None:
        """All five are shared by the requests of one gateway."""
        self._settings, self._sessions, self._client, self._log = settings, sessions, client, log
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        headers = join_headers(scope["headers"])
        record = RequestRecord(scope["method"], scope["path"], is_shadow=self._settings.shadow)
        query = scope["query_string"].decode("latin-1")
        tenant = digest_credentials(headers, query, self._settings.credential_headers)
        refusal = self._find_refusal(scope, headers, tenant)
        if refusal is not None:
            await self._refuse(send, record, *refusal)
            return
        with self._limits.hold(tenant):
            await self._take(scope, headers, tenant, record, receive, send)

    async def _take(
        self, scope: Scope, headers: Mapping[str, str], tenant: str, record: RequestRecord, receive: Receive, send: Send
    ) -> None:
        try:
            incoming = await self._read_request(scope, headers, tenant, receive)
            with trace_span("tenfold.request") as note_attributes:
                await self._handle(incoming, record, receive, send)
                note_attributes(record.get_attributes())
        except BodyTooLarge:
            text = f"the body is larger than `max_body` of the gateway, {self._settings.max_body:,} bytes"
            await self._refuse(send, record, 413, text)
        except BodyTooSlow:
            await self._refuse(send, record, 408, f"no byte of the body came for {self._settings.timeout:g} seconds")
        except BadInput as exc:
            await self._refuse(send, record, 400, str(exc))
        except ClientGone:
            record.note = "the client closed the connection"
            self._log.add(record)

    async def _read_request(
        self, scope: Scope, headers: Mapping[str, str], tenant: str, receive: Receive
    ) -> IncomingRequest:
        path = _get_path(scope)
        body = await read_body(receive, self._settings.max_body, self._settings.timeout)
        plain: bytes | None = body
        if ENCODING_HEADER in headers and scope["method"] == "POST" and find_wire(path):
            plain = await unpack_body(body, headers[ENCODING_HEADER], self._settings.max_body)
        query = scope["query_string"].decode("latin-1")
        return IncomingRequest(scope["method"], path, query, scope["headers"], headers, tenant, body, plain)

    def _find_refusal(self, scope: Scope, headers: Mapping[str, str], tenant: str) -> tuple[int, str] | None:
        """Returns the status and the reason if a request is not taken at all."""
        if (
            scope["method"] == "POST"
            and find_wire(_get_path(scope))
            and not all(map(is_json, list_types(scope["headers"])))
        ):
            return 415, NO_JSON
        if headers.get("upgrade", "").lower() == "websocket":  # Codex then uses HTTP at once
            return 426, "this gateway speaks HTTP, not WebSocket"
        return self._limits.find_refusal(tenant)

    # -- one request ---------------------------------------------------------------------------------------------------

    async def _handle(self, incoming: IncomingRequest, record: RequestRecord, receive: Receive, send: Send) -> None:
        start = perf_counter()
        wire = find_wire(incoming.path) if incoming.method == "POST" else ""
        request, bypass = None, NO_CALL
        if wire and incoming.plain is not None:
            request, bypass = await read_call(incoming.path, incoming.plain)
        record.wire = wire
        if wire and request is None:
            record.bypass = bypass
            record.bypass += f" ({ENCODING_HEADER} {incoming.encodings[:60]})" if incoming.encodings else ""
        url = self._settings.addresses.build_url(
            wire or choose_likely_wire(incoming.path, incoming.headers), incoming.path, incoming.query
        )
        prepared, fault = None, False
        if request is not None:
            record.model = request.model
            prepared, fault = await self._prepare(incoming, request, url, record)
        record.own_seconds = perf_counter() - start
        if prepared is not None and prepared.answer:
            await self._send_answer(prepared, record, send)
            return
        body = self._choose_body(incoming, prepared)
        record.is_unchanged = bool(wire) and body is incoming.body
        response = await self._send(incoming, url, body, receive)
        try:
            if prepared is not None and 400 <= response.status_code < 500 and prepared.lane is not None:
                response, prepared = await self._retry_overflow(incoming, url, response, prepared, receive, record)
            if prepared is not None and prepared.has_recall and response.status_code == httpx.codes.OK:
                ask = partial(self._send, incoming, url, receive=receive)
                fault = await self._answer_lookups(response, prepared, ask, record, receive, send)
            else:
                await self._stream_response(response, prepared, record, receive, send)
            if prepared is not None and prepared.pending is not None:
                await self._await_session(prepared.pending.start(), record)
        finally:
            await response.aclose()
        record.upstream_seconds = perf_counter() - start - record.own_seconds
        chains = self._sessions.chains
        self._log.sessions.set(len(self._sessions.lanes))
        self._log.chain_bytes.set(chains.size)
        self._log.forgotten_responses.set(chains.forgotten)
        self._log.add(record, fault=fault)

    async def _prepare(
        self, incoming: IncomingRequest, request: ModelRequest, url: str, record: RequestRecord
    ) -> tuple[PreparedRequest | None, bool]:
        """Asks the sessions what to send. After a fault of ours it is the request as it came."""
        try:
            call = self._build_call(incoming, request, url)
            prepared = await self._sessions.prepare(request, incoming.headers, incoming.tenant, call)
        except BadInput as exc:
            record.bypass = f"the messages cannot be read: {exc}"
            return None, False
        except Exception as exc:  # noqa: BLE001 - whatever goes wrong here must not stop the client's request
            LOG.warning("a fault of the gateway; the request is forwarded as it came", exc_info=exc)
            record.bypass = f"a fault of the gateway: {type(exc).__name__}"
            return None, True
        self._record_prepared(prepared, record)
        return prepared, False

    def _record_prepared(self, prepared: PreparedRequest, record: RequestRecord) -> None:
        record.reason = prepared.reason
        record.bypass = prepared.reason if prepared.is_bypass else record.bypass
        record.compaction = prepared.compaction or record.compaction
        record.tokens_before, record.tokens_after = prepared.tokens_before, prepared.tokens_after
        record.dollars_saved = prepared.dollars_saved
        if prepared.lane is not None:
            record.session = prepared.lane.id

    def _build_call(self, incoming: IncomingRequest, request: ModelRequest, url: str) -> UpstreamCall:
        headers = {
            name: value
            for name, value in incoming.headers.items()
            if name not in _HOP_HEADERS and name not in _OWN_HEADERS
        }
        api = get_api(request.wire)
        limit_field = next((name for name in api.limit_fields if name in request.fields), "")
        if api.model_path:
            credentials = keep_credentials(incoming.query)
            url = api.path.sub("", url.partition("?")[0]) + api.model_path + (f"?{credentials}" if credentials else "")
        own = self._settings.addresses.has_own_address(request.wire)
        headers |= {"content-type": "application/json", "accept-encoding": "identity"}
        return UpstreamCall(request.wire, url, headers, request.model, limit_field, own)

    def _choose_body(self, incoming: IncomingRequest, prepared: PreparedRequest | None) -> bytes:
        if prepared is None or self._settings.shadow:
            return incoming.body
        return incoming.body if prepared.sent.body is incoming.plain else prepared.sent.body

    async def _retry_overflow(
        self,
        incoming: IncomingRequest,
        url: str,
        response: httpx.Response,
        prepared: PreparedRequest,
        receive: Receive,
        record: RequestRecord,
    ) -> tuple[httpx.Response, PreparedRequest]:
        """Compacts and sends once more if the provider refused a request as too long. Else returns what there is."""
        body = await UpstreamBody.open(response).read(MAX_ERROR) or b""
        text, status = body.decode("utf-8", "replace"), response.status_code
        if not await asyncio.to_thread(is_overflow, text, status=status):
            return response, prepared
        try:
            again = await self._sessions.prepare_again(prepared, find_named_limit(text, status=status))
        except Exception as exc:  # noqa: BLE001 - the client gets the provider's own answer then
            LOG.warning("a fault of the gateway; the provider's error is passed on", exc_info=exc)
            record.bypass = f"a fault of the gateway: {type(exc).__name__}"
            return response, prepared
        if isinstance(again, str):
            record.note = f"the provider refused it as too long, and it could not be made shorter: {again}"
            return response, prepared
        await response.aclose()
        self._record_prepared(again, record)
        record.is_unchanged = False
        record.note = "the provider refused it as too long; it was compacted and sent again"
        return await self._send(incoming, url, again.sent.body, receive), again

    async def _send(self, incoming: IncomingRequest, url: str, body: bytes, receive: Receive) -> httpx.Response:
        """Sends a request to the upstream. Raises `ClientGone` if the client leaves before the response begins."""
        is_call = bool(find_wire(incoming.path))
        left_out = {*_list_hop_headers(incoming.raw_headers), KEY_HEADER, SESSION_HEADER}
        left_out |= {"accept-encoding"} if is_call else set()
        left_out |= {ENCODING_HEADER} if body is not incoming.body else set()  # what was changed goes as it is
        headers = [(n, v) for n, v in incoming.raw_headers if n.decode("latin-1").lower() not in left_out]
        if is_call:  # the usage is read while it passes
            headers.append((b"accept-encoding", b"identity"))
        scheme, _, host, target = url.split("/", 3)  # what the client wrote, which httpx would write its own way
        extensions = {"timeout": self._client.timeout.as_dict(), "target": f"/{target}".encode("latin-1")}
        # Not by the client, which adds headers of its own.
        request = httpx.Request(
            incoming.method, f"{scheme}//{host}", headers=headers, content=body, extensions=extensions
        )
        try:
            return await _run_for_client(self._client.send(request, stream=True), receive)
        except httpx.HTTPError as exc:
            return _build_gateway_error(request, exc)

    async def _stream_response(
        self,
        response: httpx.Response,
        prepared: PreparedRequest | None,
        record: RequestRecord,
        receive: Receive,
        send: Send,
    ) -> None:
        """Sends the response to the client as it comes, and teaches the session what the provider counted."""
        record.status = response.status_code
        headers = _pass_headers(response)
        if "content-length" in response.headers:
            headers.append((b"content-length", response.headers["content-length"].encode("latin-1")))
        await send({"type": "http.response.start", "status": record.status, "headers": headers + _describe(record)})
        reader = None
        if prepared is not None and record.status == httpx.codes.OK:
            is_stream = "text/event-stream" in response.headers.get("content-type", "")
            encodings = response.headers.get(ENCODING_HEADER, "")
            reader = UsageReader(prepared.original.wire, is_stream=is_stream, encodings=encodings)
        try:
            await _run_for_client(_copy_body(response, reader, send), receive)
        except httpx.HTTPError:
            record.is_cut = True  # the connection is closed without an end, so that the client sees it too
        except ClientGone:
            record.note = "the client closed the connection"
        try:
            if reader is not None and prepared is not None:
                await self._report_usage(reader, prepared, record)
        except Exception as exc:  # noqa: BLE001 - the client has its response; what went wrong is recorded
            LOG.warning("a fault of the gateway after a request was forwarded", exc_info=exc)
            record.bypass = f"a fault of the gateway: {type(exc).__name__}"

    async def _answer_lookups(
        self,
        response: httpx.Response,
        prepared: PreparedRequest,
        ask: UpstreamSender,
        record: RequestRecord,
        receive: Receive,
        send: Send,
    ) -> bool:
        """Sends the client the answer behind the model's lookups, if it makes any. Returns whether we were at fault."""
        assert prepared.lane is not None
        record.status = response.status_code

        def build_headers(upstream: httpx.Response, length: int | None) -> RawHeaders:
            headers = [(n, v) for n, v in _pass_headers(upstream) if n.lower() != b"content-encoding"]  # it was decoded
            return headers + ([] if length is None else [(b"content-length", b"%d" % length)]) + _describe(record)

        loop = RecallLoop(self._sessions.open_recall(prepared.lane), prepared, ask, record)
        try:
            unread = await _run_for_client(loop.run(response, ClientAnswer(send, build_headers)), receive)
            if unread is not None:
                await self._stream_response(unread, prepared, record, receive, send)
        except ClientGone:
            record.note = "the client closed the connection"
        finally:
            await loop.close()
        if loop.response:
            self._sessions.keep_response(prepared, loop.response)
        if prepared.pending is not None:
            await prepared.pending.finish()
        if loop.usage:
            await prepared.lane.session.after_model(loop.usage)
        return loop.has_fault

    async def _report_usage(self, reader: UsageReader, prepared: PreparedRequest, record: RequestRecord) -> None:
        report = await reader.finish()
        record.is_cut = record.is_cut or not reader.is_complete
        if reader.response:
            self._sessions.keep_response(prepared, reader.response)
        if prepared.pending is not None:
            await asyncio.wait({prepared.pending.start()})
        if prepared.lane is not None and report and not self._settings.shadow:
            await prepared.lane.session.after_model(report)

    async def _send_answer(self, prepared: PreparedRequest, record: RequestRecord, send: Send) -> None:
        """Sends a response of the gateway's own."""
        record.status = 200
        kind = b"text/event-stream" if prepared.original.is_stream else b"application/json"
        headers = [(b"content-type", kind), *_describe(record)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": prepared.answer})
        self._log.add(record)

    async def _await_session(self, pending: asyncio.Task[PreparedRequest], record: RequestRecord) -> None:
        """Waits for the work on the session that was not on the client's way, and takes its numbers."""
        reason = record.reason
        try:
            learned = await pending
            self._record_prepared(learned, record)
            if record.is_unchanged and (self._settings.shadow or learned.sent is not learned.original):
                record.reason = reason  # what the session would send was not sent
        except Exception as exc:  # noqa: BLE001 - the client has its response; what went wrong is recorded
            LOG.warning("a fault of the gateway after a request was forwarded", exc_info=exc)
            record.bypass = f"a fault of the gateway: {type(exc).__name__}"

    async def _refuse(self, send: Send, record: RequestRecord, status: int, text: str) -> None:
        record.status, record.note = status, text
        self._log.add(record)
        await send_error(send, status, text)


def _get_path(scope: Scope) -> str:
    """Returns the path of a request as the client wrote it."""
    return str(scope.get("raw_path", scope["path"].encode()).decode("latin-1").partition("?")[0])


def _list_hop_headers(headers: RawHeaders) -> frozenset[str]:
    """Returns the headers that are about one connection, with those that a `Connection` header names."""
    named = (value for name, value in headers if name.lower() == b"connection")
    return _HOP_HEADERS.union(name.strip().decode("latin-1").lower() for value in named for name in value.split(b","))


def _pass_headers(response: httpx.Response) -> RawHeaders:
    """Returns the headers of an upstream's response that the client gets.

    Which page may read an answer, and what the gateway did, is not the upstream's to say.
    """
    left_out = _list_hop_headers(response.headers.raw) - {"upgrade"}
    named = [(name.decode("latin-1").lower(), name, value) for name, value in response.headers.raw]
    return [(n, v) for name, n, v in named if name not in left_out and not name.startswith(_OWN_RESPONSE_HEADERS)]


async def _run_for_client(work: Coroutine[Any, Any, Result], receive: Receive) -> Result:
    """Does some work for a client, and ends it at once if the client leaves. Raises `ClientGone` then."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_wait_for_disconnect(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientGone
        return working.result()
    finally:
        leaving.cancel()
        if not working.done():
            working.cancel()
            with suppress(asyncio.CancelledError, httpx.HTTPError):
                await working


async def _copy_body(response: httpx.Response, reader: UsageReader | None, send: Send) -> None:
    """Sends the body of a response to the client as it comes. Raises `httpx.HTTPError` if it ends early."""
    async for chunk in UpstreamBody.open(response).iterate():
        if reader is not None:
            reader.feed(chunk)
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def _describe(record: RequestRecord) -> RawHeaders:
    """Returns the headers that say what the gateway did."""
    out: RawHeaders = []
    if record.session:
        out.append((b"x-tenfold-session", record.session.encode()))
    if record.tokens_before:  # they are not known yet where the request was sent on first
        out.append((b"x-tenfold-tokens", f"{record.tokens_before}->{record.tokens_after}".encode()))
    if record.bypass:
        out.append((b"x-tenfold-bypass", encode_header(record.bypass)))
    if record.forward_reason:
        out.append((HEADER.encode(), encode_header(record.forward_reason)))
    return out


def _build_gateway_error(request: httpx.Request, exc: httpx.HTTPError) -> httpx.Response:
    """Builds the response for an upstream that cannot be reached or gives no answer."""
    status = 504 if isinstance(exc, httpx.TimeoutException) else 502
    text = f"the upstream {request.url.host} gave no response: {type(exc).__name__}"
    return httpx.Response(status, json={"error": {"type": "api_error", "message": text}}, request=request)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs every address, and keys may stand in one
