"""Requests so large that looking at them would keep every other client waiting: in threads, a few at a time, or not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tenfold.gateway.model_request import ModelRequest
from tenfold.record.message import Document, Image, Message, OpaquePart, ToolResult
from tenfold.wire import get_wire

LARGE_BODY = 8 * 1024 * 1024
"""Bytes of a body from which on it is heavy."""
MANY_MESSAGES = 5_000
"""Messages of a list from which on it is heavy."""
PLACES = 2
"""How many heavy requests are looked at at a time."""
MAX_TEXT = 16 * 1024 * 1024
"""Bytes of text in a message, or beside the list, that are looked at. No window holds half as much."""
MAX_MESSAGES = 50_000
"""Messages of a list that are looked at."""


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


def is_heavy(request: ModelRequest) -> bool:
    """Whether a request is worked on in threads alone."""
    return len(request.body) > LARGE_BODY or len(request.items) > MANY_MESSAGES


def find_excess(request: ModelRequest) -> str:
    """Says why a request is too large to be looked at. "" if it is not. Images and files count nothing."""
    if len(request.items) > MAX_MESSAGES:
        return f"a list of {len(request.items):,} messages: {MAX_MESSAGES:,} are looked at at most"
    beside = max((len(bytes(raw)) for name, raw in request.fields.items() if name != request.list_field), default=0)
    wire = get_wire(request.wire)
    sizes = (_measure_text(item, wire.decode([item])) for item in request.items if len(item) > MAX_TEXT)
    most = max((beside, *sizes))
    return f"{most:,} bytes of text in one place: {MAX_TEXT:,} are looked at at most" if most > MAX_TEXT else ""


def _measure_text(item: bytes, messages: list[Message]) -> int:
    """Counts the bytes of an item without what is no text."""
    parts = [part for message in messages for part in message.parts]
    parts += [each for part in parts if isinstance(part, ToolResult) for each in part.content]
    media = sum(len(part.data) for part in parts if isinstance(part, Image | Document))
    return len(item) - media - sum(len(part.raw) for part in parts if isinstance(part, OpaquePart))
