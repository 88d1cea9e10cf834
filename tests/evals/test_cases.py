"""Sessions as cases: legal cuts, the main path, real summaries, and what a model reads of a message."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tenfold.evals.cases import (
    Case,
    calls_in,
    cases,
    conversations,
    cuts_of,
    names_of,
    role_of,
    sizes_of,
    text_of_message,
    tokens_of,
)
from tests.evals.chats import calls, gives, says, step, user
from tests.sessions import FOLDER, ROOT, needed

EXAMPLES = sorted((ROOT / "examples" / "sessions").glob("*.json*"))


def open_calls(case: Case) -> set[str]:
    waiting: set[str] = set()
    for message in case.past:
        for call in message.get("tool_calls") or ():  # type: ignore[attr-defined]
            waiting.add(call["id"])
        waiting.discard(str(message.get("tool_call_id")))
    return waiting


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.name)
def test_a_cut_has_no_step_open_and_a_model_about_to_answer(path: Path) -> None:
    found = cases([path])
    assert [c.kind for c in found] == ["50%", "75%"]
    for case in found:
        assert open_calls(case) == set()
        assert role_of(case.future[0]) == "assistant"
        assert case.past + case.future == case.messages


def chat_file(folder: Path, messages: list[dict[str, object]]) -> Path:
    path = folder / "chat.json"
    path.write_text(json.dumps(messages))
    return path


def test_a_cut_is_moved_back_to_the_last_place_without_an_open_step(tmp_path: Path) -> None:
    both = calls("f", {}, id_="a")
    both["tool_calls"] += calls("f", {}, id_="b")["tool_calls"]  # type: ignore[operator]
    tail = [says("one"), user("go on"), says("two"), user("go on"), says("three")]
    messages = [user("go"), says("hello"), user("do both"), both, gives("1", id_="a"), gives("2", id_="b"), *tail]
    case = cases([chat_file(tmp_path, messages)])[0]
    assert len(messages) // 2 == 5, "half of the messages is inside the step"
    assert case.cut == 3


def test_a_session_too_short_for_a_future_gives_no_case(tmp_path: Path) -> None:
    assert cases([chat_file(tmp_path, [user("hi"), says("hello"), user("bye"), says("bye")])]) == []


def test_several_sessions_of_a_file_have_names_of_their_own() -> None:
    needed()
    names = [c.name for c in conversations(FOLDER / "openhands-events/sample.jsonl")]
    assert names == [f"sample.jsonl#{n}" for n in range(5)]


def test_files_that_are_called_alike_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    talk = [user("q"), *(m for n in range(20) for m in step("f", {"n": n}, "x", id_=f"c{n}"))]
    files = [tmp_path / name for name in ("a/api.json", "b/api.json", "c/a/chat.json", "d/a/chat.json", "one.json")]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(talk))
    names = ["a/api.json", "b/api.json", "c/a/chat.json", "d/a/chat.json", "one.json"]
    assert list(names_of(files).values()) == names
    assert list(dict.fromkeys(case.session for case in cases(files))) == names
    assert list(names_of(files[:1]).values()) == ["api.json"]


def test_real_compactions_are_cuts_with_their_summaries() -> None:
    needed()
    found = [c for c in cases([FOLDER / "pi/before-compaction.jsonl"]) if c.kind == "compaction"]
    assert [(c.cut, c.kept) for c in found] == [(350, 284), (611, 534)]
    for case in found:
        assert len(case.summary) > 1_000
        assert case.kept in {c.cut for c in cases_at(case)}, "kept from a place where no step is open"


def cases_at(case: Case) -> list[Case]:
    """Cases at every legal cut of the session."""
    conversation = conversations(FOLDER / "pi/before-compaction.jsonl")[0]
    return [Case(case.session, cut, "", case.messages) for cut in conversation.legal]


def test_a_cut_for_each_kind_once(tmp_path: Path) -> None:
    path = chat_file(tmp_path, [user("q"), *(m for n in range(20) for m in step("f", {"n": n}, "x", id_=f"c{n}"))])
    conversation = conversations(path)[0]
    assert [(c.cut, c.kind) for c in cuts_of(conversation)] == [(19, "50%"), (29, "75%")]


def test_a_message_is_read_with_its_calls_unescaped() -> None:
    message = calls("write", {"path": "a.py", "text": 'print("x")\nfoo()', "n": [1, None]}, id_="c")
    text = text_of_message({**message, "content": [{"type": "text", "text": "I write it."}]})
    assert text == 'I write it.\nwrite\npath: a.py\ntext: print("x")\nfoo()\nn: 1\nnull'
    assert text_of_message(calls("f", {}, id_="c")) == "f"
    assert next(iter(calls_in(message)))[0] == "write"


def test_arguments_that_are_no_json_are_read_raw() -> None:
    function = {"name": "f", "arguments": '{"broken": '}
    assert text_of_message({"role": "assistant", "tool_calls": [{"id": "1", "function": function}]}) == 'f\n{"broken": '


def test_tokens_are_counted_message_by_message() -> None:
    messages = [user("one two three"), *step("f", {"a": 1}, "result", id_="c")]
    assert tokens_of(messages) == sum(sizes_of(messages)) == sum(tokens_of([m]) for m in messages)
    assert tokens_of([user("word " * 1_000)]) > 1_000
