"""Which session a request belongs to: by the client's id, else by its messages; and what belongs to none."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec import Struct

from tenfold.core.record.block import Block
from tenfold.store.base import DEFAULT_NAMESPACE, SessionInfo, Store
from tenfold.store.location import open_store
from tests.gateway.conversations import KINDS, Talk, build_text, find_marks, list_sessions, read_marks, read_stored
from tests.gateway.serving import RawUpstream, run_gateway, serve_gateway

pytestmark = pytest.mark.costly(3)

Json = dict[str, Any]
Headers = dict[str, str]
WINDOW = 16_000


def once(*talks: Talk) -> Counter[str]:
    """Every mark of the conversations, one time."""
    return Counter({mark: 1 for talk in talks for mark in talk.marks})


CLIENT_IDS: dict[str, tuple[str, Callable[[str], Headers], Callable[[str], Json]]] = {
    "codex": (
        "responses",
        lambda i: {
            "session-id": i,
            "thread-id": i,
            "x-client-request-id": i,
            "x-codex-window-id": f"{i}:0",
            "x-codex-turn-metadata": json.dumps({"request_kind": "turn", "window_number": 0, "turn_id": "t1"}),
        },
        lambda i: {"prompt_cache_key": i, "client_metadata": {"x": "y"}},
    ),
    "codex, a proxy without headers": ("responses", lambda _: {}, lambda i: {"prompt_cache_key": i}),
    "opencode chat": ("chat", lambda i: {"x-session-id": f"ses_{i}", "x-session-affinity": f"ses_{i}"}, lambda _: {}),
    "opencode messages": ("messages", lambda i: {"x-session-id": f"ses_{i}"}, lambda _: {}),
    "opencode responses": ("responses", lambda i: {"x-session-id": f"ses_{i}"}, lambda i: {"prompt_cache_key": i}),
    "pi responses": (
        "responses",
        lambda i: {"session_id": i, "x-client-request-id": i},
        lambda i: {"prompt_cache_key": i},
    ),
    "pi chat": ("chat", lambda i: {"session_id": i, "x-session-affinity": i}, lambda _: {}),
    "kimi chat": ("chat", lambda _: {}, lambda i: {"prompt_cache_key": f"session_{i}"}),
    "kimi responses": ("responses", lambda _: {}, lambda i: {"prompt_cache_key": f"session_{i}"}),
    "kimi messages": ("messages", lambda _: {}, lambda i: {"metadata": {"user_id": f"session_{i}"}}),
    "Claude Code": ("messages", lambda _: {}, lambda i: {"metadata": {"user_id": f"user_9_account__session_{i}"}}),
    "Claude Code, newer": (
        "messages",
        lambda _: {},
        lambda i: {"metadata": {"user_id": json.dumps({"device_id": "d", "account_uuid": "", "session_id": i})}},
    ),
    "openhands chat": ("chat", lambda i: {"x-litellm-session-id": i}, lambda i: {"prompt_cache_key": i}),
    "openhands messages": ("messages", lambda i: {"x-litellm-session-id": i}, lambda _: {}),
}


@pytest.mark.parametrize("client", CLIENT_IDS)
def test_two_sessions_with_equal_words_are_told_apart_by_the_clients_id(client: str, store: Store) -> None:
    kind, get_headers, get_fields = CLIENT_IDS[client]
    talks = []
    for name in ("0198aaaa-1111", "0198bbbb-2222"):
        talk = Talk(kind)
        talk.headers |= get_headers(name)
        talk.extra = get_fields(name)
        talks.append(talk)
    named: list[set[str]] = [set(), set()]
    with run_gateway(store=store) as (upstream, gateway):
        for _ in range(4):
            for talk, names in zip(talks, named, strict=True):
                talk.add_user()
                talk.add_step()
                sent = talk.send(gateway.url)
                names.add(sent.headers.get("x-tenfold-session", ""))
                assert upstream.requests[-1].body == talk.build_body()
    stored = read_stored(store)
    assert len(stored) == 2
    assert all(marks == once(talks[0]) for marks in stored.values())
    assert all(len(names - {""}) == 1 for names in named)
    assert named[0] != named[1]


def test_a_session_of_codex_goes_on_in_its_next_window(store: Store) -> None:
    talk = Talk("responses")
    talk.headers |= {"session-id": "s1", "x-codex-window-id": "s1:0"}
    with run_gateway(store=store) as (_upstream, gateway):
        talk.add_user()
        talk.send(gateway.url)
        talk.add_step()
        talk.headers["x-codex-window-id"] = "s1:1"
        talk.send(gateway.url)
    assert read_stored(store) == {list_sessions(store)[0]: once(talk)}


def strip(*names: str) -> Callable[[Json], None]:
    """Takes keys out of every item."""

    def change(item: Json) -> None:
        for name in names:
            item.pop(name, None)

    return change


def put(before: Json) -> Callable[[Json], None]:
    def change(item: Json) -> None:
        for name, value in before.items():
            item.setdefault(name, value)

    return change


def set_content(value: object) -> Callable[[Json], None]:
    """The content of an assistant message with calls, in another spelling of nothing."""

    def change(item: Json) -> None:
        if item.get("tool_calls"):
            item.pop("content", None)
            if value != "missing":
                item["content"] = value

    return change


def split_text(kind: str) -> Callable[[Json], None]:
    """Text as a list of parts."""

    def change(item: Json) -> None:
        if item.get("role") == "user" and isinstance(item["content"], str):
            text = item["content"]
            word = "input_text" if kind == "responses" else "text"
            item["content"] = [{"type": word, "text": text[:9]}, {"type": word, "text": text[9:]}]
            if kind != "chat":
                item["content"] = [{"type": word, "text": text}]

    return change


def join_result(item: Json) -> None:
    """A tool result as a string: so litellm writes it once its cache mark is gone."""
    for part in item["content"] if isinstance(item["content"], list) else ():
        if part["type"] == "tool_result" and isinstance(part["content"], list):
            part["content"] = part["content"][0]["text"]
        part.pop("cache_control", None)


def mark_cache(item: Json) -> None:
    if isinstance(item["content"], str):
        item["content"] = [build_text(item["content"])]
    item["content"][-1]["cache_control"] = {"type": "ephemeral"}


def sign_thought(item: Json) -> None:
    item["parts"][0]["thoughtSignature"] = "c2lnbmVk"


SPELLINGS: dict[str, tuple[str, Callable[[Json], None], Callable[[Json], None]]] = {
    "name": ("chat", put({"name": "n"}), strip("name")),
    "reasoning_content": ("chat", put({"reasoning_content": "I think."}), strip("reasoning_content")),
    "null to empty": ("chat", set_content(None), set_content("")),
    "empty to missing": ("chat", set_content(""), set_content("missing")),
    "missing to null": ("chat", set_content("missing"), set_content(None)),
    "refusal null": (
        "chat",
        put({"refusal": None, "annotations": [], "audio": None}),
        strip("refusal", "annotations", "audio"),
    ),
    "text to parts": ("chat", strip(), split_text("chat")),
    "ids and status": ("responses", strip(), strip("id", "status")),
    "status only": ("responses", strip(), strip("status")),
    "input to parts": ("responses", strip(), split_text("responses")),
    "type of a message": ("responses", strip(), lambda i: i.update({"type": "message"}) if "role" in i else None),
    "cache marks": ("messages", mark_cache, strip()),
    "cache marks go": ("messages", mark_cache, join_result),
    "result to string": ("messages", strip(), join_result),
    "text to blocks": ("messages", strip(), split_text("messages")),
    "signature": ("generate", sign_thought, lambda i: i["parts"][0].pop("thoughtSignature", None)),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_the_same_message_spelt_otherwise_is_the_same(spelling: str, store: Store) -> None:
    kind, before, after = SPELLINGS[spelling]
    talk = Talk(kind)
    with run_gateway(store=store) as (upstream, gateway):
        for _ in range(4):
            for item in talk.items:
                after(item)
            fresh = len(talk.items)
            talk.add_user()
            talk.add_step()
            talk.add_answer()
            for item in talk.items[fresh:]:
                before(item)
            talk.send(gateway.url)
            assert upstream.requests[-1].body == talk.build_body()
    (session,) = list_sessions(store)
    assert read_marks(store, session) == once(talk)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("has_id", [True, False])
def test_forks_are_branches_of_one_session(kind: str, *, has_id: bool, store: Store) -> None:
    trunk = Talk(kind)
    if has_id:
        trunk.headers["x-session-id"] = "ses_1"
    with run_gateway(store=store) as (upstream, gateway):
        trunk.add_user()
        trunk.add_steps(3)
        trunk.send(gateway.url)
        edited, regenerated = trunk.copy(), trunk.copy()
        trunk.tag, edited.tag, regenerated.tag = "t", "e", "r"
        for number in range(4):
            for talk in (trunk, edited, regenerated):
                if number % 2:
                    talk.add_step()
                else:
                    talk.add_answer()
                    talk.add_user()
                talk.send(gateway.url)
                assert upstream.requests[-1].body == talk.build_body()
    (session,) = list_sessions(store)
    assert read_marks(store, session) == once(trunk, edited, regenerated)


@pytest.mark.parametrize("kind", KINDS)
def test_equal_openings_stay_apart(kind: str, store: Store) -> None:
    talks = [Talk(kind) for _ in range(4)]
    with run_gateway(store=store) as (upstream, gateway):
        for talk in talks:
            talk.add_user()
            talk.send(gateway.url)
        for number, talk in enumerate(talks):
            talk.tag = f"b{number}"
        for _ in range(3):
            for talk in talks:
                talk.add_answer()
                talk.add_user()
                talk.send(gateway.url)
                assert upstream.requests[-1].body == talk.build_body()
    stored = read_stored(store)
    for marks in stored.values():
        assert set(marks.values()) == {1}
    assert {mark for marks in stored.values() for mark in marks} == set(once(*talks))


class Side(Struct, frozen=True):
    """A client's request for itself. Without a `system` prompt, it has that of the conversation."""

    kind: str
    last: str
    system: str = ""
    has_tools: bool = False
    headers: Headers = {}


STATE = "Compress the conversation into a <state_snapshot> of everything."
KIMI = "You are about to run out of context. Create a handoff summary."
COMPACTS = {"x-codex-turn-metadata": json.dumps({"request_kind": "turn", "compaction": {"trigger": "auto"}})}
SIDE = {
    "opencode title": Side("chat", "Generate a title:", "You are a title generator. You output ONLY a thread title."),
    "opencode summary": Side("chat", "Summarize.", "You are a context summarization agent. Be brief."),
    "opencode summary M": Side("messages", "Summarize.", "You are a context summarization agent. Be brief."),
    "pi summary": Side("responses", "<conversation>x</conversation>", "You are a context summarization assistant."),
    "qwen summary": Side("chat", "First, reason in your scratchpad. Then, generate the <state_snapshot>.", STATE),
    "gemini summary": Side("generate", "Generate the <state_snapshot>.", STATE),
    "kimi summary": Side("chat", KIMI, has_tools=True),
    "kimi summary M": Side("messages", KIMI, has_tools=True),
    "kimi summary R": Side("responses", KIMI, has_tools=True),
    "codex summary": Side("responses", "You are performing a CONTEXT CHECKPOINT COMPACTION.", headers=COMPACTS),
    "Claude Code summary": Side(
        "messages", "Your task is to create a detailed summary of the conversation so far.", has_tools=True
    ),
}


@pytest.mark.parametrize("client", SIDE)
def test_side_requests_are_left_alone(client: str, store: Store) -> None:
    asked = SIDE[client]
    kind, talk = asked.kind, Talk(asked.kind)
    talk.headers["x-session-id"] = "ses_1"
    with run_gateway(store=store, window=WINDOW) as (upstream, gateway):
        talk.add_user()
        for _ in range(30):
            talk.add_step(400)
            talk.send(gateway.url)
        before = upstream.requests[-1].body
        assert before != talk.build_body()
        blocks_before = gateway.gateway.log.totals.compactions
        side = talk.copy()
        side.tag = "side"
        side.system = asked.system or side.system
        if kind == "chat":
            side.items[0]["content"] = side.system
        side.tools = side.tools if asked.has_tools else []
        said = {"parts": [{"text": asked.last}]} if kind == "generate" else {"content": asked.last}
        side.items.append({"role": "user", **said})
        side.send(gateway.url, **asked.headers)
        assert upstream.requests[-1].body == side.build_body(), (
            "it comes with its whole history, as the client wants it"
        )
        talk.add_step(10)
        talk.send(gateway.url)
        after = upstream.requests[-1].body.decode()
    field = {"responses": "input", "generate": "contents"}.get(kind, "messages")
    old, new = json.loads(before)[field], json.loads(after)[field]
    (session,) = list_sessions(store)
    blocks = gateway.gateway.log.totals.compactions
    assert new[: len(old)] == old or blocks > blocks_before, "the view goes on where it was"
    assert read_marks(store, session) == once(talk)


def test_a_fork_with_fewer_tools_leaves_the_session_as_it_is(store: Store) -> None:
    """Qwen sends the same history once more at the end of a run, with half of the tools and a question of its own."""
    talk = Talk("chat", tools=14)
    with run_gateway(store=store, window=WINDOW) as (upstream, gateway):
        talk.add_user()
        for _ in range(30):
            talk.add_step(300)
            talk.send(gateway.url)
        before = json.loads(upstream.requests[-1].body)["messages"]
        fork = talk.copy()
        fork.tools, fork.tag = fork.tools[:6], "fork"
        fork.add_user("Look at the conversation and keep what is worth it in the memory.")
        fork.send(gateway.url)
        talk.add_answer()
        talk.add_user()
        talk.send(gateway.url)
        after = json.loads(upstream.requests[-1].body)["messages"]
    assert after[: len(before)] == before
    stored = read_stored(store)
    counts = sum(stored.values(), Counter())
    assert {mark: counts[mark] for mark in talk.marks} == dict.fromkeys(talk.marks, 1)
    assert "<<fork" not in json.dumps(after)


@pytest.mark.parametrize("kind", ["messages", "generate"])
@pytest.mark.parametrize("has_id", [True, False])
def test_the_clients_own_compaction_begins_anew(kind: str, *, has_id: bool, store: Store) -> None:
    talk = Talk(kind)
    if has_id:
        talk.headers["x-session-id"] = "ses_1"
    with run_gateway(store=store, window=WINDOW) as (upstream, gateway):
        talk.add_user()
        for _ in range(24):
            talk.add_step(300)
            talk.send(gateway.url)
        old = talk.marks
        kept = talk.items[:1] if kind == "chat" else []
        tail = talk.items[-2:]
        talk.items = kept
        talk.add_user("This session is continued from an earlier one. Summary: the parts were looked at.")
        talk.items += tail
        for _ in range(3):
            talk.add_step(60)
            talk.send(gateway.url)
            assert upstream.requests[-1].body == talk.build_body()
    counts = sum(read_stored(store).values(), Counter())
    tail_marks = set(find_marks(json.dumps(tail)))
    assert set(counts) == set(old) | set(talk.marks)
    assert all(count == 1 or (mark in tail_marks and count == 2) for mark, count in counts.items())


@pytest.mark.parametrize("kind", ["chat", "responses"])
def test_a_restarted_gateway_goes_on_with_the_view(kind: str, tmp_path: Path) -> None:
    talk, place = Talk(kind), tmp_path / "sessions.db"
    field = {"responses": "input", "generate": "contents"}.get(kind, "messages")
    views: list[list[Any]] = []
    with RawUpstream() as upstream:
        talk.add_user()
        for _ in range(5):
            store = open_store(place)
            with serve_gateway(upstream.url, store=store, window=WINDOW, summary_model="none") as gateway:
                for _ in range(6):
                    talk.add_step(300)
                    talk.send(gateway.url)
                    views.append(json.loads(upstream.requests[-1].body)[field])
            store.close()
    assert max(len(json.dumps(view)) for view in views) < WINDOW * 6
    store = open_store(place)
    (session,) = list_sessions(store)
    assert read_marks(store, session) == once(talk)
    blocks = sum(isinstance(e, Block) for e in store.read_entries(DEFAULT_NAMESPACE, session))
    changes = sum(new[: len(old)] != old for old, new in pairwise(views))
    assert 1 <= blocks == changes, "the view changes with a Block and at no other time"
    assert store.verify(DEFAULT_NAMESPACE) == []
    store.close()


def test_the_sessions_of_one_id_are_bounded_in_memory_too(store: Store) -> None:
    """A client that drops its oldest messages makes one at each request, and sub-agents share their session's id."""
    talk = Talk("messages")
    talk.headers["x-session-id"] = "ses_1"
    other = talk.copy()
    with run_gateway(store=store, max_sessions=4) as (upstream, gateway):
        for _ in range(12):
            talk.add_user()
            talk.add_answer()
            talk.items = talk.items[-4:]
            assert "x-tenfold-bypass" not in talk.send(gateway.url).headers
            assert upstream.requests[-1].body == talk.build_body()
        sizes = [
            line
            for line in httpx.get(f"{gateway.url}/metrics", timeout=500).text.splitlines()
            if "gateway_sessions " in line
        ]
        assert sizes[-1] == "tenfold_gateway_sessions 4.0"
    count = len(list_sessions(store))
    assert count > 8
    other.tag = "b"
    with run_gateway(store=store, max_sessions=4) as (upstream, gateway):
        other.add_user()
        other.add_answer()
        other.add_user()
        assert other.send(gateway.url).headers["x-tenfold-session"].endswith(f"-{count}"), "none is taken twice"
    assert all(max(marks.values()) == 1 for marks in read_stored(store).values())
    assert store.verify(DEFAULT_NAMESPACE) == []


@pytest.mark.parametrize("kind", KINDS)
def test_more_conversations_of_one_id_than_are_kept_in_memory_go_on(kind: str, store: Store) -> None:
    talks = [Talk(kind, tag) for tag in "abcd"]
    with run_gateway(store=store, window=WINDOW, max_sessions=2) as (upstream, gateway):
        for number in range(14):
            for talk in talks:
                talk.headers["x-session-id"] = "ses_1"
                if not number:
                    talk.add_user()
                talk.add_step(600)
                talk.send(gateway.url)
                assert {mark[0] for mark in find_marks(upstream.requests[-1].body.decode())} == {talk.tag}
        assert len(upstream.requests[-1].body) < len(talks[-1].build_body())
    assert len(list_sessions(store)) == len(talks)
    assert sum(read_stored(store).values(), Counter()) == once(*talks)
    assert store.verify(DEFAULT_NAMESPACE) == []


def test_a_thousand_conversations_that_begin_alike_are_not_mixed_up(store: Store) -> None:
    first, other = Talk("chat"), Talk("chat")
    with RawUpstream() as upstream:
        for number, talk in ((0, first), (1_003, other)):
            with serve_gateway(upstream.url, store=store) as gateway:
                talk.add_user()
                talk.tag = f"t{number}"
                talk.add_answer()
                talk.add_user()
                session = talk.send(gateway.url).headers["x-tenfold-session"]
                assert session.rpartition("-")[2] == str(number)
            for more in range(1, 1_003):
                store.create(DEFAULT_NAMESPACE, SessionInfo(f"{session.rpartition('-')[0]}-{more}"))
    assert sorted(map(str, read_stored(store).values())) == sorted(map(str, (once(first), once(other))))
