"""The widgets of the chat: the transcript, the status line, the prompt, and a list of rows that is fast at any length.

Session text is cleaned here, where it is drawn. It is never read as markup, because `Content` parses none.
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
"""Items that stay on the screen to be scrolled back to. Older ones are in the session, and `/search` finds them."""
NEW_LINE = frozenset({"ctrl+j", "shift+enter", "alt+enter"})
"""Keys that begin a new line in the prompt."""
_BATCH = 100
_LEADS: dict[Kind, str] = {"you": "> ", "call": "* "}


def plain(text: str) -> Content:
    """Converts session text to content that is safe to draw."""
    return Content(told(text))


class Said(Static):
    """One message or line of the transcript."""

    def __init__(self, kind: Kind, text: str) -> None:
        super().__init__(plain(_LEADS.get(kind, "") + text), classes=kind, markup=False)
        self._lead = _LEADS.get(kind, "")

    def say(self, text: str) -> None:
        """Replaces the text."""
        self.update(plain(self._lead + text))


class Waiting(Said):
    """The inputs that are queued. It is visible only while there are any."""

    def __init__(self) -> None:
        super().__init__("note", "")


class Transcript(VerticalScroll, can_focus=False):
    """The conversation, newest line last. It stays at its end until the user scrolls up."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[Said] = []

    def on_mount(self) -> None:
        """Starts at the end."""
        self.anchor()

    def say(self, kind: Kind, text: str) -> Said:
        """Adds a line or a message and returns it, so that a streamed one can be updated as it grows."""
        item = Said(kind, text)
        self._kept.append(item)
        self.mount(item)
        if len(self._kept) > KEPT + _BATCH:
            self.remove_children(self._kept[:_BATCH])
            del self._kept[:_BATCH]
        return item

    async def clear(self) -> None:
        """Removes all items."""
        self._kept = []
        await self.remove_children()


class StatusLine(Widget):
    """One line that is always visible. Set its attributes, then call `refresh` to draw it."""

    fill = Fill()
    doing = "idle"
    queued: Sequence[str] = ()
    model = ""

    def render(self) -> Content:
        """Renders the line for the current width."""
        width, colours = self.size.width, not self.app.no_color
        return status(self.fill, self.doing, self.queued, self.model, width=width, colours=colours)


class Prompt(TextArea):
    """Where the user types. Enter sends; Ctrl+J begins a line, and so does Shift+Enter if the terminal reports it."""

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
        """Sends the text on Enter.

        This is not a key binding, because bindings are carried out after keys that came later.
        """
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
        """Inserts what is pasted, without the control sequences it may hold."""
        event.stop()
        event.prevent_default()
        self.insert(safe(event.text))

    def put(self, text: str) -> None:
        """Puts text in front of what is typed, to be edited and sent.

        Its secrets are not redacted, because it would then be sent without them.
        """
        self.text = safe(text) + (f"\n{self.text}" if self.text.strip() else "")
        self.move_cursor(self.document.end)


class Rows(ScrollView, can_focus=True):
    """A list of one-line rows with a cursor. It draws only the visible rows, so it is fast with 100,000 of them."""

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
        """Shows these rows, with the cursor at the session's current place."""
        self._rows = rows
        self.virtual_size = Size(self.size.width, len(rows))
        self._to(next((at for at, row in enumerate(rows) if row.kind == "here"), len(rows) - 1))

    def render_line(self, y: int) -> Strip:
        """Renders one line of the screen."""
        index, width = self.scroll_offset.y + y, self.size.width
        if index >= len(self._rows):
            return Strip.blank(width)
        row = self._rows[index]
        style = Style(reverse=index == self.cursor, bold=row.on, dim=not row.on and index != self.cursor)
        lead = f" {row.lead}"
        text = lead + one_line(row_text(row), max(0, width - len(lead) - 1))
        return Strip([Segment(set_cell_size(text, width), style)], width)

    def _to(self, at: int) -> None:
        self.cursor = max(0, min(at, len(self._rows) - 1))
        self.scroll_to_region(Region(0, self.cursor, 1, 1), animate=False, force=True)
        self.refresh()

    def action_go(self, by: int) -> None:
        """Moves the cursor by rows."""
        self._to(self.cursor + by)

    def action_page(self, by: int) -> None:
        """Moves the cursor by screens."""
        self._to(self.cursor + by * max(1, self.size.height - 1))

    def action_choose(self) -> None:
        """Chooses the row under the cursor."""
        if self._rows:
            self.post_message(self.Chosen(self._rows[self.cursor]))

    def on_click(self, event: events.Click) -> None:
        """Moves the cursor to the clicked row, or chooses the row if the cursor is already there."""
        at = self.scroll_offset.y + event.y
        if at == self.cursor:
            self.action_choose()
        else:
            self._to(at)
