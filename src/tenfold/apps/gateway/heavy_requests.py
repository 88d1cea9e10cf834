"""Requests so large that looking at them would keep every other client waiting: in threads, a few at a time, or not."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import islice

from tenfold.apps.gateway.model_request import ModelRequest, count_marks, parse_request
from tenfold.apps.gateway.unchanged import NO_CALL
from tenfold.core.record.message import Document, Image, Message, OpaquePart, ToolResult

LARGE_BODY = 8 * 1024 * 1024
"""Bytes of a body from which on it is heavy."""
MANY_VALUES = 30_000
"""JSON values in a body from which on it is heavy: messages, their parts, calls, tools and the fields of all these."""
MAX_VALUES = 150_000
"""Values of a body that are looked at. 50,000 messages have so many, if each is one text."""
PLACES = 2
"""How many heavy requests are looked at at a time."""
MAX_TEXT = 16 * 1024 * 1024
"""Bytes of text in a message, or beside the list, that are looked at. No window holds half as much."""
_VALUE = re.compile(rb'(?:[^",\[{]++|"(?:[^"\\]++|\\.?)*+"?)*+(?:[,\[{]|\Z)', re.DOTALL)
"""A value up to the comma behind it, or the bracket that opens it. In a text, neither begins or ends a value."""


class HeavyRequests:
    """Lets a few heavy requests at a time be looked at. The others wait, and light ones wait for none."""

    def __init__(self) -> None:
        """To be made once for a gateway."""
        self._places = asyncio.Semaphore(PLACES)

    @asynccontextmanager
    async def hold(self, request: ModelRequest) -> AsyncIterator[str]:
        """Waits for a place, and yields why the request is too large to be looked at at all, "" if it is not."""
        if not is_heavy(request):
            yield ""
            return
        async with self._places:
            yield await asyncio.to_thread(find_excess, request)


async def read_call(path: str, body: bytes) -> tuple[ModelRequest | None, str]:
    """Returns the call to a model that a path and a body are, else None and why it is not looked at."""
    most_values = count_marks(body)
    if len(body) > LARGE_BODY or most_values > MANY_VALUES:
        if excess := await asyncio.to_thread(find_bulk, body, most_values):
            return None, excess
        request = await asyncio.to_thread(parse_request, path, body, most_values)
    else:
        request = parse_request(path, body, most_values)
    return request, "" if request is not None else NO_CALL


def is_heavy(request: ModelRequest) -> bool:
    """Whether a request is worked on in threads alone."""
    if len(request.body) > LARGE_BODY:
        return True
    return request.most_values > MANY_VALUES and _has_more_values(request.body, MANY_VALUES)


def find_bulk(body: bytes, most_values: int) -> str:
    """Says why a body has too many values to be parsed, however small they are. "" if it has not."""
    if most_values <= MAX_VALUES or not _has_more_values(body, MAX_VALUES):
        return ""
    return f"a body of too many values (messages, parts, fields): {MAX_VALUES:,} are looked at at most"


def _has_more_values(body: bytes, limit: int) -> bool:
    """Whether a body of JSON has more than `limit` values. No more than that is counted."""
    return sum(1 for _ in islice(_VALUE.finditer(body), limit + 1)) > limit


def find_excess(request: ModelRequest) -> str:
    """Says why a request is too large to be looked at. "" if it is not. Images and files count nothing."""
    if bulk := find_bulk(request.body, request.most_values):
        return bulk
    beside = max((len(bytes(raw)) for name, raw in request.fields.items() if name != request.list_field), default=0)
    heavy = (at for at, item in enumerate(request.items) if len(item) > MAX_TEXT)
    sizes = (_measure_text(request.items[at], request.decode_item(at)) for at in heavy)
    most = max((beside, *sizes))
    return f"{most:,} bytes of text in one place: {MAX_TEXT:,} are looked at at most" if most > MAX_TEXT else ""


def _measure_text(item: bytes, messages: list[Message]) -> int:
    """Counts the bytes of an item without what is no text."""
    parts = [part for message in messages for part in message.parts]
    parts += [each for part in parts if isinstance(part, ToolResult) for each in part.content]
    media = sum(len(part.data) for part in parts if isinstance(part, Image | Document))
    return len(item) - media - sum(len(part.raw) for part in parts if isinstance(part, OpaquePart))
