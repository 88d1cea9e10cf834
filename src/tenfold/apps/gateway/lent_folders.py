"""Folders that a client may write to while it is run, and that are gone again if it has not."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def ensure_folders(folders: Sequence[Path]) -> Iterator[None]:
    """Makes folders that do not exist, and removes those it made that are empty at the end, with the folders above.

    What was there before stays. So does a folder that another process has from this function at the same time, since
    its client may still write there, and one on a disk where that cannot be told.
    """
    made: list[Path] = []
    held: list[tuple[Path, int]] = []
    try:
        for folder in folders:
            made += _make_folder(folder)
            held.append((folder, _hold_folder(folder)))
        yield
    finally:
        shared = {folder for folder, handle in held if not _is_held_alone(handle)}
        for folder in reversed(made):
            if folder not in shared:
                with suppress(OSError):  # something is in it
                    folder.rmdir()
        for _, handle in held:
            if handle >= 0:
                os.close(handle)


def _make_folder(folder: Path) -> list[Path]:
    """Makes a folder and those above it. Returns the ones that were missing, the topmost first."""
    missing = [path for path in (*reversed(folder.parents), folder) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return missing


if sys.platform == "win32":

    def _hold_folder(folder: Path) -> int:  # noqa: ARG001 - a folder cannot be locked there
        return -1

    def _is_held_alone(handle: int) -> bool:  # noqa: ARG001 - the same
        return True

else:
    import fcntl

    def _hold_folder(folder: Path) -> int:
        """Locks a folder together with others who do. Makes it again where one of them has just removed it."""
        while True:
            try:
                handle = os.open(folder, os.O_RDONLY)
            except FileNotFoundError:
                folder.mkdir(parents=True, exist_ok=True)
                continue
            with suppress(OSError):  # some network disks have no locks
                fcntl.flock(handle, fcntl.LOCK_SH)
            if folder.exists() and os.path.samestat(os.fstat(handle), folder.stat()):
                return handle
            os.close(handle)

    def _is_held_alone(handle: int) -> bool:
        """Returns whether nobody else holds the folder, and then keeps others waiting until the handle is closed."""
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
