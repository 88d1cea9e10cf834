"""Keeps aider's listings of files out of the session: they are what the model edits, and stand elsewhere each time.

Aider has no tools. It sends the files of the chat as a message of the user with an answer behind it, and moves both
behind the history at each turn. They are no part of what was said, so they are set aside, and put back in what is sent.
"""

from __future__ import annotations

import re

from msgspec import Struct

from tenfold.gateway.model_request import ModelRequest

_LISTING = re.compile(
    rb'"content"\s*:\s*(?:\[\s*\{[^{}]{0,40}"text"\s*:\s*)?"(?:I have \*added these files to the chat\*'
    rb"|Here are summaries of some files present in my git repository"
    rb"|Here are some READ ONLY files, provided for your reference)"
)
"""How such a message begins, in aider 0.86."""
_USER, _ANSWER, _SYSTEM = (
    re.compile(rb'"role"\s*:\s*"%s"' % role) for role in (b"user", b"assistant", b"(?:system|developer)")
)


class SetAside(Struct, frozen=True):
    """Messages that were taken out of a list. Each block stood before the messages `following` of what is left."""

    blocks: tuple[tuple[tuple[bytes, ...], tuple[bytes, ...]], ...]

    @property
    def text(self) -> str:
        """Returns all of it, to be counted."""
        return "\n".join(item.decode("utf-8", "replace") for items, _ in self.blocks for item in items)

    def put_back(self, request: ModelRequest) -> ModelRequest:
        """Returns a request with the messages before what followed them, else behind the system prompt."""
        items = list(request.items)
        for block, following in reversed(self.blocks):
            at = len(items) - len(following)
            if at < 0 or tuple(items[at:]) != following:
                at = next((n for n, item in enumerate(items) if not _SYSTEM.search(item)), len(items))
            items[at:at] = block
        return request.with_items(items)


def set_listings_aside(request: ModelRequest) -> tuple[ModelRequest, SetAside | None]:
    """Returns a request without such messages, and what was taken out. The request itself and None if it has none."""
    if request.wire != "openai-chat" or not any(map(_is_listing, request.items)):
        return request, None
    kept: list[bytes] = []
    found: list[tuple[list[bytes], int]] = []
    is_inside = False
    for item in request.items:
        if _is_listing(item):
            found.append(([item], len(kept)))
            is_inside = True
        elif is_inside and _ANSWER.search(item):
            found[-1][0].append(item)
            is_inside = False
        else:
            kept.append(item)
            is_inside = False
    blocks = tuple((tuple(items), tuple(kept[at:])) for items, at in found)
    return request.with_items(kept), SetAside(blocks)


def _is_listing(item: bytes) -> bool:
    return _LISTING.search(item[:400]) is not None and _USER.search(item) is not None
