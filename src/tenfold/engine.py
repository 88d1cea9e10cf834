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

from tenfold.fitting import fitted, goal_for
from tenfold.meter.counters import sizes
from tenfold.meter.estimators import Anchors
from tenfold.meter.reading import Reading, Sizes, counted, read
from tenfold.plan.draft import Draft, Recall, least, start
from tenfold.plan.plan import Plan
from tenfold.plan.stages.whole import entries_since
from tenfold.policy import Policy
from tenfold.record.ask import Answer, Ask, Consult, Outcome, Verdict
from tenfold.record.block import Block, Fact, Spent
from tenfold.record.entry import Attempt
from tenfold.summarize.fill import Filled, Writing, fill, kept_facts, known_facts
from tenfold.trigger.guard import History, decide
from tenfold.trigger.triggers import Decision, Demand, Limits
from tenfold.view.units import Shown, shown_of
from tenfold.view.view import View

Effects = Generator[tuple[Ask, ...], tuple[Answer, ...], Verdict]
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
    recall: Recall = "none"
    focus: str = ""
    anchors: Anchors = Anchors()
    consult: bool = False
    run: str = ""


class Bench(Struct, frozen=True):
    """How a compaction measures: a cache of message tokens, and a function that counts a whole view."""

    sizes: Sizes
    tally: Callable[[View], int]


def compact(view: View, policy: Policy, call: Call, bench: Bench, *, now: int, new_id: Callable[[], str]) -> Effects:
    """Compacts the view if that is called for.

    Returns an `EngineResult`: the Outcome, and the entry to append, if any. `now` is in microseconds UTC.
    """
    # The reading: most checks end here, because the view is below the trigger.
    call = unfloored(call, policy)
    reading = measure(view, policy, call, bench)
    skip_reason = "" if crowded(view, policy, call) else quiet(reading, policy, call)
    if skip_reason:
        return Verdict(Outcome("nothing", skip_reason, reading.tokens, reading.tokens, 0, policy=policy.name))
    # The decision: whether to act, and down to which target.
    draft = drafted(view, policy, call, bench)
    decision = judge(draft, policy, call, reading)
    draft = replace(draft, limit=decision.fires)
    overhead = max(0, reading.floor - call.floor)
    builder = _Ending(draft, policy, call, decision, now, new_id, overhead)
    if not decision.act:
        return builder.refused(decision.reason)
    # The plan: code collects the facts, stages choose what becomes of each range.
    facts = known_facts(draft)
    plan = plan_for(draft, policy, call, facts, decision.target)
    if not plan.changed or plan.tokens_before - plan.tokens_after < builder.minimum:
        return builder.refused(builder.too_little(plan))
    writing = Writing(new_id(), facts, policy.summary, policy.counter.count, call.focus, writer=policy.writer)
    if call.consult:
        (advice,) = yield (Consult(plan.explain(), plan.tokens_before, decision.target, writing.focus),)
        if advice.cancel:
            return Verdict(builder.outcome("cancelled", advice.error or "a before-hook cancelled it"))
        focus = advice.focus or writing.focus
        writing = replace(writing, focus=focus, supplied=advice.text, given=advice.supplied)
    # The summaries: if no usable one can be had, `on_failure` decides what is appended instead.
    filled = yield from fill(plan, writing)
    if filled.failed and policy.summary.on_failure == "keep_stages":
        elided_plan = plan_for(draft, policy, call, facts, decision.target, texts=False)
        if decision.need == "hard" and elided_plan.tokens_after > decision.limit:  # a provider would refuse it
            by_code = yield from fill(plan, replace(writing, settings=replace(writing.settings, models=())))
            note = f"without a summary it stays above {decision.limit:,} tokens, so code wrote one: {filled.failed}"
            filled = replace(by_code, notes=(note, *by_code.notes), spent=filled.spent)
        elif elided_plan.changed and elided_plan.tokens_before - elided_plan.tokens_after >= builder.minimum:
            plan, elided = elided_plan, (yield from fill(elided_plan, writing))
            notes = (f"what was elided is kept without a summary: {filled.failed}",)
            filled = replace(elided, notes=notes, spent=filled.spent)
    elif filled.failed and call.demand == "overflow":  # without a Block the run would end here
        code_settings = replace(writing.settings, models=(), on_failure="ladder")
        by_code = yield from fill(plan, replace(writing, settings=code_settings))
        note = f"the provider refused what was sent, so code wrote the summary: {filled.failed}"
        filled = replace(by_code, notes=(note, *by_code.notes), spent=filled.spent)
    if filled.failed:
        return builder.failed(filled.failed, filled.spent)
    return builder.compacted(plan, writing.block, filled)


def preview(view: View, policy: Policy, call: Call, bench: Bench) -> tuple[Decision, Plan | None]:
    """Returns what `compact` would decide, and its plan, which is None where it would not act. Calls no model."""
    call = unfloored(call, policy)
    draft = drafted(view, policy, call, bench)
    decision = judge(draft, policy, call, measure(view, policy, call, bench))
    draft = replace(draft, limit=decision.fires)
    return decision, plan_for(draft, policy, call, known_facts(draft), decision.target) if decision.act else None


def unfloored(call: Call, policy: Policy) -> Call:
    """Returns the call without its floor where provider reports include it already, so that it is counted once.

    The estimator `ratio` learns one factor for everything that is sent, and no floor. There the floor stays.
    """
    counter = policy.counter.name
    if policy.estimator.kind == "ratio":
        return call
    if call.to is not None or not (call.anchors.of(call.model, counter) or call.anchors.lent(call.model, counter)):
        return call
    return replace(call, floor=0)


def measure(view: View, policy: Policy, call: Call, bench: Bench) -> Reading:
    """Reads the view's size with the policy's estimator. Costs O(what is new since the last measurement)."""
    call = unfloored(call, policy)
    estimate = bench.tally(view) + call.floor
    if call.to is not None:
        return counted(estimate, call.window)
    counter = policy.counter.name
    return read(estimate, call.anchors, policy.estimator, model=call.model, window=call.window, counter=counter)


def drafted(view: View, policy: Policy, call: Call, bench: Bench) -> Draft:
    """Builds the draft that changes nothing, with the tokens of every message."""
    return start(view, bench.sizes.each, lambda messages: sizes(messages, policy.counter), floor=call.floor)


def quiet(reading: Reading, policy: Policy, call: Call) -> str:
    """Explains why an automatic check has nothing to do. Returns "" where the reading alone cannot tell."""
    if call.demand != "check" or call.to is not None:
        return ""
    if not policy.auto:
        return f"the policy {policy.name} compacts only when asked to: its automatic checks are switched off"
    if reading.window is None:
        return "the model's window is unknown, and an unknown window never triggers; name one (--window, window=)"
    limits = policy.trigger.limits(reading.window, output_reserve=call.output_reserve, floor=reading.floor)
    if limits.need(reading.tokens) in ("soft", "hard"):
        return ""
    return f"{reading.tokens:,} tokens ({reading.source}) do not reach the trigger of {limits.soft:,}"


def judge(draft: Draft, policy: Policy, call: Call, reading: Reading) -> Decision:
    """Decides whether to act, and down to which target. The result's sizes are tokens by the policy's counter."""
    limits = limits_for(draft, policy, call, reading)
    too_many = limits is not None and crowded(draft.view, policy, call)
    smallest_size = round(reading.floor + reading.slope * sum(least(draft).values()))
    decision = decide(
        reading,
        at_once(limits, reading) if limits is not None and too_many else limits,
        call.demand,
        history(draft, policy, call),
        to=call.to,
        least=smallest_size,
        minimum_growth=1 if too_many else policy.minimum_growth(reading.window or draft.tokens),
    )
    if too_many and decision.act:
        reason = f"more than {policy.turns:,} entries follow the newest summary; {decision.reason}"
        decision = replace(decision, reason=reason)
    trigger_size = call.to if call.to is not None else limits.soft if limits is not None else decision.target
    reading_sizes = (decision.target, trigger_size, decision.limit)
    target, next_trigger, limit = (max(1, int((size - reading.floor) / reading.slope)) for size in reading_sizes)
    return replace(decision, target=target, fires=next_trigger, limit=limit)


def limits_for(draft: Draft, policy: Policy, call: Call, reading: Reading) -> Limits | None:
    """Returns the policy's limits in the Reading's window, None where the window is unknown.

    The estimator `ratio` reads no floor. There the floor is the sum of the parts known to be fixed, corrected like
    everything else. If that alone reaches the trigger, an automatic check cannot help. The trigger then becomes the
    hard limit, so that the check ends as `unsatisfiable`.
    """
    if reading.window is None:
        return None
    if policy.estimator.kind != "ratio":
        return policy.trigger.limits(reading.window, output_reserve=call.output_reserve, floor=reading.floor)
    parts = least(draft)
    floor = round(reading.slope * (parts.get("given apart", 0) + parts.get("system prompt", 0)))
    limits = policy.trigger.limits(reading.window, output_reserve=call.output_reserve, floor=floor)
    futile = call.demand == "check" and call.to is None and floor >= limits.soft
    return replace(limits, hard=limits.soft) if futile else limits


def at_once(limits: Limits, reading: Reading) -> Limits:
    """Lowers the limits so that the present size triggers, and half of it is enough as a target.

    For a check that acts because of the number of entries.
    """
    soft = max(1, min(limits.soft, reading.tokens))
    return replace(limits, soft=soft, target=max(1, min(limits.target, soft // 2)), warn=min(limits.warn, soft))


def crowded(view: View, policy: Policy, call: Call) -> bool:
    """Whether an automatic check finds more entries after the newest summary than the policy allows."""
    checked = policy.auto and call.demand == "check" and call.to is None and call.window is not None
    return checked and bool(policy.turns) and entries_since(view, most=policy.turns) > policy.turns


def history(draft: Draft, policy: Policy, call: Call) -> History:
    """Collects what the log says about earlier compactions on this path. The guards need nothing else."""
    view, marks = draft.view, draft.view.marks
    attempts = tuple(a for p in marks.attempts if isinstance(a := view.path.at(p), Attempt))
    since = max((marks.changed, *marks.attempts))
    newest = view.path.at(marks.live[-1]) if marks.live and not marks.undone else None
    return History(
        messages_since=len(_after(view, marks.changed)),
        grown=sum(draft.sizer(_after(view, since))) if since >= 0 else None,
        attempts=attempts,
        retracted=marks.undone,
        same=isinstance(newest, Block) and (newest.policy, newest.reason) == (policy.name, demanded(call)),
    )


def _after(view: View, position: int) -> list[Shown]:
    """Returns the visible messages of the entries after a position. Replaced ranges always lie before it."""
    units = view.units
    index = len(units)
    while index and units[index - 1].last > position:
        index -= 1
    shown = [s for unit in units[index:] for s in unit.shown]
    if view.step is not None:
        shown += shown_of(view.step, closing=False)
    return [s for s in shown if s.at > position]


def demanded(call: Call) -> str:
    """Describes the demand as a Block records it. Two equal ones with no message between count as one (law 6)."""
    if call.to is not None:
        return f"{call.demand} to {call.to:,}"
    return f"{call.demand} in a window of {call.window:,}" if call.window is not None else call.demand


def plan_for(
    draft: Draft, policy: Policy, call: Call, facts: tuple[Fact, ...], target: int, *, texts: bool = True
) -> Plan:
    """Runs the policy's stages on the draft, down to the target, or to the least size where that is larger."""
    goal = goal_for(draft, policy, target, recall=call.recall, window=call.window, exact=call.to is not None)
    return fitted(draft, policy, facts, goal, texts=texts)


Status = Literal["nothing", "cancelled", "unsatisfiable", "failed"]
Spoiled = Literal["nothing", "unsatisfiable", "failed"]


class _Ending(Struct, frozen=True):
    """Builds the result for each way in which a compaction can end, with the numbers that explain it."""

    draft: Draft
    policy: Policy
    call: Call
    decision: Decision
    now: int
    new_id: Callable[[], str]
    apart: int = 0

    @property
    def minimum(self) -> int:
        """The tokens that a Block must save at least. With an explicit target, any saving is enough."""
        return 1 if self.call.to is not None else self.policy.minimum_shrink(self.draft.tokens)

    @property
    def target(self) -> int:
        """The target that was asked for: the explicit one, else where the trigger aims."""
        return self.decision.target if self.call.to is None else self.call.to

    @property
    def itemised(self) -> dict[str, int]:
        """What the view cannot go below, as items, and what the provider counts besides the view."""
        overhead = {"counted by the provider beside the view": self.apart} if self.apart else {}
        return {**least(self.draft), **overhead}

    def too_little(self, plan: Plan) -> str:
        saved = max(0, plan.tokens_before - plan.tokens_after)
        worth = f"the least worth a Block is {self.minimum:,}"
        return f"the best plan saves {saved:,} of {plan.tokens_before:,} tokens; {worth}"

    def outcome(self, status: Status, reason: str) -> Outcome:
        """Builds an Outcome that leaves the view as it is."""
        tokens = self.draft.tokens
        itemised = self.itemised if self.decision.target_missed or status == "unsatisfiable" else {}
        return Outcome(status, reason, tokens, tokens, self.target, policy=self.policy.name, itemised=itemised)

    def attempt(self, status: Spoiled, reason: str, spent: Spent) -> Attempt:
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

    def refused(self, reason: str) -> Verdict:
        """Ends without a Block. Records an Attempt in the log where another try would be in vain."""
        status: Spoiled = "unsatisfiable" if self.decision.status == "unsatisfiable" else "nothing"
        fruitless = status == "unsatisfiable" or self.decision.act
        entry = self.attempt(status, reason, Spent()) if fruitless and not self.decision.known else None
        return Verdict(self.outcome(status, reason), entry)

    def failed(self, reason: str, spent: Spent) -> Verdict:
        """Ends without a usable summary, where the policy does not go on without one."""
        return Verdict(replace(self.outcome("failed", reason), spent=spent), self.attempt("failed", reason, spent))

    def compacted(self, plan: Plan, block_id: str, filled: Filled) -> Verdict:
        """Ends with a Block, and the Outcome with its figures."""
        before = self.draft.tokens
        replaced_sizes = {r.first: sum(r.sizes) for r in filled.replacements}
        after = self.draft.rest + sum(replaced_sizes.get(p.first, p.tokens) for p in plan.draft.pieces)
        view = self.draft.view
        under = view.path.at(view.marks.live[-1]).id if view.marks.live else None
        block = Block(
            block_id,
            None,
            self.call.run,
            self.now,
            self.policy.name,
            self.policy.counter.name,
            filled.replacements,
            filled.facts,
            filled.rung,
            under,
            demanded(self.call),
            before,
            after,
            filled.unshown,
            filled.dropped,
            filled.notes,
            filled.spent,
            supplied=filled.supplied,
            batches=filled.batches,
            standing=filled.standing,
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
            facts=kept_facts(plan, filled),
            itemised=self.itemised if missed else {},
            notes=filled.notes,
            spent=filled.spent,
        )
        return Verdict(outcome, block)
