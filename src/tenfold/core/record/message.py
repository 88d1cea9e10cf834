"""Messages, which a model reads or writes, and their parts, as frozen values.

`NativeBytes` keeps the exact bytes in which a message arrived, so that a caller gets back exactly what it gave us.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Role = Literal["system", "user", "assistant", "tool"]
Origin = Literal["human", "tool", "harness", "model", "tenfold"]
Status = Literal["ok", "aborted", "error"]


class Text(Struct, frozen=True, tag="text"):
    """Plain text."""

    text: str


class Thinking(Struct, frozen=True, tag="thinking", omit_defaults=True):
    """A model's reasoning. If it has a `signature` (or encrypted content), a provider accepts it only unchanged."""

    text: str
    signature: str = ""


class ToolCall(Struct, frozen=True, tag="call", omit_defaults=True):
    """A tool call. `arguments` is the raw text of the arguments, normally a JSON object; it is never re-encoded."""

    id: str
    name: str
    arguments: str = "{}"


class Image(Struct, frozen=True, tag="image", omit_defaults=True, rename={"media_type": "media"}):
    """An image, as base64 `data` or as a `url`. Width and height are in pixels, 0 if unknown.

    `detail` is the word by which the request says how closely the model should look, "" if it does not say.
    """

    media_type: str = ""
    data: str = ""
    url: str = ""
    width: int = 0
    height: int = 0
    detail: str = ""


class Document(Struct, frozen=True, tag="document", omit_defaults=True, rename={"media_type": "media"}):
    """An attached file, as inline `text`, base64 `data` or a `url`. `pages` is 0 if unknown."""

    name: str = ""
    media_type: str = ""
    text: str = ""
    data: str = ""
    url: str = ""
    pages: int = 0


class OpaquePart(Struct, frozen=True, tag="opaque", omit_defaults=True, rename={"bound_wire": "bound"}):
    """A part of a type we do not know, kept as raw JSON. `kind` is its native type name.

    `bound_wire` is set if a provider compacted the conversation itself into this part, which replaces all that came
    before it. It names the wire of the only provider that can read the part. Such a part is never shortened, split or
    summarized, and is sent to no other provider.
    """

    kind: str
    raw: bytes
    bound_wire: str = ""


class ToolResult(
    Struct, frozen=True, tag="result", omit_defaults=True, rename={"call_id": "call", "is_error": "error"}
):
    """The result of the tool call with id `call_id`."""

    call_id: str
    name: str = ""
    content: tuple[Text | Image | Document | OpaquePart, ...] = ()
    is_error: bool = False


Part = Text | Thinking | ToolCall | ToolResult | Image | Document | OpaquePart


class NativeBytes(Struct, frozen=True, omit_defaults=True):
    """The bytes in which a message arrived: `lead + head + body + tail`.

    A native message that mixes tool results and user text is split into several of our messages. They share one
    `group` and have the `index` 0 to `count` - 1. The `body` is then the message's own blocks, and `head` and `tail`
    are the envelope and separators around them. The bytes of a whole group, concatenated, are the native message.
    `lead` is what stood before the native message in its container: an array's opening, a comma, white space.
    """

    format: str
    body: bytes
    lead: bytes = b""
    head: bytes = b""
    tail: bytes = b""
    group: str = ""
    index: int = 0
    count: int = 1


class Message(Struct, frozen=True, omit_defaults=True):
    """One message. `origin` says whose words it holds: a tool's output in a user message still has the origin `tool`.

    A message with the role `tool` holds exactly one `ToolResult`. `status` says whether an answer was finished.
    """

    role: Role
    parts: tuple[Part, ...]
    origin: Origin
    status: Status = "ok"
    native: NativeBytes | None = None


def get_text(message: Message) -> str:
    """Returns the readable text: text parts, tool results and inline documents, joined by newlines."""
    out: list[str] = []
    for part in message.parts:
        if isinstance(part, Text):
            out.append(part.text)
        elif isinstance(part, ToolResult):
            out.extend(p.text for p in part.content if isinstance(p, Text | Document) and p.text)
        elif isinstance(part, Document) and part.text:
            out.append(part.text)
    return "\n".join(out)


def get_tool_calls(message: Message) -> tuple[ToolCall, ...]:
    """Returns the tool calls of an assistant message, in order."""
    return tuple([p for p in message.parts if isinstance(p, ToolCall)])


def find_native_compaction(message: Message) -> OpaquePart | None:
    """Returns the part into which a provider compacted the conversation itself. None if there is no such part."""
    return next((p for p in message.parts if isinstance(p, OpaquePart) and p.bound_wire), None)


def has_item_references(message: Message) -> bool:
    """Whether a message refers to items that only the provider has stored. Tool calls may be among them."""
    return any(isinstance(p, OpaquePart) and p.kind == "item_reference" for p in message.parts)


def get_tool_result(message: Message) -> ToolResult | None:
    """Returns the tool result of a tool message, None for other messages."""
    if message.role != "tool":
        return None
    return next((p for p in message.parts if isinstance(p, ToolResult)), None)


def get_call_ids(message: Message) -> list[str]:
    """Returns the ids of the tool calls of a message, and of the call that it answers."""
    result = get_tool_result(message)
    return [c.id for c in get_tool_calls(message)] + ([result.call_id] if result is not None else [])
