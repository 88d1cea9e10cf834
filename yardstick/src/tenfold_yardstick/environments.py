"""Makes environments of pinned packages, each in a folder of its own: for peers, kits, adapters and clients.

A package index is needed: the one that pip is set up for. What cannot be installed leaves its reason in a file, for
whoever finds it missing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

REQUIREMENTS = "requirements.txt"
_INSTALLED = "installed.txt"
"""The copy of its requirements in an environment that is complete."""
_LEAST_PYTHON = re.compile(r"^# python >= ([\d.]+)$", re.MULTILINE)
_NEWER_PYTHONS = ("python3", "python3.12", "python3.13")


def list_environments(source: Path) -> list[str]:
    """Lists the names of the folders in `source` that hold requirements."""
    return sorted(path.parent.name for path in source.glob(f"*/{REQUIREMENTS}"))


def get_python(folder: Path, name: str) -> Path:
    """Returns the interpreter of an environment, which may not be there."""
    return folder.absolute() / name / "bin" / "python"


def read_failure(folder: Path, name: str) -> str:
    """Returns why an environment could not be made, or ""."""
    failed = _get_failure_file(folder, name)
    return failed.read_text("utf-8").strip() if failed.exists() else ""


def is_current(source: Path, folder: Path, name: str) -> bool:
    """Tells whether an environment is complete, and made from these very requirements."""
    installed = folder / name / _INSTALLED
    return installed.exists() and installed.read_bytes() == (source / name / REQUIREMENTS).read_bytes()


def make_environment(source: Path, folder: Path, name: str) -> str:
    """Makes `folder/NAME` anew from `source/NAME/requirements.txt`. Returns why that was not possible, or "".

    A first line such as `# python >= 3.12` asks for another interpreter, which is looked for.
    """
    wanted = source / name / REQUIREMENTS
    least = next(iter(_LEAST_PYTHON.findall(wanted.read_text("utf-8"))), "3.11")
    shutil.rmtree(folder / name, ignore_errors=True)
    failed = _get_failure_file(folder, name)
    failed.unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    python = _find_interpreter(least)
    reason = _install(python, wanted, folder, name) if python else f"it needs Python {least}, which is not here"
    if reason:
        shutil.rmtree(folder / name, ignore_errors=True)
        failed.write_text(reason + "\n", "utf-8")
    else:
        shutil.copyfile(wanted, folder / name / _INSTALLED)
    return reason


def _install(python: str, wanted: Path, folder: Path, name: str) -> str:
    """Makes the environment and fills it, with the pip that runs here or, if there is none, with its own."""
    has_pip = find_spec("pip") is not None
    own = str(get_python(folder, name))
    pip = [sys.executable, "-m", "pip", "--python", own] if has_pip else [own, "-m", "pip"]
    options = ["--quiet", "--disable-pip-version-check", "--requirement", str(wanted)]
    make = [python, "-m", "venv", *(["--without-pip"] if has_pip else []), str(folder / name)]
    for command in (make, [*pip, "install", *options]):
        ran = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - its own requirements
        if ran.returncode:
            lines = (ran.stderr.strip() or ran.stdout.strip() or f"ended with {ran.returncode}").splitlines()
            return next((line for line in lines if "ERROR" in line), lines[-1])
    return ""


def _find_interpreter(least: str) -> str:
    """Returns the first interpreter of at least this version that runs, or ""."""
    check = f"import sys; sys.exit(sys.version_info < {tuple(map(int, least.split('.')))})"
    for python in _iterate_interpreters():
        ran = subprocess.run([python, "-c", check], capture_output=True, check=False)  # noqa: S603 - an interpreter
        if ran.returncode == 0:
            return python
    return ""


def _iterate_interpreters() -> Iterator[str]:
    yield sys.executable
    yield from filter(None, map(shutil.which, _NEWER_PYTHONS))
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from map(str, sorted(pyenv.glob("versions/3.1[1-9]*/bin/python3")))


def _get_failure_file(folder: Path, name: str) -> Path:
    return folder / f"{name}.failed"
