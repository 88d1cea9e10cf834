"""What the documentation shows of the command, taken from the command: `python -m tests.docs.commands --write`.

It writes `docs/commands.md`, and into the README what its first shell example prints.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import typer

from tenfold.apps.cli.main import app
from tests.shape.scan import ROOT

Described = Any
"""A command, an argument or an option as typer describes it: it publishes no types for these."""
PAGE = ROOT / "docs" / "commands.md"
README = ROOT / "README.md"
_INTRODUCTION = """# The command `tenfold`

This page is generated from the command: `python -m tests.docs.commands --write`. A test fails when the two differ.

Results go to standard output, notes and errors to standard error. In a terminal you get tables and colours (`NO_COLOR`
turns them off), and what `show`, `diff`, `search`, `expand`, `rules`, `sessions` or `find` prints beyond one screen
goes through the pager that `PAGER` names (`PAGER=cat` for none). In a pipe the rows of a table are tab-separated lines.
With `--json`, each session, hit or event is one JSON object on a line of its own, with [fields that stay](json.md);
`eval` prints all scores as one object.

Session text is printed without control characters, and secrets are redacted. Only `export` and `expand --json` print it
exactly.

Exit codes: 0 the command succeeded, also if there was nothing to compact; 1 `doctor` found something to do; 2 an
argument is wrong; 3 a file cannot be read; 4 the store or the work failed; 130 you interrupted it (everything stored
before is kept).

Sessions are kept in a store: the file or the [database](store.md#in-postgresql) that `--store` names, else the one that
the environment variable `TENFOLD_STORE` or the setting `store` names, else `tenfold.db` in your data folder. Its path
is printed when it is created. `:memory:` keeps nothing. A store can hold the sessions of several tenants:
`--namespace`, `TENFOLD_NAMESPACE` or the setting `namespace` names the one that a command works on.

A shortened message says how to get the original back only if you ask for it: `compact --recall cli` writes the command
that prints it.
"""


def build_readme() -> str:
    """The README with what the first line of its first shell example prints here, ids as they came."""
    text = README.read_text("utf-8")
    command = shlex.split(text.split("```shell\n", 1)[1].splitlines()[0], comments=True)
    with TemporaryDirectory() as folder:
        env = os.environ | {"TENFOLD_STORE": str(Path(folder) / "store.db")}
        program = [sys.executable, "-m", *command]
        ran = subprocess.run(program, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    before, rest = text.split("```text\n", 1)
    return f"{before}```text\n{ran.stdout}```{rest.split('```', 1)[1]}"


def build_page() -> str:
    """The page as it should be."""
    return "\n".join([_INTRODUCTION, *_build_sections(typer.main.get_command(app), "tenfold")])


def _build_sections(group: Described, name: str) -> Iterator[str]:
    """A section for each command, those of a group of commands included."""
    context = group.context_class(group, info_name=name)
    for each in group.list_commands(context):
        command: Described = group.get_command(context, each)
        if hasattr(command, "list_commands"):
            yield from _build_sections(command, f"{name} {each}")
        else:
            yield _build_section(command, f"{name} {each}")


def _build_section(command: Described, name: str) -> str:
    lines = [f"## {name}", "", " ".join(str(command.help).split()), ""]
    example = str(command.epilog).removeprefix("Example: ")
    usage = " ".join([name, *(_format_metavar(p) for p in command.params if p.param_type_name == "argument")])
    lines += [f"    {usage} [OPTIONS]", f"    {example}", "", "| | |", "|---|---|"]
    for parameter in command.params:
        if parameter.name == "help":
            continue
        names = " ".join(f"`{n}`" for n in (*parameter.opts, *parameter.secondary_opts))
        if parameter.param_type_name == "argument":
            names = f"`{_format_metavar(parameter)}`"
        default = _format_default(parameter)
        lines.append(f"| {names} | {_escape_cell(str(parameter.help or ''))}{default} |")
    return "\n".join(lines) + "\n"


def _format_metavar(parameter: Described) -> str:
    return str(parameter.metavar or parameter.name.upper())


def _format_default(parameter: Described) -> str:
    if parameter.default in (None, False, True, (), "") or parameter.required or callable(parameter.default):
        return ""
    return f" Default: `{parameter.default}`."


def _escape_cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python -m tests.docs.commands --write")
    PAGE.write_text(build_page(), "utf-8")
    README.write_text(build_readme(), "utf-8")
