"""`tenfold doctor`: looks at everything that a run depends on, says how it is, and what to do about what is wrong.

It changes nothing, asks no model and reads no value of a key. Each check is a generator of findings: what goes wrong in
it is a finding too, and the checks after it run all the same.
"""

from __future__ import annotations

import json as json_text
import os
import platform
import re
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException
from importlib.util import find_spec
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from tenfold import __version__
from tenfold.apps.cli.console import print_json, render_age, render_count, show_text
from tenfold.apps.cli.gateway_commands import LOG_NAME
from tenfold.apps.cli.process import ExitCode
from tenfold.apps.cli.source_files import find_on_this_machine
from tenfold.apps.cli.store_access import JsonOption, StoreOption, find_folder, parse_models
from tenfold.apps.gateway.gateway_settings import URL_VARIABLE, list_gateways
from tenfold.config.settings import CONFIG_VARIABLE, DEFAULT_CONFIG, ENVIRONMENT_KEYS, Config, load_settings
from tenfold.core.meter.counters import CharacterCounter
from tenfold.core.record.block import Block
from tenfold.core.record.entry import Attempt
from tenfold.core.text.terminal_safe import sanitize, to_one_line
from tenfold.errors import NewerStore, TenfoldError, UsageError
from tenfold.models.choose import AUTO, has_provider
from tenfold.store.base import MEMORY_LOCATION, SessionRow, Store
from tenfold.store.ids import get_current_time, shorten_id
from tenfold.store.location import (
    STORE_VARIABLE,
    describe_location,
    find_jobs_file,
    get_default_location,
    is_database,
    open_store,
)
from tenfold.store.sqlite.connections import connect_read_only, read_file_version
from tenfold.store.sqlite.schema import SCHEMA_VERSION

State = Literal["ok", "note", "wrong"]
_STYLES: dict[State, str] = {"ok": "green", "note": "yellow", "wrong": "bold red"}


class Finding(Struct, frozen=True):
    """What one check found: `what` says how it is, and `todo` what to do about it, "" for nothing.

    A "note" is worth knowing and need not be changed. Something "wrong" keeps Tenfold from doing its work.
    """

    check: str
    state: State
    what: str
    todo: str = ""


class _Patient(Struct, frozen=True):
    """What the checks look at: the settings as far as they can be read, and where the store is."""

    config: Config
    location: str
    now: int

    @property
    def is_file(self) -> bool:
        return self.location != MEMORY_LOCATION and not is_database(self.location)


def examine_machine(*, store: StoreOption = None, json: JsonOption = False) -> int:
    """Checks what Tenfold needs here: settings, store, keys, models, clients, gateways, jobs, and the last failures.

    Each finding says what to do about it. Nothing is changed, no model is asked, and no key is shown. The exit code is
    0 if nothing is wrong, and 1 if something is to be done.
    """
    findings: list[Finding] = []
    config, problem = _read_settings()
    place = store or config.common.store or get_default_location(os.environ)
    patient = _Patient(config, place, get_current_time())
    for name, examine in _CHECKS.items():
        found = [*_catch(name, examine, patient)] if name != "settings" or problem is None else [problem]
        for each in found:
            findings.append(each)
            if json:
                print_json(each)
            else:
                _print_finding(each)
    if not json:
        _print_end(findings)
    return ExitCode.ATTENTION if any(each.state == "wrong" for each in findings) else ExitCode.OK


def _print_finding(found: Finding) -> None:
    lead = f"{found.state:<6}"
    show_text(
        f"{found.check}: {sanitize(found.what)}", lead=lead, style=_STYLES[found.state] if found.state != "ok" else ""
    )
    if found.todo:
        show_text(sanitize(found.todo), lead="   -> ")


def _print_end(findings: list[Finding]) -> None:
    wrong = sum(each.state == "wrong" for each in findings)
    what = f"{wrong} thing{'s are' if wrong > 1 else ' is'} wrong" if wrong else "nothing is wrong"
    show_text(f"\n{what}, {len(findings)} were looked at", style="bold")


def _catch(name: str, examine: Callable[[_Patient], Iterator[Finding]], patient: _Patient) -> Iterator[Finding]:
    """Yields the findings of a check. What ends it early is one of them."""
    try:
        yield from examine(patient)
    except (TenfoldError, OSError) as exc:
        yield Finding(name, "wrong", str(exc))


# -- the checks, in order ----------------------------------------------------------------------------------------------

_EXTRAS = {
    "models": "pydantic_ai",
    "serve": "uvicorn",
    "inspect": "jinja2",
    "chat": "textual",
    "mcp": "mcp",
    "jobs": "dbos",
    "postgres": "psycopg",
    "eval": "tenfold_yardstick",
}
"""The extras that a user may have installed, each with a module of it."""


def _examine_version(_: _Patient) -> Iterator[Finding]:
    system = f"{platform.system()} {platform.machine()}"
    yield Finding("version", "ok", f"tenfold {__version__}, Python {platform.python_version()}, {system}")
    there = [name for name, module in _EXTRAS.items() if find_spec(module) is not None]
    missing = [name for name in _EXTRAS if name not in there]
    without = f"; not installed: {', '.join(missing)}" if missing else ""
    todo = f"pip install 'tenfold[{missing[0]}]' adds one" if missing else ""
    yield Finding("extras", "ok", f"{', '.join(there) or 'none'}{without}", todo)


def _read_settings() -> tuple[Config, Finding | None]:
    """Reads the settings, and where they cannot be used returns those without a file, and says why."""
    try:
        config = load_settings()
        config.build_policy(CharacterCounter())
    except TenfoldError as exc:
        fix = f"correct it, or name another file with {CONFIG_VARIABLE}; every command stops there"
        return DEFAULT_CONFIG, Finding("settings", "wrong", str(exc), fix)
    return config, None


def _examine_settings(patient: _Patient) -> Iterator[Finding]:
    config = patient.config
    names = [f"TENFOLD_{key.upper()}" for key in ENVIRONMENT_KEYS]
    variables = [name for name in (*names, CONFIG_VARIABLE) if name in os.environ]
    file = os.environ.get(CONFIG_VARIABLE) or "tenfold.toml"
    where = str(Path(file).absolute()) if Path(file).is_file() else "no file, so the defaults"
    given = f"; from the environment: {', '.join(variables)}" if variables else ""
    yield Finding("settings", "ok", f"{where}{given}; policy {config.common.policy}")
    if find_spec("uvicorn") is not None and find_spec("starlette") is not None:
        from tenfold.apps.gateway.gateway_settings import load_gateway_settings  # noqa: PLC0415 - an optional extra

        load_gateway_settings(config, {}, environ=os.environ)
    if find_spec("dbos") is not None:
        from tenfold.apps.jobs.job_settings import load_job_settings  # noqa: PLC0415 - an optional extra

        load_job_settings(config)


_LEAST_FREE = 200_000_000
"""Bytes that should be free where the store is: a compaction of its search index needs some."""
_CHECK_SECONDS = 5.0
"""How long the integrity of a file is checked, at most."""
_MANY_LATE = 5_000
"""Entries without an index from which on the next search takes noticeably longer."""


def _examine_store(patient: _Patient) -> Iterator[Finding]:
    location, shown = patient.location, describe_location(patient.location)
    path = Path(location)
    if patient.is_file:
        if not path.exists():
            yield Finding("store", "note", f"{shown} does not exist yet", "`tenfold import FILE` makes it")
            return
        yield from _examine_file(path)
        version = read_file_version(location)
        if version > SCHEMA_VERSION:
            raise NewerStore(
                f"{shown} has schema {version}, this release reads up to {SCHEMA_VERSION}: upgrade tenfold"
            )
        if version < SCHEMA_VERSION:
            what = f"{shown} has schema {version}, and this release makes it {SCHEMA_VERSION} when it is opened"
            yield Finding("store", "note", what, "`tenfold store backup FILE` keeps a copy of it as it is")
            return
    with closing(open_store(location)) as place:
        state = place.check()
    count = render_count(state.sessions, "session")
    what = f"{shown}, {state.database}, schema {state.schema}, {state.size:,} bytes, {count}"
    yield Finding("store", "ok", what)
    if patient.is_file:
        yield _examine_integrity(location)
    many = state.late_entries > _MANY_LATE
    late = f"{state.late_entries:,} of {state.entries:,} entries are not indexed yet"
    late = late if state.late_entries else "every entry is indexed"
    yield Finding("index", "note" if many else "ok", late, "the next search indexes them" if state.late_entries else "")
    for lock in state.locks:
        yield Finding("store", "note", f"locked: {lock}")
    for note in state.notes:
        yield Finding("store", "note", note)


def _examine_file(path: Path) -> Iterator[Finding]:
    """Yields what keeps a file from being written."""
    unwritable = [each for each in (path, path.absolute().parent) if not os.access(each, os.W_OK)]
    if unwritable:
        named = " and ".join(map(str, unwritable))
        yield Finding("store", "wrong", f"{named} cannot be written", "give yourself the right to write there")
    free = shutil.disk_usage(path.absolute().parent).free
    if free < _LEAST_FREE:
        what = f"only {free:,} bytes are free on the disk of {path}"
        yield Finding("store", "wrong", what, "make space; `tenfold retention --keep-under SIZE` deletes old sessions")


def _examine_integrity(location: str) -> Finding:
    """Has SQLite look at the structure of the file, for a few seconds at most."""
    deadline = time.monotonic() + _CHECK_SECONDS
    with connect_read_only(location) as db:
        db.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)
        try:
            first = str(db.execute("PRAGMA quick_check(1)").fetchone()[0])
        except sqlite3.DatabaseError as exc:
            if "interrupted" in str(exc):
                what = f"nothing wrong within {_CHECK_SECONDS:g} seconds, then the check was ended"
                return Finding("integrity", "note", what, "`tenfold verify` checks all of it")
            first = str(exc)
    if first == "ok":
        return Finding(
            "integrity", "ok", "the structure of the file is whole", "`tenfold verify` checks each entry, too"
        )
    return Finding("integrity", "wrong", first, "`tenfold salvage NEW_STORE` saves what is readable")


_OWN_KEYS = ("TENFOLD_GATEWAY_KEY", "TENFOLD_MCP_KEY")


def _examine_keys(_: _Patient) -> Iterator[Finding]:
    names: list[str] = []
    if find_spec("pydantic_ai") is not None:
        from tenfold.apps.agent.factory import PROVIDER_KEYS  # noqa: PLC0415 - an optional extra, and slow to load

        names = [each.variable for each in PROVIDER_KEYS]
    found = [name for name in (*names, *_OWN_KEYS) if os.environ.get(name)]
    empty = [name for name in (*names, *_OWN_KEYS) if os.environ.get(name) == ""]
    yield Finding("keys", "ok", f"in the environment: {', '.join(found) or 'none'}")
    if empty:
        yield Finding("keys", "note", f"set, but empty: {', '.join(empty)}", "set them, or unset them")


def _examine_models(patient: _Patient) -> Iterator[Finding]:
    config = patient.config
    named = list(dict.fromkeys(name for each in ("", *config.presets) for name in config.get_common(each).models))
    if not named:
        todo = 'to have a model write them, set TENFOLD_MODEL=auto, or `model = "auto"` in [tenfold] of your settings'
        yield Finding("models", "ok", "none is configured: code writes the summaries", todo)
    for name in named:
        if name == AUTO:
            yield Finding("models", "ok", "auto: a cheap model of each session's provider writes the summaries")
            continue
        try:
            if has_provider(name):
                parse_models([name])
            yield Finding("models", "ok", f"{name} can be asked; it was not")
        except UsageError as exc:
            yield Finding("models", "wrong", str(exc), f"until then code writes the summaries in place of {name}")


_INSTALLED_BY = {"claude-code": "claude", "codex": "codex", "opencode": "opencode", "pi": "pi"}
"""The clients that `tenfold install` sets up, each with its program."""
_OTHER_PROGRAMS = {"gemini-cli": "gemini", "cline": "cline", "qwen-code": "qwen", "kimi-code": "kimi"}
_PROGRAM = re.compile(r"\"((?:/|[A-Za-z]:)[^\"\n]*?python[^\"\n/\\]*)\"")
"""The Python that an installation has written down."""


def _examine_clients(_: _Patient) -> Iterator[Finding]:
    problems: list[str] = []
    sessions = [each.client for each in find_on_this_machine(problems.append)]
    for client, program in (_INSTALLED_BY | _OTHER_PROGRAMS).items():
        where, count = shutil.which(program), sessions.count(client)
        if where is None and not count:
            continue
        what = f"{client}: {where or 'its program is not found'}, {render_count(count, 'session')}"
        if client in _INSTALLED_BY:
            yield from _examine_setup(client, what)
        else:
            yield Finding("clients", "ok", what, f"`tenfold wrap {program}` keeps it within its window")
    if not any(map(shutil.which, (_INSTALLED_BY | _OTHER_PROGRAMS).values())) and not sessions:
        yield Finding("clients", "ok", "none of those that Tenfold knows is on this machine")
    for problem in problems:
        yield Finding("clients", "note", problem)


def _examine_setup(client: str, what: str) -> Iterator[Finding]:
    """Says whether a client is set up, and whether what was written there still works."""
    if find_spec("tomlkit") is None:
        yield Finding("clients", "ok", what, f"pip install 'tenfold[mcp]', then `tenfold install {client}` sets it up")
        return
    from tenfold.apps.installer import client_setups, planned_changes  # noqa: PLC0415 - an optional extra

    target = replace(client_setups.find_home(), store=os.environ.get(STORE_VARIABLE, ""))  # as `tenfold install` has it
    setup = client_setups.build_setup(client, target)
    removal = planned_changes.plan_removal(setup)
    if not removal:
        yield Finding("clients", "ok", f"{what}, not set up", f"`tenfold install {client}` sets it up")
        return
    programs = {name for change in removal for name in _PROGRAM.findall(change.before or "")}
    gone = sorted(name for name in programs if not Path(name).exists())
    if gone:
        again = f"`tenfold install {client}` writes where it is now"
        yield Finding("clients", "wrong", f"{what}, set up with a Python that is gone: {', '.join(gone)}", again)
    elif planned_changes.plan_install(setup):
        todo = f"`tenfold install {client} --dry-run` shows the difference, which may be your own options"
        yield Finding("clients", "note", f"{what}, set up otherwise than this release would", todo)
    else:
        yield Finding("clients", "ok", f"{what}, set up")


def _examine_gateways(patient: _Patient) -> Iterator[Finding]:
    for url in list_gateways(patient.config, os.environ):
        yield _examine_gateway(url, is_named=url == os.environ.get(URL_VARIABLE, "").rstrip("/"))


def _examine_gateway(url: str, *, is_named: bool) -> Finding:
    """Asks a gateway for its health. A process that listens elsewhere is not known to anybody, and not looked for."""
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "127.0.0.1", parts.port or 80, timeout=2)
    try:
        connection.request("GET", f"{parts.path}/healthz")
        health = json_text.loads(connection.getresponse().read(10_000))
        version = str(health["version"])
    except ConnectionRefusedError:
        state: State = "wrong" if is_named else "ok"
        todo = "`tenfold serve` starts one" + (f", or unset {URL_VARIABLE}" if is_named else "")
        return Finding("gateway", state, f"none runs at {url}", todo)
    except (OSError, HTTPException, ValueError, KeyError, TypeError) as exc:
        what = f"what answers at {url} is no gateway of Tenfold ({to_one_line(str(exc), 80) or type(exc).__name__})"
        return Finding("gateway", "wrong" if is_named else "note", what, "`tenfold serve --port` takes another port")
    finally:
        connection.close()
    if version != __version__:
        what = f"the one at {url} is version {to_one_line(version, 20)}, this is {__version__}"
        return Finding("gateway", "wrong", what, "stop it and start `tenfold serve` again")
    return Finding("gateway", "ok", f"one runs at {url}")


def _examine_jobs(patient: _Patient) -> Iterator[Finding]:
    location = patient.location
    if location == MEMORY_LOCATION:
        return
    if find_spec("dbos") is None:
        if patient.is_file and find_jobs_file(location).exists():
            what = f"{find_jobs_file(location)} holds jobs, and they cannot be read"
            yield Finding("jobs", "wrong", what, "pip install 'tenfold[jobs]'")
        return
    from tenfold.apps.jobs.database import has_jobs  # noqa: PLC0415 - an optional extra, and slow to load
    from tenfold.apps.jobs.queue import JobQueue  # noqa: PLC0415 - the same

    if not has_jobs(location):
        yield Finding("jobs", "ok", "none")
        return
    with JobQueue(location) as queue:
        counts = queue.count_states()
    said = ", ".join(f"{count:,} {state}" for state, count in counts.items() if count) or "none"
    failed = counts.get("failed", 0) + counts.get("given-up", 0)
    if failed:
        todo = "`tenfold jobs list --state failed --state given-up` says why, `tenfold jobs retry JOB` does one again"
        yield Finding("jobs", "wrong", said, todo)
    else:
        yield Finding("jobs", "ok", said, "`tenfold worker` does those that wait" if counts.get("waiting") else "")


# -- the last failures -------------------------------------------------------------------------------------------------

_RECENT_SECONDS = 7 * 86_400
"""How old a failure is that still counts."""
_SESSIONS_READ, _ENTRIES_READ = 20, 100
"""How many sessions are looked at, the newest ones, and how many entries at the end of each."""
_LOG_BYTES = 200_000
_LOG_LINE = re.compile(r"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\S* (?P<level>WARNING|ERROR|CRITICAL) (?P<text>.*)")


def _examine_failures(patient: _Patient) -> Iterator[Finding]:
    count = 0
    if not patient.is_file or (
        Path(patient.location).exists() and read_file_version(patient.location) == SCHEMA_VERSION
    ):
        namespace = patient.config.common.namespace
        with closing(open_store(patient.location)) as place:
            for row in place.list_sessions(namespace)[:_SESSIONS_READ]:
                attempt = _find_failed_attempt(place, namespace, row)
                if attempt is not None and patient.now - attempt.time < _RECENT_SECONDS * 1_000_000:
                    count += 1
                    yield _describe_attempt(row, attempt, patient.now)
    for found in _examine_log(patient):
        count += 1
        yield found
    if not count:
        yield Finding("failures", "ok", "none in the last seven days")


def _find_failed_attempt(place: Store, namespace: str, row: SessionRow) -> Attempt | None:
    """Finds a compaction of the session that failed, if none went well after it."""
    for head, leaf in row.heads.items():
        length = place.open(namespace, row.info.id, head).length
        tail = place.read_range(namespace, row.info.id, leaf, max(0, length - _ENTRIES_READ), length - 1)
        last = next((entry for entry in reversed(tail) if isinstance(entry, Attempt | Block)), None)
        if isinstance(last, Attempt) and last.status in ("failed", "unsatisfiable"):
            return last
    return None


def _describe_attempt(row: SessionRow, attempt: Attempt, now: int) -> Finding:
    age, id_ = render_age(now - attempt.time), shorten_id(row.info.id)
    what = f"session {row.info.id}, {age} ago: the compaction was {attempt.status}: {to_one_line(attempt.reason, 300)}"
    if attempt.status == "failed":
        todo = f"see to its model and key, or run `tenfold compact` with another --model; `tenfold show {id_}` shows it"
    else:
        todo = f"give it a larger window, or undo pins: `tenfold show {id_} --brief` shows what takes the space"
    return Finding("failures", "wrong", what, todo)


def _examine_log(patient: _Patient) -> Iterator[Finding]:
    """Yields what `tenfold wrap` has logged as a warning or worse: how often, and the newest."""
    log = find_folder(patient.location) / LOG_NAME
    if not log.is_file():
        return
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _LOG_BYTES))
        lines = file.read().decode("utf-8", "replace").splitlines()
    recent = []
    for match in filter(None, map(_LOG_LINE.match, lines)):
        with suppress(ValueError):
            when = time.mktime(time.strptime(match["time"], "%Y-%m-%d %H:%M:%S"))
            if patient.now / 1e6 - when < _RECENT_SECONDS:
                recent.append((when, match["text"]))
    if recent:
        when, text = recent[-1]
        age = render_age(patient.now - int(when * 1e6))
        yield Finding(
            "failures",
            "note",
            f"{len(recent):,} warnings of `tenfold wrap`, the last {age} ago: {to_one_line(text, 300)}",
            f"read {log}",
        )


_CHECKS: dict[str, Callable[[_Patient], Iterator[Finding]]] = {
    "version": _examine_version,
    "settings": _examine_settings,
    "store": _examine_store,
    "keys": _examine_keys,
    "models": _examine_models,
    "clients": _examine_clients,
    "gateway": _examine_gateways,
    "jobs": _examine_jobs,
    "failures": _examine_failures,
}
"""The checks by their names, in order."""
