"""Why a request was forwarded as it came: the header, the log and the dry run say the same, in words and numbers."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tenfold.apps.cli.main import run
from tests.gateway.conversations import Talk, post
from tests.gateway.serving import run_gateway

HEADER = "x-tenfold-unchanged"


def begin(talk: Talk) -> None:
    talk.add_user()


def work(steps: int, words: int = 40) -> Callable[[Talk], None]:
    """So many steps, with results of so many words."""

    def change(talk: Talk) -> None:
        talk.add_user()
        talk.add_steps(steps, words)

    return change


def ask_for_title(talk: Talk) -> None:
    work(2)(talk)
    talk.tools, talk.items[0]["content"] = [], "You are a title generator. You output ONLY a thread title."


def ask_for_summary(talk: Talk) -> None:
    work(2)(talk)
    talk.items.append({"role": "user", "content": "You are about to run out of context. Create a handoff summary."})


def limit_answer(talk: Talk) -> None:
    work(2)(talk)
    talk.extra = {"max_tokens": 2_000}


CASES: dict[str, tuple[Callable[[Talk], None], dict[str, Any], list[str]]] = {
    "a first message": (begin, {}, ["a first message"]),
    "it is small": (work(2), {}, ["tokens at most, less than half", "16,000"]),
    "it is small, with a long answer": (limit_answer, {}, ["tokens at most", "16,000", "2,000"]),
    "it does not reach the trigger": (work(9, 170), {}, ["tokens", "do not reach the trigger of"]),
    "the window is unknown": (
        work(2),
        {"window": None, "model": "unheard-of"},
        ["unheard-of is unknown: set --window"],
    ),
    "a title": (ask_for_title, {}, ["a title"]),
    "the client compacts": (ask_for_summary, {}, ["the client compacts"]),
}


@pytest.mark.parametrize("case", CASES)
def test_header_log_and_dry_run_say_why(
    case: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    change, settings, words = CASES[case]
    talk, window = Talk("chat"), settings.get("window", 16_000)
    change(talk)
    body = json.dumps(
        {
            **talk.build_fields(),
            "model": settings.get("model", "gpt-4o"),
            "tools": talk.build_fields().get("tools") or None,
        }
    )
    with caplog.at_level(logging.INFO, "tenfold.gateway"), run_gateway(window=window) as (upstream, gateway):
        answer = post(gateway.url, "chat", body.encode())
        assert upstream.requests[-1].body == body.encode()
    reason = answer.headers[HEADER]
    assert [word for word in words if word not in reason] == []
    lines = [line for line in caplog.messages if "forwarded as it came: " in line]
    assert len(lines) == 1
    told = lines[0].partition("forwarded as it came: ")[2]
    assert [word for word in words if word not in told] == [] or "do not reach the trigger of" in told
    file = tmp_path / "request.json"
    file.write_text(body, "utf-8")
    assert run(["serve", *(["--window", str(window)] if window else []), "--dry-run", str(file)]) == 0
    printed = capsys.readouterr().out
    assert "it is forwarded as it came: " in printed
    assert [word for word in words if word not in printed] == [] or "do not reach the trigger of" in printed


@pytest.mark.parametrize(
    ("path", "body", "settings", "words"),
    [
        ("chat", b"{}", {}, "cannot be read as a call"),
        ("responses", b'{"model":"m","input":[],"previous_response_id":"r"}', {}, "not known here"),
        ("chat", b"", {"shadow": True}, "only watches (shadow)"),
    ],
)
def test_what_cannot_or_must_not_be_looked_at_says_so(
    path: str, body: bytes, settings: dict[str, Any], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    talk = Talk("chat")
    work(2)(talk)
    with (
        caplog.at_level(logging.INFO, "tenfold.gateway"),
        run_gateway(window=16_000, **settings) as (_upstream, gateway),
    ):
        answer = post(gateway.url, path, body or talk.build_body())
    assert words in answer.headers[HEADER]
    assert words in caplog.text


@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_a_message_that_cannot_be_read_is_named_by_its_place_in_the_list(count: int, place: str) -> None:
    talk = Talk("chat")
    work(count)(talk)
    at = {"first": 1, "middle": len(talk.items) // 2, "last": len(talk.items)}[place]
    talk.items.insert(at, {"role": "wizard", "content": "Alakazam."})
    with run_gateway(window=16_000) as (_upstream, gateway):
        answer = talk.send(gateway.url)
    assert f"message {at} has role 'wizard'" in answer.headers[HEADER]


def note_beside(talk: Talk, chars: int) -> None:
    """What GitHub's Copilot CLI adds to each result of a conversation that it goes on with."""
    for item in talk.items:
        if item["role"] == "tool":
            item["_source"] = {"kind": "tool", "summary": ("look at the file " * 90)[:chars]}


def test_what_a_client_notes_beside_its_messages_stops_no_compaction_unless_it_is_much() -> None:
    with run_gateway(window=16_000) as (upstream, gateway):
        talk, other = Talk("chat"), Talk("chat")
        work(60, 300)(talk)
        note_beside(talk, 40)
        talk.send(gateway.url)
        assert upstream.requests[-1].body != talk.build_body()
        work(60, 300)(other)
        note_beside(other, 1_500)
        answer = other.send(gateway.url)
        assert "the field '_source'" in answer.headers[HEADER]


def test_what_was_changed_has_no_such_header_and_the_log_says_what_came_of_the_check(
    caplog: pytest.LogCaptureFixture,
) -> None:
    talk = Talk("chat")
    with caplog.at_level(logging.INFO, "tenfold.gateway"), run_gateway(window=16_000) as (upstream, gateway):
        work(60, 300)(talk)
        answer = talk.send(gateway.url)
        assert upstream.requests[-1].body != talk.build_body()
        talk.add_answer()
        talk.add_user()
        talk.send(gateway.url)
    assert HEADER not in answer.headers
    first, second = (line for line in caplog.messages if "status 200" in line)
    assert "compaction compacted: " in first
    assert "compaction not needed: " in second
    assert "do not reach the trigger of" in second
    assert "forwarded as it came" not in caplog.text
