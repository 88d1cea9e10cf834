"""The widgets below the transcript: the queued inputs, the status line and the prompt."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Struct
from msgspec.structs import replace
from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import TextArea

from tenfold.apps.agent import Agent
from tenfold.core.text.terminal_safe import strip_controls, to_one_line

NEW_LINE_KEYS = frozenset({"ctrl+j", "shift+enter", "alt+enter"})
"""Keys that begin a new line in the prompt."""
FillLevel = Literal["unknown", "none", "warn", "soft", "hard"]
STYLES: dict[FillLevel, str] = {
    "unknown": "bold",
    "none": "bold ansi_green",
    "warn": "bold ansi_black on ansi_yellow",
    "soft": "bold ansi_bright_white on ansi_magenta",
    "hard": "bold ansi_bright_white on ansi_red",
}
"""Readable on dark and on light backgrounds. Where a colour alone would not be, the style sets a background too."""
PLAIN_STYLES: dict[FillLevel, str] = {
    "unknown": "",
    "none": "",
    "warn": "bold",
    "soft": "reverse",
    "hard": "bold reverse",
}
"""The styles without colours."""


class ContextFill(Struct, frozen=True):
    """The share that the view takes of what the answer leaves of the window (None: not known), and the policy's level.

    So 100 % is the hard limit, and a policy's shares are of the same whole. `interval` says between which sizes the
    provider's own count lies, as in `41k-44k of 184k`.
    """

    share: float | None = None
    level: FillLevel = "unknown"
    interval: str = ""

    @property
    def text(self) -> str:
        """The text in the status line."""
        return "[ctx: ?]" if self.share is None else f"[ctx: {self.share:.0%}]"


def measure_fill(agent: Agent) -> ContextFill:
    """Measures the session. It counts what is new, so call it in a thread."""
    session, window = agent.session, agent.window
    if window is None:
        return ContextFill()
    reading = session.take_reading(window=window)
    limits = session.policy.get_limits(window, output_reserve=agent.output_reserve, floor=reading.floor)
    reading = replace(reading, window=limits.hard)
    return ContextFill(reading.fill, limits.get_need(reading.tokens), reading.explain())


def render_status(
    fill: ContextFill, activity: str, queued: int, model: str, *, width: int, colours: bool = True
) -> Content:
    """Renders the line for this width. What does not fit is left out from the right, the fill last of all."""
    styles = STYLES if colours else PLAIN_STYLES
    parts: list[tuple[str, str]] = [(fill.text, styles[fill.level])]
    free_columns = width - len(fill.text)
    queue_text = f"{queued} queued" if queued else ""
    for text, style in ((activity, "bold" if activity != "idle" else ""), (queue_text, "")):
        if text and len(text) + 2 <= free_columns:
            parts += [("  ", ""), (text, style)]
            free_columns -= len(text) + 2
    if fill.interval and len(fill.interval) + len(model) + 4 <= free_columns:  # the model's name is worth more
        parts += [("  ", ""), (fill.interval, "dim")]
        free_columns -= len(fill.interval) + 2
    name = to_one_line(model, max(0, free_columns - 2))
    if name and len(name) >= min(6, len(model)):
        parts += [(" " * (free_columns - len(name)), ""), (name, "dim")]
    return Content.assemble(*parts)


class StatusLine(Widget):
    """One line that is always visible: the fill, what is being done, how many inputs are queued, and the model."""

    fill = reactive(ContextFill())
    activity = reactive("idle")
    queued = reactive(0)
    model = reactive("")

    def render(self) -> Content:
        """Renders the line for the current width."""
        width, colours = self.size.width, not self.app.no_color
        return render_status(self.fill, self.activity, self.queued, self.model, width=width, colours=colours)


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
