"""The message that says to go on after a compaction of the whole conversation, and quotes the current request."""

from __future__ import annotations

from tenfold.core.record.message import Message, Text, get_text
from tenfold.core.wire.marks import CONTINUATION_END, CONTINUATION_START

_OPENING = f"{CONTINUATION_START} The summary holds everything that came before."
_REQUEST_INTRO = " The user's current request is: `"
_REQUEST_OUTRO = "` Continue working on it "
_PLAIN_SENTENCE = " Continue the work "


def build_continuation(request: str) -> Message:
    """Builds the message. `request` is what it quotes ("" where there is no request)."""
    sentence = f"{_REQUEST_INTRO}{request}{_REQUEST_OUTRO}" if request else _PLAIN_SENTENCE
    return Message("user", (Text(f"{_OPENING}{sentence}{CONTINUATION_END}"),), "tenfold")


def is_continuation(message: Message) -> bool:
    """Whether a message is a continuation of ours, in a session or in a list that a host sent back."""
    return message.origin in ("tenfold", "harness") and get_text(message).startswith(_OPENING)


def extract_request(message: Message) -> str:
    """Returns the request that a continuation quotes, "" where it quotes none, or for any other message."""
    text = get_text(message).removeprefix(_OPENING) if is_continuation(message) else ""
    if not text.startswith(_REQUEST_INTRO):
        return ""
    return text.removeprefix(_REQUEST_INTRO).removesuffix(_REQUEST_OUTRO + CONTINUATION_END)
