"""The screens that open over the chat: a question with a text that is shown whole, the tree, and a pager."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from time import monotonic
from typing import ClassVar, NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.errors import NoWidget
from textual.geometry import Size
from textual.message import Message
from textual.screen import ModalScreen, Screen
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.timer import Timer
from textual.widgets import Input, OptionList, Static, TextArea
from textual.widgets.text_area import Selection

from tenfold.apps.agent.coding_tools import Action
from tenfold.apps.chat.approvals import AllowRule, build_rule, escape_pattern
from tenfold.apps.chat.ascii_screen import name_non_ascii
from tenfold.apps.chat.slash_commands import SUMMARY_WORD
from tenfold.apps.chat.transcript import to_content
from tenfold.core.text.hidden import Line, Piece, PieceKind, reveal_lines
from tenfold.core.text.terminal_safe import sanitize
from tenfold.errors import TenfoldError, UsageError
from tenfold.session import Session
from tenfold.session.tree import TreeRow, build_rows, render_row

PAUSE_SECONDS = 0.5
"""Seconds without a key before a question accepts an answer: the user may have been typing when it opened."""
STAY_KEY = "escape"
ALWAYS_KEY = "a"
HIDDEN_NOTICE = "Characters that do not show are named <like this>."
COMPACT_HEIGHT = 20
"""Rows below which a question has no empty rows between its parts, so that more of its text can be seen."""
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
_SIGN_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


class SignedLine(NamedTuple):
    """A line and its sign: "+", "-" and "@" as in a diff, "" none."""

    sign: str
    pieces: Line


class _Row(NamedTuple):
    """What fits on one row of the screen."""

    sign: str
    is_continuation: bool
    pieces: Line


def build_action_lines(action: Action, *, is_ascii: bool = False) -> list[SignedLine]:
    """Builds the lines that show all of an action: where it happens or what it changes, and then its text.

    With `is_ascii`, what such a terminal cannot show is named.
    """
    title = f"in {action.folder}" if action.kind == "command" else action.line
    lines = [SignedLine("", line) for line in reveal_lines(title)] + [SignedLine("", ())]
    for section in action.sections:
        shown = reveal_lines(section.text)
        if section.sign not in ("", "@") and section.text.endswith("\n") and not shown[-1]:
            del shown[-1]  # in a file, a last line break ends a line and begins none
        elif section.sign not in ("", "@"):
            shown[-1] += (NO_FINAL_BREAK if section.text else EMPTY,)
        lines += [SignedLine(section.sign, line) for line in shown]
    return [SignedLine(line.sign, tuple(name_non_ascii(line.pieces))) for line in lines] if is_ascii else lines


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

    def render_line(self, y: int) -> Strip:
        """Renders one row of the screen."""
        index, width = self.scroll_offset.y + y, self._text_width
        if index >= len(self._rows):
            return Strip.blank(width, self.rich_style)
        row = self._rows[index]
        colour = Style(color=_SIGN_COLOURS.get(row.sign))
        margin = (row.sign or " ") + (CONTINUATION if row.is_continuation else " ")
        segments = [Segment(margin, colour + Style(bold=True))]
        segments += [Segment(piece.text, colour + _STYLES[piece.kind]) for piece in row.pieces]
        return Strip(segments).adjust_cell_length(width).apply_style(self.rich_style)


class QuestionScreen(ModalScreen[str]):
    """A question that is answered by one key, which it returns. Escape is always one of the answers."""

    def __init__(
        self, title: str, lines: Sequence[SignedLine], keys: Mapping[str, str], *, pause: float = 0.0, consent: str = ""
    ) -> None:
        """`keys` maps each key to its meaning.

        A question that opens while the user types accepts a key only after a `pause` of so many seconds without one.
        The keys in `consent` are accepted once the end of the text was in view.
        """
        super().__init__()
        self._title, self._lines, self._keys, self._pause = title, lines, keys, pause
        self._unseen_keys = consent
        self._pause_timer: Timer | None = None
        self._listening_since = inf

    def compose(self) -> ComposeResult:
        """Yields a box with the question, which scrolls if it is long, and the keys."""
        with Vertical(id="box"):
            yield Static(to_content(self._title), id="title", markup=False)
            if any(piece.kind is PieceKind.NAME for line in self._lines for piece in line.pieces):
                yield Static(HIDDEN_NOTICE, id="warning", markup=False)
            yield FullText(self._lines)
            yield Static("", id="keys", markup=False)

    def on_mount(self) -> None:
        """Accepts keys at once, or after the pause."""
        self.query_one(FullText).focus()
        if self._pause:
            self._await_pause()
        else:
            self._start_listening()

    def on_resize(self) -> None:
        """Gives the text what the title, the keys and the frame leave of the screen."""
        self.set_class(self.size.height < COMPACT_HEIGHT, "compact")
        self.call_after_refresh(self._share_height)

    def _share_height(self) -> None:
        if not self.query(FullText):
            return  # the question was taken away meanwhile
        text, frame = self.query_one(FullText), self.query_one("#box").gutter.height
        width = text.outer_size.width
        around = sum(part.get_content_height(self.size, self.size, width) for part in self.query(Static))
        text.limit_height(self.size.height - frame - around - text.styles.margin.height)

    def on_full_text_movement(self) -> None:
        """Notes whether the end of the text was in view, and says what is missing."""
        if self._unseen_keys and not self.query_one(FullText).count_rows_below():
            self._unseen_keys = ""
        self._draw_keys()

    def _await_pause(self) -> None:
        self._listening_since = inf
        if self._pause_timer is not None:
            self._pause_timer.stop()
        self._pause_timer = self.set_timer(self._pause, self._start_listening)

    def _start_listening(self) -> None:
        self._listening_since = monotonic()
        self._draw_keys()

    def _draw_keys(self) -> None:
        if self._listening_since == inf:
            return
        first = {what: key for key, what in reversed(list(self._keys.items()))}  # "n: no" stands for Escape as well
        keys = [f"{k}: {what}" for k, what in self._keys.items() if first[what] == k and k not in self._unseen_keys]
        text = "   ".join(keys)
        if self._unseen_keys:
            below = self.query_one(FullText).count_rows_below()
            text += (
                f"\n{self._unseen_keys[0]} is taken at the end: {below:,} more {'line' if below == 1 else 'lines'}. "
            )
            text += "PageDown or End scrolls."
        self.query_one("#keys", Static).update(to_content(text))
        self.call_after_refresh(self._share_height)

    def on_key(self, event: events.Key) -> None:
        """Takes one of the keys as the answer. Every key that was pressed before the pause was over starts it anew."""
        if event.time < self._listening_since:  # on a busy machine it may arrive after the pause
            event.stop()
            self._await_pause()
            return
        key = event.key.lower()
        if key not in self._keys:
            return
        event.stop()
        if key in self._unseen_keys:
            self.query_one("#keys").add_class("refused")
            self.app.bell()
        else:
            self.dismiss(key)


class RuleScreen(ModalScreen[AllowRule | None]):
    """Asks what else is allowed for the rest of the session. It returns the rule, None if the user goes back."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", show=False)]

    def __init__(self, action: Action) -> None:
        super().__init__()
        self._action = action

    def compose(self) -> ComposeResult:
        """Yields a box with the pattern, which can be edited."""
        with Vertical(id="box"):
            yield Static(to_content(f"Always allow {self._action.tool} for"), id="title", markup=False)
            yield Input(escape_pattern(self._action.subject), compact=True, select_on_focus=False)
            yield Static("* is any text. It holds until you leave.", id="about", markup=False)
            yield Static("Enter: allow   Escape: back", id="keys", markup=False)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Takes the pattern, if it allows what is asked for."""
        try:
            self.dismiss(build_rule(self._action, event.value))
        except UsageError as exc:
            self.query_one("#about", Static).update(to_content(str(exc)))
            self.query_one("#about").add_class("refused")


class PagerScreen(Screen[None]):
    """A long text that is read page by page, and searched."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,escape", "close", show=False),
        Binding("space,f", "page(1)", show=False),
        Binding("b", "page(-1)", show=False),
        Binding("g", "end(0)", show=False),
        Binding("G", "end(1)", show=False),
        Binding("slash", "find", show=False),
        Binding("n", "find_next", show=False),
        Binding("j", "lines(1)", show=False),
        Binding("k", "lines(-1)", show=False),
        Binding("ctrl+u", "half(-1)", show=False, priority=True),
        Binding("ctrl+f", "half(2)", show=False, priority=True),
        Binding("ctrl+b", "half(-2)", show=False, priority=True),
    ]

    def __init__(self, title: str, text: str) -> None:
        """`text` has to be safe to draw already."""
        super().__init__()
        self._title, self._text, self._sought = title, text, ""

    def compose(self) -> ComposeResult:
        """Yields a title, the text and the keys."""
        yield Static(to_content(self._title), id="title", markup=False)
        yield TextArea(self._text, read_only=True, show_cursor=False, compact=True, highlight_cursor_line=False)
        yield Static("q: close   space, b: page   /: find   n: next", id="keys", markup=False)
        yield Input(placeholder="find", compact=True)

    def on_mount(self) -> None:
        """Begins at the top."""
        self.query_one(Input).display = False
        self.query_one(TextArea).focus()

    def action_close(self) -> None:
        """Closes the field of the search, else the pager."""
        if self.query_one(Input).display:
            self._close_field()
        else:
            self.dismiss()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leaves the keys that edit a line to the field of the search, while it is open."""
        del parameters
        return action != "half" or not self.query_one(Input).display

    def action_page(self, pages: int) -> None:
        """Scrolls by a page."""
        self.action_lines(pages * max(1, self.query_one(TextArea).size.height - 1))

    def action_half(self, halves: int) -> None:
        """Scrolls by so many halves of a page. The program calls it for Ctrl+D."""
        self.action_lines(halves * max(1, self.query_one(TextArea).size.height // 2))

    def action_lines(self, lines: int) -> None:
        """Scrolls by so many lines."""
        self.query_one(TextArea).scroll_relative(y=lines, animate=False)

    def action_end(self, at: int) -> None:
        """Scrolls to the beginning or to the end."""
        area = self.query_one(TextArea)
        if at:
            area.scroll_end(animate=False)
        else:
            area.scroll_home(animate=False)

    def action_find(self) -> None:
        """Opens the field of the search."""
        self.query_one("#keys").display = False
        self.query_one(Input).display = True
        self.query_one(Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Goes to the first occurrence below."""
        self._sought = event.value
        self._close_field()
        self.action_find_next()

    def _close_field(self) -> None:
        self.query_one(Input).display = False
        self.query_one("#keys").display = True
        self.query_one(TextArea).focus()

    def action_find_next(self) -> None:
        """Selects the next occurrence of what was searched for, from the top again after the last one."""
        area = self.query_one(TextArea)
        found = _find_text(area.text.split("\n"), self._sought.lower(), area.selection.end)
        if found is None:
            self.app.bell()
            return
        row, column = found
        area.selection = Selection(found, (row, column + len(self._sought)))
        middle = area.wrapped_document.location_to_offset(found).y - area.size.height // 2
        area.scroll_to(y=max(0, middle), animate=False)


def _find_text(lines: Sequence[str], sought: str, start: tuple[int, int]) -> tuple[int, int] | None:
    """Finds a text in lower case after a place, from the top again after the last line. Returns its place."""
    first, column = start
    for offset in range(len(lines) + 1 if sought else 0):
        row = (first + offset) % len(lines)
        at = lines[row].lower().find(sought, 0 if offset else column)
        if at >= 0:
            return row, at
    return None


class TreeScreen(Screen[str]):
    """The session's tree. It returns the command that goes to the chosen place, "" to stay."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "stay", show=False)]

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._rows: list[TreeRow] = []

    def compose(self) -> ComposeResult:
        """Yields a title, the rows and the keys."""
        yield Static("reading the session", id="title", markup=False)
        yield OptionList(markup=False, compact=True)
        yield Static("Enter: go there   up, down: choose   Escape: stay here", id="keys", markup=False)

    async def on_mount(self) -> None:
        """Reads the tree in a thread, while the screen is already there."""
        self.query_one(OptionList).focus()
        self.run_worker(self._load_rows())

    async def _load_rows(self) -> None:
        title, options = self.query_one("#title", Static), self.query_one(OptionList)
        try:
            self._rows = await asyncio.to_thread(build_rows, self._session)
        except TenfoldError as exc:
            title.update(to_content(f"the session cannot be read: {exc}"))
            return
        messages = sum(row.kind == "said" for row in self._rows)
        branches = len(self._rows) - messages
        title.update(
            to_content(f"{messages:,} messages of yours, {branches:,} {'branch' if branches == 1 else 'branches'}")
        )
        options.add_options(
            Content.styled(f" {row.lead}{render_row(row)}", "bold" if row.is_active else "dim") for row in self._rows
        )
        options.highlighted = next((at for at, row in enumerate(self._rows) if row.kind == "here"), None)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Asks what to do with the branch that is left."""
        row = self._rows[event.option_index]
        if row.kind == "here":
            self.dismiss("")
            return
        action = "Say this differently" if row.kind == "said" else "Continue from here"
        keys = {"y": "summarize it", "n": "no summary", STAY_KEY: "stay here"}
        question = f"{action}: {row.text}\n\nDo you want a summary of the branch you leave, for the model?"
        lines = [SignedLine("", line) for line in reveal_lines(sanitize(question))]
        self.app.push_screen(
            QuestionScreen("Go to another place of this session", lines, keys),
            lambda key: self._dismiss_with_command(row, key or STAY_KEY),
        )

    def _dismiss_with_command(self, row: TreeRow, key: str) -> None:
        if key != STAY_KEY:
            self.dismiss(f"/tree {row.id}{f' {SUMMARY_WORD}' if key == 'y' else ''}")

    def action_stay(self) -> None:
        """Closes the screen and stays at the current place."""
        self.dismiss("")
