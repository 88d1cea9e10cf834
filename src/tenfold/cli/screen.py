"""What a person sees: one console, safe text, and tables that stay readable where output is piped or ASCII only."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table, box

_CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI sequences: colours, cursor, screen
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|$)"  # OSC, DCS, SOS, PM, APC strings
    r"|\x1b[ -/]*[0-~]?"  # any other escape
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]",  # other controls, and what reverses text
    re.DOTALL,
)


def safe(text: str) -> str:
    """Session text as it may be printed: control sequences and direction marks removed, lines and tabs kept."""
    return _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def one_line(text: str, width: int) -> str:
    """The text's beginning on one line of at most `width` characters."""
    flat = " ".join(safe(text[: width * 8]).split())
    return flat if len(flat) <= width else flat[: width - 3].rstrip() + "..."


def plain_ascii() -> bool:
    """Whether the console cannot encode more than ASCII."""
    return not (sys.stdout.encoding or "ascii").lower().startswith("utf")


def console(*, stderr: bool = False) -> Console:
    """The console for results, or for notes and errors (`stderr`); no colours or wrapping games when piped."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, highlight=False, soft_wrap=not stream.isatty(), safe_box=True)


def encodable(text: str) -> str:
    """The text with everything the console cannot encode replaced."""
    encoding = sys.stdout.encoding or "ascii"
    return text.encode(encoding, "replace").decode(encoding)


def show(text: str = "", *, style: str | None = None) -> None:
    """Prints a line of ours. Session text in it must have gone through `safe` or `one_line`."""
    console().print(escape(encodable(text)), style=style)


def note(text: str) -> None:
    """Prints a line beside the results: to standard error, so that a pipe gets results only."""
    console(stderr=True).print(escape(encodable(text)), style="dim")


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[str] = ()) -> None:
    """Prints a table in a terminal, tab-separated lines with a header when piped."""
    if not sys.stdout.isatty():
        for row in (columns, *rows):
            sys.stdout.write(encodable("\t".join(" ".join(safe(cell).split()) for cell in row)) + "\n")
        return
    made = Table(box=box.ASCII2 if plain_ascii() else box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        made.add_column(name, justify="right" if name in right else "left", overflow="fold")
    for row in rows:
        made.add_row(*(escape(encodable(safe(cell))) for cell in row))
    console().print(made)


def progress() -> Progress:
    """A progress bar on standard error, there only in a terminal."""
    bar = BarColumn(bar_width=30)
    columns = (TextColumn("{task.description}"), bar, MofNCompleteColumn())
    return Progress(*columns, console=console(stderr=True), transient=True, disable=not sys.stderr.isatty())
