"""Session text as a person may see it. It passes through here before it is drawn, on whatever screen.

Control sequences would command the terminal, direction marks would misrepresent the order of words, and secrets do not
belong on a screen.
"""

from __future__ import annotations

import re

from tenfold.redact import redact

_SIGN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls; two of them begin a sequence
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # what changes the direction of text
    r"\U000e0000-\U000e007f\ud800-\udfff]"  # invisible tags, and halves of characters
)
_CONTROL = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI sequences: colours, cursor, screen
    r"|\x1b[\]PX^_][^\x07\x1b\n]{0,2000}(?:\x07|\x1b\\)"  # OSC, DCS, SOS, PM, APC strings that end
    r"|\x1b[ -/]*[0-~]?"  # any other escape; of a string that never ends only its beginning, so that it hides nothing
    r"|" + _SIGN.pattern
)


def safe(text: str) -> str:
    """Text as it may be printed: control sequences and direction marks removed, lines and tabs kept."""
    if not _SIGN.search(text):  # nearly every text, and this finds that out in a fifth of the time
        return text
    return _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def told(text: str) -> str:
    """Session text as a person may see it: `safe`, and secrets redacted."""
    return redact(safe(text))


def one_line(text: str, width: int) -> str:
    """The beginning of session text, `told`, on one line of at most `width` characters."""
    flat = " ".join(told(text[: width * 8 + 400]).split())
    return flat if len(flat) <= width else flat[: max(0, width - 3)].rstrip() + "..."
