"""What the formats allow and neither the recorded nor the other made-up files hold."""

from __future__ import annotations

import json

import pytest

from tenfold.core.record.entry import CustomEntry, MessageEntry, get_message
from tenfold.core.record.message import Message, OpaquePart, Text, Thinking, ToolCall, get_text, get_tool_result
from tenfold.errors import BadInput, UnknownFormat, UnknownRole
from tenfold.formats import FORMATS, ReplacementMessage, read_data, render_sessions
from tenfold.formats.session_draft import parse_micros
from tests.formats.made import CODEX_NEW, EVENTS, GEMINI_SESSION, PI_1, TAU2, render_lines, render_pretty


@pytest.mark.parametrize(
    ("value", "time"),
    [
        ("2030-01-02T03:04:05Z", 1_893_553_445_000_000),
        ("2030-01-02T03:04:05.000001", 1_893_553_445_000_001),
        ("2030-01-02T04:04:05+01:00", 1_893_553_445_000_000),
        (1_893_553_445, 1_893_553_445_000_000),
        (1_893_553_445_678, 1_893_553_445_678_000),
        (1_893_553_445.5, 1_893_553_445_500_000),
        ("noon", None),
        (None, None),
        (True, None),
        (0, None),
        (-1, None),
        (1e30, None),
        ([], None),
    ],
)
def test_times(value: object, time: int | None) -> None:
    assert parse_micros(value) == time


def _make_pi_file(*messages: object) -> bytes:
    return render_lines(
        {"type": "session", "id": "s", "cwd": "/w"}, *({"type": "message", "message": m} for m in messages)
    )


def test_pi_output_kept_from_the_model_is_silent_and_a_cancelled_command_says_so() -> None:
    ran = {"role": "bashExecution", "command": "sleep 9", "output": "", "cancelled": True}
    found = read_data(_make_pi_file(ran, {**ran, "excludeFromContext": True}), file="f")[0].entries
    first = get_message(found[0])
    assert first is not None
    assert get_text(first) == "$ sleep 9\n\n[cancelled]"
    assert isinstance(found[1], CustomEntry)


def test_pi_usage_of_nothing_is_no_usage() -> None:
    said = {"role": "assistant", "content": "hi", "usage": {"input": 0, "output": 0}}
    entry = read_data(_make_pi_file(said, {**said, "usage": "none"}), file="f")[0].entries[0]
    assert isinstance(entry, MessageEntry)
    assert entry.usage is None


def test_every_kind_of_part_is_written_to_pi_and_read_again() -> None:
    parts = (
        Thinking("hm", "sig"),
        Text("a"),
        ToolCall("c", "look", "not json"),
        OpaquePart("odd", b'{"type": "odd", "n": 1}'),
    )
    recorded = read_data(PI_1, file="f")[0]
    data = FORMATS["pi"].render_file(recorded.info, [ReplacementMessage(Message("assistant", parts, "tenfold"))])
    again = get_message(read_data(data, file="f")[0].entries[0])
    assert again is not None
    assert again.parts[:2] == parts[:2]
    assert again.parts[2] == ToolCall("c", "look", '{"_raw":"not json"}')
    assert isinstance(again.parts[3], OpaquePart)


def test_gemini_records_of_unknown_types() -> None:
    value = json.loads(GEMINI_SESSION)
    value["messages"].append({"type": "marker", "at": 1})
    entry = read_data(render_pretty(value), file="f")[0].entries[-1]
    assert isinstance(entry, CustomEntry)
    assert entry.kind == "marker"
    for field in ({"content": "hi"}, {"parts": [{"text": "hi"}]}):
        with pytest.raises(UnknownRole, match="record 5: 'oracle'"):
            read_data(render_pretty(value | {"messages": [*value["messages"], {"type": "oracle", **field}]}), file="f")


def test_an_output_of_codex_may_be_an_object_around_its_text() -> None:
    call = {"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "*** Begin Patch"}
    output = {"type": "custom_tool_call_output", "call_id": "c", "output": {"content": "Done.", "success": True}}
    meta = {"type": "session_meta", "payload": {"id": "s"}}
    lines = [{"timestamp": "", "type": "response_item", "payload": item} for item in (call, output)]
    data = render_lines(meta, *lines)
    (session,) = read_data(data, file="f")
    results = [result for e in session.entries if (m := get_message(e)) and (result := get_tool_result(m)) is not None]
    assert [result.content for result in results] == [(Text("Done."),)]
    assert render_sessions([(session.info, session.entries)]) == data


def test_an_output_of_codex_with_more_than_its_text_is_not_read_in_part() -> None:
    call = {"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "*** Begin Patch"}
    said = {"content": "Done.", "note": "but one hunk was left out"}
    output = {"type": "custom_tool_call_output", "call_id": "c", "output": said}
    lines = [{"timestamp": "", "type": "response_item", "payload": item} for item in (call, output)]
    with pytest.raises(UnknownFormat, match="25 characters of text would be lost"):
        read_data(render_lines({"type": "session_meta", "payload": {"id": "s"}}, *lines), file="f")


def test_gemini_calls_without_results_stay_in_the_answer() -> None:
    value = json.loads(GEMINI_SESSION)
    del value["messages"][1]["toolCalls"][0]["result"]
    data = render_pretty(value)
    found = read_data(data, file="f")[0]
    messages = [m for e in found.entries if (m := get_message(e)) is not None]
    assert [m.role for m in messages] == ["user", "assistant", "tool", "assistant"]
    assert render_sessions([(found.info, found.entries)]) == data


def test_openhands_events_that_are_no_messages_are_silent() -> None:
    history = [
        {"id": 0, "source": "agent", "action": "system", "args": {"content": "you are"}},
        {"id": 1, "source": "user", "action": "message", "args": {"content": "go"}},
        {"id": 2, "source": "user", "action": "run", "args": {"command": "ls"}},
        {"id": 3, "source": "user", "cause": 2, "observation": "run", "content": "shed"},
        {"id": 4, "source": "agent", "action": "condensation", "args": {}},
        {"id": 5, "source": "agent", "action": "browse", "args": {"url": "u", "thought": "see"}},
        {"id": 6, "source": "agent", "cause": 5, "observation": "browse", "content": "page"},
        {"id": 7, "oddly": True},
    ]
    data = render_lines({"instance_id": "i", "history": history})
    found = read_data(data, file="f")[0]
    kinds = [
        e.kind if isinstance(e, CustomEntry) else e.message.role
        for e in found.entries
        if isinstance(e, CustomEntry | MessageEntry)
    ]
    assert ", ".join(kinds) == (
        "system, user, action:run, observation:run, action:condensation, assistant, tool, unknown"
    )
    answer, result = (get_message(e) for e in found.entries[5:7])
    assert answer is not None
    assert result is not None
    assert answer.parts == (Text("see"), ToolCall("event-5", "browse", '{"url": "u"}'))
    assert (got := get_tool_result(result)) is not None
    assert (got.call_id, got.name) == ("event-5", "browse")
    assert render_sessions([(found.info, found.entries)]) == data


def test_two_instances_of_one_name_are_two_sessions() -> None:
    found = read_data(EVENTS.replace(b'"i1"', b'"i0"'), file="f")
    assert [r.info.id for r in found] == ["i0", "i0#1"]


def test_damage_in_a_container_of_lines_loses_only_that_instance() -> None:
    first, second = EVENTS.splitlines(keepends=True)
    data = first + b"{broken\n" + second
    found = read_data(data, file="f", skip_damaged=True)
    assert [r.info.id for r in found] == ["i0", "i1"]
    assert render_sessions([(r.info, r.entries) for r in found]) == data


def test_tau2_arguments_that_are_no_json_are_kept() -> None:
    recorded = read_data(TAU2, file="f")[0]
    message = Message("assistant", (ToolCall("1", "find", "{oops"),), "tenfold")
    again = read_data(FORMATS["tau2"].render_file(recorded.info, [ReplacementMessage(message)]), file="f")[0]
    found = get_message(again.entries[0])
    assert found is not None
    assert found.parts == (ToolCall("1", "find", '{"_raw": "{oops"}'),)


def test_codex_answers_are_not_joined_over_a_new_turn() -> None:
    end = CODEX_NEW.rstrip(b"\n").split(b"\n")
    answer = next(line for line in reversed(end) if b'"assistant"' in line)
    turn = next(line for line in end if b"turn_context" in line)
    data = CODEX_NEW + answer + b"\n" + turn + b"\n" + answer + b"\n"
    entries = read_data(data, file="f")[0].entries
    assert [type(e).__name__ for e in entries[-3:]] == ["MessageEntry", "Setting", "MessageEntry"]


@pytest.mark.parametrize("data", [b"7", b'"text"', b"null"])
def test_a_file_that_is_no_list_is_refused(data: bytes) -> None:
    with pytest.raises(BadInput, match="is this the right --format"):
        read_data(data, file="f", format="anthropic")


def test_nothing_written_is_nothing() -> None:
    assert render_sessions([]) == b""


@pytest.mark.parametrize("data", [TAU2, EVENTS, GEMINI_SESSION, PI_1])
def test_a_number_that_is_none_is_read_and_written_as_it_stands(data: bytes) -> None:
    odd = data.replace(b": {", b': {"cost": NaN, ').replace(b", }", b"}")
    assert odd.count(b"NaN") > 1
    found = read_data(odd, file="f")
    assert len(found[0].entries) == len(read_data(data, file="f")[0].entries)
    assert render_sessions([(r.info, r.entries) for r in found]) == odd


def test_an_answer_of_several_items_is_one_message_with_the_events_inside_it() -> None:
    lines = [json.loads(line) for line in CODEX_NEW.splitlines()]
    answer = {"type": "response_item", "payload": {"type": "message", "role": "assistant", "content": "one"}}
    call = {"type": "response_item", "payload": {"type": "function_call", "call_id": "c", "name": "f", "arguments": ""}}
    event = {"type": "event_msg", "payload": {"type": "agent_message"}}
    data = render_lines(lines[0], answer, event, call, event)
    entries = read_data(data, file="f")[0].entries
    assert [type(e).__name__ for e in entries] == ["MessageEntry", "CustomEntry"]
    message = get_message(entries[0])
    assert message is not None
    assert message.parts == (Text("one"), ToolCall("c", "f", ""))


def test_results_of_calls_with_one_id_keep_the_order_of_the_calls() -> None:
    names = ("look", "count")
    blocks: list[object] = [{"type": "toolCall", "id": "c", "name": name, "arguments": {}} for name in names]
    lines: list[object] = [{"type": "session", "id": "s", "cwd": "/w"}]
    for text in ("first", "second"):  # and the same id in the next answer
        lines.append({"type": "message", "message": {"role": "assistant", "content": blocks}})
        for number in range(2):
            content = [{"type": "text", "text": f"{text} {number}"}]
            lines.append({"type": "message", "message": {"role": "toolResult", "toolCallId": "c", "content": content}})
    (found,) = read_data(render_lines(*lines), file="f")
    results = [r for e in found.entries if (m := get_message(e)) is not None and (r := get_tool_result(m)) is not None]
    assert [result.name for result in results] == ["look", "count", "look", "count"]


def test_lines_of_claude_code_without_the_id_of_a_session_are_its_lines_and_those_of_its_stream_are_not() -> None:
    said = [
        ("user", "u1", None, "What colour is it?"),
        ("assistant", "u2", "u1", "Green."),
        ("user", "u3", "u2", "Why?"),
    ]
    lines = [
        {"type": role, "uuid": own, "parentUuid": parent, "message": {"role": role, "content": text}}
        for role, own, parent, text in said
    ]
    data = render_lines(*lines)
    (session,) = read_data(data, file="f")
    assert session.info.format == "claude-code"
    assert render_sessions([(session.info, list(session.entries))]) == data
    (streamed,) = read_data(
        render_lines(*({**line, "session_id": "s", "parent_tool_use_id": None} for line in lines)), file="f"
    )
    assert streamed.info.format == "claude-stream"
