"""Recognises the language of what a user wrote, finds that language's cues in a sentence, and stems its words."""

from __future__ import annotations

import re
from functools import cache
from typing import Literal

from tenfold.core.text.language_tables import LanguageTable, fold_letters, load_tables
from tenfold.core.text.memoize import memoize, memoize_short

CueName = Literal[
    "standing",
    "binding",
    "permitting",
    "revoking",
    "changing",
    "recent",
    "once",
    "correcting",
    "heading",
    "quoting",
    "idle",
    "user",
]
_TELLING: tuple[CueName, ...] = ("standing", "binding", "permitting", "revoking", "changing", "once")
_LETTER = r"[\w\u0900-\u0963]"
"""A letter of a word. Vowel signs of Hindi are no word characters to `re`; those of Arabic and Hebrew are folded."""
_GAP = r"(?:[^.!?\n\u0964]{1,60}?\s+)??"
_CLAUSE_START = r"(?:^|[,;:(\u2013\u2014\u060c]\s*|\s-\s)"
_MIN_WORDS = 5
"""A text of fewer words, all in plain letters, is taken for English when no language claims it: "fix lint errors"."""
_MAX_READ_CHARS = 4_000
_UNCLAIMED_LETTER = re.compile(r"[^\W\d_]")
_WORD = re.compile(rf"(?:(?!\d){_LETTER})+(?:'(?:(?!\d){_LETTER})+)?")
_TOKEN = re.compile(rf"(?<![\w./:-])[\w./:-]*\d[\w./:-]*|{_LETTER}+(?:[._/]{_LETTER}+)+|{_LETTER}+")
_NUMBER = re.compile(r"\d+")
_AMOUNT = re.compile(r"(?<![\w.,/-])([$\u20ac\u00a3\u00a5]?) ?(\d+(?:[.,]\d+)*) ?(%|[^\W\d_]+)?")
_UNSPACED_RUN = re.compile(r"[\u3400-\u9fff\u30a0-\u30ff]+")


class Language:
    """What code knows of one language, each part prepared when it is first asked for."""

    def __init__(self, code: str, table: LanguageTable) -> None:
        self.code, self.least_share = code, table.least_share
        self.script = re.compile(f"[{table.script}]") if table.script else None
        self.common = frozenset(map(fold_letters, table.common))
        self._table = table
        self._patterns: dict[CueName, re.Pattern[str]] = {}
        self._cue_words = _list_words(table, ("standing", "permitting", "revoking", "recent", "heading", "once"))
        self._heading_words = _list_words(table, ("heading",))
        self._telling_words = _list_words(table, _TELLING)

    def has(self, name: CueName, text: str) -> bool:
        """Whether a phrase of that kind is in the text."""
        return self._get_pattern(name).search(fold_letters(text)) is not None

    def without_idle(self, text: str) -> str:
        """Returns the text, in folded letters, without what only looks like a cue."""
        return self._get_pattern("idle").sub(" \x00 ", fold_letters(text))

    def count_hits(self, words: list[str]) -> tuple[int, int]:
        """Counts what speaks for this language: frequent words and different words of cues, then the former alone."""
        common = sum(word in self.common for word in words)
        return common + len(self._telling_words.intersection(words)), common

    def find_subject(self, text: str, *, has_headings: bool = False) -> frozenset[str]:
        """Returns the stems of the words that say what a sentence is about; numbers and names are whole.

        With `has_headings`, words that may stand over a list of rules, such as "limit", are among them.
        """
        dropped = self._cue_words - self._heading_words if has_headings else self._cue_words
        text = fold_letters(text).replace("\u2019", "'")
        if self.code == "ko":
            return frozenset(word[:2] for word in _TOKEN.findall(text) if len(word) > 1 and word not in dropped)
        if not self._table.spaced:
            return frozenset(run[at : at + 2] for run in _UNSPACED_RUN.findall(text) for at in range(len(run) - 1))
        words = (word.strip("./:-") for word in _TOKEN.findall(text))
        return frozenset(
            word if _is_name(word) else stem_word(word, self._table.stemmer)
            for word in words
            if len(word) > 2 and word not in self.common and word not in dropped
        ) | frozenset(_NUMBER.findall(text))

    def find_amount(self, text: str) -> tuple[str, str] | None:
        """Returns the one amount that a sentence gives, with its unit; None if it gives none or several.

        A number without a unit may name a thing, as in "ticket 12".
        """
        found = ((n, sign or unit) for sign, n, unit in _AMOUNT.findall(fold_letters(text)) if sign or unit)
        amounts = [each for each in found if each[1] not in self.common]
        return amounts[0] if len(amounts) == 1 else None

    def _get_pattern(self, name: CueName) -> re.Pattern[str]:
        if name not in self._patterns:
            self._patterns[name] = _compile_phrases(getattr(self._table, name), self._table)
        return self._patterns[name]


def _list_words(table: LanguageTable, names: tuple[CueName, ...]) -> frozenset[str]:
    phrases = (fold_letters(phrase) for name in names for phrase in getattr(table, name))
    return frozenset(word for phrase in phrases for word in _WORD.findall(phrase) if len(word) > 1)


@memoize_short(16_384)
def stem_word(word: str, algorithm: str) -> str:
    """Returns the stem of a word in lower case by a Snowball algorithm, the word itself if there is none."""
    from snowballstemmer import stemmer  # noqa: PLC0415 - 36 modules, for the few sessions that change a rule

    return str(stemmer(algorithm).stemWord(word)) if algorithm else word  # a stemmer is no thread's but one's


def _is_name(word: str) -> bool:
    return any(sign.isdigit() or sign in "._/" for sign in word)


_Form = Literal["anywhere", "clause_start", "word_end", "words"]
"""Where a phrase may stand: anywhere, at the start of a clause, at the end of a longer word, or as whole words."""


def _find_form(phrase: str, *, is_spaced: bool) -> _Form:
    if not is_spaced:
        return "anywhere"
    if phrase.startswith("^"):
        return "clause_start"
    return "word_end" if phrase.startswith("*") else "words"


def _compile_phrases(phrases: tuple[str, ...], table: LanguageTable) -> re.Pattern[str]:
    """Compiles phrases into one pattern for text in folded letters.

    Phrases of one form share what stands around them, and no letter is compared without regard to case: that takes a
    fifth of the time of a pattern for each phrase.
    """
    found: dict[_Form, list[str]] = {}
    for phrase in phrases:
        body = fold_letters(phrase.removeprefix("^"))
        form = _find_form(phrase, is_spaced=table.spaced)
        body = body.removeprefix("*") if form == "word_end" else body
        parts = [re.escape(part.strip()).replace(r"\*", r"\w*").replace(r"\ ", r"\s+") for part in body.split("...")]
        found.setdefault(form, []).append(parts[0] if form == "anywhere" else (r"\s+" + _GAP).join(parts))
    lead = "|".join(re.escape(fold_letters(word)).replace(r"\ ", r"\s+") for word in table.lead) or "(?!)"
    before: dict[_Form, str] = {
        "anywhere": "",
        "clause_start": rf"{_CLAUSE_START}(?:(?:{lead})[,:\s]+){{0,3}}(?<!{_LETTER})",
        "word_end": "",
        "words": rf"(?<!{_LETTER})",
    }
    forms = (
        f"{before[form]}(?:{'|'.join(bodies)})" + (f"(?!{_LETTER})" if table.spaced else "")
        for form, bodies in found.items()
    )
    return re.compile("|".join(forms) or "(?!)")


@cache
def load_languages() -> tuple[Language, ...]:
    """Returns the languages by which a text can be recognised."""
    return tuple(Language(code, table) for code, table in load_tables().items() if table.common)


@cache
def _compile_all(name: CueName) -> re.Pattern[str]:
    tables = [table for table in load_tables().values() if getattr(table, name)]
    return re.compile("|".join(_compile_phrases(getattr(table, name), table).pattern for table in tables))


def has_in_any_language(name: CueName, text: str) -> bool:
    """Whether a phrase of that kind is in the text, in whatever language."""
    return _compile_all(name).search(fold_letters(text)) is not None


@memoize
def detect_language(text: str) -> Language | None:
    """Returns the language of a text, by its beginning; None if it is none that is known."""
    text = fold_letters(" ".join(text[:_MAX_READ_CHARS].split()))
    letters = len(_UNCLAIMED_LETTER.findall(text))
    languages = load_languages()
    for language in sorted(languages, key=lambda each: each.least_share):
        found = len(language.script.findall(text)) if language.script else 0
        if found and found >= letters * language.least_share:
            return language
    words = _WORD.findall(text)
    best = max((each for each in languages if not each.script), key=lambda each: each.count_hits(words))
    if any(best.count_hits(words)):
        return best
    is_plain = not any(sign.isalpha() and not sign.isascii() for sign in text)
    plain_words = sum(word.strip(".,;:!?()").isalpha() for word in text.split())
    return languages[0] if is_plain and plain_words < _MIN_WORDS else None
