"""A request as it came in: its body is read up to a limit, and unpacked up to the same limit if it came compressed."""

from __future__ import annotations

import asyncio
import gzip
import io
import zlib
from collections.abc import Callable, Mapping

import zstandard
from msgspec import Struct
from starlette.types import Message as AsgiMessage
from starlette.types import Receive

RawHeaders = list[tuple[bytes, bytes]]
ENCODING_HEADER = "content-encoding"
NO_JSON = "the body is JSON: send it with the header content-type: application/json"
MAX_ENCODINGS = 4
"""Encodings one in the other that are unpacked. Clients use one."""


class BodyTooLarge(Exception):
    """The body of a request is larger than the gateway takes, as it came or unpacked."""


class ClientGone(Exception):
    """The client closed its connection before it had its response."""


class BodyTooSlow(Exception):
    """No byte of a body came for as long as the gateway waits."""


class IncomingRequest(Struct, frozen=True):
    """A request as it came in. `body` are the bytes that came, and `plain` what they say: None if nobody can tell.

    `tenant` is a digest of who sends it: see `digest_credentials`.
    """

    method: str
    path: str
    query: str
    raw_headers: RawHeaders
    headers: Mapping[str, str]
    tenant: str
    body: bytes
    plain: bytes | None

    @property
    def encodings(self) -> str:
        """The encodings in which the body came, "" without one."""
        return self.headers.get(ENCODING_HEADER, "")


def list_types(headers: RawHeaders) -> list[str]:
    """Returns the content types that the headers of a request name, usually one."""
    return [value.decode("latin-1") for name, value in headers if name.lower() == b"content-type"]


def is_json(content_type: str) -> bool:
    """Whether a body is sent as JSON. A page of a browser may send a text unasked, whatever it adds to the type."""
    return content_type.partition(";")[0].strip().lower() == "application/json"


def join_headers(raw_headers: RawHeaders) -> dict[str, str]:
    """Returns the headers by their names in lower case. What comes several times is one value, as HTTP has it."""
    out: dict[str, str] = {}
    for raw_name, raw_value in raw_headers:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        out[name] = f"{out[name]}{'; ' if name == 'cookie' else ', '}{value}" if name in out else value
    return out


async def read_body(receive: Receive, limit: int, seconds: float) -> bytes:
    """Reads the body of a request.

    Raises `BodyTooLarge` above `limit` bytes, `BodyTooSlow` after so many seconds without a byte, and `ClientGone` if
    the client leaves.
    """
    chunks: list[bytes] = []
    size = 0
    while True:
        try:
            message: AsgiMessage = await asyncio.wait_for(receive(), seconds)
        except TimeoutError as exc:
            raise BodyTooSlow from exc
        if message["type"] == "http.disconnect":
            raise ClientGone
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise BodyTooLarge
        chunks.append(chunk)
        if not message.get("more_body"):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def unpack_body(body: bytes, encodings: str, limit: int) -> bytes | None:
    """Returns a body without its encodings, as the header `content-encoding` lists them.

    None if one of them is not known here or the body is none of that kind. Raises `BodyTooLarge` above `limit` bytes.
    """
    plain = await asyncio.to_thread(unpack_bytes, body, encodings, limit) if encodings else body
    if plain is not None and len(plain) > limit:
        raise BodyTooLarge
    return plain


def unpack_bytes(body: bytes, encodings: str, limit: int) -> bytes | None:
    """Returns what `unpack_body` returns, and a byte more than `limit` of what is larger. No more is ever unpacked."""
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
