"""Stems of English words, by Porter's algorithm: "deployed", "deploying" and "deployment" become "deploy".

M. F. Porter, An algorithm for suffix stripping, Program 14(3), 1980, pages 130-137, with the departures of the author's
own program (`logi` to `log`, `bli` to `ble`) and one of his later English stemmer: a `y` behind a vowel stays, so that
"deploy" and "deployment" meet.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

_ENDINGS = """
ational:ate tional:tion enci:ence anci:ance izer:ize bli:ble alli:al entli:ent eli:e ousli:ous ization:ize ation:ate
ator:ate alism:al iveness:ive fulness:ful ousness:ous aliti:al iviti:ive biliti:ble logi:log

icate:ic ative: alize:al iciti:ic ical:ic ful: ness:

al: ance: ence: er: ic: able: ible: ant: ement: ment: ent: ion: ou: ism: ate: iti: ous: ive: ize:
"""
_SECOND, _THIRD, _FOURTH = (
    {ending: put for ending, _, put in (pair.partition(":") for pair in table.split())}
    for table in _ENDINGS.split("\n\n")
)
_LONGEST_ENDING = 7


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """The stem of a word in lower case. Words of one or two letters are their own stems."""
    if len(word) <= 2:
        return word
    word = _strip_past(_strip_plural(word))
    if word.endswith("y") and "v" in _get_shape(word[:-1]) and _get_shape(word[:-1]).endswith("c"):
        word = word[:-1] + "i"
    word = _replace_ending(word, _SECOND, 0)
    word = _replace_ending(word, _THIRD, 0)
    word = _replace_ending(word, _FOURTH, 1)
    if word.endswith("e"):
        rest = word[:-1]
        if _measure(rest) > 1 or (_measure(rest) == 1 and not _is_short(rest)):
            word = rest
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word


def _strip_plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _strip_past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    ending = "ed" if word.endswith("ed") else "ing" if word.endswith("ing") else ""
    rest = word.removesuffix(ending)
    if not ending or "v" not in _get_shape(rest):
        return word
    if rest.endswith(("at", "bl", "iz")):
        return rest + "e"
    if len(rest) > 1 and rest[-1] == rest[-2] and _get_shape(rest)[-1] == "c" and rest[-1] not in "lsz":
        return rest[:-1]
    return rest + "e" if _measure(rest) == 1 and _is_short(rest) else rest


def _replace_ending(word: str, endings: Mapping[str, str], min_measure: int) -> str:
    """The word with its longest listed ending replaced, if what stands before it measures more than `least`."""
    for size in range(min(_LONGEST_ENDING, len(word)), 1, -1):
        ending = word[-size:]
        if ending not in endings:
            continue
        rest = word[:-size]
        bound = ending == "ion" and not rest.endswith(("s", "t"))
        return word if bound or _measure(rest) <= min_measure else rest + endings[ending]
    return word


def _get_shape(word: str) -> str:
    """Consonants and vowels of a word; `y` is a vowel behind a consonant."""
    out = ""
    for letter in word:
        out += "v" if letter in "aeiou" or (letter == "y" and out.endswith("c")) else "c"
    return out


def _measure(word: str) -> int:
    return _get_shape(word).count("vc")


def _is_short(word: str) -> bool:
    """Whether a word ends in consonant, vowel, consonant, the last of them not w, x or y."""
    return _get_shape(word).endswith("cvc") and word[-1] not in "wxy"
