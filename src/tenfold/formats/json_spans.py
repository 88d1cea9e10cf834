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

_SPACE = re.compile(r"[ \t\r\n]*")
_LONE_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_DECODER = json.JSONDecoder()


class JsonSpan(Struct, frozen=True):
    """A value in a JSON text: `text[start:end]` is its text, `value` the parsed value, `key` its key in an object."""

    start: int
    end: int
    value: Any
    key: str = ""


def decode_utf8(data: bytes, file: str) -> str:
    """Decodes a UTF-8 file. Raises `BadInput` with the offset of the first byte that is not UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise BadInput(
            f"{file}: byte {exc.start} (0x{data[exc.start]:02x}) is not UTF-8; convert the file to UTF-8 first"
        ) from exc


def _skip_space(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return found.end() if found else position


def parse_value(text: str, position: int) -> JsonSpan:
    """Parses the value that begins at or after `position`. Raises `JSONDecodeError` if there is none."""
    start = _skip_space(text, position)
    try:
        value, end = _DECODER.raw_decode(text, start)
    except RecursionError:
        raise json.JSONDecodeError("nested too deeply to read", text, start) from None
    if _LONE_SURROGATE.search(text, start, end):
        value = _replace_lone_surrogates(value)
    return JsonSpan(start, end, value)


def _replace_lone_surrogates(value: object) -> object:
    """Replaces unpaired surrogates, which cannot be stored as UTF-8. The original bytes still hold them."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_replace_lone_surrogates(v) for v in value]
    if isinstance(value, dict):
        return {_replace_lone_surrogates(k): _replace_lone_surrogates(v) for k, v in value.items()}
    return value


def _find_next(text: str, position: int, closing: str) -> int | None:
    """Returns the position after the next comma, or None if `closing` ends the array or object."""
    position = _skip_space(text, position)
    mark = text[position : position + 1]
    if mark == closing:
        return None
    if mark != ",":
        raise json.JSONDecodeError(f"',' or '{closing}' was expected", text, position)
    return position + 1


def parse_elements(text: str, position: int) -> list[JsonSpan]:
    """Parses the elements of the array whose '[' is at `position`."""
    out: list[JsonSpan] = []
    current: int | None = position + 1
    if text[_skip_space(text, position + 1) :][:1] == "]":
        return out
    while current is not None:
        span = parse_value(text, current)
        out.append(span)
        current = _find_next(text, span.end, "]")
    return out


def parse_members(text: str, position: int) -> list[JsonSpan]:
    """Parses the members of the object whose '{' is at `position`, each with its key, in order."""
    out: list[JsonSpan] = []
    current: int | None = _skip_space(text, position + 1)
    if text[_skip_space(text, position + 1) :][:1] == "}":
        return out
    while current is not None:
        current = _skip_space(text, current)
        if text[current : current + 1] != '"':
            raise json.JSONDecodeError("a key in quotes was expected", text, current)
        key = parse_value(text, current)
        current = _skip_space(text, key.end)
        if text[current : current + 1] != ":":
            raise json.JSONDecodeError("':' was expected", text, current)
        span = parse_value(text, current + 1)
        out.append(JsonSpan(span.start, span.end, span.value, str(key.value)))
        current = _find_next(text, span.end, "}")
    return out


def find_member(text: str, position: int, key: str) -> JsonSpan | None:
    """Finds the value of `key` in the object at `position`. If the key is repeated, the last value counts."""
    spans = [span for span in parse_members(text, position) if span.key == key]
    return spans[-1] if spans else None


def _require_end(text: str, position: int) -> None:
    if position != len(text):
        raise json.JSONDecodeError("something follows the end of the JSON value", text, position)


def parse_document(data: bytes, file: str) -> tuple[str, JsonSpan]:
    """Parses a file that is one JSON value. Returns its text and the value.

    Raises `DamagedLine` with the line number, or `BadInput` if the file is not UTF-8.
    """
    text = decode_utf8(data, file)
    start = 1 if text.startswith("\ufeff") else 0
    try:
        span = parse_value(text, start)
        _require_end(text, _skip_space(text, span.end))
    except json.JSONDecodeError as exc:
        raise DamagedLine(
            f"{file}: line {exc.lineno}, column {exc.colno}: {exc.msg}; the file is one JSON value and may have been "
            "cut off: it cannot be read in part, not even with --skip-damaged, so export or copy it again",
            line=exc.lineno,
        ) from exc
    return text, span


def parse_arguments(text: str) -> object:
    """Parses a tool call's arguments. Text that is not JSON becomes an object that holds it under `_raw`."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return {"_raw": text}
