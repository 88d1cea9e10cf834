"""Takes Markdown's marks out of prose, and leaves code, patterns and numbers as they are."""

from __future__ import annotations

import re

_OPENING = re.compile(r"\A(?:(?:#{1,6}|[-*+>|\u2022])\s+)+")
_CODE = re.compile(r"(`[^`]*`)")
_BOLD = re.compile(r"(?:(?<=\s)|(?<=[(\[\"'])|\A)\*\*(?=[^\s*/])|(?<=[^\s*/])\*\*(?=\Z|[\s.,;:!?)\]\"'])")


def strip_markdown(line: str) -> str:
    """Returns a line without what marks it as a heading, a list item or bold.

    `**/*.py` and `#12` are no Markdown: in a pattern and in a number the signs have another meaning.
    """
    parts = _CODE.split(_OPENING.sub("", line.strip()))
    return "".join(part if number % 2 else _BOLD.sub("", part) for number, part in enumerate(parts))
