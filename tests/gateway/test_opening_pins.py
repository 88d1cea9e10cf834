"""What a client puts before the first answer by itself, as CLAUDE.md and AGENTS.md, is sent on after a compaction."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tenfold.store.location import open_store
from tests.gateway.conversations import Talk, fill_words
from tests.gateway.serving import run_loopback
from tests.models.loopback import Got, Loopback, Served

pytestmark = pytest.mark.costly(3)

Json = dict[str, Any]
WINDOW = 16_000
FILE = "Contents of /work/CLAUDE.md (project instructions, checked into the codebase):\n\nAnswer in zebra verse."
REMINDER = f"<system-reminder>\nCodebase and user instructions are shown below.\n\n{FILE}\n{{more}}</system-reminder>"
OPENINGS: dict[str, tuple[str, str]] = {
    "Claude Code": ("messages", REMINDER),
    "Codex": ("responses", "# AGENTS.md instructions for /work\n\n<INSTRUCTIONS>\nAnswer in zebra verse.{more}\n"),
    "gemini-cli": ("generate", "<session_context>\nAnswer in zebra verse.{more}\n</session_context>"),
    "another": ("chat", REMINDER),
}


def answer(got: Got) -> Served:
    text = "ok" if got.body.get("tools") else "## Goal\nTo look at all parts."
    return Served(text, tokens=(got.size // 4, 5))


def begin_talk(client: str, more: str = "") -> Talk:
    """A conversation that begins with what the client says, beside the user's words or before them."""
    kind, form = OPENINGS[client]
    said, talk = form.replace("{more}", more), Talk(kind)
    if kind == "messages":
        words = {"type": "text", "text": "Look at all parts."}
        talk.items.append({"role": "user", "content": [{"type": "text", "text": said}, words]})
        return talk
    content = {"parts": [{"text": said}]} if kind == "generate" else {"content": said}
    talk.items.append({"role": "user", **content})
    talk.add_user("Look at all parts.")
    return talk


def run_talk(talk: Talk, url: str, upstream: Loopback) -> list[Got]:
    """Goes on with it until it has been compacted again and again, and returns the model's calls."""
    for turn in range(40):
        talk.add_step(50)
        talk.add_answer(fill_words("said", 250))  # which only a summary can make shorter
        talk.add_user(f"Go on, {turn}. {fill_words('asked', 100)}")
        assert talk.send(url).status_code == 200
    return [got for got in upstream.requests if got.body.get("tools")]


@pytest.mark.parametrize("client", OPENINGS)
def test_the_instruction_file_is_still_sent_after_compactions(client: str) -> None:
    store = open_store(":memory:")
    with run_loopback(answer, store=store, window=WINDOW) as (upstream, gateway):
        calls = run_talk(begin_talk(client, fill_words("rule", 400)), gateway.url, upstream)
    (row,) = store.list_sessions("default")
    store.close()
    assert row.block_count > 1
    assert all(json.dumps(got.body).count("zebra verse") == 1 for got in calls)
    assert max(got.size for got in calls) < 4 * WINDOW


def test_a_conversation_that_was_long_when_the_gateway_came_keeps_it_too() -> None:
    talk = begin_talk("Claude Code")
    talk.add_steps(60, 250)
    with run_loopback(answer, window=WINDOW) as (upstream, gateway):
        assert talk.send(gateway.url).status_code == 200
        calls = [got for got in upstream.requests if got.body.get("tools")]
    assert "zebra verse" in calls[-1].prompt
    assert "toolu_a30" not in calls[-1].prompt
    assert calls[-1].size < 4 * WINDOW


def test_an_opening_that_would_take_the_room_is_compacted() -> None:
    talk = begin_talk("Claude Code", fill_words("rule", 2_500))
    with run_loopback(answer, window=WINDOW) as (upstream, gateway):
        calls = run_talk(talk, gateway.url, upstream)
    assert "zebra verse" in calls[0].prompt
    assert "rule2000" not in calls[-1].prompt
    assert max(got.size for got in calls) < 4 * WINDOW
