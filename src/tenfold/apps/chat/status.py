"""The status line: how full the context is, how near a compaction, what is being done and queued, which model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace
from textual.content import Content

from tenfold.apps.agent import Agent
from tenfold.core.text.terminal_safe import to_one_line

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
    fill: ContextFill, activity: str, queue: Sequence[str], model: str, *, width: int, colours: bool = True
) -> Content:
    """Renders the line for this width. What does not fit is left out from the right, the fill last of all."""
    styles = STYLES if colours else PLAIN_STYLES
    parts: list[tuple[str, str]] = [(fill.text, styles[fill.level])]
    free_columns = width - len(fill.text)
    queue_text = f"{len(queue)} queued" if queue else ""
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
