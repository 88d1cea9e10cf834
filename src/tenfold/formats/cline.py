"""cline sessions: messages of Anthropic's API in an envelope, or the bare list of a task, named by its folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tenfold.formats.file_shape import FileShape, inspect_shape
from tenfold.formats.message_list import MessageListFormat
from tenfold.store.base import SessionInfo

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
