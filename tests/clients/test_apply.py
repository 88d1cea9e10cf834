"""Sessions of clients are found, imported, given back compacted and undone, as the clients' own readers see them.

The readers here do what each client does when it resumes a session; `test_real_clients` runs the clients themselves.
"""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tenfold.apps.clients.applied_session import take_out
from tenfold.formats import read_file
from tests.cli.conftest import EXAMPLES, Cli

Json = dict[str, Any]
_FILES = {
    "claude-code": ("pricing.claude-code.jsonl", ".claude/projects/-w/{id}.jsonl"),
    "codex": ("tracker.codex.jsonl", ".codex/sessions/2026/01/02/rollout-2026-01-02T03-04-05-{id}.jsonl"),
    "pi": ("logs.pi.jsonl", ".pi/agent/sessions/--w--/2026-01-02_{id}.jsonl"),
}


def place_example(client: str, home: Path) -> tuple[str, Path]:
    """Puts the project's recorded session where the client keeps its own, and returns its id and file."""
    name, place = _FILES[client]
    lines = read_lines((EXAMPLES / name).read_bytes())
    id_ = {
        "claude-code": lambda: next(str(v["sessionId"]) for v in lines if v.get("sessionId")),
        "codex": lambda: str(lines[0].get("payload", lines[0])["id"]),
        "pi": lambda: str(lines[0]["id"]),
    }[client]()
    path = home / place.format(id=id_)
    path.parent.mkdir(parents=True)
    shutil.copy(EXAMPLES / name, path)
    return id_, path


def read_lines(data: bytes) -> list[Json]:
    """The objects of a file of lines."""
    return [json.loads(line) for line in data.split(b"\n") if line.strip()]


def resume_claude_code(data: bytes) -> list[Json]:
    """The messages that Claude Code loads: the chain of the newest line, and nothing before its newest boundary."""
    lines = [line for line in read_lines(data) if line.get("uuid") and not line.get("isSidechain")]
    known = {line["uuid"]: line for line in lines}
    chain: list[Json] = []
    line: Json | None = lines[-1]
    while line is not None:
        chain.insert(0, line)
        line = None if line.get("subtype") == "compact_boundary" else known.get(line.get("parentUuid") or "")
    return [line["message"] for line in chain if line["type"] in ("user", "assistant")]


def resume_codex(data: bytes) -> list[Json]:
    """The items that Codex loads: those of its newest compaction, and what follows."""
    items: list[Json] = []
    for line in read_lines(data):
        if line.get("type") == "compacted":
            items = list(line["payload"]["replacement_history"])
        elif line.get("type") == "response_item":
            items.append(line["payload"])
    return items


def resume_pi(data: bytes) -> list[Json]:
    """The messages that pi loads: the branch of the newest entry."""
    entries = read_lines(data)[1:]
    known = {entry["id"]: entry for entry in entries}
    path: list[Json] = []
    entry: Json | None = entries[-1]
    while entry is not None:
        path.insert(0, entry)
        entry = known.get(entry.get("parentId") or "")
    return [entry["message"] for entry in path if entry["type"] == "message"]


_RESUME: dict[str, Callable[[bytes], list[Json]]] = {
    "claude-code": resume_claude_code,
    "codex": resume_codex,
    "pi": resume_pi,
}


def list_calls(messages: list[Json]) -> list[tuple[str, str]]:
    """The calls and the results of messages in order, with their ids."""
    out: list[tuple[str, str]] = []
    for message in messages:
        if message.get("type") in ("function_call", "custom_tool_call"):
            out.append(("call", message["call_id"]))
        elif message.get("type") in ("function_call_output", "custom_tool_call_output"):
            out.append(("result", message["call_id"]))
        elif message.get("role") == "toolResult":
            out.append(("result", message["toolCallId"]))
        for block in message["content"] if isinstance(message.get("content"), list) else []:
            if block.get("type") in ("tool_use", "toolCall"):
                out.append(("call", block["id"]))
            elif block.get("type") == "tool_result":
                out.append(("result", block["tool_use_id"]))
    return out


@pytest.mark.parametrize("client", _FILES)
def test_client_goes_on_from_the_view(client: str, tenfold: Cli, home: Path) -> None:
    id_, path = place_example(client, home)
    before = path.read_bytes()
    (found,) = tenfold.run_ok("find", "--json").objects
    assert (found["client"], found["id"], found["path"]) == (client, id_, str(path))
    assert found["title"]
    applied = tenfold.run_json("apply", id_[:13], "--to", "10%")
    assert applied["resume"][-1] == id_
    after = path.read_bytes()
    assert after.startswith(before), "what the client has is kept"
    old, new = _RESUME[client](before), _RESUME[client](after)
    assert "<tenfold-summary" in json.dumps(new)
    assert len(json.dumps(new)) < len(json.dumps(old)) / 3
    calls = list_calls(new)
    assert {i for kind, i in calls if kind == "call"} == {i for kind, i in calls if kind == "result"}
    seen: set[str] = set()
    for kind, call in calls:
        assert kind == "call" or call in seen, "no result comes before its call"
        seen.add(call)


@pytest.mark.parametrize("client", _FILES)
def test_undo_puts_back_every_byte(client: str, tenfold: Cli, home: Path) -> None:
    id_, path = place_example(client, home)
    before = path.read_bytes()
    tenfold.run_ok("apply", id_, "--to", "10%")
    assert tenfold.run_ok("apply", id_, "--undo").out.startswith("undone")
    assert path.read_bytes() == before
    ran = tenfold("apply", id_, "--undo")
    assert ran.code == 2
    assert "nothing to undo" in ran.err


@pytest.mark.parametrize("client", _FILES)
def test_what_was_applied_is_no_message_when_read_again(client: str, tenfold: Cli, home: Path) -> None:
    id_, path = place_example(client, home)
    tenfold.run_ok("apply", id_, "--to", "10%")
    size = path.stat().st_size
    shown = tenfold.run_ok("show", "last").out
    again = tenfold.run_json("apply", id_)
    assert path.stat().st_size == size, "the same compaction is not written twice"
    assert again["id"] == id_
    assert tenfold.run_ok("show", "last").out == shown


def test_undo_drops_nothing_that_the_client_wrote_since(tenfold: Cli, home: Path) -> None:
    id_, path = place_example("pi", home)
    before = path.read_bytes()
    tenfold.run_ok("apply", id_, "--to", "10%")
    newest = read_lines(path.read_bytes())[-1]["id"]
    line = {"type": "message", "id": "ffff0001", "parentId": newest, "message": {"role": "user", "content": "And now?"}}
    path.write_bytes(path.read_bytes() + json.dumps(line).encode() + b"\n")
    gone_on = path.read_bytes()
    ran = tenfold("apply", id_, "--undo")
    assert ran.code == 2
    assert "has gone on" in ran.err
    assert path.read_bytes() == gone_on
    tenfold.run_ok("apply", id_, "--undo", "--force")
    assert path.read_bytes() == before
    (kept,) = (tenfold.store.parent / "applied").rglob("*.dropped")
    assert kept.read_bytes() == gone_on


def test_copied_answers_have_ids_of_their_own(tenfold: Cli, home: Path) -> None:
    """Claude Code takes lines with one message id for one answer, and went on from the old ones."""
    id_, path = place_example("claude-code", home)
    before = {line["message"].get("id") for line in read_lines(path.read_bytes()) if "message" in line} - {None}
    tenfold.run_ok("apply", id_, "--to", "10%")
    copied = [
        line["message"] for line in read_lines(path.read_bytes()) if "tenfoldApplied" in line and "message" in line
    ]
    ids = {message["id"] for message in copied if message["role"] == "assistant"}
    assert ids
    assert not ids & before


def test_a_boundary_of_claude_code_hides_nothing_of_the_view(tenfold: Cli, home: Path) -> None:
    id_, path = place_example("claude-code", home)
    lines = read_lines(path.read_bytes())
    own = [line for line in lines if line.get("uuid") and not line.get("isSidechain")]
    ids = ("11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222")
    common = {"sessionId": id_, "timestamp": "2026-01-02T03:04:05Z", "isSidechain": False}
    boundary = common | {"type": "system", "subtype": "compact_boundary", "uuid": ids[0], "parentUuid": None}
    boundary |= {"logicalParentUuid": own[-1]["uuid"], "content": "Conversation compacted"}
    said = {"role": "user", "content": "This session is being continued: SUMMARY OF CLAUDE CODE"}
    summary = common | {"type": "user", "uuid": ids[1], "parentUuid": ids[0], "isCompactSummary": True, "message": said}
    path.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in (*lines, boundary, summary)))
    loaded = json.dumps(resume_claude_code(path.read_bytes()))
    assert "SUMMARY OF CLAUDE CODE" in loaded
    first_words = json.dumps(own[0]["message"]["content"])[1:60]
    assert first_words not in loaded
    tenfold.run_ok("apply", id_, "--to", "10%")
    resumed = json.dumps(resume_claude_code(path.read_bytes()))
    assert "<tenfold-summary" in resumed
    out = path.parent / "exported.jsonl"
    tenfold.run_ok("export", "last", "--out", out)
    exported = resume_claude_code(out.read_bytes())
    view = tenfold.run_ok("export", "last", "--as", "anthropic").out
    assert "<tenfold-summary" in json.dumps(exported)
    assert len(list_calls(exported)) == len(list_calls(json.loads(view)))


def test_import_stores_without_compacting(tenfold: Cli, home: Path) -> None:
    id_, path = place_example("codex", home)
    by_id = tenfold.run_json("import", id_)
    by_file = tenfold.run_json("import", path)
    assert by_id["session"] == by_file["session"]
    (row,) = tenfold.run_ok("sessions", "--json").objects
    assert row["blocks"] == 0


def test_errors_say_what_to_do(tenfold: Cli, home: Path) -> None:
    id_, _ = place_example("codex", home)
    for arguments, said in (
        (("apply", id_), "not compacted yet"),
        (("apply", "nowhere"), "`tenfold find` lists"),
        (("apply", id_, "--to", "10"), "--to 10% if a share was meant"),
        (("apply", id_, "--store", ":memory:"), "backups"),
    ):
        ran = tenfold(*arguments)
        assert ran.code == 2
        assert said in ran.err


def test_folders_follow_the_clients_own_variables(
    tenfold: Cli, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place_example("pi", home)
    place_example("codex", home)
    shutil.move(home / ".pi" / "agent", tmp_path / "agent")
    shutil.move(home / ".codex", tmp_path / "codex")
    assert tenfold.run_ok("find", "--json").objects == []
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(tmp_path / "agent"))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    assert {each["client"] for each in tenfold.run_ok("find", "--json").objects} == {"pi", "codex"}


def dump_database(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as database:
        return list(database.iterdump())


def test_opencode_database(tenfold: Cli, home: Path) -> None:
    path = home / ".local" / "share" / "opencode" / "opencode.db"
    write_opencode(path, steps=12)
    before = dump_database(path)
    (found,) = tenfold.run_ok("find", "--json").objects
    assert (found["client"], found["id"], found["title"]) == ("opencode", "ses_1", "Counting")
    tenfold.run_ok("apply", "ses_1", "--to", "20%")
    with closing(sqlite3.connect(path)) as database:
        rows = [json.loads(d) for (d,) in database.execute("SELECT data FROM part ORDER BY id")]
    start = next(at for at, row in enumerate(rows) if row["type"] == "compaction")
    view = rows[start:]
    assert "<tenfold-summary" in json.dumps(view)
    tools = [row for row in view if row["type"] == "tool"]
    assert len({row["callID"] for row in tools}) == len(tools)
    assert all(row["state"]["status"] == "completed" for row in tools)
    tenfold.run_ok("apply", "ses_1", "--undo")
    assert dump_database(path) == before


OPENCODE_TABLES = (
    "CREATE TABLE session (id TEXT PRIMARY KEY, parent_id TEXT, directory TEXT, title TEXT, version TEXT,"
    " time_updated INTEGER, time_archived INTEGER);"
    "CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, time_updated INTEGER,"
    " data TEXT);"
    "CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, time_created INTEGER,"
    " time_updated INTEGER, data TEXT);"
)
"""The tables and columns of opencode's database that are used."""


def write_opencode(path: Path, *, steps: int) -> None:
    """A database as opencode 1.18 writes it, with the tables and columns that are used."""
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(OPENCODE_TABLES)
        about = ("ses_1", None, "/w", "Counting", "1.18.33", 1_795_720_797_414, None)
        database.execute("INSERT INTO session VALUES (?, ?, ?, ?, ?, ?, ?)", about)
        for number in range(steps + 1):
            time = 1_795_720_791_000 + number
            info: Json = {"role": "assistant", "time": {"created": time}, "modelID": "m", "providerID": "p"}
            state = {
                "status": "completed",
                "input": {"command": f"seq {number}"},
                "output": f"{number} is counted\n" * 90,
            }
            part: Json = {"type": "tool", "tool": "bash", "callID": f"call_{number}", "state": state}
            if number == 0:
                info, part = {"role": "user", "time": {"created": time}}, {"type": "text", "text": "Count for me."}
            message = f"msg_{number:03}"
            database.execute(
                "INSERT INTO message VALUES (?, 'ses_1', ?, ?, ?)", (message, time, time, json.dumps(info))
            )
            row = (f"prt_{number:03}", message, time, time, json.dumps(part))
            database.execute("INSERT INTO part VALUES (?, ?, 'ses_1', ?, ?, ?)", row)


def test_a_target_that_is_a_slip_is_refused(tenfold: Cli, home: Path) -> None:
    assert home.is_dir()
    pi = EXAMPLES / "logs.pi.jsonl"
    ran = tenfold("compact", pi, "--to", "10")
    assert ran.code == 2
    assert "--to 10% if a share was meant" in ran.err
    assert tenfold.run_json("compact", pi, "--to", "10", "--yes")["status"] == "compacted"


def test_a_target_below_what_must_stay_is_refused_with_the_least(tenfold: Cli, home: Path) -> None:
    rules = ("Never touch config.toml.", "Always name the number in the title.", "Go on.")
    messages = [
        each
        for rule in rules
        for each in ({"role": "user", "content": rule}, {"role": "assistant", "content": "It is fine so far. " * 40})
    ]
    path = home / "chat.json"
    path.write_text(json.dumps(messages))
    ran = tenfold("compact", path, "--to", "6%")
    assert ran.code == 2
    (least,) = re.findall(r"--to (\d+) or\s+more", ran.err)
    assert f"what must stay takes {least}" in " ".join(ran.err.split())
    assert tenfold.run_json("compact", path, "--to", least, "--preview")["reason"].endswith(least)
    assert tenfold.run_json("compact", path, "--to", "6%", "--yes")["target_missed"]


def write_old_gemini(home: Path, *, steps: int) -> Path:
    """A session as gemini-cli before 0.40 kept it: one document, calls with their results."""
    messages: list[Json] = [
        {"id": "u0", "type": "user", "content": "Look at all parts. Never touch config/secret.toml."}
    ]
    for number in range(steps):
        text = f"part {number}: " + " ".join(f"word{number}x{n}" for n in range(300))
        response = {"functionResponse": {"id": f"c{number}", "name": "read_file", "response": {"output": text}}}
        call = {"id": f"c{number}", "name": "read_file", "args": {"path": f"src/{number}.py"}, "result": [response]}
        messages.append(
            {
                "id": f"a{number}",
                "type": "gemini",
                "content": f"Step {number}.",
                "toolCalls": [call | {"status": "success"}],
            }
        )
    times = [message | {"timestamp": f"2026-01-02T03:04:{n:02}.000Z"} for n, message in enumerate(messages)]
    document = {"sessionId": "11112222-3333-4444-5555-666677778888", "projectHash": "abc", "messages": times}
    path = home / ".gemini/tmp/abc/chats/session-2026-01-02T03-04-11112222.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(document | {"startTime": times[0]["timestamp"], "lastUpdated": times[-1]["timestamp"]}))
    return path


def test_an_old_session_of_gemini_is_compacted_and_put_back(tenfold: Cli, home: Path) -> None:
    path = write_old_gemini(home, steps=24)
    before = path.read_bytes()
    (found,) = tenfold.run_ok("find", "--json").objects
    applied = tenfold.run_json("apply", found["id"], "--to", "10%")
    document = json.loads(path.read_bytes())
    assert document["sessionId"] == found["id"]
    assert document["projectHash"] == "abc"
    assert len(path.read_bytes()) < len(before) / 3
    text = json.dumps(document["messages"])
    assert "<tenfold-summary" in text
    assert "Never touch config/secret.toml." in text
    assert all({"id", "timestamp", "type"} <= message.keys() for message in document["messages"])
    assert "word0x299" not in text
    assert read_file(path)[0].problems == (), "it is read again as what it is now"
    assert Path(applied["backup"]).read_bytes() == before
    tenfold.run_ok("apply", found["id"], "--undo")
    assert path.read_bytes() == before


@pytest.mark.parametrize(("client", "key"), [("claude-code", "uuid"), ("pi", "id")])
def test_a_client_that_went_on_without_the_view_is_given_it_again(
    client: str, key: str, tenfold: Cli, home: Path
) -> None:
    id_, path = place_example(client, home)
    newest = [line for line in read_lines(path.read_bytes()) if line.get(key) and not line.get("isSidechain")][-1]
    tenfold.run_ok("apply", id_, "--to", "10%")
    message = {"role": "user", "content": "And now?"}
    parent = "parentUuid" if key == "uuid" else "parentId"
    line = newest | {"type": "user" if key == "uuid" else "message", "message": message, key: "ffff0001"}
    with path.open("ab") as file:  # the client had the session in memory, where there is no view
        file.write(json.dumps(line | {parent: newest[key]}).encode() + b"\n")
    assert "applied" in tenfold.run_ok("apply", id_).out
    sent = json.dumps(_RESUME[client](path.read_bytes()))
    assert "<tenfold-summary" in sent
    assert sent.count("And now?") == 1
    assert "holds this compaction already" in tenfold.run_ok("apply", id_).out


@pytest.mark.parametrize(
    "written", [b"old\nours\n", b"old\ntheirs\nours\n", b"old\nours\ntheirs\n", b"old\nthours\neirs\n"]
)
def test_a_failed_apply_takes_out_its_own_lines_alone(written: bytes) -> None:
    rest = take_out(written, b"old\n", b"old\nours\n")
    assert rest == (b"old\ntheirs\n" if b"th" in written else b"old\n")
