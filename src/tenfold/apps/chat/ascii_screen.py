"""Draws the chat in ASCII on a terminal that shows nothing else, as its locale says.

Everything that is drawn passes through one filter, so no widget has to know. Each character stays as wide as it was.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from unicodedata import name as get_unicode_name

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from tenfold.core.text.hidden import Piece, PieceKind

_LOOK_ALIKES = {
    "-": "\u2500\u2501\u2550\u254c\u2010\u2011\u2013\u2014\u2015\u2581\u2594",
    "|": "\u2502\u2503\u2551\u2506\u250a\u258c\u258d\u258e\u258f\u2590\u2595",
    "+": "".join(map(chr, (*range(0x250C, 0x254C), *range(0x2552, 0x2571)))),
    "#": "\u2580\u2582\u2583\u2584\u2585\u2586\u2587\u2588\u2589\u258a\u258b\u25a0\u25aa",
    "*": "\u2022\u25cf\u25c6\u2605",
    "o": "\u25cb\u25c7\u25e6",
    ">": "\u2192\u21aa\u25b6\u25b8\u2023\u276f\u203a\u00bb",
    "<": "\u2190\u25c0\u2039\u00ab",
    "^": "\u2191\u25b2",
    "v": "\u2193\u25bc",
    "'": "\u2018\u2019",
    '"': "\u201c\u201d",
    ".": "\u2026\u00b7",
    " ": "\u00a0",
}
"""What stands for the characters that the widgets and models use most: lines, blocks, bullets, arrows, quotes."""
_TABLE = {ord(char): ascii_char for ascii_char, chars in _LOOK_ALIKES.items() for char in chars}
_UTF8_NAMES = ("utf-8", "utf8")


def is_ascii_terminal(environ: Mapping[str, str]) -> bool:
    """Returns whether the locale has no more than ASCII, or than the few letters of an old character set.

    Python itself sets LC_CTYPE where the locale is C, so that value says nothing. On Windows the encoding decides.
    """
    if not (sys.stdout.encoding or "ascii").lower().startswith("utf"):
        return True
    if sys.platform == "win32":
        return False
    named = (environ.get(variable, "") for variable in ("LC_ALL", "LC_CTYPE", "LANG"))
    locale = next((value.lower() for value in named if value and value not in ("C.UTF-8", "C.utf8")), "")
    if not locale:
        return "C.UTF-8" not in (environ.get("LC_ALL"), environ.get("LANG"))
    return not any(name in locale for name in _UTF8_NAMES)


def to_ascii(text: str) -> str:
    """Replaces each character outside ASCII by one that looks like it, else by as many `?` as it is wide."""
    if text.isascii():
        return text
    return "".join(char if char.isascii() else "?" * cell_len(char) for char in text.translate(_TABLE))


def name_non_ascii(pieces: Iterable[Piece]) -> Iterable[Piece]:
    """Names the characters of a text that will not show, for a person who has to see all of it."""
    for piece in pieces:
        if piece.kind is not PieceKind.TEXT or piece.text.isascii():
            yield piece
            continue
        for char in piece.text:
            if char.isascii():
                yield Piece(char)
            else:
                yield Piece(f"<U+{ord(char):04X} {get_unicode_name(char, '').lower()}".rstrip() + ">", PieceKind.NAME)


class AsciiFilter(LineFilter):
    """Turns each line of the screen into ASCII."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Turns a line into ASCII."""
        del background
        return [Segment(to_ascii(text), style, control) for text, style, control in segments]
