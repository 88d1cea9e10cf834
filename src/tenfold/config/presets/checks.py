"""Checks that presets make of the numbers they are given."""

from __future__ import annotations

from collections.abc import Mapping

from tenfold.errors import UsageError


def check_least(numbers: Mapping[str, int], least: int) -> None:
    """Raises `UsageError` naming the first number that is smaller than `least`."""
    for name, value in numbers.items():
        if value < least:
            raise UsageError(f"{name} is {value}; give a number of {least} or more")
