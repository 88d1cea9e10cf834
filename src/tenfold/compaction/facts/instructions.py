"""Reads what the user said: the current request, standing rules, corrections.

Only messages of origin human are read, and of these only the user's own words. A sentence becomes a rule if a cue of
its language says that it holds from then on. A wrong rule does more harm than a missing one, since every request is
kept anyway: what no cue marks stays a request, and words in a language without cues stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile

from msgspec import Struct

from tenfold.compaction.facts.current_request import HARNESS_MARKS, is_acknowledgement
from tenfold.compaction.facts.user_words import MASK, mask_introduced, mask_pasted, shorten_words
from tenfold.core.record.fact import Correction, Remark, Request, Rule, RuleEffect
from tenfold.core.text.excerpts import MAX_SEARCHED_CHARS, Keep, collapse_spaces, excerpt
from tenfold.core.text.language import Language, detect_language
from tenfold.core.text.memoize import memoize
from tenfold.core.text.sentences import find_sentences

MAX_REQUEST_CHARS = 6000
MAX_RULE_CHARS = 600
_MAX_CORRECTION_CHARS = 300
"""A correction up to this long is kept whole; of a longer message, the sentences that correct something."""
_MAX_JUDGED_CHARS = 500
"""How much of a sentence is searched for cues. A longer one is no sentence that someone typed."""
_MAX_LIST_HEADING_WORDS = 8
_MIN_SUBJECT_WORDS = 2
"""A rule about less than this is not understood without the sentence before it."""

_BULLET = re.compile(r"(?:[-*\u2022]|\d{1,2}[.)]|\[[ xX]\])\s+")
_MARKER = re.compile(
    r"(?:(?:<<[^<>\n]{1,40}>>|\[[^\[\]\n]{1,40}\]|\([^()\n]{1,40}\)|\{[^{}\n]{1,40}\}|#\d{1,9}(?!\w)|@[\w-]{1,40}|[*_]+|[=~+|#-]+(?=\s)"
    r"|[^\x00-\x7f\w\s\u00ab\u00bb\u2018-\u201f\u3008-\u300f])[\s:]*)+"
)
"""Signs and labels before the words of a sentence: `[Q3]`, `<<a:1>>`, `(billing):`, `#17`, `**`, an emoji."""
_QUESTION_END = re.compile(r"[?\uff1f\u061f][\"')\]\s]*\Z")


class _Sentence(Struct, frozen=True):
    """One sentence: verbatim, and without what is pasted in it.

    `is_item` says that it opens a list item, and `continues` that it follows another on its line or in its item.
    """

    text: str
    own: str
    is_item: bool
    continues: bool
    paragraph: int


def extract_instructions(position: int, text: str, *, first: bool) -> list[Request | Rule | Correction | Remark]:
    """Returns the facts of one human message: its request, then rules and corrections, or the unclassified words.

    `first` says that nothing was answered yet.
    """
    stripped = text.strip()
    return (
        []
        if not stripped or stripped.startswith(HARNESS_MARKS)
        else list(_extract_instructions(stripped, position, first=first))
    )


@memoize
def _extract_instructions(text: str, position: int, *, first: bool) -> tuple[Request | Rule | Correction | Remark, ...]:
    is_ack = is_acknowledgement(text)
    request = Request(shorten_words(text, MAX_REQUEST_CHARS), position, is_acknowledgement=is_ack)
    if is_ack:
        return (request,)
    text = excerpt(text, MAX_SEARCHED_CHARS, Keep.EDGES)
    masked = mask_pasted(text)
    own = masked.replace(MASK, " ").replace("\u2019", "'")
    if not any(sign.isalpha() for sign in own):
        return (request,)
    language = detect_language(collapse_spaces(own))
    if language is None:
        return (request, Remark(request.text, position)) if _has_words(own) else (request,)
    sentences = list(_split_sentences(text, mask_introduced(masked, language)))
    rules = list(_find_rules(sentences, language, position))
    told = [rule for rule in rules if rule.effect != "states"]
    return (request, *rules, *_find_corrections(text, sentences, language, position, told, first=first))


def _has_words(text: str) -> bool:
    """Tells whether a text in an unknown language consists of words rather than of names and code."""
    words = text.split()
    if len(words) < _MIN_SUBJECT_WORDS:
        return False
    has_foreign_letters = sum(sign.isalpha() and not sign.isascii() for sign in text) * 10 >= len(text)
    return has_foreign_letters or sum(word.strip(".,;:!?()").isalpha() for word in words) * 2 >= len(words)


def _split_sentences(text: str, masked: str) -> Iterator[_Sentence]:
    """Yields the sentences of a text in which at least half is the user's own."""
    last, paragraph = 0, 0
    for start, end in find_sentences(masked):
        gap, last = text[last:start], end
        paragraph += gap.count("\n") > 1
        own = masked[start:end]
        if own.count(MASK) * 2 < len(own):
            bullet = _BULLET.match(own)
            skipped = bullet.end() if bullet else 0
            own = own[skipped : skipped + _MAX_JUDGED_CHARS].replace(MASK, "\x00").replace("\u2019", "'").strip()
            own = own[marker.end() :] if (marker := _MARKER.match(own)) else own
            continues = bullet is None and (not gap.count("\n") or (gap.count("\n") == 1 and gap[-1] in " \t"))
            yield _Sentence(text[start + skipped : end], own, bullet is not None, continues, paragraph)


def _find_rules(sentences: list[_Sentence], language: Language, position: int) -> Iterator[Rule]:
    heading_paragraph = -1
    for number, sentence in enumerate(sentences):
        if _is_rules_heading(sentence.text, language):
            heading_paragraph = sentence.paragraph
            continue
        is_listed = sentence.is_item and sentence.paragraph - heading_paragraph in {0, 1} and heading_paragraph >= 0
        effect = _classify_sentence(sentence, language, is_listed=is_listed)
        if effect is None:
            continue
        if is_listed:
            heading_paragraph = sentence.paragraph
        rule = sentence.text
        before = sentences[number - 1] if number else None
        if (
            before is not None
            and before.paragraph == sentence.paragraph
            and not sentence.is_item
            and len(language.find_subject(sentence.own)) < _MIN_SUBJECT_WORDS
            and not _QUESTION_END.search(before.text)
        ):
            rule = f"{before.text} {rule}"
        if sentence.is_item:  # an item is told whole, but for other rules in it
            rest = takewhile(lambda each: each.continues, sentences[number + 1 :])
            more = takewhile(lambda each: _classify_sentence(each, language, is_listed=False) is None, rest)
            rule = " ".join([rule, *(each.text for each in more)])
        is_rule = effect in {"gives", "replaces"} or (effect == "revokes" and language.has("heading", sentence.own))
        yield Rule(excerpt(rule, MAX_RULE_CHARS), position, is_rule, effect=effect)


def _is_rules_heading(text: str, language: Language) -> bool:
    is_short = len(text.split()) <= _MAX_LIST_HEADING_WORDS
    return is_short and text.endswith((":", "\uff1a")) and language.has("heading", text)


def _classify_sentence(sentence: _Sentence, language: Language, *, is_listed: bool) -> RuleEffect | None:
    """Returns the effect of a sentence that is a rule or may end one; None for any other."""
    own = language.without_idle(sentence.own)
    if _QUESTION_END.search(sentence.own) or sentence.own.endswith((":", "\uff1a")):
        return None
    is_standing = is_listed or language.has("standing", own) or _has_label(own, language)
    is_once = language.has("once", own)
    is_binding = language.has("binding", own) and not is_once
    is_rule = is_standing or is_binding
    if language.has("permitting", own) and not is_binding and not is_once:
        return "permits"
    if language.has("revoking", own):
        return "replaces" if is_standing else "revokes"
    if is_rule:
        return "replaces" if language.has("changing", own) else "gives"
    is_stated = language.find_amount(own) and len(language.find_subject(own, has_headings=True)) > _MIN_SUBJECT_WORDS
    return "states" if is_stated else None


def _has_label(text: str, language: Language) -> bool:
    """Tells whether a sentence begins with a label such as "House rule:"."""
    label, colon, _ = text.partition(":")
    return bool(colon) and len(label.split()) <= 3 and language.has("heading", label)


_MIN_CORRECTION_CHARS = 8
"""A shorter sentence, such as "Wait.", is about those that follow."""


def _find_corrections(
    text: str, sentences: list[_Sentence], language: Language, position: int, rules: list[Rule], *, first: bool
) -> Iterator[Correction]:
    """Yields what the user says was done wrong, nothing in a message before the first answer."""
    if first:
        return
    correcting = [
        each for each in sentences if language.has("correcting", each.own) and not each.own.endswith((":", "\uff1a"))
    ]
    if correcting and not rules and len(text) <= _MAX_CORRECTION_CHARS and len(correcting) * 2 >= len(sentences):
        yield Correction(text, position)
        return
    told = [rule.text for rule in rules]
    for sentence in correcting:
        said = sentence.text
        if len(said) < _MIN_CORRECTION_CHARS:
            said = " ".join(each.text for each in sentences[sentences.index(sentence) :])
        if len(said) >= _MIN_CORRECTION_CHARS and not any(said in text for text in told):
            told.append(said)
            yield Correction(excerpt(said, MAX_RULE_CHARS), position)
