"""Reads from a pattern which characters its work begins on, and what its matches begin with."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable
from typing import Any

Pattern = re.Pattern[str] | re.Pattern[bytes]
_PARSER: Any = importlib.import_module("re._parser")
_EMPTY = {"AT", "ASSERT", "ASSERT_NOT"}
"""The parts that match no characters."""
_MOST_BEGINNINGS = 6
"""From how many beginnings of a match each part goes on, and how many characters of a class are taken."""
_MOST_WORDS = 60
_LONGEST = 32
"""How many words a pattern has at most, and how many characters each."""


def parse(pattern: Pattern) -> Any:  # noqa: ANN401  the parser exports no type of what it returns
    """Returns the parts of a pattern: pairs of an operation and its arguments."""
    text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    return _PARSER.parse(text, pattern.flags)


def find_starts(parts: Any, characters: Iterable[str]) -> set[str]:  # noqa: ANN401
    """Returns those of the characters on which work may begin that takes longer than one look at a character."""
    classes: list[list[Any]] = []
    _find_classes(parts, classes)
    return {each for each in characters if any(_is_member(each, members) for members in classes)}


def find_words(parts: Any) -> tuple[str, ...]:  # noqa: ANN401
    """Returns what a match may begin with, up to each part of the pattern, and the characters that it names."""
    words: dict[str, None] = {}
    _read(parts, [""], words)
    return tuple(_choose([each for each in words if 0 < len(each) <= _LONGEST], _MOST_WORDS))


def _find_classes(parts: Any, classes: list[list[Any]]) -> bool:  # noqa: ANN401
    """Adds the classes of characters that a match may begin with. Tells whether it may go on after the parts."""
    for operation, value in parts:
        name = str(operation)
        inner = _list_inner(name, value)
        are_empty = [_find_classes(each, classes) for each in inner]
        if not inner and name not in _EMPTY:
            classes.append(_get_class(name, value))
        if name not in _EMPTY and not any(are_empty) and not (name.endswith("REPEAT") and value[0] == 0):
            return False
    return True


def _read(parts: Any, beginnings: list[str], words: dict[str, None]) -> list[str]:  # noqa: ANN401
    """Adds the beginnings of a match up to each of the parts, and returns those up to their end."""
    for operation, value in parts:
        name = str(operation)
        inner = _list_inner(name, value)
        if name != "LITERAL":
            words |= dict.fromkeys(beginnings)
        if name in _EMPTY:
            for each in inner:
                _read(each, [""], words)
        elif inner:
            longer = [
                end
                for number, each in enumerate(inner)
                for end in _read(each, beginnings[number % len(beginnings) :: len(inner)], words)
            ]
            if name.endswith("REPEAT"):
                for _ in range(min(value[0], _LONGEST) - 1):
                    longer = _read(inner[0], longer, {})
                longer = longer if value[0] else [*beginnings, *longer]
            beginnings = _choose(longer, _MOST_BEGINNINGS)
        else:
            characters = _choose_characters(_get_class(name, value))
            if name != "LITERAL":
                words |= dict.fromkeys(characters)
            size = max(len(beginnings), len(characters))
            beginnings = [beginnings[at % len(beginnings)] + characters[at % len(characters)] for at in range(size)]
    words |= dict.fromkeys(beginnings)
    return beginnings


def _choose(texts: list[str], most: int) -> list[str]:
    """Returns at most so many of the texts, from all over the list."""
    return texts if len(texts) <= most else [texts[at * len(texts) // most] for at in range(most)]


def _list_inner(name: str, value: Any) -> list[Any]:  # noqa: ANN401
    """Returns the lists of parts inside a part: the alternatives, or what is in a group or repeated."""
    match name:
        case "BRANCH":
            return list(value[1])
        case "SUBPATTERN":
            return [value[3]]
        case "ATOMIC_GROUP":
            return [value]
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            return [value[2]]
        case "ASSERT" | "ASSERT_NOT" if value[0] > 0:
            return [value[1]]
    return []


def _get_class(name: str, value: Any) -> list[tuple[str, Any]]:  # noqa: ANN401
    """Returns the members of the class of characters that a part is. What is none counts as that of all characters."""
    match name:
        case "IN":
            return [(str(operation), member) for operation, member in value]
        case "LITERAL":
            return [(name, value)]
        case "NOT_LITERAL":
            return [("NEGATE", None), ("LITERAL", value)]
    return [("NEGATE", None)]


def _choose_characters(members: list[tuple[str, Any]]) -> list[str]:
    """Returns characters of a class: common ones, those that it names, and the first of each of its ranges."""
    named = [
        chr(member if name == "LITERAL" else member[0]) for name, member in members if name in {"LITERAL", "RANGE"}
    ]
    known = [each for each in dict.fromkeys((*named, *"a0 .\n")) if _is_member(each, members)]
    return _choose(known, _MOST_BEGINNINGS) or ["a"]


def _is_member(character: str, members: list[tuple[str, Any]]) -> bool:
    """Tells whether a class has a character, whatever its case."""
    codes = {ord(case) for case in (character, character.lower(), character.upper()) if len(case) == 1}
    kinds = {"D": character.isdigit(), "S": character.isspace(), "W": character.isalnum() or character == "_"}
    has = is_negated = False
    for name, member in members:
        match name:
            case "NEGATE":
                is_negated = True
            case "LITERAL":
                has = has or member in codes
            case "RANGE":
                has = has or any(member[0] <= code <= member[1] for code in codes)
            case _:  # CATEGORY, such as CATEGORY_NOT_DIGIT
                has = has or kinds[str(member).rpartition("_")[2][0]] is ("NOT" not in str(member))
    return has is not is_negated
