"""Lists the lines of what a tool returned, as passages of a story. JSON has a line for each object."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tenfold.text.excerpts import excerpt, flatten
from tenfold.text.redaction import redact_cached

MAX_LINE_CHARS = 200
_MAX_SCANNED_LINES = 2_000


def list_result_lines(text: str) -> list[str]:
    """Lists the lines of a tool's output, each on its own. JSON has a line for each object that holds no other."""
    text = redact_cached(text)  # the whole, since a label may stand on another line than its secret
    lines = flatten_json(text) if text.lstrip()[:1] in ("{", "[") else None
    lines = text.split("\n")[:_MAX_SCANNED_LINES] if lines is None else lines
    shown = (excerpt(flatten(line), MAX_LINE_CHARS) for line in lines if any(map(str.isalnum, line)))
    return list(dict.fromkeys(shown))


def flatten_json(text: str) -> list[str] | None:
    """Returns a line for each object of a JSON text, with its plain values. None if the text is no JSON."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return list(_iter_objects(value, ""))[:_MAX_SCANNED_LINES]


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
