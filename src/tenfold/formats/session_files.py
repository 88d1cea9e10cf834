"""Reads session files and renders them again: recognizes the format, and handles files with several sessions."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from pathlib import Path

from msgspec.structs import replace

from tenfold.core.record.entry import CustomEntry, get_message
from tenfold.core.record.message import OpaquePart
from tenfold.core.wire import WIRES, detect_wire, parse_value, pydantic_ai
from tenfold.core.wire.foreign_shapes import find_shape, has_shape
from tenfold.core.wire.unread_text import find_unread_items, is_well_formed, refuse_unread
from tenfold.errors import BadInput, UnknownFormat
from tenfold.formats.agents import ClaudeStream, CodexStream, Continue, CopilotCli, GeminiCliStream, Goose, Kimi
from tenfold.formats.aider import Aider
from tenfold.formats.base import ExportItem, ParsedSession, SessionFormat
from tenfold.formats.chatgpt import ChatGpt
from tenfold.formats.claude_code import ClaudeCode
from tenfold.formats.codex import Codex
from tenfold.formats.file_shape import FileShape, inspect_shape
from tenfold.formats.frameworks import Converse, LangChain, OpenAiAgents, VercelModel, VercelUi
from tenfold.formats.gemini_cli import GeminiCli
from tenfold.formats.gemini_parts import Adk, QwenCode
from tenfold.formats.json_items import decode_utf8, parse_document
from tenfold.formats.kimi_code import KimiCode
from tenfold.formats.message_list import Cline, MessageListFormat, find_messages
from tenfold.formats.opencode import Opencode
from tenfold.formats.openhands_events import OpenHandsEvents
from tenfold.formats.output_pieces import get_native
from tenfold.formats.pi import Pi
from tenfold.formats.session_draft import DAMAGED_KIND
from tenfold.formats.summaries import with_unknown_source
from tenfold.formats.trajectories import Atif, MiniSweAgent, ShareGpt, SweAgent, Tau2
from tenfold.store.base import SessionInfo


def _is_request_log(shape: FileShape) -> bool:
    return "messages" in shape.members and "kwargs" in shape.members and "response" in shape.members


def _has_pydantic_ai_message(shape: FileShape) -> bool:
    return any(has_shape(value, pydantic_ai.NAME) for value in find_messages(shape))


@lru_cache(maxsize=1)
def _is_of_a_tool(head: bytes, name: str) -> bool:
    return any(reader.can_read(head, name) for reader in FORMATS.values() if not isinstance(reader, _PlainListFormat))


class _PlainListFormat(MessageListFormat):
    """A plain list of messages in one wire format, in a file that is not in the format of any tool."""

    def __init__(self, wire: str) -> None:
        super().__init__(wire, wire, self._is_this_wire)

    def can_read(self, head: bytes, name: str) -> bool:
        """Looks for messages of this wire format in a file that is not in the format of any tool."""
        return not _is_of_a_tool(head, name) and super().can_read(head, name)

    def _is_this_wire(self, shape: FileShape) -> bool:
        objects = [v for v in find_messages(shape) if isinstance(v, dict)]
        if not objects or not all("role" in v or "parts" in v or "type" in v for v in objects):
            return False
        try:
            return detect_wire(objects) == self.name
        except UnknownFormat:
            return False


_ALL_FORMATS: tuple[SessionFormat, ...] = (
    Pi(),
    ClaudeCode(),
    Codex(),
    SweAgent(),
    MiniSweAgent(),
    Tau2(),
    OpenHandsEvents(),
    MessageListFormat("openhands-requests", "openai-chat", _is_request_log),
    GeminiCli(),
    Opencode(),
    Cline(),
    ChatGpt(),
    LangChain(),
    VercelUi(),
    VercelModel(),
    Converse(),
    MessageListFormat(
        pydantic_ai.NAME,
        pydantic_ai.NAME,
        _has_pydantic_ai_message,
        ("file", "uploaded-file", "binary", "*-url", "*-tool-call", "*-tool-return", "compaction"),
    ),
    Adk(),
    OpenAiAgents(),
    ClaudeStream(),
    CodexStream(),
    GeminiCliStream(),
    CopilotCli(),
    Continue(),
    ShareGpt(),
    Aider(),
    QwenCode(),
    Kimi(),
    KimiCode(),
    Goose(),
    Atif(),
    *map(_PlainListFormat, WIRES),
)
FORMATS: dict[str, SessionFormat] = {reader.name: reader for reader in _ALL_FORMATS}
"""Every session format by its name. A format of your own is added here: see docs/formats/adding.md."""


def get_format(name: str) -> SessionFormat:
    """Returns the format of that name. Raises `UnknownFormat`, which lists the known formats."""
    try:
        return FORMATS[name]
    except KeyError:
        raise UnknownFormat(f"no format is called {name!r}; there are {', '.join(FORMATS)}") from None


def read_file(path: str | Path, *, format: str | None = None, skip_damaged: bool = False) -> list[ParsedSession]:
    """Reads a session file of another tool, to store or compact what is in it. Most files hold one session.

    The content tells the format, unless you name it. With `skip_damaged`, a file of lines is read without damaged ones.
    Raises `UnknownFormat` if no format fits, and `BadInput` if the file cannot be read; both say where and what to do.

        (session,) = tenfold.read_file("rollout.jsonl")
    """
    return read_data(read_regular_file(path), file=str(path), format=format, skip_damaged=skip_damaged)


def read_regular_file(path: str | Path) -> bytes:
    """Reads a file whole. Raises `BadInput` if it cannot be read, is a folder, or is one that may never end.

    A device or a pipe is not even opened: that may wait for ever, and so may reading it. Of the files in which Linux
    shows its own state, some wait as well, and one is larger than any memory.
    """
    try:
        about = Path(path).stat()
        if stat.S_ISDIR(about.st_mode):
            raise BadInput(f"{path} is a folder; name the session files in it")
        if not stat.S_ISREG(about.st_mode):
            raise BadInput(f"{path} is no regular file but a device, a pipe or a socket; write it to a file first")
        with open(path, "rb", opener=_open_without_waiting) as file:
            return file.read()
    except OSError as exc:
        raise BadInput(f"{path}: {exc.strerror or exc}; check the path and its permissions") from exc
    except MemoryError as exc:
        raise BadInput(f"{path} has {about.st_size:,} bytes, more than the memory takes; split it") from exc


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def read_data(data: bytes, *, file: str, format: str | None = None, skip_damaged: bool = False) -> list[ParsedSession]:
    """Does the same as `read_file` for bytes in memory. `file` names them in error messages."""
    if not data.lstrip(b"\xef\xbb\xbf \t\r\n"):
        raise BadInput(f"{file}: the file is empty; a session file holds at least one message")
    try:
        return _read_sessions(data, file, format, skip_damaged=skip_damaged)
    finally:
        inspect_shape.cache_clear()
        _is_of_a_tool.cache_clear()


def _read_sessions(data: bytes, file: str, format: str | None, *, skip_damaged: bool) -> list[ParsedSession]:
    name = Path(file).name
    recognized = next((r for r in FORMATS.values() if r.can_read(data, name)), None)
    if format is None:
        if recognized is None:
            raise UnknownFormat(_explain_unknown(data, file))
        return _finish_sessions(recognized.read(data, file=file, skip_damaged=skip_damaged), file)
    named = get_format(format)
    other = (
        recognized.name
        if recognized is not None and recognized.name != format and not named.can_read(data, name)
        else ""
    )
    if other and format not in WIRES and other not in WIRES:
        raise BadInput(f"{file} is not a {format} file, it looks like {other}; pass --format {other}")
    try:
        sessions = named.read(data, file=file, skip_damaged=skip_damaged)
    except BadInput as exc:
        if other:
            raise BadInput(f"{file} is not a {format} file, it looks like {other}; pass --format {other}") from exc
        raise
    if other and not any(hasattr(entry, "message") for session in sessions for entry in session.entries):
        raise BadInput(f"{file} holds no {format} message, it looks like {other}; pass --format {other}")
    return _finish_sessions(sessions, file)


def _finish_sessions(sessions: Sequence[ParsedSession], file: str) -> list[ParsedSession]:
    """Does for the sessions of a file what is the same in every format."""
    try:
        _refuse_unrecognized(sessions)
        for session in sessions:
            _refuse_unread(session)
    except UnknownFormat as exc:
        raise UnknownFormat(f"{file}: {exc}") from exc
    return _make_ids_unique([replace(s, entries=tuple(map(with_unknown_source, s.entries))) for s in sessions])


def _refuse_unrecognized(sessions: Sequence[ParsedSession]) -> None:
    """Raises `UnknownFormat` if no line is a message of the format though some hold one: another program wrote them."""
    entries = [entry for session in sessions for entry in session.entries]
    if any(get_message(entry) is not None for entry in entries):
        return
    customs = [entry for entry in entries if isinstance(entry, CustomEntry) and entry.kind != DAMAGED_KIND]
    found = {entry.kind: near for entry in customs if (near := _find_nearest(parse_value(entry.native.body)))}
    if found:
        kinds, near = ", ".join(ascii(kind)[:40] for kind in found), next(iter(found.values()))
        raise UnknownFormat(
            f"none of its {len(entries):,} lines is a message of the {sessions[0].info.format} format, but some "
            f"hold messages, which look like {near}: those of type {kinds}. Write these messages alone to a file, or "
            "name the session file of the program: `tenfold find` lists those that it knows"
        )


def _refuse_unread(session: ParsedSession) -> None:
    """Raises `UnknownFormat` if the text of the messages would be lost: they are of another format than they seem.

    In the format of a tool only lost text counts: an unknown part without any is kept whole.
    """
    messages = [message for entry in session.entries if (message := get_message(entry)) is not None]
    wire = session.info.format if session.info.format in WIRES else ""
    is_known = None if wire else partial(_is_known_part, get_format(session.info.format))
    unread = [each for each in find_unread_items(messages, wire, is_known=is_known) if wire or each.chars]
    natives = [native for message in messages if (native := message.native) is not None]
    refuse_unread(unread, len(messages), session.info.format, lambda: (parse_value(native.body) for native in natives))


def _is_known_part(reader: SessionFormat, part: OpaquePart) -> bool:
    """Returns whether a part that no type of ours holds is one that the format has."""
    own = (name for name, wire in WIRES.items() if wire.profile.is_own_format(reader.name))
    is_own = any(is_well_formed(part, wire) for wire in (*own, *reader.part_wires))
    return is_own or any(fnmatchcase(part.kind, kind) for kind in reader.opaque_kinds)


def _make_ids_unique(sessions: Sequence[ParsedSession]) -> list[ParsedSession]:
    """Gives the sessions of one file unique ids: an id that is missing or used before gets the session's number.

    The number says where a session stands in this file, which is no name of the session: `source_id` stays.
    """
    used: set[str] = set()
    out: list[ParsedSession] = []
    for number, session in enumerate(sessions):
        info = session.info
        if len(sessions) > 1 and (not info.id or info.id in used):
            info = replace(info, id=f"{info.id}#{number}")
        used.add(info.id)
        out.append(replace(session, info=info))
    return out


def _explain_unknown(data: bytes, file: str) -> str:
    """Returns the error message for a file of no known format. Raises `DamagedLine` if it is damaged JSON instead."""
    begin, shape = decode_utf8(data, file).lstrip("\ufeff \t\r\n")[:40], inspect_shape(data)
    if begin.startswith(("{", "[")) and len(shape.lines) < 2:
        parse_document(data, file)
    seen = next((value for value in shape.items or shape.lines if isinstance(value, dict) and value), {})
    fields = f" and has objects with {', '.join(ascii(key[:30])[1:-1] for key in list(seen)[:6])}" if seen else ""
    near = _find_nearest(seen)
    advice = f"what is in them looks like {near}: write these messages alone to a file, or " if near else ""
    return (
        f"{file}: no known format begins like {begin!r}{fields}; {advice}pass --format with one of {', '.join(FORMATS)}"
    )


def _find_nearest(value: object, depth: int = 4) -> str:
    """Finds a message within a JSON value, and returns the name of the format that it has. "" if there is none."""
    if isinstance(value, dict) and (shape := find_shape(value)) is not None:
        return shape.format
    if isinstance(value, dict) and "role" in value:
        try:
            return detect_wire([value])
        except UnknownFormat:
            return ""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next((near for each in inner if depth and (near := _find_nearest(each, depth - 1))), "")


def render_sessions(sessions: Sequence[tuple[SessionInfo, Sequence[ExportItem]]]) -> bytes:
    """Renders a file with these sessions, in the order they were read. Untouched entries keep their original bytes.

    All sessions must come from one file. Raises `UnknownFormat` if their format is not known.
    """
    if not sessions:
        return b""
    format_ = get_format(sessions[0][0].format)
    order = sessions[0][0].interleaving
    if order and (content := _render_in_file_order(sessions, order)) is not None:
        return content
    if len(sessions) == 1 and not sessions[0][0].file_prefix and not sessions[0][0].file_suffix:
        return format_.render_file(*sessions[0])
    return (
        b"".join(info.file_prefix + format_.render_body(info, items) for info, items in sessions)
        + sessions[-1][0].file_suffix
    )


def _render_in_file_order(
    sessions: Sequence[tuple[SessionInfo, Sequence[ExportItem]]], order: Sequence[tuple[int, int, int]]
) -> bytes | None:
    """Renders all sessions in file order. Returns None unless every entry is present and untouched."""
    counts = [0] * len(sessions)
    for session, _, count in order:
        if session >= len(sessions):
            return None
        counts[session] += count
    if counts != [len(items) for _, items in sessions]:
        return None
    out = [sessions[0][0].prefix]
    for session, first, count in order:
        for item in sessions[session][1][first : first + count]:
            native = get_native(item)
            if native is None:
                return None
            out.append(native.lead + native.head + native.body + native.tail)
    return b"".join(out) + sessions[0][0].suffix + sessions[-1][0].file_suffix
