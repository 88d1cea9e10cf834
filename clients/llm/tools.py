"""The tools that `llm` is given."""

import subprocess
from pathlib import Path


def read_file(path: str) -> str:
    """Reads a file."""
    return Path(path).read_text("utf-8")


def shell(command: str) -> str:
    """Runs a command."""
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=False).stdout  # noqa: S602
