"""False facts: identifiers that a view states and its source never held. A summary that invents one is worse than none.

What a view says about itself is no fact: how much was left out, which file that was put into, and the ids and times in
the marks of a method.
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
"""Looked for besides the identifiers of future-use recall: two names with a slash between, digits behind a `$`."""
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
"""A mark of what is left out; what stands beside it may be cut short."""
_ESCAPED = re.compile(r"\\[nrt]")
"""A break as JSON writes it: a view may quote arguments as they were sent."""
_TERMINAL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
"""Colours and moves of a terminal, which views leave out: the letter at their end belongs to no name."""
_COMMIT = re.compile(r"[0-9a-f]{7,39}")
_DOTS = ("…", "...")
_NEAR = 40
"""Characters beside a name among which its dots are looked for: blanks and brackets may stand between."""
_TRAILING = ".,:;-/…"


class FalseFact(Struct, frozen=True):
    """An identifier of the view at message `at` that the source does not hold."""

    kind: Kind
    text: str
    at: int


class _Named(NamedTuple):
    """An identifier as a view writes it, and whether dots stand where its beginning or its end was."""

    kind: Kind
    text: str
    headless: bool
    endless: bool


class Source:
    """What a view was made from, read once and asked about every view of it."""

    def __init__(self, messages: Sequence[ChatMessage]) -> None:
        whole = "\n".join(_whole(message) for message in messages).lower()
        plain = _ESCAPED.sub(" ", _TERMINAL.sub("", whole))
        self._held = whole if plain == whole else f"{whole}\n{plain}"
        self._known = {text_of_message(message) for message in messages}
        self._asked: dict[_Named, bool] = {}

    def false_facts(self, view: Sequence[ChatMessage]) -> list[FalseFact]:
        """Each one once. Messages that the source holds as they are need no look."""
        found: dict[str, FalseFact] = {}
        for at, message in enumerate(view):
            text = text_of_message(message)
            if text not in self._known:
                for named in _named(text):
                    if named.text not in found and not self._holds(named):
                        found[named.text] = FalseFact(named.kind, named.text, at)
        return list(found.values())

    def _holds(self, named: _Named) -> bool:
        known = self._asked.get(named)
        if known is None:
            known = self._asked[named] = _occurs(named, self._held)
        return known


def false_facts(source: Sequence[ChatMessage], view: Sequence[ChatMessage]) -> list[FalseFact]:
    """Each identifier that the view states and the source does not, once."""
    return Source(source).false_facts(view)


def _named(text: str) -> Iterator[_Named]:
    """The identifiers of a text, and in what is left of it those that only the patterns here find."""
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
    """The name at a place of the text; dots beside it, or at its end, tell that it was cut short there."""
    end = at + len(name)
    headless = name.startswith(_DOTS) or text[max(at - _NEAR, 0) : at].rstrip(" \n])").endswith(_DOTS)
    endless = name.endswith(_DOTS) or text[end : end + _NEAR].lstrip(" \n[(").startswith(_DOTS)
    name = name.rstrip(_TRAILING)
    if headless:
        name = name.lstrip(".")
    if name and "[redacted" not in name:
        yield _Named(kind, name, headless, endless)


def _occurs(named: _Named, held: str) -> bool:
    """Whether the source holds the name: a path also by its end, or as a folder and a file named apart.

    Commits are named by the beginning of their hash, as git does.
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
    """Whether some name of the source begins or ends so, as the dots beside this one say."""
    name = named.text.lower()
    before, after = ("" if named.headless else r"(?<!\w)"), ("" if named.endless else r"(?!\w)")
    return re.search(before + re.escape(name) + after, held) is not None


def _whole(message: ChatMessage) -> str:
    """A message's text, its arguments also as they stand in JSON, and the ids of its calls: a view may quote any."""
    calls = message.get("tool_calls")
    ids = [str(call.get("id")) for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    return "\n".join([text_of_message(message), *(raw for _, raw in calls_in(message)), *ids])
