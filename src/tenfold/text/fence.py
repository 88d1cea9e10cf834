"""Puts foreign text into a request as data, between marks that it cannot close, and shortens it with a stated gap."""

from __future__ import annotations

from tenfold.text.excerpts import strip_escapes, take_head, take_tail

FENCE_TAG = "untrusted-data"


def fence_text(text: str, limit: int, label: str) -> str:
    """Returns the text as data, between marks that the text itself cannot close."""
    body = (
        shorten_text(text, limit)
        .replace(f"</{FENCE_TAG}", f"<\\/{FENCE_TAG}")
        .replace(f"<{FENCE_TAG}", f"<\\{FENCE_TAG}")
    )
    safe = "".join(c if c.isalnum() or c in " _-." else "_" for c in label)[:60]
    return f'<{FENCE_TAG} from="{safe}">\n{body}\n</{FENCE_TAG}>'


def shorten_text(text: str, limit: int) -> str:
    """Keeps head and tail of at most `limit` characters together. The gap is stated in lines, or in characters."""
    if len(text) <= limit:
        return strip_escapes(text)
    first, last = limit * 2 // 3, len(text) - limit // 3
    lines = text.count("\n", first, last)
    size = f"{lines} lines" if lines > 1 else f"{last - first} characters"
    return (
        f"{strip_escapes(take_head(text, first))}\n[... {size} left out "
        f"...]\n{strip_escapes(take_tail(text, len(text) - last))}"
    )
