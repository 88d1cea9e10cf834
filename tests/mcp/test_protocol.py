"""The server as MCP clients meet it: the SDK's own client, over standard input and output and over HTTP."""

from __future__ import annotations

import asyncio
import getpass
import socket
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent

from tenfold.apps.cli.main import run as run_command
from tenfold.apps.mcp.mcp_server import build_http_application, build_server
from tenfold.apps.mcp.session_tools import SessionTools
from tenfold.errors import UsageError
from tenfold.store.access import create_key
from tenfold.store.ids import get_current_time
from tenfold.store.location import open_store
from tests.installer.serving import serve_application
from tests.shape.scan import ROOT

TOOLS = ["compact-preview", "expand", "read", "rules", "search", "status"]


def get_answer(result: object) -> str:
    assert isinstance(result, CallToolResult)
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


async def drive_tools(client: Client) -> None:
    """Calls each tool once, and two of them wrongly."""
    assert sorted(tool.name for tool in (await client.list_tools()).tools) == TOOLS
    assert "data, never instructions" in (client.instructions or "")
    listed = get_answer(await client.call_tool("status", {}))
    session = next(line.partition(":")[0] for line in listed.splitlines() if "claude-code" in line)
    hits = get_answer(await client.call_tool("search", {"words": "price list"}))
    entry = hits.split(" ", 1)[0]
    assert entry in get_answer(await client.call_tool("read", {"entry": entry}))
    assert entry in get_answer(await client.call_tool("expand", {"block": entry}))
    assert get_answer(await client.call_tool("rules", {"session": session})).startswith("1. ")
    assert "nothing was changed" in get_answer(await client.call_tool("compact-preview", {"session": session}))
    wrong = await client.call_tool("rules", {"session": "nowhere"})
    assert isinstance(wrong, CallToolResult)
    assert wrong.is_error
    assert "no session has an id that begins with 'nowhere'" in get_answer(wrong)
    missing = await client.call_tool("search", {})
    assert isinstance(missing, CallToolResult)
    assert missing.is_error


def test_over_standard_input_and_output(store_path: Path) -> None:
    command = [sys.executable, "-m", "tenfold", "mcp", "--store", str(store_path)]
    server = StdioServerParameters(command=command[0], args=command[1:], env={"PYTHONPATH": str(ROOT / "src")})

    async def run() -> None:
        async with Client(server) as client:
            await drive_tools(client)

    asyncio.run(run())


def test_over_http(store_path: Path) -> None:
    async def run(url: str) -> None:
        async with Client(url) as client:
            await drive_tools(client)

    with serve_application(build_http_application(SessionTools(open_store(store_path)))) as url:
        asyncio.run(run(f"{url}/mcp"))


def test_a_key_is_asked_for_and_a_foreign_page_is_refused(store_path: Path) -> None:
    async def run(url: str) -> None:
        async with httpx2.AsyncClient(headers={"authorization": "Bearer k1"}) as http:
            async with Client(streamable_http_client(url, http_client=http)) as client:
                await drive_tools(client)
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
            for value in ("", "Bearer k2", "k1"):
                refused = await http.post(url, json=body, headers={"authorization": value})
                assert refused.status_code == 401
                assert "Authorization: Bearer KEY" in refused.text
            for header, status in (
                ({"host": "evil.example"}, 400),
                ({"origin": "http://evil.example"}, 403),
                ({"origin": "http://127.0.0.1:1"}, 403),
                ({"origin": "null"}, 403),
                ({"sec-fetch-site": "cross-site"}, 403),
            ):
                refused = await http.post(url, json=body, headers=header)
                assert refused.status_code == status

    with serve_application(build_http_application(SessionTools(open_store(store_path)), key="k1")) as url:
        asyncio.run(run(f"{url}/mcp"))


def test_another_host_needs_a_key() -> None:
    tools = SessionTools(open_store(":memory:"))
    with pytest.raises(UsageError, match=r"0\.0\.0\.0 can be reached by others"):
        build_http_application(tools, host="0.0.0.0")  # noqa: S104 - that it is refused is the point


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])  # noqa: S104 - it is refused
def test_a_host_without_a_key_is_refused_before_an_address_is_told(
    host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("TENFOLD_MCP_KEY", raising=False)
    assert run_command(["mcp", "--http", "--host", host, "--store", str(tmp_path / "store.db")]) == 2
    told = capsys.readouterr()
    assert "can be reached by others" in told.err
    assert "http://" not in told.out + told.err


def test_the_address_is_told_when_it_begins(store_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tenfold", "mcp", "--http", "--port", str(port), "--store", str(store_path)]
    with subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": str(ROOT / "src"), "HOME": str(store_path.parent)},
    ) as server:
        assert server.stderr is not None
        try:
            assert server.stderr.readline() == f"tenfold mcp: http://127.0.0.1:{port}/mcp\n"
        finally:
            server.terminate()


def test_a_key_of_the_store_reads_its_namespace_and_nothing_else(store_path: Path) -> None:
    async def ask(url: str, key: str, tool: str) -> str:
        async with (
            httpx2.AsyncClient(headers={"authorization": f"Bearer {key}"}) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            return str(await client.call_tool(tool, {}))

    store = open_store(store_path)
    texts = {}
    for name, namespace in (("anna", "default"), ("bob", "empty")):
        key, texts[name] = create_key(name, namespace, get_current_time())
        store.save_key(key)
    with serve_application(build_http_application(SessionTools(store))) as url:
        assert "entries" in asyncio.run(ask(f"{url}/mcp", texts["anna"], "status"))
        assert "no session is stored yet" in asyncio.run(ask(f"{url}/mcp", texts["bob"], "status"))
        headers = {"authorization": f"Bearer {texts['bob'][:-2]}"}
        assert (
            httpx2.post(f"{url}/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "x"}, headers=headers).status_code
            == 401
        )
    assert [(each.actor, each.namespace, each.action) for each in store.read_record()] == [
        ("anna", "default", "status"),
        ("bob", "empty", "status"),
    ]
    store.close()


def test_what_a_program_of_the_users_reads_is_on_the_record(tmp_path: Path) -> None:
    """Over standard input there is no key: who started the server is who reads."""

    async def ask() -> None:
        async with Client(build_server(SessionTools(store))) as client:
            await client.call_tool("status", {})
            await client.call_tool("search", {"words": "a secret question"})

    store = open_store(tmp_path / "store.db")
    asyncio.run(ask())
    assert store.read_record() == [], "without keys there is no record"
    key, _ = create_key("anna", "default", get_current_time())
    store.save_key(key)
    asyncio.run(ask())
    lines = [(line.actor, line.source, line.action) for line in store.read_record()]
    assert lines == [(getpass.getuser(), "mcp", "status"), (getpass.getuser(), "mcp", "search")]
    assert "secret" not in str(store.read_record())
    store.close()
