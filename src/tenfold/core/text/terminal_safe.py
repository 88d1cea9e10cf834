"""Makes session text safe to print on a terminal or another screen.

Control sequences could give the terminal commands, direction marks could make words appear in another order, and
secrets should not be shown.
"""

from __future__ import annotations

import re

from tenfold.core.text.redaction import redact

_UNSAFE_CHARACTER = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters; two of them begin a sequence
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks that change the direction of text
    r"\U000e0000-\U000e007f\ud800-\udfff]"  # invisible tags, and lone surrogates
)
_UNSAFE_IN_JSON = re.compile(rf"(?:{_UNSAFE_CHARACTER.pattern})|[\u2028\u2029]")
"""JSON itself needs only the first control characters escaped. Line separators end a line for many readers."""
_CONTROL_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI sequences: colours, cursor, screen
    r"|\x1b[\]PX^_][^\x07\x1b\n]{0,2000}(?:\x07|\x1b\\)"  # OSC, DCS, SOS, PM and APC strings that are terminated
    r"|\x1b[ -/]*[0-~]?"  # other escapes; only the beginning of an unterminated string, so that no text is hidden
    r"|" + _UNSAFE_CHARACTER.pattern
)


def strip_controls(text: str) -> str:
    """Removes control sequences and direction marks from a text. Line breaks and tabs are kept."""
    if not _UNSAFE_CHARACTER.search(text):  # true of nearly every text; this test takes a fifth of the time
        return text
    return _CONTROL_SEQUENCE.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def escape_json(text: str) -> str:
    """Escapes in a JSON text what could act on a terminal or break its line. The values stay the same."""
    return text if not _UNSAFE_IN_JSON.search(text) else _UNSAFE_IN_JSON.sub(_escape_character, text)


def _escape_character(match: re.Match[str]) -> str:
    units = match.group().encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def sanitize(text: str) -> str:
    """Makes session text safe to show to a person: `strip_controls`, and secrets redacted."""
    return redact(strip_controls(text))


def to_one_line(text: str, width: int) -> str:
    """Returns the beginning of session text, sanitized, on one line of at most `width` characters."""
    flat = " ".join(sanitize(text[: width * 8 + 400]).split())
    return flat if len(flat) <= width else flat[: max(0, width - 3)].rstrip() + "..."
