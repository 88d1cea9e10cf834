"""Collects identifiers and numbers: URLs, hashes, ports, versions, order numbers, emails, labelled values.

Texts are split into words once, and each word is classified once. A million tokens take a fraction of a second. The
`note` of a fact says who wrote it: "user", "model" or "tool".
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tenfold.core.record.block import Fact
from tenfold.core.text.excerpts import Keep, drop_cut_name, excerpt, flatten, normalize_key
from tenfold.core.text.memoize import memoize, memoize_short
from tenfold.core.text.redaction import redact, redact_cached
from tenfold.core.text.sentences import FENCE, split_sentences

_STRIP_CHARS = ".,;:!?\"'`()[]{}<>*\\"
_CANDIDATE = re.compile(r"\d|@|://")
_URL = re.compile(r"https?://[^\s\"'<>`\\)\]}]{4,300}")
_IDENTIFIER = re.compile(
    r"(?P<email>[\w.+-]{1,60}@[\w-]+(?:\.[\w-]+)+)"
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
_LABEL_PAIR = re.compile(
    r"[\"'`({\[<*-]*(?P<key>[A-Za-z_][\w.-]{2,40})[\"'`]?[=:][\"'`]?(?P<value>(?=\S*\d)[^\s\"'`,;{}()\[\]\\*=]{1,80})[^\s]{0,8}"
)
_LABELLED_VALUE = re.compile(r"(?<!\S)(\S{2,60}[:=])(?=[ \t]+(\S+)|[ \t]*\n[ \t]*([^\s\u2192]+)[ \t]*(?:\n|\Z))")
"""A label and the word after it. A word on the next line counts only if it is alone there."""
_MEMORY_ADDRESS = re.compile(r"0x[0-9a-f]{8,}")
"""A memory address of a program's object. It differs in every run."""
_CSS_LENGTH = re.compile(r"-?[\d.]+(?:px|r?em|vh|vw)")
"""A length in a style sheet. The page is read again if it matters."""
_LIST_MARKER = re.compile(r"\d{1,2}[.)]")
"""The marker of a list item. After a colon it is no value."""
_KEY_NAME = re.compile(r"[A-Za-z_][\w.-]{2,40}")
_SHELL_KEYS = frozenset({"code", "signal", "pgid"})
"""Labels that frame a shell's output. The command's fact already says how it ended."""
_SHORT_TEXT_CHARS = 1_500
_MAX_TEXT_CHARS = 12_000


class _FoundIdentifier(NamedTuple):
    """An identifier found in a word. `is_prominent` is False for a labelled value that counts in short texts only."""

    key: str
    text: str
    is_prominent: bool


class IdentifierCollector:
    """Collects identifiers over the messages of one extraction. The latest value of each wins."""

    def __init__(self) -> None:
        self._facts: dict[str, Fact] = {}
        self._sentences: dict[str, tuple[int, str, str]] = {}

    def read(self, position: int, text: str, speaker: str) -> None:
        """Reads one text by `speaker` ("user", "model", "tool"). Of a long text, only the beginning and the end."""
        for key, named in _find_identifiers(text, from_tool=speaker == "tool"):
            self._put(key, named, position, speaker)

    def read_prose(self, position: int, text: str, speaker: str) -> None:
        """Reads prose. An identifier stays in its sentence, since a number alone says nothing."""
        for key, sentence in _find_sentences(text):
            self._sentences[key] = position, sentence, speaker

    def build_facts(self) -> list[Fact]:
        """Returns the facts, oldest mention first. A sentence stays as long as one of its values is the latest."""
        sentence_facts = {
            text: Fact("identifier", text, normalize_key(text), at, note=speaker)
            for at, text, speaker in self._sentences.values()
        }
        single_facts = [fact for fact in self._facts.values() if fact.key not in self._sentences]
        return sorted([*single_facts, *sentence_facts.values()], key=lambda fact: fact.position)

    def _put(self, key: str, text: str, position: int, speaker: str) -> None:
        before = self._facts.get(key)
        if before is not None and _SPEAKER_RANK[before.note] < _SPEAKER_RANK[speaker] and before.text == text:
            speaker = before.note
        self._facts[key] = Fact(kind="identifier", text=text, key=key, position=position, note=speaker)


_SPEAKER_RANK = {"user": 0, "model": 1, "tool": 2}


def _is_prominent(key: str) -> bool:
    return key.isupper() and len(key) > 4


@memoize
def _find_identifiers(text: str, *, from_tool: bool) -> tuple[tuple[str, str], ...]:
    """Returns key and text of each identifier in a text: single words first, then values behind a label.

    Secrets are removed first, because a word by itself does not show that it stood behind a label.
    """
    is_thorough = not from_tool or len(text) <= _SHORT_TEXT_CHARS
    text = redact_cached(excerpt(text, _MAX_TEXT_CHARS, Keep.EDGE_WORDS))
    words = text.split()
    named = [(word, _classify_word(word)) for word in set(words) if 3 <= len(word) <= 400]
    accepted = [(word, each) for word, each in named if each is not None and (each.is_prominent or is_thorough)]
    out = [
        (each.key, each.text)
        for _, each in sorted(accepted)
        if not (from_tool and _MEMORY_ADDRESS.fullmatch(each.text))
    ]
    for label, same_line, next_line in _LABELLED_VALUE.findall(text):
        following = same_line or next_line
        key, value = label.strip(_STRIP_CHARS + "="), following.strip(_STRIP_CHARS + ",}")
        if (
            _LIST_MARKER.fullmatch(following)
            or _CSS_LENGTH.fullmatch(value)
            or (from_tool and key.lower() in _SHELL_KEYS)
        ):
            continue
        if (
            _DIGIT.search(value)
            and _KEY_NAME.fullmatch(key)
            and len(value) <= 80
            and (is_thorough or _is_prominent(key))
        ):
            out.append((key.lower(), f"{key}={value}"))
    return tuple(out)


_NUMBER = re.compile(
    r"(?<![\w.,/#:-])(?<!line )(?<!lines )(?<!step )(?<!page )[$\u20ac\u00a3]?(\d[\d,]*(?:\.\d+)?)(?![\w/:-]|[.,]\d)"
)
"""A number in a sentence, except one that only counts places (line, step, page)."""
_QUOTE_CHARS = 120
"""Most characters quoted of a sentence, besides those that complete the words at its ends."""
_MAX_SENTENCES = 12
"""Most sentences used of one text. A text with more is a list, and its newest sentences are enough."""


def find_numbers(sentence: str) -> list[tuple[int, str]]:
    """Returns the numbers of two or more digits in a sentence, each with its offset.

    Numbers that only count places are left out.
    """
    matches = ((match.start(1), match[1].strip(",")) for match in _NUMBER.finditer(sentence))
    return [(at, value) for at, value in matches if len(value.strip("0.,")) > 1]


@memoize
def _find_sentences(text: str) -> tuple[tuple[str, str], ...]:
    """Returns key and sentence for each identifier, and each number of two or more digits, in prose.

    Secrets are removed first, because a cut sentence may lose the word that reveals one.
    """
    out: list[tuple[str, str]] = []
    candidates = [
        s for s in split_sentences(FENCE.sub("\n", redact(text))) if len(s) < _SHORT_TEXT_CHARS and _CANDIDATE.search(s)
    ]
    for sentence in candidates[-_MAX_SENTENCES:]:
        numbers = find_numbers(sentence)
        names = [
            (max(sentence.find(name.rpartition("=")[2]), 0), key)
            for key, name in _find_identifiers(sentence, from_tool=False)
        ]
        if numbers or names:
            first = min(at for at, _ in (*numbers, *names))
            start = max(0, min(first - _QUOTE_CHARS // 2, len(sentence) - _QUOTE_CHARS))
            quote = flatten(
                sentence if len(sentence) <= _QUOTE_CHARS else _extend_to_words(sentence, start, start + _QUOTE_CHARS)
            )
            out += [(key, quote) for _, key in (*numbers, *names)]
    return tuple(out)


def _extend_to_words(sentence: str, start: int, end: int) -> str:
    """Returns a slice of a sentence, extended to whole words: half a name would look like another name.

    A run of characters longer than the quote is no word (a text without blanks) and is cut.
    """
    before, after = sentence[max(start - _QUOTE_CHARS, 0) : start], sentence[end : end + _QUOTE_CHARS]
    extra_before, extra_after = len(before) - before.rfind(" ") - 1, after.find(" ")
    extra_after = extra_after if extra_after >= 0 else len(after)
    return sentence[
        start - (extra_before if extra_before < _QUOTE_CHARS else 0) : end
        + (extra_after if extra_after < _QUOTE_CHARS else 0)
    ]


@memoize_short(16_384)
def _classify_word(word: str) -> _FoundIdentifier | None:
    """Returns the identifier in a word of at most 400 characters, None if there is none."""
    if drop_cut_name(word) != word or (not _CANDIDATE.search(word) and not (word[0].isupper() and "-" in word)):
        return None
    bare = word.strip(_STRIP_CHARS)
    if "://" in bare:
        found = _URL.search(bare)
        return _FoundIdentifier(found.group(), found.group(), is_prominent=True) if found else None
    match = _IDENTIFIER.fullmatch(bare)
    if match is not None:
        is_plain_word = match.lastgroup == "id" and not _DIGIT.search(bare)
        return None if is_plain_word else _FoundIdentifier(bare, bare, is_prominent=True)
    pair = _LABEL_PAIR.fullmatch(word) if "=" in word or ":" in word else None
    if pair is None or "." in pair["key"]:
        return None
    value = pair["value"].rstrip(".,;:")
    if _CSS_LENGTH.fullmatch(value):
        return None
    return _FoundIdentifier(pair["key"].lower(), f"{pair['key']}={value}", is_prominent=_is_prominent(pair["key"]))
