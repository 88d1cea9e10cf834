"""The real clients with what `tenfold install` wrote: forty steps in a small window, against the tests' own provider.

They run where `make clients` has installed them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tenfold.apps.cli.main import run
from tenfold.apps.gateway.application import Gateway
from tenfold.apps.gateway.gateway_settings import GatewaySettings
from tenfold.store.base import Store
from tenfold.store.location import open_store
from tests.clients.real_clients import find_program
from tests.installer.serving import serve_application
from tests.models.loopback import Got, Loopback, Served
from tests.shape.scan import ROOT

STEPS = 40
WINDOW = 32_000
LINE = " ".join(f"word{number}" for number in range(100))
Json = dict[str, Any]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in list(os.environ):
        if name.startswith(("PI_", "OPENCODE_", "CODEX_", "XDG_", "CLAUDE_", "TENFOLD_STORE", "TENFOLD_CONFIG")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    work = tmp_path / "work"
    work.mkdir()
    for number in range(STEPS):
        (work / f"part{number}.txt").write_text(f"part {number}\n" + f"{LINE}\n" * 8, "utf-8")
    return tmp_path


def build_script(key: str) -> Callable[[Got], Served]:
    """A model that reads one file after the other, and is done. `key` is what the tool `read` calls the path."""
    count = 0

    def answer(got: Got) -> Served:
        nonlocal count
        tokens = (got.size // 4, 20)
        if not got.body.get("tools"):
            return Served(text="A title", tokens=tokens)
        number, count = count, count + 1
        if number >= STEPS:
            return Served(text="All parts are read.", tokens=tokens)
        call = (str(number), "read", {key: str(Path(f"part{number}.txt").absolute())})
        return Served(finish="tool", call=call, text=f"Step {number}.", tokens=tokens)

    return answer


def run_client(command: list[str], home: Path, url: str, **more: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "HOME": str(home), "TENFOLD_GATEWAY_URL": url, "PYTHONPATH": str(ROOT / "src"), **more}
    return subprocess.run(
        command, cwd=home / "work", env=env, capture_output=True, text=True, check=False, timeout=500,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


def check_requests(provider: Loopback, store: Store) -> None:
    """All steps were made, none with more than the window, and the history is stored whole."""
    asked = [got for got in provider.requests if got.body.get("tools")]
    assert len(asked) == STEPS + 1
    assert not [got for got in provider.requests if "context summarization" in got.prompt], "it compacts by itself"
    assert max(got.size // 4 for got in asked) < WINDOW
    assert "Never touch config.py." in asked[-1].prompt
    last = json.dumps(asked[-1].body.get("messages") or asked[-1].body["input"])
    assert f"part {STEPS - 1}" in last
    assert last.count("word99") < 8 * STEPS // 2
    (row,) = store.list_sessions("default")
    assert row.block_count >= 1
    assert row.entry_count >= 2 * STEPS


def write_pi_models(home: Path, url: str, api: str = "openai-completions") -> None:
    model = {
        "id": "m", "name": "m", "reasoning": False, "input": ["text"], "contextWindow": WINDOW, "maxTokens": 1_000,
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
    }  # fmt: skip
    base = url if api == "anthropic-messages" else f"{url}/v1"
    provider = {"baseUrl": base, "api": api, "apiKey": "k", "models": [model]}
    path = home / ".pi" / "agent" / "models.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"providers": {"loop": provider}}), "utf-8")
    # without this pi compacts by itself as soon as less than 16,384 tokens of its window are free
    path.with_name("settings.json").write_text(json.dumps({"compaction": {"reserveTokens": 2_000}}), "utf-8")


def write_opencode_settings(home: Path, url: str) -> None:
    model = {"name": "m", "limit": {"context": WINDOW, "output": 1_000}, "tool_call": True}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": f"{url}/v1", "apiKey": "k"}}
    settings: Json = {"provider": {"loop": {**provider, "models": {"m": model}}}, "autoupdate": False}
    settings |= {"share": "disabled", "permission": {"*": "allow", "external_directory": "allow"}}
    path = home / ".config" / "opencode" / "opencode.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(settings), "utf-8")


TASK = "Read all parts, one by one. Never touch config.py."


@pytest.mark.parametrize("api", ["openai-completions", "openai-responses", "anthropic-messages"])
def test_pi_runs_past_its_window(api: str, home: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    program = str(find_program("pi"))
    assert run(["install", "pi"]) == 0
    monkeypatch.chdir(home / "work")
    with (
        Loopback(script=build_script("path")) as provider,
        serve_application(Gateway(GatewaySettings(), store).application) as url,
    ):
        write_pi_models(home, provider.url, api)
        done = run_client([program, "--provider", "loop", "--model", "m", "-p", TASK], home, url)
        assert done.returncode == 0, done.stderr
        assert "All parts are read." in done.stdout
        check_requests(provider, store)
        again = run_client([program, "--provider", "loop", "--model", "m", "-c", "-p", "And now?"], home, url)
        assert again.returncode == 0, again.stderr
        assert provider.requests[-1].size < WINDOW * 4
        assert "And now?" in provider.requests[-1].prompt
        assert len(store.list_sessions("default")) == 1, "a resumed session is the same one"


def test_opencode_runs_past_its_window(home: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    program = str(find_program("opencode"))
    monkeypatch.chdir(home / "work")
    with (
        Loopback(script=build_script("filePath")) as provider,
        serve_application(Gateway(GatewaySettings(), store).application) as url,
    ):
        write_opencode_settings(home, provider.url)
        assert run(["install", "opencode", "--store", str(home / "mcp.db")]) == 0
        done = run_client([program, "run", "-m", "loop/m", TASK], home, url)
        assert done.returncode == 0, done.stderr
        assert "All parts are read." in done.stdout
        check_requests(provider, store)
        assert "tenfold_search" in provider.requests[-1].prompt, "the tools of the MCP server are offered"


@pytest.mark.parametrize("name", ["pi", "opencode"])
def test_without_a_gateway_a_client_works_as_before(name: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = str(find_program(name))
    monkeypatch.chdir(home / "work")
    with Loopback("Hello.") as provider:
        if name == "pi":
            write_pi_models(home, provider.url)
            command = [program, "--provider", "loop", "--model", "m", "-p", TASK]
        else:
            write_opencode_settings(home, provider.url)
            command = [program, "run", "-m", "loop/m", TASK]
        assert run(["install", name, "--store", str(home / "mcp.db")]) == 0
        done = run_client(command, home, "http://127.0.0.1:9")
        assert done.returncode == 0, done.stderr
        assert "Hello." in done.stdout
        assert name == "opencode" or "the conversation is sent as it is" in done.stderr


def test_codex_lists_the_server(home: Path) -> None:
    program = str(find_program("codex"))
    assert run(["install", "codex", "--store", str(home / "mcp.db")]) == 0
    done = run_client([program, "mcp", "list", "--json"], home, "")
    assert done.returncode == 0, done.stderr
    (server,) = json.loads(done.stdout)
    assert (server["name"], server["transport"]["command"]) == ("tenfold", sys.executable)


def test_claude_code_loads_the_plugin(home: Path) -> None:
    program = str(find_program("claude"))
    assert run(["install", "claude-code"]) == 0
    variables = {"ANTHROPIC_API_KEY": "k", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
    plugin = home / ".claude" / "tenfold" / "plugin"
    assert run_client([program, "plugin", "validate", str(plugin)], home, "", **variables).returncode == 0
    listed = run_client([program, "mcp", "list"], home, "", **variables)
    assert "plugin:tenfold:tenfold" in listed.stdout
    assert "Connected" in listed.stdout, listed.stdout
    with Loopback("Done.") as provider:
        variables["ANTHROPIC_BASE_URL"] = provider.url
        form = ["--output-format", "stream-json", "--verbose"]
        told = run_client([program, "-p", *form, "What is there?"], home, "", **variables)
        events = [json.loads(line) for line in told.stdout.splitlines()]
        began = next(event for event in events if event.get("subtype") == "init")
        assert {"tenfold:search", "tenfold:rules", "tenfold:status"} <= set(began["slash_commands"])
        assert "tenfold" in [each["name"] for each in began["plugins"]]
        assert told.returncode == 0
    assert run(["install", "claude-code", "--uninstall"]) == 0
    assert "tenfold" not in run_client([program, "mcp", "list"], home, "", **variables).stdout


def test_claude_code_is_compacted_without_a_request(home: Path) -> None:
    """Also when the session is resumed, what was cut stays away."""
    program = str(find_program("claude"))
    assert run(["install", "claude-code", "--store", str(home / "s.db")]) == 0
    variables = {"ANTHROPIC_API_KEY": "k", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
    count = 0

    def answer(got: Got) -> Served:
        nonlocal count
        number, count = count, count + 1
        if number >= STEPS // 2:
            return Served(text="All parts are read.", tokens=(got.size // 4, 20))
        call = (str(number), "Read", {"file_path": str(home / "work" / f"part{number}.txt")})
        return Served(finish="tool", call=call, text=f"Step {number}.", thought=(f"Thought {number}.", "c2ln"))

    def name_answer(_api: str, told: Json) -> None:
        told["id"] = f"msg_{count}"  # Claude Code joins answers of one id

    with Loopback(script=answer, sent=name_answer) as provider:
        variables["ANTHROPIC_BASE_URL"] = provider.url
        form = ["-p", "--allowedTools=Read"]
        assert run_client([program, *form, TASK], home, "", **variables).returncode == 0
        before = json.dumps(provider.requests[-1].body["messages"])
        count_before = len(provider.requests)
        assert run_client([program, "-c", "-p", "/compact"], home, "", **variables).returncode == 0
        assert len(provider.requests) == count_before, "no model writes a summary"
        again = run_client([program, "-c", *form, "And now?"], home, "", **variables)
        assert again.returncode == 0, again.stderr
        after = json.dumps(provider.requests[-1].body["messages"])
        assert len(after) < 0.7 * len(before)
        assert "tenfold-summary" in after
        assert "Never touch config.py." in after
        assert "And now?" in after
    store = open_store(home / "s.db")
    assert store.list_sessions("default")
    store.close()
