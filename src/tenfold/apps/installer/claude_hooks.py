"""Answers Claude Code's hooks: before a compaction the transcript is stored, after it what must survive is added.

Where Claude Code has the function hook `session.compact`, Tenfold compacts in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from tenfold.apps.installer.claude_rows import Row, compact_rows
from tenfold.config.settings import Config, load_settings
from tenfold.core.meter.counters import choose_counter
from tenfold.core.record.entry import get_message
from tenfold.errors import BadInput
from tenfold.formats import ParsedSession, read_file
from tenfold.formats.importer import import_sessions
from tenfold.session import Session, SessionAddress
from tenfold.store.base import DEFAULT_NAMESPACE, SessionRow, Store

SECTION_BUDGET = 2_000
"""The most tokens that are added after a compaction."""
PRE_COMPACT, SESSION_START, COMPACT = "PreCompact", "SessionStart", "session.compact"


def answer_hook(
    data: bytes, store: Store, *, namespace: str = DEFAULT_NAMESPACE, config: Config | None = None
) -> dict[str, Any]:
    """Answers one event, given as the JSON that a hook gets on standard input. Returns the JSON for its output.

        answer_hook(b'{"hook_event_name": "PreCompact", "transcript_path": "/.../session.jsonl", ...}', store)

    `PreCompact` and `SessionStart` with the source "compact" bring the transcript into the store. The latter also gets
    the rules, the current request, the plan, the changed files and the open errors as additional context, at most
    `SECTION_BUDGET` tokens. `session.compact` does so as well, and is answered with what is to stand in place of its
    `rows`: see `RowsAnswer`. All other events are answered with nothing. Raises `BadInput` for an event that is none,
    and what reading and storing raise.
    """
    try:
        event = msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.DecodeError as exc:
        raise BadInput(f"a hook gets its event as a JSON object on standard input: {exc}") from exc
    name = event.get("hook_event_name")
    if name not in (PRE_COMPACT, SESSION_START, COMPACT) or (
        name == SESSION_START and event.get("source") != "compact"
    ):
        return {}
    path = event.get("transcript_path")
    if not isinstance(path, str) or not path:
        raise BadInput(f"the event {name} names no transcript_path")
    rows = _read_rows(event) if name == COMPACT else ()
    recorded = _read_transcript(Path(path))
    problems = [problem for each in recorded for problem in each.problems]
    answer: dict[str, Any] = {"suppressOutput": True}
    if problems:
        answer["systemMessage"] = f"tenfold: {len(problems)} lines of {path} are not stored; the first: {problems[0]}"
    row = _import_sessions(recorded, str(event.get("session_id", "")), store, namespace)
    if name == COMPACT:
        built: dict[str, Any] = msgspec.to_builtins(compact_rows(rows, config or load_settings()))
        return built
    text = _render_context(row, store, namespace, config or load_settings()) if name == SESSION_START else ""
    if text:
        answer["hookSpecificOutput"] = {"hookEventName": SESSION_START, "additionalContext": text}
    return answer


def _read_rows(event: dict[str, Any]) -> list[Row]:
    try:
        return msgspec.convert(event.get("rows"), list[Row])
    except msgspec.ValidationError as exc:
        raise BadInput(f"the event {COMPACT} needs the rows of the conversation: {exc}") from exc


def _read_transcript(path: Path) -> list[ParsedSession]:
    """Reads the transcript, damaged lines aside. Raises `BadInput` if no message can be read."""
    recorded = read_file(path.expanduser(), format="claude-code", skip_damaged=True)
    if not any(get_message(entry) is not None for each in recorded for entry in each.entries):
        raise BadInput(f"{path}: no message can be read in it, so nothing was stored")
    return recorded


def _import_sessions(recorded: Sequence[ParsedSession], source_id: str, store: Store, namespace: str) -> SessionRow:
    model = next((each.info.model for each in recorded if each.info.model), "")
    ids = import_sessions(recorded, store, namespace, choose_counter(model or None).counter)
    rows = {row.info.id: row for row in store.list_sessions(namespace)}
    found = [rows[id_] for id_ in ids]
    return next((row for row in found if row.info.source_id == source_id), found[0])


def _render_context(row: SessionRow, store: Store, namespace: str, config: Config) -> str:
    policy = config.build_policy(choose_counter(row.info.model or None).counter)
    session = Session(SessionAddress(store, row.info.id, namespace), policy, model=row.info.model)
    section = session.conversation.render_must_keep(SECTION_BUDGET)
    if not section:
        return ""
    return (
        "Found by code in the whole conversation, also in what was just compacted. Where the summary differs, this "
        f"holds.\n\n{section}\n\nEvery earlier message is stored: search it with the tool search of the MCP server "
        f'tenfold, session "{row.info.id}".'
    )
