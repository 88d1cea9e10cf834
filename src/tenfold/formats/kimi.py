"""Sessions of the Kimi CLI: `context.jsonl`, messages of OpenAI Chat between marks of its own.

docs/formats/agents.md describes the mapping.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tenfold.core.record.message import Message, get_text, get_tool_calls, get_tool_result
from tenfold.errors import UnknownRole
from tenfold.formats.content_blocks import (
    list_texts,
    make_answer,
    make_prompt,
    make_result,
    parse_blocks,
    render_arguments,
)
from tenfold.formats.item_lists import Record, RecordFormat, RecordRules
from tenfold.formats.json_items import get_object, list_objects
from tenfold.formats.message_parts import dump_json, parse_call
from tenfold.store.base import SessionInfo

_FILE = "context.jsonl"
_MARKS = ("_checkpoint", "_usage")


def _parse(value: dict[str, Any]) -> Record:
    role, content = value.get("role"), value.get("content")
    if role in _MARKS:
        return Record(kind=str(role))
    if role == "assistant":
        functions = [(c.get("id"), get_object(c, "function")) for c in list_objects(value, "tool_calls")]
        calls = [parse_call(id_, f.get("name"), f.get("arguments")) for id_, f in functions]
        return Record([make_answer([*parse_blocks(content), *calls])])
    if role == "tool":
        return Record([make_result(value.get("tool_call_id"), value.get("name"), content)])
    if role not in ("user", "system", "_system_prompt"):
        raise UnknownRole(str(role))
    prompt = make_prompt("user" if role == "user" else "system", parse_blocks(content))
    text = get_text(prompt).strip()
    is_injected = text.startswith("<system>") and text.endswith("</system>")
    return Record([replace(prompt, origin="harness") if is_injected else prompt])


def _render(messages: Sequence[Message]) -> list[dict[str, Any]]:
    out = []
    for message in messages:
        result, calls = get_tool_result(message), get_tool_calls(message)
        line: dict[str, Any] = {"role": message.role, "content": "\n".join(list_texts(message))}
        if result is not None:
            line |= {"content": get_text(message), "tool_call_id": result.call_id}
        if calls:
            line["tool_calls"] = [
                {
                    "type": "function",
                    "id": c.id,
                    "function": {"name": c.name, "arguments": dump_json(render_arguments(c)).decode()},
                }
                for c in calls
            ]
        out.append(line)
    return out


class Kimi(RecordFormat):
    """Reads and writes the contexts of the Kimi CLI. The folder of the file names the session."""

    def read_info(self, top: Mapping[str, Any], file: str) -> SessionInfo:
        """Takes the id from the folder."""
        path = Path(file)
        own = path.parent.name if path.name == _FILE else ""
        return replace(super().read_info(top, file), id=own, source_id=own)


KIMI = Kimi(
    "kimi",
    RecordRules(
        is_item=lambda value: value.get("role") in (*_MARKS, "_system_prompt"),
        parse=_parse,
        render=_render,
        paths=(),
        session_keys=(),
        id_key="",
        frame=(b"", b"\n"),
    ),
)
"""The one reader of such files."""
