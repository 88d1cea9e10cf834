"""Plain lists of provider messages: an array, an object that holds one, or one message a line.

One class for the four wires, and for the session files that are such a list with an envelope around it: cline, logged
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
    """The messages that a first look shows, wherever the file keeps them."""
    if seen.items:
        return seen.items
    held = next((seen.top[k] for k in KEYS if isinstance(seen.top.get(k), list)), None)
    return held if held is not None else seen.lines


class Messages:
    """A list of messages of one wire. `looks` recognises the files of this format."""

    def __init__(self, name: str, wire: str, looks: Looks) -> None:
        self.name = name
        self._wire = wire
        self._looks = looks

    def sniff(self, head: bytes, name: str) -> bool:  # noqa: ARG002 - the content tells
        """Whether the first messages are of this format."""
        return self._looks(peek(head))

    def read(self, data: bytes, *, file: str, skip_damaged: bool) -> list[Recorded]:
        """The one conversation of the file."""
        seen = peek(data)
        if len(seen.lines) > 1 or (seen.lines and not any(k in seen.lines[0] for k in KEYS)):
            return self._read_lines(data, file, skip_damaged=skip_damaged)
        text, top = document(data, file)
        if isinstance(top.value, list):
            start = top.start
        elif isinstance(top.value, dict):
            key = next((k for k in KEYS if isinstance(top.value.get(k), list)), KEYS[0])
            start = array_of(text, top, key, file).start
        else:
            raise BadInput(f"{file}: neither a list of messages nor an object with one; is this the right --format?")
        found = array(text, start)
        draft = Draft()
        self._add(draft, found.slots, file)
        info = self._info(top.value if isinstance(top.value, dict) else {}, file)
        return woven([draft], [replace(info, before=found.before, after=found.after)])

    def _read_lines(self, data: bytes, file: str, *, skip_damaged: bool) -> list[Recorded]:
        before, found, after = lines(data, file=file, skip_damaged=skip_damaged)
        draft = Draft()
        run: list[Slot] = []
        for line in found:
            if line.problem:
                self._add(draft, run, file)
                run = []
                draft.line = line.number
                damaged(draft, line, self.name)
            else:
                run.append(_slot(line))
        self._add(draft, run, file)
        return woven([draft], [SessionInfo("", self.name, file, before=before, after=after)])

    def _add(self, draft: Draft, slots: Sequence[Slot], file: str) -> None:
        objects = [slot.fields(file) for slot in slots]
        try:
            found = decoded(self._wire, [slot.raw for slot in slots])
        except UnknownRole as exc:
            raise UnknownRole(f"{file}: {exc}; correct it, or name another --format") from exc
        for slot, value, messages in zip(slots, objects, found, strict=True):
            draft.line = slot.number
            own = _id(value, self._wire)
            if own and draft.knows(own):
                raise BadInput(f"{file}: element {slot.number}: the id {own!r} was already used; remove one of the two")
            native = Native(self.name, slot.raw, slot.lead, group=f"{slot.number}")
            made = wrapped(messages, native)
            if self._wire == RESPONSES and joins(draft, made):
                draft.join(made[0], source=own)
            else:
                draft.said(made, at=draft.last, source=own, time=micros(value.get("ts")), usage=_usage(value))

    def _info(self, top: Mapping[str, Any], file: str) -> SessionInfo:
        own = top.get("sessionId") or top.get("scenarioId") or ""
        model = top.get("model")
        match top.get("response"):
            case {"model": str(answered)}:
                model = answered
        return SessionInfo(
            str(own), self.name, file, str(top.get("description") or ""), str(model or ""), source=str(own)
        )

    def body(self, info: SessionInfo, items: Sequence[Item]) -> bytes:
        """The list as it stands in its file."""
        is_array = info.before.rstrip().endswith(b"[")
        glue = b",\n" if is_array else b"\n"

        def render(piece: Piece, _: str) -> bytes:
            return glue.join(encoded(self._wire, piece.messages))

        found = rendered(pieces(items, (self.name,)), render)
        return (joined_array if is_array else joined_lines)(info.before, found, info.after)

    def write(self, info: SessionInfo, items: Sequence[Item]) -> bytes:
        """A file with this conversation; an array where it came from another format."""
        if info.format != self.name:
            info = SessionInfo(info.id, self.name, before=b"[", after=b"]\n")
        return self.body(info, items)


def _slot(line: Line) -> Slot:
    return Slot(line.number, line.lead, line.raw, line.text, line.value)


def _id(value: Mapping[str, Any], wire: str) -> str:
    """The id of a message. Responses items may repeat theirs, so they count as having none."""
    own = value.get("id")
    return own if isinstance(own, str) and wire != RESPONSES else ""


def _usage(value: Mapping[str, Any]) -> Usage | None:
    """What cline notes beside an answer; its input tokens include the cached ones."""
    match value.get("metrics"):
        case {"inputTokens": int(prompt), "outputTokens": int(output), **rest} if prompt > 0:
            model = value["modelInfo"].get("id", "") if isinstance(value.get("modelInfo"), dict) else ""
            read, written = tokens(rest.get("cacheReadTokens")), tokens(rest.get("cacheWriteTokens"))
            return Usage(prompt, output, read, written, str(model))
    return None
