"""Runs one compaction, from a view to a Block, without any I/O. Read this page first.

    measure the view -> decide -> plan -> write the summaries -> Block

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
from tenfold.plan.pipeline import Plan
from tenfold.plan.tail import count_entries_since
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
    # The reading: most checks end here, because the view is below the trigger.
    call = without_double_counted_overhead(call, policy)
    reading = take_reading(view, policy, call, measures)
    skip_reason = "" if has_too_many_entries(view, policy, call) else find_skip_reason(reading, policy, call)
    if skip_reason:
        return EngineResult(Outcome("nothing", skip_reason, reading.tokens, reading.tokens, 0, policy=policy.name))
    # The decision: whether to act, and down to which target.
    draft = build_draft(view, policy, call, measures)
    decision = make_decision(draft, policy, call, reading)
    draft = replace(draft, limit=decision.next_trigger)
    overhead = max(0, reading.floor - call.floor)
    builder = _OutcomeBuilder(draft, policy, call, decision, now, new_id, overhead)
    if not decision.should_act:
        return builder.build_refusal(decision.reason)
    # The plan: code collects the facts, stages choose what becomes of each range.
    facts = collect_facts(draft)
    plan = plan_compaction(draft, policy, call, facts, decision.target)
    if not plan.changed_pieces or plan.tokens_before - plan.tokens_after < builder.minimum_saving:
        return builder.build_refusal(builder.explain_small_saving(plan))
    writing = FillRequest(new_id(), facts, policy.summary, policy.counter.count, call.focus, writer=policy.writer)
    if call.has_before_hooks:
        (advice,) = yield (ConsultAsk(plan.explain(), plan.tokens_before, decision.target, writing.focus),)
        if advice.cancel:
            return EngineResult(builder.build_outcome("cancelled", advice.error or "a before-hook cancelled it"))
        focus = advice.focus or writing.focus
        writing = replace(writing, focus=focus, supplied_text=advice.text, supplied_details=advice.supplied_details)
    # The summaries: if no usable one can be had, `on_failure` decides what is appended instead.
    filled = yield from fill_plan(plan, writing)
    if filled.failure and policy.summary.on_failure == "keep_stages":
        elided_plan = plan_compaction(draft, policy, call, facts, decision.target, allow_summaries=False)
        if decision.need == "hard" and elided_plan.tokens_after > decision.limit:  # a provider would refuse it
            by_code = yield from fill_plan(plan, replace(writing, settings=replace(writing.settings, models=())))
            note = f"without a summary it stays above {decision.limit:,} tokens, so code wrote one: {filled.failure}"
            filled = replace(by_code, notes=(note, *by_code.notes), spent=filled.spent)
        elif (
            elided_plan.changed_pieces
            and elided_plan.tokens_before - elided_plan.tokens_after >= builder.minimum_saving
        ):
            plan, elided = elided_plan, (yield from fill_plan(elided_plan, writing))
            notes = (f"what was elided is kept without a summary: {filled.failure}",)
            filled = replace(elided, notes=notes, spent=filled.spent)
    elif filled.failure and call.demand == "overflow":  # without a Block the run would end here
        code_settings = replace(writing.settings, models=(), on_failure="ladder")
        by_code = yield from fill_plan(plan, replace(writing, settings=code_settings))
        note = f"the provider refused what was sent, so code wrote the summary: {filled.failure}"
        filled = replace(by_code, notes=(note, *by_code.notes), spent=filled.spent)
    if filled.failure:
        return builder.build_failure(filled.failure, filled.spent)
    return builder.build_success(plan, writing.block, filled)


def preview(view: View, policy: Policy, call: Call, measures: Measures) -> tuple[Decision, Plan | None]:
    """Returns what `compact` would decide, and its plan, which is None where it would not act. Calls no model."""
    call = without_double_counted_overhead(call, policy)
    draft = build_draft(view, policy, call, measures)
    decision = make_decision(draft, policy, call, take_reading(view, policy, call, measures))
    draft = replace(draft, limit=decision.next_trigger)
    return decision, plan_compaction(
        draft, policy, call, collect_facts(draft), decision.target
    ) if decision.should_act else None


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


def find_skip_reason(reading: Reading, policy: Policy, call: Call) -> str:
    """Explains why an automatic check has nothing to do. Returns "" where the reading alone cannot tell."""
    if call.demand != "check" or call.to is not None:
        return ""
    if not policy.auto:
        return f"the policy {policy.name} compacts only when asked to: its automatic checks are switched off"
    if reading.window is None:
        return "the model's window is unknown, and an unknown window never triggers; name one (--window, window=)"
    limits = policy.trigger.get_limits(reading.window, output_reserve=call.output_reserve, floor=reading.floor)
    if limits.get_need(reading.tokens) in ("soft", "hard"):
        return ""
    return f"{reading.tokens:,} tokens ({reading.source}) do not reach the trigger of {limits.soft:,}"


def make_decision(draft: Draft, policy: Policy, call: Call, reading: Reading) -> Decision:
    """Decides whether to act, and down to which target. The result's sizes are tokens by the policy's counter."""
    limits = find_limits(draft, policy, call, reading)
    too_many = limits is not None and has_too_many_entries(draft.view, policy, call)
    smallest_size = round(reading.floor + reading.slope * sum(itemize_least(draft).values()))
    decision = decide(
        reading,
        with_immediate_trigger(limits, reading) if limits is not None and too_many else limits,
        call.demand,
        collect_history(draft, policy, call),
        to=call.to,
        least=smallest_size,
        minimum_growth=1 if too_many else policy.get_minimum_growth(reading.window or draft.tokens),
    )
    if too_many and decision.should_act:
        reason = f"more than {policy.max_entries:,} entries follow the newest summary; {decision.reason}"
        decision = replace(decision, reason=reason)
    trigger_size = call.to if call.to is not None else limits.soft if limits is not None else decision.target
    reading_sizes = (decision.target, trigger_size, decision.limit)
    target, next_trigger, limit = (max(1, int((size - reading.floor) / reading.slope)) for size in reading_sizes)
    return replace(decision, target=target, next_trigger=next_trigger, limit=limit)


def find_limits(draft: Draft, policy: Policy, call: Call, reading: Reading) -> Limits | None:
    """Returns the policy's limits in the Reading's window, None where the window is unknown.

    The estimator `ratio` reads no floor. There the floor is the sum of the parts known to be fixed, corrected like
    everything else. If that alone reaches the trigger, an automatic check cannot help. The trigger then becomes the
    hard limit, so that the check ends as `unsatisfiable`.
    """
    if reading.window is None:
        return None
    if policy.estimator.kind != "ratio":
        return policy.trigger.get_limits(reading.window, output_reserve=call.output_reserve, floor=reading.floor)
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


def plan_compaction(
    draft: Draft, policy: Policy, call: Call, facts: tuple[Fact, ...], target: int, *, allow_summaries: bool = True
) -> Plan:
    """Runs the policy's stages on the draft, down to the target, or to the least size where that is larger."""
    goal = build_goal(draft, policy, target, recall=call.recall, window=call.window, exact=call.to is not None)
    return fit_plan(draft, policy, facts, goal, allow_summaries=allow_summaries)


UnchangedStatus = Literal["nothing", "cancelled", "unsatisfiable", "failed"]
AttemptStatus = Literal["nothing", "unsatisfiable", "failed"]


class _OutcomeBuilder(Struct, frozen=True):
    """Builds the result for each way in which a compaction can end, with the numbers that explain it."""

    draft: Draft
    policy: Policy
    call: Call
    decision: Decision
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

    def explain_small_saving(self, plan: Plan) -> str:
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

    def build_refusal(self, reason: str) -> EngineResult:
        """Ends without a Block. Records an Attempt in the log where another try would be in vain."""
        status: AttemptStatus = "unsatisfiable" if self.decision.status == "unsatisfiable" else "nothing"
        fruitless = status == "unsatisfiable" or self.decision.should_act
        entry = (
            self.build_attempt(status, reason, ModelCost())
            if fruitless and not self.decision.already_recorded
            else None
        )
        return EngineResult(self.build_outcome(status, reason), entry)

    def build_failure(self, reason: str, spent: ModelCost) -> EngineResult:
        """Ends without a usable summary, where the policy does not go on without one."""
        return EngineResult(
            replace(self.build_outcome("failed", reason), spent=spent), self.build_attempt("failed", reason, spent)
        )

    def build_success(self, plan: Plan, block_id: str, filled: FilledPlan) -> EngineResult:
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
