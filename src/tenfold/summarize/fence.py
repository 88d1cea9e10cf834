"""Puts foreign text into a request as data, between marks that it cannot close, and shortens it with a stated gap."""

from __future__ import annotations

from tenfold.text import head_of, plain, tail_of

FENCE = "untrusted-data"


def fenced(text: str, limit: int, label: str) -> str:
    """Returns the text as data, between marks that the text itself cannot close."""
    body = bounded(text, limit).replace(f"</{FENCE}", f"<\\/{FENCE}").replace(f"<{FENCE}", f"<\\{FENCE}")
    safe = "".join(c if c.isalnum() or c in " _-." else "_" for c in label)[:60]
    return f'<{FENCE} from="{safe}">\n{body}\n</{FENCE}>'


def bounded(text: str, limit: int) -> str:
    """Keeps head and tail of at most `limit` characters together. The gap is stated in lines, or in characters."""
    if len(text) <= limit:
        return plain(text)
    first, last = limit * 2 // 3, len(text) - limit // 3
    lines = text.count("\n", first, last)
    size = f"{lines} lines" if lines > 1 else f"{last - first} characters"
    return f"{plain(head_of(text, first))}\n[... {size} left out ...]\n{plain(tail_of(text, len(text) - last))}"
