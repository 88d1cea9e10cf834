"""`tenfold doctor` finds what is wrong, and what to do about it; it shows no key and changes nothing."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tenfold.apps.cli.main import run
from tenfold.apps.gateway.application import Gateway
from tenfold.apps.gateway.gateway_settings import GatewaySettings
from tenfold.apps.gateway.server import GatewayThread
from tenfold.core.record.entry import Attempt
from tenfold.core.record.token_reading import Counted
from tenfold.store.base import DEFAULT_NAMESPACE, SessionInfo
from tenfold.store.ids import IDS, get_current_time
from tenfold.store.sqlite.store import SqliteStore
from tests.cli.conftest import Cli

SECRET = "sk-this-is-not-to-be-shown"  # noqa: S105 - of this test
CHECKS = ["version", "extras", "settings", "store", "keys", "models", "clients", "gateway", "jobs", "failures"]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with no client, no key and no settings, and a port for the gateway that is free."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)


def write_settings(text: str) -> None:
    Path("tenfold.toml").write_text(text, "utf-8")


def examine(tenfold: Cli, code: int, *options: str) -> dict[str, list[dict[str, Any]]]:
    """The findings of each check, after it ended with this code, which fits them."""
    ran = tenfold("doctor", "--json", *options)
    assert ran.code == code, ran.out
    assert any(each["state"] == "wrong" for each in ran.objects) == (code == 1)
    found: dict[str, list[dict[str, Any]]] = {}
    for each in ran.objects:
        assert set(each) == {"check", "state", "what", "todo"}
        found.setdefault(each["check"], []).append(each)
    return found


def test_a_new_machine_has_nothing_wrong_and_nothing_is_made(tenfold: Cli) -> None:
    assert list(examine(tenfold, 0)) == CHECKS
    ran = tenfold.run_ok("doctor")
    assert "does not exist yet" in ran.out
    assert "nothing is wrong" in ran.out
    assert not tenfold.store.exists()


def test_a_store_is_described_and_stays_as_it_is(tenfold: Cli, pi: Path) -> None:
    tenfold.run_ok("import", pi)
    before = tenfold.store.read_bytes()
    found = examine(tenfold, 0)
    assert "1 session" in found["store"][0]["what"]
    assert found["integrity"][0]["state"] == "ok"
    assert "212 of 212 entries are not indexed" in found["index"][0]["what"]
    assert tenfold.store.read_bytes() == before


def test_settings_that_are_wrong_are_named_with_their_line(tenfold: Cli) -> None:
    write_settings('[tenfold]\npolicy = "tail\n')
    (found,) = examine(tenfold, 1)["settings"]
    assert "line 2" in found["what"]
    assert found["todo"]
    write_settings('[tenfold]\npolicies = "tail"\n')
    assert "has no setting 'policies'" in examine(tenfold, 1)["settings"][0]["what"]
    write_settings("[tenfold.gateway]\nports = 8080\n")
    assert "has no setting 'ports'" in examine(tenfold, 1)["settings"][-1]["what"]


def test_a_damaged_store_is_found(tenfold: Cli, pi: Path) -> None:
    tenfold.run_ok("import", pi)
    data = bytearray(tenfold.store.read_bytes())
    for page in range(8, len(data) // 4096, 3):
        data[page * 4096 : page * 4096 + 60] = b"\xff" * 60
    tenfold.store.write_bytes(bytes(data))
    found = examine(tenfold, 1)
    wrong = [each for each in found.get("integrity", []) + found["store"] if each["state"] == "wrong"]
    assert any("tenfold salvage" in each["todo"] + each["what"] for each in wrong)


def test_keys_are_named_and_never_shown(tenfold: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "")
    ran = tenfold.run_ok("doctor")
    assert "in the environment: OPENAI_API_KEY" in ran.out
    assert "set, but empty: ANTHROPIC_API_KEY" in ran.out
    ran = tenfold("doctor", "--store", f"postgresql://someone:{SECRET}@127.0.0.1:1/agents")
    assert ran.code == 1
    assert "127.0.0.1" in ran.out
    assert SECRET not in ran.out + ran.err


def test_a_model_without_a_key_is_wrong(tenfold: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    write_settings('[tenfold]\nmodel = "openai:gpt-4o-mini"\nfallbacks = ["auto"]\n')
    wrong, auto = examine(tenfold, 1)["models"]
    assert (wrong["state"], auto["state"]) == ("wrong", "ok")
    assert "OPENAI_API_KEY" in wrong["what"]
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    assert [each["state"] for each in examine(tenfold, 0)["models"]] == ["ok", "ok"]


def test_clients_are_found_with_what_was_installed_into_them(tenfold: Cli, tmp_path: Path, pi: Path) -> None:
    for name in ("claude", "codex", "gemini"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    place = tmp_path / ".pi" / "agent" / "sessions" / "--srv--"
    place.mkdir(parents=True)
    (place / "2026-01-01_x.jsonl").write_bytes(pi.read_bytes())
    tenfold.run_ok("install", "claude-code")
    whats = {each["what"].partition(":")[0]: each for each in examine(tenfold, 0)["clients"]}
    assert list(whats) == ["claude-code", "codex", "pi", "gemini-cli"]
    assert whats["claude-code"]["what"].endswith(", set up")
    assert "not set up" in whats["codex"]["what"]
    assert "`tenfold install codex`" in whats["codex"]["todo"]
    assert "1 session, not set up" in whats["pi"]["what"]
    servers = tmp_path / ".claude" / "tenfold" / "plugin" / ".mcp.json"
    settings = json.loads(servers.read_text("utf-8"))
    settings["mcpServers"]["tenfold"]["command"] = "/gone/bin/python3"
    servers.write_text(json.dumps(settings), "utf-8")
    gone = examine(tenfold, 1)["clients"][0]
    assert "/gone/bin/python3" in gone["what"]
    assert "`tenfold install claude-code`" in gone["todo"]


@contextmanager
def serve_something() -> Iterator[int]:
    """A server that is no gateway, and its port."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_gateway_is_asked_for_its_health(tenfold: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "of-the-gateway.db")) as store:
        with GatewayThread(Gateway(GatewaySettings(port=0, key=SECRET), store)) as served:
            write_settings(f"[tenfold.gateway]\nport = {served.url.rpartition(':')[2]}\n")
            assert examine(tenfold, 0)["gateway"][0]["what"] == f"one runs at {served.url}"
            address = served.url
        assert examine(tenfold, 0)["gateway"][0]["what"] == f"none runs at {address}"
    monkeypatch.setenv("TENFOLD_GATEWAY_URL", address)
    assert "unset TENFOLD_GATEWAY_URL" in examine(tenfold, 1)["gateway"][0]["todo"]
    monkeypatch.delenv("TENFOLD_GATEWAY_URL")
    with serve_something() as port:
        write_settings(f"[tenfold.gateway]\nport = {port}\n")
        (found,) = examine(tenfold, 0)["gateway"]
        assert "is no gateway" in found["what"]
        assert found["state"] == "note"


def append_attempt(tenfold: Cli, session: str, age_days: int) -> None:
    with closing(SqliteStore(tenfold.store)) as store:
        (leaf,) = store.read_heads(DEFAULT_NAMESPACE, session).values() or (None,)
        time = get_current_time() - age_days * 86_400_000_000
        attempt = Attempt(
            IDS.generate(), leaf, "", time, "tail", "failed", "the model answered 401", Counted(9), Counted(1)
        )
        store.append(DEFAULT_NAMESPACE, session, [attempt], expected=leaf)


def test_a_failed_compaction_counts_until_one_goes_well(tenfold: Cli, pi: Path) -> None:
    tenfold.run_ok("import", pi)
    session = tenfold.run_ok("sessions", "--json").objects[0]["session"]
    append_attempt(tenfold, session, age_days=8)
    assert examine(tenfold, 0)["failures"][0]["what"] == "none in the last seven days"
    append_attempt(tenfold, session, age_days=0)
    (found,) = examine(tenfold, 1)["failures"]
    assert "the model answered 401" in found["what"]
    assert f"`tenfold show {session[:18]}`" in found["todo"]
    tenfold.run_ok("compact", pi, "--to", "10%")
    assert examine(tenfold, 0)["failures"][0]["what"] == "none in the last seven days"


def test_warnings_of_wrap_are_counted(tenfold: Cli) -> None:
    tenfold.store.parent.mkdir(parents=True)
    log = tenfold.store.parent / "wrap.log"
    log.write_text("2001-01-01 10:00:00,000 WARNING long ago\n2999-01-01 10:00:00,000 INFO fine\n", "utf-8")
    assert examine(tenfold, 0)["failures"][0]["state"] == "ok"
    log.write_text(f"2999-01-01 10:00:00,000 WARNING the upstream said no {SECRET}\n", "utf-8")
    (found,) = examine(tenfold, 0)["failures"]
    assert "1 warnings" in found["what"]
    assert str(log) in found["todo"]


def test_waiting_jobs_are_counted(tenfold: Cli, pi: Path) -> None:
    tenfold.run_ok("import", pi)
    tenfold.run_ok("jobs", "compact", "last", "--to", "5000")
    (found,) = examine(tenfold, 0)["jobs"]
    assert found["what"] == "1 waiting"
    assert "`tenfold worker`" in found["todo"]


def test_json_and_codes_in_one_process(tenfold: Cli) -> None:
    with closing(SqliteStore(tenfold.store)) as store:
        store.create(DEFAULT_NAMESPACE, SessionInfo("empty"))
    assert run(["doctor"]) == 0
