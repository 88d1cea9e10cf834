"""Pure text functions that tool results, facts and summaries share: excerpts, keys, sentences, paragraphs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from string import ascii_letters, digits

from tenfold.text.redaction import redact_cached

_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)")
_SENTENCE = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[^\s])|(?<=[\u3002\uff01\uff1f])|\n+")
_LOG_LINE = re.compile(
    r"(?:at\s+\S+|File \"|\d{4}-\d\d-\d\d|\d\d:\d\d|\[|\$\s|>\s|\{|\}|<|//|/\*|\*/|#!|import\s|from\s+\S+\s+import"
    r"|(?:const|let|var|def|class|function|return|export|public|private|if|for|while)\b.*[({;:=]\s*$"
    r"|[+-]{1,3}\s?(?:const|let|import|\}|\{)|\w+\([^)]*\);?$|.*;\s*$|[\w.]*(?:Error|Exception):|\"[^\"]+\"\s*:"
    r"|\"{3}|-->|(?:info|debug|trace): |platform \S+ -- )"
)
_COLUMN_GAP = re.compile(r"\S {3,}\S|\t|\\n")
_WORD = re.compile(r"[^\W\d_]{2,}")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def flatten(text: str) -> str:
    """Returns the text on one line: each run of white space becomes one space, terminal escapes are removed."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    return " ".join(text.split())


CLIP_MARK = re.compile(r" \[\.\.\. \d+ characters \.\.\.\] ")
"""Matches the mark that `clip` puts in place of what it leaves out."""


_NAME_CHARACTERS = ascii_letters + digits + "_-./@~+:%#&=?$\\"
"""The characters of names, numbers, paths and addresses."""
_LONGEST_NAME = 200
_ELLIPSES = ("...", "\u2026")
_OPENING_CHARACTERS, _CLOSING_CHARACTERS = "\"'`([{<", "\"'`)]}>,;:|"


def take_head(text: str, limit: int) -> str:
    """Returns at most `limit` characters from the beginning, without a name that would be cut at the end.

    Half a name, number or path could be mistaken for another one. Only if it takes up most of the limit is it cut.
    """
    cut = text[:limit]
    shortened = cut.rstrip(_NAME_CHARACTERS) if len(cut) < len(text) and text[limit] in _NAME_CHARACTERS else cut
    return shortened if len(cut) - len(shortened) < min(_LONGEST_NAME, limit * 3 // 4) else cut


def take_tail(text: str, limit: int) -> str:
    """Returns at most `limit` characters from the end, without a name that would be cut at the beginning."""
    start = max(len(text) - limit, 0)
    cut = text[start:]
    shortened = cut.lstrip(_NAME_CHARACTERS) if start and text[start - 1] in _NAME_CHARACTERS else cut
    return shortened if len(cut) - len(shortened) < min(_LONGEST_NAME, limit * 3 // 4) else cut


def drop_cut_name(word: str) -> str:
    """Removes from a word the name that was cut: the one next to an ellipsis at its beginning or end."""
    closed, opened = word.rstrip(_CLOSING_CHARACTERS), word.lstrip(_OPENING_CHARACTERS)
    if closed.endswith(_ELLIPSES) and (body := closed.rstrip(".\u2026"))[-1:].isalnum():
        word = body.rstrip(_NAME_CHARACTERS)
    if opened.startswith(_ELLIPSES) and (body := opened.lstrip(".\u2026"))[:1].isalnum():
        word = body.lstrip(_NAME_CHARACTERS)
    return word


def clip(text: str, limit: int) -> str:
    """Shortens a text to `limit` characters: its head and tail, and between them how many characters are left out.

    Secrets are redacted before the text is cut, here and in `clip_end` and `clip_middle`, since the cut may remove the
    label by which a secret is recognised.
    """
    if len(text) <= limit or len(text := redact_cached(text)) <= limit:
        return text
    mark = f" [... {len(text) - limit} characters ...] "
    budget = max(limit - len(mark), 0)
    head = budget - budget // 3
    tail = budget - head
    return take_head(text, head) + mark + take_tail(text, tail) if budget else text[:limit]


def clip_end(text: str, limit: int) -> str:
    """Shortens a text to `limit` characters from its beginning, with an ellipsis if something is left out."""
    if len(text) <= limit or len(text := redact_cached(text)) <= limit:
        return text
    return take_head(text, max(limit - 3, 1)).rstrip() + "..."


def clip_middle(text: str, limit: int) -> str:
    """Shortens a text to about `limit` characters: two thirds of them from the head, the rest from the tail."""
    if len(text) <= limit or len(text := redact_cached(text)) <= limit:
        return text
    head = limit * 2 // 3
    return f"{take_head(text, head)} ... {take_tail(text, limit - head)}"


def take_edges(text: str, limit: int = 60_000) -> str:
    """Returns the first and last `limit` characters of a longer text, so that scanning a huge text stays cheap."""
    return text if len(text) <= 2 * limit else f"{take_head(text, limit)}\n{take_tail(text, limit)}"


def take_last_lines(text: str, limit: int) -> str:
    """Returns the last lines of a text, at most `limit` characters.

    A cut line is dropped, unless it takes half the limit: it may lack the label by which a secret is recognised.
    """
    cut = take_tail(text, limit)
    return cut[cut.find("\n") + 1 :] if "\n" in cut[: limit // 2] else cut


def normalize_key(text: str, limit: int = 160) -> str:
    """Returns the key by which two texts are the same fact: one line, lower case, no final punctuation, bounded."""
    return flatten(text).lower().rstrip(".!?,;: ")[:limit]


def strip_escapes(text: str) -> str:
    """Removes terminal escapes and carriage returns from a text."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def split_sentences(text: str) -> Iterator[str]:
    """Yields the sentences of a text, verbatim. A line break also ends a sentence."""
    for piece in _SENTENCE.split(text):
        if piece and not piece.isspace():
            yield piece.strip()


def is_prose(line: str) -> bool:
    """Whether a line looks like prose rather than a log line, code or data."""
    if _LOG_LINE.match(line.lstrip()) or _COLUMN_GAP.search(line):
        return False
    if _CJK.search(line):
        return True
    words = _WORD.findall(line)
    letters = sum(map(len, words))
    solid = len(line) - line.count(" ")
    return len(words) >= 3 and letters >= 0.6 * max(solid, 1)


def split_paragraphs(text: str) -> list[str]:
    """Returns the paragraphs of a text, verbatim. Text inside code fences is left out."""
    out: list[str] = []
    block: list[str] = []
    fenced = False
    for line in [*text.split("\n"), ""]:
        mark = line.lstrip().startswith(("```", "~~~"))
        if mark or not line.strip():
            if block and not fenced:
                out.append("\n".join(block))
            block = []
            fenced = fenced != mark
        elif not fenced:
            block.append(line.rstrip())
    return out
