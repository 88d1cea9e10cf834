"""Replaces lone surrogates, which Python's `str` can hold and UTF-8, and so every store and request, cannot.

They come from a provider's JSON that was cut in the middle of an emoji.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

import msgspec
from msgspec import Struct
from msgspec.structs import fields, replace

T = TypeVar("T")


def replace_surrogates(value: T) -> T:
    r"""Returns `value` with every lone surrogate in its texts as U+FFFD, at any depth of dicts, lists, tuples, Structs.

    Two halves that belong together become their character.

        >>> replace_surrogates("cut \ud83d here") == "cut \ufffd here"
        True
    """
    try:
        msgspec.msgpack.encode(value)  # an encoder finds out much sooner that there is nothing to do
    except (UnicodeEncodeError, TypeError, OverflowError):
        return cast("T", _replace(value))
    return value


def find_cut_texts(value: object) -> list[str]:
    """Finds the texts and names with lone surrogates in a JSON value, each by its path, as in `content[0].text`."""
    found: list[str] = []
    waiting: list[tuple[str, object]] = [("", value)]
    while waiting:
        path, each = waiting.pop()
        if isinstance(each, str):
            found += [] if _is_encodable(each) else [path]
        elif isinstance(each, dict):
            inside = [(f"{path}.{key}" if path else str(key), key, inner) for key, inner in each.items()]
            found += [at for at, key, _ in inside if not _is_encodable(str(key))]
            waiting.extend((at, inner) for at, _, inner in reversed(inside))
        elif isinstance(each, list):
            waiting.extend((f"{path}[{at}]", inner) for at, inner in reversed(list(enumerate(each))))
    return [path if _is_encodable(path) else _replace_halves(path) for path in found]


def _replace(value: Any) -> Any:  # noqa: ANN401 - any value, as the JSON and the records hold them
    match value:
        case str():
            return value if _is_encodable(value) else _replace_halves(value)
        case dict():
            return {_replace(key): _replace(each) for key, each in value.items()}
        case list():
            return [_replace(each) for each in value]
        case tuple():
            return tuple(_replace(each) for each in value)
        case Struct():
            members = {field.name: getattr(value, field.name) for field in fields(value)}
            changed = {name: new for name, old in members.items() if (new := _replace(old)) != old}
            return replace(value, **changed) if changed else value
    return value


def _replace_halves(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
