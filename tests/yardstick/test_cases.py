"""Sessions as cases: legal cuts, the main path, real summaries, and what a model reads of a message."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tenfold.testing.chats import count_message_tokens, count_total_tokens, get_role
from tenfold.testing.probes.chat_text import get_text, get_tool_calls
from tenfold_yardstick.cases import Case, find_cuts, list_cases, name_files, read_sessions
from tests.sessions import FOLDER, ROOT, require_sessions
from tests.yardstick.chats import make_call, make_reply, make_result, make_step, make_user_message

EXAMPLES = sorted((ROOT / "examples" / "sessions").glob("*.json*"))


def find_open_calls(case: Case) -> set[str]:
    waiting: set[str] = set()
    for message in case.past:
        for call in message.get("tool_calls") or ():  # type: ignore[attr-defined]
            waiting.add(call["id"])
        waiting.discard(str(message.get("tool_call_id")))
    return waiting


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.name)
def test_a_cut_has_no_step_open_and_a_model_about_to_answer(path: Path) -> None:
    found = list_cases([path])
    assert [c.kind for c in found] == ["50%", "75%"]
    for case in found:
        assert find_open_calls(case) == set()
        assert get_role(case.future[0]) == "assistant"
        assert case.past + case.future == case.messages


def write_chat(folder: Path, messages: list[dict[str, object]]) -> Path:
    path = folder / "chat.json"
    path.write_text(json.dumps(messages))
    return path


def test_a_cut_is_moved_back_to_the_last_place_without_an_open_step(tmp_path: Path) -> None:
    both = make_call("f", {}, id_="a")
    both["tool_calls"] += make_call("f", {}, id_="b")["tool_calls"]  # type: ignore[operator]
    tail = [
        make_reply("one"),
        make_user_message("go on"),
        make_reply("two"),
        make_user_message("go on"),
        make_reply("three"),
    ]
    messages = [
        make_user_message("go"),
        make_reply("hello"),
        make_user_message("do both"),
        both,
        make_result("1", id_="a"),
        make_result("2", id_="b"),
        *tail,
    ]
    case = list_cases([write_chat(tmp_path, messages)])[0]
    assert len(messages) // 2 == 5, "half of the messages is inside the step"
    assert case.cut == 3


def test_a_session_too_short_for_a_future_gives_no_case(tmp_path: Path) -> None:
    assert (
        list_cases(
            [
                write_chat(
                    tmp_path,
                    [make_user_message("hi"), make_reply("hello"), make_user_message("bye"), make_reply("bye")],
                )
            ]
        )
        == []
    )


def test_several_sessions_of_a_file_have_names_of_their_own() -> None:
    require_sessions()
    names = [c.name for c in read_sessions(FOLDER / "openhands-events/sample.jsonl")]
    assert names == [f"sample.jsonl#{n}" for n in range(5)]


def test_files_that_are_called_alike_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    talk = [make_user_message("q"), *(m for n in range(20) for m in make_step("f", {"n": n}, "x", id_=f"c{n}"))]
    files = [tmp_path / name for name in ("a/api.json", "b/api.json", "c/a/chat.json", "d/a/chat.json", "one.json")]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(talk))
    names = ["a/api.json", "b/api.json", "c/a/chat.json", "d/a/chat.json", "one.json"]
    assert list(name_files(files).values()) == names
    assert list(dict.fromkeys(case.session for case in list_cases(files))) == names
    assert list(name_files(files[:1]).values()) == ["api.json"]


def test_real_compactions_are_cuts_with_their_summaries() -> None:
    require_sessions()
    found = [c for c in list_cases([FOLDER / "pi/before-compaction.jsonl"]) if c.kind == "compaction"]
    assert [(c.cut, c.kept_from) for c in found] == [(350, 284), (611, 534)]
    for case in found:
        assert len(case.summary) > 1_000
        assert case.kept_from in {c.cut for c in make_cases(case)}, "kept from a place where no step is open"


def make_cases(case: Case) -> list[Case]:
    """Cases at every legal cut of the session."""
    conversation = read_sessions(FOLDER / "pi/before-compaction.jsonl")[0]
    return [Case(case.session, cut, "", case.messages) for cut in conversation.legal_cuts]


def test_a_cut_for_each_kind_once(tmp_path: Path) -> None:
    path = write_chat(
        tmp_path, [make_user_message("q"), *(m for n in range(20) for m in make_step("f", {"n": n}, "x", id_=f"c{n}"))]
    )
    conversation = read_sessions(path)[0]
    assert [(c.cut, c.kind) for c in find_cuts(conversation)] == [(19, "50%"), (29, "75%")]


def test_a_message_is_read_with_its_calls_unescaped() -> None:
    message = make_call("write", {"path": "a.py", "text": 'print("x")\nfoo()', "n": [1, None]}, id_="c")
    text = get_text({**message, "content": [{"type": "text", "text": "I write it."}]})
    assert text == 'I write it.\nwrite\npath: a.py\ntext: print("x")\nfoo()\nn: 1\nnull'
    assert get_text(make_call("f", {}, id_="c")) == "f"
    assert next(get_tool_calls(message))[1] == "write"


def test_arguments_that_are_no_json_are_read_raw() -> None:
    function = {"name": "f", "arguments": '{"broken": '}
    assert get_text({"role": "assistant", "tool_calls": [{"id": "1", "function": function}]}) == 'f\n{"broken": '


def test_tokens_are_counted_message_by_message() -> None:
    messages = [make_user_message("one two three"), *make_step("f", {"a": 1}, "result", id_="c")]
    assert (
        count_total_tokens(messages)
        == sum(count_message_tokens(messages))
        == sum(count_total_tokens([m]) for m in messages)
    )
    assert count_total_tokens([make_user_message("word " * 1_000)]) > 1_000
