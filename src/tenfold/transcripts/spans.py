"""Where in a JSON text its values stand, so that they can be lifted out and put back without re-encoding.

Positions are characters of the decoded text. The standard library's scanner does the parsing; this module only
remembers where each value began and ended.
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
    """A value of a JSON text: `text[start:end]` is its spelling, `value` what it means, `key` its key in an object."""

    start: int
    end: int
    value: Any
    key: str = ""


def decoded(data: bytes, file: str) -> str:
    """The text of a UTF-8 file. Raises `BadInput` with the offset of the first byte that is not UTF-8."""
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
    """The value that begins at or after `at`. Raises `ValueError` (a `JSONDecodeError`) where there is none."""
    start = _skip(text, at)
    try:
        value, end = _decoder.raw_decode(text, start)
    except RecursionError:
        raise json.JSONDecodeError("nested too deeply to read", text, start) from None
    if _lone.search(text, start, end):
        value = _whole(value)
    return Span(start, end, value)


def _whole(value: object) -> object:
    """The value with unpaired surrogates replaced: they cannot be stored as UTF-8. The bytes keep them."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_whole(v) for v in value]
    if isinstance(value, dict):
        return {_whole(k): _whole(v) for k, v in value.items()}
    return value


def _next(text: str, at: int, close: str) -> int | None:
    """The place after a comma, or None when `close` ends the container."""
    at = _skip(text, at)
    mark = text[at : at + 1]
    if mark == close:
        return None
    if mark != ",":
        raise json.JSONDecodeError(f"',' or '{close}' was expected", text, at)
    return at + 1


def elements(text: str, at: int) -> list[Span]:
    """The elements of the array whose '[' stands at `at`."""
    out: list[Span] = []
    here: int | None = at + 1
    if text[_skip(text, at + 1) :][:1] == "]":
        return out
    while here is not None:
        span = value_at(text, here)
        out.append(span)
        here = _next(text, span.end, "]")
    return out


def members(text: str, at: int) -> list[Span]:
    """The members of the object whose '{' stands at `at`, each with its key, in order."""
    out: list[Span] = []
    here: int | None = _skip(text, at + 1)
    if text[_skip(text, at + 1) :][:1] == "}":
        return out
    while here is not None:
        here = _skip(text, here)
        if text[here : here + 1] != '"':
            raise json.JSONDecodeError("a key in quotes was expected", text, here)
        named = value_at(text, here)
        here = _skip(text, named.end)
        if text[here : here + 1] != ":":
            raise json.JSONDecodeError("':' was expected", text, here)
        span = value_at(text, here + 1)
        out.append(Span(span.start, span.end, span.value, str(named.value)))
        here = _next(text, span.end, "}")
    return out


def member(text: str, at: int, key: str) -> Span | None:
    """The value of `key` in the object at `at`; of several, the last, as JSON parsers take it."""
    found = [span for span in members(text, at) if span.key == key]
    return found[-1] if found else None


def _must_end(text: str, at: int) -> None:
    if at != len(text):
        raise json.JSONDecodeError("something follows the end of the JSON value", text, at)


def document(data: bytes, file: str) -> tuple[str, Span]:
    """The text of a JSON file and its one value. Raises `DamagedLine` with the line, or `BadInput` if not UTF-8."""
    text = decoded(data, file)
    at = 1 if text.startswith("\ufeff") else 0
    try:
        span = value_at(text, at)
        _must_end(text, _skip(text, span.end))
    except json.JSONDecodeError as exc:
        raise DamagedLine(
            f"{file}: line {exc.lineno}, column {exc.colno}: {exc.msg}; the file is one JSON value and may have been "
            "cut off: it cannot be read in part, not even with --skip-damaged, so export or copy it again",
            line=exc.lineno,
        ) from exc
    return text, span


def loose(text: str) -> object:
    """A call's arguments as a JSON value; text that is none as a JSON object that holds it under `_raw`."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return {"_raw": text}
