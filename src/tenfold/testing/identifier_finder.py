"""Finds the identifiers in a text: names that an agent must have verbatim and cannot guess.

This module is for measuring only. It shares no code with the facts that summaries are made from (import-linter checks
that), so that a compaction is never measured by its own patterns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

IdentifierKind = Literal["url", "path", "symbol", "id", "number"]
IDENTIFIER_KINDS: tuple[IdentifierKind, ...] = ("path", "symbol", "id", "number", "url")

_TOKEN = re.compile(
    r"(?P<url>https?://[^\s\"'`<>()\[\]{}|\\^]+)"
    r"|(?P<path>(?:~|\.{1,2})?/?[\w.@+-]+(?:/[\w.@+-]+)+|(?<!<)/[\w.@+-]{2,})"
    r"|(?P<uuid>\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b)"
    r"|(?P<compound>(?<![\w.-])\d\w*(?:-\w+)+)"
    r"|(?P<number>(?<![\w.,-])\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\w,])|(?<![\w.-])\d{4,}(?:\.\d+)?(?!\w))"
    r"|(?P<word>[A-Za-z_#$][\w$]*(?:[-.][\w$]+)*|\d+[A-Za-z]\w*)"
)
_FILE = re.compile(
    r"[\w@+-][\w.@+-]*\.(?:c|cc|cfg|conf|cpp|cs|css|csv|go|h|hpp|html?|ini|ipynb|java|jsx?|json|jsonl|kt|lock|log|lua"
    r"|md|mjs|php|pl|png|pyi?|r|rb|rs|rst|scss|sh|sql|svg|swift|toml|tsx?|txt|vue|xml|ya?ml|zig)"
)
_CAMEL = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]")
_TRAILING = ".,:;!?-+"
_MIN_DATE_DIGITS = 8
MIN_LENGTH = 4
"""The fewest characters of an identifier, and the fewest digits of a number. Shorter ones are found by chance."""
MAX_LENGTH = 200
"""The most characters of an identifier. Anything longer is data (base64, minified code), not a name."""


class Identifier(Struct, frozen=True):
    """One identifier as it is written, and its offset in the text."""

    text: str
    kind: IdentifierKind
    offset: int


def find_identifiers(text: str) -> Iterator[Identifier]:
    """Yields every identifier in the text, in order, repetitions included. A dotted name yields each part that is one.

    A word after a backslash is skipped, because its first letter may belong to an escaped line break.
    """
    for match in _TOKEN.finditer(text):
        token, at = match.group(), match.start()
        if len(token) > MAX_LENGTH or text[at - 1 : at] == "\\":
            continue
        match match.lastgroup:
            case "url":
                yield Identifier(token.rstrip(_TRAILING + "/*"), "url", at)
            case "uuid":
                yield Identifier(token, "id", at)
            case "number":
                yield Identifier(token, "number", at)
            case "compound":
                yield from [Identifier(token, "id", at)] if _is_id(token) or _is_digit_group(token) else ()
            case "path":
                yield from _find_in_path(token, at)
            case _:
                yield from _find_in_word(token, at)


def has_identifier(text: str, identifier: str) -> bool:
    """Whether the text holds the whole identifier, not inside a longer name. A path may be the end of a longer path."""
    return locate_identifier(text, identifier) >= 0


def locate_identifier(text: str, identifier: str, start: int = 0) -> int:
    """Returns the first offset at which the text holds the whole identifier, or -1."""
    size = len(identifier)
    at = text.find(identifier, start)
    while at >= 0:
        before = text[at - 1] if at else " "
        after = text[at + size] if at + size < len(text) else " "
        if not (_is_word_character(before) and _is_word_character(identifier[0])) and not (
            _is_word_character(after) and _is_word_character(identifier[-1])
        ):
            return at
        at = text.find(identifier, at + 1)
    return -1


def _is_word_character(character: str) -> bool:
    return character.isalnum() or character == "_"


def _find_in_path(token: str, offset: int) -> Iterator[Identifier]:
    clean = token.rstrip(_TRAILING)
    last = clean.rsplit("/", 1)[-1]
    rooted = clean.startswith(("/", "./", "../", "~/"))
    if len(clean) >= MIN_LENGTH and (rooted or clean.count("/") > 1 or _FILE.fullmatch(last)):
        yield Identifier(clean, "path", offset)
        return
    for match in re.finditer(r"[^/]+", clean):  # `and/or` is no path, but its sides may be names
        yield from _find_in_word(match.group(), offset + match.start())


def _find_in_word(token: str, offset: int) -> Iterator[Identifier]:
    clean = token.rstrip(_TRAILING)
    if _FILE.fullmatch(clean) and not clean.startswith("."):
        yield Identifier(clean, "path", offset)
        return
    if _is_id(clean):
        yield Identifier(clean, "id", offset)
        return
    for match in re.finditer(r"[\w$]+", clean):
        part = match.group()
        if len(part) >= MIN_LENGTH and _is_symbol(part):
            yield Identifier(part, "symbol", offset + match.start())


def _is_id(token: str) -> bool:
    """Whether the token has letters, at least two digits and no dot, like the id of a commit, an order or a ticket."""
    digits = sum(map(str.isdigit, token))
    letters = any(map(str.isalpha, token))
    return len(token) >= MIN_LENGTH and digits > 1 and letters and "." not in token


def _is_digit_group(token: str) -> bool:
    """Whether groups of digits are long enough for a date or a telephone number, and too long for a range of lines."""
    return sum(map(str.isdigit, token)) >= _MIN_DATE_DIGITS


def _is_symbol(part: str) -> bool:
    """Whether the name is not a plain word: it has an underscore or a capital letter inside."""
    if not any(map(str.isalpha, part)):
        return False
    return "_" in part.strip("_") or part.startswith("__") or _CAMEL.search(part) is not None
