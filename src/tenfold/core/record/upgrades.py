"""Converts the bodies of records that earlier schema versions wrote to those of the next version."""

from __future__ import annotations

import re
from typing import Any, cast

import msgspec
from msgspec import Struct

from tenfold.core.record.fact import (
    BlankFact,
    Change,
    ChangedFile,
    Claim,
    CommandRun,
    Correction,
    Failure,
    FileRead,
    Remark,
    Request,
    Rule,
    RuleEffect,
    RuleEnd,
    StoredFact,
    TodoList,
)

_BLOCK_TAG = b"\xa4type\xa5block"
_NUMBER = re.compile(r"message (\d{1,9}) ")
_EFFECTS: dict[str, RuleEffect] = {
    "permits": "permits", "revokes": "revokes", "replaces": "replaces", "states": "states", "quoted": "quotes",
}  # fmt: skip
_ENDS: dict[str, RuleEnd] = {"revoked": "revoked", "superseded": "superseded", "dropped": "dropped"}


class _Schema1Fact(Struct, frozen=True, rename={"position": "at"}):
    """A fact as schema 1 has it: one type for all kinds. What `note` says depends on the kind."""

    kind: str
    text: str
    key: str
    position: int
    live: bool = True
    note: str = ""
    line: int = 0
    content: str = ""


def convert_facts(body: bytes) -> bytes:
    """Converts a body of schema 1 to schema 2, where each kind of fact has a type of its own.

    Raises a `MsgspecError` or `UnicodeDecodeError` if the body is no Block of schema 1.
    """
    if _BLOCK_TAG not in body[:16]:
        return body
    block = msgspec.msgpack.decode(body, type=dict[str, Any])
    facts = msgspec.convert(block.get("facts", ()), tuple[_Schema1Fact, ...])
    return msgspec.msgpack.encode({**block, "facts": [_convert_fact(fact) for fact in facts]})


def _convert_fact(old: _Schema1Fact) -> StoredFact:
    """Converts one fact. One that a purge has blanked, or of a kind that is no more, keeps its place."""
    if not old.text:
        return BlankFact("", old.position)
    common = (old.text, old.position, old.live, old.line)
    match old.kind:
        case "request":
            found = _NUMBER.match(old.key)
            return Request(*common, int(found[1]) if found else -1, old.note == "ack")
        case "rule":
            return Rule(*common, _EFFECTS.get(old.note, "gives"), _ENDS.get(old.note, ""))
        case "correction":
            return Correction(*common)
        case "remark":
            return Remark(*common)
        case "claimed":
            return Claim(*common, old.note)
        case "file_read":
            return FileRead(*common)
        case "command":
            outcome = old.note if old.note.startswith("ok") else old.note.partition(": ")[0]
            return CommandRun(*common, old.key, outcome)
        case "error":
            return Failure(*common, old.note)
        case "todo":
            return TodoList(*common, old.key)
        case "file_modified" | "file_created" | "file_deleted" | "file_renamed":
            return _convert_change(old)
        case _:
            return BlankFact("", old.position)


def _convert_change(old: _Schema1Fact) -> ChangedFile:
    is_renamed = old.kind == "file_renamed"
    return ChangedFile(
        old.key,
        old.position,
        old.live,
        old.line,
        cast("Change", old.kind.removeprefix("file_")),
        old.text.rpartition(" -> ")[0] if is_renamed else "",
        old.content,
        old.note == "changed",
        old.note == "not confirmed",
    )
