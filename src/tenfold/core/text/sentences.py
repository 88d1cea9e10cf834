"""Splits a text into sentences, in any language.

A list item, a heading, a row of a table and a fenced block of code are pieces of their own; the last three are never
split. What stands in brackets, quotation marks or backticks on one line stays together, and so does what a dot does not
end: abbreviations, initials, ordinals and numbers, by the tables of all languages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tenfold.core.text.language_tables import collect_words, fold_letters

SENTENCE_ENDS = ".!?\u2026\u0964\u0965\u061f\u06d4\u3002\uff01\uff1f\uff61"
"""The signs that end a sentence."""
CLOSING_SIGNS = "\"'\u2019\u201d\u201c\u00bb)]}*_\u300d\u300f\uff09\u3011"
"""The signs that may follow them and belong to the sentence that they close."""
FENCE = re.compile(r"^[ \t]*+(`{3,}+|~{3,}+)[^`\n]*+\n.*?(?:^[ \t]*+\1[`~]*+|\Z)", re.MULTILINE | re.DOTALL)
"""Matches a fenced block of code. One that is not closed goes on to the end."""
_LONGEST_SPAN = 200
"""Characters of the longest passage in brackets or quotation marks that is kept together."""
_LEAST_WRAPPED = 50
"""A line of fewer characters is not broken for its width: the next one begins something new."""
_WINDOW = 40
"""Characters before a dot that tell whether it ends a sentence."""
_PAIRS = ("()", "[]", "\u201c\u201d", "\u201e\u201c", "\u00ab\u00bb", "\u300c\u300d", "\u300e\u300f", "\uff08\uff09")
_OPENINGS = "".join(pair[0] for pair in _PAIRS)
_OPENING_SIGNS = "\"'*_/" + _OPENINGS
_BRACKETS = frozenset("([{<\uff08")
_SPANS = "|".join(
    rf"(?<={re.escape(pair[0])})[^{re.escape(pair)}\n]{{1,{_LONGEST_SPAN}}}{re.escape(pair[1])}" for pair in _PAIRS
)
_SIGN = re.compile(
    rf"[\n`\"{re.escape(SENTENCE_ENDS + _OPENINGS)}]"
    rf"(?:(?<=\n)\s*|(?<=`)[^`\n]+`|(?<=(?<!\w)\")[^\"\n]{{1,{_LONGEST_SPAN}}}\"(?!\w)|{_SPANS}|(?P<end>"
    rf"(?<=[{SENTENCE_ENDS}])[{SENTENCE_ENDS}]*(?:[{re.escape(CLOSING_SIGNS)}](?:(?<![\"'\u201c])|(?!\w)))*))?"
)
"""Matches a line break with the blanks behind it, a span that stays together, or what may end a sentence."""
_UNSPACED_ENDS = frozenset("\u0964\u0965\u061f\u06d4\u3002\uff01\uff1f\uff61")
"""The signs that end a sentence also where no blank follows."""
_WHOLE_LINE = re.compile(r"[ \t]*(?:#{1,6}[ \t]|\|)")
"""Matches the beginning of a heading or of a row of a table."""
_MARK = re.compile(r"[ \t]*(?:[-*+\u2022>]|\(?(?:\d{1,3}|[^\W_])[.)]|\[[ xX]\])[ \t]")
"""Matches the mark of a list item or of a quoted line."""
_NEXT_WORD = re.compile(rf"\s*[{re.escape(_OPENING_SIGNS)}]*([^\W_]+)")
_ORDINAL = re.compile(r"\d{1,2}(?:\.\d{1,2})?")
_NUMERAL = re.compile(r"\s*(?:\d|[IVXLC]{2,}\b|[B-HJ-Z]\b)")
_NUMBER_OR_LETTER = re.compile(r"\s*(?:\d|[^\W\d_]\.(?!\w))")
_DOTTED = re.compile(r"[^\W\d_](?:\.[^\W\d_])+")


def split_sentences(text: str) -> Iterator[str]:
    """Yields the sentences of a text, verbatim, without the blanks around them."""
    return (text[start:end] for start, end in find_sentences(text))


def find_sentences(text: str) -> Iterator[tuple[int, int]]:
    """Yields where each sentence of a text begins and ends. Only blanks stand between two of them."""
    start = 0
    for fence in FENCE.finditer(text):
        yield from _find_in_prose(text, start, fence.start())
        yield from _strip_span(text, fence.start(), fence.end())
        start = fence.end()
    yield from _find_in_prose(text, start, len(text))


def _find_in_prose(text: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    line, held = start, -1
    mark = _MARK.match(text, line, stop)
    is_whole = _WHOLE_LINE.match(text, line, stop) is not None
    for sign in _SIGN.finditer(text, start, stop):
        at, end = sign.span()
        if text[at] == "\n":
            following = text[end : end + 1]
            is_wrapped = not is_whole and _is_wrapped(
                text[line:at].rstrip(), text[at:end], following, is_held=held == at
            )
            line = text.rfind("\n", at, end) + 1
            mark, is_whole = _MARK.match(text, line, stop), _WHOLE_LINE.match(text, line, stop) is not None
            if not is_wrapped or mark or is_whole:
                yield from _strip_span(text, start, at)
                start = end
            held = -1
            continue
        at = end - len(sign[0]) + _find_end(sign[0])
        if at == end or is_whole or (mark and at < mark.end()):
            continue
        if _is_end(text[max(start, line, at - _WINDOW) : at], text[at:end], text[end : end + _WINDOW]):
            yield from _strip_span(text, start, end)
            start = end
        else:
            held = end
    yield from _strip_span(text, start, stop)


def _find_end(sign: str) -> int:
    """Returns where, in what `_SIGN` matches, that begins which may end a sentence; its length if nothing does."""
    if sign[0] in SENTENCE_ENDS:
        return 0
    closed = sign.rstrip(CLOSING_SIGNS)
    at = len(closed.rstrip(SENTENCE_ENDS))
    return len(sign) if at == len(closed) else at


def _strip_span(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yields a span without the blanks at its ends, nothing if it holds blanks only."""
    piece = text[start:end]
    if stripped := piece.strip():
        start += len(piece) - len(piece.lstrip())
        yield start, start + len(stripped)


def _is_wrapped(line: str, gap: str, following: str, *, is_held: bool) -> bool:
    """Tells whether a sentence goes on behind a line, which was broken for its width only.

    `is_held` says that the line ends in a dot that ends no sentence.
    """
    is_long = len(line) >= _LEAST_WRAPPED and not line.endswith((":", "\uff1a"))
    return is_long and gap.count("\n") == 1 and (is_held or following.islower())


# -- what ends a sentence ----------------------------------------------------------------------------------------------


def _is_end(before: str, sign: str, after: str) -> bool:
    """Tells whether a sign, with those that close something behind it, ends a sentence."""
    if after and not after[0].isspace():
        return _UNSPACED_ENDS.issuperset(sign) or (sign in {"?", "!"} and "\u3040" <= after[0] <= "\ud7af")
    found = _NEXT_WORD.match(after)
    following = found[1] if found else ""
    ends, goes_on = sign.rstrip(CLOSING_SIGNS), following[:1].islower()
    is_free = not before or before[-1].isspace() or before[-1] in _BRACKETS
    if goes_on and (is_free or ends != sign):
        return False
    if ends.strip(".\u2026"):
        return True
    is_ellipsis = len(ends) > 2 or "\u2026" in ends
    return not is_free and (not goes_on if is_ellipsis else _is_end_at_dot(before, following, after))


def _is_end_at_dot(before: str, following: str, after: str) -> bool:
    """Tells whether a dot ends a sentence, given the text before it, the next word and the text behind it."""
    last, word = (fold_letters(each.lstrip(_OPENING_SIGNS)) for each in ["", *before.split()][-2:])
    following_word = fold_letters(following)
    if _ORDINAL.fullmatch(word):
        is_counted = last in collect_words("before_ordinals") or following_word in collect_words("after_ordinals")
        return not is_counted and last[-1:] not in {"", ":", ";"}
    is_letter = len(word) == 1 and word.isalpha()
    names = {word, f"{last.rstrip('.')}.{word}"}
    if names & collect_words("abbreviations") or word.endswith(tuple(collect_words("abbreviated_endings"))):
        return False
    if (names & collect_words("numbered") and _NUMERAL.match(after)) or (is_letter and _NUMBER_OR_LETTER.match(after)):
        return False
    is_initial = is_letter and before[-1].isupper() and before[-1] != "I"
    is_dotted = _DOTTED.fullmatch(last + word if is_letter else word) is not None
    if is_initial or is_dotted or names & collect_words("closing"):
        return following[:1].isupper() and following_word in collect_words("common", "lead")
    return True
