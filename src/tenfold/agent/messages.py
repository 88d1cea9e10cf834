"""Converts pydantic-ai's messages to ours and back. Where nothing was replaced, the original objects come back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter

from tenfold.record.message import Message
from tenfold.wire.marks import Confirm
from tenfold.wire.pydantic_ai import PydanticAI

WIRE = PydanticAI()
Objects = Mapping[bytes, ModelMessage]
"""An agent's messages, keyed by their JSON."""


class Reader:
    """Reads an agent's message lists.

    An agent sends its whole list with every call, so each object is decoded once and cached.
    """

    def __init__(self, confirm: Confirm | None = None) -> None:
        """`confirm` recognizes the summaries that we wrote ourselves."""
        self._confirm = confirm
        self._known: dict[tuple[int, int], tuple[ModelMessage, bytes, list[Message]]] = {}

    def read(self, messages: Sequence[ModelMessage]) -> tuple[list[Message], Objects]:
        """Returns the list as our messages, and the list's objects keyed by the JSON they were read from."""
        cache: dict[tuple[int, int], tuple[ModelMessage, bytes, list[Message]]] = {}
        for each in messages:
            key = (id(each), len(each.parts))  # parts may still be added to the newest message
            cache[key] = self._known.get(key) or self._read(each)
        self._known = cache
        objects = {raw: each for each, raw, _ in cache.values()}
        return [m for each in messages for m in cache[id(each), len(each.parts)][2]], objects

    def _read(self, message: ModelMessage) -> tuple[ModelMessage, bytes, list[Message]]:
        raw = ModelMessagesTypeAdapter.dump_json([message])[1:-1]
        return message, raw, WIRE.decode([raw], confirm=self._confirm)


def encoded(messages: Sequence[Message], objects: Objects) -> list[ModelMessage]:
    """Encodes our messages as an agent's list. An unchanged message comes back as its own object in `objects`."""
    items = [item.raw for item in WIRE.encode(messages).items]
    new = [raw for raw in items if raw not in objects]
    new_objects = dict(zip(new, ModelMessagesTypeAdapter.validate_json(b"[" + b",".join(new) + b"]"), strict=True))
    return [objects[raw] if raw in objects else new_objects[raw] for raw in items]
