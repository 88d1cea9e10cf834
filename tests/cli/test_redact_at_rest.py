"""With `redact_at_rest` no secret reaches the store: not its records, its index or its file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tenfold.config.settings import build_policy
from tenfold.core.meter.counters import CharacterCounter
from tenfold.formats import read_data, read_file
from tenfold.formats.export_items import get_original_items
from tenfold.formats.importer import import_sessions
from tenfold.formats.session_files import FORMATS
from tenfold.session import Session, SessionAddress
from tenfold.store.base import SessionInfo
from tenfold.store.location import open_store
from tenfold.store.sqlite.store import SqliteStore
from tests.cli.conftest import Cli
from tests.secrets import load_kinds
from tests.secrets.test_compacted_secrets import build_conversation, list_leaks
from tests.store.build import read_disk

KINDS = load_kinds()[::3]
GIVEN = build_conversation(KINDS)


def open_session(store: SqliteStore) -> Session:
    return Session.create(SessionAddress(store, "s"), build_policy("tenfold", CharacterCounter()))


def test_nothing_in_the_file_is_a_secret(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore(path, redact_at_rest=True)
    session = open_session(store)
    request: dict[str, Any] = {"model": "gpt-4o", "messages": GIVEN}
    sent = session.before_model(request, window=200_000)
    assert sent["messages"] == GIVEN, "the model is sent what the host has, secrets too"
    assert session.compact(to=2_000).status == "compacted"
    longer = {**request, "messages": [*GIVEN, {"role": "assistant", "content": "Done with that."}]}
    length = session.view.length
    open_session(store).before_model(longer, window=200_000)  # the same history, read by another process
    session.refresh()
    assert session.view.length == length + 1, "nothing is taken for a changed message"
    assert store.search("default", "part 3")
    assert store.verify("default") == []
    store.close()
    assert list_leaks([read_disk(path).decode(errors="replace")], KINDS) == []


def test_an_import_and_its_export_hold_none(tmp_path: Path) -> None:
    source = tmp_path / "talk.json"
    source.write_text(json.dumps(GIVEN))
    store = SqliteStore(tmp_path / "store.db", redact_at_rest=True)
    recorded = read_file(source, format="openai-chat")
    (session,) = import_sessions(recorded, store, "default", CharacterCounter())
    items = get_original_items(store, "default", session)
    (row,) = store.list_sessions("default")
    exported = FORMATS["openai-chat"].render_file(row.info, items).decode()
    assert [m["role"] for m in json.loads(exported)] == [m["role"] for m in GIVEN]
    assert list_leaks([exported, read_disk(tmp_path / "store.db").decode(errors="replace")], KINDS) == []
    assert store.verify("default") == []


def test_a_file_read_again_adds_nothing(tmp_path: Path) -> None:
    source = tmp_path / "log.jsonl"
    example = Path(__file__).resolve().parents[2] / "examples/sessions/logs.pi.jsonl"
    lines = example.read_text().splitlines()
    at = next(i for i, line in enumerate(lines) if '"role":"user"' in line.replace(" ", ""))
    record = json.loads(lines[at])
    record["message"]["content"] = [{"type": "text", "text": f"Deploy with this:\n{KINDS[0].text}"}]
    lines[at] = json.dumps(record)
    source.write_text("\n".join(lines) + "\n")
    store = SqliteStore(tmp_path / "store.db", redact_at_rest=True)
    for _ in range(2):
        import_sessions(read_file(source), store, "default", CharacterCounter())
    (row,) = store.list_sessions("default")
    assert row.entry_count == len(read_file(source)[0].entries)
    assert len(row.heads) == 1
    assert list_leaks([read_disk(tmp_path / "store.db").decode(errors="replace")], KINDS) == []
    FORMATS["pi"].render_file(row.info, get_original_items(store, "default", row.info.id))


def test_what_has_no_secret_is_stored_as_it_is() -> None:
    plain, redacting = SqliteStore(":memory:"), open_store(":memory:", redact_at_rest=True)
    source = Path(__file__).resolve().parents[2] / "examples/sessions/desk.openai-chat.json"
    for store in (plain, redacting):
        import_sessions(read_file(source), store, "default", CharacterCounter())
    (one,), (two,) = plain.list_sessions("default"), redacting.list_sessions("default")
    first, second = plain.read_entries("default", one.info.id), redacting.read_entries("default", two.info.id)
    assert [e.message for e in first if hasattr(e, "message")] == [e.message for e in second if hasattr(e, "message")]
    damaged = (
        b'{"type":"session","cwd":"/w"}\n{"type":"message","message":{"role":"user","content":"hi"}}\n\xff\xfe {\n'
    )
    import_sessions(read_data(damaged, file="f", skip_damaged=True), redacting, "default", CharacterCounter())
    row = next(each for each in redacting.list_sessions("default") if each.info.format == "pi")
    assert FORMATS["pi"].render_file(row.info, get_original_items(redacting, "default", row.info.id)) == damaged


def test_a_line_without_a_message_holds_none(tmp_path: Path) -> None:
    """The summary that pi recorded of its own compaction was stored with the secrets in it."""
    header = {"type": "session", "version": 3, "id": "s", "cwd": "/w"}
    summary = "\n".join(kind.text for kind in KINDS)
    line = {"type": "compaction", "id": "c", "parentId": None, "summary": summary, "firstKeptEntryId": "a"}
    source = tmp_path / "pi.jsonl"
    source.write_text(json.dumps(header) + "\n" + json.dumps(line) + "\n")
    store = SqliteStore(tmp_path / "store.db", redact_at_rest=True)
    for _ in range(2):
        import_sessions(read_file(source), store, "default", CharacterCounter())
    (row,) = store.list_sessions("default")
    exported = FORMATS["pi"].render_file(row.info, get_original_items(store, "default", row.info.id)).decode()
    assert [json.loads(each)["type"] for each in exported.splitlines()] == ["session", "compaction"]
    assert row.entry_count == 1
    assert list_leaks([exported, read_disk(tmp_path / "store.db").decode(errors="replace")], KINDS) == []


def test_a_title_holds_none() -> None:
    store = SqliteStore(":memory:", redact_at_rest=True)
    store.create("default", SessionInfo("s", title=KINDS[0].text))
    (row,) = store.list_sessions("default")
    assert list_leaks([row.info.title], KINDS) == []


@pytest.mark.parametrize("source", ["file", "variable"])
def test_the_command_follows_the_setting(
    tenfold: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    if source == "file":
        (tmp_path / "settings.toml").write_text("[tenfold]\nredact_at_rest = true\n")
        monkeypatch.setenv("TENFOLD_CONFIG", str(tmp_path / "settings.toml"))
    else:
        monkeypatch.setenv("TENFOLD_REDACT_AT_REST", "true")
    talk = tmp_path / "talk.json"
    talk.write_text(json.dumps(GIVEN[:60]))
    tenfold.run_ok("compact", talk, "--to", "50%", "--format", "openai-chat")
    assert list_leaks([read_disk(tenfold.store).decode(errors="replace")], KINDS) == []
