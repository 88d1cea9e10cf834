"""Small pure functions over text that outcomes, facts and summaries share: bounded lines, keys, sentences, prose."""

from __future__ import annotations

import re
from collections.abc import Iterator
from string import ascii_letters, digits

from tenfold.redact import redacted

_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)")
_SENTENCE = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[^\s])|(?<=[\u3002\uff01\uff1f])|\n+")
_LOG_LINE = re.compile(
    r"(?:at\s+\S+|File \"|\d{4}-\d\d-\d\d|\d\d:\d\d|\[|\$\s|>\s|\{|\}|<|//|/\*|\*/|#!|import\s|from\s+\S+\s+import"
    r"|(?:const|let|var|def|class|function|return|export|public|private|if|for|while)\b.*[({;:=]\s*$"
    r"|[+-]{1,3}\s?(?:const|let|import|\}|\{)|\w+\([^)]*\);?$|.*;\s*$|[\w.]*(?:Error|Exception):|\"[^\"]+\"\s*:"
    r"|\"{3}|-->|(?:info|debug|trace): |platform \S+ -- )"
)
_COLUMNS = re.compile(r"\S {3,}\S|\t|\\n")
_WORD = re.compile(r"[^\W\d_]{2,}")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def flat(text: str) -> str:
    """The text on one line: runs of white space become one space, terminal escapes go."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    return " ".join(text.split())


CLIPPED = re.compile(r" \[\.\.\. \d+ characters \.\.\.\] ")
"""What `clip` puts in place of what it leaves out."""


_NAMED = ascii_letters + digits + "_-./@~+:%#&=?$\\"
"""What names, numbers, paths and addresses are made of."""
_LONGEST = 200
_DOTS = ("...", "\u2026")
_OPENING, _CLOSING = "\"'`([{<", "\"'`)]}>,;:|"


def head_of(text: str, limit: int) -> str:
    """The first characters of a text, at most `limit`, without a name that would be cut at their end.

    Half a name, number or path would pass for another one. One that takes most of the room is cut.
    """
    cut = text[:limit]
    whole = cut.rstrip(_NAMED) if len(cut) < len(text) and text[limit] in _NAMED else cut
    return whole if len(cut) - len(whole) < min(_LONGEST, limit * 3 // 4) else cut


def tail_of(text: str, limit: int) -> str:
    """The last characters of a text, at most `limit`, without a name that would be cut at their beginning."""
    start = max(len(text) - limit, 0)
    cut = text[start:]
    whole = cut.lstrip(_NAMED) if start and text[start - 1] in _NAMED else cut
    return whole if len(cut) - len(whole) < min(_LONGEST, limit * 3 // 4) else cut


def uncut(word: str) -> str:
    """A word without the name in it that was cut, as the dots at its end or beginning say."""
    closed, opened = word.rstrip(_CLOSING), word.lstrip(_OPENING)
    if closed.endswith(_DOTS) and (body := closed.rstrip(".\u2026"))[-1:].isalnum():
        word = body.rstrip(_NAMED)
    if opened.startswith(_DOTS) and (body := opened.lstrip(".\u2026"))[:1].isalnum():
        word = body.lstrip(_NAMED)
    return word


def clip(text: str, limit: int) -> str:
    """At most `limit` characters: head and tail with the number of characters left out between them.

    Here and in `middle` secrets go first: what is left out may be the word that tells one.
    """
    if len(text) <= limit or len(text := redacted(text)) <= limit:
        return text
    mark = f" [... {len(text) - limit} characters ...] "
    room = max(limit - len(mark), 0)
    head = room - room // 3
    tail = room - head
    return head_of(text, head) + mark + tail_of(text, tail) if room else text[:limit]


def opening(text: str, limit: int) -> str:
    """At most `limit` characters from the beginning, with dots where something is left out."""
    if len(text) <= limit or len(text := redacted(text)) <= limit:
        return text
    return head_of(text, max(limit - 3, 1)).rstrip() + "..."


def middle(text: str, limit: int) -> str:
    """At most about that many characters: two thirds of them from the head, the rest from the tail."""
    if len(text) <= limit or len(text := redacted(text)) <= limit:
        return text
    head = limit * 2 // 3
    return f"{head_of(text, head)} ... {tail_of(text, limit - head)}"


def edges(text: str, limit: int = 60_000) -> str:
    """A text without its middle when it is longer than twice `limit`: what a scan of a giant text looks at."""
    return text if len(text) <= 2 * limit else f"{head_of(text, limit)}\n{tail_of(text, limit)}"


def ending(text: str, limit: int) -> str:
    """The last lines of a text, at most `limit` characters: half a line may lack the word that tells a secret."""
    cut = tail_of(text, limit)
    return cut[cut.find("\n") + 1 :] if "\n" in cut[: limit // 2] else cut


def key_of(text: str, limit: int = 160) -> str:
    """What makes two texts the same fact: one line, lower case, no end punctuation, bounded."""
    return flat(text).lower().rstrip(".!?,;: ")[:limit]


def plain(text: str) -> str:
    """The text without terminal escapes and carriage returns."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text, verbatim; a line break ends a sentence too."""
    for piece in _SENTENCE.split(text):
        if piece and not piece.isspace():
            yield piece.strip()


def is_prose(line: str) -> bool:
    """Whether a line reads as somebody's words rather than as a log line, code, or data."""
    if _LOG_LINE.match(line.lstrip()) or _COLUMNS.search(line):
        return False
    if _CJK.search(line):
        return True
    words = _WORD.findall(line)
    letters = sum(map(len, words))
    solid = len(line) - line.count(" ")
    return len(words) >= 3 and letters >= 0.6 * max(solid, 1)


def paragraphs(text: str) -> list[str]:
    """Blocks of lines between blank lines and code fences, verbatim; what stands inside a fence is left out."""
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
