"""Which message is the user's current request. Facts, plans and continuations all go by this rule.

It is the newest message of the user that asks for something. Agreement and thanks leave the request before it in force,
and so does what a harness wrote in the user's name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from tenfold.core.record.message import Message, Text
from tenfold.core.text.language_tables import collect_words, fold_letters
from tenfold.core.wire.marks import strip_harness_text

_MAX_ACKNOWLEDGEMENT_CHARS = 300
HARNESS_MARKS = ("[Request interrupted", "<command-name>", "<local-command", "<system-reminder")
"""How messages begin that a harness wrote as the user's."""
_QUESTION_MARKS = frozenset("?\uff1f\u061f")
_SIGNS = "👍👌🙏🎉✅💯🚀❤😊🙂🔥👏"
"""Signs that acknowledge where nothing is said in words."""
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]\Z")
"""Matches the end of a word in Chinese or Japanese, which are written without spaces."""


@cache
def _compile_acknowledgement() -> re.Pattern[str]:
    words = sorted(collect_words("acknowledging"), key=lambda word: (-len(word), word))
    ends = (re.escape(w).replace("\\ ", r"\s+") + ("" if _UNSPACED.search(w) else r"(?!\w)") for w in words)
    return re.compile(rf"[\W_]*+(?:(?>{'|'.join(ends)})[\W_]*+)++")


def is_acknowledgement(text: str) -> bool:
    """Whether a text only agrees, thanks, greets, or lets the agent go on."""
    if len(text) > _MAX_ACKNOWLEDGEMENT_CHARS or not _QUESTION_MARKS.isdisjoint(text):
        return False
    if not any(c.isalnum() for c in text):
        return any(sign in text for sign in _SIGNS)
    return _compile_acknowledgement().fullmatch(fold_letters(text).replace("\u2019", "'")) is not None


def get_user_words(message: Message) -> str:
    """Returns what the user wrote in a message, "" for messages of others and for what a harness wrote for them."""
    if message.role != "user" or message.origin != "human":
        return ""
    text = "\n".join(strip_harness_text(part.text) for part in message.parts if isinstance(part, Text)).strip()
    return "" if text.startswith(HARNESS_MARKS) else text


def find_current_request(words: Iterable[str]) -> int | None:
    """Returns the index of the current request among the user's words, newest first; None if there are no words.

    Where the user only ever acknowledged, it is the newest of these messages.
    """
    newest: int | None = None
    for index, text in enumerate(words):
        if text and not is_acknowledgement(text):
            return index
        if text and newest is None:
            newest = index
    return newest
