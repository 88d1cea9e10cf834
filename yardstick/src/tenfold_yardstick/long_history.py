"""Repeats recorded sessions, step by step, until a history is as long as a speed measurement needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, pairwise

import msgspec

from tenfold.core.record.message import Message
from tenfold.core.wire import WIRES
from tenfold.errors import UsageError
from tenfold.testing.chats import get_role
from tenfold.testing.probes.chat_text import get_text
from tenfold.testing.probes.kinds import ChatMessage
from tenfold_yardstick.cases import EvalSession

_CHAT = "openai-chat"
_SYSTEM_ROLES = ("system", "developer")


class LongHistory:
    """An endless history made of the sessions, one after the other. In each round the calls get new ids."""

    def __init__(self, sessions: Sequence[EvalSession]) -> None:
        """Raises `UsageError` if no session holds an answer of its model."""
        self._steps = [block for one in sessions for block in _split_steps(one)]
        if not any(_is_answer(block) for block in self._steps):
            raise UsageError("nothing to measure: no session holds an answer of its model; name files that do")

    def build_history(self, messages: int, *, turns: int = 0) -> tuple[list[ChatMessage], list[list[ChatMessage]]]:
        """Returns a history of at least this many messages, up to where the model answers next, and the steps after it.

        A step is an answer of the model and all that comes before the next answer.
        """
        past: list[ChatMessage] = []
        steps: list[list[ChatMessage]] = []
        for block in self.iter_steps():
            if len(past) >= messages and _is_answer(block):
                if len(steps) == turns:
                    break
                steps.append(block)
            elif steps:
                steps[-1].extend(block)
            else:
                past.extend(block)
        return past, steps

    def iter_steps(self) -> Iterator[list[ChatMessage]]:
        """Yields steps, and what comes before a session's first step, without end. System prompts are left out."""
        for number in count():
            for block in self._steps:
                yield [_with_numbered_ids(message, number) for message in block]

    def get_text(self) -> str:
        """Returns all the text of the sessions."""
        return "\n".join(get_text(message) for block in self._steps for message in block)


def decode_messages(messages: Sequence[ChatMessage]) -> list[Message]:
    """Returns the same messages as Tenfold's own."""
    return WIRES[_CHAT].decode([msgspec.json.encode(message) for message in messages])


def _split_steps(session: EvalSession) -> Iterator[list[ChatMessage]]:
    for first, last in pairwise((0, *session.legal_cuts, len(session.messages))):
        block = [message for message in session.messages[first:last] if get_role(message) not in _SYSTEM_ROLES]
        if block:
            yield block


def _is_answer(step: Sequence[ChatMessage]) -> bool:
    return get_role(step[0]) == "assistant"


def _with_numbered_ids(message: ChatMessage, number: int) -> ChatMessage:
    calls, result = message.get("tool_calls"), message.get("tool_call_id")
    renamed = dict(message)
    if isinstance(calls, list):
        renamed["tool_calls"] = [{**call, "id": f"{call['id']}.{number}"} for call in calls]
    if result is not None:
        renamed["tool_call_id"] = f"{result}.{number}"
    return renamed
