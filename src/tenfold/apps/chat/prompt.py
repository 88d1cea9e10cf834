"""Where the user types: the prompt with its history, and the list of what the words in it may be completed to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList, TextArea

from tenfold.apps.chat.completion import Completion
from tenfold.core.text.terminal_safe import sanitize, strip_controls

NEW_LINE_KEYS = frozenset({"ctrl+j", "shift+enter", "alt+enter"})
"""Keys that begin a new line in the prompt."""
MAX_HISTORY = 500
"""Inputs that can be called back."""


class InputHistory:
    """What was sent, oldest first, and the draft that was left to look at it."""

    def __init__(self) -> None:
        self._inputs: list[str] = []
        self._at = 0
        self._draft = ""

    def replace(self, inputs: Sequence[str]) -> None:
        """Begins with these inputs, those of a continued session."""
        self._inputs = list(inputs[-MAX_HISTORY:])
        self._at = len(self._inputs)

    def add(self, text: str) -> None:
        """Adds what is sent. The same twice in a row is one."""
        if self._inputs[-1:] != [text]:
            self._inputs = [*self._inputs[1 - MAX_HISTORY :], text]
        self._at = len(self._inputs)

    def recall(self, step: int, current: str) -> str | None:
        """Returns the input a step before (-1) or after (1) the shown one, None if there is none.

        After the newest one comes the draft, which is `current` when the user leaves it.
        """
        if not 0 <= self._at + step <= len(self._inputs):
            return None
        if self._at == len(self._inputs):
            self._draft = current
        self._at += step
        return self._draft if self._at == len(self._inputs) else self._inputs[self._at]


class CompletionList(OptionList, can_focus=False):
    """The completions, above the prompt. Tab takes the highlighted one."""

    def __init__(self) -> None:
        super().__init__(markup=False, compact=True)
        self._completions: list[Completion] = []
        self.display = False

    def show(self, completions: Sequence[Completion]) -> None:
        """Shows these completions, or goes away if there are none."""
        self._completions = list(completions)
        self.clear_options()
        width = max((len(_get_label(each)) for each in completions), default=0)
        self.add_options(
            Content.assemble(_get_label(each).ljust(width), ("  " + sanitize(each.about), "dim"))
            for each in completions
        )
        self.highlighted = 0 if completions else None
        self.display = bool(completions)

    def get_highlighted(self) -> Completion | None:
        """Returns the completion that Tab takes."""
        return self._completions[self.highlighted] if self.display and self.highlighted is not None else None


def _get_label(completion: Completion) -> str:
    return completion.text.strip().removeprefix("@")


class Prompt(TextArea):
    """Where the user types. Enter sends; Ctrl+J begins a line, and so does Shift+Enter if the terminal reports it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("pageup", "app.scroll_transcript(-1)", show=False),
        Binding("pagedown", "app.scroll_transcript(1)", show=False),
    ]

    def __init__(self, completions: CompletionList) -> None:
        super().__init__(compact=True, highlight_cursor_line=False, placeholder="Type a message, or /help")
        self.inputs = InputHistory()
        self._completions = completions
        self._recalled = ""

    class Submission(Message):
        """The user sent this text."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    @property
    def completable_text(self) -> str:
        """What was typed, "" if the cursor is not at its end, or if it was called back from the history."""
        is_at_end = self.cursor_location == self.document.end
        return self.text if is_at_end and self.text != self._recalled else ""

    @property
    def _cursor_row(self) -> int:
        return self.wrapped_document.location_to_offset(self.cursor_location).y

    def on_key(self, event: events.Key) -> None:
        """Sends the text on Enter, completes it on Tab, and calls back what was sent with the arrow keys.

        These are not key bindings, because bindings are carried out after keys that came later.
        """
        if not self._handle_key(event.key):
            return
        event.stop()
        event.prevent_default()

    def _handle_key(self, key: str) -> bool:
        match key:
            case "enter":
                self._submit()
            case "tab":
                self.accept_completion()
            case "escape" if self._completions.display:
                self._completions.show([])
            case "up" | "down" if self._completions.display:
                move = self._completions.action_cursor_up if key == "up" else self._completions.action_cursor_down
                move()
            case "up" if self._cursor_row == 0:
                self._recall(-1)
            case "down" if self._cursor_row == self.wrapped_document.height - 1:
                self._recall(1)
            case _ if key in NEW_LINE_KEYS:
                self.insert("\n")
            case _:
                return False
        return True

    def _submit(self) -> None:
        text, self.text = self.text.strip(), ""
        if text:
            self.inputs.add(text)
            self.post_message(self.Submission(text))

    def accept_completion(self) -> None:
        """Puts the highlighted completion into the text, if there is one."""
        completion = self._completions.get_highlighted()
        if completion is not None:
            self.text = self.text[: completion.start] + completion.text
            self.move_cursor(self.document.end)

    def _recall(self, step: int) -> None:
        text = self.inputs.recall(step, self.text)
        if text is not None:
            self._recalled = text
            self.text = text
            self.move_cursor(self.document.end)

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
