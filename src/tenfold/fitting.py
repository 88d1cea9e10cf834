"""A Plan and the section of facts that goes with it, each sized by the other.

A fact that stands in view under the Plan need not be repeated, so the size of the section depends on what the Plan
hides, and what the Plan can keep on the size of the section. Three Plans at most are made to bring them together.
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
    """The policy's stages over the draft, down to the goal's target, or to the least size where that is above it.

    With `texts` False no stage that needs a text written takes part.
    """
    return with_rest(_Fitting(draft, policy, facts, goal, texts).plan())


def goal_for(
    draft: Draft, policy: Policy, target: int, *, recall: Recall, window: int | None = None, exact: bool = False
) -> Goal:
    """What a Plan for that target is to reach: the policy's shares, smaller where what cannot go leaves less room."""
    frame = frame_of(draft, recall, policy.summary)
    goal = policy.goal(target, recall=recall, whole=_whole(draft))
    goal = replace(goal, frame=frame, window=window, exact=exact)
    room = max(MINIMAL_SUMMARY, target - sum(least(draft).values()) + MINIMAL_SUMMARY - frame)
    rest = goal.narrative + goal.users
    if goal.facts + rest <= room:
        return goal
    facts = max(room * 6 // 10, room * goal.facts // (goal.facts + rest))
    narrative = (room - facts) * goal.narrative // max(1, rest)
    names = goal.names * facts // goal.facts if goal.facts else 0
    return replace(goal, facts=facts, narrative=narrative, users=room - facts - narrative, names=names)


def _whole(draft: Draft) -> int:
    """Tokens of the session: of what is in view, and of what the Blocks in force took out of it."""
    blocks = [block for at in draft.view.marks.live if isinstance(block := draft.view.path.at(at), Block)]
    return draft.tokens + sum(block.tokens_before - block.tokens_after for block in blocks)


class _Fitting(Struct, frozen=True):
    draft: Draft
    policy: Policy
    facts: tuple[Fact, ...]
    goal: Goal
    texts: bool

    def plan(self) -> Plan:
        """The Plan with room for what the section takes and no more."""
        count = self.policy.counter.count
        wanted = render(self.facts, budget=self.goal.facts, count=count, names=self.goal.names, depth=self.goal.depth)
        plan = self._planned(replace(self.goal, facts=wanted.tokens))
        section = self._section(plan, self.goal.facts)
        if _writes(plan):
            return self._closer(plan, section)
        return self._with_room(plan, section) if plan.changed and section.text else plan

    def _closer(self, plan: Plan, section: Section) -> Plan:
        """Keeps more in view with the room that the section leaves empty, where as many facts are shown then."""
        if plan.goal.facts - section.tokens < self.goal.target // 5:
            return plan
        closer = self._planned(replace(self.goal, facts=section.tokens))
        there = self._section(closer, section.tokens)  # other messages are hidden there
        if len(there.unshown) > len(section.unshown):
            return plan
        if _writes(closer) or not there.text:
            return closer
        apart = there.tokens + self.goal.frame
        return with_facts(closer, apart) if closer.tokens_after + apart <= self.goal.target else plan

    def _with_room(self, plan: Plan, section: Section) -> Plan:
        """A Plan that only elides, with room for the facts that go with the outputs; one that summarises if need be."""
        target = self.goal.target
        needed = section.tokens + self.goal.frame
        if plan.tokens_after + needed > target:
            stop = max(1, target - needed)
            plan = self._planned(replace(self.goal, facts=section.tokens, stop=stop))
            again = self._section(plan, self.goal.facts).tokens  # other messages are hidden there
            if again > section.tokens and _writes(plan):
                plan = self._planned(replace(self.goal, facts=again, stop=stop))
            needed = min(again + self.goal.frame, max(needed, target - plan.tokens_after))
        return plan if _writes(plan) else with_facts(plan, needed)

    def _planned(self, goal: Goal) -> Plan:
        """The Plan for a goal, with earlier summaries as they stand beside a newer section, where there is one."""
        picked = pick(self.draft, goal, self.policy.stages, texts=self.texts)
        plan = renewed(picked, lambda message: beside_newer(message, self.policy.summary))
        if plan.draft is picked.draft:
            return plan
        section = self._section(plan, goal.facts)
        return picked if not section.text and section.unshown else plan

    def _section(self, plan: Plan, budget: int) -> Section:
        return section_of(plan, self.facts, budget=budget, count=self.policy.counter.count)


def _writes(plan: Plan) -> bool:
    """Whether a summary is to be written, which holds the facts."""
    return any(p.allotment for p in plan.changed)
