"""Sessions of clients that are only read are found and imported, and `apply` refuses them with what to do instead."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.formats.made import ASKED, FILES

PLACES = {
    "qwen-code": (".qwen/projects/w/chats/qs.jsonl", FILES["qwen"][1], "qs"),
    "kimi": (".kimi/sessions/0f1e/k1/context.jsonl", FILES["kimi"][1], "k1"),
    "kimi-code": (".kimi-code/sessions/wd_x/session_1/agents/main/wire.jsonl", FILES["kimi-code"][1], "session_1"),
    "copilot-cli": (".copilot/session-state/cop-1/events.jsonl", FILES["copilot"][1], "cop-1"),
    "continue": (".continue/sessions/con1.json", FILES["continue-session"][1], "con1"),
}


@pytest.mark.parametrize("client", list(PLACES))
def test_a_session_is_found_and_imported_and_nothing_is_written_into_it(
    client: str, tenfold: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, data, session = PLACES[client]
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / place).parent.mkdir(parents=True)
    (tmp_path / place).write_bytes(data)
    found = json.loads(tenfold("find", "--json").out)
    assert (found["client"], found["id"], found["title"]) == (client, session, ASKED)
    assert (
        found["messages"]
        == tenfold.run_json("compact", session, "--to", "99%", "--store", ":memory:")["messages_before"]
    )
    store = tmp_path / "s.db"
    assert tenfold("import", session, "--store", store).code == 0
    refused = tenfold("apply", session, "--store", store)
    assert refused.code != 0
    assert "only read" in refused.err
    assert "--out FILE" in refused.err
    assert (tmp_path / place).read_bytes() == data
