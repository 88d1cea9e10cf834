"""Recognises a message that a client resends, even if it is written differently the second time.

Clients resend everything on each request. They move their cache marks, rename ids, drop thinking, order keys otherwise,
and write empty content as null, "" or nothing. None of that counts as a changed message.
"""

from __future__ import annotations

import hashlib

import msgspec

from tenfold.core.record.message import Document, Image, Message, OpaquePart, Part, Text, Thinking, ToolCall, ToolResult
from tenfold.core.text.json_text import decode_json


def fingerprint_message(message: Message) -> bytes:
    """Returns a digest of 16 bytes that is equal for two messages if one is a resent form of the other."""
    digest = hashlib.blake2b(message.role.encode(), digest_size=16)
    is_text = False
    for part in message.parts:
        if is_text and isinstance(part, Text):  # text in several parts is the text in one
            digest.update(part.text.encode(errors="surrogatepass") if part.text.strip() else b"")
            continue
        for piece in _list_pieces(part):
            is_text = isinstance(part, Text)
            digest.update(b"\0")
            digest.update(piece)
    return digest.digest()


def digest_purged(entry: str, fingerprint: bytes) -> bytes:
    """Returns what is kept of a message that was purged, by which it is recognised if it is sent again."""
    return hashlib.blake2b(fingerprint, key=entry.encode()[:64], digest_size=16).digest()


def _list_pieces(part: Part) -> tuple[bytes, ...]:
    match part:
        case Text(text):
            return (b"t", text.encode(errors="surrogatepass")) if text.strip() else ()
        case Thinking():
            return ()
        case ToolCall(name=name, arguments=arguments):
            return (b"c", name.encode(), canonicalize_json(arguments))
        case ToolResult(content=content):
            return (b"r", *(p for inner in content for p in _list_pieces(inner)))
        case Image(data=data, url=url):
            return (b"i", data.encode(), url.encode())
        case Document(name=name, text=text, data=data, url=url):
            return (b"d", name.encode(), text.encode(errors="surrogatepass"), data.encode(), url.encode())
        case OpaquePart(kind=kind, raw=raw):
            return (b"o", kind.encode(), _canonicalize_part(raw))


_IGNORED_FIELDS = frozenset({"cache_control", "id", "created_by", "status"})
"""Fields of a part of another kind that are not its content: a client may move or omit them."""


def _canonicalize_part(raw: bytes) -> bytes:
    """Returns the content of a part in one form. Where it has an id and nothing else, as a reference, that is it."""
    fields = decode_json(raw)
    if not isinstance(fields, dict):
        return raw
    content = {key: value for key, value in fields.items() if key not in _IGNORED_FIELDS}
    if "id" in fields and not content.keys() - {"type"}:
        content["id"] = fields["id"]
    return msgspec.json.encode(content, order="sorted")


def canonicalize_json(arguments: str) -> bytes:
    """Returns a JSON text in one form, whatever its spaces and the order of its keys; any other text as it is.

    No text is the same as no arguments.
    """
    value = decode_json(arguments) if arguments.strip() else {}
    return msgspec.json.encode(value, order="sorted") if value is not None else arguments.encode(errors="surrogatepass")
