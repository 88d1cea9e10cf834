"""Journals of Kimi Code: undo, clear, compaction and calls side by side leave what its model is told, and no more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tenfold.config.settings import build_policy
from tenfold.core.meter.counters import CharacterCounter
from tenfold.core.record.entry import MessageEntry
from tenfold.core.record.message import get_text, get_tool_calls, get_tool_result
from tenfold.formats import FORMATS, ParsedSession, read_data, read_file, render_sessions
from tenfold.formats.export_items import get_view_items
from tenfold.formats.importer import import_sessions
from tenfold.session import Session, SessionAddress
from tenfold.store.base import DEFAULT_NAMESPACE
from tenfold.store.sqlite.store import SqliteStore
from tests.formats.made import FILES, render_lines

Json = dict[str, Any]
HEADER: Json = {"type": "metadata", "protocol_version": "1.5", "created_at": 1796137325897}


def say(text: str, kind: str = "user", id_: str = "", **origin: str) -> Json:
    message = {"role": "user", "content": [{"type": "text", "text": text}], "toolCalls": [], "id": id_}
    return {"type": "context.append_message", "message": message | {"origin": {"kind": kind, **origin}}}


def event(kind: str, **fields: object) -> Json:
    return {"type": "context.append_loop_event", "event": {"type": kind, **fields}}


def answer(text: str) -> list[Json]:
    part = {"type": "text", "text": text}
    return [event("step.begin", uuid=text), event("content.part", stepUuid=text, part=part), event("step.end")]


def call(id_: str) -> Json:
    return event("tool.call", stepUuid="s", toolCallId=id_, name="look", args={"at": id_})


def result(id_: str, **more: object) -> Json:
    return event("tool.result", toolCallId=id_, result={"output": f"saw {id_}", **more})


def read(*lines: Json) -> ParsedSession:
    data = render_lines(HEADER, *lines)
    (found,) = read_data(data, file="f")
    assert render_sessions([(found.info, found.entries)]) == data
    return found


def list_texts(session: ParsedSession) -> list[str]:
    """What the newest entry stands behind, oldest first: a call as its id, and the text of all else."""
    by_id = {entry.id: entry for entry in session.entries}
    out: list[str] = []
    at: str | None = session.entries[-1].id
    while at is not None:
        entry = by_id[at]
        if isinstance(entry, MessageEntry):
            calls = [each.id for each in get_tool_calls(entry.message)]
            out.append("+".join(calls) or get_text(entry.message))
        at = entry.parent
    return out[::-1]


TWO_TURNS = [say("one"), *answer("first"), say("two", id_="m2"), *answer("second")]


def test_an_undo_takes_back_the_newest_turns_and_what_was_put_in_for_them() -> None:
    undo = {"type": "context.undo", "count": 1}
    assert list_texts(read(*TWO_TURNS, undo, say("again"))) == ["one", "first", "again"]
    note = say("note for two", "injection", ownerPromptId="m2")
    assert list_texts(read(*TWO_TURNS[:4], note, *TWO_TURNS[4:], undo, say("again"))) == ["one", "first", "again"]
    assert list_texts(read(*TWO_TURNS, undo | {"count": 3}, say("again")))[-2:] == ["second", "again"]


def test_a_clear_empties_the_conversation() -> None:
    assert list_texts(read(*TWO_TURNS, {"type": "context.clear"}, say("new"))) == ["new"]


def test_a_compaction_leaves_the_users_words_and_its_summary() -> None:
    compaction: Json = {"type": "context.apply_compaction", "contextSummary": "SUM", "compactedCount": 4}
    newer = [*TWO_TURNS, say("note", "injection"), compaction | {"keptUserMessageCount": 2}]
    assert list_texts(read(*newer, *answer("third"))) == ["one", "two", "SUM", "third"]
    (older,) = [read(*TWO_TURNS, compaction | {"compactedCount": 3}, *answer("third"))]
    assert list_texts(older) == ["SUM", "second", "third"]
    undone = read(*newer, say("three"), {"type": "context.undo", "count": 1}, say("four"))
    assert list_texts(undone) == ["one", "two", "SUM", "four"]
    assert list_texts(read(*newer, {"type": "context.undo", "count": 1}, say("four")))[-2:] == ["SUM", "four"]


def test_a_compaction_that_kept_the_first_and_newest_words_names_how_many() -> None:
    turns = [line for number in range(6) for line in (say(f"word {number}"), *answer(f"answer {number}"))]
    kept: Json = {"keptUserMessageCount": 3, "keptHeadUserMessageCount": 1, "compactedCount": 12}
    found = read(*turns, {"type": "context.apply_compaction", "summary": "SUM", **kept})
    assert list_texts(found) == ["word 0", "word 4", "word 5", "SUM"]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([call("a"), call("b"), result("a"), result("b")], ["a+b", "saw a", "saw b"]),
        ([call("a"), result("a"), call("b"), result("b")], ["a", "saw a", "b", "saw b"]),
        ([call("a"), call("b"), result("b"), call("c"), result("c"), result("a")],
         ["a+b", "saw b", "saw a", "c", "saw c"]),
        ([call("a"), say("wait"), result("a")], ["a", "saw a", "wait"]),
        ([call("a"), event("step.end"), result("a")], ["a", "saw a"]),
        ([call("a"), say("stop")], ["a", "stop"]),
        ([result("x")], ["saw x"]),
    ],
)  # fmt: skip
def test_results_follow_their_calls_in_whatever_order_they_came(lines: list[Json], expected: list[str]) -> None:
    found = read(say("go"), event("step.begin", uuid="s"), *lines, *answer("done"))
    assert list_texts(found) == ["go", *expected, "done"]


def test_errors_notes_and_what_the_user_did_not_type_are_told_apart() -> None:
    shown = say("3 files", "shell_command", phase="output")
    skill = say("Do as the skill says.", "skill_activation", trigger="user-slash")
    found = read(say("go"), shown, skill, call("a"), result("a", isError=True, note="try b"))
    messages = [entry.message for entry in found.entries if isinstance(entry, MessageEntry)]
    assert [message.origin for message in messages] == ["human", "tool", "harness", "model", "tool"]
    last = get_tool_result(messages[-1])
    assert last is not None
    assert last.is_error
    assert get_text(messages[-1]) == "saw a\ntry b"


def test_the_usage_of_a_step_and_its_model_are_those_of_its_answer() -> None:
    (found,) = read_data(FILES["kimi-code"][1], file="f")
    usages = [entry.usage for entry in found.entries if isinstance(entry, MessageEntry) and entry.usage]
    assert [(usage.prompt, usage.cache_read, usage.model) for usage in usages] == [
        (21_122, 21_000, "kimi-k3"),
        (21_190, 21_000, "kimi-k3"),
    ]


def test_a_session_has_the_name_of_its_folder_and_a_helper_that_of_its_own_behind(tmp_path: Path) -> None:
    for agent in ("main", "agent-1"):
        path = tmp_path / "session_9" / "agents" / agent / "wire.jsonl"
        path.parent.mkdir(parents=True)
        path.write_bytes(FILES["kimi-code"][1])
        (found,) = read_file(path)
        expected = ("session_9", "") if agent == "main" else ("session_9#agent-1", "session_9")
        assert (found.info.id, found.info.parent) == expected


def test_a_view_is_written_as_a_journal_that_says_the_same() -> None:
    steps = [
        line
        for number in range(30)
        for line in (event("step.begin", uuid=f"{number}"), call(f"c{number}"), result(f"c{number}", note="x " * 300))
    ]
    compaction: Json = {"type": "context.apply_compaction", "summary": "SUM", "keptUserMessageCount": 1}
    found = read(say("Never paint the door."), *steps, compaction, say("Go on."), *steps, *answer("done"))
    store, counter = SqliteStore(":memory:"), CharacterCounter()
    (session_id,) = import_sessions([found], store, DEFAULT_NAMESPACE, counter)
    session = Session(SessionAddress(store, session_id), build_policy("tenfold", counter))
    for _ in range(2):
        told = [get_text(each) for each in session.view.get_messages()]
        data = FORMATS["kimi-code"].render_file(found.info, get_view_items(session.view))
        (again,) = read_data(data, file="f")
        messages = [entry.message for entry in again.entries if isinstance(entry, MessageEntry)]
        assert [get_text(message) for message in messages] == told
        assert told[0] == "Never paint the door."
        session.compact(to=0.3)
    store.close()
