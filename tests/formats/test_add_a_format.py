"""The format of docs/formats/adding.md: registered exactly as it is printed there, and put to the test."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tenfold.core.record.ask import Outcome
from tenfold.core.record.entry import CustomEntry, MessageEntry
from tenfold.core.record.message import Message, Text, ToolCall, ToolResult
from tenfold.errors import DamagedLine
from tenfold.formats import FORMATS, read_data, render_sessions
from tests.formats.made import FILES

PAGE = Path(__file__).parents[2] / "docs" / "formats" / "adding.md"
TEXT = PAGE.read_text("utf-8")
(FILE,) = re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL)
MODULE, USE = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def make_log() -> bytes:
    """The file of the page, and forty steps after it."""
    lines = [json.loads(line) for line in FILE.splitlines()]
    for number in range(40):
        run = {"id": f"x{number}", "cmd": f"look {number}"}
        lines += [{"who": "ai", "text": "", "runs": [run]}, {"who": "sh", "id": run["id"], "text": "grey, dry " * 90}]
    return b"".join(json.dumps(line, separators=(",", " : ")).encode() + b"\n" for line in lines)


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What the page defines, while its format is in the table."""
    log = tmp_path_factory.mktemp("toy") / "weather.log"
    log.write_bytes(make_log())
    names: dict[str, Any] = {}
    try:
        for code in (MODULE, USE.replace("weather.log", str(log))):
            exec(compile(code, str(PAGE), "exec"), names)  # noqa: S102 - the page is ours, and running it is the point
        yield names
    finally:
        FORMATS.pop("toy-log", None)


@pytest.mark.usefixtures("printed")
def test_the_printed_file_is_read_by_meaning_and_written_back() -> None:
    (session,) = read_data(FILE.encode(), file="weather.log")
    assert (session.info.format, session.info.id) == ("toy-log", "s1")
    messages = [entry.message for entry in session.entries if isinstance(entry, MessageEntry)]
    assert [(m.role, m.origin) for m in messages] == [("user", "human"), ("assistant", "model"), ("tool", "tool")]
    assert messages[1].parts == (Text("Let me look."), ToolCall("r1", "shell", '{"cmd": "look sky"}'))
    assert messages[2].parts == (ToolResult("r1", "shell", (Text("grey, dry"),)),)
    assert [entry.kind for entry in session.entries if isinstance(entry, CustomEntry)] == ["clock"]
    assert render_sessions([(session.info, session.entries)]) == FILE.encode()


def test_only_its_own_files_are_recognised(printed: dict[str, Any]) -> None:
    form = printed["ToyLog"]()
    assert form.can_read(FILE.encode(), "weather.log")
    assert [name for name, (_, data) in FILES.items() if form.can_read(data, name)] == []
    assert [name for name, other in FORMATS.items() if other.can_read(FILE.encode(), "x")] == ["toy-log"]


def test_an_imported_session_is_compacted_and_exported_in_its_own_format(printed: dict[str, Any]) -> None:
    outcome, exported = printed["outcome"], printed["exported"]
    assert isinstance(outcome, Outcome)
    assert outcome.status == "compacted"
    assert outcome.tokens_after <= 2_000
    lines, kept = make_log().split(b"\n"), exported.split(b"\n")
    assert kept[:2] == lines[:2]
    assert kept[-3:] == lines[-3:]
    assert len(exported) < len(make_log()) / 2
    (again,) = read_data(exported, file="exported.log")
    assert again.info.id == "s1"
    assert render_sessions([(again.info, again.entries)]) == exported
    texts = [json.loads(line).get("text", "") for line in exported.splitlines()]
    assert any("<tenfold-summary" in text for text in texts)


@pytest.mark.usefixtures("printed")
def test_a_session_of_another_format_is_written_in_it() -> None:
    messages = [
        Message("user", (Text("go"),), "human"),
        Message("assistant", (ToolCall("c1", "shell", '{"cmd": "ls"}'),), "model"),
        Message("tool", (ToolResult("c1", "shell", (Text("a.py"),)),), "tool"),
    ]
    entries = [MessageEntry(f"e{n}", f"e{n - 1}" if n else None, "", None, m) for n, m in enumerate(messages)]
    (session,) = read_data(FILE.encode(), file="weather.log")
    data = FORMATS["toy-log"].render_file(type(session.info)("s2", "pi"), entries)
    assert data.splitlines() == [
        b'{"log": "toy", "id": "s2"}',
        b'{"who": "me", "text": "go"}',
        b'{"who": "ai", "text": "", "runs": [{"id": "c1", "cmd": "ls"}]}',
        b'{"who": "sh", "text": "a.py", "id": "c1"}',
    ]


@pytest.mark.usefixtures("printed")
def test_a_damaged_line_is_named_or_kept() -> None:
    damaged = FILE.encode() + b'{"who": "me", "te\n' + FILE.encode().splitlines(keepends=True)[-1]
    with pytest.raises(DamagedLine, match="line 6"):
        read_data(damaged, file="weather.log")
    (session,) = read_data(damaged, file="weather.log", skip_damaged=True)
    assert len(session.problems) == 1
    assert render_sessions([(session.info, session.entries)]) == damaged


@pytest.mark.usefixtures("printed")
def test_a_last_line_that_is_being_written_is_left_for_later() -> None:
    growing = FILE.encode() + b'{"who": "me", "te'
    (session,) = read_data(growing, file="weather.log")
    assert session.problems == ("line 6 is not complete, so the file is read up to there",)
    assert render_sessions([(session.info, session.entries)]) == growing
