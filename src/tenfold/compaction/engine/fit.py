"""Fits a Plan and its facts section to each other.

A fact that stays visible under the Plan need not be repeated in the section. So the section's size depends on what the
Plan hides, and what the Plan can keep depends on the section's size. At most three Plans are built to bring the two
together.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.engine.policy import Policy
from tenfold.compaction.facts.section import FactsSection, render_facts
from tenfold.compaction.plan.draft import MINIMAL_SUMMARY_TOKENS, Draft, Goal, RecallMode, itemize_least
from tenfold.compaction.plan.pipeline import Plan, build_plan, update_summaries, with_facts, with_remaining_budget
from tenfold.compaction.summarize.fill import count_frame
from tenfold.compaction.summarize.visible_text import build_section, drop_old_section
from tenfold.core.record.block import Fact


def fit_plan(
    draft: Draft, policy: Policy, facts: tuple[Fact, ...], goal: Goal, *, allow_summaries: bool = True
) -> Plan:
    """Runs the policy's stages on the draft, down to the goal's target, or to the least size where that is larger.

    With `allow_summaries` False, stages that need a written text are left out.
    """
    return with_remaining_budget(_PlanFitter(draft, policy, facts, goal, allow_summaries).fit())


def build_goal(
    draft: Draft, policy: Policy, target: int, *, recall: RecallMode, window: int | None = None, exact: bool = False
) -> Goal:
    """Builds the goal for a target: the policy's shares, scaled down where fixed messages leave a smaller budget."""
    overhead = count_frame(draft, recall, policy.summary)
    goal = policy.derive_goal(target, recall=recall, window=window, exact=exact)
    goal = replace(goal, summary_overhead=overhead)
    budget = max(
        MINIMAL_SUMMARY_TOKENS, target - sum(itemize_least(draft).values()) + MINIMAL_SUMMARY_TOKENS - overhead
    )
    other_budget = goal.narrative_budget + goal.user_budget
    if goal.facts_budget + other_budget <= budget:
        return goal
    facts = max(budget * 6 // 10, budget * goal.facts_budget // (goal.facts_budget + other_budget))
    narrative = (budget - facts) * goal.narrative_budget // max(1, other_budget)
    names = goal.names_budget * facts // goal.facts_budget if goal.facts_budget else 0
    return replace(
        goal, facts_budget=facts, narrative_budget=narrative, user_budget=budget - facts - narrative, names_budget=names
    )


class _PlanFitter(Struct, frozen=True):
    draft: Draft
    policy: Policy
    facts: tuple[Fact, ...]
    goal: Goal
    allow_summaries: bool

    def fit(self) -> Plan:
        """Builds the Plan, with a budget for the facts section that is as large as the section needs."""
        count = self.policy.counter.count
        largest = render_facts(self.facts, budget=self.goal.facts_budget, count=count, names=self.goal.names_budget)
        plan = self._build_plan(replace(self.goal, facts_budget=largest.tokens))
        section = self._render_section(plan, self.goal.facts_budget)
        if plan.draft.has_unwritten_summary:
            return self._keep_more(plan, section)
        return self._with_facts_section(plan, section) if plan.changed_pieces and section.text else plan

    def _keep_more(self, plan: Plan, section: FactsSection) -> Plan:
        """Uses the budget that the section leaves to keep more in view, if no more facts stay unshown then."""
        if plan.goal.facts_budget - section.tokens < self.goal.target // 5:
            return plan
        larger_plan = self._build_plan(replace(self.goal, facts_budget=section.tokens))
        larger_section = self._render_section(larger_plan, section.tokens)  # it hides other messages
        if len(larger_section.unshown) > len(section.unshown):
            return plan
        if larger_plan.draft.has_unwritten_summary or not larger_section.text:
            return larger_plan
        needed = larger_section.tokens + self.goal.summary_overhead
        return with_facts(larger_plan, needed) if larger_plan.tokens_after + needed <= self.goal.target else plan

    def _with_facts_section(self, plan: Plan, section: FactsSection) -> Plan:
        """Adds a facts section to a Plan that only elides tool output.

        Where the section does not fit the target, the stages run again to a lower size, and may then write a summary.
        """
        target = self.goal.target
        needed = section.tokens + self.goal.summary_overhead
        if plan.tokens_after + needed > target:
            stop = max(1, target - needed)
            plan = self._build_plan(replace(self.goal, facts_budget=section.tokens, stage_target=stop))
            new_tokens = self._render_section(plan, self.goal.facts_budget).tokens  # it hides other messages
            if new_tokens > section.tokens and plan.draft.has_unwritten_summary:
                plan = self._build_plan(replace(self.goal, facts_budget=new_tokens, stage_target=stop))
            needed = min(new_tokens + self.goal.summary_overhead, max(needed, target - plan.tokens_after))
        return plan if plan.draft.has_unwritten_summary else with_facts(plan, needed)

    def _build_plan(self, goal: Goal) -> Plan:
        """Builds the Plan for a goal. Earlier summaries lose their facts section where there is a newer one."""
        picked = build_plan(self.draft, goal, self.policy.stages, allow_summaries=self.allow_summaries)
        plan = update_summaries(picked, lambda message: drop_old_section(message, self.policy.summary))
        if plan.draft is picked.draft:
            return plan
        section = self._render_section(plan, goal.facts_budget)
        return picked if not section.text and section.unshown else plan

    def _render_section(self, plan: Plan, budget: int) -> FactsSection:
        return build_section(plan, self.facts, budget=budget, count=self.policy.counter.count)
