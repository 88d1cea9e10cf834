"""The options of commands that write a file, and the note that one was written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tenfold.apps.cli.console import print_note
from tenfold.formats.output_file import write_output

ForceOption = Annotated[bool, typer.Option("--force", help="Replace the file if there is one.")]


def write_file(path: Path, data: bytes, *, force: bool, option: str = "--out") -> None:
    """Writes a file that the user named, and prints a note. See `write_output`."""
    write_output(path, data, force=force, option=option)
    print_note(f"written: {path} ({len(data):,} bytes)")
