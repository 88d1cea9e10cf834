"""Prints the outcomes of `tenfold compact`: a few lines for each session, a table for many, or JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import reduce
from pathlib import Path

import msgspec
from msgspec.structs import replace

from tenfold.apps.cli.console import format_id, print_table, show
from tenfold.compaction.plan.pipeline import Plan
from tenfold.compaction.trigger.economy import build_receipt, explain_receipt
from tenfold.compaction.trigger.limits import Decision
from tenfold.core.record.ask import Outcome
from tenfold.core.record.block import ModelCost, Receipt, add_costs
from tenfold.core.record.token_reading import PLAIN_READING, Counted, Reading
from tenfold.core.text.terminal_safe import sanitize, to_one_line
from tenfold.models.prices import find_rates
from tenfold.session import Session

_MAX_DETAILED = 3
"""Up to this many sessions are each reported in full. More of them make a table."""


class SessionOutcome(msgspec.Struct, frozen=True):
    """One session's outcome, with what is needed to report it."""

    file: str
    session: str
    format: str
    counter: str
    outcome: Outcome


def build_record(result: SessionOutcome) -> dict[str, object]:
    """Builds a record of the outcome, with all its fields."""
    fields = {f.name: getattr(result.outcome, f.name) for f in msgspec.structs.fields(Outcome)}
    readings = {name: value.build_record() for name, value in fields.items() if isinstance(value, Reading)}
    source = {"file": result.file, "session": result.session, "format": result.format, "counter": result.counter}
    return {**source, **fields, **readings}


def print_report(results: Sequence[SessionOutcome], *, is_stored: bool, unread: int) -> None:
    """Prints the outcome of each session, and ends with a sum where there are more files or sessions than one.

    With `is_stored`, a store holds them, so that a next step is possible. `unread` files gave no session.
    """
    if len(results) > _MAX_DETAILED:
        _print_totals(results, unread)
        return
    for result in results:
        _print_details(result, is_stored=is_stored)
    if len(results) + unread > 1:
        _print_sum(results, unread)


def _print_details(result: SessionOutcome, *, is_stored: bool) -> None:
    out, session = result.outcome, format_id(result.session)
    is_compacted = out.status == "compacted"
    show(sanitize(result.file), style="bold")
    show(f"  {out.status}: {to_one_line(out.reason, 400)}")
    if is_compacted:
        missed = " MISSED" if out.target_missed else ""
        show(
            f"  tokens {out.tokens_before:,} -> {out.tokens_after:,} ({render_share(out)}; target {out.target:,}"
            f"{missed}; {result.counter}), messages {out.messages_before:,} -> {out.messages_after:,}, "
            f"{describe_rung(out.rung)}"
        )
    else:
        show(f"  tokens {out.tokens_before:,}, {out.messages_before:,} messages; session {session}")
    if out.spent.calls:
        show(f"  model {out.spent.model}: {_render_cost(out.spent)}")
    if out.receipt is not None:
        show(f"  money: {explain_receipt(out.receipt)}")
    _print_remarks(out)
    if not is_compacted:
        return
    if out.facts:
        show(f"  must-keep facts in view: {out.describe_must_keep()}")
    _print_lost_facts([result])
    if is_stored:
        show(f"  session {session}, block {format_id(out.block)}")
        show(f"  next: tenfold diff {session}, or show, or undo")


def _print_lost_facts(results: Sequence[SessionOutcome]) -> None:
    """Prints how many must-keep facts did not fit, so that nobody has to add them up."""
    lost = sum(count.total - count.kept for count in (r.outcome.must_keep for r in results))
    if lost:
        show(
            f"  {lost:,} must-keep facts did not fit: give a larger target to keep them; `tenfold diff` lists them",
            style="yellow",
        )


def _print_remarks(out: Outcome) -> None:
    if out.itemised:
        show("  what must stay: " + ", ".join(f"{what} {n:,}" for what, n in out.itemised.items()))
    if out.unconfirmed:
        show(f"  {describe_unconfirmed(out.unconfirmed)}", style="yellow")
    for remark in out.notes:
        show(f"  note: {to_one_line(remark, 300)}")
    for violation in out.violations:
        show(f"  violation: {to_one_line(violation, 300)}", style="red")


def describe_unconfirmed(count: int) -> str:
    """Describes how many literals of a summary its source does not have."""
    names = f"{count:,} path{'' if count == 1 else 's'}, numbers, names or quotations"
    return f"{names} of the summary occur nowhere in what it stands for; each is marked [unconfirmed]"


WRITERS = {
    "none": "",
    "model": "model",
    "stricter": "model, asked again",
    "next_model": "fallback model",
    "extractive": "code",
    "mechanical": "code, in outline",
}
"""Who wrote a summary, by the rung of its Block or Outcome."""


def describe_rung(rung: str) -> str:
    """Describes in words how the summary of a compaction came about. `rung` is that of a Block or an Outcome."""
    writer = WRITERS[rung or "none"]
    return f"summary by {writer}" if writer else "no summary"


def render_must_keep(out: Outcome) -> str:
    """Renders how many must-keep facts are in view, "" if there are none."""
    count = out.must_keep
    return f"{count.kept}/{count.total}" if count.total else ""


def render_share(out: Outcome) -> str:
    """Renders the tokens that are left as a share of those before."""
    return f"{out.tokens_after / out.tokens_before:.1%}" if out.tokens_before else "0 %"


def render_price(spent: ModelCost) -> str:
    """Renders the list price of model calls in US dollars, "" if there were none."""
    if not spent.calls:
        return ""
    return "unknown" if spent.price is None else f"${spent.price:.4f}"


def _render_cost(spent: ModelCost) -> str:
    calls = f"{spent.calls:,} call{'' if spent.calls == 1 else 's'}"
    return f"{calls}, {spent.input_tokens:,} tokens read, {spent.output_tokens:,} written, price {render_price(spent)}"


def _print_totals(results: Sequence[SessionOutcome], unread: int) -> None:
    rows = []
    for result in results:
        out = result.outcome
        state = out.status + (", missed" if out.target_missed else "")
        state += f", {len(out.violations)} violations" if out.violations else ""
        sizes = f"{out.tokens_before:,}", f"{out.tokens_after:,}", render_share(out), render_must_keep(out)
        rows.append((Path(result.file).name, format_id(result.session), state, *sizes))
    right = ("before", "after", "share", "must-keep")
    print_table(("file", "session", "status", *right), rows, right=right, fit="file")
    for result in results:
        if result.outcome.status != "compacted":
            name = f"{Path(result.file).name}, session {format_id(result.session)}"
            show(f"{name}: {to_one_line(result.outcome.reason, 400)}")
    _print_sum(results, unread)
    spent = [r.outcome.spent for r in results if r.outcome.spent.calls]
    if spent:
        show(f"models: {_render_cost(reduce(add_costs, spent))}")
    _print_lost_facts(results)


def _print_sum(results: Sequence[SessionOutcome], unread: int) -> None:
    before = sum(r.outcome.tokens_before for r in results)
    after = sum(r.outcome.tokens_after for r in results)
    counts = Counter("compacted" if r.outcome.status == "compacted" else "as they were" for r in results)
    states = ", ".join(f"{count:,} {state}" for state, count in counts.items()) or "none"
    left_out = f"; {count_files(unread)} left out" if unread else ""
    show(f"{len(results):,} sessions ({states}): {before:,} -> {after:,} tokens{left_out}")


def count_files(count: int) -> str:
    """Renders a number of files."""
    return "1 file" if count == 1 else f"{count:,} files"


def show_preview(
    path: Path, session: Session, reading: Reading, decision: Decision[Counted], plan: Plan | None
) -> None:
    """Prints what would be done, and why. `reading` is what the provider counts for the view now."""
    show(sanitize(str(path)), style="bold")
    lines = [decision.explain(), *(plan.explain().splitlines() if plan is not None else [])]
    for line in lines:
        show(f"  {sanitize(line)}")
    if (receipt := _estimate_receipt(session, reading, plan)) is not None:
        show(f"  money: {explain_receipt(receipt)}; what a model asks for the summary comes on top")
    count = sum(1 for _ in session.view.get_visible_messages())
    show(f"  in view now: {count:,} messages, for the provider {render_reading(reading)}; nothing was changed")


def _estimate_receipt(session: Session, reading: Reading, plan: Plan | None) -> Receipt | None:
    """Estimates what a plan costs and saves, before any model is asked. None where the model's prices are not known."""
    rates = find_rates(session.compactor.model) if session.compactor.model else None
    if plan is None or rates is None:
        return None
    sizes = plan.tokens_before - plan.tokens_after, plan.tokens_after
    saved, rewritten = map(reading.to_provider_part, sizes)
    return build_receipt(saved, rewritten, rates, None)


def render_reading(reading: Reading) -> str:
    """Renders what the provider counts, and how that is known: `41k-44k of 200k tokens (reported usage)`."""
    return f"{reading.explain()} tokens ({', '.join(reading.evidence)})"


def build_preview_record(
    path: Path, session: Session, reading: Reading, decision: Decision[Counted], plan: Plan | None
) -> dict[str, object]:
    """Builds a record of the Decision and the Plan, with sizes like those that the plan prints."""
    convert_size = (plan.draft.reading if plan is not None else PLAIN_READING).to_provider
    stages = plan.stage_results if plan is not None else ()
    return {
        "file": str(path),
        "act": decision.should_act,
        "status": decision.status,
        "reason": decision.reason,
        "target": convert_size(decision.target),
        "target_missed": decision.target_missed,
        "messages_before": sum(1 for _ in session.view.get_visible_messages()),
        "reading": reading.build_record(),
        "tokens_before": convert_size(plan.tokens_before) if plan else None,
        "tokens_after_at_most": convert_size(plan.tokens_after) if plan else None,
        "stages": [
            msgspec.to_builtins(replace(s, before=convert_size(s.before), after=convert_size(s.after))) for s in stages
        ],
        "plan": sanitize(plan.explain()) if plan else "",
        "receipt": _estimate_receipt(session, reading, plan),
    }
