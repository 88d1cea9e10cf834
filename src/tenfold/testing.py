"""For the tests of people who build agents: what has to survive a compaction, as an assertion.

With pytest there is also the fixture `survives`, which is there once Tenfold is installed.
"""

from __future__ import annotations

from tenfold.evals.losses import Lost, Survived
from tenfold.evals.surviving import assert_survives

__all__ = ["Lost", "Survived", "assert_survives"]
