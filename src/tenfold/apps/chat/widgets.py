"""The status line below the transcript: how full the context is, what is being done, what it cost, and the model."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from tenfold.apps.agent import Agent
from tenfold.apps.agent.run_lines import format_tokens
from tenfold.core.text.terminal_safe import to_one_line
from tenfold.session.bill import build_bill

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


class SessionCost(Struct, frozen=True):
    """What the session cost in dollars, and what it would have cost more without Tenfold (negative: less).

    Both are None if the model's price is not known; then `saved_tokens` says what it did not have to send.
    """

    paid: float | None = None
    saved: float | None = None
    saved_tokens: int = 0

    @property
    def text(self) -> str:
        """The text in the status line, "" before anything was paid or saved."""
        if self.paid is None or self.saved is None:
            return f"saved {format_tokens(self.saved_tokens)} tokens" if self.saved_tokens > 0 else ""
        if not self.paid:
            return ""
        verb = "saved" if self.saved >= 0 else "lost"
        saved = f", {verb} {_format_dollars(abs(self.saved))}" if round(abs(self.saved), 4) else ""
        return f"{_format_dollars(self.paid)}{saved}"


NO_COST = SessionCost()


def _format_dollars(amount: float) -> str:
    return f"${amount:.2f}" if amount >= 1 else f"${amount:.4f}"


def measure_cost(agent: Agent) -> SessionCost:
    """Adds up the bill of the session, all its branches together. It reads the session, so call it in a thread."""
    place = agent.session.address
    total = build_bill(place.store, namespace=place.namespace, sessions=[place.session]).total
    if total.unpriced:
        return SessionCost(saved_tokens=total.saved_tokens)
    return SessionCost(total.total_paid, total.saving, total.saved_tokens)


def render_status(  # noqa: PLR0913 - the parts of the line
    fill: ContextFill,
    activity: str,
    queued: int,
    model: str,
    *,
    width: int,
    cost: SessionCost = NO_COST,
    colours: bool = True,
) -> Content:
    """Renders the line for this width. What does not fit is left out from the right, the fill last of all."""
    styles = STYLES if colours else PLAIN_STYLES
    parts: list[tuple[str, str]] = [(fill.text, styles[fill.level])]
    free_columns = width - len(fill.text)
    queue_text = f"{queued} queued" if queued else ""
    cost_style = "bold ansi_red" if colours and (cost.saved or 0) < 0 else ""
    for text, style in ((activity, "bold" if activity != "idle" else ""), (queue_text, ""), (cost.text, cost_style)):
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
    """One line that is always visible: the fill, what is being done, how many inputs wait, the cost and the model."""

    fill = reactive(ContextFill())
    cost = reactive(SessionCost())
    activity = reactive("idle")
    queued = reactive(0)
    model = reactive("")

    def render(self) -> Content:
        """Renders the line for the current width."""
        width, colours = self.size.width, not self.app.no_color
        return render_status(
            self.fill, self.activity, self.queued, self.model, width=width, cost=self.cost, colours=colours
        )
