"""A real checkout in a temporary folder: real files, real commands, real outputs.

Whatever belongs to the machine is replaced before it is recorded: the temporary path, the interpreter's path, and
timings. Nothing else in an output is changed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

PYTHON_LIB = f"/usr/lib/python{sys.version_info.major}.{sys.version_info.minor}"
_RAN_TESTS = re.compile(r"Ran (\d+) tests? in [0-9.]+s")


class CommandResult(NamedTuple):
    """What a command printed (both streams, in order), and its exit code."""

    output: str
    code: int

    @property
    def has_failed(self) -> bool:
        """Whether the exit code is not 0."""
        return self.code != 0


class Checkout:
    """A folder to work in. Readers of the session see it as `shown_path`, for instance /home/dev/pricing.

    `clock` gives the seconds since the epoch that git writes into its commits, so that hashes never change.
    """

    def __init__(self, root: Path, *, shown_path: str, clock: Callable[[], int]) -> None:
        self.root = root / "checkout"
        self.shown_path = shown_path
        self._home = root / "home"
        self._bin = root / "bin"
        self._clock = clock
        for folder in (self.root, self._home, self._bin):
            folder.mkdir(parents=True)
        for name in ("python", "python3"):
            self._bin.joinpath(name).symlink_to(os.path.realpath(sys.executable))

    def fill(self, project: Path) -> None:
        """Copies a project's files into the checkout. A leading `dot-` in a name becomes a dot."""
        for source in sorted(p for p in project.rglob("*") if p.is_file() and "__pycache__" not in p.parts):
            relative = source.relative_to(project)
            target = self.root / relative.with_name(relative.name.replace("dot-", ".", 1))
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)

    def run(self, command: str) -> CommandResult:
        """Runs a shell command in the checkout."""
        stamp = f"{self._clock()} +0000"
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=self.root,
            env=self._build_environment(stamp),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        return CommandResult(self.clean(done.stdout.decode("utf-8", "replace")), done.returncode)

    def read(self, path: str, first: int = 1, last: int | None = None) -> str:
        """Returns the lines `first` to `last` of a file with their numbers."""
        lines = self.root.joinpath(path).read_text("utf-8").splitlines()
        return "\n".join(f"{n:6}\t{line}" for n, line in enumerate(lines[first - 1 : last], first))

    def write(self, path: str, text: str) -> None:
        """Creates or replaces a file."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")

    def edit(self, path: str, old: str, new: str) -> int:
        """Replaces the only occurrence of `old`, and returns the line where it began.

        Raises ValueError if it is not the only one.
        """
        target = self.root / path
        text = target.read_text("utf-8")
        if text.count(old) != 1:
            raise ValueError(f"{path}: the text to replace occurs {text.count(old)} times:\n{old}")
        target.write_text(text.replace(old, new), "utf-8")
        return text[: text.index(old)].count("\n") + 1

    def clean(self, text: str) -> str:
        """Removes what belongs to this machine from the text."""
        text = text.replace(str(self.root.resolve()), self.shown_path).replace(str(self.root), self.shown_path)
        text = text.replace(str(self._home.resolve()), "/home/dev").replace(str(self._home), "/home/dev")
        text = text.replace(sysconfig.get_path("stdlib"), PYTHON_LIB)
        text = _RAN_TESTS.sub(lambda found: f"Ran {found[1]} tests in {int(found[1]) * 0.001:.3f}s", text)
        return text.rstrip("\n")

    def _build_environment(self, stamp: str) -> dict[str, str]:
        return {
            "PATH": f"{self._bin}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self._home),
            "USER": "dev",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "COLUMNS": "100",
            "NO_COLOR": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_PAGER": "cat",
            "GIT_AUTHOR_NAME": "Dev Example",
            "GIT_AUTHOR_EMAIL": "dev@example.com",
            "GIT_AUTHOR_DATE": stamp,
            "GIT_COMMITTER_NAME": "Dev Example",
            "GIT_COMMITTER_EMAIL": "dev@example.com",
            "GIT_COMMITTER_DATE": stamp,
        }
