"""Recognises the language of what a user wrote, and finds that language's cues in a sentence."""

from __future__ import annotations

import re
from typing import Literal

from tenfold.compaction.facts.cues import INSTRUCTION_CUES
from tenfold.compaction.facts.cues.base import InstructionCues
from tenfold.core.text.excerpts import collapse_spaces
from tenfold.core.text.memoize import memoize

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
]
_NAMES: tuple[CueName, ...] = CueName.__args__  # type: ignore[attr-defined]
_TELLING: tuple[CueName, ...] = ("standing", "binding", "permitting", "revoking", "changing", "once")
_LETTER = r"[\w\u064b-\u0652\u0900-\u0963]"
"""A letter of a word. Vowel signs of Arabic and Hindi are no word characters to `re`."""
_GAP = r"(?:[^.!?\n\u0964]{1,60}?\s+)??"
_CLAUSE_START = r"(?:^|[,;:(\u2013\u2014\u060c]\s*|\s-\s)"
_MIN_WORDS = 5
"""A text of fewer words, all in plain letters, is taken for English when no language claims it: "fix lint errors"."""
_MAX_READ_CHARS = 4_000
_SCRIPTS = (
    ("ja", re.compile(r"[\u3040-\u30ff]")),
    ("ko", re.compile(r"[\uac00-\ud7af]")),
    ("zh", re.compile(r"[\u3400-\u9fff]")),
    ("ar", re.compile(r"[\u0600-\u06ff]")),
    ("hi", re.compile(r"[\u0900-\u097f]")),
    ("ru", re.compile(r"[\u0400-\u04ff]")),
)
_UNCLAIMED_LETTER = re.compile(r"[^\W\d_]")
_WORD = re.compile(rf"(?:(?!\d){_LETTER})+(?:'(?:(?!\d){_LETTER})+)?")
_TOKEN = re.compile(rf"(?<![\w./:-])[\w./:-]*\d[\w./:-]*|{_LETTER}+(?:[._/]{_LETTER}+)+|{_LETTER}+")
_KANA = re.compile(r"[\u3040-\u309f\s]+")
_UNSPACED_RUN = re.compile(r"[\u3400-\u9fff\u30a0-\u30ff]+")
_STEM_CHARS = 5


class CueLanguage:
    """The cues of one language, compiled."""

    def __init__(self, code: str, cues: InstructionCues) -> None:
        self.code, self.is_spaced = code, cues.spaced
        self.common = frozenset(cues.common)
        self._patterns = {name: _compile_phrases(phrases, cues) for name in _NAMES if (phrases := getattr(cues, name))}
        stripped = ("standing", "permitting", "revoking", "recent", "heading", "once")
        self._cue_words = frozenset(
            word for name in stripped for phrase in getattr(cues, name) for word in _WORD.findall(phrase.lower())
        )

    def has(self, name: CueName, text: str) -> bool:
        """Whether a phrase of that kind is in the text."""
        pattern = self._patterns.get(name)
        return pattern is not None and pattern.search(_fold_case(text)) is not None

    def without_idle(self, text: str) -> str:
        """Returns the text, in lower case, without what only looks like a cue."""
        pattern = self._patterns.get("idle")
        return pattern.sub(" \x00 ", _fold_case(text)) if pattern else text

    def count_hits(self, words: list[str], text: str) -> tuple[int, int]:
        """Counts how much speaks for this language: frequent words and, twice, cues; then frequent words alone."""
        common = sum(word in self.common for word in words)
        return common + 2 * sum(self.has(name, text) for name in _TELLING), common

    def find_subject(self, text: str) -> frozenset[str]:
        """Returns the stems of the words that say what a sentence is about; numbers and names are whole."""
        text = text.lower().replace("\u2019", "'")
        if self.code == "ko":
            return frozenset(word[:2] for word in _TOKEN.findall(text) if len(word) > 1 and word not in self._cue_words)
        if not self.is_spaced:
            return frozenset(run[at : at + 2] for run in _UNSPACED_RUN.findall(text) for at in range(len(run) - 1))
        words = (word.strip("./:-") for word in _TOKEN.findall(text))
        return frozenset(
            word if _is_name(word) else word[:_STEM_CHARS]
            for word in words
            if len(word) > 2 and word not in self.common and word not in self._cue_words
        ) | frozenset(word for word in re.findall(r"\d+", text))


def _is_name(word: str) -> bool:
    return any(sign.isdigit() or sign in "._/" for sign in word)


def _fold_case(text: str) -> str:
    """Returns the text in lower case. The Turkish letters i with and without a dot become one."""
    return text.replace("\u0130", "i").lower().replace("\u0131", "i")


_Form = Literal["anywhere", "clause_start", "word_end", "words"]
"""Where a phrase may stand: anywhere, at the start of a clause, at the end of a longer word, or as whole words."""


def _find_form(phrase: str, *, is_spaced: bool) -> _Form:
    if not is_spaced:
        return "anywhere"
    if phrase.startswith("^"):
        return "clause_start"
    return "word_end" if phrase.startswith("*") else "words"


def _compile_phrases(phrases: tuple[str, ...], cues: InstructionCues) -> re.Pattern[str]:
    """Compiles phrases into one pattern for text in folded case.

    Phrases of one form share what stands around them, and no letter is compared without regard to case: that takes a
    fifth of the time of a pattern for each phrase.
    """
    found: dict[_Form, list[str]] = {}
    for phrase in phrases:
        body = _fold_case(phrase.removeprefix("^"))
        form = _find_form(phrase, is_spaced=cues.spaced)
        body = body.removeprefix("*") if form == "word_end" else body
        parts = [re.escape(part.strip()).replace(r"\*", r"\w*").replace(r"\ ", r"\s+") for part in body.split("...")]
        found.setdefault(form, []).append(parts[0] if form == "anywhere" else (r"\s+" + _GAP).join(parts))
    lead = "|".join(re.escape(_fold_case(word)).replace(r"\ ", r"\s+") for word in cues.lead) or "(?!)"
    before: dict[_Form, str] = {
        "anywhere": "",
        "clause_start": rf"{_CLAUSE_START}(?:(?:{lead})[,:\s]+){{0,3}}(?<!{_LETTER})",
        "word_end": "",
        "words": rf"(?<!{_LETTER})",
    }
    return re.compile(
        "|".join(
            f"{before[form]}(?:{'|'.join(bodies)})" + (f"(?!{_LETTER})" if cues.spaced else "")
            for form, bodies in found.items()
        )
    )


_LANGUAGES = {code: CueLanguage(code, cues) for code, cues in INSTRUCTION_CUES.items()}
_LATIN = [each for code, each in _LANGUAGES.items() if code not in {name for name, _ in _SCRIPTS}]


@memoize
def detect_language(text: str) -> CueLanguage | None:
    """Returns the language of a text, by its beginning; None if it is none that has cues."""
    text = collapse_spaces(text[:_MAX_READ_CHARS])
    letters = len(_UNCLAIMED_LETTER.findall(text))
    for code, pattern in _SCRIPTS:
        found = len(pattern.findall(text))
        if found * (8 if code == "ja" else 3) >= max(letters, 1) and found:
            return _LANGUAGES[code]
    words = _WORD.findall(text.lower())
    best, hits = max(((each, each.count_hits(words, text)) for each in _LATIN), key=lambda pair: pair[1])
    if any(hits):
        return best
    is_plain = not any(sign.isalpha() and not sign.isascii() for sign in text)
    plain_words = sum(word.strip(".,;:!?()").isalpha() for word in text.split())
    return _LANGUAGES["en"] if is_plain and plain_words < _MIN_WORDS else None
