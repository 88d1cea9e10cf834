"""`tenfold eval peers`: which other projects can be measured, and how to install them."""

from __future__ import annotations

from typing import Annotated

import typer

from tenfold.apps.cli.console import print_note, print_table, show
from tenfold.apps.cli.process import ExitCode
from tenfold.errors import UsageError
from tenfold_yardstick.environments import is_current, make_environment, read_failure
from tenfold_yardstick.methods import ALL
from tenfold_yardstick.peers import FOLDER, PEERS, WORKERS, find_version

_EMPTY = "-"
peers_app = typer.Typer(
    name="peers",
    help="Other projects to measure: what there is, and how to install it. docs/peers.md says how each is asked.",
    no_args_is_help=True,
)


@peers_app.command("list", epilog="Example: tenfold eval peers list")
def list_peers() -> None:
    """Lists the other projects with their pinned versions, and which of them are installed in this folder."""
    rows = []
    for worker in _list_workers():
        methods = ", ".join(peer.method for peer in PEERS if peer.worker == worker)
        state = "installed" if is_current(WORKERS, FOLDER, worker) else read_failure(FOLDER, worker) or _EMPTY
        rows.append((worker, *find_version(worker), methods, state))
    print_table(("peer", "project", "version", "methods", "state"), rows)


@peers_app.command("install", epilog="Example: tenfold eval peers install langchain agno")
def install_peers(
    names: Annotated[
        list[str], typer.Argument(metavar="NAMES...", help=f"The peers to install, or `{ALL}`: those take 1.8 GB.")
    ],
) -> None:
    """Installs other projects, each with pinned versions into an environment of its own in the folder `.peers`.

    It needs a package index: the one that pip is set up for. An environment whose pins have not changed is left alone.
    Then each is a method of the other commands, as in --methods tenfold,langchain. The exit code is 4 if one could not
    be installed.
    """
    known = _list_workers()
    chosen = known if ALL in names else names
    unknown = [name for name in chosen if name not in known]
    if unknown:
        raise UsageError(f"no peer is called {unknown[0]!r}; there are {', '.join(known)}")
    failures = 0
    for name in chosen:
        if is_current(WORKERS, FOLDER, name):
            print_note(f"{name} is installed already")
            continue
        print_note(f"installing {' '.join(find_version(name))} into {FOLDER / name}")
        reason = make_environment(WORKERS, FOLDER, name)
        if reason:
            print_note(f"{name} left out: {reason}")
            failures += 1
        else:
            methods = ", ".join(peer.name for peer in PEERS if peer.worker == name)
            show(f"{name}: {methods}")
    if failures:
        raise typer.Exit(ExitCode.FAILED)


def _list_workers() -> list[str]:
    return list(dict.fromkeys(peer.worker for peer in PEERS))
