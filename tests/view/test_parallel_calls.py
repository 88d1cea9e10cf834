"""Parallel calls that a client records as one assistant message after the other keep their results."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from tenfold import validate
from tenfold.core.record.entry import MessageEntry
from tenfold.core.record.message import Message, Text, get_text, get_tool_calls, get_tool_result
from tenfold.core.view.fold import View
from tenfold.core.view.path import Path as LogPath
from tenfold.core.view.units import LATE_RESULT, NO_RESULT
from tenfold.core.wire import WIRES
from tests.sessions import list_session_files, read

ASK = {"role": "user", "content": "Look at all of them."}
CALLS = ("a", "b", "c")
LATE = LATE_RESULT.partition("{")[0]


def call(id_: str) -> dict[str, Any]:
    function = {"name": "look", "arguments": json.dumps({"path": id_})}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": id_, "type": "function", "function": function}]}


def answer(id_: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id_, "content": f"result {id_}"}


def show(items: list[dict[str, Any]]) -> list[Message]:
    messages = WIRES["openai-chat"].decode([json.dumps(item).encode() for item in items])
    entries = [
        MessageEntry(f"e{at}", f"e{at - 1}" if at else None, "", None, message) for at, message in enumerate(messages)
    ]
    view = View.from_path(LogPath(entries))
    return [shown.message for shown in view.get_visible_messages()]


@pytest.mark.parametrize("order", list(permutations(CALLS)), ids="".join)
def test_each_call_keeps_its_result_in_whatever_order_they_come(order: tuple[str, ...]) -> None:
    shown = show([ASK, *map(call, CALLS), *map(answer, order), {"role": "assistant", "content": "Done."}])
    sent = [json.loads(item.raw) for item in WIRES["openai-chat"].encode(shown).items]
    assert sent == [ASK, *(each for id_ in CALLS for each in (call(id_), answer(id_))), sent[-1]]
    assert validate(sent, "openai-chat") == []


@pytest.mark.parametrize("known", range(len(CALLS) + 1))
def test_whatever_came_so_far_is_a_list_that_providers_take(known: int) -> None:
    shown = show([ASK, *map(call, CALLS), *map(answer, CALLS[::-1][:known])])
    assert [get_text(each) for each in shown if get_tool_result(each) is not None].count(NO_RESULT) == min(
        len(CALLS) - known, len(CALLS) - 1
    )
    assert validate([json.loads(item.raw) for item in WIRES["openai-chat"].encode(shown).items], "openai-chat") == []


def test_a_result_that_never_comes_does_not_take_the_next_step_in() -> None:
    shown = show([ASK, call("a"), call("b"), answer("b"), call("c"), answer("c")])
    texts = [get_text(each) for each in shown if get_tool_result(each) is not None]
    assert texts == [NO_RESULT, "result b", "result c"]


def test_an_answer_without_a_call_ends_the_step() -> None:
    shown = show([ASK, call("a"), {"role": "assistant", "content": "Never mind."}, call("b"), answer("b")])
    assert [get_text(each) for each in shown if get_tool_result(each) is not None] == [NO_RESULT, "result b"]


@pytest.mark.parametrize("path", list_session_files(), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_recorded_result_is_missing_from_its_view(path: Path) -> None:
    if not path.is_file():
        pytest.skip("the recorded sessions are not here")
    for session in read(path):
        view = View.from_path(LogPath(session.entries))
        shown = [each.message for each in view.get_visible_messages()]
        missing = {
            result.call_id
            for message in shown
            if (result := get_tool_result(message)) is not None and result.content == (Text(NO_RESULT),)
        }
        late = [text for message in shown if (text := get_text(message)).startswith(LATE)]
        assert not late, late[0][:80]
        recorded = {
            result.call_id
            for _, message in view.path.list_messages()
            if (result := get_tool_result(message)) is not None
        }
        assert not missing & recorded
        assert missing <= {each.id for message in shown for each in get_tool_calls(message)}
