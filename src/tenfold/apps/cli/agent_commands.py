"""Commands that open an agent: `tenfold chat` in a terminal, and `tenfold run` with nobody beside it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit, urlunsplit

import typer

from tenfold.apps.cli.console import format_id, print_note
from tenfold.apps.cli.process import join_command
from tenfold.apps.cli.source_files import parse_path
from tenfold.apps.cli.store_access import (
    BaseUrlOption,
    CompactAtOption,
    DownToOption,
    JsonOption,
    NamespaceOption,
    PolicyOption,
    StoreOption,
    ThriftOption,
    build_flags,
    complete_session,
    find_location,
    open_cli_store,
)
from tenfold.errors import BadInput, UsageError
from tenfold.models.choose import qualify_served_model
from tenfold.store.base import DEFAULT_NAMESPACE, MEMORY_LOCATION
from tenfold.store.location import describe_location

if TYPE_CHECKING:
    from tenfold.apps.agent.factory import AgentOptions
    from tenfold.apps.agent.runtime import Agent

ModelOption = Annotated[
    str,
    typer.Option(
        metavar="MODEL",
        help="The agent's model, as PROVIDER:NAME. Its key is read from the provider's environment variable. Default: "
        "the session's model, else one of the first provider whose key is set, else the scripted `demonstration`.",
    ),
]
WindowOption = Annotated[
    int | None,
    typer.Option(min=1, help="The model's context window in tokens, needed only if Tenfold does not know it."),
]
SessionOption = Annotated[
    str,
    typer.Option(
        metavar="SESSION",
        help="Resume this session where you left off: its id, the beginning of it, or `last`.",
        autocompletion=complete_session,
    ),
]
FolderOption = Annotated[
    Path,
    typer.Option(parser=parse_path, metavar="FOLDER", help="The folder to work in. The file tools cannot leave it."),
]


def chat(  # noqa: PLR0913 - one parameter per flag is how typer describes a command
    *,
    model: ModelOption = "",
    base_url: BaseUrlOption = "",
    window: WindowOption = None,
    policy: PolicyOption = "",
    compact_at: CompactAtOption = "",
    down_to: DownToOption = "",
    thrift: ThriftOption = None,
    store: StoreOption = None,
    namespace: NamespaceOption = "",
    session: SessionOption = "",
    folder: FolderOption = Path(),
) -> int:
    """Opens a chat with an agent that never runs out of context. It asks before it changes a file or runs a command.

    The session is kept: --session last resumes it.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("the chat needs a terminal; without one, use `tenfold run --task TEXT`")
    sizes = build_flags(compact_at, down_to, thrift)
    with _hold_typing():
        # first, since it says which extra is missing
        from tenfold.apps.chat.app import drop_empty_session, run_chat  # noqa: PLC0415 - slow to load

        # isort: split
        from tenfold.apps.agent.factory import AgentOptions  # noqa: PLC0415 - the same

        _keep_banner_out()
        options = AgentOptions(folder, model, base_url, window, policy, session, namespace, sizes)
        location = find_location(store)
        with open_cli_store(store, create=not session) as place:
            app = run_chat(place, options, location=None if location == MEMORY_LOCATION else location)
            is_dropped = drop_empty_session(app.agent)
            resume_line = "" if is_dropped else _build_resume_line(options, app.agent, store)
    unsent = f"{len(app.queue)} queued inputs were not sent. " if app.queue else ""
    kept = f"Resume with: {resume_line}" if resume_line else "Nothing was said, so nothing is kept."
    print_note(f"{unsent}{kept}", soft_wrap=True)
    return 0


def _build_resume_line(options: AgentOptions, agent: Agent, store: str | None) -> str:
    """Builds the command that resumes a chat as it was started: a server of the user's own is not remembered.

    A model that the user has switched to is: it was not given, and neither was its server. No password is shown: the
    address of a server stands there without who asks, and that of a store without its password.
    """
    name = qualify_served_model(options.model) if options.base_url else options.model
    is_given = agent.model.model_name in (name, name.partition(":")[2])
    given = {
        "--session": format_id(agent.session.address.session),
        "--model": options.model if is_given else "",
        "--base-url": _without_user(options.base_url) if is_given else "",
        "--window": options.window if is_given else None,
        "--policy": options.policy,
        **{f"--{name.replace('_', '-')}": value for name, value in options.sizes.items()},
        "--store": describe_location(store) if store and "://" in store else store,
        "--namespace": options.namespace if options.namespace != DEFAULT_NAMESPACE else "",
        "--folder": options.root if options.root != Path() else None,
    }
    words = [word for name, value in given.items() if value not in (None, "") for word in (name, str(value))]
    return join_command(["tenfold", "chat", *words])


def _without_user(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


@contextmanager
def _hold_typing() -> Iterator[None]:
    """Keeps what is typed while the chat is loading, for its prompt: it is not echoed, and Enter stays Enter."""
    if sys.platform == "win32":
        yield
        return
    import termios  # noqa: PLC0415 - Windows has none

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    held = list(before)
    held[0] &= ~(termios.ICRNL | termios.INLCR)
    held[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(terminal, termios.TCSANOW, held)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSANOW, before)


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
    base_url: BaseUrlOption = "",
    window: WindowOption = None,
    policy: PolicyOption = "",
    compact_at: CompactAtOption = "",
    down_to: DownToOption = "",
    thrift: ThriftOption = None,
    store: StoreOption = None,
    namespace: NamespaceOption = "",
    session: SessionOption = "",
    folder: FolderOption = Path(),
    allow_writes: Annotated[
        bool, typer.Option("--allow-writes", help="Let the agent create and change any file in the folder.")
    ] = False,
    allow_commands: Annotated[
        bool, typer.Option("--allow-commands", help="Let the agent run any command. It can do whatever you can.")
    ] = False,
    json: JsonOption = False,
) -> int:
    """Gives the agent one task, and prints its answer. What it does meanwhile goes to standard error.

    It may not change files or run commands unless you allow it. The session is kept: --session last resumes it.
    """
    prompt = _read_task(task)
    if not prompt.strip() and not session:
        raise UsageError("--task is empty: say what to do, or name the --session to resume")
    from tenfold.apps.agent import factory  # noqa: PLC0415 - an optional extra, and slow to load
    from tenfold.apps.cli import headless_run  # noqa: PLC0415 - needs it too

    _keep_banner_out()
    sizes = build_flags(compact_at, down_to, thrift)
    options = factory.AgentOptions(folder, model, base_url, window, policy, session, namespace, sizes)
    allowed = frozenset(kind for kind, on in (("write", allow_writes), ("command", allow_commands)) if on)
    lines = headless_run.JsonLines(allowed) if json else headless_run.ReadableLines(allowed)
    with open_cli_store(store, create=not session) as place:
        agent = factory.open_agent(
            place, options, lines.approve, extensions=(lines.build_extension(),), report=lines.report
        )
        return asyncio.run(headless_run.run_headless(agent, prompt, options, lines))


def _keep_banner_out() -> None:
    """Keeps what pydantic-ai prints about itself at a first run out of the command's own output."""
    import pydantic_ai  # noqa: PLC0415 - an optional extra

    pydantic_ai.BANNER_ENABLED = False


def _read_task(task: str) -> str:
    if task != "-":
        return task
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as exc:
        raise BadInput(f"the task on standard input is not UTF-8 at byte {exc.start}: save it as UTF-8") from exc
