"""False facts: identifiers that a view states and its source never held. A summary that invents one is worse than none.

What a view says about itself is no fact: how much was left out, which file that was put into, and the ids and times in
the marks of a method.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from tenfold.evals.cases import ChatMessage, calls_in, text_of_message

_URL = re.compile(r"\bhttps?://[^\s\"'<>)\]}`\\]+")
_PATH = re.compile(r"(?<![\w/.:-])(?:~?/|\.{1,2}/)?[\w@+.-]+(?:/[\w@+.-]+)+")
_HASH = re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b")
_TICKET = re.compile(r"\b[A-Z][A-Z0-9]{0,9}-\d{2,}\b")
_SYMBOL = re.compile(r"\b(?:[a-zA-Z]+_[a-zA-Z_0-9]+|[a-z]+(?:[A-Z][a-z0-9]+)+|(?:[A-Z][a-z0-9]+){2,})\b")
_NUMBER = re.compile(r"(?<![\w.,-])\d{4,}(?![\w,]|\.\d)|(?<![\w.,-])\d{1,3}(?:,\d{3})+(?![\w,])")
_KINDS = (
    ("url", _URL),
    ("path", _PATH),
    ("hash", _HASH),
    ("ticket", _TICKET),
    ("symbol", _SYMBOL),
    ("number", _NUMBER),
)
_ABOUT_ITSELF = (
    re.compile(r"</?tenfold\b[^>]*>", re.IGNORECASE),
    re.compile(r"[\d,]+ (?:more |earlier |older |other )?(?:tokens?|characters?|chars|lines?|messages?|bytes|words|"
               r"entries|items?|steps?|exchanges?|calls?|results?|times)\b", re.IGNORECASE),
    re.compile(r"\[\.{3} ?[\d,]+[^\]]*\]"),
    re.compile(r"/conversation_history/\S+"),
)  # fmt: skip


_ESCAPED = re.compile(r"\\[nrt]")
"""A break as JSON writes it: a view may quote arguments as they were sent."""


class FalseFact(Struct, frozen=True):
    """An identifier of the view at message `at` that the source does not hold."""

    kind: str
    text: str
    at: int


class Source:
    """What a view was made from, read once and asked about every view of it."""

    def __init__(self, messages: Sequence[ChatMessage]) -> None:
        self._held = "\n".join(_whole(message) for message in messages).lower()
        self._known = {text_of_message(message) for message in messages}

    def false_facts(self, view: Sequence[ChatMessage]) -> list[FalseFact]:
        """Each one once. Messages that the source holds as they are need no look."""
        found: dict[str, FalseFact] = {}
        for at, message in enumerate(view):
            text = text_of_message(message)
            if text not in self._known:
                for kind, name in _named(text):
                    if name not in found and not _occurs(kind, name.lower(), self._held):
                        found[name] = FalseFact(kind, name, at)
        return list(found.values())


def false_facts(source: Sequence[ChatMessage], view: Sequence[ChatMessage]) -> list[FalseFact]:
    """Each identifier that the view states and the source does not, once."""
    return Source(source).false_facts(view)


def _named(text: str) -> Iterator[tuple[str, str]]:
    for note in (*_ABOUT_ITSELF, _ESCAPED):
        text = note.sub(" ", text)
    for kind, pattern in _KINDS:
        for match in pattern.finditer(text):
            name = match.group().rstrip(".,:;-/…")
            if (
                "[redacted" not in name
                and not match.group().endswith("...")
                and text[match.end() : match.end() + 1] != "…"
            ):
                yield kind, name
        if kind in ("url", "path"):
            text = pattern.sub(" ", text)


def _occurs(kind: str, name: str, held: str) -> bool:
    """Whether the source holds the name: a path also by its end, or as a folder and a file named apart."""
    if name in held:
        return True
    if kind == "number":
        plain = name.replace(",", "")
        return plain in held or f"{int(plain):,}" in held
    if kind != "path":
        return False
    parts = [p for p in name.split("/") if p not in ("", ".", "..", "~")]
    cuts = range(1, len(parts))
    return "/".join(parts) in held or any("/".join(parts[:i]) in held and "/".join(parts[i:]) in held for i in cuts)


def _whole(message: ChatMessage) -> str:
    """A message's text, and its arguments also as they stand in the JSON: a view may quote either."""
    return "\n".join([text_of_message(message), *(raw for _, raw in calls_in(message))])
