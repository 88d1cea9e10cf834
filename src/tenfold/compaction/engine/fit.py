"""Fits a Plan and its facts section to each other.

A fact that stays visible under the Plan need not be repeated in the section. So the section's size depends on what the
Plan hides, and what the Plan can keep depends on the section's size. At most three Plans are built to bring the two
together.

Above the hard limit a provider refuses the request, so there getting below it counts more than how a policy usually
compacts: `plan_last_resort` is one plan by code for all. And a plan reserves what a summary may take, of which code or
a model may write less: `use_leftover_room` gives the rest back to the outputs that were elided.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.engine.policy import Policy, Shares
from tenfold.compaction.facts.section import FactsSection, render_facts
from tenfold.compaction.facts.section_headings import NO_FACTS
from tenfold.compaction.plan.draft import (
    MINIMAL_SUMMARY_TOKENS,
    Draft,
    DraftPiece,
    Goal,
    RecallMode,
    build_replacements,
    find_unwritten,
    itemize_least,
)
from tenfold.compaction.plan.long_messages import shorten_request
from tenfold.compaction.plan.pipeline import Plan, build_plan, update_summaries, with_facts, with_remaining_budget
from tenfold.compaction.plan.protected import CURRENT_REQUEST
from tenfold.compaction.plan.stages import ClearStage, SummarizePrefixStage, SupersededReadsStage, TruncateStage
from tenfold.compaction.plan.stages.condense import STEP_STUB
from tenfold.compaction.plan.stages.elide import TruncateOutputsStage, share_room
from tenfold.compaction.summarize.fill import FilledPlan, count_frame
from tenfold.compaction.summarize.visible_text import build_section, drop_old_section
from tenfold.core.record.block import Replacement
from tenfold.core.record.fact import Fact
from tenfold.core.record.token_reading import NO_TOKENS, Counted


def fit_plan(
    draft: Draft, policy: Policy, facts: tuple[Fact, ...], goal: Goal, *, allow_summaries: bool = True
) -> Plan:
    """Runs the policy's stages on the draft, down to the goal's target, or to the least size where that is larger.

    With `allow_summaries` False, stages that need a written text are left out.
    """
    return with_remaining_budget(_PlanFitter(draft, policy, facts, goal, allow_summaries).fit())


def build_goal(
    draft: Draft, policy: Policy, target: Counted, *, recall: RecallMode, window: int | None = None, exact: bool = False
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
    facts = budget * goal.facts_budget // (goal.facts_budget + other_budget)
    if not goal.words_budget:  # a model's notes tell more in their room than facts do
        facts = max(budget * 6 // 10, facts)
    narrative = (budget - facts) * goal.narrative_budget // max(1, other_budget)
    words = goal.words_budget * facts // goal.facts_budget if goal.facts_budget else 0
    return replace(
        goal, facts_budget=facts, narrative_budget=narrative, user_budget=budget - facts - narrative, words_budget=words
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
        budget, words = self.goal.facts_budget, self.goal.words_budget
        largest = render_facts(self.facts, budget=budget, count=count, words_budget=words)
        plan = self._build_plan(replace(self.goal, facts_budget=largest.tokens))
        section = self._render_section(plan, self.goal.facts_budget)
        if plan.draft.has_unwritten_summary:
            return self._keep_more(plan, section)
        if not section.text and self.goal.fills_room:
            section = replace(section, text=NO_FACTS, tokens=sum(count([NO_FACTS])))
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
            new_section = self._render_section(plan, self.goal.facts_budget)  # it hides other messages
            new_tokens = new_section.tokens or section.tokens
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


# -- above the hard limit ----------------------------------------------------------------------------------------------

_SHARES = Shares(tail=0.15, users=0.0)
_MIN_OUTPUT_TOKENS = 200
"""Tokens that an output may take however little room there is."""
LAST_RESORT_NOTE = (
    "the policy's own stages do not get below the limit from {:,} tokens, so code wrote one summary of everything older"
)
"""Says in an Outcome that the last resort was taken."""


def plan_last_resort(
    draft: Draft, policy: Policy, facts: tuple[Fact, ...], *, target: Counted, limit: Counted, recall: RecallMode
) -> Plan:
    """Plans the view of at most `limit` tokens that keeps most, or the smallest one if none is below it.

    It aims at `target` first, and at less if what must stay leaves no room there.
    """
    fixed = itemize_least(draft)
    room = limit - sum(fixed.values()) + fixed.get(CURRENT_REQUEST, NO_TOKENS)
    plans: list[Plan] = []
    for aim, request_tokens in ((min(target, limit), room // 2), (Counted(1), NO_TOKENS)):
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


# -- what the written texts leave --------------------------------------------------------------------------------------

LEAST_SHARE = 0.1
"""The share of the target that has to be left over."""
_CUT_TOKENS = Counted(60)
"""What the frame of an output may take, with the marker of what was cut."""
_KINDS = ((STEP_STUB, ClearStage.name, TruncateStage.name, TruncateOutputsStage.name), (SupersededReadsStage.name,))
"""What is shown again: first what was hidden for its size alone, then what a later message has made out of date."""


def use_leftover_room(plan: Plan, filled: FilledPlan) -> tuple[Plan, FilledPlan]:
    """Returns the plan and its texts with elided outputs shown again, newest first, where the target has room."""
    draft, goal = plan.draft, plan.goal
    written = {each.first: each for each in filled.replacements}
    sizes = {first: sum(each.sizes, NO_TOKENS) for first, each in written.items()}
    room = goal.target - sum((sizes.get(p.first, p.tokens) for p in draft.pieces), draft.fixed_tokens)
    if not goal.fills_room or room < LEAST_SHARE * goal.target:
        return plan, filled
    pieces = list(draft.pieces)
    for kinds in _KINDS:
        for index in reversed(range(len(pieces))):
            piece = pieces[index]
            if piece.kind not in kinds or piece.protected_reason or room < _CUT_TOKENS:
                continue
            size = sizes[piece.first]
            longer = _show_more(draft, piece, written[piece.first], size + room, goal)
            if size < longer.tokens <= size + room:
                room -= longer.tokens - size
                pieces[index] = longer
                written.pop(piece.first)
                written |= {each.first: each for each in build_replacements(replace(draft, pieces=(longer,)))}
    draft = replace(draft, pieces=tuple(pieces))
    kept = tuple(written[first] for first in sorted(written))
    return replace(plan, draft=draft, tokens_after=draft.tokens), replace(filled, replacements=kept)


def _show_more(draft: Draft, piece: DraftPiece, written: Replacement, limit: Counted, goal: Goal) -> DraftPiece:
    """Returns an elided piece as it was before, with its outputs cut to head and tail if it is above the limit.

    The section of facts that was `written` into it stays.
    """
    at = find_unwritten(piece.shown_items) if piece.summary_budget else 0
    has_section = piece.summary_budget > 0 and len(written.shown_items) == len(piece.shown_items)
    section = [(written.shown_items[at], written.sizes[at])] if has_section else []
    limit -= sum(size for _, size in section)
    shown = piece.get_visible_messages()
    sizes = tuple(draft.measure_visible(shown))
    longer = replace(piece, kind="keep", shown_items=(), sizes=sizes, tokens=sum(sizes), reason="", summary_budget=0)
    outputs = [size for each, size in zip(shown, sizes, strict=True) if each.message.origin == "tool"]
    room = limit - longer.tokens + sum(outputs)
    if longer.tokens > limit and room > 0:
        share = max(1, share_room(room, outputs) - _CUT_TOKENS)
        cut = TruncateOutputsStage(share, share).apply(replace(draft, pieces=(longer,)), goal)
        longer = cut.pieces[0]
    if not section:
        return longer
    items = longer.get_sized_items()
    return longer.with_items([*section, *items] if at == 0 else [*items, *section], piece.kind, piece.reason)
