"""Bad input: every message says what is wrong, where, and what to do next; what can be skipped loses nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tenfold.core.record.entry import CustomEntry, MessageEntry, get_message
from tenfold.core.record.message import get_text, get_tool_result
from tenfold.errors import BadInput, DamagedLine, UnknownFormat, UnknownRole
from tenfold.formats import FORMATS, ParsedSession, read_data, read_file, render_sessions
from tests.formats.made import CLAUDE, CODEX_NEW, FILES, PI_1, PI_3, SWE_0, TAU2, render_lines

LINED = (
    *("pi-1", "pi-2", "pi-3", "pi-stream", "claude", "codex-new", "codex-old", "chat-lines", "events"),
    *(
        "langchain-lines",
        "vercel-chats",
        "strands",
        "adk-lines",
        "claude-stream",
        "codex-stream",
        "gemini-stream",
        "fine-tuning",
    ),
    *("qwen", "kimi", "kimi-code", "copilot", "goose", "goose-bare"),
)
NO_JSON = ("aider",)
NO_ROLES = ("openhands-events", "codex-stream", "copilot-cli", "aider")
ROLE_SWAPS: dict[str, tuple[bytes, bytes]] = {
    "gemini-session": (b'"type": "user"', b'"type": "oracle"'),
    "langchain": (b'"type": "human"', b'"type": "oracle"'),
    "langchain-lc": (b'"HumanMessage"', b'"oracleMessage"'),
    "sharegpt": (b'"from": "human"', b'"from": "oracle"'),
    "atif": (b'"source": "user"', b'"source": "oracle"'),
    "agents-state": (b'"role": "assistant"', b'"role": "oracle"'),
    "pydantic-ai": (b'"kind": "request"', b'"kind": "oracle"'),
}
"""Where the role of a user stands, by the file's name or its format, if it is no field `role`."""
WHOLE = tuple(name for name in FILES if name not in (*LINED, *NO_JSON))


def rebuild_file(recorded: list[ParsedSession]) -> bytes:
    """The file that the sessions came from."""
    return render_sessions([(r.info, r.entries) for r in recorded])


@pytest.mark.parametrize("data", [b"", b"\n", b"\xef\xbb\xbf \r\n"])
@pytest.mark.parametrize("form", [None, *FORMATS])
def test_an_empty_file_is_called_empty(data: bytes, form: str | None) -> None:
    with pytest.raises(BadInput, match=r"f\.json: the file is empty"):
        read_data(data, file="f.json", format=form)


def test_a_missing_file_names_its_path(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"absent\.json: No such file"):
        read_file(tmp_path / "absent.json")


@pytest.mark.parametrize("data", [b"hello", b'{"a": 1}', b"[1, 2]", b"\x00\x01", b'{"x": 1}\n{"y": 2}\n', b"[]"])
def test_an_unknown_format_names_the_known_ones(data: bytes) -> None:
    with pytest.raises(UnknownFormat, match="--format with one of pi, claude-code, codex, swe-agent"):
        read_data(data, file="f")


def test_an_unknown_format_name_is_refused() -> None:
    with pytest.raises(UnknownFormat, match="no format is called 'word'; there are pi, "):
        read_data(PI_1, file="f", format="word")


@pytest.mark.parametrize("name", list(FILES))
def test_the_wrong_format_flag_is_told_the_right_one(name: str) -> None:
    form, data = FILES[name]
    for wrong in {"pi", "swe-agent", "tau2", "openhands-events", "claude-code", "codex"} - {form}:
        with pytest.raises(BadInput, match=f"looks like {form}; pass --format {form}"):
            read_data(data, file="f", format=wrong)


@pytest.mark.parametrize("name", list(FILES))
def test_invalid_utf8_is_reported_with_its_offset(name: str) -> None:
    data = FILES[name][1]
    place = len(data) * 2 // 3
    place = data.index(b"e", place)
    broken = data[:place] + b"\xff" + data[place + 1 :]
    with pytest.raises(BadInput, match=rf"byte {place} .*0xff.* is not UTF-8"):
        read_data(broken, file="f")


@pytest.mark.parametrize("name", LINED)
@pytest.mark.parametrize("cut", [5, 30, 1])
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_last_line_that_is_not_complete_is_left_out_and_said_so(name: str, cut: int, end: bytes) -> None:
    data = FILES[name][1].rstrip(b"\n")[:-cut] + end
    number = data.rstrip(b"\n").count(b"\n") + 1
    found = read_data(data, file="f")
    problems = [problem for r in found for problem in r.problems]
    assert problems == [f"line {number} is not complete, so the file is read up to there"]
    assert rebuild_file(found) == data
    if len(found) == 1 and found[0].info.format != "openhands-events":
        form = FORMATS[found[0].info.format]
        whole = form.render_file(form.without_damaged(found[0].info), found[0].entries)
        assert whole.rstrip() == data[: data.rstrip().rindex(b"\n")].rstrip()


def test_a_character_cut_in_two_is_a_line_that_is_not_complete() -> None:
    data = PI_1 + '{"type": "message", "message": {"role": "user", "content": "é'.encode()[:-1]
    (found,) = read_data(data, file="f")
    assert len(found.problems) == 1
    assert rebuild_file([found]) == data


def test_a_file_of_one_cut_line_is_damaged() -> None:
    with pytest.raises(DamagedLine, match=r"line 1, .*probably cut off"):
        read_data(PI_1[:40], file="f", format="pi")


@pytest.mark.parametrize("gap", [b"", b" ", b"\t "])
@pytest.mark.parametrize("name", ["pi-1", "pi-3", "claude", "codex-new", "codex-old", "chat-lines"])
def test_objects_on_one_line_are_as_many(name: str, gap: bytes) -> None:
    data = FILES[name][1]
    head, *rest = data.rstrip(b"\n").split(b"\n")
    joined = head + b"\n" + gap.join(rest) + b"\n"
    expected, found = read_data(data, file="f"), read_data(joined, file="f")
    assert [[get_message(e) and get_message(e).parts for e in r.entries] for r in found] == [  # type: ignore[union-attr]
        [get_message(e) and get_message(e).parts for e in r.entries]  # type: ignore[union-attr]
        for r in expected
    ]
    assert rebuild_file(found) == joined


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("named", [True, False])
def test_a_truncated_document_is_reported_with_its_line(name: str, *, named: bool) -> None:
    data = FILES[name][1].rstrip()[:-1].rstrip()
    last = data.count(b"\n") + 1
    with pytest.raises(DamagedLine, match=rf"line {last}, .*cut off.*export or copy it again"):
        read_data(data, file="f", format=FILES[name][0] if named else None)


def test_a_damaged_line_in_the_middle_of_a_tree_is_bridged() -> None:
    broken = PI_3.replace(b'{"id": "e"', b'{"id: "e"')
    with pytest.raises(DamagedLine, match="line 6, column") as caught:
        read_data(broken, file="f")
    assert caught.value.line == 6
    found = read_data(broken, file="f", skip_damaged=True)[0]
    assert rebuild_file([found]) == broken
    path, parents = [found.entries[-1].id], {e.id: e.parent for e in found.entries}
    while (before := parents[path[-1]]) is not None:
        path.append(before)
    assert len(path) == len(found.entries) - 1, "all but the left branch lie on the path to the end"
    assert len(found.problems) == 2
    assert "damaged" in [e.kind for e in found.entries if isinstance(e, CustomEntry)]


@pytest.mark.parametrize("name", list(FILES))
def test_an_unknown_role_is_an_error_that_names_it(name: str) -> None:
    form, data = FILES[name]
    if form in NO_ROLES:
        return
    old, new = ROLE_SWAPS.get(name) or ROLE_SWAPS.get(form, (b'"role": "user"', b'"role": "oracle"'))
    assert old in data
    with pytest.raises(UnknownRole, match="'oracle'"):
        read_data(data.replace(old, new), file="f", format=form)


@pytest.mark.parametrize("data", [PI_1, CLAUDE, CODEX_NEW])
def test_a_line_with_an_unknown_role_can_be_skipped(data: bytes) -> None:
    broken = data.replace(b'"role": "user"', b'"role": "oracle"', 1)
    found = read_data(broken, file="f", skip_damaged=True)
    assert any("'oracle'" in problem for r in found for problem in r.problems)
    assert rebuild_file(found) == broken


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("gemini-session", b'"id": "3"', b'"id": "2"'),
        ("events", b'"id": 4', b'"id": 3'),
        ("cline", b'"version": 1', b'"version": 2'),
    ],
)
def test_an_id_used_twice_is_an_error(name: str, old: bytes, new: bytes) -> None:
    data = FILES[name][1].replace(old, new)
    if name == "cline":
        data = data.replace(b'"role": "assistant",', b'"role": "assistant", "id": "m0",', 1)
    with pytest.raises(BadInput, match="was already used"):
        read_data(data, file="f")


@pytest.mark.parametrize(
    ("data", "old", "new"),
    [(PI_3, b'"parentId": "a"', b'"parentId": "f"'), (CLAUDE, b'"parentUuid": "a"', b'"parentUuid": "e"')],
)
def test_a_cycle_in_parent_ids_is_an_error(data: bytes, old: bytes, new: bytes) -> None:
    broken = data.replace(old, new)
    with pytest.raises(BadInput, match=r"line 3: .*a cycle"):
        read_data(broken, file="f")
    found = read_data(broken, file="f", skip_damaged=True)
    assert rebuild_file(found) == broken
    assert any("cycle" in problem for problem in found[0].problems)


def test_an_unknown_parent_is_an_error_in_pi_and_bridged_in_claude_code() -> None:
    with pytest.raises(DamagedLine, match="line 4: the parent 'x' is not in the file"):
        read_data(PI_3.replace(b'"parentId": "b", "timestamp"', b'"parentId": "x", "timestamp"', 1), file="f")
    found = read_data(CLAUDE.replace(b'"parentUuid": "e"', b'"parentUuid": "x"'), file="f")[0]
    assert found.problems == ("line 10: the parent 'x' is not in the file; hung on the line before",)


@pytest.mark.parametrize("data", [PI_3, CLAUDE])
def test_children_before_their_parents_are_put_in_order_and_written_back_as_they_were(data: bytes) -> None:
    header, *rest = data.splitlines(keepends=True)
    turned = header + b"".join(reversed(rest))
    found = read_data(turned, file="f")
    assert rebuild_file(found) == turned
    for recorded in found:
        places = {e.id: n for n, e in enumerate(recorded.entries)}
        assert all(e.parent is None or places[e.parent] < places[e.id] for e in recorded.entries)


def test_results_before_their_calls_are_kept_as_they_stand() -> None:
    first, *rest = PI_1.splitlines(keepends=True)
    turned = first + b"".join([rest[2], rest[1], *rest[3:], rest[0]])
    found = read_data(turned, file="f")[0]
    message = get_message(found.entries[0])
    assert message is not None
    assert get_tool_result(message) is not None
    assert rebuild_file([found]) == turned


def test_a_message_of_no_length_and_one_of_fifty_megabytes() -> None:
    big = "x" * 50_000_000
    data = render_lines(
        {"type": "session", "id": "s", "cwd": "/w"},
        {"type": "message", "message": {"role": "user", "content": ""}},
        {
            "type": "message",
            "message": {"role": "toolResult", "toolCallId": "c", "content": [{"type": "text", "text": big}]},
        },
    )
    found = read_data(data, file="f")[0]
    texts = [get_text(m) for e in found.entries if (m := get_message(e)) is not None]
    assert texts == ["", big]
    assert rebuild_file([found]) == data


def test_half_a_surrogate_pair_can_be_stored_and_is_written_back() -> None:
    data = PI_1.replace(b"paint the shed", b"paint \\ud83d the \\ud83d\\ude00 shed")
    found = read_data(data, file="f")[0]
    message = get_message(found.entries[0])
    assert message is not None
    assert get_text(message).encode("utf-8").decode() == "paint \ufffd the \U0001f600 shed"
    assert rebuild_file([found]) == data


@pytest.mark.parametrize(
    "data",
    [
        b'{"type": "session", "cwd": "/"}\n' + b"[" * 100_000 + b"]" * 100_000 + b"\n",
        b'{"trajectory": [], "history": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_json_that_is_nested_too_deeply_is_damage_not_a_crash(data: bytes) -> None:
    form = "pi" if b"cwd" in data else "swe-agent"
    with pytest.raises(BadInput, match=r"is not a JSON object|is '\[\[\[.*, not an object"):
        read_data(data, file="f", format=form)


@pytest.mark.parametrize("data", [SWE_0, TAU2])
def test_an_element_that_is_no_object_is_named(data: bytes) -> None:
    value = json.loads(data)
    (value["history"] if "history" in value else value["simulations"][0]["messages"]).insert(1, 7)
    with pytest.raises(BadInput, match=r"element 1 .* is '7', not an object"):
        read_data(json.dumps(value).encode(), file="f")


def test_unknown_entries_and_parts_are_kept() -> None:
    data = PI_1 + render_lines(
        {"type": "dream", "of": "sheep"},
        {"type": "message", "message": {"role": "assistant", "content": [{"type": "hologram", "data": 1}, 5]}},
    )
    found = read_data(data, file="f")[0]
    assert [e.kind for e in found.entries if isinstance(e, CustomEntry)] == ["compaction", "dream"]
    last = found.entries[-1]
    assert isinstance(last, MessageEntry)
    assert [p.kind for p in last.message.parts if hasattr(p, "kind")] == ["hologram", "unknown"]
    assert rebuild_file([found]) == data
