"""Takes from a model's text the instructions that it quotes, and finds each in what the user wrote.

A model knows instructions in every language, but nothing that it says counts as one: what becomes a rule is the user's
own sentence, copied from the message in which the quotation was found. A quotation ends and changes no rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from tenfold.compaction.facts.current_request import get_user_words
from tenfold.compaction.facts.instructions import MAX_RULE_CHARS
from tenfold.compaction.facts.user_words import MASK, mask_introduced, mask_pasted
from tenfold.core.record.fact import Correction, Fact, Remark, Rule
from tenfold.core.record.message import Message
from tenfold.core.text.excerpts import collapse_spaces, normalize_key
from tenfold.core.text.language import detect_language
from tenfold.core.text.sentences import find_sentences

_HEADING = "Quoted from the user"
"""The heading of the last section that the prompt `told` asks for. It is never in view."""
_SECTION = re.compile(rf"^[#*_ ]*{_HEADING}[*_: ]*$(?P<lines>(?:\n(?!#).*)*)", re.MULTILINE | re.IGNORECASE)
_LINE = re.compile(
    r"[-*\u2022 ]*(?:\[(?P<number>\d{1,9})\][: ]*)?"
    r"[\"'`\u201c\u201e\u00ab\u300c\u2018](?P<words>.+)[\"'`\u201d\u201c\u00bb\u300d\u2019]\W*"
)
"""Matches a quotation. One without its last sign was cut off."""
_MIN_WORDS, _MIN_LETTERS = 3, 8
"""A quotation has at least so many words and letters. Of Chinese and the like, written without spaces, half of them."""
_UNSPACED = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]")
_BULLET = re.compile(r"\A(?:[-*\u2022]|\d{1,2}[.)])\s+")


class Quotation(Struct, frozen=True):
    """Words that a model says are the user's, and the number that it gives their message: a hint, -1 without one."""

    words: str
    number: int = -1


def split_quotations(text: str) -> tuple[str, tuple[Quotation, ...]]:
    """Splits a model's text into what is shown and the quotations of its last section; () if it has none."""
    found = _SECTION.search(text)
    if found is None:
        return text, ()
    lines = (match for line in found["lines"].split("\n") if (match := _LINE.fullmatch(line.strip())))
    quotations = (Quotation(line["words"], int(line["number"] or -1)) for line in lines)
    return (text[: found.start()].rstrip() + text[found.end() :]).strip(), tuple(quotations)


def find_quoted_rules(
    quotations: Iterable[Quotation], items: Sequence[tuple[int, Message]], facts: Sequence[Fact]
) -> tuple[tuple[Rule, ...], int]:
    """Returns the rules that the quotations lead to, and how many quotations the user's own words do not hold.

    Of several messages that hold one, the message that it names counts, else the newest. What the `facts` have
    already, in force or ended, is no new rule.
    """
    said = [(position, words) for position, message in reversed(items) if (words := get_user_words(message))]
    known = [(normalize_key(f.text), f.live) for f in facts if isinstance(f, Rule | Correction | Remark)]
    rules: dict[str, Rule] = {}
    missing = 0
    for quotation in quotations:
        pattern = _compile_words(quotation.words)
        ordered = sorted(said, key=lambda each: each[0] != quotation.number)
        found = ((at, _find_sentences_with(pattern, words)) for at, words in ordered) if pattern else ()
        position, text = next(((at, sentences) for at, sentences in found if sentences), (-1, ""))
        key = normalize_key(text)
        missing += not text
        if text and not any(key in each or (not is_live and each in key) for each, is_live in known):
            rules[key] = Rule(text, position, effect="quotes")
    return tuple(sorted(rules.values(), key=lambda fact: fact.order)), missing


def _compile_words(text: str) -> re.Pattern[str] | None:
    """Compiles a pattern for the words of a quotation, with whatever signs between them; None if they are too few."""
    words = re.findall(r"\w+", text)
    is_spaced = not _UNSPACED.search(text)
    if sum(map(len, words)) < (_MIN_LETTERS if is_spaced else _MIN_LETTERS // 2):
        return None
    if is_spaced and len(words) < _MIN_WORDS:
        return None
    found = r"[\W_]+".join(words)
    return re.compile(rf"(?<!\w){found}(?!\w)" if is_spaced else found, re.IGNORECASE)


def _find_sentences_with(pattern: re.Pattern[str], text: str) -> str:
    """Returns the whole sentences in which the user's own words match; "" if none do, or they are too long for a rule.

    A part of a sentence may say the opposite of the whole.
    """
    if not pattern.search(text):
        return ""
    masked = mask_pasted(text)
    language = detect_language(collapse_spaces(masked.replace(MASK, " ")))
    masked = mask_introduced(masked, language) if language else masked
    for match in pattern.finditer(text):
        if masked.count(MASK, match.start(), match.end()) * 2 >= len(match[0]):
            continue
        touched = ((start, end) for start, end in find_sentences(masked) if start < match.end() and end > match.start())
        spans = [(start, end, masked.count(MASK, start, end) * 2 < end - start) for start, end in touched]
        if spans and all(is_own for _, _, is_own in spans):
            sentences = _BULLET.sub("", text[spans[0][0] : spans[-1][1]])
            return sentences if len(sentences) <= MAX_RULE_CHARS else ""
    return ""
