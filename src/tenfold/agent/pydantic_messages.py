"""Converts pydantic-ai's messages to ours and back. Where nothing was replaced, the original objects come back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter

from tenfold.record.message import Message
from tenfold.wire.marks import SummaryConfirmer
from tenfold.wire.pydantic_ai import WIRE

MessagesByJson = Mapping[bytes, ModelMessage]
"""An agent's messages, keyed by their JSON."""


class MessageReader:
    """Reads an agent's message lists.

    An agent sends its whole list with every call, so each object is decoded once and cached.
    """

    def __init__(self, confirm: SummaryConfirmer | None = None) -> None:
        """`confirm` recognizes the summaries that we wrote ourselves."""
        self._confirm = confirm
        self._cache: dict[tuple[int, int], tuple[ModelMessage, bytes, list[Message]]] = {}

    def read(self, messages: Sequence[ModelMessage]) -> tuple[list[Message], MessagesByJson]:
        """Returns the list as our messages, and the list's objects keyed by the JSON they were read from."""
        cache: dict[tuple[int, int], tuple[ModelMessage, bytes, list[Message]]] = {}
        for each in messages:
            key = (id(each), len(each.parts))  # parts may still be added to the newest message
            cache[key] = self._cache.get(key) or self._decode(each)
        self._cache = cache
        objects = {raw: each for each, raw, _ in cache.values()}
        return [m for each in messages for m in cache[id(each), len(each.parts)][2]], objects

    def _decode(self, message: ModelMessage) -> tuple[ModelMessage, bytes, list[Message]]:
        raw = ModelMessagesTypeAdapter.dump_json([message])[1:-1]
        return message, raw, WIRE.decode([raw], confirm=self._confirm)


def encode_messages(messages: Sequence[Message], objects: MessagesByJson) -> list[ModelMessage]:
    """Encodes our messages as an agent's list. An unchanged message comes back as its own object in `objects`."""
    items = [item.raw for item in WIRE.encode(messages).items]
    new = [raw for raw in items if raw not in objects]
    new_objects = dict(zip(new, ModelMessagesTypeAdapter.validate_json(b"[" + b",".join(new) + b"]"), strict=True))
    return [objects[raw] if raw in objects else new_objects[raw] for raw in items]
