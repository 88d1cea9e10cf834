"""The arguments of one run of `tenfold compact`: its files, the sessions in them, and the size to compact to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from tenfold.cli.screen import note
from tenfold.cli.summarizing import Models
from tenfold.engine import Call
from tenfold.errors import BadInput, UnknownFormat, UsageError
from tenfold.meter.counters import Characters4
from tenfold.session import Session
from tenfold.settings import Config
from tenfold.transcripts import Recorded, read_file
from tenfold.transcripts.files import reader_of

_SUFFIXES = (".jsonl", ".json", ".traj")


class Wanted(msgspec.Struct, frozen=True):
    """The arguments of one run of the command, apart from its files."""

    to: str | None
    window: int | None
    policy: str
    config: Config
    models: Models
    recall: Literal["none", "tool", "cli"]
    format: str | None
    skip_damaged: bool
    out: Path | None
    preview: bool
    json: bool


class Source(msgspec.Struct, frozen=True):
    """A file to read.

    With `is_named` the user named it. Otherwise it was found inside a folder and need not be a session file.
    `relative_path` is its path from that folder on.
    """

    path: Path
    below: Path
    named: bool


def meant(wanted: Wanted) -> None:
    """Checks the arguments before anything is read. Raises `UsageError` for invalid ones."""
    if wanted.to is not None:
        target_of(wanted.to, 1_000_000)
    wanted.config.policy(Characters4(), wanted.policy)
    if wanted.format is not None:
        try:
            reader_of(wanted.format)
        except UnknownFormat as exc:
            raise UsageError(str(exc)) from exc
    if wanted.preview and wanted.out is not None:
        raise UsageError("--preview changes nothing, so there is nothing to write with --out: give one of the two")


def sources_of(files: Sequence[Path]) -> list[Source]:
    """Finds the named files and those inside named folders, each once. Raises `BadInput` for a missing path."""
    sources: dict[Path, Source] = {}
    for path in files:
        if not path.is_dir():
            if not path.exists():
                raise BadInput(f"{path}: there is no such file or folder; check the path")
            sources.setdefault(path, Source(path, Path(path.name), named=True))
            continue
        inner_paths = sorted(p for p in path.rglob("*") if p.is_file() and p.suffix in _SUFFIXES)
        if not inner_paths:
            raise BadInput(f"{path}: no {', '.join(_SUFFIXES)} file in this folder; name the session files")
        for each in inner_paths:
            sources.setdefault(each, Source(each, each.relative_to(path), named=False))
    return list(sources.values())


def read(source: Source, wanted: Wanted) -> list[Recorded]:
    """Reads the sessions of a file. A file in a folder that is no session file gives none, with a note."""
    try:
        recorded = read_file(source.path, format=wanted.format, skip_damaged=wanted.skip_damaged)
    except UnknownFormat as exc:
        if source.named:
            raise
        note(f"left out: {exc}")
        return []
    for each in recorded:
        for problem in each.problems:
            note(f"{source.path}: {problem}")
    return recorded


def agent_in(recorded: Sequence[Recorded], wanted: Wanted) -> str:
    """Returns the model that the tokens of one file's sessions are counted for, "" if none is known."""
    return wanted.models.agent_of(next((r.info.model for r in recorded if r.info.model), ""))


def call_of(session: Session, wanted: Wanted) -> Call:
    """Builds the request that `--to` and `--window` make. Raises `UsageError` if neither size is known."""
    target = target_of(wanted.to, session.uncompacted()) if wanted.to is not None else None
    call = session.known(session.call(to=target, window=wanted.window))
    return msgspec.structs.replace(call, demand="check" if target is None else "manual", recall=wanted.recall)


def target_of(to: str, tokens: int) -> int:
    """Parses `--to` as tokens; a share is a share of `tokens`. Raises `UsageError` if it is neither."""
    try:
        share = float(to[:-1]) / 100 if to.endswith("%") else None
        target = int(tokens * share) if share is not None else int(to.replace("_", "").replace(",", ""))
    except (ValueError, OverflowError):
        share, target = None, 0
    if target < 1 or (share is not None and share > 1):
        raise UsageError(f"--to {to!r} is not a size: give tokens, as in --to 20000, or a share, as in --to 10%")
    return target
