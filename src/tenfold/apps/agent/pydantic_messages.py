"""Converts pydantic-ai's messages to ours and back, and reads its requests, events and tool results.

Where nothing was replaced, the original objects come back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pydantic_ai.messages import (
    AgentStreamEvent,
    ModelMessage,
    ModelMessagesTypeAdapter,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolReturnPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.run import AgentRunResultEvent
from pydantic_core import PydanticSerializationError

from tenfold.core.record.message import Message
from tenfold.core.text.surrogates import replace_surrogates
from tenfold.core.wire.marks import SummaryConfirmer
from tenfold.core.wire.pydantic_ai import WIRE
from tenfold.core.wire.sdk_values import encode_value

MessagesByJson = Mapping[bytes, ModelMessage]
"""An agent's messages, keyed by their JSON."""


class _DecodedMessage(NamedTuple):
    """A message of an agent: itself, what is sent of it (without lone surrogates), its JSON, and ours."""

    original: ModelMessage
    sendable: ModelMessage
    raw: bytes
    decoded: list[Message]


class MessageReader:
    """Reads an agent's message lists.

    An agent sends its whole list with every call, so each object is decoded once and cached.
    """

    def __init__(self, confirm: SummaryConfirmer | None = None) -> None:
        """`confirm` recognizes the summaries that we wrote ourselves."""
        self._confirm = confirm
        self._cache: dict[tuple[int, int], _DecodedMessage] = {}

    def read(self, messages: Sequence[ModelMessage]) -> tuple[list[Message], MessagesByJson]:
        """Returns the list as our messages, and the list's objects keyed by the JSON they were read from."""
        cache: dict[tuple[int, int], _DecodedMessage] = {}
        for each in messages:
            key = (id(each), len(each.parts))  # parts may still be added to the newest message
            cache[key] = self._cache.get(key) or self._decode(each)
        self._cache = cache
        objects = {each.raw: each.sendable for each in cache.values()}
        return [m for each in messages for m in cache[id(each), len(each.parts)].decoded], objects

    def get_sendable(self, messages: Sequence[ModelMessage]) -> list[ModelMessage]:
        """Returns the messages that were read last, without lone surrogates. One that has none is the same object."""
        return [self._cache[id(each), len(each.parts)].sendable for each in messages]

    def _decode(self, message: ModelMessage) -> _DecodedMessage:
        sendable = message
        try:
            raw = ModelMessagesTypeAdapter.dump_json([message])[1:-1]
        except PydanticSerializationError:
            plain = replace_surrogates(ModelMessagesTypeAdapter.dump_python([message], mode="json"))
            raw = ModelMessagesTypeAdapter.dump_json(ModelMessagesTypeAdapter.validate_python(plain))[1:-1]
            (sendable,) = ModelMessagesTypeAdapter.validate_json(b"[" + raw + b"]")
        return _DecodedMessage(message, sendable, raw, WIRE.decode([raw], confirm=self._confirm))


def encode_messages(messages: Sequence[Message], objects: MessagesByJson) -> list[ModelMessage]:
    """Encodes our messages as an agent's list. An unchanged message comes back as its own object in `objects`."""
    items = [item.raw for item in WIRE.encode(messages).items]
    new = [raw for raw in items if raw not in objects]
    new_objects = dict(zip(new, ModelMessagesTypeAdapter.validate_json(b"[" + b",".join(new) + b"]"), strict=True))
    return [objects[raw] if raw in objects else new_objects[raw] for raw in items]


def encode_overhead(parameters: ModelRequestParameters) -> bytes:
    """Encodes what a request sends besides its messages, the instructions and the tools, as JSON to be counted."""
    tools = [(t.name, t.description, t.parameters_json_schema) for t in parameters.function_tools]
    return encode_value([[part.content for part in parameters.instruction_parts or ()], tools])


def get_text_piece(event: AgentStreamEvent | AgentRunResultEvent[str]) -> str:
    """Returns the piece of the answer's text that an event brings, "" for any other event."""
    match event:
        case PartStartEvent(part=TextPart(content=text)) | PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
            return text
        case _:
            return ""


def get_result_text(part: ToolReturnPart) -> str:
    """Returns a tool result as the text that the model reads."""
    return part.content if isinstance(part.content, str) else part.model_response_str()
