"""`tenfold chat`: the agent in the terminal, with its session kept in the store."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from tenfold.cli.agent_options import FolderOption, ModelOption, PolicyOption, SessionOption, UrlOption, WindowOption
from tenfold.cli.console import format_id, print_note
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
    """Opens a chat with an agent that never runs out of context. It asks before it changes a file or runs a command.

    The session is kept: --session last resumes it.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("the chat needs a terminal; without one, use `tenfold run --task TEXT`")
    from tenfold.chat.app import run_chat  # noqa: PLC0415 - slow to load; first, since it says which extra is missing

    # isort: split
    from tenfold.agent.factory import AgentOptions  # noqa: PLC0415 - the same

    options = AgentOptions(folder, model, base_url, window, policy, session)
    with open_cli_store(store, create=not session) as place:
        app = run_chat(place, options)
        unsent = f"{len(app.queue)} queued inputs were not sent. " if app.queue else ""
        print_note(f"{unsent}Resume with: tenfold chat --session {format_id(app.agent.session.address.session)}")
    return 0
