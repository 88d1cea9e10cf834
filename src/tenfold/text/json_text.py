"""Reads JSON as text: a line for each object."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec


def extract_prose(text: str) -> str:
    """Returns what a message says. Some agents say it in a JSON object: then its values, each after its key.

    The key is left out if there is only one, as in `{"message": "Done."}`.
    """
    value = _decode(text) if text.lstrip()[:1] == "{" else None
    if not isinstance(value, dict):
        return text
    only = next(iter(value.values())) if len(value) == 1 else None
    return only if isinstance(only, str) else "\n".join(_iter_objects(value, ""))


def flatten_json(text: str) -> list[str] | None:
    """Returns a line for each object of a JSON text, with its plain values. None if the text is no JSON."""
    value = _decode(text)
    return None if value is None else list(_iter_objects(value, ""))


def _decode(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


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
