"""A request as it comes in: whether it is taken, and its body, read and unpacked up to a limit."""

from __future__ import annotations

import asyncio
import gzip
import io
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager

import zstandard
from msgspec import Struct
from starlette.types import Message as AsgiMessage
from starlette.types import Receive, Scope, Send

from tenfold.apps.gateway.gateway_settings import GatewaySettings
from tenfold.apps.gateway.request_log import RequestLog
from tenfold.apps.gateway.tenants import digest_credentials
from tenfold.apps.keyring import ACCESS, Access

OWNER = "tenfold-key-owner"
"""The name under which the owner of a key counts among the credentials."""
RawHeaders = list[tuple[bytes, bytes]]
ENCODING_HEADER = "content-encoding"
MAX_ENCODINGS = 4
"""Encodings one in the other that are unpacked. Clients use one."""


class NotTaken(Exception):
    """A request that the gateway does not take: the status and the text of its response."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class ClientGone(Exception):
    """The client closed its connection before it had its response."""


class IncomingRequest(Struct, frozen=True):
    """A request as it came in. `body` are the bytes that came, and `plain` what they say: None if nobody can tell.

    `tenant` is a digest of who sends it: see `digest_credentials`. `leave` ends its count among those that are running,
    for when its answer is about to be complete: the client may send the next request before all work on this is done.
    """

    method: str
    path: str
    query: str
    raw_headers: RawHeaders
    headers: Mapping[str, str]
    tenant: str
    body: bytes
    plain: bytes | None
    leave: Callable[[], None]

    @property
    def encodings(self) -> str:
        """The encodings in which the body came, "" without one."""
        return self.headers.get(ENCODING_HEADER, "")


def leave_at_end(send: Send, incoming: IncomingRequest) -> Send:
    """Returns what sends an answer, and ends the count of its request before the last piece goes out."""

    async def send_piece(message: AsgiMessage) -> None:
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            incoming.leave()
        await send(message)

    return send_piece


def join_headers(raw_headers: RawHeaders) -> dict[str, str]:
    """Returns the headers by their names in lower case. What comes several times is one value, as HTTP has it."""
    out: dict[str, str] = {}
    for raw_name, raw_value in raw_headers:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        out[name] = f"{out[name]}{'; ' if name == 'cookie' else ', '}{value}" if name in out else value
    return out


class Entrance:
    """Takes the requests of one gateway in, on whichever route they come: so many at a time, and none too large."""

    def __init__(self, settings: GatewaySettings, log: RequestLog) -> None:
        """`log` shows in the metrics how many are running."""
        self._settings, self._log = settings, log
        self._running: Counter[str] = Counter()
        self._running_keys: Counter[str] = Counter()

    @asynccontextmanager
    async def take_in(
        self, scope: Scope, receive: Receive, *, is_json: bool, has_type: bool = False
    ) -> AsyncIterator[IncomingRequest]:
        """Reads a request, and counts it for as long as the block lasts. With `is_json` its body is unpacked, too.

        Some clients name no type for the JSON of a call; with `has_type` that is refused.

        Raises `NotTaken` if the request is not taken, and `ClientGone` if the client leaves before all of it has come.
        """
        headers, query = join_headers(scope["headers"]), scope["query_string"].decode("latin-1")
        if (is_json and not _is_sent_as_json(scope["headers"])) or (has_type and "content-type" not in headers):
            raise NotTaken(415, "the body is JSON: send it with the header content-type: application/json")
        if headers.get("upgrade", "").lower() == "websocket":  # Codex then uses HTTP at once
            raise NotTaken(426, "this gateway speaks HTTP, not WebSocket")
        access: Access | None = scope.get(ACCESS)
        owner = {OWNER: access.owner} if access is not None and access.owner else {}
        tenant = digest_credentials({**headers, **owner}, query, (*self._settings.credential_headers, *owner))
        with ExitStack() as places:
            places.enter_context(self._hold_place(tenant))
            places.enter_context(self._hold_key(access))
            body = await self._read_body(receive)
            plain = await self._unpack_body(body, headers.get(ENCODING_HEADER, "")) if is_json else body
            path = get_path(scope)
            method, leave = scope["method"], places.close
            yield IncomingRequest(method, path, query, scope["headers"], headers, tenant, body, plain, leave)

    @contextmanager
    def _hold_place(self, tenant: str) -> Iterator[None]:
        """Counts a request of a tenant for as long as the block lasts."""
        running, most = self._running.total(), self._settings.max_requests
        if running >= most:
            raise NotTaken(503, f"{running} requests are running, and {most} are the most")
        most = self._settings.max_tenant_requests
        if self._running[tenant] >= most:
            raise NotTaken(429, f"{most} requests with these credentials are running, which is the most")
        self._running[tenant] += 1
        self._log.running.set(self._running.total())
        try:
            yield
        finally:
            self._running[tenant] -= 1
            if not self._running[tenant]:
                del self._running[tenant]
            self._log.running.set(self._running.total())

    @contextmanager
    def _hold_key(self, access: Access | None) -> Iterator[None]:
        """Counts a request of a key for as long as the block lasts."""
        key = access.key if access is not None else None
        if key is None or not key.max_requests:
            yield
            return
        if self._running_keys[key.id] >= key.max_requests:
            raise NotTaken(
                429, f"requests with the key of {key.name} that run already: {key.max_requests}, which is the most"
            )
        self._running_keys[key.id] += 1
        try:
            yield
        finally:
            self._running_keys[key.id] -= 1

    async def _read_body(self, receive: Receive) -> bytes:
        chunks: list[bytes] = []
        size, seconds = 0, self._settings.timeout
        while True:
            try:
                message: AsgiMessage = await asyncio.wait_for(receive(), seconds)
            except TimeoutError as exc:
                raise NotTaken(408, f"no byte of the body came for {seconds:g} seconds") from exc
            if message["type"] == "http.disconnect":
                raise ClientGone
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            self._check_size(size)
            if not message.get("more_body"):
                return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def _unpack_body(self, body: bytes, encodings: str) -> bytes | None:
        """Returns a body without its encodings. None if one is not known here or the body is none of that kind."""
        plain = body
        if encodings:
            unpacked = await asyncio.to_thread(unpack_bytes, body, encodings, self._settings.max_body)
            if unpacked is None:
                return None
            plain = unpacked
        self._check_size(len(plain))
        return plain

    def _check_size(self, size: int) -> None:
        if size > self._settings.max_body:
            raise NotTaken(413, f"the body is larger than `max_body` of the gateway, {self._settings.max_body:,} bytes")


def get_path(scope: Scope) -> str:
    """Returns the path of a request as the client wrote it."""
    return str(scope.get("raw_path", scope["path"].encode()).decode("latin-1").partition("?")[0])


def _is_sent_as_json(headers: RawHeaders) -> bool:
    """Whether a body is sent as JSON or without a type. A page may send a text unasked, whatever it adds to that."""
    types = (value.decode("latin-1") for name, value in headers if name.lower() == b"content-type")
    return all(each.partition(";")[0].strip().lower() == "application/json" for each in types)


def unpack_bytes(body: bytes, encodings: str, limit: int) -> bytes | None:
    """Returns a body without its encodings, as the header `content-encoding` lists them.

    None if one of them is not known here or the body is none of that kind. Of what is larger than `limit`, a byte more
    is returned, and no more is ever unpacked.
    """
    names = [name for each in encodings.split(",") if (name := each.strip().lower()) not in ("", "identity")]
    if len(names) > MAX_ENCODINGS or not all(name in _UNPACKERS for name in names):
        return None
    for name in reversed(names):
        try:
            body = _UNPACKERS[name](body, limit)
        except (OSError, EOFError, zlib.error, zstandard.ZstdError):
            return None
        if len(body) > limit:
            break
    return body[: limit + 1]


def _unpack_gzip(body: bytes, limit: int) -> bytes:
    with gzip.GzipFile(fileobj=io.BytesIO(body)) as file:
        return file.read(limit + 1)


def _unpack_deflate(body: bytes, limit: int) -> bytes:
    """Unpacks what HTTP calls deflate: a frame of zlib. Some send what is in it alone."""
    try:
        return zlib.decompressobj().decompress(body, limit + 1)
    except zlib.error:
        return zlib.decompressobj(wbits=-zlib.MAX_WBITS).decompress(body, limit + 1)


def _unpack_zstd(body: bytes, limit: int) -> bytes:
    with zstandard.ZstdDecompressor().stream_reader(body, read_across_frames=True) as reader:
        out = bytearray()
        while len(out) <= limit and (chunk := reader.read(min(limit + 1 - len(out), 1 << 20))):
            out += chunk
        return bytes(out)


_UNPACKERS: Mapping[str, Callable[[bytes, int], bytes]] = {
    "gzip": _unpack_gzip,
    "x-gzip": _unpack_gzip,
    "deflate": _unpack_deflate,
    "zstd": _unpack_zstd,
}
"""What unpacks each encoding, up to a byte more than a limit."""
