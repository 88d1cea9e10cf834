"""What a person sees: one console, safe text, and tables that stay readable where output is piped or ASCII only.

Text that comes from a session passes through `shown.told` or `shown.one_line` before it is printed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from io import TextIOWrapper
from typing import TextIO

from rich.box import ASCII2, SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from tenfold.shown import one_line, safe

_GAP = 2
"""Columns between two cells of a table: narrow, so that text keeps room in a terminal of 80."""
SHORT_ID = 18
"""Characters of an id shown in a terminal: its time and its number within that millisecond."""


def in_terminal() -> bool:
    """Whether results go to a terminal rather than into a file or another program."""
    return sys.stdout.isatty()


def short(id_: str) -> str:
    """An id as a person may type it again; the whole one where output is piped."""
    return id_[:SHORT_ID] if in_terminal() else id_


def plain_ascii(stream: TextIO) -> bool:
    """Whether the stream cannot encode more than ASCII and a few national letters."""
    return not (stream.encoding or "ascii").lower().startswith("utf")


def console(*, stderr: bool = False) -> Console:
    """The console for results, or for notes and errors (`stderr`); no colours and no wrapping when piped."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, highlight=False, soft_wrap=not stream.isatty(), safe_box=True, emoji=False)


def width() -> int:
    """Columns a line may take: the terminal's, or plenty when piped."""
    return console().width if in_terminal() else 160


def encodable(text: str, stream: TextIO | None = None) -> str:
    """The text with everything the stream (default: standard output) cannot encode replaced by `?`."""
    encoding = (stream or sys.stdout).encoding or "ascii"
    return text.encode(encoding, "replace").decode(encoding)


def show(text: str = "", *, style: str | None = None) -> None:
    """Prints a line of results. Session text in it must have gone through `told` or `one_line`."""
    console().print(Text(encodable(text)), style=style)


def note(text: str, *, style: str = "dim") -> None:
    """Prints a line beside the results: to standard error, so that a pipe gets results only."""
    console(stderr=True).print(Text(encodable(safe(text), sys.stderr)), style=style)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[str] = (), fit: str = "") -> None:
    """Prints a table in a terminal, tab-separated lines with a header when piped. Cells are one line each.

    In a terminal the column `fit`, the last one, is cut to the width that the others leave.
    """
    if not in_terminal():
        for row in (columns, *rows):
            sys.stdout.write(encodable("\t".join(" ".join(safe(cell).split()) for cell in row)) + "\n")
        return
    made = Table(box=ASCII2 if plain_ascii(sys.stdout) else SIMPLE_HEAD, show_edge=False, padding=(0, _GAP - 1, 0, 0))
    for name in columns:
        made.add_column(name, justify="right" if name in right else "left", overflow="fold")
    cells = [[encodable(safe(cell)) for cell in row] for row in rows]
    if fit:
        others = sum(max(len(row[i]) for row in (columns, *cells)) for i in range(len(columns) - 1))
        room = max(8, width() - others - _GAP * len(columns))
        cells = [[*row[:-1], one_line(row[-1], room)] for row in cells]
    for row in cells:
        made.add_row(*map(Text, row))
    console().print(made)


def progress(*, wanted: bool = True) -> Progress:
    """A progress bar on standard error, drawn only in a terminal."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(bar_width=30), MofNCompleteColumn())
    return Progress(
        *columns,
        console=console(stderr=True),
        transient=True,
        disable=not (wanted and sys.stderr.isatty()),
        redirect_stdout=False,
        redirect_stderr=False,
    )


def emit(data: bytes) -> None:
    """Writes bytes to standard output as they are, in order with the text before them."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def json_line(data: bytes) -> None:
    """Prints one JSON object on a line, in UTF-8 wherever it goes: JSON has no other encoding."""
    emit(data + b"\n")


def forgiving_streams() -> None:
    """Lets standard output and error replace what they cannot encode instead of failing, help texts included."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            with suppress(ValueError):
                stream.reconfigure(errors="replace")
