"""Runs one compaction, from a view to a Block, without any I/O. Read this page first.

    measure -> decide_case -> plan_case -> consult_hooks -> write_summaries -> Block

`compact` is a generator. It yields tuples of Asks (call a model, consult a hook) and receives tuples of Answers. Sync
and async drivers, a gateway and a replay of recorded answers therefore all run the same code. The engine appends
nothing to the store: the driver does that, with the entry in the `EngineResult`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tenfold.config.policy import Policy
from tenfold.engine.fit import build_goal, fit_plan
from tenfold.meter.counters import measure_messages
from tenfold.meter.estimators import Calibration
from tenfold.meter.reading import Reading, TokenCache, build_plain_reading, build_reading
from tenfold.plan.draft import Draft, RecallMode, itemize_least, start_draft
from tenfold.plan.long_request import count_shortenable_tokens, shorten_request
from tenfold.plan.pipeline import Plan
from tenfold.plan.protected import CURRENT_REQUEST
from tenfold.plan.recent_tail import count_entries_since
from tenfold.record.ask import Answer, Ask, ConsultAsk, EngineResult, Outcome
from tenfold.record.block import Block, Fact, ModelCost
from tenfold.record.entry import Attempt
from tenfold.summarize.fill import FilledPlan, FillRequest, collect_facts, count_visible_facts, fill_plan
from tenfold.trigger.guard import CompactionHistory, decide
from tenfold.trigger.limits import Decision, Demand, Limits
from tenfold.view.fold import View
from tenfold.view.units import VisibleMessage, get_step_messages

Effects = Generator[tuple[Ask, ...], tuple[Answer, ...], EngineResult]
"""What `compact` returns to a driver: a generator of Asks that receives Answers and ends in an `EngineResult`."""


class Call(Struct, frozen=True):
    """One request for a compaction, with everything that the engine may not look up by itself.

    `to` is an explicit target in tokens of the view. Without it, the policy's trigger and `window` decide. `floor` is
    the tokens that are sent besides the view: a system prompt and tools that are no messages of it. `calibration` is
    what providers reported so far. With `has_before_hooks`, the before-hooks are consulted once there is a plan.
    `limits` are the policy's limits for this window and floor, if the caller has computed them already.
    """

    demand: Demand = "manual"
    to: int | None = None
    window: int | None = None
    output_reserve: int = 0
    model: str = ""
    floor: int = 0
    recall: RecallMode = "none"
    focus: str = ""
    calibration: Calibration = Calibration()
    has_before_hooks: bool = False
    run: str = ""
    limits: Limits | None = None


class Measures(Struct, frozen=True):
    """How a compaction measures: a cache of message tokens, and a function that counts a whole view."""

    token_cache: TokenCache
    count_view: Callable[[View], int]


def compact(
    view: View, policy: Policy, call: Call, measures: Measures, *, now: int, new_id: Callable[[], str]
) -> Effects:
    """Compacts the view if that is called for.

    Returns an `EngineResult`: the Outcome, and the entry to append, if any. `now` is in microseconds UTC.
    """
    measured = measure(view, policy, call, measures)
    if measured.skip_reason:
        return skip(measured)
    case = decide_case(view, measured, measures, now=now, new_id=new_id)
    if not case.decision.should_act:
        return case.refuse(case.decision.reason)
    plan = plan_case(case)
    if not case.is_worth_a_block(plan):
        return case.refuse(case.explain_small_saving(plan))
    request = yield from consult_hooks(case, plan)
    if isinstance(request, EngineResult):
        return request
    plan, filled = yield from write_summaries(case, plan, request)
    return case.fail(filled) if filled.failure else case.succeed(plan, request.block, filled)


class Measured(Struct, frozen=True):
    """The size of a view, and what it is held against: the first step of a compaction.

    `limits` is None where the window is unknown. `skip_reason` says why an automatic check ends here, "" where it must
    be looked into; most checks end here, because the view is below the trigger.
    """

    policy: Policy
    call: Call
    reading: Reading
    limits: Limits | None
    too_many_entries: bool
    skip_reason: str


def measure(view: View, policy: Policy, call: Call, measures: Measures) -> Measured:
    """Measures the view and computes the policy's limits, once for the whole compaction."""
    call = without_double_counted_overhead(call, policy)
    reading = take_reading(view, policy, call, measures)
    limits = call.limits
    if limits is None and reading.window is not None:
        limits = policy.trigger.get_limits(reading.window, output_reserve=call.output_reserve, floor=reading.floor)
    too_many = has_too_many_entries(view, policy, call)
    reason = "" if too_many else find_skip_reason(reading, limits, policy, call)
    return Measured(policy, call, reading, limits, too_many, reason)


def skip(measured: Measured) -> EngineResult:
    """Returns the result of a check that has nothing to do."""
    tokens = measured.reading.tokens
    return EngineResult(Outcome("nothing", measured.skip_reason, tokens, tokens, 0, policy=measured.policy.name))


def decide_case(
    view: View, measured: Measured, measures: Measures, *, now: int, new_id: Callable[[], str]
) -> CompactionCase:
    """Decides whether to act and down to which target, over a draft that changes nothing yet."""
    draft = build_draft(view, measured.policy, measured.call, measures)
    decision = make_decision(draft, measured)
    overhead = max(0, measured.reading.floor - measured.call.floor)
    draft = replace(draft, limit=decision.next_trigger)
    facts = collect_facts(draft) if decision.should_act else ()
    return CompactionCase(draft, measured.policy, measured.call, decision, facts, now, new_id, overhead)


def plan_case(case: CompactionCase, *, allow_summaries: bool = True) -> Plan:
    """Runs the policy's stages down to the target, or to the least size where that is larger."""
    call, target = case.call, case.decision.target
    draft = shorten_request(case.draft, case.request_budget, call.recall)
    goal = build_goal(draft, case.policy, target, recall=call.recall, window=call.window, exact=call.to is not None)
    plan = fit_plan(draft, case.policy, case.facts, goal, allow_summaries=allow_summaries)
    return replace(plan, tokens_before=case.draft.tokens)  # what shortening the request saves counts as well


def consult_hooks(
    case: CompactionCase, plan: Plan
) -> Generator[tuple[Ask, ...], tuple[Answer, ...], FillRequest | EngineResult]:
    """Asks the before-hooks. Returns how to fill the plan, or the result if a hook cancels."""
    policy = case.policy
    request = FillRequest(
        case.new_id(), case.facts, policy.summary, policy.counter.count, case.call.focus, writer=policy.writer
    )
    if not case.call.has_before_hooks:
        return request
    (advice,) = yield (ConsultAsk(plan.explain(), plan.tokens_before, case.decision.target, request.focus),)
    if advice.cancel:
        return EngineResult(case.build_outcome("cancelled", advice.error or "a before-hook cancelled it"))
    focus = advice.focus or request.focus
    return replace(request, focus=focus, supplied_text=advice.text, supplied_details=advice.supplied_details)


Filling = Generator[tuple[Ask, ...], tuple[Answer, ...], tuple[Plan, FilledPlan]]


def write_summaries(case: CompactionCase, plan: Plan, request: FillRequest) -> Filling:
    """Writes what the plan shows. If no usable summary can be had, returns what the policy shows instead."""
    filled = yield from fill_plan(plan, request)
    if not filled.failure:
        return plan, filled
    return (yield from recover_from_failure(case, plan, request, filled))


def recover_from_failure(case: CompactionCase, plan: Plan, request: FillRequest, failed: FilledPlan) -> Filling:
    """Goes on after a summary failed, in place of the plan as it was.

    A policy that keeps its stages shows what they elided, without a summary; above the hard limit code writes one,
    because a provider would refuse the rest. After an overflow code writes one too, because without a Block the run
    would end. Otherwise the failure stands.
    """
    settings = request.settings
    if case.policy.summary.on_failure == "keep_stages":
        elided = plan_case(case, allow_summaries=False)
        if case.decision.need == "hard" and elided.tokens_after > case.decision.limit:
            note = (
                f"without a summary it stays above {case.decision.limit:,} tokens, so code wrote one: {failed.failure}"
            )
            by_code = yield from fill_plan(plan, replace(request, settings=replace(settings, models=())))
            return plan, replace(by_code, notes=(note, *by_code.notes), spent=failed.spent)
        if case.is_worth_a_block(elided):
            kept = yield from fill_plan(elided, request)
            notes = (f"what was elided is kept without a summary: {failed.failure}",)
            return elided, replace(kept, notes=notes, spent=failed.spent)
    elif case.call.demand == "overflow":
        note = f"the provider refused what was sent, so code wrote the summary: {failed.failure}"
        code_settings = replace(settings, models=(), on_failure="ladder")
        by_code = yield from fill_plan(plan, replace(request, settings=code_settings))
        return plan, replace(by_code, notes=(note, *by_code.notes), spent=failed.spent)
    return plan, failed


def preview(view: View, policy: Policy, call: Call, measures: Measures) -> tuple[Decision, Plan | None]:
    """Returns what `compact` would decide, and its plan, which is None where it would not act. Calls no model."""
    case = decide_case(view, measure(view, policy, call, measures), measures, now=0, new_id=str)
    return case.decision, plan_case(case) if case.decision.should_act else None


def without_double_counted_overhead(call: Call, policy: Policy) -> Call:
    """Returns the call without its floor where provider reports include it already, so that it is counted once.

    The estimator `ratio` learns one factor for everything that is sent, and no floor. There the floor stays.
    """
    counter = policy.counter.name
    if policy.estimator.kind == "ratio":
        return call
    if call.to is not None or not (
        call.calibration.find_model(call.model, counter) or call.calibration.find_other_model(call.model, counter)
    ):
        return call
    return replace(call, floor=0)


def take_reading(view: View, policy: Policy, call: Call, measures: Measures) -> Reading:
    """Reads the view's size with the policy's estimator. Costs O(what is new since the last measurement)."""
    call = without_double_counted_overhead(call, policy)
    estimate = measures.count_view(view) + call.floor
    if call.to is not None:
        return build_plain_reading(estimate, call.window)
    counter = policy.counter.name
    return build_reading(
        estimate, call.calibration, policy.estimator, model=call.model, window=call.window, counter=counter
    )


def build_draft(view: View, policy: Policy, call: Call, measures: Measures) -> Draft:
    """Builds the draft that changes nothing, with the tokens of every message."""
    return start_draft(
        view,
        measures.token_cache.measure,
        lambda messages: measure_messages(messages, policy.counter),
        floor=call.floor,
    )


def find_skip_reason(reading: Reading, limits: Limits | None, policy: Policy, call: Call) -> str:
    """Explains why an automatic check has nothing to do. Returns "" where the reading alone cannot tell."""
    if call.demand != "check" or call.to is not None:
        return ""
    if not policy.auto:
        return f"the policy {policy.name} compacts only when asked to: its automatic checks are switched off"
    if limits is None:
        return "the model's window is unknown, and an unknown window never triggers; name one (--window, window=)"
    if limits.get_need(reading.tokens) in ("soft", "hard"):
        return ""
    return f"{reading.tokens:,} tokens ({reading.source}) do not reach the trigger of {limits.soft:,}"


def make_decision(draft: Draft, measured: Measured) -> Decision:
    """Decides whether to act, and down to which target. The result's sizes are tokens by the policy's counter."""
    policy, call, reading = measured.policy, measured.call, measured.reading
    limits = find_limits(draft, measured)
    too_many = limits is not None and measured.too_many_entries
    smallest = sum(itemize_least(draft).values()) - (count_shortenable_tokens(draft) if policy.can_shorten else 0)
    decision = decide(
        reading,
        with_immediate_trigger(limits, reading) if limits is not None and too_many else limits,
        call.demand,
        collect_history(draft, policy, call),
        to=call.to,
        least=round(reading.floor + reading.slope * smallest),
        minimum_growth=1 if too_many else policy.get_minimum_growth(reading.window or draft.tokens),
    )
    if too_many and decision.should_act:
        reason = f"more than {policy.max_entries:,} entries follow the newest summary; {decision.reason}"
        decision = replace(decision, reason=reason)
    trigger_size = limits.soft if limits is not None else decision.target
    reading_sizes = (decision.target, trigger_size if call.to is None else call.to, decision.limit)
    target, next_trigger, limit = (max(1, int((size - reading.floor) / reading.slope)) for size in reading_sizes)
    return replace(decision, target=target, next_trigger=next_trigger, limit=limit)


def find_limits(draft: Draft, measured: Measured) -> Limits | None:
    """Returns the limits that the decision is made by, None where the window is unknown.

    The estimator `ratio` reads no floor. There the floor is the sum of the parts known to be fixed, corrected like
    everything else. If that alone reaches the trigger, an automatic check cannot help. The trigger then becomes the
    hard limit, so that the check ends as `unsatisfiable`.
    """
    policy, call, reading = measured.policy, measured.call, measured.reading
    if reading.window is None or policy.estimator.kind != "ratio":
        return measured.limits
    parts = itemize_least(draft)
    floor = round(reading.slope * (parts.get("given apart", 0) + parts.get("system prompt", 0)))
    limits = policy.trigger.get_limits(reading.window, output_reserve=call.output_reserve, floor=floor)
    futile = call.demand == "check" and call.to is None and floor >= limits.soft
    return replace(limits, hard=limits.soft) if futile else limits


def with_immediate_trigger(limits: Limits, reading: Reading) -> Limits:
    """Lowers the limits so that the present size triggers, and half of it is enough as a target.

    For a check that acts because of the number of entries.
    """
    soft = max(1, min(limits.soft, reading.tokens))
    return replace(limits, soft=soft, target=max(1, min(limits.target, soft // 2)), warning=min(limits.warning, soft))


def has_too_many_entries(view: View, policy: Policy, call: Call) -> bool:
    """Whether an automatic check finds more entries after the newest summary than the policy allows."""
    checked = policy.auto and call.demand == "check" and call.to is None and call.window is not None
    return (
        checked
        and bool(policy.max_entries)
        and count_entries_since(view, limit=policy.max_entries) > policy.max_entries
    )


def collect_history(draft: Draft, policy: Policy, call: Call) -> CompactionHistory:
    """Collects what the log says about earlier compactions on this path. The guards need nothing else."""
    view, marks = draft.view, draft.view.state
    attempts = tuple(a for p in marks.attempts if isinstance(a := view.path.get_entry(p), Attempt))
    since = max((marks.last_change, *marks.attempts))
    newest = view.path.get_entry(marks.live_blocks[-1]) if marks.live_blocks and not marks.undone else None
    return CompactionHistory(
        messages_since=len(_find_messages_after(view, marks.last_change)),
        growth=sum(draft.measure_visible(_find_messages_after(view, since))) if since >= 0 else None,
        attempts=attempts,
        retracted=marks.undone,
        is_repeat=isinstance(newest, Block) and (newest.policy, newest.reason) == (policy.name, describe_demand(call)),
    )


def _find_messages_after(view: View, position: int) -> list[VisibleMessage]:
    """Returns the visible messages of the entries after a position. Replaced ranges always lie before it."""
    units = view.units
    index = len(units)
    while index and units[index - 1].last > position:
        index -= 1
    shown = [s for unit in units[index:] for s in unit.visible_messages]
    if view.open_step is not None:
        shown += get_step_messages(view.open_step, closing=False)
    return [s for s in shown if s.position > position]


def describe_demand(call: Call) -> str:
    """Describes the demand as a Block records it. Two equal ones with no message between count as one (law 6)."""
    if call.to is not None:
        return f"{call.demand} to {call.to:,}"
    return f"{call.demand} in a window of {call.window:,}" if call.window is not None else call.demand


UnchangedStatus = Literal["nothing", "cancelled", "unsatisfiable", "failed"]
AttemptStatus = Literal["nothing", "unsatisfiable", "failed"]


class CompactionCase(Struct, frozen=True):
    """One compaction after the decision, and the ways in which it can end, with the numbers that explain it.

    `facts` are those of everything in view, empty where the decision is not to act. `provider_overhead` are tokens
    that the provider counts besides the view.
    """

    draft: Draft
    policy: Policy
    call: Call
    decision: Decision
    facts: tuple[Fact, ...]
    now: int
    new_id: Callable[[], str]
    provider_overhead: int = 0

    @property
    def minimum_saving(self) -> int:
        """The tokens that a Block must save at least. With an explicit target, any saving is enough."""
        return 1 if self.call.to is not None else self.policy.get_minimum_shrink(self.draft.tokens)

    @property
    def target(self) -> int:
        """The target that was asked for: the explicit one, else where the trigger aims."""
        return self.decision.target if self.call.to is None else self.call.to

    @property
    def itemized_least(self) -> dict[str, int]:
        """What the view cannot go below, as items, and what the provider counts besides the view."""
        overhead = {"counted by the provider beside the view": self.provider_overhead} if self.provider_overhead else {}
        return {**itemize_least(self.draft), **overhead}

    @property
    def request_budget(self) -> int:
        """The tokens that the current request may take; of a longer one, head and tail are shown.

        That is the policy's share of the target, and at most half of what the other fixed parts leave.
        """
        if not self.policy.can_shorten:
            return self.decision.target
        least = itemize_least(self.draft)
        others = sum(least.values()) - least.get(CURRENT_REQUEST, 0) - least["summary"]
        return min(int(self.decision.target * self.policy.shares.request), (self.decision.target - others) // 2)

    def is_worth_a_block(self, plan: Plan) -> bool:
        """Whether a plan changes anything, and saves what a Block must save."""
        return bool(plan.changed_pieces) and plan.tokens_before - plan.tokens_after >= self.minimum_saving

    def explain_small_saving(self, plan: Plan) -> str:
        """Says how little the plan saves, and how much a Block must save."""
        saved = max(0, plan.tokens_before - plan.tokens_after)
        worth = f"the least worth a Block is {self.minimum_saving:,}"
        return f"the best plan saves {saved:,} of {plan.tokens_before:,} tokens; {worth}"

    def build_outcome(self, status: UnchangedStatus, reason: str) -> Outcome:
        """Builds an Outcome that leaves the view as it is."""
        tokens = self.draft.tokens
        itemised = self.itemized_least if self.decision.target_missed or status == "unsatisfiable" else {}
        return Outcome(status, reason, tokens, tokens, self.target, policy=self.policy.name, itemised=itemised)

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
        status: AttemptStatus = "unsatisfiable" if self.decision.status == "unsatisfiable" else "nothing"
        is_in_vain = status == "unsatisfiable" or self.decision.should_act
        entry = None
        if is_in_vain and not self.decision.already_recorded:
            entry = self.build_attempt(status, reason, ModelCost())
        return EngineResult(self.build_outcome(status, reason), entry)

    def fail(self, filled: FilledPlan) -> EngineResult:
        """Ends without a usable summary, where the policy does not go on without one."""
        outcome = replace(self.build_outcome("failed", filled.failure), spent=filled.spent)
        return EngineResult(outcome, self.build_attempt("failed", filled.failure, filled.spent))

    def succeed(self, plan: Plan, block_id: str, filled: FilledPlan) -> EngineResult:
        """Ends with a Block, and the Outcome with its figures."""
        before = self.draft.tokens
        replaced_sizes = {r.first: sum(r.sizes) for r in filled.replacements}
        after = self.draft.fixed_tokens + sum(replaced_sizes.get(p.first, p.tokens) for p in plan.draft.pieces)
        view = self.draft.view
        under = view.path.get_entry(view.state.live_blocks[-1]).id if view.state.live_blocks else None
        block = Block(
            block_id,
            None,
            self.call.run,
            self.now,
            self.policy.name,
            self.policy.counter.name,
            filled.replacements,
            filled.carried_facts,
            filled.rung,
            under,
            describe_demand(self.call),
            before,
            after,
            filled.unshown_facts,
            filled.dropped_facts,
            filled.notes,
            filled.spent,
            supplied_details=filled.supplied_details,
            batches=filled.batches,
            top_batches=filled.top_batches,
        )
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
        )
        return EngineResult(outcome, block)
