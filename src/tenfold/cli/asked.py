"""What one run of `tenfold compact` asks for: its files, what is read of them, and the size it wants."""

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
    """What one run of the command asks for, apart from its files."""

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
    """A file to read. One found inside a folder need not be a session; `below` is its path from that folder on."""

    path: Path
    below: Path
    named: bool


def meant(wanted: Wanted) -> None:
    """Raises `UsageError` for arguments that cannot be meant so, before anything is read."""
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
    """The files named, and those inside folders, each once. Raises `BadInput` for one that is not there."""
    found: dict[Path, Source] = {}
    for path in files:
        if not path.is_dir():
            if not path.exists():
                raise BadInput(f"{path}: there is no such file or folder; check the path")
            found.setdefault(path, Source(path, Path(path.name), named=True))
            continue
        inside = sorted(p for p in path.rglob("*") if p.is_file() and p.suffix in _SUFFIXES)
        if not inside:
            raise BadInput(f"{path}: no {', '.join(_SUFFIXES)} file in this folder; name the session files")
        for each in inside:
            found.setdefault(each, Source(each, each.relative_to(path), named=False))
    return list(found.values())


def read(source: Source, wanted: Wanted) -> list[Recorded]:
    """The sessions of a file; none, with a note, for a file of a folder that is no session file."""
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
    """The model that the sessions of one file are counted for, "" if none is known."""
    return wanted.models.agent_of(next((r.info.model for r in recorded if r.info.model), ""))


def call_of(session: Session, wanted: Wanted) -> Call:
    """The demand that `--to` and `--window` make on a session. Raises `UsageError` when neither size is known."""
    target = target_of(wanted.to, session.uncompacted()) if wanted.to is not None else None
    call = session.known(session.call(to=target, window=wanted.window))
    return msgspec.structs.replace(call, demand="check" if target is None else "manual", recall=wanted.recall)


def target_of(to: str, tokens: int) -> int:
    """`--to` in tokens, a share being one of `tokens`. Raises `UsageError` for what is neither."""
    try:
        share = float(to[:-1]) / 100 if to.endswith("%") else None
        target = int(tokens * share) if share is not None else int(to.replace("_", "").replace(",", ""))
    except (ValueError, OverflowError):
        share, target = None, 0
    if target < 1 or (share is not None and share > 1):
        raise UsageError(f"--to {to!r} is not a size: give tokens, as in --to 20000, or a share, as in --to 10%")
    return target
