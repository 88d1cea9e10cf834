"""The screens that open over the chat: a question, and the session's tree."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen, Screen
from textual.timer import Timer
from textual.widgets import Static

from tenfold.apps.chat.full_text import FullText, SignedLine, has_names
from tenfold.apps.chat.session_tree import TreeRow, build_rows
from tenfold.apps.chat.slash_commands import SUMMARY_WORD
from tenfold.apps.chat.widgets import Rows, to_content
from tenfold.core.text.hidden import reveal_lines
from tenfold.core.text.terminal_safe import sanitize
from tenfold.errors import TenfoldError
from tenfold.session import Session

PAUSE_SECONDS = 0.5
"""Seconds without a key before a question accepts an answer: the user may have been typing when it opened."""
STAY_KEY = "escape"
HIDDEN_NOTICE = "Characters that do not show are named <like this>."
COMPACT_HEIGHT = 20
"""Rows below which a question has no empty rows between its parts, so that more of its text can be seen."""


class QuestionScreen(ModalScreen[str]):
    """A question that is answered by one key, which it returns. Escape is always one of the answers."""

    def __init__(
        self, title: str, lines: Sequence[SignedLine], keys: Mapping[str, str], *, sudden: bool, consent: str = ""
    ) -> None:
        """`keys` maps each key to its meaning.

        With `sudden`, the question opens while the user types, and accepts a key only after a pause. The key `consent`
        is accepted once the end of the text was in view.
        """
        super().__init__()
        self._title, self._lines, self._keys, self._sudden = title, lines, keys, sudden
        self._unseen_key = consent
        self._pause_timer: Timer | None = None
        self._is_listening = False

    def compose(self) -> ComposeResult:
        """Yields a box with the question, which scrolls if it is long, and the keys."""
        with Vertical(id="box"):
            yield Static(to_content(self._title), id="title", markup=False)
            if has_names(self._lines):
                yield Static(HIDDEN_NOTICE, id="warning", markup=False)
            yield FullText(self._lines)
            yield Static("", id="keys", markup=False)

    def on_mount(self) -> None:
        """Accepts keys at once, or after the pause."""
        self.query_one(FullText).focus()
        if self._sudden:
            self._pause_timer = self.set_timer(PAUSE_SECONDS, self._start_listening)
        else:
            self._start_listening()

    def on_resize(self) -> None:
        """Gives the text what the title, the keys and the frame leave of the screen."""
        self.set_class(self.size.height < COMPACT_HEIGHT, "compact")
        self.call_after_refresh(self._share_height)

    def _share_height(self) -> None:
        text, frame = self.query_one(FullText), self.query_one("#box").gutter.height
        width = text.outer_size.width
        around = sum(part.get_content_height(self.size, self.size, width) for part in self.query(Static))
        text.limit_height(self.size.height - frame - around - text.styles.margin.height)

    def on_full_text_movement(self) -> None:
        """Notes whether the end of the text was in view, and says what is missing."""
        if self._unseen_key and not self.query_one(FullText).count_rows_below():
            self._unseen_key = ""
        self._draw_keys()

    def _start_listening(self) -> None:
        self._is_listening = True
        self._draw_keys()

    def _draw_keys(self) -> None:
        if not self._is_listening:
            return
        keys = [f"{key}: {what}" for key, what in self._keys.items() if key != self._unseen_key]
        text = "   ".join(keys)
        if self._unseen_key:
            below = self.query_one(FullText).count_rows_below()
            text += f"\n{self._unseen_key} is taken at the end: {below:,} more {'line' if below == 1 else 'lines'}. "
            text += "PageDown or End scrolls."
        self.query_one("#keys", Static).update(to_content(text))
        self.call_after_refresh(self._share_height)

    def on_key(self, event: events.Key) -> None:
        """Takes one of the keys as the answer. Until the pause is over, every key starts it anew."""
        if not self._is_listening:
            event.stop()
            if self._pause_timer is not None:
                self._pause_timer.reset()
            return
        key = event.key.lower()
        if key not in self._keys:
            return
        event.stop()
        if key == self._unseen_key:
            self.query_one("#keys").add_class("refused")
            self.app.bell()
        else:
            self.dismiss(key)


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
        yield Static("Enter: go there   up, down: choose   Escape: stay here", id="keys", markup=False)

    async def on_mount(self) -> None:
        """Reads the tree in a thread, while the screen is already there."""
        self.query_one(Rows).focus()
        self.run_worker(self._load_rows())

    async def _load_rows(self) -> None:
        title = self.query_one("#title", Static)
        try:
            rows = await asyncio.to_thread(build_rows, self._session)
        except TenfoldError as exc:
            title.update(to_content(f"the session cannot be read: {exc}"))
            return
        messages = sum(row.kind == "said" for row in rows)
        branches = sum(row.kind != "said" for row in rows)
        title.update(
            to_content(f"{messages:,} messages of yours, {branches:,} {'branch' if branches == 1 else 'branches'}")
        )
        self.query_one(Rows).show_rows(rows)

    def on_rows_selection(self, event: Rows.Selection) -> None:
        """Asks what to do with the branch that is left."""
        row = event.row
        if row.kind == "here":
            self.dismiss("")
            return
        action = "Say this differently" if row.kind == "said" else "Continue from here"
        keys = {"y": "summarize it", "n": "no summary", STAY_KEY: "stay here"}
        question = f"{action}: {row.text}\n\nDo you want a summary of the branch you leave, for the model?"
        lines = [SignedLine("", line) for line in reveal_lines(sanitize(question))]
        self.app.push_screen(
            QuestionScreen("Go to another place of this session", lines, keys, sudden=False),
            lambda key: self._dismiss_with_command(row, key or STAY_KEY),
        )

    def _dismiss_with_command(self, row: TreeRow, key: str) -> None:
        if key != STAY_KEY:
            self.dismiss(f"/tree {row.id}{f' {SUMMARY_WORD}' if key == 'y' else ''}")

    def action_stay(self) -> None:
        """Closes the screen and stays at the current place."""
        self.dismiss("")
