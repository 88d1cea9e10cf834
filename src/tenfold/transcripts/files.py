"""Reads session files and renders them again: recognizes the format, and handles files with several sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from tenfold.errors import BadInput, UnknownFormat
from tenfold.log.base import SessionInfo
from tenfold.transcripts.base import Item, Reader, Recorded
from tenfold.transcripts.claude_code import ClaudeCode
from tenfold.transcripts.codex import Codex
from tenfold.transcripts.gemini_cli import GeminiCli
from tenfold.transcripts.messages import Messages, listed
from tenfold.transcripts.openhands_events import OpenHandsEvents
from tenfold.transcripts.peek import Peek, peek
from tenfold.transcripts.pi import Pi
from tenfold.transcripts.pieces import native_of
from tenfold.transcripts.spans import decoded, document
from tenfold.transcripts.swe_agent import SweAgent
from tenfold.transcripts.tau2 import Tau2
from tenfold.wire import WIRES, detect


def _is_cline(seen: Peek) -> bool:
    return isinstance(seen.top.get("messages"), list) and "sessionId" in seen.top and "projectHash" not in seen.top


def _is_request(seen: Peek) -> bool:
    return "messages" in seen.top and "kwargs" in seen.top and "response" in seen.top


class _Plain(Messages):
    """A plain list of messages in one wire format, in a file that is not in the format of any tool."""

    def __init__(self, wire: str) -> None:
        super().__init__(wire, wire, self._tells)

    def sniff(self, head: bytes, name: str) -> bool:
        """Looks for messages of this wire format in a file that is not in the format of any tool."""
        return not any(reader.sniff(head, name) for reader in _TOOLS) and super().sniff(head, name)

    def _tells(self, seen: Peek) -> bool:
        objects = [v for v in listed(seen) if isinstance(v, dict)]
        if not objects or not all("role" in v or "parts" in v or "type" in v for v in objects):
            return False
        try:
            return detect(objects) == self.name
        except UnknownFormat:
            return False


_TOOLS: tuple[Reader, ...] = (
    Pi(),
    ClaudeCode(),
    Codex(),
    SweAgent(),
    Tau2(),
    OpenHandsEvents(),
    Messages("openhands-requests", "openai-chat", _is_request),
    GeminiCli(),
    Messages("cline", "anthropic", _is_cline),
)
_ALL: tuple[Reader, ...] = (*_TOOLS, *map(_Plain, WIRES))
READERS: Mapping[str, Reader] = {reader.name: reader for reader in _ALL}
"""Every session format by its name. The formats of tools come before the plain lists of messages."""


def reader_of(name: str) -> Reader:
    """Returns the format of that name. Raises `UnknownFormat`, which lists the known formats."""
    try:
        return READERS[name]
    except KeyError:
        raise UnknownFormat(f"no format is called {name!r}; there are {', '.join(READERS)}") from None


def read_file(path: str | Path, *, format: str | None = None, skip_damaged: bool = False) -> list[Recorded]:
    """Reads the sessions of a file. The format is recognized by the content unless it is named.

    Raises `UnknownFormat`, and `BadInput` for a file that cannot be read; the error says where and what to do.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as exc:
        raise BadInput(f"{path}: {exc.strerror or exc}; check the path and its permissions") from exc
    return read_data(data, file=str(path), format=format, skip_damaged=skip_damaged)


def read_data(data: bytes, *, file: str, format: str | None = None, skip_damaged: bool = False) -> list[Recorded]:
    """Does the same as `read_file` for bytes in memory. `file` names them in error messages."""
    if not data.lstrip(b"\xef\xbb\xbf \t\r\n"):
        raise BadInput(f"{file}: the file is empty; a session file holds at least one message")
    try:
        return _read(data, file, format, skip_damaged=skip_damaged)
    finally:
        peek.cache_clear()


def _read(data: bytes, file: str, format: str | None, *, skip_damaged: bool) -> list[Recorded]:
    name = Path(file).name
    recognized = next((r for r in _ALL if r.sniff(data, name)), None)
    if format is None:
        if recognized is None:
            raise UnknownFormat(_unknown(data, file))
        return _distinct(recognized.read(data, file=file, skip_damaged=skip_damaged))
    named = reader_of(format)
    other = (
        recognized.name if recognized is not None and recognized.name != format and not named.sniff(data, name) else ""
    )
    try:
        sessions = named.read(data, file=file, skip_damaged=skip_damaged)
    except BadInput as exc:
        if other:
            raise BadInput(f"{file} is not a {format} file, it looks like {other}; pass --format {other}") from exc
        raise
    if other and not any(hasattr(entry, "message") for session in sessions for entry in session.entries):
        raise BadInput(f"{file} holds no {format} message, it looks like {other}; pass --format {other}")
    return _distinct(sessions)


def _distinct(found: Sequence[Recorded]) -> list[Recorded]:
    """Gives the sessions of one file unique ids: an id that is missing or used before gets the session's number."""
    used: set[str] = set()
    out: list[Recorded] = []
    for number, session in enumerate(found):
        info = session.info
        if len(found) > 1 and (not info.id or info.id in used):
            unique = f"{info.id}#{number}"
            info = replace(info, id=unique, source=unique)
        used.add(info.id)
        out.append(replace(session, info=info))
    return out


def _unknown(data: bytes, file: str) -> str:
    """Returns the error message for a file of no known format. Raises `DamagedLine` if it is damaged JSON instead."""
    begin = decoded(data, file).lstrip("\ufeff \t\r\n")[:40]
    if begin.startswith(("{", "[")) and len(peek(data).lines) < 2:
        document(data, file)
    return f"{file}: no known format begins like {begin!r}; pass --format with one of {', '.join(READERS)}"


def write_file(sessions: Sequence[tuple[SessionInfo, Sequence[Item]]]) -> bytes:
    """Renders a file with these sessions, in the order they were read. Untouched entries keep their original bytes.

    All sessions must come from one file. Raises `UnknownFormat` if their format is not known.
    """
    if not sessions:
        return b""
    format_ = reader_of(sessions[0][0].format)
    order = sessions[0][0].weave
    if order and (content := _woven(sessions, order)) is not None:
        return content
    if len(sessions) == 1 and not sessions[0][0].lead and not sessions[0][0].trail:
        return format_.write(*sessions[0])
    return b"".join(info.lead + format_.body(info, items) for info, items in sessions) + sessions[-1][0].trail


def _woven(
    sessions: Sequence[tuple[SessionInfo, Sequence[Item]]], order: Sequence[tuple[int, int, int]]
) -> bytes | None:
    """Renders all sessions in file order. Returns None unless every entry is present and untouched."""
    counts = [0] * len(sessions)
    for session, _, count in order:
        if session >= len(sessions):
            return None
        counts[session] += count
    if counts != [len(items) for _, items in sessions]:
        return None
    out = [sessions[0][0].before]
    for session, first, count in order:
        for item in sessions[session][1][first : first + count]:
            native = native_of(item)
            if native is None:
                return None
            out.append(native.lead + native.head + native.body + native.tail)
    return b"".join(out) + sessions[0][0].after + sessions[-1][0].trail
