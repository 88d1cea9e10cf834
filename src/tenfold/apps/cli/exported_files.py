"""The files that sessions are exported to: written, recorded, and named and deleted by a purge."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct

from tenfold.apps.cli.console import print_note
from tenfold.core.record.entry import Entry
from tenfold.formats.output_file import write_output
from tenfold.store.base import Store
from tenfold.store.search.entry_text import get_searchable_text

_SHORTEST_QUOTE = 12
"""Length of the shortest line by which a file is taken to quote an entry."""


class ExportedFile(Struct, frozen=True):
    """A file that a session was written to. `is_unchanged` says that it still holds just what was written."""

    path: Path
    is_unchanged: bool


def record_export(store: Store, namespace: str, sessions: Iterable[str], path: Path, data: bytes) -> None:
    """Records that these sessions were written to the file."""
    for session in sessions:
        store.record_export(namespace, session, str(path.absolute()), hashlib.sha256(data).digest())


def find_exports(store: Store, namespace: str, session: str, entry: Entry | None) -> list[ExportedFile]:
    """Finds the existing files that a session was written to; with an entry, those that quote it."""
    found: list[ExportedFile] = []
    for name, digest in store.list_exports(namespace, session).items():
        path = Path(name)
        if not path.is_file():
            continue
        data = path.read_bytes()
        if entry is None or _has_quote(data.decode(errors="replace"), entry):
            found.append(ExportedFile(path, hashlib.sha256(data).digest() == digest))
    return found


def _has_quote(text: str, entry: Entry) -> bool:
    """Whether a file has a line of the entry, as it is or as JSON or a page writes it. Short entries count if whole."""
    said = get_searchable_text(entry).strip()
    lines = [line.strip() for line in said.splitlines() if len(line.strip()) >= _SHORTEST_QUOTE] or [said]
    as_json = (json.dumps(line, ensure_ascii=ascii_only)[1:-1] for line in lines for ascii_only in (True, False))
    as_html = (escape(line, quote=False).replace('"', "&#34;").replace("'", "&#39;") for line in lines)
    return any(form and form in text for form in (*lines, *as_json, *as_html))


ForceOption = Annotated[bool, typer.Option("--force", help="Replace the file if there is one.")]


def write_file(path: Path, data: bytes, *, force: bool, option: str = "--out") -> None:
    """Writes a file that the user named, and prints a note. See `write_output`."""
    write_output(path, data, force=force, option=option)
    print_note(f"written: {path} ({len(data):,} bytes)")
