"""Output for people: one console, safe text, and tables that stay readable in a pipe or in ASCII.

Text that comes from a session must be sanitized by a function of `shown` before it is printed.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

import msgspec
import typer
from rich.box import ASCII2, SIMPLE_HEAD
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from tenfold.apps.cli.process import is_closed_pipe
from tenfold.core.text.terminal_safe import escape_json, strip_controls, to_one_line
from tenfold.errors import UsageError
from tenfold.store.ids import shorten_id

_COLUMN_GAP = 2
"""Columns between two cells of a table: narrow, to leave space for text in a terminal of 80."""
LEAST_FIT = 8
"""Columns that the text in a table needs to say anything."""
_USUAL_FIT = 24
"""Columns that it should have, if there are columns which can be spared."""
_PATH_LENGTH = 400
"""Characters of a path that are looked at, to show its end."""
MATCH_STYLE = "bold yellow"
"""How words are shown that were searched for."""


def is_terminal() -> bool:
    """Returns whether results go to a terminal rather than into a file or another program."""
    return sys.stdout.isatty()


def format_id(id_: str) -> str:
    """Shortens an id to what a person can type. It stays whole if output is piped."""
    return shorten_id(id_) if is_terminal() else id_


def render_count(count: int, noun: str) -> str:
    """Renders a number of things: `1 session`, `1,200 sessions`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def render_age(micros: int) -> str:
    """Renders how long ago something was in the largest unit of which it is at least one: `5m`, `3h`, `12d`."""
    seconds = max(0, micros // 1_000_000)
    units = ((86_400, "d"), (3_600, "h"), (60, "m"))
    return next((f"{seconds // size}{unit}" for size, unit in units if seconds >= size), "now")


def is_ascii_only(stream: TextIO) -> bool:
    """Returns whether the stream cannot encode more than ASCII and a few national letters."""
    return not (stream.encoding or "ascii").lower().startswith("utf")


_bar_consoles: list[Console] = []
"""The console of the bar that is drawn, if any: what it prints stands above the bar."""


@contextmanager
def share_console(console: Console) -> Iterator[None]:
    """Has notes and errors printed by a console that draws a bar, as long as the block lasts."""
    _bar_consoles.append(console)
    try:
        yield
    finally:
        _bar_consoles.remove(console)


def build_console(*, stderr: bool = False) -> Console:
    """Builds the console for results, or for notes and errors (`stderr`). If piped: no colours, no wrapping."""
    if stderr and _bar_consoles:
        return _bar_consoles[-1]
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


def show_text(text: str, *, lead: str = "", style: str = "", marks: Sequence[tuple[int, int]] = ()) -> None:
    """Prints lines of session text, which must be sanitized already, broken between words in a terminal.

    `lead` stands before the first line, and as much space before the others. `marks` are the ranges to highlight.
    """
    if not is_terminal():
        first, *others = text.split("\n")
        sys.stdout.write(replace_unencodable("\n".join((lead + first, *others))) + "\n")
        return
    shown = Text(replace_unencodable(text), style=style)  # as long as before: each character has one in its place
    for start, stop in marks:
        shown.stylize(MATCH_STYLE, start, stop)
    console = build_console()
    indent = " " * len(lead)
    for number, line in enumerate(shown.wrap(console, max(1, console.width - len(lead)))):
        line.rstrip()
        console.print(Text.assemble((indent if number else lead, style), line) if line or not number else "")


def show_command(command: str) -> None:
    """Prints a command of the shell on one line, however long, so that it can be copied."""
    build_console().print(Text(f"    {replace_unencodable(command)}"), soft_wrap=True)


def print_note(text: str, *, style: str = "dim", soft_wrap: bool = False) -> None:
    """Prints a line to standard error, so that a pipe gets results only. With `soft_wrap` it can be copied whole."""
    shown = Text(replace_unencodable(strip_controls(text), sys.stderr))
    build_console(stderr=True).print(shown, style=style, soft_wrap=soft_wrap or None)


def fit_line(text: str, columns: int) -> str:
    """Returns the beginning of session text, sanitized, on one line that takes at most so many columns.

    Of a path it is the end, which tells it from others.
    """
    line = to_one_line(text, max(columns, _PATH_LENGTH))
    if cell_len(line) <= columns:
        return line
    room = max(0, columns - 3)
    if "/" in line and " " not in line and line.isascii():
        return f"...{line[len(line) - room :]}"
    return set_cell_size(line, room).rstrip() + "..."


def print_table(  # noqa: PLR0913 - what may be special about a column
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Collection[str] = (),
    fit: str = "",
    spare: Sequence[str] = (),
    red: Collection[str] = (),
    usual: int = _USUAL_FIT,
) -> None:
    """Prints a table in a terminal, or tab-separated lines with a header if piped. Each cell is one line.

    In a terminal the column `fit` is cut to the width that the others leave. Where they leave less than `usual`, those
    in `spare` are left out, the first one first. If that is not enough either, each row becomes a few lines that name
    its cells, so that no id is torn apart. Amounts below zero in the columns `red` are red.
    """
    if not is_terminal():
        for row in (columns, *rows):
            sys.stdout.write(
                replace_unencodable("\t".join(" ".join(strip_controls(cell).split()) for cell in row)) + "\n"
            )
        return
    cells = [[replace_unencodable(strip_controls(cell)) for cell in row] for row in rows]
    widths = {name: max(cell_len(row[i]) for row in (columns, *cells)) for i, name in enumerate(columns)}
    shown = _leave_out_columns(widths, fit, spare, usual)
    free, at = _measure_rest(widths, fit, shown), columns.index(fit) if fit else 0
    if free < (LEAST_FIT if fit else 0):
        _print_stacked(columns, cells, at)
        return
    if fit:
        cells = [[*row[:at], fit_line(row[at], free), *row[at + 1 :]] for row in cells]
    grid = Table(
        box=ASCII2 if is_ascii_only(sys.stdout) else SIMPLE_HEAD, show_edge=False, padding=(0, _COLUMN_GAP - 1, 0, 0)
    )
    for name in shown:
        grid.add_column(name, justify="right" if name in right else "left", overflow="fold")
    for row in cells:
        named = [(name, cell) for name, cell in zip(columns, row, strict=True) if name in shown]
        grid.add_row(*(Text(cell, style="red" if name in red and cell.startswith("-") else "") for name, cell in named))
    build_console().print(grid)


def _leave_out_columns(widths: dict[str, int], fit: str, spare: Sequence[str], usual: int) -> list[str]:
    """Returns the columns to show: without those that can be spared, as long as the text has too few columns."""
    shown = list(widths)
    for name in spare:
        if _measure_rest(widths, fit, shown) >= min(usual, widths[fit]):
            break
        shown.remove(name)
    return shown


def _measure_rest(widths: dict[str, int], fit: str, shown: Sequence[str]) -> int:
    """Returns how many columns of the terminal are left for the text."""
    others = sum(width for name, width in widths.items() if name in shown and name != fit)
    return get_width() - others - _COLUMN_GAP * len(shown)


def _print_stacked(columns: Sequence[str], rows: Iterable[Sequence[str]], at: int) -> None:
    """Prints the cell at `at` of each row on a line of its own, and below it the others with their columns' names.

    A line is broken between two cells only, as long as one fits it.
    """
    console = build_console()
    for row in rows:
        if row[at]:
            console.print(Text(fit_line(row[at], console.width)), style="bold")
        cells = [(name, cell) for i, (name, cell) in enumerate(zip(columns, row, strict=True)) if cell and i != at]
        lines = [""]
        for number, (name, cell) in enumerate(cells, 1):
            named = f"{name} {cell}".strip() + ("," if number < len(cells) else "")
            if lines[-1] and cell_len(lines[-1]) + 1 + cell_len(named) > console.width - 2:
                lines.append("")
            lines[-1] = f"{lines[-1]} {named}".strip()
        for line in lines:
            show_text(line, lead="  ")


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
    """Writes bytes to standard output unchanged, after the text that was printed before.

    Raises `BrokenPipeError` if nobody reads them, on every system.
    """
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except OSError as exc:
        raise (BrokenPipeError() if is_closed_pipe(exc) else exc) from None


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
