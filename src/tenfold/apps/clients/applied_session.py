"""Puts a compacted view into the client's own session, with a backup, and takes it out again.

Before anything is written, what stands there is kept in a folder beside the store, with a record of what was written.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tenfold.apps.clients.added_views import ADDERS
from tenfold.apps.clients.found_sessions import FoundSession
from tenfold.apps.clients.loaded_messages import list_words, load_messages
from tenfold.apps.clients.opencode_sessions import read_opencode_files, read_opencode_session, write_opencode_session
from tenfold.apps.clients.view_copy import ViewCopy
from tenfold.core.meter.counters import Counter, measure_messages
from tenfold.errors import BadInput, NotFoundError, UsageError
from tenfold.formats.output_file import write_output
from tenfold.formats.session_files import read_regular_file


class AppliedView(Struct, frozen=True):
    """A record of what was written into a client's session: digests are the SHA-256 of the whole session.

    `tokens` is the size of what the client sends when it resumes the session, as it was read back.
    """

    client: str
    id: str
    path: str
    block: str
    digest_before: str
    digest_after: str
    backup: str
    time: int
    tokens: int = 0


def read_found_session(found: FoundSession) -> bytes:
    """Reads a client's session whole: the file, or for opencode the document that its own export prints."""
    if found.client != "opencode":
        return read_regular_file(found.path)
    is_file = found.path.suffix == ".json"
    return read_opencode_files(found.path) if is_file else read_opencode_session(found.path, found.id)


def apply_view(found: FoundSession, data: bytes, copy: ViewCopy, backups: Path, counter: Counter) -> AppliedView:
    """Writes a view into a client's session and returns the record of it. `data` is the session as it was read.

    What was written is read back as the client will load it. Raises `UsageError` if that is not the view, if the
    session has changed since, or if it is only read, and `OSError` if it cannot be written; it is unchanged then.
    """
    if found.refusal:
        raise UsageError(found.refusal)
    try:
        added = ADDERS[found.client](data, copy)
    except BadInput as exc:
        raise UsageError(f"{found.path}: {exc}. Nothing was applied") from exc
    if read_found_session(found) != data:
        raise UsageError(f"{found.path} changed while it was read: quit {found.client} and run the command again")
    folder = backups / found.client / found.id
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    number = len(_list_records(folder)) + 1
    backup = folder / f"{number:04}.backup"
    write_output(backup, data, force=True)
    _replace_session(found, data, added)
    written = read_found_session(found)
    try:
        _check_written(found.client, written, added)
        tokens = _check_loaded(found.client, written, copy, counter)
    except BadInput as exc:
        _replace_session(found, written, take_out(written, data, added))
        raise UsageError(
            f"{exc}. Nothing was applied: {found.path} is as it was. `tenfold export` writes a file"
        ) from exc
    digests = _compute_digest(data), _compute_digest(written)
    record = AppliedView(found.client, found.id, str(found.path), copy.mark, *digests, str(backup), copy.time, tokens)
    write_output(folder / f"{number:04}.json", msgspec.json.encode(record), force=True)
    return record


def take_out(written: bytes, old: bytes, new: bytes) -> bytes:
    """Returns a session without what turned it from `old` to `new`, and with what the client wrote meanwhile."""
    added = new.removeprefix(old)
    return written.replace(added, b"", 1) if new.startswith(old) and added in written else old


def _check_written(client: str, written: bytes, added: bytes) -> None:
    if client != "opencode" and written != added:  # a transaction of its database takes no other change in between
        raise BadInput(f"{client} wrote to the session at the same time: quit it and run the command again")


def has_view_applied(client: str, data: bytes, copy: ViewCopy) -> bool:
    """Returns whether the client sends this view already when it resumes the session."""
    try:
        loaded = load_messages(client, data)
    except BadInput:
        return False
    return list_words(client, loaded) == list_words(client, copy.list_messages())


def _check_loaded(client: str, written: bytes, copy: ViewCopy, counter: Counter) -> int:
    """Counts what the client will send of a session. Raises `BadInput` if that is not the view that was written."""
    loaded, promised = load_messages(client, written), copy.list_messages()
    tokens = sum(measure_messages(loaded, counter))
    sent, wanted = list_words(client, loaded), list_words(client, promised)
    if sent == wanted:
        return tokens
    place = next((n for n, (a, b) in enumerate(zip(sent, wanted, strict=False)) if a != b), min(len(sent), len(wanted)))
    raise BadInput(
        f"{client} would send {tokens:,} tokens in {len(loaded):,} messages when it resumes the session, and the view "
        f"has {copy.tokens:,} in {len(promised):,}; they differ from part {place + 1} of {len(wanted):,} on"
    )


def find_applied(found: FoundSession, backups: Path) -> AppliedView:
    """Finds the newest record of a view in a client's session. Raises `NotFoundError` if there is none."""
    records = _list_records(backups / found.client / found.id)
    if not records:
        raise NotFoundError(f"no compaction was applied to the {found.client} session {found.id}: nothing to undo")
    return msgspec.json.decode(records[-1].read_bytes(), type=AppliedView)


def undo_applied(found: FoundSession, backups: Path, *, force: bool) -> AppliedView:
    """Takes the newest view out of a client's session again: the session is what it was before, byte for byte.

    Raises `UsageError` if the client has gone on since, unless `force`; what it wrote is then kept in a backup.
    """
    record = find_applied(found, backups)
    found = replace(found, path=Path(record.path))  # a client may have gone on in another file
    data, before = read_found_session(found), Path(record.backup).read_bytes()
    if _compute_digest(before) != record.digest_before:
        raise UsageError(
            f"{record.backup} is not what was written there, so it is not put back; the session is as it was"
        )
    if _compute_digest(data) != record.digest_after:
        if not force:
            raise UsageError(
                f"{found.client} has gone on in {found.path} since ({len(data):,} bytes now): undo would drop that. "
                f"Pass --force to do it and keep the present session beside {record.backup}"
            )
        write_output(Path(record.backup).with_suffix(".dropped"), data, force=True)
    _replace_session(found, data, before)
    Path(record.backup).with_suffix(".json").unlink()
    return record


def _list_records(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.json")) if folder.is_dir() else []


def _compute_digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _replace_session(found: FoundSession, old: bytes, new: bytes) -> None:
    """Turns the client's session from `old` to `new`.

    Where one is the beginning of the other, the file itself grows or is cut, so that a client which has it open goes on
    writing to it.
    """
    if found.client == "opencode":
        write_opencode_session(found.path, found.id, old, new)
    elif new.startswith(old):
        _append(found.path, old, new[len(old) :])
    elif old.startswith(new):
        os.truncate(found.path, len(new))
    else:
        write_output(found.path, new, force=True)


def _append(path: Path, old: bytes, added: bytes) -> None:
    try:
        with path.open("ab") as file:
            file.write(added)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        os.truncate(path, len(old))
        raise
