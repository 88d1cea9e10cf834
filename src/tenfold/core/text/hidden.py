"""Shows a text with nothing left unseen: control, zero-width and blank-looking characters are named.

A person who is asked to allow something must see all of it. Text that is only shown is made safe by `terminal_safe`,
which leaves such characters out.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from enum import Enum
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

MAX_SPACES = 32
"""Spaces in a row that are shown as they are: a line of the narrowest dialog (40 columns) has room for them."""
MAX_TABS = 8
"""Tabs in a row that are shown one by one: the indentation of deeply nested code."""
MAX_LINE_BREAKS = 3
"""Line breaks in a row that are shown as empty lines: two empty lines are usual between parts of a program."""
MAX_HIDDEN = 8
"""Groups of equal characters in a row without ink that are named in order. More are counted by kind."""
MAX_COMBINING = 3
"""Combining marks on one letter that are drawn. More are rare in any script (Vietnamese uses two, Hebrew three), and
they have no width, so any number of them fits into one column."""
TAB = "→   "
"""How a tab is drawn."""

_BLANK_LETTERS = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\U00013441\U00013442\U00016fe4\U0001d159"
)
"""Characters that Unicode counts as letters, symbols or marks, and that have no ink."""
_VARIATION_SELECTORS = (range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"})
_COMBINING_CATEGORIES = frozenset({"Me", "Mn"})
_CATEGORY_NAMES = {"Cc": "control", "Cn": "unassigned", "Co": "private use", "Cs": "half of a character"}
_CONTROL_NAMES = (
    *("NUL", "SOH", "STX", "ETX", "EOT", "ENQ", "ACK", "BEL", "BS", "TAB", "LF", "VT", "FF", "CR", "SO", "SI", "DLE"),
    *("DC1", "DC2", "DC3", "DC4", "NAK", "SYN", "ETB", "CAN", "EM", "SUB", "ESC", "FS", "GS", "RS", "US"),
)
"""The abbreviations of ASCII for U+0000 to U+001F."""
_WHITESPACE_NAMES = {" ": "space", "\t": "tab", "\n": "line break"}
_TOKEN = re.compile(r"[!-~]+(?: [!-~]+)*|[^!-~]+")
"""Words of visible ASCII with single spaces between them; and anything else."""


class PieceKind(Enum):
    """How a piece of revealed text is drawn."""

    TEXT = "text"
    """Characters of the text itself."""
    NAME = "name"
    """The name of something that would not be seen."""
    SPACE = "space"
    """A sign for ordinary white space that would not be seen: a tab, or a space at the end of a line."""


class Piece(NamedTuple):
    """A piece of one line."""

    text: str
    kind: PieceKind = PieceKind.TEXT


Line = tuple[Piece, ...]


@lru_cache(maxsize=4_096)
def is_hidden(char: str) -> bool:
    """Returns whether a character has no ink, a space aside: controls, formats, fillers, selectors, odd spaces."""
    return char != " " and (
        unicodedata.category(char) in _HIDDEN_CATEGORIES
        or char in _BLANK_LETTERS
        or any(ord(char) in selectors for selectors in _VARIATION_SELECTORS)
    )


@lru_cache(maxsize=4_096)
def name_hidden(char: str) -> str:
    """Returns a hidden character's name: `ESC`, or its number and its Unicode name in small letters."""
    code = ord(char)
    if code < len(_CONTROL_NAMES):
        return _CONTROL_NAMES[code]
    if code == 0x7F:
        return "DEL"
    name = unicodedata.name(char, "").lower() or _CATEGORY_NAMES.get(unicodedata.category(char), "unnamed")
    return f"U+{code:04X} {name}"


def escape_hidden(text: str) -> str:
    """Returns the text on one line: control characters as their pictures (U+2400...), other hidden ones by number."""
    return "".join(_escape_character(char) if is_hidden(char) else char for char in text)


def _escape_character(char: str) -> str:
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"<U+{code:04X}>"


def reveal_lines(text: str) -> list[Line]:
    r"""Splits a text into lines on which nothing is unseen. Only a line feed begins a line.

    What has no ink is named in a piece of its own (`NAME`), so that a text with the same letters is not taken for it.
    Long runs of white space are named with their number.

    >>> [piece.text for piece in reveal_lines("ls" + " " * 5000 + "\u202e; rm")[0]]
    ['ls', '<5,000 spaces>', '<U+202E right-to-left override>', '; rm']
    """
    lines: list[list[Piece]] = [[]]
    for piece in _find_pieces(text):
        if piece is None:
            lines.append([])
        else:
            lines[-1].append(piece)
    return [tuple(line) for line in lines]


def _find_pieces(text: str) -> Iterator[Piece | None]:
    """Yields the pieces of a text in order, and None for each line that begins."""
    for token in _TOKEN.finditer(text):
        chars = token[0]
        if "!" <= chars[0] <= "~":
            yield Piece(chars)
            continue
        for is_blank, start, end in _split_blanks(chars):
            if is_blank:
                yield from _reveal_blanks(chars[start:end], is_last=token.start() + end == len(text))
            else:
                yield Piece(chars[start:end])


def _split_blanks(chars: str) -> Iterator[tuple[bool, int, int]]:
    """Splits into stretches without ink (True) and with ink, each with its start and its end.

    Marks that are heaped on one letter count as having none.
    """
    heap, flags = 0, []
    for char in chars:
        heap = heap + 1 if unicodedata.category(char) in _COMBINING_CATEGORIES else 0
        flags.append(char == " " or heap > MAX_COMBINING or is_hidden(char))
    start = 0
    for is_blank, stretch in groupby(flags):
        end = start + len(list(stretch))
        yield is_blank, start, end
        start = end


def _reveal_blanks(run: str, *, is_last: bool) -> Iterator[Piece | None]:
    groups = [(char, len(list(same))) for char, same in groupby(run)]
    if not _is_usual(run, groups):
        if len(groups) <= MAX_HIDDEN:
            names = [_count_character(char, count) for char, count in groups]
        else:
            counts = ", ".join(_count_character(char, count) for char, count in Counter(run).items())
            names = [f"{len(run):,} blank characters: {counts}"]
        yield from (Piece(f"<{name}>", PieceKind.NAME) for name in names)
        if "\n" in run:
            yield None
        return
    for index, (char, count) in enumerate(groups):
        following = groups[index + 1][0] if index + 1 < len(groups) else "\n" if is_last else ""
        if char == "\n":
            yield from [None] * count
        elif char == "\t":
            yield Piece(TAB * count, PieceKind.SPACE)
        elif char != " ":
            yield Piece(f"<{_count_character(char, count)}>", PieceKind.NAME)
        elif following in ("\n", "\r"):
            yield Piece("·" * count, PieceKind.SPACE)
        else:
            yield Piece(" " * count)


def _is_usual(run: str, groups: list[tuple[str, int]]) -> bool:
    """Returns whether a run is the white space of ordinary text, or a few hidden characters within it."""
    limits = {" ": MAX_SPACES, "\t": MAX_TABS, "\n": MAX_LINE_BREAKS}
    counts = Counter(run)
    return (
        all(count <= limits[char] for char, count in groups if char in limits)
        and counts["\n"] <= MAX_LINE_BREAKS
        and counts[" "] + counts["\t"] * len(TAB) <= MAX_SPACES + MAX_TABS * len(TAB)
        and sum(char not in limits for char, _ in groups) <= MAX_HIDDEN
    )


def _count_character(char: str, count: int) -> str:
    name = _WHITESPACE_NAMES.get(char)
    if name is not None:
        return f"{count:,} {name}{'' if count == 1 else 's'}"
    return name_hidden(char) if count == 1 else f"{count:,} x {name_hidden(char)}"
