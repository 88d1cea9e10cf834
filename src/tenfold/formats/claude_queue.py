"""Finds what a user typed in Claude Code while it worked: once each, where it was given to the model.

Such a message waits in a queue, of which the file says what comes in and what goes out (`queue-operation`). It is
delivered as a `user` line, or as an `attachment` line of type `queued_command`. Some versions write neither: then the
line that says that it went out is the only one with the message. What was taken back is no message.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tenfold.formats.json_items import JsonItem
from tenfold.formats.message_parts import parse_texts

Json = dict[str, Any]
_DELIVERED = "absorbed_mid_turn"
"""The reason of a message that was removed from the queue because the running turn took it up."""


def get_queued_prompt(value: Json) -> object:
    """Returns the content of the message that an attachment line delivers, None for any other line."""
    match value:
        case {"type": "attachment", "attachment": {"type": "queued_command", "prompt": str() | list() as prompt}}:
            return prompt or None
    return None


class MessageQueue:
    """The messages of the user that wait, while the lines of a file go by in order.

    `delivered` holds the `queue-operation` lines that are the only ones with a message, and their texts, by the number
    and place of the line of the first answer after them: there the model had it.
    """

    def __init__(self, lines: Iterable[JsonItem]) -> None:
        self.delivered: dict[tuple[int, int], list[tuple[JsonItem, str]]] = {}
        self._waiting: list[str] = []
        self._seen: list[str] = []
        self._taken: list[tuple[JsonItem, str]] = []
        self._answer: object = None
        for line in sorted(lines, key=lambda line: (line.number, line.place)):
            self._add_line(line)

    @property
    def waiting(self) -> list[str]:
        """The messages that were not given to the model when the file ends."""
        return [*(text for _, text in self._taken), *self._waiting]

    def _add_line(self, line: JsonItem) -> None:
        value = line.value
        if value.get("isSidechain") is True:
            return
        match value.get("type"):
            case "queue-operation":
                self._change(line, str(value.get("operation")), _join_texts(value.get("content")))
            case "user" if isinstance(value.get("message"), dict) and value.get("isMeta") is not True:
                self._note_delivery(value["message"].get("content"), is_attached=False)
            case "attachment":
                self._note_delivery(get_queued_prompt(value), is_attached=True)
            case "assistant":
                self._place_taken(line)

    def _place_taken(self, line: JsonItem) -> None:
        message = line.value.get("message")
        answer = message.get("id") if isinstance(message, dict) else None
        if answer is not None and answer == self._answer:  # more of the answer during which it was taken
            return
        self._answer = answer
        if self._taken:
            self.delivered[line.number, line.place] = self._taken
            self._taken = []

    def _change(self, line: JsonItem, operation: str, text: str) -> None:
        if operation == "enqueue":
            self._waiting += [text] if text else []
        elif operation == "popAll":
            self._waiting.clear()
        elif operation in ("dequeue", "remove"):
            if text in self._seen or (not text and self._seen and not self._waiting):
                self._seen.remove(text or self._seen[0])
                return
            text = text or (self._waiting[0] if self._waiting else "")
            if text in self._waiting:
                self._waiting.remove(text)
            is_given = operation == "dequeue" or line.value.get("reason") == _DELIVERED
            if is_given and text and not _is_command(text):
                self._taken.append((line, text))

    def _note_delivery(self, content: object, *, is_attached: bool) -> None:
        """Notes a message that was delivered: by a line of its own, or with others in one, a line after another.

        One whose words were changed on the way, as pasted text is, is taken to be the one that comes next.
        """
        said = _join_texts(content) if self._taken or self._waiting else ""
        if not said:
            return
        count = len(self._taken)
        self._taken = [(line, text) for line, text in self._taken if not _has_lines(said, text)]
        found = [text for text in self._waiting if _has_lines(said, text)]
        if not found and len(self._taken) == count and not said.startswith("<"):
            if self._taken:
                self._taken.pop(0)
            elif is_attached:
                found = self._waiting[:1]
        self._waiting = [text for text in self._waiting if text not in found]
        self._seen += found


def _join_texts(content: object) -> str:
    return "\n".join(part.text for part in parse_texts(content)).strip()


def _has_lines(said: str, text: str) -> bool:
    """Returns whether a text has all lines of another, whatever spaces are in them."""
    whole, part = ("\n".join(" ".join(line.split()) for line in each.splitlines()) for each in (said, text))
    return f"\n{part}\n" in f"\n{whole}\n"


def _is_command(text: str) -> bool:
    """Returns whether this is a command to Claude Code itself, as `/model`."""
    name = text.split(maxsplit=1)[0]
    return name.startswith("/") and "/" not in name[1:]
