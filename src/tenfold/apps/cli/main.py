"""The command `tenfold`: takes arguments, prints text or JSON lines, and turns errors into exit codes."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from tenfold import __version__
from tenfold.apps.cli.process import COMPLETE_VARIABLE, ExitCode, is_closed_pipe, relax_stream_errors, take_explanation
from tenfold.errors import BadInput, NotFoundError, TenfoldError, UsageError


class _Command(NamedTuple):
    """Where a command is defined, in a module of `tenfold.apps.cli`, and the arguments of its example.

    With `takes_rest`, what follows its first argument are the arguments of another program. The function `register`
    adds a group of commands.
    """

    module: str
    function: str
    example: str
    takes_rest: bool = False


_REGISTER = "register"
COMMANDS = {
    "find": _Command("client_commands", "find", "--here"),
    "compact": _Command("compact_command", "compact", "session.jsonl --to 10% --out smaller.jsonl"),
    "import": _Command("client_commands", "import_", "session.jsonl"),
    "apply": _Command("client_commands", "apply", "01a2194c --to 10%"),
    "show": _Command("view_commands", "show_session", "last"),
    "diff": _Command("view_commands", "diff", "last"),
    "sessions": _Command("read_commands", "sessions", "--json"),
    "search": _Command("read_commands", "search", "'port 8443' --session last"),
    "bill": _Command("bill_command", "bill", "--since 7d --by model"),
    "expand": _Command("read_commands", "expand_block", "26 --session last --around 1"),
    "verify": _Command("store_commands", "verify", ""),
    "doctor": _Command("doctor_command", "examine_machine", ""),
    "policies": _Command("read_commands", "policies", "--window 200000"),
    "store": _Command("database_commands", _REGISTER, ""),
    "keys": _Command("access_commands", _REGISTER, ""),
    "audit": _Command("access_commands", "audit", "--json"),
    "jobs": _Command("job_commands", _REGISTER, ""),
    "worker": _Command("job_commands", "run_worker", ""),
    "completion": _Command("read_commands", "print_completion", "zsh"),
    "salvage": _Command("store_commands", "salvage", "salvaged.db"),
    "undo": _Command("change_commands", "undo", "last"),
    "pin": _Command("change_commands", "pin", "01a2005b-7d4e-7003"),
    "unpin": _Command("change_commands", "unpin", "01a2005b-7d4e-7003"),
    "purge": _Command("change_commands", "purge", "01a2005b-7d4e-7003 --yes"),
    "retention": _Command("store_commands", "retention", "--older-than 90d --dry-run"),
    "rules": _Command("change_commands", "rules", 'last --add "Never push to main."'),
    "export": _Command("export_command", "export", "last --as anthropic --out view.json"),
    "install": _Command("mcp_commands", "install", "claude-code --dry-run"),
    "hook": _Command("mcp_commands", "hook", "< event.json"),
    "mcp": _Command("mcp_commands", "mcp", "--http --port 8788"),
    "chat": _Command("agent_commands", "chat", "--session last"),
    "run": _Command("agent_commands", "run", '--task "Which prices end in .99?"'),
    "inspect": _Command("inspect_command", "inspect_store", "last"),
    "serve": _Command("gateway_commands", "serve", "--upstream http://localhost:8000/v1 --window 128000"),
    "wrap": _Command("gateway_commands", "wrap", "--window 128000 codex exec 'mend the failing test'", takes_rest=True),
}
"""The commands in the order of the help."""
MISSING_COMMANDS = {"eval": "pip install 'tenfold[eval]'"}
"""Commands of packages that may not be installed, each with what installs it."""
_LINE_END = re.compile(r"(?<!\n)\n(?!\n)")
_EXIT_CODES = (
    "Exit codes: 0 the command succeeded, also if there was nothing to compact; 1 `doctor` found something to do; 2 an "
    "argument is wrong; 3 a file cannot be read; 4 the store or the work failed; 130 you interrupted it."
)


class _LazyGroup(TyperGroup):
    """Imports the module of a command when that command is asked for: all of them together take half a second."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 - typer publishes no type for it
        del ctx
        return [*COMMANDS, *_load_plugins().list_plugins("commands")]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401 - nor for these
        if cmd_name not in self.commands:  # a name that is misspelt is compared with those of all commands
            known = self.list_commands(ctx)
            for name in [cmd_name] if cmd_name in known else known:
                self.commands.update(_load_commands(name))
            if cmd_name in MISSING_COMMANDS and cmd_name not in known:
                raise UsageError(f"`tenfold {cmd_name}` is not installed: {MISSING_COMMANDS[cmd_name]}")
        return super().get_command(ctx, cmd_name)


def _load_plugins() -> ModuleType:
    """Imports what finds installed packages, which `tenfold --version` does not need."""
    return importlib.import_module("tenfold.config.plugins")


@cache
def _load_commands(name: str) -> dict[str, Any]:
    """Imports the module that defines a command, its own or an installed package's. Returns its commands by name."""
    part = typer.Typer(context_settings=_CONTEXT)
    if name in COMMANDS:
        command = COMMANDS[name]
        module = importlib.import_module(f"tenfold.apps.cli.{command.module}")
        if command.function == _REGISTER:
            module.register(part)
        else:
            epilog = f"Example: tenfold {name} {command.example}".rstrip()
            context = {"allow_interspersed_args": not command.takes_rest}
            part.command(name, epilog=epilog, context_settings=context)(getattr(module, command.function))
    else:
        register: Any = _load_plugins().load_plugin("commands", name)
        register(part)
    for each in (part, *(group.typer_instance for group in part.registered_groups)):
        for defined in each.registered_commands if each is not None else ():
            # Typer keeps the line ends of a docstring, whatever the width of the terminal.
            defined.help = _LINE_END.sub(" ", inspect.getdoc(defined.callback) or "")
    return dict(get_group(part).commands)


_CONTEXT = {"help_option_names": ["-h", "--help"]}
app = typer.Typer(
    cls=_LazyGroup,
    name="tenfold",
    epilog="Example: tenfold compact session.jsonl --to 10%",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=_CONTEXT,
)

# Releases of typer keep the base class of argument errors in different places, so it is found by its name.
_ArgumentError: type[Exception] = next(
    kind for kind in typer.BadParameter.__mro__ if issubclass(kind, Exception) and kind.__name__ == "ClickException"
)


def _print_version(*, requested: bool) -> None:
    if requested:
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
            "--version",
            callback=lambda value: _print_version(requested=value),
            is_eager=True,
            help="Print the version.",
        ),
    ] = False,
) -> None:
    del version  # its callback has printed it


def main() -> None:
    """Runs the command line and exits with its exit code."""
    relax_stream_errors()
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except OSError as exc:
        if not is_closed_pipe(exc):
            raise
        _ignore_closed_pipe()
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Runs one command line and returns its exit code."""
    try:
        result = _build_command()(arguments, prog_name="tenfold", standalone_mode=False)
        return _finish(result if isinstance(result, int) else ExitCode.OK)
    except (typer.Abort, KeyboardInterrupt):
        return _finish(ExitCode.INTERRUPTED)
    except (UsageError, NotFoundError) as exc:
        return _print_error(str(exc), ExitCode.USAGE)
    except BadInput as exc:
        return _print_error(str(exc), ExitCode.BAD_INPUT)
    except SystemExit as exc:  # typer turns a pipe closed by its reader into an exit
        if COMPLETE_VARIABLE in os.environ:  # fish reads from it whether to offer files
            return exc.code if isinstance(exc.code, int) else ExitCode.OK
        return _ignore_closed_pipe()
    except TenfoldError as exc:
        return _print_error(str(exc), ExitCode.FAILED)
    except OSError as exc:
        if is_closed_pipe(exc):
            return _ignore_closed_pipe()
        return _print_error(_explain_os_error(exc), ExitCode.FAILED)
    except _ArgumentError as exc:
        return _report_misuse(exc, arguments)


@cache
def _build_command() -> Callable[..., object]:
    """Builds the command with all its subcommands, once for each process, since that takes longer than most of them."""
    return get_command(app)


def _finish(code: int) -> int:
    """Returns the code of a command that has ended, and prints a line for an interrupt, which is only a code here."""
    if code == ExitCode.INTERRUPTED:
        return _print_error(f"interrupted; {take_explanation()}", code)
    return code


def _report_misuse(exc: BaseException, arguments: list[str]) -> int:
    """Prints why typer refused the arguments, and returns the exit code.

    The sentence is empty for a command without arguments: typer has printed its help already.
    """
    sentence = exc.format_message() if isinstance(exc, typer.BadParameter) else str(getattr(exc, "message", exc))
    if possible := getattr(exc, "possibilities", None):
        sentence = f"{sentence}. Did you mean {possible[0]}?"
    if sentence:
        said = " ".join(sentence.replace("Value error, ", "").split()).rstrip(".")
        usual = " ".join(["tenfold", *(name for name in arguments[:1] if name in COMMANDS)])
        command = getattr(getattr(exc, "ctx", None), "command_path", usual)
        _print_error(f"{said}{' See' if said.endswith('?') else '; see'} `{command} --help`", ExitCode.USAGE)
    return ExitCode.USAGE


def _explain_os_error(exc: OSError) -> str:
    """Says which file or folder the system refused, and why."""
    if exc.filename is None:
        return exc.strerror or str(exc)
    return f"{os.fsdecode(exc.filename)}: {exc.strerror or exc}; check the path, its permissions and the free space"


def _print_error(text: str, code: int) -> int:
    # The console draws with rich, which `tenfold --version` and a command without an error do not need.
    importlib.import_module("tenfold.apps.cli.console").print_note(f"tenfold: {text}", style="red")
    return code


def _ignore_closed_pipe() -> int:
    """Handles a reader that closed our output (`| head`): that is no failure, and nothing more can be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return ExitCode.OK
