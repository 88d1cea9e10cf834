"""The status line: how full the context is, how near a compaction, what is being done, what is queued, which model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from textual.content import Content

from tenfold.agent import Agent
from tenfold.shown import one_line

Level = Literal["unknown", "none", "warn", "soft", "hard"]
STYLES: dict[Level, str] = {
    "unknown": "bold",
    "none": "bold ansi_green",
    "warn": "bold ansi_black on ansi_yellow",
    "soft": "bold ansi_bright_white on ansi_magenta",
    "hard": "bold ansi_bright_white on ansi_red",
}
"""Readable on dark and on light backgrounds. Where a colour alone would not be, the style sets a background too."""
PLAIN: dict[Level, str] = {"unknown": "", "none": "", "warn": "bold", "soft": "reverse", "hard": "bold reverse"}
"""The styles without colours."""


class Fill(Struct, frozen=True):
    """The share of the window that the view takes (None: not known), and the policy's level for it."""

    share: float | None = None
    level: Level = "unknown"

    @property
    def text(self) -> str:
        """The text in the status line."""
        return "[ctx: ?]" if self.share is None else f"[ctx: {self.share:.0%}]"


def fill_of(agent: Agent) -> Fill:
    """Measures the session. It counts what is new, so call it in a thread."""
    session, window = agent.session, agent.window
    if window is None:
        return Fill()
    reading = session.reading(window=window)
    limits = session.policy.trigger.limits(window, output_reserve=agent.output_reserve, floor=reading.floor)
    return Fill(reading.fill, limits.need(reading.tokens))


def status(fill: Fill, doing: str, queued: Sequence[str], model: str, *, width: int, colours: bool = True) -> Content:
    """Renders the line for this width. What does not fit is left out from the right, the fill last of all."""
    styles = STYLES if colours else PLAIN
    parts: list[tuple[str, str]] = [(fill.text, styles[fill.level])]
    free_columns = width - len(fill.text)
    queue_text = f"{len(queued)} queued" if queued else ""
    for text, style in ((doing, "bold" if doing != "idle" else ""), (queue_text, "")):
        if text and len(text) + 2 <= free_columns:
            parts += [("  ", ""), (text, style)]
            free_columns -= len(text) + 2
    name = one_line(model, max(0, free_columns - 2))
    if name and len(name) >= min(6, len(model)):
        parts += [(" " * (free_columns - len(name)), ""), (name, "dim")]
    return Content.assemble(*parts)
