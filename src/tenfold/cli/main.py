"""The command `tenfold`: takes arguments, prints text or JSON lines, and turns errors into exit codes.

Exit codes: 0 compacted, nothing to do or unsatisfiable; 2 the arguments; 3 the input; 4 the store or the work failed.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from tenfold import __version__
from tenfold.cli import changing, chatting, compacting, diffing, evaluating, exporting, reading, showing, tasking
from tenfold.cli.screen import forgiving_streams, note
from tenfold.errors import BadInput, NotFound, TenfoldError, UsageError

_EXIT_CODES = (
    "Exit codes: 0 compacted, nothing to do or unsatisfiable; 2 the arguments; 3 the input; 4 the store or the work "
    "failed; 130 interrupted."
)
_INTERRUPTED = 130

app = typer.Typer(
    name="tenfold",
    epilog="Example: tenfold compact session.jsonl --to 10%",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (compacting, showing, diffing, reading, changing, exporting, chatting, tasking, evaluating):
    module.register(app)

# Releases of typer keep the base class of argument errors in different places, so it is found by its name.
_Misuse: type[Exception] = next(
    kind for kind in typer.BadParameter.__mro__ if issubclass(kind, Exception) and kind.__name__ == "ClickException"
)


def _version(*, wanted: bool) -> None:
    if wanted:
        typer.echo(f"tenfold {__version__}")
        raise typer.Exit


@app.callback(
    help=f"Keeps an LLM agent running past its context window: a tenth of the tokens, nothing lost.\n\n{_EXIT_CODES}"
)
def _root(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=lambda value: _version(wanted=value), is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    del version  # its callback has printed it


def main() -> None:
    """Runs the command line and exits with its exit code."""
    forgiving_streams()
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _closed_pipe()
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Runs one command line and returns its exit code."""
    try:
        result = app(arguments, prog_name="tenfold", standalone_mode=False)
        return _ended(result if isinstance(result, int) else 0)
    except (typer.Abort, KeyboardInterrupt):
        return _ended(_INTERRUPTED)
    except (UsageError, NotFound) as exc:
        return _complain(str(exc), 2)
    except BadInput as exc:
        return _complain(str(exc), 3)
    except (BrokenPipeError, SystemExit):  # typer turns a pipe closed by its reader into an exit
        return _closed_pipe()
    except (TenfoldError, OSError) as exc:
        return _complain(str(exc), 4)
    except _Misuse as exc:
        return _misused(exc)


def _ended(code: int) -> int:
    """Returns the code of a command that has ended, and prints a line for an interrupt, which is only a code here."""
    if code == _INTERRUPTED:
        return _complain("interrupted; what was stored before stays as it is", code)
    return code


def _misused(exc: BaseException) -> int:
    """Prints why typer refused the arguments, and returns the exit code.

    The sentence is empty for a command without arguments: typer has printed its help already.
    """
    sentence = exc.format_message() if isinstance(exc, typer.BadParameter) else str(getattr(exc, "message", exc))
    if sentence:
        _complain(f"{sentence.rstrip('.')}; `tenfold --help` and `tenfold COMMAND --help` show what there is", 2)
    return 2


def _complain(text: str, code: int) -> int:
    note(f"tenfold: {text}", style="red")
    return code


def _closed_pipe() -> int:
    """Handles a reader that closed our output (`| head`): that is no failure, and nothing more can be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
