"""The user's instructions as a ledger: each with its scope, its status and where it was said.

A rule ends when the user revokes it, allows what it forbade, replaces it, or gives another amount for the same. Which
rule is meant follows from the words that both sentences share. What anybody else says ends none.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tenfold.core.record.entry import RULE_ADDED, Entry, Setting
from tenfold.core.record.fact import Fact, Remark, Request, Rule, RuleEffect, RuleEnd
from tenfold.core.text.excerpts import collapse_spaces
from tenfold.core.text.language import CueName, Language, detect_language
from tenfold.core.text.memoize import memoize

_MIN_SHARED_WORDS = 2
_NEWS: tuple[CueName, ...] = ("recent", "changing", "revoking")
"""The cues of a permission that was not there before."""
InstructionScope = Literal["standing", "request", "unclassified"]
InstructionStatus = Literal["active", "revoked", "superseded", "dropped", "done"]


class Instruction(Struct, frozen=True, omit_defaults=True):
    """One instruction of the user, in the user's words.

    `scope` "standing" is a rule that holds from then on, "request" holds for one request, and "unclassified" are words
    in a language that Tenfold has no cues for. Only active standing ones read as rules. `position` is that of the entry
    that said it last.
    """

    text: str
    scope: InstructionScope
    status: InstructionStatus
    position: int

    @property
    def is_rule(self) -> bool:
        """Whether it is a rule in force."""
        return self.scope == "standing" and self.status == "active"


def settle_rules(rules: Iterable[Rule]) -> list[Rule]:
    """Returns the rules, oldest first, with each settled that a later one ends."""
    out = sorted(rules, key=lambda rule: rule.order)
    languages = {language for rule in out if (language := detect_language(rule.text)) is not None}
    held: dict[int, Rule] = {}  # what a later one may end, by its number
    numbers: dict[_Trait, list[int]] = defaultdict(list)
    for number, later in enumerate(out):
        targets = [] if later.end or later.effect == "quotes" else _find_targets(later, held, numbers)
        for target in targets:
            end: RuleEnd = "revoked" if later.effect in {"permits", "revokes"} else "superseded"
            out[target] = replace(held.pop(target), live=False, end=end)
        if targets and later.effect in {"permits", "states"}:
            out[number] = replace(later, live=True, effect="gives")
        elif targets and later.effect == "revokes":
            out[number] = replace(later, live=False)
        if out[number].live and out[number].effect in _GIVING:
            held[number] = out[number]
            for trait in {trait for language in languages for trait in _list_traits(later.text, language)}:
                numbers[trait].append(number)
    return out


_GIVING: tuple[RuleEffect, ...] = ("gives", "replaces", "quotes")
"""The effects of what is a rule by itself."""
_AMENDING: tuple[RuleEffect, ...] = ("gives", "replaces", "states")
"""The effects of what ends an earlier rule by another amount."""


_Trait = tuple[object, ...]
"""What two rules must share for one to end the other: a word, the unit of an amount, or the words without amounts."""


def _list_traits(text: str, language: Language) -> list[_Trait]:
    amount = _find_amount(text, language)
    words: list[_Trait] = [("word", language.code, word) for word in _find_subject(text, language)]
    form = tuple(part for at, part in enumerate(_split_numbers(text)) if at % 3 != 1)
    return [*words, ("form", form), *([("amount", language.code, amount[1])] if amount is not None else [])]


def _find_targets(later: Rule, held: Mapping[int, Rule], numbers: Mapping[_Trait, list[int]]) -> list[int]:
    """Returns which of the rules that hold a later one ends. `numbers` says which have a trait."""
    language = detect_language(later.text)
    if language is None:
        return []
    subject = _find_subject(later.text, language)
    kinds = {"gives": {"form", "amount"}, "states": {"amount"}, "replaces": {"word", "amount"}}
    traits = [each for each in _list_traits(later.text, language) if each[0] in kinds.get(later.effect, {"word"})]
    return [
        number
        for number in {number for trait in traits for number in numbers.get(trait, ()) if number in held}
        if _is_ended(later, subject, held[number], language)
        or (later.effect in _AMENDING and _has_new_amount(later, held[number], language))
    ]


def _is_ended(later: Rule, subject: frozenset[str], rule: Rule, language: Language) -> bool:
    """Tells whether a sentence with a subject ends an earlier rule by the words that they share."""
    if later.effect == "gives":
        return _is_same_but_for_a_quantity(later.text, rule.text, language)
    earlier = _find_subject(rule.text, language)
    shared = subject & earlier
    if not shared:
        return False
    is_contained = shared in (subject, earlier)
    match later.effect:
        case "revokes":
            return len(shared) >= _MIN_SHARED_WORDS or is_contained
        case "permits":
            is_recent = any(language.has(name, later.text) for name in _NEWS)
            return is_contained or (is_recent and len(shared) >= _MIN_SHARED_WORDS)
        case "replaces":
            return len(shared) >= _MIN_SHARED_WORDS
        case "states" | "quotes":
            return False


def _has_new_amount(later: Rule, earlier: Rule, language: Language) -> bool:
    """Tells whether a sentence about nothing but the subject of an earlier one gives it another amount."""
    amount, before = _find_amount(later.text, language), _find_amount(earlier.text, language)
    if amount is None or before is None or amount[1] != before[1] or amount[0] == before[0]:
        return False
    unit = _find_subject(amount[1], language)
    words, before_words = (_find_subject(each.text, language, has_headings=True) for each in (later, earlier))
    told, known = ({word for word in each - unit if not word[0].isdigit()} for each in (words, before_words))
    return len(told) >= _MIN_SHARED_WORDS and told <= known and len(told) * 2 >= len(known)


_NUMBER = re.compile(r"(?<![\w.,])(\d[\d.,]*)(?=\s*%|\s+([^\W\d_]+))")


def _is_same_but_for_a_quantity(later: str, earlier: str, language: Language) -> bool:
    """Tells whether two rules differ in one amount only, as in "under 200 words". Then the later one holds.

    A number that no content word follows may name a thing, as in "ticket 12": rules about two tickets both hold.
    """
    texts = [_split_numbers(text) for text in (later, earlier)]
    if len(texts[0]) != len(texts[1]):
        return False
    differing = [at for at, (one, other) in enumerate(zip(*texts, strict=True)) if one != other]
    if len(differing) != 1 or differing[0] % 3 != 1:
        return False
    unit = texts[0][differing[0] + 1]
    return unit is None or unit not in language.common


# A rule is compared with many others, so what is read from its text is kept.


@memoize
def _find_subject(text: str, language: Language, *, has_headings: bool = False) -> frozenset[str]:
    return language.find_subject(text, has_headings=has_headings)


@memoize
def _find_amount(text: str, language: Language) -> tuple[str, str] | None:
    return language.find_amount(text)


@memoize
def _split_numbers(text: str) -> list[str | None]:
    return _NUMBER.split(collapse_spaces(text).casefold())


def build_setting_facts(settings: Iterable[tuple[int, Entry]]) -> list[Rule]:
    """Returns the facts of rules that were added or dropped by command, given as (position, setting)."""
    return [
        Rule(entry.value, at) if entry.key == RULE_ADDED else Rule(entry.value, at, live=False, end="dropped")
        for at, entry in settings
        if isinstance(entry, Setting)
    ]


def build_ledger(facts: Iterable[Fact]) -> tuple[Instruction, ...]:
    """Returns the instructions among merged facts, in the order in which they were said."""
    said = [fact for fact in facts if isinstance(fact, Rule | Remark | Request)]
    return tuple(
        _build_instruction(fact)
        for fact in sorted(said, key=lambda fact: fact.order)
        if fact.live or not isinstance(fact, Rule) or fact.end or fact.effect in _GIVING
    )


def _build_instruction(fact: Rule | Remark | Request) -> Instruction:
    status: InstructionStatus = "active" if fact.live else "done"
    match fact:
        case Rule():
            return Instruction(fact.text, "standing", fact.end or status, fact.position)
        case Request():
            return Instruction(fact.text, "request", status, fact.position)
        case Remark():
            return Instruction(fact.text, "unclassified", status, fact.position)
