"""Pure text functions that tool results, facts and summaries share: excerpts, one-line forms, paragraphs, fences."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence
from enum import Enum, auto
from string import ascii_letters, digits

from tenfold.core.text.redaction import redact_cached
from tenfold.core.text.sentences import split_sentences

Count = Callable[[Sequence[str]], list[int]]
"""Counts the tokens of each text."""

_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)")
_LOG_LINE = re.compile(
    r"(?:at\s+(?:async\s+|new\s+)?(?:\S+\s+\(|\S*[.(/\\:<]\S)|File \"|\d{4}-\d\d-\d\d|\d\d:\d\d|\[|\$\s|>\s|\{|\}|<|//"
    r"|/\*|\*/|#!|import\s+(?:static\s|(?:type\s+)?[{(*\"']|(?:type\s+)?[\w.]+(?:\s*,.*|\s+as\s+.*|\s+from\s+[\"'{].*)?;?\s*$)"
    r"|from\s+\S+\s+import"
    r"|(?:const|let|var|def|class|function|return|export|public|private|if|for|while)\b.*[({;:=]\s*$"
    r"|[+-]{1,3}\s?(?:const|let|import|\}|\{)|\w+\([^)]*\);?$|.*;\s*$|[\w.]*(?:Error|Exception):|\"[^\"]+\"\s*:"
    r"|\"{3}|-->|(?:info|debug|trace): |platform \S+ -- )"
)
_COLUMN_GAP = re.compile(r"\S {3,}\S|\t|\\n")
_WORD = re.compile(r"[^\W\d_]{2,}")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_LINE_MARKS = re.compile(r"\A(?:(?:#{1,6}|[-*+>|\u2022])\s+)+")
_CODE_SPAN = re.compile(r"(`[^`]*`)")
_BOLD_MARK = re.compile(r"(?:(?<=\s)|(?<=[(\[\"'])|\A)\*\*(?=[^\s*/])|(?<=[^\s*/])\*\*(?=\Z|[\s.,;:!?)\]\"'])")
FENCE_TAG = "untrusted-data"

# -- excerpts ----------------------------------------------------------------------------------------------------------


class Keep(Enum):
    """Which part of a text an excerpt keeps, and what it says about the rest. The limit is in characters."""

    HEAD = auto()
    """The beginning, with nothing in place of the rest."""
    TAIL = auto()
    """The end, with nothing in place of the rest."""
    START = auto()
    """The beginning, then three dots. Secrets are redacted."""
    ENDS = auto()
    """Head and tail, and between them how many characters are left out. Secrets are redacted."""
    JOINED_ENDS = auto()
    """Head and tail with dots between them. Secrets are redacted."""
    BLOCK_ENDS = auto()
    """Head and tail, and on a line between them how many lines are left out. Terminal escapes are removed."""
    BYTE_ENDS = auto()
    """As `BLOCK_ENDS`, with a limit in bytes of UTF-8 and with terminal escapes."""
    LINE_ENDS = auto()
    """The first and last lines, and between them how many are left out, with a limit in lines."""
    EDGES = auto()
    """As much of the beginning as of the end, as two lines, for searches through a huge text."""
    EDGE_WORDS = auto()
    """Two thirds from the beginning and, from a whole line on, a third from the end, for searches word by word."""


_REDACTED_STYLES = frozenset({Keep.START, Keep.ENDS, Keep.JOINED_ENDS})
ENDS_MARK = re.compile(r" \[\.\.\. \d+ characters \.\.\.\] ")
"""Matches what an excerpt of the ends has in place of the rest."""
MAX_SEARCHED_CHARS = 120_000
"""Most characters of a text that are searched; of a longer one, `Keep.EDGES`."""
_NAME_CHARACTERS = ascii_letters + digits + "_-./@~+:%#&=?$\\"
"""The characters of names, numbers, paths and addresses."""
_LONGEST_NAME = 200
_WRAPPED_CHARACTERS = 200
_ELLIPSES = ("...", "\u2026")
_OPENING_CHARACTERS, _CLOSING_CHARACTERS = "\"'`([{<", "\"'`)]}>,;:|"


def excerpt(text: str, limit: int, keep: Keep = Keep.ENDS) -> str:
    """Shortens a text that is longer than `limit` in the way that `keep` says.

    A name at the cut is left out, since half a name, number or path could be mistaken for another one. Secrets are
    redacted before the cut, which may remove the label by which a secret is recognised.
    """
    match keep:
        case Keep.BLOCK_ENDS:
            return _excerpt_block(text, limit)
        case Keep.BYTE_ENDS:
            return _excerpt_bytes(text, limit)
        case Keep.LINE_ENDS:
            return _excerpt_lines(text, limit)
        case _:
            pass
    if len(text) <= limit or (keep in _REDACTED_STYLES and len(text := redact_cached(text)) <= limit):
        return text
    match keep:
        case Keep.HEAD:
            return _take_head(text, limit)
        case Keep.TAIL:
            return _take_tail(text, limit)
        case Keep.START:
            return _take_head(text, max(limit - 3, 1)).rstrip() + "..."
        case Keep.JOINED_ENDS:
            head = limit * 2 // 3
            return f"{_take_head(text, head)} ... {_take_tail(text, limit - head)}"
        case Keep.EDGES:
            return f"{_take_head(text, limit // 2)}\n{_take_tail(text, limit // 2)}"
        case Keep.EDGE_WORDS:
            return f"{_take_head(text, limit * 2 // 3)} {_take_last_lines(text, limit // 3)}"
        case _:
            mark = f" [... {len(text) - limit} characters ...] "
            size = max(limit - len(mark), 0)
            return _take_head(text, size - size // 3) + mark + _take_tail(text, size // 3) if size else text[:limit]


def _take_head(text: str, limit: int) -> str:
    """Returns the beginning without a name that would be cut, unless that takes up most of the limit."""
    cut = text[:limit]
    shortened = cut.rstrip(_NAME_CHARACTERS) if len(cut) < len(text) and text[limit] in _NAME_CHARACTERS else cut
    return shortened if len(cut) - len(shortened) < min(_LONGEST_NAME, limit * 3 // 4) else cut


def _take_tail(text: str, limit: int) -> str:
    """Returns the end without a name that would be cut, unless that takes up most of the limit."""
    start = max(len(text) - limit, 0)
    cut = text[start:]
    shortened = cut.lstrip(_NAME_CHARACTERS) if start and text[start - 1] in _NAME_CHARACTERS else cut
    return shortened if len(cut) - len(shortened) < min(_LONGEST_NAME, limit * 3 // 4) else cut


def _take_last_lines(text: str, limit: int) -> str:
    """Returns the end without a cut line, which may lack the label of a secret, unless that takes half the limit."""
    cut = _take_tail(text, limit)
    return cut[cut.find("\n") + 1 :] if "\n" in cut[: limit // 2] else cut


def _excerpt_block(text: str, limit: int) -> str:
    if len(text) <= limit:
        return strip_escapes(text)
    first, last = limit * 2 // 3, len(text) - limit // 3
    head, tail = _take_head(text, first), _take_tail(text, len(text) - last)
    gap = _describe_gap(text.count("\n", first, last), last - first)
    return f"{strip_escapes(head)}\n{gap}\n{strip_escapes(tail)}"


def _excerpt_bytes(text: str, limit: int) -> str:
    data = text.encode(errors="replace")
    if len(data) <= limit:
        return text
    text = data.decode()
    head = _take_head(text, len(data[: limit * 2 // 3].decode(errors="ignore")))
    tail = _take_tail(text, len(data[len(data) - limit // 3 :].decode(errors="ignore")))
    lines = text.count("\n", len(head), len(text) - len(tail))
    return f"{head}\n{_describe_gap(lines, len(text) - len(head) - len(tail))}\n{tail}"


def _describe_gap(lines: int, characters: int) -> str:
    return f"[... {lines} lines left out ...]" if lines > 1 else f"[... {characters} characters left out ...]"


def _excerpt_lines(text: str, limit: int) -> str:
    """Returns the first and last half of `limit` lines; an odd one gives the end one line more."""
    lines = text.split("\n")
    if len(lines) <= limit:
        return text
    head = limit // 2
    gap = f"[... {len(lines) - limit} lines removed ...]"
    return "\n".join([*lines[:head], gap, *lines[len(lines) - limit + head :]])


def fence_text(text: str, limit: int, label: str) -> str:
    """Returns the text, shortened to `limit` characters, between marks that the text itself cannot close."""
    body = (
        excerpt(text, limit, Keep.BLOCK_ENDS)
        .replace(f"</{FENCE_TAG}", f"<\\/{FENCE_TAG}")
        .replace(f"<{FENCE_TAG}", f"<\\{FENCE_TAG}")
    )
    safe = "".join(c if c.isalnum() or c in " _-." else "_" for c in label)[:60]
    return f'<{FENCE_TAG} from="{safe}">\n{body}\n</{FENCE_TAG}>'


def drop_cut_name(word: str) -> str:
    """Removes from a word the name that was cut: the one next to an ellipsis at its beginning or end."""
    closed, opened = word.rstrip(_CLOSING_CHARACTERS), word.lstrip(_OPENING_CHARACTERS)
    if closed.endswith(_ELLIPSES) and (body := closed.rstrip(".\u2026"))[-1:].isalnum():
        word = body.rstrip(_NAME_CHARACTERS)
    if opened.startswith(_ELLIPSES) and (body := opened.lstrip(".\u2026"))[:1].isalnum():
        word = body.lstrip(_NAME_CHARACTERS)
    return word


_GAP_LINE = re.compile(r"\[\.\.\. (\d+) lines left out \.\.\.\]")


def trim_lines(text: str, budget: int, count: Count, keep: Keep = Keep.HEAD) -> str:
    """Leaves out whole lines until the text takes at most `budget` tokens.

    `Keep.HEAD` leaves out the end, and a heading with the last line under it. `Keep.ENDS` leaves out the middle: a
    third of the budget is for the beginning, and the gap states the number of lines, with those of earlier gaps. The
    result is "" if not even a gap would fit.
    """
    if keep is Keep.ENDS:
        return text if count([text])[0] <= budget else _trim_middle(text, budget, count)
    lines = text.split("\n")
    total = 0
    kept: list[str] = []
    for line, size in zip(lines, count([line + "\n" for line in lines]), strict=True):
        if total + size > budget:
            break
        total += size
        kept.append(line)
    while kept and (not kept[-1].strip() or kept[-1].startswith("#")):
        kept.pop()
    return "\n".join(kept)


def _trim_middle(text: str, budget: int, count: Count) -> str:
    lines = text.split("\n")
    sizes = count([line + "\n" for line in lines])
    available = budget - count([f"[... {len(text)} lines left out ...]\n"])[0] - 1
    first, last, used = 0, len(lines), 0
    while first < last and used + sizes[first] <= available // 3:
        used += sizes[first]
        first += 1
    while last > first and used + sizes[last - 1] <= available:
        last -= 1
        used += sizes[last]
    while first and _GAP_LINE.fullmatch(lines[first - 1]):
        first -= 1
    while last < len(lines) and _GAP_LINE.fullmatch(lines[last]):
        last += 1
    missing = sum(int(gap[1]) if (gap := _GAP_LINE.fullmatch(line)) else 1 for line in lines[first:last])
    out = "\n".join([*lines[:first], f"[... {missing} lines left out ...]", *lines[last:]])
    return out if (first or last < len(lines)) and count([out])[0] <= budget else ""


# -- one-line forms and words ------------------------------------------------------------------------------------------


def strip_escapes(text: str) -> str:
    """Removes terminal escapes and carriage returns from a text."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def collapse_spaces(text: str) -> str:
    """Returns the text on one line: every run of white space becomes one space."""
    return " ".join(text.split())


def flatten(text: str) -> str:
    """Returns the text on one line and without terminal escapes."""
    return collapse_spaces(strip_escapes(text))


def strip_markdown(line: str) -> str:
    """Returns a line without what marks it as a heading, a list item or bold.

    `**/*.py` and `#12` are no Markdown: in a pattern and in a number the signs have another meaning.
    """
    parts = _CODE_SPAN.split(_LINE_MARKS.sub("", line.strip()))
    return "".join(part if number % 2 else _BOLD_MARK.sub("", part) for number, part in enumerate(parts))


def normalize_key(text: str, limit: int = 160) -> str:
    """Returns the key by which two texts are the same fact: one line, lower case, no final punctuation, bounded."""
    return flatten(text).lower().rstrip(".!?,;: ")[:limit]


def has_words(words: str, text: str, joints: str = "/\\-.") -> bool:
    """Tells whether `words` occur in `text` by themselves, not as part of a longer word.

    Words next to one of the `joints` are part of a longer one too: of a path, or of a name with a hyphen. A full stop
    joins only if something follows it.
    """
    start = text.find(words) if words else -1
    while start >= 0:
        before, after = text[start - 1 : start], text[start + len(words) : start + len(words) + 2]
        if not _is_continued(before, words[0], joints) and not _is_continued(after, words[-1], joints):
            return True
        start = text.find(words, start + 1)
    return False


def _is_continued(edge: str, inner: str, joints: str) -> bool:
    near = edge[:1]
    if not near or not (inner.isalnum() or inner == "_"):
        return False
    if near in joints:
        return near != "." or edge[1:].isalnum()
    return near.isalnum() or near == "_"


# -- lines and paragraphs ------------------------------------------------------------------------------------------


def wrap_lines(text: str) -> str:
    """Breaks lines of more than 200 characters between sentences, and longer sentences between words.

    Whoever then leaves out lines, leaves out no more than needed.
    """
    pieces = (
        piece
        for line in text.split("\n")
        for piece in (split_sentences(line) if len(line) > _WRAPPED_CHARACTERS else (line,))
    )
    wrapped = (textwrap.wrap(piece, _WRAPPED_CHARACTERS, break_on_hyphens=False) or [""] for piece in pieces)
    return "\n".join(line for lines in wrapped for line in lines)


def is_log_line(line: str) -> bool:
    """Whether a line looks like one of a log, of code or of a table."""
    return _LOG_LINE.match(line.lstrip()) is not None or _COLUMN_GAP.search(line) is not None


def is_prose(line: str) -> bool:
    """Whether a line looks like prose rather than a log line, code or data."""
    if is_log_line(line):
        return False
    if _CJK.search(line):
        return True
    words = _WORD.findall(line)
    letters = sum(map(len, words))
    solid = len(line) - line.count(" ")
    return len(words) >= 3 and letters >= 0.6 * max(solid, 1)
