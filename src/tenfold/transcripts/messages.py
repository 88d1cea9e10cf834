"""Plain lists of provider messages: an array, an object that holds one, or one message per line.

One class serves the four wire formats and the session files that are such a list inside an envelope: cline, logged
OpenHands requests, Gemini CLI checkpoints. See docs/formats/messages.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from tenfold.errors import BadInput, UnknownRole
from tenfold.log.base import SessionInfo
from tenfold.record.entry import Usage
from tenfold.record.message import Native
from tenfold.transcripts.arrays import Slot, array, array_of
from tenfold.transcripts.base import Item, Recorded
from tenfold.transcripts.draft import Draft, micros, tokens, woven
from tenfold.transcripts.embed import RESPONSES, decoded, encoded, joins, wrapped
from tenfold.transcripts.lines import Line, damaged, lines
from tenfold.transcripts.peek import Peek, peek
from tenfold.transcripts.pieces import Piece, joined_array, joined_lines, pieces, rendered
from tenfold.transcripts.spans import document

KEYS = ("messages", "contents", "history", "input")
Looks = Callable[[Peek], bool]


def listed(seen: Peek) -> Sequence[Any]:
    """Finds the messages in the shape of a file, wherever the file keeps them."""
    if seen.items:
        return seen.items
    listed_under_key = next((seen.top[k] for k in KEYS if isinstance(seen.top.get(k), list)), None)
    return listed_under_key if listed_under_key is not None else seen.lines


class Messages:
    """A list of messages in one wire format. `shape_test` recognizes the files of this format."""

    def __init__(self, name: str, wire: str, looks: Looks) -> None:
        self.name = name
        self._wire = wire
        self._looks = looks

    def sniff(self, head: bytes, name: str) -> bool:  # noqa: ARG002 - the content tells
        """Looks at the first messages."""
        return self._looks(peek(head))

    def read(self, data: bytes, *, file: str, skip_damaged: bool) -> list[Recorded]:
        """Parses the one conversation of the file."""
        shape = peek(data)
        if len(shape.lines) > 1 or (shape.lines and not any(k in shape.lines[0] for k in KEYS)):
            return self._read_lines(data, file, skip_damaged=skip_damaged)
        text, top = document(data, file)
        if isinstance(top.value, list):
            start = top.start
        elif isinstance(top.value, dict):
            key = next((k for k in KEYS if isinstance(top.value.get(k), list)), KEYS[0])
            start = array_of(text, top, key, file).start
        else:
            raise BadInput(f"{file}: neither a list of messages nor an object with one; is this the right --format?")
        elements = array(text, start)
        draft = Draft()
        self._add(draft, elements.slots, file)
        info = self._info(top.value if isinstance(top.value, dict) else {}, file)
        return woven([draft], [replace(info, before=elements.before, after=elements.after)])

    def _read_lines(self, data: bytes, file: str, *, skip_damaged: bool) -> list[Recorded]:
        before, parsed, after = lines(data, file=file, skip_damaged=skip_damaged)
        draft = Draft()
        pending: list[Slot] = []
        for line in parsed:
            if line.problem:
                self._add(draft, pending, file)
                pending = []
                draft.line = line.number
                damaged(draft, line, self.name)
            else:
                pending.append(_slot(line))
        self._add(draft, pending, file)
        return woven([draft], [SessionInfo("", self.name, file, before=before, after=after)])

    def _add(self, draft: Draft, slots: Sequence[Slot], file: str) -> None:
        objects = [slot.fields(file) for slot in slots]
        try:
            message_lists = decoded(self._wire, [slot.raw for slot in slots])
        except UnknownRole as exc:
            raise UnknownRole(f"{file}: {exc}; correct it, or name another --format") from exc
        for element, value, messages in zip(slots, objects, message_lists, strict=True):
            draft.line = element.number
            source = _id(value, self._wire)
            if source and draft.knows(source):
                raise BadInput(
                    f"{file}: element {element.number}: the id {source!r} was already used; remove one of the two"
                )
            native = Native(self.name, element.raw, element.lead, group=f"{element.number}")
            wrapped_messages = wrapped(messages, native)
            if self._wire == RESPONSES and joins(draft, wrapped_messages):
                draft.join(wrapped_messages[0], source=source)
            else:
                draft.said(
                    wrapped_messages, at=draft.last, source=source, time=micros(value.get("ts")), usage=_usage(value)
                )

    def _info(self, top: Mapping[str, Any], file: str) -> SessionInfo:
        session = top.get("sessionId") or top.get("scenarioId") or ""
        model = top.get("model")
        match top.get("response"):
            case {"model": str(response_model)}:
                model = response_model
        return SessionInfo(
            str(session), self.name, file, str(top.get("description") or ""), str(model or ""), source=str(session)
        )

    def body(self, info: SessionInfo, items: Sequence[Item]) -> bytes:
        """Renders the list with the bytes around it in its file."""
        is_array = info.before.rstrip().endswith(b"[")
        glue = b",\n" if is_array else b"\n"

        def render(piece: Piece, _: str) -> bytes:
            return glue.join(encoded(self._wire, piece.messages))

        output = rendered(pieces(items, (self.name,)), render)
        return (joined_array if is_array else joined_lines)(info.before, output, info.after)

    def write(self, info: SessionInfo, items: Sequence[Item]) -> bytes:
        """Renders a file with this conversation. It is an array if the session came from another format."""
        if info.format != self.name:
            info = SessionInfo(info.id, self.name, before=b"[", after=b"]\n")
        return self.body(info, items)


def _slot(line: Line) -> Slot:
    return Slot(line.number, line.lead, line.raw, line.text, line.value)


def _id(value: Mapping[str, Any], wire: str) -> str:
    """Returns the id of a message, or "". Responses items may repeat their ids, so those are ignored."""
    message_id = value.get("id")
    return message_id if isinstance(message_id, str) and wire != RESPONSES else ""


def _usage(value: Mapping[str, Any]) -> Usage | None:
    """Parses the usage that cline stores with an answer. Its input tokens include the cached ones."""
    match value.get("metrics"):
        case {"inputTokens": int(prompt), "outputTokens": int(output), **rest} if prompt > 0:
            model = value["modelInfo"].get("id", "") if isinstance(value.get("modelInfo"), dict) else ""
            read, written = tokens(rest.get("cacheReadTokens")), tokens(rest.get("cacheWriteTokens"))
            return Usage(prompt, output, read, written, str(model))
    return None
