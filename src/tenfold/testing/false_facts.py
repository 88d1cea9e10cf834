"""Finds false facts: identifiers that a view states but its source never held.

A summary that invents an identifier is worse than no summary. What a view says about itself does not count as a fact:
how much was left out, which file it was put into, and the ids and times in a method's own marks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from tenfold.testing.identifier_finder import IdentifierKind, find_identifiers, has_identifier
from tenfold.testing.probes.chat_text import get_text, get_tool_calls
from tenfold.testing.probes.kinds import ChatMessage

_EXTRA_PATTERNS: tuple[tuple[IdentifierKind, re.Pattern[str]], ...] = (
    ("url", re.compile(r"\bhttps?://[^\s\"'<>)\]}`\\]+")),
    ("path", re.compile(r"(?<![\w/.:-])(?:~?/|\.{1,2}/)?[\w@+.-]+(?:/[\w@+.-]+)+")),
    ("id", re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b|\b[A-Z][A-Z0-9]{0,9}-\d{2,}\b")),
    ("symbol", re.compile(r"\b(?:[a-zA-Z]+_[a-zA-Z_0-9]+|[a-z]+(?:[A-Z][a-z0-9]+)+|(?:[A-Z][a-z0-9]+){2,})\b")),
    ("number", re.compile(r"(?<![\w.,-])\d{4,}(?![\w,]|\.\d)|(?<![\w.,-])\d{1,3}(?:,\d{3})+(?![\w,])")),
)
"""Patterns for what `find_identifiers` misses, such as two names with a slash between, or digits after a `$`."""
_SELF_NOTES = (
    re.compile(r"</?tenfold\b[^>]*>|<seal block=[^>]*>", re.IGNORECASE),
    re.compile(r"(?<![\w,])[\d,]+ (?:more |earlier |older |other )?(?:tokens?|characters?|chars|lines?|messages?|bytes|"
               r"words|entries|items?|steps?|exchanges?|calls?|results?|times)\b", re.IGNORECASE),
    re.compile(r"/conversation_history/\S+"),
    re.compile(r"searchable via \w+|Retrieve (?:original|more): hash=\w+|<<ccr:[^<>\n]*>>"),
    re.compile(r"\b\d+x\b(?=[,:.])"),
    re.compile(r"\bfunction_(?:call|result)\b|\bcall_id="),
)  # fmt: skip
_GAP = re.compile(r"\[\.{3} ?[\d,]+[^\]]*\]")
"""A mark for text that was left out. What stands beside it may be cut short."""
_ESCAPED_BREAK = re.compile(r"\\[nrt]")
"""An escaped line break in JSON, since a view may quote arguments as they were sent."""
_TERMINAL_CODE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
"""Colours and cursor moves of a terminal. Views leave them out, and the letter at their end belongs to no name."""
_COMMIT = re.compile(r"[0-9a-f]{7,39}")
_DOTS = ("…", "...")
_DOTS_REACH = 40
"""How many characters beside a name are searched for its dots, since blanks and brackets may stand between."""
_TRAILING = ".,:;-/…"


class FalseFact(Struct, frozen=True):
    """An identifier in the message of the view at `index` that the source does not hold."""

    kind: IdentifierKind
    text: str
    index: int


class _WrittenName(NamedTuple):
    """An identifier as a view writes it, and whether dots replace its beginning or its end."""

    kind: IdentifierKind
    text: str
    headless: bool
    endless: bool


class ViewSource:
    """What a view was made from. It is read once and can then check many views."""

    def __init__(self, messages: Sequence[ChatMessage]) -> None:
        whole = "\n".join(_get_full_text(message) for message in messages).lower()
        plain = _ESCAPED_BREAK.sub(" ", _TERMINAL_CODE.sub("", whole))
        self._text = whole if plain == whole else f"{whole}\n{plain}"
        self._message_texts = {get_text(message) for message in messages}
        self._answers: dict[_WrittenName, bool] = {}

    def find_false_facts(self, view: Sequence[ChatMessage]) -> list[FalseFact]:
        """Returns each false fact once. Messages that the source holds unchanged are skipped."""
        found: dict[str, FalseFact] = {}
        for at, message in enumerate(view):
            text = get_text(message)
            if text not in self._message_texts:
                for name in _find_names(text):
                    if name.text not in found and not self._has_name(name):
                        found[name.text] = FalseFact(name.kind, name.text, at)
        return list(found.values())

    def _has_name(self, mention: _WrittenName) -> bool:
        answer = self._answers.get(mention)
        if answer is None:
            answer = self._answers[mention] = _is_in_source(mention, self._text)
        return answer


def find_false_facts(source: Sequence[ChatMessage], view: Sequence[ChatMessage]) -> list[FalseFact]:
    """Returns each identifier that the view states and the source does not hold, once."""
    return ViewSource(source).find_false_facts(view)


def _find_names(text: str) -> Iterator[_WrittenName]:
    """Yields the identifiers of a text, then those that only the patterns of this module find in the rest of it."""
    text = _GAP.sub(" … ", _TERMINAL_CODE.sub("", text))
    for note in (*_SELF_NOTES, _ESCAPED_BREAK):
        text = note.sub(" ", text)
    pieces, last = [], 0
    for one in find_identifiers(text):
        yield from _parse_name(one.kind, one.text, one.offset, text)
        end = one.offset + len(one.text)
        pieces += [text[last : one.offset], " "]
        last = end
    rest = "".join((*pieces, text[last:]))
    for kind, pattern in _EXTRA_PATTERNS:
        for match in pattern.finditer(rest):
            yield from _parse_name(kind, match.group(), match.start(), rest)
        if kind in ("url", "path"):
            rest = pattern.sub(" ", rest)


def _parse_name(kind: IdentifierKind, name: str, offset: int, text: str) -> Iterator[_WrittenName]:
    """Yields the name at a place of the text. Dots beside it, or at its end, mean that it was cut short there."""
    end = offset + len(name)
    headless = name.startswith(_DOTS) or text[max(offset - _DOTS_REACH, 0) : offset].rstrip(" \n])").endswith(_DOTS)
    endless = name.endswith(_DOTS) or text[end : end + _DOTS_REACH].lstrip(" \n[(").startswith(_DOTS)
    name = name.rstrip(_TRAILING)
    if headless:
        name = name.lstrip(".")
    if name and "[redacted" not in name:
        yield _WrittenName(kind, name, headless, endless)


def _is_in_source(mention: _WrittenName, source: str) -> bool:
    """Whether the source holds the name.

    A path also counts if the source holds its end, or names its folder and its file separately. A commit also counts if
    the name is the beginning of its hash, as git allows.
    """
    kind, name = mention.kind, mention.text.lower()
    if has_identifier(source, name) or ((mention.headless or mention.endless) and _has_fragment(mention, source)):
        return True
    if _COMMIT.fullmatch(name) and re.search(rf"\b{name}[0-9a-f]{{{40 - len(name)}}}\b", source):
        return True
    if kind == "number":
        whole, dot, part = name.replace(",", "").partition(".")
        written = (whole, f"{int(whole):,}") if whole.isdigit() and whole[0] != "0" else (whole,)
        return any(has_identifier(source, each + dot + part) for each in written)
    if kind != "path":
        return False
    parts = [p for p in name.split("/") if p not in ("", ".", "..", "~")]
    cuts = range(1, len(parts))
    return has_identifier(source, "/".join(parts)) or any(
        has_identifier(source, "/".join(parts[:i])) and has_identifier(source, "/".join(parts[i:])) for i in cuts
    )


def _has_fragment(mention: _WrittenName, source: str) -> bool:
    """Whether some name in the source begins or ends with this one, on the sides where its dots stand."""
    name = mention.text.lower()
    before, after = ("" if mention.headless else r"(?<!\w)"), ("" if mention.endless else r"(?!\w)")
    return re.search(before + re.escape(name) + after, source) is not None


def _get_full_text(message: ChatMessage) -> str:
    """Returns all that a view may quote of a message: its text, its raw arguments, and the ids of its calls."""
    calls = list(get_tool_calls(message))
    return "\n".join([get_text(message), *(raw for _, _, raw in calls), *(call for call, _, _ in calls)])
