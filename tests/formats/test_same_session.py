"""A file that is read again is the same session: unchanged, grown, cut short, moved, or written with other spaces."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from tenfold.apps.cli.main import app
from tenfold.config.settings import build_policy
from tenfold.core.meter.counters import CharacterCounter
from tenfold.core.record.entry import get_message
from tenfold.core.record.message import get_text
from tenfold.errors import BadInput
from tenfold.formats import read_data
from tenfold.formats.importer import import_sessions
from tenfold.session import Session, SessionAddress
from tenfold.store.base import DEFAULT_NAMESPACE, SessionRow
from tenfold.store.sqlite.store import SqliteStore
from tests import sessions
from tests.formats.made import FILES

COUNTER = CharacterCounter()
LISTS = ("messages", "history", "contents", "input")
Chat = list[dict[str, Any]]
PROMPT: Chat = [
    {"role": "system", "content": "You repair sheds."},
    {"role": "user", "content": "Mend the roof of the shed."},
]


def make_run(name: str, steps: int = 4) -> Chat:
    """A conversation that begins with the same prompt as every other, and then goes its own way."""
    out = list(PROMPT)
    for step in range(steps):
        out.append({"role": "assistant", "content": f"{name}: step {step} is done."})
        out.append({"role": "user", "content": f"{name}: go on after step {step}."})
    return out


def as_anthropic(chat: Chat) -> bytes:
    return json.dumps([m for m in chat if m["role"] != "system"]).encode()


def as_chat(chat: Chat) -> bytes:
    return json.dumps(chat).encode()


def as_request(chat: Chat) -> bytes:
    return json.dumps({"messages": chat, "kwargs": {}, "response": {"model": "m"}}).encode()


def as_gemini(chat: Chat) -> bytes:
    roles = {"assistant": "model"}
    contents = [{"role": roles.get(m["role"], "user"), "parts": [{"text": m["content"]}]} for m in chat]
    return json.dumps(contents[1:]).encode()


def as_trajectory(chat: Chat) -> bytes:
    return json.dumps({"trajectory": [], "history": chat, "info": {}}).encode()


def as_responses(chat: Chat) -> bytes:
    kinds = {"assistant": "output_text"}
    return json.dumps(
        [
            {
                "type": "message",
                "role": m["role"],
                "content": [{"type": kinds.get(m["role"], "input_text"), "text": m["content"]}],
            }
            for m in chat
        ]
    ).encode()


def as_events(chat: Chat) -> bytes:
    """The log of an evaluation, where several runs of one task have the same instance id."""
    events = [
        {
            "id": at,
            "source": "agent" if m["role"] == "assistant" else "user",
            "action": "system" if m["role"] == "system" else "message",
            "args": {"content": m["content"]},
            "timestamp": "2030-01-02T03:04:05",
        }
        for at, m in enumerate(chat)
    ]
    return json.dumps({"instance_id": "shed-1", "history": events}).encode() + b"\n"


WITHOUT_ID: dict[str, Callable[[Chat], bytes]] = {
    "openai-chat": as_chat,
    "openai-responses": as_responses,
    "anthropic": as_anthropic,
    "gemini-cli": as_gemini,
    "openhands-requests": as_request,
    "openhands-events": as_events,
    "swe-agent": as_trajectory,
}
without_id = pytest.mark.parametrize("render", WITHOUT_ID.values(), ids=WITHOUT_ID)


def read_in(store: SqliteStore, data: bytes, file: str = "log.json") -> list[str]:
    return import_sessions(read_data(data, file=file), store, DEFAULT_NAMESPACE, COUNTER)


def count_entries(store: SqliteStore) -> dict[str, int]:
    return {row.info.id: row.entry_count for row in store.list_sessions(DEFAULT_NAMESPACE)}


def list_path(store: SqliteStore, session: str) -> list[str]:
    """The texts of the messages from the root to the leaf of the session, without spaces: results may be JSON."""
    path = Session(SessionAddress(store, session), build_policy("tenfold", COUNTER)).view.path
    found = [get_message(e) for e in path.get_entries(0, path.length - 1)] if path.length else []
    return ["".join(get_text(m).split()) for m in found if m is not None]


def get_row(store: SqliteStore, session: str) -> SessionRow:
    return next(row for row in store.list_sessions(DEFAULT_NAMESPACE) if row.info.id == session)


def cut_lists(value: object) -> object:
    """A document with half of each list of messages, as another program would write it."""
    if not isinstance(value, dict):
        return value[: (len(value) + 1) // 2] if isinstance(value, list) else value
    out = dict(value)
    for key in LISTS:
        if isinstance(out.get(key), list):
            return out | {key: cut_lists(out[key])}
    if isinstance(out.get("simulations"), list):
        out["simulations"] = [cut_lists(each) for each in out["simulations"]]
    return out


def cut_half(data: bytes) -> bytes:
    """A copy of a session file with the first half of it: of its lines, or of the messages in its lists."""
    lines = data.decode("utf-8-sig").splitlines()
    try:
        value = json.loads(data.removeprefix(b"\xef\xbb\xbf"))
    except ValueError:
        parsed = [json.loads(line) for line in lines if line.strip()] if data.startswith(b"{") else [None]
        if all(isinstance(v, dict) and "history" in v for v in parsed):
            return b"".join(json.dumps(cut_lists(v), ensure_ascii=False).encode() + b"\n" for v in parsed)
        return "\n".join(lines[: (len(lines) + 1) // 2]).encode() + b"\n"
    return json.dumps(cut_lists(value), ensure_ascii=False).encode()


# -- every recorded file -----------------------------------------------------------------------------------------------


def test_a_file_read_again_adds_nothing(session_file: Path) -> None:
    found, store = sessions.read(session_file), SqliteStore(":memory:")
    moved = [replace(each, info=replace(each.info, file="/elsewhere/file")) for each in found]
    first = import_sessions(found, store, DEFAULT_NAMESPACE, COUNTER)
    before = count_entries(store)
    assert len(set(first)) == len(found) == len(before)
    assert import_sessions(found, store, DEFAULT_NAMESPACE, COUNTER) == first
    assert import_sessions(moved, store, DEFAULT_NAMESPACE, COUNTER) == first
    assert count_entries(store) == before


@pytest.mark.costly(2)
def test_half_a_file_and_then_the_whole_is_one_session(session_file: Path) -> None:
    data, store, whole = session_file.read_bytes(), SqliteStore(":memory:"), SqliteStore(":memory:")
    half = cut_half(data)
    first = read_in(store, half, "half.json")
    assert set(first) == set(count_entries(store))
    alone = read_in(whole, data)
    again = read_in(store, data, "whole.json")
    assert set(first) <= set(again)
    assert len(count_entries(store)) == len(again) == len(alone)
    if sessions.read(session_file)[0].info.format != "tau2":  # 114 of one kind: a few of them say enough
        assert [list_path(store, each) for each in again] == [list_path(whole, each) for each in alone]
    older = read_in(store, half, "half.json")
    if sessions.read(session_file)[0].info.format != "tau2":
        assert [list_path(store, each) for each in older] == [list_path(whole, each) for each in read_in(whole, half)]
    before = count_entries(store)
    assert read_in(store, half, "half.json") == older
    assert read_in(store, data, "whole.json") == again
    assert count_entries(store) == before


@pytest.mark.parametrize("name", FILES)
def test_a_made_file_read_again_adds_nothing(name: str) -> None:
    data, store = FILES[name][1], SqliteStore(":memory:")
    first = read_in(store, data, "a")
    before = count_entries(store)
    assert len(set(first)) == len(read_data(data, file="a")) == len(before)
    assert read_in(store, data, "b") == first
    assert count_entries(store) == before


@pytest.mark.parametrize("name", FILES)
def test_half_a_made_file_and_then_the_whole_is_one_session(name: str) -> None:
    data, store, whole = FILES[name][1], SqliteStore(":memory:"), SqliteStore(":memory:")
    try:
        half = read_data(cut_half(data), file="a", format=FILES[name][0])
    except BadInput:
        return
    first = import_sessions(half, store, DEFAULT_NAMESPACE, COUNTER)
    again = read_in(store, data, "b")
    assert set(first) <= set(again)
    assert list_path(store, again[0]) == list_path(whole, read_in(whole, data)[0])
    before = count_entries(store)
    assert read_in(store, data, "b") == again
    assert count_entries(store) == before


# -- formats that give a session no id ---------------------------------------------------------------------------------


@without_id
def test_two_runs_with_the_same_prompt_stay_two_sessions(render: Callable[[Chat], bytes]) -> None:
    store = SqliteStore(":memory:")
    (one,) = read_in(store, render(make_run("one")), "one.json")
    (two,) = read_in(store, render(make_run("two")), "two.json")
    assert one != two
    assert read_in(store, render(make_run("two", 6)), "two.json") == [two]
    assert read_in(store, render(make_run("one", 6)), "other/one.json") == [one]
    assert len(count_entries(store)) == 2
    assert list_path(store, one)[-1] == "one:goonafterstep5."
    assert list_path(store, two)[-1] == "two:goonafterstep5."


@without_id
def test_two_runs_written_to_one_file_name_stay_two_sessions(render: Callable[[Chat], bytes]) -> None:
    store = SqliteStore(":memory:")
    ids = [read_in(store, render(make_run(name)))[0] for name in ("one", "two", "one")]
    assert ids[0] == ids[2] != ids[1]


@without_id
def test_a_run_grows_on_from_its_prompt_alone(render: Callable[[Chat], bytes]) -> None:
    store = SqliteStore(":memory:")
    ids = {read_in(store, render(make_run("one", steps)), f"{steps}.json")[0] for steps in (0, 1, 2, 5)}
    assert len(ids) == 1
    (other,) = read_in(store, render(make_run("two")))
    assert other not in ids
    assert sorted(count_entries(store).values()) == [len(list_path(store, other)), len(list_path(store, ids.pop()))]


@without_id
def test_a_changed_end_in_the_same_file_is_a_branch(render: Callable[[Chat], bytes]) -> None:
    store = SqliteStore(":memory:")
    chat = make_run("one")
    (first,) = read_in(store, render(chat))
    changed = [*chat[:-2], {"role": "assistant", "content": "I stop here."}]
    assert read_in(store, render(changed)) == [first]
    assert list_path(store, first)[-1] == "Istophere."
    before = count_entries(store)
    assert read_in(store, render(chat)) == read_in(store, render(changed)) == [first]
    assert count_entries(store) == before


@without_id
def test_a_changed_end_in_another_file_is_a_session_of_its_own(render: Callable[[Chat], bytes]) -> None:
    store = SqliteStore(":memory:")
    chat = make_run("one")
    (first,) = read_in(store, render(chat), "a.json")
    (second,) = read_in(store, render([*chat[:-2], {"role": "assistant", "content": "I stop here."}]), "b.json")
    assert first != second
    assert list_path(store, first)[-1] == "one:goonafterstep3."


@without_id
def test_spaces_and_key_order_do_not_count(render: Callable[[Chat], bytes]) -> None:
    data, store = render(make_run("one")), SqliteStore(":memory:")
    first = read_in(store, data, "a.json")
    before = count_entries(store)
    value = json.loads(data)
    assert read_in(store, json.dumps(value, indent=1, sort_keys=True).encode(), "b.json") == first
    assert read_in(store, json.dumps(value, separators=(",", ":")).encode(), "c.json") == first
    assert count_entries(store) == before


def test_a_system_prompt_alone_is_no_older_copy_of_every_run() -> None:
    store = SqliteStore(":memory:")
    (run,) = read_in(store, as_trajectory(make_run("one")), "a.traj")
    (prompt,) = read_in(store, as_trajectory(PROMPT[:1]), "b.traj")
    assert prompt != run
    assert read_in(store, as_trajectory(PROMPT[:1]), "c.traj") == [prompt]
    assert read_in(store, as_trajectory(make_run("two")), "b.traj") == [prompt]


def test_lists_and_lines_of_messages_are_not_mixed() -> None:
    store = SqliteStore(":memory:")
    chat = make_run("one")
    lines = b"".join(json.dumps(m).encode() + b"\n" for m in chat)
    (array,) = read_in(store, json.dumps(chat, indent=2).encode(), "a.json")
    (listed,) = read_in(store, lines, "a.jsonl")
    assert array != listed
    assert read_in(store, lines, "b.jsonl") == [listed]


def test_cache_marks_may_move() -> None:
    store = SqliteStore(":memory:")

    def mark(chat: Chat, at: int) -> bytes:
        marked = [{"type": "text", "text": chat[at]["content"], "cache_control": {"type": "ephemeral"}}]
        return as_request([*chat[:at], {**chat[at], "content": marked}, *chat[at + 1 :]])

    (first,) = read_in(store, mark(make_run("one", 3), 5), "1.json")
    assert read_in(store, mark(make_run("one", 5), 9), "2.json") == [first]
    assert count_entries(store) == {first: 12}


def test_equal_sessions_of_one_file_stay_as_many() -> None:
    chats = [make_run("one"), make_run("one"), make_run("two"), make_run("one", 2)]
    store = SqliteStore(":memory:")
    ids = read_in(store, b"".join(map(as_events, chats)), "output.jsonl")
    assert len(set(ids)) == 4
    assert read_in(store, b"".join(map(as_events, chats)), "moved.jsonl") == ids
    assert read_in(store, b"".join(map(as_events, reversed(chats))), "output.jsonl")[0] == ids[3]
    assert len(count_entries(store)) == 4


# -- what happened to a session in the store ---------------------------------------------------------------------------


@without_id
def test_a_grown_file_goes_on_behind_what_was_compacted(render: Callable[[Chat], bytes]) -> None:
    store = SqliteStore(":memory:")
    chat = make_run("one " * 60, 20)
    (session_id,) = read_in(store, render(chat))
    session = Session(SessionAddress(store, session_id), build_policy("tenfold", COUNTER))
    assert session.compact(to=session.conversation.count_uncompacted() // 4).status == "compacted"
    session.add_rule("Never paint.")
    assert read_in(store, render(chat), "moved.json") == [session_id]
    assert read_in(store, render([*chat, {"role": "assistant", "content": "The roof is mended."}])) == [session_id]
    session.refresh()
    assert session.view.find_newest_block() is not None
    assert session.view.state.rule_settings
    assert get_text(session.view.get_messages()[-1]) == "The roof is mended."
    session.undo()
    assert len(list_path(store, session_id)) == len(session.view.get_messages())


def test_what_was_purged_does_not_come_back() -> None:
    store = SqliteStore(":memory:")
    chat = make_run("one")
    (session_id,) = read_in(store, as_chat(chat))
    entry = store.read_entries(DEFAULT_NAMESPACE, session_id)[4]
    store.purge(DEFAULT_NAMESPACE, session_id, entry.id, now=1)
    before = count_entries(store)
    assert read_in(store, as_chat(chat), "elsewhere.json") == [session_id]
    assert count_entries(store) == before
    assert "one:step1isdone." not in "\n".join(list_path(store, session_id))


def test_a_shorter_copy_is_a_session_of_its_own_that_ends_where_it_ends() -> None:
    store = SqliteStore(":memory:")
    (session_id,) = read_in(store, as_trajectory(make_run("one")), "whole.traj")
    before = get_row(store, session_id)
    (shorter,) = read_in(store, as_trajectory(make_run("one", 2)), "half.traj")
    assert shorter != session_id
    assert get_row(store, session_id) == before
    whole, half = list_path(store, session_id), list_path(store, shorter)
    assert half == whole[: len(half)]
    assert len(half) < len(whole)
    assert read_in(store, as_trajectory(make_run("one", 2)), "half.traj") == [shorter]
    assert read_in(store, as_trajectory(make_run("one", 3)), "half.traj") == [shorter], "it grows by itself"
    assert read_in(store, as_trajectory(make_run("one")), "whole.traj") == [session_id]


def test_one_id_is_one_session_however_the_file_changed() -> None:
    def render(*texts: str) -> bytes:
        head = {"type": "session", "version": 3, "id": "s", "cwd": "/w", "timestamp": "2030-01-02T03:04:05Z"}
        lines: Sequence[dict[str, object]] = [
            {
                "type": "message",
                "id": text[:2],
                "parentId": texts[at - 1][:2] if at else None,
                "timestamp": "2030-01-02T03:04:06Z",
                "message": {"role": "assistant" if at % 2 else "user", "content": [{"type": "text", "text": text}]},
            }
            for at, text in enumerate(texts)
        ]
        return b"".join(json.dumps(v).encode() + b"\n" for v in (head, *lines))

    store = SqliteStore(":memory:")
    (session_id,) = read_in(store, render("1 paint", "2 done", "3 more"))
    assert read_in(store, render("1 paint", "2 done", "4 less", "5 fine"), "b") == [session_id]
    assert list_path(store, session_id) == ["1paint", "2done", "4less", "5fine"]
    assert read_in(store, render("6 paint", "7 done"), "c") == [session_id]
    before = count_entries(store)
    for texts in (("1 paint", "2 done", "3 more"), ("1 paint", "2 done", "4 less", "5 fine")):
        assert read_in(store, render(*texts)) == [session_id]
    assert count_entries(store) == before
    assert read_in(store, render("6 paint")) != [session_id], "that session goes on behind it"


# -- the command -------------------------------------------------------------------------------------------------------


def test_the_command_compacts_a_file_it_knows(tmp_path: Path) -> None:
    runner, store = CliRunner(), tmp_path / "store.db"
    file, moved = tmp_path / "run.traj", tmp_path / "moved.traj"
    file.write_bytes(as_trajectory(make_run("one " * 60, 20)))
    moved.write_bytes(file.read_bytes())
    arguments = ["--to", "50%", "--store", str(store), "--json"]
    results = [runner.invoke(app, ["compact", str(f), *arguments]) for f in (file, file, moved)]
    ids = {json.loads(result.stdout)["session"] for result in results}
    assert len(ids) == 1
    shown = json.loads(results[0].stdout)["messages_after"]
    preview = runner.invoke(app, ["compact", str(moved), *arguments, "--preview"])
    assert json.loads(preview.stdout)["messages_before"] == shown
