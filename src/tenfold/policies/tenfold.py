"""The default policy: act rarely, in one batch, and deep.

Prepares at 70 % and acts at 85 % of the window less the output reserve, down to 40 %. Rewriting old messages a little
before every call would break the provider's prompt cache, and cost more than doing nothing.
"""

from __future__ import annotations

from tenfold.meter.counters import Counter
from tenfold.meter.estimators import Estimator
from tenfold.plan.stages import Clear, Merge, SummarizePrefix, SupersededReads, Truncate
from tenfold.policy import Policy, Shares
from tenfold.summarize.summarize import Settings
from tenfold.trigger.triggers import Fill

WRITTEN = Shares(tail=0.15, facts=0.45, narrative=0.20, names=0.12)
"""Shares of the target where a model writes the narrative."""
BY_CODE = Shares(tail=0.15, facts=0.65, narrative=0.05, names=0.12)
"""Shares without a model: lines that code picks add little to the facts (docs/decisions/0010)."""


def tenfold(counter: Counter, *, summary: Settings | None = None) -> Policy:
    """The policy `tenfold`, counting with `counter`."""
    return Policy(
        name="tenfold",
        trigger=Fill(),
        stages=(SupersededReads(), Truncate(), Clear(), SummarizePrefix(), Merge()),
        estimator=Estimator("anchored"),
        counter=counter,
        summary=summary or Settings(),
        shares=WRITTEN,
        by_code=BY_CODE,
        prepares=True,
    )
