"""A session may be changed by another process while its client runs: `tenfold undo` does."""

from __future__ import annotations

from pathlib import Path

from tenfold.cli.main import run
from tenfold.store.location import open_store
from tests.gateway.serving import build_script, fill, serve_gateway
from tests.llm.loopback import Loopback
from tests.presets.hosts import HOSTS


def test_an_undo_by_command_is_heeded_by_the_next_request(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    store = open_store(file)
    with (
        Loopback(script=build_script()) as upstream,
        serve_gateway(upstream.url, store=store, window=16_000) as gateway,
    ):
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
