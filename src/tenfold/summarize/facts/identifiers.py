"""Names and numbers worth carrying: urls, hashes, ports, versions, order numbers, emails, labelled values.

Texts are split into words once; only words not met before are classified, so a million tokens cost a fraction of a
second. `note` says who wrote it: "user", "model" or "tool".
"""

from __future__ import annotations

import re

from tenfold.record.block import Fact

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
    r"|(?P<id>#[A-Z]{0,4}\d{2,}|[A-Z]{1,12}[-_]?\d{3,}(?:[-_][A-Za-z0-9]+)*|[a-z]+(?:_[a-z]+)*_\d{4,}"
    r"|[A-Z]{2,}(?:[-_][A-Z0-9]+){1,6})"
)
_LABELLED = re.compile(
    r"(?P<quote>[\"'`]?)(?P<key>[A-Za-z_][A-Za-z0-9_.-]{2,40})(?P=quote) ?(?:="
    r"|: ?)[ ]?[\"'`]?(?P<value>[^\s\"'`,;{}()\[\]\\*]{1,80})"
)
_LOUD = re.compile(r"\b([A-Z][A-Z0-9_]{4,40})\s?[=:]\s?[\"'`]?([^\s\"'`,;{}()\[\]]{1,80})")
_SMALL = 1_500
_EDGE = 12_000


class Identifiers:
    """Collects identifiers over the messages of one extraction; the latest value of each wins."""

    def __init__(self) -> None:
        self._dull: set[str] = set()
        self._known: dict[str, str] = {}
        self._facts: dict[str, Fact] = {}

    def read(self, at: int, text: str, who: str) -> None:
        """Takes in one text written by `who` ("user", "model", "tool"). Long tool output is read at its edges."""
        if len(text) > _EDGE:
            text = text[: _EDGE * 2 // 3] + " " + text[-_EDGE // 3 :]
        words = set(text.split())
        words -= self._dull
        for word in sorted(words):
            key = self._known.get(word)
            if key is None:
                key = _classify(word)
                if not key:
                    self._dull.add(word)
                    continue
                self._known[word] = key
            self._put(key, key, at, who)
        if who != "tool" or len(text) <= _SMALL:
            for match in _LABELLED.finditer(text):
                if any(c.isdigit() for c in match["value"]) and len(match["key"]) > 2:
                    value = match["value"].rstrip(".,;:")
                    self._put(match["key"].lower(), f"{match['key']}={value}", at, who)
        elif "=" in text or ":" in text:
            for name, value in _LOUD.findall(text):
                if any(c.isdigit() for c in value):
                    self._put(name.lower(), f"{name}={value.rstrip('.,;:')}", at, who)

    def facts(self) -> list[Fact]:
        """What was collected, oldest mention first."""
        return sorted(self._facts.values(), key=lambda fact: fact.at)

    def _put(self, key: str, text: str, at: int, who: str) -> None:
        before = self._facts.get(key)
        if before is not None and _RANK[before.note] < _RANK[who] and before.text == text:
            who = before.note
        self._facts[key] = Fact(kind="identifier", text=text, key=key, at=at, note=who)


_RANK = {"user": 0, "model": 1, "tool": 2}


def _classify(word: str) -> str:
    """The identifier in a word, "" if there is none."""
    if len(word) > 400 or len(word) < 3:
        return ""
    if not _WORTH.search(word) and not (word[0].isupper() and "-" in word):
        return ""
    bare = word.strip(_STRIP)
    if "://" in bare:
        found = _SHAPE.search(bare)
        return found.group() if found and found.lastgroup == "url" else ""
    match = _SHAPE.fullmatch(bare)
    if match is None or (match.lastgroup == "id" and not any(c.isdigit() for c in bare)):
        return ""
    return bare
