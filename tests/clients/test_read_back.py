"""What was applied is read back as the client will load it: it is the view, or nothing was applied."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tenfold.apps.clients.applied_session import apply_view
from tenfold.apps.clients.found_sessions import FoundSession
from tenfold.apps.clients.loaded_messages import load_messages
from tenfold.apps.clients.view_copy import ViewCopy
from tenfold.core.meter.counters import CharacterCounter, measure_messages
from tenfold.core.record.entry import get_message
from tenfold.core.record.message import Message, Text, ToolResult, get_text
from tenfold.errors import UsageError
from tenfold.formats import read_data, read_file
from tenfold.formats.base import ReplacementMessage
from tests.cli.conftest import EXAMPLES, Cli
from tests.clients.test_apply import place_example, read_lines
from tests.formats.made import render_lines

Json = dict[str, Any]
WORDS = " ".join(f"word{number}" for number in range(400))


def write_pi_1(home: Path) -> Path:
    """A session of pi as it was before it had versions: a chain of lines without ids."""
    head, *entries = read_lines((EXAMPLES / "logs.pi.jsonl").read_bytes())
    lines = [head, *entries]
    path = home / f".pi/agent/sessions/--w--/2026-01-02_{head['id']}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(
        render_lines(*({k: v for k, v in line.items() if k not in ("version", "parentId")} for line in lines))
    )
    bare = [{k: v for k, v in line.items() if k not in ("version", "parentId", "id")} for line in entries]
    path.write_bytes(render_lines({k: v for k, v in head.items() if k != "version"}, *bare))
    return path


def open_pi(data: bytes) -> list[Json]:
    """The messages that pi sends of a file without versions: it makes a chain of the lines, and obeys a compaction."""
    entries = read_lines(data)[1:]
    newest = max((n for n, entry in enumerate(entries) if entry["type"] == "compaction"), default=-1)
    kept = entries[newest + 1 :]
    if newest >= 0:
        first = entries[newest]["firstKeptEntryIndex"] - 1  # the header is line 0
        kept = [*entries[min(first, newest) : newest], *kept] if first < newest else kept
    return [entry["message"] for entry in kept if entry["type"] == "message"]


def test_a_session_of_pi_without_a_version_goes_on_from_the_view(tenfold: Cli, home: Path) -> None:
    path = write_pi_1(home)
    before = path.read_bytes()
    (found,) = tenfold.run_ok("find", "--json").objects
    applied = tenfold.run_json("apply", found["id"], "--to", "10%")
    after = path.read_bytes()
    assert after.startswith(before)
    sent = open_pi(after)
    assert "<tenfold-summary" in json.dumps(sent[0])
    assert json.dumps(sent).count("<tenfold-summary") == 1
    assert len(json.dumps(sent)) < len(json.dumps(open_pi(before))) / 4
    assert sum(len(json.dumps(message)) for message in sent) < 8 * applied["tokens"]
    tenfold.run_ok("apply", found["id"], "--undo")
    assert path.read_bytes() == before


def say(own: str, text: str) -> Json:
    return {"id": own, "timestamp": "2026-01-02T03:04:05Z", "type": "user", "content": [{"text": text}]}


def answer(own: str, call: str, *, is_done: bool = True) -> Json:
    result = [{"functionResponse": {"id": call, "name": "shell", "response": {"output": f"{call}: {WORDS}"}}}]
    made = {"id": call, "name": "shell", "args": {"n": call}} | ({"result": result} if is_done else {})
    return {"id": own, "type": "gemini", "content": f"step {own}", "toolCalls": [made]}


def respond(own: str, call: str) -> Json:
    response = {"id": call, "name": "shell", "response": {"output": f"{call}: {WORDS}"}}
    return {"id": own, "type": "user", "content": [{"functionResponse": response}]}


HEADER = {"sessionId": "11112222-3333", "projectHash": "p", "startTime": "2026-01-02T03:04:05Z", "kind": "main"}
CONTEXT = say("ctx", "<session_context>\nThis is the folder.\n</session_context>")
TASK_ONE, TASK_TWO = "TASK ONE: count for me, and never touch config.py.", "TASK TWO: go on."


def make_turn(names: str) -> list[Json]:
    """Steps of a turn as the client writes them: each answer twice, and its result once more as the user's."""
    lines: list[Json] = []
    for name in names:
        lines += [answer(name, f"call_{name}", is_done=False), {"$set": {"lastUpdated": "now"}}]
        lines += [answer(name, f"call_{name}"), respond(f"{name}r", f"call_{name}"), {"$set": {"lastUpdated": "now"}}]
    return lines


def restate(names: str) -> list[Json]:
    """Steps as the client states them when it resumes: results are turns of their own, some of them twice."""
    lines: list[Json] = []
    for name in names:
        call = {"functionCall": {"id": f"call_{name}", "name": "shell", "args": {"n": f"call_{name}"}}}
        lines.append({"id": name, "type": "gemini", "content": [{"text": f"step {name}"}, call]})
        lines += [respond(f"{name}_response", f"call_{name}"), respond(f"{name}r", f"call_{name}")]
    return lines


FIRST: list[Json] = [HEADER, {"$set": {"messages": [CONTEXT]}}, say("t1", TASK_ONE), *make_turn("abcdef")]
RESUMED: list[Json] = [
    *FIRST,
    HEADER,
    {"$set": {"messages": [CONTEXT]}},
    {"$set": {"sessionId": "11112222-3333"}},
    {"$set": {"messages": [CONTEXT, say("t1", TASK_ONE), *restate("abcdef")], "lastUpdated": "now"}},
    say("t2", TASK_TWO),
    *make_turn("ghij"),
]


def list_texts(data: bytes) -> list[str]:
    """The texts on the path to the last entry."""
    (session,) = read_data(data, file="f.jsonl")
    parents = {entry.id: entry for entry in session.entries}
    out: list[str] = []
    key: str | None = session.entries[-1].id
    while key is not None:
        message = get_message(parents[key])
        out.insert(0, get_text(message)) if message is not None else None
        key = parents[key].parent
    return out


def test_a_resumed_session_of_gemini_holds_every_message_once() -> None:
    texts = list_texts(render_lines(*RESUMED))
    assert texts.count(TASK_ONE) == texts.count(TASK_TWO) == 1
    results = [text for text in texts if text.startswith("call_")]
    assert results == [f"call_{name}: {WORDS}" for name in "abcdefghij"]


def test_what_gemini_goes_back_from_is_no_longer_sent() -> None:
    texts = list_texts(
        render_lines(*FIRST, say("t2", "Paint it red."), {"$rewindTo": "t2"}, say("t3", "Paint it blue."))
    )
    assert "Paint it red." not in texts
    assert texts[-1] == "Paint it blue."
    compressed = [say("s", "What was done so far."), say("t4", "Go on.")]
    assert list_texts(render_lines(*FIRST, {"$set": {"messages": compressed}})) == ["What was done so far.", "Go on."]


def place_gemini(home: Path, *lines: Json) -> Path:
    path = home / ".gemini/tmp/w/chats/session-2026-01-02T03-04-11112222.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(render_lines(*lines))
    return path


def open_gemini(data: bytes) -> list[Json]:
    """The records that gemini-cli has when it opens a session."""
    records: dict[str, Json] = {}
    for line in read_lines(data):
        if "id" in line:
            records[line["id"]] = line
        elif "messages" in line.get("$set", {}):
            records = {record["id"]: record for record in line["$set"]["messages"]}
    return list(records.values())


@pytest.mark.parametrize("lines", [FIRST, RESUMED])
def test_a_session_of_gemini_goes_on_from_the_view_and_holds_the_task_once(
    lines: list[Json], tenfold: Cli, home: Path
) -> None:
    path = place_gemini(home, *lines)
    (found,) = tenfold.run_ok("find", "--json").objects
    tenfold.run_ok("apply", found["id"], "--to", "20%")
    sent = json.dumps(open_gemini(path.read_bytes()))
    assert "<tenfold-summary" in sent or "[output removed" in sent
    assert sent.count("TASK ONE: count for me") == 1
    assert sent.count(TASK_TWO) == (lines is RESUMED)


def test_a_session_of_gemini_that_was_resumed_after_an_apply_is_read_as_one(tenfold: Cli, home: Path) -> None:
    path = place_gemini(home, *FIRST)
    (found,) = tenfold.run_ok("find", "--json").objects
    tenfold.run_ok("apply", found["id"], "--to", "20%")
    shown = tenfold.run_ok("export", "last", "--as", "gemini").out
    loaded = open_gemini(path.read_bytes())
    again: list[Json] = []
    for record in loaded:
        texts = record["content"] if isinstance(record["content"], list) else [{"text": record["content"]}]
        calls = [{"functionCall": {k: c[k] for k in ("id", "name", "args")}} for c in record.get("toolCalls", [])]
        again.append({"id": record["id"], "type": record["type"], "content": [*texts, *calls]})
        again += [
            {"id": f"{record['id']}_{n}", "type": "user", "content": c["result"]}
            for n, c in enumerate(record.get("toolCalls", []))
        ]
    lines = [HEADER, {"$set": {"messages": [CONTEXT]}}, {"$set": {"messages": [CONTEXT, *again]}}, say("t2", TASK_TWO)]
    path.write_bytes(path.read_bytes() + render_lines(*lines))
    tenfold.run_ok("import", path)
    grown = tenfold.run_ok("export", "last", "--as", "gemini").out
    assert TASK_TWO in grown
    assert [m for m in json.loads(grown) if TASK_TWO not in json.dumps(m)] == json.loads(shown)


def test_a_session_that_is_being_written_is_left_alone(tenfold: Cli, home: Path) -> None:
    id_, path = place_example("claude-code", home)
    path.write_bytes(path.read_bytes()[:-40])
    before = path.read_bytes()
    ran = tenfold("apply", id_, "--to", "10%")
    assert ran.code == 2
    assert "quit it first" in " ".join(ran.err.split())
    assert path.read_bytes() == before


def test_a_session_that_the_client_cannot_open_is_left_alone(tenfold: Cli, home: Path) -> None:
    id_, path = place_example("codex", home)
    head, *lines = read_lines(path.read_bytes())
    old = [line["payload"] for line in lines if line["type"] == "response_item"]
    path.write_bytes(render_lines({"instructions": ""} | {k: head["payload"][k] for k in ("id", "timestamp")}, *old))
    before = path.read_bytes()
    ran = tenfold("apply", id_, "--to", "10%")
    assert ran.code == 2
    assert "does not resume" in " ".join(ran.err.split())
    assert path.read_bytes() == before


def test_what_is_not_loaded_as_promised_is_taken_back(home: Path, tmp_path: Path) -> None:
    path = place_gemini(home, *FIRST)
    before = path.read_bytes()
    alone = Message("tool", (ToolResult("c", "shell", (Text("a result without its call"),)),), "tool")
    copy = ViewCopy([ReplacementMessage(alone)], 9, "mark", 0)
    found = FoundSession("gemini-cli", "11112222-3333", path, 0)
    with pytest.raises(UsageError, match=r"in 2 messages .* has 9 in 1; .*Nothing was applied"):
        apply_view(found, before, copy, tmp_path / "backups", CharacterCounter())
    assert path.read_bytes() == before
    assert list((tmp_path / "backups").rglob("*.json")) == []


@pytest.mark.parametrize("client", ["claude-code", "codex", "pi"])
def test_what_is_loaded_of_a_session_is_what_the_file_says(client: str, home: Path) -> None:
    _, path = place_example(client, home)
    (session,) = read_file(path)[:1]
    texts = [get_text(m) for entry in session.entries if (m := get_message(entry)) is not None]
    assert [get_text(m) for m in load_messages(client, path.read_bytes())] == texts


def test_a_session_that_codex_had_compacted_goes_on_from_the_view(tenfold: Cli, home: Path) -> None:
    id_, path = place_example("codex", home)
    said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Only this is kept."}]}
    payload = {"message": "", "replacement_history": [said]}
    old = path.read_bytes()
    path.write_bytes(
        old
        + render_lines({"timestamp": "2026-01-02T03:04:05Z", "type": "compacted", "payload": payload})
        + old.split(b"\n", 1)[1]
    )
    before = sum(measure_messages(load_messages("codex", path.read_bytes()), CharacterCounter()))
    assert before < sum(measure_messages(load_messages("codex", old), CharacterCounter())) + 100
    applied = tenfold.run_json("apply", id_, "--to", "10%")
    loaded = load_messages("codex", path.read_bytes())
    assert applied["tokens"] < before / 3
    assert sum("<tenfold-summary" in get_text(message) for message in loaded) == 1
