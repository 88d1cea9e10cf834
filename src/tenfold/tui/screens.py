"""The screens that open over the chat: a question, and the session's tree."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen, Screen
from textual.timer import Timer
from textual.widgets import Static

from tenfold.errors import TenfoldError
from tenfold.session import Session
from tenfold.tui.slash import SUMMARY
from tenfold.tui.trees import Row, rows_of
from tenfold.tui.widgets import Rows, plain

QUIET = 0.5
"""Seconds without a key before a question accepts an answer: the user may have been typing when it opened."""
STAY = "escape"


class Asking(ModalScreen[str]):
    """A question that is answered by one key, which it returns. Escape is always one of the answers."""

    def __init__(self, title: str, text: str, keys: Mapping[str, str], *, sudden: bool) -> None:
        """`keys` maps each key to its meaning.

        With `sudden`, the question opens while the user types, and accepts a key only after a pause.
        """
        super().__init__()
        self._title, self._text, self._keys, self._sudden = title, text, keys, sudden
        self._pause: Timer | None = None
        self._listens = False

    def compose(self) -> ComposeResult:
        """Yields a box with the question, which scrolls if it is long, and the keys."""
        with Vertical(id="box"):
            yield Static(plain(self._title), id="title", markup=False)
            with VerticalScroll(id="text"):
                yield Static(plain(self._text), markup=False)
            yield Static("", id="keys", markup=False)

    def on_mount(self) -> None:
        """Accepts keys at once, or after the pause."""
        self.query_one("#text").focus()
        if self._sudden:
            self._pause = self.set_timer(QUIET, self._listen)
        else:
            self._listen()

    def _listen(self) -> None:
        self._listens = True
        self.query_one("#keys", Static).update(plain("   ".join(f"{key}: {what}" for key, what in self._keys.items())))

    def on_key(self, event: events.Key) -> None:
        """Takes one of the keys as the answer. Until the pause is over, every key starts it anew."""
        if not self._listens:
            event.stop()
            if self._pause is not None:
                self._pause.reset()
        elif event.key.lower() in self._keys:
            event.stop()
            self.dismiss(event.key.lower())


class TreeScreen(Screen[str]):
    """The session's tree. It returns the command that goes to the chosen place, "" to stay."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "stay", show=False)]

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session

    def compose(self) -> ComposeResult:
        """Yields a title, the rows and the keys."""
        yield Static("reading the session", id="title", markup=False)
        yield Rows()
        yield Static("Enter goes there   up and down choose   Escape stays here", id="keys", markup=False)

    async def on_mount(self) -> None:
        """Reads the tree in a thread, while the screen is already there."""
        self.query_one(Rows).focus()
        self.run_worker(self._read())

    async def _read(self) -> None:
        title = self.query_one("#title", Static)
        try:
            rows = await asyncio.to_thread(rows_of, self._session)
        except TenfoldError as exc:
            title.update(plain(f"the session cannot be read: {exc}"))
            return
        messages = sum(row.kind == "said" for row in rows)
        branches = sum(row.kind != "said" for row in rows)
        title.update(plain(f"{messages:,} messages of yours, {branches:,} {'branch' if branches == 1 else 'branches'}"))
        self.query_one(Rows).fill(rows)

    def on_rows_chosen(self, event: Rows.Chosen) -> None:
        """Asks what to do with the branch that is left."""
        row = event.row
        if row.kind == "here":
            self.dismiss("")
            return
        action = "say it again, differently" if row.kind == "said" else "go on from there"
        keys = {"y": "summarize it for the model", "n": "no summary", STAY: "stay here"}
        question = f"{action}: {row.text}\n\nIs the branch that is left to be summarized?"
        self.app.push_screen(
            Asking("Go to another place of this session", question, keys, sudden=False),
            lambda key: self._answered(row, key or STAY),
        )

    def _answered(self, row: Row, key: str) -> None:
        if key != STAY:
            self.dismiss(f"/tree {row.id}{f' {SUMMARY}' if key == 'y' else ''}")

    def action_stay(self) -> None:
        """Closes the screen and stays at the current place."""
        self.dismiss("")
