"""`make versions` tries every version that the package claims, and says which interpreters are not there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLAIMED = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text("utf-8"))
README = (ROOT / "README.md").read_text("utf-8")


def write_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", "utf-8")
    path.chmod(0o755)


@pytest.mark.skipif(os.name != "posix", reason="the script is of POSIX")
def test_each_version_is_tried_that_is_at_hand(tmp_path: Path) -> None:
    write_program(tmp_path / "bin" / "python3.11", "exit 0")
    write_program(tmp_path / "bin" / "python3.12", "echo 'a shim of a version that is not chosen'; exit 127")
    write_program(tmp_path / ".pyenv" / "versions" / "3.12.9" / "bin" / "python3.12", "exit 0")
    write_program(tmp_path / "make tool", 'echo "$@" >> "$HOME/made"; case "$*" in *3.12*) exit 2 ;; esac')
    for name in ("sh", "sed"):
        found = shutil.which(name)
        assert found is not None
        (tmp_path / "bin" / name).symlink_to(found)
    env = {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path), "MAKE": str(tmp_path / "make tool")}
    command = ["sh", "scripts/try_versions.sh"]
    ran = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (1, "")
    first, second = tmp_path / "bin" / "python3.11", tmp_path / ".pyenv/versions/3.12.9/bin/python3.12"
    assert ran.stdout.strip().splitlines() == [
        f"Python 3.11: passed, with {first}",
        f"Python 3.12: FAILED, with {second}",
        "Python 3.13: not found, so not tried",
    ]
    made = (tmp_path / "made").read_text("utf-8").splitlines()
    assert made == [f"test PYTHON={first} VENV=.versions/3.11", f"test PYTHON={second} VENV=.versions/3.12"]


def test_the_readme_names_the_claimed_versions() -> None:
    assert CLAIMED == ["3.11", "3.12", "3.13"]
    assert f"Python {', '.join(CLAIMED[:-1])} and {CLAIMED[-1]}" in README
