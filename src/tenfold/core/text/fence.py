"""Puts foreign text into a request as data, between marks that it cannot close."""

from __future__ import annotations

from tenfold.core.text.excerpts import Keep, excerpt

FENCE_TAG = "untrusted-data"


def fence_text(text: str, limit: int, label: str) -> str:
    """Returns the text, shortened to `limit` characters, between marks that the text itself cannot close."""
    body = (
        excerpt(text, limit, Keep.BLOCK_ENDS)
        .replace(f"</{FENCE_TAG}", f"<\\/{FENCE_TAG}")
        .replace(f"<{FENCE_TAG}", f"<\\{FENCE_TAG}")
    )
    safe = "".join(c if c.isalnum() or c in " _-." else "_" for c in label)[:60]
    return f'<{FENCE_TAG} from="{safe}">\n{body}\n</{FENCE_TAG}>'
