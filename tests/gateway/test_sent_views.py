"""What is sent before its session is looked at is what the session gives, byte for byte."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tenfold.cli.main import run
from tenfold.config.settings import load_settings
from tenfold.gateway.gateway_settings import GatewaySettings
from tenfold.gateway.live_sessions import LiveSessions, PreparedRequest
from tenfold.gateway.model_request import parse_request
from tenfold.gateway.upstream_model import UpstreamCall
from tenfold.store.base import Store
from tenfold.store.location import open_store
from tests.presets.hosts import PARAMETERS
from tests.session.test_hosting import FIELD, STEP, TEXT
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
WINDOW = 16_000
OPENING = "Always run the tests. Please tidy up."


class Conversation:
    """A client's list, and two sets of sessions over one store: one that lives on, and one made anew each time."""

    def __init__(self, wire: str, store: Store, client: httpx.AsyncClient) -> None:
        self.wire, self.fields = wire, FIELDS[wire]
        self.items: list[Json] = [TEXT[wire](OPENING)]
        self._store, self._client = store, client
        self.sessions = self._open_sessions()
        self._number = 0

    def _open_sessions(self) -> LiveSessions:
        settings = GatewaySettings(window=WINDOW, summary_model="none")
        return LiveSessions(settings, self._store, load_settings(), self._client)

    def add_step(self) -> None:
        """The model looks at one more part."""
        self._number += 1
        self.items += STEP[self.wire](self._number)

    async def send(self) -> bool:
        """Prepares a request and checks it. Returns whether it was sent before its session was looked at.

        What a session that was read from the store alone gives for the same request is the same, too.
        """
        prepared = await self._prepare(self.sessions)
        if prepared.pending is not None:
            by_session = await prepared.pending.start()
            if prepared.sent.body == prepared.original.body:  # nothing was hidden yet
                return False
            assert prepared.sent.body == by_session.sent.body
            assert prepared.has_recall
            assert by_session.has_recall
        anew = await self._prepare(self._open_sessions())
        assert prepared.sent.body == anew.sent.body
        return prepared.pending is not None

    async def _prepare(self, sessions: LiveSessions) -> PreparedRequest:
        body = json.dumps({**self.fields, FIELD[self.wire]: self.items}).encode()
        request = parse_request(PATHS[self.wire], body)
        assert request is not None
        call = UpstreamCall(self.wire, "http://127.0.0.1:9", {}, request.model, "", is_own_address=False)
        return await sessions.prepare(request, {"authorization": "Bearer only"}, "", call)

    async def hide_parts(self) -> None:
        """Goes on until a part is hidden and the next request can go on from what was sent."""
        for _ in range(120):
            self.add_step()
            if await self.send():
                return
        pytest.fail("nothing was sent before its session was looked at")


def run_conversation(wire: str, path: Path, work: Callable[[Conversation, Path], Awaitable[None]]) -> None:
    """Runs work on a conversation with hidden parts, over a store in a file."""

    async def begin() -> None:
        store = open_store(path)
        async with httpx.AsyncClient() as client:
            conversation = Conversation(wire, store, client)
            await conversation.hide_parts()
            await work(conversation, path)
            await conversation.sessions.lanes.finish_later_work()
        store.close()

    asyncio.run(begin())


@pytest.mark.parametrize("wire", FIELD)
def test_a_long_conversation_is_sent_as_its_session_gives_it(wire: str, tmp_path: Path) -> None:
    async def go_on(talk: Conversation, _: Path) -> None:
        sent_first = 0
        for number in range(40):
            talk.add_step()
            if number % 7 == 3:
                talk.items.append(TEXT[wire](f"Now part {number}."))
            sent_first += await talk.send()
        assert sent_first > 10

    run_conversation(wire, tmp_path / "s.db", go_on)


def test_cache_marks_may_move(tmp_path: Path) -> None:
    async def go_on(talk: Conversation, _: Path) -> None:
        sent_first = 0
        for _number in range(30):
            talk.add_step()
            talk.items = mark_last(talk.items)
            sent_first += await talk.send()
        assert sent_first > 10

    run_conversation("anthropic", tmp_path / "s.db", go_on)


@pytest.mark.parametrize("wire", FIELD)
def test_what_else_a_request_changes_is_heeded(wire: str, tmp_path: Path) -> None:
    async def go_on(talk: Conversation, _: Path) -> None:
        tools = json.loads(json.dumps(talk.fields["tools"]).replace("Looks.", "Looks at one part."))
        talk.add_step()
        talk.fields = {**talk.fields, "tools": tools}
        assert not await talk.send()
        talk.add_step()
        assert await talk.send()
        talk.fields = {**talk.fields, "temperature": 1}
        talk.add_step()
        assert not await talk.send()

    run_conversation(wire, tmp_path / "s.db", go_on)


@pytest.mark.parametrize("wire", FIELD)
def test_an_edited_message_a_shorter_list_and_the_same_list_are_heeded(wire: str, tmp_path: Path) -> None:
    async def go_on(talk: Conversation, _: Path) -> None:
        assert not await talk.send()
        talk.items = [*talk.items[:-2], *STEP[wire](900), TEXT[wire]("Rather do the next part.")]
        assert not await talk.send()
        talk.items = [*talk.items[:-1], TEXT[wire]("No, the last part.")]
        talk.add_step()
        assert not await talk.send()
        talk.items = talk.items[:-2]
        assert not await talk.send()

    run_conversation(wire, tmp_path / "s.db", go_on)


@pytest.mark.parametrize("wire", FIELD)
def test_a_step_without_its_results_is_left_to_the_session(wire: str, tmp_path: Path) -> None:
    async def go_on(talk: Conversation, _: Path) -> None:
        talk.items = [*talk.items, STEP[wire](901)[0], TEXT[wire]("Leave that.")]
        assert not await talk.send()

    run_conversation(wire, tmp_path / "s.db", go_on)


@pytest.mark.parametrize("wire", FIELD)
def test_what_a_command_changes_meanwhile_is_heeded(wire: str, tmp_path: Path) -> None:
    async def go_on(talk: Conversation, path: Path) -> None:
        assert run(["undo", "last", "--store", str(path)]) == 0
        talk.add_step()
        assert not await talk.send()

    run_conversation(wire, tmp_path / "s.db", go_on)


def test_a_pin_by_another_process_is_heeded(tmp_path: Path) -> None:
    async def go_on(talk: Conversation, path: Path) -> None:
        other = open_store(path)
        (row,) = other.list_sessions("default")
        last = other.read_entries("default", row.info.id)[-1].id
        other.close()
        assert run(["pin", last, "--store", str(path)]) == 0
        talk.add_step()
        assert not await talk.send()

    run_conversation("openai-chat", tmp_path / "s.db", go_on)
