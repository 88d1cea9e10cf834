"""Finds false facts: identifiers that a view states but its source never held.

A summary that invents an identifier is worse than no summary. What a view says about itself does not count as a fact:
how much was left out, which file it was put into, and the ids and times in a method's own marks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from tenfold.evals.cases import ChatMessage, calls_in, text_of_message
from tenfold.evals.identifiers import Kind, holds, identifiers

_KINDS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("url", re.compile(r"\bhttps?://[^\s\"'<>)\]}`\\]+")),
    ("path", re.compile(r"(?<![\w/.:-])(?:~?/|\.{1,2}/)?[\w@+.-]+(?:/[\w@+.-]+)+")),
    ("id", re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b|\b[A-Z][A-Z0-9]{0,9}-\d{2,}\b")),
    ("symbol", re.compile(r"\b(?:[a-zA-Z]+_[a-zA-Z_0-9]+|[a-z]+(?:[A-Z][a-z0-9]+)+|(?:[A-Z][a-z0-9]+){2,})\b")),
    ("number", re.compile(r"(?<![\w.,-])\d{4,}(?![\w,]|\.\d)|(?<![\w.,-])\d{1,3}(?:,\d{3})+(?![\w,])")),
)
"""Patterns for what `find_identifiers` misses, such as two names with a slash between, or digits after a `$`."""
_ABOUT_ITSELF = (
    re.compile(r"</?tenfold\b[^>]*>", re.IGNORECASE),
    re.compile(r"[\d,]+ (?:more |earlier |older |other )?(?:tokens?|characters?|chars|lines?|messages?|bytes|words|"
               r"entries|items?|steps?|exchanges?|calls?|results?|times)\b", re.IGNORECASE),
    re.compile(r"/conversation_history/\S+"),
    re.compile(r"searchable via \w+|Retrieve (?:original|more): hash=\w+|<<ccr:[^<>\n]*>>"),
    re.compile(r"\b\d+x\b(?=[,:.])"),
    re.compile(r"\bfunction_(?:call|result)\b|\bcall_id="),
)  # fmt: skip
_GAP = re.compile(r"\[\.{3} ?[\d,]+[^\]]*\]")
"""A mark for text that was left out. What stands beside it may be cut short."""
_ESCAPED = re.compile(r"\\[nrt]")
"""An escaped line break in JSON, since a view may quote arguments as they were sent."""
_TERMINAL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
"""Colours and cursor moves of a terminal. Views leave them out, and the letter at their end belongs to no name."""
_COMMIT = re.compile(r"[0-9a-f]{7,39}")
_DOTS = ("…", "...")
_NEAR = 40
"""How many characters beside a name are searched for its dots, since blanks and brackets may stand between."""
_TRAILING = ".,:;-/…"


class FalseFact(Struct, frozen=True):
    """An identifier in the message of the view at `index` that the source does not hold."""

    kind: Kind
    text: str
    at: int


class _Named(NamedTuple):
    """An identifier as a view writes it, and whether dots replace its beginning or its end."""

    kind: Kind
    text: str
    headless: bool
    endless: bool


class Source:
    """What a view was made from. It is read once and can then check many views."""

    def __init__(self, messages: Sequence[ChatMessage]) -> None:
        whole = "\n".join(_whole(message) for message in messages).lower()
        plain = _ESCAPED.sub(" ", _TERMINAL.sub("", whole))
        self._held = whole if plain == whole else f"{whole}\n{plain}"
        self._known = {text_of_message(message) for message in messages}
        self._asked: dict[_Named, bool] = {}

    def false_facts(self, view: Sequence[ChatMessage]) -> list[FalseFact]:
        """Returns each false fact once. Messages that the source holds unchanged are skipped."""
        found: dict[str, FalseFact] = {}
        for at, message in enumerate(view):
            text = text_of_message(message)
            if text not in self._known:
                for name in _named(text):
                    if name.text not in found and not self._holds(name):
                        found[name.text] = FalseFact(name.kind, name.text, at)
        return list(found.values())

    def _holds(self, named: _Named) -> bool:
        answer = self._asked.get(named)
        if answer is None:
            answer = self._asked[named] = _occurs(named, self._held)
        return answer


def false_facts(source: Sequence[ChatMessage], view: Sequence[ChatMessage]) -> list[FalseFact]:
    """Returns each identifier that the view states and the source does not hold, once."""
    return Source(source).false_facts(view)


def _named(text: str) -> Iterator[_Named]:
    """Yields the identifiers of a text, then those that only the patterns of this module find in the rest of it."""
    text = _GAP.sub(" … ", _TERMINAL.sub("", text))
    for note in (*_ABOUT_ITSELF, _ESCAPED):
        text = note.sub(" ", text)
    pieces, last = [], 0
    for one in identifiers(text):
        yield from _stated(one.kind, one.text, one.at, text)
        end = one.at + len(one.text)
        pieces += [text[last : one.at], " "]
        last = end
    rest = "".join((*pieces, text[last:]))
    for kind, pattern in _KINDS:
        for match in pattern.finditer(rest):
            yield from _stated(kind, match.group(), match.start(), rest)
        if kind in ("url", "path"):
            rest = pattern.sub(" ", rest)


def _stated(kind: Kind, name: str, at: int, text: str) -> Iterator[_Named]:
    """Yields the name at a place of the text. Dots beside it, or at its end, mean that it was cut short there."""
    end = at + len(name)
    headless = name.startswith(_DOTS) or text[max(at - _NEAR, 0) : at].rstrip(" \n])").endswith(_DOTS)
    endless = name.endswith(_DOTS) or text[end : end + _NEAR].lstrip(" \n[(").startswith(_DOTS)
    name = name.rstrip(_TRAILING)
    if headless:
        name = name.lstrip(".")
    if name and "[redacted" not in name:
        yield _Named(kind, name, headless, endless)


def _occurs(named: _Named, held: str) -> bool:
    """Whether the source holds the name.

    A path also counts if the source holds its end, or names its folder and its file separately. A commit also counts if
    the name is the beginning of its hash, as git allows.
    """
    kind, name = named.kind, named.text.lower()
    if holds(held, name) or ((named.headless or named.endless) and _cut(named, held)):
        return True
    if _COMMIT.fullmatch(name) and re.search(rf"\b{name}[0-9a-f]{{{40 - len(name)}}}\b", held):
        return True
    if kind == "number":
        whole, dot, part = name.replace(",", "").partition(".")
        written = (whole, f"{int(whole):,}") if whole.isdigit() and whole[0] != "0" else (whole,)
        return any(holds(held, each + dot + part) for each in written)
    if kind != "path":
        return False
    parts = [p for p in name.split("/") if p not in ("", ".", "..", "~")]
    cuts = range(1, len(parts))
    return holds(held, "/".join(parts)) or any(
        holds(held, "/".join(parts[:i])) and holds(held, "/".join(parts[i:])) for i in cuts
    )


def _cut(named: _Named, held: str) -> bool:
    """Whether some name in the source begins or ends with this one, on the sides where its dots stand."""
    name = named.text.lower()
    before, after = ("" if named.headless else r"(?<!\w)"), ("" if named.endless else r"(?!\w)")
    return re.search(before + re.escape(name) + after, held) is not None


def _whole(message: ChatMessage) -> str:
    """Returns all that a view may quote of a message: its text, its raw arguments, and the ids of its calls."""
    calls = message.get("tool_calls")
    ids = [str(call.get("id")) for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    return "\n".join([text_of_message(message), *(raw for _, raw in calls_in(message)), *ids])
