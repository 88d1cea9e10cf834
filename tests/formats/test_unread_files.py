"""No command reads a file and leaves text of its messages out: every message is read whole, or the file is refused."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tenfold.core.record.entry import get_message
from tenfold.core.record.message import Message, Text, get_text, get_tool_result
from tenfold.errors import BadInput, UnknownFormat, UnknownRole
from tenfold.formats import ParsedSession, read_data
from tests.formats.made import render_lines


def list_messages(sessions: list[ParsedSession]) -> list[Message]:
    return [message for s in sessions for e in s.entries if (message := get_message(e)) is not None]


def make_claude_line(number: int, kind: str, message: object) -> dict[str, object]:
    before = f"u{number - 1}" if number else None
    return {"type": kind, "uuid": f"u{number}", "parentUuid": before, "sessionId": "s", "message": message}


def make_result_line(number: int, content: object) -> dict[str, object]:
    block = {"type": "tool_result", "tool_use_id": f"t{number}", "content": content}
    return make_claude_line(number, "user", {"role": "user", "content": [block]})


def make_call_line(number: int) -> dict[str, object]:
    block = {"type": "tool_use", "id": f"t{number + 1}", "name": "look", "input": {}}
    return make_claude_line(number, "assistant", {"role": "assistant", "id": f"m{number}", "content": [block]})


def make_thread(result: dict[str, object]) -> list[dict[str, object]]:
    call = {"type": "tool_use", "id": "t", "name": "look", "input": {"at": "the shed"}}
    step: list[dict[str, object]] = [
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [{"type": "tool_result", **result}]},
    ]
    return [{"role": "user", "content": [{"type": "text", "text": "What colour is the shed?"}]}, *step * 4]


def test_results_in_an_unknown_form_refuse_the_lines_of_a_tool() -> None:
    said = {"responseParts": {"functionResponse": {"response": {"output": "the shed is green and dry"}}}}
    lines = [line for n in range(0, 10, 2) for line in (make_call_line(n), make_result_line(n + 1, said))]
    lines = [make_claude_line(0, "user", {"role": "user", "content": "go"}), *lines[1:]]
    with pytest.raises(UnknownFormat, match=r"5 of 10 messages have .*tool_result.*; 125 characters"):
        read_data(render_lines(*lines), file="f")


def test_a_known_part_without_what_it_needs_is_not_understood() -> None:
    data = json.dumps({"messages": make_thread({"toolUseID": "t", "run": {"result": "green and dry"}})}).encode()
    with pytest.raises(UnknownFormat, match=r"4 of 9 messages have .*tool_result"):
        read_data(data, file="f")


def make_cline_file(echo: dict[str, object]) -> bytes:
    """Renders a session of cline, whose results say beside their text what was asked for."""
    messages: list[object] = [{"role": "user", "content": "Look at the shed."}]
    for number in range(8):
        call = {"type": "tool_use", "id": f"t{number}", "name": "run", "input": {"commands": ["look --at shed"]}}
        output = {"result": f"it is green, at {number} o'clock", "success": True, **echo}
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "name": "run", "content": [output]}
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    return json.dumps({"sessionId": "s", "messages": messages}).encode()


@pytest.mark.parametrize("echo", [{"query": "look at: the shed"}, {"command": "look --at shed"}])
def test_what_a_result_repeats_of_its_call_is_not_lost(echo: dict[str, object]) -> None:
    (session,) = read_data(make_cline_file(echo), file="f.messages.json")
    assert session.info.format == "cline"
    results = [result.content for m in list_messages([session]) if (result := get_tool_result(m)) is not None]
    assert results == [(Text(f"it is green, at {n} o'clock"),) for n in range(8)]


def test_what_no_call_said_is_lost_with_its_result() -> None:
    with pytest.raises(UnknownFormat, match=r"8 of 17 messages have .*tool_result"):
        read_data(make_cline_file({"found": "the door is open"}), file="f.messages.json")


def test_a_message_is_one_whatever_the_type_of_its_line() -> None:
    first = make_claude_line(0, "user", {"role": "user", "content": "What colour is the shed?"})
    system = make_claude_line(1, "system", {"role": "system", "content": "You know the garden."})
    found = list_messages(read_data(render_lines(first, system), file="f"))
    assert [(m.role, get_text(m)) for m in found] == [
        ("user", "What colour is the shed?"),
        ("system", "You know the garden."),
    ]
    result = make_claude_line(1, "tool_result", {"role": "tool", "content": "green and dry"})
    with pytest.raises(UnknownRole, match="'tool' is not a role of the claude-code format"):
        read_data(render_lines(first, result), file="f")


def test_a_message_that_is_no_object_is_damage() -> None:
    lines = render_lines(
        make_claude_line(0, "user", {"role": "user", "content": "go"}), make_claude_line(1, "user", "x")
    )
    with pytest.raises(BadInput, match="line 2: its message is no object"):
        read_data(lines, file="f")
    (session,) = read_data(lines, file="f", skip_damaged=True)
    assert len(session.problems) == 1


def test_a_result_beside_an_approval_is_read() -> None:
    call = {"type": "tool-call", "toolCallId": "c", "toolName": "look", "input": {}}
    approval = {"type": "tool-approval-response", "approvalId": "a", "approved": True}
    output = {"type": "text", "value": "green and dry"}
    result = {"type": "tool-result", "toolCallId": "c", "toolName": "look", "output": output}
    messages = [{"role": "assistant", "content": [call]}, {"role": "tool", "content": [approval, result]}]
    found = list_messages(read_data(json.dumps(messages).encode(), file="f"))
    assert [get_text(m) for m in found if get_tool_result(m)] == ["green and dry"]


def test_every_item_of_a_codex_rollout_is_read() -> None:
    header = {"type": "session_meta", "timestamp": "2030-01-01T00:00:00Z", "payload": {"id": "x"}}
    items = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "paint"}]},
        {"type": "tool_search_call", "call_id": "c1", "arguments": {"query": "paint"}},
        {"type": "tool_search_output", "call_id": "c1", "tools": [{"name": "brush", "description": "it paints well"}]},
        {"type": "image_generation_call", "id": "i", "revised_prompt": "a green shed", "result": "AAAA"},
        {"type": "ghost_snapshot", "ghost_commit": {"id": "abc"}},
    ]
    lines = [{"type": "response_item", "timestamp": "2030-01-01T00:00:01Z", "payload": item} for item in items]
    (session,) = read_data(render_lines(header, *lines), file="f")
    text = repr([m.parts for m in list_messages([session])])
    assert all(words in text for words in ("it paints well", "a green shed"))
    assert [getattr(e, "kind", "") for e in session.entries][-1] == "response_item:ghost_snapshot"


def test_one_message_over_several_lines_is_read() -> None:
    data = json.dumps({"role": "user", "content": "What colour is the shed?"}, indent=2).encode()
    assert [get_text(m) for m in list_messages(read_data(data, file="f"))] == ["What colour is the shed?"]


@pytest.mark.parametrize(
    ("lines", "seen", "near"),
    [
        (
            [{"type": "message", "message": {"role": "user", "content": [{"type": "toolResponse", "id": "t"}]}}],
            "type, message",
            "goose",
        ),
        ([{"who": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}]}}], "who", "anthropic"),
        ([{"prompt": "say it", "completion": "no"}], "prompt, completion", ""),
    ],
)
def test_a_refusal_says_what_was_seen_and_the_nearest_format(lines: list[object], seen: str, near: str) -> None:
    with pytest.raises(UnknownFormat) as caught:
        read_data(render_lines(*lines, *lines), file="f")
    assert f"objects with {seen}" in str(caught.value)
    assert (f"looks like {near}" in str(caught.value)) == bool(near)


AIDER = """# aider chat started at 2030-01-02 03:04:05

> Aider v0.86.1\x20\x20

#### Paint the shed.\x20\x20
####\x20\x20\x20
#### Which colour?\x20\x20

Here is the plan.

#### Step 1

> Look before you paint.

Buy green paint.

> Applied edit to shed.py\x20\x20
"""


def test_in_an_aider_history_two_blanks_end_the_lines_that_are_no_answer() -> None:
    found = list_messages(read_data(AIDER.encode(), file="f"))
    assert [(m.origin, " ".join(get_text(m).split())) for m in found] == [
        ("tool", "Aider v0.86.1"),
        ("human", "Paint the shed. Which colour?"),
        ("model", "Here is the plan. #### Step 1 > Look before you paint. Buy green paint."),
        ("tool", "Applied edit to shed.py"),
    ]


def test_without_any_such_blanks_every_heading_is_the_users() -> None:
    data = "\n".join(line.rstrip() for line in AIDER.splitlines()).encode()
    found = list_messages(read_data(data, file="f"))
    assert [get_text(m).split() for m in found if m.origin == "human"] == [
        ["Paint", "the", "shed.", "Which", "colour?"],
        ["Step", "1"],
    ]


def make_role(number: int, user: str = "user", answer: str = "assistant") -> str:
    return answer if number % 2 else user


def make_note(number: int) -> dict[str, object]:
    return {"type": "note", "body": f"the shed has the number {number}"}


def make_pi(number: int, part: object) -> dict[str, object]:
    before = str(number - 1) if number else None
    message = {"role": make_role(number), "content": [part]}
    return {"type": "message", "id": str(number), "parentId": before, "message": message}


def make_messages(make_part: Callable[[int], object]) -> dict[str, bytes]:
    """Makes files of tools and frameworks whose messages have one part each."""
    header = {"type": "session", "version": 3, "id": "s", "cwd": "/w"}
    says = [(n, make_role(n), [make_part(n)]) for n in range(8)]
    call = {"type": "tool-call", "toolCallId": "c", "toolName": "look", "input": {}}
    content = [{"role": role, "content": parts} for _, role, parts in says]
    google = [{"role": make_role(n, "user", "model"), "parts": parts} for n, _, parts in says]
    claude = [make_claude_line(n, role, content[n]) for n, role, _ in says]
    documents: dict[str, object] = {
        "langchain": [{"type": make_role(n, "human", "ai"), "data": {"content": parts}} for n, _, parts in says],
        "vercel-ui": [{"role": role, "parts": parts} for _, role, parts in says],
        "vercel-model": [{"role": role, "content": [call, *parts]} for _, role, parts in says],
        "bedrock-converse": content,
        "pydantic-ai": [{"kind": make_role(n, "request", "response"), "parts": parts} for n, _, parts in says],
        "adk": [{"author": "a", "content": each} for each in google],
        "openai-agents": [{"type": "item", "raw_item": parts[0]} for _, _, parts in says],
        "goose": [{**each, "created": 1, "metadata": {}} for each in content],
        "atif": [{"step_id": n, "source": make_role(n, "user", "agent"), "message": parts} for n, _, parts in says],
        "opencode": {
            "info": {"id": "ses_1", "directory": "/w"},
            "messages": [{"info": {"id": f"m{n}", "role": role}, "parts": parts} for n, role, parts in says],
        },
    }
    return {name: json.dumps(each).encode() for name, each in documents.items()} | {
        "kimi": render_lines({"role": "_checkpoint", "id": 0}, *content),
        "claude-code": render_lines(*claude),
        "pi": render_lines(header, *(make_pi(n, parts[0]) for n, _, parts in says)),
    }


UNKNOWN_PARTS: dict[str, bytes] = make_messages(make_note) | {
    "vercel-ui": make_messages(lambda _: {"type": "text", "data": {"text": "it is green"}})["vercel-ui"],
    "bedrock-converse": make_messages(lambda n: {"guardContent": make_note(n)})["bedrock-converse"],
    "pydantic-ai": make_messages(lambda _: {"part_kind": "note", "content": "it is green"})["pydantic-ai"],
    "adk": make_messages(lambda n: {"note": make_note(n)})["adk"],
}


@pytest.mark.parametrize("format_", UNKNOWN_PARTS)
def test_parts_that_a_format_does_not_have_refuse_its_files(format_: str) -> None:
    with pytest.raises(
        UnknownFormat, match=rf"(\d) of \1 messages have what {format_} messages do not have: .*part"
    ) as caught:
        read_data(UNKNOWN_PARTS[format_], file="f")
    assert f"--format {format_}" not in str(caught.value)


def test_a_few_unknown_parts_are_kept() -> None:
    known = [{"type": "human", "data": {"content": f"the shed {n}"}} for n in range(10)]
    data = json.dumps([*known, {"type": "ai", "data": {"content": [make_note(0)]}}]).encode()
    (session,) = read_data(data, file="f")
    assert "number 0" in repr(list_messages([session])[-1].parts)


LC = "langchain"
KEPT_PARTS: list[tuple[str, dict[str, object]]] = [
    (LC, {"type": "file", "filename": "a green shed.pdf", "base64": "AAAA"}),
    (LC, {"type": "audio", "base64": "AAAA", "transcript": "it is green"}),
    (LC, {"type": "server_tool_result", "tool_call_id": "c", "output": "it is green"}),
    (LC, {"type": "search_result", "title": "The green shed", "content": []}),
    (LC, {"type": "redacted_thinking", "data": "AAAA"}),
    (LC, {"type": "web_search_call", "id": "w", "action": {"query": "green sheds"}}),
    ("vercel-ui", {"type": "source-url", "sourceId": "s", "url": "u", "title": "The green shed"}),
    ("vercel-ui", {"type": "file", "mediaType": "image/png", "url": "u", "filename": "a green shed.png"}),
    ("vercel-ui", {"type": "data-weather", "data": {"sky": "grey and dry"}}),
    ("bedrock-converse", {"document": {"name": "a green shed", "format": "pdf", "source": {"bytes": "AAAA"}}}),
    ("bedrock-converse", {"reasoningContent": {"redactedContent": "AAAA"}}),
    ("bedrock-converse", {"searchResult": {"source": "u", "title": "The green shed", "content": []}}),
    ("adk", {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "it is green"}}),
    ("adk", {"executable_code": {"language": "PYTHON", "code": "paint the shed"}}),
    ("goose", {"type": "systemNotification", "notificationType": "inlineMessage", "msg": "it is green"}),
    ("pi", {"type": "image", "data": "AAAA", "mimeType": "image/png"}),
]


@pytest.mark.parametrize(("format_", "part"), KEPT_PARTS)
def test_parts_that_a_format_keeps_whole_refuse_no_file(format_: str, part: dict[str, object]) -> None:
    (session,) = read_data(make_messages(lambda _: part)[format_], file="f")
    assert session.info.format == format_


def test_what_guards_and_cites_is_read_as_text() -> None:
    guarded = {"guardContent": {"text": {"text": "is the shed green", "qualifiers": ["query"]}}}
    cited = {"citationsContent": {"content": [{"text": "it is "}, {"text": "green"}], "citations": []}}
    data = make_messages(lambda n: cited if n % 2 else guarded)["bedrock-converse"]
    assert [get_text(m) for m in list_messages(read_data(data, file="f"))] == ["is the shed green", "it is green"] * 4


HEADER = {"type": "session", "version": 3, "id": "s", "cwd": "/w"}


def test_a_file_whose_messages_stand_in_lines_that_the_format_does_not_know_is_refused() -> None:
    said = {"role": "user", "content": "paint the shed"}
    data = render_lines(HEADER, {"type": "event", "message": said}, {"type": "log", "of": [{"inner": said}]})
    with pytest.raises(UnknownFormat, match=r"none of its 2 lines .* pi format.* like openai.*'event', 'log'\. Write"):
        read_data(data, file="f")


def test_a_session_in_which_nothing_was_said_yet_holds_no_message() -> None:
    (session,) = read_data(render_lines(HEADER, {"type": "label", "id": "a", "label": "paint the shed"}), file="f")
    assert list_messages([session]) == []


def test_a_file_with_notes_beside_every_message_is_refused() -> None:
    """They may be what the agent did: only of a request to a provider it is known that no model reads them."""
    says = [{"role": "user", "content": "paint the shed " * 40, "ran": "look at the shed"} for _ in range(9)]
    with pytest.raises(UnknownFormat, match=r"9 of 9 messages have .* the field 'ran'; 144 characters"):
        read_data(json.dumps(says).encode(), file="f")
