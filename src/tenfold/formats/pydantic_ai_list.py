"""Messages of pydantic-ai as `ModelMessagesTypeAdapter` dumps them, in a file. docs/formats/frameworks.md has more."""

from __future__ import annotations

from typing import Any

from tenfold.formats.file_shape import FileShape
from tenfold.formats.message_list import MessageListFormat, find_messages
from tenfold.wire.foreign_shapes import find_shape
from tenfold.wire.pydantic_ai import NAME


class PydanticAiList(MessageListFormat):
    """Reads and writes lists of requests and responses."""

    paths = (("messages",), ("message_history",), ("all_messages",))

    def __init__(self) -> None:
        super().__init__(NAME, NAME, self._has_message)

    def is_item(self, value: dict[str, Any]) -> bool:
        """Returns whether a value is a request or a response."""
        shape = find_shape(value)
        return shape is not None and shape.format == NAME

    def _has_message(self, shape: FileShape) -> bool:
        return any(
            isinstance(v, dict) and self.is_item(v) for v in (*find_messages(shape), *self._iterate_values(shape))
        )
