"""Plain lists of provider messages: an array, an object that holds one, or one message per line.

One class serves the four wire formats and the session files that are such a list inside an envelope: cline, logged
OpenHands requests, Gemini CLI checkpoints. See docs/formats/messages.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

from msgspec.structs import replace

from tenfold.errors import BadInput, UnknownRole
from tenfold.formats.base import ExportItem, ParsedSession, SessionFormat
from tenfold.formats.envelopes import decode_messages, encode_messages, wrap_messages
from tenfold.formats.file_shape import FileShape, inspect_shape
from tenfold.formats.json_items import JsonItem, parse_array, parse_document
from tenfold.formats.json_lines import LineFile
from tenfold.formats.output_pieces import OutputPiece, build_pieces, join_lines, render_array, render_pieces
from tenfold.formats.session_draft import SessionDraft, build_sessions, parse_token_count
from tenfold.record.entry import Usage
from tenfold.record.message import NativeBytes
from tenfold.store.base import SessionInfo
from tenfold.wire import WIRES

LIST_KEYS = ("messages", "contents", "history", "input")
ShapeTest = Callable[[FileShape], bool]


def find_messages(shape: FileShape) -> Sequence[Any]:
    """Finds the messages in the shape of a file, wherever the file keeps them."""
    if shape.items:
        return shape.items
    return next((shape.members[k] for k in LIST_KEYS if isinstance(shape.members.get(k), list)), shape.lines)


class MessageListFormat(SessionFormat):
    """A list of messages in one wire format. `shape_test` recognizes the files of this format."""

    def __init__(self, name: str, wire: str, shape_test: ShapeTest) -> None:
        self.name = name
        self._wire = wire
        self._shape_test = shape_test

    def can_read(self, head: bytes, name: str) -> bool:  # noqa: ARG002 - the content tells
        """Looks at the first messages."""
        return self._shape_test(inspect_shape(head))

    def read(self, data: bytes, *, file: str, skip_damaged: bool) -> list[ParsedSession]:
        """Parses the one conversation of the file."""
        shape = inspect_shape(data)
        if len(shape.lines) > 1 or (shape.lines and not any(k in shape.lines[0] for k in LIST_KEYS)):
            return self._read_lines(data, file, skip_damaged=skip_damaged)
        top = parse_document(data, file)
        fields: dict[str, Any] = {}
        key = ""
        if isinstance(top, dict):
            fields, key = top, next((k for k in LIST_KEYS if isinstance(top.get(k), list)), LIST_KEYS[0])
        elif not isinstance(top, list):
            raise BadInput(f"{file}: neither a list of messages nor an object with one; is this the right --format?")
        array = parse_array(data, key, file)
        draft = SessionDraft(file, "element")
        self._add_items(draft, array.elements, file)
        info = self._read_info(fields, file)
        return build_sessions([draft], [replace(info, prefix=array.before, suffix=array.after)])

    def _read_lines(self, data: bytes, file: str, *, skip_damaged: bool) -> list[ParsedSession]:
        source = LineFile(data, file=file, skip_damaged=skip_damaged)
        draft = SessionDraft(file)
        for is_damaged, lines in groupby(source.lines, lambda line: bool(line.problem)):
            if not is_damaged:
                self._add_items(draft, list(lines), file)
                continue
            for line in lines:
                draft.start_item(line.number, place=line.place)
                draft.add_damaged(line.problem, line.to_native(self.name))
        info = SessionInfo("", self.name, file, prefix=source.before, suffix=source.after)
        return build_sessions([draft], [info], source.problems)

    def _add_items(self, draft: SessionDraft, items: Sequence[JsonItem], file: str) -> None:
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
                item.number, source_id=_get_id(value, self._wire), timestamp=value.get("ts"), place=item.place
            )
            draft.add_messages(wrap_messages(decoded.messages, native), _parse_usage(value))

    def _read_info(self, top: Mapping[str, Any], file: str) -> SessionInfo:
        session = top.get("sessionId") or top.get("scenarioId") or ""
        model = top.get("model")
        match top.get("response"):
            case {"model": str(response_model)}:
                model = response_model
        return SessionInfo(
            str(session), self.name, file, str(top.get("description") or ""), str(model or ""), source_id=str(session)
        )

    def render_body(self, info: SessionInfo, items: Sequence[ExportItem]) -> bytes:
        """Renders the list with the bytes around it in its file."""
        is_array = info.prefix.rstrip().endswith(b"[")

        def render(piece: OutputPiece) -> bytes:
            return (b",\n" if is_array else b"\n").join(encode_messages(self._wire, piece.messages))

        if is_array:
            return render_array(info, items, self.name, render)
        return join_lines(info, render_pieces(build_pieces(items, self.name), render))

    def build_info(self, session_id: str) -> SessionInfo:
        """Builds an array."""
        return SessionInfo(session_id, self.name, prefix=b"[", suffix=b"]\n")


def _get_id(value: Mapping[str, Any], wire: str) -> str:
    """Returns the id of a message, or "". The items of a split answer may repeat their ids, so those are ignored."""
    message_id = value.get("id")
    return message_id if isinstance(message_id, str) and not WIRES[wire].profile.splits_answers else ""


def _parse_usage(value: Mapping[str, Any]) -> Usage | None:
    """Parses the usage that cline stores with an answer. Its input tokens include the cached ones."""
    match value.get("metrics"):
        case {"inputTokens": int(prompt), "outputTokens": int(output), **rest} if prompt > 0:
            model = value["modelInfo"].get("id", "") if isinstance(value.get("modelInfo"), dict) else ""
            read, written = (
                parse_token_count(rest.get("cacheReadTokens")),
                parse_token_count(rest.get("cacheWriteTokens")),
            )
            return Usage(prompt, output, read, written, str(model))
    return None
