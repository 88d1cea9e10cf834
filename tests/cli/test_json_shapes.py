"""What `--json` prints has the fields that docs/json.md lists, each of the type that it says, and no others."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli, write_messages
from tests.shape.scan import ROOT

PAGE = ROOT / "docs" / "json.md"
TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "object": (dict,),
    "array of strings": (list,),
    "array of objects": (list,),
}
_ROW = re.compile(r"\| `(?P<field>[^`]+)` \| (?P<types>[a-z ]+?) \| ")


def read_page() -> dict[str, dict[str, tuple[type, ...]]]:
    """The types of each field, by command."""
    sections = re.split(r"^## tenfold ", PAGE.read_text("utf-8"), flags=re.MULTILINE)[1:]
    return {
        section.split("\n", 1)[0]: {
            row["field"]: tuple(kind for name in row["types"].split(" or ") for kind in TYPES[name])
            for row in _ROW.finditer(section)
        }
        for section in sections
    }


def list_fields(record: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Each field with its value, those of the objects in lists included."""
    for name, value in record.items():
        yield f"{before}{name}", value
        for each in value if isinstance(value, list) else ():
            if isinstance(each, dict):
                yield from list_fields(each, f"{before}{name}[].")


def check(records: list[dict[str, Any]], fields: dict[str, tuple[type, ...]]) -> None:
    """Fails unless these objects together have exactly those fields, and each has all that stand at its top."""
    assert records
    found: dict[str, list[Any]] = {}
    for record in records:
        assert set(record) == {name for name in fields if "[]" not in name}
        for name, value in list_fields(record):
            found.setdefault(name, []).append(value)
    assert set(found) == set(fields)
    for name, values in found.items():
        wrong = {type(value).__name__ for value in values if type(value) not in fields[name]}
        assert not wrong, f"{name} is {wrong}"


@pytest.fixture
def records(tenfold: Cli, pi: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[dict[str, Any]]]:
    """What each command printed of a session with a compaction, and of a client's session."""
    monkeypatch.setenv("HOME", str(tmp_path))
    place = tmp_path / ".pi" / "agent" / "sessions" / "--srv--"
    place.mkdir(parents=True)
    (place / "2026-01-01_x.jsonl").write_bytes(pi.read_bytes())
    tenfold.run_ok("import", write_messages(tmp_path / "a.json", [{"role": "user", "content": "Where is it?"}]))
    tenfold.run_ok("compact", pi, "--to", "10%")
    calling = next(line for line in pi.read_text("utf-8").splitlines() if '"toolCall"' in line)
    assert json.loads(calling)
    commands = {
        "sessions": ("sessions",),
        "find": ("find",),
        "search": ("search", "warehouse", "report"),
        "show": ("show", "last", "--all"),
        "diff": ("diff", "last"),
        "doctor": ("doctor",),
        "expand": ("expand", "26", "--session", "last", "--around", "3"),
    }
    return {name: tenfold.run_ok(*command, "--json").objects for name, command in commands.items()}


def test_each_command_prints_what_the_page_says(records: dict[str, list[dict[str, Any]]]) -> None:
    page = read_page()
    for command, printed in records.items():
        check(printed, page[command])


def test_the_check_fails_for_a_field_that_is_missing_added_or_of_another_type() -> None:
    fields: dict[str, tuple[type, ...]] = {"a": (str,), "b": (list,), "b[].c": (int,)}
    check([{"a": "x", "b": [{"c": 1}]}], fields)
    for wrong in (
        {"a": "x"},
        {"a": 1, "b": [{"c": 1}]},
        {"a": "x", "b": [{"c": 1, "d": 1}]},
        {"a": "x", "b": [], "c": 1},
    ):
        with pytest.raises(AssertionError):
            check([wrong], fields)
