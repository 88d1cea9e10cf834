"""Lists the lines of what a tool returned, as passages of a story. JSON has a line for each object."""

from __future__ import annotations

import re

from tenfold.core.text.excerpts import excerpt, flatten
from tenfold.core.text.json_text import flatten_json
from tenfold.core.text.redaction import redact_cached

MAX_LINE_CHARS = 200
_MAX_SCANNED_LINES = 2_000
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")


def list_result_lines(text: str) -> list[str]:
    """Lists the lines of a tool's output, each on its own. JSON has a line for each object that holds no other."""
    text = redact_cached(text)  # the whole, since a label may stand on another line than its secret
    lines = flatten_json(text) if text.lstrip()[:1] in ("{", "[") else None
    lines = (text.split("\n") if lines is None else lines)[:_MAX_SCANNED_LINES]
    shown = (excerpt(flatten(line), MAX_LINE_CHARS) for line in lines if _LETTER_OR_DIGIT.search(line))
    return list(dict.fromkeys(shown))
