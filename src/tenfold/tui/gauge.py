"""The status line: how full the context is, how near to a compaction, what is being done, what waits, which model."""

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
"""Readable on a dark and on a light ground alike: where a colour alone would not be, it brings its own ground."""
PLAIN: dict[Level, str] = {"unknown": "", "none": "", "warn": "bold", "soft": "reverse", "hard": "bold reverse"}
"""The same without colours."""


class Fill(Struct, frozen=True):
    """How much of the window the view takes (None: not known), and the policy's word for how badly that is."""

    share: float | None = None
    level: Level = "unknown"

    @property
    def text(self) -> str:
        """As it stands in the status line."""
        return "[ctx: ?]" if self.share is None else f"[ctx: {self.share:.0%}]"


def fill_of(agent: Agent) -> Fill:
    """Measures the session. Counts what is new in it, so it belongs in a thread."""
    session, window = agent.session, agent.window
    if window is None:
        return Fill()
    reading = session.reading(window=window)
    limits = session.policy.trigger.limits(window, output_reserve=agent.output_reserve, floor=reading.floor)
    return Fill(reading.fill, limits.need(reading.tokens))


def status(fill: Fill, doing: str, queued: Sequence[str], model: str, *, width: int, colours: bool = True) -> Content:
    """The line at this width. What does not fit is left out from the right: the fill last of all."""
    styles = STYLES if colours else PLAIN
    parts: list[tuple[str, str]] = [(fill.text, styles[fill.level])]
    room = width - len(fill.text)
    waiting = f"{len(queued)} queued" if queued else ""
    for text, style in ((doing, "bold" if doing != "idle" else ""), (waiting, "")):
        if text and len(text) + 2 <= room:
            parts += [("  ", ""), (text, style)]
            room -= len(text) + 2
    name = one_line(model, max(0, room - 2))
    if name and len(name) >= min(6, len(model)):
        parts += [(" " * (room - len(name)), ""), (name, "dim")]
    return Content.assemble(*parts)
