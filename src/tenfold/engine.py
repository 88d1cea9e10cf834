"""One compaction, from view to Block, without I/O: the page to read first.

    read -> decide -> pick -> fill -> Block

`compact` is a generator: it yields tuples of Asks and receives tuples of Answers, so that sync and async drivers, a
gateway and a replay from recorded answers run this same code. It appends nothing; the driver does.
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


class Call(Struct, frozen=True):
    """One demand for a compaction, and all that the engine may not look up itself.

    `to` is an explicit target in tokens of the view; without it the policy's trigger and `window` decide. `floor`
    counts what is sent besides the view (system prompt and tools given apart). `consult` asks the before-hooks.
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
    """What a compaction is measured with: token sizes of shown messages, and the view's running total."""

    sizes: Sizes
    tally: Callable[[View], int]


def compact(view: View, policy: Policy, call: Call, bench: Bench, *, now: int, new_id: Callable[[], str]) -> Effects:
    """Compacts the view if that is called for. Returns the Verdict: an Outcome, and the entry to append, if any."""
    call = unfloored(call, policy)
    reading = measure(view, policy, call, bench)
    calm = "" if crowded(view, policy, call) else quiet(reading, policy, call)
    if calm:
        return Verdict(Outcome("nothing", calm, reading.tokens, reading.tokens, 0, policy=policy.name))
    draft = drafted(view, policy, call, bench)
    decision = judge(draft, policy, call, reading)
    draft = replace(draft, limit=decision.fires)
    apart = max(0, reading.floor - call.floor)
    ending = _Ending(draft, policy, call, decision, now, new_id, apart)
    if not decision.act:
        return ending.refused(decision.reason)
    facts = known_facts(draft)
    plan = plan_for(draft, policy, call, facts, decision.target)
    if not plan.changed or plan.tokens_before - plan.tokens_after < ending.minimum:
        return ending.refused(ending.too_little(plan))
    writing = Writing(new_id(), facts, policy.summary, policy.counter.count, call.focus, writer=policy.writer)
    if call.consult:
        (advice,) = yield (Consult(plan.explain(), plan.tokens_before, decision.target, writing.focus),)
        if advice.cancel:
            return Verdict(ending.outcome("cancelled", advice.error or "a before-hook cancelled it"))
        focus = advice.focus or writing.focus
        writing = replace(writing, focus=focus, supplied=advice.text, given=advice.supplied)
    filled = yield from fill(plan, writing)
    if filled.failed and policy.summary.on_failure == "keep_stages":
        bare = plan_for(draft, policy, call, facts, decision.target, texts=False)
        if decision.need == "hard" and bare.tokens_after > decision.limit:  # a provider would refuse it
            coded = yield from fill(plan, replace(writing, settings=replace(writing.settings, models=())))
            note = f"without a summary it stays above {decision.limit:,} tokens, so code wrote one: {filled.failed}"
            filled = replace(coded, notes=(note, *coded.notes), spent=filled.spent)
        elif bare.changed and bare.tokens_before - bare.tokens_after >= ending.minimum:
            plan, kept = bare, (yield from fill(bare, writing))
            notes = (f"what was elided is kept without a summary: {filled.failed}",)
            filled = replace(kept, notes=notes, spent=filled.spent)
    elif filled.failed and call.demand == "overflow":  # a provider refused it: without a Block the run ends here
        plain = replace(writing.settings, models=(), on_failure="ladder")
        coded = yield from fill(plan, replace(writing, settings=plain))
        note = f"the provider refused what was sent, so code wrote the summary: {filled.failed}"
        filled = replace(coded, notes=(note, *coded.notes), spent=filled.spent)
    if filled.failed:
        return ending.failed(filled.failed, filled.spent)
    return ending.compacted(plan, writing.block, filled)


def preview(view: View, policy: Policy, call: Call, bench: Bench) -> tuple[Decision, Plan | None]:
    """What `compact` would decide and plan, and None where it would not act. Calls no model."""
    call = unfloored(call, policy)
    draft = drafted(view, policy, call, bench)
    decision = judge(draft, policy, call, measure(view, policy, call, bench))
    draft = replace(draft, limit=decision.fires)
    return decision, plan_for(draft, policy, call, known_facts(draft), decision.target) if decision.act else None


def unfloored(call: Call, policy: Policy) -> Call:
    """The call without its floor where provider reports hold it already: system prompt and tools count once.

    `ratio` learns a factor of everything that is sent and no floor, so there it stays.
    """
    counter = policy.counter.name
    if policy.estimator.kind == "ratio":
        return call
    if call.to is not None or not (call.anchors.of(call.model, counter) or call.anchors.lent(call.model, counter)):
        return call
    return replace(call, floor=0)


def measure(view: View, policy: Policy, call: Call, bench: Bench) -> Reading:
    """How many tokens the view takes, by the policy's estimator: O(what is new since the last measurement)."""
    call = unfloored(call, policy)
    estimate = bench.tally(view) + call.floor
    if call.to is not None:
        return counted(estimate, call.window)
    counter = policy.counter.name
    return read(estimate, call.anchors, policy.estimator, model=call.model, window=call.window, counter=counter)


def drafted(view: View, policy: Policy, call: Call, bench: Bench) -> Draft:
    """The draft that changes nothing, with every message weighed."""
    return start(view, bench.sizes.each, lambda messages: sizes(messages, policy.counter), floor=call.floor)


def quiet(reading: Reading, policy: Policy, call: Call) -> str:
    """Why an automatic check has nothing to do, where the reading alone says so; "" where it must be looked into."""
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
    """Whether to act, and down to which target, in tokens as the policy's counter counts them."""
    limits = limits_for(draft, policy, call, reading)
    full = limits is not None and crowded(draft.view, policy, call)
    smallest = round(reading.floor + reading.slope * sum(least(draft).values()))
    decision = decide(
        reading,
        at_once(limits, reading) if limits is not None and full else limits,
        call.demand,
        history(draft, policy, call),
        to=call.to,
        least=smallest,
        minimum_growth=1 if full else policy.minimum_growth(reading.window or draft.tokens),
    )
    if full and decision.act:
        reason = f"more than {policy.turns:,} entries follow the newest summary; {decision.reason}"
        decision = replace(decision, reason=reason)
    fires = call.to if call.to is not None else limits.soft if limits is not None else decision.target
    sizes = (decision.target, fires, decision.limit)
    aim, again, most = (max(1, int((size - reading.floor) / reading.slope)) for size in sizes)
    return replace(decision, target=aim, fires=again, limit=most)


def limits_for(draft: Draft, policy: Policy, call: Call, reading: Reading) -> Limits | None:
    """The policy's limits in the Reading's window, None where it is not known.

    `ratio` reads no floor, so it is what is known to be fixed, corrected like all else; where that alone reaches the
    trigger, an automatic check can do nothing: the trigger is then the limit that cannot be satisfied.
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
    """The limits for a check that acts because of the number of entries: this size fires, and half of it is enough."""
    soft = max(1, min(limits.soft, reading.tokens))
    return replace(limits, soft=soft, target=max(1, min(limits.target, soft // 2)), warn=min(limits.warn, soft))


def crowded(view: View, policy: Policy, call: Call) -> bool:
    """Whether an automatic check finds more entries since the newest summary than the policy lets follow one."""
    checked = policy.auto and call.demand == "check" and call.to is None and call.window is not None
    return checked and bool(policy.turns) and entries_since(view, most=policy.turns) > policy.turns


def history(draft: Draft, policy: Policy, call: Call) -> History:
    """What the log says about earlier compactions on this path: the guards need nothing else."""
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
    """What is in view of the entries after a position: ranges that are replaced lie before it."""
    units = view.units
    index = len(units)
    while index and units[index - 1].last > position:
        index -= 1
    shown = [s for unit in units[index:] for s in unit.shown]
    if view.step is not None:
        shown += shown_of(view.step, closing=False)
    return [s for s in shown if s.at > position]


def demanded(call: Call) -> str:
    """The demand in words, as a Block records it: two equal ones with no message between are one (law 6)."""
    if call.to is not None:
        return f"{call.demand} to {call.to:,}"
    return f"{call.demand} in a window of {call.window:,}" if call.window is not None else call.demand


def plan_for(
    draft: Draft, policy: Policy, call: Call, facts: tuple[Fact, ...], target: int, *, texts: bool = True
) -> Plan:
    """The policy's stages over the draft, down to the target, or to the least size where that is above it."""
    goal = goal_for(draft, policy, target, recall=call.recall, window=call.window, exact=call.to is not None)
    return fitted(draft, policy, facts, goal, texts=texts)


Status = Literal["nothing", "cancelled", "unsatisfiable", "failed"]
Spoiled = Literal["nothing", "unsatisfiable", "failed"]


class _Ending(Struct, frozen=True):
    """The ways a compaction can end, each with the numbers that say why."""

    draft: Draft
    policy: Policy
    call: Call
    decision: Decision
    now: int
    new_id: Callable[[], str]
    apart: int = 0

    @property
    def minimum(self) -> int:
        """The least number of tokens a Block must save here; an explicit target only asks that it gets smaller."""
        return 1 if self.call.to is not None else self.policy.minimum_shrink(self.draft.tokens)

    @property
    def target(self) -> int:
        """What was asked for: the explicit target, else where the trigger aims."""
        return self.decision.target if self.call.to is None else self.call.to

    @property
    def itemised(self) -> dict[str, int]:
        """What cannot go below: the least of the view, and what the provider counts beside it."""
        apart = {"counted by the provider beside the view": self.apart} if self.apart else {}
        return {**least(self.draft), **apart}

    def too_little(self, plan: Plan) -> str:
        saved = max(0, plan.tokens_before - plan.tokens_after)
        worth = f"the least worth a Block is {self.minimum:,}"
        return f"the best plan saves {saved:,} of {plan.tokens_before:,} tokens; {worth}"

    def outcome(self, status: Status, reason: str) -> Outcome:
        """An Outcome that leaves the view as it is."""
        tokens = self.draft.tokens
        itemised = self.itemised if self.decision.target_missed or status == "unsatisfiable" else {}
        return Outcome(status, reason, tokens, tokens, self.target, policy=self.policy.name, itemised=itemised)

    def attempt(self, status: Spoiled, reason: str, spent: Spent) -> Attempt:
        """The entry that remembers an attempt which cost something or proved fruitless."""
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
        """Nothing to do, or nothing that could help: remembered in the log where trying again would be in vain."""
        status: Spoiled = "unsatisfiable" if self.decision.status == "unsatisfiable" else "nothing"
        fruitless = status == "unsatisfiable" or self.decision.act
        entry = self.attempt(status, reason, Spent()) if fruitless and not self.decision.known else None
        return Verdict(self.outcome(status, reason), entry)

    def failed(self, reason: str, spent: Spent) -> Verdict:
        """No usable summary, and the policy does not go on without one."""
        return Verdict(replace(self.outcome("failed", reason), spent=spent), self.attempt("failed", reason, spent))

    def compacted(self, plan: Plan, block_id: str, filled: Filled) -> Verdict:
        """The Block, and the Outcome with its figures."""
        before = self.draft.tokens
        shown = {r.first: sum(r.sizes) for r in filled.replacements}
        after = self.draft.rest + sum(shown.get(p.first, p.tokens) for p in plan.draft.pieces)
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
