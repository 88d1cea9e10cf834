"""Finds what a text quotes word for word, code in backticks and quotations, so that it is not read as prose."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tenfold.core.text.excerpts import split_sentences

_CODE = re.compile(r"`([^`\n]+)`")
_QUOTATION = re.compile(
    r"(?<![\w.,;!?)\]}\"'])\"(?=[^\s\"])([^\"\n]{1,400})(?<=\S)\"(?!\w)"
    r"|\u201c([^\u201d\n]{1,400})\u201d|\u201e([^\u201c\n]{1,400})\u201c|\u00ab\s?([^\u00bb\n]{1,400})\u00bb"
    r"|(?<!\w)'(?=\S)([^'\n]{4,300})(?<=\S)'(?!\w)"
)
"""Quotation marks open before a word and close after one: a text between two quotations is none."""
_MARKS = re.compile(r"[\"'\u201c\u201d\u201e\u00ab\u00bb]")
_MAX_SPAN_CHARS = 300
_AFTER_END = "\"')]"
"""What may follow the end of a sentence and belongs to it."""


def find_spans(sentence: str) -> list[str]:
    """Returns the code in backticks. Where a backtick has no second one, none of it is certain.

    A span with a blank at an end stands between two pieces of code, as after code that holds backticks itself.
    """
    if sentence.count("`") % 2:
        return []
    spans = (span for span in _CODE.findall(sentence) if 1 < len(span) <= _MAX_SPAN_CHARS and span == span.strip())
    return [span for span in spans if re.search(r"\w{2}", span)]


def find_quotations(sentence: str) -> list[str]:
    """Returns the quotations of two or more words. Quotation marks inside code open none."""
    return [quotation for _, quotation in locate_quotations(sentence)]


def locate_quotations(sentence: str) -> Iterator[tuple[int, str]]:
    """Yields the quotations of two or more words with their offsets."""
    plain = _CODE.sub(lambda match: " " + _MARKS.sub(" ", match[1]) + " ", sentence)
    for match in _QUOTATION.finditer(plain):
        words = "".join(group or "" for group in match.groups())
        if len(words) > 3 and len(words.split()) > 1:
            yield match.start(), words


def mask_literals(sentence: str, *, code: bool = True) -> str:
    """Masks quotations, and code too unless told otherwise. The text keeps its length and its marks."""
    masked = _CODE.sub(lambda match: f"`{'_' * len(match[1])}`", sentence)
    masked = _QUOTATION.sub(lambda match: match[0][0] + "_" * (len(match[0]) - 2) + match[0][-1], masked)
    if code:
        return masked
    for match in _CODE.finditer(sentence):
        if masked[match.start()] == "`":
            masked = masked[: match.start()] + match[0] + masked[match.end() :]
    return masked


def split_whole_sentences(line: str) -> Iterator[str]:
    """Yields the sentences of a line, verbatim. One that ends inside code or a quotation goes on to where that ends."""
    start = end = 0
    for piece in split_sentences(line):
        at = line.find(piece, end)
        start = at if start == end else start
        end = len(line) - len(line[at + len(piece) :].lstrip(_AFTER_END))
        rest = line[end:]
        if not any(_is_open(line[start:end], mark) and mark in rest for mark in '`"'):
            yield line[start:end]
            start = end
    if start != end:
        yield line[start:end]


def _is_open(text: str, mark: str) -> bool:
    return text.count(mark) % 2 == 1
