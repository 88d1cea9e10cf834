"""Reads the JSON files in which opencode kept its sessions before it had a database (version 1.2).

`storage/session/PROJECT/SESSION.json` describes a session, `storage/message/SESSION/MESSAGE.json` is one message, and
`storage/part/MESSAGE/PART.json` one part of it. The names are in the order of time. A session is read as the document
of one of the database, and has all that describes it, so that `opencode import` takes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tenfold.errors import BadInput

Json = dict[str, Any]


def read_opencode_files(path: Path) -> bytes:
    """Reads a session as a document. `path` is the file that describes it.

    Raises `BadInput` for a file that cannot be read, and names it.
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
