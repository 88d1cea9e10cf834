"""The body of an upstream's response: passed on as it comes, and read up to a bound where it has to be understood."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx

from tenfold.apps.gateway.incoming_request import unpack_bytes

_KEY = "tenfold_body"
MAX_ERROR = 64 * 1024
"""Bytes of an error that are read, unpacked. What it says stands at its beginning."""


class UpstreamBody:
    """The body of a response. What was read of it is kept and passed on with the rest, so nothing is lost.

    body = UpstreamBody.open(response)
    beginning = await body.read(MAX_ERROR)
    async for chunk in body.iterate(): ...  # all of it, as it came
    """

    def __init__(self, response: httpx.Response) -> None:
        """Each response has one: see `open`."""
        self._encodings = response.headers.get("content-encoding", "")
        self._begun = bytearray()
        self._rest: AsyncIterator[bytes] | None = None
        if response.is_stream_consumed:  # one of the gateway's own
            self._begun += response.content
        else:
            self._rest = response.aiter_raw()
        self.fault: httpx.HTTPError | None = None

    @classmethod
    def open(cls, response: httpx.Response) -> UpstreamBody:
        """Returns the body of a response, the same one each time."""
        body: UpstreamBody | None = response.extensions.get(_KEY)
        if body is None:
            body = response.extensions[_KEY] = cls(response)
        return body

    async def read(self, limit: int) -> bytes | None:
        """Returns what the body says, without its encodings: at most `limit` bytes, one more if it is longer.

        Not more than that is read. None if nobody can tell what it says. `fault` is set if the upstream breaks off.
        """
        while self._rest is not None and len(self._begun) <= limit:
            try:
                self._begun += await anext(self._rest)
            except StopAsyncIteration:
                self._rest = None
            except httpx.HTTPError as exc:
                self.fault, self._rest = exc, None
        return await asyncio.to_thread(unpack_bytes, bytes(self._begun), self._encodings, limit)

    async def iterate(self) -> AsyncIterator[bytes]:
        """Yields the whole body as it came. Raises `httpx.HTTPError` where the upstream breaks off."""
        if self._begun:
            yield bytes(self._begun)
        if self.fault is not None:
            raise self.fault
        if self._rest is not None:
            async for chunk in self._rest:
                yield chunk
