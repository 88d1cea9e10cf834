"""Clients of several gateways that share a store: none sticks to one of them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import httpx

from tests.gateway.conversations import Talk, fill_words
from tests.gateway.serving import RawAnswer

WINDOW = 12_000
FLAGS = ("--window", str(WINDOW), "--summary-model", "none", "--recall", "none")
ANSWER = RawAnswer((b'{"ok":', b"true}"), headers=((b"content-type", b"application/json"),))


def send_until_answered(talk: Talk, urls: Sequence[str], turn: Iterator[int]) -> httpx.Response:
    """Sends a request to one gateway after the other, as behind a proxy that knows nothing of sessions."""
    until = time.monotonic() + 200
    while time.monotonic() < until:
        try:
            answer = talk.send(urls[next(turn) % len(urls)])
        except httpx.HTTPError:
            time.sleep(0.02)
            continue
        if answer.status_code == 200:
            return answer
    raise AssertionError(f"{talk.tag} was never answered")


def begin_talk(kind: str, tag: str, steps: int) -> Talk:
    """A conversation that is compacted within a few requests."""
    talk = Talk(kind, tag)
    talk.add_user(f"Look at all parts of the program {tag}. Never touch config/secret.toml.")
    talk.add_steps(steps, 400)
    return talk


def go_on(talk: Talk) -> None:
    """A further answer, question and step."""
    talk.add_answer(fill_words(f"said{len(talk.items)}", 40))
    talk.add_user()
    talk.add_step(400)
