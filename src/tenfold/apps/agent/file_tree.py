"""Access to the files below one folder, safe against links that lead out of it.

Every path is resolved through its links first and then opened without following any. The module needs the standard
library alone because it is also a script: `python -I file_tree.py QUERY` runs a search in a process of its own. A
regular expression can run forever, and a process can be killed while a thread cannot.
"""

from __future__ import annotations

import json
import ntpath
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

MAX_FILE_BYTES = 5_000_000
"""Bytes of the largest file that is read or searched: more than any source text, and small enough to hold twice."""
MAX_MATCHES = 200
"""Matching lines that a search shows before it stops."""
SKIPPED_FOLDERS = frozenset([".git", ".hg", ".svn", ".venv", "__pycache__", "node_modules"])
"""Folders that a search enters only if its path names them. Nobody writes their content by hand."""
_CHARACTERS_BEFORE, _CHARACTERS_SHOWN = 100, 300
"""Characters of a line that are shown before a match, and in total."""
_NOFOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
_FOLDER_FLAGS: int = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _NOFOLLOW
# Without O_NONBLOCK, opening a pipe that took the file's place a moment ago would block forever.
_FILE_FLAGS: int = os.O_RDONLY | _NOFOLLOW | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_NEW_FILE_FLAGS: int = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW | getattr(os, "O_BINARY", 0)
_HAS_DIR_FD = {os.open, os.stat, os.mkdir, os.rename, os.unlink} <= os.supports_dir_fd and os.scandir in os.supports_fd

_DEVICE = re.compile(r"(?:CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|(?:COM|LPT)[0-9\xb9\xb2\xb3]) *(?:\..*)?", re.IGNORECASE)
"""Names that Windows takes for devices in every folder, with any ending."""

PathParts = tuple[str, ...]
"""A resolved path as its names below the root. () is the root itself."""


class Refusal(Exception):
    """A request that is refused. The text says why, and what to do instead."""


class FileStamp(NamedTuple):
    """Tells one state of a file from another. Sizes are in bytes, times in nanoseconds."""

    inode: int
    size: int
    mtime_ns: int
    mode: int


class Folder(NamedTuple):
    """An open folder.

    `fd` is its descriptor. It is None on platforms that open files by whole paths only; there `base` goes before a
    name.
    """

    fd: int | None
    base: Path


def escape_invisible(text: str) -> str:
    """Returns the text on one line: control characters as their pictures (U+2400...), other hidden ones by number."""
    return "".join(char if char.isprintable() else _escape_character(ord(char)) for char in text)


def _escape_character(code: int) -> str:
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"<U+{code:04X}>"


def split_lines(text: str) -> list[str]:
    """Splits a text into lines with their ends. Only a line feed ends a line, as in editors and in grep."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def explain_error(error: Refusal | OSError | UnicodeEncodeError) -> str:
    """Explains an error to the model, without the paths of this machine."""
    match error:
        case FileNotFoundError():
            return "there is no such file or folder; list_files shows what there is"
        case NotADirectoryError():
            return "is a file, or passes through a file or a link as if it were a folder"
        case OSError():
            return error.strerror or type(error).__name__
        case UnicodeEncodeError():
            return f"the character U+{ord(error.object[error.start]):04X} cannot be written as {error.encoding}"
    return str(error)


def _build_stamp(info: os.stat_result) -> FileStamp:
    if stat.S_ISDIR(info.st_mode):
        raise Refusal("is a folder, not a file")
    if not stat.S_ISREG(info.st_mode):
        raise Refusal("is not a regular file (a pipe, a device, a socket or a link)")
    return FileStamp(info.st_ino, info.st_size, info.st_mtime_ns, info.st_mode)


class FileTree:
    """The files below `root`, as they are at each call.

    Nothing outside `root` can be reached. Methods raise `Refusal` or `OSError`.
    """

    def __init__(self, root: Path, *, has_dir_fd: bool = _HAS_DIR_FD, windows: bool = os.name == "nt") -> None:
        """Without `has_dir_fd` files are opened by whole paths. `windows` adds that system's rules for names."""
        self._has_dir_fd, self._is_windows = has_dir_fd, windows
        self.root = os.path.realpath(root)
        if not Path(self.root).is_dir():
            raise NotADirectoryError(f"{root} is not a folder")

    def locate(self, path: str) -> PathParts:
        """Returns the names below the root that a path, relative or absolute, leads to once its links are resolved."""
        if not path or "\0" in path:
            raise Refusal("a path has at least one character and no NUL")
        if self._is_windows:
            _check_windows_names(path)
        full = Path(os.path.realpath(Path(self.root, path)))
        if not full.is_relative_to(self.root):
            raise Refusal("leads outside the working folder, and files there are out of reach; give a path inside it")
        return full.relative_to(self.root).parts

    @contextmanager
    def open_folder(self, parts: PathParts, *, create: bool = False) -> Iterator[Folder]:
        """Opens a folder name by name, so that a link put in the way after `locate` is an error and not a way out."""
        if not self._has_dir_fd:
            base = Path(self.root, *parts)
            if create:
                base.mkdir(parents=True, exist_ok=True)
            if os.path.realpath(base) != str(base):
                raise Refusal("is now a link; ask again")
            yield Folder(None, base)
            return
        fd = os.open(self.root, _FOLDER_FLAGS)
        try:
            for part in parts:
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=fd)
                below = os.open(part, _FOLDER_FLAGS, dir_fd=fd)
                os.close(fd)
                fd = below
            yield Folder(fd, Path())
        finally:
            os.close(fd)

    def get_stamp(self, parts: PathParts) -> FileStamp | None:
        """Returns the state of a regular file, None if nothing is there. Raises `Refusal` for anything else."""
        if not parts:
            raise Refusal("is a folder, not a file")
        try:
            with self.open_folder(parts[:-1]) as (fd, base):
                return _build_stamp(os.stat(base / parts[-1], dir_fd=fd, follow_symlinks=False))
        except FileNotFoundError:
            return None

    def read_bytes(self, parts: PathParts) -> bytes:
        """Reads the bytes of a regular file. Raises `Refusal` for more than `MAX_FILE_BYTES` of them."""
        if self.get_stamp(parts) is None:
            raise Refusal("there is no such file; list_files shows what there is")
        with self.open_folder(parts[:-1]) as (fd, base):
            handle = os.open(base / parts[-1], _FILE_FLAGS, dir_fd=fd)
        with os.fdopen(handle, "rb") as file:
            size = _build_stamp(os.fstat(handle)).size
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise Refusal(f"has {size:,} bytes, and at most {MAX_FILE_BYTES:,} are read; take a part with run_command")
        return data

    def read_text(self, parts: PathParts) -> str:
        """Reads a file as text, with its line ends and byte order mark."""
        data = self.read_bytes(parts)
        if b"\0" in data:
            raise Refusal(f"is a binary file ({len(data):,} bytes, a NUL at byte {data.index(0):,})")
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            byte = data[error.start]
            raise Refusal(f"is not UTF-8 text: byte {error.start:,} is 0x{byte:02x}; use run_command") from error

    def replace(self, parts: PathParts, data: bytes, *, expected: FileStamp | None) -> None:
        """Replaces a file in one step. Raises `Refusal` if its state is no longer the `expected` one.

        It puts a new file there and does not write into the old one. So no reader sees half of it, and if the old file
        has another name outside the root (a hard link), that name keeps the old bytes.
        """
        if self.get_stamp(parts) != expected:
            raise Refusal("has changed since it was looked at, so it was left alone; read it again")
        with self.open_folder(parts[:-1], create=True) as (fd, base):
            name = base / parts[-1]
            draft = base / f".{secrets.token_hex(8)}.tmp"
            try:
                with os.fdopen(os.open(draft, _NEW_FILE_FLAGS, 0o666, dir_fd=fd), "wb") as file:
                    file.write(data)
                    if expected is not None and sys.platform != "win32":
                        os.fchmod(file.fileno(), expected.mode & 0o777)
                os.replace(draft, name, src_dir_fd=fd, dst_dir_fd=fd)
            finally:
                with suppress(FileNotFoundError):  # after a success it has its final name
                    os.unlink(draft, dir_fd=fd)

    def list_entries(self, parts: PathParts) -> list[tuple[str, str]]:
        """Lists the names in a folder in order, each with its kind: "/" a folder, "@" a link, "" anything else."""
        with self.open_folder(parts) as (fd, base), os.scandir(base if fd is None else fd) as scan:
            return sorted(
                (each.name, "@" if each.is_symlink() else "/" if each.is_dir(follow_symlinks=False) else "")
                for each in scan
            )

    def walk_files(self, parts: PathParts) -> Iterator[PathParts]:
        """Yields the files below a folder in order, or the file itself. Links and `SKIPPED_FOLDERS` are left out."""
        remaining = [(parts, "/")]
        while remaining:
            at, kind = remaining.pop()
            if not kind:
                yield at
            if kind != "/":
                continue
            try:
                below = self.list_entries(at)
            except NotADirectoryError:
                yield at
            except (OSError, Refusal):  # a folder that may not be entered, is gone by now, or leads out by a junction
                if at == parts:
                    raise
            else:
                remaining += [((*at, name), kind) for name, kind in reversed(below) if name not in SKIPPED_FOLDERS]

    def search(self, parts: PathParts, pattern: str, max_characters: int) -> Iterator[str]:
        """Yields the lines in which a regular expression matches, as path:line:text, then one line that counts them.

        It stops after `MAX_MATCHES` lines, or before the output takes more than `max_characters`.
        """
        try:
            expression = re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise Refusal(f"the pattern is no regular expression: {error}") from error
        matches = skipped = 0
        for at in self.walk_files(parts):
            try:
                lines = split_lines(self.read_text(at))
            except (Refusal, OSError):
                skipped += 1
                continue
            for number, line in enumerate(lines, 1):
                hit = expression.search(line.removesuffix("\n"))
                if hit is None:
                    continue
                excerpt = _excerpt_line(line.removesuffix("\n"), hit.start())
                shown = f"{escape_invisible('/'.join(at))}:{number}:{excerpt}\n"
                if matches == MAX_MATCHES or len(shown) > max_characters:
                    yield f"[stopped after {matches} matching lines; there are more: narrow the pattern or the path]"
                    return
                matches, max_characters = matches + 1, max_characters - len(shown)
                yield shown
        skip_note = f"; {skipped} files left out: not text, larger than {MAX_FILE_BYTES:,} bytes, or not readable"
        yield f"[{matches} matching lines{skip_note if skipped else ''}]"


def _check_windows_names(path: str) -> None:
    """Refuses names that Windows takes for something else than a file of that name: that would be read or written."""
    for name in re.split(r"[/\\]", ntpath.splitdrive(path)[1]):
        if _DEVICE.fullmatch(name) or ":" in name or (name.endswith((".", " ")) and name.strip(".")):
            raise Refusal(f"{escape_invisible(name)!r} is no file name on Windows; choose another")


def _excerpt_line(line: str, start: int) -> str:
    first = max(0, start - _CHARACTERS_BEFORE) if len(line) > _CHARACTERS_SHOWN else 0
    last = first + _CHARACTERS_SHOWN
    return ("[...]" if first else "") + line[first:last] + ("[...]" if last < len(line) else "")


def _run_search(query: str) -> int:
    root, path, pattern, most = json.loads(query)
    try:
        tree = FileTree(Path(root))
        for line in tree.search(tree.locate(path), pattern, most):
            sys.stdout.buffer.write(line.encode())
            sys.stdout.buffer.flush()  # so that a killed search has shown its matches
    except (Refusal, OSError, UnicodeEncodeError) as error:
        sys.stdout.buffer.write(explain_error(error).encode(errors="backslashreplace"))
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(_run_search(sys.argv[1]))
