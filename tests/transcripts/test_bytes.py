"""The law of every format: what nobody touched is written back byte for byte, and what was touched reads again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenfold.record.entry import Said, message_of
from tenfold.record.message import Message, Text, ToolResult, calls_of, result_of, text_of
from tenfold.transcripts import READERS, Item, Recorded, Replaced, read_data, write_file
from tests import sessions
from tests.transcripts.made import FILES

LINE_FORMATS = ("pi", "claude-code", "codex")
PLAIN = st.lists(st.booleans(), min_size=40, max_size=40)


def readings() -> list[object]:
    """Every made-up file, as parameters."""
    return [pytest.param(name, id=name) for name in FILES]


def shown(items: Sequence[Item]) -> list[str]:
    """The texts of the messages among items."""
    found = [i.message if isinstance(i, Replaced) else message_of(i) for i in items]
    return [text_of(m) for m in found if m is not None]


def spoken(items: Sequence[Item]) -> set[str]:
    """The lines of the texts: dropping what stands between two answers of Responses items makes one of them."""
    return {line for text in shown(items) for line in text.split("\n") if line}


def reread(recorded: Recorded, items: Sequence[Item]) -> Recorded:
    """What one session's items read as when written alone; checks that JSON formats stay JSON."""
    form = recorded.info.format
    data = READERS[form].write(recorded.info, items)
    if form not in LINE_FORMATS and b'"role"' not in data.split(b"\n")[0][:9]:
        json.loads(data)
    found = read_data(data, file="written", format=form)
    assert len(found) == 1
    return found[0]


def test_a_recorded_file_is_written_back_exactly(session_file: Path) -> None:
    found = sessions.read(session_file)
    assert write_file([(r.info, r.entries) for r in found]) == session_file.read_bytes()


def test_a_recorded_session_alone_is_a_file_of_its_format(session: Recorded) -> None:
    again = reread(session, session.entries)
    assert [e.parent for e in again.entries] == [e.parent for e in session.entries]
    assert shown(again.entries) == shown(session.entries)


def test_exactly_one_reader_recognises_a_recorded_file(session_file: Path) -> None:
    data = session_file.read_bytes()
    assert [n for n, r in READERS.items() if r.sniff(data, session_file.name)] == [
        sessions.read(session_file)[0].info.format
    ]


def test_entries_hang_together(session: Recorded) -> None:
    before: set[str | None] = {None}
    for entry in session.entries:
        assert entry.parent in before
        assert entry.id not in before
        before.add(entry.id)


def test_no_result_stands_before_its_call(session: Recorded) -> None:
    called: set[str] = set()
    for entry in session.entries:
        message = message_of(entry)
        if message is None:
            continue
        called.update(call.id for call in calls_of(message))
        result = result_of(message)
        assert result is None or (result.call in called and result.name)


def test_every_second_message_dropped_reads_again(session: Recorded) -> None:
    kept = [e for n, e in enumerate(session.entries) if n % 2 or message_of(e) is None]
    if shown(kept):
        again = reread(session, kept)
        assert spoken(again.entries) <= spoken(session.entries)
        assert len(spoken(again.entries)) > len(spoken(kept)) // 2


def test_stubs_in_a_recorded_session_read_again(session: Recorded) -> None:
    items: list[Item] = [_stub(e) if n % 3 == 1 and isinstance(e, Said) else e for n, e in enumerate(session.entries)]
    texts = shown(reread(session, items).entries)
    assert sum("a stub" in text for text in texts) >= sum("a stub" in text for text in shown(items)) > 0


def _stub(entry: Said) -> Replaced:
    """The entry's message, shortened: the calls of an answer stay, since their results do."""
    message = entry.message
    result = result_of(message)
    parts: Sequence[object] = (Text("a stub"), *calls_of(message))
    if result is not None:
        parts = (ToolResult(result.call, result.name, (Text("a stub"),)),)
    short = Message(message.role, tuple(parts), "tenfold")  # type: ignore[arg-type]
    return Replaced(short, source=entry.source)


@pytest.mark.parametrize("name", readings())
def test_a_made_file_is_recognised_by_one_reader_only(name: str) -> None:
    form, data = FILES[name]
    assert [n for n, r in READERS.items() if r.sniff(data, "file")] == [form]


@pytest.mark.parametrize("name", readings())
@pytest.mark.parametrize("shape", ["", "bom", "crlf", "blank"])
def test_a_made_file_is_written_back_exactly(name: str, shape: str) -> None:
    form, data = FILES[name]
    match shape:
        case "bom":
            data = b"\xef\xbb\xbf" + data
        case "crlf":
            data = data.replace(b"\n", b"\r\n")
        case "blank":
            data = b"\n \n" + data.replace(b"\n", b"\n\n") + b"\n"
    found = read_data(data, file="f", format=form)
    assert write_file([(r.info, r.entries) for r in found]) == data
    assert read_data(data, file="f")[0].info.format == form
    assert len(shown(found[0].entries)) == len(shown(read_data(FILES[name][1], file="f")[0].entries))


@pytest.mark.parametrize("name", readings())
def test_a_made_session_alone_is_a_file_of_its_format(name: str) -> None:
    for recorded in read_data(FILES[name][1], file="f"):
        assert shown(reread(recorded, recorded.entries).entries) == shown(recorded.entries)


@pytest.mark.parametrize("name", readings())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(keep=PLAIN)
def test_any_messages_dropped_the_rest_reads_again(name: str, keep: list[bool]) -> None:
    recorded = read_data(FILES[name][1], file="f")[0]
    kept = [e for e, k in zip(recorded.entries, keep, strict=False) if k or message_of(e) is None]
    if not shown(kept):
        return
    again = reread(recorded, kept)
    assert spoken(again.entries) <= spoken(recorded.entries)
    lost = spoken(kept) - spoken(again.entries)
    assert all(_orphan(text, kept) for text in lost)


def _orphan(text: str, kept: Sequence[Item]) -> bool:
    """Whether a line that is in no message any more is of a result whose call was dropped."""
    calls = {c.id for i in kept if (m := message_of(i)) is not None for c in calls_of(m)}  # type: ignore[arg-type]
    results = [r for i in kept if (m := message_of(i)) and (r := result_of(m))]  # type: ignore[arg-type]
    return any(r.call not in calls and any(text in t.text for t in r.content if isinstance(t, Text)) for r in results)


@pytest.mark.parametrize("name", readings())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(change=PLAIN)
def test_any_messages_stubbed_the_view_reads_again(name: str, change: list[bool]) -> None:
    recorded = read_data(FILES[name][1], file="f")[0]
    items: list[Item] = [
        _stub(e) if c and isinstance(e, Said) else e for e, c in zip(recorded.entries, change, strict=False)
    ]
    before = sum("a stub" in text for text in shown(items))
    again = reread(recorded, items)
    assert sum("a stub" in text for text in shown(again.entries)) == before
    assert all(entry.parent is not None for entry in again.entries[1:])
