"""The default policy: act rarely, in one batch, and deep.

Prepares at 70 % and acts at 85 % of the window less the output reserve, down to 40 %. Rewriting old messages a little
before every call would break the provider's prompt cache, and cost more than doing nothing.
"""

from __future__ import annotations

from tenfold.compaction.engine.policy import Policy, Shares
from tenfold.compaction.plan.stages import (
    ClearStage,
    MergeStage,
    SummarizePrefixStage,
    SupersededReadsStage,
    TruncateStage,
)
from tenfold.compaction.summarize.write import SummarySettings
from tenfold.compaction.trigger.limits import FillTrigger
from tenfold.core.meter.counters import Counter

SHARES = Shares(tail=0.15, users=0.0, facts=0.25, narrative=0.60, names=0.05, request=0.25)
"""Shares of the target: the text of a summary gets the room, whoever writes it (docs/decisions/0018)."""


def tenfold(counter: Counter, *, summary: SummarySettings | None = None) -> Policy:
    """The policy `tenfold`, counting with `counter`."""
    return Policy(
        name="tenfold",
        trigger=FillTrigger(),
        stages=(SupersededReadsStage(), TruncateStage(), ClearStage(), SummarizePrefixStage(), MergeStage()),
        counter=counter,
        summary=summary or SummarySettings(),
        shares=SHARES,
        can_prepare=True,
    )
