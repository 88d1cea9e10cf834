"""Extracts probes of what users and agents named: identifiers, URLs, and numbers with their labels.

A tool's output holds thousands of names that nobody used. So only what a person or the agent wrote is probed, with the
words around its first mention as the anchor.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tenfold.testing.probes.chat_text import get_human_text, get_own_text, get_text, get_tool_calls, split_sentences
from tenfold.testing.probes.kinds import ChatMessage, Probe, ProbeKind, Term, build_terms, find_content_words

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
_QUANTITY = re.compile(
    r"(?<![\w.,#-])[$€£]?(?P<value>\d[\d,]*(?:\.\d+)?) ?(?P<unit>%|percent|ms|seconds|minutes|hours|days|weeks|kg|"
    r"grams|km|euros?|EUR|USD|dollars|cents|tokens|files|tests|rows|orders|errors|warnings|characters|bytes|KB|MB|GB)(?!\w)"
)
_ORDINAL_LABEL = re.compile(r"\b(?:line|lines|step|option|phase|wp|page|item|version|v|PR|issue)s?\b", re.IGNORECASE)
_LIST_SIZE = 20
"""From this many identifiers on, a text is a pasted list rather than something anyone wrote."""
_ANCHOR_REACH = 90
"""How many characters on each side of a mention make its anchor."""
_LONG_ARGUMENT = 1500
"""From this many characters on, an argument is the content of a file rather than a name that the agent used."""


def extract_mentions(past: Sequence[ChatMessage]) -> Iterator[Probe]:
    """Yields the probes of the identifiers, URLs and labelled numbers of a past."""
    first: dict[tuple[ProbeKind, str], tuple[int, str]] = {}
    numbers: dict[str, list[tuple[int, str, str]]] = {}
    for at, message in enumerate(past):
        for text in _list_written_texts(message):
            mentions = list(_find_mentions(text))
            for kind, found in mentions if len(mentions) < _LIST_SIZE else ():
                first.setdefault((kind, found.group().lower().rstrip(".,;:")), (at, _get_context(text, found)))
        for sentence in split_sentences(_get_prose(message)):
            for found in _NUMBER.finditer(sentence):
                _add_number(numbers, at, found)
            yield from _probe_quantities(sentence, at)
    for (kind, value), (at, around) in first.items():
        anchor = [w for w in find_content_words(around) if w not in value][:8]
        if anchor:
            yield Probe(kind, at, f"{value} ({' '.join(anchor)})", ((value,),), build_terms(anchor))
    yield from _probe_numbers(numbers)


def _list_written_texts(message: ChatMessage) -> Iterator[str]:
    """Yields what the user or the agent said, and what the agent wrote into short arguments."""
    yield _get_prose(message)
    if message.get("role") == "assistant" and all(len(raw) < _LONG_ARGUMENT for _, _, raw in get_tool_calls(message)):
        yield get_text({**message, "content": ""})


def _get_prose(message: ChatMessage) -> str:
    """Returns the prose of a message."""
    if message.get("role") == "assistant":
        return re.sub(r"```.*?(?:```|\Z)", "\n", get_own_text(message), flags=re.DOTALL)
    return get_human_text(message)


def _find_mentions(text: str) -> Iterator[tuple[ProbeKind, re.Match[str]]]:
    url_spans: list[tuple[int, int]] = []
    for found in _URL.finditer(text):
        url_spans.append(found.span())
        yield "url", found
    for found in _IDENTIFIER.finditer(text):
        if not any(start <= found.start() < end for start, end in url_spans):
            yield "identifier", found


def _get_context(text: str, match: re.Match[str]) -> str:
    """Returns the words around a mention, on its own line."""
    start, end = match.span()
    before = text[max(0, start - _ANCHOR_REACH) : start].rsplit("\n", 1)[-1]
    after = text[end : end + _ANCHOR_REACH].split("\n", 1)[0]
    return f"{before.split(' ', 1)[-1] if len(before) == _ANCHOR_REACH else before} {after.rsplit(' ', 1)[0]}"


def _add_number(numbers: dict[str, list[tuple[int, str, str]]], index: int, match: re.Match[str]) -> None:
    label, value = match.group("label").strip(), match.group("value").strip(",")
    key = " ".join(find_content_words(label)[-4:])
    if " " in key and not _ORDINAL_LABEL.search(label) and (len(value.strip("0.,")) >= 2 or "." in value):
        numbers.setdefault(key, []).append((index, label, value))


def _probe_quantities(sentence: str, index: int) -> Iterator[Probe]:
    """Probes numbers with a unit. The anchor is the rest of the sentence."""
    for found in _QUANTITY.finditer(sentence):
        value, unit = found.group("value"), found.group("unit").lower()
        anchor = [w for w in find_content_words(_get_context(sentence, found)) if w not in (value, unit)][:8]
        if len(value.strip("0.,")) >= 2 and len(anchor) >= 2:
            yield Probe("number", index, sentence, (_list_forms(value), (unit,)), build_terms(anchor))


def _probe_numbers(numbers: dict[str, list[tuple[int, str, str]]]) -> Iterator[Probe]:
    """Probes the newest value of each label. Earlier values are stale."""
    for key, found in numbers.items():
        at, label, value = found[-1]
        old = tuple((form,) for form in dict.fromkeys(_list_forms(v) for _, _, v in found[:-1] if v != value))
        yield Probe("number", at, f"{label}: {value}", (_list_forms(value),), build_terms(key.split()), old)


def _list_forms(value: str) -> Term:
    """Returns a number as it is written with and without separators of thousands."""
    plain = value.replace(",", "")
    grouped = f"{int(plain):,}" if plain.isdigit() else plain
    return tuple(dict.fromkeys((value, plain, grouped)))
