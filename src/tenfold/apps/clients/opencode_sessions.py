"""Reads and extends the sessions of opencode: in its SQLite database, and in the JSON files that it had before 1.2.

A session is read as the document that `opencode export` prints: `{"info": {...}, "messages": [{"info", "parts"}]}`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from tenfold.errors import BadInput, NotFoundError, UsageError

Json = dict[str, Any]


class OpencodeSession(Struct, frozen=True):
    """A row of opencode's sessions. `updated` is in milliseconds UTC."""

    id: str
    directory: str
    title: str
    updated: int


@contextmanager
def _open(database: Path, *, can_write: bool = False) -> Iterator[sqlite3.Connection]:
    """Opens the database. Raises `BadInput` if it is none, or one with other tables."""
    mode = "rw" if can_write else "ro"
    try:
        with closing(sqlite3.connect(f"{database.resolve().as_uri()}?mode={mode}", uri=True, timeout=10)) as connection:
            yield connection
    except sqlite3.Error as exc:
        raise BadInput(f"{database}: opencode's sessions cannot be read or written there ({exc})") from exc


def list_opencode_sessions(database: Path) -> list[OpencodeSession]:
    """Lists the sessions that a person started. Raises `BadInput` if the file is no database of opencode."""
    with _open(database) as connection:
        rows = connection.execute(
            "SELECT id, directory, title, time_updated FROM session WHERE parent_id IS NULL AND time_archived IS NULL"
        )
        return [OpencodeSession(*row) for row in rows]


def measure_opencode_session(database: Path, session: str) -> tuple[int, int]:
    """Returns the bytes and the messages of a session. Raises `BadInput` if the file is no database of opencode."""
    with _open(database) as connection:
        (count,) = connection.execute("SELECT count(*) FROM message WHERE session_id = ?", (session,)).fetchone()
        (size,) = connection.execute("SELECT sum(length(data)) FROM part WHERE session_id = ?", (session,)).fetchone()
    return size or 0, count


def read_opencode_session(database: Path, session: str) -> bytes:
    """Reads a session as a document. Raises `NotFoundError` if the database has no such session."""
    with _open(database) as connection:
        row = connection.execute("SELECT directory, title, version FROM session WHERE id = ?", (session,)).fetchone()
        if row is None:
            raise NotFoundError(f"{database} holds no session {session!r}; `tenfold find` lists those it holds")
        parts: dict[str, list[Json]] = {}
        for id_, message, data in connection.execute(
            "SELECT id, message_id, data FROM part WHERE session_id = ? ORDER BY id", (session,)
        ):
            own = {"id": id_, "messageID": message, "sessionID": session}
            parts.setdefault(message, []).append(json.loads(data) | own)
        messages = [
            {"info": json.loads(data) | {"id": id_, "sessionID": session}, "parts": parts.get(id_, [])}
            for id_, data in connection.execute(
                "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id", (session,)
            )
        ]
    info = {"id": session, "directory": row[0], "title": row[1], "version": row[2]}
    return json.dumps({"info": info, "messages": messages}, ensure_ascii=False, indent=1).encode()


def write_opencode_session(database: Path, session: str, old: bytes, new: bytes) -> None:
    """Turns a session from one document into another, in one transaction: messages are added and removed, not changed.

    Raises `UsageError` if the session is no longer what `old` says, and `BadInput` if the database cannot be written.
    """
    before = {message["info"]["id"]: message for message in json.loads(old)["messages"]}
    after = {message["info"]["id"]: message for message in json.loads(new)["messages"]}
    with _open(database, can_write=True) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.isolation_level = None
        connection.execute("BEGIN IMMEDIATE")
        try:
            _change_messages(connection, session, before, after)
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")


def _change_messages(
    connection: sqlite3.Connection, session: str, before: dict[str, Json], after: dict[str, Json]
) -> None:
    present = {id_ for (id_,) in connection.execute("SELECT id FROM message WHERE session_id = ?", (session,))}
    if present != before.keys():
        raise UsageError(f"opencode has gone on in {session} meanwhile: quit it and run the command again")
    for id_ in before.keys() - after.keys():
        connection.execute("DELETE FROM part WHERE message_id = ?", (id_,))
        connection.execute("DELETE FROM message WHERE id = ?", (id_,))
    for id_ in [id_ for id_ in after if id_ not in before]:
        _insert_message(connection, session, after[id_])


_MESSAGE_ROW = "INSERT INTO message (id, session_id, time_created, time_updated, data) VALUES (?, ?, ?, ?, ?)"
_PART_ROW = "INSERT INTO part (id, message_id, session_id, time_created, time_updated, data) VALUES (?, ?, ?, ?, ?, ?)"


def _insert_message(connection: sqlite3.Connection, session: str, message: Json) -> None:
    info, time = message["info"], message["info"]["time"]["created"]
    connection.execute(_MESSAGE_ROW, (info["id"], session, time, time, _dump_data(info)))
    for part in message["parts"]:
        connection.execute(_PART_ROW, (part["id"], info["id"], session, time, time, _dump_data(part)))


def _dump_data(value: Json) -> str:
    """Renders what a row's `data` holds: all but the ids, which have columns of their own."""
    kept = {key: each for key, each in value.items() if key not in ("id", "sessionID", "messageID")}
    return json.dumps(kept, ensure_ascii=False)


# -- before version 1.2 ------------------------------------------------------------------------------------------------


def read_opencode_files(path: Path) -> bytes:
    """Reads a session as a document, with all that describes it, so that `opencode import` takes it.

    `path` is `storage/session/PROJECT/SESSION.json`. `storage/message/SESSION/MESSAGE.json` is one message, and
    `storage/part/MESSAGE/PART.json` one part of it. The names are in the order of time. Raises `BadInput` for a file
    that cannot be read, and names it.
    """
    about, storage = _read_object(path) | {"id": path.stem}, path.parents[2]
    messages = []
    for message in _list_files(storage / "message" / path.stem):
        parts = [
            _read_object(part) | {"id": part.stem, "messageID": message.stem, "sessionID": path.stem}
            for part in _list_files(storage / "part" / message.stem)
        ]
        info = _read_object(message) | {"id": message.stem, "sessionID": path.stem}
        messages.append({"info": info, "parts": parts})
    return json.dumps({"info": about, "messages": messages}, ensure_ascii=False, indent=1).encode()


def _list_files(folder: Path) -> Iterator[Path]:
    yield from sorted(folder.glob("*.json"))


def _read_object(path: Path) -> Json:
    try:
        value = json.loads(path.read_bytes())
    except OSError as exc:
        raise BadInput(f"{path}: {exc.strerror or exc}; check its permissions") from exc
    except (ValueError, RecursionError) as exc:
        raise BadInput(f"{path} is damaged ({exc}): move it away to read the rest of the session") from exc
    if not isinstance(value, dict):
        raise BadInput(f"{path} holds no JSON object: move it away to read the rest of the session")
    return value
