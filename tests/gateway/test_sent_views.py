"""What is sent before its session is looked at is what the session gives, byte for byte."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenfold.apps.cli.main import run
from tenfold.apps.gateway.gateway_settings import GatewaySettings
from tenfold.apps.gateway.live_sessions import LiveSessions, PreparedRequest
from tenfold.apps.gateway.model_request import parse_request
from tenfold.apps.gateway.upstream_model import UpstreamCall
from tenfold.config.settings import load_settings
from tenfold.core.record.entry import MessageEntry, Pin
from tenfold.store.location import open_store
from tests.designs.hosts import PARAMETERS
from tests.gateway.conversations import Talk
from tests.gateway.recall_setting import find_tools
from tests.gateway.serving import run_loopback, wait_until
from tests.models.loopback import Got, Served
from tests.session.test_hosting import BODY, FIELD, STEP, TEXT
from tests.session.test_repeated_requests import mark_last

Json = dict[str, Any]
LOOK: Json = {"name": "look", "description": "Looks."}
FUNCTION = {"type": "function", "function": {**LOOK, "parameters": PARAMETERS}}
FIELDS: dict[str, Json] = {
    "openai-chat": {"model": "gpt-4o", "tools": [FUNCTION]},
    "anthropic": {
        "model": "claude-x",
        "max_tokens": 500,
        "system": [{"type": "text", "text": "Be careful.", "cache_control": {"type": "ephemeral"}}],
        "tools": [{**LOOK, "input_schema": PARAMETERS}],
    },
    "openai-responses": {
        "model": "gpt-4o",
        "instructions": "Be careful.",
        "tools": [{"type": "function", **LOOK, "parameters": PARAMETERS}],
    },
    "gemini": {
        "systemInstruction": {"parts": [{"text": "Be careful."}]},
        "tools": [{"functionDeclarations": [{**LOOK, "parameters": PARAMETERS}]}],
    },
}
PATHS = {
    "openai-chat": "/v1/chat/completions",
    "anthropic": "/v1/messages",
    "openai-responses": "/v1/responses",
    "gemini": "/v1beta/models/gemini-x:generateContent",
}
WINDOW = 10_000
OPENING = "Always run the tests. Please tidy up."
LISTING: list[Json] = [
    {"role": "user", "content": "I have *added these files to the chat* so you can go ahead.\n\nx.py " + "y = 1 " * 90},
    {"role": "assistant", "content": "Ok, any changes I propose will be to those files."},
]


async def do_nothing() -> None:
    """Work on a session that changes nothing."""


class Conversation:
    """A client's list, and two gateways' sessions over a store each, of which one never sends anything on first.

    The other store is a copy of the first one from the last request for which both sessions were asked.
    """

    def __init__(self, wire: str, folder: Path, client: httpx.AsyncClient) -> None:
        self.wire, self.fields = wire, FIELDS[wire]
        self.items: list[Json] = [TEXT[wire](OPENING)]
        self.paths = (folder / "first.db", folder / "second.db")
        self.client = client
        self._stores = [open_store(self.paths[0])]
        self.sessions = self._open_sessions()
        self._last: PreparedRequest | None = None
        self._slow: tuple[LiveSessions, PreparedRequest] | None = None
        self._number = 0

    def _open_sessions(self) -> LiveSessions:
        settings = GatewaySettings(window=WINDOW, summary_model="none")
        return LiveSessions(settings, self._stores[-1], load_settings(), self.client)

    async def close(self) -> None:
        """Ends the work on the sessions."""
        await self.sessions.lanes.finish_later_work()
        for store in self._stores:
            store.close()

    def add_step(self, text: str = BODY) -> None:
        """The model looks at one more part."""
        self._number += 1
        step = json.dumps(STEP[self.wire](self._number)).replace(json.dumps(BODY), json.dumps(text))
        self.items += json.loads(step)

    async def send(self, **fields: object) -> bool:
        """Prepares a request by both. Returns whether it was sent before its session was looked at.

        What was sent then is what its own session gives afterwards, and what the other one gives. Both hold the same.
        """
        prepared = self._last = await self.prepare(self.sessions, fields)
        by_session = await prepared.pending.start() if prepared.pending is not None else prepared
        assert prepared.sent.body == by_session.sent.body
        assert prepared.has_recall == by_session.has_recall
        if prepared.pending is None or prepared.sent.body == prepared.original.body:
            await self._copy_store(fields, prepared)
            return False
        assert not by_session.compaction
        slow = await self._prepare_slowly(fields) if self._slow is not None else None
        if slow is None or slow.compaction:  # a session that is read anew after a fork may read its size otherwise
            await self._copy_store(fields, prepared)
            return True
        assert slow.sent.body == prepared.sent.body
        assert slow.has_recall == prepared.has_recall
        assert self._read_entries(0) == self._read_entries(1)
        return True

    async def _copy_store(self, fields: Json, prepared: PreparedRequest) -> None:
        """Begins anew with a copy of the first store, which a gateway has just opened."""
        for store in self._stores[1:]:
            store.close()
        for suffix in ("", "-wal", "-shm"):
            self.paths[1].with_name(f"{self.paths[1].name}{suffix}").unlink(missing_ok=True)
        old, new = (contextlib.closing(sqlite3.connect(path)) for path in self.paths)
        with old as source, new as target:
            source.backup(target)
        self._stores[1:] = [open_store(self.paths[1])]
        sessions = self._open_sessions()
        sessions.chains = self.sessions.chains
        anew = await self.prepare(sessions, fields)
        anew = await anew.pending.start() if anew.pending is not None else anew
        is_same = anew.sent.body == prepared.sent.body
        self._slow = (sessions, anew) if anew.lane is not None and not anew.compaction and is_same else None

    async def _prepare_slowly(self, fields: Json) -> PreparedRequest:
        """Prepares the request behind other work on the session, so that it waits for its session."""
        assert self._slow is not None
        sessions, last = self._slow
        assert last.lane is not None
        last.lane.add_later_work(do_nothing)
        slow = await self.prepare(sessions, fields)
        slow = await slow.pending.start() if slow.pending is not None else slow
        self._slow = (sessions, slow) if slow.lane is not None else None
        return slow

    def _read_entries(self, number: int) -> list[object]:
        """What the sessions of a store hold, without ids, times and what depends on them."""
        store, out = self._stores[number], list[object]()
        for row in store.list_sessions("default"):
            out.append([row.info.id, *sorted(store.read_heads("default", row.info.id))])
            for entry in store.read_entries("default", row.info.id):
                if isinstance(entry, Pin):  # a gateway that opens a session pins its opening by what is known then
                    continue
                out.append((entry.message, entry.usage) if isinstance(entry, MessageEntry) else type(entry))
        return out

    async def ask(self) -> None:
        """Prepares a request that belongs to no session by both."""
        for sessions in (self.sessions, *([self._slow[0]] if self._slow is not None else ())):
            prepared = await self.prepare(sessions, {})
            assert prepared.lane is None
            assert prepared.sent is prepared.original

    def answer(self, response: Json) -> None:
        """The provider's response to the last request, which the client may name. Both remember it."""
        assert self._last is not None
        self.sessions.chains.keep(self._last.tenant, self._last.original, response)

    @property
    def compaction(self) -> str:
        """What became of the compaction before the last request."""
        assert self._last is not None
        return self._last.compaction

    async def report(self, prompt: int) -> None:
        """The provider reports what the last request took, and both sessions learn it."""
        usage = {"usage": {"prompt_tokens": prompt, "completion_tokens": 7}}
        for last in (self._last, self._slow[1] if self._slow is not None else None):
            if last is not None and last.lane is not None:
                await last.lane.session.after_model(usage)

    async def prepare(self, sessions: LiveSessions, fields: Json) -> PreparedRequest:
        """Prepares the request by these sessions."""
        body = json.dumps({**self.fields, FIELD[self.wire]: self.items, **fields}).encode()
        request = parse_request(PATHS[self.wire], body)
        assert request is not None
        call = UpstreamCall(self.wire, "http://127.0.0.1:9", {}, request.model, "", is_own_address=False)
        return await sessions.prepare(request, {"authorization": "Bearer only"}, "", call)

    async def hide_parts(self) -> None:
        """Goes on until a part is hidden and the next request can go on from what was sent."""
        for _ in range(12):
            self.add_step()
        for _ in range(90):
            self.add_step()
            if await self.send():
                assert self._slow is not None
                return
        pytest.fail("nothing was sent before its session was looked at")

    def run_command(self, *arguments: str) -> set[int]:
        """Runs a command over both stores. Returns its exit codes."""
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            return {run([*arguments, "--store", str(path)]) for path in self.paths}

    def find_last_entry(self) -> str:
        """The id of the newest message that both stores hold."""
        (row,) = self._stores[0].list_sessions("default")
        known = [{e.id for e in store.read_entries("default", row.info.id)} for store in self._stores]
        entries = self._stores[0].read_entries("default", row.info.id)
        return [e.id for e in entries if isinstance(e, MessageEntry) and all(e.id in ids for ids in known)][-1]


def run_conversation(wire: str, folder: Path, work: Callable[[Conversation], Awaitable[None]]) -> None:
    """Runs work on a conversation with hidden parts, over stores in files."""

    async def begin() -> None:
        async with httpx.AsyncClient(timeout=500) as client:
            conversation = Conversation(wire, folder, client)
            await conversation.hide_parts()
            await work(conversation)
            await conversation.close()

    asyncio.run(begin())


# -- any play of a client ----------------------------------------------------------------------------------------------


def build_late_result(talk: Conversation) -> list[Json]:
    """A result that comes after the user said something, as of a command in the background."""
    call, result = STEP[talk.wire](700 + len(talk.items))
    return [call, TEXT[talk.wire]("Go on meanwhile."), result]


def build_parallel_step(talk: Conversation) -> list[Json]:
    """Two calls in one answer, and both results in the other order."""
    first, second = (STEP[talk.wire](number + len(talk.items)) for number in (800, 801))
    if talk.wire == "openai-chat":
        calls = [*first[0]["tool_calls"], *second[0]["tool_calls"]]
        return [{**first[0], "tool_calls": calls}, second[1], first[1]]
    if talk.wire == "openai-responses":
        return [first[0], second[0], second[1], first[1]]
    field = "parts" if talk.wire == "gemini" else "content"
    return [{**first[n], field: [*first[n][field], *second[n][field]]} for n in (0, 1)]


COMMANDS: dict[str, Callable[[str], tuple[str, ...]]] = {
    "undo": lambda _: ("undo", "last"),
    "pin": lambda entry: ("pin", entry),
    "rule": lambda _: ("rules", "last", "--add", "Be brief."),
}
"""What another process does to the newest session. The argument is the id of its newest message."""


def build_system(text: str) -> Json:
    """A system message inside the list, as newer Claude Code has it."""
    return {"role": "system", "content": text}


def add_messages(talk: Conversation, action: str, number: int) -> None:
    """Adds what a client may have to say, if its API has it."""
    wire, text = talk.wire, TEXT[talk.wire](f"Now part {number}.")
    if action == "say":
        talk.items.append(text)
    elif action == "steps":
        talk.add_step()
        talk.add_step()
    elif action == "big":
        talk.add_step(BODY * (1 + number))
    elif action == "late":
        talk.items += build_late_result(talk)
    elif action == "parallel":
        talk.items += build_parallel_step(talk)
    elif action == "call":
        talk.items += [STEP[wire](600 + number)[0], text]
    elif action == "system" and wire in ("openai-chat", "anthropic"):
        call, result = STEP[wire](500 + number)
        talk.items += [call, build_system(f"The date has changed to {number}."), result]
    elif action == "reminder" and wire == "anthropic":
        talk.add_step()
        talk.items[-1]["content"].append({"type": "text", "text": f"<system-reminder>\n{number}\n</system-reminder>"})


async def play(talk: Conversation, action: str, number: int) -> Json:
    """Does what a client, a provider or a command does before the next request. Returns changed fields of it."""
    wire = talk.wire
    add_messages(talk, action, number)
    if action == "mark" and wire == "anthropic":
        talk.items = mark_last(talk.items)
    elif action == "edit":
        talk.items = [*talk.items[: -1 - number % 4], TEXT[wire](f"Rather do part {number}.")]
    elif action == "listing" and wire in ("openai-chat", "anthropic"):
        return {FIELD[wire]: [*talk.items[:-1], *LISTING, talk.items[-1]]}
    elif action == "field":
        return {"metadata" if wire == "openai-chat" else "temperature": number / 20}
    elif action == "usage":
        await talk.report(2_000 + number * 225)
    elif action in COMMANDS:
        talk.run_command(*COMMANDS[action](talk.find_last_entry()))
    return {}


ACTIONS = ["step"] * 8 + ["usage"] * 3 + ["say", "steps", "big", "late", "parallel", "call", "system", "reminder"]
ACTIONS += ["mark", "edit", "listing", "field", "undo", "pin", "rule", "same"]


@pytest.mark.costly(4)
@pytest.mark.parametrize("wire", FIELD)
@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(actions=st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 19)), min_size=12, max_size=30))
def test_both_ways_send_the_same(
    wire: str, actions: list[tuple[str, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    async def go_on(talk: Conversation) -> None:
        for action, number in actions:
            if action != "same":
                talk.add_step()
            await talk.send(**await play(talk, action, number))

    run_conversation(wire, tmp_path_factory.mktemp("play"), go_on)


# -- one thing at a time -----------------------------------------------------------------------------------------------


@pytest.mark.costly(2)
@pytest.mark.parametrize(
    ("wire", "action", "least"),
    [
        *((wire, "say", 10) for wire in FIELD),
        *(("anthropic", "mark", 10), ("anthropic", "system", 5), ("openai-chat", "system", 5)),
    ],
)
def test_a_long_conversation_is_sent_as_its_session_gives_it(
    wire: str, action: str, least: int, tmp_path: Path
) -> None:
    async def go_on(talk: Conversation) -> None:
        sent_first = 0
        for number in range(40):
            talk.add_step()
            if action == "mark" or number % 7 == 3:
                await play(talk, action, number)
            sent_first += await talk.send()
        assert sent_first > least

    run_conversation(wire, tmp_path, go_on)


def test_a_mark_in_what_is_hidden_is_left_to_the_session(tmp_path: Path) -> None:
    async def go_on(talk: Conversation) -> None:
        talk.items = json.loads(json.dumps(talk.items))
        talk.items[2]["content"][-1]["cache_control"] = {"type": "ephemeral"}
        talk.add_step()
        assert not await talk.send()

    run_conversation("anthropic", tmp_path, go_on)


@pytest.mark.parametrize("wire", ["openai-chat", "anthropic"])
def test_listings_that_move_are_left_to_the_session(wire: str, tmp_path: Path) -> None:
    async def go_on(talk: Conversation) -> None:
        sent_first = 0
        for number in range(12):
            talk.add_step()
            talk.items.append(TEXT[wire](f"Now part {number}."))
            assert not await talk.send(**await play(talk, "listing", number))
            talk.add_step()
            assert not await talk.send()
            talk.add_step()
            sent_first += await talk.send()
        assert sent_first > 3

    run_conversation(wire, tmp_path, go_on)


@pytest.mark.parametrize("wire", FIELD)
def test_what_else_a_request_changes_is_heeded(wire: str, tmp_path: Path) -> None:
    async def go_on(talk: Conversation) -> None:
        tools = json.loads(json.dumps(talk.fields["tools"]).replace("Looks.", "Looks at one part."))
        talk.add_step()
        talk.fields = {**talk.fields, "tools": tools}
        assert not await talk.send()
        talk.add_step()
        assert await talk.send()
        talk.fields = {**talk.fields, "temperature": 1}
        talk.add_step()
        assert not await talk.send()

    run_conversation(wire, tmp_path, go_on)


@pytest.mark.parametrize("wire", FIELD)
def test_an_edited_message_a_shorter_list_and_the_same_list_are_heeded(wire: str, tmp_path: Path) -> None:
    async def go_on(talk: Conversation) -> None:
        assert not await talk.send()
        main = talk.items
        talk.items = [*main[:-2], *STEP[wire](900), TEXT[wire]("Rather do the next part.")]
        assert not await talk.send()
        talk.items = [*talk.items[:-1], TEXT[wire]("No, the last part.")]
        talk.add_step()
        assert not await talk.send()
        talk.items = talk.items[:-2]
        assert not await talk.send()
        talk.items = [*main]
        talk.add_step()
        await talk.send()

    run_conversation(wire, tmp_path, go_on)


@pytest.mark.costly(3)
@pytest.mark.parametrize("wire", FIELD)
@pytest.mark.parametrize("action", ["late", "call", "big", *COMMANDS])
def test_what_only_the_session_can_tell_is_left_to_it(action: str, wire: str, tmp_path: Path) -> None:
    """Calls and results apart, what may exceed a limit, and what a command changes meanwhile."""

    async def go_on(talk: Conversation) -> None:
        if action in COMMANDS:
            assert talk.run_command(*COMMANDS[action](talk.find_last_entry())) == {0}
            talk.add_step()
        await play(talk, "same" if action in COMMANDS else action, 19)
        assert not await talk.send()
        assert action != "big" or talk.compaction == "compacted"
        talk.add_step()
        await talk.send()

    run_conversation(wire, tmp_path, go_on)


@pytest.mark.parametrize("wire", ["openai-chat", "openai-responses"])
def test_a_result_that_is_still_missing_is_left_to_the_session(wire: str, tmp_path: Path) -> None:
    async def go_on(talk: Conversation) -> None:
        talk.items += build_parallel_step(talk)[:-1]
        await talk.send()
        talk.add_step()
        assert not await talk.send()

    run_conversation(wire, tmp_path, go_on)


@pytest.mark.parametrize("wire", FIELD)
def test_what_the_provider_has_just_counted_is_heeded(wire: str, tmp_path: Path) -> None:
    async def go_on(talk: Conversation) -> None:
        talk.add_step()
        assert await talk.send()
        await talk.report(WINDOW * 3 // 8)
        talk.add_step()
        assert await talk.send()
        await talk.report(WINDOW)  # above the hard limit, where no guard waits for more to come
        talk.add_step()
        assert not await talk.send()
        assert talk.compaction == "compacted"

    run_conversation(wire, tmp_path, go_on)


def test_a_request_of_no_session_changes_nothing(tmp_path: Path) -> None:
    async def go_on(talk: Conversation) -> None:
        main = talk.items
        for opening in ("Tidy up something else.", "You are about to run out of context. Create a handoff summary."):
            talk.items = [TEXT[talk.wire](opening)]
            await talk.ask()
            talk.items = main = [*main, *STEP[talk.wire](910 + len(main))]
            assert await talk.send()

    run_conversation("openai-chat", tmp_path, go_on)


def test_a_conversation_that_the_provider_holds_goes_on(tmp_path: Path) -> None:
    """The client names the response before, and sends only what is new."""

    async def go_on(talk: Conversation) -> None:
        sent_first, earlier = 0, len(talk.items)
        fields: Json = {}
        for number in range(20):
            call, result = STEP[talk.wire](1_000 + number)
            sent_first += await talk.send(**fields, **({FIELD[talk.wire]: talk.items[earlier:]} if fields else {}))
            talk.answer({"id": f"resp_{number}", "output": [call]})
            fields, earlier = {"previous_response_id": f"resp_{number}"}, len(talk.items) + 1
            talk.items += [call, result]
        assert sent_first > 5

    run_conversation("openai-responses", tmp_path, go_on)


# -- through a gateway -------------------------------------------------------------------------------------------------


def test_a_lookup_finds_what_the_request_itself_brought() -> None:
    def answer(got: Got) -> Served:
        is_asked = "quokka" in str(got.body["messages"][-1]) and "recall_search" in find_tools(got)
        tokens = (got.size // 4, 5)
        if not is_asked:
            return Served(text="It is found.", tokens=tokens)
        return Served(finish="tool", call=("r1", "recall_search", {"words": "quokka"}), tokens=tokens)

    with run_loopback(answer, window=16_000, summary_model="none") as (upstream, gateway):
        talk = Talk("chat")
        talk.add_user("Look at all parts.")
        for _ in range(44):
            talk.add_step(300)
            talk.send(gateway.url)
        sessions = gateway.gateway.sessions
        assert sessions is not None
        wait_until(lambda: all(lane.is_idle for lane in sessions.lanes))
        talk.add_answer("The quokka is in part 7.")
        talk.add_user("Where was the quokka?")
        response = talk.send(gateway.url)
    assert "x-tenfold-session" in response.headers
    assert "x-tenfold-tokens" not in response.headers, "it was sent before its session was looked at"
    results = upstream.requests[-1].body["messages"][-1]
    assert results["role"] == "tool"
    assert "The quokka is in part 7." in str(results)
