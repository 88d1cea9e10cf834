"""`--compact-at`, `--down-to`, `--thrift` and `auto = false` in every place that runs a session."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tenfold.apps.agent.factory import AgentOptions, change_model, open_agent
from tenfold.store.base import Store
from tests.agent.bench import posix
from tests.cli.conftest import Cli
from tests.gateway.serving import build_script
from tests.gateway.test_modes import build_long_request
from tests.gateway.test_wrap_command import wrap
from tests.models.loopback import Loopback

SIZES = ("--compact-at", "4800", "--down-to", "3000")
SEND = """
import os, sys, urllib.request
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
head = {"authorization": "Bearer only-for-this-server", "content-type": "application/json"}
print(urllib.request.urlopen(urllib.request.Request(url, open(sys.argv[1], "rb").read(), head)).status)
"""


@pytest.fixture
def request_file(tmp_path: Path) -> Path:
    """A request that takes about half of a window of 16,000 tokens."""
    file = tmp_path / "request.json"
    file.write_bytes(build_long_request(20))
    return file


def compact_by_run(tenfold: Cli, tmp_path: Path, *options: str) -> list[dict[str, Any]]:
    """The compactions of six tasks for the demonstration, in a window of 16,000 tokens."""
    (tmp_path / "prices.txt").write_text("".join(f"price of item {n}: {n}.99\n" for n in range(60)))
    lines: list[dict[str, Any]] = []
    for _ in range(6):
        more = ("--session", "last") if lines else ()
        task = ("run", "--json", "--task", "Which price is too low?", "--folder", tmp_path, "--model", "demonstration")
        lines += tenfold.run_ok(*task, *options, *more).objects
    return [line for line in lines if line["event"] == "compaction" and line["type"] == "started"]


def test_run_compacts_at_the_sizes_that_are_named(tenfold: Cli, tmp_path: Path) -> None:
    started = compact_by_run(tenfold, tmp_path, *SIZES)
    assert started
    assert all(line["tokens"] >= 4_800 and line["target"] <= 3_840 for line in started), "four fifths at most"


def test_run_compacts_nothing_by_itself_without_auto(
    tenfold: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENFOLD_AUTO", "false")
    assert not compact_by_run(tenfold, tmp_path, *SIZES)


def test_serve_compacts_at_the_sizes_that_are_named(
    tenfold: Cli, request_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dry_run = ("serve", "--window", "16000", "--dry-run", request_file)
    assert "it is forwarded as it came" in tenfold.run_ok(*dry_run).out
    assert "compaction: compacted" in tenfold.run_ok(*dry_run, *SIZES).out
    assert "it is forwarded as it came" in tenfold.run_ok(*dry_run, "--thrift", "0.2").out
    assert "compaction: compacted" in tenfold.run_ok(*dry_run, "--thrift", "1").out
    monkeypatch.setenv("TENFOLD_AUTO", "false")
    assert "it is forwarded as it came" in tenfold.run_ok(*dry_run, *SIZES).out
    ran = tenfold(*dry_run, "--compact-at", "soon")
    assert (ran.code, "compact_at is 'soon', which is no size" in ran.err) == (2, True)


@posix
def test_wrap_compacts_at_the_sizes_that_are_named(tmp_path: Path, request_file: Path) -> None:
    with Loopback(script=build_script()) as upstream:
        program = (sys.executable, "-c", SEND, str(request_file))
        base = f"{upstream.url}/v1"
        ran = wrap(tmp_path, "--window", "16000", "--summary-model", "none", *SIZES, *program, OPENAI_BASE_URL=base)
    assert ran.returncode == 0, ran.stderr
    assert "1 request; 1 compaction;" in ran.stderr
    assert len(json.dumps(upstream.requests[0].body)) < request_file.stat().st_size


def test_an_agent_of_chat_and_run_keeps_them_with_another_model(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(_: object) -> bool:
        return False

    monkeypatch.setenv("OPENAI_API_KEY", "only-for-this-server")
    sizes: dict[str, str | float] = {"compact_at": "30%", "thrift": 1.0}
    agent = open_agent(store, AgentOptions(tmp_path, "demonstration", sizes=sizes), refuse)
    for _ in range(2):
        limits = agent.session.policy.get_limits(100_000)
        assert (limits.soft, limits.target) == (30_000, 4_000)
        change_model(agent, "openai:gpt-4o-mini")
