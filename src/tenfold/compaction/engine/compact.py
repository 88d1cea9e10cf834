"""Runs one compaction, from a view to a Block, without any I/O. Read this page first.

    measure -> decide_case -> plan_case -> consult_hooks -> write_summaries -> Block

`compact` is a generator. It yields tuples of Asks (call a model, consult a hook) and receives tuples of Answers. Sync
and async drivers, a gateway and a replay of recorded answers therefore all run the same code. The engine appends
nothing to the store: the driver does that, with the entry in the `EngineResult`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.engine.call import Call, Measures, describe_demand, find_own_counts, find_reported_slope
from tenfold.compaction.engine.compaction_case import CompactionCase
from tenfold.compaction.engine.fit import LAST_RESORT_NOTE, fit_plan, plan_last_resort, use_leftover_room
from tenfold.compaction.engine.model_breaker import explain_pause
from tenfold.compaction.engine.policy import Policy
from tenfold.compaction.plan import long_messages
from tenfold.compaction.plan.draft import Draft, itemize_least, start_draft
from tenfold.compaction.plan.pipeline import Plan
from tenfold.compaction.plan.stages.condense import CutAtStage
from tenfold.compaction.summarize.fill import FilledPlan, FillRequest, collect_facts, fill_plan
from tenfold.compaction.summarize.writer import SingleTextWriter, explain_wait, get_footer_renderer
from tenfold.compaction.trigger.guard import CompactionHistory, decide
from tenfold.compaction.trigger.limits import Decision, Limits, get_view_check
from tenfold.core.meter.counters import measure_messages
from tenfold.core.meter.estimators import expire_reports
from tenfold.core.meter.reading import build_plain_reading, raise_reading
from tenfold.core.record.ask import Answer, Ask, ConsultAsk, EngineResult, Outcome
from tenfold.core.record.block import RECORDED, Run
from tenfold.core.record.entry import Attempt
from tenfold.core.record.token_reading import NO_TOKENS, Counted, ProviderTokens, Reading, Tokens
from tenfold.core.view.fold import View
from tenfold.core.view.units import VisibleMessage, get_step_messages

Effects = Generator[tuple[Ask, ...], tuple[Answer, ...], EngineResult]
"""What `compact` returns to a driver: a generator of Asks that receives Answers and ends in an `EngineResult`."""

NewId = Callable[[], str]
"""Returns the id of a new entry."""


def compact(view: View, policy: Policy, call: Call, measures: Measures, *, now: int, new_id: NewId) -> Effects:
    """Compacts a view, if the policy or the caller asks for it.

    Yields the Asks that somebody else has to answer, and returns an `EngineResult`: the Outcome, and the entry to
    append, if there is one. `run_engine` and `arun_engine` answer the Asks. The new entry gets its id from `new_id`,
    and the time `now`, in microseconds UTC. Raises nothing of its own: a failed Ask is an Answer with an error.
    """
    measured = measure(view, policy, call, measures)
    if measured.skip_reason:
        return skip(measured)
    case = decide_case(view, measured, measures, now=now, new_id=new_id)
    if not case.decision.should_act:
        return case.refuse(case.decision.reason)
    plan, case = plan_below_limit(case, plan_case(case))
    if not case.is_worth_a_block(plan):
        return case.refuse(case.explain_small_saving(plan))
    case = without_vain_calls(view, case, plan)
    if case.waiting_for_model:
        return case.refuse(case.waiting_for_model)
    decided = yield from consult_hooks(case, plan)
    if isinstance(decided, EngineResult):
        return decided
    plan, request = decided
    plan, filled = use_leftover_room(*(yield from write_summaries(case, plan, request)))
    filled = replace(filled, notes=(*case.notes, *filled.notes))
    return case.fail(filled) if filled.failure else case.succeed(plan, request.block, filled)


class Measured(Struct, frozen=True):
    """The size of a view, and what it is held against: the first step of a compaction.

    `limits` is None where the window is unknown. `due_reason` is that of a trigger that looks at more than the size,
    "" if there is none. `skip_reason` says why an automatic check ends here, "" where it must
    be looked into; most checks end here, because the view is below the trigger.
    """

    policy: Policy
    call: Call
    reading: Reading
    limits: Limits | None
    due_reason: str
    skip_reason: str


def measure(view: View, policy: Policy, call: Call, measures: Measures) -> Measured:
    """Measures the view and computes the policy's limits, once for the whole compaction."""
    call = without_double_counted_overhead(call, policy)
    reading = take_reading(view, policy, call, measures)
    limits = call.limits
    if limits is None and reading.window is not None:
        limits = policy.get_limits(reading.window, output_reserve=call.output_reserve, floor=reading.floor)
    if limits is not None and call.demand == "overflow":
        reading = correct_by_refusal(reading, limits)
    due = find_due_reason(view, policy, call)
    reason = "" if due else find_skip_reason(reading, limits, policy, call)
    return Measured(policy, call, reading, limits, due, reason)


def skip(measured: Measured) -> EngineResult:
    """Returns the result of a check that has nothing to do."""
    tokens, notes = measured.reading.estimate, list_notes(measured)
    outcome = Outcome(
        "nothing", measured.skip_reason, tokens, tokens, NO_TOKENS, policy=measured.policy.name, notes=notes
    )
    return EngineResult(outcome)


def list_notes(measured: Measured) -> tuple[str, ...]:
    """Lists what a caller should know of the limits: that the output reserve was refused."""
    call, limits = measured.call, measured.limits
    is_refused = limits is not None and call.window is not None and call.output_reserve >= call.window
    return (limits.note,) if limits is not None and is_refused else ()


def decide_case(view: View, measured: Measured, measures: Measures, *, now: int, new_id: NewId) -> CompactionCase:
    """Decides whether to act and down to which target, over a draft that changes nothing yet."""
    draft = build_draft(view, measured.policy, measured.call, measures)
    decision = make_decision(draft, measured)
    draft = replace(draft, limit=decision.next_trigger, reading=measured.reading)
    facts = collect_facts(draft) if decision.should_act else ()
    notes = list_notes(measured) + (measured.policy.summary.notes if decision.should_act else ())
    return CompactionCase(draft, measured.policy, measured.call, decision, facts, now, new_id, measured.reading, notes)


def plan_case(case: CompactionCase, *, allow_summaries: bool = True) -> Plan:
    """Runs the policy's stages down to the target, or to the least size where that is larger."""
    allow_summaries = allow_summaries and not case.policy.summary.keeps_stages_alone
    draft = long_messages.shorten_request(case.draft, case.request_budget, case.call.recall)
    kept = case.count_kept_step()
    draft = long_messages.keep_beginning(draft, case.compute_head_budget(kept))
    goal = case.build_goal(draft, kept)
    if kept:
        draft = long_messages.keep_unanswered_step(draft)
    elif case.policy.can_shorten and case.call.to is None:
        draft = long_messages.shorten_unanswered_outputs(draft, goal)
    plan = fit_plan(draft, case.policy, case.facts, goal, allow_summaries=allow_summaries)
    return replace(plan, tokens_before=case.draft.tokens)  # what shortening the request saves counts as well


def plan_below_limit(case: CompactionCase, plan: Plan) -> tuple[Plan, CompactionCase]:
    """Returns the plan, or above the hard limit one by code that gets below it where the policy's own does not.

    The case that goes with it writes that plan by code.
    """
    decision = case.decision
    if decision.need != "hard" or (plan.changed_pieces and plan.tokens_after <= decision.limit):
        return plan, case
    smaller = plan_last_resort(
        case.draft, case.policy, case.facts, target=decision.target, limit=decision.limit, recall=case.call.recall
    )
    if plan.changed_pieces and plan.tokens_after <= smaller.tokens_after:
        return plan, case
    one_text = replace(
        case, policy=replace(case.policy, writer=SingleTextWriter(get_footer_renderer(case.policy.writer)))
    )
    return smaller, one_text.with_texts_by_code(LAST_RESORT_NOTE.format(case.reading.tokens))


def without_vain_calls(view: View, case: CompactionCase, plan: Plan) -> CompactionCase:
    """Returns the case, by code where asking a model would be in vain.

    That is where it has just failed several times, where the view stays so large that the next check would have the
    text written anew, and where the policy's writer says so. A person who asks is not held back.
    """
    settings, decision = case.policy.summary, case.decision
    if not settings.models or case.call.demand == "manual":
        return case
    if is_due_again(case, plan):
        tokens = case.reading.to_provider(plan.tokens_after)
        return case.with_texts_by_code(
            f"whatever a model writes, the view of at most {tokens:,} tokens is due for the next compaction "
            "at once, so code wrote the summary"
        )
    is_waiting = case.call.to is None and not find_due_reason(view, case.policy, case.call)
    early = explain_wait(case.policy.writer, view) if is_waiting else ""
    if early:
        return case.with_texts_by_code(f"{early}; until then code writes the summary")
    pause = explain_pause(view, case.policy, case.reading, case.now)
    if pause and settings.on_failure == "abort" and decision.need != "hard":
        return replace(case, waiting_for_model=pause)
    return case.with_texts_by_code(f"{pause}; until then code writes the summary") if pause else case


def is_due_again(case: CompactionCase, plan: Plan) -> bool:
    """Tells whether the trigger fires at once on the view that the plan leads to, if its summary takes all it may."""
    call, policy = case.call, case.policy
    if call.window is None or call.to is not None:
        return False
    counter, calibration = policy.counter.name, expire_reports(call.calibration)
    reading = policy.estimator.read(
        plan.tokens_after, calibration, model=call.model, window=call.window, counter=counter
    )
    limits = policy.get_limits(call.window, output_reserve=call.output_reserve, floor=reading.floor)
    return limits.get_need(reading.tokens) in ("soft", "hard")


def consult_hooks(
    case: CompactionCase, plan: Plan
) -> Generator[tuple[Ask, ...], tuple[Answer, ...], tuple[Plan, FillRequest] | EngineResult]:
    """Asks the before-hooks. Returns the plan and how to fill it, or the result if a hook ends the compaction."""
    policy = case.policy
    request = FillRequest(
        case.new_id(),
        case.facts,
        policy.summary,
        policy.counter.count,
        case.call.focus,
        writer=policy.writer,
        token_factor=case.token_factor,
    )
    if not case.call.has_before_hooks:
        return plan, request
    (advice,) = yield (build_consult_ask(case, plan),)
    if advice.cancel:
        return EngineResult(case.build_outcome("cancelled", advice.error or "a before-hook cancelled it"))
    if advice.error:
        return EngineResult(case.build_outcome("failed", advice.error))
    if advice.retained_from is not None:
        stages = (CutAtStage(advice.retained_from),)
        plan = plan_case(replace(case, policy=replace(case.policy, stages=stages)))
        if not case.is_worth_a_block(plan):
            return case.refuse(case.explain_small_saving(plan))
    focus = advice.focus or request.focus
    request = replace(
        request,
        focus=focus,
        supplied_text=advice.text,
        supplied_details=advice.supplied_details,
        supplied_files=advice.files,
    )
    return plan, request


def build_consult_ask(case: CompactionCase, plan: Plan) -> ConsultAsk:
    """Builds what the before-hooks are asked. Its sizes are what the provider counts, unless the caller named one."""
    changed = plan.changed_pieces
    splits = [position for piece in changed for position in piece.cut_positions]
    reading = case.reading
    sizes: tuple[Tokens, Tokens] = plan.tokens_before, case.decision.target
    if case.call.to is None:
        sizes = reading.tokens, reading.to_provider(case.decision.target)
    return ConsultAsk(
        plan.explain(),
        *sizes,
        case.call.focus,
        demand=case.call.demand,
        covered=Run(changed[0].first, changed[-1].last),
        exchange_start=splits[-1] if splits else None,
    )


Filling = Generator[tuple[Ask, ...], tuple[Answer, ...], tuple[Plan, FilledPlan]]


def write_summaries(case: CompactionCase, plan: Plan, request: FillRequest) -> Filling:
    """Writes what the plan shows. If no usable summary can be had, returns what the policy shows instead."""
    filled = yield from fill_plan(plan, request)
    if not filled.failure:
        return plan, filled
    return (yield from recover_from_failure(case, plan, request, filled))


def recover_from_failure(case: CompactionCase, plan: Plan, request: FillRequest, failed: FilledPlan) -> Filling:
    """Goes on after a summary failed, in place of the plan as it was.

    A policy that keeps its stages shows what they elided, without a summary. Above the hard limit a provider would
    refuse the request and the run would end, so there code writes the summary for every policy. Otherwise the failure
    stands.
    """
    if case.policy.summary.on_failure == "keep_stages":
        elided = plan_case(case, allow_summaries=False)
        is_enough = case.decision.need != "hard" or elided.tokens_after <= case.decision.limit
        if is_enough and case.is_worth_a_block(elided):
            kept = yield from fill_plan(elided, request)
            notes = (f"what was elided is kept without a summary: {failed.failure}",)
            return elided, replace(kept, notes=notes, spent=failed.spent)
    if case.decision.need != "hard":
        return plan, failed
    refused = case.call.demand == "overflow"
    tokens = case.reading.tokens
    why = "the provider refused what was sent" if refused else f"a view of {tokens:,} tokens is above the limit"
    settings = replace(request.settings, models=(), on_failure="ladder")
    by_code = yield from fill_plan(plan, replace(request, settings=settings))
    note = f"{why}, so code wrote the summary: {failed.failure}"
    return plan, replace(by_code, notes=(note, *by_code.notes), spent=failed.spent)


def preview(view: View, policy: Policy, call: Call, measures: Measures) -> tuple[Decision[Counted], Plan | None]:
    """Returns what `compact` would decide, and its plan, which is None where it would not act. Calls no model."""
    case = decide_case(view, measure(view, policy, call, measures), measures, now=0, new_id=str)
    return case.decision, plan_below_limit(case, plan_case(case))[0] if case.decision.should_act else None


def without_double_counted_overhead(call: Call, policy: Policy) -> Call:
    """Returns the call without its floor where provider reports include it already, so that it is counted once."""
    counter = policy.counter.name
    if policy.estimator.covers_overhead:
        return call
    if call.to is not None or not (
        call.calibration.find_model(call.model, counter) or call.calibration.find_other_model(call.model, counter)
    ):
        return call
    return replace(call, floor=NO_TOKENS)


def take_reading(view: View, policy: Policy, call: Call, measures: Measures) -> Reading:
    """Reads the view's size with the policy's estimator. Costs O(what is new since the last measurement)."""
    call = without_double_counted_overhead(call, policy)
    estimate = measures.count_view(view) + call.floor
    if call.to is not None:
        return build_plain_reading(estimate, call.window)
    reading = policy.estimator.read(
        estimate,
        call.calibration,
        model=call.model,
        window=call.window,
        counter=policy.counter.name,
        media=measures.measure_media(view),
    )
    return raise_reading(reading, call.least_slope)


def correct_by_refusal(reading: Reading, limits: Limits) -> Reading:
    """Returns the Reading of a view that the provider refused: it takes more than fits, and no less than we count."""
    if reading.tokens > limits.hard:
        return replace(reading, slope=max(reading.slope, 1.0))
    tokens = limits.hard + 1
    slope = max(1.0, tokens / max(1, reading.estimate))
    return replace(reading, tokens=tokens, slope=slope, floor=ProviderTokens(0))


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


def make_decision(draft: Draft, measured: Measured) -> Decision[Counted]:
    """Decides whether to act, and down to which target.

    Reports of usage may be wrong and corrections are guesses. So where nothing fits the limit by the Reading, what fits
    without what the policy itself keeps free for an answer is tried, then what fits by the reports or by our own count.
    """
    reading, policy = measured.reading, measured.policy
    limits = find_limits(draft, measured)
    decision = _decide_by(draft, measured, reading, limits)
    if decision.status != "unsatisfiable" or limits is None:
        return decision
    widest = replace(limits, hard=max(limits.hard, limits.ceiling))
    counts = (*find_reported_slope(measured.call, policy), *find_own_counts(measured.call, policy))
    others = (build_plain_reading(reading.estimate, reading.window, slope=slope, beside=n) for slope, n in counts)
    for other in (reading, *others):
        tried = _decide_by(draft, measured, other, widest)
        if tried.should_act:
            reason = tried.reason if other is reading else _explain_try(reading, widest, tried)
            return replace(tried, reason=reason, doubt=decision.reason, already_recorded=decision.already_recorded)
    return decision


def _explain_try(reading: Reading, limits: Limits, tried: Decision[Counted]) -> str:
    """Explains what is tried against the Reading, in the tokens that the Reading gives."""
    return (
        f"{reading.tokens:,} tokens ({reading.explain_source()}) are above the hard limit of {limits.hard:,}, and so "
        f"is the least that must stay: down to {reading.to_provider(tried.target):,}"
    )


def _decide_by(draft: Draft, measured: Measured, reading: Reading, limits: Limits | None) -> Decision[Counted]:
    policy, call = measured.policy, measured.call
    due = measured.due_reason if limits is not None else ""
    to = None if call.to is None else build_plain_reading(reading.estimate).to_provider(call.to)
    least = sum(itemize_least(draft).values(), NO_TOKENS)
    is_hard = call.demand == "overflow" or (limits is not None and reading.tokens > limits.hard)
    if policy.can_shorten or is_hard:
        least -= long_messages.count_shortenable_tokens(draft)
    decision = decide(
        reading,
        with_immediate_trigger(limits, reading) if limits is not None and due else limits,
        call.demand,
        collect_history(draft, policy, call, reading),
        to=to,
        least=reading.to_provider(least),
        minimum_growth=ProviderTokens(1) if due else policy.get_minimum_growth(reading.window or reading.tokens),
    )
    if due and decision.should_act:
        decision = replace(decision, reason=f"{due}; {decision.reason}")
    trigger_size = limits.soft if limits is not None else decision.target
    target, limit = reading.to_counted(decision.target), reading.to_counted(decision.limit)
    if decision.need == "hard":  # also where a newest report and the line through all of them disagree
        limit = min(limit, draft.tokens - 1)
    if call.demand == "overflow":  # the provider says that this is above its limit, and not by how much
        limit = min(limit, max(target, draft.tokens * 9 // 10))
    return Decision(
        decision.should_act,
        decision.need,
        target,
        max(Counted(1), limit),
        decision.status,
        decision.target_missed,
        decision.reason,
        decision.already_recorded,
        next_trigger=reading.to_counted(trigger_size if to is None else to),
    )


def find_limits(draft: Draft, measured: Measured) -> Limits | None:
    """Returns the limits that the decision is made by, None where the window is unknown.

    A step that stays whole because it is not answered yet raises the target, up to four fifths of the trigger.
    Where the floor is only what no count sees, the parts known to be fixed come on top of it.
    """
    policy, call, reading, limits = measured.policy, measured.call, measured.reading, measured.limits
    unanswered = long_messages.count_unanswered_tokens(draft) if policy.can_shorten else NO_TOKENS
    step = reading.to_provider_part(unanswered)
    if limits is not None and 0 < step <= limits.hard // 2:
        raised = min(limits.target + step, limits.soft * 4 // 5)
        return replace(limits, target=max(limits.target, raised))
    if reading.window is None or not policy.estimator.covers_overhead:
        return limits
    parts = itemize_least(draft)
    fixed = reading.to_provider_part(parts.get("given apart", NO_TOKENS) + parts.get("system prompt", NO_TOKENS))
    return policy.get_limits(reading.window, output_reserve=call.output_reserve, floor=reading.floor + fixed)


def with_immediate_trigger(limits: Limits, reading: Reading) -> Limits:
    """Lowers the limits so that the present size triggers, and half of it is enough as a target."""
    soft = max(ProviderTokens(1), min(limits.soft, reading.tokens))
    target = max(ProviderTokens(1), min(limits.target, soft // 2))
    return replace(limits, soft=soft, target=target, warning=min(limits.warning, soft))


def find_due_reason(view: View, policy: Policy, call: Call) -> str:
    """Asks the trigger of an automatic check whether something else than the size demands a compaction."""
    is_checked = policy.auto and call.demand == "check" and call.to is None and call.window is not None
    check = get_view_check(policy.trigger)
    return check(view) if is_checked and check is not None else ""


def collect_history(draft: Draft, policy: Policy, call: Call, reading: Reading) -> CompactionHistory:
    """Collects what the log says about earlier compactions on this path. The guards need nothing else."""
    view, marks = draft.view, draft.view.state
    attempts = tuple(a for p in marks.attempts if isinstance(a := view.path.get_entry(p), Attempt))
    newest = None if marks.undone else view.find_newest_block()
    change = marks.last_change
    if newest is not None and newest.reason == RECORDED:  # all that it does not cover came after it
        change = max(r.last for r in newest.replacements)
    since = max((change, *marks.attempts))
    grown = sum(draft.measure_visible(_find_messages_after(view, since)), NO_TOKENS) if since >= 0 else None
    return CompactionHistory(
        messages_since=len(_find_messages_after(view, marks.last_change)),
        growth=None if grown is None else reading.to_provider_part(grown),
        attempts=attempts,
        retracted=marks.undone,
        is_repeat=newest is not None and (newest.policy, newest.reason) == (policy.name, describe_demand(call)),
        is_unsatisfiable=newest is not None and newest.is_unsatisfiable,
        is_switched_off=marks.is_auto_off,
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
