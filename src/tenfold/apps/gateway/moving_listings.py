"""Keeps what a client adds to its history anew at each turn out of the session: listings of files, examples, rules.

Aider does so, which has no tools. It sends the files of the chat as a message of the user with an answer behind it, and
moves both behind the history at each turn. It repeats the end of its system prompt behind the last message, or in it.
With most models it begins with examples, the same in every chat. All of that is no part of what was said, so it is set
aside, and put back in what is sent. How such messages begin stands in `tenfold.apps.clients.client_habits`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from tenfold.apps.clients.client_habits import ENDS_OF_EXAMPLES, LISTING_ANSWERS, LISTINGS, MOVED_LISTS
from tenfold.apps.gateway.model_request import ModelRequest
from tenfold.core.wire import splice

MAX_AGREED = 400
"""Bytes that the answer behind a listing takes at most. The longest one that aider writes has 115 letters."""
MAX_EXAMPLES = 24
"""How many messages are looked at for the end of the examples."""
_USER, _ANSWER, _SYSTEM = (
    re.compile(rb'"role"\s*:\s*"%s"' % role) for role in (b"user", b"assistant", b"(?:system|developer)")
)
_END_OF_TEXT = re.compile(rb'"[\]}\s]*\Z')
_BLANK_LINE = re.compile(rb"(?=\\n\\n)")


class SetAside(Struct, frozen=True):
    """What was taken out of a list. Each block stood before the messages `following` of what is left.

    `cut` is the last message without the rules at its end, and `uncut` as it came; both are b"" if nothing was cut.
    """

    blocks: tuple[tuple[tuple[bytes, ...], tuple[bytes, ...]], ...]
    cut: bytes = b""
    uncut: bytes = b""

    @property
    def text(self) -> str:
        """Returns all of it, to be counted."""
        rules = self.uncut[len(self.cut) - len(self.uncut) :] if self.uncut else b""
        return b"\n".join((*(item for items, _ in self.blocks for item in items), rules)).decode("utf-8", "replace")

    def put_back(self, request: ModelRequest) -> ModelRequest:
        """Returns a request with the messages before what followed them, else behind the system prompt."""
        items = list(request.items)
        for block, following in reversed(self.blocks):
            at = len(items) - len(following)
            if at < 0 or tuple(items[at:]) != following:
                at = next((n for n, item in enumerate(items) if not _SYSTEM.search(item)), len(items))
            items[at:at] = block
        if self.cut and items[-1] == self.cut:
            items[-1] = self.uncut
        return request.with_items(items)


def set_listings_aside(request: ModelRequest) -> tuple[ModelRequest, SetAside | None]:
    """Returns a request without what moves, and what was taken out. The request itself and None if there is nothing."""
    if request.list_field != MOVED_LISTS.sign or not request.items:
        return request, None
    items = list(request.items)
    rules, cut, uncut = _find_rules(request), b"", b""
    if rules:
        items.pop()
    else:
        cut, uncut = _cut_rules(request)
        items[-1:] = [cut] if cut else items[-1:]
    kept: list[bytes] = []
    found: list[tuple[tuple[bytes, ...], int]] = []
    position = 0
    for start, end in _list_blocks(items):
        kept += items[position:start]
        found.append((tuple(items[start:end]), len(kept)))
        position = end
    kept += items[position:]
    found += [((rules,), len(kept))] if rules else []
    if not found and not cut:
        return request, None
    blocks = tuple((block, tuple(kept[at:])) for block, at in found)
    return request.with_items(kept), SetAside(blocks, cut, uncut)


def _list_blocks(items: list[bytes]) -> Iterator[tuple[int, int]]:
    """Yields where the examples and each listing begin and end, with the answers behind them."""
    if not any(len(item) <= MAX_AGREED and b'"Ok' in item for item in items):  # as in every other client's list
        return
    position = next((n for n, item in enumerate(items) if not _SYSTEM.search(item)), len(items))
    for at in range(position, min(len(items) - 1, MAX_EXAMPLES)):
        if ENDS_OF_EXAMPLES.sign.search(items[at][:400]) and _is_agreed(items, at):
            yield position, at + 2
            position = at + 2
            break
    while position < len(items) - 1:
        if LISTINGS.sign.search(items[position][:400]) and _is_agreed(items, position):
            yield position, position + 2
            position += 1
        position += 1


def _is_agreed(items: list[bytes], at: int) -> bool:
    """Whether a message of the user has the answer behind it that aider writes for its model."""
    answer = items[at + 1]
    return len(answer) <= MAX_AGREED and bool(
        _USER.search(items[at]) and _ANSWER.search(answer) and LISTING_ANSWERS.sign.search(answer)
    )


def _find_rules(request: ModelRequest) -> bytes:
    """Returns the last message if it is a system message with nothing but the end of the system prompt. Else b""."""
    last = request.items[-1]
    if len(request.items) < 2 or not _SYSTEM.search(last):
        return b""
    text = bytes((splice.parse_object(last) or {}).get("content", b""))[1:-1]
    return last if text and _read_prompt(request).endswith(text) else b""


def _cut_rules(request: ModelRequest) -> tuple[bytes, bytes]:
    """Returns the last message without the end of the system prompt, if a user's ends with it, and as it came."""
    last, prompt = request.items[-1], _read_prompt(request)
    end = _END_OF_TEXT.search(last)
    if end is None or not prompt or len(request.items) < 2 or not _USER.search(last):
        return b"", b""
    text = last[: end.start()]
    for gap in _BLANK_LINE.finditer(text):
        rules = text[gap.start() + 4 :]
        cut = text[: gap.start()] + last[end.start() :]
        if rules and prompt.endswith(b"\\n" + rules) and splice.parse_object(cut) is not None:
            return cut, last
    return b"", b""


def _read_prompt(request: ModelRequest) -> bytes:
    """Returns the system prompt up to its end, as it stands in the body."""
    fields = request.profile.request.system_fields
    raw = request.get_raw(*fields) if request.profile.has_separate_system else request.items[0]
    end = _END_OF_TEXT.search(raw)
    return raw[: end.start()] if end is not None else b""
