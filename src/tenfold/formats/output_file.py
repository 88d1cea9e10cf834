"""Writes the files that a user names: whole or not at all, private, and never over anything by accident."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tenfold.errors import UsageError

PRIVATE_MODE = 0o600
"""The mode of a new file: that of a store. What is written comes out of sessions, which may hold secrets."""


_DATABASE_HEADER = b"SQLite format 3\0"


def check_output(path: Path, *, force: bool = False, option: str = "--out") -> None:
    """Checks that a file may be written. Raises `UsageError` with the next step.

    The path must be free, or with `force` a regular file that is no database. It is never a link, since what lies
    behind a link is not what the user named. Its folder may be reached through links. `option` names the path in the
    error.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        if not path.absolute().parent.is_dir():
            raise UsageError(f"{option} {path}: there is no folder {path.absolute().parent}; make it first") from None
        return
    except OSError as exc:
        raise UsageError(f"{option} {path}: {exc.strerror or exc}; name another file") from exc
    if stat.S_ISLNK(found.st_mode):
        raise UsageError(f"{option} {path} is a link, and links are not followed; name the file itself")
    if stat.S_ISDIR(found.st_mode):
        raise UsageError(f"{option} {path} is a folder; name a file in it")
    if not stat.S_ISREG(found.st_mode):
        raise UsageError(f"{option} {path} is a device or a pipe, not a file; name a new file")
    if _is_database(path):
        raise UsageError(f"{option} {path} is a database, as a store is, and is never replaced; name another file")
    if not force:
        raise UsageError(f"{option} {path} exists already; name another file, or pass --force to replace it")


def _is_database(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_DATABASE_HEADER)) == _DATABASE_HEADER
    except OSError:  # it cannot be read, so it can be no store of this user
        return False


def write_output(path: Path, data: bytes, *, force: bool = False, option: str = "--out") -> None:
    """Writes a file whole or not at all, after `check_output`.

    A new file has the mode `PRIVATE_MODE`, a replaced one keeps its own. Raises `UsageError` as `check_output` does,
    and `OSError` with the file's name if it cannot be written; what was there before is then unchanged.
    """
    with draft_output(path, force=force, option=option) as draft:
        draft.write_bytes(data)


@contextmanager
def draft_output(path: Path, *, force: bool = False, option: str = "--out") -> Iterator[Path]:
    """Lends an empty file beside `path`, which takes its place at the end. If anything is raised, it is removed."""
    check_output(path, force=force, option=option)
    draft: Path | None = None
    try:
        handle, name = tempfile.mkstemp(prefix=".tenfold-", suffix=".part", dir=path.absolute().parent)
        os.close(handle)
        draft = Path(name)
        yield draft
        _take_place(draft, path, force=force, option=option)
    except OSError as exc:
        raise OSError(
            exc.errno, f"{path} was not written ({exc.strerror}); what was there before is unchanged"
        ) from exc
    finally:
        if draft is not None:
            draft.unlink(missing_ok=True)


def _take_place(draft: Path, path: Path, *, force: bool, option: str) -> None:
    """Moves a finished draft to its place. What another process has put there meanwhile is checked like the rest."""
    check_output(path, force=force, option=option)
    if force:
        if path.exists():
            draft.chmod(stat.S_IMODE(path.stat().st_mode))
        draft.replace(path)
        return
    try:
        os.link(draft, path)  # fails if there is a file by now, which a rename would replace
    except FileExistsError:
        check_output(path, option=option)
        raise
    except (OSError, NotImplementedError):  # a file system without hard links
        draft.replace(path)
