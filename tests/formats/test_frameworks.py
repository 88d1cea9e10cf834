"""Files of chat programs and agent frameworks: whose words are whose, which tool said what, and no text is lost."""

from __future__ import annotations

import json

import pytest

from tenfold.core.record.entry import CustomEntry, MessageEntry, get_message
from tenfold.core.record.message import Message, get_text, get_tool_calls, get_tool_result
from tenfold.core.wire.unread_text import find_unread_items
from tenfold.formats import ParsedSession, read_data
from tests.formats.made import ASKED, FILES, SEEN

USUAL = ([ASKED], ["look"], [("look", SEEN, False)])
MEANINGS: dict[str, tuple[list[str], list[str], list[tuple[str, str, bool]]]] = {
    "chatgpt": ([ASKED, "What is this?"], ["browser"], [("browser", "The shed was painted green.", False)]),
    "langchain": USUAL,
    "vercel-ui": (
        [ASKED, "And the door?"],
        ["look", "smell"],
        [("look", '{"colour": "green and dry"}', False), ("smell", "no nose here", True)],
    ),
    "vercel-model": (
        [ASKED],
        ["look", "look"],
        [("look", '{"colour": "green and dry"}', False), ("look", "no such shed", True)],
    ),
    "bedrock-converse": (
        [ASKED, "Hurry up, please."],
        ["look", "look"],
        [("look", '{"colour": "green and dry"}', False), ("look", "no such shed", True)],
    ),
    "pydantic-ai": USUAL,
    **dict.fromkeys(
        (
            "adk",
            "openai-agents",
            "qwen-code",
            "kimi",
            "kimi-code",
            "goose",
            "atif",
            "mini-swe-agent",
            "copilot-cli",
            "continue",
        ),
        USUAL,
    ),
    "claude-stream": ([ASKED, "Look at the shed."], *USUAL[1:]),
    "gemini-stream": ([ASKED], ["look", "paint"], [("look", SEEN, False), ("paint", "no such paint", True)]),
    "codex-stream": ([], ["shell", "paint__find"], [("shell", SEEN, False), ("paint__find", "no such paint", True)]),
    "sharegpt": ([ASKED, ASKED], *USUAL[1:]),
    "aider": ([f"{ASKED}\nSay it in few words.", "Paint it.", "Is it dry?"], [], []),
}
"""By format: what a person said, which tools were called, and what each result says."""
PARTIAL = {
    "chatgpt-one": ([ASKED], *MEANINGS["chatgpt"][1:]),
    "vercel-chats": ([ASKED, "And the door?", ASKED], *MEANINGS["vercel-ui"][1:]),
    "vercel-old": USUAL,
    "sharegpt-lines": USUAL,
    "pi-stream": USUAL,
    "fine-tuning": ([ASKED] * 3, ["look"] * 2, [("look", SEEN, False)] * 2),
}
"""The same for files that hold something else than others of their format."""
READ_FILES = {name: file for name, file in FILES.items() if name in PARTIAL or file[0] in MEANINGS}


def list_messages(sessions: list[ParsedSession]) -> list[Message]:
    return [message for s in sessions for e in s.entries if (message := get_message(e)) is not None]


@pytest.mark.parametrize("name", list(READ_FILES))
def test_words_keep_their_origin_and_results_their_calls(name: str) -> None:
    format_, data = READ_FILES[name]
    human, calls, results = PARTIAL.get(name) or MEANINGS[format_]
    messages = list_messages(read_data(data, file="f"))
    assert [get_text(m) for m in messages if m.origin == "human"] == human
    assert [call.name for m in messages for call in get_tool_calls(m)] == calls
    found = [(r, get_text(m)) for m in messages if (r := get_tool_result(m)) is not None]
    assert [(result.name, text, result.is_error) for result, text in found] == results
    called = {call.id for m in messages for call in get_tool_calls(m)}
    assert {result.call_id for result, _ in found} == called


@pytest.mark.parametrize("name", list(READ_FILES))
def test_no_text_of_the_messages_is_lost(name: str) -> None:
    unread = find_unread_items(list_messages(read_data(READ_FILES[name][1], file="f")), "")
    assert [each.chars for each in unread if each.chars] == []


def test_a_conversation_goes_on_from_the_current_node() -> None:
    first, second = read_data(FILES["chatgpt"][1], file="f")
    assert (first.info.id, first.info.title, second.info.id) == ("chat-1", "The shed", "chat-2")
    assert get_text(list_messages([first])[-1]) == "The shed is green."
    sources = [entry.source_id for entry in first.entries if hasattr(entry, "source_id")]
    parents = {e.id: e.parent for e in first.entries}
    assert sources[-1] == "d"
    left = next(e for e in first.entries if getattr(e, "source_id", "") == "x")
    assert parents[left.id] == next(e.id for e in first.entries if getattr(e, "source_id", "") == "a")


def test_the_pieces_of_an_answer_are_one_text() -> None:
    messages = list_messages(read_data(FILES["gemini-stream"][1], file="f"))
    answers = [get_text(message) for message in messages if message.role == "assistant"]
    assert answers == ["I will look.", "The shed is green."]


def test_what_a_run_of_mini_swe_agent_was_told_by_its_program_is_not_the_users_and_its_end_is_no_message() -> None:
    (session,) = read_data(FILES["mini-tools.traj"][1], file="f")
    entries = [entry for entry in session.entries if isinstance(entry, MessageEntry)]
    assert [entry.message.origin for entry in entries] == ["harness", "human", "model", "tool", "tool", "model"]
    assert [entry.usage.prompt for entry in entries if entry.usage] == [851, 1702]
    last = session.entries[-1]
    assert isinstance(last, CustomEntry)
    assert last.kind == "exit"


def test_the_usage_of_copilot_cli_is_that_of_the_answer_behind_it_and_a_skill_is_not_the_users() -> None:
    (session,) = read_data(FILES["copilot"][1], file="f")
    entries = [entry for entry in session.entries if isinstance(entry, MessageEntry)]
    assert [entry.message.origin for entry in entries] == ["human", "harness", "model", "tool", "model"]
    assert [entry.usage.prompt if entry.usage else 0 for entry in entries] == [0, 0, 11_997, 0, 0]


def test_a_helper_of_copilot_cli_is_a_session_of_its_own() -> None:
    start, *_, said, _, ended = FILES["copilot"][1].splitlines(keepends=True)
    helped = said.replace(b'"content"', b'"parentToolCallId": "c9", "content"')
    main, helper = read_data(start + said + helped + ended, file="cop-1/events.jsonl")
    assert (main.info.id, helper.info.parent) == ("cop-1", "cop-1")
    assert (len(list_messages([main])), len(list_messages([helper]))) == (1, 1)


def test_what_was_attached_in_continue_is_not_the_users_and_its_thinking_is_the_models() -> None:
    (session,) = read_data(FILES["continue-session"][1], file="f")
    messages = list_messages([session])
    assert [message.origin for message in messages] == ["harness", "human", "model", "model", "tool", "model"]
    assert [entry.usage.prompt for entry in session.entries if isinstance(entry, MessageEntry) and entry.usage] == [
        1884
    ]


@pytest.mark.parametrize("value", [1.5, 0, True, "green", ["green"], {"colour": "green"}])
def test_a_tool_of_bedrock_may_return_any_json_value(value: object) -> None:
    use = {"toolUse": {"toolUseId": "c1", "name": "look", "input": {}}}
    result = {"toolResult": {"toolUseId": "c1", "content": [{"json": value}]}}
    says = [{"role": "user", "content": [{"text": ASKED}]}, {"role": "assistant", "content": [use]}]
    data = json.dumps([*says, {"role": "user", "content": [result]}]).encode()
    assert get_text(list_messages(read_data(data, file="f"))[-1]) in (json.dumps(value), "green")
