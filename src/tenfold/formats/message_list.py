"""Plain lists of provider messages: an array, an object that holds one, or one message per line.

One class serves the four wire formats and the session files that are such a list inside an envelope: cline, logged
OpenHands requests, Gemini CLI checkpoints. See docs/formats/messages.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tenfold.core.record.entry import Usage
from tenfold.core.record.message import NativeBytes
from tenfold.core.wire.foreign_shapes import has_shape
from tenfold.errors import UnknownRole
from tenfold.formats.envelopes import decode_messages, encode_messages, find_wire, wrap_messages
from tenfold.formats.file_shape import FileShape, inspect_shape
from tenfold.formats.item_lists import ItemListFormat
from tenfold.formats.json_items import JsonItem, get_object
from tenfold.formats.json_lines import LineFile
from tenfold.formats.output_pieces import OutputPiece
from tenfold.formats.session_draft import SessionDraft, build_usage, find_timestamp
from tenfold.store.base import SessionInfo

LIST_KEYS = ("messages", "contents", "history", "input", "conversations", "message_history", "all_messages")
ShapeTest = Callable[[FileShape], bool]


def find_messages(shape: FileShape) -> Sequence[Any]:
    """Finds the messages in the shape of a file, wherever the file keeps them."""
    values = shape.items or shape.lines
    found = []
    for value in values:
        lists = [value[key] for key in LIST_KEYS if isinstance(value.get(key), list)] if isinstance(value, dict) else []
        if not lists or "role" in value or "type" in value:
            return values
        found += lists[0]
    return found


class MessageListFormat(ItemListFormat):
    """A list of messages in one wire format. `shape_test` recognizes the files of this format.

    `opaque_kinds` are those of `SessionFormat`.
    """

    paths = tuple((key,) for key in LIST_KEYS)
    session_keys = ("sessionId", "scenarioId")

    def __init__(self, name: str, wire: str, shape_test: ShapeTest, opaque_kinds: Sequence[str] = ()) -> None:
        self.name, self._wire, self.opaque_kinds = name, wire, opaque_kinds
        self._shape_test = shape_test

    def can_read(self, head: bytes, name: str) -> bool:  # noqa: ARG002 - the content tells
        """Looks at the first messages."""
        return self._shape_test(inspect_shape(head))

    def is_item(self, value: dict[str, Any]) -> bool:
        """Returns whether a value is a message and no object with messages."""
        return "role" in value or has_shape(value, self.name)

    def add_items(self, draft: SessionDraft, items: Sequence[JsonItem], file: str, source: LineFile | None) -> None:  # noqa: ARG002 - a list is decoded as a whole
        """Decodes messages. An answer may be several items."""
        objects = [item.get_object(file) for item in items]
        try:
            decoded_messages = list(decode_messages(self._wire, [item.raw for item in items]))
        except UnknownRole as exc:
            raise UnknownRole(f"{file}: {exc}; correct it, or name another --format") from exc
        place = 0
        for decoded in decoded_messages:
            item, value = items[place], objects[place]
            others = items[place + 1 : place + decoded.item_count]
            place += decoded.item_count
            body = item.raw + b"".join(other.lead + other.raw for other in others)
            native = NativeBytes(self.name, body, item.lead, group=f"{item.number}")
            draft.start_item(
                item.number, source_id=_get_id(value, self._wire), timestamp=find_timestamp(value), place=item.place
            )
            draft.add_messages(wrap_messages(decoded.messages, native), _parse_usage(value))

    def read_info(self, top: Mapping[str, Any], file: str) -> SessionInfo:
        """Reads the model from a response beside the list, too."""
        info = super().read_info(top, file)
        match top.get("response"):
            case {"model": str(model)}:
                info = replace(info, model=model)
        return replace(info, title=str(top.get("description") or ""))

    def render_items(self, piece: OutputPiece) -> list[bytes]:
        """Encodes messages."""
        return encode_messages(self._wire, piece.messages)


def _get_id(value: Mapping[str, Any], wire: str) -> str:
    """Returns the id of a message, or "". The items of a split answer may repeat their ids, so those are ignored."""
    message_id = value.get("id")
    return message_id if isinstance(message_id, str) and not find_wire(wire).profile.splits_answers else ""


def _parse_usage(value: Mapping[str, Any]) -> Usage | None:
    """Parses the usage that cline stores with an answer. Its input tokens include the cached ones."""
    keys = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
    return build_usage(value.get("metrics"), keys, get_object(value, "modelInfo").get("id"))


TASK_FILE = "api_conversation_history.json"
"""What holds the messages of a task, in `tasks/ID/`."""


class Cline(MessageListFormat):
    """Reads and writes the message files of cline, and of the tasks that it kept before it had sessions."""

    def __init__(self) -> None:
        super().__init__("cline", "anthropic", _is_session)

    def can_read(self, head: bytes, name: str) -> bool:
        """Looks for cline's envelope. A task is a plain list, so that its file's name tells."""
        items = inspect_shape(head).items
        is_task = name == TASK_FILE and bool(items) and all(isinstance(v, dict) and "role" in v for v in items)
        return is_task or super().can_read(head, name)

    def read_info(self, top: Mapping[str, Any], file: str) -> SessionInfo:
        """Takes the id of a task from its folder."""
        info, path = super().read_info(top, file), Path(file)
        if path.name != TASK_FILE or path.parent.parent.name != "tasks":
            return info
        return replace(info, id=path.parent.name, source_id=path.parent.name)


def _is_session(shape: FileShape) -> bool:
    return (
        isinstance(shape.members.get("messages"), list)
        and "sessionId" in shape.members
        and "projectHash" not in shape.members
    )
