"""pydantic-ai's messages as ours and back: the very objects where nothing was replaced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter

from tenfold.record.message import Message
from tenfold.wire.marks import Confirm
from tenfold.wire.pydantic_ai import PydanticAI

WIRE = PydanticAI()
Objects = Mapping[bytes, ModelMessage]
"""An agent's messages by their JSON."""


class Reader:
    """Reads an agent's lists. An agent sends its whole list at every call: each object of it is read once."""

    def __init__(self, confirm: Confirm | None = None) -> None:
        """`confirm` knows our own summaries."""
        self._confirm = confirm
        self._known: dict[tuple[int, int], tuple[ModelMessage, bytes, list[Message]]] = {}

    def read(self, messages: Sequence[ModelMessage]) -> tuple[list[Message], Objects]:
        """The list as ours, and its objects by what they were read from."""
        known: dict[tuple[int, int], tuple[ModelMessage, bytes, list[Message]]] = {}
        for each in messages:
            key = (id(each), len(each.parts))  # parts may be added to the newest one
            known[key] = self._known.get(key) or self._read(each)
        self._known = known
        objects = {raw: each for each, raw, _ in known.values()}
        return [m for each in messages for m in known[id(each), len(each.parts)][2]], objects

    def _read(self, message: ModelMessage) -> tuple[ModelMessage, bytes, list[Message]]:
        raw = ModelMessagesTypeAdapter.dump_json([message])[1:-1]
        return message, raw, WIRE.decode([raw], confirm=self._confirm)


def encoded(messages: Sequence[Message], objects: Objects) -> list[ModelMessage]:
    """Ours as an agent's list. What stands in it untouched is the object it came from, if that is among `objects`."""
    items = [item.raw for item in WIRE.encode(messages).items]
    made = [raw for raw in items if raw not in objects]
    new = dict(zip(made, ModelMessagesTypeAdapter.validate_json(b"[" + b",".join(made) + b"]"), strict=True))
    return [objects[raw] if raw in objects else new[raw] for raw in items]
