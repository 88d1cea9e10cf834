"""The session files that a command is given: named files, and those inside named folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from tenfold.errors import BadInput, UnknownFormat, UsageError
from tenfold.formats.session_files import get_format

_SESSION_SUFFIXES = (".jsonl", ".json", ".traj")


class SourceFile(msgspec.Struct, frozen=True):
    """A file to read.

    With `is_named` the user named it. Otherwise it was found inside a folder and need not be a session file.
    `relative_path` is its path from that folder on.
    """

    path: Path
    relative_path: Path
    is_named: bool


def find_sources(files: Sequence[Path]) -> list[SourceFile]:
    """Finds the named files and those inside named folders, each once. Raises `BadInput` for a missing path."""
    sources: dict[Path, SourceFile] = {}
    for path in files:
        if not path.is_dir():
            if not path.exists():
                raise BadInput(f"{path}: there is no such file or folder; check the path")
            sources.setdefault(path, SourceFile(path, Path(path.name), is_named=True))
            continue
        inner_paths = sorted(p for p in path.rglob("*") if p.is_file() and p.suffix in _SESSION_SUFFIXES)
        if not inner_paths:
            raise BadInput(f"{path}: this folder has no {', '.join(_SESSION_SUFFIXES)} file; name the session files")
        for each in inner_paths:
            sources.setdefault(each, SourceFile(each, each.relative_to(path), is_named=False))
    return list(sources.values())


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
