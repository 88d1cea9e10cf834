"""Which file a tool call touches, and how: knowledge of tools' names and argument keys, as tables."""

from __future__ import annotations

from typing import Literal

import msgspec

from tenfold.record.message import ToolCall

Act = Literal["read", "write", "edit"]

PATH_KEYS = ("file_path", "path", "absolute_path", "filename", "file", "target_file", "notebook_path")
"""Argument keys that hold a path, most telling first (Claude Code, pi, Gemini CLI, OpenHands, cline)."""

_ACTS: dict[str, Act] = {
    **dict.fromkeys(("read", "read_file", "view", "cat", "open", "view_file", "readfile"), "read"),
    **dict.fromkeys(("write", "write_file", "create", "create_file", "write_to_file", "save_file"), "write"),
    **dict.fromkeys(
        ("edit", "edit_file", "replace", "str_replace", "multiedit", "replace_in_file", "insert", "editor",
         "notebookedit", "apply_diff", "undo_edit"),
        "edit",
    ),
}
_COMMANDED = ("str_replace_editor", "str_replace_based_edit_tool", "text_editor")


def arguments_of(call: ToolCall) -> dict[str, object]:
    """The call's arguments as a mapping, empty when they are not a JSON object."""
    try:
        value: object = msgspec.json.decode(call.arguments.encode())
    except msgspec.DecodeError:
        return {}
    return {str(k): v for k, v in value.items()} if isinstance(value, dict) else {}


def touched(call: ToolCall) -> tuple[Act, str] | None:
    """What the call does to which file, None for calls that name none."""
    name = call.name.lower().rsplit(".", 1)[-1]
    arguments = arguments_of(call)
    if name in _COMMANDED:
        command = arguments.get("command")
        name = command if isinstance(command, str) else ""
    act = _ACTS.get(name)
    if act is None:
        return None
    for key in PATH_KEYS:
        value = arguments.get(key)
        if isinstance(value, str) and value:
            return act, value
    return None
