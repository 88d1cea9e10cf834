"""Checks that presets make of the numbers they are given."""

from __future__ import annotations

from collections.abc import Mapping

from tenfold.errors import UsageError


def check_least(numbers: Mapping[str, object], least: int) -> None:
    """Raises `UsageError` naming the first value that is no whole number, or smaller than `least`."""
    for name, value in numbers.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise UsageError(f"{name} is {value!r}; give a whole number of {least} or more")


def is_share(value: object) -> bool:
    """Whether a value is a share of a whole: a number above 0 and at most 1."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1
