"""A text of which nothing is cut or unseen: it is wrapped and scrolls, and tells whether its end is in view."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.errors import NoWidget
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tenfold.apps.agent.approval import Action
from tenfold.core.text.hidden import Line, Piece, PieceKind, reveal_lines

MARGIN = 2
"""Columns to the left of the text: the sign of a diff, and whether the row continues the one above. Text never gets
there, so it cannot imitate them."""
CONTINUATION = "↪"
NO_FINAL_BREAK = Piece("<no line break at the end>", PieceKind.SPACE)
EMPTY = Piece("<nothing: it will be empty>", PieceKind.SPACE)
_WORD = re.compile(r"\S+|\s+")
_STYLES = {
    PieceKind.TEXT: Style.null(),
    PieceKind.NAME: Style(reverse=True, bold=True),
    PieceKind.SPACE: Style(dim=True),
}
_SIGN_COLOURS = {"+": "green", "-": "red"}


class SignedLine(NamedTuple):
    """A line and its sign: "+" and "-" as in a diff, "" none."""

    sign: str
    pieces: Line


class _Row(NamedTuple):
    """What fits on one row of the screen."""

    sign: str
    is_continuation: bool
    pieces: Line


def build_action_lines(action: Action) -> list[SignedLine]:
    """Builds the lines that show all of an action: for a change of a file, what it is, and then its text."""
    lines: list[SignedLine] = []
    if action.kind != "command":
        lines = [SignedLine("", line) for line in reveal_lines(action.line)] + [SignedLine("", ())]
    for section in action.sections:
        shown = reveal_lines(section.text)
        if section.sign and section.text.endswith("\n") and not shown[-1]:
            del shown[-1]  # in a file, a last line break ends a line and begins none
        elif section.sign:
            shown[-1] += (NO_FINAL_BREAK if section.text else EMPTY,)
        lines += [SignedLine(section.sign, line) for line in shown]
    return lines


def has_names(lines: Sequence[SignedLine]) -> bool:
    """Returns whether something in the lines would not be seen if it were not named."""
    return any(piece.kind is PieceKind.NAME for line in lines for piece in line.pieces)


def wrap_line(line: SignedLine, width: int) -> Iterator[_Row]:
    """Yields the rows of one line, broken between words if they fit. Nothing is left out there, not even a space."""
    row: list[Piece] = []
    used, is_continuation = 0, False
    for piece in line.pieces:
        is_word = piece.kind is PieceKind.NAME and cell_len(piece.text) <= width
        for word in [piece.text] if is_word else _WORD.findall(piece.text):
            size = cell_len(word)
            is_moved = width - used < size <= width and not word.isspace()
            for index, chunk in enumerate(_split_cells(word, width if is_moved else width - used, width)):
                if index or is_moved:
                    yield _Row(line.sign, is_continuation, tuple(row))
                    row, used, is_continuation = [], 0, True
                row.append(Piece(chunk, piece.kind))
                used += cell_len(chunk)
    yield _Row(line.sign, is_continuation, tuple(row))


def _split_cells(text: str, first_width: int, width: int) -> Iterator[str]:
    """Splits a text into chunks of at most so many columns. The first one may be empty."""
    start, used, available = 0, 0, first_width
    for at, char in enumerate(text):
        size = cell_len(char)
        if used + size > available and (at > start or not start):
            yield text[start:at]
            start, used, available = at, 0, width
        used += size
    yield text[start:]


class FullText(ScrollView, can_focus=True):
    """Draws the lines, wrapped, and posts `Movement` when another part of them comes into view."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "scroll_rows(-1)", show=False),
        Binding("down", "scroll_rows(1)", show=False),
        Binding("pageup", "scroll_pages(-1)", show=False),
        Binding("pagedown", "scroll_pages(1)", show=False),
        Binding("home", "scroll_rows(-10000000)", show=False),
        Binding("end", "scroll_rows(10000000)", show=False),
    ]

    class Movement(Message):
        """Another part of the text is in view."""

    def __init__(self, lines: Sequence[SignedLine]) -> None:
        super().__init__()
        self._lines = lines
        self._rows: list[_Row] = []
        self._wrapped_width = 0
        self._max_height = 1

    def limit_height(self, rows: int) -> None:
        """Sets how many rows of the screen it may take. It takes as many as it needs of them, and at least one."""
        self._max_height = max(1, rows)
        self._fit_height()

    def count_rows_below(self) -> int:
        """Counts the rows below those that are really on the screen now: all of them, if none is."""
        try:
            place = self.screen.find_widget(self)
        except NoWidget:  # it has no place on the screen yet
            return max(1, len(self._rows))
        shown = place.visible_region
        if not shown.area or not self._rows:
            return max(1, len(self._rows))
        return max(0, len(self._rows) - self.scroll_offset.y - shown.bottom + place.region.y)

    def on_resize(self) -> None:
        """Wraps the lines anew if the width has changed."""
        width = max(1, self._text_width - MARGIN)
        if width != self._wrapped_width:
            self._wrapped_width = width
            self._rows = [row for line in self._lines for row in wrap_line(line, width)]
            self.virtual_size = Size(self._text_width, len(self._rows))
            self._fit_height()
            self.refresh()
        self.post_message(self.Movement())

    @property
    def _text_width(self) -> int:
        """The columns beside the scrollbar. Its place is kept free even if there is none, so this does not change."""
        return self.scrollable_content_region.width

    def _fit_height(self) -> None:
        self.styles.height = max(1, min(len(self._rows), self._max_height))

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Tells that another part is in view."""
        super().watch_scroll_y(old_value, new_value)
        self.post_message(self.Movement())

    def action_scroll_rows(self, by: int) -> None:
        """Scrolls by rows."""
        self.scroll_to(y=max(0, min(self.scroll_offset.y + by, self.max_scroll_y)), animate=False, force=True)

    def action_scroll_pages(self, by: int) -> None:
        """Scrolls by screens, with one row in common."""
        self.action_scroll_rows(by * max(1, self.size.height - 1))

    def render_line(self, y: int) -> Strip:
        """Renders one row of the screen."""
        index, width = self.scroll_offset.y + y, self._text_width
        if index >= len(self._rows):
            return Strip.blank(width)
        row = self._rows[index]
        colour = Style(color=_SIGN_COLOURS.get(row.sign))
        margin = (row.sign or " ") + (CONTINUATION if row.is_continuation else " ")
        segments = [Segment(margin, colour + Style(bold=True))]
        segments += [Segment(piece.text, colour + _STYLES[piece.kind]) for piece in row.pieces]
        return Strip(segments).adjust_cell_length(width)
