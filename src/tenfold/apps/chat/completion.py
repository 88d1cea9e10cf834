"""Completes what is typed: commands, the sessions and themes that some of them take, and files after an @."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from tenfold.apps.chat.slash_commands import COMMANDS
from tenfold.core.text.hidden import is_hidden
from tenfold.core.text.terminal_safe import to_one_line
from tenfold.store.base import Store
from tenfold.store.ids import shorten_id
from tenfold.store.lookup import find_title

MAX_COMPLETIONS = 50
"""Completions that are offered; more characters leave fewer."""
_MAX_NAMES = 5_000
"""Names of one folder that are looked at."""
_COMMAND = re.compile(r"/([\w-]*)")
_ARGUMENT = re.compile(r"/(\w+)\s+(\S*)")
_FILE = re.compile(r"(?:^|\s)@(\S*)$")


class Completion(NamedTuple):
    """Puts `text` in place of all that is typed from `start` on. `about` says what it is."""

    start: int
    text: str
    about: str = ""


class CompletionSource(Struct, frozen=True):
    """Where the completions come from. `list_sessions` gives ids and what the sessions are about, newest first."""

    root: Path
    list_sessions: Callable[[], Sequence[tuple[str, str]]]
    themes: Sequence[str] = ()


def find_completions(typed: str, source: CompletionSource) -> list[Completion]:
    """Finds what the end of the text may be completed to, best first. It reads folders, so call it in a thread."""
    found: Iterable[Completion] = ()
    if matched := _COMMAND.fullmatch(typed):
        found = _complete_command(matched[1].lower())
    elif (matched := _ARGUMENT.fullmatch(typed)) and matched[1].lower() in ("resume", "theme"):
        values = source.list_sessions() if matched[1].lower() == "resume" else [(name, "") for name in source.themes]
        found = _complete_value(matched[2].lower(), matched.start(2), values)
    elif matched := _FILE.search(typed):
        found = _complete_file(matched[1], matched.start(1) - 1, source.root)
    return [each for each, _ in zip(found, range(MAX_COMPLETIONS), strict=False) if each.text != typed[each.start :]]


def _complete_command(beginning: str) -> Iterable[Completion]:
    for command in COMMANDS:
        if command.name.startswith(beginning):
            yield Completion(0, f"/{command.name}{' ' if command.argument else ''}", command.description)


def _complete_value(typed: str, start: int, values: Sequence[tuple[str, str]]) -> Iterable[Completion]:
    for value, about in values:
        if value.lower().startswith(typed) or typed in about.lower():
            yield Completion(start, value, about)


def _complete_file(typed: str, start: int, root: Path) -> Iterable[Completion]:
    """Completes a path, folder by folder. The path itself stays in the text, without the @."""
    folder, slash, beginning = typed.rpartition("/")
    base = os.path.realpath(root / folder)
    if typed.startswith("/") or not Path(base).is_relative_to(os.path.realpath(root)):
        return
    try:
        with os.scandir(base) as entries:
            names = [(entry.name, entry.is_dir()) for entry, _ in zip(entries, range(_MAX_NAMES), strict=False)]
    except OSError:
        return
    for name, is_folder in sorted(names, key=lambda each: (not each[1], each[0])):
        is_meant = name.lower().startswith(beginning.lower()) and (not name.startswith(".") or beginning[:1] == ".")
        if is_meant and not any(is_hidden(char) or char == " " for char in name):
            path = f"{folder}{slash}{name}"
            yield Completion(start, f"@{path}/" if is_folder else f"{path} ")


def list_recent_sessions(store: Store, namespace: str, limit: int = MAX_COMPLETIONS) -> list[tuple[str, str]]:
    """Lists the newest sessions that hold anything: a short id, and the title or the first words of the user."""
    rows = [row for row in store.list_sessions(namespace) if row.entry_count][:limit]
    return [(shorten_id(row.info.id), to_one_line(find_title(store, row, namespace=namespace), 60)) for row in rows]
