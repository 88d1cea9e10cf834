"""Access to the files below one folder, safe against links that lead out of it.

Every path is resolved through its links first and then opened without following any. The module needs the standard
library alone because it is also a script: `python -I file_tree.py QUERY` runs a search in a process of its own. A
regular expression can run forever, and a process can be killed while a thread cannot.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

LARGEST = 5_000_000
"""Bytes of the largest file that is read or searched: more than any source text, and small enough to hold twice."""
MATCHES = 200
"""Matching lines that a search shows before it stops."""
PASSED_BY = frozenset([".git", ".hg", ".svn", ".venv", "__pycache__", "node_modules"])
"""Folders that a search enters only if its path names them. Nobody writes their content by hand."""
_BEFORE, _SHOWN = 100, 300
"""Characters of a line that are shown before a match, and in total."""
_NOFOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
_FOLDER: int = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _NOFOLLOW
# Without O_NONBLOCK, opening a pipe that took the file's place a moment ago would block forever.
_FILE: int = os.O_RDONLY | _NOFOLLOW | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_NEW: int = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW | getattr(os, "O_BINARY", 0)
_STEPWISE = {os.open, os.stat, os.mkdir, os.rename, os.unlink} <= os.supports_dir_fd and os.scandir in os.supports_fd

Parts = tuple[str, ...]
"""A resolved path as its names below the root. () is the root itself."""


class Refused(Exception):
    """A request that is refused. The text says why, and what to do instead."""


class Stamp(NamedTuple):
    """Tells one state of a file from another. Sizes are in bytes, times in nanoseconds."""

    node: int
    size: int
    changed: int
    mode: int


class Folder(NamedTuple):
    """An open folder.

    `fd` is its descriptor. It is None on platforms that open files by whole paths only; there `base` goes before a
    name.
    """

    fd: int | None
    base: Path


def visible(text: str) -> str:
    """Returns the text on one line: control characters as their pictures (U+2400...), other hidden ones by number."""
    return "".join(char if char.isprintable() else _picture(ord(char)) for char in text)


def _picture(code: int) -> str:
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"<U+{code:04X}>"


def lines_of(text: str) -> list[str]:
    """Splits a text into lines with their ends. Only a line feed ends a line, as in editors and in grep."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def reason(error: Refused | OSError | UnicodeEncodeError) -> str:
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


def _stamp(info: os.stat_result) -> Stamp:
    if stat.S_ISDIR(info.st_mode):
        raise Refused("is a folder, not a file")
    if not stat.S_ISREG(info.st_mode):
        raise Refused("is not a regular file (a pipe, a device, a socket or a link)")
    return Stamp(info.st_ino, info.st_size, info.st_mtime_ns, info.st_mode)


class Tree:
    """The files below `root`, as they are at each call.

    Nothing outside `root` can be reached. Methods raise `Refusal` or `OSError`.
    """

    def __init__(self, root: Path) -> None:
        self.root = os.path.realpath(root)
        if not Path(self.root).is_dir():
            raise NotADirectoryError(f"{root} is not a folder")

    def locate(self, path: str) -> Parts:
        """Returns the names below the root that a path, relative or absolute, leads to once its links are resolved."""
        if not path or "\0" in path:
            raise Refused("a path has at least one character and no NUL")
        full = Path(os.path.realpath(Path(self.root, path)))
        if not full.is_relative_to(self.root):
            raise Refused("leads outside the working folder, and files there are out of reach; give a path inside it")
        return full.relative_to(self.root).parts

    @contextmanager
    def folder(self, parts: Parts, *, make: bool = False) -> Iterator[Folder]:
        """Opens a folder name by name, so that a link put in the way after `locate` is an error and not a way out."""
        if not _STEPWISE:
            base = Path(self.root, *parts)
            if make:
                base.mkdir(parents=True, exist_ok=True)
            if os.path.realpath(base) != str(base):
                raise Refused("is now a link; ask again")
            yield Folder(None, base)
            return
        fd = os.open(self.root, _FOLDER)
        try:
            for part in parts:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=fd)
                below = os.open(part, _FOLDER, dir_fd=fd)
                os.close(fd)
                fd = below
            yield Folder(fd, Path())
        finally:
            os.close(fd)

    def stamp(self, parts: Parts) -> Stamp | None:
        """Returns the state of a regular file, None if nothing is there. Raises `Refusal` for anything else."""
        if not parts:
            raise Refused("is a folder, not a file")
        try:
            with self.folder(parts[:-1]) as (fd, base):
                return _stamp(os.stat(base / parts[-1], dir_fd=fd, follow_symlinks=False))
        except FileNotFoundError:
            return None

    def read(self, parts: Parts) -> bytes:
        """Reads the bytes of a regular file. Raises `Refusal` for more than `MAX_FILE_BYTES` of them."""
        if self.stamp(parts) is None:
            raise Refused("there is no such file; list_files shows what there is")
        with self.folder(parts[:-1]) as (fd, base):
            handle = os.open(base / parts[-1], _FILE, dir_fd=fd)
        with os.fdopen(handle, "rb") as file:
            size = _stamp(os.fstat(handle)).size
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise Refused(f"has {size:,} bytes, and at most {LARGEST:,} are read; take a part with run_command")
        return data

    def text(self, parts: Parts) -> str:
        """Reads a file as text, with its line ends and byte order mark."""
        data = self.read(parts)
        if b"\0" in data:
            raise Refused(f"is a binary file ({len(data):,} bytes, a NUL at byte {data.index(0):,})")
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            byte = data[error.start]
            raise Refused(f"is not UTF-8 text: byte {error.start:,} is 0x{byte:02x}; use run_command") from error

    def replace(self, parts: Parts, data: bytes, *, seen: Stamp | None) -> None:
        """Replaces a file in one step. Raises `Refusal` if its state is no longer the `expected` one.

        It puts a new file there and does not write into the old one. So no reader sees half of it, and if the old file
        has another name outside the root (a hard link), that name keeps the old bytes.
        """
        if self.stamp(parts) != seen:
            raise Refused("has changed since it was looked at, so it was left alone; read it again")
        with self.folder(parts[:-1], make=True) as (fd, base):
            name = base / parts[-1]
            draft = base / f".{secrets.token_hex(8)}.tmp"
            try:
                with os.fdopen(os.open(draft, _NEW, 0o666, dir_fd=fd), "wb") as file:
                    file.write(data)
                    if seen is not None and sys.platform != "win32":
                        os.fchmod(file.fileno(), seen.mode & 0o777)
                os.replace(draft, name, src_dir_fd=fd, dst_dir_fd=fd)
            finally:
                with suppress(FileNotFoundError):  # after a success it has its final name
                    os.unlink(draft, dir_fd=fd)

    def entries(self, parts: Parts) -> list[tuple[str, str]]:
        """Lists the names in a folder in order, each with its kind: "/" a folder, "@" a link, "" anything else."""
        with self.folder(parts) as (fd, base), os.scandir(base if fd is None else fd) as scan:
            return sorted(
                (each.name, "@" if each.is_symlink() else "/" if each.is_dir(follow_symlinks=False) else "")
                for each in scan
            )

    def files(self, parts: Parts) -> Iterator[Parts]:
        """Yields the files below a folder in order, or the file itself. Links and `SKIPPED_FOLDERS` are left out."""
        remaining = [(parts, "/")]
        while remaining:
            at, kind = remaining.pop()
            if not kind:
                yield at
            if kind != "/":
                continue
            try:
                below = self.entries(at)
            except NotADirectoryError:
                yield at
            except OSError:  # a folder that may not be entered, or is gone by now
                if at == parts:
                    raise
            else:
                remaining += [((*at, name), kind) for name, kind in reversed(below) if name not in PASSED_BY]

    def search(self, parts: Parts, pattern: str, most: int) -> Iterator[str]:
        """Yields the lines in which a regular expression matches, as path:line:text, then one line that counts them.

        It stops after `MAX_MATCHES` lines, or before the output takes more than `max_characters`.
        """
        try:
            expression = re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise Refused(f"the pattern is no regular expression: {error}") from error
        matches = skipped = 0
        for at in self.files(parts):
            try:
                lines = lines_of(self.text(at))
            except (Refused, OSError):
                skipped += 1
                continue
            for number, line in enumerate(lines, 1):
                hit = expression.search(line.removesuffix("\n"))
                if hit is None:
                    continue
                shown = f"{visible('/'.join(at))}:{number}:{_around(line.removesuffix(chr(10)), hit.start())}\n"
                if matches == MATCHES or len(shown) > most:
                    yield f"[stopped after {matches} matching lines; there are more: narrow the pattern or the path]"
                    return
                matches, most = matches + 1, most - len(shown)
                yield shown
        skip_note = f"; {skipped} files left out: not text, larger than {LARGEST:,} bytes, or not readable"
        yield f"[{matches} matching lines{skip_note if skipped else ''}]"


def _around(line: str, start: int) -> str:
    first = max(0, start - _BEFORE) if len(line) > _SHOWN else 0
    last = first + _SHOWN
    return ("[...]" if first else "") + line[first:last] + ("[...]" if last < len(line) else "")


def _search(query: str) -> int:
    root, path, pattern, most = json.loads(query)
    try:
        tree = Tree(Path(root))
        for line in tree.search(tree.locate(path), pattern, most):
            sys.stdout.buffer.write(line.encode())
            sys.stdout.buffer.flush()  # so that a killed search has shown its matches
    except (Refused, OSError, UnicodeEncodeError) as error:
        sys.stdout.buffer.write(reason(error).encode(errors="backslashreplace"))
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(_search(sys.argv[1]))
