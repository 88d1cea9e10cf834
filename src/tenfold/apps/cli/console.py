"""Output for people: one console, safe text, and tables that stay readable in a pipe or in ASCII.

Text that comes from a session must be sanitized by a function of `shown` before it is printed.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence
from typing import TextIO

import msgspec
import typer
from rich.box import ASCII2, SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from tenfold.core.text.terminal_safe import escape_json, strip_controls, to_one_line
from tenfold.errors import UsageError
from tenfold.store.ids import shorten_id

_COLUMN_GAP = 2
"""Columns between two cells of a table: narrow, to leave space for text in a terminal of 80."""
_LEAST_FIT = 8
"""Columns that the text in a table needs to say anything."""


def is_terminal() -> bool:
    """Returns whether results go to a terminal rather than into a file or another program."""
    return sys.stdout.isatty()


def format_id(id_: str) -> str:
    """Shortens an id to what a person can type. It stays whole if output is piped."""
    return shorten_id(id_) if is_terminal() else id_


def is_ascii_only(stream: TextIO) -> bool:
    """Returns whether the stream cannot encode more than ASCII and a few national letters."""
    return not (stream.encoding or "ascii").lower().startswith("utf")


def build_console(*, stderr: bool = False) -> Console:
    """Builds the console for results, or for notes and errors (`stderr`). If piped: no colours, no wrapping."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, highlight=False, soft_wrap=not stream.isatty(), safe_box=True, emoji=False)


def get_width() -> int:
    """Returns the columns that a line may take: the terminal's width, or 160 if piped."""
    return build_console().width if is_terminal() else 160


def replace_unencodable(text: str, stream: TextIO | None = None) -> str:
    """Replaces each character that the stream (default: standard output) cannot encode by `?`."""
    encoding = (stream or sys.stdout).encoding or "ascii"
    return text.encode(encoding, "replace").decode(encoding)


def show(text: str = "", *, style: str | None = None) -> None:
    """Prints a line of results. Session text in it must be sanitized already."""
    build_console().print(Text(replace_unencodable(text)), style=style)


def show_command(command: str) -> None:
    """Prints a command of the shell on one line, however long, so that it can be copied."""
    build_console().print(Text(f"    {replace_unencodable(command)}"), soft_wrap=True)


def print_note(text: str, *, style: str = "dim") -> None:
    """Prints a line to standard error, so that a pipe gets results only."""
    build_console(stderr=True).print(Text(replace_unencodable(strip_controls(text), sys.stderr)), style=style)


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Sequence[str] = (),
    fit: str = "",
    red: Collection[str] = (),
) -> None:
    """Prints a table in a terminal, or tab-separated lines with a header if piped. Each cell is one line.

    In a terminal the column `fit` is cut to the width that the others leave. Where they leave too
    little, each row becomes a few lines that name its cells, so that no id is torn apart. Amounts below zero in the
    columns `red` are red.
    """
    if not is_terminal():
        for row in (columns, *rows):
            sys.stdout.write(
                replace_unencodable("\t".join(" ".join(strip_controls(cell).split()) for cell in row)) + "\n"
            )
        return
    grid = Table(
        box=ASCII2 if is_ascii_only(sys.stdout) else SIMPLE_HEAD, show_edge=False, padding=(0, _COLUMN_GAP - 1, 0, 0)
    )
    for name in columns:
        grid.add_column(name, justify="right" if name in right else "left", overflow="fold")
    cells = [[replace_unencodable(strip_controls(cell)) for cell in row] for row in rows]
    if fit:
        at = columns.index(fit)
        others = sum(max(len(row[i]) for row in (columns, *cells)) for i in range(len(columns)) if i != at)
        free_columns = get_width() - others - _COLUMN_GAP * len(columns)
        if free_columns < _LEAST_FIT:
            _print_stacked(columns, cells, at)
            return
        cells = [[*row[:at], to_one_line(row[at], free_columns), *row[at + 1 :]] for row in cells]
    for row in cells:
        is_loss = [name in red and cell.startswith("-") for name, cell in zip(columns, row, strict=True)]
        grid.add_row(*(Text(cell, style="red" if loss else "") for cell, loss in zip(row, is_loss, strict=True)))
    build_console().print(grid)


def _print_stacked(columns: Sequence[str], rows: Iterable[Sequence[str]], at: int) -> None:
    """Prints the cell at `at` of each row on a line of its own, and below it the others with their columns' names."""
    console = build_console()
    for row in rows:
        if row[at]:
            console.print(Text(to_one_line(row[at], console.width)), style="bold")
        cells = [(name, cell) for i, (name, cell) in enumerate(zip(columns, row, strict=True)) if cell and i != at]
        named = ", ".join(f"{name} {cell}".strip() for name, cell in cells)
        console.print(Padding(Text(named), (0, 0, 0, 2), expand=False))


def build_progress(*, enabled: bool = True) -> Progress:
    """Builds a progress bar on standard error, with what is worked on and the time left. Drawn only in a terminal."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=build_console(stderr=True),
        transient=True,
        disable=not (enabled and sys.stderr.isatty()),
        redirect_stdout=False,
        redirect_stderr=False,
    )


def emit(data: bytes) -> None:
    """Writes bytes to standard output unchanged, after the text that was printed before."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def print_json(record: object) -> None:
    """Prints a record as one JSON object on a line, always in UTF-8, because JSON has no other encoding.

    Control characters and marks that change the direction of text are escaped, so that a terminal may show it.
    """
    emit(escape_json(msgspec.json.encode(record).decode()).encode() + b"\n")


def confirm(action: str, *, yes: bool) -> None:
    """Asks the user before something is deleted, unless it was said already (`yes`). A no ends the command.

    Raises `UsageError` if nobody can be asked.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"without a terminal nobody can confirm to {action}: pass --yes to do it")
    typer.confirm(f"{action[0].upper()}{action[1:]}? This cannot be undone.", abort=True, err=True)
