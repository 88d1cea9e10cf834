"""`--html` of the eval commands: the result as one page, in addition to what is printed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace

from tenfold.apps.cli.exported_files import write_file
from tenfold.apps.cli.source_files import parse_path
from tenfold.errors import UsageError
from tenfold.formats.output_file import check_output

if TYPE_CHECKING:
    from tenfold_yardstick.quality_report import Yardstick


def check_page(path: Path | None, *, force: bool) -> None:
    """Checks, before anything is measured, that a page can be drawn and written there. Raises `UsageError`."""
    if path is None:
        return
    try:
        import tenfold_yardstick.page  # noqa: PLC0415, F401 - an optional extra, and slow to load
    except ImportError as exc:
        raise UsageError(
            f"--html draws charts, which needs the extra `eval` ({exc}): pip install 'tenfold[eval]'"
        ) from exc
    check_output(path, force=force, option="--html")


HtmlOption = Annotated[
    Path | None,
    typer.Option(
        "--html",
        parser=parse_path,
        metavar="PATH",
        help="Write a page with charts too. It loads nothing from elsewhere, and needs the extra `eval`.",
    ),
]


def write_page(path: Path | None, made: Yardstick, command: str, *, force: bool) -> None:
    """Writes the page of a result, if one was requested. `command` repeats it; it names none of the user's files."""
    if path is None:
        return
    from tenfold_yardstick.page import describe_machine, get_date, render_page  # noqa: PLC0415 - an optional extra, and slow to load

    text = render_page(replace(made, date=get_date(), machine=describe_machine()), command=command)
    write_file(path, text.encode(), force=force, option="--html")
