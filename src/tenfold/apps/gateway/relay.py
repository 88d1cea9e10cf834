"""Takes one request through the gateway: asks the sessions what to send, sends it, and passes the response on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from time import perf_counter
from typing import Any, TypeVar

import httpx
from msgspec import Struct
from starlette.types import Receive, Scope, Send

from tenfold.apps.gateway.client_marks import SESSION_HEADER
from tenfold.apps.gateway.gateway_settings import KEY_HEADER, GatewaySettings
from tenfold.apps.gateway.heavy_requests import read_call
from tenfold.apps.gateway.incoming_request import (
    ENCODING_HEADER,
    ClientGone,
    Entrance,
    IncomingRequest,
    NotTaken,
    RawHeaders,
    get_path,
    leave_at_end,
)
from tenfold.apps.gateway.live_sessions import LiveSessions, PreparedRequest
from tenfold.apps.gateway.model_request import ModelRequest, find_wire
from tenfold.apps.gateway.recall_loop import ClientAnswer, RecallLoop
from tenfold.apps.gateway.request_log import LOG, RequestLog, RequestRecord
from tenfold.apps.gateway.tenants import keep_credentials
from tenfold.apps.gateway.unchanged import HEADER, NO_CALL, encode_header
from tenfold.apps.gateway.upstream_bodies import MAX_ERROR, UpstreamBody
from tenfold.apps.gateway.upstream_clients import UpstreamClients
from tenfold.apps.gateway.upstream_model import UpstreamCall
from tenfold.apps.gateway.upstreams import choose_likely_wire, get_api
from tenfold.apps.gateway.usage_reader import UsageReader
from tenfold.apps.listening import send_error
from tenfold.core.record.entry import Usage
from tenfold.errors import BadInput
from tenfold.models.overflow import find_named_limit, is_overflow
from tenfold.session.ledger import sum_rows
from tenfold.telemetry import trace_span

_HOP_HEADERS = frozenset({
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
    "transfer-encoding", "upgrade", "host", "content-length",
})  # fmt: skip
"""Headers that are about one connection only (RFC 9110, 7.6.1), and those that are written anew."""
_OWN_HEADERS = (KEY_HEADER, SESSION_HEADER, ENCODING_HEADER, "accept-encoding", "accept", "content-type")
"""Headers of a client that the gateway's own requests do not take over."""
_OWN_RESPONSE_HEADERS = ("access-control-", "x-tenfold-")
"""How the headers of a response begin that only the gateway sets."""
Result = TypeVar("Result")


class Relay(Struct, frozen=True):
    """The ASGI application behind every path that is not the gateway's own."""

    settings: GatewaySettings
    sessions: LiveSessions
    clients: UpstreamClients
    entrance: Entrance
    log: RequestLog

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        record = RequestRecord(scope["method"], scope["path"], self.settings.namespace, is_shadow=self.settings.shadow)
        is_call = scope["method"] == "POST" and bool(find_wire(get_path(scope)))
        try:
            async with self.entrance.take_in(scope, receive, is_json=is_call) as incoming:
                with trace_span("tenfold.request") as note_attributes, self.clients.hold() as client:
                    answer = leave_at_end(send, incoming)
                    await _Exchange(self, client, incoming, record, receive, answer).run()
                    note_attributes(record.get_attributes())
        except (NotTaken, BadInput) as exc:
            record.status, record.note = exc.status if isinstance(exc, NotTaken) else 400, str(exc)
            self.log.add(record)
            await send_error(send, record.status, record.note)
        except ClientGone:
            record.note = "the client closed the connection"
            self.log.add(record)


class _Exchange:
    """One request and its response. `prepared` is None if it is no call to a model, or after a fault of ours."""

    def __init__(
        self,
        relay: Relay,
        client: httpx.AsyncClient,
        incoming: IncomingRequest,
        record: RequestRecord,
        receive: Receive,
        send: Send,
    ) -> None:
        self._client = client
        self._settings, self._sessions, self._relay = relay.settings, relay.sessions, relay
        self._incoming, self._record, self._receive, self._send = incoming, record, receive, send
        self._wire = find_wire(incoming.path) if incoming.method == "POST" else ""
        self._url = self._settings.addresses.build_url(
            self._wire or choose_likely_wire(incoming.path, incoming.headers), incoming.path, incoming.query
        )
        self._prepared: PreparedRequest | None = None
        self._usage: Usage | None = None

    async def run(self) -> None:
        """Takes the request to the upstream and the response to the client."""
        record, start = self._record, perf_counter()
        await self._prepare()
        record.own_seconds = perf_counter() - start
        if self._prepared is not None and self._prepared.answer:
            await self._send_answer(self._prepared)
            return
        body = self._choose_body()
        record.is_unchanged = bool(self._wire) and body is self._incoming.body
        response = await self._send_upstream(body)
        try:
            response = await self._retry_overflow(response)
            has_recall = self._prepared is not None and self._prepared.has_recall
            if has_recall and response.status_code == httpx.codes.OK:
                await self._answer_lookups(response)
            else:
                await self._pass_response(response)
            await self._await_session()
            with self._record_faults("the client has its response"):
                self._add_to_bill()
        finally:
            await response.aclose()
        record.upstream_seconds = perf_counter() - start - record.own_seconds
        self._relay.log.sessions.set(len(self._sessions.lanes))
        self._relay.log.chain_bytes.set(self._sessions.chains.size)
        self._relay.log.forgotten_responses.set(self._sessions.chains.forgotten)
        self._relay.log.add(record)

    # -- the request ---------------------------------------------------------------------------------------------------

    async def _prepare(self) -> None:
        """Asks the sessions what to send of a call to a model."""
        incoming, record = self._incoming, self._record
        record.wire = self._wire
        if not self._wire:
            return
        request, bypass = None, NO_CALL
        if incoming.plain is not None:
            request, bypass = await read_call(incoming.path, incoming.plain)
        if request is None:
            record.bypass = bypass
            record.bypass += f" ({ENCODING_HEADER} {incoming.encodings[:60]})" if incoming.encodings else ""
            return
        record.model = request.model
        record.window = self._sessions.find_window(incoming.tenant, request) or 0
        with self._record_faults("the request is forwarded as it came"):
            try:
                call = self._build_call(request)
                self._use_prepared(await self._sessions.prepare(request, incoming.headers, incoming.tenant, call))
            except BadInput as exc:
                record.bypass = f"the messages cannot be read: {exc}"

    @contextmanager
    def _record_faults(self, consequence: str) -> Iterator[None]:
        """Records a fault of the gateway's own, whatever it is: it must not stop what the client has asked for."""
        try:
            yield
        except Exception as exc:  # noqa: BLE001 - see above
            LOG.warning("a fault of the gateway; %s", consequence, exc_info=exc)
            self._record.bypass, self._record.has_fault = f"a fault of the gateway: {type(exc).__name__}", True

    def _use_prepared(self, prepared: PreparedRequest) -> None:
        self._prepared, record = prepared, self._record
        record.reason = prepared.reason
        record.bypass = prepared.reason if prepared.is_bypass else record.bypass
        record.compaction = prepared.compaction or record.compaction
        record.tokens_before, record.tokens_after = prepared.tokens_before, prepared.tokens_after
        if prepared.lane is not None:
            record.session, record.head = prepared.lane.id, prepared.lane.address.head

    def _build_call(self, request: ModelRequest) -> UpstreamCall:
        left_out = {*_HOP_HEADERS, *_OWN_HEADERS}
        headers = {name: value for name, value in self._incoming.headers.items() if name not in left_out}
        api, url = get_api(request.wire), self._url
        limit_field = next((name for name in api.limit_fields if name in request.fields), "")
        if api.model_path:
            credentials = keep_credentials(self._incoming.query)
            url = api.path.sub("", url.partition("?")[0]) + api.model_path + (f"?{credentials}" if credentials else "")
        own = self._settings.addresses.has_own_address(request.wire)
        headers |= {"content-type": "application/json", "accept-encoding": "identity"}
        return UpstreamCall(request.wire, url, headers, request.model, limit_field, own)

    def _choose_body(self) -> bytes:
        if self._prepared is None or self._settings.shadow:
            return self._incoming.body
        sent = self._prepared.sent.body
        return self._incoming.body if sent is self._incoming.plain else sent

    async def _send_upstream(self, body: bytes) -> httpx.Response:
        """Sends a request to the upstream. Raises `ClientGone` if the client leaves before the response begins."""
        raw_headers = self._incoming.raw_headers
        left_out = {*_list_hop_headers(raw_headers), KEY_HEADER, SESSION_HEADER}
        left_out |= {ENCODING_HEADER} if body is not self._incoming.body else set()  # what was changed goes as it is
        own: RawHeaders = []
        if find_wire(self._incoming.path):  # the usage is read while it passes
            left_out.add("accept-encoding")
            own.append((b"accept-encoding", b"identity"))
        headers = [(n, v) for n, v in raw_headers if n.decode("latin-1").lower() not in left_out] + own
        scheme, _, host, target = self._url.split("/", 3)  # what the client wrote, which httpx would write its own way
        client = self._client
        extensions = {"timeout": client.timeout.as_dict(), "target": f"/{target}".encode("latin-1")}
        # Not by the client, which adds headers of its own.
        request = httpx.Request(
            self._incoming.method, f"{scheme}//{host}", headers=headers, content=body, extensions=extensions
        )
        try:
            return await self._run_for_client(client.send(request, stream=True))
        except httpx.HTTPError as exc:
            return _build_gateway_error(request, exc)

    async def _retry_overflow(self, response: httpx.Response) -> httpx.Response:
        """Compacts and sends once more if the provider refused a request as too long. Else returns its response."""
        prepared, status = self._prepared, response.status_code
        if prepared is None or prepared.lane is None or not 400 <= status < 500:
            return response
        text = (await UpstreamBody.open(response).read(MAX_ERROR) or b"").decode("utf-8", "replace")
        if not await asyncio.to_thread(is_overflow, text, status=status):
            return response
        again: PreparedRequest | str = "a fault of the gateway"
        with self._record_faults("the provider's error is passed on"):
            again = await self._sessions.prepare_again(prepared, find_named_limit(text, status=status))
        if isinstance(again, str):
            self._record.note = f"the provider refused it as too long, and it could not be made shorter: {again}"
            return response
        await response.aclose()
        self._use_prepared(again)
        self._record.is_unchanged = False
        self._record.note = "the provider refused it as too long; it was compacted and sent again"
        return await self._send_upstream(again.sent.body)

    # -- the response --------------------------------------------------------------------------------------------------

    async def _pass_response(self, response: httpx.Response) -> None:
        """Sends the response to the client as it comes, and teaches the session what the provider counted."""
        record, prepared = self._record, self._prepared
        record.status = response.status_code
        headers = _pass_headers(response)
        if "content-length" in response.headers:
            headers.append((b"content-length", response.headers["content-length"].encode("latin-1")))
        await self._send(
            {"type": "http.response.start", "status": record.status, "headers": headers + self._describe()}
        )
        reader = None
        if prepared is not None and record.status == httpx.codes.OK:
            is_stream = "text/event-stream" in response.headers.get("content-type", "")
            encodings = response.headers.get(ENCODING_HEADER, "")
            reader = UsageReader(prepared.original.wire, is_stream=is_stream, encodings=encodings)
        try:
            await self._run_for_client(_copy_body(response, reader, self._send))
        except httpx.HTTPError:
            record.is_cut = True  # the connection is closed without an end, so that the client sees it too
        except ClientGone:
            record.note = "the client closed the connection"
        if prepared is not None and reader is not None:
            with self._record_faults("the client has its response"):
                usage = await reader.finish()
                record.is_cut = record.is_cut or not reader.is_complete
                await self._report_answer(prepared, usage, reader.response)

    async def _answer_lookups(self, response: httpx.Response) -> None:
        """Sends the client the answer behind the model's lookups, if it makes any."""
        prepared, record = self._prepared, self._record
        assert prepared is not None
        assert prepared.lane is not None
        record.status = response.status_code

        def build_headers(upstream: httpx.Response, length: int | None) -> RawHeaders:
            headers = [(n, v) for n, v in _pass_headers(upstream) if n.lower() != b"content-encoding"]  # it was decoded
            return headers + ([] if length is None else [(b"content-length", b"%d" % length)]) + self._describe()

        loop = RecallLoop(self._sessions.open_recall(prepared.lane), prepared, self._send_upstream, record)
        try:
            unread = await self._run_for_client(loop.run(response, ClientAnswer(self._send, build_headers)))
            if unread is not None:
                await self._pass_response(unread)
        except ClientGone:
            record.note = "the client closed the connection"
        finally:
            await loop.close()
        with self._record_faults("the client has its response"):
            await self._report_answer(prepared, loop.usage, loop.response, loop.lookups)

    async def _report_answer(
        self,
        prepared: PreparedRequest,
        usage: dict[str, Any],
        answer: dict[str, Any],
        lookups: Sequence[dict[str, Any]] = (),
    ) -> None:
        """Has the session learn what the provider counted, and keeps an answer that the client may name later."""
        if answer:
            self._sessions.chains.keep(prepared.tenant, prepared.original, answer)
        if prepared.pending is not None:
            await prepared.pending.finish()
        if prepared.lane is not None and usage and not self._settings.shadow:
            await prepared.lane.session.after_model(usage, lookups=lookups)
            self._usage = prepared.lane.session.session.conversation.pending_usage

    async def _await_session(self) -> None:
        """Waits for the work on the session that was not on the client's way, and takes its numbers."""
        if self._prepared is None or self._prepared.pending is None:
            return
        record, reason = self._record, self._record.reason
        with self._record_faults("the client has its response"):
            learned = await self._prepared.pending.start()
            self._use_prepared(learned)
            if record.is_unchanged and (self._settings.shadow or learned.sent is not learned.original):
                record.reason = reason  # what the session would send was not sent

    def _add_to_bill(self) -> None:
        """Adds up what the request cost, with what its compaction did."""
        prepared, record = self._prepared, self._record
        if prepared is None or prepared.lane is None or self._settings.shadow:
            return
        lane = prepared.lane
        rows = lane.ledger.add_summary(prepared.spent)
        if self._usage is not None:
            hidden = int(prepared.tokens_before) - int(prepared.tokens_after)
            window = self._sessions.find_window(prepared.tenant, prepared.original)
            rows += lane.ledger.add_request(self._usage, hidden, lane.hidden[0], model=record.model, window=window)
        record.bill = sum_rows(rows)

    async def _send_answer(self, prepared: PreparedRequest) -> None:
        """Sends a response of the gateway's own."""
        self._record.status = 200
        kind = b"text/event-stream" if prepared.original.is_stream else b"application/json"
        headers = [(b"content-type", kind), *self._describe()]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._send({"type": "http.response.body", "body": prepared.answer})
        self._add_to_bill()
        self._relay.log.add(self._record)

    def _describe(self) -> RawHeaders:
        """Returns the headers that say what the gateway did."""
        record, out = self._record, RawHeaders()
        if record.session:
            out.append((b"x-tenfold-session", record.session.encode()))
        if record.tokens_before:  # they are not known yet where the request was sent on first
            out.append((b"x-tenfold-tokens", f"{record.tokens_before}->{record.tokens_after}".encode()))
        if record.bypass:
            out.append((b"x-tenfold-bypass", encode_header(record.bypass)))
        if record.forward_reason:
            out.append((HEADER.encode(), encode_header(record.forward_reason)))
        return out

    async def _run_for_client(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Does some work for the client, and ends it at once if the client leaves. Raises `ClientGone` then."""
        working = asyncio.ensure_future(work)
        leaving = asyncio.ensure_future(_wait_for_disconnect(self._receive))
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


async def _copy_body(response: httpx.Response, reader: UsageReader | None, send: Send) -> None:
    """Sends the body of a response to the client as it comes. Raises `httpx.HTTPError` if it ends early."""
    async for chunk in UpstreamBody.open(response).iterate():
        if reader is not None:
            reader.feed(chunk)
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def _build_gateway_error(request: httpx.Request, exc: httpx.HTTPError) -> httpx.Response:
    """Builds the response for an upstream that cannot be reached or gives no answer."""
    status = 504 if isinstance(exc, httpx.TimeoutException) else 502
    text = f"the upstream {request.url.host} gave no response: {type(exc).__name__}"
    return httpx.Response(status, json={"error": {"type": "api_error", "message": text}}, request=request)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs every address, and keys may stand in one
