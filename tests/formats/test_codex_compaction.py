"""What Codex put in place of a history is what it sends from then on: that is read, counted and compacted."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tenfold.apps.clients.loaded_messages import load_messages
from tenfold.config.settings import build_policy
from tenfold.core.meter.counters import CharacterCounter, measure_messages
from tenfold.core.record.message import OpaquePart, get_text
from tenfold.formats import read_data, read_file, render_sessions
from tenfold.formats.importer import import_sessions
from tenfold.session import Session, SessionAddress
from tenfold.store.base import DEFAULT_NAMESPACE
from tenfold.store.sqlite.store import SqliteStore
from tests.cli.conftest import Cli
from tests.formats.made import render_lines

Json = dict[str, Any]
CASE = Path(__file__).parent / "cases" / "codex_begins_compacted.jsonl"
WORDS = " ".join(f"word{number}" for number in range(300))
SUMMARY = "The importer reads both layouts; the exporter is next."


def line(kind: str, **payload: object) -> Json:
    return {"timestamp": "2026-01-02T03:04:05.000Z", "type": kind, "payload": payload}


def say(role: str, text: str) -> Json:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def item(value: Json) -> Json:
    return line("response_item", **value)


def make_steps(first: int, last: int) -> list[Json]:
    out: list[Json] = []
    for number in range(first, last):
        call = {"type": "function_call", "call_id": f"c{number}", "name": "shell", "arguments": "{}"}
        result = {"type": "function_call_output", "call_id": f"c{number}", "output": f"output {number}: {WORDS}"}
        out += [item(call), item(result)]
    return out


META = line("session_meta", id="01999999-0000-7000-8000-00000000000c", cwd="/w")
ORIGINALS = [META, item(say("user", "Build the importer. Never edit schema.sql.")), *make_steps(0, 20)]
REPLACEMENT = [
    say("user", "Build the importer. Never edit schema.sql."),
    say("user", f"Another language model started to solve this problem and left this.\n{SUMMARY}"),
]
COMPACTED = line("compacted", message=SUMMARY, replacement_history=REPLACEMENT)
LEGACY = line("compacted", message=SUMMARY)
AFTER = [item(say("user", "Now the exporter.")), *make_steps(20, 24)]


def open_session(store: SqliteStore, *files: bytes) -> Session:
    """The session of a file that was read as it grew."""
    for data in files:
        (id_,) = import_sessions(read_data(data, file="f.jsonl"), store, DEFAULT_NAMESPACE, CharacterCounter())
    return Session(SessionAddress(store, id_), build_policy("tenfold", CharacterCounter()))


def test_a_rollout_that_begins_compacted_has_the_history_it_carries() -> None:
    with closing(SqliteStore(":memory:")) as store:
        messages = open_session(store, CASE.read_bytes()).view.get_messages()
    assert [get_text(m) for m in messages if m.origin == "human"] == [
        "Build the importer. Never edit schema.sql.",
        "Use port 9443 for the mock.",
        "Next: the exporter.",
    ]
    assert [p.kind for m in messages for p in m.parts if isinstance(p, OpaquePart)] == ["compaction"]
    sessions = read_file(CASE)
    assert render_sessions([(s.info, s.entries) for s in sessions]) == CASE.read_bytes()


@pytest.mark.parametrize("compacted", [COMPACTED, LEGACY])
def test_sizes_are_those_of_what_codex_sends_and_the_log_keeps_the_originals(compacted: Json) -> None:
    data = render_lines(*ORIGINALS, compacted, *AFTER)
    (parsed,) = read_data(data, file="f.jsonl")
    assert render_sessions([(parsed.info, parsed.entries)]) == data
    with closing(SqliteStore(":memory:")) as store:
        session = open_session(store, data)
        messages = session.view.get_messages()
        entries = store.read_entries(DEFAULT_NAMESPACE, session.address.session)
    texts = [get_text(message) for message in messages]
    assert texts[0] == "Build the importer. Never edit schema.sql."
    assert [m.origin for m in messages[:3]] == ["human", "harness", "human"]
    assert SUMMARY in texts[1]
    assert texts[2] == "Now the exporter."
    assert not any("output 5:" in text for text in texts)
    assert any("output 5:" in str(entry) for entry in entries)


def test_the_size_is_that_of_the_messages_that_codex_loads() -> None:
    data = render_lines(*ORIGINALS, COMPACTED, *AFTER)
    with closing(SqliteStore(":memory:")) as store:
        size = sum(open_session(store, data).conversation.get_message_sizes().values())
    assert size == sum(measure_messages(load_messages("codex", data), CharacterCounter()))


def test_a_rollout_read_before_and_after_its_compaction_is_one_session_without_doubles() -> None:
    lines = [*ORIGINALS, COMPACTED, *AFTER]
    steps = [render_lines(*lines[:count]) for count in range(len(ORIGINALS) - 2, len(lines) + 1)]
    with closing(SqliteStore(":memory:")) as store:
        grown = open_session(store, *steps).view.get_messages()
        assert len(store.list_sessions(DEFAULT_NAMESPACE)) == 1
        whole = open_session(store, steps[-1]).view.get_messages()
    assert [get_text(m) for m in grown] == [get_text(m) for m in whole]


def test_the_newest_of_several_compactions_counts() -> None:
    second = line("compacted", message="", replacement_history=[say("user", "Only this."), say("user", "And that.")])
    with closing(SqliteStore(":memory:")) as store:
        messages = open_session(store, render_lines(*ORIGINALS, COMPACTED, *AFTER, second)).view.get_messages()
    assert [get_text(message) for message in messages] == ["Only this.", "And that."]


def test_turns_that_codex_rolled_back_are_not_sent() -> None:
    back = line("event_msg", type="thread_rolled_back", num_turns=1)
    wrong = [item(say("user", "Paint it red.")), item(say("assistant", "It is red."))]
    lines = [*ORIGINALS, COMPACTED, *AFTER, *wrong, back, item(say("user", "Paint it blue."))]
    with closing(SqliteStore(":memory:")) as store:
        texts = [get_text(m) for m in open_session(store, render_lines(*lines)).view.get_messages()]
    assert "Paint it red." not in texts
    assert texts[-1] == "Paint it blue."
    assert "Now the exporter." in texts


@pytest.mark.parametrize("begin", [[META], ORIGINALS])
def test_a_compacted_rollout_can_be_compacted_and_applied(begin: list[Json], tenfold: Cli, tmp_path: Path) -> None:
    path = tmp_path / "rollout.jsonl"
    path.write_bytes(render_lines(*begin, COMPACTED, *AFTER, *make_steps(30, 60)))
    out = tmp_path / "out.jsonl"
    before = sum(measure_messages(load_messages("codex", path.read_bytes()), CharacterCounter()))
    compacted = tenfold.run_json("compact", path, "--to", "30%", "--out", out)
    assert 0.5 < compacted["tokens_before"] / before < 2
    loaded = [get_text(message) for message in load_messages("codex", out.read_bytes())]
    assert sum("<tenfold-summary" in text for text in loaded) == 1
    assert any("Never edit schema.sql." in text for text in loaded)
    assert len(json.dumps(loaded)) < len(path.read_bytes()) / 2
