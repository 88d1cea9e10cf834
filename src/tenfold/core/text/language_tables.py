"""Loads what Tenfold knows of each language: the tables in `languages`, which ship with the package.

To add a language, add its table; nothing else has to change. This is the only module of `core` that reads files
(through importlib.resources).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import msgspec

_FOLDER = "tenfold.core.text.languages"
_VOWEL_SIGNS = (*range(0x0591, 0x05BE), 0x05BF, 0x05C1, 0x05C2, 0x05C4, 0x05C5, 0x05C7)
_ARABIC_SIGNS = (*range(0x0610, 0x061B), 0x0640, *range(0x064B, 0x0660), 0x0670, *range(0x06D6, 0x06DD))
_FOLDED: dict[int, str | None] = {**dict.fromkeys((*_VOWEL_SIGNS, *_ARABIC_SIGNS)), 0x0130: "i", 0x0131: "i"}


class LanguageTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is known of one language: its frequent words, the cues of instructions, and its abbreviations.

    All phrases are in lower case. In a cue, "..." stands for a few words of the same sentence, a final "*" for any
    ending of the word, and a first "^" says that the phrase begins a clause, where `lead` words may precede it. A
    phrase is found as whole words; where `spaced` is False, as in Chinese, it is found anywhere.

    A language is recognised by its `script`, a range of letters that make up at least `least_share` of a text, or else
    by its `common` words, which are frequent and say nothing about a rule's subject. `stemmer` is the name of the
    Snowball algorithm that cuts its words to their stems.

    `standing` phrases make a rule that holds from then on. `binding` ones forbid, demand or limit something: they make
    a rule too, unless a phrase of `once` limits them to the present request. `permitting` phrases allow something; that
    sets no rule, but it revokes one about the same. `revoking` ones end a rule. `changing` ones say that what follows
    replaces what was said before, and `recent` ones that a permission is new. `correcting` phrases say that something
    was done wrong. `heading` words stand over a list of rules. `quoting` words announce pasted text, and `mailing`
    ones stand before the sender and the subject of a mail. A sentence is not
    judged by the phrases in `idle`, which look like cues and are none. A message that consists of `acknowledging` words
    only asks for nothing; left out are words that may ask for something, such as "please" in most languages.
    `asking` words are what
    questions are made of: half the words of a question are such. `user` words name the person whose instructions count,
    as in "User: ..." and in "Rules of the user".

    The dot of `abbreviations` ends no sentence, that of `closing` ones only before a capitalised word that often begins
    a sentence, and that of `numbered` ones unless a number follows. They are written without spaces and without the
    last dot. `abbreviated_endings` are like `abbreviations` and end longer words. A number with a dot is an ordinal
    behind the words `before_ordinals` and before the words `after_ordinals`, such as months.
    """

    script: str = ""
    least_share: float = 1 / 3
    spaced: bool = True
    stemmer: str = ""
    common: tuple[str, ...] = ()
    lead: tuple[str, ...] = ()
    standing: tuple[str, ...] = ()
    binding: tuple[str, ...] = ()
    permitting: tuple[str, ...] = ()
    revoking: tuple[str, ...] = ()
    changing: tuple[str, ...] = ()
    recent: tuple[str, ...] = ()
    once: tuple[str, ...] = ()
    correcting: tuple[str, ...] = ()
    heading: tuple[str, ...] = ()
    quoting: tuple[str, ...] = ()
    mailing: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    acknowledging: tuple[str, ...] = ()
    asking: tuple[str, ...] = ()
    user: tuple[str, ...] = ()
    abbreviations: tuple[str, ...] = ()
    abbreviated_endings: tuple[str, ...] = ()
    closing: tuple[str, ...] = ()
    numbered: tuple[str, ...] = ()
    before_ordinals: tuple[str, ...] = ()
    after_ordinals: tuple[str, ...] = ()


@cache
def load_tables() -> Mapping[str, LanguageTable]:
    """Returns the table of each language by its ISO 639-1 code, English first."""
    found = [each for each in files(_FOLDER).iterdir() if each.name.endswith(".toml")]
    return {
        each.name.removesuffix(".toml"): msgspec.toml.decode(each.read_bytes(), type=LanguageTable)
        for each in sorted(found, key=lambda each: (each.name != "en.toml", each.name))
    }


@cache
def collect_words(*names: str) -> frozenset[str]:
    """Returns the words of all languages in these fields of their tables, in folded letters."""
    return frozenset(
        fold_letters(word) for table in load_tables().values() for name in names for word in getattr(table, name)
    )


def fold_letters(text: str) -> str:
    """Returns the text for comparing: in lower case, composed, and without the vowel signs of Arabic and Hebrew.

    The Turkish letters i with and without a dot become one.
    """
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", text).translate(_FOLDED).lower()
