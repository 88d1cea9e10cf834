"""OpenHands' messages (`openhands.sdk.llm.Message`) as OpenAI Chat messages.

What that wire has no field for stands where LiteLLM has it: `thinking_blocks`, and `provider_specific_fields` with the
reasoning item of Responses. What they say is in `reasoning` too, if the message has no `reasoning_content`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from openhands.sdk.llm import ImageContent, Message, MessageToolCall, TextContent, ThinkingBlock

from tenfold.core.wire.given_values import name_type
from tenfold.errors import BadInput

_ITEM = "responses_reasoning_item"


class OpenhandsConverter:
    """Converts OpenHands' messages. See `Converter`."""

    wire = "openai-chat"

    def read(self, message: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - whatever stands in a list
        """See `Converter.read`. A text may be longer here than OpenHands sends it: it cuts long results when it sends.

        Raises `BadInput` for an event: what a model answered in one message may be several events.
        """
        if not isinstance(message, Message):
            raise BadInput(
                f"{name_type(message)} is no Message of OpenHands. "
                "LLMConvertibleEvent.events_to_messages(events) makes messages of events"
            )
        item: dict[str, Any] = {"role": message.role, "content": _read_content(message)}
        fields = message.model_dump(include={"tool_call_id", "name", "reasoning_content", "thinking_blocks", _ITEM})
        reasoning_item = fields.pop(_ITEM)
        fields["provider_specific_fields"] = {_ITEM: reasoning_item} if reasoning_item else None
        fields["reasoning"] = None if message.reasoning_content else _read_thoughts(message)
        fields["tool_calls"] = [_read_call(call) for call in message.tool_calls or ()]
        return [item | {name: value for name, value in fields.items() if value}]

    def build(self, messages: Sequence[Mapping[str, Any]]) -> list[Message]:
        """See `Converter.build`. A result gets the name of its tool if the call is among the messages."""
        names: dict[str, str] = {}
        return [_build_message(message, names) for message in messages]


def _read_content(message: Message) -> Any:  # noqa: ANN401 - text, parts or None
    parts: list[dict[str, Any]] = []
    for part in message.content:
        if isinstance(part, TextContent):
            parts.append({"type": "text", "text": part.text})
        else:
            parts += [{"type": "image_url", "image_url": {"url": url}} for url in part.image_urls]
    if [part["type"] for part in parts] == ["text"]:
        return parts[0]["text"]
    return parts or (None if message.tool_calls else "")


def _read_thoughts(message: Message) -> str:
    """Reads what the model thought, as far as that is text."""
    item = message.responses_reasoning_item
    texts = [block.thinking for block in message.thinking_blocks if isinstance(block, ThinkingBlock)]
    return "\n".join(filter(None, [*texts, *(item.summary if item else ()), *(item.content or () if item else ())]))


def _read_call(call: MessageToolCall) -> dict[str, Any]:
    own = {"responses_item_id": call.responses_item_id} if call.responses_item_id else {}
    return {**call.to_chat_dict(), **own, **({} if call.origin == "completion" else {"origin": call.origin})}


def _build_message(message: Mapping[str, Any], names: dict[str, str]) -> Message:
    """Builds a message. `names` collects the names of the tools by the ids of their calls."""
    calls = [_build_call(call) for call in message.get("tool_calls") or ()]
    names.update({call.id: call.name for call in calls})
    role, answers, blocks = message["role"], message.get("tool_call_id"), message.get("thinking_blocks") or []
    item = (message.get("provider_specific_fields") or {}).get(_ITEM)
    thoughts = message.get("reasoning_content") or (None if blocks or item else message.get("reasoning"))
    return Message(
        role="system" if role == "developer" else role,
        content=_build_content(message.get("content")),
        tool_calls=calls or None,
        tool_call_id=answers,
        name=message.get("name") or (names.get(answers, "") if answers else None),
        reasoning_content=thoughts,
        thinking_blocks=blocks,
        responses_reasoning_item=item,
    )


def _build_call(call: Mapping[str, Any]) -> MessageToolCall:
    function = call.get("function") or {}
    return MessageToolCall(
        id=call["id"],
        name=function.get("name", ""),
        arguments=function.get("arguments", ""),
        origin=call.get("origin", "completion"),
        responses_item_id=call.get("responses_item_id"),
    )


def _build_content(content: Any) -> list[TextContent | ImageContent]:  # noqa: ANN401 - text, parts or None
    if isinstance(content, str):
        return [TextContent(text=content)]
    return [_build_part(part) for part in content or ()]


def _build_part(part: Mapping[str, Any]) -> TextContent | ImageContent:
    match part.get("type"):
        case "text":
            return TextContent(text=part["text"])
        case "image_url":
            return ImageContent(image_urls=[part["image_url"]["url"]])
        case other:
            raise BadInput(f"a Message of OpenHands holds texts and images, and no part of the type {other!r}")


CONVERTER = OpenhandsConverter()
