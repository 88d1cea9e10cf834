"""Reads JSON of unknown origin: bounded in depth, and as text, with a line for each object."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import msgspec

MAX_DEPTH = 200
"""Levels of arrays and objects that are read. What is nested deeper stays a text that nobody looks into.

Python's own limit of some 1,000 calls depends on who calls, and code that walks through a value takes two for a level.
"""
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_BRACKET = re.compile(_STRING.pattern + rb"|[\[\]{}]", re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def decode_json(text: str | bytes) -> object:
    """Returns a JSON value as plain dicts, lists, texts and numbers.

    None if the text is not JSON, is `null`, or is nested deeper than `MAX_DEPTH`: then take it as it is.
    """
    try:
        value: object = msgspec.json.decode(text)
        is_readable = not is_too_deep(text.encode() if isinstance(text, str) else text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return value if is_readable else None


def decode_arguments(arguments: str) -> dict[str, object] | None:
    """Decodes a tool call's arguments. Returns None if they are no JSON object: a view may show them shortened."""
    value = decode_json(arguments)
    return value if isinstance(value, dict) else None


def is_too_deep(raw: bytes) -> bool:
    """Tells whether a JSON text is nested deeper than `MAX_DEPTH`."""
    if raw.count(b"[") + raw.count(b"{") <= MAX_DEPTH:
        return False
    depth, deepest = 0, 0
    for bracket in _STRING.sub(b"", raw).translate(None, delete=_NO_BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest > MAX_DEPTH


def quote_deep(raw: bytes) -> bytes:
    """Returns a JSON text in which each array and object on the level `MAX_DEPTH` is a text: the JSON that it was.

    So the rest can be read, and nothing is lost. A text that is not nested so deeply is returned as it is.
    """
    if not is_too_deep(raw):
        return raw
    depth, start, end = 0, 0, 0
    pieces: list[bytes] = []
    for token in _BRACKET.finditer(raw):
        first = raw[token.start()]
        if first in b"[{":
            depth += 1
            start = token.start() if depth == MAX_DEPTH else start
        elif first in b"]}":
            if depth == MAX_DEPTH:
                deep = raw[start : token.end()].decode("utf-8", "surrogateescape")
                quoted = json.dumps(deep, ensure_ascii=False).encode("utf-8", "surrogateescape")
                pieces += [raw[end:start], quoted]
                end = token.end()
            depth -= 1
    return b"".join((*pieces, raw[end:]))


def extract_prose(text: str) -> str:
    """Returns what a message says. Some agents say it in a JSON object: then its values, each after its key.

    The key is left out if there is only one, as in `{"message": "Done."}`.
    """
    value = decode_json(text) if text.lstrip()[:1] == "{" else None
    if not isinstance(value, dict):
        return text
    only = next(iter(value.values())) if len(value) == 1 else None
    return only if isinstance(only, str) else "\n".join(_iter_objects(value, ""))


def flatten_json(text: str) -> list[str] | None:
    """Returns a line for each object of a JSON text, with its plain values. None if the text is no JSON."""
    value = decode_json(text)
    return None if value is None else list(_iter_objects(value, ""))


def _iter_objects(value: object, name: str) -> Iterator[str]:
    """Yields one line for each object: its plain values as `key value`. Objects within it follow."""
    if isinstance(value, dict):
        plain = [
            f"{key}: {item}"
            for key, item in value.items()
            if not isinstance(item, dict | list) and item not in (None, "")
        ]
        if plain:
            yield f"{name}: {', '.join(plain)}" if name else ", ".join(plain)
        for key, item in value.items():
            if isinstance(item, dict | list):
                yield from _iter_objects(item, str(key))
    elif isinstance(value, list):
        plain = [str(item) for item in value if not isinstance(item, dict | list)]
        if plain:
            yield f"{name}: {', '.join(plain)}" if name else ", ".join(plain)
        for item in value:
            if isinstance(item, dict | list):
                yield from _iter_objects(item, name)
    else:
        yield str(value)
