"""Sessions that clients kept in earlier versions are found and imported, and nothing is written into them."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.clients.test_apply import OPENCODE_TABLES

Json = dict[str, Any]
STORAGE = ".local/share/opencode/storage"
TASK = "1750000000001"
EXTENSION = "User/globalStorage/saoudrizwan.claude-dev"


def write(path: Path, value: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), "utf-8")
    return path


def read_tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write_opencode_files(home: Path, session: str = "ses_1", **about: object) -> Path:
    """A session as opencode 1.1 keeps it: a file for itself, for each message, and for each part."""
    storage, time = home / STORAGE, {"created": 1_760_000_000_000, "updated": 1_760_000_009_000}
    info: Json = {"id": session, "projectID": "p", "directory": "/w", "title": "Counting quokkas", "version": "1.1.65"}
    path = write(storage / "session/p" / f"{session}.json", info | {"time": time} | about)
    for number in range(3):
        message: Json = {"id": f"msg_{session}_{number}", "sessionID": session, "role": "assistant", "modelID": "m"}
        message |= {"providerID": "p", "time": {"created": time["created"] + number}}
        state = {"status": "completed", "input": {"command": f"seq {number}"}, "output": f"{number} wombats"}
        part: Json = {"type": "tool", "tool": "bash", "callID": f"call_{number}", "state": state}
        if number == 0:
            message = message | {"role": "user"}
            part = {"type": "text", "text": "Count the quokkas."}
        write(storage / "message" / session / f"{message['id']}.json", message)
        ids = {"id": f"prt_{session}_{number}", "messageID": message["id"], "sessionID": session}
        write(storage / "part" / message["id"] / f"{ids['id']}.json", part | ids)
    return path


def write_task(storage: Path, task: str = TASK) -> Path:
    """A task as cline's extension kept it, without the history that lists all tasks."""
    details = "<environment_details>\n# Current Working Directory (/w/päckage) Files\na.py\n</environment_details>"
    texts = ("<task>\nLook at the quokka.\n</task>", details)
    asked = {"role": "user", "content": [{"type": "text", "text": text} for text in texts]}
    answer = {"role": "assistant", "content": [{"type": "text", "text": "It is a wombat."}]}
    return write(storage / "tasks" / task / "api_conversation_history.json", [asked, answer])


def test_opencode_s_files_are_found_and_imported(tenfold: Cli, home: Path) -> None:
    path = write_opencode_files(home)
    write_opencode_files(home, "ses_2", parentID="ses_1")
    write_opencode_files(home, "ses_3", time={"created": 1, "updated": 2, "archived": 3})
    (found,) = tenfold.run_ok("find", "--json").objects
    assert (found["client"], found["id"], found["path"]) == ("opencode", "ses_1", str(path))
    assert (found["folder"], found["title"]) == ("/w", "Counting quokkas")
    assert found["modified"] == 1_760_000_009_000_000
    assert tenfold.run_json("import", "ses_1")["format"] == "opencode"
    shown = tenfold.run_ok("show", "last").out
    assert "Count the quokkas." in shown
    assert "wombats" in tenfold.run_ok("search", "wombats").out


def test_nothing_is_written_into_opencode_s_files(tenfold: Cli, home: Path) -> None:
    write_opencode_files(home)
    before = read_tree(home)
    ran = tenfold("apply", "ses_1", "--to", "20%")
    assert ran.code == 2
    assert "`opencode import FILE`" in ran.err
    assert read_tree(home) == before


def test_what_a_database_has_taken_over_is_listed_once_and_is_the_same_session(tenfold: Cli, home: Path) -> None:
    write_opencode_files(home)
    first = tenfold.run_json("import", "ses_1")
    database = home / ".local/share/opencode/opencode.db"
    take_over(home / STORAGE, database)
    (found,) = tenfold.run_ok("find", "--json").objects
    assert found["path"] == str(database)
    assert tenfold.run_json("import", "ses_1")["session"] == first["session"]
    (row,) = tenfold.run_ok("sessions", "--json").objects
    assert row["entries"] == first["entries"], "nothing of it is stored twice"


def take_over(storage: Path, database: Path) -> None:
    """Does what opencode 1.2 does with the files: each becomes a row, its ids become columns."""
    with closing(sqlite3.connect(database)) as db, db:
        db.executescript(OPENCODE_TABLES)
        for path in storage.glob("session/*/*.json"):
            about = json.loads(path.read_bytes())
            row = (path.stem, None, about["directory"], about["title"], about["version"], about["time"]["updated"])
            db.execute("INSERT INTO session VALUES (?, ?, ?, ?, ?, ?, NULL)", row)
        for path in storage.glob("message/*/*.json"):
            data = json.loads(path.read_bytes())
            ids, created = (data.pop("id"), data.pop("sessionID")), data["time"]["created"]
            db.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", (*ids, created, created, json.dumps(data)))
        for path in storage.glob("part/*/*.json"):
            data = json.loads(path.read_bytes())
            own = [data.pop(key) for key in ("id", "messageID", "sessionID")]
            db.execute("INSERT INTO part VALUES (?, ?, ?, 0, 0, ?)", (*own, json.dumps(data)))


def test_a_damaged_part_is_named(tenfold: Cli, home: Path) -> None:
    write_opencode_files(home)
    part = home / STORAGE / "part" / "msg_ses_1_1" / "prt_ses_1_1.json"
    part.write_text('{"type": ', "utf-8")
    ran = tenfold("import", "ses_1")
    assert ran.code == 3
    assert str(part) in ran.err
    assert "move it away" in ran.err


@pytest.mark.parametrize(
    "root",
    [
        ".config/Code",
        ".config/Code - Insiders",
        ".config/VSCodium",
        ".config/Cursor",
        ".config/Windsurf",
        "Library/Application Support/Code",
        "AppData/Roaming/Cursor",
        ".vscode-server/data",
        ".cursor-server/data",
    ],
)
def test_tasks_of_cline_are_found_and_imported(root: str, tenfold: Cli, home: Path) -> None:
    path = write_task(home / root / EXTENSION)
    (found,) = tenfold.run_ok("find", "--json").objects
    assert (found["client"], found["id"], found["path"]) == ("cline", TASK, str(path))
    assert (found["folder"], found["title"], found["resume"]) == ("/w/päckage", "Look at the quokka.", [])
    imported = tenfold.run_json("import", TASK)
    assert (imported["format"], imported["entries"]) == ("cline", 3), "what cline added to the words is apart"
    assert "wombat" in tenfold.run_ok("search", "wombat").out
    assert tenfold.run_json("import", path)["session"] == imported["session"], "by its file, it is the same"


def test_the_history_of_cline_s_tasks_tells_their_titles_and_folders(tenfold: Cli, home: Path) -> None:
    storage = home / ".config/Code" / EXTENSION
    write_task(storage)
    item = {"id": TASK, "ts": 1_750_000_000_001, "task": "The long title", "cwdOnTaskInitialization": "/elsewhere"}
    write(storage / "state/taskHistory.json", [item])
    (found,) = tenfold.run_ok("find", "--json").objects
    assert (found["title"], found["folder"]) == ("The long title", "/elsewhere")


def test_tasks_in_cline_s_own_folder_follow_its_variable(
    tenfold: Cli, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_task(home / ".cline/data")
    assert len(tenfold.run_ok("find", "--json").objects) == 1
    monkeypatch.setenv("CLINE_DATA_DIR", str(tmp_path / "elsewhere"))
    assert tenfold.run_ok("find", "--json").objects == []


def test_nothing_is_written_into_a_task_of_cline(tenfold: Cli, home: Path) -> None:
    write_task(home / ".config/Code" / EXTENSION)
    before = read_tree(home)
    imported = tenfold.run_json("import", TASK)
    for named in (TASK, imported["session"]):
        ran = tenfold("apply", named, "--to", "20%")
        assert ran.code == 2
        assert "Open the task once in cline 4 or newer" in ran.err
    assert read_tree(home) == before


def test_a_task_that_cline_goes_on_with_as_a_session_is_listed_once(tenfold: Cli, home: Path) -> None:
    write_task(home / ".config/Code" / EXTENSION)
    messages = [{"id": "m1", "role": "user", "content": [{"type": "text", "text": "Look at the quokka."}]}]
    document = {"version": 1, "sessionId": TASK, "messages": messages}
    path = write(home / ".cline/data/sessions" / TASK / f"{TASK}.messages.json", document)
    (found,) = tenfold.run_ok("find", "--json").objects
    assert (found["path"], found["resume"]) == (str(path), ["cline", "--id", TASK])


def test_what_cannot_be_read_is_named_and_the_rest_is_listed(tenfold: Cli, home: Path) -> None:
    write_task(home / ".config/Code" / EXTENSION)
    database = home / ".local/share/opencode/opencode.db"
    database.parent.mkdir(parents=True)
    database.write_bytes(b"no database at all, but a text that is long enough to look like a file of one")
    ran = tenfold.run_ok("find", "--json")
    assert [each["client"] for each in ran.objects] == ["cline"]
    assert str(database) in ran.err
    assert "left out" in ran.err
