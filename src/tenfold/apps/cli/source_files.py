"""The session files that a command is given: named files, and those inside named folders."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from tenfold.apps.cli.console import print_note
from tenfold.apps.cli.process import ExitCode
from tenfold.apps.clients.applied_session import read_found_session
from tenfold.apps.clients.found_sessions import ClientFolders, FoundSession, choose_session, find_sessions
from tenfold.core.record.entry import get_message
from tenfold.errors import BadInput, NotFoundError, UnknownFormat, UsageError
from tenfold.formats import ParsedSession, read_file
from tenfold.formats.session_files import get_format, read_data

_SESSION_SUFFIXES = (".jsonl", ".json", ".traj")


def parse_path(text: str | Path) -> Path:
    """Parses a path that the user typed. An empty one, such as that of an unset variable, is not the current folder."""
    if not str(text).strip():
        raise typer.BadParameter("the path is empty; name a file, or . for the current folder")
    return Path(text)


class SourceFile(msgspec.Struct, frozen=True):
    """A file to read.

    With `is_named` the user named it. Otherwise it was found inside a folder and need not be a session file.
    `relative_path` is its path from that folder on. `found` is the client's session whose id was given in its place.
    """

    path: Path
    relative_path: Path
    is_named: bool
    found: FoundSession | None = None


def find_on_this_machine(report_problem: Callable[[str], None]) -> list[FoundSession]:
    """Finds the sessions that clients keep on this machine."""
    return find_sessions(ClientFolders(os.environ, Path.home(), report_problem))


@contextmanager
def find_with_reasons() -> Iterator[list[FoundSession]]:
    """Finds the sessions. If none is the one that is sought, it is said which files could not be read."""
    problems: list[str] = []
    try:
        yield find_on_this_machine(problems.append)
    except NotFoundError:
        for problem in problems:
            print_note(problem)
        raise


def find_sources(files: Sequence[Path]) -> list[SourceFile]:
    """Finds the named files and those inside named folders, each once. A name that is no path is a client's session.

    Raises `BadInput` for a missing path, and `NotFoundError` if no client has a session whose id begins so.
    """
    sources: dict[Path, SourceFile] = {}
    for path in files:
        if not path.is_dir():
            source = SourceFile(path, Path(path.name), is_named=True)
            if not path.exists():
                source = _find_session(path)
            sources.setdefault(source.path, source)
            continue
        inner_paths = sorted(p for p in path.rglob("*") if p.is_file() and p.suffix in _SESSION_SUFFIXES)
        if not inner_paths:
            raise BadInput(f"{path}: this folder has no {', '.join(_SESSION_SUFFIXES)} file; name the session files")
        for each in inner_paths:
            sources.setdefault(each, SourceFile(each, each.relative_to(path), is_named=False))
    return list(sources.values())


def _find_session(named: Path) -> SourceFile:
    """Finds the client's session whose id begins so. Raises `BadInput` for what is a path by its form."""
    if named.suffix or len(named.parts) > 1:
        raise BadInput(f"{named}: there is no such file or folder; check the path")
    try:
        with find_with_reasons() as sessions:
            found = choose_session(sessions, str(named))
    except NotFoundError as exc:
        raise NotFoundError(
            f"{exc}. What `tenfold sessions` lists is named by its file, which `tenfold export` can write"
        ) from None
    return SourceFile(found.path, Path(found.path.name), is_named=True, found=found)


class SourceReader:
    """Reads the files of one run. What cannot be read among several is named, and the others are read all the same.

    `unread` counts the files that gave no session, and `exit_code` is that of the worst thing that happened.
    """

    def __init__(self, format: str | None, *, skip_damaged: bool) -> None:
        self._format, self._skip_damaged = format, skip_damaged
        self.unread, self.exit_code = 0, ExitCode.OK

    def read(
        self, sources: Sequence[SourceFile], tell: Callable[[str], None] = lambda _: None
    ) -> Iterator[tuple[SourceFile, list[ParsedSession]]]:
        """Yields each file with its sessions, after `tell` was told its name.

        Raises `BadInput` for one that cannot be read and is the only one.
        """
        for source in sources:
            tell(source.path.name)
            try:
                recorded = self._read_source(source)
            except UnknownFormat as exc:
                if source.is_named and len(sources) == 1:
                    raise
                recorded = self._leave_out(exc, is_fault=source.is_named)
            except BadInput as exc:
                if len(sources) == 1:
                    raise
                recorded = self._leave_out(exc, is_fault=True)
            yield source, recorded

    def _leave_out(self, exc: BadInput, *, is_fault: bool) -> list[ParsedSession]:
        """Says why a file gives no session. One in a folder need not be a session file, so that is no fault."""
        self.unread += 1
        if is_fault:
            print_note(f"tenfold: {exc}", style="red")
            self.exit_code = ExitCode.BAD_INPUT
        else:
            print_note(f"skipped: {exc}")
        return []

    def _read_source(self, source: SourceFile) -> list[ParsedSession]:
        if source.found is None:
            recorded = read_file(source.path, format=self._format, skip_damaged=self._skip_damaged)
        else:
            data, client = read_found_session(source.found), source.found.client
            recorded = read_data(data, file=str(source.path), format=client, skip_damaged=self._skip_damaged)
        problems = [problem for each in recorded for problem in each.problems]
        for problem in problems:
            print_note(f"{source.path}: {problem}")
        if not any(get_message(entry) is not None for each in recorded for entry in each.entries):
            if problems:
                raise BadInput(
                    f"{source.path}: nothing in it could be read, for the {len(problems)} reasons above; export or "
                    "copy it again"
                )
            print_note(f"{source.path}: it holds no message")
        return recorded


def check_format(name: str | None) -> str | None:
    """Returns the format's name. Raises `UsageError` if there is no such format."""
    if name is not None:
        try:
            get_format(name)
        except UnknownFormat as exc:
            raise UsageError(str(exc)) from exc
    return name


FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format", callback=check_format, help="The format of the files. By default it is recognized by their content."
    ),
]
