"""What happens in a run, in a few words on a line: for the chat, and for a run with nobody beside it."""

from __future__ import annotations

import json

from tenfold.core.text.json_text import decode_arguments
from tenfold.core.text.terminal_safe import to_one_line

_MAX_CALL_CHARACTERS = 60
"""Maximum characters of a call's arguments, and of its result. The screen cuts the line at its edge."""
_MAX_VALUE_CHARACTERS = 40
"""Maximum characters of one argument."""


def format_tokens(tokens: int) -> str:
    """Formats a token count for people: 40, 0.9k, 1.2k, 105k, 1.2M."""
    if tokens < 100:
        return str(tokens)
    unit, name = (1_000_000, "M") if tokens >= 999_500 else (1_000, "k")
    share = tokens / unit
    return f"{share:.0f}{name}" if share >= 9.95 or tokens % unit == 0 else f"{share:.1f}{name}"


def render_call(name: str, arguments: str) -> str:
    """Renders a tool call on one line: its name and its arguments, shortened."""
    values = decode_arguments(arguments)
    pairs = [f"{key}={_render_value(value)}" for key, value in values.items()] if values is not None else [arguments]
    return f"{name} {to_one_line(' '.join(pairs), _MAX_CALL_CHARACTERS)}".strip()


def _render_value(value: object) -> str:
    return to_one_line(
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), _MAX_VALUE_CHARACTERS
    )


def render_result(text: str, *, failed: bool) -> str:
    """Renders a tool result in a few words: its first line, and how many lines there are."""
    lines = text.strip().splitlines()
    first = to_one_line(next((line for line in lines if line.strip()), "nothing"), _MAX_CALL_CHARACTERS)
    more = f" ({len(lines):,} lines)" if len(lines) > 1 else ""
    return f" → {'failed: ' if failed else ''}{first}{more}"
