"""What a model reads or writes. Frozen values; nothing here has behaviour.

`Native` keeps the exact bytes a message arrived as, so that what a caller gave us is what a caller gets back.
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
    """A model's reasoning. With a `signature` (or encrypted content) a provider accepts it only unedited."""

    text: str
    signature: str = ""


class ToolCall(Struct, frozen=True, tag="call", omit_defaults=True):
    """A call of a tool. `arguments` is the raw text of the arguments, normally a JSON object, never re-encoded."""

    id: str
    name: str
    arguments: str = "{}"


class Image(Struct, frozen=True, tag="image", omit_defaults=True):
    """An image by base64 `data` or by `url`. Width and height in pixels where known, else 0."""

    media: str = ""
    data: str = ""
    url: str = ""
    width: int = 0
    height: int = 0


class Document(Struct, frozen=True, tag="document", omit_defaults=True):
    """An attached file: inline `text`, base64 `data`, or a `url`. `pages` where known, else 0."""

    name: str = ""
    media: str = ""
    text: str = ""
    data: str = ""
    url: str = ""
    pages: int = 0


class Opaque(Struct, frozen=True, tag="opaque", omit_defaults=True):
    """A part no reader understands, kept as its raw JSON. `kind` is its native type name.

    `bound` names the wire whose provider alone can read it: it stands for all that came before it in a conversation
    which that provider compacted itself. It is never shortened, split or summarized, and goes to no other provider.
    """

    kind: str
    raw: bytes
    bound: str = ""


class ToolResult(Struct, frozen=True, tag="result", omit_defaults=True):
    """What a tool gave back for the call with id `call`."""

    call: str
    name: str = ""
    content: tuple[Text | Image | Document | Opaque, ...] = ()
    error: bool = False


Part = Text | Thinking | ToolCall | ToolResult | Image | Document | Opaque


class Native(Struct, frozen=True, omit_defaults=True):
    """The bytes a message arrived as: `lead + head + body + tail`.

    A native message that mixes tool results and user text is split into several messages with one `group`,
    `index` 0..`count`-1; `body` is then this message's own block, and `head`/`tail` the envelope and separators
    around it, so that the bytes of a whole group, concatenated, are the native message.
    `lead` is what stood before the native message in its container (an array's opening, a comma, white space).
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
    """One message. `origin` is the trust label: a tool's output written as a user line is still `tool`.

    A message with role `tool` holds exactly one `ToolResult`. `status` is the provider's end state of an answer.
    """

    role: Role
    parts: tuple[Part, ...]
    origin: Origin
    status: Status = "ok"
    native: Native | None = None


def text_of(message: Message) -> str:
    """The message's readable text: text parts, tool output and inline documents, joined by newlines."""
    out: list[str] = []
    for part in message.parts:
        if isinstance(part, Text):
            out.append(part.text)
        elif isinstance(part, ToolResult):
            out.extend(p.text for p in part.content if isinstance(p, Text | Document) and p.text)
        elif isinstance(part, Document) and part.text:
            out.append(part.text)
    return "\n".join(out)


def calls_of(message: Message) -> tuple[ToolCall, ...]:
    """The tool calls of an assistant message, in order."""
    return tuple([p for p in message.parts if isinstance(p, ToolCall)])


def native_compaction(message: Message) -> Opaque | None:
    """The part by which a provider compacted the conversation itself, None for other messages."""
    return next((p for p in message.parts if isinstance(p, Opaque) and p.bound), None)


def refers(message: Message) -> bool:
    """Whether a message names items that only the provider has: calls may be among them."""
    return any(isinstance(p, Opaque) and p.kind == "item_reference" for p in message.parts)


def result_of(message: Message) -> ToolResult | None:
    """The tool result that a tool message holds, None for other messages."""
    if message.role != "tool":
        return None
    return next((p for p in message.parts if isinstance(p, ToolResult)), None)
