"""Fits a Plan and its facts section to each other.

A fact that stays visible under the Plan need not be repeated in the section. So the section's size depends on what the
Plan hides, and what the Plan can keep depends on the section's size. At most three Plans are built to bring the two
together.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from tenfold.plan.draft import MINIMAL_SUMMARY, Draft, Goal, Recall, least
from tenfold.plan.plan import Plan, pick, renewed, with_facts, with_rest
from tenfold.policy import Policy
from tenfold.record.block import Block, Fact
from tenfold.summarize.fill import beside_newer, frame_of, section_of
from tenfold.summarize.section import Section, render


def fitted(draft: Draft, policy: Policy, facts: tuple[Fact, ...], goal: Goal, *, texts: bool = True) -> Plan:
    """Runs the policy's stages on the draft, down to the goal's target, or to the least size where that is larger.

    With `allow_summaries` False, stages that need a written text are left out.
    """
    return with_rest(_Fitting(draft, policy, facts, goal, texts).plan())


def goal_for(
    draft: Draft, policy: Policy, target: int, *, recall: Recall, window: int | None = None, exact: bool = False
) -> Goal:
    """Builds the goal for a target: the policy's shares, scaled down where fixed messages leave a smaller budget."""
    overhead = frame_of(draft, recall, policy.summary)
    goal = policy.goal(target, recall=recall, whole=_whole(draft))
    goal = replace(goal, frame=overhead, window=window, exact=exact)
    budget = max(MINIMAL_SUMMARY, target - sum(least(draft).values()) + MINIMAL_SUMMARY - overhead)
    other_budget = goal.narrative + goal.users
    if goal.facts + other_budget <= budget:
        return goal
    facts = max(budget * 6 // 10, budget * goal.facts // (goal.facts + other_budget))
    narrative = (budget - facts) * goal.narrative // max(1, other_budget)
    names = goal.names * facts // goal.facts if goal.facts else 0
    return replace(goal, facts=facts, narrative=narrative, users=budget - facts - narrative, names=names)


def _whole(draft: Draft) -> int:
    """Counts the tokens of the session: what is in view, plus what the live Blocks took out of it."""
    blocks = [block for at in draft.view.marks.live if isinstance(block := draft.view.path.at(at), Block)]
    return draft.tokens + sum(block.tokens_before - block.tokens_after for block in blocks)


class _Fitting(Struct, frozen=True):
    draft: Draft
    policy: Policy
    facts: tuple[Fact, ...]
    goal: Goal
    texts: bool

    def plan(self) -> Plan:
        """Builds the Plan, with a budget for the facts section that is as large as the section needs."""
        count = self.policy.counter.count
        largest = render(self.facts, budget=self.goal.facts, count=count, names=self.goal.names, depth=self.goal.depth)
        plan = self._planned(replace(self.goal, facts=largest.tokens))
        section = self._section(plan, self.goal.facts)
        if _writes(plan):
            return self._closer(plan, section)
        return self._with_room(plan, section) if plan.changed and section.text else plan

    def _closer(self, plan: Plan, section: Section) -> Plan:
        """Uses the budget that the section leaves to keep more in view, if no more facts stay unshown then."""
        if plan.goal.facts - section.tokens < self.goal.target // 5:
            return plan
        larger_plan = self._planned(replace(self.goal, facts=section.tokens))
        larger_section = self._section(larger_plan, section.tokens)  # it hides other messages
        if len(larger_section.unshown) > len(section.unshown):
            return plan
        if _writes(larger_plan) or not larger_section.text:
            return larger_plan
        needed = larger_section.tokens + self.goal.frame
        return with_facts(larger_plan, needed) if larger_plan.tokens_after + needed <= self.goal.target else plan

    def _with_room(self, plan: Plan, section: Section) -> Plan:
        """Adds a facts section to a Plan that only elides tool output.

        Where the section does not fit the target, the stages run again to a lower size, and may then write a summary.
        """
        target = self.goal.target
        needed = section.tokens + self.goal.frame
        if plan.tokens_after + needed > target:
            stop = max(1, target - needed)
            plan = self._planned(replace(self.goal, facts=section.tokens, stop=stop))
            new_tokens = self._section(plan, self.goal.facts).tokens  # it hides other messages
            if new_tokens > section.tokens and _writes(plan):
                plan = self._planned(replace(self.goal, facts=new_tokens, stop=stop))
            needed = min(new_tokens + self.goal.frame, max(needed, target - plan.tokens_after))
        return plan if _writes(plan) else with_facts(plan, needed)

    def _planned(self, goal: Goal) -> Plan:
        """Builds the Plan for a goal. Earlier summaries lose their facts section where there is a newer one."""
        picked = pick(self.draft, goal, self.policy.stages, texts=self.texts)
        plan = renewed(picked, lambda message: beside_newer(message, self.policy.summary))
        if plan.draft is picked.draft:
            return plan
        section = self._section(plan, goal.facts)
        return picked if not section.text and section.unshown else plan

    def _section(self, plan: Plan, budget: int) -> Section:
        return section_of(plan, self.facts, budget=budget, count=self.policy.counter.count)


def _writes(plan: Plan) -> bool:
    """Whether the Plan contains a summary to write. The facts then go into that."""
    return any(p.allotment for p in plan.changed)
