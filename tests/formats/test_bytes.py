"""The law of every format: what nobody touched is written back byte for byte, and what was touched reads again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenfold.core.record.entry import MessageEntry, get_message
from tenfold.core.record.message import Message, Text, ToolResult, get_text, get_tool_calls, get_tool_result
from tenfold.formats import FORMATS, ExportItem, ParsedSession, ReplacementMessage, read_data, render_sessions
from tests import sessions
from tests.formats.made import FILES
from tests.thorough import IS_THOROUGH

PLAIN = st.lists(st.booleans(), min_size=40, max_size=40)


def build_file_params() -> list[object]:
    """Every made-up file, as parameters."""
    return [pytest.param(name, id=name) for name in FILES]


def get_texts(items: Sequence[ExportItem]) -> list[str]:
    """The texts of the messages among items."""
    found = [i.message if isinstance(i, ReplacementMessage) else get_message(i) for i in items]
    return [get_text(m) for m in found if m is not None]


def get_text_lines(items: Sequence[ExportItem]) -> set[str]:
    """The lines of the texts: dropping what stands between two answers of Responses items makes one of them."""
    return {line for text in get_texts(items) for line in text.split("\n") if line}


def write_and_read(recorded: ParsedSession, items: Sequence[ExportItem]) -> ParsedSession:
    """What one session's items read as when written alone; checks that JSON formats stay JSON."""
    form = recorded.info.format
    data = FORMATS[form].render_file(recorded.info, items)
    if recorded.info.prefix.rstrip().endswith((b"[", b"{")):
        json.loads(data)
    found = read_data(data, file="written", format=form)
    assert len(found) == 1
    return found[0]


def test_a_recorded_file_is_written_back_exactly(session_file: Path) -> None:
    found = sessions.read(session_file)
    assert render_sessions([(r.info, r.entries) for r in found]) == session_file.read_bytes()


@pytest.mark.costly(3)
def test_a_recorded_session_alone_is_a_file_of_its_format(session: ParsedSession) -> None:
    again = write_and_read(session, session.entries)
    assert [e.parent for e in again.entries] == [e.parent for e in session.entries]
    assert get_texts(again.entries) == get_texts(session.entries)


def test_exactly_one_reader_recognises_a_recorded_file(session_file: Path) -> None:
    data = session_file.read_bytes()
    assert [n for n, r in FORMATS.items() if r.can_read(data, session_file.name)] == [
        sessions.read(session_file)[0].info.format
    ]


def test_entries_hang_together(session: ParsedSession) -> None:
    before: set[str | None] = {None}
    for entry in session.entries:
        assert entry.parent in before
        assert entry.id not in before
        before.add(entry.id)


def test_no_result_stands_before_its_call(session: ParsedSession) -> None:
    called: set[str] = set()
    for entry in session.entries:
        message = get_message(entry)
        if message is None:
            continue
        called.update(call.id for call in get_tool_calls(message))
        result = get_tool_result(message)
        assert result is None or (result.call_id in called and result.name)


@pytest.mark.costly(3)
def test_every_second_message_dropped_reads_again(session: ParsedSession) -> None:
    kept = [e for n, e in enumerate(session.entries) if n % 2 or get_message(e) is None]
    if get_texts(kept):
        again = write_and_read(session, kept)
        assert get_text_lines(again.entries) <= get_text_lines(session.entries)
        assert len(get_text_lines(again.entries)) > len(get_text_lines(kept)) // 2


@pytest.mark.costly(3)
def test_stubs_in_a_recorded_session_read_again(session: ParsedSession) -> None:
    items: list[ExportItem] = [
        _shorten_entry(e) if n % 3 == 1 and isinstance(e, MessageEntry) else e for n, e in enumerate(session.entries)
    ]
    texts = get_texts(write_and_read(session, items).entries)
    assert sum("a stub" in text for text in texts) >= sum("a stub" in text for text in get_texts(items)) > 0


def _shorten_entry(entry: MessageEntry) -> ReplacementMessage:
    """The entry's message, shortened: the calls of an answer stay, since their results do."""
    message = entry.message
    result = get_tool_result(message)
    parts: Sequence[object] = (Text("a stub"), *get_tool_calls(message))
    if result is not None:
        parts = (ToolResult(result.call_id, result.name, (Text("a stub"),)),)
    short = Message(message.role, tuple(parts), "tenfold")  # type: ignore[arg-type]
    return ReplacementMessage(short, source_id=entry.source_id)


@pytest.mark.parametrize("name", build_file_params())
def test_a_made_file_is_recognised_by_one_reader_only(name: str) -> None:
    form, data = FILES[name]
    assert [n for n, r in FORMATS.items() if r.can_read(data, "file")] == [form]


@pytest.mark.parametrize("name", build_file_params())
def test_a_made_file_is_written_back_exactly(name: str) -> None:
    form, data = FILES[name]
    blank = b"\n \n" + data.replace(b"\n", b"\n\n") + b"\n"
    for shape in (data, b"\xef\xbb\xbf" + data, data.replace(b"\n", b"\r\n"), blank):
        found = read_data(shape, file="f", format=form)
        assert render_sessions([(r.info, r.entries) for r in found]) == shape
    assert read_data(data, file="f")[0].info.format == form
    assert len(get_texts(found[0].entries)) == len(get_texts(read_data(FILES[name][1], file="f")[0].entries))


@pytest.mark.parametrize("name", build_file_params())
def test_a_made_session_alone_is_a_file_of_its_format(name: str) -> None:
    for recorded in read_data(FILES[name][1], file="f"):
        assert get_texts(write_and_read(recorded, recorded.entries).entries) == get_texts(recorded.entries)


@pytest.mark.parametrize("name", build_file_params())
@settings(
    max_examples=25 if IS_THOROUGH else 10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(keep=PLAIN)
def test_any_messages_dropped_the_rest_reads_again(name: str, keep: list[bool]) -> None:
    recorded = read_data(FILES[name][1], file="f")[0]
    kept = [e for e, k in zip(recorded.entries, keep, strict=False) if k or get_message(e) is None]
    if not get_texts(kept):
        return
    again = write_and_read(recorded, kept)
    assert get_text_lines(again.entries) <= get_text_lines(recorded.entries)
    lost = get_text_lines(kept) - get_text_lines(again.entries)
    assert all(_is_orphan(text, kept) for text in lost)


def _is_orphan(text: str, kept: Sequence[ExportItem]) -> bool:
    """Whether a line that is in no message any more is of a result whose call was dropped."""
    calls = {c.id for i in kept if (m := get_message(i)) is not None for c in get_tool_calls(m)}  # type: ignore[arg-type]
    results = [r for i in kept if (m := get_message(i)) and (r := get_tool_result(m))]  # type: ignore[arg-type]
    return any(
        r.call_id not in calls and any(text in t.text for t in r.content if isinstance(t, Text)) for r in results
    )


@pytest.mark.parametrize("name", build_file_params())
@settings(
    max_examples=25 if IS_THOROUGH else 10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(change=PLAIN)
def test_any_messages_stubbed_the_view_reads_again(name: str, change: list[bool]) -> None:
    recorded = read_data(FILES[name][1], file="f")[0]
    items: list[ExportItem] = [
        _shorten_entry(e) if c and isinstance(e, MessageEntry) else e
        for e, c in zip(recorded.entries, change, strict=False)
    ]
    before = sum("a stub" in text for text in get_texts(items))
    again = write_and_read(recorded, items)
    assert sum("a stub" in text for text in get_texts(again.entries)) == before
    beginnings = sum(entry.parent is None for entry in recorded.entries)
    assert sum(entry.parent is None for entry in again.entries) <= beginnings
