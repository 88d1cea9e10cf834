"""What the formats allow and neither the recorded nor the other made-up files hold."""

from __future__ import annotations

import json

import pytest

from tenfold.errors import BadInput, UnknownRole
from tenfold.record.entry import Custom, Said, message_of
from tenfold.record.message import Message, Opaque, Text, Thinking, ToolCall, result_of, text_of
from tenfold.transcripts import READERS, Replaced, read_data, write_file
from tenfold.transcripts.draft import micros
from tests.transcripts.made import CODEX_NEW, EVENTS, GEMINI_SESSION, PI_1, TAU2, lines, pretty


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
    assert micros(value) == time


def _pi(*messages: object) -> bytes:
    return lines({"type": "session", "id": "s", "cwd": "/w"}, *({"type": "message", "message": m} for m in messages))


def test_pi_output_kept_from_the_model_is_silent_and_a_cancelled_command_says_so() -> None:
    ran = {"role": "bashExecution", "command": "sleep 9", "output": "", "cancelled": True}
    found = read_data(_pi(ran, {**ran, "excludeFromContext": True}), file="f")[0].entries
    first = message_of(found[0])
    assert first is not None
    assert text_of(first) == "$ sleep 9\n\n[cancelled]"
    assert isinstance(found[1], Custom)


def test_pi_usage_of_nothing_is_no_usage() -> None:
    said = {"role": "assistant", "content": "hi", "usage": {"input": 0, "output": 0}}
    entry = read_data(_pi(said, {**said, "usage": "none"}), file="f")[0].entries[0]
    assert isinstance(entry, Said)
    assert entry.usage is None


def test_every_kind_of_part_is_written_to_pi_and_read_again() -> None:
    parts = (
        Thinking("hm", "sig"),
        Text("a"),
        ToolCall("c", "look", "not json"),
        Opaque("odd", b'{"type": "odd", "n": 1}'),
    )
    recorded = read_data(PI_1, file="f")[0]
    data = READERS["pi"].write(recorded.info, [Replaced(Message("assistant", parts, "tenfold"))])
    again = message_of(read_data(data, file="f")[0].entries[0])
    assert again is not None
    assert again.parts[:2] == parts[:2]
    assert again.parts[2] == ToolCall("c", "look", '{"_raw":"not json"}')
    assert isinstance(again.parts[3], Opaque)


def test_gemini_records_of_unknown_types() -> None:
    value = json.loads(GEMINI_SESSION)
    value["messages"].append({"type": "marker", "at": 1})
    entry = read_data(pretty(value), file="f")[0].entries[-1]
    assert isinstance(entry, Custom)
    assert entry.kind == "marker"
    value["messages"].append({"type": "oracle", "content": "hi"})
    with pytest.raises(UnknownRole, match="record 5: 'oracle'"):
        read_data(pretty(value), file="f")


def test_gemini_calls_without_results_stay_in_the_answer() -> None:
    value = json.loads(GEMINI_SESSION)
    del value["messages"][1]["toolCalls"][0]["result"]
    data = pretty(value)
    found = read_data(data, file="f")[0]
    messages = [m for e in found.entries if (m := message_of(e)) is not None]
    assert [m.role for m in messages] == ["user", "assistant", "tool", "assistant"]
    assert write_file([(found.info, found.entries)]) == data


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
    data = lines({"instance_id": "i", "history": history})
    found = read_data(data, file="f")[0]
    kinds = [e.kind if isinstance(e, Custom) else e.message.role for e in found.entries if isinstance(e, Custom | Said)]
    assert kinds == [
        "system",
        "user",
        "action:run",
        "observation:run",
        "action:condensation",
        "assistant",
        "tool",
        "unknown",
    ]
    answer, result = (message_of(e) for e in found.entries[5:7])
    assert answer is not None
    assert result is not None
    assert answer.parts == (Text("see"), ToolCall("event-5", "browse", '{"url": "u"}'))
    assert (got := result_of(result)) is not None
    assert (got.call, got.name) == ("event-5", "browse")
    assert write_file([(found.info, found.entries)]) == data


def test_two_instances_of_one_name_are_two_sessions() -> None:
    found = read_data(EVENTS.replace(b'"i1"', b'"i0"'), file="f")
    assert [r.info.id for r in found] == ["i0", "i0#1"]


def test_damage_in_a_container_of_lines_loses_only_that_instance() -> None:
    first, second = EVENTS.splitlines(keepends=True)
    data = first + b"{broken\n" + second
    found = read_data(data, file="f", skip_damaged=True)
    assert [r.info.id for r in found] == ["i0", "i1"]
    assert write_file([(r.info, r.entries) for r in found]) == data


def test_tau2_arguments_that_are_no_json_are_kept() -> None:
    recorded = read_data(TAU2, file="f")[0]
    message = Message("assistant", (ToolCall("1", "find", "{oops"),), "tenfold")
    again = read_data(READERS["tau2"].write(recorded.info, [Replaced(message)]), file="f")[0]
    found = message_of(again.entries[0])
    assert found is not None
    assert found.parts == (ToolCall("1", "find", '{"_raw": "{oops"}'),)


def test_codex_answers_are_not_joined_over_a_new_turn() -> None:
    end = CODEX_NEW.rstrip(b"\n").split(b"\n")
    answer = next(line for line in reversed(end) if b'"assistant"' in line)
    turn = next(line for line in end if b"turn_context" in line)
    data = CODEX_NEW + answer + b"\n" + turn + b"\n" + answer + b"\n"
    entries = read_data(data, file="f")[0].entries
    assert [type(e).__name__ for e in entries[-3:]] == ["Said", "Setting", "Said"]


@pytest.mark.parametrize("data", [b"7", b'"text"', b"null"])
def test_a_file_that_is_no_list_is_refused(data: bytes) -> None:
    with pytest.raises(BadInput, match="is this the right --format"):
        read_data(data, file="f", format="anthropic")


def test_nothing_written_is_nothing() -> None:
    assert write_file([]) == b""
