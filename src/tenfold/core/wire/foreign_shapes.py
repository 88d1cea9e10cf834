"""The shapes of messages that other programs write and no provider takes. One look at a message tells each of them.

Such a list is refused where a provider's list belongs, with the name of its shape. The session formats of the same
names read the files that hold such lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

ShapeTest = Callable[[Mapping[str, Any]], bool]
_CONVERSE_BLOCKS = frozenset({
    "text", "image", "document", "video", "audio", "toolUse", "toolResult", "guardContent", "cachePoint",
    "reasoningContent", "citationsContent", "searchResult",
})  # fmt: skip
_GOOSE_KINDS = frozenset({
    "toolRequest", "toolResponse", "toolConfirmationRequest", "frontendToolRequest", "actionRequired",
})  # fmt: skip
_LANGCHAIN_TYPES = frozenset({"human", "ai", "system", "tool", "function", "chat", "remove", "AIMessageChunk"})
_LANGCHAIN_FIELDS = frozenset({"additional_kwargs", "response_metadata", "example", "tool_calls", "name", "id"})


class ForeignShape(Struct, frozen=True):
    """A shape of messages: the session format that reads it, what users call it, and the test of one message."""

    format: str
    title: str
    is_shape: ShapeTest


def list_blocks(value: Mapping[str, Any], key: str = "content") -> list[Mapping[str, Any]]:
    """Lists the objects in the list under a key, [] if one of its elements is no object."""
    blocks = value.get(key)
    if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
        return []
    return blocks


def _has_block(value: Mapping[str, Any], kinds: frozenset[str]) -> bool:
    return any(isinstance(kind := b.get("type"), str) and kind in kinds for b in list_blocks(value))


def _is_converse(value: Mapping[str, Any]) -> bool:
    blocks = list_blocks(value)
    is_own = all("type" not in block and not _CONVERSE_BLOCKS.isdisjoint(block) for block in blocks)
    return "role" in value and bool(blocks) and is_own


def _is_vercel_ui(value: Mapping[str, Any]) -> bool:
    if "role" not in value:
        return False
    return any("type" in part for part in list_blocks(value, "parts")) or "toolInvocations" in value


def _is_vercel_model(value: Mapping[str, Any]) -> bool:
    kinds = frozenset({"tool-call", "tool-result", "tool-approval-request", "tool-approval-response"})
    return "role" in value and _has_block(value, kinds)


def _is_goose(value: Mapping[str, Any]) -> bool:
    is_text = isinstance(value.get("created"), int) and bool(list_blocks(value))
    return "role" in value and (_has_block(value, _GOOSE_KINDS) or (is_text and "metadata" in value))


def _is_pydantic_ai(value: Mapping[str, Any]) -> bool:
    parts = list_blocks(value, "parts")
    return value.get("kind") in ("request", "response") and all("part_kind" in part for part in parts)


def _is_langchain(value: Mapping[str, Any]) -> bool:
    if value.get("lc") == 1 and isinstance(value.get("id"), list):
        return True
    kind = value.get("type")
    if not isinstance(kind, str) or kind not in _LANGCHAIN_TYPES or "role" in value:
        return False
    return isinstance(value.get("data"), dict) or ("content" in value and not _LANGCHAIN_FIELDS.isdisjoint(value))


def _is_adk(value: Mapping[str, Any]) -> bool:
    has_content = isinstance(value.get("content"), dict) or "actions" in value
    return isinstance(value.get("author"), str) and has_content and "role" not in value


def _is_run_item(value: Mapping[str, Any]) -> bool:
    return isinstance(value.get("raw_item"), dict) and isinstance(value.get("type"), str)


def _is_sharegpt(value: Mapping[str, Any]) -> bool:
    return isinstance(value.get("from"), str) and "value" in value


def _is_atif(value: Mapping[str, Any]) -> bool:
    return "step_id" in value and value.get("source") in ("system", "user", "agent")


FOREIGN_SHAPES: tuple[ForeignShape, ...] = (
    ForeignShape("pydantic-ai", "messages of pydantic-ai", _is_pydantic_ai),
    ForeignShape("langchain", "messages of LangChain", _is_langchain),
    ForeignShape("vercel-ui", "UIMessages of the Vercel AI SDK", _is_vercel_ui),
    ForeignShape("vercel-model", "ModelMessages of the Vercel AI SDK", _is_vercel_model),
    ForeignShape("bedrock-converse", "messages of Bedrock Converse (and of Strands)", _is_converse),
    ForeignShape("goose", "messages of goose", _is_goose),
    ForeignShape("adk", "events of Google ADK", _is_adk),
    ForeignShape("openai-agents", "run items of the OpenAI Agents SDK", _is_run_item),
    ForeignShape("sharegpt", "turns of ShareGPT", _is_sharegpt),
    ForeignShape("atif", "steps of an ATIF trajectory", _is_atif),
)
"""Every shape. No message has two of them."""


def find_shape(value: object) -> ForeignShape | None:
    """Finds the shape that only one program gives its messages. None for any other value."""
    if not isinstance(value, dict):
        return None
    return next((shape for shape in FOREIGN_SHAPES if shape.is_shape(value)), None)


def has_shape(value: object, format: str) -> bool:
    """Returns whether a value has the shape that this session format reads, and no other."""
    shape = find_shape(value)
    return shape is not None and shape.format == format


def find_shape_of_any(values: Iterable[object]) -> ForeignShape | None:
    """Finds the shape of the first value that has one."""
    return next((shape for value in values if (shape := find_shape(value)) is not None), None)


def explain_shape(shape: ForeignShape) -> str:
    """Says what a list of this shape is and what to do with it, where a provider's list belongs."""
    return (
        f"they look like {shape.title}, and such a list cannot be written back: let your framework convert it to "
        f"messages of its provider first, or save it as JSON and run `tenfold compact FILE --format {shape.format}`"
    )
