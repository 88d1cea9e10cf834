"""The command `tenfold`: arguments in, text or JSON lines out, and errors as exit codes.

Exit codes: 0 compacted, nothing to do or unsatisfiable; 2 the arguments; 3 the input; 4 the store or the work failed.
"""

from __future__ import annotations

import sys

import click
import typer

from tenfold.cli import changing, compacting, exporting, reading
from tenfold.cli.screen import console, encodable, safe
from tenfold.errors import BadInput, NotFound, TenfoldError, UsageError

app = typer.Typer(
    name="tenfold",
    help="Keeps an LLM agent running past its context window: a tenth of the tokens, and nothing lost.",
    epilog="Example: tenfold compact session.jsonl --to 10%",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (compacting, reading, changing, exporting):
    module.register(app)


def main() -> None:
    """Runs the command line and leaves with its exit code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Runs one command line and gives its exit code; nothing but the code says how it ended to a program."""
    try:
        result = app(arguments, prog_name="tenfold", standalone_mode=False)
    except click.exceptions.Abort:
        _complain("interrupted; what was stored before stays as it is")
        return 130
    except click.ClickException as exc:
        exc.show()
        return 2
    except (UsageError, NotFound) as exc:
        _complain(str(exc))
        return 2
    except BadInput as exc:
        _complain(str(exc))
        return 3
    except (TenfoldError, OSError) as exc:
        _complain(str(exc))
        return 4
    return result if isinstance(result, int) else 0


def _complain(text: str) -> None:
    console(stderr=True).print(f"tenfold: {encodable(safe(text))}", style="red", markup=False)
