"""The default policy: act rarely, in one batch, and deep.

Prepares at 70 % and acts at 85 % of the window less the output reserve, down to 40 %. Rewriting old messages a little
before every call would break the provider's prompt cache, and cost more than doing nothing.
"""

from __future__ import annotations

from tenfold.config.policy import Policy, Shares
from tenfold.meter.counters import Counter
from tenfold.meter.estimators import Estimator
from tenfold.plan.stages import ClearStage, MergeStage, SummarizePrefixStage, SupersededReadsStage, TruncateStage
from tenfold.summarize.write import SummarySettings
from tenfold.trigger.limits import FillTrigger

MODEL_SHARES = Shares(tail=0.15, facts=0.45, narrative=0.20, names=0.12)
"""Shares of the target where a model writes the narrative."""
CODE_SHARES = Shares(tail=0.15, facts=0.65, narrative=0.05, names=0.12)
"""Shares without a model: lines that code picks add little to the facts (docs/decisions/0010)."""


def tenfold(counter: Counter, *, summary: SummarySettings | None = None) -> Policy:
    """The policy `tenfold`, counting with `counter`."""
    return Policy(
        name="tenfold",
        trigger=FillTrigger(),
        stages=(SupersededReadsStage(), TruncateStage(), ClearStage(), SummarizePrefixStage(), MergeStage()),
        estimator=Estimator("anchored"),
        counter=counter,
        summary=summary or SummarySettings(),
        shares=MODEL_SHARES,
        code_shares=CODE_SHARES,
        can_prepare=True,
    )
