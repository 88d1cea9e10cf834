"""Tells whether an answer is a summary at all: finished, under its headings, and about what it was to summarize.

The other checks find what is wrong in a summary, and code mends it. Here nothing is there to be mended, so a policy
that has something better to show than headings filled by code shows that. See `SummarySettings.is_strict`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tenfold.summarize.evidence import SourceText
from tenfold.summarize.headings import EMPTY_SECTION
from tenfold.summarize.negation import detect_language, find_stems
from tenfold.text.excerpts import Count

MIN_CONTENT_TOKENS = 20
"""Tokens below its headings that a summary has at least; of a smaller allotment it is a quarter."""
GRACE_WORDS = 1.5
"""So many words less than its share a text may have in common with its source: a few words tell little. One it has."""
MIN_WORDS = 20
"""Different words from which on a text that reads in no language can be told to have no sentences."""
LEAST_SHARED, LEAST_SHARED_WITHOUT_SENTENCES = 0.25, 0.6
"""The part of its words that a summary shares with its source in the same language, and that one without sentences
does. The two summaries of a recorded session that were made by another tool share 0.92 and 0.94."""


def find_shortfalls(
    text: str, headings: Sequence[str], *, source: SourceText, allotment: int, count: Count
) -> Iterator[str]:
    """Yields why a text is no summary of its source. `headings` are those that were asked for."""
    lines = text.split("\n")
    asked_for = {heading.lower() for heading in headings}
    if asked_for and asked_for.isdisjoint(line.strip().lower() for line in lines):
        yield f"none of the {len(headings)} headings is there"
    content = "\n".join(line for line in lines if line.strip().lower() not in {*asked_for, EMPTY_SECTION})
    size, least = sum(count([content])), min(MIN_CONTENT_TOKENS, allotment // 4)
    if size < least:
        yield f"{size} tokens of text, a summary has {least} or more"
    elif (problem := _explain_foreign_words(content, source)) is not None:
        yield problem


def _explain_foreign_words(content: str, source: SourceText) -> str | None:
    """Explains that a text shares too few words with its source. None if it is in another language than that."""
    words, language = find_stems(content), detect_language(content)
    if not source.language or language not in ("", source.language):
        return None
    least = LEAST_SHARED if language or len(words) < MIN_WORDS else LEAST_SHARED_WITHOUT_SENTENCES
    shared = len(words & source.stems)
    if not words or shared >= max(least * len(words) - GRACE_WORDS, 1):
        return None
    return f"{shared} of its {len(words)} different words occur in what was to be summarized, at least {least:.0%} do"
