"""aider's `.aider.chat.history.md`: Markdown in which the first characters of a line say who wrote it.

docs/formats/agents.md describes the mapping. One file holds the sessions of a folder, one after the other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from tenfold.core.record.message import Message, NativeBytes, Text, get_text, get_tool_calls
from tenfold.errors import BadInput
from tenfold.formats.base import ExportItem, ParsedSession, SessionFormat
from tenfold.formats.content_blocks import make_answer, make_prompt
from tenfold.formats.json_items import decode_utf8
from tenfold.formats.output_pieces import OutputPiece, build_pieces, render_pieces
from tenfold.formats.session_draft import SessionDraft
from tenfold.store.base import SessionInfo

FORMAT = "aider"
_HEADER = re.compile(rb"# aider chat started at ([\d :-]+)")
_SEPARATOR = b"<!-- tenfold -->"
_STARTS: tuple[tuple[bytes, str], ...] = ((b"#### ", "user"), (b"> ", "tool"))
_END = b"  "
"""What aider ends its own lines with. Lines that begin alike and do not end so are Markdown of an answer."""
_OWN_END = b"   "
"""What Tenfold ends such lines with: aider's own may have lost their blanks in an editor."""


class _Block(Struct):
    """Lines that one speaker wrote, with the blank lines after them."""

    number: int
    speaker: str
    lines: list[bytes]

    def get_text(self) -> str:
        """Returns the text without what stands at the beginning of each line."""
        start = next((start for start, name in _STARTS if name == self.speaker), b"")
        lines = [line.strip(b"\r\n") for line in self.lines if line.strip() != _SEPARATOR]
        if start:
            lines = [line.removeprefix(start.rstrip()).removeprefix(b" ").rstrip(b" ") for line in lines]
        return b"\n".join(lines).decode("utf-8", "replace").strip("\n")


class Aider(SessionFormat):
    """Reads and writes chat histories."""

    name = FORMAT

    def can_read(self, head: bytes, name: str) -> bool:  # noqa: ARG002 - the content tells
        """Looks for the line that begins a session."""
        return _HEADER.match(head.lstrip(b"\xef\xbb\xbf \t\r\n")) is not None

    def read(self, data: bytes, *, file: str, skip_damaged: bool) -> list[ParsedSession]:  # noqa: ARG002 - no line is damaged
        """Parses one session for each start of aider."""
        decode_utf8(data, file)
        out: list[ParsedSession] = []
        before = b""
        draft, started = SessionDraft(file), b""
        for block in _split_blocks(data):
            native = NativeBytes(FORMAT, b"".join(block.lines))
            if block.speaker == "header":
                out += [_finish(draft, started, file)] if started else []
                draft, started = SessionDraft(file), block.lines[0]
                draft.start_item(block.number)
                draft.add_custom("header", NativeBytes(FORMAT, before + native.body))
                before = b""
            elif not started:
                before += native.body
            else:
                draft.start_item(block.number)
                _add_block(draft, block, native)
        if not started:
            raise BadInput(
                f"{file}: no line begins a session with '# aider chat started at'; is this the right --format?"
            )
        return [*out, _finish(draft, started, file)]

    def render_body(self, info: SessionInfo, items: Sequence[ExportItem]) -> bytes:  # noqa: ARG002 - the items hold all
        """Renders the session's part of the history."""
        return b"".join(piece.raw for piece in render_pieces(build_pieces(items, FORMAT), _render))

    def build_info(self, session_id: str) -> SessionInfo:
        """Builds a history that begins at no time that is known."""
        return SessionInfo(session_id, FORMAT, standalone_prefix=b"# aider chat started at -\n\n")


def _split_blocks(data: bytes) -> list[_Block]:
    blocks: list[_Block] = []
    lines = data.splitlines(keepends=True)
    marked = {start for start, _ in _STARTS if any(_is_of_aider(line, start) for line in lines)}
    for number, line in enumerate(lines, 1):
        plain = line.lstrip(b"\xef\xbb\xbf") if number == 1 else line
        speaker = next((name for start, name in _STARTS if _has_start(plain, start, marked)), "model")
        if _HEADER.match(plain):
            speaker = "header"
        is_new = not blocks or speaker == "header" or plain.strip() == _SEPARATOR
        is_after_separator = bool(blocks) and blocks[-1].lines[-1].strip() == _SEPARATOR
        if is_after_separator and not is_new:
            blocks[-1].speaker = speaker
            blocks[-1].lines.append(line)
        elif is_new or (plain.strip() and speaker != blocks[-1].speaker):
            blocks.append(_Block(number, speaker, [line]))
        else:
            blocks[-1].lines.append(line)
    return blocks


def _is_of_aider(line: bytes, start: bytes) -> bool:
    text = line.rstrip(b"\r\n")
    return text.startswith(start) and text.endswith(_END) and not text.endswith(_OWN_END)


def _has_start(line: bytes, start: bytes, marked: set[bytes]) -> bool:
    """Returns whether a line begins so because of who wrote it. `marked` holds the starts whose lines have an end."""
    text = line.rstrip(b"\r\n")
    is_start = text.startswith(start) or text == start.rstrip()
    return is_start and (start not in marked or text.endswith(_END))


def _add_block(draft: SessionDraft, block: _Block, native: NativeBytes) -> None:
    text = block.get_text()
    if not text:
        draft.add_custom("blank", native)
        return
    message = make_answer([Text(text)])
    if block.speaker != "model":
        message = make_prompt("user", [Text(text)])
    origin = "tool" if block.speaker == "tool" else message.origin
    draft.add_messages([Message(message.role, message.parts, origin, native=native)])


def _finish(draft: SessionDraft, header: bytes, file: str) -> ParsedSession:
    found = _HEADER.search(header)
    started = found[1].decode().strip() if found is not None else ""
    return draft.build_session(SessionInfo(started, FORMAT, file, started, source_id=started))


def _render(piece: OutputPiece) -> bytes:
    out = b""
    for message in piece.messages:
        calls = [f"[{call.name}] {call.arguments}" for call in get_tool_calls(message)]
        texts = [get_text(message)] if get_text(message) else calls
        start = b"" if message.role == "assistant" else b"#### " if message.origin == "human" else b"> "
        end = (_OWN_END if start else b"") + b"\n"
        lines = "\n".join(text for text in texts if text).encode("utf-8", "replace").split(b"\n")
        out += b"\n" + _SEPARATOR + b"\n" + b"".join(start + line + end for line in lines) + b"\n"
    return out
