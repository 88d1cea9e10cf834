"""Tells whether an answer is a summary at all: finished, under its headings, and about what it was to summarize.

The other checks find what is wrong in a summary, and code mends it. Here nothing is there to be mended. Under every
policy a few characters and random words are no summary (`explain_rubbish`). A policy that has something better to show
than headings filled by code asks for more (`find_shortfalls`). See `SummarySettings.is_strict`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from string import ascii_lowercase

from tenfold.compaction.summarize.evidence import SourceText
from tenfold.compaction.summarize.headings import EMPTY_SECTION
from tenfold.compaction.summarize.negation import detect_language, find_stems
from tenfold.core.text.excerpts import Count

MIN_LETTERS, MIN_RANDOM_WORDS = 4, 8
"""Letters and digits below its headings that any summary has, and different words from which on they can be random: a
sentence of fewer may be a summary in words of its own."""
MIN_CONTENT_TOKENS = 20
"""Tokens below its headings that a summary has at least; of a smaller allotment or source it is a quarter."""
LEAST_SHARED, LEAST_SHARED_WITHOUT_SENTENCES = 0.25, 0.6
"""The part of its words that a summary shares with a long source in the same language, and that one without sentences
does. Half of the words of any other text occur in a long source. The two summaries of a recorded session that were made
by another tool share 0.92 and 0.94."""
LONG_SOURCE = 1_500
"""Different words of a source that is long. A shorter one asks for less of the above: it has few words, so a true
summary finds others, and an unrelated text hardly any of them."""
GRACE_WORDS = 1.5
"""So many words less than its share a text may have in common with its source: a few words tell little. One it has."""
FOREIGN_SHARE = 0.1
"""The part of its words with letters that the source does not have, from which on a text is in another language."""
_WORD = re.compile(r"[^\W\d_]+")


def explain_rubbish(text: str, headings: Sequence[str], *, source: SourceText, prompt: str = "") -> str:
    """Explains why a text is a summary of nothing: a few characters, or words in no sentence and of no source.

    "" if it may be one. A sentence in a known language may be one, however little it says, unless the `prompt` has it.
    """
    content = remove_template(text, headings, prompt)
    letters = sum(map(str.isalnum, content))
    if letters < MIN_LETTERS:
        return f"{letters} letters of text, a summary has {MIN_LETTERS} or more"
    if detect_language(content) or len(find_stems(content)) < MIN_RANDOM_WORDS:
        return ""
    return _explain_foreign_words(content, source) or ""


def find_shortfalls(
    text: str, headings: Sequence[str], *, source: SourceText, allotment: int, count: Count, prompt: str = ""
) -> Iterator[str]:
    """Yields why a text is no summary of its source. `headings` are those that the `prompt` asked for."""
    asked_for = {heading.lower() for heading in headings}
    if asked_for and asked_for.isdisjoint(line.strip().lower() for line in text.split("\n")):
        yield f"none of the {len(headings)} headings is there"
    content = remove_template(text, headings, prompt)
    size, least = sum(count([content])), min(MIN_CONTENT_TOKENS, allotment // 4)
    if size < least:
        least = min(least, sum(count([source.text])) // 4)
    if size < least:
        yield f"{size} tokens of text, a summary has {least} or more"
    elif (problem := _explain_foreign_words(content, source)) is not None:
        yield problem


def remove_template(text: str, headings: Sequence[str], prompt: str) -> str:
    """Removes what is no content: headings, "none", and under headings what a model left of its template.

    That is a line that the prompt has, one that is all in brackets, and one that says the same under another heading
    but for the heading's own name: "Fill in the errors here".
    """
    names = {heading.strip().lower(): _fold_words(heading) for heading in headings}
    asked, section = f" {_fold_words(prompt)} ", ""
    lines: list[tuple[str, str]] = []
    sections_by_frame: dict[str, set[str]] = {}
    for line in text.split("\n"):
        key = line.strip().lower()
        section = names.get(key, section)
        words = _fold_words(line)
        is_template = bool(section and words) and (_PLACEHOLDER.fullmatch(line) is not None or f" {words} " in asked)
        if key in names or key == EMPTY_SECTION or is_template:
            continue
        frame = f" {words} ".replace(f" {section} ", "\n") if section else ""
        lines.append((line, frame))
        if "\n" in frame:
            sections_by_frame.setdefault(frame, set()).add(section)
    return "\n".join(line for line, frame in lines if len(sections_by_frame.get(frame, ())) < 2).strip()


_PLACEHOLDER = re.compile(r"[\s\-*+\u2022\d.)]*(?:\[.*\]|<.*>|\{.*\})[\s.]*")


def _fold_words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower().replace("&", " and ")))


def _explain_foreign_words(content: str, source: SourceText) -> str | None:
    """Explains that a text shares too few words with its source. None if it is in another language than that."""
    words, language = find_stems(content), detect_language(content)
    if not source.language or language not in ("", source.language):
        return None
    least = LEAST_SHARED if language else LEAST_SHARED_WITHOUT_SENTENCES
    least *= min(len(source.stems) / LONG_SOURCE, 1)
    shared = len(words & source.stems)
    is_shared = shared >= max(least * len(words) - GRACE_WORDS, 1)
    if is_shared or _has_foreign_letters(content, source):
        return None
    return f"{shared} of its {len(words)} different words occur in what was to be summarized, at least {least:.0%} do"


def _has_foreign_letters(content: str, source: SourceText) -> bool:
    """Tells whether a text has words with letters that its source does not have, as one in another language does."""
    words, known = _WORD.findall(content.lower()), _WORD.findall(source.text.lower())
    alphabet = set("".join(known))
    if sum(map(str.isascii, known)) * 2 > len(known):  # a short text does not have all 26
        alphabet.update(ascii_lowercase)
    foreign = sum(not alphabet.issuperset(word) for word in words)
    return foreign > FOREIGN_SHARE * len(words)
