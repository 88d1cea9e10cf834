"""`tenfold chat`: the agent in the terminal, with its session kept in the store."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from tenfold.cli.agent_options import FolderOption, ModelOption, PolicyOption, SessionOption, UrlOption, WindowOption
from tenfold.cli.console import print_note, shorten_id
from tenfold.cli.store_access import StoreOption, open_cli_store
from tenfold.errors import UsageError


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("chat", epilog="Example: tenfold chat --session last")(chat)


def chat(  # noqa: PLR0913 - one parameter per flag is how typer describes a command
    *,
    model: ModelOption = "",
    base_url: UrlOption = "",
    window: WindowOption = None,
    policy: PolicyOption = "",
    store: StoreOption = None,
    session: SessionOption = "",
    folder: FolderOption = Path(),
) -> int:
    """Chats with an agent whose context is compacted while you talk. Asks before it changes a file or runs a command.

    The session is kept: --session last goes on with it.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("the chat needs a terminal; `tenfold run --task TEXT` does without one")
    from tenfold.chat.app import AgentOptions, run_chat  # noqa: PLC0415 - optional extras, and slow to load

    options = AgentOptions(folder, model, base_url, window, policy, session)
    with open_cli_store(store, create=not session) as place:
        app = run_chat(place, options)
        unsent = f"{len(app.queue)} typed and not sent; " if app.queue else ""
        print_note(f"{unsent}tenfold chat --session {shorten_id(app.agent.session.address.session)} goes on with this")
    return 0
