"""Reading and writing session files: which reader a file needs, and whole containers of several sessions."""

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
    """A plain list of messages: what no session format of a tool claims."""

    def __init__(self, wire: str) -> None:
        super().__init__(wire, wire, self._tells)

    def sniff(self, head: bytes, name: str) -> bool:
        """Messages of this wire, in a file that is no tool's."""
        return not any(reader.sniff(head, name) for reader in _TOOLS) and super().sniff(head, name)

    def _tells(self, seen: Peek) -> bool:
        found = [v for v in listed(seen) if isinstance(v, dict)]
        if not found or not all("role" in v or "parts" in v or "type" in v for v in found):
            return False
        try:
            return detect(found) == self.name
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
"""Every session format by its name, the particular ones before the plain lists of messages."""


def reader_of(name: str) -> Reader:
    """The reader of that format. Raises `UnknownFormat` naming those there are."""
    try:
        return READERS[name]
    except KeyError:
        raise UnknownFormat(f"no format is called {name!r}; there are {', '.join(READERS)}") from None


def read_file(path: str | Path, *, format: str | None = None, skip_damaged: bool = False) -> list[Recorded]:
    """The sessions of a file, its format recognised by its content unless named.

    Raises `UnknownFormat`, and `BadInput` with the place and the next step for a file that cannot be read.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as exc:
        raise BadInput(f"{path}: {exc.strerror or exc}; check the path and its permissions") from exc
    return read_data(data, file=str(path), format=format, skip_damaged=skip_damaged)


def read_data(data: bytes, *, file: str, format: str | None = None, skip_damaged: bool = False) -> list[Recorded]:
    """Like `read_file`, for bytes already at hand. `file` names them in messages."""
    if not data.lstrip(b"\xef\xbb\xbf \t\r\n"):
        raise BadInput(f"{file}: the file is empty; a session file holds at least one message")
    try:
        return _read(data, file, format, skip_damaged=skip_damaged)
    finally:
        peek.cache_clear()


def _read(data: bytes, file: str, format: str | None, *, skip_damaged: bool) -> list[Recorded]:
    name = Path(file).name
    known = next((r for r in _ALL if r.sniff(data, name)), None)
    if format is None:
        if known is None:
            raise UnknownFormat(_unknown(data, file))
        return _distinct(known.read(data, file=file, skip_damaged=skip_damaged))
    reader = reader_of(format)
    other = known.name if known is not None and known.name != format and not reader.sniff(data, name) else ""
    try:
        found = reader.read(data, file=file, skip_damaged=skip_damaged)
    except BadInput as exc:
        if other:
            raise BadInput(f"{file} is not a {format} file, it looks like {other}; pass --format {other}") from exc
        raise
    if other and not any(hasattr(entry, "message") for recorded in found for entry in recorded.entries):
        raise BadInput(f"{file} holds no {format} message, it looks like {other}; pass --format {other}")
    return _distinct(found)


def _distinct(found: Sequence[Recorded]) -> list[Recorded]:
    """The sessions of one file with an id each: one that is missing or used before gets the session's number."""
    seen: set[str] = set()
    out: list[Recorded] = []
    for number, recorded in enumerate(found):
        info = recorded.info
        if len(found) > 1 and (not info.id or info.id in seen):
            own = f"{info.id}#{number}"
            info = replace(info, id=own, source=own)
        seen.add(info.id)
        out.append(replace(recorded, info=info))
    return out


def _unknown(data: bytes, file: str) -> str:
    """The message for a file that no reader knows; raises what is wrong with one that is damaged JSON instead."""
    begin = decoded(data, file).lstrip("\ufeff \t\r\n")[:40]
    if begin.startswith(("{", "[")) and len(peek(data).lines) < 2:
        document(data, file)
    return f"{file}: no known format begins like {begin!r}; pass --format with one of {', '.join(READERS)}"


def write_file(sessions: Sequence[tuple[SessionInfo, Sequence[Item]]]) -> bytes:
    """A container with these sessions, in the order they were read; of untouched entries, the very bytes of the file.

    All must be of one file. Raises `UnknownFormat` for a format that has no reader.
    """
    if not sessions:
        return b""
    reader = reader_of(sessions[0][0].format)
    order = sessions[0][0].weave
    if order and (whole := _woven(sessions, order)) is not None:
        return whole
    if len(sessions) == 1 and not sessions[0][0].lead and not sessions[0][0].trail:
        return reader.write(*sessions[0])
    return b"".join(info.lead + reader.body(info, items) for info, items in sessions) + sessions[-1][0].trail


def _woven(
    sessions: Sequence[tuple[SessionInfo, Sequence[Item]]], order: Sequence[tuple[int, int, int]]
) -> bytes | None:
    """The bytes in file order, None unless every entry is there and untouched."""
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
