"""What the tests of the workbench share: a working folder, and somebody who answers its questions."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tenfold.apps.agent.coding_tools import Action, ApprovalKind, CodingTools, Section

posix = pytest.mark.skipif(sys.platform == "win32", reason="pipes, links and process groups of POSIX")


class Asked:
    """Answers every question with the same word, and may do something before it does."""

    def __init__(self, *, yes: bool = True, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.lines: list[str] = []
        self.kinds: list[ApprovalKind] = []
        self.sections: list[tuple[Section, ...]] = []
        self._yes = yes
        self._meanwhile = meanwhile

    async def __call__(self, action: Action) -> bool:
        self.lines.append(action.line)
        self.kinds.append(action.kind)
        self.sections.append(action.sections)
        self._meanwhile()
        return self._yes


def make_folder(folder: Path) -> Path:
    """A working folder with one file, beside a folder that is out of reach."""
    (folder / "outside").mkdir()
    (folder / "outside" / "secret.txt").write_text("secret\n")
    (folder / "root2").mkdir()  # its name begins like the root's
    (folder / "root").mkdir()
    (folder / "root" / "src").mkdir()
    (folder / "root" / "src" / "a.py").write_text("one\ntwo\nthree\n")
    return folder / "root"


def make_workbench(root: Path, asked: Asked | None = None) -> CodingTools:
    return CodingTools(root, asked or Asked())


def make_python_command(program: str) -> str:
    return f"{shlex.quote(sys.executable)} -c {shlex.quote(program)}"
