"""LangChain's messages: `HumanMessage`, `AIMessage`, `ToolMessage` and `SystemMessage`, as OpenAI Chat messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage, ToolMessage, convert_to_messages, convert_to_openai_messages

from tenfold.core.wire.given_values import name_type
from tenfold.errors import BadInput


class LangchainConverter:
    """Converts LangChain's messages. See `Converter`."""

    wire = "openai-chat"

    def read(self, message: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - whatever stands in a list
        """See `Converter.read`. LangChain's own function does it."""
        if not isinstance(message, BaseMessage):
            raise BadInput(f"{name_type(message)} is no message of LangChain")
        item = convert_to_openai_messages(message, text_format="string")
        assert isinstance(item, dict)
        if isinstance(message, ToolMessage) and message.name:
            item.setdefault("name", message.name)
        return [item]

    def build(self, messages: Sequence[Mapping[str, Any]]) -> list[BaseMessage]:
        """See `Converter.build`."""
        return convert_to_messages([dict(message) for message in messages])


CONVERTER = LangchainConverter()
