"""Commands that bring Tenfold into other agents: install, hook, mcp."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Literal

import msgspec
import typer
from msgspec.structs import replace

from tenfold.apps.cli.console import emit, print_note, show
from tenfold.apps.cli.store_access import NamespaceOption, StoreOption, open_cli_store
from tenfold.config.settings import load_settings
from tenfold.core.text.terminal_safe import sanitize
from tenfold.errors import TenfoldError, UsageError
from tenfold.store.base import DEFAULT_NAMESPACE
from tenfold.store.location import STORE_VARIABLE, has_password

HOOK_FAILED = 1
"""The exit code of a failed hook. Claude Code shows the reason and goes on; with 2 it would not compact."""


def install(
    client: Annotated[
        Literal["claude-code", "codex", "opencode", "pi"],
        typer.Argument(metavar="CLIENT", help="The agent: claude-code, codex, opencode or pi."),
    ],
    *,
    uninstall: Annotated[bool, typer.Option("--uninstall", help="Remove what was installed.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the changes as a diff, and make none.")] = False,
    store: StoreOption = None,
    namespace: NamespaceOption = "",
) -> None:
    """Installs Tenfold into an agent: its MCP server, and hooks or an extension where the agent has them.

    Your own settings stay as they are, and a copy of each changed file is kept beside it. To install again changes
    nothing. --store and --namespace are written down for the MCP server and the hooks.
    """
    try:
        from tenfold.apps.installer import client_setups, planned_changes  # noqa: PLC0415 - tomlkit is an extra
    except ModuleNotFoundError as exc:
        raise UsageError(f"{exc.name} is not installed: pip install 'tenfold[mcp]'") from exc
    place = store or os.environ.get(STORE_VARIABLE, "")
    if place and has_password(place):
        raise UsageError(
            "the store's address has a password, which would be written into the agent's settings: leave it out there, "
            "and keep it in ~/.pgpass or in PGPASSWORD"
        )
    tenant = "" if namespace == DEFAULT_NAMESPACE else namespace
    setup = client_setups.build_setup(client, replace(client_setups.find_home(), store=place, namespace=tenant))
    changes = planned_changes.plan_removal(setup) if uninstall else planned_changes.plan_install(setup)
    if dry_run:
        for change in changes:
            show(sanitize(change.render()).rstrip("\n"))
        files = "1 file" if len(changes) == 1 else f"{len(changes)} files"
        show(f"{files} would be changed" if changes else "nothing would be changed")
        return
    planned_changes.apply_changes(changes)
    if uninstall:
        planned_changes.remove_made_folders(setup, changes)
    for change in changes:
        kept = f", before: {change.path.name}{planned_changes.BACKUP_SUFFIX}" if change.backup else ""
        show(f"{'removed' if change.after is None else 'wrote'} {sanitize(str(change.path))}{kept}")
    if not changes:
        show("nothing to remove: it is not installed" if uninstall else "nothing to do: it is installed already")
    elif not uninstall:
        show(setup.hint)


def hook(
    *,
    store: StoreOption = None,
    namespace: Annotated[
        str,
        typer.Option("--namespace", metavar="NAME", help="The tenant. Default: that of your settings, else default."),
    ] = "",
) -> int:
    """Answers a hook of Claude Code: reads the event from standard input, and prints the answer.

    Where Claude Code has the function hook session.compact, Tenfold compacts in its place, without a request to its
    model. Elsewhere the transcript is stored before a compaction, so that nothing is lost, and after it the rules, the
    current request, the plan, the changed files and the open errors are added to the context. Whatever goes wrong, the
    agent goes on.
    """
    from tenfold.apps.installer.claude_hooks import answer_hook  # noqa: PLC0415 - only here

    try:
        config = load_settings()  # not earlier: what is wrong in them must not look like a wish not to compact
        with open_cli_store(store, create=True) as place:
            tenant = namespace or config.common.namespace
            answer = answer_hook(sys.stdin.buffer.read(), place, namespace=tenant, config=config)
    except (TenfoldError, OSError) as exc:
        print_note(f"tenfold: {exc}", style="red")
        return HOOK_FAILED
    emit(msgspec.json.encode(answer) + b"\n")
    return 0


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
