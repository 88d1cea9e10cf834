"""Assertions for your own tests: does what your agent needs survive a compaction?

For pytest there is also the fixture `survives`, which is available once Tenfold is installed.
"""

from __future__ import annotations

from tenfold.testing.losses import SurvivalError, SurvivalResult
from tenfold.testing.survival import assert_survives

__all__ = ["SurvivalError", "SurvivalResult", "assert_survives"]
