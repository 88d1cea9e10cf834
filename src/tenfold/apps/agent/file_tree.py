"""Access to the files below one folder: links are resolved first, and nothing outside the folder is read or written.

The module needs the standard library alone because it is also a script: `python -I file_tree.py QUERY` runs a search in
a process of its own. A regular expression can run forever, and a process can be killed while a thread cannot.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
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


class Refusal(Exception):
    """A request that is refused. The text says why, and what to do instead."""


class FileStamp(NamedTuple):
    """Tells one state of a file from another. Sizes are in bytes, times in nanoseconds."""

    inode: int
    size: int
    mtime_ns: int
    mode: int


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


class FileTree:
    """The files below `root`, as they are at each call. Methods take the paths that `locate` returns.

    They raise `Refusal` or `OSError`.
    """

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.realpath(root))
        if not self.root.is_dir():
            raise NotADirectoryError(f"{root} is not a folder")

    def locate(self, path: str) -> Path:
        """Returns where a path, relative to the root or absolute, leads to once its links are resolved."""
        if not path or "\0" in path:
            raise Refusal("a path has at least one character and no NUL")
        full = Path(os.path.realpath(self.root / path))
        if not full.is_relative_to(self.root):
            raise Refusal("leads outside the working folder, and files there are out of reach; give a path inside it")
        return full

    def get_stamp(self, path: Path) -> FileStamp | None:
        """Returns the state of a regular file, None if nothing is there. Raises `Refusal` for anything else."""
        try:
            info = path.lstat()
        except FileNotFoundError:
            return None
        if stat.S_ISDIR(info.st_mode):
            raise Refusal("is a folder, not a file")
        if not stat.S_ISREG(info.st_mode):
            raise Refusal("is not a regular file (a pipe, a device, a socket or a link)")
        return FileStamp(info.st_ino, info.st_size, info.st_mtime_ns, info.st_mode)

    def read_text(self, path: Path) -> str:
        """Reads a file as text, with its line ends and byte order mark. At most `MAX_FILE_BYTES` are read."""
        stamp = self.get_stamp(path)
        if stamp is None:
            raise FileNotFoundError
        if stamp.size > MAX_FILE_BYTES:
            limit = f"at most {MAX_FILE_BYTES:,} are read; take a part with run_command"
            raise Refusal(f"has {stamp.size:,} bytes, and {limit}")
        data = path.read_bytes()
        if b"\0" in data:
            raise Refusal(f"is a binary file ({len(data):,} bytes, a NUL at byte {data.index(0):,})")
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            byte = data[error.start]
            raise Refusal(f"is not UTF-8 text: byte {error.start:,} is 0x{byte:02x}; use run_command") from error

    def replace(self, path: Path, data: bytes, *, expected: FileStamp | None) -> None:
        """Replaces a file in one step. Raises `Refusal` if its state is no longer the `expected` one.

        It puts a new file there and does not write into the old one. So no reader sees half of it, and if the old file
        has another name outside the root (a hard link), that name keeps the old bytes.
        """
        if os.path.realpath(path.parent) != str(path.parent) or self.get_stamp(path) != expected:
            raise Refusal("has changed since it was looked at, so it was left alone; read it again")
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{secrets.token_hex(8)}.tmp")
        try:
            with draft.open("xb") as file:
                file.write(data)
            if expected is not None:
                draft.chmod(expected.mode & 0o777)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)  # after a success it has its final name

    def list_entries(self, path: Path) -> list[tuple[str, str]]:
        """Lists the names in a folder in order, each with its kind: "/" a folder, "@" a link, "" anything else."""
        with os.scandir(path) as scan:
            return sorted(
                (each.name, "@" if each.is_symlink() else "/" if each.is_dir(follow_symlinks=False) else "")
                for each in scan
            )

    def walk_files(self, path: Path) -> Iterator[Path]:
        """Yields the files below a folder in order, or the file itself. Links and `SKIPPED_FOLDERS` are left out."""
        try:
            entries = self.list_entries(path)
        except NotADirectoryError:
            yield path
            return
        for name, kind in entries:
            if kind == "/" and name not in SKIPPED_FOLDERS:
                with suppress(OSError):  # a folder that may not be entered, or is gone by now
                    yield from self.walk_files(path / name)
            elif not kind:
                yield path / name

    def search(self, path: Path, pattern: str, max_characters: int) -> Iterator[str]:
        """Yields the lines in which a regular expression matches, as path:line:text, then one line that counts them.

        It stops after `MAX_MATCHES` lines, or before the output takes more than `max_characters`.
        """
        try:
            expression = re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise Refusal(f"the pattern is no regular expression: {error}") from error
        matches = skipped = 0
        for file in self.walk_files(path):
            try:
                lines = split_lines(self.read_text(file))
            except (Refusal, OSError):
                skipped += 1
                continue
            for number, line in enumerate(lines, 1):
                hit = expression.search(line.removesuffix("\n"))
                if hit is None:
                    continue
                excerpt = _excerpt_line(line.removesuffix("\n"), hit.start())
                shown = f"{_escape_name(file.relative_to(self.root))}:{number}:{excerpt}\n"
                if matches == MAX_MATCHES or len(shown) > max_characters:
                    yield f"[stopped after {matches} matching lines; there are more: narrow the pattern or the path]"
                    return
                matches, max_characters = matches + 1, max_characters - len(shown)
                yield shown
        skip_note = f"; {skipped} files left out: not text, larger than {MAX_FILE_BYTES:,} bytes, or not readable"
        yield f"[{matches} matching lines{skip_note if skipped else ''}]"


def _escape_name(path: Path) -> str:
    return "".join(char if char.isprintable() else f"<U+{ord(char):04X}>" for char in path.as_posix())


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
