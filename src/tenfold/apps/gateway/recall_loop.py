"""Answers the model's lookups of earlier messages itself, request after request, and hides them from the client.

Each round is one request upstream. A round with lookups is followed by the same request with the answer and the
results behind it, until the model answers without one; after `MAX_ROUNDS` it no longer has the tools.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from time import perf_counter
from typing import Any

import httpx
import msgspec
from msgspec import Struct
from starlette.types import Send

from tenfold.apps.gateway.event_stream import EventSplitter, StreamEvent
from tenfold.apps.gateway.incoming_request import ENCODING_HEADER
from tenfold.apps.gateway.live_sessions import PreparedRequest
from tenfold.apps.gateway.model_request import ModelRequest
from tenfold.apps.gateway.request_log import RequestRecord
from tenfold.apps.gateway.upstream_bodies import MAX_ERROR, UpstreamBody
from tenfold.apps.gateway.usage_reader import MAX_ANSWER, UsageReader
from tenfold.core.wire import splice
from tenfold.core.wire.api import READ_FAULTS, StreamForm, StreamPiece
from tenfold.models.overflow import is_overflow
from tenfold.recall.tools import RecallTools, describe_tools

MAX_ROUNDS = 4
"""How many times in a row the model may look something up before it has to answer."""
QUIET_SECONDS = 10.0
"""After so long without a byte, a client that reads a stream is told that there is more to come."""
NOT_RUN = (
    "This call was not run, because it came together with a lookup of earlier messages. "
    "Make it again if it is still needed."
)
"""The result of a call that the client would have had to run, in a turn that the client never sees."""
LOG = logging.getLogger("tenfold.gateway")
Json = dict[str, Any]
RawHeaders = list[tuple[bytes, bytes]]
UpstreamSender = Callable[[bytes], Awaitable[httpx.Response]]
"""Sends a body where the client's request went, and returns the response before its body is read."""


class ClientAnswer:
    """The response to the client. It begins with the first byte that is written, so that it may still be an error."""

    def __init__(self, send: Send, build_headers: Callable[[httpx.Response, int | None], RawHeaders]) -> None:
        """`build_headers` makes the headers from those of an upstream's response and the length, if it is known."""
        self._send, self._build_headers = send, build_headers
        self._turn = asyncio.Lock()
        self._last = perf_counter()
        self.is_started = False

    @property
    def quiet_seconds(self) -> float:
        """How long the client has heard nothing."""
        return perf_counter() - self._last

    async def start(self, response: httpx.Response, length: int | None = None) -> None:
        """Sends the status and the headers, once."""
        if not self.is_started:
            self.is_started = True
            headers = self._build_headers(response, length)
            await self._send({"type": "http.response.start", "status": response.status_code, "headers": headers})

    async def write(self, response: httpx.Response, data: bytes) -> None:
        """Sends bytes of a response."""
        if data:
            self._last = perf_counter()
            async with self._turn:  # what keeps the client waiting may be written at any moment
                await self.start(response)
                await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def finish(self) -> None:
        """Ends the response. Without it, the client sees that it was cut."""
        await self._send({"type": "http.response.body", "body": b""})


class _UnreadAnswer(Exception):
    """A response of an upstream is too large to be searched for lookups, or its encoding is not known."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response


class RecallLoop:
    """The rounds of one request of a client."""

    def __init__(
        self, tools: RecallTools, prepared: PreparedRequest, send_upstream: UpstreamSender, record: RequestRecord
    ) -> None:
        """`prepared` is the request with the tools: see `ModelRequest.can_take_tools`. `record` is filled in."""
        self._tools, self._pending, self._record = tools, prepared.pending, record
        self._original, self._sent = prepared.original, prepared.sent
        self._send_upstream = send_upstream
        self._names = frozenset(describe_tools())
        assert self._sent.api is not None
        self._form, self._stream = self._sent.api.answers, self._sent.api.stream
        self._round = 1
        self._request = self._sent
        self._lead: list[Json] = []
        self._responses: list[httpx.Response] = []
        self._splicer: StreamSplicer | None = None
        self.usage: Json = {}
        self.lookups: list[Json] = []
        self.response: Json = {}

    @property
    def is_last(self) -> bool:
        """Whether the model has no lookup left."""
        return self._round > MAX_ROUNDS

    async def run(self, response: httpx.Response, client: ClientAnswer) -> httpx.Response | None:
        """Passes the answer to the client. Returns a response that cannot be searched, to be passed on as it came.

        `usage` is then what the provider counted in the first round, of the request as the session knows it, `lookups`
        what it counted in those that followed, and `response` the answer that the client has, where the API has one
        answer in a whole.
        """
        try:
            kind = response.headers.get("content-type", "")
            if "text/event-stream" in kind or (self._sent.is_stream and "json" not in kind):
                await self._run_stream(response, client)
            else:
                await self._run_whole(response, client)
        except _UnreadAnswer as exc:
            text = f"the answer could not be searched for lookups: it is not readable, or above {MAX_ANSWER:,} bytes"
            if not client.is_started:
                self._note(text)
                return exc.response
            await self._fail(client, response, text)
        except httpx.HTTPError:
            self._record.is_cut = True  # the connection is closed without an end, so that the client sees it too
            await client.start(response)
        return None

    async def close(self) -> None:
        """Closes what was opened at the upstream."""
        for each in self._responses:
            await each.aclose()

    # -- answers that come at once -------------------------------------------------------------------------------------

    async def _run_whole(self, response: httpx.Response, client: ClientAnswer) -> None:
        while True:
            body = await _read_whole(response, client)
            if body is None:
                raise _UnreadAnswer(response)
            answer = self._read_answer(body) if response.status_code == httpx.codes.OK else None
            if answer is None:
                await self._send_whole(response, client, body)
                return
            self._note_usage(answer)
            self.response = answer
            if not any(call.name in self._names for call in self._form.find_calls(answer)):
                await self._send_whole(response, client, self._add_lead(answer) or body)
                return
            request = None if self.is_last else await self._answer_calls(answer)
            if request is None:
                await self._send_stripped(response, client, answer)
                return
            self._lead = self._lead or self._take_thinking(answer)
            response = await self._continue(request)

    def _read_answer(self, body: bytes) -> Json | None:
        """Returns a whole answer. None if it is none that can be read; then it passes as it came."""
        value = splice.parse_value(body)
        try:
            answer = self._form.join_answers(value) if isinstance(value, list) else value
            if isinstance(answer, dict) and self._form.find_calls(answer) is not None:
                return answer
        except READ_FAULTS as exc:
            self._note(f"the answer could not be searched for lookups: {type(exc).__name__}")
        return None

    def _take_thinking(self, answer: Json) -> list[Json]:
        """Returns the thinking at the beginning of a hidden answer, where the one that follows must begin with it."""
        if not self._form.keeps_thinking:
            return []
        parts = self._form.get_parts(answer)
        end = next((at for at, part in enumerate(parts) if not self._form.is_thinking(part)), len(parts))
        return parts[:end]

    def _add_lead(self, answer: Json) -> bytes | None:
        parts = self._form.get_parts(answer)
        if not self._lead or not parts or self._form.is_thinking(parts[0]):
            return None
        return msgspec.json.encode(self._form.put_parts(answer, [*self._lead, *parts]))

    async def _send_stripped(self, response: httpx.Response, client: ClientAnswer, answer: Json) -> None:
        stripped = self._form.strip_calls(answer, self._names)
        if stripped is None:
            await self._fail(client, response, self._describe_lookups())
            return
        self.response = stripped
        self._note("a lookup was left out of the answer")
        await self._send_whole(response, client, self._add_lead(stripped) or msgspec.json.encode(stripped))

    async def _send_whole(self, response: httpx.Response, client: ClientAnswer, body: bytes) -> None:
        self._record.status = response.status_code
        await client.start(response, len(body))
        await client.write(response, body)
        await client.finish()

    # -- streamed answers ----------------------------------------------------------------------------------------------

    async def _run_stream(self, response: httpx.Response, client: ClientAnswer) -> None:
        if self._stream is None:
            raise _UnreadAnswer(response)
        form = self._stream(self._names)
        keeping = asyncio.ensure_future(_keep_waiting(response, client, form.keep_alive))
        try:
            await self._run_rounds(response, client, form)
        finally:
            keeping.cancel()
            await asyncio.wait({keeping})
            _ = keeping.cancelled() or keeping.exception()  # of a client that left: the rounds end by it too

    async def _run_rounds(self, response: httpx.Response, client: ClientAnswer, form: StreamForm) -> None:
        splicer = self._splicer = StreamSplicer(form)
        while True:
            reader = await self._forward_round(response, client, splicer)
            if not splicer.is_hiding or splicer.has_error or not reader.is_complete:
                break
            request = await self._answer_calls(form.build_answer())
            if request is None:
                rest = splicer.end_hidden()
                if not rest:
                    await self._fail(client, response, self._describe_lookups())
                    return
                await client.write(response, rest)
                await client.finish()
                return
            response = await self._continue(request)
            if response.status_code != httpx.codes.OK:
                await self._send_error(response, client, splicer)
                return
            splicer.start_round(is_last=self.is_last)
        self._record.is_cut = not reader.is_complete
        self.response = form.final
        if splicer.faults:
            self._note(f"{splicer.faults} events could not be read and passed as they came")
        if splicer.is_stripped:
            self._note("a lookup beside calls of the client's was left out of the answer")
        if splicer.is_empty:
            await self._fail(client, response, self._describe_lookups())
        elif splicer.is_hiding and self._record.is_cut:
            await client.start(response)
        else:
            await client.start(response)
            await client.finish()

    async def _forward_round(
        self, response: httpx.Response, client: ClientAnswer, splicer: StreamSplicer
    ) -> UsageReader:
        """Passes what the client may see of one round, and returns what its events told."""
        splitter, reader = EventSplitter(), UsageReader(self._sent.wire, is_stream=True)
        try:
            async for chunk in _iterate_plain(response):
                reader.feed(chunk)
                await client.write(response, b"".join(map(splicer.take, splitter.take(chunk))))
        finally:
            self._note_usage(await reader.finish())
            await client.write(response, splicer.finish_round(splitter.rest))
        return reader

    async def _send_error(self, response: httpx.Response, client: ClientAnswer, splicer: StreamSplicer) -> None:
        """Passes a provider's error: as it came, or as an event if the client already has a part of an answer."""
        body = await _read_whole(response, client)
        if body is None:
            raise _UnreadAnswer(response)
        if not client.is_started:
            await self._send_whole(response, client, body)
            return
        self._note(f"the provider refused a lookup's request with status {response.status_code}")
        self._record.is_cut = True
        await client.write(response, splicer.build_error(body))

    # -- what both have in common --------------------------------------------------------------------------------------

    async def _answer_calls(self, answer: Json) -> ModelRequest | None:
        """Builds the next request from an answer with lookups. None after a fault of ours, which is recorded."""
        start = perf_counter()
        try:
            if self._pending is not None:  # what is looked up may be in the request itself
                await self._pending.finish()
            results = []
            for call in self._form.find_calls(answer):
                if call.name not in self._names:
                    results.append(NOT_RUN)
                    continue
                results.append(await asyncio.to_thread(self._tools.handle, call.name, call.arguments or {}))
                self._record.recall_calls += 1
            turn = map(msgspec.json.encode, self._form.build_turn(answer, results))
            request = self._request.with_items([*self._request.items, *turn])
            return self._remove_tools(request) if self._round == MAX_ROUNDS else request
        except Exception as exc:
            LOG.warning("a fault of the gateway in a lookup", exc_info=exc)
            self._note(f"a fault of the gateway in a lookup: {type(exc).__name__}")
            self._record.has_fault = True
            return None
        finally:
            self._record.own_seconds += perf_counter() - start

    async def _continue(self, request: ModelRequest) -> httpx.Response:
        """Sends the next request. If the provider refuses it as too long, the first goes again without the tools."""
        self._round += 1
        self._request = request
        response = await self._send_upstream(request.body)
        self._responses.append(response)
        if not 400 <= response.status_code < 500:
            return response
        text = (await UpstreamBody.open(response).read(MAX_ERROR) or b"").decode("utf-8", "replace")
        if not await asyncio.to_thread(is_overflow, text, status=response.status_code):
            return response
        self._note("what was looked up did not fit; the model answers without it")
        self._round, self._request = MAX_ROUNDS + 1, self._remove_tools(self._sent)
        response = await self._send_upstream(self._request.body)
        self._responses.append(response)
        return response

    def _note_usage(self, report: Json) -> None:
        """Notes what the provider counted in this round."""
        if not self._responses:
            self.usage = report
        elif report:
            self.lookups.append(report)

    def _remove_tools(self, request: ModelRequest) -> ModelRequest:
        return request.with_fields(tools=bytes(self._original.fields["tools"]))

    def _describe_lookups(self) -> str:
        return f"no answer came but lookups of earlier messages, in {self._round} requests"

    async def _fail(self, client: ClientAnswer, response: httpx.Response, text: str) -> None:
        """Tells the client why there is no answer: as a response, or as an event if one has begun."""
        self._note(text)
        body = msgspec.json.encode({"type": "error", "error": {"type": "api_error", "message": text, "code": 502}})
        if self._splicer is not None and client.is_started:
            self._record.is_cut = True
            await client.write(response, self._splicer.build_error(body))
            return
        failed = httpx.Response(502, headers={"content-type": "application/json"}, request=response.request)
        await self._send_whole(failed, client, body)

    def _note(self, text: str) -> None:
        self._record.note = f"{self._record.note}; {text}" if self._record.note else text


async def _iterate_plain(response: httpx.Response) -> AsyncIterator[bytes]:
    """Yields the body of a response without its encodings. What comes compressed, unasked, is read as a whole first."""
    body = UpstreamBody.open(response)
    if ENCODING_HEADER not in response.headers:
        async for chunk in body.iterate():
            yield chunk
        return
    plain = await body.read(MAX_ANSWER)
    if plain is None or len(plain) > MAX_ANSWER:
        raise _UnreadAnswer(response)
    yield plain
    if body.fault is not None:
        raise body.fault


async def _keep_waiting(response: httpx.Response, client: ClientAnswer, keep_alive: bytes) -> None:
    """Writes what the client's API has for it whenever the client has heard nothing for a while. To be cancelled."""
    while True:
        left = QUIET_SECONDS - client.quiet_seconds
        if left > 0:
            await asyncio.sleep(left)
        else:
            await client.write(response, keep_alive)


async def _read_whole(response: httpx.Response, client: ClientAnswer) -> bytes | None:
    """Reads the body of a response. None if it is too large to be searched, or cannot be read.

    If it is cut, the client gets what came of it, and `httpx.HTTPError` is raised.
    """
    body = UpstreamBody.open(response)
    plain = await body.read(MAX_ANSWER)
    if body.fault is not None:
        if not client.is_started:
            length = response.headers.get("content-length", "")
            await client.start(response, int(length) if length.isdigit() else None)
            await client.write(response, plain or b"")
        raise body.fault
    return None if plain is None or len(plain) > MAX_ANSWER else plain


# -- streams ----------------------------------------------------------------------------------------------------------

_DONE = StreamPiece("end", {})


class _HeldPiece(Struct, frozen=True):
    """A piece of an event that may still be passed on, and the round it is from."""

    piece: StreamPiece
    event: StreamEvent
    round: int


class StreamSplicer:
    """Takes the events of one round after the other and says which bytes the client gets.

    What the model thinks is held back until it says something, since thinking that led to a lookup belongs to it. From
    a lookup on, the rest of a round is hidden, unless the client already has a call of the same round, or it is the
    last round: then the lookup is left out and everything else passes.
    """

    def __init__(self, form: StreamForm) -> None:
        """`form` is that of the answers."""
        self._form = form
        self._held: list[_HeldPiece] = []
        self._lead: list[_HeldPiece] = []
        self._hidden_end: list[_HeldPiece] = []
        self.faults = 0
        self._is_last = self._is_passing = self._has_call = False
        self.is_hiding = self.is_stripped = self.has_error = self.has_passed = False

    def start_round(self, *, is_last: bool) -> None:
        """Begins with the answer to the next request."""
        self._form.start_round()
        self._form.lacks_calls = False
        self._held, self._hidden_end = [], []
        self._is_last, self._is_passing, self._has_call = is_last, False, False
        self.is_hiding = self.is_stripped = False

    @property
    def is_empty(self) -> bool:
        """Whether the round has ended and the client has nothing to go on with: there was nothing but lookups."""
        return self.is_stripped and not self.has_passed and not self.has_error

    def take(self, event: StreamEvent) -> bytes:
        """Takes an event and returns what is passed on. One that is not written as its API says passes as it is."""
        try:
            return self._take_event(event)
        except READ_FAULTS:
            self.faults += 1
            return b"" if self.is_hiding else event.raw

    def _take_event(self, event: StreamEvent) -> bytes:
        if event.value is None:
            pieces = [StreamPiece("other", {}) if event.is_comment else _DONE]
        else:
            pieces = self._form.read(event.value)
        return b"".join(self._take_piece(_HeldPiece(piece, event, self._form.round)) for piece in pieces)

    def finish_round(self, rest: bytes) -> bytes:
        """Ends a round whose stream has ended. `rest` are the bytes of an event that is not complete."""
        return b"" if self.is_hiding or self.is_empty else self._flush() + rest

    def end_hidden(self) -> bytes:
        """Ends the client's answer where the next one cannot be had. Empty if the client has nothing to end yet."""
        if not self.has_passed:
            return b""
        self._form.lacks_calls = True
        return b"".join(self._place(held, is_mended=True) for held in self._hidden_end)

    def build_error(self, body: bytes) -> bytes:
        """Builds the event that says that the answer failed."""
        return self._form.build_error(body)

    def _take_piece(self, held: _HeldPiece) -> bytes:
        kind = held.piece.kind
        if kind == "error":
            self.has_error = True
            return (b"" if self.is_hiding else self._flush()) + self._place(held)
        if self._form.opened_in and (held.event.is_comment or held.piece.value.get("type") == "ping"):
            return held.event.raw  # it says that there is more to come, whatever is held back
        if self.is_hiding:
            if kind == "end":
                self._hidden_end.append(held)
            return b""
        if kind == "recall":
            self._take_recall()
            return b""
        if kind == "thinking" or (kind in ("opening", "other") and (not self._is_passing or self._held)):
            self._held.append(held)
            return b""
        if kind == "end" and self.is_stripped and not self.has_passed:
            return b""
        if kind in ("content", "call"):
            self.has_passed = True
            self._has_call = self._has_call or kind == "call"
        out = self._flush()
        return out + self._place(held, is_mended=kind == "end" and self.is_stripped and not self._has_call)

    def _take_recall(self) -> None:
        thought = [held for held in self._held if held.piece.kind == "thinking"]
        self._held = [held for held in self._held if held.piece.kind != "thinking"]
        if self._form.form.keeps_thinking:
            self._lead = self._lead or thought
        if self._has_call or self._is_last:
            self.is_stripped = self._form.lacks_calls = True
        else:
            self.is_hiding = True

    def _flush(self) -> bytes:
        """Passes what was held back. An answer begins with thinking if that is where the hidden one began."""
        held, self._held, self._is_passing = self._held, [], True
        lead, self._lead = self._lead, []
        thinks = any(each.piece.kind == "thinking" for each in held)
        if lead and not thinks and not self._form.opened_in:
            held = [*held, *lead]
        return b"".join(map(self._place, held))

    def _place(self, held: _HeldPiece, *, is_mended: bool = False) -> bytes:
        piece, event = held.piece, held.event
        self._form.opened_in = self._form.opened_in or self._form.round
        if event.value is None:
            return event.raw
        value = self._form.mend_end(piece.value) if is_mended else piece.value
        placed = self._form.place(piece.kind, value, held.round)
        if placed is None:
            return b""
        return event.raw if placed is event.value else event.with_value(placed)
