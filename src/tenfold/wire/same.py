"""When two messages are the same history, although a client wrote them differently the second time.

Clients resend everything on each request, moving their cache marks, renaming call ids, dropping thinking, and writing
empty content as null, "" or nothing. None of that is a rewrite.
"""

from __future__ import annotations

import hashlib

import msgspec

from tenfold.record.message import Document, Image, Message, Opaque, Part, Text, Thinking, ToolCall, ToolResult


def same_key(message: Message) -> bytes:
    """A digest that is equal for messages that are the same history: 16 bytes."""
    digest = hashlib.blake2b(message.role.encode(), digest_size=16)
    for part in message.parts:
        for piece in _pieces(part):
            digest.update(b"\0")
            digest.update(piece)
    return digest.digest()


def _pieces(part: Part) -> tuple[bytes, ...]:
    match part:
        case Text(text):
            return (b"t", text.encode(errors="surrogatepass")) if text.strip() else ()
        case Thinking():
            return ()
        case ToolCall(name=name, arguments=arguments):
            return (b"c", name.encode(), _canonical(arguments))
        case ToolResult(content=content):
            return (b"r", *(p for inner in content for p in _pieces(inner)))
        case Image(data=data, url=url):
            return (b"i", data.encode(), url.encode())
        case Document(name=name, text=text, data=data, url=url):
            return (b"d", name.encode(), text.encode(errors="surrogatepass"), data.encode(), url.encode())
        case Opaque(kind=kind, raw=raw, bound=bound):
            return (b"o", kind.encode(), _unmarked(raw) if bound else raw)


_MARKS = frozenset({"cache_control", "id", "created_by", "status"})
"""Fields of a provider's own compaction that are not what it says: a client may move or leave them."""


def _unmarked(raw: bytes) -> bytes:
    try:
        found = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, msgspec.ValidationError):
        return raw
    said = {key: msgspec.json.decode(value) for key, value in found.items() if key not in _MARKS}
    return msgspec.json.encode(said, order="sorted")


def _canonical(arguments: str) -> bytes:
    try:
        return msgspec.json.encode(msgspec.json.decode(arguments.encode()), order="sorted")
    except (msgspec.DecodeError, UnicodeEncodeError):
        return arguments.encode(errors="surrogatepass")
