"""What every policy does above the hard limit where its own stages do not get below it: one plan by code for all.

A provider refuses a request above the limit, so here getting below it counts more than how a policy usually compacts. A
current request that is too long and outputs that are too long are shown by head and tail, and one summary by code takes
the place of everything else.
"""

from __future__ import annotations

from msgspec.structs import replace

from tenfold.compaction.engine.fit import build_goal, fit_plan
from tenfold.compaction.engine.policy import Policy, Shares
from tenfold.compaction.plan.draft import Draft, RecallMode, itemize_least
from tenfold.compaction.plan.long_messages import shorten_request
from tenfold.compaction.plan.pipeline import Plan
from tenfold.compaction.plan.protected import CURRENT_REQUEST
from tenfold.compaction.plan.stages import SummarizePrefixStage
from tenfold.compaction.plan.stages.elide import TruncateOutputsStage
from tenfold.core.record.block import Fact

_SHARES = Shares(tail=0.15, users=0.0)
_MIN_OUTPUT_TOKENS = 200
"""Tokens that an output may take however little room there is."""
NOTE = (
    "the policy's own stages do not get below the limit from {:,} tokens, so code wrote one summary of everything older"
)
"""Says in an Outcome that the last resort was taken."""


def plan_last_resort(
    draft: Draft, policy: Policy, facts: tuple[Fact, ...], *, target: int, limit: int, recall: RecallMode
) -> Plan:
    """Plans the view of at most `limit` tokens that keeps most, or the smallest one if none is below it.

    It aims at `target` first, and at less if what must stay leaves no room there.
    """
    fixed = itemize_least(draft)
    room = limit - sum(fixed.values()) + fixed.get(CURRENT_REQUEST, 0)
    plans: list[Plan] = []
    for aim, request_tokens in ((min(target, limit), room // 2), (1, 0)):
        shortened = shorten_request(draft, request_tokens, recall)
        output_tokens = max(_MIN_OUTPUT_TOKENS, room // 3)
        stages = (TruncateOutputsStage(output_tokens, output_tokens // 4), SummarizePrefixStage())
        summary = replace(policy.summary, models=())
        by_code = replace(policy, stages=stages, shares=_SHARES, summary=summary)
        plans.append(fit_plan(shortened, by_code, facts, build_goal(shortened, by_code, aim, recall=recall)))
        if plans[-1].tokens_after <= limit:
            break
    smallest = min(plans, key=lambda plan: plan.tokens_after)
    return replace(smallest, tokens_before=draft.tokens)
