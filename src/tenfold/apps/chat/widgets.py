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

from tenfold.apps.chat.session_tree import TreeRow, render_row
from tenfold.apps.chat.status import ContextFill, render_status
from tenfold.apps.chat.transcript_lines import LineKind
from tenfold.core.text.terminal_safe import sanitize, strip_controls, to_one_line

MAX_ITEMS = 400
"""Items that stay on the screen to be scrolled back to. Older ones are in the session, and `/search` finds them."""
NEW_LINE_KEYS = frozenset({"ctrl+j", "shift+enter", "alt+enter"})
"""Keys that begin a new line in the prompt."""
_REMOVAL_BATCH = 100
_QUEUED_SHOWN = 3
"""Queued inputs that are shown."""
_PREFIXES: dict[LineKind, str] = {"you": "> ", "call": "* "}


def to_content(text: str) -> Content:
    """Converts session text to content that is safe to draw."""
    return Content(sanitize(text))


class TranscriptItem(Static):
    """One message or line of the transcript."""

    def __init__(self, kind: LineKind, text: str) -> None:
        super().__init__(to_content(_PREFIXES.get(kind, "") + text), classes=kind, markup=False)
        self._prefix = _PREFIXES.get(kind, "")

    def set_text(self, text: str) -> None:
        """Replaces the text."""
        self.update(to_content(self._prefix + text))


class QueueNotice(TranscriptItem):
    """The inputs that are queued. It is visible only while there are any."""

    def __init__(self) -> None:
        super().__init__("note", "")

    def show_queue(self, queue: Sequence[str]) -> None:
        """Shows the first inputs of the queue, and how many more there are."""
        lines = [f"queued: {to_one_line(text, 200)}" for text in queue[:_QUEUED_SHOWN]]
        lines += [f"and {len(queue) - _QUEUED_SHOWN} more"] if len(queue) > _QUEUED_SHOWN else []
        self.display = bool(lines)
        self.set_text("\n".join(lines))


class ChatTranscript(VerticalScroll, can_focus=False):
    """The conversation, newest line last. It stays at its end until the user scrolls up."""

    def __init__(self) -> None:
        super().__init__()
        self._items: list[TranscriptItem] = []

    def on_mount(self) -> None:
        """Starts at the end."""
        self.anchor()

    def add_line(self, kind: LineKind, text: str) -> TranscriptItem:
        """Adds a line or a message and returns it, so that a streamed one can be updated as it grows."""
        item = TranscriptItem(kind, text)
        self._items.append(item)
        self.mount(item)
        if len(self._items) > MAX_ITEMS + _REMOVAL_BATCH:
            self.remove_children(self._items[:_REMOVAL_BATCH])
            del self._items[:_REMOVAL_BATCH]
        return item

    async def clear(self) -> None:
        """Removes all items."""
        self._items = []
        await self.remove_children()


class StatusLine(Widget):
    """One line that is always visible."""

    def __init__(self) -> None:
        super().__init__()
        self._fill, self._activity, self._model = ContextFill(), "idle", ""
        self._queue: Sequence[str] = ()

    def show_activity(self, activity: str, queue: Sequence[str], model: str) -> None:
        """Shows what is being done, how many inputs are queued, and the model."""
        self._activity, self._queue, self._model = activity, queue, model
        self.refresh()

    def show_fill(self, fill: ContextFill) -> None:
        """Shows how full the context is."""
        self._fill = fill
        self.refresh()

    def render(self) -> Content:
        """Renders the line for the current width."""
        width, colours = self.size.width, not self.app.no_color
        return render_status(self._fill, self._activity, self._queue, self._model, width=width, colours=colours)


class Prompt(TextArea):
    """Where the user types. Enter sends; Ctrl+J begins a line, and so does Shift+Enter if the terminal reports it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("pageup", "app.scroll_transcript(-1)", show=False),
        Binding("pagedown", "app.scroll_transcript(1)", show=False),
    ]

    def __init__(self) -> None:
        super().__init__(compact=True, highlight_cursor_line=False, placeholder="Type a message, or /help")

    class Submission(Message):
        """The user sent this text."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def on_key(self, event: events.Key) -> None:
        """Sends the text on Enter.

        This is not a key binding, because bindings are carried out after keys that came later.
        """
        if event.key not in {"enter", *NEW_LINE_KEYS}:
            return
        event.stop()
        event.prevent_default()
        if event.key in NEW_LINE_KEYS:
            self.insert("\n")
            return
        text, self.text = self.text, ""
        if text.strip():
            self.post_message(self.Submission(text.strip()))

    def on_paste(self, event: events.Paste) -> None:
        """Inserts what is pasted, without the control sequences it may hold."""
        event.stop()
        event.prevent_default()
        self.insert(strip_controls(event.text))

    def prepend_text(self, text: str) -> None:
        """Puts text in front of what is typed, to be edited and sent.

        Its secrets are not redacted, because it would then be sent without them.
        """
        self.text = strip_controls(text) + (f"\n{self.text}" if self.text.strip() else "")
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

    class Selection(Message):
        """The user chose this row."""

        def __init__(self, row: TreeRow) -> None:
            super().__init__()
            self.row = row

    def __init__(self) -> None:
        super().__init__()
        self._rows: Sequence[TreeRow] = ()
        self.cursor = 0

    def show_rows(self, rows: Sequence[TreeRow]) -> None:
        """Shows these rows, with the cursor at the session's current place."""
        self._rows = rows
        self.virtual_size = Size(self.size.width, len(rows))
        self._move_to(next((at for at, row in enumerate(rows) if row.kind == "here"), len(rows) - 1))

    def render_line(self, y: int) -> Strip:
        """Renders one line of the screen."""
        index, width = self.scroll_offset.y + y, self.size.width
        if index >= len(self._rows):
            return Strip.blank(width)
        row = self._rows[index]
        style = Style(reverse=index == self.cursor, bold=row.is_active, dim=not row.is_active and index != self.cursor)
        lead = f" {row.lead}"
        text = lead + to_one_line(render_row(row), max(0, width - len(lead) - 1))
        return Strip([Segment(set_cell_size(text, width), style)], width)

    def _move_to(self, at: int) -> None:
        self.cursor = max(0, min(at, len(self._rows) - 1))
        self.scroll_to_region(Region(0, self.cursor, 1, 1), animate=False, force=True)
        self.refresh()

    def action_go(self, by: int) -> None:
        """Moves the cursor by rows."""
        self._move_to(self.cursor + by)

    def action_page(self, by: int) -> None:
        """Moves the cursor by screens."""
        self._move_to(self.cursor + by * max(1, self.size.height - 1))

    def action_choose(self) -> None:
        """Chooses the row under the cursor."""
        if self._rows:
            self.post_message(self.Selection(self._rows[self.cursor]))

    def on_click(self, event: events.Click) -> None:
        """Moves the cursor to the clicked row, or chooses the row if the cursor is already there."""
        at = self.scroll_offset.y + event.y
        if at == self.cursor:
            self.action_choose()
        else:
            self._move_to(at)
