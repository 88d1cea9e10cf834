"""`tenfold mcp`: serves the stored sessions to MCP clients."""

from __future__ import annotations

from typing import Annotated

import typer

from tenfold.apps.cli.console import print_note
from tenfold.apps.cli.store_access import NamespaceOption, StoreOption, open_cli_store
from tenfold.errors import UsageError


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("mcp", epilog="Example: tenfold mcp --http --port 8788")(mcp)


def mcp(
    *,
    http: Annotated[
        bool, typer.Option("--http", help="Serve streamable HTTP at /mcp. Default: standard input and output.")
    ] = False,
    host: Annotated[str, typer.Option(help="Where --http listens. Any other than loopback needs a key.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port of --http.")] = 8788,
    key: Annotated[
        str,
        typer.Option(
            envvar="TENFOLD_MCP_KEY",
            show_envvar=False,
            help="The key that clients of --http must send, as `Authorization: Bearer KEY`. Default: $TENFOLD_MCP_KEY.",
        ),
    ] = "",
    store: StoreOption = None,
    namespace: NamespaceOption = "",
) -> None:
    """Serves the stored sessions to MCP clients: search, read, expand, rules, status and compact-preview.

    A client starts it itself: `tenfold install CLIENT` writes that into its settings. Nothing can be changed through
    it, and no other tenant's sessions are seen.
    """
    try:
        from tenfold.apps.mcp.mcp_server import run_http, run_stdio  # noqa: PLC0415 - an extra
        from tenfold.apps.mcp.session_tools import SessionTools  # noqa: PLC0415 - the same
    except ModuleNotFoundError as exc:
        raise UsageError(f"{exc.name} is not installed: pip install 'tenfold[mcp]'") from exc
    with open_cli_store(store, create=True) as place:
        tools = SessionTools(place, namespace=namespace)
        if not http:
            run_stdio(tools)
            return
        run_http(tools, lambda url: print_note(f"tenfold mcp: {url}"), host=host, port=port, key=key)
