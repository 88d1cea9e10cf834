"""Assertions for your own tests: does what your agent needs survive a compaction, and does your store keep its word?

May import: `session` and what lies below it. For pytest there is also the fixture `survives`, which is available once
Tenfold is installed. Names are loaded when they are first used, since pytest imports this package for its plugin.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tenfold.testing.losses import SurvivalError, SurvivalResult
    from tenfold.testing.store_checks import check_store
    from tenfold.testing.survival import assert_survives

_MODULES = {
    "SurvivalError": "losses",
    "SurvivalResult": "losses",
    "assert_survives": "survival",
    "check_store": "store_checks",
}

__all__ = ["SurvivalError", "SurvivalResult", "assert_survives", "check_store"]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        message = f"module 'tenfold.testing' has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(importlib.import_module(f"tenfold.testing.{_MODULES[name]}"), name)
