"""A session may be changed by another process while its client runs: `tenfold undo` does."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from tenfold.apps.cli.main import run
from tenfold.core.record.entry import get_message
from tenfold.store.location import open_store
from tests.designs.hosts import HOSTS
from tests.gateway.conversations import KINDS, Talk, list_sessions
from tests.gateway.serving import build_script, fill, run_gateway, run_loopback


def test_an_undo_by_command_is_heeded_by_the_next_request(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    store = open_store(file)
    with run_loopback(build_script(), store=store, window=16_000) as (upstream, gateway):
        host = HOSTS["chat"](keeps_own=True)
        with host.open_client(gateway.url) as client:
            host.add({"role": "user", "content": "Look at all parts."})
            number = 0
            while not any("tenfold-summary" in got.prompt for got in upstream.requests):
                calls = host.read_answer(host.get_call(client)(**host.build_request()))
                host.add_results({call: fill(number) for call, _, _ in calls})
                number += 1
            hidden = len(upstream.requests[-1].body["messages"])
            assert run(["undo", "last", "--store", str(file)]) == 0
            calls = host.read_answer(host.get_call(client)(**host.build_request()))
        last = upstream.requests[-1]
    assert "tenfold-summary" not in last.prompt
    assert len(last.body["messages"]) > hidden
    store.close()


@pytest.mark.costly(2)
@pytest.mark.parametrize("kind", KINDS)
def test_a_request_that_is_sent_again_gets_what_an_undo_restored(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    store = open_store(file)
    talk = Talk(kind)
    with run_gateway(store=store, window=16_000) as (upstream, gateway):
        talk.add_user("Look at all parts.")
        while not any(b"tenfold-summary" in got.body for got in upstream.requests):
            talk.add_steps(1, 100)
            talk.send(gateway.url)
        for _ in range(2):
            assert b"tenfold-summary" in upstream.requests[-1].body
            talk.send(gateway.url)
        assert run(["undo", "last", "--store", str(file)]) == 0
        for _ in range(2):
            talk.send(gateway.url)
            assert upstream.requests[-1].body == talk.build_body(), "as it came: nothing is hidden"
    assert store.verify("default") == []
    store.close()


def test_an_undo_reaches_the_branch_on_which_the_client_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "store.db"
    store = open_store(file)
    with run_loopback(build_script(tools_until=0), store=store, window=16_000, summary_model="none") as (
        upstream,
        gateway,
    ):
        talk = Talk("chat")
        talk.add_user("Look at all parts.")
        talk.add_steps(3, 250)
        talk.send(gateway.url)
        other = talk.copy()
        other.add_steps(1, 250)
        other.send(gateway.url)
        talk.add_user("No, look at these parts.")  # the client went back
        while not any("tenfold-summary" in got.prompt for got in upstream.requests):
            talk.add_steps(1, 250)
            talk.send(gateway.url)
        (session,) = list_sessions(store)
        (fork,) = set(store.read_heads("default", session)) - {"main"}
        assert run(["undo", "last", "--store", str(file), "--branch", "fork-9"]) == 2
        assert f"there are: {fork}, main" in capsys.readouterr().err
        assert run(["undo", "last", "--store", str(file)]) == 0
        assert f"on the branch {fork} (the session has {fork}, main)" in capsys.readouterr().out
        talk.add_steps(1, 250)
        talk.send(gateway.url)
        assert "tenfold-summary" not in upstream.requests[-1].prompt
        assert run(["undo", "last", "--store", str(file), "--branch", "main"]) == 2, "nothing is compacted there"
    assert run(["show", "last", "--store", str(file), "--all", "--json"]) == 0
    assert "No, look at these parts." in json.dumps(json.loads(capsys.readouterr().out.splitlines()[-1]))
    store.close()


def test_a_purge_by_another_process_is_heeded_by_the_next_request(tmp_path: Path) -> None:
    """A gateway that sent a summary with a text in it sends it no more once the text was purged elsewhere."""
    file = tmp_path / "store.db"
    talk = Talk("chat")
    with closing(open_store(file)) as store, run_gateway(store=store, window=16_000) as (upstream, gateway):
        talk.add_user("Look at some parts.")
        talk.add_steps(12, 250)  # what opens a conversation stays as it is
        talk.add_user("The customer is Quentin Zumbro-Ackerley.")
        talk.add_answer("Noted.")
        talk.add_user("Look at all parts.")
        while not any(b"tenfold-summary" in got.body for got in upstream.requests):
            talk.add_steps(1, 100)
            talk.send(gateway.url)
        talk.add_steps(1, 100)
        talk.send(gateway.url)
        assert "Zumbro-Ackerley" in get_summary(upstream.requests[-1].body)
        (session,) = list_sessions(store)
        said = next(e for e in store.read_entries("default", session) if "Zumbro-Ackerley" in str(get_message(e)))
        assert run(["purge", said.id, "--yes", "--store", str(file)]) == 0
        talk.add_steps(1, 100)
        talk.send(gateway.url)
        sent = upstream.requests[-1].body
    assert "Zumbro-Ackerley" not in get_summary(sent)


def get_summary(body: bytes) -> str:
    """The summary in a request."""
    return body.decode().partition("<tenfold-summary")[2].partition("</tenfold-summary")[0]
