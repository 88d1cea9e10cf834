"""Extracts probes of what users and agents named: identifiers, URLs, and numbers with their labels.

A tool's output holds thousands of names that nobody used. So only what a person or the agent wrote is probed, with the
words around its first mention as the anchor.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tenfold.evals.probes.kinds import ChatMessage, Kind, Probe, Term, content_words, terms
from tenfold.evals.probes.reading import calls_of, human, said, sentences, text_of

_URL = re.compile(r"\bhttps?://[^\s\"'<>)\]}`\\]+")
_IDENTIFIER = re.compile(
    r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b|"  # a UUID
    r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b|"  # a hash
    r"\b[A-Z][A-Z0-9]{0,9}-\d{2,}\b|"  # a ticket
    r"(?<![\w&])#[A-Z]?\d{3,}\b|"  # an issue or an order
    r"\b[a-z]+(?:_[a-z]+)*_\d{4,}\b|"  # a record's key
    r"\b\d{7,}\b|"  # a number that is a name
    r"\b[\w.-]+@[\w-]+\.[a-z]{2,}\b|"  # an address
    r"\b[a-z][\w.-]*:\d{4,5}\b"  # host and port
)
_NUMBER = re.compile(
    r"(?P<label>[A-Za-z][\w ()/-]{2,40}?) ?(?:[:=]|\bis\b|\bare\b) ?[$€£]?(?P<value>\d[\d,]*(?:\.\d+)?)(?![\w:/-]|\.\d)"
)
_MEASURED = re.compile(
    r"(?<![\w.,#-])[$€£]?(?P<value>\d[\d,]*(?:\.\d+)?) ?(?P<unit>%|percent|ms|seconds|minutes|hours|days|weeks|kg|"
    r"grams|km|euros?|EUR|USD|dollars|cents|tokens|files|tests|rows|orders|errors|warnings|characters|bytes|KB|MB|GB)(?!\w)"
)
_NUMBERED = re.compile(r"\b(?:line|lines|step|option|phase|wp|page|item|version|v|PR|issue)s?\b", re.IGNORECASE)
_MANY = 20
"""From this many identifiers on, a text is a pasted list rather than something anyone wrote."""
_NEAR = 90
"""How many characters on each side of a mention make its anchor."""
_LONG = 1500
"""From this many characters on, an argument is the content of a file rather than a name that the agent used."""


def named(past: Sequence[ChatMessage]) -> Iterator[Probe]:
    """Yields the probes of the identifiers, URLs and labelled numbers of a past."""
    first: dict[tuple[Kind, str], tuple[int, str]] = {}
    numbers: dict[str, list[tuple[int, str, str]]] = {}
    for at, message in enumerate(past):
        for text in _written(message):
            mentions = list(_mentions(text))
            for kind, found in mentions if len(mentions) < _MANY else ():
                first.setdefault((kind, found.group().lower().rstrip(".,;:")), (at, _around(text, found)))
        for sentence in sentences(_spoken(message)):
            for found in _NUMBER.finditer(sentence):
                _note(numbers, at, found)
            yield from _measures(sentence, at)
    for (kind, value), (at, around) in first.items():
        anchor = [w for w in content_words(around) if w not in value][:8]
        if anchor:
            yield Probe(kind, at, f"{value} ({' '.join(anchor)})", ((value,),), terms(anchor))
    yield from _numbers(numbers)


def _written(message: ChatMessage) -> Iterator[str]:
    """Yields what the user or the agent said, and what the agent wrote into short arguments."""
    yield _spoken(message)
    if message.get("role") == "assistant" and all(len(raw) < _LONG for _, _, raw in calls_of(message)):
        yield text_of({**message, "content": ""})


def _spoken(message: ChatMessage) -> str:
    """Returns the prose of a message."""
    if message.get("role") == "assistant":
        return re.sub(r"```.*?(?:```|\Z)", "\n", said(message), flags=re.DOTALL)
    return human(message)


def _mentions(text: str) -> Iterator[tuple[Kind, re.Match[str]]]:
    url_spans: list[tuple[int, int]] = []
    for found in _URL.finditer(text):
        url_spans.append(found.span())
        yield "url", found
    for found in _IDENTIFIER.finditer(text):
        if not any(start <= found.start() < end for start, end in url_spans):
            yield "identifier", found


def _around(text: str, found: re.Match[str]) -> str:
    """Returns the words around a mention, on its own line."""
    start, end = found.span()
    before = text[max(0, start - _NEAR) : start].rsplit("\n", 1)[-1]
    after = text[end : end + _NEAR].split("\n", 1)[0]
    return f"{before.split(' ', 1)[-1] if len(before) == _NEAR else before} {after.rsplit(' ', 1)[0]}"


def _note(numbers: dict[str, list[tuple[int, str, str]]], at: int, found: re.Match[str]) -> None:
    label, value = found.group("label").strip(), found.group("value").strip(",")
    key = " ".join(content_words(label)[-4:])
    if " " in key and not _NUMBERED.search(label) and (len(value.strip("0.,")) >= 2 or "." in value):
        numbers.setdefault(key, []).append((at, label, value))


def _measures(sentence: str, at: int) -> Iterator[Probe]:
    """Probes numbers with a unit. The anchor is the rest of the sentence."""
    for found in _MEASURED.finditer(sentence):
        value, unit = found.group("value"), found.group("unit").lower()
        anchor = [w for w in content_words(_around(sentence, found)) if w not in (value, unit)][:8]
        if len(value.strip("0.,")) >= 2 and len(anchor) >= 2:
            yield Probe("number", at, sentence, (_forms(value), (unit,)), terms(anchor))


def _numbers(numbers: dict[str, list[tuple[int, str, str]]]) -> Iterator[Probe]:
    """Probes the newest value of each label. Earlier values are stale."""
    for key, found in numbers.items():
        at, label, value = found[-1]
        old = tuple((form,) for form in dict.fromkeys(_forms(v) for _, _, v in found[:-1] if v != value))
        yield Probe("number", at, f"{label}: {value}", (_forms(value),), terms(key.split()), old)


def _forms(value: str) -> Term:
    """Returns a number as it is written with and without separators of thousands."""
    plain = value.replace(",", "")
    grouped = f"{int(plain):,}" if plain.isdigit() else plain
    return tuple(dict.fromkeys((value, plain, grouped)))
