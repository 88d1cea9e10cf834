"""The texts by which a provider says that a request was larger than the window, and those that only look alike."""

from __future__ import annotations

import re

from msgspec import Struct

_NUMBER = r"\d[\d,]{0,15}"
_LIMIT = rf"(?P<limit>{_NUMBER})"


class ErrorPattern(Struct, frozen=True):
    """One known error text: its provider, its pattern, where it was seen, and whether it means an overflow.

    `evidence` is an issue as owner/repo#1, a repository, or the title of a page.
    """

    provider: str
    pattern: re.Pattern[str]
    evidence: str
    is_overflow: bool


def build_overflow(provider: str, pattern: str, evidence: str, *, is_overflow: bool = True) -> ErrorPattern:
    """Builds the row of an overflow. `<n>` stands for a number, `<limit>` for the most tokens a request may have."""
    text = pattern.replace("<n>", _NUMBER).replace("<limit>", _LIMIT)
    return ErrorPattern(provider, re.compile(text, re.IGNORECASE), evidence, is_overflow)


def build_look_alike(provider: str, pattern: str, evidence: str) -> ErrorPattern:
    """Builds the row of a text that only looks like an overflow: a limit of the account, or of the answer."""
    return build_overflow(provider, pattern, evidence, is_overflow=False)
