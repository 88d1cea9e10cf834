"""Finds the sessions that clients keep on this machine, without reading more of a file than tells what it is."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from tenfold.apps.clients.opencode_sessions import list_opencode_sessions, measure_opencode_session
from tenfold.core.record.entry import get_message
from tenfold.core.record.message import get_text
from tenfold.core.text.terminal_safe import to_one_line
from tenfold.errors import BadInput, NotFoundError
from tenfold.formats.message_list import TASK_FILE
from tenfold.formats.session_files import read_data

_HEAD_BYTES = 65_536
_TITLE_BYTES = 262_144
"""Bytes of a file within which the user's first words are looked for, where the client keeps no title."""
_TASK_FOLDER = re.compile(r"# Current Working Directory \((.{1,1000}?)\) Files")
_TITLE_LENGTH = 200
Json = dict[str, Any]


class FoundSession(Struct, frozen=True):
    """A session of a client on this machine.

    `path` is the file that holds it, for opencode the database, before 1.2 the file that describes it. `modified` is in
    microseconds UTC. `folder` is where the session ran, "" if the file does not say, and `title` its title or first
    words on one line, without secrets.
    """

    client: str
    id: str
    path: Path
    modified: int
    folder: str = ""
    title: str = ""

    @property
    def command(self) -> tuple[str, ...]:
        """The command that resumes the session, to be run in its folder. Empty if an editor does that."""
        return () if self.path.name == TASK_FILE else (*_COMMANDS[self.client], self.id)

    @property
    def refusal(self) -> str:
        """Why a view cannot be written into this session, and what to do instead. "" if it can."""
        if self.path.name == TASK_FILE:
            return (
                f"{self.path} is a task of cline before it kept sessions: which of its messages cline leaves out is "
                "kept elsewhere, by number, so nothing is written there. Open the task once in cline 4 or newer, which "
                f"goes on with it as a session, and run `tenfold apply {self.id}` again"
            )
        if self.client in _ONLY_READ:
            return (
                f"{self.path} is of {self.client}, whose sessions are only read; run `tenfold compact {self.path} "
                "--to 40% --out FILE` for a compacted copy"
            )
        if self.client == "opencode" and self.path.suffix == ".json":
            return (
                f"{self.path} is of opencode before 1.2, and only read. A newer opencode can take it over: run "
                f"`tenfold import {self.id}`, `tenfold export` with the id that this prints and --out FILE, and "
                f"`opencode import FILE`; `tenfold apply {self.id}` works then"
            )
        return ""

    def is_in(self, folder: Path) -> bool:
        """Returns whether the session ran in this folder."""
        return self.folder != "" and Path(self.folder) in (folder, folder.resolve())


_COMMANDS = {
    "claude-code": ("claude", "--resume"),
    "codex": ("codex", "resume"),
    "pi": ("pi", "--session"),
    "gemini-cli": ("gemini", "--resume"),
    "opencode": ("opencode", "--session"),
    "cline": ("cline", "--id"),
    "qwen-code": ("qwen", "--resume"),
    "kimi": ("kimi", "--session"),
    "kimi-code": ("kimi", "--session"),
    "copilot-cli": ("copilot", "--resume"),
    "continue": ("cn", "--fork"),
}
_ONLY_READ = ("qwen-code", "kimi", "kimi-code", "copilot-cli", "continue")
"""The clients into whose sessions nothing is written."""


# -- where clients keep their sessions ---------------------------------------------------------------------------------


class ClientFolders(Struct, frozen=True):
    """The folders of the clients on a machine: what the variables in `environment` say, else folders in `home`.

    What may not be read is left out, and `report_problem` is told of it.
    """

    environment: Mapping[str, str]
    home: Path
    report_problem: Callable[[str], None]

    def get_value(self, variable: str) -> str:
        """Returns the value of a variable, "" if it is not set."""
        return self.environment.get(variable, "").strip()

    def get_folder(self, place: _FilePlace) -> Path:
        """Returns the folder in which a place's pattern holds."""
        named = self.get_value(place.variable)
        if not named:
            return self.home / place.default
        return self.home / named[1:].lstrip("/\\") if named.startswith("~") else Path(named)

    def list_files(self, places: Sequence[_FilePlace]) -> Iterator[Path]:
        """Yields the files of the first place whose variable is set, else those of the last one."""
        place = next((each for each in places if self.get_value(each.variable)), places[-1])
        parts = place.pattern.split("/")
        fixed = list(takewhile(lambda part: "*" not in part, parts))
        folder = self.get_folder(place).joinpath(*fixed)
        try:
            os.scandir(folder).close()
            yield from folder.glob("/".join(parts[len(fixed) :]))
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as exc:
            self.report_problem(f"{folder} is left out ({exc.strerror or exc}): check its permissions")


class _Described(Struct, frozen=True):
    """What the beginning of a file says about its session. `modified` is 0 where the file's own time tells."""

    id: str
    folder: str = ""
    title: str = ""
    modified: int = 0


Describe = Callable[[Path, list[Json]], _Described | None]


class _FilePlace(Struct, frozen=True):
    """Files of sessions: a pattern in the folder that a client's variable names, else in one of the user's home."""

    variable: str
    default: str
    pattern: str


class _Client(Struct, frozen=True):
    """One client: what describes a file of it, and the places, of which the first one counts whose variable is set."""

    name: str
    describe: Describe
    places: tuple[_FilePlace, ...]


_EDITORS = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")
"""VS Code and editors made from it, by the names of their folders."""
_EDITOR_FOLDERS = (("XDG_CONFIG_HOME", ".config"), ("", "Library/Application Support"), ("APPDATA", "AppData/Roaming"))
"""Where editors keep their folders: on Linux, macOS and Windows."""
_SERVERS = (".vscode-server", ".vscode-server-insiders", ".vscodium-server", ".cursor-server", ".windsurf-server")
"""Where the same editors keep what belongs to a machine that they are connected to."""
_TASKS = f"tasks/*/{TASK_FILE}"
_EXTENSION = f"User/globalStorage/saoudrizwan.claude-dev/{_TASKS}"
"""The tasks of cline's extension, which cline kept before it had sessions."""


def find_sessions(folders: ClientFolders) -> list[FoundSession]:
    """Finds the sessions of all clients, the one changed last first. Files that say nothing are left out.

    So is what cannot be read, of which `folders.report_problem` is told.
    """
    found = [session for row in _CLIENTS for session in _find_files(folders, row)]
    found += _find_in_databases(folders)
    known = {(each.client, each.id) for each in found}  # files of earlier versions stay when a client takes them over
    describe_task = _TaskDescriber()
    older = [_OPENCODE_FILES, *(_Client("cline", describe_task, places) for places in _TASK_PLACES)]
    found += [each for row in older for each in _find_files(folders, row) if (each.client, each.id) not in known]
    newest: dict[tuple[str, str], FoundSession] = {}
    for each in sorted(found, key=lambda each: each.modified, reverse=True):
        newest.setdefault((each.client, each.id), each)  # gemini-cli goes on in another file with the same id
    return list(newest.values())


def _find_in_databases(folders: ClientFolders) -> Iterator[FoundSession]:
    """Finds the sessions in opencode's databases: that in $OPENCODE_DB, else those in its folder."""
    databases = list(folders.list_files([_OPENCODE_DATABASES]))
    if named := folders.get_value("OPENCODE_DB"):
        databases = [folders.get_folder(_OPENCODE_DATABASES) / "opencode" / named]
    for database in filter(Path.is_file, databases):
        try:
            rows = list_opencode_sessions(database)
        except BadInput as exc:
            folders.report_problem(f"{exc}: it is left out")
            continue
        for r in rows:
            title = to_one_line(r.title, _TITLE_LENGTH)
            yield FoundSession("opencode", r.id, database, r.updated * 1000, r.directory, title)


def choose_session(found: Iterable[FoundSession], beginning: str) -> FoundSession:
    """Chooses the session with this id, else the one whose id begins so.

    Raises `NotFoundError` for "", and if none is meant or several are.
    gemini-cli goes on in another file with the same id: the one that `found` lists first, changed last, is meant.
    """
    found = list(found)
    exact = [each for each in found if each.id == beginning != ""]
    matches = exact or [each for each in found if beginning and each.id.startswith(beginning)]
    if matches and len({(each.client, each.id) for each in matches}) == 1:
        return matches[0]
    what = "no session of a client has" if not matches else f"{len(matches)} sessions of clients have"
    raise NotFoundError(f"{what} an id that begins with {beginning!r}; `tenfold find` lists those on this machine")


def _find_files(folders: ClientFolders, client: _Client) -> Iterator[FoundSession]:
    for path in folders.list_files(client.places):
        try:
            if not path.is_file():  # a pipe would be waited for
                continue
            modified = path.stat().st_mtime_ns // 1000
            described = client.describe(path, _read_head(path))
        except FileNotFoundError:  # removed meanwhile
            continue
        except OSError as exc:
            folders.report_problem(f"{path} is left out ({exc.strerror or exc}): check its permissions")
            continue
        if described is not None and described.id:
            title = to_one_line(described.title or _find_first_request(path, client.name), _TITLE_LENGTH)
            yield FoundSession(client.name, described.id, path, described.modified or modified, described.folder, title)


def _read_head(path: Path) -> list[Json]:
    """Reads the first lines of a file as objects. A file that is one object gives that."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    values = map(_parse_or_none, head.split(b"\n"))
    return [value for value in values if isinstance(value, dict)]


def _parse_or_none(raw: bytes) -> Any:  # noqa: ANN401 - whatever the file holds
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


def _get_text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return " ".join(str(p.get("text") or "") for p in parts if isinstance(p, dict))


def _find_first_request(path: Path, client: str) -> str:
    """Finds the first words of the user: what the client or a program wrote into the session is none of theirs."""
    with path.open("rb") as file:
        head = file.read() if path.suffix == ".json" else file.read(_TITLE_BYTES).rpartition(b"\n")[0]
    try:
        recorded = read_data(head, file=str(path), format=client, skip_damaged=True)
    except BadInput:
        return ""
    messages = (get_message(entry) for each in recorded for entry in each.entries)
    requests = (get_text(m) for m in messages if m is not None and m.role == "user" and m.origin == "human")
    return next((text for text in requests if text.strip()), "")


def _describe_claude_code(path: Path, lines: list[Json]) -> _Described | None:
    if path.name.startswith("agent-"):  # a subagent's
        return None
    titles = [str(v.get("customTitle") or "") for v in lines if v.get("type") == "custom-title"]
    summaries = [v for v in lines if v.get("type") == "summary" and v.get("summary")]
    if summaries:  # of this session, or of one that it goes on from
        data = path.read_bytes()
        own = [v for v in summaries if data.count(str(v.get("leafUuid")).encode()) > 1]
        titles = [*(str(v["summary"]) for v in own), *titles]
    folder = next((str(v["cwd"]) for v in lines if v.get("cwd")), "")
    return _Described(path.stem, folder, titles[-1] if titles else "") if lines else None


def _describe_codex(path: Path, lines: list[Json]) -> _Described | None:  # noqa: ARG001 - the lines tell
    payloads = [p if isinstance(p := line.get("payload"), dict) else line for line in lines]
    head = payloads[0] if payloads else {}
    return _Described(str(head.get("id") or ""), str(head.get("cwd") or "")) if head else None


def _describe_pi(path: Path, lines: list[Json]) -> _Described | None:  # noqa: ARG001 - the lines tell
    head = lines[0] if lines and lines[0].get("type") == "session" else {}
    named = [str(line.get("name") or "") for line in lines if line.get("type") == "session_info"]
    return _Described(str(head.get("id") or ""), str(head.get("cwd") or ""), named[-1] if named else "")


def _describe_gemini_cli(path: Path, lines: list[Json]) -> _Described | None:
    if path.suffix == ".json":
        whole = _parse_or_none(path.read_bytes())
        head = whole if isinstance(whole, dict) else {}
    else:
        head = lines[0] if lines and path.suffix == ".jsonl" else {}
    root = path.parent.parent / ".project_root"
    folder = root.read_text("utf-8").strip() if root.is_file() else ""
    return _Described(str(head.get("sessionId") or ""), folder, str(head.get("summary") or ""))


def _describe_qwen(path: Path, lines: list[Json]) -> _Described | None:  # noqa: ARG001 - the lines tell
    head = next((line for line in lines if "sessionId" in line), {})
    return _Described(str(head.get("sessionId") or ""), str(head.get("cwd") or ""))


def _describe_kimi(path: Path, lines: list[Json]) -> _Described | None:
    return _Described(path.parent.name) if any("role" in line for line in lines) else None


def _describe_kimi_code(path: Path, lines: list[Json]) -> _Described | None:  # noqa: ARG001 - a file beside it tells
    folder = path.parents[2]
    about = _parse_or_none(state.read_bytes()) if (state := folder / "state.json").is_file() else None
    about = about if isinstance(about, dict) else {}
    place = about.get("cwd") or about.get("workDir")
    return _Described(folder.name, str(place or ""), str(about.get("title") or ""))


def _describe_copilot(path: Path, lines: list[Json]) -> _Described | None:
    start = next((data for line in lines if isinstance(data := line.get("data"), dict) and "context" in data), {})
    context = start.get("context")
    return _Described(path.parent.name, str(context.get("cwd") or "") if isinstance(context, dict) else "")


def _describe_continue(path: Path, lines: list[Json]) -> _Described | None:  # noqa: ARG001 - it is one object
    about = _parse_or_none(path.read_bytes())
    if not isinstance(about, dict) or not about.get("history"):
        return None
    title = about.get("title")
    return _Described(
        path.stem, str(about.get("workspaceDirectory") or ""), "" if title == "Untitled Session" else str(title or "")
    )


def _describe_cline(path: Path, lines: list[Json]) -> _Described | None:  # noqa: ARG001 - a file beside it tells
    id_ = path.name.removesuffix(".messages.json")
    about = _parse_or_none(meta.read_bytes()) if (meta := path.with_name(f"{id_}.json")).is_file() else None
    about = about if isinstance(about, dict) else {}
    metadata = about.get("metadata")
    title = metadata.get("title") if isinstance(metadata, dict) else None
    return _Described(id_, str(about.get("cwd") or ""), str(title or about.get("prompt") or ""))


class _TaskDescriber:
    """Describes tasks of cline: by the history that lies beside all of them, else by the first message of each."""

    def __init__(self) -> None:
        self._histories: dict[Path, dict[str, Json]] = {}

    def __call__(self, path: Path, lines: list[Json]) -> _Described | None:  # noqa: ARG002 - they are one long line
        folder, id_ = path.parents[2], path.parent.name
        if folder not in self._histories:
            self._histories[folder] = _read_task_history(folder / "state" / "taskHistory.json")
        about = self._histories[folder].get(id_, {})
        text = _read_first_text(path)
        task, closing, _ = text.partition("<task>")[2].partition("</task>")
        place = _TASK_FOLDER.search(text)
        return _Described(
            id_,
            str(about.get("cwdOnTaskInitialization") or (place[1] if place else "")),
            str(about.get("task") or (task.strip() if closing else text)),
        )


def _read_task_history(path: Path) -> dict[str, Json]:
    listed = _parse_or_none(path.read_bytes()) if path.is_file() else None
    items = listed if isinstance(listed, list) else []
    return {str(item.get("id")): item for item in items if isinstance(item, dict)}


def _read_first_text(path: Path) -> str:
    """Reads the text of the first message of an array, "" if that is longer than a head."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES).decode(errors="replace").lstrip("\ufeff \t\r\n[")
    try:
        first, _ = json.JSONDecoder().raw_decode(head)
    except (ValueError, RecursionError):
        return ""
    return _get_text(first.get("content")) if isinstance(first, dict) else ""


def _describe_opencode_file(path: Path, lines: list[Json]) -> _Described | None:  # noqa: ARG001 - it is one object
    about = _parse_or_none(path.read_bytes())
    time = about.get("time") if isinstance(about, dict) else None
    if not isinstance(about, dict) or about.get("parentID") or (isinstance(time, dict) and time.get("archived")):
        return None
    updated = time.get("updated") if isinstance(time, dict) else None
    modified = updated * 1000 if isinstance(updated, int) else 0
    return _Described(path.stem, str(about.get("directory") or ""), str(about.get("title") or ""), modified)


_CLIENTS = (
    _Client("claude-code", _describe_claude_code, (_FilePlace("CLAUDE_CONFIG_DIR", ".claude", "projects/*/*.jsonl"),)),
    _Client("codex", _describe_codex, (_FilePlace("CODEX_HOME", ".codex", "sessions/**/rollout-*.jsonl"),)),
    _Client(
        "pi",
        _describe_pi,
        (
            _FilePlace("PI_CODING_AGENT_SESSION_DIR", "", "**/*.jsonl"),
            _FilePlace("PI_CODING_AGENT_DIR", ".pi/agent", "sessions/*/*.jsonl"),
        ),
    ),
    _Client("gemini-cli", _describe_gemini_cli, (_FilePlace("GEMINI_CLI_HOME", "", ".gemini/tmp/*/chats/session-*"),)),
    _Client("qwen-code", _describe_qwen, (_FilePlace("QWEN_HOME", ".qwen", "projects/*/chats/*.jsonl"),)),
    _Client("qwen-code", _describe_qwen, (_FilePlace("QWEN_HOME", ".qwen", "tmp/*/chats/*.jsonl"),)),
    _Client("kimi", _describe_kimi, (_FilePlace("KIMI_SHARE_DIR", ".kimi", "sessions/*/*/context.jsonl"),)),
    _Client(
        "kimi-code",
        _describe_kimi_code,
        (_FilePlace("KIMI_CODE_HOME", ".kimi-code", "sessions/*/*/agents/main/wire.jsonl"),),
    ),
    _Client("continue", _describe_continue, (_FilePlace("CONTINUE_GLOBAL_DIR", ".continue", "sessions/*.json"),)),
    _Client(
        "copilot-cli", _describe_copilot, (_FilePlace("COPILOT_HOME", ".copilot", "session-state/*/events.jsonl"),)
    ),
    _Client(
        "cline",
        _describe_cline,
        (
            _FilePlace("CLINE_SESSION_DATA_DIR", "", "*/*.messages.json"),
            _FilePlace("CLINE_DATA_DIR", "", "sessions/*/*.messages.json"),
            _FilePlace("CLINE_DIR", ".cline", "data/sessions/*/*.messages.json"),
        ),
    ),
)
_OPENCODE_DATABASES = _FilePlace("XDG_DATA_HOME", ".local/share", "opencode/opencode*.db")
_OPENCODE_ROOTS = (_FilePlace("XDG_DATA_HOME", ".local/share", "opencode/storage/session/*/*.json"),)
_OPENCODE_FILES = _Client("opencode", _describe_opencode_file, _OPENCODE_ROOTS)
"""The files that describe the sessions of opencode before 1.2, which had no database."""
_TASK_PLACES = (
    *((_FilePlace(*kept, f"{editor}/{_EXTENSION}"),) for kept in _EDITOR_FOLDERS for editor in _EDITORS),
    *((_FilePlace("", server, f"data/{_EXTENSION}"),) for server in _SERVERS),
    (_FilePlace("CLINE_DATA_DIR", "", _TASKS), _FilePlace("CLINE_DIR", ".cline", f"data/{_TASKS}")),
)
"""The tasks that cline kept before it had sessions: in the global storage of its extension, and in its own folder."""


# -- how large they are ------------------------------------------------------------------------------------------------

_MESSAGE_TYPES = frozenset({
    "user", "assistant", "tool_result", "gemini", "message", "response_item", "context.append_message", "user.message",
    "assistant.message", "tool.execution_complete",
})  # fmt: skip
"""The types of lines that hold a message, over all clients that write one message, or a piece of one, on a line."""
_MESSAGE_EVENTS = frozenset({"step.begin", "tool.result"})
"""The events by which Kimi Code writes down an answer and a result."""
_ROLES = frozenset({"system", "user", "assistant", "tool"})
"""The roles of lines that are messages themselves."""


class SessionSize(Struct, frozen=True):
    """The size of a session in bytes and in messages."""

    size: int
    messages: int


class _Message(Struct):
    id: str | None = None


class _Item(Struct):
    type: str | None = None
    role: str | None = None

    @property
    def is_of_model(self) -> bool:
        """Whether the model wrote it: Codex keeps one answer as several items in a row."""
        return self.role == "assistant" or (self.role is None and not str(self.type).endswith("_output"))


class _Line(Struct):
    type: str | None = None
    role: str | None = None
    message: _Message | None = None
    payload: _Item | None = None
    event: _Item | None = None

    @property
    def is_message(self) -> bool:
        is_event = self.event is not None and self.event.type in _MESSAGE_EVENTS
        return self.type in _MESSAGE_TYPES or self.role in _ROLES or is_event


_LINES = msgspec.json.Decoder(_Line)


def measure_session(found: FoundSession) -> SessionSize:
    """Measures a session of a client. What cannot be read counts as nothing."""
    path = found.path
    if found.client == "opencode":
        return SessionSize(
            *(_measure_files(path) if path.suffix == ".json" else measure_opencode_session(path, found.id))
        )
    try:
        data = path.read_bytes()
    except OSError:
        return SessionSize(0, 0)
    return SessionSize(len(data), _count_lines(data) if path.suffix == ".jsonl" else _count_items(data))


def _count_lines(data: bytes) -> int:
    """Counts the messages. Lines with the same id of a message, and items of one answer, are pieces of one."""
    count, seen, was_of_model = 0, set[str](), False
    for line in data.splitlines():
        try:
            found = _LINES.decode(line)
        except msgspec.DecodeError:
            continue
        if not found.is_message:
            continue
        id_ = found.message.id if found.message is not None else None
        is_of_model = found.payload is not None and found.payload.is_of_model
        is_piece = (id_ is not None and id_ in seen) or (is_of_model and was_of_model)
        count += not is_piece
        was_of_model = is_of_model
        seen.add(id_ or "")
    return count


def _count_items(data: bytes) -> int:
    value = _parse_or_none(data)
    items = value.get("messages", value.get("history")) if isinstance(value, dict) else value
    if not isinstance(items, list):
        return 0
    inner = (item.get(key) for item in items if isinstance(item, dict) for key in ("toolCallStates", "contextItems"))
    return len(items) + sum(len(each) for each in inner if isinstance(each, list))  # those of Continue


def _measure_files(path: Path) -> tuple[int, int]:
    storage = path.parents[2]
    messages = list((storage / "message" / path.stem).glob("*.json"))
    parts = [part for each in messages for part in (storage / "part" / each.stem).glob("*.json")]
    return sum(each.stat().st_size for each in (*messages, *parts)), len(messages)
