"""Finds what of a user's message is the user's own: pasted logs, quotations, code, documents and tags are not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from operator import itemgetter

from tenfold.core.text.excerpts import MAX_SEARCHED_CHARS, Keep, excerpt, is_log_line
from tenfold.core.text.language import Language
from tenfold.core.text.language_tables import collect_words
from tenfold.core.text.sentences import FENCE

_MAX_INTRODUCTION_CHARS = 200
MASK = "\ufffc"
"""Stands in a masked text for each character that is not the user's own."""
_OWN_TAGS = frozenset(
    ("task", "user_query", "user_message", "user_request", "user", "message", "query", "request", "prompt", "feedback")
)
"""Tags in which hosts put what the user wrote."""
_LOG_LINE = re.compile(r"^[ \t]*\[?\d\d:\d\d:\d\d[\d.,]*\]?[ \t]*\n[^\n]*(?:\n|\Z)", re.MULTILINE)
"""A line of a pasted log whose time stands on its own line above it."""
_LABEL = re.compile(r"\s*(?:<<[^<>\n]{1,40}>>|\[[^\[\]\n]{1,40}\]|\{[^{}\n]{1,40}\})[:\s]+(?=[^\W\d_])")
_LOG_LABEL = re.compile(r"\d\d:\d\d|\d{4}-\d\d|(?i:info|debug|trace|warn|error|fatal|critical|notice)|[\"'=/]")
"""What stands in the brackets of a log's line, or of code."""
_TAG = re.compile(r"^[ \t]*<([A-Za-z][\w-]*)(?:\s[^<>\n]*)?>.*?(?:</\1>|\Z)", re.MULTILINE | re.DOTALL)
_QUOTED_LINE = re.compile(r"^[ \t]*>.*$", re.MULTILINE)
_INDENTED_LINE = re.compile(r"(?<=\n)(?: {4}|\t)(?![ \t]*(?:[-*\u2022]|\d+[.)])\s).*$", re.MULTILINE)
_PARAGRAPH = re.compile(r"\S[^\n]*(?:\n[ \t]*\S[^\n]*)*")
_SIGNATURE_CHARS = 40
_INLINE_CODE = re.compile(r"`[^`\n]+`")
_QUOTATION = re.compile(
    r"\u201c[^\u201c\u201d]+\u201d|\u201e[^\u201c\u201d\u201e]+[\u201c\u201d]|\u00ab[^\u00ab\u00bb]+\u00bb"
    r"|\u300c[^\u300c\u300d]+\u300d|\u300e[^\u300e\u300f]+\u300f|(?<!\w)\"(?:[^\"\n]|\n(?!\s*\n))+\""
)


def mask_pasted(text: str) -> str:
    """Returns the text, at the same length, with `MASK` for whatever the user only passes on."""
    for pattern in (FENCE, _LOG_LINE, _QUOTED_LINE, _INLINE_CODE, _INDENTED_LINE):
        text = pattern.sub(_mask_match, text)
    text = _TAG.sub(lambda match: match[0] if match[1].lower() in _OWN_TAGS else _mask_match(match), text)
    text = _mask_mails(_QUOTATION.sub(_mask_match, text))
    lines = text.splitlines(keepends=True)
    return "".join(
        _mask_line(line) if is_log_line(line) and not (number == 0 and _is_labelled(line, lines[1:])) else line
        for number, line in enumerate(lines)
    )


@cache
def _compile_mail_header() -> re.Pattern[str]:
    """Compiles what finds a line with the sender or the subject of a mail, in any language."""
    names = "|".join(sorted(map(re.escape, collect_words("mailing"))))
    return re.compile(rf"^[ \t]*(?:{names})[ \t]?[:\uff1a][ \t]*\S.*\n", re.MULTILINE | re.IGNORECASE)


def _mask_mails(text: str) -> str:
    """Masks what stands from the head of a mail to its signature: a paragraph of short lines without a full stop."""
    start, out = 0, []
    for header in _compile_mail_header().finditer(text):
        if header.start() < start:
            continue
        out.append(text[start : header.start()])
        paragraphs = _PARAGRAPH.finditer(text, header.end())
        signatures = (each.end() for number, each in enumerate(paragraphs) if number and _is_signature(each[0]))
        start = next(signatures, len(text))
        out.append(_mask_line(text[header.start() : start]))
    return "".join((*out, text[start:]))


def _is_signature(paragraph: str) -> bool:
    lines = paragraph.split("\n")
    return all(len(line) <= _SIGNATURE_CHARS and not line.endswith((".", "?", "!", ":")) for line in lines) and (
        not lines[-1].endswith(",")
    )


def _is_labelled(line: str, following: list[str]) -> bool:
    """Whether the first line of a message is words behind a label, as in `[Q3] Always ...`, and no log begins there."""
    label = _LABEL.match(line)
    if label is None or _LOG_LABEL.search(label[0]) or is_log_line(line[label.end() :]):
        return False
    return not (following and is_log_line(following[0]))


def split_pasted(text: str) -> list[tuple[str, bool]]:
    """Splits a text at its lines into parts that are the user's own (True) and parts that are pasted (False)."""
    lines = zip(text.split("\n"), mask_pasted(text).split("\n"), strict=True)
    marked = [(line, masked.count(MASK) * 2 <= len(masked.strip())) for line, masked in lines]
    return [("\n".join(line for line, _ in part), is_own) for is_own, part in groupby(marked, key=itemgetter(1))]


def shorten_words(text: str, limit: int) -> str:
    """Shortens a message to `limit` characters: first what is pasted in it, then the user's own words."""
    if len(text) <= limit:
        return text
    parts = split_pasted(excerpt(text, MAX_SEARCHED_CHARS, Keep.EDGES))
    own = sum(len(part) + 1 for part, is_own in parts if is_own)
    share = max(limit - own, 0) // max(sum(not is_own for _, is_own in parts), 1)
    shown = (part if is_own else excerpt(part, max(share, _LEAST_PASTED_CHARS)) for part, is_own in parts)
    return excerpt("\n".join(shown), limit)


_LEAST_PASTED_CHARS = 160
"""What a pasted part keeps at least, so that a reader sees what it was."""


def mask_introduced(text: str, language: Language) -> str:
    """Masks what follows a line that announces something pasted, such as "The mail from Tom:"."""
    for start, end in _find_introductions(text):
        line = text[max(start, end - _MAX_INTRODUCTION_CHARS) : end]
        following = text[end:].strip()
        if following.startswith(MASK) or language.has("heading", line):
            continue
        if following and language.has("quoting", line):
            return text[:end] + _mask_line(text[end:])
    return text


def _find_introductions(text: str) -> Iterator[tuple[int, int]]:
    """Yields where the lines that end with a colon begin and end."""
    start = 0
    for line in text.splitlines(keepends=True):
        if line.rstrip().endswith((":", "\uff1a")):
            yield start, start + len(line.rstrip())
        start += len(line)


def _mask_match(match: re.Match[str]) -> str:
    return _mask_line(match[0])


def _mask_line(line: str) -> str:
    return re.sub(r"[^\s]", MASK, line)
