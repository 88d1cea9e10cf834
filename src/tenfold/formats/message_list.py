"""Plain lists of provider messages: an array, an object that holds one, or one message per line.

One class serves the four wire formats and the session files that are such a list inside an envelope: cline, logged
OpenHands requests, Gemini CLI checkpoints. See docs/formats/messages.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from tenfold.errors import BadInput, UnknownRole
from tenfold.formats.base import ExportItem, ParsedSession
from tenfold.formats.envelopes import decode_messages, encode_messages, is_continuation, wrap_messages
from tenfold.formats.file_shape import FileShape, inspect_shape
from tenfold.formats.json_arrays import ArrayElement, find_array, parse_array
from tenfold.formats.json_lines import JsonLine, add_damaged_line, parse_lines
from tenfold.formats.json_spans import parse_document
from tenfold.formats.output_pieces import OutputPiece, build_pieces, join_array, join_lines, render_pieces
from tenfold.formats.session_draft import SessionDraft, build_sessions, parse_micros, parse_token_count
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
    listed_under_key = next((shape.members[k] for k in LIST_KEYS if isinstance(shape.members.get(k), list)), None)
    return listed_under_key if listed_under_key is not None else shape.lines


class MessageListFormat:
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
        text, top = parse_document(data, file)
        if isinstance(top.value, list):
            start = top.start
        elif isinstance(top.value, dict):
            key = next((k for k in LIST_KEYS if isinstance(top.value.get(k), list)), LIST_KEYS[0])
            start = find_array(text, top, key, file).start
        else:
            raise BadInput(f"{file}: neither a list of messages nor an object with one; is this the right --format?")
        elements = parse_array(text, start)
        draft = SessionDraft()
        self._add_elements(draft, elements.elements, file)
        info = self._build_info(top.value if isinstance(top.value, dict) else {}, file)
        return build_sessions([draft], [replace(info, prefix=elements.before, suffix=elements.after)])

    def _read_lines(self, data: bytes, file: str, *, skip_damaged: bool) -> list[ParsedSession]:
        before, parsed, after = parse_lines(data, file=file, skip_damaged=skip_damaged)
        draft = SessionDraft()
        pending: list[ArrayElement] = []
        for line in parsed:
            if line.problem:
                self._add_elements(draft, pending, file)
                pending = []
                draft.line_number = line.number
                add_damaged_line(draft, line, self.name)
            else:
                pending.append(_to_element(line))
        self._add_elements(draft, pending, file)
        return build_sessions([draft], [SessionInfo("", self.name, file, prefix=before, suffix=after)])

    def _add_elements(self, draft: SessionDraft, elements: Sequence[ArrayElement], file: str) -> None:
        objects = [slot.get_object(file) for slot in elements]
        try:
            message_lists = decode_messages(self._wire, [slot.raw for slot in elements])
        except UnknownRole as exc:
            raise UnknownRole(f"{file}: {exc}; correct it, or name another --format") from exc
        for element, value, messages in zip(elements, objects, message_lists, strict=True):
            draft.line_number = element.number
            source = _get_id(value, self._wire)
            if source and draft.has_source(source):
                raise BadInput(
                    f"{file}: element {element.number}: the id {source!r} was already used; remove one of the two"
                )
            native = NativeBytes(self.name, element.raw, element.lead, group=f"{element.number}")
            wrapped_messages = wrap_messages(messages, native)
            if is_continuation(self._wire, draft, wrapped_messages):
                draft.extend_last(wrapped_messages[0], source_id=source)
            else:
                draft.add_messages(
                    wrapped_messages,
                    parent_key=draft.last_key,
                    source_id=source,
                    time=parse_micros(value.get("ts")),
                    usage=_parse_usage(value),
                )

    def _build_info(self, top: Mapping[str, Any], file: str) -> SessionInfo:
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
        glue = b",\n" if is_array else b"\n"

        def render(piece: OutputPiece, _: str) -> bytes:
            return glue.join(encode_messages(self._wire, piece.messages))

        output = render_pieces(build_pieces(items, (self.name,)), render)
        return (join_array if is_array else join_lines)(info.prefix, output, info.suffix)

    def render_file(self, info: SessionInfo, items: Sequence[ExportItem]) -> bytes:
        """Renders a file with this conversation. It is an array if the session came from another format."""
        if info.format != self.name:
            info = SessionInfo(info.id, self.name, prefix=b"[", suffix=b"]\n")
        return self.render_body(info, items)


def _to_element(line: JsonLine) -> ArrayElement:
    return ArrayElement(line.number, line.lead, line.raw, line.text, line.value)


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
