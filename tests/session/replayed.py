"""Recorded sessions as the requests that a host made: what a session makes of each, and what it compacted."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from tenfold.core.record.block import Block
from tenfold.core.record.entry import get_message
from tenfold.core.wire import WIRES
from tenfold.store.base import DEFAULT_NAMESPACE, Store
from tests.sessions import read

ChatMessage = dict[str, Any]


@cache
def read_chat(path: Path) -> tuple[ChatMessage, ...]:
    """The messages of the first session of a file, as OpenAI's chat API has them."""
    messages = [message for entry in read(path)[0].entries if (message := get_message(entry)) is not None]
    return tuple(msgspec.json.decode(item.raw) for item in WIRES["openai-chat"].encode(messages).items)


def list_requests(messages: tuple[ChatMessage, ...], window: int) -> list[list[ChatMessage]]:
    """The lists that a host sent before some of the answers, each larger than the last by at least an eighth of the
    window, up to three windows. Characters / 4 are taken for tokens."""
    requests: list[list[ChatMessage]] = []
    size = last = 0
    for at, message in enumerate(messages):
        is_step = message["role"] == "assistant" and at > 0 and size - last > window // 8
        if is_step or at == len(messages) - 1:
            requests.append(list(messages[:at]))
            last = size
        if last > 3 * window:
            break
        size += len(msgspec.json.encode(message)) // 4
    return requests


def read_blocks(store: Store, session: str) -> list[Block]:
    """The compactions that a session holds, oldest first."""
    return [each for each in store.read_entries(DEFAULT_NAMESPACE, session) if isinstance(each, Block)]
