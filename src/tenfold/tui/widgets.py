"""The parts of the screen: the transcript, the status line, the input, and a list of rows that stays quick when long.

Session text is cleaned here, where it is drawn, and never read as markup: it goes into `Content`, which parses none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static, TextArea

from tenfold.shown import one_line, safe, told
from tenfold.tui.gauge import Fill, status
from tenfold.tui.trees import Row, row_text
from tenfold.tui.words import Kind

KEPT = 400
"""Messages that stay on the screen to be scrolled back to. Older ones are in the session: `/search` finds them."""
NEW_LINE = frozenset({"ctrl+j", "shift+enter", "alt+enter"})
"""Keys that begin a new line in the input."""
_BATCH = 100
_LEADS: dict[Kind, str] = {"you": "> ", "call": "* "}


def plain(text: str) -> Content:
    """Session text as it may be drawn."""
    return Content(told(text))


class Said(Static):
    """One message or line of the transcript."""

    def __init__(self, kind: Kind, text: str) -> None:
        super().__init__(plain(_LEADS.get(kind, "") + text), classes=kind, markup=False)
        self._lead = _LEADS.get(kind, "")

    def say(self, text: str) -> None:
        """Says something else in its place."""
        self.update(plain(self._lead + text))


class Waiting(Said):
    """What was typed and is not sent yet; there only while something waits."""

    def __init__(self) -> None:
        super().__init__("note", "")


class Transcript(VerticalScroll, can_focus=False):
    """What was said, newest last. It stays at its end until the user scrolls up."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[Said] = []

    def on_mount(self) -> None:
        """Begins at the end."""
        self.anchor()

    def say(self, kind: Kind, text: str) -> Said:
        """Adds a line or a message, and gives it: one that streams in is said again as it grows."""
        said = Said(kind, text)
        self._kept.append(said)
        self.mount(said)
        if len(self._kept) > KEPT + _BATCH:
            self.remove_children(self._kept[:_BATCH])
            del self._kept[:_BATCH]
        return said

    async def clear(self) -> None:
        """Takes everything away."""
        self._kept = []
        await self.remove_children()


class StatusLine(Widget):
    """One line that is always visible. Its parts are set and then drawn by `refresh`."""

    fill = Fill()
    doing = "idle"
    queued: Sequence[str] = ()
    model = ""

    def render(self) -> Content:
        """The line at the width there is."""
        width, colours = self.size.width, not self.app.no_color
        return status(self.fill, self.doing, self.queued, self.model, width=width, colours=colours)


class Prompt(TextArea):
    """Where the user types. Enter sends; Ctrl+J, and where the terminal tells them apart Shift+Enter, begin a line."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("pageup", "app.scroll_transcript(-1)", show=False),
        Binding("pagedown", "app.scroll_transcript(1)", show=False),
    ]

    def __init__(self) -> None:
        super().__init__(compact=True, highlight_cursor_line=False, placeholder="Say something, or type /help")

    class Sent(Message):
        """The user sent this text."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def on_key(self, event: events.Key) -> None:
        """Enter sends what stands there. Not bindings: those are carried out after keys that came later."""
        if event.key not in {"enter", *NEW_LINE}:
            return
        event.stop()
        event.prevent_default()
        if event.key in NEW_LINE:
            self.insert("\n")
            return
        text, self.text = self.text, ""
        if text.strip():
            self.post_message(self.Sent(text.strip()))

    def on_paste(self, event: events.Paste) -> None:
        """What is pasted may hold control sequences as well as anything else."""
        event.stop()
        event.prevent_default()
        self.insert(safe(event.text))

    def put(self, text: str) -> None:
        """Text to be edited and sent, before what stands there. Its secrets stay: it would be sent without them."""
        self.text = safe(text) + (f"\n{self.text}" if self.text.strip() else "")
        self.move_cursor(self.document.end)


class Rows(ScrollView, can_focus=True):
    """Rows of one line each with a cursor. Only what is on the screen is drawn, so a hundred thousand are as quick."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "go(-1)", show=False),
        Binding("down,j", "go(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home,g", "go(-10000000)", show=False),
        Binding("end,G", "go(10000000)", show=False),
        Binding("enter", "choose", show=False),
    ]

    class Chosen(Message):
        """The user chose this row."""

        def __init__(self, row: Row) -> None:
            super().__init__()
            self.row = row

    def __init__(self) -> None:
        super().__init__()
        self._rows: Sequence[Row] = ()
        self.cursor = 0

    def fill(self, rows: Sequence[Row]) -> None:
        """Shows these, with the cursor where the session stands."""
        self._rows = rows
        self.virtual_size = Size(self.size.width, len(rows))
        self._to(next((at for at, row in enumerate(rows) if row.kind == "here"), len(rows) - 1))

    def render_line(self, y: int) -> Strip:
        """One line of what is on the screen."""
        at, width = self.scroll_offset.y + y, self.size.width
        if at >= len(self._rows):
            return Strip.blank(width)
        row = self._rows[at]
        style = Style(reverse=at == self.cursor, bold=row.on, dim=not row.on and at != self.cursor)
        lead = f" {row.lead}"
        text = lead + one_line(row_text(row), max(0, width - len(lead) - 1))
        return Strip([Segment(set_cell_size(text, width), style)], width)

    def _to(self, at: int) -> None:
        self.cursor = max(0, min(at, len(self._rows) - 1))
        self.scroll_to_region(Region(0, self.cursor, 1, 1), animate=False, force=True)
        self.refresh()

    def action_go(self, by: int) -> None:
        """Moves the cursor."""
        self._to(self.cursor + by)

    def action_page(self, by: int) -> None:
        """Moves the cursor by a screen."""
        self._to(self.cursor + by * max(1, self.size.height - 1))

    def action_choose(self) -> None:
        """Chooses the row under the cursor."""
        if self._rows:
            self.post_message(self.Chosen(self._rows[self.cursor]))

    def on_click(self, event: events.Click) -> None:
        """A click moves the cursor, one on the cursor's row chooses it."""
        at = self.scroll_offset.y + event.y
        if at == self.cursor:
            self.action_choose()
        else:
            self._to(at)
