"""One compaction after the decision: what it may take, and the ways in which it can end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.engine.call import Call, describe_demand
from tenfold.compaction.engine.fit import build_goal
from tenfold.compaction.engine.policy import Policy
from tenfold.compaction.plan.draft import MINIMAL_SUMMARY_TOKENS, Draft, Goal, itemize_least
from tenfold.compaction.plan.long_messages import count_unanswered_tokens
from tenfold.compaction.plan.pipeline import Plan
from tenfold.compaction.plan.protected import CURRENT_REQUEST
from tenfold.compaction.summarize.fill import FilledPlan, count_visible_facts
from tenfold.compaction.summarize.literals import count_unconfirmed
from tenfold.compaction.trigger.economy import build_receipt
from tenfold.compaction.trigger.limits import Decision
from tenfold.core.record.ask import EngineResult, Outcome
from tenfold.core.record.block import Block, ModelCost, Receipt
from tenfold.core.record.entry import Attempt
from tenfold.core.record.fact import Fact
from tenfold.core.record.token_reading import NO_TOKENS, Counted, Reading, Tokens

UnchangedStatus = Literal["nothing", "cancelled", "unsatisfiable", "failed"]
AttemptStatus = Literal["nothing", "unsatisfiable", "failed"]


class CompactionCase(Struct, frozen=True):
    """One compaction after the decision, and the ways in which it can end, with the numbers that explain it.

    `facts` are those of everything in view, empty where the decision is not to act. `reading` is the size of the view
    as the provider counts it. `notes` say what else was decided. `waiting_for_model` says why a policy that shows
    nothing without a model does nothing yet.
    """

    draft: Draft
    policy: Policy
    call: Call
    decision: Decision[Counted]
    facts: tuple[Fact, ...]
    now: int
    new_id: Callable[[], str]
    reading: Reading
    notes: tuple[str, ...] = ()
    waiting_for_model: str = ""

    def with_texts_by_code(self, note: str) -> CompactionCase:
        """Returns the case with every text written by code."""
        settings = replace(self.policy.summary, models=(), on_failure="ladder")
        return replace(self, policy=replace(self.policy, summary=settings), notes=(*self.notes, note))

    @property
    def token_factor(self) -> float:
        """How many of its model's tokens one of the counter's is taken for, where a text must fit that model.

        For a counter by characters the reports say so.
        """
        if self.reading.source == "reported" and self.policy.counter.name == "chars4":
            return self.reading.slope
        return self.policy.token_factor

    @property
    def minimum_saving(self) -> Counted:
        """The tokens that a Block must save at least.

        With an explicit target, and after a refusal as too long, any saving is enough. Above the hard limit the
        policy's share of the view is, whatever its number of tokens.
        """
        if self.call.to is not None or self.call.demand == "overflow":
            return Counted(1)
        if self.decision.need == "hard":
            return Counted(max(1, int(self.draft.tokens * self.policy.shrink_share)))
        return self.policy.get_minimum_shrink(self.draft.tokens)

    @property
    def target(self) -> Counted:
        """The target that was asked for: the explicit one, else where the trigger aims."""
        return self.decision.target if self.call.to is None else self.call.to

    @property
    def itemized_least(self) -> dict[str, Tokens]:
        """What the view cannot go below, as items, and what the provider counts besides the view, in its tokens."""
        parts = itemize_least(self.draft).items()
        items: dict[str, Tokens] = {name: self.reading.to_provider_part(tokens) for name, tokens in parts}
        overhead = self.reading.floor
        return items | {"counted by the provider beside the view": overhead} if overhead else items

    @property
    def _is_known_unsatisfiable(self) -> bool:
        """Whether it was reported before that nothing fits the limit by the Reading, and no target was reached since.

        It holds over Blocks only where it follows from what reports hold beside everything that is counted. Else it is
        reported again after each Block.
        """
        return self.decision.already_recorded and self.policy.estimator.covers_overhead

    @property
    def request_budget(self) -> Counted:
        """The tokens that the current request may take; of a longer one, head and tail are shown.

        That is the policy's share of the target, and at most half of what the other fixed parts leave.
        """
        if not self.policy.can_shorten:
            return self.decision.target
        least = itemize_least(self.draft)
        others = sum(least.values(), NO_TOKENS) - least.get(CURRENT_REQUEST, NO_TOKENS) - least["summary"]
        share = Counted(int(self.decision.target * self.policy.shares.request))
        return min(share, (self.decision.target - others) // 2)

    def compute_head_budget(self, kept: Counted) -> int:
        """Computes for how many tokens the first messages stay as they are, because the provider's cache holds them.

        A target of a quarter of the limit has none to spare. There are none either where a target was named, which no
        request need follow, and where the provider has refused what was sent. For `kept` see `build_goal`.
        """
        if self.call.to is not None or self.call.demand == "overflow":
            return 0
        decision = self.decision
        share = int((decision.target - kept) * self.policy.shares.head)
        return max(0, min(share, decision.target - decision.limit // 4))

    def count_kept_step(self) -> Counted:
        """Counts the tokens of the newest step if it stays whole because no answer follows its results, else 0.

        It may take half of the limit and three quarters of the target. With an explicit target, which nothing may
        exceed, it may take a quarter of that.
        """
        if not self.policy.can_shorten:
            return NO_TOKENS
        limit, target = self.decision.limit, self.decision.target
        most = min(limit // 2, target * 3 // 4) if self.call.to is None else target // 4
        tokens = count_unanswered_tokens(self.draft)
        return tokens if tokens <= most else NO_TOKENS

    def build_goal(self, draft: Draft, kept: Counted) -> Goal:
        """Builds the goal. `kept` tokens of its target are for a step that stays whole; the shares are of the rest.

        But a model's notes have their share of the whole target.
        """
        call, target = self.call, self.decision.target - kept
        is_exact = call.to is not None
        goal = build_goal(draft, self.policy, target, recall=call.recall, window=call.window, exact=is_exact)
        sizes = (goal.target + kept, goal.stage_target + kept, goal.tail_budget + kept)
        goal = replace(goal, target=sizes[0], stage_target=sizes[1], tail_budget=sizes[2])
        if not goal.words_budget:
            return goal
        notes = goal.narrative_budget * goal.target // max(target, 1) + goal.summary_overhead
        fixed = sum(itemize_least(draft).values(), NO_TOKENS) - MINIMAL_SUMMARY_TOKENS
        return replace(goal, narrative_budget=min(notes, target - fixed - goal.facts_budget))

    def is_worth_a_block(self, plan: Plan) -> bool:
        """Whether a plan changes anything, and saves what a Block must save: above the hard limit, to get below it."""
        saved = plan.tokens_before - plan.tokens_after
        return bool(plan.changed_pieces) and saved >= (1 if self._is_brought_below_limit(plan) else self.minimum_saving)

    def _is_brought_below_limit(self, plan: Plan) -> bool:
        """Whether the view is above the hard limit and the plan gets it below."""
        return self.decision.need == "hard" and plan.tokens_after <= self.decision.limit < plan.tokens_before

    def explain_small_saving(self, plan: Plan) -> str:
        """Says how little the plan saves, and how much a Block must save."""
        before = self.reading.to_provider(plan.tokens_before)
        sizes = max(NO_TOKENS, plan.tokens_before - plan.tokens_after), self.minimum_saving
        saved, worth = map(self.reading.to_provider_part, sizes)
        return f"the best plan saves {saved:,} of {before:,} tokens; the least worth a Block is {worth:,}"

    def build_outcome(self, status: UnchangedStatus, reason: str) -> Outcome:
        """Builds an Outcome that leaves the view as it is."""
        tokens = self.draft.tokens
        itemised = self.itemized_least if self.decision.target_missed or status == "unsatisfiable" else {}
        return Outcome(
            status, reason, tokens, tokens, self.target, policy=self.policy.name, itemised=itemised, notes=self.notes
        )

    def build_attempt(self, status: AttemptStatus, reason: str, spent: ModelCost) -> Attempt:
        """Builds the entry that records an attempt which cost something or proved fruitless."""
        return Attempt(
            self.new_id(),
            None,
            self.call.run,
            self.now,
            self.policy.name,
            status,
            reason,
            self.draft.tokens,
            self.target,
            spent,
        )

    def refuse(self, reason: str) -> EngineResult:
        """Ends without a Block. Records an Attempt in the log where another try would be in vain."""
        is_hopeless = self.decision.status == "unsatisfiable" or bool(self.decision.doubt)
        status: AttemptStatus = "unsatisfiable" if is_hopeless else "nothing"
        reason = self.decision.doubt or reason
        is_fruitless = self.decision.should_act and not self.waiting_for_model
        is_worth_recording = not self.decision.already_recorded if is_hopeless else is_fruitless
        entry = self.build_attempt(status, reason, ModelCost()) if is_worth_recording else None
        return EngineResult(self.build_outcome(status, reason), entry)

    def fail(self, filled: FilledPlan) -> EngineResult:
        """Ends without a usable summary, where the policy does not go on without one."""
        outcome = replace(self.build_outcome("failed", filled.failure), spent=filled.spent)
        return EngineResult(outcome, self.build_attempt("failed", filled.failure, filled.spent))

    def build_receipt(self, before: Counted, after: Counted, summary_price: float | None) -> Receipt | None:
        """Builds the receipt of a view that shrinks from `before` to `after` tokens, in those that the provider bills.

        None where the model's prices are not known.
        """
        call, reading = self.call, self.reading
        rates = call.find_rates(call.model) if call.find_rates and call.model else None
        if rates is None:
            return None
        if call.to is not None:  # the Reading is the plain count, as the target is
            reading = self.policy.estimator.read(
                before, call.calibration, model=call.model, window=call.window, counter=self.policy.counter.name
            )
        saved, rewritten = map(reading.to_provider_part, (before - after, max(NO_TOKENS, after - call.floor)))
        return build_receipt(saved, rewritten, rates, summary_price)

    def succeed(self, plan: Plan, block_id: str, filled: FilledPlan) -> EngineResult:
        """Ends with a Block, and the Outcome with its figures."""
        before = self.draft.tokens
        replaced_sizes = {r.first: sum(r.sizes, NO_TOKENS) for r in filled.replacements}
        after = sum((replaced_sizes.get(p.first, p.tokens) for p in plan.draft.pieces), self.draft.fixed_tokens)
        receipt = self.build_receipt(before, after, filled.spent.price)
        newest = self.draft.view.find_newest_block()
        block = Block(
            block_id,
            None,
            self.call.run,
            self.now,
            self.policy.name,
            self.policy.counter.name,
            filled.replacements,
            (),
            filled.rung,
            None if newest is None else newest.id,
            describe_demand(self.call),
            before,
            after,
            filled.unshown_facts,
            filled.dropped_facts,
            filled.notes,
            filled.spent,
            supplied_details=filled.supplied_details,
            batches=filled.batches.added,
            top_batches=filled.batches.top,
            receipt=receipt,
            is_unsatisfiable=self._is_known_unsatisfiable,
            files=filled.files,
        )
        block = self.draft.view.with_facts(block, filled.carried_facts)
        missed = after > self.target or self.decision.target_missed
        outcome = Outcome(
            "compacted",
            self.decision.reason,
            before,
            after,
            self.target,
            target_missed=missed,
            block=block_id,
            policy=self.policy.name,
            rung=filled.rung,
            facts=count_visible_facts(plan, filled),
            itemised=self.itemized_least if missed else {},
            notes=filled.notes,
            spent=filled.spent,
            receipt=receipt,
            unconfirmed=count_unconfirmed(filled.replacements),
        )
        return EngineResult(outcome, block)
