"""Finds the position of values in a JSON text, so that they can be taken out and put back without re-encoding.

Positions count characters of the decoded text. The standard library's scanner does the parsing; this module only
records where each value begins and ends.
"""

from __future__ import annotations

import json
import re
from typing import Any

from msgspec import Struct

from tenfold.errors import BadInput, DamagedLine

_space = re.compile(r"[ \t\r\n]*")
_lone = re.compile(r"\\u[dD][89a-fA-F]")
_decoder = json.JSONDecoder()


class Span(Struct, frozen=True):
    """A value in a JSON text: `text[start:end]` is its text, `value` the parsed value, `key` its key in an object."""

    start: int
    end: int
    value: Any
    key: str = ""


def decoded(data: bytes, file: str) -> str:
    """Decodes a UTF-8 file. Raises `BadInput` with the offset of the first byte that is not UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise BadInput(
            f"{file}: byte {exc.start} (0x{data[exc.start]:02x}) is not UTF-8; convert the file to UTF-8 first"
        ) from exc


def _skip(text: str, at: int) -> int:
    found = _space.match(text, at)
    return found.end() if found else at


def value_at(text: str, at: int) -> Span:
    """Parses the value that begins at or after `position`. Raises `JSONDecodeError` if there is none."""
    start = _skip(text, at)
    try:
        value, end = _decoder.raw_decode(text, start)
    except RecursionError:
        raise json.JSONDecodeError("nested too deeply to read", text, start) from None
    if _lone.search(text, start, end):
        value = _whole(value)
    return Span(start, end, value)


def _whole(value: object) -> object:
    """Replaces unpaired surrogates, which cannot be stored as UTF-8. The original bytes still hold them."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_whole(v) for v in value]
    if isinstance(value, dict):
        return {_whole(k): _whole(v) for k, v in value.items()}
    return value


def _next(text: str, at: int, close: str) -> int | None:
    """Returns the position after the next comma, or None if `closing` ends the array or object."""
    at = _skip(text, at)
    mark = text[at : at + 1]
    if mark == close:
        return None
    if mark != ",":
        raise json.JSONDecodeError(f"',' or '{close}' was expected", text, at)
    return at + 1


def elements(text: str, at: int) -> list[Span]:
    """Parses the elements of the array whose '[' is at `position`."""
    out: list[Span] = []
    current: int | None = at + 1
    if text[_skip(text, at + 1) :][:1] == "]":
        return out
    while current is not None:
        span = value_at(text, current)
        out.append(span)
        current = _next(text, span.end, "]")
    return out


def members(text: str, at: int) -> list[Span]:
    """Parses the members of the object whose '{' is at `position`, each with its key, in order."""
    out: list[Span] = []
    current: int | None = _skip(text, at + 1)
    if text[_skip(text, at + 1) :][:1] == "}":
        return out
    while current is not None:
        current = _skip(text, current)
        if text[current : current + 1] != '"':
            raise json.JSONDecodeError("a key in quotes was expected", text, current)
        key = value_at(text, current)
        current = _skip(text, key.end)
        if text[current : current + 1] != ":":
            raise json.JSONDecodeError("':' was expected", text, current)
        span = value_at(text, current + 1)
        out.append(Span(span.start, span.end, span.value, str(key.value)))
        current = _next(text, span.end, "}")
    return out


def member(text: str, at: int, key: str) -> Span | None:
    """Finds the value of `key` in the object at `position`. If the key is repeated, the last value counts."""
    spans = [span for span in members(text, at) if span.key == key]
    return spans[-1] if spans else None


def _must_end(text: str, at: int) -> None:
    if at != len(text):
        raise json.JSONDecodeError("something follows the end of the JSON value", text, at)


def document(data: bytes, file: str) -> tuple[str, Span]:
    """Parses a file that is one JSON value. Returns its text and the value.

    Raises `DamagedLine` with the line number, or `BadInput` if the file is not UTF-8.
    """
    text = decoded(data, file)
    start = 1 if text.startswith("\ufeff") else 0
    try:
        span = value_at(text, start)
        _must_end(text, _skip(text, span.end))
    except json.JSONDecodeError as exc:
        raise DamagedLine(
            f"{file}: line {exc.lineno}, column {exc.colno}: {exc.msg}; the file is one JSON value and may have been "
            "cut off: it cannot be read in part, not even with --skip-damaged, so export or copy it again",
            line=exc.lineno,
        ) from exc
    return text, span


def loose(text: str) -> object:
    """Parses a tool call's arguments. Text that is not JSON becomes an object that holds it under `_raw`."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return {"_raw": text}
