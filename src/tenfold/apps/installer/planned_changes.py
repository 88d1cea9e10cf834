"""Plans changes of files, shows them and makes them: settings of the user keep all that is theirs, and a backup.

A plan is a value. Nothing is written before all of it is known to be possible.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from difflib import unified_diff
from pathlib import Path

from msgspec import Struct

from tenfold.errors import BadInput, UsageError

BACKUP_SUFFIX = ".before-tenfold"
FOLDER_MARK = ".made-by-tenfold"
"""The file in a folder that an installation made. Without it, a folder was there before, and stays."""
_FOLDER_NOTE = "`tenfold install` made this folder, and its --uninstall removes it if nothing else is in it.\n"
TextEdit = Callable[[str], str]
"""Returns the text of a settings file with a change. "" is a file that does not exist."""


class SettingsEdit(Struct, frozen=True):
    """What is added to a settings file, and removed again. Both leave a text that needs no change as it is."""

    path: Path
    add: TextEdit
    remove: TextEdit


class OwnFile(Struct, frozen=True):
    """A file that is Tenfold's alone. `mark` stands in every version of it: others are the user's."""

    path: Path
    text: str
    mark: str


class ClientSetup(Struct, frozen=True):
    """What an installation into one client consists of. In `folder`, every folder is Tenfold's own."""

    client: str
    edits: tuple[SettingsEdit, ...] = ()
    files: tuple[OwnFile, ...] = ()
    folder: Path | None = None
    hint: str = ""


class FileChange(Struct, frozen=True):
    """One file before and after; None is a file that does not exist. With `backup`, a copy of it before is kept."""

    path: Path
    before: str | None
    after: str | None
    backup: bool = False

    def render(self) -> str:
        """Returns the change as a unified diff."""
        old, new = (self.before or "").splitlines(keepends=True), (self.after or "").splitlines(keepends=True)
        name = str(self.path)
        names = (name if self.before is not None else "/dev/null", name if self.after is not None else "/dev/null")
        lines = list(unified_diff(old, new, *names))
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def plan_install(setup: ClientSetup) -> list[FileChange]:
    """Plans what is still to be written, the files before the settings that name them. Empty if all is there already.

    Raises `BadInput` for settings that cannot be changed safely, with the lines to add by hand, and `UsageError` for a
    file of the user where one of Tenfold's would be written.
    """
    changes = []
    for file in setup.files:
        before = _read_text(file.path)
        _check_owner(file, before)
        if before != file.text:
            changes.append(FileChange(file.path, before, file.text))
    for edit in setup.edits:
        before = _read_text(edit.path)
        after = _apply_edit(edit, edit.add, before)
        if after != (before or ""):
            changes.append(FileChange(edit.path.resolve(), before, after, backup=before is not None))
    missing = {folder for change in changes for folder in change.path.parents if not folder.exists()}
    made = sorted(folder for folder in missing if setup.folder is None or setup.folder not in folder.parents)
    return [*(FileChange(folder / FOLDER_MARK, None, _FOLDER_NOTE) for folder in made), *changes]


def plan_removal(setup: ClientSetup) -> list[FileChange]:
    """Plans what is to be removed. Settings that nobody has changed since get exactly the bytes they had before.

    Raises `BadInput` for settings that cannot be changed safely.
    """
    changes = []
    for edit in setup.edits:
        before = _read_text(edit.path)
        if before is None:
            continue
        path = edit.path.resolve()
        after: str | None = _apply_edit(edit, edit.remove, before)
        backup = _get_backup_path(path)
        saved = _read_text(backup)
        if saved is not None and after != before and _is_state_before(edit, saved, before):
            after = saved
            changes.append(FileChange(backup, saved, None))
        elif saved is None and not (after or "").strip() and after != before:
            after = None
        if after != before:
            changes.append(FileChange(path, before, after, backup=False))
    for file in setup.files:
        before = _read_text(file.path)
        if before is not None and file.mark in before:
            changes.append(FileChange(file.path, before, None))
    paths = [*(file.path for file in setup.files), *(edit.path.resolve() for edit in setup.edits)]
    marks = (folder / FOLDER_MARK for folder in sorted({p for path in paths for p in path.parents}, reverse=True))
    changes.extend(FileChange(mark, _read_text(mark), None) for mark in marks if mark.is_file())
    return changes


def apply_changes(changes: Sequence[FileChange]) -> None:
    """Makes the changes, each atomically. A file keeps its permissions; a new one is readable by the user alone."""
    for change in changes:
        if change.after is None:
            change.path.unlink(missing_ok=True)
            continue
        change.path.parent.mkdir(parents=True, exist_ok=True)
        if change.backup and change.before is not None:
            _write_text(_get_backup_path(change.path), change.before, like=change.path)
        _write_text(change.path, change.after, like=change.path)


def remove_made_folders(setup: ClientSetup, changes: Sequence[FileChange]) -> None:
    """Removes the folders of an installation that hold nothing any more, after the changes of its removal are made."""
    inner = sorted(path for path in setup.folder.rglob("*") if path.is_dir()) if setup.folder is not None else []
    marked = [change.path.parent for change in changes if change.path.name == FOLDER_MARK]
    for folder in (*reversed(inner), *marked):
        with suppress(OSError):  # something of the user or of the client is in it
            folder.rmdir()


def _is_state_before(edit: SettingsEdit, saved: str, now: str) -> bool:
    """Whether the settings now are those of a backup with nothing but Tenfold's change."""
    try:
        return edit.remove(saved) == saved and edit.add(saved) == now
    except BadInput:
        return False


def _apply_edit(edit: SettingsEdit, change: TextEdit, before: str | None) -> str:
    try:
        return change(before or "")
    except BadInput as exc:
        raise BadInput(f"{edit.path}: {exc}") from exc


def _check_owner(file: OwnFile, before: str | None) -> None:
    if before is not None and file.mark not in before:
        raise UsageError(f"{file.path} is not from Tenfold and would be replaced: move it away, then install again")


def _get_backup_path(path: Path) -> Path:
    return path.with_name(path.name + BACKUP_SUFFIX)


def _read_text(path: Path) -> str | None:
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as exc:
        raise BadInput(f"{path} is not UTF-8 text, so it is left alone") from exc


def _write_text(path: Path, text: str, *, like: Path) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(text.encode())
        if like.exists():
            temporary.chmod(like.stat().st_mode & 0o777)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
