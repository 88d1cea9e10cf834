"""The arguments of one run of `tenfold compact`: its files, the sessions in them, and the size to compact to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from tenfold.cli.console import print_note
from tenfold.cli.summary_models import SummaryModels
from tenfold.config.settings import Config
from tenfold.engine.compact import Call
from tenfold.errors import BadInput, UnknownFormat, UsageError
from tenfold.formats import ParsedSession, read_file
from tenfold.formats.session_files import get_format
from tenfold.meter.counters import CharacterCounter
from tenfold.session import Session

_SESSION_SUFFIXES = (".jsonl", ".json", ".traj")


class CompactArguments(msgspec.Struct, frozen=True):
    """The arguments of one run of the command, apart from its files."""

    to: str | None
    window: int | None
    policy: str
    config: Config
    models: SummaryModels
    recall: Literal["none", "tool", "cli"]
    format: str | None
    skip_damaged: bool
    out: Path | None
    preview: bool
    json: bool


class SourceFile(msgspec.Struct, frozen=True):
    """A file to read.

    With `is_named` the user named it. Otherwise it was found inside a folder and need not be a session file.
    `relative_path` is its path from that folder on.
    """

    path: Path
    relative_path: Path
    is_named: bool


def check_arguments(arguments: CompactArguments) -> None:
    """Checks the arguments before anything is read. Raises `UsageError` for invalid ones."""
    if arguments.to is not None:
        parse_target(arguments.to, 1_000_000)
    arguments.config.build_policy(CharacterCounter(), arguments.policy)
    if arguments.format is not None:
        try:
            get_format(arguments.format)
        except UnknownFormat as exc:
            raise UsageError(str(exc)) from exc
    if arguments.preview and arguments.out is not None:
        raise UsageError("--preview changes nothing, so there is nothing to write with --out: give one of the two")


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
            raise BadInput(f"{path}: no {', '.join(_SESSION_SUFFIXES)} file in this folder; name the session files")
        for each in inner_paths:
            sources.setdefault(each, SourceFile(each, each.relative_to(path), is_named=False))
    return list(sources.values())


def read_sessions(source: SourceFile, arguments: CompactArguments) -> list[ParsedSession]:
    """Reads the sessions of a file. A file in a folder that is no session file gives none, with a note."""
    try:
        recorded = read_file(source.path, format=arguments.format, skip_damaged=arguments.skip_damaged)
    except UnknownFormat as exc:
        if source.is_named:
            raise
        print_note(f"left out: {exc}")
        return []
    for each in recorded:
        for problem in each.problems:
            print_note(f"{source.path}: {problem}")
    return recorded


def choose_agent_model(recorded: Sequence[ParsedSession], arguments: CompactArguments) -> str:
    """Returns the model that the tokens of one file's sessions are counted for, "" if none is known."""
    return arguments.models.choose_agent_model(next((r.info.model for r in recorded if r.info.model), ""))


def build_call(session: Session, arguments: CompactArguments) -> Call:
    """Builds the request that `--to` and `--window` make. Raises `UsageError` if neither size is known."""
    target = parse_target(arguments.to, session.count_uncompacted()) if arguments.to is not None else None
    call = session.compactor.validate_call(session.build_call(to=target, window=arguments.window))
    return msgspec.structs.replace(call, demand="check" if target is None else "manual", recall=arguments.recall)


def parse_target(to: str, tokens: int) -> int:
    """Parses `--to` as tokens; a share is a share of `tokens`. Raises `UsageError` if it is neither."""
    try:
        share = float(to[:-1]) / 100 if to.endswith("%") else None
        target = int(tokens * share) if share is not None else int(to.replace("_", "").replace(",", ""))
    except (ValueError, OverflowError):
        share, target = None, 0
    if target < 1 or (share is not None and share > 1):
        raise UsageError(f"--to {to!r} is not a size: give tokens, as in --to 20000, or a share, as in --to 10%")
    return target
