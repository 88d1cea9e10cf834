"""What the commands of `tenfold eval` share: their arguments, how they read files, and how they print tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
import typer

from tenfold.apps.cli.console import build_progress, print_json, print_note, print_table, show
from tenfold.apps.cli.source_files import find_sources, parse_path
from tenfold.errors import UnknownFormat, UsageError
from tenfold_yardstick.asked_sessions import AskedSession, read_asked_session
from tenfold_yardstick.cases import EvalSession, name_files, read_sessions
from tenfold_yardstick.methods import ALL
from tenfold_yardstick.peers import PEERS, SENTENCES, Peer, get_peers
from tenfold_yardstick.public_sets import PUBLIC_SETS, read_public_set
from tenfold_yardstick.quality_report import OURS
from tenfold_yardstick.tables import Table

FilesArgument = Annotated[
    list[Path],
    typer.Argument(parser=parse_path, metavar="FILES...", help="Session files, or folders with session files."),
]
MethodsOption = Annotated[
    str,
    typer.Option(
        "--methods",
        metavar="NAMES",
        help="The methods to measure, with commas, as in tenfold,keep-last. `all` means every method except peers; "
        "name a peer, or `peers` for all of them.",
    ),
]
BudgetsOption = Annotated[
    str, typer.Option("--budgets", metavar="TOKENS", help="The sizes to compact to, with commas, as in 4k,8k.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print every score as one line of JSON, instead of tables.")]

SetOption = Annotated[
    str | None,
    typer.Option(
        "--set",
        metavar="NAME",
        help=f"The files are a public set as it is published: {', '.join(PUBLIC_SETS)}. Nothing is fetched; "
        "docs/measures.md says where to get them.",
    ),
]
FirstOption = Annotated[
    int | None, typer.Option("--first", min=1, metavar="NUMBER", help="Only so many conversations of a public set.")
]

ALL_PEERS = "peers"
"""Names every peer at once."""
One = TypeVar("One")
_PEER_NAMES = frozenset((ALL_PEERS, *(name for peer in PEERS for name in (peer.name, peer.worker))))


def print_result(result: msgspec.Struct, tables: Iterable[Table], *, json: bool) -> None:
    """Prints every score as one JSON object, or each table with its title and its note."""
    if json:
        print_json(result)
        return
    for each in tables:
        show(each.title, style="bold")
        print_table(each.columns, each.rows, right=each.columns[1:])
        if each.note:
            show(each.note, style="dim")
        show()


def parse_methods(text: str, *, standins: Sequence[str] = (SENTENCES,)) -> tuple[list[str], list[Peer]]:
    """Parses comma-separated names into names of methods (Tenfold's and those made by hand) and peers.

    A peer that summarizes is returned once for each stand-in. Raises `UsageError` if nothing is named, or for an
    unknown peer.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise UsageError("no method is named: give `all`, or names with commas, as in tenfold,keep-last")
    peer_names = [name for name in names if "/" in name or name in _PEER_NAMES]
    peer_methods = get_peers(() if ALL_PEERS in peer_names else peer_names, standins=standins) if peer_names else []
    return [name for name in names if name not in peer_names], peer_methods


def parse_peers(text: str) -> list[Peer]:
    """Parses comma-separated names of peers. Tenfold and `all` may stand beside them, and name no peer."""
    own_names, peer_methods = parse_methods(text)
    unknown = [name for name in own_names if name not in (ALL, OURS)]
    return get_peers(unknown) if unknown else peer_methods


def read_conversations(files: Sequence[Path], format: str | None = None) -> list[EvalSession]:
    """Reads the sessions of the files. A file in a folder that holds no session is skipped with a note."""
    return read_each(files, lambda path, name: read_sessions(path, name, format=format))


def read_asked_sessions(
    files: Sequence[Path], set_: str | None = None, *, first: int | None = None, format: str | None = None
) -> list[AskedSession]:
    """Reads the sessions that come with questions: of a public set, if one is named. Raises `UsageError` for others."""
    if set_ is None:
        if first is not None:
            raise UsageError("--first says how many conversations of a public set: name it with --set")
        found = read_each(files, lambda path, name: [read_asked_session(path, name, format=format)])
        return [session for session in found if session is not None]
    if set_ not in PUBLIC_SETS:
        raise UsageError(f"no public set is called {set_!r}; there are {', '.join(PUBLIC_SETS)}")
    return [session for path in files for session in read_public_set(set_, path, first=first)]


def render_set_options(set_: str | None, first: int | None) -> str:
    """Renders `--set` and `--first` for the command that repeats a measurement."""
    return (f" --set {set_}" if set_ is not None else "") + (f" --first {first}" if first is not None else "")


def measure_each(
    sessions: Sequence[AskedSession], measure: Callable[[AskedSession], One], *, description: str
) -> list[One]:
    """Measures each session, and shows how far it is."""
    out: list[One] = []
    with build_progress() as bar:
        task = bar.add_task(description, total=len(sessions))
        for session in sessions:
            bar.update(task, description=f"{description} {session.name}")
            out.append(measure(session))
            bar.advance(task)
    return out


def read_each(files: Sequence[Path], read: Callable[[Path, str], Sequence[One]]) -> list[One]:
    """Reads each file with its name. A file in a folder that holds no session is skipped with a note."""
    out: list[One] = []
    skipped: list[UnknownFormat] = []
    sources = find_sources(files)
    names = name_files([source.path for source in sources])
    with build_progress() as bar:
        task = bar.add_task("reading", total=len(sources))
        for number, source in enumerate(sources):
            bar.update(task, completed=number, description=f"reading {names[source.path]}")
            try:
                out.extend(read(source.path, names[source.path]))
            except UnknownFormat as exc:
                if source.is_named:
                    raise
                skipped.append(exc)
    for why in skipped:
        print_note(f"skipped: {why}")
    return out


def render_format_option(format: str | None) -> str:
    """Renders the `--format` option for the command that repeats a measurement."""
    return f" --format {format}" if format is not None else ""


def parse_sizes(text: str) -> list[int]:
    """Parses `4k,8000` as token counts, smallest first. Raises `UsageError` for anything else."""
    out: set[int] = set()
    for word in filter(None, (w.strip().lower().replace("_", "") for w in text.split(","))):
        digits, scale = (word[:-1], 1_000) if word.endswith("k") else (word, 1)
        if not digits.isdecimal() or not int(digits):
            raise UsageError(f"{word!r} is not a size in tokens: give sizes as in 4k,8k or 4000,8000")
        out.add(int(digits) * scale)
    if not out:
        raise UsageError("no size is named: give sizes in tokens, as in 4k,8k")
    return sorted(out)


def parse_rounds(text: str) -> list[int]:
    """Parses `1,3` as numbers of compactions, fewest first. Raises `UsageError` for anything else."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words or not all(word.isdecimal() and int(word) for word in words):
        raise UsageError(f"{text!r} is not a list of numbers from 1 on: give numbers of compactions, as in 1,3,10")
    return sorted({int(word) for word in words})
