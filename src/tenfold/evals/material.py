"""Repeats recorded sessions, step by step, until a history is as long as a speed measurement needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, pairwise

import msgspec

from tenfold.errors import UsageError
from tenfold.evals.cases import ChatMessage, Conversation, role_of, text_of_message
from tenfold.record.message import Message
from tenfold.wire import WIRES

_CHAT = "openai-chat"
_FLOOR = ("system", "developer")


class Material:
    """An endless history made of the sessions, one after the other. In each round the calls get new ids."""

    def __init__(self, found: Sequence[Conversation]) -> None:
        """Raises `UsageError` if no session holds an answer of its model."""
        self._blocks = [block for one in found for block in _blocks(one)]
        if not any(_answers(block) for block in self._blocks):
            raise UsageError("nothing to measure: no session holds an answer of its model; name files that do")

    def history(self, messages: int, *, turns: int = 0) -> tuple[list[ChatMessage], list[list[ChatMessage]]]:
        """Returns a history of at least this many messages, up to where the model answers next, and the steps after it.

        A step is an answer of the model and all that comes before the next answer.
        """
        past: list[ChatMessage] = []
        steps: list[list[ChatMessage]] = []
        for block in self.blocks():
            if len(past) >= messages and _answers(block):
                if len(steps) == turns:
                    break
                steps.append(block)
            elif steps:
                steps[-1].extend(block)
            else:
                past.extend(block)
        return past, steps

    def blocks(self) -> Iterator[list[ChatMessage]]:
        """Yields steps, and what comes before a session's first step, without end. System prompts are left out."""
        for number in count():
            for block in self._blocks:
                yield [_renamed(message, number) for message in block]

    def text(self) -> str:
        """Returns all the text of the sessions."""
        return "\n".join(text_of_message(message) for block in self._blocks for message in block)


def decoded(messages: Sequence[ChatMessage]) -> list[Message]:
    """Returns the same messages as Tenfold's own."""
    return WIRES[_CHAT].decode([msgspec.json.encode(message) for message in messages])


def _blocks(one: Conversation) -> Iterator[list[ChatMessage]]:
    for first, last in pairwise((0, *one.legal, len(one.messages))):
        block = [message for message in one.messages[first:last] if role_of(message) not in _FLOOR]
        if block:
            yield block


def _answers(block: Sequence[ChatMessage]) -> bool:
    return role_of(block[0]) == "assistant"


def _renamed(message: ChatMessage, number: int) -> ChatMessage:
    calls, result = message.get("tool_calls"), message.get("tool_call_id")
    renamed = dict(message)
    if isinstance(calls, list):
        renamed["tool_calls"] = [{**call, "id": f"{call['id']}.{number}"} for call in calls]
    if result is not None:
        renamed["tool_call_id"] = f"{result}.{number}"
    return renamed
