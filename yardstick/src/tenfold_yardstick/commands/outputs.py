"""What the eval commands write besides what they print: a page with charts, tables as CSV, and figures as files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from msgspec import Struct
from msgspec.structs import replace

from tenfold.apps.cli.console import print_note
from tenfold.apps.cli.exported_files import write_file
from tenfold.apps.cli.process import ExitCode
from tenfold.apps.cli.source_files import parse_path
from tenfold.errors import UsageError
from tenfold.formats.output_file import check_output
from tenfold_yardstick.csv_tables import render_csv
from tenfold_yardstick.tables import Table

if TYPE_CHECKING:
    from tenfold_yardstick.quality_report import Yardstick

FIGURE_FORMATS: tuple[Literal["png", "svg", "pdf"], ...] = ("png", "svg", "pdf")
HtmlOption = Annotated[
    Path | None,
    typer.Option(
        "--html",
        parser=parse_path,
        metavar="PATH",
        help="Write a page with charts too. It loads nothing from elsewhere, and needs the extra `eval`.",
    ),
]
CsvOption = Annotated[
    Path | None,
    typer.Option(
        "--csv",
        parser=parse_path,
        metavar="DIR",
        help="Write each table into this folder too, as CSV with plain numbers, in the unit that the column names.",
    ),
]
FiguresOption = Annotated[
    Path | None,
    typer.Option(
        "--figures",
        parser=parse_path,
        metavar="DIR",
        help="Write each chart into this folder too: as PNG, SVG and PDF. It needs the extra `eval`.",
    ),
]


class Outputs(Struct, frozen=True):
    """The files that a user asked for. Each is None if it was not asked for."""

    html: Path | None
    csv: Path | None
    figures: Path | None
    force: bool

    def check(self) -> None:
        """Checks, before anything is measured, that all of it can be drawn and written. Raises `UsageError`."""
        drawn = {"--html": self.html, "--figures": self.figures}
        for option in (name for name, path in drawn.items() if path is not None):
            try:
                import tenfold_yardstick.page  # noqa: PLC0415, F401 - an optional extra, and slow to load
            except ImportError as exc:
                raise UsageError(
                    f"{option} draws charts, which needs the extra `eval` ({exc}): pip install 'tenfold[eval]'"
                ) from exc
        if self.html is not None:
            check_output(self.html, force=self.force, option="--html")
        for option, folder in (("--csv", self.csv), ("--figures", self.figures)):
            if folder is not None and folder.exists() and not folder.is_dir():
                raise UsageError(f"{option} {folder} is a file: name a folder")
            if folder is not None and not self.force and folder.is_dir() and any(folder.iterdir()):
                raise UsageError(f"{option} {folder} is not empty: name a new folder, or use --force")

    def write(self, made: Yardstick, tables: Sequence[Table], command: str) -> None:
        """Writes them. `command` repeats the measurement; it names none of the user's files."""
        if self.csv is not None:
            self.csv.mkdir(parents=True, exist_ok=True)
            for table in tables:
                name = re.sub(r"[^a-z0-9]+", "-", table.title.lower()).strip("-")
                write_file(self.csv / f"{name}.csv", render_csv(table), force=self.force, option="--csv")
        if self.figures is not None:
            self._write_figures(self.figures, made)
        if self.html is not None:
            from tenfold_yardstick.page import describe_machine, get_date, render_page  # noqa: PLC0415 - see `check`

            text = render_page(replace(made, date=get_date(), machine=describe_machine()), command=command)
            write_file(self.html, text.encode(), force=self.force, option="--html")

    def _write_figures(self, folder: Path, made: Yardstick) -> None:
        from tenfold_yardstick.drawing import render_figure  # noqa: PLC0415 - see `check`
        from tenfold_yardstick.plots import draw_charts  # noqa: PLC0415 - the same

        folder.mkdir(parents=True, exist_ok=True)
        charts = draw_charts(made)
        for chart in charts:
            for kind in FIGURE_FORMATS:
                data = render_figure(chart.figure, kind)
                write_file(folder / f"{chart.name}.{kind}", data, force=self.force, option="--figures")
        if not charts:
            print_note("no chart was drawn: this measurement has none, or nothing was measured")


def fail_if_unable(answers: Iterable[tuple[str, str]]) -> None:
    """Ends the command with an exit code that says so, if a method never gave a result.

    `answers` are the names of methods, each with why there is no result, "" if there is one.
    """
    reasons: dict[str, str] = {}
    able: set[str] = set()
    for method, reason in answers:
        if reason:
            reasons.setdefault(method, reason)
        else:
            able.add(method)
    unable = [method for method in reasons if method not in able]
    if unable:
        print_note(f"could not run: {'; '.join(f'{method} ({reasons[method]})' for method in unable)}")
        raise typer.Exit(ExitCode.FAILED)
