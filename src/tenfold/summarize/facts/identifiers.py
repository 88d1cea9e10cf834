"""Collects identifiers and numbers: URLs, hashes, ports, versions, order numbers, emails, labelled values.

Texts are split into words once, and each word is classified once. A million tokens take a fraction of a second. The
`note` of a fact says who wrote it: "user", "model" or "tool".
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from tenfold.record.block import Fact
from tenfold.redact import redact, redacted
from tenfold.remembering import remembered
from tenfold.text import ending, flat, head_of, key_of, sentences, uncut

_STRIP = ".,;:!?\"'`()[]{}<>*\\"
_WORTH = re.compile(r"\d|@|://")
_SHAPE = re.compile(
    r"(?P<url>https?://[^\s\"'<>`\\)\]}]{4,300})"
    r"|(?P<email>[\w.+-]{1,60}@[\w-]+(?:\.[\w-]+)+)"
    r"|(?P<uuid>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"
    r"|(?P<hash>(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7,64})"
    r"|(?P<version>(?:@?[\w./-]{1,60}@)?v?\d{1,4}\.\d{1,5}\.\d{1,5}(?:[-+][\w.]{1,40})?)"
    r"|(?P<port>(?:localhost|[\w-]+(?:\.[\w-]+)*\.(?:com|org|net|io|dev|local|internal)"
    r"|\d{1,3}(?:\.\d{1,3}){3}):\d{2,5}(?:/\S{0,80})?)"
    r"|(?P<hex>0x[0-9A-Fa-f]{4,40})"
    r"|(?P<id>#[A-Z]{0,4}\d{2,}|(?!L\d+$)[A-Z]{1,12}[-_]?\d{3,}(?:[-_][A-Za-z0-9]+)*|[a-z]+(?:_[a-z]+)*_\d{4,}"
    r"|[A-Z]{2,}(?:[-_][A-Z0-9]+){1,6})"
)
_DIGIT = re.compile(r"\d")
_PAIR = re.compile(
    r"[\"'`({\[<*-]*(?P<key>[A-Za-z_][\w.-]{2,40})[\"'`]?[=:][\"'`]?(?P<value>(?=\S*\d)[^\s\"'`,;{}()\[\]\\*=]{1,80})[^\s]{0,8}"
)
_LABELLED = re.compile(r"(?<!\S)(\S{2,60}[:=])(?=[ \t]+(\S+)|[ \t]*\n[ \t]*([^\s\u2192]+)[ \t]*(?:\n|\Z))")
"""A label and the word after it. A word on the next line counts only if it is alone there."""
_ADDRESS = re.compile(r"0x[0-9a-f]{8,}")
"""A memory address of a program's object. It differs in every run."""
_LENGTH = re.compile(r"-?[\d.]+(?:px|r?em|vh|vw)")
"""A length in a style sheet. The page is read again if it matters."""
_NUMBERING = re.compile(r"\d{1,2}[.)]")
"""The marker of a list item. After a colon it is no value."""
_KEY = re.compile(r"[A-Za-z_][\w.-]{2,40}")
_FRAME = frozenset({"code", "signal", "pgid"})
"""Labels that frame a shell's output. The command's fact already says how it ended."""
_SMALL = 1_500
_EDGE = 12_000


class _Named(NamedTuple):
    """An identifier found in a word. `is_prominent` is False for a labelled value that counts in short texts only."""

    key: str
    text: str
    loud: bool


class Identifiers:
    """Collects identifiers over the messages of one extraction. The latest value of each wins."""

    def __init__(self) -> None:
        self._facts: dict[str, Fact] = {}
        self._said: dict[str, tuple[int, str, str]] = {}

    def read(self, at: int, text: str, who: str) -> None:
        """Reads one text by `speaker` ("user", "model", "tool"). Of a long text, only the beginning and the end."""
        for key, named in _named_in(text, tool=who == "tool"):
            self._put(key, named, at, who)

    def said(self, at: int, text: str, who: str) -> None:
        """Reads prose. An identifier stays in its sentence, since a number alone says nothing."""
        for key, sentence in _said_in(text):
            self._said[key] = at, sentence, who

    def facts(self) -> list[Fact]:
        """Returns the facts, oldest mention first. A sentence stays as long as one of its values is the latest."""
        sentence_facts = {
            text: Fact("identifier", text, key_of(text), at, note=speaker) for at, text, speaker in self._said.values()
        }
        single_facts = [fact for fact in self._facts.values() if fact.key not in self._said]
        return sorted([*single_facts, *sentence_facts.values()], key=lambda fact: fact.at)

    def _put(self, key: str, text: str, at: int, who: str) -> None:
        before = self._facts.get(key)
        if before is not None and _RANK[before.note] < _RANK[who] and before.text == text:
            who = before.note
        self._facts[key] = Fact(kind="identifier", text=text, key=key, at=at, note=who)


_RANK = {"user": 0, "model": 1, "tool": 2}


def _is_loud(key: str) -> bool:
    return key.isupper() and len(key) > 4


@remembered
def _named_in(text: str, *, tool: bool) -> tuple[tuple[str, str], ...]:
    """Returns key and text of each identifier in a text: single words first, then values behind a label.

    Secrets are removed first, because a word by itself does not show that it stood behind a label.
    """
    is_thorough = not tool or len(text) <= _SMALL
    text = redacted(text if len(text) <= _EDGE else head_of(text, _EDGE * 2 // 3) + " " + ending(text, _EDGE // 3))
    words = text.split()
    named = [(word, _classify(word)) for word in set(words) if 3 <= len(word) <= 400]
    accepted = [(word, each) for word, each in named if each is not None and (each.loud or is_thorough)]
    out = [(each.key, each.text) for _, each in sorted(accepted) if not (tool and _ADDRESS.fullmatch(each.text))]
    for label, same_line, next_line in _LABELLED.findall(text):
        following = same_line or next_line
        key, value = label.strip(_STRIP + "="), following.strip(_STRIP + ",}")
        if _NUMBERING.fullmatch(following) or _LENGTH.fullmatch(value) or (tool and key.lower() in _FRAME):
            continue
        if _DIGIT.search(value) and _KEY.fullmatch(key) and len(value) <= 80 and (is_thorough or _is_loud(key)):
            out.append((key.lower(), f"{key}={value}"))
    return tuple(out)


_FENCED = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_FIGURE = re.compile(
    r"(?<![\w.,/#:-])(?<!line )(?<!lines )(?<!step )(?<!page )[$\u20ac\u00a3]?(\d[\d,]*(?:\.\d+)?)(?![\w/:-]|[.,]\d)"
)
"""A number in a sentence, except one that only counts places (line, step, page)."""
_QUOTE = 120
"""Most characters quoted of a sentence, besides those that complete the words at its ends."""
_MANY = 12
"""Most sentences used of one text. A text with more is a list, and its newest sentences are enough."""


def figures(sentence: str) -> list[tuple[int, str]]:
    """Returns the numbers of two or more digits in a sentence, each with its offset.

    Numbers that only count places are left out.
    """
    matches = ((match.start(1), match[1].strip(",")) for match in _FIGURE.finditer(sentence))
    return [(at, value) for at, value in matches if len(value.strip("0.,")) > 1]


@remembered
def _said_in(text: str) -> tuple[tuple[str, str], ...]:
    """Returns key and sentence for each identifier, and each number of two or more digits, in prose.

    Secrets are removed first, because a cut sentence may lose the word that reveals one.
    """
    out: list[tuple[str, str]] = []
    candidates = [s for s in sentences(_FENCED.sub("\n", redact(text))) if len(s) < _SMALL and _WORTH.search(s)]
    for sentence in candidates[-_MANY:]:
        numbers = figures(sentence)
        names = [(max(sentence.find(name.rpartition("=")[2]), 0), key) for key, name in _named_in(sentence, tool=False)]
        if numbers or names:
            first = min(at for at, _ in (*numbers, *names))
            start = max(0, min(first - _QUOTE // 2, len(sentence) - _QUOTE))
            quote = flat(sentence if len(sentence) <= _QUOTE else _worded(sentence, start, start + _QUOTE))
            out += [(key, quote) for _, key in (*numbers, *names)]
    return tuple(out)


def _worded(sentence: str, start: int, end: int) -> str:
    """Returns a slice of a sentence, extended to whole words: half a name would look like another name.

    A run of characters longer than the quote is no word (a text without blanks) and is cut.
    """
    before, after = sentence[max(start - _QUOTE, 0) : start], sentence[end : end + _QUOTE]
    extra_before, extra_after = len(before) - before.rfind(" ") - 1, after.find(" ")
    extra_after = extra_after if extra_after >= 0 else len(after)
    return sentence[
        start - (extra_before if extra_before < _QUOTE else 0) : end + (extra_after if extra_after < _QUOTE else 0)
    ]


@lru_cache(maxsize=16_384)
def _classify(word: str) -> _Named | None:
    """Returns the identifier in a word of at most 400 characters, None if there is none."""
    if uncut(word) != word or (not _WORTH.search(word) and not (word[0].isupper() and "-" in word)):
        return None
    bare = word.strip(_STRIP)
    if "://" in bare:
        found = _SHAPE.search(bare)
        return _Named(found.group(), found.group(), loud=True) if found and found.lastgroup == "url" else None
    match = _SHAPE.fullmatch(bare)
    if match is not None:
        is_plain_word = match.lastgroup == "id" and not _DIGIT.search(bare)
        return None if is_plain_word else _Named(bare, bare, loud=True)
    pair = _PAIR.fullmatch(word) if "=" in word or ":" in word else None
    if pair is None or "." in pair["key"]:
        return None
    value = pair["value"].rstrip(".,;:")
    if _LENGTH.fullmatch(value):
        return None
    return _Named(pair["key"].lower(), f"{pair['key']}={value}", loud=_is_loud(pair["key"]))
