"""`tenfold run`: gives the agent one task without a person beside it, and prints what happens as JSON lines.

Nobody can be asked here, so writes and commands are refused unless an option allows them.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from tenfold.cli.agent_options import FolderOption, ModelOption, PolicyOption, SessionOption, UrlOption, WindowOption
from tenfold.cli.store_access import StoreOption, open_cli_store
from tenfold.errors import BadInput, UsageError


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("run", epilog='Example: tenfold run --task "Which prices end in .99?"')(run)


def run(  # noqa: PLR0913 - one parameter per flag is how typer describes a command
    *,
    task: Annotated[
        str,
        typer.Option(
            metavar="TEXT",
            help='What to do. "-" reads it from standard input, and "" resumes an interrupted --session.',
        ),
    ],
    model: ModelOption = "",
    base_url: UrlOption = "",
    window: WindowOption = None,
    policy: PolicyOption = "",
    store: StoreOption = None,
    session: SessionOption = "",
    folder: FolderOption = Path(),
    allow_writes: Annotated[
        bool, typer.Option("--allow-writes", help="Let the agent change files in the folder.")
    ] = False,
    allow_commands: Annotated[
        bool, typer.Option("--allow-commands", help="Let the agent run commands. They can do whatever you can.")
    ] = False,
) -> int:
    """Gives the agent one task, and prints what happens as JSON lines while it works.

    It may not change files or run commands unless you allow it. The session is kept: --session last resumes it.
    """
    prompt = _read_task(task)
    if not prompt.strip() and not session:
        raise UsageError("--task is empty: say what to do, or name the --session to resume")
    from tenfold.agent import factory  # noqa: PLC0415 - an optional extra, and slow to load
    from tenfold.cli import headless_run  # noqa: PLC0415 - needs it too

    options = factory.AgentOptions(folder, model, base_url, window, policy, session)
    lines = headless_run.JsonLines(
        frozenset(kind for kind, on in (("write", allow_writes), ("command", allow_commands)) if on)
    )
    with open_cli_store(store, create=not session) as place:
        agent = factory.open_agent(
            place, options, lines.approve, extensions=(lines.build_extension(),), report=lines.report
        )
        return asyncio.run(headless_run.run_headless(agent, prompt, options, lines))


def _read_task(task: str) -> str:
    if task != "-":
        return task
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as exc:
        raise BadInput(f"the task on standard input is not UTF-8 at byte {exc.start}: save it as UTF-8") from exc
