"""The user's instructions as a ledger: each with its scope, its status and where it was said.

A rule ends when the user revokes it, allows what it forbade, replaces it, or gives another amount for the same. Which
rule is meant follows from the words that both sentences share. What anybody else says ends none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.facts.instructions import PERMITS, QUOTED, REPLACES, REVOKES, STATES
from tenfold.core.record.block import Fact
from tenfold.core.record.entry import RULE_ADDED, Entry, Setting
from tenfold.core.text.excerpts import collapse_spaces, normalize_key
from tenfold.core.text.language import CueName, Language, detect_language

REVOKED, SUPERSEDED, DROPPED = "revoked", "superseded", "dropped"
"""The `note` of a rule that holds no more: the user ended it, replaced it, or dropped it by command."""
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


def settle_instructions(facts: Sequence[Fact]) -> list[Fact]:
    """Returns the facts with every rule settled that a later one revokes, allows or replaces."""
    out = {id(fact): fact for fact in facts}
    rules = sorted((fact for fact in facts if fact.kind == "rule"), key=lambda fact: fact.order)
    for number, later in enumerate(rules):
        if later.note in {REVOKED, SUPERSEDED, DROPPED, QUOTED}:
            continue
        targets = _find_targets(later, [each for each in rules[:number] if out[id(each)].live])
        for target in targets:
            note = SUPERSEDED if later.note in {"", REPLACES, STATES} else REVOKED
            out[id(target)] = replace(target, live=False, note=note)
        if targets and later.note in {PERMITS, STATES}:
            out[id(later)] = replace(later, live=True, note="")
        elif targets and later.note == REVOKES:
            out[id(later)] = replace(later, live=False)
    return [out[id(fact)] for fact in facts]


def _find_targets(later: Fact, earlier: list[Fact]) -> list[Fact]:
    """Returns the earlier rules that a rule, a permission or a revocation ends."""
    language = detect_language(later.text)
    if language is None:
        return []
    subject = language.find_subject(later.text)
    return [
        fact
        for fact in earlier
        if fact.note in {"", REPLACES, QUOTED}
        and (
            _is_ended(later, subject, language.find_subject(fact.text), language)
            or (not later.note and _is_same_but_for_a_quantity(later.text, fact.text, language))
            or (later.note in {"", REPLACES, STATES} and _has_new_amount(later, fact, language))
        )
    ]


def _is_ended(later: Fact, subject: frozenset[str], earlier: frozenset[str], language: Language) -> bool:
    """Tells whether a sentence with a subject ends an earlier rule, given the subject of that."""
    shared = subject & earlier
    if not shared:
        return False
    is_contained = shared in (subject, earlier)
    match later.note:
        case "revokes":
            return len(shared) >= _MIN_SHARED_WORDS or is_contained
        case "permits":
            is_recent = any(language.has(name, later.text) for name in _NEWS)
            return is_contained or (is_recent and len(shared) >= _MIN_SHARED_WORDS)
        case "replaces":
            return len(shared) >= _MIN_SHARED_WORDS
        case _:
            return False


def _has_new_amount(later: Fact, earlier: Fact, language: Language) -> bool:
    """Tells whether a sentence about nothing but the subject of an earlier one gives it another amount."""
    amount, before = language.find_amount(later.text), language.find_amount(earlier.text)
    if amount is None or before is None or amount[1] != before[1] or amount[0] == before[0]:
        return False
    unit = language.find_subject(amount[1])
    words, before_words = (language.find_subject(each.text, has_headings=True) for each in (later, earlier))
    told, known = ({word for word in each - unit if not word[0].isdigit()} for each in (words, before_words))
    return len(told) >= _MIN_SHARED_WORDS and told <= known and len(told) * 2 >= len(known)


_NUMBER = re.compile(r"(?<![\w.,])(\d[\d.,]*)(?=\s*%|\s+([^\W\d_]+))")


def _is_same_but_for_a_quantity(later: str, earlier: str, language: Language) -> bool:
    """Tells whether two rules differ in one amount only, as in "under 200 words". Then the later one holds.

    A number that no content word follows may name a thing, as in "ticket 12": rules about two tickets both hold.
    """
    texts = [_NUMBER.split(collapse_spaces(text).casefold()) for text in (later, earlier)]
    if len(texts[0]) != len(texts[1]):
        return False
    differing = [at for at, (one, other) in enumerate(zip(*texts, strict=True)) if one != other]
    if len(differing) != 1 or differing[0] % 3 != 1:
        return False
    unit = texts[0][differing[0] + 1]
    return unit is None or unit not in language.common


def build_setting_facts(settings: Iterable[tuple[int, Entry]]) -> list[Fact]:
    """Returns the facts of rules that were added or dropped by command, given as (position, setting)."""
    return [
        Fact("rule", entry.value, normalize_key(entry.value), at, live=is_added, note="" if is_added else DROPPED)
        for at, entry in settings
        if isinstance(entry, Setting)
        for is_added in (entry.key == RULE_ADDED,)
    ]


def build_ledger(facts: Iterable[Fact]) -> tuple[Instruction, ...]:
    """Returns the instructions among merged facts, in the order in which they were said."""
    ordered = sorted((f for f in facts if f.kind in {"rule", "remark", "request"}), key=lambda fact: fact.order)
    return tuple(
        _build_instruction(fact) for fact in ordered if fact.live or fact.note not in {PERMITS, REVOKES, STATES}
    )


def _build_instruction(fact: Fact) -> Instruction:
    scopes: dict[str, InstructionScope] = {"rule": "standing", "request": "request"}
    status: InstructionStatus = "active" if fact.live else "done"
    for settled in ("revoked", "superseded", "dropped"):
        if fact.kind == "rule" and fact.note == settled:
            status = settled
    return Instruction(fact.text, scopes.get(fact.kind, "unclassified"), status, fact.position)
